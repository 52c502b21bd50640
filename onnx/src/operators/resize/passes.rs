//! The loop nests of `Resize`: one gather for the nearest elements, or a weighted sum along one axis after the other.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Element, Expression, Iterator, Map, Value};

use super::super::positions::clamped_integer;
use super::coordinates::{Emitted, Filter, Known, Line, Numbers, Rounding, Transform, nearest, origin, tap};
use super::{AxisLine, Interpolation, Number, Options};
use crate::context::Context;
use crate::convert::{converted, widened};
use crate::data_type::{DataType, Kind};
use crate::dim::Dim;
use crate::kit::wrong_type;
use crate::node::invalid;
use crate::operators::tables::table;
use crate::tensor::{Scalar, Tensor};

/// The most elements of a table that is computed when the model is imported.
const TABLE: i64 = 1 << 22;
/// The most weights of a position that are added without a loop.
const UNROLLED: i64 = 4;

/// Resizes a tensor along the axes of the lines.
pub(super) fn resize(cx: &mut Context, x: &Tensor, lines: &[AxisLine], options: &Options) -> Result<Tensor> {
    let is_crop = options.transform == Transform::CropAndResize;
    let is_identity = |line: &&AxisLine| {
        let is_whole = line.start == Number::Known(0.0) && line.end == Number::Known(1.0);
        line.input == line.output
            && (!is_crop || is_whole)
            && line.scale.is_none_or(|scale| scale == Number::Known(1.0))
    };
    let lines: Vec<&AxisLine> = lines.iter().filter(|line| !is_identity(line)).collect();
    for line in &lines {
        if line.input.is(0) && !line.output.is(0) {
            return invalid("an axis without elements cannot become longer");
        }
    }
    match options.interpolation {
        Interpolation::Nearest(rounding) => resize_nearest(cx, x, &lines, options, rounding),
        Interpolation::Filtered(filter) => resize_filtered(cx, x, &lines, options, filter),
    }
}

/// The numbers of a line if all are known.
fn known_line(line: &AxisLine) -> Option<Line<f64>> {
    let (input, output) = (line.input.as_constant()?, line.output.as_constant()?);
    let known = |number: Number| match number {
        Number::Known(number) => Some(number),
        Number::Computed(_) => None,
    };
    let scale = match line.scale {
        None => f64::from(output as f32 / input as f32),
        Some(scale) => known(scale)?,
    };
    Some(Line { scale, input: input as f64, output: output as f64, start: known(line.start)?, end: known(line.end)? })
}

/// The numbers of a line outside of a kernel that computes them.
struct Captured {
    input: Value,
    output: Value,
    scale: Option<Number>,
    start: Number,
    end: Number,
}

impl Captured {
    fn new(cx: &mut Context, line: &AxisLine) -> Captured {
        let (input, output) = (cx.index(&line.input), cx.index(&line.output));
        Captured { input, output, scale: line.scale, start: line.start, end: line.end }
    }

    /// Converts the numbers in the kernel.
    fn line(&self, b: &mut Builder, element: Element) -> Line<Value> {
        let (input, output) = (float(b, self.input, element), float(b, self.output, element));
        let mut number = |number: Number| match number {
            Number::Known(number) => b.float(number, element),
            Number::Computed(value) if element == Element::F32 => value,
            Number::Computed(value) => b.extf(value, element),
        };
        let (start, end) = (number(self.start), number(self.end));
        let scale = self.scale.map(number);
        let scale = scale.unwrap_or_else(|| b.divf(output, input));
        Line { scale, input, output, start, end }
    }
}

fn float(b: &mut Builder, index: Value, element: Element) -> Value {
    let integer = b.index_cast(index, Element::I64);
    b.sitofp(integer, element)
}

/// Converts a whole number to an index below an extent.
fn clamped(b: &mut Builder, number: Value, extent: Value) -> Value {
    let position = b.fptosi(number, Element::I64);
    let within = clamped_integer(b, position, extent);
    b.trunci(within, Element::I32)
}

/// Which positions of an axis lie outside of the input; `None` if that makes no difference.
fn outside(cx: &mut Context, line: &AxisLine, options: &Options) -> Result<Option<Tensor>> {
    if options.transform != Transform::CropAndResize {
        return Ok(None);
    }
    if let Some(known) = known_line(line).filter(|known| known.output <= TABLE as f64) {
        let mut n = Known { is_double: false };
        let flags: Vec<f64> = (0..known.output as i64)
            .map(|position| {
                let x = origin(&mut n, options.transform, position as f64, &known);
                f64::from(u8::from(x < 0.0 || x > known.input - 1.0))
            })
            .collect();
        if flags.iter().all(|flag| *flag == 0.0) {
            return Ok(None);
        }
        return Ok(Some(table("resize", &flags, &[known.output as i64], DataType::Bool)));
    }
    let captured = Captured::new(cx, line);
    let mask = cx.generate(std::slice::from_ref(&line.output), DataType::I32, |b, positions| {
        let line = captured.line(b, Element::F32);
        let x = float(b, positions[0], Element::F32);
        let mut n = Emitted { b, element: Element::F32 };
        let x = origin(&mut n, options.transform, x, &line);
        let (zero, one) = (n.constant(0.0), n.constant(1.0));
        let last = n.sub(line.input, one);
        let below = n.if_less(x, zero, one, zero);
        let flag = n.if_less(last, x, one, below);
        b.fptosi(flag, Element::I32)
    })?;
    cx.cast(&mask, DataType::Bool).map(Some)
}

/// How the nearest elements along an axis are found.
enum Nearest {
    /// Element `i` is `first + i * step`.
    Strided { first: i64, step: i64 },
    /// Each element is repeated.
    Repeated(i64),
    /// By a table of indices.
    Gathered(Tensor),
}

fn resize_nearest(
    cx: &mut Context,
    x: &Tensor,
    lines: &[&AxisLine],
    options: &Options,
    rounding: Rounding,
) -> Result<Tensor> {
    let mut x = x.clone();
    let mut gathered = Vec::new();
    let mut masks = Vec::new();
    for line in lines {
        if let Some(mask) = outside(cx, line, options)? {
            masks.push((line.axis, mask));
        }
        match source(cx, line, options.transform, rounding)? {
            Nearest::Strided { first, step } => {
                let mut offsets = vec![Dim::constant(0); x.rank()];
                let (mut counts, mut steps) = (x.shape.clone(), vec![1; x.rank()]);
                if let (Some(offset), Some(count), Some(slot)) =
                    (offsets.get_mut(line.axis), counts.get_mut(line.axis), steps.get_mut(line.axis))
                {
                    (*offset, *count, *slot) = (Dim::constant(first), line.output.clone(), step);
                }
                x = cx.slice(&x, &offsets, &counts, &steps)?;
            }
            Nearest::Repeated(times) => x = repeat(cx, &x, line.axis, times)?,
            Nearest::Gathered(indices) => gathered.push((line.axis, indices)),
        }
    }
    let mut result = gather(cx, &x, &gathered)?;
    for (axis, mask) in masks {
        result = masked(cx, &result, axis, &mask, options.extrapolation)?;
    }
    Ok(result)
}

/// Repeats each element along an axis.
fn repeat(cx: &mut Context, x: &Tensor, axis: usize, times: i64) -> Result<Tensor> {
    let split = cx.unsqueeze(x, &[axis + 1])?;
    let mut shape = split.shape.clone();
    if let Some(extent) = shape.get_mut(axis + 1) {
        *extent = Dim::constant(times);
    }
    let wide = cx.broadcast_to(&split, &shape)?;
    let mut joined = x.shape.clone();
    if let Some(extent) = joined.get_mut(axis) {
        *extent = extent.times(&Dim::constant(times));
    }
    cx.reshape(&wide, &joined)
}

/// Finds the indices of the nearest elements.
fn source(cx: &mut Context, line: &AxisLine, transform: Transform, rounding: Rounding) -> Result<Nearest> {
    if let Some(known) = known_line(line).filter(|known| known.output <= TABLE as f64) {
        let indices = indices(&known, transform, rounding);
        return Ok(match pattern(&indices, known.input as i64) {
            Some(pattern) => pattern,
            None => {
                let numbers: Vec<f64> = indices.iter().map(|index| *index as f64).collect();
                Nearest::Gathered(table("resize", &numbers, &[known.output as i64], DataType::I32))
            }
        });
    }
    // Where an extent is multiplied by an integer and each position depends on its distance from the element alone, what is right for
    // a few elements is for all.
    let is_periodic = matches!(
        transform,
        Transform::HalfPixel | Transform::HalfPixelForNearest | Transform::Asymmetric | Transform::PytorchHalfPixel
    );
    if let (true, Some(Number::Known(scale))) = (is_periodic, line.scale)
        && scale.fract() == 0.0
        && scale <= 64.0
    {
        let sample = Line { scale, input: 8.0, output: 8.0 * scale, start: 0.0, end: 1.0 };
        let pattern = pattern(&indices(&sample, transform, rounding), 8);
        if let Some(Nearest::Repeated(times)) = pattern {
            return Ok(Nearest::Repeated(times));
        }
    }
    let captured = Captured::new(cx, line);
    let input = captured.input;
    let indices = cx.generate(std::slice::from_ref(&line.output), DataType::I32, |b, positions| {
        let line = captured.line(b, Element::F32);
        let x = float(b, positions[0], Element::F32);
        let mut n = Emitted { b, element: Element::F32 };
        let x = origin(&mut n, transform, x, &line);
        let index = nearest(&mut n, rounding, x, &line);
        clamped(b, index, input)
    })?;
    Ok(Nearest::Gathered(indices))
}

/// The indices of the nearest elements for all positions of the result.
fn indices(line: &Line<f64>, transform: Transform, rounding: Rounding) -> Vec<i64> {
    let mut n = Known { is_double: false };
    let last = (line.input as i64 - 1).max(0);
    (0..line.output as i64)
        .map(|position| {
            let x = origin(&mut n, transform, position as f64, line);
            (nearest(&mut n, rounding, x, line) as i64).clamp(0, last)
        })
        .collect()
}

/// Recognises indices that need no gather.
fn pattern(indices: &[i64], extent: i64) -> Option<Nearest> {
    let length = i64::try_from(indices.len()).ok()?;
    let times = length.checked_div(extent)?;
    if times > 1 && times.checked_mul(extent)? == length && (0..).zip(indices).all(|(i, index)| i / times == *index) {
        return Some(Nearest::Repeated(times));
    }
    let first = *indices.first()?;
    let step = indices.get(1).map_or(1, |second| second - first);
    let is_strided = step > 0 && (0..).zip(indices).all(|(i, index): (i64, &i64)| first + i * step == *index);
    is_strided.then_some(Nearest::Strided { first, step })
}

/// Reads elements at the indices that tables have for axes.
fn gather(cx: &mut Context, x: &Tensor, tables: &[(usize, Tensor)]) -> Result<Tensor> {
    if tables.is_empty() {
        return Ok(x.clone());
    }
    let rank = x.rank();
    let mut shape = x.shape.clone();
    let (mut values, mut maps) = (Vec::new(), Vec::new());
    for (axis, indices) in tables {
        if let (Some(extent), Some(length)) = (shape.get_mut(*axis), indices.shape.first()) {
            *extent = length.clone();
        }
        values.push(cx.value(indices)?);
        maps.push(Map::of(rank, &[*axis]));
    }
    maps.push(Map::identity(rank));
    cx.check_shape(x.ty, &shape)?;
    let value = cx.value(x)?;
    let extents = cx.extents(&shape);
    let empty = cx.b.empty(&extents, x.ty.element());
    let iterators = vec![Iterator::Parallel; rank];
    let result = cx.b.generic_single(&values, empty, &maps, &iterators, |b, arguments| {
        let mut positions: Vec<Value> = (0..rank).map(|dimension| b.iteration(dimension)).collect();
        for ((axis, _), index) in tables.iter().zip(arguments) {
            if let Some(position) = positions.get_mut(*axis) {
                *position = b.index_cast(*index, Element::Index);
            }
        }
        b.extract(value, &positions)
    });
    cx.tensor(result, x.ty, shape)
}

/// Replaces the elements at the positions of an axis that a mask has.
fn masked(cx: &mut Context, x: &Tensor, axis: usize, mask: &Tensor, value: f64) -> Result<Tensor> {
    let inner: Vec<usize> = (1..x.rank() - axis.min(x.rank())).collect();
    let mask = cx.unsqueeze(mask, &inner)?;
    let ty = x.ty;
    cx.map(&[x, &mask], ty, |b, elements| {
        let number = match ty.kind() {
            Kind::Float => b.float(value, ty.computed().element()),
            _ => b.int(value as i64, ty.element()),
        };
        b.select(elements[1], number, elements[0])
    })
}

fn resize_filtered(
    cx: &mut Context,
    x: &Tensor,
    lines: &[&AxisLine],
    options: &Options,
    filter: Filter,
) -> Result<Tensor> {
    if x.ty == DataType::Bool {
        return wrong_type(x.ty);
    }
    let work = if x.ty == DataType::F64 { DataType::F64 } else { DataType::F32 };
    let mut lines = lines.to_vec();
    // Axes that become shorter come first; of those that become longer, the last.
    lines.sort_by(|a, b| growth(a).total_cmp(&growth(b)).then(b.axis.cmp(&a.axis)));
    let mut result = x.clone();
    for line in lines {
        let weights = weights(cx, line, options.transform, filter, work)?;
        result = match weights.unrolled {
            Some(count) => unrolled(cx, &result, line.axis, &weights, count, work)?,
            None => looped(cx, &result, line.axis, &weights, work)?,
        };
        if let Some(mask) = outside(cx, line, options)? {
            result = masked(cx, &result, line.axis, &mask, options.extrapolation)?;
        }
    }
    from_work(cx, &result, x.ty, filter.cubic.is_some())
}

/// The quotient of the extents, as far as it is known.
fn growth(line: &AxisLine) -> f64 {
    match (line.scale, line.input.as_constant(), line.output.as_constant()) {
        (Some(Number::Known(scale)), ..) => scale,
        (_, Some(input), Some(output)) => output as f64 / input as f64,
        _ => 1.0,
    }
}

/// Converts to the type of the input; integers are cut, and kept in their range.
fn from_work(cx: &mut Context, x: &Tensor, ty: DataType, saturates: bool) -> Result<Tensor> {
    let Some((low, high)) = ty.range().filter(|_| saturates && x.ty != ty) else { return cx.cast(x, ty) };
    let limited = cx.map(&[x], x.ty, |b, elements| {
        let element = b.element_of(elements[0]);
        let (low, high) = (b.float(low as f64, element), b.float(high as f64, element));
        let raised = b.maximumf(elements[0], low);
        b.minimumf(raised, high)
    })?;
    cx.cast(&limited, ty)
}

/// The elements that are added for each position along an axis: tensors of shape (number of weights, positions).
struct Weights {
    indices: Tensor,
    weights: Tensor,
    /// The number of weights if it is small.
    unrolled: Option<i64>,
}

fn weights(cx: &mut Context, line: &AxisLine, transform: Transform, filter: Filter, work: DataType) -> Result<Weights> {
    if let Some(known) = known_line(line) {
        let reach = filter.reach(known.scale);
        if reach * known.output <= TABLE as f64 {
            return Ok(known_weights(&known, transform, filter, work, reach));
        }
    }
    let captured = Captured::new(cx, line);
    let (reach, count) = match line.scale {
        _ if !filter.antialias => (None, Dim::constant(2 * filter.support() as i64)),
        Some(Number::Known(scale)) => (None, Dim::constant(2 * filter.reach(scale) as i64)),
        _ => {
            // The number of weights depends on the scale, which is known when the module runs.
            let numbers = captured.line(&mut cx.b, Element::F32);
            let mut n = Emitted { b: &mut cx.b, element: Element::F32 };
            let (one, support) = (n.constant(1.0), n.constant(filter.support()));
            let narrowed = n.if_less(numbers.scale, one, numbers.scale, one);
            let reach = n.div(support, narrowed);
            let reach = cx.b.ceil(reach);
            let integer = cx.b.fptosi(reach, Element::I64);
            let two = cx.b.int(2, Element::I64);
            let count = cx.b.muli(integer, two);
            let count = cx.b.index_cast(count, Element::Index);
            (Some(reach), cx.symbol("weights", count))
        }
    };
    let unrolled = count.as_constant().filter(|count| *count <= UNROLLED);
    let known_reach = count.as_constant().map_or(0.0, |count| (count / 2) as f64);
    let shape = [count, line.output.clone()];
    let at = |b: &mut Builder, positions: &[Value]| {
        let line = captured.line(b, Element::F32);
        let (k, x) = (float(b, positions[0], Element::F32), float(b, positions[1], Element::F32));
        let reach = reach.unwrap_or_else(|| b.float(known_reach, Element::F32));
        let mut n = Emitted { b, element: Element::F32 };
        let x = origin(&mut n, transform, x, &line);
        tap(&mut n, filter, x, k, reach, &line)
    };
    let indices = cx.generate(&shape, DataType::I32, |b, positions| {
        let (index, _) = at(b, positions);
        clamped(b, index, captured.input)
    })?;
    let mut weights = cx.generate(&shape, DataType::F32, |b, positions| at(b, positions).1)?;
    if filter.is_normalised_afterwards() {
        let sum = cx.reduce(&weights, &[0], DataType::F32, Scalar::Float(0.0), |b, x, sum| b.addf(sum, x))?;
        weights = cx.map(&[&weights, &sum], DataType::F32, |b, x| {
            let zero = b.float(0.0, Element::F32);
            let one = b.float(1.0, Element::F32);
            let is_zero = b.cmpf(incarnate_mlir::FloatPredicate::OrderedEqual, x[1], zero);
            let divisor = b.select(is_zero, one, x[1]);
            b.divf(x[0], divisor)
        })?;
    }
    let weights = cx.cast(&weights, work)?;
    Ok(Weights { indices, weights, unrolled })
}

fn known_weights(line: &Line<f64>, transform: Transform, filter: Filter, work: DataType, reach: f64) -> Weights {
    let mut n = Known { is_double: work == DataType::F64 };
    let (count, length) = (2 * reach as i64, line.output as i64);
    let last = (line.input - 1.0).max(0.0);
    let (mut indices, mut weights) = (Vec::new(), Vec::new());
    let mut sums = vec![0.0; usize::try_from(length).unwrap_or(0)];
    for k in 0..count {
        for (position, sum) in (0..length).zip(&mut sums) {
            let x = origin(&mut n, transform, position as f64, line);
            let (index, weight) = tap(&mut n, filter, x, k as f64, reach, line);
            indices.push(index.clamp(0.0, last));
            weights.push(weight);
            *sum += weight;
        }
    }
    if filter.is_normalised_afterwards() {
        for (weight, sum) in weights.iter_mut().zip(sums.iter().cycle()) {
            *weight /= if *sum == 0.0 { 1.0 } else { *sum };
        }
    }
    Weights {
        indices: table("resize", &indices, &[count, length], DataType::I32),
        weights: table("resize", &weights, &[count, length], work),
        unrolled: Some(count).filter(|count| *count <= UNROLLED),
    }
}

/// Converts an element to the type that sums have.
fn to_work(b: &mut Builder, element: Value, ty: DataType, work: DataType) -> Value {
    let wide = widened(b, element, ty);
    converted(b, wide, ty.computed(), work)
}

/// The operands of a pass along an axis.
struct Pass {
    /// The shape of the result.
    shape: Vec<Dim>,
    indices: Value,
    factors: Value,
    value: Value,
}

impl Pass {
    fn of(cx: &mut Context, x: &Tensor, axis: usize, weights: &Weights, work: DataType) -> Result<Pass> {
        let mut shape = x.shape.clone();
        if let (Some(extent), Some(length)) = (shape.get_mut(axis), weights.indices.shape.get(1)) {
            *extent = length.clone();
        }
        cx.check_shape(work, &shape)?;
        let (indices, factors) = (cx.value(&weights.indices)?, cx.value(&weights.weights)?);
        Ok(Pass { shape, indices, factors, value: cx.value(x)? })
    }

    /// The position along the axis that a table holds, among those of the other dimensions, and the element there, as sums have it.
    fn element(&self, b: &mut Builder, at: &mut [Value], axis: usize, index: Value, types: [DataType; 2]) -> Value {
        if let Some(position) = at.get_mut(axis) {
            *position = b.index_cast(index, Element::Index);
        }
        let element = b.extract(self.value, at);
        to_work(b, element, types[0], types[1])
    }
}

/// Adds a few weighted elements for each position.
fn unrolled(
    cx: &mut Context,
    x: &Tensor,
    axis: usize,
    weights: &Weights,
    count: i64,
    work: DataType,
) -> Result<Tensor> {
    let rank = x.rank();
    let pass = Pass::of(cx, x, axis, weights, work)?;
    let row = |k: i64| Map::new(rank, vec![Expression::constant(k), Expression::dimension(axis)]);
    let (mut operands, mut maps) = (Vec::new(), Vec::new());
    for k in 0..count {
        operands.extend([pass.indices, pass.factors]);
        maps.extend([row(k), row(k)]);
    }
    maps.push(Map::identity(rank));
    let extents = cx.extents(&pass.shape);
    let empty = cx.b.empty(&extents, work.element());
    let iterators = vec![Iterator::Parallel; rank];
    let types = [x.ty, work];
    let result = cx.b.generic_single(&operands, empty, &maps, &iterators, |b, arguments| {
        let mut positions: Vec<Value> = (0..rank).map(|dimension| b.iteration(dimension)).collect();
        let mut sum = None;
        for pair in arguments.chunks_exact(2) {
            let [index, weight] = pair else { continue };
            let element = pass.element(b, &mut positions, axis, *index, types);
            let product = b.mulf(element, *weight);
            sum = Some(sum.map_or(product, |sum| b.addf(sum, product)));
        }
        sum.unwrap_or_else(|| b.float(0.0, work.element()))
    });
    cx.tensor(result, work, pass.shape)
}

/// Adds weighted elements for each position in a loop.
fn looped(cx: &mut Context, x: &Tensor, axis: usize, weights: &Weights, work: DataType) -> Result<Tensor> {
    let rank = x.rank();
    let pass = Pass::of(cx, x, axis, weights, work)?;
    let table = Map::of(rank + 1, &[rank, axis]);
    let maps = [table.clone(), table, Map::of(rank + 1, &(0..rank).collect::<Vec<_>>())];
    let extents = cx.extents(&pass.shape);
    let zero = cx.b.float(0.0, work.element());
    let filled = cx.b.fill(zero, &extents);
    let mut iterators = vec![Iterator::Parallel; rank];
    iterators.push(Iterator::Reduction);
    let types = [x.ty, work];
    let result = cx.b.generic_single(&[pass.indices, pass.factors], filled, &maps, &iterators, |b, arguments| {
        let mut positions: Vec<Value> = (0..rank).map(|dimension| b.iteration(dimension)).collect();
        let element = pass.element(b, &mut positions, axis, arguments[0], types);
        let product = b.mulf(element, arguments[1]);
        b.addf(arguments[2], product)
    });
    cx.tensor(result, work, pass.shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(input: i64, output: i64, transform: Transform, rounding: Rounding) -> Option<(i64, i64)> {
        let scale = f64::from(output as f32 / input as f32);
        let line = Line { scale, input: input as f64, output: output as f64, start: 0.0, end: 1.0 };
        match pattern(&indices(&line, transform, rounding), input)? {
            Nearest::Repeated(times) => Some((0, times)),
            Nearest::Strided { first, step } => Some((first + 1, step)),
            Nearest::Gathered(_) => None,
        }
    }

    #[test]
    fn integer_scales_need_no_gather() {
        assert_eq!(found(5, 10, Transform::HalfPixel, Rounding::PreferFloor), Some((0, 2)));
        assert_eq!(found(5, 15, Transform::Asymmetric, Rounding::Floor), Some((0, 3)));
        assert_eq!(found(5, 15, Transform::Asymmetric, Rounding::PreferFloor), None);
        assert_eq!(found(8, 4, Transform::Asymmetric, Rounding::Floor), Some((1, 2)));
        assert_eq!(found(5, 7, Transform::HalfPixel, Rounding::PreferFloor), None);
    }
}
