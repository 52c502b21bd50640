//! Keys that stand for several parameters, one behind the other.
//!
//! Models store the matrices of experts one by one, and programs that choose experts take those of a layer as one parameter. Its key lists
//! names in braces: `layer.{1,0}.{up,down}` stands for `layer.1.up`, `layer.1.down`, `layer.0.up` and `layer.0.down`.

use std::sync::Arc;

use super::file::ParameterFile;
use super::index::{ParameterEntry, ParameterIndex, ParameterStorage};
use super::shown;
use crate::{Error, Result};

/// A key with alternatives.
struct Pattern<'a> {
    /// The texts before alternatives, with these.
    lists: Vec<(&'a str, Vec<&'a str>)>,
    /// The text behind the last alternatives.
    rest: &'a str,
}

impl<'a> Pattern<'a> {
    /// Parses a key; `None` for one without alternatives, or with other braces.
    fn of(key: &'a str) -> Option<Pattern<'a>> {
        let (mut lists, mut rest) = (Vec::new(), key);
        while let Some((before, behind)) = rest.split_once('{') {
            let (list, behind) = behind.split_once('}')?;
            if before.contains('}') || list.contains('{') {
                return None;
            }
            lists.push((before, list.split(',').collect()));
            rest = behind;
        }
        (!lists.is_empty() && !rest.contains('}')).then_some(Pattern { lists, rest })
    }

    /// Returns the number of keys; `None` if it exceeds 64 bits.
    fn count(&self) -> Option<usize> {
        self.lists.iter().try_fold(1_usize, |count, (_, list)| count.checked_mul(list.len()))
    }

    /// Returns the key of a number: the last alternatives change first.
    fn key(&self, mut number: usize) -> String {
        let mut parts = vec![self.rest];
        for (before, list) in self.lists.iter().rev() {
            parts.extend([list.get(number % list.len().max(1)).copied().unwrap_or_default(), *before]);
            number /= list.len().max(1);
        }
        parts.into_iter().rev().collect()
    }
}

impl ParameterIndex {
    /// Returns the parameter of a key, or the parameters that a key with alternatives stands for: in place where they are one behind the other in a
    /// file.
    ///
    /// # Errors
    /// NOT_FOUND without such parameters; RESOURCE_EXHAUSTED if their length exceeds 64 bits; the reason why one of them cannot be read.
    pub fn find(&self, key: &str) -> Result<ParameterEntry> {
        if let Some(entry) = self.get(key) {
            return Ok(entry.clone());
        }
        let total = self.entries().len();
        let unknown = || Error::not_found(format!("the scope's {total} parameters do not include this key"));
        // Each parameter is one of the index, so that there is no more work than for all of them.
        let pattern = Pattern::of(key).ok_or_else(unknown)?;
        let count = pattern.count().filter(|count| *count <= total).ok_or_else(unknown)?;
        let mut parts = Vec::with_capacity(count);
        for number in 0..count {
            let part = pattern.key(number);
            let entry = self.get(&part).ok_or_else(|| {
                let part = shown(&part);
                Error::not_found(format!(
                    "the scope's {total} parameters do not include '{part}', which is a part of it"
                ))
            })?;
            entry.check_readable()?;
            parts.push(entry.clone());
        }
        let length = parts.iter().try_fold(0_u64, |length, part| length.checked_add(part.length()));
        let length =
            length.ok_or_else(|| Error::resource_exhausted("the parts together exceed a length of 64 bits"))?;
        match adjacent(&parts) {
            Some((file, offset)) => ParameterEntry::in_file(key, &file, offset, length),
            None => Ok(ParameterEntry::joined(key, parts, length)),
        }
    }
}

/// Returns the file and the offset of parts that are one behind the other in a file.
fn adjacent(parts: &[ParameterEntry]) -> Option<(Arc<ParameterFile>, u64)> {
    let (mut first, mut end) = (None, 0);
    for part in parts {
        let ParameterStorage::File { file, offset } = part.storage() else { return None };
        let (known, _) = first.get_or_insert_with(|| {
            end = *offset;
            (file.clone(), *offset)
        });
        if !Arc::ptr_eq(known, file) || end != *offset {
            return None;
        }
        end = offset.checked_add(part.length())?;
    }
    first
}
