//! Conversions of floats to integers, which VMVX rounds and every front end cuts.
//!
//! Compilers up to 3.13 have one instruction of the virtual machine for `arith.fptosi`, which rounds. The fraction is cut in front of it, in the
//! text between two phases of the compiler: behind the conversion of the input to core dialects, and before all that follows.

use std::io::{self, Write};
use std::path::Path;

use super::process::contains_any;

/// Words of operations that convert, in the dialects that front ends write: StableHLO, TOSA, torch and the core dialects. Names of the
/// operations are in MLIR bytecode, too.
const CONVERSIONS: [&[u8]; 8] =
    [b"convert", b"fptosi", b"fptoui", b"tosa.cast", b"onnx.Cast", b"aten.to", b"aten._to_copy", b"prims.convert"];

/// Returns true if kernels of a compilation are bytecode of which conversions round.
pub(super) fn rounds(arguments: &[String]) -> bool {
    arguments.iter().any(|argument| argument.contains("vmvx"))
}

/// Returns true if a model may convert floats to integers.
///
/// # Errors
/// Errors of reading the model.
pub(super) fn may_convert(model: &Path) -> io::Result<bool> {
    contains_any(model, &CONVERSIONS)
}

/// Writes a line in another form if it converts; returns false if it is to be written as it is. `count` is the number of conversions.
///
/// # Errors
/// Errors of writing.
pub(super) fn write(line: &str, count: &mut usize, out: &mut impl Write) -> io::Result<bool> {
    let Some(conversion) = Conversion::of(line) else { return Ok(false) };
    *count += 1;
    conversion.write(out, *count)?;
    Ok(true)
}

/// A line `%R = arith.fptosi %X : T to U`.
#[derive(Debug, PartialEq, Eq)]
struct Conversion<'t> {
    indent: &'t str,
    result: &'t str,
    operation: &'t str,
    operand: &'t str,
    from: &'t str,
    /// The type of the result, and the location if there is one.
    rest: &'t str,
}

impl<'t> Conversion<'t> {
    fn of(line: &'t str) -> Option<Conversion<'t>> {
        let body = line.trim_start();
        let indent = line.get(..line.len() - body.len())?;
        let (result, body) = body.trim_end().split_once(" = ")?;
        let (operation, body) = body.split_once(' ')?;
        let (operand, types) = body.split_once(" : ")?;
        let (from, rest) = types.split_once(" to ")?;
        let is_value = |text: &str| text.starts_with('%') && !text.contains([' ', ',']);
        let is_conversion = matches!(operation, "arith.fptosi" | "arith.fptoui");
        (is_conversion && is_value(result) && is_value(operand)).then_some(Conversion {
            indent,
            result,
            operation,
            operand,
            from,
            rest,
        })
    }

    /// Writes operations of the same scalars or tensors. The difference of a number and itself is a zero, whatever the shape; for infinities it
    /// is NaN, and they stay as they are.
    fn write(&self, out: &mut impl Write, number: usize) -> io::Result<()> {
        let Conversion { indent, result, operation, operand, from, rest } = self;
        let (cut, truth) = (format!("%incarnate_cut_{number}"), with_element(from, "i1"));
        writeln!(out, "{indent}{cut}_zero = arith.subf {operand}, {operand} : {from}")?;
        writeln!(out, "{indent}{cut}_below = arith.cmpf olt, {operand}, {cut}_zero : {from}")?;
        writeln!(out, "{indent}{cut}_up = math.ceil {operand} : {from}")?;
        writeln!(out, "{indent}{cut}_down = math.floor {operand} : {from}")?;
        writeln!(out, "{indent}{cut} = arith.select {cut}_below, {cut}_up, {cut}_down : {truth}{from}")?;
        writeln!(out, "{indent}{result} = {operation} {cut} : {from} to {rest}")
    }
}

/// Returns the type of a condition with a comma for tensors, and nothing for scalars, as `arith.select` wants it.
fn with_element(ty: &str, element: &str) -> String {
    match ty.strip_prefix("tensor<").and_then(|inner| inner.strip_suffix('>')) {
        Some(inner) => {
            let shape = inner.rsplit_once('x').map_or("", |parts| parts.0);
            let cross = if shape.is_empty() { "" } else { "x" };
            format!("tensor<{shape}{cross}{element}>, ")
        }
        None => String::new(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn conversions_are_cut() {
        let (mut out, mut count) = (Vec::new(), 0);
        for line in [
            "func.func @f() {",
            "  %1 = arith.fptosi %in : f32 to i32 loc(#loc3)",
            "  %2 = arith.addi %1, %1 : i32",
            "  %3 = arith.fptoui %0 : tensor<2x?xf32> to tensor<2x?xi8>",
        ] {
            if !write(line, &mut count, &mut out).unwrap() {
                writeln!(out, "{line}").unwrap();
            }
        }
        assert_eq!(count, 2);
        let text = String::from_utf8(out).unwrap();
        for line in [
            "  %incarnate_cut_1_below = arith.cmpf olt, %in, %incarnate_cut_1_zero : f32",
            "  %incarnate_cut_1 = arith.select %incarnate_cut_1_below, %incarnate_cut_1_up, %incarnate_cut_1_down : f32",
            "  %1 = arith.fptosi %incarnate_cut_1 : f32 to i32 loc(#loc3)",
            "  %2 = arith.addi %1, %1 : i32",
            "%incarnate_cut_2_up, %incarnate_cut_2_down : tensor<2x?xi1>, tensor<2x?xf32>",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }

    #[test]
    fn models_without_conversions_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.mlir");
        std::fs::write(&path, "module { stablehlo.add }").unwrap();
        assert!(!may_convert(&path).unwrap());
        std::fs::write(&path, [b" ".repeat(70_000), b"stablehlo.convert".to_vec()].concat()).unwrap();
        assert!(may_convert(&path).unwrap());
        assert_eq!(Conversion::of("  %1:2 = arith.fptosi"), None);
    }
}
