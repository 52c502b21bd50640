//! Constants.

use core::fmt::Write as _;

use crate::builder::{Builder, Value};
use crate::types::{Element, Type};

impl Builder {
    /// An integer or a position; bits beyond those of the type are dropped.
    pub fn int(&mut self, value: i64, element: Element) -> Value {
        match element {
            Element::Int(1) => self.operation(Type::Scalar(element), &format!("arith.constant {}", value & 1 == 1)),
            Element::Int(bits) => {
                let text = format!("arith.constant {} : {element}", wrapped(value, bits));
                self.operation(Type::Scalar(element), &text)
            }
            Element::Index => self.operation(Type::Scalar(element), &format!("arith.constant {value} : index")),
            _ => self.float(value as f64, element),
        }
    }

    /// A position or an extent.
    pub fn index(&mut self, value: i64) -> Value {
        self.int(value, Element::Index)
    }

    /// A float: the value is rounded to the type. Constants of other types than `f32` and `f64` are those of `f32`, converted: not every
    /// target of the compiler has the others.
    pub fn float(&mut self, value: f64, element: Element) -> Value {
        match element {
            Element::F64 => self.operation(Type::Scalar(element), &format!("arith.constant {} : f64", double(value))),
            Element::F32 => {
                self.operation(Type::Scalar(element), &format!("arith.constant {} : f32", single(value as f32)))
            }
            Element::Index | Element::Int(_) => self.int(value as i64, element),
            _ => {
                let wide = self.float(value, Element::F32);
                self.truncf(wide, element)
            }
        }
    }

    /// A tensor whose elements are all one scalar constant.
    pub fn splat_constant(&mut self, bits: u64, extents: &[u64], element: Element) -> Value {
        let extents: Vec<Option<u64>> = extents.iter().copied().map(Some).collect();
        let ty = Type::tensor(&extents, element);
        let text = format!("arith.constant dense<{}> : {ty}", number(bits, element));
        self.operation(ty, &text)
    }

    /// A tensor of constants, given as the bits of its elements by rows.
    pub fn dense(&mut self, elements: &[u64], extents: &[u64], element: Element) -> Value {
        let count = extents.iter().try_fold(1_u64, |count, extent| count.checked_mul(*extent));
        if count != u64::try_from(elements.len()).ok() {
            self.fail(format!("{} constants for a tensor of {extents:?}", elements.len()));
        }
        let types: Vec<Option<u64>> = extents.iter().copied().map(Some).collect();
        let ty = Type::tensor(&types, element);
        let mut text = String::from("arith.constant dense<");
        match (elements, extents) {
            ([], _) => {}
            ([only], []) => text.push_str(&number(*only, element)),
            _ => nested(&mut text, &mut elements.iter(), extents, element),
        }
        let _ = write!(text, "> : {ty}");
        self.operation(ty, &text)
    }
}

/// Writes elements in brackets for each extent.
fn nested<'a>(text: &mut String, elements: &mut impl Iterator<Item = &'a u64>, extents: &[u64], element: Element) {
    let Some((first, rest)) = extents.split_first() else {
        if let Some(bits) = elements.next() {
            text.push_str(&number(*bits, element));
        }
        return;
    };
    text.push('[');
    for index in 0..*first {
        if index > 0 {
            text.push_str(", ");
        }
        nested(text, elements, rest, element);
    }
    text.push(']');
}

/// Sign-extends the low bits.
fn wrapped(value: i64, bits: u8) -> i64 {
    let unused = 64_u32.saturating_sub(u32::from(bits));
    value.wrapping_shl(unused).wrapping_shr(unused)
}

/// Writes an element by its bits.
fn number(bits: u64, element: Element) -> String {
    match element {
        Element::Int(1) => (bits & 1 == 1).to_string(),
        Element::Int(width) => wrapped(bits.cast_signed(), width).to_string(),
        Element::Index => bits.cast_signed().to_string(),
        Element::F32 => single(f32::from_bits(bits as u32)),
        Element::F64 => double(f64::from_bits(bits)),
        Element::F16 | Element::Bf16 => format!("0x{:04X}", bits & 0xFFFF),
        _ => format!("0x{:02X}", bits & 0xFF),
    }
}

fn single(value: f32) -> String {
    if value.is_finite() { decimal(format!("{value:?}")) } else { format!("0x{:08X}", value.to_bits()) }
}

fn double(value: f64) -> String {
    if value.is_finite() { decimal(format!("{value:?}")) } else { format!("0x{:016X}", value.to_bits()) }
}

/// Adds the point that MLIR wants: Rust writes `1e-5`.
fn decimal(text: String) -> String {
    match text.split_once('e') {
        Some((mantissa, exponent)) if !mantissa.contains('.') => format!("{mantissa}.0e{exponent}"),
        _ => text,
    }
}
