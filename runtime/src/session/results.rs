//! The results of a call by name.

use alloc::string::String;
use std::fmt;
use std::sync::Arc;

use super::convert::{FromResults, FromValue};
use super::function::Function;
use crate::bytecode::{Signature, ValueInfo};
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

/// What finds a result: its name, or its index.
pub trait ResultKey: fmt::Display + sealed::Sealed {
    /// Returns the index among the given outputs.
    #[doc(hidden)]
    fn index(&self, outputs: &[ValueInfo]) -> Option<usize>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for usize {}
    impl Sealed for &str {}
    impl Sealed for &String {}
}

impl ResultKey for usize {
    fn index(&self, outputs: &[ValueInfo]) -> Option<usize> {
        (*self < outputs.len()).then_some(*self)
    }
}

impl ResultKey for &str {
    fn index(&self, outputs: &[ValueInfo]) -> Option<usize> {
        outputs.iter().position(|output| output.name() == *self)
    }
}

impl ResultKey for &String {
    fn index(&self, outputs: &[ValueInfo]) -> Option<usize> {
        self.as_str().index(outputs)
    }
}

impl Results {
    /// Returns a result. A tensor shares its memory with the one that stays; [`Results::take`] returns the only one.
    ///
    /// # Errors
    /// NOT_FOUND if there is no such result; INVALID_ARGUMENT if it has another type.
    pub fn get<T: FromValue>(&self, key: impl ResultKey) -> Result<T> {
        let index = self.index(&key)?;
        let value = self.values.get(index).cloned().unwrap_or_default();
        T::from_value(value).context(|| format!("result `{key}`"))
    }

    /// Removes a result. Its place is empty then.
    ///
    /// # Errors
    /// NOT_FOUND if there is no such result; INVALID_ARGUMENT if it has another type, or was removed before.
    pub fn take<T: FromValue>(&mut self, key: impl ResultKey) -> Result<T> {
        let index = self.index(&key)?;
        let value = self.values.get_mut(index).map(core::mem::take).unwrap_or_default();
        T::from_value(value).context(|| format!("result `{key}`"))
    }

    fn index(&self, key: &impl ResultKey) -> Result<usize> {
        let found = key.index(&self.signature.outputs).filter(|index| *index < self.values.len());
        found.ok_or_else(|| {
            let names: Vec<&str> = self.names().collect();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            Error::not_found(format!("no result `{key}`; the results are {names}"))
        })
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
