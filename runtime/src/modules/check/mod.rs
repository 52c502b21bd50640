//! The `check` module: expectations of test programs, as IREE's end-to-end tests state them.
//!
//! Messages are worded as IREE's and GoogleTest's. A test runner creates the module by [`module_recording`]: an unmet
//! expectation is recorded and the program goes on, as in IREE, so that one call reports all of them. In a module
//! created by [`module`] an unmet expectation fails the call with FAILED_PRECONDITION.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;

use crate::bytecode::for_each_check_function;
use crate::hal::format::{General, float_value, floats_nearly_equal, format_view};
use crate::hal::{BufferView, ElementType};
use crate::vm::sync::Lock;
use crate::vm::{Caller, ModuleState, NativeModule, Ref, native_table};
use crate::{Error, Result};

/// The name that programs import the module by.
pub const NAME: &str = "check";

/// The newest version, which modules declare as their minimum.
pub const VERSION: u32 = 0;

/// Most elements of a view that a message shows.
const SHOWN_ELEMENTS: usize = 1024;

/// Most messages that are kept; further ones are only counted.
const KEPT_MESSAGES: usize = 256;

/// The expectations that were not met since the last [`take`](Unmet::take). Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Unmet(Arc<Lock<Messages>>);

#[derive(Debug, Default)]
struct Messages {
    kept: Vec<String>,
    /// Number of unmet expectations whose messages were dropped.
    others: u64,
}

impl Unmet {
    /// Removes and returns the messages in the order of the expectations.
    #[must_use]
    pub fn take(&self) -> Vec<String> {
        let Messages { mut kept, others } = core::mem::take(&mut *self.0.lock());
        if others > 0 {
            kept.push(format!("{others} more expectations are not met."));
        }
        kept
    }

    /// Keeps a message, which is built only if it is kept: it may show views of many elements.
    fn add(&self, message: impl FnOnce() -> Result<String>) -> Result<()> {
        let mut messages = self.0.lock();
        if messages.kept.len() < KEPT_MESSAGES {
            messages.kept.push(message()?);
        } else {
            messages.others = messages.others.saturating_add(1);
        }
        Ok(())
    }
}

/// The module's state within a context: the record of unmet expectations, if there is one.
#[derive(Clone, Debug, Default)]
pub struct CheckState {
    unmet: Option<Unmet>,
}

impl ModuleState for CheckState {}

/// Creates the newest version of the module. An unmet expectation fails the call.
#[must_use]
pub fn module() -> NativeModule<CheckState> {
    of(CheckState::default())
}

/// Creates the newest version of the module. Unmet expectations are recorded in `unmet` and fail no call.
#[must_use]
pub fn module_recording(unmet: &Unmet) -> NativeModule<CheckState> {
    of(CheckState { unmet: Some(unmet.clone()) })
}

fn of(state: CheckState) -> NativeModule<CheckState> {
    let create = move || Ok(state.clone());
    NativeModule::new(NAME, VERSION, create, for_each_check_function!(native_table CheckState))
        .with_fork(CheckState::fork)
}

#[allow(missing_docs, reason = "the imports, as programs declare them")]
impl CheckState {
    fn fork(&self) -> Result<CheckState> {
        Ok(self.clone())
    }

    #[cold]
    fn not_met(&self, message: impl FnOnce() -> Result<String>) -> Result<()> {
        match &self.unmet {
            Some(unmet) => unmet.add(message),
            None => Err(Error::failed_precondition(message()?)),
        }
    }

    pub fn expect_true(&self, _: &mut Caller<'_>, operand: i32) -> Result<()> {
        self.expect_truth(operand, true)
    }

    pub fn expect_false(&self, _: &mut Caller<'_>, operand: i32) -> Result<()> {
        self.expect_truth(operand, false)
    }

    fn expect_truth(&self, operand: i32, expected: bool) -> Result<()> {
        let actual = operand != 0;
        if actual == expected {
            return Ok(());
        }
        let wanted = if expected { "nonzero" } else { "zero" };
        self.not_met(|| {
            Ok(format!(
                "Value of: operand\n  Actual: {actual}\nExpected: {expected}\nExpected {operand} to be {wanted}."
            ))
        })
    }

    pub fn expect_all_true(&self, _: &mut Caller<'_>, _device: Ref, operand: Ref) -> Result<()> {
        let operand = operand.get::<BufferView>()?;
        let element = operand.element_type();
        let is_false = |bytes: &[u8]| match float_value(element, bytes) {
            Some(value) => value == 0.0,
            None => bytes.iter().all(|byte| *byte == 0),
        };
        let supported = element.is_integer() && matches!(element.bit_count(), 8 | 16 | 32 | 64)
            || [ElementType::FLOAT_32, ElementType::FLOAT_64].contains(&element);
        if !supported {
            return Err(unsupported(element));
        }
        let size = element_bytes(element);
        let mut before = 0;
        for chunk in chunks(operand, size)? {
            let chunk = chunk?;
            if let Some(index) = chunk.chunks_exact(size).position(is_false) {
                return self.not_met(|| {
                    Ok(format!(
                        "Value of: operand\nExpected: only contains elements that isn't equal to 0\n  Actual: {}, whose \
                         element #{} doesn't match",
                        text(operand)?,
                        before + index
                    ))
                });
            }
            before += chunk.len() / size;
        }
        Ok(())
    }

    pub fn expect_eq(&self, _: &mut Caller<'_>, _device: Ref, lhs: Ref, rhs: Ref) -> Result<()> {
        let (lhs, rhs) = (lhs.get::<BufferView>()?, rhs.get::<BufferView>()?);
        let mut message = String::from("Expected equality of these values.");
        let differ = describe_types(&mut message, lhs, rhs);
        let contents_differ = !same_contents(lhs, rhs)?;
        if contents_differ {
            message.push_str(" Contents does not match.");
        }
        if differ || contents_differ { self.not_met(|| with_values(message, lhs, rhs)) } else { Ok(()) }
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
            return self.not_met(|| with_values(message, lhs, rhs));
        }
        let element = lhs.element_type();
        let size = element_bytes(element);
        let mut index = 0u64;
        for (left, right) in chunks(lhs, size)?.zip(chunks(rhs, size)?) {
            let (left, right) = (left?, right?);
            for (left, right) in left.chunks_exact(size).zip(right.chunks_exact(size)) {
                let (Some(left), Some(right)) = (float_value(element, left), float_value(element, right)) else {
                    return Err(unsupported(element));
                };
                if floats_nearly_equal(left, right, f64::from(atol), f64::from(rtol)) {
                    index += 1;
                    continue;
                }
                message.push_str(&format!(
                    " Contents does not match to tolerance parameters atol={}, rtol={}. The first failure occurs at \
                     index {index} as the lhs value {} differs from the rhs value {} by {}.",
                    General(f64::from(atol)),
                    General(f64::from(rtol)),
                    General(left),
                    General(right),
                    scientific(right - left)
                ));
                return self.not_met(|| with_values(message, lhs, rhs));
            }
        }
        Ok(())
    }
}

/// Appends the differences of element types and shapes to the message; returns true if there is one.
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
fn with_values(message: String, lhs: &BufferView, rhs: &BufferView) -> Result<String> {
    match (text(lhs), text(rhs)) {
        (Ok(lhs), Ok(rhs)) => Ok(format!("{message}\n  lhs:\n    {lhs}\n  rhs:\n    {rhs}")),
        (Err(error), _) | (_, Err(error)) => Err(error.context(message)),
    }
}

#[cold]
fn unsupported(element: ElementType) -> Error {
    Error::invalid_argument(format!("unsupported element type {element}"))
}

/// Returns the bytes of an element, at least one: packed elements are compared with their neighbours.
fn element_bytes(element: ElementType) -> usize {
    element.bit_count().div_ceil(8).max(1)
}

/// Bytes of a view that are copied to the host at a time.
const CHUNK_BYTES: usize = 1 << 16;

/// Copies the bytes of a view to the host, in chunks of whole elements of `size` bytes.
fn chunks(view: &BufferView, size: usize) -> Result<impl Iterator<Item = Result<Vec<u8>>>> {
    let length = view.byte_length();
    if length > view.buffer().byte_length() {
        return Err(Error::out_of_range("the view is longer than its buffer"));
    }
    let step = (CHUNK_BYTES / size * size) as u64;
    let starts = (0..length.div_ceil(step)).map(move |chunk| chunk * step);
    Ok(starts.map(move |start| view.buffer().read_range(start, step.min(length - start))))
}

fn same_contents(lhs: &BufferView, rhs: &BufferView) -> Result<bool> {
    if lhs.byte_length() != rhs.byte_length() {
        return Ok(false);
    }
    for (left, right) in chunks(lhs, 1)?.zip(chunks(rhs, 1)?) {
        if left? != right? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn text(view: &BufferView) -> Result<String> {
    let mut text = String::new();
    format_view(&mut text, view, SHOWN_ELEMENTS)?;
    Ok(text)
}

/// Formats a number as C's `%.3e` does: Rust's exponents lack the sign and leading zeros.
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
