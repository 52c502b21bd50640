//! What a model contains, without importing it.

use core::fmt;
use std::collections::BTreeMap;

use crate::data_type::DataType;
use crate::model::{Model, tensors_of, tensors_of_nodes};
use crate::operators;
use crate::proto::{self, plain_domain, version_of};

/// Inputs, outputs, operators and weights of a model. Its text has a line for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The program that wrote the model, and its version.
    pub producer: String,
    /// Operator sets: the domain, which is `ai.onnx` for ONNX's own, and the version.
    pub operator_sets: Vec<(String, i64)>,
    /// Names and types of the inputs that are no weights.
    pub inputs: Vec<(String, String)>,
    /// Names and types of the outputs.
    pub outputs: Vec<(String, String)>,
    /// Operators, with the number of nodes, and whether each is supported.
    pub operators: Vec<(String, usize, bool)>,
    /// The number of elements of all weights.
    pub parameters: u64,
    /// The number of bytes of all weights.
    pub bytes: u64,
}

impl Model {
    /// Returns what the model contains.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let proto = &self.proto;
        let mut tensors = Vec::new();
        let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        if let Some(graph) = &proto.graph {
            tensors_of(graph, &mut tensors);
            count(&graph.node, &mut counts);
            let is_weight = |name: &str| graph.initializer.iter().any(|tensor| tensor.name == name);
            inputs.extend(graph.input.iter().filter(|input| !is_weight(&input.name)).map(named));
            outputs.extend(graph.output.iter().map(named));
        }
        for function in &proto.functions {
            tensors_of_nodes(&function.node, &mut tensors);
            count(&function.node, &mut counts);
        }
        let sizes = tensors.iter().map(|tensor| {
            let count = tensor.dims.iter().fold(1_u64, |count, dim| count.saturating_mul(dim.unsigned_abs()));
            let ty = DataType::of_code(tensor.data_type);
            (count, ty.map_or(0, |ty| ty.stored_bytes(count)))
        });
        let (parameters, bytes) =
            sizes.fold((0_u64, 0_u64), |sum, size| (sum.0.saturating_add(size.0), sum.1.saturating_add(size.1)));
        let operators = counts.into_iter().map(|((domain, name), count)| {
            let is_function = proto
                .functions
                .iter()
                .any(|function| plain_domain(&function.domain) == domain && function.name == name);
            let is_supported =
                is_function || operators::find(domain, name, version_of(&proto.opset_import, domain)).is_some();
            let name = if domain.is_empty() { name.to_owned() } else { format!("{domain}.{name}") };
            (name, count, is_supported)
        });
        Summary {
            producer: format!("{} {}", proto.producer_name, proto.producer_version).trim().to_owned(),
            operator_sets: proto
                .opset_import
                .iter()
                .map(|set| {
                    (if plain_domain(&set.domain).is_empty() { "ai.onnx" } else { &set.domain }.to_owned(), set.version)
                })
                .collect(),
            inputs,
            outputs,
            operators: operators.collect(),
            parameters,
            bytes,
        }
    }
}

/// Counts the operators of nodes, and of the graphs in them.
fn count<'m>(nodes: &'m [proto::Node], counts: &mut BTreeMap<(&'m str, &'m str), usize>) {
    for node in nodes {
        *counts.entry((plain_domain(&node.domain), &node.op_type)).or_default() += 1;
        for graph in node.attribute.iter().filter_map(|attribute| attribute.g.as_ref()) {
            count(&graph.node, counts);
        }
    }
}

fn named(value: &proto::ValueInfo) -> (String, String) {
    (value.name.clone(), value.ty.as_ref().map_or_else(|| "unknown".to_owned(), type_text))
}

/// Writes a type as declarations do, with the names that extents have.
fn type_text(ty: &proto::Type) -> String {
    let inner = |element: &Option<Box<proto::Type>>| element.as_deref().map_or_else(|| "unknown".to_owned(), type_text);
    if let Some(tensor) = &ty.tensor {
        /// The number of strings in `TensorProto.DataType`.
        const STRING: i32 = 8;
        let element = match DataType::of_code(tensor.element) {
            Some(ty) => ty.name(),
            None if tensor.element == STRING => "string",
            None => "unknown",
        };
        return match &tensor.shape {
            None => format!("tensor<*x{element}>"),
            Some(shape) => {
                let extents = shape.dim.iter().map(|dim| match (dim.value, dim.param.as_deref()) {
                    (Some(value), _) => format!("{value}x"),
                    (None, Some(name)) if !name.is_empty() => format!("{name}x"),
                    _ => "?x".to_owned(),
                });
                format!("tensor<{}{element}>", extents.collect::<String>())
            }
        };
    }
    if let Some(sequence) = &ty.sequence {
        return format!("sequence of {}", inner(&sequence.element));
    }
    if let Some(optional) = &ty.optional {
        return format!("optional {}", inner(&optional.element));
    }
    "unknown".to_owned()
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.producer.is_empty() {
            writeln!(f, "producer: {}", self.producer)?;
        }
        let sets: Vec<String> =
            self.operator_sets.iter().map(|(domain, version)| format!("{domain} {version}")).collect();
        writeln!(f, "operator sets: {}", sets.join(", "))?;
        for (title, values) in [("input", &self.inputs), ("output", &self.outputs)] {
            for (name, ty) in values {
                writeln!(f, "{title}: {name}: {ty}")?;
            }
        }
        writeln!(f, "parameters: {} in {} bytes", self.parameters, self.bytes)?;
        writeln!(f, "nodes: {}", self.operators.iter().map(|row| row.1).sum::<usize>())?;
        for (name, count, is_supported) in &self.operators {
            let note = if *is_supported { "" } else { ", not supported" };
            writeln!(f, "  {count:>6} {name}{note}")?;
        }
        Ok(())
    }
}
