//! A recurrence whose steps are one dispatch.
//!
//! On the host, a step is a few dispatches, copies and allocations, which take longer than the arithmetic of a small state. Within a dispatch,
//! states are rows of tensors that the loop carries: a step reads one row and writes the next, so that code generation needs no copies.
//! Three facts of IREE 3.13 shape this form. States that the loop carries as tensors of their own are not bufferised in place. Without a lowering
//! configuration, code generation divides the product among workgroups within the loop, and the result is wrong. Dimensions of extent 1
//! within the dispatch do not compile, so that one sequence has no batch dimension there.

use core::slice;

use incarnate_bytecode::Result;
use incarnate_mlir::{Extent, Kernel, Value};

use super::{Body, Direction, Recurrence, put, repeated, with_values};
use crate::context::Context;
use crate::dim::Dim;
use crate::node::invalid;
use crate::tensor::{Data, Tensor};

/// The most products of a step. 65,536 take 6 us on one core of an EPYC with AVX2, and what is beside them on the host 1.6 us (`bench --profile` of
/// an LSTM of 128 elements, translated): beyond four times that number a step gains less than 7 %, and dispatches of their own can be divided among
/// workers.
const MOST_PRODUCTS: i64 = 1 << 18;

impl Recurrence {
    /// Whether all steps are one dispatch, of the extents S, D, B and H.
    pub(super) fn is_one_dispatch(&self, cx: &Context, [steps, _, batch, hidden]: &[Dim; 4]) -> bool {
        let (Some(batch), Some(hidden)) = (batch.as_constant(), hidden.as_constant()) else { return false };
        let products = [batch, hidden, hidden, self.kind.gates()].into_iter().try_fold(1i64, i64::checked_mul);
        let is_small = products.is_some_and(|products| products <= MOST_PRODUCTS);
        cx.is_portable && self.scales.is_none() && !steps.is(1) && batch > 0 && hidden > 1 && is_small
    }

    /// Does as [`Recurrence::repeat`] does.
    pub(super) fn repeat_in_dispatch(
        &self,
        cx: &mut Context,
        direction: &mut Direction,
        shape: &[Dim; 4],
        sequence: Option<Value>,
    ) -> Result<(Option<Value>, Vec<Tensor>)> {
        let [steps, directions, batch, hidden] = shape;
        let own: Vec<Dim> = if batch.is(1) { vec![hidden.clone()] } else { vec![batch.clone(), hidden.clone()] };
        self.hold(cx, direction, &own)?;
        let states = self.first_states(cx, direction, &own, None)?;
        let states: Vec<Tensor> = states.iter().map(|state| separated(cx, state)).collect::<Result<_>>()?;
        let rows_shape = [&[steps.plus(&Dim::constant(1))], &*own].concat();
        let rows = self.dispatch(cx, direction, steps, (&states, &rows_shape))?;
        // A step at position `p` goes from row `p` to `p + 1`, or back.
        let (first, last) = if direction.is_reverse { (0, Dim::constant(0)) } else { (1, steps.clone()) };
        let mut ends = Vec::new();
        for rows in &rows {
            let end = cx.slice_axis(rows, 0, &last, &Dim::constant(1))?;
            ends.push(cx.reshape(&end, &[batch.clone(), hidden.clone()])?);
        }
        let (Some(sequence), Some(outputs)) = (sequence, rows.first()) else { return Ok((None, ends)) };
        let outputs = cx.slice_axis(outputs, 0, &Dim::constant(first), steps)?;
        let outputs = cx.reshape(&outputs, &[steps.clone(), Dim::constant(1), batch.clone(), hidden.clone()])?;
        let outputs = cx.value(&outputs)?;
        if directions.is(1) {
            return Ok((Some(outputs), ends));
        }
        let index = Extent::Constant(i64::try_from(direction.index).unwrap_or(0));
        let (zero, one) = (Extent::Constant(0), Extent::Constant(1));
        let mut sizes = cx.extents(shape);
        if let Some(size) = sizes.get_mut(1) {
            *size = one;
        }
        Ok((Some(cx.b.insert_slice(outputs, sequence, &[zero, index, zero, zero], &sizes, &[one; 4], &[])), ends))
    }

    /// Emits the dispatch. Returns the rows of each state.
    fn dispatch(
        &self,
        cx: &mut Context,
        direction: &Direction,
        steps: &Dim,
        (states, shape): (&[Tensor], &[Dim]),
    ) -> Result<Vec<Tensor>> {
        let row = |position: &Dim, is_next: bool| match is_next != direction.is_reverse {
            true => position.plus(&Dim::constant(1)),
            false => position.clone(),
        };
        let last = steps.minus(&Dim::constant(1));
        let position = |iteration: &Dim| if direction.is_reverse { last.minus(iteration) } else { iteration.clone() };
        let extents = cx.extents(shape);
        cx.open_region();
        let mut initial = Vec::new();
        for state in states {
            let empty = cx.b.empty(&extents, state.ty.element());
            initial.push(put(cx, state, empty, &[row(&position(&Dim::constant(0)), false)])?);
        }
        let mut body = |cx: &mut Context, iteration: &Dim, values: &[Value]| {
            let position = position(iteration);
            let mut products = Vec::new();
            for product in &direction.products {
                products.push(take_row(cx, product, &position)?);
            }
            let mut old = Vec::new();
            for rows in with_values(&rows_of(states, shape), values) {
                old.push(take_row(cx, &rows, &row(&position, false))?);
            }
            let (next, _) = direction.cell.step(cx, &products, &old, None)?;
            let target = [row(&position, true)];
            next.iter().zip(values).map(|(state, rows)| put(cx, state, *rows, &target)).collect()
        };
        let body: Body<'_> = &mut body;
        cx.b.set_in_dispatch(true);
        let values = repeated(cx, &Dim::constant(0), steps, initial, body);
        cx.b.set_in_dispatch(false);
        let values = values?;
        let region = cx.close_region();
        let results = cx.b.dispatch_region(&vec![extents; states.len()], (region, values));
        // Rows of a state that nothing else reads would be a buffer within the dispatch, of an extent that code generation must know.
        for rows in &results {
            cx.b.opaque(*rows);
        }
        Ok(with_values(&rows_of(states, shape), &results))
    }

    /// Gives the tensors of a direction values outside of the dispatch, and takes the batch of one sequence away.
    fn hold(&self, cx: &mut Context, direction: &mut Direction, own: &[Dim]) -> Result<()> {
        direction.cell.is_in_dispatch = true;
        for product in &mut direction.products {
            if let ([steps, _, width], [_]) = (&*product.shape, own) {
                let flat = [steps.clone(), width.clone()];
                *product = cx.reshape(product, &flat)?;
            }
            *product = separated(cx, product)?;
        }
        direction.cell.for_each_tensor(|tensor| {
            *tensor = held(cx, tensor)?;
            Ok(())
        })
    }
}

/// The product of a state with weights, added to another; the first of a step, or a further one.
pub(super) fn multiplied(cx: &mut Context, x: &Tensor, y: &Tensor, sum: &Tensor, is_first: bool) -> Result<Tensor> {
    let operands = [cx.value(x)?, cx.value(y)?];
    let value = cx.value(sum)?;
    let (kernel, loops) = if x.rank() == 1 { (Kernel::Vecmat, 2) } else { (Kernel::Matmul, 3) };
    let product = cx.b.whole_kernel(kernel, (operands, value), loops, is_first);
    cx.tensor(product, sum.ty, sum.shape.clone())
}

/// The rows of each state.
fn rows_of(states: &[Tensor], shape: &[Dim]) -> Vec<Tensor> {
    states.iter().map(|state| Tensor { shape: shape.into(), ..state.clone() }).collect()
}

/// A tensor as a value of the open region.
fn held(cx: &mut Context, tensor: &Tensor) -> Result<Tensor> {
    Ok(Tensor { data: Data::Value(cx.value(tensor)?), ..tensor.clone() })
}

/// A tensor that is computed before the dispatch. What it is computed from within would have a buffer of all rows of its own.
fn separated(cx: &mut Context, tensor: &Tensor) -> Result<Tensor> {
    let value = cx.value(tensor)?;
    Ok(Tensor { data: Data::Value(cx.b.barrier(value)), ..tensor.clone() })
}

/// A row of a tensor of rows.
fn take_row(cx: &mut Context, rows: &Tensor, position: &Dim) -> Result<Tensor> {
    let Some((_, shape)) = rows.shape.split_first() else { return invalid("a tensor of rows has no dimension") };
    let (zero, one) = (Extent::Constant(0), Extent::Constant(1));
    let offsets = [cx.extents(slice::from_ref(position)), vec![zero; shape.len()]].concat();
    let sizes = [vec![one], cx.extents(shape)].concat();
    let value = cx.value(rows)?;
    let row = cx.b.extract_slice(value, &offsets, &sizes, &vec![one; sizes.len()], &[0]);
    cx.tensor(row, rows.ty, shape.to_vec())
}
