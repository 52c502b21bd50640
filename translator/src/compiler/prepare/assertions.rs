//! Checks of extents that JAX writes for the compiler to keep.
//!
//! A model with symbolic shapes states by `stablehlo.custom_call @shape_assertion` that extents of one name are equal. IREE's compiler
//! removes these calls, so that arguments that contradict each other would give results without an error. `cf.assert` is kept, and
//! ends the call with FAILED_PRECONDITION. A comparison of two extents is written for scalars, which the host compares; of other
//! conditions the host reads the tensor.

use std::collections::HashMap;

use super::Edit;
use super::header::{Cursor, attribute};

pub(super) const COMPARE: &[u8] = b"stablehlo.compare";
pub(super) const CUSTOM_CALL: &[u8] = b"stablehlo.custom_call";

/// The comparisons that a text has so far, which conditions of assertions name.
#[derive(Debug, Default)]
pub(super) struct Comparisons<'t> {
    /// By the name of the result, with its `%`.
    by_result: HashMap<&'t str, Comparison<'t>>,
    assertions: usize,
}

/// A comparison of two scalars.
#[derive(Debug)]
struct Comparison<'t> {
    /// The predicate of `arith.cmpi`.
    predicate: &'static str,
    operands: [&'t str; 2],
    element: &'t str,
}

impl<'t> Comparisons<'t> {
    /// Notes that a word begins an operation, if it does: regions and functions reuse names, and the last definition is the visible one.
    pub(super) fn define(&mut self, cursor: &Cursor<'t>, begin: usize) {
        if !self.by_result.is_empty()
            && let Some(result) = cursor.result_before(begin)
        {
            self.by_result.remove(result);
        }
    }

    /// Reads `%3 = stablehlo.compare EQ, %1, %0, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>` behind the name of the operation.
    pub(super) fn compare(&mut self, cursor: &mut Cursor<'t>, begin: usize) -> Option<()> {
        let result = cursor.result_before(begin)?;
        cursor.trivia();
        let predicate = match cursor.word() {
            b"EQ" => "eq",
            b"NE" => "ne",
            b"GE" => "sge",
            b"GT" => "sgt",
            b"LE" => "sle",
            b"LT" => "slt",
            _ => return None,
        };
        cursor.expect(b",")?;
        let first = cursor.operand()?;
        cursor.expect(b",")?;
        let operands = [first, cursor.operand()?];
        for token in [&b","[..], b"SIGNED", b":", b"("] {
            cursor.expect(token)?;
        }
        let element = match cursor.tensor()? {
            b"tensor<i32>" => "i32",
            b"tensor<i64>" => "i64",
            _ => return None,
        };
        self.by_result.insert(result, Comparison { predicate, operands, element });
        Some(())
    }

    /// Reads `stablehlo.custom_call @shape_assertion(%3, %1, %0) {error_message = "..."} : (...) -> ()` behind the name of the operation.
    pub(super) fn assertion(&mut self, cursor: &mut Cursor<'t>, begin: usize) -> Option<Edit> {
        cursor.expect(b"@shape_assertion(")?;
        let condition = cursor.operand()?;
        cursor.nested(b")")?;
        cursor.expect(b")")?;
        let mut message = None;
        if cursor.expect(b"{").is_some() {
            message = attribute(cursor.nested(b"}")?, &["error_message"]);
            cursor.expect(b"}")?;
        }
        for token in [&b":"[..], b"("] {
            cursor.expect(token)?;
        }
        cursor.nested(b")")?;
        for token in [&b")"[..], b"->", b"(", b")"] {
            cursor.expect(token)?;
        }
        let name = format!("%shape_assertion_{}", self.assertions);
        self.assertions += 1;
        let mut text = match self.by_result.get(condition) {
            Some(Comparison { predicate, operands: [first, second], element }) => format!(
                "{name}_0 = tensor.extract {first}[] : tensor<{element}> {name}_1 = tensor.extract {second}[] : tensor<{element}> \
                 {name} = arith.cmpi {predicate}, {name}_0, {name}_1 : {element}"
            ),
            None => format!("{name} = tensor.extract {condition}[] : tensor<i1>"),
        };
        text += &format!(" cf.assert {name}, \"{}\"", readable(&message.unwrap_or_default()));
        Some(Edit { range: begin..cursor.at(), text })
    }
}

/// Returns the message of an assertion without the sentences that need extents of a call, as a string of MLIR.
fn readable(message: &str) -> String {
    let mut text = message.to_owned();
    while let Some(start) = text.find(" (= {") {
        let Some(end) = text[start..].find("})") else { break };
        text.replace_range(start..start + end + 2, "");
    }
    if let Some(placeholder) = text.find('{') {
        text.truncate(text[..placeholder].rfind(". ").map_or(placeholder, |end| end + 1));
    }
    text.chars()
        .flat_map(|character| match character {
            '"' | '\\' => vec!['\\', character],
            control if control.is_control() => vec![' '],
            other => vec![other],
        })
        .collect()
}
