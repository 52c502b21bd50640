//! The debug database, read where it lies, with checked reads only: it can be large, it is needed when something has gone
//! wrong, and a broken one must not keep a module from running.

use alloc::format;
use alloc::string::String;

use super::super::read::{FlatBuffer, u32_at};

/// Locations of a fused one that are shown; the rest are counted.
const FUSED_LIMIT: usize = 2;
/// Length of a location's text at which nothing is added any more.
const TEXT_LIMIT: usize = 1024;
/// Locations within locations that are followed.
const DEPTH_LIMIT: u32 = 32;
/// Locations that the text of one location consists of, those without text among them. Real ones have fewer than 20.
const COUNT_LIMIT: u32 = 256;

/// Position of `debug_database` among the fields of `BytecodeModule`.
const FIELD_DEBUG_DATABASE: usize = 15;
/// Fields of `DebugDatabase`.
const FIELD_LOCATION_TYPES: usize = 0;
const FIELD_LOCATIONS: usize = 1;
const FIELD_FUNCTIONS: usize = 2;

/// Bytes of a `BytecodeLocation`: offset, then location.
const BYTECODE_LOCATION_LENGTH: usize = 8;

/// Maps functions and instructions to what they were in the source.
#[derive(Clone, Copy, Debug)]
pub struct DebugDatabase<'a> {
    buffer: FlatBuffer<'a>,
    /// Position of the table.
    table: usize,
    /// Number of the module's functions.
    function_count: u32,
}

impl<'a> DebugDatabase<'a> {
    /// The database of a module's FlatBuffer, given with its size prefix.
    pub(super) fn of(size_prefixed: &'a [u8], function_count: u32) -> Option<DebugDatabase<'a>> {
        let buffer = FlatBuffer { bytes: size_prefixed };
        let root = buffer.follow(4)?;
        let table = buffer.follow(buffer.field(root, FIELD_DEBUG_DATABASE)?)?;
        Some(DebugDatabase { buffer, table, function_count })
    }

    /// The name that a function had in the compiler: its first 1024 bytes, since functions may share a long one.
    #[must_use]
    pub fn function_name(&self, function: u32) -> Option<&'a str> {
        self.buffer.string(self.function(function)?, 0).map(short)
    }

    /// Source location of the instruction at an offset within a function, or of the nearest before it that has one.
    #[must_use]
    pub fn source_location(&self, function: u32, offset: u32) -> Option<String> {
        let (start, count) = self.buffer.vector(self.function(function)?, 1)?;
        let offset_of = |index: usize| {
            let position = start.checked_add(index.checked_mul(BYTECODE_LOCATION_LENGTH)?)?;
            u32_at(self.buffer.bytes, position)
        };
        // The first one behind the offset, by bisection.
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low + (high - low) / 2;
            if offset_of(middle)? <= offset {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let nearest = low.checked_sub(1)?;
        let location = u32_at(self.buffer.bytes, start + nearest * BYTECODE_LOCATION_LENGTH + 4)?;
        let mut text = String::new();
        self.write_location(&mut text, location, DEPTH_LIMIT, &mut COUNT_LIMIT.clone())?;
        (!text.is_empty()).then_some(text)
    }

    /// How many source locations the database has.
    #[must_use]
    pub fn location_count(&self) -> usize {
        self.buffer.vector(self.table, FIELD_LOCATIONS).map_or(0, |(_, count)| count)
    }

    /// Position of a function's source map.
    ///
    /// There should be one map for each function. IREE's compiler (3.13) numbers all of them 0 where functions have no explicit
    /// ordinals, so that only the one of the last function is left; used for the first one, it would lie.
    fn function(&self, function: u32) -> Option<usize> {
        let maps = self.buffer.vector(self.table, FIELD_FUNCTIONS)?;
        let index = match maps.1 {
            count if count == self.function_count as usize => function as usize,
            1 if function.checked_add(1) == Some(self.function_count) => 0,
            _ => return None,
        };
        self.buffer.element(maps, index)
    }

    /// Appends what a location says.
    fn write_location(&self, text: &mut String, location: u32, depth: u32, left: &mut u32) -> Option<()> {
        if text.len() >= TEXT_LIMIT {
            return Some(());
        }
        let depth = depth.checked_sub(1)?;
        *left = left.checked_sub(1)?;
        let index = location as usize;
        let buffer = self.buffer;
        let (types, count) = buffer.vector(self.table, FIELD_LOCATION_TYPES)?;
        if index >= count {
            return None;
        }
        let kind = *buffer.bytes.get(types.checked_add(index)?)?;
        if kind == 0 {
            return Some(());
        }
        let table = buffer.element(buffer.vector(self.table, FIELD_LOCATIONS)?, index)?;
        match kind {
            1 => {
                self.write_location(text, buffer.number(table, 0), depth, left)?;
                text.push_str(" called from ");
                self.write_location(text, buffer.number(table, 1), depth, left)?;
            }
            2 => {
                let file = short(buffer.string(table, 0).unwrap_or_default());
                text.push_str(&format!("{file}:{}:{}", buffer.number(table, 1), buffer.number(table, 2)));
            }
            3 => {
                let (start, count) = buffer.vector(table, 1)?;
                for index in 0..count {
                    if index == FUSED_LIMIT && count > FUSED_LIMIT + 1 {
                        text.push_str(&format!(" and {} more", count - FUSED_LIMIT));
                        break;
                    }
                    if index > 0 {
                        text.push_str(", ");
                    }
                    let position = start.checked_add(index.checked_mul(4)?)?;
                    self.write_location(text, u32_at(buffer.bytes, position)?, depth, left)?;
                    if text.len() >= TEXT_LIMIT {
                        break;
                    }
                }
            }
            4 => {
                let name = short(buffer.string(table, 0).unwrap_or_default());
                let start = text.len();
                self.write_location(text, buffer.number(table, 1), depth, left)?;
                match text.len() == start {
                    true => text.push_str(name),
                    false => text.push_str(&format!(" ({name})")),
                }
            }
            _ => return None,
        }
        Some(())
    }
}

/// The beginning of a text, at most [`TEXT_LIMIT`] bytes.
pub(super) fn short(text: &str) -> &str {
    match text.len() > TEXT_LIMIT {
        true => text.get(..boundary(text)).unwrap_or_default(),
        false => text,
    }
}

fn boundary(text: &str) -> usize {
    (0..=TEXT_LIMIT).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0)
}
