//! Elements of constants as numbers, and as bits.

use half::{bf16, f16};
use incarnate_mlir::Element;

use crate::data_type::DataType;
use crate::dim::Dim;
use crate::tensor::Scalar;

/// Decodes the elements of a constant by rows; `None` if there are not as many bytes.
pub(crate) fn decode(bytes: &[u8], ty: DataType, count: usize) -> Option<Vec<Scalar>> {
    let int = |value: i64| Scalar::Int(Dim::constant(value));
    if ty.is_packed() {
        let (bits, each) = (ty.bits() as usize, 8 / ty.bits() as usize);
        let code = |index: usize| Some(bytes.get(index / each)? >> (index % each * bits) & ((1 << bits) - 1));
        let element = |code: u8| match ty {
            DataType::F4E2M1 => Scalar::Float(decode_f8(code, ty)),
            _ => int(crate::fold::wrapped(i64::from(code), ty)),
        };
        return (0..count).map(|index| code(index).map(element)).collect();
    }
    let width = usize::try_from(ty.stored_bytes(1)).ok()?;
    let bytes = bytes.get(..width.checked_mul(count)?)?;
    let elements = bytes.chunks_exact(width).map(|chunk| {
        let mut raw = [0; 8];
        raw.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
        let raw = u64::from_le_bytes(raw);
        match ty {
            DataType::F32 => Scalar::Float(f64::from(f32::from_bits(raw as u32))),
            DataType::F64 => Scalar::Float(f64::from_bits(raw)),
            DataType::F16 => Scalar::Float(f16::from_bits(raw as u16).to_f64()),
            DataType::Bf16 => Scalar::Float(bf16::from_bits(raw as u16).to_f64()),
            DataType::F8E4M3FN
            | DataType::F8E4M3FNUZ
            | DataType::F8E5M2
            | DataType::F8E5M2FNUZ
            | DataType::F8E8M0
            | DataType::F4E2M1 => Scalar::Float(decode_f8(raw as u8, ty)),
            DataType::I8 => int(i64::from(raw as u8 as i8)),
            DataType::I16 => int(i64::from(raw as u16 as i16)),
            DataType::I32 => int(i64::from(raw as u32 as i32)),
            DataType::Bool => int(i64::from(raw != 0)),
            DataType::I64
            | DataType::U8
            | DataType::U16
            | DataType::U32
            | DataType::U64
            | DataType::U4
            | DataType::I4
            | DataType::U2
            | DataType::I2 => int(raw.cast_signed()),
        }
    });
    Some(elements.collect())
}

/// Decodes a float of 8 bits, or one of 4 bits in a byte.
pub(crate) fn decode_f8(bits: u8, ty: DataType) -> f64 {
    match ty {
        DataType::F8E8M0 if bits == 0xFF => return f64::NAN,
        DataType::F8E8M0 => return 2_f64.powi(i32::from(bits) - 127),
        DataType::F4E2M1 => {
            let magnitude = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0].get(usize::from(bits & 7)).copied().unwrap_or(0.0);
            return if bits & 8 == 0 { magnitude } else { -magnitude };
        }
        _ => {}
    }
    let (mantissa_bits, bias, is_unsigned_zero) = match ty {
        DataType::F8E4M3FN => (3, 7, false),
        DataType::F8E4M3FNUZ => (3, 8, true),
        DataType::F8E5M2 => (2, 15, false),
        _ => (2, 16, true),
    };
    let magnitude = bits & 0x7F;
    let is_nan = match ty {
        DataType::F8E4M3FN => magnitude == 0x7F,
        DataType::F8E5M2 => magnitude > 0x7C,
        _ => bits == 0x80,
    };
    let sign = if bits & 0x80 == 0 { 1.0 } else { -1.0 };
    let exponent = i32::from(magnitude >> mantissa_bits);
    let fraction = f64::from(magnitude & ((1 << mantissa_bits) - 1)) / f64::from(1 << mantissa_bits);
    match (is_nan, exponent) {
        (true, _) => f64::NAN,
        (_, 31) if !is_unsigned_zero && mantissa_bits == 2 => sign * f64::INFINITY,
        (_, 0) => sign * fraction * 2_f64.powi(1 - bias),
        _ => sign * (1.0 + fraction) * 2_f64.powi(exponent - bias),
    }
}

/// Returns the bits of a known element; `None` if it is not a constant, or of a float of 8 bits that is not decoded from one.
pub(crate) fn encode(scalar: &Scalar, ty: DataType) -> Option<u64> {
    match (scalar, ty) {
        (Scalar::Int(dim), _) if !ty.is_float() => dim.as_constant().map(i64::cast_unsigned),
        (Scalar::Float(value), DataType::F32) => Some(u64::from((*value as f32).to_bits())),
        (Scalar::Float(value), DataType::F64) => Some(value.to_bits()),
        (Scalar::Float(value), DataType::F16) => Some(u64::from(f16::from_f64(*value).to_bits())),
        (Scalar::Float(value), DataType::Bf16) => Some(u64::from(bf16::from_f64(*value).to_bits())),
        (Scalar::Float(value), _) => {
            let same = |bits: &u8| {
                let decoded = decode_f8(*bits, ty);
                decoded.to_bits() == value.to_bits() || decoded.is_nan() && value.is_nan()
            };
            (0..=255_u8).find(same).map(u64::from)
        }
        (Scalar::Int(_), _) => None,
    }
}

/// Returns the type whose bits a constant of the type is written as: not every target of the compiler has constants of narrow floats.
pub(crate) fn stored_element(ty: DataType) -> Element {
    match ty {
        DataType::F32 | DataType::F64 => ty.element(),
        DataType::Bool => Element::I8,
        _ => match ty.element().bits() {
            8 => Element::I8,
            16 => Element::I16,
            32 => Element::I32,
            _ => Element::I64,
        },
    }
}
