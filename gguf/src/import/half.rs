//! Floats of 16 bits as `f32`.

use incarnate_mlir::{Builder, Element, IntPredicate, Value};

use crate::ElementType;

/// Returns an element of F16 or BF16, whose bits are an integer, as `f32`; elements of other types are returned as they are.
pub(super) fn float_of_bits(b: &mut Builder, element_type: ElementType, bits: Value, is_portable: bool) -> Value {
    match element_type {
        ElementType::F16 => {
            let bits = b.extui(bits, Element::I32);
            of_half(b, bits, is_portable)
        }
        ElementType::Bf16 => {
            let bits = b.extui(bits, Element::I32);
            let bits = left(b, bits, 16);
            b.bitcast(bits, Element::F32)
        }
        _ => bits,
    }
}

/// Converts the bits of an `f16`, an `i32`, except infinities and NaN, as VMVX has no floats of 16 bits.
pub(super) fn of_half(b: &mut Builder, bits: Value, is_portable: bool) -> Value {
    if is_portable { of_half_by_product(b, bits) } else { of_half_by_cases(b, bits) }
}

/// Moves the bits to their positions in an `f32`, and multiplies by the difference of the exponents' biases: subnormal numbers are right,
/// too.
fn of_half_by_product(b: &mut Builder, bits: Value) -> Value {
    let upper = left(b, bits, 16);
    let three = b.int(3, Element::I32);
    let extended = b.shrsi(upper, three);
    let bits = and(b, extended, 0x8FFF_E000);
    let (number, bias) = (b.bitcast(bits, Element::F32), b.float(2f64.powi(112), Element::F32));
    b.mulf(number, bias)
}

/// Subnormal numbers are integers times a power of two: IREE runs machine code so that subnormal `f32` are 0.
fn of_half_by_cases(b: &mut Builder, bits: Value) -> Value {
    let (magnitude, sign) = (and(b, bits, 0x7FFF), and(b, bits, 0x8000));
    let (shifted, sign) = (left(b, magnitude, 13), left(b, sign, 16));
    let bias = b.int(112 << 23, Element::I32);
    let normal = b.addi(shifted, bias);
    let (small, unit) = (b.sitofp(magnitude, Element::F32), b.float(2f64.powi(-24), Element::F32));
    let small = b.mulf(small, unit);
    let small = b.bitcast(small, Element::I32);
    let least = b.int(0x400, Element::I32);
    let is_small = b.cmpi(IntPredicate::SignedLess, magnitude, least);
    let magnitude = b.select(is_small, small, normal);
    let bits = b.ori(magnitude, sign);
    b.bitcast(bits, Element::F32)
}

fn and(b: &mut Builder, x: Value, mask: i64) -> Value {
    let mask = b.int(mask, Element::I32);
    b.andi(x, mask)
}

fn left(b: &mut Builder, x: Value, bits: i64) -> Value {
    let bits = b.int(bits, Element::I32);
    b.shli(x, bits)
}
