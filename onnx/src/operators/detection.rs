//! `NonMaxSuppression`.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Element, Expression, FloatPredicate, IntPredicate, Iterator, Map, Type, Value};

use super::positions::clamped_integer;
use super::{Row, onnx};
use crate::context::Context;
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::kit::wrong_type;
use crate::node::{Node, Outputs, invalid, one, unsupported};
use crate::tensor::{Scalar, Tensor, type_of};

pub(super) const ROWS: &[Row] = &[onnx("NonMaxSuppression", 10, suppression)];

/// What the loop over selections reads.
struct Selection {
    /// Left, top, right and bottom edge and area, each of shape (batches, boxes).
    edges: Vec<Value>,
    /// The overlap from which a box is suppressed.
    threshold: Value,
    batches: Dim,
    classes: Dim,
    boxes: Dim,
}

/// What changes from one selection to the next.
#[derive(Clone, Copy)]
struct State {
    /// Of shape (batches, classes, boxes); the lowest number for boxes that are selected or suppressed.
    scores: Value,
    /// The box with the greatest score, of shape (batches, classes); -1 if there is none.
    best: Value,
}

fn suppression(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let (boxes, scores) = (node.input(0)?, node.input(1)?);
    if boxes.ty != DataType::F32 || scores.ty != DataType::F32 {
        return wrong_type(boxes.ty);
    }
    let ([batches, count, columns], [score_batches, classes, score_count]) = (&*boxes.shape, &*scores.shape) else {
        return invalid("the boxes and the scores have not the rank 3");
    };
    cx.require_equal(columns, &Dim::constant(4), "the number of coordinates of a box")?;
    cx.require_equal(score_batches, batches, "the number of batches of the scores")?;
    cx.require_equal(score_count, count, "the number of scores of a class")?;
    let most = match node.optional(2)?.filter(|tensor| !tensor.count().is(0)) {
        None => Dim::constant(0),
        Some(tensor) => match &cx.integers(tensor)?[..] {
            [most] => most.at_least(&Dim::constant(0)),
            _ => return invalid("`max_output_boxes_per_class` is no single number"),
        },
    };
    if most.is(0) {
        return one(Tensor::of_elements(DataType::I64, vec![Dim::constant(0), Dim::constant(3)], Vec::new()));
    }
    let steps = most.at_most(count);
    let is_centred = match node.int_or("center_point_box", 0) {
        0 => false,
        1 => true,
        other => return unsupported(format!("boxes of format {other} are not known")),
    };
    let threshold = threshold(cx, node, 3)?;
    let threshold = match threshold {
        Some(threshold) => threshold,
        None => cx.b.float(0.0, Element::F32),
    };
    let edges = edges(cx, boxes, is_centred)?;
    let selection =
        Selection { edges, threshold, batches: batches.clone(), classes: classes.clone(), boxes: count.clone() };
    let initial = match self::threshold(cx, node, 4)? {
        None => scores.clone(),
        Some(limit) => cx.map(&[scores], DataType::F32, |b, x| {
            let lowest = b.float(f64::NEG_INFINITY, Element::F32);
            let is_candidate = b.cmpf(FloatPredicate::OrderedGreater, x[0], limit);
            b.select(is_candidate, x[0], lowest)
        })?,
    };
    let chosen = select(cx, &selection, &initial, &steps)?;
    one(listed(cx, &selection, &chosen, &steps)?)
}

/// Returns a threshold as a value of type `f32`, if it is given.
fn threshold(cx: &mut Context, node: &Node<'_>, index: usize) -> Result<Option<Value>> {
    let Some(tensor) = node.optional(index)?.filter(|tensor| !tensor.count().is(0)) else { return Ok(None) };
    if let Some([known]) = cx.floats(tensor)?.as_deref() {
        return Ok(Some(cx.b.float(*known, Element::F32)));
    }
    let scalar = cx.reshape(tensor, &[])?;
    let value = cx.value(&scalar)?;
    Ok(Some(cx.b.extract(value, &[])))
}

/// Computes the edges and areas of boxes.
fn edges(cx: &mut Context, boxes: &Tensor, is_centred: bool) -> Result<Vec<Value>> {
    let value = cx.value(boxes)?;
    let shape = boxes.shape.get(..2).unwrap_or_default().to_vec();
    let extents = cx.extents(&shape);
    let empty: Vec<Value> = (0..5).map(|_| cx.b.empty(&extents, Element::F32)).collect();
    let column = |column: i64| {
        Map::new(2, vec![Expression::dimension(0), Expression::dimension(1), Expression::constant(column)])
    };
    let mut maps: Vec<Map> = (0..4).map(column).collect();
    maps.extend((0..5).map(|_| Map::identity(2)));
    Ok(cx.b.generic(&[value; 4], &empty, &maps, &[Iterator::Parallel; 2], |b, x| {
        let [left, top, right, bottom] = if is_centred {
            let half = b.float(0.5, Element::F32);
            let (width, height) = (b.mulf(x[2], half), b.mulf(x[3], half));
            [b.subf(x[0], width), b.subf(x[1], height), b.addf(x[0], width), b.addf(x[1], height)]
        } else {
            [b.minimumf(x[1], x[3]), b.minimumf(x[0], x[2]), b.maximumf(x[1], x[3]), b.maximumf(x[0], x[2])]
        };
        let (width, height) = (b.subf(right, left), b.subf(bottom, top));
        vec![left, top, right, bottom, b.mulf(width, height)]
    }))
}

/// Selects the box with the greatest score of each class, and suppresses those that overlap with it, until there is none or enough are
/// selected. Returns the boxes of shape (selections, batches, classes); -1 where there are fewer.
fn select(cx: &mut Context, selection: &Selection, scores: &Tensor, steps: &Dim) -> Result<Tensor> {
    let classes = [selection.batches.clone(), selection.classes.clone()];
    let shape = vec![steps.clone(), classes[0].clone(), classes[1].clone()];
    cx.check_shape(DataType::I32, &shape)?;
    let none = cx.b.int(-1, Element::I32);
    let extents = cx.extents(&shape);
    let chosen = cx.b.fill(none, &extents);
    let scores_value = cx.value(scores)?;
    let first = best(cx, selection, scores_value)?;
    let (zero, one, last) = (cx.b.index(0), cx.b.index(1), cx.index(steps));
    let types = [
        Type::Scalar(Element::Index),
        cx.b.type_of(chosen).clone(),
        cx.b.type_of(first.scores).clone(),
        cx.b.type_of(first.best).clone(),
    ];
    let before: Vec<Value> = types.iter().map(|ty| cx.b.argument(ty.clone())).collect();
    let after: Vec<Value> = types.iter().map(|ty| cx.b.argument(ty.clone())).collect();
    cx.open_region();
    let is_left = cx.b.cmpi(IntPredicate::SignedLess, before[0], last);
    let is_any = is_any(cx, before[3]);
    let goes_on = cx.b.andi(is_left, is_any);
    let test = cx.close_region();
    cx.open_region();
    let (step, row, best_before) = (after[0], after[1], after[3]);
    let sizes = cx.extents(&classes);
    let sizes = [1.into(), sizes[0], sizes[1]];
    let chosen_next =
        cx.b.insert_slice(best_before, row, &[step.into(), 0.into(), 0.into()], &sizes, &[1.into(); 3], &[0]);
    let suppressed = suppressed(cx, selection, after[2], best_before);
    let next = best(cx, selection, suppressed)?;
    let next_step = cx.b.addi(step, one);
    let body = cx.close_region();
    let initial = [zero, chosen, first.scores, first.best];
    let results = cx.b.scf_while(
        &before,
        &initial,
        (test, goes_on, before.clone()),
        &after,
        (body, vec![next_step, chosen_next, next.scores, next.best]),
    );
    cx.tensor(results.get(1).copied().unwrap_or(chosen), DataType::I32, shape)
}

/// Finds the box with the greatest score of each class; of equal ones, the first.
fn best(cx: &mut Context, selection: &Selection, scores: Value) -> Result<State> {
    let shape = [selection.batches.clone(), selection.classes.clone(), selection.boxes.clone()];
    let scores = cx.b.cast_to(scores, &type_of(DataType::F32, &shape));
    let extents = cx.extents(&shape[..2]);
    let (lowest, none) = (cx.b.float(f64::NEG_INFINITY, Element::F32), cx.b.int(-1, Element::I32));
    let filled = [cx.b.fill(lowest, &extents), cx.b.fill(none, &extents)];
    let maps = [Map::identity(3), Map::of(3, &[0, 1]), Map::of(3, &[0, 1])];
    let iterators = [Iterator::Parallel, Iterator::Parallel, Iterator::Reduction];
    let results = cx.b.generic(&[scores], &filled, &maps, &iterators, |b, x| {
        let is_greater = b.cmpf(FloatPredicate::OrderedGreater, x[0], x[1]);
        let index = b.iteration(2);
        let index = b.index_cast(index, Element::I64);
        let index = b.trunci(index, Element::I32);
        vec![b.select(is_greater, x[0], x[1]), b.select(is_greater, index, x[2])]
    });
    let Some(best) = results.get(1).copied() else { return invalid("there are no scores") };
    Ok(State { scores, best })
}

/// Returns whether any class has a box left.
fn is_any(cx: &mut Context, best: Value) -> Value {
    let none = cx.b.int(-1, Element::I32);
    let filled = cx.b.fill(none, &[]);
    let maps = [Map::identity(2), Map::of(2, &[])];
    let greatest = cx.b.generic_single(&[best], filled, &maps, &[Iterator::Reduction; 2], |b, x| b.maxsi(x[0], x[1]));
    let greatest = cx.b.extract(greatest, &[]);
    let zero = cx.b.int(0, Element::I32);
    cx.b.cmpi(IntPredicate::SignedGreaterEqual, greatest, zero)
}

/// Gives the selected boxes, and those that overlap with them, the lowest score.
fn suppressed(cx: &mut Context, selection: &Selection, scores: Value, best: Value) -> Value {
    let empty_extents = cx.b.extents(scores);
    let empty = cx.b.empty(&empty_extents, Element::F32);
    let mut operands = vec![scores, best];
    let mut maps = vec![Map::identity(3), Map::of(3, &[0, 1])];
    for edge in &selection.edges {
        operands.push(*edge);
        maps.push(Map::of(3, &[0, 2]));
    }
    maps.push(Map::identity(3));
    cx.b.generic_single(&operands, empty, &maps, &[Iterator::Parallel; 3], |b, x| {
        let zero = b.int(0, Element::I32);
        let (batch, current) = (b.iteration(0), b.iteration(2));
        let within = b.maxsi(x[1], zero);
        let selected = b.index_cast(within, Element::Index);
        let own: Vec<Value> = x.iter().skip(2).take(5).copied().collect();
        let other: Vec<Value> = selection.edges.iter().map(|edge| b.extract(*edge, &[batch, selected])).collect();
        let overlaps = overlaps(b, &own, &other, selection.threshold);
        let is_itself = b.cmpi(IntPredicate::Equal, current, selected);
        let is_removed = b.ori(overlaps, is_itself);
        let lowest = b.float(f64::NEG_INFINITY, Element::F32);
        b.select(is_removed, lowest, x[0])
    })
}

/// Returns whether the intersection of two boxes is more than a part of their union. A box without an area overlaps with none.
fn overlaps(b: &mut Builder, own: &[Value], other: &[Value], threshold: Value) -> Value {
    let zero = b.float(0.0, Element::F32);
    let (left, top) = (b.maximumf(own[0], other[0]), b.maximumf(own[1], other[1]));
    let (right, bottom) = (b.minimumf(own[2], other[2]), b.minimumf(own[3], other[3]));
    let (width, height) = (b.subf(right, left), b.subf(bottom, top));
    let area = b.mulf(width, height);
    let sum = b.addf(own[4], other[4]);
    let union = b.subf(sum, area);
    let quotient = b.divf(area, union);
    let mut result = b.cmpf(FloatPredicate::OrderedGreater, quotient, threshold);
    for positive in [width, height, area, own[4], other[4], union] {
        let is_positive = b.cmpf(FloatPredicate::OrderedGreater, positive, zero);
        result = b.andi(result, is_positive);
    }
    result
}

/// Lists the selected boxes as rows of batch, class and box.
fn listed(cx: &mut Context, selection: &Selection, chosen: &Tensor, steps: &Dim) -> Result<Tensor> {
    let pairs = selection.batches.times(&selection.classes);
    let chosen = cx.reshape(chosen, &[steps.clone(), pairs.clone()])?;
    let flags = cx.map(&[&chosen], DataType::I64, |b, x| {
        let (zero, one) = (b.int(0, Element::I64), b.int(1, Element::I64));
        let none = b.int(0, Element::I32);
        let is_chosen = b.cmpi(IntPredicate::SignedGreaterEqual, x[0], none);
        b.select(is_chosen, one, zero)
    })?;
    let zero = Scalar::Int(Dim::constant(0));
    let counts = cx.reduce(&flags, &[0], DataType::I64, zero.clone(), |b, x, sum| b.addi(x, sum))?;
    let total = cx.reduce(&counts, &[0], DataType::I64, zero, |b, x, sum| b.addi(x, sum))?;
    let total = match &cx.integers(&total)?[..] {
        [total] => total.clone(),
        _ => return invalid("there is no number of selected boxes"),
    };
    let ends = ends(cx, &counts, &pairs)?;
    let owner = owners(cx, &ends, &total, &pairs)?;
    let [chosen, counts, ends, owner] = [&chosen, &counts, &ends, &owner].map(|tensor| cx.value(tensor));
    let (chosen, counts, ends, owner) = (chosen?, counts?, ends?, owner?);
    let (classes, pairs, steps) = (cx.index(&selection.classes), cx.index(&pairs), cx.index(steps));
    cx.generate(&[total, Dim::constant(3)], DataType::I64, |b, at| {
        let pair = b.extract(owner, &[at[0]]);
        let pair = clamped(b, pair, pairs);
        let (end, count) = (b.extract(ends, &[pair]), b.extract(counts, &[pair]));
        let start = b.subi(end, count);
        let row = b.index_cast(at[0], Element::I64);
        let step = b.subi(row, start);
        let step = clamped(b, step, steps);
        let chosen = b.extract(chosen, &[step, pair]);
        let chosen = b.extsi(chosen, Element::I64);
        let (batch, class) = (b.divui(pair, classes), b.remui(pair, classes));
        let (batch, class) = (b.index_cast(batch, Element::I64), b.index_cast(class, Element::I64));
        let (zero, one) = (b.index(0), b.index(1));
        let is_first = b.cmpi(IntPredicate::Equal, at[1], zero);
        let is_second = b.cmpi(IntPredicate::Equal, at[1], one);
        let later = b.select(is_second, class, chosen);
        b.select(is_first, batch, later)
    })
}

/// Sums up numbers to each position, which is included.
fn ends(cx: &mut Context, counts: &Tensor, pairs: &Dim) -> Result<Tensor> {
    let value = cx.value(counts)?;
    let zero = cx.b.int(0, Element::I64);
    let extents = cx.extents(std::slice::from_ref(pairs));
    let filled = cx.b.fill(zero, &extents);
    let maps = [Map::of(2, &[1]), Map::of(2, &[0])];
    let result = cx.b.generic_single(&[value], filled, &maps, &[Iterator::Parallel, Iterator::Reduction], |b, x| {
        let (to, from) = (b.iteration(0), b.iteration(1));
        let is_before = b.cmpi(IntPredicate::UnsignedLessEqual, from, to);
        let sum = b.addi(x[0], x[1]);
        b.select(is_before, sum, x[1])
    });
    cx.tensor(result, DataType::I64, vec![pairs.clone()])
}

/// Finds the pair of batch and class of each row: the number of pairs that end before it.
fn owners(cx: &mut Context, ends: &Tensor, total: &Dim, pairs: &Dim) -> Result<Tensor> {
    let value = cx.value(ends)?;
    cx.check_shape(DataType::I64, &[total.clone(), pairs.clone()])?;
    let zero = cx.b.int(0, Element::I64);
    let extents = cx.extents(std::slice::from_ref(total));
    let filled = cx.b.fill(zero, &extents);
    let maps = [Map::of(2, &[1]), Map::of(2, &[0])];
    let result = cx.b.generic_single(&[value], filled, &maps, &[Iterator::Parallel, Iterator::Reduction], |b, x| {
        let row = b.iteration(0);
        let row = b.index_cast(row, Element::I64);
        let is_before = b.cmpi(IntPredicate::SignedLessEqual, x[0], row);
        let one = b.int(1, Element::I64);
        let next = b.addi(x[1], one);
        b.select(is_before, next, x[1])
    });
    cx.tensor(result, DataType::I64, vec![total.clone()])
}

/// Converts a number to an index below an extent.
fn clamped(b: &mut Builder, number: Value, extent: Value) -> Value {
    let within = clamped_integer(b, number, extent);
    b.index_cast(within, Element::Index)
}
