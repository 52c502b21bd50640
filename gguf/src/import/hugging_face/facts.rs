//! Values of `config.json`, all of which must be read: what is not read may change what a model computes.

use core::cell::RefCell;
use std::collections::HashSet;

use incarnate_bytecode::{Error, Result};
use serde_json::{Map, Value};

use super::super::metadata::LARGEST;
use crate::shown;

/// An object of `config.json`. Values that are `null` are not there.
pub(super) struct Facts<'a> {
    object: &'a Map<String, Value>,
    /// The keys of the objects that it is in, each followed by a dot.
    within: String,
    /// The keys that were asked for.
    read: RefCell<HashSet<&'static str>>,
}

impl<'a> Facts<'a> {
    pub(super) fn new(object: &'a Map<String, Value>, within: String) -> Facts<'a> {
        Facts { object, within, read: RefCell::new(HashSet::new()) }
    }

    /// The key as messages have it.
    pub(super) fn key(&self, key: &str) -> String {
        format!("{}{key}", self.within)
    }

    pub(super) fn value(&self, key: &'static str) -> Option<&'a Value> {
        self.read.borrow_mut().insert(key);
        self.object.get(key).filter(|value| !value.is_null())
    }

    /// Returns whether a key is there, with `null`.
    pub(super) fn is_null(&self, key: &str) -> bool {
        self.object.get(key).is_some_and(Value::is_null)
    }

    /// Returns a converted value; `None` if there is none.
    fn converted<T>(
        &self,
        key: &'static str,
        expected: &str,
        convert: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let wrong = || Error::invalid_argument(format!("'{}' is not {expected}", self.key(key)));
        convert(value).ok_or_else(wrong).map(Some)
    }

    pub(super) fn count(&self, key: &'static str) -> Result<Option<u64>> {
        let count = |value: &Value| value.as_u64().filter(|count| *count <= LARGEST);
        self.converted(key, &format!("one number from 0 to {LARGEST}"), count)
    }

    /// Returns a number that must be there, and not 0.
    pub(super) fn size(&self, key: &'static str) -> Result<u64> {
        self.size_or(key, None)
    }

    /// Returns a number that must be there, unless there is a default, and not 0.
    pub(super) fn size_or(&self, key: &'static str, default: Option<u64>) -> Result<u64> {
        let size = self.count(key)?.or(default).filter(|size| *size > 0);
        size.ok_or_else(|| Error::invalid_argument(format!("there is no '{}' of 1 or more", self.key(key))))
    }

    /// Returns a finite number.
    pub(super) fn number(&self, key: &'static str) -> Result<Option<f64>> {
        self.converted(key, "a number", |value| value.as_f64().filter(|number| number.is_finite()))
    }

    /// Returns a number that is above 0.
    pub(super) fn positive(&self, key: &'static str, default: f64) -> Result<f64> {
        match self.number(key)?.unwrap_or(default) {
            number if number > 0.0 => Ok(number),
            number => Err(Error::invalid_argument(format!("'{}' of {number} is not above 0", self.key(key)))),
        }
    }

    pub(super) fn flag(&self, key: &'static str, default: bool) -> Result<bool> {
        Ok(self.converted(key, "true or false", Value::as_bool)?.unwrap_or(default))
    }

    pub(super) fn text(&self, key: &'static str) -> Result<Option<&'a str>> {
        self.converted(key, "a text", Value::as_str)
    }

    pub(super) fn object(&self, key: &'static str) -> Result<Option<Facts<'a>>> {
        let object = self.converted(key, "an object", Value::as_object)?;
        Ok(object.map(|object| Facts::new(object, format!("{}.", self.key(key)))))
    }

    /// Returns an array, each of whose elements is converted.
    pub(super) fn list<T>(
        &self,
        key: &'static str,
        expected: &str,
        convert: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<Vec<T>>> {
        self.converted(key, &format!("an array of {expected}"), |value| {
            value.as_array()?.iter().map(&convert).collect()
        })
    }

    /// Checks that a value is false or is not there, because a model of which it is true is not supported.
    pub(super) fn refuse(&self, key: &'static str) -> Result<()> {
        match self.flag(key, false)? {
            false => Ok(()),
            true => Err(Error::unimplemented(format!("'{}'", self.key(key)))),
        }
    }

    /// States that values of these keys are not needed.
    pub(super) fn ignore(&self, keys: &[&'static str]) {
        self.read.borrow_mut().extend(keys);
    }

    /// Checks that no value is left.
    pub(super) fn check(&self) -> Result<()> {
        let read = self.read.borrow();
        match self.object.iter().find(|(key, value)| !value.is_null() && !read.contains(key.as_str())) {
            None => Ok(()),
            Some((key, _)) => Err(Error::unimplemented(format!(
                "'{}' is not understood, and may change what is computed",
                shown(&self.key(key))
            ))),
        }
    }
}
