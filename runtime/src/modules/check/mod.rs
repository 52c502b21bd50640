//! The `check` module: expectations of test programs, as IREE's end-to-end tests state them.
//!
//! An expectation that is not met fails the call with FAILED_PRECONDITION and says what differs in the words of the
//! reference runtime, which prints them and goes on.

pub mod v0_0;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use crate::hal::format::{General, float_value, floats_nearly_equal, format_tensor};
use crate::hal::{BufferView, ElementType};
use crate::vm::{Caller, ModuleState, NativeModule, Ref};
use crate::{Error, Result};

/// The name that programs import the module by.
pub const NAME: &str = "check";

/// Most elements of a view that a message shows.
const SHOWN_ELEMENTS: usize = 1024;

/// The module's state within a context: none.
#[derive(Clone, Copy, Debug)]
pub struct CheckState;

impl ModuleState for CheckState {}

/// The module in its newest version.
#[must_use]
pub fn module() -> NativeModule<CheckState> {
    NativeModule::new(NAME, v0_0::VERSION, || Ok(CheckState), v0_0::functions()).with_fork(CheckState::fork)
}

#[allow(missing_docs, reason = "the imports, as programs declare them")]
impl CheckState {
    fn fork(&self) -> Result<CheckState> {
        Ok(*self)
    }

    pub fn expect_true(&self, _: &mut Caller<'_>, operand: i32) -> Result<()> {
        if operand != 0 { Ok(()) } else { Err(not_met(format!("Expected {operand} to be nonzero."))) }
    }

    pub fn expect_false(&self, _: &mut Caller<'_>, operand: i32) -> Result<()> {
        if operand == 0 { Ok(()) } else { Err(not_met(format!("Expected {operand} to be zero."))) }
    }

    pub fn expect_all_true(&self, _: &mut Caller<'_>, _device: Ref, operand: Ref) -> Result<()> {
        let operand = operand.get::<BufferView>()?;
        let (element, bytes) = (operand.element_type(), contents(operand)?);
        let is_false = |bytes: &[u8]| match float_value(element, bytes) {
            Some(value) => value == 0.0,
            None => bytes.iter().all(|byte| *byte == 0),
        };
        let supported = element.is_integer() && matches!(element.bit_count(), 8 | 16 | 32 | 64)
            || [ElementType::FLOAT_32, ElementType::FLOAT_64].contains(&element);
        if !supported {
            return Err(unsupported(element));
        }
        match bytes.chunks_exact(element_bytes(element)).position(is_false) {
            None => Ok(()),
            Some(index) => Err(not_met(format!(
                "Expected all elements to be nonzero. Element {index} is zero.\n  operand:\n    {}",
                text(operand)?
            ))),
        }
    }

    pub fn expect_eq(&self, _: &mut Caller<'_>, _device: Ref, lhs: Ref, rhs: Ref) -> Result<()> {
        let (lhs, rhs) = (lhs.get::<BufferView>()?, rhs.get::<BufferView>()?);
        let mut message = String::from("Expected equality of these values.");
        let differ = describe_types(&mut message, lhs, rhs);
        let contents_differ = contents(lhs)? != contents(rhs)?;
        if contents_differ {
            message.push_str(" Contents does not match.");
        }
        if differ || contents_differ { Err(with_values(message, lhs, rhs)) } else { Ok(()) }
    }

    pub fn expect_almost_eq(
        &self,
        _: &mut Caller<'_>,
        _device: Ref,
        lhs: Ref,
        rhs: Ref,
        atol: f32,
        rtol: f32,
    ) -> Result<()> {
        let (lhs, rhs) = (lhs.get::<BufferView>()?, rhs.get::<BufferView>()?);
        let mut message = String::from("Expected near equality of these values.");
        if describe_types(&mut message, lhs, rhs) {
            return Err(with_values(message, lhs, rhs));
        }
        let element = lhs.element_type();
        let (left, right) = (contents(lhs)?, contents(rhs)?);
        let size = element_bytes(element);
        for (index, (left, right)) in left.chunks_exact(size).zip(right.chunks_exact(size)).enumerate() {
            let (Some(left), Some(right)) = (float_value(element, left), float_value(element, right)) else {
                return Err(unsupported(element));
            };
            if !floats_nearly_equal(left, right, f64::from(atol), f64::from(rtol)) {
                message.push_str(&format!(
                    " Contents does not match to tolerance parameters atol={}, rtol={}. The first failure occurs at \
                     index {index} as the lhs value {} differs from the rhs value {} by {}.",
                    General(f64::from(atol)),
                    General(f64::from(rtol)),
                    General(left),
                    General(right),
                    scientific(right - left)
                ));
                return Err(with_values(message, lhs, rhs));
            }
        }
        Ok(())
    }
}

/// Says where element types and shapes differ; true where one does.
fn describe_types(message: &mut String, lhs: &BufferView, rhs: &BufferView) -> bool {
    let types_differ = lhs.element_type() != rhs.element_type();
    if types_differ {
        message.push_str(" Element types do not match.");
    }
    let shapes_differ = lhs.shape() != rhs.shape();
    if shapes_differ {
        message.push_str(" Shapes do not match.");
    }
    types_differ || shapes_differ
}

#[cold]
fn with_values(message: String, lhs: &BufferView, rhs: &BufferView) -> Error {
    match (text(lhs), text(rhs)) {
        (Ok(lhs), Ok(rhs)) => not_met(format!("{message}\n  lhs:\n    {lhs}\n  rhs:\n    {rhs}")),
        (Err(error), _) | (_, Err(error)) => error.context(message),
    }
}

#[cold]
fn not_met(message: String) -> Error {
    Error::failed_precondition(message)
}

#[cold]
fn unsupported(element: ElementType) -> Error {
    Error::invalid_argument(format!("unsupported element type {element}"))
}

/// Bytes of an element; at least one, as elements of less are compared with their neighbours.
fn element_bytes(element: ElementType) -> usize {
    usize::from(element.bit_count()).div_ceil(8).max(1)
}

/// The bytes of a view, carried to the host.
fn contents(view: &BufferView) -> Result<Vec<u8>> {
    let length =
        usize::try_from(view.byte_length()).ok().filter(|length| *length as u64 <= view.buffer().byte_length());
    let length = length.ok_or_else(|| Error::out_of_range("the view is longer than its buffer"))?;
    let mut bytes = alloc::vec![0; length];
    view.buffer().read(0, &mut bytes)?;
    Ok(bytes)
}

fn text(view: &BufferView) -> Result<String> {
    let mut text = String::new();
    format_tensor(&mut text, view.shape(), view.element_type(), &contents(view)?, SHOWN_ELEMENTS)?;
    Ok(text)
}

/// A number as C's `%.3e` prints it: Rust writes exponents without a sign and leading zeros.
fn scientific(value: f64) -> String {
    let text = format!("{value:.3e}");
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
    let mut out = String::from(digits);
    // Writing to a string does not fail.
    let _ = write!(out, "e{sign}{exponent:0>2}");
    out
}

#[cfg(test)]
mod tests;
