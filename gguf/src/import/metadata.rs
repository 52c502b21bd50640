//! Metadata of an architecture, all of which must be read: what is not read may change what a model computes.

use core::cell::RefCell;
use std::collections::HashSet;

use incarnate_bytecode::{Error, Result};

use super::checkpoint::{Checkpoint, Stated};
use crate::{Value, shown};

/// The largest extent and the largest number of layers that are plausible; products of a few of them do not overflow.
pub(super) const LARGEST: u64 = 1 << 24;
/// Keys that change no logits.
const WITHOUT_EFFECT: &[&str] =
    &["vocab_size", "tensor_data_layout", "rope.scaling.finetuned", "attention.layer_norm_epsilon"];

/// The metadata of an architecture: the keys behind its name.
pub(super) struct Metadata<'a> {
    pub(super) checkpoint: &'a Checkpoint,
    prefix: &'a str,
    /// The keys that were asked for.
    read: RefCell<HashSet<String>>,
}

impl<'a> Metadata<'a> {
    pub(super) fn new(checkpoint: &'a Checkpoint, prefix: &'a str) -> Metadata<'a> {
        Metadata { checkpoint, prefix, read: RefCell::new(HashSet::new()) }
    }

    /// The whole key of a name, which counts as read.
    pub(super) fn key(&self, name: &str) -> String {
        let key = format!("{}.{name}", self.prefix);
        self.read.borrow_mut().insert(key.clone());
        key
    }

    /// Reads a number that may be 0, which states that a model does not have something.
    pub(super) fn optional_count(&self, name: &str) -> Result<Option<i64>> {
        self.optional_from(name, 0)
    }

    pub(super) fn optional_size(&self, name: &str) -> Result<Option<i64>> {
        self.optional_from(name, 1)
    }

    fn optional_from(&self, name: &str, least: u64) -> Result<Option<i64>> {
        let key = self.key(name);
        if self.checkpoint.value(&key).is_none() {
            return Ok(None);
        }
        let size = self.checkpoint.count(&key).filter(|size| (least..=LARGEST).contains(size));
        let size = size.and_then(|size| i64::try_from(size).ok());
        let wrong = || Error::invalid_argument(format!("'{key}' is not one number from {least} to {LARGEST}"));
        size.ok_or_else(wrong).map(Some)
    }

    pub(super) fn size(&self, name: &str) -> Result<i64> {
        let size = self.optional_size(name)?;
        size.ok_or_else(|| Error::not_found(format!("there is no '{}'", self.key(name))))
    }

    pub(super) fn number_or(&self, name: &str, default: f64) -> Result<f64> {
        let key = self.key(name);
        match (self.checkpoint.value(&key), self.checkpoint.number(&key)) {
            (None, _) => Ok(default),
            (_, Some(number)) if number.is_finite() => Ok(number),
            _ => Err(Error::invalid_argument(format!("'{key}' is not a finite number"))),
        }
    }

    /// Reads a factor, where 0 stands for the default.
    pub(super) fn scale_or(&self, name: &str, default: f64) -> Result<f64> {
        let scale = self.number_or(name, 0.0)?;
        Ok(if scale == 0.0 { default } else { scale })
    }

    pub(super) fn flag_or(&self, name: &str, default: bool) -> Result<bool> {
        let key = self.key(name);
        match (self.checkpoint.value(&key), self.checkpoint.flag(&key)) {
            (None, _) => Ok(default),
            (_, Some(flag)) => Ok(flag),
            _ => Err(Error::invalid_argument(format!("'{key}' is not true or false"))),
        }
    }

    /// Checks a number that is 1, or 0 for the default, in all models that are supported.
    pub(super) fn check_one(&self, name: &str) -> Result<()> {
        match self.optional_count(name)?.unwrap_or_default() {
            0 | 1 => Ok(()),
            count => Err(Error::unimplemented(format!("'{}' of {count}", self.key(name)))),
        }
    }

    /// Reads an array of Booleans or of numbers; `None` if the value is no array.
    pub(super) fn flags(&self, name: &str) -> Result<Option<Vec<bool>>> {
        let key = self.key(name);
        let Some(Stated::Many(elements)) = self.checkpoint.value(&key) else { return Ok(None) };
        let flag = |value: &Value| match value {
            Value::Bool(flag) => Ok(*flag),
            Value::Integer(number) => Ok(*number != 0),
            _ => Err(Error::invalid_argument(format!("'{key}' has elements other than true and false"))),
        };
        elements.iter().map(flag).collect::<Result<_>>().map(Some)
    }

    /// Checks that no metadata of the architecture is left.
    pub(super) fn check(&self) -> Result<()> {
        for name in WITHOUT_EFFECT {
            self.key(name);
        }
        let (read, prefix) = (self.read.borrow(), format!("{}.", self.prefix));
        match self.checkpoint.keys().filter(|key| key.starts_with(&prefix) && !read.contains(*key)).min() {
            None => Ok(()),
            Some(key) => Err(Error::unimplemented(format!(
                "the metadata '{}' is not understood, and may change what is computed",
                shown(key)
            ))),
        }
    }
}
