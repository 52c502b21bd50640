//! Sums of products that an equation describes.

use incarnate_bytecode::Result;
use incarnate_mlir::{Iterator, Map};

use super::contraction::{accumulator, zero};
use super::products::settled;
use super::{Row, onnx};
use crate::context::Context;
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::kit::wrong_type;
use crate::node::{Node, Outputs, invalid, one};
use crate::tensor::Tensor;

pub(super) const ROWS: &[Row] = &[onnx("Einsum", 12, einsum)];

/// The name of a dimension: a letter, or a number from [`ELLIPSIS`] on for those of an ellipsis, counted from the last one.
type Label = u32;

/// The label of the last dimension of an ellipsis.
const ELLIPSIS: Label = 1 << 16;

/// The labels of the operands and of the result.
#[derive(Debug, PartialEq, Eq)]
struct Equation {
    operands: Vec<Vec<Label>>,
    result: Vec<Label>,
}

impl Equation {
    /// Parses an equation for operands of these ranks.
    fn parse(text: &str, ranks: &[usize]) -> Result<Equation> {
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let (left, right) = match text.split_once("->") {
            Some((left, right)) => (left, Some(right)),
            None => (&*text, None),
        };
        let terms: Vec<&str> = left.split(',').collect();
        if terms.len() != ranks.len() {
            return invalid(format!("the equation has {} terms for {} inputs", terms.len(), ranks.len()));
        }
        let mut operands = Vec::new();
        let mut widest = 0;
        for (term, rank) in terms.into_iter().zip(ranks) {
            let letters = term.chars().filter(|c| *c != '.').count();
            let Some(omitted) = rank.checked_sub(letters).filter(|omitted| *omitted == 0 || term.contains("..."))
            else {
                return invalid(format!("the term `{term}` does not fit a tensor of rank {rank}"));
            };
            widest = widest.max(omitted);
            operands.push(labels(term, omitted)?);
        }
        let result = match right {
            Some(term) => labels(term, widest)?,
            None => implicit(&operands, widest),
        };
        let is_known = |label: &Label| operands.iter().any(|operand| operand.contains(label));
        let is_once = |label: &Label| result.iter().filter(|other| *other == label).count() == 1;
        if !result.iter().all(|label| is_known(label) && is_once(label)) {
            return invalid("a dimension of the equation's result is not one of the inputs', or is there twice");
        }
        Ok(Equation { operands, result })
    }
}

/// Returns the labels of a term, whose ellipsis stands for a number of dimensions.
fn labels(term: &str, omitted: usize) -> Result<Vec<Label>> {
    let omitted: Vec<Label> = (0..).take(omitted).map(|index| ELLIPSIS + index).collect();
    let mut found = Vec::new();
    let (front, back) = match term.split_once("...") {
        Some((front, back)) => (front, Some(back)),
        None => (term, None),
    };
    for letter in front.chars() {
        found.push(letter_label(letter)?);
    }
    if let Some(back) = back {
        found.extend(omitted.iter().rev());
        for letter in back.chars() {
            found.push(letter_label(letter)?);
        }
    }
    Ok(found)
}

fn letter_label(letter: char) -> Result<Label> {
    if letter.is_ascii_alphabetic() { Ok(letter as Label) } else { invalid(format!("`{letter}` in the equation")) }
}

/// Returns the labels of a result that is not written: the ellipsis, and the letters that occur once, sorted.
fn implicit(operands: &[Vec<Label>], widest: usize) -> Vec<Label> {
    let all: Vec<Label> = operands.iter().flatten().copied().collect();
    let mut once: Vec<Label> = all
        .iter()
        .copied()
        .filter(|label| *label < ELLIPSIS && all.iter().filter(|other| *other == label).count() == 1)
        .collect();
    once.sort_unstable();
    let ellipsis = (0..).take(widest).map(|index| ELLIPSIS + index).collect::<Vec<Label>>();
    ellipsis.into_iter().rev().chain(once).collect()
}

/// A tensor with a label for each dimension.
#[derive(Clone, Debug)]
struct Labelled {
    x: Tensor,
    labels: Vec<Label>,
}

impl Labelled {
    fn extent(&self, label: Label) -> Option<Dim> {
        let position = self.labels.iter().position(|other| *other == label)?;
        self.x.shape.get(position).cloned()
    }

    /// Brings dimensions into an order, in groups that become one dimension each.
    fn grouped(&self, cx: &mut Context, groups: &[&[Label]]) -> Result<Tensor> {
        let order: Vec<Label> = groups.iter().flat_map(|group| group.iter().copied()).collect();
        let permutation: Vec<usize> =
            order.iter().filter_map(|label| self.labels.iter().position(|other| other == label)).collect();
        let ordered = cx.transpose(&self.x, &permutation)?;
        let mut shape = Vec::new();
        let mut extents = ordered.shape.iter();
        for group in groups {
            shape.push(Dim::product(extents.by_ref().take(group.len())));
        }
        cx.reshape(&ordered, &shape)
    }
}

fn einsum(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let inputs = node.all_inputs()?;
    let Some(first) = inputs.first() else { return invalid("there are no inputs") };
    let ty = first.ty;
    if inputs.iter().any(|input| input.ty != ty) || ty == DataType::Bool {
        return wrong_type(ty);
    }
    let ranks: Vec<usize> = inputs.iter().map(|input| input.rank()).collect();
    let equation = Equation::parse(node.text_or("equation", "")?, &ranks)?;
    let mut operands = Vec::new();
    for (input, labels) in inputs.iter().zip(&equation.operands) {
        operands.push(diagonal(cx, input, labels)?);
    }
    let operands = matched(cx, operands)?;
    let mut rest = operands.into_iter();
    let Some(mut product) = rest.next() else { return invalid("there are no inputs") };
    let mut left: Vec<Labelled> = rest.collect();
    product = summed(cx, product, &left, &equation.result)?;
    while !left.is_empty() {
        let next = left.remove(0);
        let mut others = left.clone();
        others.push(product.clone());
        let next = summed(cx, next, &others, &equation.result)?;
        product = joined(cx, &product, &next, &left, &equation.result)?;
        product = summed(cx, product, &left, &equation.result)?;
    }
    let groups: Vec<&[Label]> = equation.result.iter().map(core::slice::from_ref).collect();
    let y = product.grouped(cx, &groups)?;
    one(settled(cx, &y, ty)?)
}

/// Takes the diagonal of dimensions that have one label.
fn diagonal(cx: &mut Context, x: &Tensor, labels: &[Label]) -> Result<Labelled> {
    let (mut unique, mut shape): (Vec<Label>, Vec<Dim>) = (Vec::new(), Vec::new());
    let mut dims = Vec::new();
    for (label, dim) in labels.iter().zip(&x.shape) {
        match unique.iter().position(|other| other == label) {
            Some(position) => {
                cx.require_equal(&shape[position], dim, "the extents of one label of the equation")?;
                dims.push(position);
            }
            None => {
                dims.push(unique.len());
                unique.push(*label);
                shape.push(dim.clone());
            }
        }
    }
    if unique.len() == labels.len() {
        return Ok(Labelled { x: x.clone(), labels: unique });
    }
    let value = cx.value(x)?;
    let extents = cx.extents(&shape);
    let empty = cx.b.empty(&extents, x.ty.element());
    let rank = unique.len();
    let maps = [Map::of(rank, &dims), Map::identity(rank)];
    let result = cx.b.generic_single(&[value], empty, &maps, &vec![Iterator::Parallel; rank], |_, x| x[0]);
    let x = cx.tensor(result, x.ty, shape)?;
    Ok(Labelled { x, labels: unique })
}

/// Makes the extents of each label equal: extents of 1 that others broadcast lose their dimension.
fn matched(cx: &mut Context, mut operands: Vec<Labelled>) -> Result<Vec<Labelled>> {
    let mut all: Vec<Label> = operands.iter().flat_map(|operand| operand.labels.clone()).collect();
    all.sort_unstable();
    all.dedup();
    for label in all {
        let extents: Vec<Dim> = operands.iter().filter_map(|operand| operand.extent(label)).collect();
        let joined = match extents.iter().find(|dim| !dim.is(1)).or(extents.first()) {
            Some(dim) => extents.iter().find(|dim| !dim.is(1) && dim.as_constant().is_some()).unwrap_or(dim).clone(),
            None => continue,
        };
        for operand in &mut operands {
            let Some(position) = operand.labels.iter().position(|other| *other == label) else { continue };
            let extent = operand.x.shape[position].clone();
            if extent.is(1) && !joined.is(1) {
                operand.x = cx.squeeze(&operand.x, &[position])?;
                operand.labels.remove(position);
            } else {
                operand.x = cx.refined(&operand.x, position, &joined, "the extents of one label of the equation")?;
            }
        }
    }
    Ok(operands)
}

/// Sums over the dimensions that neither the result nor another operand has.
fn summed(cx: &mut Context, operand: Labelled, others: &[Labelled], result: &[Label]) -> Result<Labelled> {
    let is_needed = |label: &Label| result.contains(label) || others.iter().any(|other| other.labels.contains(label));
    let axes: Vec<usize> =
        operand.labels.iter().enumerate().filter(|(_, label)| !is_needed(label)).map(|(index, _)| index).collect();
    if axes.is_empty() {
        return Ok(operand);
    }
    let ty = accumulator(operand.x.ty);
    let from = operand.x.ty;
    let x = cx.reduce(&operand.x, &axes, ty, zero(ty), |b, x, sum| {
        let x = crate::convert::converted(b, x, from.computed(), ty);
        if ty.is_float() { b.addf(sum, x) } else { b.addi(sum, x) }
    })?;
    let labels = operand.labels.iter().copied().filter(is_needed).collect();
    Ok(Labelled { x, labels })
}

/// Multiplies two operands, and sums over the dimensions that no other operand and not the result has.
fn joined(cx: &mut Context, a: &Labelled, b: &Labelled, others: &[Labelled], result: &[Label]) -> Result<Labelled> {
    let is_kept = |label: &Label| result.contains(label) || others.iter().any(|other| other.labels.contains(label));
    let both = |label: &&Label| b.labels.contains(label);
    let batch: Vec<Label> = a.labels.iter().filter(both).copied().filter(is_kept).collect();
    let depth: Vec<Label> = a.labels.iter().filter(both).copied().filter(|label| !is_kept(label)).collect();
    let rows: Vec<Label> = a.labels.iter().filter(|label| !both(label)).copied().collect();
    let columns: Vec<Label> = b.labels.iter().filter(|label| !a.labels.contains(label)).copied().collect();
    let extents = |labels: &[Label]| -> Vec<Dim> {
        labels.iter().filter_map(|label| a.extent(*label).or_else(|| b.extent(*label))).collect()
    };
    let shape = [extents(&batch), extents(&rows), extents(&columns)].concat();
    let labels = [&*batch, &*rows, &*columns].concat();
    let sum = accumulator(a.x.ty);
    let x = if depth.is_empty() {
        let left = a.grouped(cx, &[&batch, &rows, &[]])?;
        let right = b.grouped(cx, &[&batch, &[], &columns])?;
        let types = [a.x.ty.computed(), b.x.ty.computed()];
        cx.map(&[&left, &right], sum, |b, x| {
            let left = crate::convert::converted(b, x[0], types[0], sum);
            let right = crate::convert::converted(b, x[1], types[1], sum);
            if sum.is_float() { b.mulf(left, right) } else { b.muli(left, right) }
        })?
    } else if batch.is_empty() {
        let (left, right) = (a.grouped(cx, &[&rows, &depth])?, b.grouped(cx, &[&depth, &columns])?);
        cx.multiply(&left, &right, sum)?
    } else {
        let left = a.grouped(cx, &[&batch, &rows, &depth])?;
        let right = b.grouped(cx, &[&batch, &depth, &columns])?;
        cx.multiply(&left, &right, sum)?
    };
    Ok(Labelled { x: cx.reshape(&x, &shape)?, labels })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str, ranks: &[usize]) -> Option<(Vec<Vec<Label>>, Vec<Label>)> {
        Equation::parse(text, ranks).ok().map(|equation| (equation.operands, equation.result))
    }

    #[test]
    fn equations_have_labels() {
        let [i, j, k] = ['i', 'j', 'k'].map(|letter| letter as Label);
        assert_eq!(parsed("ij, jk -> ik", &[2, 2]), Some((vec![vec![i, j], vec![j, k]], vec![i, k])));
        assert_eq!(parsed("ij,jk", &[2, 2]), Some((vec![vec![i, j], vec![j, k]], vec![i, k])));
        assert_eq!(parsed("ii", &[2]), Some((vec![vec![i, i]], vec![])));
        let (last, first) = (ELLIPSIS, ELLIPSIS + 1);
        assert_eq!(
            parsed("...ij,...j", &[4, 2]),
            Some((vec![vec![first, last, i, j], vec![last, j]], vec![first, last, i]))
        );
    }

    #[test]
    fn equations_that_do_not_fit_are_errors() {
        assert_eq!(parsed("ij,jk->ik", &[2]), None);
        assert_eq!(parsed("ij->ij", &[3]), None);
        assert_eq!(parsed("ij->ik", &[2]), None);
        assert_eq!(parsed("ij->ii", &[2]), None);
        assert_eq!(parsed("i1->i", &[2]), None);
    }
}
