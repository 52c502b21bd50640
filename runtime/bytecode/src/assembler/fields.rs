//! Encodes the text of a field by its kind.

use alloc::format;
use alloc::vec::Vec;

use super::super::fields::FieldKind;
use super::super::isa::{
    Bank, FUNCTION_ORDINAL_IMPORT_BIT, I32_REGISTER_LIMIT, REF_REGISTER_LIMIT, REF_REGISTER_MOVE_BIT,
    REF_REGISTER_TYPE_BIT,
};
use super::floats::{parse_f32, parse_f64};
use super::instructions::branch;
use super::span::Span;
use super::{Assembler, Fixup, OpenFunction};
use crate::Result;

impl<'a> Assembler<'a> {
    pub(super) fn field(
        &mut self,
        function: &mut OpenFunction<'a>,
        banks: &[Bank],
        kind: FieldKind,
        text: Span<'a>,
    ) -> Result<()> {
        let bytes = &mut function.source.bytecode;
        match kind {
            FieldKind::in_v
            | FieldKind::out_v
            | FieldKind::in_w
            | FieldKind::out_w
            | FieldKind::in_i32
            | FieldKind::out_i32
            | FieldKind::in_i64
            | FieldKind::out_i64 => push_u16(bytes, value_register(text, kind.is_pair(banks))?),
            FieldKind::in_ref => match reference(text)? {
                register if register & REF_REGISTER_MOVE_BIT != 0 => {
                    return Err(text.error("nothing can be moved out of this operand"));
                }
                register => push_u16(bytes, register),
            },
            FieldKind::in_ref_move | FieldKind::out_ref => push_u16(bytes, reference(text)?),
            FieldKind::imm_v => immediate(bytes, banks, text)?,
            FieldKind::global => self.global_operand(function, banks, text)?,
            FieldKind::global_ref => push_u32(bytes, storage(text, ".refs")?),
            FieldKind::rodata => push_u32(bytes, text.number()?),
            FieldKind::function => self.callee(function, text)?,
            FieldKind::import => push_u32(bytes, self.import_ordinal(text)?),
            FieldKind::type_id => push_u32(bytes, self.type_ordinal(text)?),
            FieldKind::string => {
                let (string, end) = text.string()?;
                end.expect_end()?;
                push_u16(bytes, length(string.len(), text)?);
                bytes.extend(string);
            }
            FieldKind::target => function.target(text),
            FieldKind::remap => copies(bytes, text)?,
            FieldKind::list_v => {
                let pair = kind.is_pair(banks);
                list(bytes, text, |item| value_register(item, pair && item.text.contains(':')))?;
            }
            FieldKind::list_ref => list(bytes, text, reference)?,
            FieldKind::list_any | FieldKind::results => {
                list(bytes, text, any_register)?;
                // The bytes name the lower register only, so that nothing else says that the other one is used.
                for item in text.items().iter().filter(|item| item.text.contains(':')) {
                    let end = any_register(*item)?.saturating_add(2);
                    function.pairs_end = function.pairs_end.max(end);
                }
            }
            FieldKind::segments => list(bytes, text, Span::number)?,
            FieldKind::cases => function.cases(text)?,
        }
        Ok(())
    }

    fn global_operand(&mut self, function: &mut OpenFunction<'a>, banks: &[Bank], text: Span<'a>) -> Result<()> {
        let bytes = &mut function.source.bytecode;
        if text.text.starts_with('.') {
            push_u32(bytes, storage(text, ".rwdata")?);
            return Ok(());
        }
        let (name, end) = text.symbol()?;
        end.expect_end()?;
        let size = banks.first().map_or(4, |bank| bank.size());
        let (ordinal, position) = (self.module.functions.len(), bytes.len());
        self.global_fixups.push(Fixup { function: ordinal, position, name, at: text, size });
        push_u32(bytes, 0);
        Ok(())
    }

    /// `@import`, `@function`, `@module.function`, `@module:ordinal` or `@import:ordinal`.
    fn callee(&mut self, function: &mut OpenFunction<'a>, text: Span<'a>) -> Result<()> {
        let bytes = &mut function.source.bytecode;
        let (name, rest) = text.symbol()?;
        if let Some(ordinal) = rest.strip_prefix(":") {
            let ordinal: u32 = ordinal.number()?;
            let bit = match name == self.module.name {
                true => 0,
                false if name == "import" => FUNCTION_ORDINAL_IMPORT_BIT,
                false => return Err(text.error("an ordinal follows the module's own name, or `import`")),
            };
            push_u32(bytes, ordinal | bit);
            return Ok(());
        }
        rest.expect_end()?;
        if let Some(&ordinal) = self.imports.get(&name) {
            push_u32(bytes, ordinal | FUNCTION_ORDINAL_IMPORT_BIT);
            return Ok(());
        }
        let local = name.split_once('.').filter(|(module, _)| *module == self.module.name);
        let name = local.map_or(&*name, |(_, local)| local).into();
        let (ordinal, position) = (self.module.functions.len(), bytes.len());
        self.function_fixups.push(Fixup { function: ordinal, position, name, at: text, size: 0 });
        push_u32(bytes, 0);
        Ok(())
    }

    fn import_ordinal(&self, text: Span<'a>) -> Result<u32> {
        let (name, rest) = text.symbol()?;
        if let Some(ordinal) = rest.strip_prefix(":") {
            return Ok(ordinal.number::<u32>()? | FUNCTION_ORDINAL_IMPORT_BIT);
        }
        rest.expect_end()?;
        match self.imports.get(&name) {
            Some(&ordinal) => Ok(ordinal | FUNCTION_ORDINAL_IMPORT_BIT),
            None => Err(text.error(format!("no import has the name `{name}`"))),
        }
    }
}

impl<'a> OpenFunction<'a> {
    fn target(&mut self, label: Span<'a>) {
        self.branches.push((self.source.bytecode.len(), label));
        push_u32(&mut self.source.bytecode, 0);
    }

    fn cases(&mut self, text: Span<'a>) -> Result<()> {
        let cases = text.items();
        push_u16(&mut self.source.bytecode, length(cases.len(), text)?);
        for (index, case) in cases.into_iter().enumerate() {
            let (number, target) = case.split(":").ok_or_else(|| case.error("expected `:`"))?;
            if number.number::<usize>()? != index {
                return Err(number.error(format!("expected case {index}: cases are numbered from 0 on")));
            }
            let (label, remap) = branch(target)?;
            self.target(label);
            copies(&mut self.source.bytecode, remap)?;
        }
        Ok(())
    }
}

fn push_u16(bytes: &mut Vec<u8>, value: u16) {
    bytes.extend(value.to_le_bytes());
}

fn push_u32(bytes: &mut Vec<u8>, value: u32) {
    bytes.extend(value.to_le_bytes());
}

/// Pads to an even offset within the function.
fn align(bytes: &mut Vec<u8>) {
    if !bytes.len().is_multiple_of(2) {
        bytes.push(0);
    }
}

fn length(length: usize, at: Span<'_>) -> Result<u16> {
    u16::try_from(length).map_err(|_| at.error(format!("{length} items are more than 65535")))
}

fn list<'a>(bytes: &mut Vec<u8>, text: Span<'a>, item: impl Fn(Span<'a>) -> Result<u16>) -> Result<()> {
    let items = text.items();
    align(bytes);
    push_u16(bytes, length(items.len(), text)?);
    for text in items {
        push_u16(bytes, item(text)?);
    }
    Ok(())
}

fn copies(bytes: &mut Vec<u8>, text: Span<'_>) -> Result<()> {
    let items = text.items();
    align(bytes);
    push_u16(bytes, length(items.len(), text)?);
    for item in items {
        let (source, target) = item.split("->").ok_or_else(|| item.error("expected `->`"))?;
        push_u16(bytes, any_register(source)?);
        push_u16(bytes, any_register(target)?);
    }
    Ok(())
}

/// `%i4`, or `%i4:5` for a pair.
fn value_register(text: Span<'_>, pair: bool) -> Result<u16> {
    let Some(rest) = text.strip_prefix("%i") else {
        return Err(text.error("expected a value register such as `%i0`"));
    };
    let (low, high) = match rest.split(":") {
        Some((low, high)) => (low, Some(high)),
        None => (rest, None),
    };
    let index: u16 = low.number()?;
    if index >= I32_REGISTER_LIMIT {
        return Err(low.error(format!("a function has at most {I32_REGISTER_LIMIT} value registers")));
    }
    match (high, pair) {
        (None, false) => Ok(index),
        (Some(high), true) if high.number::<u32>()? == u32::from(index) + 1 => Ok(index),
        (_, true) => Err(text.error("expected a pair of adjacent registers such as `%i0:1`")),
        (_, false) => Err(text.error("expected one register such as `%i0`, not a pair")),
    }
}

/// `%r4`, or `%R4` to move out of it.
fn reference(text: Span<'_>) -> Result<u16> {
    let (rest, bit) = match (text.strip_prefix("%r"), text.strip_prefix("%R")) {
        (Some(rest), _) => (rest, 0),
        (None, Some(rest)) => (rest, REF_REGISTER_MOVE_BIT),
        (None, None) => return Err(text.error("expected a reference register such as `%r0`")),
    };
    let index: u16 = rest.number()?;
    if index >= REF_REGISTER_LIMIT {
        return Err(rest.error(format!("a function has at most {REF_REGISTER_LIMIT} reference registers")));
    }
    Ok(index | bit | REF_REGISTER_TYPE_BIT)
}

fn any_register(text: Span<'_>) -> Result<u16> {
    match text.text.starts_with("%i") {
        true => value_register(text, text.text.contains(':')),
        false => reference(text),
    }
}

/// `.rwdata[4]` or `.refs[1]`.
fn storage(text: Span<'_>, prefix: &str) -> Result<u32> {
    let (number, end) = text.expect_prefix(prefix)?.bracketed('[', ']')?;
    end.expect_end()?;
    number.number()
}

/// A constant of the instruction's bank.
fn immediate(bytes: &mut Vec<u8>, banks: &[Bank], text: Span<'_>) -> Result<()> {
    let wrong = |kind: &str| text.error(format!("`{}` is no {kind}", text.text));
    let hexadecimal = text.text.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
    match banks.first() {
        Some(Bank::i64) => {
            let value = hexadecimal.map(|bits| bits as i64).or_else(|| text.text.parse().ok());
            bytes.extend(value.ok_or_else(|| wrong("64-bit integer"))?.to_le_bytes());
        }
        Some(Bank::f32) => bytes.extend(parse_f32(text.text).ok_or_else(|| wrong("32-bit float"))?.to_le_bytes()),
        Some(Bank::f64) => bytes.extend(parse_f64(text.text).ok_or_else(|| wrong("64-bit float"))?.to_le_bytes()),
        Some(Bank::i32) | None => {
            let hexadecimal = hexadecimal.and_then(|bits| u32::try_from(bits).ok()).map(|bits| bits as i32);
            let value = hexadecimal.or_else(|| text.text.parse().ok());
            bytes.extend(value.ok_or_else(|| wrong("32-bit integer"))?.to_le_bytes());
        }
    }
    Ok(())
}
