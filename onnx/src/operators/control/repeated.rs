//! `Loop` and `Scan`.

use incarnate_bytecode::Result;

use super::loops::{Finished, Plan, Step, run};
use super::{count, known};
use crate::context::Context;
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::import::Import;
use crate::node::{Node, Outputs, axis, invalid, unsupported};
use crate::proto;
use crate::tensor::{Item, Scalar, Tensor};

/// Numbers of iterations from here on are no limits.
const ENDLESS: i64 = 1 << 31;

/// `Loop`.
pub(super) fn repeat<'m>(import: &mut Import<'m>, node: &Node<'m>) -> Result<Outputs> {
    let graph = node.graph("body")?;
    let initial: Vec<Item> = node.inputs.iter().skip(2).map(|item| item.clone().unwrap_or(Item::Nothing)).collect();
    let Some(scans) = graph.output.len().checked_sub(1 + initial.len()) else {
        return invalid(format!("the body has {} outputs for {} carried values", graph.output.len(), initial.len()));
    };
    if graph.input.len() != 2 + initial.len() {
        return invalid(format!("the body has {} inputs for {} carried values", graph.input.len(), initial.len()));
    }
    let trip = match node.optional(0)? {
        None => None,
        Some(tensor) => import.cx.integers(tensor)?.first().map(|dim| dim.at_least(&Dim::constant(0))),
    };
    let mut trip = trip.filter(|trip| trip.as_constant().is_none_or(|trip| trip < ENDLESS));
    let mut condition = match node.optional(1)? {
        Some(tensor) => tensor.clone(),
        None => truth(&[]),
    };
    if known(&import.cx, &condition)? == Some(false) {
        (trip, condition) = (Some(Dim::constant(0)), truth(&[]));
    }
    // Values that the body returns as they are.
    let is_kept: Vec<bool> = (0..initial.len())
        .map(|index| {
            let (input, output) = (graph.input.get(2 + index), graph.output.get(1 + index));
            input.zip(output).is_some_and(|(input, output)| source(graph, &output.name) == input.name)
        })
        .collect();
    let carried: Vec<Item> =
        initial.iter().zip(&is_kept).filter(|(_, is_kept)| !**is_kept).map(|(item, _)| item.clone()).collect();
    let plan = Plan { trip, rows: None, condition: Some(condition), reversed: vec![false; scans], nodes: count(graph) };
    let finished = run(import, &plan, &carried, &mut |import, iteration, carried| {
        let mut carried = carried.iter();
        let mut inputs = vec![
            Item::Tensor(number(iteration, &declared_shape(graph, 0))),
            Item::Tensor(truth(&declared_shape(graph, 1))),
        ];
        for (item, is_kept) in initial.iter().zip(&is_kept) {
            inputs.push(if *is_kept { item.clone() } else { carried.next().cloned().unwrap_or(Item::Unknown) });
        }
        let mut outputs = import.graph(graph, inputs)?.into_iter();
        let condition = match outputs.next() {
            Some(Item::Tensor(tensor)) => Some(tensor),
            _ => None,
        };
        let next: Vec<Item> = outputs.by_ref().take(is_kept.len()).collect();
        let next = next.into_iter().zip(&is_kept).filter(|(_, is_kept)| !**is_kept).map(|(item, _)| item).collect();
        Ok(Step { condition, carried: next, scans: outputs.collect() })
    })?;
    let mut changed = finished.carried.into_iter();
    let mut outputs = Vec::new();
    for (item, is_kept) in initial.iter().zip(&is_kept) {
        outputs.push(if *is_kept { item.clone() } else { changed.next().unwrap_or(Item::Unknown) });
    }
    outputs.extend(finished.scans);
    Ok(outputs)
}

/// Returns the name that a value has before nodes that return it as it is.
fn source<'m>(graph: &'m proto::Graph, name: &'m str) -> &'m str {
    let mut name = name;
    for node in graph.node.iter().rev() {
        if node.op_type == "Identity"
            && node.domain.is_empty()
            && node.output.first().is_some_and(|output| output == name)
            && let Some(input) = node.input.first()
        {
            name = input;
        }
    }
    name
}

/// Returns the shape of one element that a graph declares for an input.
fn declared_shape(graph: &proto::Graph, input: usize) -> Vec<Dim> {
    let declared = graph.input.get(input).and_then(|input| input.ty.as_ref()?.tensor.as_ref()?.shape.as_ref());
    vec![Dim::constant(1); declared.map_or(0, |shape| shape.dim.len().min(1))]
}

fn number(iteration: &Dim, shape: &[Dim]) -> Tensor {
    Tensor::of_elements(DataType::I64, shape.to_vec(), vec![Scalar::Int(iteration.clone())])
}

fn truth(shape: &[Dim]) -> Tensor {
    Tensor::of_elements(DataType::Bool, shape.to_vec(), vec![Scalar::Int(Dim::constant(1))])
}

/// The states and the scanned tensors of a `Scan`, whose dimension of iterations is the first.
struct Scanned<'m> {
    graph: &'m proto::Graph,
    inputs: Vec<Tensor>,
    /// For each input, whether the first iteration gets the last row.
    reversed: Vec<bool>,
}

impl<'m> Scanned<'m> {
    /// Runs the body for each row of the inputs. `trip` and `rows` are as in [`Plan`].
    fn run(
        &self,
        import: &mut Import<'m>,
        states: &[Item],
        (trip, rows): (Dim, Option<Dim>),
        reversed: &[bool],
    ) -> Result<Finished> {
        let plan = Plan {
            trip: Some(trip.clone()),
            rows,
            condition: None,
            reversed: reversed.to_vec(),
            nodes: count(self.graph),
        };
        run(import, &plan, states, &mut |import, iteration, carried| {
            let mut inputs = carried.to_vec();
            for (tensor, is_reversed) in self.inputs.iter().zip(&self.reversed) {
                let position =
                    if *is_reversed { trip.minus(&Dim::constant(1)).minus(iteration) } else { iteration.clone() };
                inputs.push(Item::Tensor(row(&mut import.cx, tensor, &position)?));
            }
            let mut outputs = import.graph(self.graph, inputs)?.into_iter();
            let carried = outputs.by_ref().take(carried.len()).collect();
            Ok(Step { condition: None, carried, scans: outputs.collect() })
        })
    }
}

/// Returns a row of a tensor.
fn row(cx: &mut Context, tensor: &Tensor, position: &Dim) -> Result<Tensor> {
    let row = cx.slice_axis(tensor, 0, position, &Dim::constant(1))?;
    cx.squeeze(&row, &[0])
}

/// Moves a dimension to another position.
fn moved(cx: &mut Context, tensor: &Tensor, from: usize, to: usize) -> Result<Tensor> {
    let mut permutation: Vec<usize> = (0..tensor.rank()).filter(|index| *index != from).collect();
    permutation.insert(to.min(permutation.len()), from);
    cx.transpose(tensor, &permutation)
}

/// Returns whether an element of a list of directions is 1.
fn flags(node: &Node<'_>, name: &str, count: usize) -> Result<Vec<bool>> {
    match node.ints(name) {
        None => Ok(vec![false; count]),
        Some(list) if list.len() == count => Ok(list.iter().map(|flag| *flag != 0).collect()),
        Some(list) => invalid(format!("`{name}` has {} elements, and {count} are expected", list.len())),
    }
}

/// Splits inputs into states and scanned tensors, of which there is one at least.
fn split<'n>(node: &Node<'_>, inputs: &'n [Option<Item>]) -> Result<(Vec<Item>, Vec<&'n Tensor>)> {
    let scanned = usize::try_from(node.int_or("num_scan_inputs", 0)).unwrap_or(0);
    let Some(states) = inputs.len().checked_sub(scanned).filter(|_| scanned > 0) else {
        return invalid(format!("there are {} inputs, and {scanned} of them are scanned", inputs.len()));
    };
    let (first, second) = inputs.split_at(states);
    let tensor = |item: &'n Option<Item>| match item {
        Some(Item::Tensor(tensor)) => Ok(tensor),
        _ => unsupported("a state or a scanned input that is no tensor"),
    };
    let states = first.iter().map(|item| tensor(item).cloned().map(Item::Tensor)).collect::<Result<_>>()?;
    Ok((states, second.iter().map(tensor).collect::<Result<_>>()?))
}

/// Returns an extent of all tensors, which must be the same.
fn common(cx: &mut Context, tensors: &[&Tensor], axes: &[usize]) -> Result<Dim> {
    let mut extents = tensors.iter().zip(axes).filter_map(|(tensor, axis)| tensor.shape.get(*axis));
    let Some(first) = extents.next() else { return invalid("a scanned input has no dimension to scan") };
    let mut first = first.clone();
    for other in extents {
        cx.require_equal(&first, other, "the extent of the scanned inputs")?;
        if other.as_constant().is_some() {
            first = other.clone();
        }
    }
    Ok(first)
}

/// `Scan`.
pub(super) fn scan<'m>(import: &mut Import<'m>, node: &Node<'m>) -> Result<Outputs> {
    let graph = node.graph("body")?;
    let (states, scanned) = split(node, &node.inputs)?;
    let Some(outputs) = graph.output.len().checked_sub(states.len()) else {
        return invalid(format!("the body has {} outputs for {} states", graph.output.len(), states.len()));
    };
    let mut axes = vec![0; scanned.len()];
    if let Some(list) = node.ints("scan_input_axes") {
        for (slot, (index, tensor)) in axes.iter_mut().zip(list.iter().zip(&scanned)) {
            *slot = axis(*index, tensor.rank())?;
        }
    }
    let trip = common(&mut import.cx, &scanned, &axes)?;
    let mut inputs = Vec::new();
    for (tensor, axis) in scanned.iter().zip(&axes) {
        inputs.push(moved(&mut import.cx, tensor, *axis, 0)?);
    }
    let scanned = Scanned { graph, inputs, reversed: flags(node, "scan_input_directions", axes.len())? };
    let reversed = flags(node, "scan_output_directions", outputs)?;
    let finished = scanned.run(import, &states, (trip, None), &reversed)?;
    let mut results = finished.carried;
    for (index, item) in finished.scans.into_iter().enumerate() {
        let to = node.ints("scan_output_axes").and_then(|list| list.get(index)).copied().unwrap_or(0);
        results.push(match item {
            Item::Tensor(tensor) => {
                let to = axis(to, tensor.rank())?;
                Item::Tensor(moved(&mut import.cx, &tensor, 0, to)?)
            }
            other => other,
        });
    }
    Ok(results)
}

/// `Scan` of version 8, which repeats a loop for each element of a batch.
pub(super) fn scan_batches<'m>(import: &mut Import<'m>, node: &Node<'m>) -> Result<Outputs> {
    let graph = node.graph("body")?;
    let lengths = node.optional(0)?;
    let (states, scanned) = split(node, node.inputs.get(1..).unwrap_or_default())?;
    let Some(outputs) = graph.output.len().checked_sub(states.len()) else {
        return invalid(format!("the body has {} outputs for {} states", graph.output.len(), states.len()));
    };
    let batch = common(&mut import.cx, &scanned, &vec![0; scanned.len()])?;
    let longest = common(&mut import.cx, &scanned, &vec![1; scanned.len()])?;
    let reversed = flags(node, "directions", scanned.len())?;
    let plan = Plan {
        trip: Some(batch),
        rows: None,
        condition: None,
        reversed: vec![false; graph.output.len()],
        nodes: count(graph).saturating_mul(2),
    };
    let finished = run(import, &plan, &[], &mut |import, element, _| {
        let mut own = Vec::new();
        for state in &states {
            if let Item::Tensor(tensor) = state {
                own.push(Item::Tensor(row(&mut import.cx, tensor, element)?));
            }
        }
        let inputs = scanned.iter().map(|tensor| row(&mut import.cx, tensor, element)).collect::<Result<_>>()?;
        let inner = Scanned { graph, inputs, reversed: reversed.clone() };
        let (trip, rows) = match lengths {
            None => (longest.clone(), None),
            Some(lengths) => {
                let length = row(&mut import.cx, lengths, element)?;
                let length = import.cx.integers(&length)?.first().cloned().unwrap_or_else(|| longest.clone());
                (length.at_least(&Dim::constant(0)).at_most(&longest), Some(longest.clone()))
            }
        };
        let finished = inner.run(import, &own, (trip, rows), &vec![false; outputs])?;
        let scans = finished.carried.into_iter().chain(finished.scans).collect();
        Ok(Step { condition: None, carried: Vec::new(), scans })
    })?;
    Ok(finished.scans)
}
