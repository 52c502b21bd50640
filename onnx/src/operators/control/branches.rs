//! `If`.

use std::rc::Rc;

use incarnate_bytecode::Result;
use incarnate_mlir::{Region, Type, Value};

use super::items::{check_alike, has_unknown, tensors, with_tensors};
use super::{condition, known};
use crate::dim::Dim;
use crate::import::Import;
use crate::node::{Node, Outputs};
use crate::proto;
use crate::tensor::{Data, Item, Tensor};

/// A branch whose region is closed.
struct Branch {
    items: Vec<Item>,
    /// The tensors of the items, and their values.
    tensors: Vec<Tensor>,
    values: Vec<Value>,
    region: Region,
}

/// `If`: a known condition imports one branch where the node stands.
pub(super) fn branch<'m>(import: &mut Import<'m>, node: &Node<'m>) -> Result<Outputs> {
    let tensor = node.input(0)?;
    let (then, otherwise) = (node.graph("then_branch")?, node.graph("else_branch")?);
    if let Some(known) = known(&import.cx, tensor)? {
        let name = if known { "then_branch" } else { "else_branch" };
        import
            .cx
            .remarks
            .push(format!("node `{}` (If): the condition is known, and `{name}` stands for the node", node.name));
        return import.graph(if known { then } else { otherwise }, Vec::new());
    }
    let condition = condition(&mut import.cx, tensor)?;
    let outer = import.cx.symbol_count();
    let graph = then;
    let then = imported(import, graph)?;
    let otherwise = imported(import, otherwise)?;
    if has_unknown(&then.items) || has_unknown(&otherwise.items) {
        return Ok(vec![Item::Unknown; node.output_count()]);
    }
    // As where PyTorch removes an extent if it is 1: what follows expects one rank, which is that behind the condition.
    if then.tensors.iter().zip(&otherwise.tensors).any(|(a, b)| a.rank() != b.rank()) {
        let reason = "its branches have results of different ranks, and `then_branch` alone is imported";
        import.cx.b.assert(condition, &format!("the condition of node `{}` (If) is false; {reason}", node.name));
        import
            .cx
            .remarks
            .push(format!("node `{}` (If): {reason}; a call fails where the condition is false", node.name));
        return import.graph(graph, Vec::new());
    }
    for (index, (a, b)) in then.items.iter().zip(&otherwise.items).enumerate() {
        check_alike(a, b, &format!("the output {index}, which depends on the condition,"))?;
    }
    joined(import, condition, then, otherwise, outer)
}

fn imported<'m>(import: &mut Import<'m>, graph: &'m proto::Graph) -> Result<Branch> {
    import.cx.open_region();
    let items = import.graph(graph, Vec::new())?;
    let tensors = tensors(&items);
    let values = tensors.iter().map(|tensor| import.cx.value(tensor)).collect::<Result<_>>()?;
    Ok(Branch { items, tensors, values, region: import.cx.close_region() })
}

/// Emits the operation. Extents that differ, or are known in a branch alone, are measured behind it.
fn joined(
    import: &mut Import<'_>,
    condition: Value,
    mut then: Branch,
    mut otherwise: Branch,
    outer: u32,
) -> Result<Outputs> {
    let cx = &mut import.cx;
    let (mut types, mut left, mut right) = (Vec::new(), Vec::new(), Vec::new());
    // For each tensor: itself if both branches have it, or the shape of a result.
    let mut results: Vec<Result<Tensor, Vec<Option<Dim>>>> = Vec::new();
    let pairs = then.tensors.iter().zip(&otherwise.tensors);
    for ((a, b), (x, y)) in pairs.zip(then.values.iter().zip(&otherwise.values)) {
        if is_same(a, b, outer) {
            results.push(Ok(a.clone()));
            continue;
        }
        let shape: Vec<Option<Dim>> = a
            .shape
            .iter()
            .zip(&b.shape)
            .map(|(a, b)| Some(a).filter(|a| *a == b && a.is_below(outer)).cloned())
            .collect();
        types.push(type_of_known(a, &shape));
        left.push(*x);
        right.push(*y);
        results.push(Err(shape));
    }
    let left = cx.b.append_to(&mut then.region, |b| left.iter().zip(&types).map(|(x, ty)| b.cast_to(*x, ty)).collect());
    let right =
        cx.b.append_to(&mut otherwise.region, |b| right.iter().zip(&types).map(|(x, ty)| b.cast_to(*x, ty)).collect());
    let mut values = if types.is_empty() {
        Vec::new()
    } else {
        cx.b.scf_if(condition, &types, (then.region, left), (otherwise.region, right))
    }
    .into_iter();
    let mut list = Vec::new();
    for (result, tensor) in results.into_iter().zip(&then.tensors) {
        list.push(match (result, &mut values) {
            (Ok(same), _) => same,
            (Err(shape), values) => match values.next() {
                Some(value) => cx.partly_measured(value, tensor.ty, &shape)?,
                None => tensor.clone(),
            },
        });
    }
    Ok(with_tensors(&then.items, &mut list.into_iter()))
}

/// Returns true if two branches have one tensor of the outside, or the same known elements.
fn is_same(a: &Tensor, b: &Tensor, outer: u32) -> bool {
    let is_outside = |dim: &Dim| dim.is_below(outer);
    a.shape == b.shape
        && a.shape.iter().all(is_outside)
        && match (&a.data, &b.data) {
            (Data::Value(a), Data::Value(b)) => a == b,
            (Data::Constant(a), Data::Constant(b)) => Rc::ptr_eq(a, b),
            (Data::Elements(a), Data::Elements(b)) => {
                a == b && a.iter().all(|element| element.as_int().is_none_or(is_outside))
            }
            _ => false,
        }
}

/// Returns the type of a tensor with the extents that are constants in a shape.
pub(super) fn type_of_known(tensor: &Tensor, shape: &[Option<Dim>]) -> Type {
    let extents = shape.iter().map(|dim| u64::try_from(dim.as_ref()?.as_constant()?).ok());
    Type::Tensor { extents: extents.collect(), element: tensor.ty.element() }
}
