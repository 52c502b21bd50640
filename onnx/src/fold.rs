//! Arithmetic on elements that are known when the model is imported.

use crate::data_type::{DataType, Kind};
use crate::dim::Dim;
use crate::elements::decode_f8;
use crate::tensor::Scalar;

/// Converts elements as ONNX's `Cast` does; `None` if one cannot be converted now.
pub(crate) fn cast(elements: &[Scalar], from: DataType, to: DataType) -> Option<Vec<Scalar>> {
    elements.iter().map(|element| cast_one(element, from, to)).collect()
}

fn cast_one(element: &Scalar, from: DataType, to: DataType) -> Option<Scalar> {
    let int = |value: i64| Some(Scalar::Int(Dim::constant(value)));
    match (element, to.kind()) {
        (Scalar::Int(dim), kind) => match (dim.as_constant(), kind) {
            (Some(value), Kind::Signed | Kind::Unsigned) => int(wrapped(value, to)),
            (Some(value), Kind::Bool) => int(i64::from(value != 0)),
            (Some(value), Kind::Float) => {
                let value = if from == DataType::U64 { value.cast_unsigned() as f64 } else { value as f64 };
                rounded(value, to).map(Scalar::Float)
            }
            // Extents of tensors fit in 32 bits, or the tensor does not fit in memory.
            (None, _) if to.bits() < 32 || from.bits() < 32 => None,
            (None, Kind::Float) => Some(element.clone()),
            (None, _) => match dim.as_ratio() {
                (_, 1) => Some(element.clone()),
                // Cut, which is rounded down if it is not negative.
                (numerator, divisor) if numerator.lower_bound().is_some_and(|bound| bound >= 0) => {
                    Some(Scalar::Int(numerator.floor_div(&Dim::constant(divisor))))
                }
                _ => None,
            },
        },
        (Scalar::Float(value), Kind::Float) => rounded(*value, to).map(Scalar::Float),
        (Scalar::Float(value), Kind::Bool) => int(i64::from(*value != 0.0)),
        (Scalar::Float(value), Kind::Signed | Kind::Unsigned) => {
            let cut = value.trunc();
            if cut.abs() < 9.0e18 { int(wrapped(cut as i64, to)) } else { None }
        }
    }
}

/// Rounds to a float type; those of 8 bits saturate.
pub(crate) fn rounded(value: f64, ty: DataType) -> Option<f64> {
    match ty {
        DataType::F64 => Some(value),
        DataType::F32 => Some(f64::from(value as f32)),
        DataType::F16 => Some(half::f16::from_f64(value).to_f64()),
        DataType::Bf16 => Some(half::bf16::from_f64(value).to_f64()),
        DataType::F8E8M0 => None,
        _ if value.is_nan() => (ty != DataType::F4E2M1).then_some(value),
        _ => {
            // The nearest; of two the one whose last bit is 0.
            // Infinities are beyond the greatest.
            let magnitude = value.abs().min(1e6);
            let distance = |bits: u8| (decode_f8(bits, ty) - magnitude).abs();
            let most = if ty == DataType::F4E2M1 { 7 } else { 0x7F_u8 };
            let finite = (0..=most).filter(|bits| decode_f8(*bits, ty).is_finite());
            let nearest = finite.min_by(|x, y| distance(*x).total_cmp(&distance(*y)).then((x & 1).cmp(&(y & 1))));
            nearest.map(|bits| decode_f8(bits, ty).copysign(value))
        }
    }
}

/// Keeps the bits that an integer type has; `u64` is held in the bits of `i64`.
pub(crate) fn wrapped(value: i64, ty: DataType) -> i64 {
    let unused = 64 - ty.bits();
    match ty.kind() {
        Kind::Signed => value.wrapping_shl(unused).wrapping_shr(unused),
        _ => (value.cast_unsigned().wrapping_shl(unused).wrapping_shr(unused)).cast_signed(),
    }
}

/// Visits the positions of a shape by rows, and collects elements that are read at positions of a tensor.
///
/// `source` returns the position in the tensor of shape `from`; `None` if an element lies outside.
pub(crate) fn remapped(
    elements: &[Scalar],
    from: &[i64],
    to: &[i64],
    mut source: impl FnMut(&[i64]) -> Option<Vec<i64>>,
) -> Option<Vec<Scalar>> {
    let count =
        to.iter().try_fold(1_i64, |count, extent| count.checked_mul(*extent)).filter(|count| *count <= 1 << 16)?;
    let mut position = vec![0; to.len()];
    let mut result = Vec::with_capacity(usize::try_from(count).ok()?);
    for _ in 0..count {
        let at = source(&position)?;
        let flat = at
            .iter()
            .zip(from)
            .try_fold(0_i64, |flat, (index, extent)| (*index >= 0 && index < extent).then(|| flat * extent + index))?;
        result.push(elements.get(usize::try_from(flat).ok()?)?.clone());
        for (index, extent) in position.iter_mut().zip(to).rev() {
            *index += 1;
            if *index < *extent {
                break;
            }
            *index = 0;
        }
    }
    Some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_of_8_bits_round_to_even_and_saturate() {
        let ty = DataType::F8E4M3FN;
        assert_eq!(rounded(1e9, ty), Some(448.0));
        assert_eq!(rounded(-464.0, ty), Some(-448.0));
        assert_eq!(rounded(1.0625, ty), Some(1.0));
        assert_eq!(rounded(1.1875, ty), Some(1.25));
        assert_eq!(rounded(f64::INFINITY, DataType::F8E5M2), Some(57344.0));
    }

    #[test]
    fn symbolic_elements_are_cut() {
        let n = Dim::symbol(0);
        let half = Scalar::Int(n.ratio(2).unwrap_or_else(|| n.clone()));
        let cut = cast(&[half], DataType::F32, DataType::I64);
        assert_eq!(cut, Some(vec![Scalar::Int(n.floor_div(&Dim::constant(2)))]));
        let below = Scalar::Int(n.minus(&Dim::constant(3)).ratio(2).unwrap_or_else(|| n.clone()));
        assert_eq!(cast(&[below], DataType::F32, DataType::I64), None);
        assert_eq!(
            cast(&[Scalar::Float(-1.5)], DataType::F32, DataType::U8),
            Some(vec![Scalar::Int(Dim::constant(255))])
        );
    }
}
