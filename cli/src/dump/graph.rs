//! The graph of a module's dispatches and transfers, in the language of Graphviz.
//!
//! A command buffer is a cluster; edges lead from the last command that wrote a memory range to its readers. The
//! compiler binds results last, so a dispatch is assumed to write its last binding.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use incarnate_runtime::bytecode::{Budget, Escaped, EscapedLines, Module};
use incarnate_runtime::{Result, ResultExt};

use super::program::{Memory, Program, Range, Recorder, What};

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    shape: Shape,
    /// Lines of text.
    label: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Dispatch,
    Transfer,
    /// Memory that the program passes in or returns.
    Slot,
    /// A buffer of the module, such as its constants.
    Buffer,
}

/// The graph of a command buffer.
#[derive(Debug)]
struct Graph {
    title: String,
    nodes: Vec<Node>,
    /// From, to.
    edges: BTreeSet<(usize, usize)>,
}

impl Graph {
    fn of(module: &Module, recorder: &Recorder, budget: &mut Budget) -> Result<Graph> {
        let title = format!("@{}", Escaped(&module.function_name(recorder.function)));
        let commands = &recorder.commands;
        let nodes = commands.iter().map(|command| {
            let (shape, label) = match &command.what {
                What::Dispatch { name, workgroups } => {
                    let dims = workgroups.map(|dim| dim.map_or_else(|| "?".to_owned(), |dim| dim.to_string()));
                    (Shape::Dispatch, vec![Escaped(name).to_string(), format!("workgroups {}", dims.join(" x "))])
                }
                What::Transfer(name) => {
                    let length = command.writes.first().and_then(|range| range.length);
                    let length = length.map(|length| format!("{length} bytes"));
                    (Shape::Transfer, std::iter::once((*name).to_owned()).chain(length).collect())
                }
            };
            Node { shape, label }
        });
        let mut graph = Graph { title, nodes: nodes.collect(), edges: BTreeSet::new() };
        graph.connect(recorder, budget)?;
        Ok(graph)
    }

    /// Adds the edges, and a node for memory that is read before it is written, or written and never read.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED where the budget has fewer entries than there are pairs of a reader and an earlier writer.
    fn connect(&mut self, recorder: &Recorder, budget: &mut Budget) -> Result<()> {
        let commands = &recorder.commands;
        let (mut inputs, mut outputs) = (BTreeMap::new(), BTreeMap::new());
        let mut is_read: BTreeSet<usize> = BTreeSet::new();
        // What the commands so far write, by memory.
        let mut writers: BTreeMap<Memory, Vec<(usize, &Range)>> = BTreeMap::new();
        for (to, command) in commands.iter().enumerate() {
            for range in &command.reads {
                let mut is_written = false;
                for (from, written) in writers.get(&range.memory).into_iter().flatten().rev().copied() {
                    budget.spend(1, "the commands that a command may depend on")?;
                    if !written.may_overlap(range) {
                        continue;
                    }
                    self.edges.insert((from, to));
                    is_read.insert(from);
                    is_written = true;
                    if written.covers(range) {
                        break;
                    }
                }
                // The rest of a partly written range may have another writer, which is not shown.
                if !is_written {
                    let node = *inputs.entry(range.memory).or_insert_with(|| self.add_memory(range));
                    self.edges.insert((node, to));
                }
            }
            for range in &command.writes {
                writers.entry(range.memory).or_default().push((to, range));
            }
        }
        for (from, command) in commands.iter().enumerate().filter(|(from, _)| !is_read.contains(from)) {
            for range in command.writes.iter().filter(|range| matches!(range.memory, Memory::Slot(_))) {
                let node = *outputs.entry(range.memory).or_insert_with(|| self.add_memory(range));
                self.edges.insert((from, node));
            }
        }
        Ok(())
    }

    fn add_memory(&mut self, range: &Range) -> usize {
        let (shape, text) = match range.memory {
            Memory::Slot(slot) => (Shape::Slot, format!("binding {slot}")),
            Memory::Global(global) => (Shape::Buffer, format!("buffer of global {global}")),
            Memory::Other(_) => (Shape::Buffer, "buffer".to_owned()),
        };
        self.nodes.push(Node { shape, label: vec![text] });
        self.nodes.len() - 1
    }
}

/// The most pairs of commands of a module that are compared, for each of which there may be an edge.
const PAIRS: u64 = 1 << 24;

fn graphs(module: &Module, program: &Program) -> Result<Vec<Graph>> {
    let mut budget = Budget::of_entries(PAIRS);
    let graph = |recorder: &Recorder| {
        let context = || format!("function @{}", module.function_name(recorder.function));
        Graph::of(module, recorder, &mut budget).context(context)
    };
    program.recorders.iter().map(graph).collect()
}

/// Formats the graph in the language of Graphviz.
///
/// # Errors
/// RESOURCE_EXHAUSTED where the module has too many commands that depend on each other.
pub(super) fn dot(module: &Module, program: &Program) -> Result<String> {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "digraph {} {{\n  rankdir=TB;\n  node [fontname=\"sans-serif\", fontsize=10];",
        quoted(&Escaped(module.name()).to_string())
    );
    for (number, graph) in graphs(module, program)?.iter().enumerate() {
        let _ = writeln!(text, "  subgraph cluster_{number} {{\n    label={};", quoted(&graph.title));
        for (index, node) in graph.nodes.iter().enumerate() {
            let style = match node.shape {
                Shape::Dispatch => "shape=box, style=filled, fillcolor=\"#dbe9f6\"",
                Shape::Transfer => "shape=box, style=\"filled,rounded\", fillcolor=\"#e5f5e0\"",
                Shape::Slot => "shape=ellipse",
                Shape::Buffer => "shape=cylinder",
            };
            let _ = writeln!(text, "    n{number}_{index} [label={}, {style}];", quoted(&node.label.join("\n")));
        }
        for (from, to) in &graph.edges {
            let _ = writeln!(text, "    n{number}_{from} -> n{number}_{to};");
        }
        text.push_str("  }\n");
    }
    text.push_str("}\n");
    Ok(text)
}

/// Formats lines in the language of Graphviz, which knows quotes and backslashes.
fn quoted(text: &str) -> String {
    let escaped = EscapedLines(text).to_string();
    let mut quoted = String::from("\"");
    for character in escaped.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push(' '),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
