//! The functions that define arithmetic, by name.

use crate::isa::{Opcode, for_each_instruction};

/// The function of [`semantics`](crate::semantics) that an instruction means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Semantics {
    /// Its name within [`semantics`](crate::semantics).
    pub function: &'static str,
    /// It returns a `Result`.
    pub fails: bool,
}

macro_rules! semantics_of {
    (eval $function:ident) => {
        Some(Semantics { function: stringify!($function), fails: false })
    };
    (try_eval $function:ident) => {
        Some(Semantics { function: stringify!($function), fails: true })
    };
    (special) => {
        None
    };
}

macro_rules! define_semantics {
    ($(($set:ident, $byte:literal, $name:ident, $mnemonic:literal, $format:tt, $effects:tt, $($semantics:ident)*))*) => {
        /// The function that an instruction means; None for those that depend on more than values.
        ///
        /// Its parameters are the operands of [`Op::Eval`](super::Op::Eval), of the types that these values have.
        #[must_use]
        pub const fn semantics(opcode: Opcode) -> Option<Semantics> {
            match opcode {
                $(Opcode::$name => semantics_of!($($semantics)*),)*
            }
        }
    };
}
for_each_instruction!(define_semantics);
