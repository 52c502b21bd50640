//! Arithmetic on elements that are known when the model is imported.

use crate::data_type::{DataType, Kind};
use crate::dim::Dim;
use crate::tensor::Scalar;

/// Converts elements as ONNX's `Cast` does; `None` if one cannot be converted now.
pub(crate) fn cast(elements: &[Scalar], from: DataType, to: DataType) -> Option<Vec<Scalar>> {
    elements.iter().map(|element| cast_one(element, from, to)).collect()
}

fn cast_one(element: &Scalar, from: DataType, to: DataType) -> Option<Scalar> {
    match (element, to.kind()) {
        (Scalar::Int(dim), Kind::Signed) if to.bits() >= 32 && from.bits() >= 32 => {
            // Extents of tensors fit in 32 bits, or the tensor does not fit in memory.
            match dim.as_constant() {
                Some(value) => Some(Scalar::Int(Dim::constant(wrapped(value, to)))),
                None => Some(element.clone()),
            }
        }
        (Scalar::Int(dim), Kind::Signed | Kind::Unsigned) => {
            Some(Scalar::Int(Dim::constant(wrapped(dim.as_constant()?, to))))
        }
        (Scalar::Int(dim), Kind::Bool) => Some(Scalar::Int(Dim::constant(i64::from(dim.as_constant()? != 0)))),
        (Scalar::Int(dim), Kind::Float) => {
            let value = dim.as_constant()?;
            let value = if from == DataType::U64 { value.cast_unsigned() as f64 } else { value as f64 };
            rounded(value, to).map(Scalar::Float)
        }
        (Scalar::Float(value), Kind::Float) => rounded(*value, to).map(Scalar::Float),
        (Scalar::Float(value), Kind::Bool) => Some(Scalar::Int(Dim::constant(i64::from(*value != 0.0)))),
        (Scalar::Float(value), Kind::Signed | Kind::Unsigned) => {
            let cut = value.trunc();
            (cut.abs() < 9.0e18).then(|| Scalar::Int(Dim::constant(wrapped(cut as i64, to))))
        }
    }
}

/// Rounds to a float type; `None` for those that are not computed here.
pub(crate) fn rounded(value: f64, ty: DataType) -> Option<f64> {
    match ty {
        DataType::F64 => Some(value),
        DataType::F32 => Some(f64::from(value as f32)),
        DataType::F16 => Some(half::f16::from_f64(value).to_f64()),
        DataType::Bf16 => Some(half::bf16::from_f64(value).to_f64()),
        _ => None,
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
    let count = to.iter().try_fold(1_i64, |count, extent| count.checked_mul(*extent)).filter(|count| *count <= 1 << 16)?;
    let mut position = vec![0; to.len()];
    let mut result = Vec::with_capacity(usize::try_from(count).ok()?);
    for _ in 0..count {
        let at = source(&position)?;
        let flat = at.iter().zip(from).try_fold(0_i64, |flat, (index, extent)| {
            (*index >= 0 && index < extent).then(|| flat * extent + index)
        })?;
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
