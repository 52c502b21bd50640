//! Positions and lengths that are data.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Element, IntPredicate, Value};

use crate::context::Context;
use crate::dim::Dim;
use crate::node::invalid;
use crate::tensor::{Scalar, Tensor};

/// Returns the element of a tensor of integers that has one.
pub(super) fn integer(cx: &mut Context, tensor: &Tensor, name: &str) -> Result<Dim> {
    match cx.integers(tensor)?.as_slice() {
        [only] => Ok(only.clone()),
        several => invalid(format!("`{name}` has {} elements, and one is expected", several.len())),
    }
}

/// Returns the element of a tensor that has one, as the type of the tensor has it.
pub(super) fn element(cx: &mut Context, tensor: &Tensor, name: &str) -> Result<Value> {
    if let Some([only]) = cx.elements(tensor)?.as_deref().map(Vec::as_slice) {
        return cx.scalar(only, tensor.ty);
    }
    if !tensor.count().is(1) {
        return invalid(format!(
            "`{name}` has the shape {}, and one element is expected",
            cx.shape_text(&tensor.shape)
        ));
    }
    let value = cx.value(tensor)?;
    let zero = cx.b.index(0);
    Ok(cx.b.extract(value, &vec![zero; tensor.rank()]))
}

/// Converts an element of a tensor of integers to an index.
pub(super) fn index_of(b: &mut Builder, element: Value, is_unsigned: bool) -> Value {
    if is_unsigned { b.index_castui(element, Element::Index) } else { b.index_cast(element, Element::Index) }
}

/// Adds the extent to a position that is negative.
pub(super) fn counted(b: &mut Builder, position: Value, extent: Value) -> Value {
    let zero = b.index(0);
    let is_negative = b.cmpi(IntPredicate::SignedLess, position, zero);
    let from_end = b.addi(position, extent);
    b.select(is_negative, from_end, position)
}

/// Returns a position within an extent, which has elements: negative ones count from its end, and the others are clamped.
pub(super) fn within(b: &mut Builder, position: Value, extent: Value) -> Value {
    let counted = counted(b, position, extent);
    clamped(b, counted, extent)
}

/// Clamps a position to an extent, which has elements.
pub(super) fn clamped(b: &mut Builder, position: Value, extent: Value) -> Value {
    let (zero, one) = (b.index(0), b.index(1));
    let last = b.subi(extent, one);
    let low = b.maxsi(position, zero);
    b.minsi(low, last)
}

/// Clamps an integer of 64 bits to the positions of an extent, which is of type `index`.
pub(super) fn clamped_integer(b: &mut Builder, number: Value, extent: Value) -> Value {
    let extent = b.index_cast(extent, Element::I64);
    let (zero, one) = (b.int(0, Element::I64), b.int(1, Element::I64));
    let last = b.subi(extent, one);
    let lesser = b.minsi(number, last);
    b.maxsi(lesser, zero)
}

/// Returns the position of a known element within a known extent, counted from its end if it is negative.
pub(super) fn known_position(element: &Scalar, extent: i64) -> Option<i64> {
    let position = element.as_int()?.as_constant()?;
    let counted = if position < 0 { position.checked_add(extent)? } else { position };
    (0..extent).contains(&counted).then_some(counted)
}

/// Returns the extents that are left when one is removed, and others stand in its place.
pub(super) fn replaced(shape: &[Dim], axis: usize, others: &[Dim]) -> Vec<Dim> {
    let before = shape.iter().take(axis);
    let behind = shape.iter().skip(axis.saturating_add(1));
    before.chain(others).chain(behind).cloned().collect()
}
