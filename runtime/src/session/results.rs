//! The results of a call by name.

use alloc::string::String;
use std::fmt;
use std::sync::Arc;

use super::convert::{FromResults, FromValue};
use super::function::Function;
use crate::bytecode::{Signature, ValueInfo, find_value};
use crate::vm::{CallValues, Value};
use crate::{Error, Result, ResultExt};

/// The results of a call, by name or by index. The names are those of [`Function::outputs`].
///
/// ```
/// use incarnate_runtime::session::{Results, Session, Tensor};
/// # fn main() -> incarnate_runtime::Result<()> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/models/digits/vmvx.vmfb");
/// let session = Session::load("local-sync", path)?;
/// let classify = session.function("classify")?;
/// let mut results: Results = classify.call((vec![0.0f32; 360 * 64],))?;
/// let names: Vec<&str> = results.names().collect();
/// let scores: Tensor<f32> = results.get(names[0])?;
/// let labels: Tensor<i32> = results.take(1)?;
/// assert_eq!((scores.shape(), labels.shape()), (&[360, 10][..], &[360][..]));
/// # Ok(())
/// # }
/// ```
pub struct Results {
    signature: Arc<Signature>,
    values: Vec<Value>,
}

/// The key of a result: its name, an [identifier](crate::bytecode::identifier_of) that is the one of this name only, or its index.
pub trait ResultKey: fmt::Display + sealed::Sealed {
    /// Returns the index among the given outputs.
    ///
    /// # Errors
    /// NOT_FOUND if there is no such output; INVALID_ARGUMENT for an identifier of several.
    #[doc(hidden)]
    fn index(&self, outputs: &[ValueInfo]) -> Result<usize>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for usize {}
    impl Sealed for &str {}
    impl Sealed for &String {}
}

impl ResultKey for usize {
    fn index(&self, outputs: &[ValueInfo]) -> Result<usize> {
        let count = outputs.len();
        let why =
            || Error::not_found(format!("the function returns {count} value{}", if count == 1 { "" } else { "s" }));
        Some(*self).filter(|index| *index < count).ok_or_else(why)
    }
}

impl ResultKey for &str {
    fn index(&self, outputs: &[ValueInfo]) -> Result<usize> {
        find_value(outputs, self)
    }
}

impl ResultKey for &String {
    fn index(&self, outputs: &[ValueInfo]) -> Result<usize> {
        self.as_str().index(outputs)
    }
}

impl Results {
    /// Returns a result. A tensor shares its memory with the one that stays; [`Results::take`] returns the only one.
    ///
    /// # Errors
    /// NOT_FOUND if there is no such result; INVALID_ARGUMENT if it has another type, or if the key is the identifier of several
    /// names.
    pub fn get<T: FromValue>(&self, key: impl ResultKey) -> Result<T> {
        self.converted(&key).map(|(value, _)| value)
    }

    /// Returns a result and removes it. After an error it is still there, for another type.
    ///
    /// # Errors
    /// As for [`Results::get`]; INVALID_ARGUMENT if the result was removed before.
    pub fn take<T: FromValue>(&mut self, key: impl ResultKey) -> Result<T> {
        let (value, index) = self.converted(&key)?;
        self.values.get_mut(index).map(core::mem::take);
        Ok(value)
    }

    /// Converts the result of a key, and returns its index.
    fn converted<T: FromValue>(&self, key: &impl ResultKey) -> Result<(T, usize)> {
        let convert = |index: usize| {
            let value = self.values.get(index).cloned().unwrap_or_default();
            Ok((T::from_value(value)?, index))
        };
        key.index(&self.signature.outputs).and_then(convert).context(|| format!("result `{key}`"))
    }

    /// Returns the names, in the order of the results.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.signature.outputs.iter().map(ValueInfo::name)
    }

    /// Returns the number of results.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns true if there are no results.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

impl fmt::Debug for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.names().zip(&self.values)).finish()
    }
}

impl FromResults for Results {
    fn from_results(values: &mut CallValues<'_>, function: &Function) -> Result<Results> {
        let signature = Arc::clone(function.cached_signature());
        Ok(Results { signature, values: values.collect::<Result<_>>()? })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::StatusCode;
    use crate::bytecode::ConventionItem;

    fn results() -> Results {
        let text = "sync func @f() -> (%state.steps: i32, %a.b: i32, %\"a/b\": i32)";
        let signature = Arc::new(Signature::new(Some(text), &[], &[ConventionItem::I32; 3]));
        assert_eq!(signature.outputs[0].name(), "state.steps");
        Results { signature, values: [7, 8, 9].map(Value::I32).into() }
    }

    #[test]
    fn a_result_of_another_type_is_not_lost() {
        let mut results = results();
        let error = results.take::<f32>(0).unwrap_err();
        assert_eq!(error.to_string(), "result `0`: INVALID_ARGUMENT; the result is the i32 7, not of type f32");
        assert_eq!(results.take::<i32>(0).unwrap(), 7);
        assert!(results.take::<i32>(0).unwrap_err().to_string().contains("the result is nothing"));
    }

    #[test]
    fn results_have_names_and_identifiers() {
        let results = results();
        assert_eq!(results.get::<i32>("state.steps").unwrap(), 7);
        assert_eq!(results.get::<i32>("state_steps").unwrap(), 7);
        assert_eq!(results.get::<i32>(&"a/b".to_owned()).unwrap(), 9);
        for (error, code, text) in [
            (results.get::<i32>("a_b"), StatusCode::InvalidArgument, "may be any of `a.b`, `a/b`"),
            (results.get::<i32>("steps"), StatusCode::NotFound, "result `steps`: NOT_FOUND; nothing is named `steps`"),
            (results.get::<i32>(3), StatusCode::NotFound, "result `3`: NOT_FOUND; the function returns 3 values"),
        ] {
            let error = error.unwrap_err();
            assert!(error.code() == code && error.to_string().contains(text), "{error}");
        }
    }
}
