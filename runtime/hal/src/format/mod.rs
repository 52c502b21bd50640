//! Text of tensors, as IREE's tools print and parse it: `2x2xf32=[1 2][3 4]`; and arrays in `.npy` files.
//!
//! Sources: IREE's `iree/hal/string_util.c`, `iree/hal/buffer_view_util.c` and `iree/tooling/buffer_view_matchers.c`,
//! checked against the output of the tools of release 3.13.

mod compare;
mod element;
mod npy;
mod number;
mod tensor;

pub use compare::{Equality, Mismatch, compare_elements, element_types_match, float_value, floats_nearly_equal};
pub use element::{format_element, parse_element};
pub use npy::{NPY_MAGIC, NpyHeader};
pub use tensor::{HostTensor, TensorType, format_elements, format_tensor, format_view, parse_elements};

use core::fmt;

use number::{Case, write_general};

/// Formats a float like C's `%g`, as IREE's tools print scalar results.
#[derive(Clone, Copy, Debug)]
pub struct General(pub f64);

impl fmt::Display for General {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_general(f, self.0, Case::Lower)
    }
}

/// Parses an integer like C's `strtol` with base 0: decimal, `0x` hexadecimal or `0` octal, with a sign; `None` for any
/// other text.
#[must_use]
pub fn parse_integer(text: &str) -> Option<i128> {
    number::parse_integer(text)
}

/// Parses a float like C's `strtod`: decimal, hexadecimal, `inf` or `nan`; `None` for any other text.
#[must_use]
pub fn parse_float(text: &str) -> Option<f64> {
    number::parse_float(text)
}

/// Parses a float like [`parse_float`], rounded once to single precision.
#[must_use]
pub fn parse_single(text: &str) -> Option<f32> {
    number::parse_single(text)
}
