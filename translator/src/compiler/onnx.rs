//! The names and types of an ONNX model's inputs and outputs, which the importer drops.
//!
//! A function of an imported model has no declaration (`iree.abi.declaration`). It is added here as an attribute, which the
//! compiler keeps, so that the function is called like one of any other frontend.

use std::fmt::Write as _;

use incarnate_bytecode::QuotedName;

/// Names of inputs and outputs, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    inputs: Vec<String>,
    outputs: Vec<String>,
}

/// Field numbers of onnx.proto (onnx/onnx.proto of ONNX 1.0 and later).
mod field {
    pub(super) const MODEL_GRAPH: u64 = 7;
    pub(super) const GRAPH_NODE: u64 = 1;
    pub(super) const NODE_OUTPUT: u64 = 2;
    pub(super) const NODE_NAME: u64 = 3;
    pub(super) const NODE_OPERATOR: u64 = 4;
    pub(super) const GRAPH_INITIALIZER: u64 = 5;
    pub(super) const GRAPH_INPUT: u64 = 11;
    pub(super) const GRAPH_OUTPUT: u64 = 12;
    pub(super) const VALUE_NAME: u64 = 1;
    pub(super) const TENSOR_NAME: u64 = 8;
    pub(super) const TENSOR_EXTERNAL: u64 = 13;
    pub(super) const ENTRY_KEY: u64 = 1;
    pub(super) const ENTRY_VALUE: u64 = 2;
    /// Of a model: the functions, whose nodes are their field 7.
    pub(super) const MODEL_FUNCTION: u64 = 25;
    pub(super) const FUNCTION_NODE: u64 = 7;
    pub(super) const NODE_ATTRIBUTE: u64 = 5;
    /// Of an attribute: a tensor, a graph, several of them.
    pub(super) const ATTRIBUTE_TENSORS: [u64; 2] = [5, 10];
    pub(super) const ATTRIBUTE_GRAPHS: [u64; 2] = [6, 11];
    pub(super) const GRAPH_SPARSE: u64 = 15;
}

/// Reads the names of the inputs that are not weights, and of the outputs; what is malformed has none.
pub(super) fn names(model: &[u8]) -> Names {
    let Some((_, graph)) = messages(model).find(|(number, _)| *number == field::MODEL_GRAPH) else {
        return Names::default();
    };
    let text = |message: &[u8], number: u64| {
        let (_, name) = messages(message).find(|(found, _)| *found == number)?;
        Some(String::from_utf8_lossy(name).into_owned())
    };
    let all = |wanted: u64, name: u64| {
        messages(graph).filter(move |(number, _)| *number == wanted).filter_map(move |(_, message)| text(message, name))
    };
    let weights: Vec<String> = all(field::GRAPH_INITIALIZER, field::TENSOR_NAME).collect();
    Names {
        inputs: all(field::GRAPH_INPUT, field::VALUE_NAME).filter(|name| !weights.contains(name)).collect(),
        outputs: all(field::GRAPH_OUTPUT, field::VALUE_NAME).collect(),
    }
}

/// Returns the names of the files beside a model in which it keeps weights, each once.
pub(super) fn weight_files(model: &[u8]) -> Vec<String> {
    /// Graphs in graphs are followed to this depth; models have a few.
    const DEPTH: usize = 16;
    let mut files = Vec::new();
    for (number, message) in messages(model) {
        match number {
            field::MODEL_GRAPH => files_of_graph(message, DEPTH, &mut files),
            field::MODEL_FUNCTION => files_of_nodes(message, field::FUNCTION_NODE, DEPTH, &mut files),
            _ => {}
        }
    }
    files.sort();
    files.dedup();
    files
}

fn files_of_graph(graph: &[u8], depth: usize, files: &mut Vec<String>) {
    for (number, message) in messages(graph) {
        match number {
            field::GRAPH_INITIALIZER => files_of_tensor(message, files),
            // Its values and its indices are tensors.
            field::GRAPH_SPARSE => messages(message).for_each(|(_, tensor)| files_of_tensor(tensor, files)),
            _ => {}
        }
    }
    files_of_nodes(graph, field::GRAPH_NODE, depth, files);
}

fn files_of_nodes(owner: &[u8], node: u64, depth: usize, files: &mut Vec<String>) {
    let nodes = messages(owner).filter(|(number, _)| *number == node);
    let attributes = nodes.flat_map(|(_, node)| messages(node)).filter(|(number, _)| *number == field::NODE_ATTRIBUTE);
    for (number, message) in attributes.flat_map(|(_, attribute)| messages(attribute)) {
        if field::ATTRIBUTE_TENSORS.contains(&number) {
            files_of_tensor(message, files);
        } else if field::ATTRIBUTE_GRAPHS.contains(&number) && depth > 0 {
            files_of_graph(message, depth - 1, files);
        }
    }
}

fn files_of_tensor(tensor: &[u8], files: &mut Vec<String>) {
    for (_, entry) in messages(tensor).filter(|(number, _)| *number == field::TENSOR_EXTERNAL) {
        let text = |wanted: u64| messages(entry).find(|(number, _)| *number == wanted).map(|(_, text)| text);
        if let (Some(b"location"), Some(name)) = (text(field::ENTRY_KEY), text(field::ENTRY_VALUE)) {
            files.push(String::from_utf8_lossy(name).into_owned());
        }
    }
}

/// A node of a graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Node {
    /// The name, or that of the first output.
    name: String,
    operator: String,
}

/// The operator of weights, which are no nodes of the model.
const CONSTANT: &str = "Constant";

/// Reads the nodes of a model in order, without constants.
pub(super) fn nodes(model: &[u8]) -> Vec<Node> {
    let Some((_, graph)) = messages(model).find(|(number, _)| *number == field::MODEL_GRAPH) else {
        return Vec::new();
    };
    let all = messages(graph).filter(|(number, _)| *number == field::GRAPH_NODE).map(|(_, node)| {
        let text = |number: u64| {
            let found = messages(node).find(|(found, text)| *found == number && !text.is_empty());
            found.map(|(_, text)| String::from_utf8_lossy(text).into_owned())
        };
        let name = text(field::NODE_NAME).or_else(|| text(field::NODE_OUTPUT));
        Node { name: name.unwrap_or_default(), operator: text(field::NODE_OPERATOR).unwrap_or_default() }
    });
    all.filter(|node| node.operator != CONSTANT).collect()
}

/// Returns the name of the node that a line of the imported model is made of, counted from 1. The importer writes a line for each
/// node, in order; `None` if the lines are not those of the nodes, as with nested graphs.
pub(super) fn node_at<'n>(mlir: &str, line: usize, nodes: &'n [Node]) -> Option<&'n str> {
    let lines = mlir.lines().zip(1..).filter_map(|(text, number)| Some((operator(text)?, number)));
    let lines: Vec<(&str, usize)> = lines.filter(|row| row.0 != CONSTANT).collect();
    let operators = lines.iter().map(|row| row.0);
    if !operators.eq(nodes.iter().map(|node| node.operator.as_str())) {
        return None;
    }
    let index = lines.iter().position(|row| row.1 == line)?;
    nodes.get(index).map(|node| node.name.as_str()).filter(|name| !name.is_empty())
}

/// Returns the operator of a line of an imported model.
pub(super) fn operator(line: &str) -> Option<&str> {
    line.split_once("torch.operator \"onnx.")?.1.split('"').next()
}

/// Returns the fields of a protocol buffer that have a length, until its end or a malformed field.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    core::iter::from_fn(move || {
        loop {
            let tag = varint(&mut bytes)?;
            let (number, kind) = (tag >> 3, tag & 7);
            let length = match kind {
                0 => {
                    varint(&mut bytes)?;
                    continue;
                }
                1 => 8,
                2 => usize::try_from(varint(&mut bytes)?).ok()?,
                5 => 4,
                _ => return None,
            };
            let (value, rest) = bytes.split_at_checked(length)?;
            bytes = rest;
            if kind == 2 {
                return Some((number, value));
            }
        }
    })
}

/// Reads an integer of seven bits a byte.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7F) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Adds the declaration to the function of an imported model; `None` if its form is unknown.
pub(super) fn declare(mlir: &[u8], names: &Names) -> Option<Vec<u8>> {
    let start = mlir.windows(FUNCTION.len()).position(|window| window == FUNCTION)? + FUNCTION.len();
    let end = start + mlir.get(start..)?.iter().position(|byte| *byte == b'\n')?;
    let header = core::str::from_utf8(mlir.get(start..end)?).ok()?;
    let (name, rest) = function_name(header)?;
    let (arguments, rest) = rest.split_once(')')?;
    let (results, _) = rest.strip_prefix(" -> ")?.split_once(ATTRIBUTES)?;
    let at = end - rest.len() + rest.find(ATTRIBUTES)? + ATTRIBUTES.len();
    let arguments: Vec<&str> =
        types(arguments).map(|argument| argument.split_once(": ").map(|(_, ty)| ty)).collect::<Option<_>>()?;
    let results: Vec<&str> =
        types(results.strip_prefix('(').and_then(|text| text.strip_suffix(')')).unwrap_or(results)).collect();
    // What ends a name in a declaration is not part of it.
    let name: String = name.chars().filter(|c| !matches!(c, '(' | ')')).collect();
    let mut declaration = format!("sync func @{name}(");
    list(&mut declaration, &arguments, &names.inputs)?;
    declaration += ") -> (";
    list(&mut declaration, &results, &names.outputs)?;
    declaration += ")";
    let attribute = format!("iree.reflection = {{iree.abi.declaration = \"{declaration}\"}}, ");
    Some([mlir.get(..at)?, attribute.as_bytes(), mlir.get(at..)?].concat())
}

/// Splits the name of a function, which is quoted where it is no identifier (`"torch-jit-export"`), from what follows the
/// parenthesis after it. The name keeps its escapes, which text in an attribute has, too.
fn function_name(header: &str) -> Option<(&str, &str)> {
    let Some(quoted) = header.strip_prefix('"') else { return header.split_once('(') };
    let mut is_escaped = false;
    let end = quoted.find(|c| {
        let is_end = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_end
    })?;
    let (name, rest) = quoted.split_at(end);
    Some((name, rest.strip_prefix("\"(")?))
}

/// What precedes the name of a function.
const FUNCTION: &[u8] = b"func.func @";
/// What precedes the attributes of a function of the importer, which has some.
const ATTRIBUTES: &str = " attributes {";

/// Splits a list of types at the commas outside of brackets.
fn types(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    let parts = list.split(move |c| {
        depth += i32::from(matches!(c, '<' | '[')) - i32::from(matches!(c, '>' | ']'));
        c == ',' && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty())
}

/// Writes tensors with their names; without names if there are not as many. Tensors without a name get one with the signature.
fn list(declaration: &mut String, types: &[&str], names: &[String]) -> Option<()> {
    for (index, ty) in types.iter().enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        let name = names.get(index).filter(|name| names.len() == types.len() && !name.is_empty());
        let name = name.map(|name| format!("%{}: ", QuotedName(name))).unwrap_or_default();
        let _ = write!(declaration, "{comma}{}{}", escaped(&name), tensor(ty)?);
    }
    Some(())
}

/// Escapes a text for a string of MLIR.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\5C").replace('"', "\\22")
}

/// Converts `!torch.vtensor<[2,?],si64>` to `tensor<2x?xi64>`.
fn tensor(ty: &str) -> Option<String> {
    let (shape, element) = ty.strip_prefix("!torch.vtensor<[")?.strip_suffix('>')?.split_once("],")?;
    let element = element.strip_prefix('s').filter(|rest| rest.starts_with('i')).unwrap_or(element);
    let dimensions = shape.split(',').filter(|extent| !extent.is_empty());
    Some(format!("tensor<{}{element}>", dimensions.map(|extent| format!("{extent}x")).collect::<String>()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// A field with a length.
    fn part(number: u8, bytes: &[u8]) -> Vec<u8> {
        let length = bytes.len();
        let varint = if length < 128 { vec![length as u8] } else { vec![length as u8 | 0x80, (length >> 7) as u8] };
        [&[number << 3 | 2], &varint[..], bytes].concat()
    }

    #[test]
    fn inputs_without_weights_and_outputs_are_named() {
        let graph = [
            part(11, &part(1, b"x.1")),
            part(11, &part(1, b"w")),
            vec![8, 0x80, 1],
            part(5, &part(8, b"w")),
            part(12, &part(1, b"logits")),
        ];
        let model = [vec![8, 9], part(7, &graph.concat())].concat();
        let found = names(&model);
        assert_eq!(found, Names { inputs: vec!["x.1".into()], outputs: vec!["logits".into()] });
        for length in 0..model.len() {
            names(&model[..length]);
        }
        let mlir = "module {\n  func.func @net(%arg0: !torch.vtensor<[1,?,2],si64>) -> !torch.vtensor<[],f32> \
                    attributes {torch.onnx_meta.ir_version = 9 : si64} {\n  }\n}\n";
        let declared = String::from_utf8(declare(mlir.as_bytes(), &found).unwrap()).unwrap();
        let attribute = "iree.reflection = {iree.abi.declaration = \
                         \"sync func @net(%x.1: tensor<1x?x2xi64>) -> (%logits: tensor<f32>)\"}, ";
        assert_eq!(declared, mlir.replace("attributes {", &format!("attributes {{{attribute}")));
    }

    #[test]
    fn files_of_weights_are_found_in_nested_graphs() {
        let tensor = |name: &[u8]| {
            let entry = |key: &[u8], value: &[u8]| part(13, &[part(1, key), part(2, value)].concat());
            [entry(b"offset", b"0"), entry(b"location", name)].concat()
        };
        let inner = part(5, &tensor(b"inner.bin"));
        let node = |attribute: &[u8]| part(1, &part(5, attribute));
        let graph = [part(5, &tensor(b"w.bin")), node(&part(5, &tensor(b"c.bin"))), node(&part(6, &inner))].concat();
        let model = part(7, &[graph, part(5, &tensor(b"w.bin")), part(15, &part(1, &tensor(b"s.bin")))].concat());
        assert_eq!(weight_files(&model), ["c.bin", "inner.bin", "s.bin", "w.bin"]);
        for length in 0..model.len() {
            weight_files(&model[..length]);
        }
    }

    #[test]
    fn lines_are_those_of_nodes() {
        let node = |name: &[u8], operator: &[u8]| {
            part(1, &[part(1, b"x"), part(2, b"y"), part(3, name), part(4, operator)].concat())
        };
        let graph = [node(b"", b"Relu"), node(b"c", b"Constant"), node(b"/block/Unique", b"Unique")].concat();
        let nodes = nodes(&part(7, &graph));
        let mlir = "func.func @f() {\n  %0 = torch.operator \"onnx.Constant\"() {}\n  %1 = torch.operator \"onnx.Relu\"(%0)\n  \
                    %2 = torch.operator \"onnx.Unique\"(%1)\n}\n";
        let names = [1, 2, 3, 4].map(|line| node_at(mlir, line, &nodes));
        assert_eq!(names, [None, None, Some("y"), Some("/block/Unique")]);
        assert_eq!(node_at(mlir, 4, &nodes[..1]), None);
    }

    #[test]
    fn names_of_graphs_may_be_quoted() {
        for (quoted, declared) in [
            ("\"torch-jit-export\"", "torch-jit-export"),
            (r#""a(b) \22c\5C""#, r"ab \22c\5C"),
            (r#""\\\"x""#, r#"\\\"x"#),
            ("main.graph", "main.graph"),
        ] {
            let mlir = format!(
                "func.func @{quoted}(%arg0: !torch.vtensor<[],f32>) -> !torch.vtensor<[],f32> attributes {{a}} {{\n"
            );
            let text = String::from_utf8(declare(mlir.as_bytes(), &Names::default()).unwrap()).unwrap();
            let wanted = format!("\"sync func @{declared}(tensor<f32>) -> (tensor<f32>)\"");
            assert!(text.contains(&wanted), "{text}");
        }
        assert_eq!(declare(b"func.func @\"f(%arg0: i32) -> i32 attributes {a} {\n", &Names::default()), None);
    }

    #[test]
    fn names_are_the_models() {
        let names = Names { inputs: vec!["a".into()], outputs: vec!["a.b".into(), "in:0 \"x\\".into()] };
        let mlir = "func.func @f(%arg0: !torch.vtensor<[4],f32>, %arg1: !torch.vtensor<[4],ui8>) -> \
                    (!torch.vtensor<[4],f32>, !torch.vtensor<[4],i1>) attributes {a = 1} {\n";
        let declared = String::from_utf8(declare(mlir.as_bytes(), &names).unwrap()).unwrap();
        assert!(
            declared.contains(
                r#"@f(tensor<4xf32>, tensor<4xui8>) -> (%a.b: tensor<4xf32>, %\22in:0 \5C22x\5C5C\22: tensor<4xi1>)"#
            ),
            "{declared}"
        );
        for other in ["", "func.func @f(%arg0: !torch.list<int>) -> i32 attributes {a = 1} {\n", "func.func @f"] {
            assert_eq!(declare(other.as_bytes(), &names), None, "{other}");
        }
    }
}
