//! `If`.

use std::rc::Rc;

use incarnate_bytecode::{Error, Result};
use incarnate_mlir::{Element, Region, Type, Value};

use super::items::{check_alike, has_unknown, tensors, with_tensors};
use super::{condition, known};
use crate::dim::Dim;
use crate::import::Import;
use crate::node::{Node, Outputs, unsupported};
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
    let checkpoint = import.checkpoint();
    let first = imported(import, |import| import.graph(then, Vec::new()))?;
    let second = imported(import, |import| import.graph(otherwise, Vec::new()))?;
    if has_unknown(&first.items) || has_unknown(&second.items) {
        import.keep(&checkpoint);
        return Ok(vec![Item::Unknown; node.output_count()]);
    }
    let pairs = || first.items.iter().zip(&second.items);
    let difference = pairs().enumerate().find_map(|(index, (a, b))| {
        check_alike(a, b, &format!("the output {index}, which depends on the condition,")).err()
    });
    if let Some(difference) = difference {
        import.restore(&checkpoint);
        return differing(import, node, condition, &difference);
    }
    let outputs = joined(import, condition, first, second, outer)?;
    import.keep(&checkpoint);
    Ok(outputs)
}

/// The most nodes in one another that have imported what follows them.
const CONTINUED: usize = 4;

/// What a user can do about results that a condition decides.
const REMEDY: &str = "where extents decide the condition, --dim= and --shape= fix them; --outputs= cuts the graph before the node, and \
                      --inputs= behind it";

/// `If` whose branches have results that no operation can return, as where PyTorch removes an extent if it is 1: what follows in the
/// graph is imported behind each branch. Where it cannot be imported behind one of them, a call fails that would choose it.
fn differing<'m>(import: &mut Import<'m>, node: &Node<'m>, condition: Value, difference: &Error) -> Result<Outputs> {
    let unknown = Ok(vec![Item::Unknown; node.output_count()]);
    let reason = message(difference);
    if import.continued >= CONTINUED {
        return unsupported(format!("{reason}, behind {CONTINUED} others of this kind; {REMEDY}"));
    }
    let outer = import.cx.symbol_count();
    let checkpoint = import.checkpoint();
    let mut branches = Vec::new();
    for name in ["then_branch", "else_branch"] {
        branches.push(attempted(import, node, node.graph(name)?)?);
    }
    let (Some(second), Some(first)) = (branches.pop(), branches.pop()) else { return unknown };
    let (kept, other, errors) = match (first, second) {
        (Ok(first), Ok(second)) => {
            for (index, (a, b)) in first.items.iter().zip(&second.items).enumerate() {
                if let Err(error) = check_alike(a, b, &format!("the output {index} of the graph")) {
                    return unsupported(format!("{reason}, and {}; {REMEDY}", message(&error)));
                }
            }
            let outputs = joined(import, condition, first, second, outer)?;
            import.keep(&checkpoint);
            import.finish_graph(outputs);
            return unknown;
        }
        (Err(first), Err(second)) => {
            import.restore(&checkpoint);
            let others: Vec<String> = second.into_iter().filter(|error| !first.contains(error)).collect();
            import.report(first);
            import.report(others);
            return unknown;
        }
        (Ok(_), Err(errors)) => ("then_branch", "else_branch", errors),
        (Err(errors), Ok(_)) => ("else_branch", "then_branch", errors),
    };
    import.restore(&checkpoint);
    let error = errors.first().map_or(&*reason, |error| &**error);
    let text = format!("what follows `{other}` cannot be imported: {error}");
    let is_kept = if kept == "then_branch" {
        condition
    } else {
        let truth = import.cx.b.int(1, Element::I1);
        import.cx.b.xori(condition, truth)
    };
    import.cx.assert(is_kept, &text);
    import.cx.remarks.push(format!("{}: {text}; a call fails that would choose it", import.cx.node));
    import.graph(node.graph(kept)?, Vec::new())
}

/// Returns an error without its code, which is that of the import as a whole.
fn message(error: &Error) -> String {
    error.to_string().replacen(&format!("{}; ", error.code()), "", 1)
}

/// Imports a branch and what follows the node, or returns the errors of nodes.
fn attempted<'m>(
    import: &mut Import<'m>,
    node: &Node<'m>,
    graph: &'m proto::Graph,
) -> Result<core::result::Result<Branch, Vec<String>>> {
    let checkpoint = import.checkpoint();
    let branch = imported(import, |import| import.continued(node, graph))?;
    if import.has_failed(&checkpoint) || has_unknown(&branch.items) {
        return Ok(Err(import.restore(&checkpoint)));
    }
    import.keep(&checkpoint);
    Ok(Ok(branch))
}

/// Imports the items of a branch in a region.
fn imported<'m>(import: &mut Import<'m>, items: impl FnOnce(&mut Import<'m>) -> Result<Vec<Item>>) -> Result<Branch> {
    import.cx.open_region();
    let items = items(import)?;
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
