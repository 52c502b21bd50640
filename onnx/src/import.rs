//! From a graph to a function.

use std::collections::{HashMap, HashSet};

use incarnate_bytecode::{Error, QuotedName, Result};
use incarnate_mlir::{Type, Value};

use crate::context::{Context, Weight};
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::model::{Model, check_sparse};
use crate::node::{Node, Outputs, data_type, invalid, unsupported};
use crate::operators::{self, Lowering};
use crate::proto;
use crate::tensor::{Data, Item, SequenceType, Tensor, type_of};

/// Functions of a model are expanded to this depth. Those of exporters call each other to a depth of five.
const CALLS: usize = 64;
/// The most nodes that are imported, those of expanded functions each time. Models have some 10,000.
const NODES: u64 = 1 << 18;
/// The most nodes whose errors are listed.
const LISTED: usize = 20;

/// What exporters write for extents that have no name: two such extents may differ.
const ANONYMOUS: [&str; 4] = ["", "?", "-1", "None"];

/// How a model is imported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Extents that are fixed, by the names that the model gives to them.
    pub dims: Vec<(String, i64)>,
    /// Shapes of inputs that are fixed.
    pub shapes: Vec<(String, Vec<i64>)>,
    /// Tensors of the graph that are the inputs, in place of the model's.
    pub inputs: Vec<String>,
    /// Tensors of the graph that are the outputs, in place of the model's.
    pub outputs: Vec<String>,
}

/// An imported model.
#[derive(Debug)]
pub struct Imported {
    /// MLIR of core dialects.
    pub mlir: String,
    /// The weights, which are parameters of the module.
    pub(crate) weights: Vec<Weight>,
    /// What was done to the model.
    pub remarks: Vec<String>,
    /// The names of extents of the inputs that are known when the model runs.
    pub dynamic: Vec<String>,
}

impl Imported {
    /// Returns what the import did, a line for each fact.
    #[must_use]
    pub fn report(&self) -> String {
        let mut lines = vec![
            format!("weights: {} tensors, {} bytes", self.weights.len(), self.weight_bytes()),
            format!("operations of MLIR: {}", self.mlir.lines().filter(|line| line.contains(" = ")).count()),
        ];
        if !self.dynamic.is_empty() {
            lines.push(format!("extents that are known when the model runs: {}", self.dynamic.join(", ")));
        }
        lines.extend(self.remarks.iter().cloned());
        lines.join("\n")
    }
}

/// Names and their values in a graph.
#[derive(Debug, Default)]
struct Names<'m> {
    values: HashMap<&'m str, Item>,
    /// Whether names of the graphs around are unknown here, as in a function.
    is_function: bool,
}

/// What a function of the model is called with.
#[derive(Clone, Debug)]
struct Frame<'m> {
    opsets: &'m [proto::OperatorSet],
    /// The attributes of the call, which nodes of a function refer to.
    attributes: HashMap<&'m str, &'m proto::Attribute>,
}

/// An import in progress.
#[derive(Debug)]
pub(crate) struct Import<'m> {
    pub(crate) cx: Context,
    pub(crate) model: &'m Model,
    names: Vec<Names<'m>>,
    frames: Vec<Frame<'m>>,
    errors: Vec<String>,
    nodes: u64,
    /// Nodes whose outputs are known when the model is imported.
    folded: u64,
    /// Expanded functions of the model.
    expanded: u64,
}

/// How far an import had come: see [`Import::restore`].
#[derive(Debug)]
pub(crate) struct Checkpoint {
    context: crate::context::Checkpoint,
    names: usize,
    frames: usize,
    errors: usize,
}

/// Imports a model.
///
/// # Errors
/// INVALID_ARGUMENT or UNIMPLEMENTED with all nodes that cannot be imported, and the reasons.
pub fn import(model: &Model, options: &Options) -> Result<Imported> {
    let graph = model.graph()?;
    check_sparse(graph)?;
    let mut import = Import {
        cx: Context::new(),
        model,
        names: vec![Names::default()],
        frames: vec![Frame { opsets: &model.proto.opset_import, attributes: HashMap::new() }],
        errors: Vec::new(),
        nodes: 0,
        folded: 0,
        expanded: 0,
    };
    let dynamic = import.main(graph, options)?;
    let (nodes, folded, expanded) = (import.nodes, import.folded, import.expanded);
    let Context { b, weights, mut remarks, .. } = import.cx;
    remarks.insert(0, format!("nodes: {nodes}, of which {folded} are known at the import; expanded functions: {expanded}"));
    let mlir = b.finish().map_err(|error| Error::internal(error.to_string()))?;
    Ok(Imported { mlir, weights, remarks, dynamic })
}

/// An input of the function.
struct Input<'m> {
    name: &'m str,
    ty: DataType,
    extents: Vec<Extent>,
}

/// An extent of an input.
enum Extent {
    Constant(i64),
    Named(String),
}

impl<'m> Import<'m> {
    fn main(&mut self, graph: &'m proto::Graph, options: &Options) -> Result<Vec<String>> {
        self.add_initializers(graph, &options.inputs)?;
        let inputs = self.inputs(graph, options)?;
        let outputs: Vec<&'m str> = if options.outputs.is_empty() {
            graph.output.iter().map(|output| &*output.name).collect()
        } else {
            options.outputs.iter().map(|name| find_name(graph, name)).collect::<Result<_>>()?
        };
        let types: Vec<Type> = inputs
            .iter()
            .map(|input| Type::Tensor {
                extents: input
                    .extents
                    .iter()
                    .map(|extent| match extent {
                        Extent::Constant(value) => u64::try_from(*value).ok(),
                        Extent::Named(_) => None,
                    })
                    .collect(),
                element: input.ty.element(),
            })
            .collect();
        let name = if graph.name.is_empty() { "main" } else { &*graph.name };
        let function = self.cx.b.function(name, &types);
        let arguments = function.arguments.clone();
        self.bind_inputs(&inputs, &arguments)?;
        let cut: HashSet<&str> = options.inputs.iter().map(String::as_str).collect();
        self.run_nodes(&graph.node, &outputs, &cut)?;
        self.finish_errors()?;
        let mut results = Vec::new();
        for name in &outputs {
            match self.lookup(name) {
                Some(Item::Tensor(tensor)) => results.push((*name, tensor)),
                Some(Item::Sequence(..)) => {
                    return unsupported(format!("the output `{name}` is a sequence: --outputs= takes tensors by name"));
                }
                Some(Item::Nothing) => return unsupported(format!("the output `{name}` is an optional without a value")),
                Some(Item::Unknown) | None => return invalid(format!("no node has the output `{name}`")),
            }
        }
        let values: Vec<Value> =
            results.iter().map(|(_, tensor)| self.cx.value(tensor)).collect::<Result<_>>()?;
        let declaration = declaration(name, &inputs, &types, &results);
        // A result that is an argument would have the sign of the argument.
        let encoding = |(tensor, value): (&Tensor, &Value)| match tensor.ty.is_int() {
            true if tensor.ty.is_unsigned() => Some(outer_type(tensor.ty, &tensor.mlir_type())),
            true if arguments.contains(value) => {
                let element = format!("s{}", tensor.ty.element());
                Some(tensor_type(&element, &tensor.mlir_type()))
            }
            _ => None,
        };
        let tensors = results.iter().map(|(_, tensor)| tensor);
        let encodings: Vec<Option<String>> = tensors.zip(&values).map(encoding).collect();
        self.cx.b.end_function(function, &values, &encodings, &[("iree.abi.declaration", declaration)]);
        let extents = inputs.into_iter().flat_map(|input| input.extents);
        let mut dynamic: Vec<String> = extents
            .filter_map(|extent| match extent {
                Extent::Named(name) => Some(name),
                Extent::Constant(_) => None,
            })
            .collect();
        dynamic.sort();
        dynamic.dedup();
        Ok(dynamic)
    }

    /// Returns the inputs of the function.
    fn inputs(&self, graph: &'m proto::Graph, options: &Options) -> Result<Vec<Input<'m>>> {
        let weights: HashSet<&str> = graph.initializer.iter().map(|tensor| &*tensor.name).collect();
        let declared = graph.input.iter().filter(|input| !weights.contains(&*input.name));
        let all: Vec<&'m proto::ValueInfo> = declared.collect();
        for (name, _) in &options.shapes {
            if !all.iter().any(|input| input.name == *name) {
                let names: Vec<&str> = all.iter().map(|input| &*input.name).collect();
                return invalid(format!("--shape={name}=...: the inputs are {}", names.join(", ")));
            }
        }
        let mut known: HashSet<&str> = HashSet::new();
        let mut inputs = Vec::new();
        for input in all {
            if options.inputs.is_empty() || options.inputs.contains(&input.name) {
                inputs.push(self.input(input, options, &mut known)?);
            }
        }
        for (name, _) in &options.dims {
            if !known.contains(&**name) {
                let mut names: Vec<&str> = known.into_iter().collect();
                names.sort_unstable();
                return invalid(format!("--dim={name}=...: the extents of the inputs are {}", names.join(", ")));
            }
        }
        Ok(inputs)
    }

    fn input(&self, input: &'m proto::ValueInfo, options: &Options, known: &mut HashSet<&'m str>) -> Result<Input<'m>> {
        let name = &*input.name;
        let ty = input.ty.as_ref();
        let optional = ty.and_then(|ty| ty.optional.as_ref()?.element.as_ref()?.tensor.as_ref());
        let Some(tensor) = ty.and_then(|ty| ty.tensor.as_ref()).or(optional) else {
            return unsupported(format!("the input `{name}` is no tensor: --inputs= takes others by name"));
        };
        let element = data_type(i64::from(tensor.element)).map_err(|error| {
            error.context(format!("the input `{name}` (--inputs= takes others by name)"))
        })?;
        let fixed = options.shapes.iter().find(|(other, _)| other == name).map(|(_, shape)| shape);
        let Some(shape) = &tensor.shape else {
            let Some(fixed) = fixed else {
                return unsupported(format!("the rank of the input `{name}` is not known: --shape={name}=1x2x3 fixes it"));
            };
            let extents = fixed.iter().copied().map(Extent::Constant).collect();
            return Ok(Input { name, ty: element, extents });
        };
        if let Some(fixed) = fixed.filter(|fixed| fixed.len() != shape.dim.len()) {
            return invalid(format!("--shape={name}=...: {} extents for a rank of {}", fixed.len(), shape.dim.len()));
        }
        let mut extents = Vec::new();
        for (index, dimension) in shape.dim.iter().enumerate() {
            let parameter = dimension.param.as_deref().filter(|name| !ANONYMOUS.contains(name));
            known.extend(parameter);
            let by_name = options.dims.iter().find(|(other, _)| Some(&**other) == parameter).map(|(_, value)| *value);
            let by_shape = fixed.and_then(|fixed| fixed.get(index)).copied();
            let declared = dimension.value.filter(|value| *value >= 0);
            extents.push(match (by_shape.or(by_name), declared, parameter) {
                (Some(value), Some(declared), _) if value != declared => {
                    return invalid(format!("the extent {index} of the input `{name}` is {declared}, not {value}"));
                }
                (Some(value), ..) | (None, Some(value), _) => Extent::Constant(value),
                (None, None, Some(parameter)) => Extent::Named(parameter.to_owned()),
                (None, None, None) => Extent::Named(format!("{name}.{index}")),
            });
        }
        Ok(Input { name, ty: element, extents })
    }

    /// Gives inputs their values and extents; extents of one name must be equal.
    fn bind_inputs(&mut self, inputs: &[Input<'m>], arguments: &[Value]) -> Result<()> {
        let mut named: HashMap<&str, Dim> = HashMap::new();
        let mut tensors = Vec::new();
        for (input, value) in inputs.iter().zip(arguments) {
            let mut shape = Vec::new();
            for (index, extent) in input.extents.iter().enumerate() {
                shape.push(match extent {
                    Extent::Constant(value) => Dim::constant(*value),
                    Extent::Named(name) => {
                        let measured = self.cx.b.dim(*value, index);
                        let symbol = self.cx.symbol(name, measured);
                        match named.get(&**name) {
                            None => {
                                named.insert(name, symbol.clone());
                                symbol
                            }
                            Some(first) => {
                                let first = first.clone();
                                self.cx.require_equal(&symbol, &first, &format!("the extent {index} of the input `{}`", input.name))?;
                                first
                            }
                        }
                    }
                });
            }
            self.cx.check_shape(input.ty, &shape)?;
            tensors.push((input.name, Tensor { ty: input.ty, shape, data: Data::Value(*value) }));
        }
        for (name, tensor) in tensors {
            self.define(name, Item::Tensor(tensor));
        }
        Ok(())
    }

    fn add_initializers(&mut self, graph: &'m proto::Graph, replaced: &[String]) -> Result<()> {
        for proto in graph.initializer.iter().filter(|proto| !replaced.contains(&proto.name)) {
            // An initializer that cannot be read is an error of the nodes that use it.
            match self.model.tensor(proto, &proto.name) {
                Ok(tensor) => self.define(&proto.name, Item::Tensor(tensor)),
                Err(error) => {
                    self.errors.push(error.to_string());
                    self.define(&proto.name, Item::Unknown);
                }
            }
        }
        Ok(())
    }

    fn define(&mut self, name: &'m str, item: Item) {
        if let Some(names) = self.names.last_mut().filter(|_| !name.is_empty()) {
            names.values.insert(name, item);
        }
    }

    /// Finds a value by its name, in the graph and in those around it.
    pub(crate) fn lookup(&self, name: &str) -> Option<Item> {
        for names in self.names.iter().rev() {
            if let Some(item) = names.values.get(name) {
                return Some(item.clone());
            }
            if names.is_function {
                return None;
            }
        }
        None
    }

    /// Imports the nodes that outputs depend on.
    fn run_nodes(&mut self, nodes: &'m [proto::Node], outputs: &[&str], cut: &HashSet<&str>) -> Result<()> {
        let needed = needed(nodes, outputs, cut);
        for (node, _) in nodes.iter().zip(needed).filter(|(_, is_needed)| *is_needed) {
            self.nodes += 1;
            if self.nodes > NODES {
                return Err(Error::resource_exhausted(format!("the model has more than {NODES} nodes, counting those of its functions each time")));
            }
            self.run_node(node)?;
        }
        Ok(())
    }

    fn run_node(&mut self, proto: &'m proto::Node) -> Result<()> {
        let name = match (&*proto.name, proto.output.first()) {
            ("", Some(output)) => output.clone(),
            (name, _) => name.to_owned(),
        };
        self.cx.b.set_location(Some(&name));
        let depth = self.cx.depth();
        let (names, frames) = (self.names.len(), self.frames.len());
        match self.lowered(proto, name.clone()) {
            Ok(outputs) => {
                let is_known = |item: &Item| matches!(item, Item::Tensor(tensor) if !matches!(tensor.data, Data::Value(_)));
                self.folded += u64::from(outputs.iter().all(is_known));
                let mut outputs = outputs.into_iter();
                for output in &proto.output {
                    self.define(output, outputs.next().unwrap_or(Item::Nothing));
                }
            }
            Err(error) => {
                self.cx.discard_regions(depth.0, depth.1);
                self.names.truncate(names);
                self.frames.truncate(frames);
                // The code is that of the import as a whole.
                let reason = error.to_string().replacen(&format!("{}; ", error.code()), "", 1);
                self.errors.push(format!("node `{name}` ({}): {reason}", proto.op_type));
                for output in &proto.output {
                    self.define(output, Item::Unknown);
                }
            }
        }
        Ok(())
    }

    fn lowered(&mut self, proto: &'m proto::Node, name: String) -> Result<Outputs> {
        let Some(frame) = self.frames.last().cloned() else { return Err(Error::internal("no function is imported")) };
        let domain = if proto.domain == "ai.onnx" { "" } else { &*proto.domain };
        let function = self.model.proto.functions.iter().find(|function| {
            function.name == proto.op_type && function.domain == proto.domain && function.overload == proto.overload
        });
        let opset = frame.opsets.iter().find(|set| set.domain == domain || domain.is_empty() && set.domain == "ai.onnx");
        let version = opset.map_or(1, |set| set.version);
        let row = operators::find(domain, &proto.op_type, version);
        if function.is_none() && row.is_none() {
            let domain = if domain.is_empty() { String::new() } else { format!(" of the domain {domain}") };
            return unsupported(format!("the operator{domain} is not supported in version {version}"));
        }
        let mut inputs = Vec::new();
        for input in &proto.input {
            match (input.is_empty(), self.lookup(input)) {
                (true, _) => inputs.push(None),
                (false, Some(Item::Unknown)) => return Ok(vec![Item::Unknown; proto.output.len()]),
                (false, Some(item)) => inputs.push(Some(item)),
                (false, None) => return invalid(format!("no node has the output `{input}`, which is an input here")),
            }
        }
        let mut attributes = HashMap::new();
        for attribute in &proto.attribute {
            if attribute.ref_attr_name.is_empty() {
                attributes.insert(&*attribute.name, attribute);
            } else if let Some(given) = frame.attributes.get(&*attribute.ref_attr_name) {
                attributes.insert(&*attribute.name, *given);
            }
        }
        let node = Node { proto, name, version, inputs, attributes };
        match (function, row.map(|row| row.lower)) {
            (Some(function), _) => self.call(function, &node),
            (None, Some(Lowering::Plain(lower))) => lower(&mut self.cx, &node),
            (None, Some(Lowering::WithGraphs(lower))) => lower(self, &node),
            (None, None) => Err(Error::internal("no lowering")),
        }
    }

    /// Expands a function of the model.
    fn call(&mut self, function: &'m proto::Function, node: &Node<'m>) -> Result<Outputs> {
        if self.frames.len() > CALLS {
            return Err(Error::resource_exhausted(format!("functions call each other to a depth of {CALLS}")));
        }
        let mut attributes: HashMap<&'m str, &'m proto::Attribute> =
            function.attribute_proto.iter().map(|attribute| (&*attribute.name, attribute)).collect();
        attributes.extend(node.attributes.iter());
        self.expanded += 1;
        self.frames.push(Frame { opsets: &function.opset_import, attributes });
        self.names.push(Names { is_function: true, ..Names::default() });
        for (index, name) in function.input.iter().enumerate() {
            let item = node.inputs.get(index).cloned().flatten().unwrap_or(Item::Nothing);
            self.define(name, item);
        }
        let outputs: Vec<&str> = function.output.iter().map(String::as_str).collect();
        let errors = self.errors.len();
        self.run_nodes(&function.node, &outputs, &HashSet::new())?;
        self.within(errors, &node.name);
        let results = outputs.iter().map(|name| self.lookup(name).unwrap_or(Item::Unknown)).collect();
        self.names.pop();
        self.frames.pop();
        Ok(results)
    }

    /// Imports a graph that is an attribute of a node, where it is executed.
    pub(crate) fn graph(&mut self, graph: &'m proto::Graph, inputs: Vec<Item>) -> Result<Vec<Item>> {
        if self.names.len() > CALLS {
            return Err(Error::resource_exhausted(format!("graphs are nested to a depth of {CALLS}")));
        }
        check_sparse(graph)?;
        self.names.push(Names::default());
        self.add_initializers(graph, &[])?;
        for (input, item) in graph.input.iter().zip(inputs) {
            self.define(&input.name, item);
        }
        let outputs: Vec<&str> = graph.output.iter().map(|output| &*output.name).collect();
        self.run_nodes(&graph.node, &outputs, &HashSet::new())?;
        let results = outputs
            .iter()
            .map(|name| match self.lookup(name) {
                Some(item) => Ok(item),
                None => invalid(format!("no node of the graph `{}` has the output `{name}`", graph.name)),
            })
            .collect::<Result<Vec<Item>>>()?;
        self.names.pop();
        Ok(results)
    }

    /// Begins an attempt, which [`Import::restore`] discards or [`Import::keep`] keeps.
    pub(crate) fn checkpoint(&mut self) -> Checkpoint {
        Checkpoint {
            context: self.cx.checkpoint(),
            names: self.names.len(),
            frames: self.frames.len(),
            errors: self.errors.len(),
        }
    }

    /// Discards all since a checkpoint, and returns the errors since.
    pub(crate) fn restore(&mut self, checkpoint: &Checkpoint) -> Vec<String> {
        self.cx.restore(&checkpoint.context);
        self.names.truncate(checkpoint.names);
        self.frames.truncate(checkpoint.frames);
        self.errors.split_off(checkpoint.errors.min(self.errors.len()))
    }

    /// Keeps all since a checkpoint.
    pub(crate) fn keep(&mut self, checkpoint: &Checkpoint) {
        self.cx.keep(&checkpoint.context);
    }

    /// Adds errors of nodes.
    pub(crate) fn report(&mut self, errors: Vec<String>) {
        self.errors.extend(errors);
    }

    /// Returns true if nodes since a checkpoint could not be imported.
    pub(crate) fn has_failed(&self, checkpoint: &Checkpoint) -> bool {
        self.errors.len() > checkpoint.errors
    }

    /// Says of errors from a number on that they are within a node.
    fn within(&mut self, first: usize, name: &str) {
        for error in self.errors.iter_mut().skip(first) {
            *error = format!("within `{name}`: {error}");
        }
    }

    fn finish_errors(&mut self) -> Result<()> {
        if self.errors.is_empty() {
            return Ok(());
        }
        let count = self.errors.len();
        let mut text = self.errors.iter().take(LISTED).cloned().collect::<Vec<_>>().join("; ");
        if count > LISTED {
            text += &format!("; and {} more", count - LISTED);
        }
        Err(Error::unimplemented(text))
    }
}

/// Returns which nodes outputs depend on. `cut` names tensors that are given.
fn needed(nodes: &[proto::Node], outputs: &[&str], cut: &HashSet<&str>) -> Vec<bool> {
    let mut wanted: HashSet<&str> = outputs.iter().copied().filter(|name| !cut.contains(name)).collect();
    let mut needed = vec![false; nodes.len()];
    for (node, is_needed) in nodes.iter().zip(&mut needed).rev() {
        *is_needed = node.output.iter().any(|output| wanted.contains(&**output));
        if *is_needed {
            wanted.extend(node.input.iter().map(String::as_str).filter(|name| !cut.contains(name)));
            for graph in node.attribute.iter().filter_map(|attribute| attribute.g.as_ref()) {
                captured(graph, &mut wanted);
            }
        }
    }
    needed
}

/// Adds the names that a graph may take from those around it.
fn captured<'m>(graph: &'m proto::Graph, wanted: &mut HashSet<&'m str>) {
    wanted.extend(graph.output.iter().map(|output| &*output.name));
    for node in &graph.node {
        wanted.extend(node.input.iter().map(String::as_str));
        for inner in node.attribute.iter().filter_map(|attribute| attribute.g.as_ref()) {
            captured(inner, wanted);
        }
    }
}

/// Finds a tensor of the graph by its name.
fn find_name<'m>(graph: &'m proto::Graph, name: &str) -> Result<&'m str> {
    let nodes = graph.node.iter().flat_map(|node| &node.output).map(String::as_str);
    let inputs = graph.input.iter().map(|input| &*input.name);
    match nodes.chain(inputs).find(|other| *other == name) {
        Some(found) => Ok(found),
        None => invalid(format!("--outputs={name}: the graph has no tensor of this name")),
    }
}

/// Writes the types of a function with the names and signs that the model has.
fn declaration(name: &str, inputs: &[Input<'_>], types: &[Type], results: &[(&str, Tensor)]) -> String {
    let typed =
        |name: &str, ty: DataType, mlir: &Type| format!("%{}: {}", QuotedName(name), outer_type(ty, mlir));
    let arguments: Vec<String> =
        inputs.iter().zip(types).map(|(input, ty)| typed(input.name, input.ty, ty)).collect();
    let results: Vec<String> =
        results.iter().map(|(name, tensor)| typed(name, tensor.ty, &type_of(tensor.ty, &tensor.shape))).collect();
    let name: String = name.chars().filter(|c| !matches!(c, '(' | ')')).collect();
    format!("sync func @{name}({}) -> ({})", arguments.join(", "), results.join(", "))
}

/// Writes the type of a tensor with the sign of its elements; those of fewer than 8 bits are bytes.
fn outer_type(ty: DataType, mlir: &Type) -> String {
    let element = match ty {
        DataType::U4 | DataType::U2 | DataType::F4E2M1 | DataType::F8E8M0 => "ui8",
        DataType::I4 | DataType::I2 => "i8",
        _ => ty.name(),
    };
    tensor_type(element, mlir)
}

fn tensor_type(element: &str, mlir: &Type) -> String {
    let extents = mlir.extents().unwrap_or_default();
    let shape: String = extents.iter().map(|extent| extent.map_or("?x".to_owned(), |extent| format!("{extent}x"))).collect();
    format!("tensor<{shape}{element}>")
}

/// The type of an empty sequence.
pub(crate) fn untyped() -> SequenceType {
    SequenceType(None)
}
