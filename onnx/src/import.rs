//! From a graph to a function.

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::rc::Rc;

use incarnate_bytecode::{Error, Result};

use crate::context::Context;
use crate::model::{Model, check_sparse};
use crate::node::{Node, Outputs, invalid, unsupported};
use crate::operators::{self, Lowering};
use crate::proto;
use crate::tensor::{Data, Item};
use crate::weights::{self, Weight};

/// Functions of a model are expanded to this depth. Those of exporters call each other to a depth of five.
const CALLS: usize = 64;
/// The most nodes that are imported, those of expanded functions each time. Models have some 10,000.
const NODES: u64 = 1 << 18;
/// The most nodes whose errors are listed.
const LISTED: usize = 20;

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
    /// The module is compiled for VMVX alone. Then all steps of a small recurrence are one dispatch, with a lowering configuration of that
    /// target; otherwise nothing of the module depends on the target.
    pub is_portable: bool,
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

    /// Returns true if the module has parameters.
    #[must_use]
    pub fn has_weights(&self) -> bool {
        !self.weights.is_empty()
    }

    /// Returns the number of bytes of all weights.
    #[must_use]
    pub fn weight_bytes(&self) -> u64 {
        self.weights.iter().map(Weight::bytes).sum()
    }

    /// Writes the weights as safetensors, of which the keys are those of the module's parameters. They are copied from the model's file,
    /// or from those beside it, without being in memory as a whole.
    ///
    /// # Errors
    /// Errors of reading and writing files.
    pub fn write_weights(&self, file: impl Write) -> Result<()> {
        weights::write(&self.weights, file)
    }
}

/// Names and their values in a graph.
#[derive(Debug, Default)]
struct Names<'m> {
    values: HashMap<&'m str, Item>,
    /// Whether names of the graphs around are unknown here, as in a function.
    is_function: bool,
}

/// What is left of a graph.
#[derive(Clone, Debug)]
pub(crate) struct Rest<'m> {
    /// The nodes that the outputs depend on.
    nodes: Rc<[&'m proto::Node]>,
    /// The number of nodes that are imported.
    next: usize,
    outputs: Rc<[&'m str]>,
}

/// What a function of the model is called with.
#[derive(Debug)]
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
    /// What is left of the graphs that are imported, the innermost last.
    rests: Vec<Rest<'m>>,
    /// The outputs of the innermost graph, if a node has imported what was left of it.
    finished: Option<Vec<Item>>,
    /// The number of nodes around that have imported what was left of their graphs.
    pub(crate) continued: usize,
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
        rests: Vec::new(),
        finished: None,
        continued: 0,
        folded: 0,
        expanded: 0,
    };
    import.cx.is_portable = options.is_portable;
    let dynamic = import.function_of(graph, options)?;
    let (nodes, folded, expanded) = (import.nodes, import.folded, import.expanded);
    let Context { b, weights, mut remarks, .. } = import.cx;
    remarks.insert(
        0,
        format!("nodes: {nodes}, of which {folded} are known at the import; expanded functions: {expanded}"),
    );
    let mlir = b.finish().map_err(|error| Error::internal(error.to_string()))?;
    Ok(Imported { mlir, weights, remarks, dynamic })
}

impl<'m> Import<'m> {
    pub(crate) fn add_initializers(&mut self, graph: &'m proto::Graph, replaced: &[String]) -> Result<()> {
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

    /// Forgets all names, for another function of the same graph.
    pub(crate) fn forget_names(&mut self) {
        self.names = vec![Names::default()];
        self.cx.forget_values();
    }

    pub(crate) fn define(&mut self, name: &'m str, item: Item) {
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
    pub(crate) fn run_nodes(
        &mut self,
        nodes: &'m [proto::Node],
        outputs: &[&'m str],
        cut: &HashSet<&str>,
    ) -> Result<()> {
        let needed = needed(nodes, outputs, cut);
        let nodes = nodes.iter().zip(needed).filter(|(_, is_needed)| *is_needed).map(|(node, _)| node).collect();
        self.run_rest(Rest { nodes, next: 0, outputs: outputs.into() })
    }

    /// Imports the nodes that are left of a graph.
    pub(crate) fn run_rest(&mut self, rest: Rest<'m>) -> Result<()> {
        let (depth, first) = (self.rests.len(), rest.next);
        let nodes = Rc::clone(&rest.nodes);
        self.rests.push(rest);
        for (index, node) in nodes.iter().enumerate().skip(first) {
            self.nodes += 1;
            if self.nodes > NODES {
                return Err(Error::resource_exhausted(format!(
                    "the model has more than {NODES} nodes, counting those of its functions each time"
                )));
            }
            if let Some(rest) = self.rests.last_mut() {
                rest.next = index + 1;
            }
            self.run_node(node)?;
            self.rests.truncate(depth + 1);
            if let Some(items) = self.finished.take() {
                let outputs = self.rests.last().map(|rest| Rc::clone(&rest.outputs)).unwrap_or_default();
                for (name, item) in outputs.iter().zip(items) {
                    self.define(name, item);
                }
                break;
            }
        }
        self.rests.truncate(depth);
        Ok(())
    }

    /// Imports the nodes of a graph that is an attribute of a node, and then what is left of the graph of that node: returns the
    /// outputs of the latter.
    pub(crate) fn continued(&mut self, node: &Node<'m>, graph: &'m proto::Graph) -> Result<Vec<Item>> {
        let Some(rest) = self.rests.last().cloned() else { return Err(Error::internal("no graph is imported")) };
        self.names.push(Names::default());
        self.continued += 1;
        let items = self.graph(graph, Vec::new())?;
        for (name, item) in node.proto.output.iter().zip(items) {
            self.define(name, item);
        }
        let outputs = Rc::clone(&rest.outputs);
        self.run_rest(rest)?;
        let items = outputs.iter().map(|name| self.lookup(name).unwrap_or(Item::Unknown)).collect();
        self.continued -= 1;
        self.names.pop();
        Ok(items)
    }

    /// Ends the graph of the node that is imported, with its outputs.
    pub(crate) fn finish_graph(&mut self, outputs: Vec<Item>) {
        self.finished = Some(outputs);
    }

    fn run_node(&mut self, proto: &'m proto::Node) -> Result<()> {
        let name = match (&*proto.name, proto.output.first()) {
            ("", Some(output)) => output.clone(),
            (name, _) => name.to_owned(),
        };
        self.cx.b.set_location(Some(&name));
        let depth = self.cx.depth();
        let (names, frames, continued) = (self.names.len(), self.frames.len(), self.continued);
        let outer = core::mem::replace(&mut self.cx.node, format!("node `{name}` ({})", proto.op_type));
        match self.lowered(proto, name.clone()) {
            Ok(outputs) => {
                let is_known =
                    |item: &Item| matches!(item, Item::Tensor(tensor) if !matches!(tensor.data, Data::Value(_)));
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
                self.continued = continued;
                // The code is that of the import as a whole.
                let reason = error.to_string().replacen(&format!("{}; ", error.code()), "", 1);
                self.errors.push(format!("{}: {reason}", self.cx.node));
                for output in &proto.output {
                    self.define(output, Item::Unknown);
                }
            }
        }
        self.cx.node = outer;
        Ok(())
    }

    fn lowered(&mut self, proto: &'m proto::Node, name: String) -> Result<Outputs> {
        let Some(frame) = self.frames.last() else { return Err(Error::internal("no function is imported")) };
        let domain = proto::plain_domain(&proto.domain);
        let function = self.model.proto.functions.iter().find(|function| {
            function.name == proto.op_type && function.domain == proto.domain && function.overload == proto.overload
        });
        let version = proto::version_of(frame.opsets, domain);
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
        let node = Node { proto, name, inputs, attributes };
        match (function, row.map(|row| row.lower)) {
            (Some(function), _) => self.call(function, &node),
            (None, Some(Lowering::Plain(lower))) => {
                let outputs = lower(&mut self.cx, &node)?;
                self.cx.note_ranges(&node, &outputs)?;
                Ok(outputs)
            }
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
        let outputs: Vec<&'m str> = function.output.iter().map(String::as_str).collect();
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
        let outputs: Vec<&'m str> = graph.output.iter().map(|output| &*output.name).collect();
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

    /// Fails if nodes could not be imported. Where the reasons name extents of `open`, the error says how to fix them.
    pub(crate) fn finish_errors<'n>(&mut self, open: impl core::iter::Iterator<Item = &'n str>) -> Result<()> {
        if self.errors.is_empty() {
            return Ok(());
        }
        let count = self.errors.len();
        let mut text = self.errors.iter().take(LISTED).cloned().collect::<Vec<_>>().join("; ");
        if count > LISTED {
            text += &format!("; and {} more", count - LISTED);
        }
        let is_named = |name: &&str| text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == *name);
        let mut named: Vec<String> = open.filter(is_named).map(|name| format!("--dim={name}=N")).collect();
        named.sort();
        named.dedup();
        if !named.is_empty() {
            text += &format!("; with fixed extents it may be supported: {}", named.join(" "));
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
