//! Loops whose state are tensors: unrolled where all is known, else `scf.for` or `scf.while`.

use incarnate_bytecode::Result;
use incarnate_mlir::{Element, Extent, IntPredicate, Region, Type, Value};

use super::branches::type_of_known;
use super::items::{check_alike, has_unknown, tensors, with_tensors};
use super::{condition, known};
use crate::context::Context;
use crate::dim::Dim;
use crate::import::Import;
use crate::node::{invalid, unsupported};
use crate::tensor::{Item, Tensor};

/// The most nodes that a loop becomes if it is unrolled without need.
const UNROLLED: usize = 64;
/// The most nodes that a loop becomes that carries sequences, which only unrolled loops do.
const UNROLLED_SEQUENCES: usize = 1 << 14;
/// The most rows of a scan output for which memory is allocated before a loop that may end sooner.
const ROWS: i64 = 1 << 12;

/// What a loop does, but for its body.
pub(super) struct Plan {
    /// The greatest number of iterations, which is not negative; `None` if there is none.
    pub(super) trip: Option<Dim>,
    /// The number of rows of scan outputs, if those without an iteration are 0 in place of left out.
    pub(super) rows: Option<Dim>,
    /// The condition of the first iteration, if there is one.
    pub(super) condition: Option<Tensor>,
    /// For each scan output, whether the first iteration has the last row.
    pub(super) reversed: Vec<bool>,
    /// The number of nodes of the body.
    pub(super) nodes: usize,
}

/// What the body of a loop returns.
pub(super) struct Step {
    /// The condition of the next iteration, if there is one.
    pub(super) condition: Option<Tensor>,
    pub(super) carried: Vec<Item>,
    pub(super) scans: Vec<Item>,
}

/// What a loop returns.
pub(super) struct Finished {
    pub(super) carried: Vec<Item>,
    pub(super) scans: Vec<Item>,
}

/// Imports the body: gets the iteration and the carried items. It may be called several times.
pub(super) type Body<'b, 'm> = &'b mut dyn FnMut(&mut Import<'m>, &Dim, &[Item]) -> Result<Step>;

/// Imports a loop.
pub(super) fn run<'m>(import: &mut Import<'m>, plan: &Plan, initial: &[Item], body: Body<'_, 'm>) -> Result<Finished> {
    if let Some(finished) = unrolled(import, plan, initial, body)? {
        return Ok(finished);
    }
    let flat = tensors(initial);
    // Extents that differ from one iteration to the next: none at first, then those that are seen to.
    let mut varying: Vec<Vec<bool>> = flat.iter().map(|tensor| vec![false; tensor.rank()]).collect();
    let mut first_errors = None;
    loop {
        let checkpoint = import.checkpoint();
        match attempt(import, plan, initial, &flat, &varying, body)? {
            Attempt::Finished(finished) if !import.has_failed(&checkpoint) => {
                import.keep(&checkpoint);
                return Ok(finished);
            }
            Attempt::Varying(wider) => {
                import.restore(&checkpoint);
                varying = wider;
            }
            Attempt::Finished(_) | Attempt::Unknown => {
                let errors = import.restore(&checkpoint);
                let is_all = varying.iter().flatten().all(|varies| *varies);
                let is_first = first_errors.is_none() && !errors.is_empty();
                let reported = first_errors.get_or_insert(errors);
                if !is_first || is_all {
                    import.report(core::mem::take(reported));
                    let carried = vec![Item::Unknown; initial.len()];
                    return Ok(Finished { carried, scans: vec![Item::Unknown; plan.reversed.len()] });
                }
                varying.iter_mut().flatten().for_each(|varies| *varies = true);
            }
        }
    }
}

/// Imports the iterations one behind the other; `None` if their number is not known, or too large.
fn unrolled<'m>(
    import: &mut Import<'m>,
    plan: &Plan,
    initial: &[Item],
    body: Body<'_, 'm>,
) -> Result<Option<Finished>> {
    let trip = plan.trip.as_ref().map(Dim::as_constant);
    let is_needed = initial.iter().any(|item| !matches!(item, Item::Tensor(_)));
    let limit = if is_needed { UNROLLED_SEQUENCES } else { UNROLLED };
    let allowed = i64::try_from(limit / plan.nodes.max(1)).unwrap_or(1).max(1);
    let begins = plan.condition.as_ref().map(|condition| known(&import.cx, condition)).transpose()?;
    let is_bounded = match (trip, begins) {
        // The condition may become false sooner.
        (Some(Some(trip)), _) => trip <= allowed || plan.condition.is_some(),
        (None, _) => plan.condition.is_some(),
        (Some(None), _) => false,
    };
    if !is_bounded || begins == Some(None) || plan.rows != plan.trip && plan.rows.is_some() {
        return Ok(None);
    }
    let checkpoint = import.checkpoint();
    let last = trip.flatten().unwrap_or(i64::MAX);
    let mut carried = initial.to_vec();
    let mut rows: Vec<Vec<Item>> = vec![Vec::new(); plan.reversed.len()];
    let mut goes_on = begins.flatten() != Some(false);
    let mut iteration = 0;
    while goes_on && iteration < last {
        let step = body(import, &Dim::constant(iteration), &carried)?;
        iteration += 1;
        let next = step.condition.as_ref().map(|condition| known(&import.cx, condition)).transpose()?;
        let is_unknown = next == Some(None) || has_unknown(&step.carried) || has_unknown(&step.scans);
        goes_on = next.flatten() != Some(false);
        if is_unknown && iteration < last
            || import.has_failed(&checkpoint)
            || iteration >= allowed && goes_on && iteration < last
        {
            import.restore(&checkpoint);
            return Ok(None);
        }
        carried = step.carried;
        for (list, item) in rows.iter_mut().zip(step.scans) {
            list.push(item);
        }
    }
    if iteration == 0 && !rows.is_empty() {
        import.restore(&checkpoint);
        return Ok(None);
    }
    let mut scans = Vec::new();
    for (mut list, is_reversed) in rows.into_iter().zip(&plan.reversed) {
        if *is_reversed {
            list.reverse();
        }
        scans.push(stacked(import, &list)?);
    }
    import.keep(&checkpoint);
    Ok(Some(Finished { carried, scans }))
}

/// Joins tensors along a new first dimension.
fn stacked(import: &mut Import<'_>, list: &[Item]) -> Result<Item> {
    let mut parts = Vec::new();
    for item in list {
        match item {
            Item::Tensor(tensor) => parts.push(import.cx.unsqueeze(tensor, &[0])?),
            Item::Unknown => return Ok(Item::Unknown),
            Item::Sequence(..) | Item::Nothing => return invalid("a scan output is no tensor"),
        }
    }
    let parts: Vec<&Tensor> = parts.iter().collect();
    Ok(Item::Tensor(import.cx.concat(&parts, 0)?))
}

enum Attempt {
    Finished(Finished),
    /// More extents differ from one iteration to the next.
    Varying(Vec<Vec<bool>>),
    /// A node could not be imported.
    Unknown,
}

/// A scan output as it grows.
struct Scan {
    tensor: Tensor,
    /// The extents of a row that are known before the loop.
    row: Vec<Option<Dim>>,
    /// Whether the tensor has all rows from the beginning; else each iteration makes it longer.
    is_whole: bool,
    /// The tensor at the beginning of an iteration.
    argument: Value,
}

/// The body of a loop, whose region is closed.
struct Emitted {
    region: Region,
    /// The values at the beginning of an iteration, and those at its end.
    arguments: Vec<Value>,
    next: Vec<Value>,
    shapes: Vec<Vec<Option<Dim>>>,
    scans: Vec<Scan>,
    /// The condition of the next iteration; `None` if it is true.
    condition: Option<Value>,
}

/// Imports a loop for which it is assumed which extents vary.
fn attempt<'m>(
    import: &mut Import<'m>,
    plan: &Plan,
    initial: &[Item],
    flat: &[Tensor],
    varying: &[Vec<bool>],
    body: Body<'_, 'm>,
) -> Result<Attempt> {
    for dim in plan.trip.iter().chain(&plan.rows) {
        import.cx.index(dim);
    }
    let outer = import.cx.symbol_count();
    let induction = import.cx.b.argument(Type::Scalar(Element::Index));
    let iteration = import.cx.symbol("iteration", induction);
    import.cx.open_region();
    let (mut arguments, mut own, mut shapes) = (Vec::new(), Vec::new(), Vec::new());
    for (tensor, varies) in flat.iter().zip(varying) {
        let shape: Vec<Option<Dim>> =
            tensor.shape.iter().zip(varies).map(|(dim, varies)| (!varies).then(|| dim.clone())).collect();
        let argument = import.cx.b.argument(type_of_known(tensor, &shape));
        own.push(import.cx.partly_measured(argument, tensor.ty, &shape)?);
        arguments.push(argument);
        shapes.push(shape);
    }
    let step = body(import, &iteration, &with_tensors(initial, &mut own.into_iter()))?;
    if step.condition.is_none() && plan.condition.is_some() || has_unknown(&step.carried) || has_unknown(&step.scans) {
        return Ok(Attempt::Unknown);
    }
    for (index, (a, b)) in initial.iter().zip(&step.carried).enumerate() {
        check_alike(a, b, &format!("the carried value {index}"))?;
    }
    let next = tensors(&step.carried);
    let mut wider = varying.to_vec();
    for (list, (shape, tensor)) in wider.iter_mut().zip(shapes.iter().zip(&next)) {
        for (varies, (assumed, dim)) in list.iter_mut().zip(shape.iter().zip(&tensor.shape)) {
            *varies = assumed.as_ref().is_none_or(|assumed| assumed != dim);
        }
    }
    if wider != varying {
        return Ok(Attempt::Varying(wider));
    }
    let goes_on = match &step.condition {
        Some(tensor) if known(&import.cx, tensor)? != Some(true) => Some(condition(&mut import.cx, tensor)?),
        _ => None,
    };
    let mut values = Vec::new();
    for (tensor, argument) in next.iter().zip(&arguments) {
        let value = import.cx.value(tensor)?;
        let ty = import.cx.b.type_of(*argument).clone();
        values.push(import.cx.b.cast_to(value, &ty));
    }
    let is_bounded =
        goes_on.is_none() || plan.trip.as_ref().and_then(Dim::as_constant).is_some_and(|trip| trip <= ROWS);
    let mut scans = Vec::new();
    for (index, item) in step.scans.iter().enumerate() {
        let Item::Tensor(tensor) = item else { return invalid(format!("the scan output {index} is no tensor")) };
        let is_reversed = plan.reversed.get(index).is_some_and(|reversed| *reversed);
        let (scan, value) = append(import, plan, tensor, (outer, is_bounded, is_reversed), &iteration)?;
        arguments.push(scan.argument);
        values.push(value);
        scans.push(scan);
    }
    let region = import.cx.close_region();
    let emitted = Emitted { region, arguments, next: values, shapes, scans, condition: goes_on };
    let (trips, results) = emit(import, plan, flat, induction, emitted)?;
    finish(import, plan, initial, flat, trips, results).map(Attempt::Finished)
}

/// Puts a row into a scan output, within the body: returns the output at the end of the iteration.
fn append(
    import: &mut Import<'_>,
    plan: &Plan,
    tensor: &Tensor,
    (outer, is_bounded, is_reversed): (u32, bool, bool),
    iteration: &Dim,
) -> Result<(Scan, Value)> {
    let cx = &mut import.cx;
    let row: Vec<Option<Dim>> =
        tensor.shape.iter().map(|dim| Some(dim).filter(|dim| dim.is_below(outer)).cloned()).collect();
    let count = plan.rows.as_ref().or(plan.trip.as_ref());
    let whole = count.filter(|_| is_bounded && row.iter().all(Option::is_some));
    if whole.is_none() && (is_reversed || plan.rows.is_some()) {
        return unsupported("a scan output whose rows have extents that the iterations decide");
    }
    let mut shape = vec![whole.cloned()];
    shape.extend(row.iter().cloned());
    let extents = shape.iter().map(|dim| u64::try_from(dim.as_ref()?.as_constant()?).ok());
    let ty = Type::Tensor { extents: extents.collect(), element: tensor.ty.element() };
    let argument = cx.b.argument(ty.clone());
    let value = cx.value(tensor)?;
    let one = Dim::constant(1);
    let position = match whole {
        Some(rows) if is_reversed => rows.minus(&one).minus(iteration),
        _ => iteration.clone(),
    };
    let zeros = vec![Extent::Constant(0); tensor.rank()];
    let with = |first: Extent, rest: &[Extent]| [&[first], rest].concat();
    let sizes = cx.extents(&tensor.shape);
    let strides = vec![Extent::Constant(1); tensor.rank() + 1];
    let mut into = argument;
    if whole.is_none() {
        let (length, longer) = (cx.extent(iteration), cx.extent(&iteration.plus(&one)));
        let empty = cx.b.empty(&with(longer, &sizes), tensor.ty.element());
        let old = with(length, &sizes);
        into = cx.b.insert_slice(argument, empty, &with(Extent::Constant(0), &zeros), &old, &strides, &[]);
    }
    let offset = cx.extent(&position);
    let sizes = with(Extent::Constant(1), &sizes);
    let grown = cx.b.insert_slice(value, into, &with(offset, &zeros), &sizes, &strides, &[0]);
    let grown = cx.b.cast_to(grown, &ty);
    Ok((Scan { tensor: tensor.clone(), row, is_whole: whole.is_some(), argument }, grown))
}

/// What is left of a loop behind it.
struct Results {
    values: Vec<Value>,
    shapes: Vec<Vec<Option<Dim>>>,
    scans: Vec<Scan>,
}

/// Emits the operation. Returns the number of iterations, too.
fn emit(
    import: &mut Import<'_>,
    plan: &Plan,
    flat: &[Tensor],
    induction: Value,
    emitted: Emitted,
) -> Result<(Dim, Results)> {
    let mut initial = Vec::new();
    for tensor in flat {
        initial.push(import.cx.value(tensor)?);
    }
    for scan in &emitted.scans {
        initial.push(empty(import, plan, scan)?);
    }
    let cx = &mut import.cx;
    for (value, argument) in initial.iter_mut().zip(&emitted.arguments) {
        let ty = cx.b.type_of(*argument).clone();
        *value = cx.b.cast_to(*value, &ty);
    }
    let Emitted { mut region, arguments, mut next, shapes, scans, condition: goes_on } = emitted;
    let (zero, one) = (cx.b.index(0), cx.b.index(1));
    let (last, trip) = limit(cx, plan, zero)?;
    // The compiler takes the carried extents of `scf.for` for those before the loop, and fails on those of nested ones.
    let is_static = arguments
        .iter()
        .all(|argument| cx.b.type_of(*argument).extents().is_some_and(|all| all.iter().all(Option::is_some)));
    let is_steady = shapes.iter().flatten().all(Option::is_some) && scans.iter().all(|scan| scan.is_whole) && is_static;
    if let Some(trip) = trip.clone().filter(|_| goes_on.is_none() && is_steady) {
        let values = cx.b.scf_for((zero, last, one), induction, &arguments, &initial, (region, next));
        return Ok((trip, Results { values, shapes, scans }));
    }
    if goes_on.is_none() && plan.trip.is_none() {
        return invalid("the condition is always true, and there is no number of iterations: the loop has no end");
    }
    let varying = varying(&shapes, &scans);
    for (value, _) in initial.iter_mut().zip(&varying).filter(|(_, varies)| **varies) {
        *value = cx.b.with_opaque_extents(*value);
    }
    // Where a condition may end the loop, the state has the number of iterations, which becomes that of those done. The compiler fails
    // where the regions have different arguments, which they get if an extent is the same after each iteration, and not before.
    let index = Type::Scalar(Element::Index);
    let mut after = vec![induction];
    let mut state = vec![zero];
    let mut bound = last;
    if goes_on.is_some() {
        bound = cx.b.argument(index.clone());
        after.push(bound);
        state.push(last);
    }
    let count = after.len();
    after.extend(&arguments);
    state.extend(initial);
    let mut before = Vec::new();
    for argument in &after {
        let ty = cx.b.type_of(*argument).clone();
        before.push(cx.b.argument(ty));
    }
    cx.open_region();
    let limit = if goes_on.is_some() { before.get(1).copied().unwrap_or(last) } else { last };
    let is_within = cx.b.cmpi(IntPredicate::SignedLess, before.first().copied().unwrap_or(zero), limit);
    let test = (cx.close_region(), is_within, before.clone());
    let following = cx.b.append_to(&mut region, |b| {
        for (value, _) in next.iter_mut().zip(&varying).filter(|(_, varies)| **varies) {
            *value = b.with_opaque_extents(*value);
        }
        let one = b.index(1);
        let following = b.addi(induction, one);
        let bound = goes_on.map(|goes_on| b.select(goes_on, bound, following));
        core::iter::once(following).chain(bound).collect::<Vec<Value>>()
    });
    next.splice(0..0, following);
    let values = cx.b.scf_while(&before, &state, test, &after, (region, next));
    let done = values.first().copied().unwrap_or(zero);
    let done = trip.filter(|_| goes_on.is_none()).unwrap_or_else(|| cx.symbol("iterations", done));
    Ok((done, Results { values: values.get(count..).unwrap_or_default().to_vec(), shapes, scans }))
}

/// Returns which of the carried values and the scan outputs have other extents in each iteration.
fn varying(shapes: &[Vec<Option<Dim>>], scans: &[Scan]) -> Vec<bool> {
    let carried = shapes.iter().map(|shape| shape.iter().any(Option::is_none));
    carried.chain(scans.iter().map(|scan| !scan.is_whole)).collect()
}

/// Returns the number of iterations, unless a condition ends the loop sooner; there is none if the first condition is false.
fn limit(cx: &mut Context, plan: &Plan, zero: Value) -> Result<(Value, Option<Dim>)> {
    let last = match &plan.trip {
        Some(trip) => cx.index(trip),
        None => cx.b.index(i64::MAX),
    };
    match &plan.condition {
        Some(tensor) if known(cx, tensor)? != Some(true) => {
            let first = condition(cx, tensor)?;
            let last = cx.b.select(first, last, zero);
            Ok((last, plan.trip.is_some().then(|| cx.symbol("iterations", last))))
        }
        _ => Ok((last, plan.trip.clone())),
    }
}

/// A scan output before the loop.
fn empty(import: &mut Import<'_>, plan: &Plan, scan: &Scan) -> Result<Value> {
    let cx = &mut import.cx;
    let element = scan.tensor.ty.element();
    let zero = Dim::constant(0);
    let rows = plan.rows.as_ref().or(plan.trip.as_ref()).filter(|_| scan.is_whole).unwrap_or(&zero);
    let mut shape = vec![rows.clone()];
    shape.extend(scan.row.iter().map(|dim| dim.clone().unwrap_or_else(|| zero.clone())));
    cx.check_shape(scan.tensor.ty, &shape)?;
    let extents = cx.extents(&shape);
    if plan.rows.is_none() {
        return Ok(cx.b.empty(&extents, element));
    }
    let value = if element.is_float() { cx.b.float(0.0, element) } else { cx.b.int(0, element) };
    Ok(cx.b.fill(value, &extents))
}

/// Wraps what a loop returns.
fn finish(
    import: &mut Import<'_>,
    plan: &Plan,
    initial: &[Item],
    flat: &[Tensor],
    trips: Dim,
    results: Results,
) -> Result<Finished> {
    let cx = &mut import.cx;
    let mut values = results.values.into_iter();
    let mut carried = Vec::new();
    for ((tensor, shape), value) in flat.iter().zip(&results.shapes).zip(&mut values) {
        carried.push(cx.partly_measured(value, tensor.ty, shape)?);
    }
    let mut scans = Vec::new();
    for (scan, value) in results.scans.iter().zip(values) {
        let ty = scan.tensor.ty;
        let rows = plan.rows.as_ref().or(plan.trip.as_ref());
        let mut shape = vec![Some(trips.clone())];
        if let Some(rows) = rows.filter(|_| scan.is_whole) {
            shape = vec![Some(rows.clone())];
        }
        shape.extend(scan.row.iter().cloned());
        let tensor = cx.partly_measured(value, ty, &shape)?;
        let is_cut = scan.is_whole && plan.rows.is_none() && tensor.shape.first() != Some(&trips);
        // As in ONNX Runtime, what a loop without an iteration scans has an extent of 0 where the extent of a row is no constant.
        let is_bare = plan.condition.is_some() && !trips.minus(&Dim::constant(1)).is_nonnegative();
        let mut shape = tensor.shape.clone();
        if let Some((first, rest)) = shape.split_first_mut() {
            *first = if is_cut { trips.clone() } else { first.clone() };
            let factor = trips.at_most(&Dim::constant(1));
            rest.iter_mut()
                .filter(|dim| is_bare && dim.as_constant().is_none())
                .for_each(|dim| *dim = dim.times(&factor));
        }
        scans.push(Item::Tensor(with_shape(cx, tensor, shape, is_cut)?));
    }
    Ok(Finished { carried: with_tensors(initial, &mut carried.into_iter()), scans })
}

/// Returns the first elements of a tensor, or all, as a tensor of another shape.
fn with_shape(cx: &mut Context, tensor: Tensor, shape: Vec<Dim>, is_cut: bool) -> Result<Tensor> {
    if shape == tensor.shape {
        return Ok(tensor);
    }
    if Dim::product(&shape).is(0) {
        return Ok(Tensor::of_elements(tensor.ty, shape, Vec::new()));
    }
    if is_cut {
        let (zeros, ones) = (vec![Dim::constant(0); shape.len()], vec![1; shape.len()]);
        return cx.slice(&tensor, &zeros, &shape, &ones);
    }
    let value = cx.value(&tensor)?;
    let own = tensor.mlir_type();
    let value = cx.b.cast_to(value, &own);
    let dynamic: Vec<Value> = shape.iter().filter(|dim| dim.as_constant().is_none()).map(|dim| cx.index(dim)).collect();
    let value = cx.b.with_extents(value, &dynamic);
    cx.tensor(value, tensor.ty, shape)
}
