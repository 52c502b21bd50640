//! Where errors happen.

use super::description::Description;
use crate::vm::failure::CALLER_PLACES;
use crate::{Error, Result};

/// A function of a translated module.
#[derive(Clone, Copy, Debug)]
pub struct Here {
    module: &'static Description,
    function: u32,
}

impl Here {
    /// The internal function of the given ordinal.
    #[must_use]
    pub const fn new(module: &'static Description, function: u32) -> Here {
        Here { module, function }
    }

    /// Adds the place of an instruction to an error.
    #[cold]
    #[inline(never)]
    fn locate(self, error: Error, offset: u32) -> Error {
        // The frame that failed and its callers, as many as the interpreter names.
        let mut of_module = error.places().iter().rev();
        let named = of_module.by_ref().take_while(|place| place.module.as_deref() == Some(self.module.name)).count();
        if named > CALLER_PLACES { error } else { error.at(self.module.place(self.function, offset)) }
    }
}

/// Says where in a function something failed.
pub trait At<T> {
    /// Adds to an error the place of the instruction at an offset (in bytes, within the function's bytecode).
    ///
    /// # Errors
    /// The same with that place.
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
