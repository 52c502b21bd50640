//! Reductions along axes.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, FloatPredicate, Map, Value};

use super::nests::{Count, Reduction, first, map_nest};
use super::{Row, onnx};
use crate::context::Context;
use crate::convert::converted;
use crate::data_type::{DataType, Kind};
use crate::dim::Dim;
use crate::kit::{maximum, minimum, wrong_type};
use crate::node::{Node, Outputs, axes, one};
use crate::tensor::{Scalar, Tensor};

macro_rules! rows {
    ($($name:literal $form:ident $since:literal;)*) => {
        /// Axes are an attribute, and since some version an input.
        pub(super) const ROWS: &[Row] = &[$(
            onnx($name, 1, |cx, node| by_attribute(cx, node, Form::$form)),
            onnx($name, $since, |cx, node| by_input(cx, node, Form::$form)),
        )*];
    };
}

rows! {
    "ReduceSum" Sum 13;
    "ReduceMean" Mean 18;
    "ReduceMax" Max 18;
    "ReduceMin" Min 18;
    "ReduceProd" Prod 18;
    "ReduceL1" L1 18;
    "ReduceL2" L2 18;
    "ReduceLogSum" LogSum 18;
    "ReduceLogSumExp" LogSumExp 18;
    "ReduceSumSquare" SumSquare 18;
}

/// What a reduction computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Sum,
    Mean,
    Max,
    Min,
    Prod,
    L1,
    L2,
    LogSum,
    LogSumExp,
    SumSquare,
}

fn by_attribute(cx: &mut Context, node: &Node<'_>, form: Form) -> Result<Outputs> {
    let x = node.input(0)?;
    let list = match node.ints("axes").unwrap_or_default() {
        [] => (0..x.rank()).collect(),
        list => axes(list, x.rank())?,
    };
    one(reduce(cx, x, &list, node.int_or("keepdims", 1) != 0, form)?)
}

fn by_input(cx: &mut Context, node: &Node<'_>, form: Form) -> Result<Outputs> {
    let x = node.input(0)?;
    let keeps = node.int_or("keepdims", 1) != 0;
    let listed = match node.optional(1)? {
        Some(axes) => cx.integers(axes)?,
        None => Vec::new(),
    };
    if listed.is_empty() {
        let all: Vec<usize> = if node.flag("noop_with_empty_axes") { Vec::new() } else { (0..x.rank()).collect() };
        return one(reduce(cx, x, &all, keeps, form)?);
    }
    match listed.iter().map(Dim::as_constant).collect::<Option<Vec<i64>>>() {
        Some(list) => one(reduce(cx, x, &axes(&list, x.rank())?, keeps, form)?),
        None => one(super::dynamic_axes::reduce(cx, x, &listed, keeps, form)?),
    }
}

/// Reduces a tensor along axes.
pub(super) fn reduce(cx: &mut Context, x: &Tensor, axes: &[usize], keeps: bool, form: Form) -> Result<Tensor> {
    let reduced = match folded(cx, x, axes, form)? {
        Some(folded) => folded,
        None => {
            let reduction = Reduction::along(&x.shape, axes);
            compute(cx, x, &Map::identity(x.rank()), &reduction, form)?
        }
    };
    if keeps { cx.unsqueeze(&reduced, axes) } else { Ok(reduced) }
}

/// Returns the type that a reduction of a type is computed with.
pub(super) fn working_type(ty: DataType) -> DataType {
    let computed = ty.computed();
    if computed.is_float() || computed.bits() >= 32 { computed } else { DataType::I32 }
}

/// Reduces a tensor, whose elements are read by a map.
pub(super) fn compute(cx: &mut Context, x: &Tensor, map: &Map, reduction: &Reduction, form: Form) -> Result<Tensor> {
    if x.ty == DataType::Bool && !matches!(form, Form::Max | Form::Min) {
        return wrong_type(x.ty);
    }
    if reduction.count.is(0) {
        return cx.splat(&of_nothing(form, x.ty), x.ty, &reduction.shape);
    }
    if form == Form::LogSumExp {
        return log_sum_exp(cx, x, map, reduction);
    }
    let (from, work) = (x.ty, working_type(x.ty));
    let combined =
        first(reduction.reduce(cx, &[(x, map.clone())], &[(work, initial(form, from))], |b, x, accumulators| {
            let x = converted(b, x[0], from, work);
            let x = prepared(b, x, form, work);
            vec![combine(b, accumulators[0], x, form, work)]
        })?)?;
    if work == x.ty && !matches!(form, Form::Mean | Form::L2 | Form::LogSum) {
        return Ok(combined);
    }
    let count = Count::new(cx, &reduction.count);
    let identity = Map::identity(combined.rank());
    map_nest(cx, &[(&combined, identity)], &combined.shape, x.ty, |b, x| {
        let finished = finished(b, x[0], form, work, count);
        converted(b, finished, work, from)
    })
}

/// Returns the value that all other values of a type take precedence over, or 0 or 1 for sums and products.
fn initial(form: Form, ty: DataType) -> Scalar {
    let int = |value: i128| Scalar::Int(Dim::constant(value as i64));
    match (form, ty.range()) {
        (Form::Max, None) => Scalar::Float(f64::NEG_INFINITY),
        (Form::Min, None) => Scalar::Float(f64::INFINITY),
        (Form::Max, Some((least, _))) => int(least),
        (Form::Min, Some((_, greatest))) => int(greatest),
        (Form::Prod, None) => Scalar::Float(1.0),
        (Form::Prod, Some(_)) => int(1),
        (_, None) => Scalar::Float(0.0),
        (_, Some(_)) => int(0),
    }
}

/// Returns what a reduction of no elements is.
fn of_nothing(form: Form, ty: DataType) -> Scalar {
    match form {
        Form::Mean if ty.is_float() => Scalar::Float(f64::NAN),
        Form::LogSum | Form::LogSumExp => initial(Form::Max, ty),
        _ => initial(form, ty),
    }
}

/// Computes what is combined of an element.
fn prepared(b: &mut Builder, x: Value, form: Form, ty: DataType) -> Value {
    match (form, ty.kind()) {
        (Form::L1, Kind::Float) => b.absf(x),
        (Form::L1, Kind::Signed) => {
            let zero = b.int(0, ty.element());
            let negative = b.subi(zero, x);
            b.maxsi(x, negative)
        }
        (Form::L2 | Form::SumSquare, Kind::Float) => b.mulf(x, x),
        (Form::L2 | Form::SumSquare, _) => b.muli(x, x),
        _ => x,
    }
}

/// Combines an accumulator and an element. NaN remains in floats.
fn combine(b: &mut Builder, accumulator: Value, x: Value, form: Form, ty: DataType) -> Value {
    match (form, ty.kind()) {
        (Form::Max, kind) => maximum(b, accumulator, x, kind),
        (Form::Min, kind) => minimum(b, accumulator, x, kind),
        (Form::Prod, Kind::Float) => b.mulf(accumulator, x),
        (Form::Prod, _) => b.muli(accumulator, x),
        (_, Kind::Float) => b.addf(accumulator, x),
        _ => b.addi(accumulator, x),
    }
}

/// Computes the result of an accumulator.
fn finished(b: &mut Builder, x: Value, form: Form, ty: DataType, count: Count) -> Value {
    let count = (form == Form::Mean).then(|| count.element(b, ty));
    match (form, ty.kind(), count) {
        (Form::Mean, Kind::Float, Some(count)) => b.divf(x, count),
        (Form::Mean, Kind::Signed, Some(count)) => {
            let one = b.int(1, ty.element());
            let count = b.maxsi(count, one);
            b.divsi(x, count)
        }
        (Form::Mean, _, Some(count)) => {
            let one = b.int(1, ty.element());
            let count = b.maxui(count, one);
            b.divui(x, count)
        }
        (Form::L2, Kind::Float, _) => b.sqrt(x),
        (Form::LogSum, Kind::Float, _) => b.log(x),
        (Form::L2, ..) => super::integer_reductions::root(b, x, ty),
        (Form::LogSum, ..) => super::integer_reductions::logarithm(b, x, ty),
        _ => x,
    }
}

/// The greatest element; NaN if there is one.
pub(super) fn greatest(
    cx: &mut Context,
    x: &Tensor,
    map: &Map,
    reduction: &Reduction,
    work: DataType,
) -> Result<Tensor> {
    let from = x.ty;
    first(reduction.reduce(cx, &[(x, map.clone())], &[(work, initial(Form::Max, from))], |b, x, accumulators| {
        let x = converted(b, x[0], from, work);
        vec![combine(b, accumulators[0], x, Form::Max, work)]
    })?)
}

/// The logarithm of the sum of the exponentials, which are those of the differences from the greatest element.
fn log_sum_exp(cx: &mut Context, x: &Tensor, map: &Map, reduction: &Reduction) -> Result<Tensor> {
    let (from, work) = (x.ty, working_type(x.ty));
    let greatest = greatest(cx, x, map, reduction, work)?;
    if !work.is_float() {
        return super::integer_reductions::log_sum_exp(cx, x, map, reduction, &greatest);
    }
    let shape = greatest.shape.clone();
    let identity = Map::identity(shape.len());
    // No infinity is subtracted of itself.
    let offset = map_nest(cx, &[(&greatest, identity.clone())], &shape, work, |b, x| {
        let (zero, infinity) = (b.float(0.0, work.element()), b.float(f64::INFINITY, work.element()));
        let magnitude = b.absf(x[0]);
        let is_infinite = b.cmpf(FloatPredicate::OrderedEqual, magnitude, infinity);
        b.select(is_infinite, zero, x[0])
    })?;
    let sum = reduction.sum(cx, &[(x, map.clone()), (&offset, reduction.output.clone())], work, |b, x| {
        let difference = b.subf(x[0], x[1]);
        b.exp(difference)
    })?;
    map_nest(cx, &[(&sum, identity.clone()), (&offset, identity)], &shape, from, |b, x| {
        let log = b.log(x[0]);
        b.addf(log, x[1])
    })
}

/// Reduces known elements; `None` if they are not known, or the form is not one of those that shapes are computed with.
fn folded(cx: &mut Context, x: &Tensor, axes: &[usize], form: Form) -> Result<Option<Tensor>> {
    let wide = matches!(x.ty, DataType::I32 | DataType::I64 | DataType::F32 | DataType::F64);
    if !wide || !matches!(form, Form::Sum | Form::Prod | Form::Max | Form::Min) {
        return Ok(None);
    }
    let (Some(elements), Some(from)) = (cx.elements(x)?, x.static_shape()) else { return Ok(None) };
    let kept = crate::kit::others(axes, x.rank());
    let to: Vec<i64> = kept.iter().filter_map(|index| from.get(*index).copied()).collect();
    let count = usize::try_from(to.iter().product::<i64>()).unwrap_or(0);
    if count > elements.len() {
        return Ok(None);
    }
    let mut results = vec![initial(form, x.ty); count];
    let mut position = vec![0; from.len()];
    for element in elements.iter() {
        let flat = kept
            .iter()
            .zip(&to)
            .fold(0, |flat, (index, extent)| flat * extent + position.get(*index).copied().unwrap_or(0));
        let Some(slot) = usize::try_from(flat).ok().and_then(|flat| results.get_mut(flat)) else { return Ok(None) };
        match folded_pair(slot, element, form, x.ty) {
            Some(combined) => *slot = combined,
            None => return Ok(None),
        }
        for (index, extent) in position.iter_mut().zip(&from).rev() {
            *index += 1;
            if *index < *extent {
                break;
            }
            *index = 0;
        }
    }
    let shape = to.iter().copied().map(Dim::constant).collect();
    Ok(Some(Tensor::of_elements(x.ty, shape, results)))
}

/// Combines two known elements.
fn folded_pair(x: &Scalar, y: &Scalar, form: Form, ty: DataType) -> Option<Scalar> {
    match (x, y) {
        (Scalar::Int(x), Scalar::Int(y)) => {
            let result = match (form, x.as_constant(), y.as_constant()) {
                (Form::Sum, Some(x), Some(y)) => Dim::constant(x.wrapping_add(y)),
                (Form::Prod, Some(x), Some(y)) => Dim::constant(x.wrapping_mul(y)),
                (Form::Sum, ..) => x.plus(y),
                (Form::Prod, ..) => x.times(y),
                // The initial value is beyond all extents, and would overflow in a difference.
                (_, Some(bound), None) if Scalar::Int(Dim::constant(bound)) == initial(form, ty) => y.clone(),
                (Form::Max, ..) => x.at_least(y),
                _ => x.at_most(y),
            };
            Some(Scalar::Int(match result.as_constant() {
                Some(value) => Dim::constant(crate::fold::wrapped(value, ty)),
                None => result,
            }))
        }
        (Scalar::Float(x), Scalar::Float(y)) => {
            let result = match form {
                Form::Sum => x + y,
                Form::Prod => x * y,
                _ if x.is_nan() || y.is_nan() => f64::NAN,
                Form::Max => x.max(*y),
                _ => x.min(*y),
            };
            crate::fold::rounded(result, ty).map(Scalar::Float)
        }
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn int(value: i64) -> Scalar {
        Scalar::Int(Dim::constant(value))
    }

    #[test]
    fn known_elements_reduce_along_axes() {
        let mut cx = Context::new();
        let shape = vec![Dim::constant(2), Dim::constant(3)];
        let x = Tensor::of_elements(DataType::I64, shape, (1..=6).map(int).collect());
        let mut of = |axes: &[usize], form, keeps| {
            let reduced = reduce(&mut cx, &x, axes, keeps, form).unwrap();
            let elements = cx.elements(&reduced).unwrap().unwrap();
            (reduced.static_shape().unwrap(), elements.to_vec())
        };
        assert_eq!(of(&[0], Form::Sum, false), (vec![3], vec![int(5), int(7), int(9)]));
        assert_eq!(of(&[1], Form::Prod, true), (vec![2, 1], vec![int(6), int(120)]));
        assert_eq!(of(&[0, 1], Form::Max, false), (vec![], vec![int(6)]));
        assert_eq!(of(&[], Form::Min, true), (vec![2, 3], (1..=6).map(int).collect()));
    }

    #[test]
    fn extents_reduce_to_expressions() {
        let mut cx = Context::new();
        let n = Dim::symbol(0);
        let x = Tensor::of_integers(&[n.clone(), Dim::constant(4)]);
        let mut of = |form| {
            let reduced = reduce(&mut cx, &x, &[0], false, form).unwrap();
            cx.elements(&reduced).unwrap().unwrap().first().and_then(Scalar::as_int).cloned()
        };
        assert_eq!(of(Form::Prod), Some(n.times(&Dim::constant(4))));
        assert_eq!(of(Form::Max), Some(n.at_least(&Dim::constant(4))));
        assert_eq!(of(Form::Sum), Some(n.plus(&Dim::constant(4))));
    }
}
