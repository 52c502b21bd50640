//! The graph of a module's dispatches and transfers, for Graphviz or as a drawing.
//!
//! A command buffer is a cluster; edges lead from the command that wrote memory last to those that read it. What a dispatch
//! writes is taken to be its last binding, which is where the compiler puts results.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use incarnate_runtime::bytecode::Module;

use super::program::{Memory, Program, Range, Recorder, What};
use crate::tooling::xml::escape;

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
    /// Memory that the program passes in or gets out.
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
    fn of(module: &Module, recorder: &Recorder) -> Graph {
        let title = format!("@{}", module.function_name(recorder.function));
        let commands = &recorder.commands;
        let nodes = commands.iter().map(|command| {
            let (shape, label) = match &command.what {
                What::Dispatch { name, workgroups } => {
                    let dims = workgroups.map(|dim| dim.map_or_else(|| "?".to_owned(), |dim| dim.to_string()));
                    (Shape::Dispatch, vec![name.clone(), format!("workgroups {}", dims.join(" x "))])
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
        graph.connect(recorder);
        graph
    }

    /// Adds the edges, and a node for memory that is read before it is written, or written and not read.
    fn connect(&mut self, recorder: &Recorder) {
        let commands = &recorder.commands;
        let (mut inputs, mut outputs) = (BTreeMap::new(), BTreeMap::new());
        let mut is_read: BTreeSet<usize> = BTreeSet::new();
        for (to, command) in commands.iter().enumerate() {
            for range in &command.reads {
                let mut is_written = false;
                for (from, earlier) in commands.iter().enumerate().take(to).rev() {
                    let written = earlier.writes.iter().find(|written| written.may_overlap(range));
                    let Some(written) = written else { continue };
                    self.edges.insert((from, to));
                    is_read.insert(from);
                    is_written = true;
                    if written.covers(range) {
                        break;
                    }
                }
                // What is written in part may be read in part from elsewhere, which is not shown.
                if !is_written {
                    let node = *inputs.entry(range.memory).or_insert_with(|| self.add_memory(range));
                    self.edges.insert((node, to));
                }
            }
        }
        for (from, command) in commands.iter().enumerate().filter(|(from, _)| !is_read.contains(from)) {
            for range in command.writes.iter().filter(|range| matches!(range.memory, Memory::Slot(_))) {
                let node = *outputs.entry(range.memory).or_insert_with(|| self.add_memory(range));
                self.edges.insert((from, node));
            }
        }
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

    /// The layer of each node: one more than that of any that leads to it.
    fn layers(&self) -> Vec<usize> {
        let mut layers = vec![0usize; self.nodes.len()];
        // Edges lead from a command to a later one, so as many rounds as there are layers are enough.
        for _ in 0..self.nodes.len() {
            let mut changed = false;
            for (from, to) in &self.edges {
                if layers[*to] <= layers[*from] {
                    layers[*to] = layers[*from] + 1;
                    changed = true;
                }
            }
            if !changed {
                break;
            }
        }
        // What is passed in stands right above the first command that reads it.
        for (node, info) in self.nodes.iter().enumerate() {
            let readers = self.edges.iter().filter(|edge| edge.0 == node).map(|edge| layers[edge.1]);
            if let (Shape::Slot | Shape::Buffer, Some(first)) = (info.shape, readers.min()) {
                layers[node] = first.saturating_sub(1);
            }
        }
        layers
    }
}

fn graphs(module: &Module, program: &Program) -> Vec<Graph> {
    program.recorders.iter().map(|recorder| Graph::of(module, recorder)).collect()
}

/// The graph in the language of Graphviz.
pub(super) fn dot(module: &Module, program: &Program) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "digraph {} {{\n  rankdir=TB;\n  node [fontname=\"sans-serif\", fontsize=10];",
        quoted(module.name())
    );
    for (number, graph) in graphs(module, program).iter().enumerate() {
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
    text
}

/// A text in the language of Graphviz.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\n' => quoted.push_str("\\n"),
            control if control.is_control() => quoted.push('\u{FFFD}'),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// Sizes in the drawing, in pixels.
const CHARACTER: usize = 7;
const LINE: usize = 16;
const PADDING: usize = 8;
const GAP: usize = 24;
const LAYER_GAP: usize = 40;
const TITLE: usize = 28;

/// A node's place in the drawing: left, top, width, height.
#[derive(Clone, Copy, Debug)]
struct Place {
    left: usize,
    top: usize,
    width: usize,
    height: usize,
}

/// The graph as a drawing: layers from top to bottom, in each the nodes in the order of the average of those above.
pub(super) fn svg(module: &Module, program: &Program) -> String {
    let (mut body, mut top, mut width) = (String::new(), GAP, 0);
    for graph in graphs(module, program) {
        let (places, right, bottom) = place(&graph, top + TITLE);
        draw(&mut body, &graph, &places, top);
        (top, width) = (bottom + GAP, width.max(right));
    }
    let (width, height) = (width + GAP, top);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<title>{}</title>\n<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" \
         refX=\"8\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path d=\"M0,0 L8,4 L0,8 z\" \
         fill=\"#555\"/></marker></defs>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{body}</svg>\n",
        escaped(module.name())
    )
}

/// Places of the nodes, the right edge, the bottom edge.
fn place(graph: &Graph, mut top: usize) -> (Vec<Place>, usize, usize) {
    let layers = graph.layers();
    let mut places = vec![Place { left: 0, top: 0, width: 0, height: 0 }; graph.nodes.len()];
    let mut right = 0;
    for layer in 0..=layers.iter().copied().max().unwrap_or(0) {
        let mut row: Vec<usize> = (0..graph.nodes.len()).filter(|node| layers[*node] == layer).collect();
        let center = |node: usize, places: &[Place]| {
            let above: Vec<usize> = graph
                .edges
                .iter()
                .filter(|edge| edge.1 == node && layers[edge.0] < layer)
                .map(|edge| places[edge.0].left + places[edge.0].width / 2)
                .collect();
            above.iter().sum::<usize>().checked_div(above.len()).unwrap_or(0)
        };
        row.sort_by_key(|node| (center(*node, &places), *node));
        let (mut left, mut height) = (GAP, 0);
        for node in row {
            let label = &graph.nodes[node].label;
            let characters = label.iter().map(|line| line.chars().count()).max().unwrap_or(0);
            let size = (characters * CHARACTER + 2 * PADDING, label.len() * LINE + 2 * PADDING);
            places[node] = Place { left, top, width: size.0, height: size.1 };
            left += size.0 + GAP;
            height = height.max(size.1);
        }
        right = right.max(left);
        top += height + LAYER_GAP;
    }
    (places, right, top - LAYER_GAP)
}

fn draw(body: &mut String, graph: &Graph, places: &[Place], top: usize) {
    // Writing to a string does not fail.
    let _ =
        writeln!(body, "<text x=\"{GAP}\" y=\"{}\" font-weight=\"bold\">{}</text>", top + LINE, escaped(&graph.title));
    for (from, to) in &graph.edges {
        let (from, to) = (places[*from], places[*to]);
        let (x1, y1) = (from.left + from.width / 2, from.top + from.height);
        let (x2, y2) = (to.left + to.width / 2, to.top);
        let bend = y1.abs_diff(y2) / 2;
        let (c1, c2) = (y1 + bend, y2.saturating_sub(bend));
        let _ = writeln!(
            body,
            "<path d=\"M{x1},{y1} C{x1},{c1} {x2},{c2} {x2},{y2}\" fill=\"none\" stroke=\"#555\" marker-end=\"url(#arrow)\"/>"
        );
    }
    for (node, place) in graph.nodes.iter().zip(places) {
        let (fill, radius) = match node.shape {
            Shape::Dispatch => ("#dbe9f6", 2),
            Shape::Transfer => ("#e5f5e0", 8),
            Shape::Slot => ("#ffffff", place.height / 2),
            Shape::Buffer => ("#fdf3d8", 2),
        };
        let Place { left, top, width, height } = *place;
        let _ = writeln!(
            body,
            "<rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" rx=\"{radius}\" fill=\"{fill}\" \
             stroke=\"#555\"/>"
        );
        for (line, text) in node.label.iter().enumerate() {
            let y = top + PADDING + line * LINE + LINE * 3 / 4;
            let _ = writeln!(
                body,
                "<text x=\"{}\" y=\"{y}\" text-anchor=\"middle\">{}</text>",
                left + width / 2,
                escaped(text)
            );
        }
    }
}

/// A label: text of one line within XML, with what cannot be shown replaced.
fn escaped(text: &str) -> String {
    escape(&text.replace(char::is_control, "\u{FFFD}"))
}
