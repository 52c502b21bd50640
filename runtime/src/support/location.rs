//! Locations of errors.

use super::description::Description;
use crate::vm::failure::CALLER_LOCATIONS;
use crate::{Error, Result};

/// The location of a function: its module and its ordinal.
#[derive(Clone, Copy, Debug)]
pub struct Here {
    module: &'static Description,
    function: u32,
}

impl Here {
    /// Returns the location of the internal function with the given ordinal.
    #[must_use]
    pub const fn new(module: &'static Description, function: u32) -> Here {
        Here { module, function }
    }

    /// Adds the location of an instruction to an error.
    #[cold]
    #[inline(never)]
    fn locate(self, error: Error, offset: u32) -> Error {
        // The failed frame and as many callers as the interpreter records.
        let mut of_module = error.locations().iter().rev();
        let named = of_module.by_ref().take_while(|place| place.module.as_deref() == Some(self.module.name)).count();
        if named > CALLER_LOCATIONS { error } else { error.at(self.module.location(self.function, offset)) }
    }
}

/// Adds a location to the error of a result.
pub trait At<T> {
    /// Adds the location of the instruction at an offset, in bytes of the function's bytecode.
    ///
    /// # Errors
    /// The same error with that location.
    fn at(self, here: Here, offset: u32) -> Result<T>;
}

impl<T> At<T> for Result<T> {
    #[inline(always)]
    fn at(self, here: Here, offset: u32) -> Result<T> {
        match self {
            Ok(value) => Ok(value),
            Err(error) => Err(here.locate(error, offset)),
        }
    }
}
