//! Operators that choose a graph or repeat it.

mod branches;
mod items;
mod loops;
mod repeated;

use std::rc::Rc;

use incarnate_bytecode::Result;
use incarnate_mlir::{IntPredicate, Value};

use super::{Lowering, Row};
use crate::context::Context;
use crate::data_type::{DataType, Kind};
use crate::import::Import;
use crate::node::{Node, Outputs, data_type, invalid};
use crate::proto;
use crate::tensor::{Item, Scalar, SequenceType, Tensor};

pub(super) const ROWS: &[Row] = &[
    graphs("If", 1, branches::branch),
    graphs("Loop", 1, repeated::repeat),
    graphs("Scan", 8, repeated::scan_batches),
    graphs("Scan", 9, repeated::scan),
    graphs("SequenceMap", 17, sequence_map),
];

/// A row of ONNX's own domain for an operator with graphs.
const fn graphs(
    name: &'static str,
    since: i64,
    lower: for<'m> fn(&mut Import<'m>, &Node<'m>) -> Result<Outputs>,
) -> Row {
    Row { domain: "", name, since, lower: Lowering::WithGraphs(lower) }
}

/// Returns a condition if it is known when the model is imported.
fn known(cx: &Context, condition: &Tensor) -> Result<Option<bool>> {
    let elements = cx.elements(condition)?;
    let first = elements.as_ref().and_then(|elements| elements.first()).and_then(Scalar::as_int);
    Ok(first.and_then(|dim| dim.as_constant()).map(|value| value != 0))
}

/// Returns a condition as a scalar outside of loop nests.
fn condition(cx: &mut Context, condition: &Tensor) -> Result<Value> {
    if condition.ty.kind() != Kind::Bool {
        return invalid(format!("the condition is of type {}, and Booleans are expected", condition.ty.name()));
    }
    if !condition.shape.iter().all(|dim| dim.is(1)) {
        return invalid(format!(
            "the condition is of shape {}, and one element is expected",
            cx.shape_text(&condition.shape)
        ));
    }
    let value = cx.value(condition)?;
    let positions: Vec<Value> = condition.shape.iter().map(|_| cx.b.index(0)).collect();
    let element = cx.b.extract(value, &positions);
    if cx.b.element_of(element).bits() == 1 {
        return Ok(element);
    }
    let zero = cx.b.int(0, cx.b.element_of(element));
    Ok(cx.b.cmpi(IntPredicate::NotEqual, element, zero))
}

/// Counts the nodes of a graph, and of those in it.
fn count(graph: &proto::Graph) -> usize {
    let inner = graph.node.iter().flat_map(|node| &node.attribute).filter_map(|attribute| attribute.g.as_ref());
    inner.fold(graph.node.len(), |sum, graph| sum.saturating_add(count(graph)))
}

/// Returns the element type that a graph declares for an output.
fn declared_type(graph: &proto::Graph, output: usize) -> Option<DataType> {
    let ty = graph.output.get(output)?.ty.as_ref()?.tensor.as_ref()?;
    data_type(i64::from(ty.element)).ok()
}

/// Runs a graph for each element of sequences of one length.
fn sequence_map<'m>(import: &mut Import<'m>, node: &Node<'m>) -> Result<Outputs> {
    let graph = node.graph("body")?;
    let Some(Some(Item::Sequence(first, _))) = node.inputs.first() else {
        return invalid("the input 0 is no sequence");
    };
    let mut outputs: Vec<Vec<Item>> = vec![Vec::new(); graph.output.len()];
    for index in 0..first.len() {
        let mut inputs = Vec::new();
        for (position, input) in node.inputs.iter().enumerate() {
            inputs.push(match input {
                Some(Item::Sequence(items, _)) => match items.get(index) {
                    Some(item) if items.len() == first.len() => item.clone(),
                    _ => {
                        return invalid(format!("the sequences of the inputs 0 and {position} have different lengths"));
                    }
                },
                Some(item) => item.clone(),
                None => return invalid(format!("there is no input {position}")),
            });
        }
        for (list, item) in outputs.iter_mut().zip(import.graph(graph, inputs)?) {
            list.push(item);
        }
    }
    let sequences = outputs.into_iter().enumerate().map(|(index, list)| {
        if list.iter().any(|item| matches!(item, Item::Unknown)) {
            return Item::Unknown;
        }
        let ty = match list.first() {
            Some(Item::Tensor(tensor)) => Some(tensor.ty),
            _ => declared_type(graph, index),
        };
        Item::Sequence(Rc::new(list), SequenceType(ty))
    });
    Ok(sequences.collect())
}
