//! Elementwise operations on elements that are known when the model is imported.

use core::cmp::Ordering;

use crate::data_type::{DataType, Kind};
use crate::dim::Dim;
use crate::tensor::Scalar;

/// An operation of two elements of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Sub,
    Mul,
    /// Integers are divided towards zero.
    Div,
    /// The rest with the sign of the divisor.
    Mod,
    /// The rest with the sign of the dividend.
    Fmod,
    Max,
    Min,
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Numerators and constants that products of symbolic elements have at most, so that floats of 32 bits have them exactly.
const FACTOR: i64 = 64;

fn int(value: i64) -> Option<Scalar> {
    Some(Scalar::Int(Dim::constant(value)))
}

/// Computes an operation of known elements; `None` if the result is not known.
pub(crate) fn binary(operation: Arithmetic, x: &Scalar, y: &Scalar, ty: DataType) -> Option<Scalar> {
    match (x, y) {
        (Scalar::Float(x), Scalar::Float(y)) => floats(operation, *x, *y).map(Scalar::Float),
        _ if ty.is_float() => quotients(operation, x, y),
        (Scalar::Int(x), Scalar::Int(y)) => match (x.as_constant(), y.as_constant()) {
            (Some(x), Some(y)) => integers(operation, x, y, ty).and_then(int),
            _ => extents(operation, x, y).map(Scalar::Int),
        },
        _ => None,
    }
}

fn floats(operation: Arithmetic, x: f64, y: f64) -> Option<f64> {
    Some(match operation {
        Arithmetic::Add => x + y,
        Arithmetic::Sub => x - y,
        Arithmetic::Mul => x * y,
        Arithmetic::Div => x / y,
        Arithmetic::Fmod => x % y,
        Arithmetic::Mod => {
            let rest = x % y;
            if rest != 0.0 && (rest < 0.0) != (y < 0.0) { rest + y } else { rest }
        }
        Arithmetic::Max if x.is_nan() || y.is_nan() => f64::NAN,
        Arithmetic::Min if x.is_nan() || y.is_nan() => f64::NAN,
        Arithmetic::Max => x.max(y),
        Arithmetic::Min => x.min(y),
    })
}

/// Integers in the bits of `i64`, which wrap. The caller drops bits that the type does not have.
fn integers(operation: Arithmetic, x: i64, y: i64, ty: DataType) -> Option<i64> {
    let is_unsigned = ty.kind() != Kind::Signed;
    let (p, q) = (x.cast_unsigned(), y.cast_unsigned());
    let by = if y == 0 { None } else { Some(y) };
    Some(match (operation, is_unsigned) {
        (Arithmetic::Add, _) => x.wrapping_add(y),
        (Arithmetic::Sub, _) => x.wrapping_sub(y),
        (Arithmetic::Mul, _) => x.wrapping_mul(y),
        (Arithmetic::Div, false) => x.wrapping_div(by?),
        (Arithmetic::Div, true) => p.checked_div(q)?.cast_signed(),
        (Arithmetic::Fmod, false) => x.wrapping_rem(by?),
        (Arithmetic::Mod, false) => {
            let rest = x.wrapping_rem(by?);
            if rest != 0 && (rest < 0) != (y < 0) { rest + y } else { rest }
        }
        (Arithmetic::Mod | Arithmetic::Fmod, true) => p.checked_rem(q)?.cast_signed(),
        (Arithmetic::Max, false) => x.max(y),
        (Arithmetic::Max, true) => p.max(q).cast_signed(),
        (Arithmetic::Min, false) => x.min(y),
        (Arithmetic::Min, true) => p.min(q).cast_signed(),
    })
}

fn is_not_negative(x: &Dim) -> bool {
    x.lower_bound().is_some_and(|bound| bound >= 0)
}

/// Integers of which one is an expression of extents.
fn extents(operation: Arithmetic, x: &Dim, y: &Dim) -> Option<Dim> {
    Some(match operation {
        Arithmetic::Add => x.plus(y),
        Arithmetic::Sub => x.minus(y),
        Arithmetic::Mul => x.times(y),
        Arithmetic::Div => match x.exact_quotient(y) {
            Some(exact) => exact,
            None if is_not_negative(x) && is_not_negative(y) && !y.is(0) => x.floor_div(y),
            None => return None,
        },
        Arithmetic::Mod | Arithmetic::Fmod => match y.as_constant() {
            Some(divisor) if divisor > 0 && (operation == Arithmetic::Mod || is_not_negative(x)) => x.modulo(y),
            _ => return None,
        },
        Arithmetic::Max => x.at_least(y),
        Arithmetic::Min => x.at_most(y),
    })
}

/// Returns a known float as the quotient of an expression and a positive constant, if both are small.
fn quotient(x: &Scalar) -> Option<(Dim, i64)> {
    match x {
        Scalar::Int(dim) => Some(dim.as_ratio()),
        Scalar::Float(value) => {
            let divisor =
                [1, 2, 4, 8, 16, 32, 64].into_iter().find(|divisor| (value * *divisor as f64).fract() == 0.0)?;
            let numerator = value * divisor as f64;
            // Sums may be greater than factors.
            (numerator.abs() <= 65536.0).then(|| (Dim::constant(numerator as i64), divisor))
        }
    }
}

/// Returns the float that a quotient is.
fn float(numerator: &Dim, divisor: i64) -> Option<Scalar> {
    match numerator.as_constant() {
        Some(value) => Some(Scalar::Float(value as f64 / divisor as f64)),
        None => Some(Scalar::Int(numerator.ratio(divisor)?)),
    }
}

/// Floats of which one is an expression of extents, where the result is exact.
fn quotients(operation: Arithmetic, x: &Scalar, y: &Scalar) -> Option<Scalar> {
    let ((x, p), (y, q)) = (quotient(x)?, quotient(y)?);
    let (a, b) = (x.times(&Dim::constant(q)), y.times(&Dim::constant(p)));
    let divisor = p.checked_mul(q).filter(|divisor| *divisor <= FACTOR)?;
    let is_small = |dim: &Dim| dim.as_constant().is_none_or(|value| value.abs() <= FACTOR);
    match operation {
        Arithmetic::Add => float(&a.plus(&b), divisor),
        Arithmetic::Sub => float(&a.minus(&b), divisor),
        Arithmetic::Mul if is_small(&x) && is_small(&y) => float(&x.times(&y), divisor),
        // (x / p) / (y / q) is (x * q) / (y * p).
        Arithmetic::Div => match b.as_constant() {
            Some(0) => None,
            Some(value) if value.abs() <= FACTOR => float(&a, value),
            Some(_) => None,
            None => float(&a.exact_quotient(&b)?, 1),
        },
        Arithmetic::Max => float(&a.at_least(&b), divisor),
        Arithmetic::Min => float(&a.at_most(&b), divisor),
        Arithmetic::Mul | Arithmetic::Mod | Arithmetic::Fmod => None,
    }
}

/// Compares known elements; `None` if the result is not known.
pub(crate) fn compare(comparison: Comparison, x: &Scalar, y: &Scalar, ty: DataType) -> Option<bool> {
    let order = match (x, y) {
        (Scalar::Float(x), Scalar::Float(y)) => x.partial_cmp(y),
        (Scalar::Int(p), Scalar::Int(q)) if !ty.is_float() => match (p.as_constant(), q.as_constant()) {
            (Some(p), Some(q)) if ty.kind() == Kind::Signed => Some(p.cmp(&q)),
            (Some(p), Some(q)) => Some(p.cast_unsigned().cmp(&q.cast_unsigned())),
            _ => return by_difference(comparison, &p.minus(q)),
        },
        _ => {
            let ((x, p), (y, q)) = (quotient(x)?, quotient(y)?);
            return by_difference(comparison, &x.times(&Dim::constant(q)).minus(&y.times(&Dim::constant(p))));
        }
    };
    Some(match comparison {
        Comparison::Equal => order == Some(Ordering::Equal),
        Comparison::Less => order == Some(Ordering::Less),
        Comparison::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        Comparison::Greater => order == Some(Ordering::Greater),
        Comparison::GreaterOrEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
    })
}

/// Compares by the difference of two expressions, of which bounds may be known.
fn by_difference(comparison: Comparison, difference: &Dim) -> Option<bool> {
    let low = difference.lower_bound();
    let high = difference.times(&Dim::constant(-1)).lower_bound().and_then(i64::checked_neg);
    let (is_positive, is_negative) = (low.is_some_and(|low| low > 0), high.is_some_and(|high| high < 0));
    let (is_not_negative, is_not_positive) = (low.is_some_and(|low| low >= 0), high.is_some_and(|high| high <= 0));
    match comparison {
        Comparison::Equal if difference.is(0) => Some(true),
        Comparison::Equal if is_positive || is_negative => Some(false),
        Comparison::Less if is_negative => Some(true),
        Comparison::Less if is_not_negative => Some(false),
        Comparison::LessOrEqual if is_not_positive => Some(true),
        Comparison::LessOrEqual if is_positive => Some(false),
        Comparison::Greater if is_positive => Some(true),
        Comparison::Greater if is_not_positive => Some(false),
        Comparison::GreaterOrEqual if is_not_negative => Some(true),
        Comparison::GreaterOrEqual if is_negative => Some(false),
        _ => None,
    }
}

/// Negates a known element.
pub(crate) fn negated(x: &Scalar) -> Option<Scalar> {
    match x {
        Scalar::Float(value) => Some(Scalar::Float(-value)),
        Scalar::Int(dim) => match (dim.as_constant(), dim.as_ratio()) {
            (Some(value), _) => int(value.wrapping_neg()),
            (None, (numerator, divisor)) => Some(Scalar::Int(numerator.times(&Dim::constant(-1)).ratio(divisor)?)),
        },
    }
}

/// The absolute value of a known element.
pub(crate) fn absolute(x: &Scalar, ty: DataType) -> Option<Scalar> {
    match x {
        Scalar::Float(value) => Some(Scalar::Float(value.abs())),
        Scalar::Int(dim) => match dim.as_constant() {
            Some(value) if ty.kind() == Kind::Signed => int(value.wrapping_abs()),
            Some(value) => int(value),
            None => is_not_negative(dim).then(|| x.clone()),
        },
    }
}

/// Rounds a known float to an integer by a function; expressions are rounded down or up.
pub(crate) fn rounded_to_integer(x: &Scalar, round: fn(f64) -> f64, is_down: bool) -> Option<Scalar> {
    match x {
        Scalar::Float(value) => Some(Scalar::Float(round(*value))),
        Scalar::Int(dim) => {
            let (numerator, divisor) = dim.as_ratio();
            let divisor = Dim::constant(divisor);
            Some(Scalar::Int(if is_down { numerator.floor_div(&divisor) } else { numerator.ceil_div(&divisor) }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn n() -> Dim {
        Dim::symbol(0)
    }

    fn ints(operation: Arithmetic, x: i64, y: i64, ty: DataType) -> Option<i64> {
        let (x, y) = (Scalar::Int(Dim::constant(x)), Scalar::Int(Dim::constant(y)));
        binary(operation, &x, &y, ty)?.as_int().and_then(Dim::as_constant)
    }

    #[test]
    fn integers_are_divided_as_their_type_says() {
        assert_eq!(ints(Arithmetic::Div, -7, 2, DataType::I64), Some(-3));
        assert_eq!(ints(Arithmetic::Mod, -7, 2, DataType::I64), Some(1));
        assert_eq!(ints(Arithmetic::Fmod, -7, 2, DataType::I64), Some(-1));
        assert_eq!(ints(Arithmetic::Div, -1, 2, DataType::U64), Some(i64::MAX));
        assert_eq!(ints(Arithmetic::Div, i64::MIN, -1, DataType::I64), Some(i64::MIN));
        assert_eq!(ints(Arithmetic::Div, 1, 0, DataType::I64), None);
        assert_eq!(ints(Arithmetic::Max, -1, 1, DataType::U64), Some(-1));
    }

    #[test]
    fn extents_are_scaled_exactly() {
        let x = Scalar::Int(n());
        let scaled = binary(Arithmetic::Mul, &x, &Scalar::Float(1.5), DataType::F32);
        let expected = n().times(&Dim::constant(3)).floor_div(&Dim::constant(2));
        assert_eq!(
            scaled.and_then(|scaled| rounded_to_integer(&scaled, f64::floor, true)),
            Some(Scalar::Int(expected))
        );
        assert_eq!(
            binary(Arithmetic::Mul, &x, &Scalar::Float(2.0), DataType::F32),
            Some(Scalar::Int(n().times(&Dim::constant(2))))
        );
        assert_eq!(binary(Arithmetic::Mul, &x, &Scalar::Float(0.3), DataType::F32), None);
        assert_eq!(binary(Arithmetic::Div, &x, &x, DataType::F32), Some(Scalar::Float(1.0)));
    }

    #[test]
    fn extents_are_no_negative_numbers() {
        let minus_one = Scalar::Int(Dim::constant(-1));
        assert_eq!(compare(Comparison::Equal, &Scalar::Int(n()), &minus_one, DataType::I64), Some(false));
        assert_eq!(compare(Comparison::Equal, &Scalar::Int(n()), &Scalar::Int(n()), DataType::I64), Some(true));
        assert_eq!(compare(Comparison::Less, &Scalar::Int(n()), &Scalar::Int(Dim::constant(3)), DataType::I64), None);
        assert_eq!(
            compare(Comparison::GreaterOrEqual, &Scalar::Int(n()), &Scalar::Int(Dim::constant(0)), DataType::I64),
            Some(true)
        );
        assert_eq!(compare(Comparison::Greater, &minus_one, &Scalar::Int(Dim::constant(1)), DataType::U64), Some(true));
    }
}
