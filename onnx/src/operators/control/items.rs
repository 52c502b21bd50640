//! Tensors of items: what a region yields for them, and items with other tensors.

use std::rc::Rc;

use incarnate_bytecode::Result;

use crate::node::{invalid, unsupported};
use crate::tensor::{Item, Tensor};

/// Returns the tensors of items in order; those of a sequence are its elements'.
pub(super) fn tensors(items: &[Item]) -> Vec<Tensor> {
    let mut list = Vec::new();
    collect(items, &mut list);
    list
}

fn collect(items: &[Item], list: &mut Vec<Tensor>) {
    for item in items {
        match item {
            Item::Tensor(tensor) => list.push(tensor.clone()),
            Item::Sequence(elements, _) => collect(elements, list),
            Item::Nothing | Item::Unknown => {}
        }
    }
}

/// Returns items with other tensors, in the order of [`tensors`].
pub(super) fn with_tensors(items: &[Item], tensors: &mut dyn Iterator<Item = Tensor>) -> Vec<Item> {
    let mut list = Vec::with_capacity(items.len());
    for item in items {
        list.push(match item {
            Item::Tensor(_) => tensors.next().map_or(Item::Unknown, Item::Tensor),
            Item::Sequence(elements, ty) => Item::Sequence(Rc::new(with_tensors(elements, tensors)), *ty),
            Item::Nothing => Item::Nothing,
            Item::Unknown => Item::Unknown,
        });
    }
    list
}

/// Returns true if an item, or one in it, is the output of a node that could not be imported.
pub(super) fn has_unknown(items: &[Item]) -> bool {
    items.iter().any(|item| match item {
        Item::Unknown => true,
        Item::Sequence(elements, _) => has_unknown(elements),
        Item::Tensor(_) | Item::Nothing => false,
    })
}

/// Checks that two items have tensors of the same types and ranks. `what` names them in the error.
pub(super) fn check_alike(a: &Item, b: &Item, what: &str) -> Result<()> {
    match (a, b) {
        (Item::Unknown, _) | (_, Item::Unknown) | (Item::Nothing, Item::Nothing) => Ok(()),
        (Item::Tensor(a), Item::Tensor(b)) if a.ty != b.ty => {
            invalid(format!("{what} has the types {} and {}", a.ty.name(), b.ty.name()))
        }
        (Item::Tensor(a), Item::Tensor(b)) if a.rank() != b.rank() => {
            unsupported(format!("{what} has the ranks {} and {}, and one rank is expected", a.rank(), b.rank()))
        }
        (Item::Tensor(_), Item::Tensor(_)) => Ok(()),
        (Item::Sequence(a, _), Item::Sequence(b, _)) if a.len() != b.len() => {
            let lengths = format!("{} and {}", a.len(), b.len());
            unsupported(format!(
                "{what} is a sequence of the lengths {lengths}: a length must be known when the model is imported"
            ))
        }
        (Item::Sequence(a, _), Item::Sequence(b, _)) => {
            a.iter().zip(b.iter()).try_for_each(|(a, b)| check_alike(a, b, what))
        }
        _ => unsupported(format!("{what} is a tensor, a sequence or nothing, as the values of tensors decide")),
    }
}
