//! Reductions of integers that roots, exponentials and logarithms are part of. Results are cut to integers.
//!
//! They are computed with floats of 32 bits: not every target of the compiler converts between integers and floats of 64 bits.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, FloatPredicate, IntPredicate, Map, Value};

use super::nests::{Reduction, map_nest};
use crate::context::Context;
use crate::convert::converted;
use crate::data_type::{DataType, Kind};
use crate::kit::maximum;
use crate::tensor::Tensor;

/// Returns the greatest integer whose square is not greater. Negative ones, which are sums that have overflowed, have the root 0.
pub(super) fn root(b: &mut Builder, x: Value, ty: DataType) -> Value {
    let element = ty.element();
    let one = b.int(1, element);
    let float = converted(b, x, ty, DataType::F32);
    let estimate = b.sqrt(float);
    let estimate = converted(b, estimate, DataType::F32, ty);
    let estimate = maximum(b, estimate, one, ty.kind());
    // A step of Newton's method leaves an error of at most 1.
    let quotient = divided(b, x, estimate, ty);
    let sum = b.addi(estimate, quotient);
    let two = b.int(2, element);
    let refined = divided(b, sum, two, ty);
    let below = b.subi(refined, one);
    let above = b.addi(refined, one);
    let zero = b.int(0, element);
    let mut result = zero;
    for candidate in [below, refined, above] {
        let candidate = maximum(b, candidate, zero, ty.kind());
        let divisor = maximum(b, candidate, one, ty.kind());
        let quotient = divided(b, x, divisor, ty);
        let fits = b.cmpi(at_most(ty), candidate, quotient);
        result = b.select(fits, candidate, result);
    }
    let is_positive = b.cmpi(at_most(ty), one, x);
    b.select(is_positive, result, zero)
}

/// Returns the logarithm of an integer.
pub(super) fn logarithm(b: &mut Builder, x: Value, ty: DataType) -> Value {
    let float = converted(b, x, ty, DataType::F32);
    let log = b.log(float);
    converted(b, log, DataType::F32, ty)
}

fn divided(b: &mut Builder, x: Value, y: Value, ty: DataType) -> Value {
    if ty.kind() == Kind::Signed { b.divsi(x, y) } else { b.divui(x, y) }
}

fn at_most(ty: DataType) -> IntPredicate {
    if ty.kind() == Kind::Signed { IntPredicate::SignedLessEqual } else { IntPredicate::UnsignedLessEqual }
}

/// The logarithm of the sum of the exponentials, which are those of the differences from the greatest element.
pub(super) fn log_sum_exp(
    cx: &mut Context,
    x: &Tensor,
    map: &Map,
    reduction: &Reduction,
    greatest: &Tensor,
) -> Result<Tensor> {
    let (from, work) = (x.ty, greatest.ty);
    // Differences from the greatest are not negative, also where they have no sign.
    let unsigned = if work.bits() == 64 { DataType::U64 } else { DataType::U32 };
    let operands = [(x, map.clone()), (greatest, reduction.output.clone())];
    let sum = reduction.sum(cx, &operands, DataType::F32, |b, x| {
        let element = converted(b, x[0], from, work);
        let difference = b.subi(x[1], element);
        let float = converted(b, difference, unsigned, DataType::F32);
        let negative = b.negf(float);
        b.exp(negative)
    })?;
    let identity = Map::identity(greatest.rank());
    map_nest(cx, &[(&sum, identity.clone()), (greatest, identity)], &greatest.shape, from, |b, x| {
        let log = b.log(x[0]);
        let floor = b.floor(log);
        let whole = converted(b, floor, DataType::F32, work);
        let lower = b.addi(x[1], whole);
        if work.kind() != Kind::Signed {
            return converted(b, lower, work, from);
        }
        // Negative results are cut towards zero.
        let (zero, one) = (b.int(0, work.element()), b.int(1, work.element()));
        let is_negative = b.cmpi(IntPredicate::SignedLess, lower, zero);
        let has_fraction = b.cmpf(FloatPredicate::OrderedGreater, log, floor);
        let is_cut = b.andi(is_negative, has_fraction);
        let upper = b.addi(lower, one);
        let result = b.select(is_cut, upper, lower);
        converted(b, result, work, from)
    })
}
