//! What a program promises about machine code.
#![allow(unsafe_code, reason = "declares the contract of a promise")]

/// A program's promise that the machine code of its modules only reads what functions are called with, so that slices can be
/// passed to it in place.
///
/// Machine code does not say which of its bindings it writes, and the compiler makes programs that update arguments in place
/// unless something else needs them afterwards: those that sort, scatter or insert into an argument, or accumulate on one.
/// The names of arguments, their attributes and the program's instructions do not tell them from others. What does is the
/// compiler's output of `iree-compile --compile-to=stream`: a promise can be given where no argument of an exported function
/// is bound as `rw` or `wo`, and no command fills or copies to one.
#[derive(Clone, Copy, Debug)]
pub struct InputsOnlyRead(());

impl InputsOnlyRead {
    /// Gives the promise.
    ///
    /// # Safety
    /// No kernel of machine code that the session runs writes to a buffer that is an argument of an exported function, or to
    /// a part of one, but to those that the function's declaration marks by `iree.abi.output`.
    #[must_use]
    pub const unsafe fn promise() -> InputsOnlyRead {
        InputsOnlyRead(())
    }
}
