//! Sequences, whose lengths are known when the model is imported, and optionals.

use std::rc::Rc;

use incarnate_bytecode::Result;

use super::gather::gather;
use super::slices::split_tensor;
use super::{Row, onnx};
use crate::context::Context;
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::node::{Node, Outputs, axis, data_type, invalid, one, unsupported};
use crate::tensor::{Item, Scalar, SequenceType, Tensor};

pub(super) const ROWS: &[Row] = &[
    onnx("SequenceConstruct", 11, |_, node| {
        let items: Vec<Item> = node.all_inputs()?.into_iter().cloned().map(Item::Tensor).collect();
        let ty = node.input(0)?.ty;
        Ok(vec![Item::Sequence(Rc::new(items), SequenceType(Some(ty)))])
    }),
    onnx("SequenceEmpty", 11, |_, node| {
        let ty = node.int("dtype").map_or(Ok(DataType::F32), data_type)?;
        Ok(vec![Item::Sequence(Rc::default(), SequenceType(Some(ty)))])
    }),
    onnx("SequenceInsert", 11, |cx, node| {
        let (items, ty) = sequence(node, 0)?;
        let tensor = node.input(1)?;
        let at = match position(cx, node, 2, items.len())? {
            Some(at) if at <= items.len() => at,
            Some(_) => return out_of_range(items.len()),
            None => items.len(),
        };
        let mut items = Vec::clone(items);
        items.insert(at, Item::Tensor(tensor.clone()));
        Ok(vec![Item::Sequence(Rc::new(items), SequenceType(ty.0.or(Some(tensor.ty))))])
    }),
    onnx("SequenceErase", 11, |cx, node| {
        let (items, ty) = sequence(node, 0)?;
        let at = match position(cx, node, 1, items.len())? {
            Some(at) => at,
            None => items.len().wrapping_sub(1),
        };
        if at >= items.len() {
            return out_of_range(items.len());
        }
        let mut items = Vec::clone(items);
        items.remove(at);
        Ok(vec![Item::Sequence(Rc::new(items), ty)])
    }),
    onnx("SequenceAt", 11, sequence_at),
    onnx("SequenceLength", 11, |_, node| {
        let (items, _) = sequence(node, 0)?;
        let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
        one(Tensor::of_elements(DataType::I64, Vec::new(), vec![Scalar::Int(Dim::constant(length))]))
    }),
    onnx("ConcatFromSequence", 11, |cx, node| {
        let tensors = tensors(node)?;
        let rank = tensors.first().map_or(0, |first| first.rank());
        if !node.flag("new_axis") {
            let axis = node.axis("axis", 0, rank)?;
            return one(cx.concat(&tensors, axis)?);
        }
        let axis = node.axis("axis", 0, rank + 1)?;
        one(stacked(cx, &tensors, axis)?)
    }),
    onnx("SplitToSequence", 11, split_to_sequence),
    onnx("Optional", 15, |_, node| Ok(vec![node.inputs.first().cloned().flatten().unwrap_or(Item::Nothing)])),
    onnx("OptionalGetElement", 15, |_, node| match node.inputs.first() {
        Some(Some(Item::Nothing)) | Some(None) | None => invalid("the optional has no value"),
        Some(Some(item)) => Ok(vec![item.clone()]),
    }),
    onnx("OptionalHasElement", 15, |_, node| {
        let has_element = !matches!(node.inputs.first(), Some(Some(Item::Nothing) | None) | None);
        let element = Scalar::Int(Dim::constant(i64::from(has_element)));
        one(Tensor::of_elements(DataType::Bool, Vec::new(), vec![element]))
    }),
];

/// Returns an input that is a sequence.
fn sequence<'n>(node: &'n Node<'_>, index: usize) -> Result<(&'n Rc<Vec<Item>>, SequenceType)> {
    match node.inputs.get(index) {
        Some(Some(Item::Sequence(items, ty))) => Ok((items, *ty)),
        _ => invalid(format!("the input {index} is no sequence")),
    }
}

/// Returns the tensors of the first input, which is a sequence.
fn tensors<'n>(node: &'n Node<'_>) -> Result<Vec<&'n Tensor>> {
    let (items, _) = sequence(node, 0)?;
    let tensors = items.iter().map(|item| match item {
        Item::Tensor(tensor) => Ok(tensor),
        _ => unsupported("a sequence of sequences"),
    });
    tensors.collect()
}

fn out_of_range<T>(length: usize) -> Result<T> {
    invalid(format!("the position is not within the sequence, whose length is {length}"))
}

/// Returns a position in a sequence, counted from its end if it is negative; `None` if there is no such input.
fn position(cx: &Context, node: &Node<'_>, index: usize, length: usize) -> Result<Option<usize>> {
    let Some(tensor) = node.optional(index)? else { return Ok(None) };
    let &[position] = cx.constant_integers(tensor, "position")?.as_slice() else {
        return invalid("the position has not one element");
    };
    let signed = i64::try_from(length).unwrap_or(i64::MAX);
    let counted = if position < 0 { position.saturating_add(signed) } else { position };
    usize::try_from(counted).map(Some).or_else(|_| out_of_range(length))
}

fn sequence_at(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let (items, _) = sequence(node, 0)?;
    let at = node.input(1)?;
    if cx.elements(at)?.is_some() {
        let at = position(cx, node, 1, items.len())?;
        return match at.and_then(|at| items.get(at)) {
            Some(item) => Ok(vec![item.clone()]),
            None => out_of_range(items.len()),
        };
    }
    // A position that is data chooses among tensors of one shape.
    let tensors = tensors(node)?;
    let is_alike = tensors.windows(2).all(|pair| pair[0].shape == pair[1].shape && pair[0].ty == pair[1].ty);
    if tensors.is_empty() || !is_alike {
        return unsupported("the position is no constant, and the tensors of the sequence have several shapes");
    }
    let all = stacked(cx, &tensors, 0)?;
    let at = cx.reshape(at, &[])?;
    one(gather(cx, &all, &at, 0)?)
}

/// Joins tensors along a new axis.
fn stacked(cx: &mut Context, tensors: &[&Tensor], axis: usize) -> Result<Tensor> {
    let parts: Vec<Tensor> = tensors.iter().map(|tensor| cx.unsqueeze(tensor, &[axis])).collect::<Result<_>>()?;
    cx.concat(&parts.iter().collect::<Vec<_>>(), axis)
}

fn split_to_sequence(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    /// The most tensors of a sequence.
    const LENGTH: i64 = 1 << 16;
    let x = node.input(0)?;
    let axis = axis(node.int_or("axis", 0), x.rank())?;
    let split = node.optional(1)?;
    let lengths = match split {
        Some(lengths) if lengths.rank() == 1 => cx.integers(lengths)?,
        _ => {
            let length = match split {
                Some(length) => cx.constant_integers(length, "split")?.first().copied().unwrap_or(1),
                None => 1,
            };
            let Some(extent) = x.shape.get(axis).and_then(Dim::as_constant) else {
                return unsupported("the length of the sequence is not known: --dim= or --shape= fixes it");
            };
            if length < 1 || extent / length > LENGTH {
                return invalid(format!("an extent of {extent} is split into parts of {length}"));
            }
            let starts = (0..(extent + length - 1) / length).map(|part| part * length);
            starts.map(|start| Dim::constant(length.min(extent - start))).collect()
        }
    };
    let drops_axis = split.is_none() && node.int_or("keepdims", 1) == 0;
    let mut items = Vec::new();
    for part in split_tensor(cx, x, axis, Some(lengths), 1)? {
        items.push(Item::Tensor(if drops_axis { cx.squeeze(&part, &[axis])? } else { part }));
    }
    Ok(vec![Item::Sequence(Rc::new(items), SequenceType(Some(x.ty)))])
}
