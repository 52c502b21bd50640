//! Whole imports of small models, which are built here.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod control;
mod forms;
mod indices;
mod training;

use std::fs;

use prost::Message as _;

use crate::proto;
use crate::{Imported, Model, Options, import};

/// An extent of an input: a number or a name.
fn dimension(text: &str) -> proto::Dimension {
    match text.parse() {
        Ok(value) => proto::Dimension { value: Some(value), param: None },
        Err(_) => proto::Dimension { value: None, param: Some(text.to_owned()) },
    }
}

/// A value of a type by its number, of a shape such as `batch,4`.
fn value(name: &str, element: i32, shape: &str) -> proto::ValueInfo {
    let dim = shape.split(',').filter(|text| !text.is_empty()).map(dimension).collect();
    let tensor = proto::TensorType { element, shape: Some(proto::Shape { dim }) };
    proto::ValueInfo { name: name.to_owned(), ty: Some(proto::Type { tensor: Some(tensor), ..proto::Type::default() }) }
}

fn node(operator: &str, inputs: &[&str], outputs: &[&str]) -> proto::Node {
    let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect();
    proto::Node {
        op_type: operator.to_owned(),
        input: names(inputs),
        output: names(outputs),
        name: format!("the {}", outputs.first().copied().unwrap_or_default()),
        ..proto::Node::default()
    }
}

fn with_int(mut node: proto::Node, name: &str, value: i64) -> proto::Node {
    node.attribute.push(proto::Attribute { name: name.to_owned(), i: value, ..proto::Attribute::default() });
    node
}

/// A tensor of `i64`.
fn integers(name: &str, values: &[i64]) -> proto::Tensor {
    proto::Tensor {
        name: name.to_owned(),
        dims: vec![values.len() as i64],
        data_type: 7,
        int64_data: values.to_vec(),
        ..proto::Tensor::default()
    }
}

fn graph(inputs: Vec<proto::ValueInfo>, nodes: Vec<proto::Node>, outputs: Vec<proto::ValueInfo>) -> proto::Graph {
    proto::Graph { name: "net".to_owned(), input: inputs, node: nodes, output: outputs, ..proto::Graph::default() }
}

fn model(graph: proto::Graph) -> proto::Model {
    let opset_import = vec![proto::OperatorSet { domain: String::new(), version: 17 }];
    proto::Model { graph: Some(graph), opset_import, ..proto::Model::default() }
}

fn imported(model: &proto::Model, options: &Options) -> incarnate_bytecode::Result<Imported> {
    import(&Model::decode(model.encode_to_vec(), "").unwrap(), options)
}

/// Returns the MLIR of a model.
fn text(model: &proto::Model) -> String {
    imported(model, &Options::default()).unwrap().mlir
}

/// Returns the line of an error.
fn error(model: &proto::Model, options: &Options) -> String {
    let text = imported(model, options).unwrap_err().to_string();
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

const F32: i32 = 1;
const I8: i32 = 3;
const I64: i32 = 7;
const BOOL: i32 = 9;

/// Flattens all but the first extent by arithmetic on the shape, as exporters do it.
fn flattening() -> proto::Graph {
    let nodes = vec![
        node("Shape", &["x"], &["shape"]),
        node("Gather", &["shape", "first"], &["batch"]),
        node("Unsqueeze", &["batch", "zero"], &["batch1"]),
        with_int(node("Concat", &["batch1", "rest"], &["wanted"]), "axis", 0),
        node("Reshape", &["x", "wanted"], &["y"]),
    ];
    let first = proto::Tensor { dims: Vec::new(), ..integers("first", &[0]) };
    proto::Graph {
        initializer: vec![first, integers("zero", &[0]), integers("rest", &[-1])],
        ..graph(vec![value("x", F32, "batch,3,4")], nodes, vec![value("y", F32, "batch,12")])
    }
}

#[test]
fn arithmetic_on_shapes_leaves_no_operations() {
    let text = text(&model(flattening()));
    assert!(text.contains("func.func @net(%0: tensor<?x3x4xf32>) -> (tensor<?x12xf32>)"), "{text}");
    assert!(text.contains("sync func @net(%x: tensor<?x3x4xf32>) -> (%y: tensor<?x12xf32>)"), "{text}");
    assert!(text.contains("tensor.collapse_shape") && !text.contains("expand_shape"), "{text}");
    assert!(!text.contains("linalg") && !text.contains("assert"), "{text}");
}

#[test]
fn extents_are_fixed_and_graphs_are_cut() {
    let dims = vec![("batch".to_owned(), 2)];
    let fixed = imported(&model(flattening()), &Options { dims, ..Options::default() }).unwrap();
    assert!(fixed.mlir.contains("-> (tensor<2x12xf32>)") && fixed.dynamic.is_empty(), "{}", fixed.mlir);
    let shapes = vec![("x".to_owned(), vec![5, 3, 4])];
    let fixed = imported(&model(flattening()), &Options { shapes, ..Options::default() }).unwrap();
    assert!(fixed.mlir.contains("-> (tensor<5x12xf32>)"), "{}", fixed.mlir);
    let outputs = vec!["shape".to_owned()];
    let cut = imported(&model(flattening()), &Options { outputs, ..Options::default() }).unwrap();
    assert!(cut.mlir.contains("-> (tensor<3xi64>)") && cut.dynamic == ["batch"], "{}", cut.mlir);
    let outputs = vec!["nothing".to_owned()];
    assert!(error(&model(flattening()), &Options { outputs, ..Options::default() }).contains("no tensor of this name"));
}

#[test]
fn several_shapes_are_variants_of_one_function() {
    let shape = |batch: i64| ("x".to_owned(), vec![batch, 3, 4]);
    let options = Options { shapes: vec![shape(2), shape(5)], ..Options::default() };
    let imported = imported(&model(flattening()), &options).unwrap();
    let text = imported.mlir;
    for line in [
        "func.func private @net$0(%0: tensor<2x3x4xf32>) -> (tensor<2x12xf32>)",
        "func.func private @net$1(",
        "sync func @net(%x: tensor<?x3x4xf32>) -> (%y: tensor<?x12xf32>)",
        "func.call @net$1(",
        "the shapes of the arguments are those of no variant",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    assert_eq!(imported.dynamic, ["x.0"]);
}

#[test]
fn inputs_are_cut_where_the_model_states_their_types() {
    let relu = |x: &str, y: &str| node("Relu", &[x], &[y]);
    let nodes = vec![node("Odd", &["x"], &["a"]), relu("a", "b"), relu("b", "y")];
    let graph = graph(vec![value("x", F32, "4")], nodes, vec![value("y", F32, "4")]);
    let stated = proto::Graph { value_info: vec![value("b", F32, "n")], ..graph };
    let inputs = |name: &str| Options { inputs: vec![name.to_owned()], ..Options::default() };
    let text = imported(&model(stated.clone()), &inputs("b")).unwrap().mlir;
    assert!(text.contains("func.func @net(%0: tensor<?xf32>) -> (tensor<?xf32>)"), "{text}");
    assert!(error(&model(stated), &inputs("a")).contains("states no type of such a tensor"));
}

#[test]
fn equal_names_of_extents_are_checked_by_the_call() {
    let inputs = vec![value("x", F32, "n"), value("y", F32, "n")];
    let text = text(&model(graph(inputs, vec![node("Add", &["x", "y"], &["z"])], vec![value("z", F32, "n")])));
    assert!(text.contains("cf.assert") && text.contains("the extent 0 of the input `y`"), "{text}");
    assert_eq!(text.matches("cf.assert").count(), 1, "{text}");
}

#[test]
fn functions_are_expanded_with_their_attributes() {
    let mut inner = node("Concat", &["a", "b"], &["c"]);
    let reference =
        proto::Attribute { name: "axis".into(), ref_attr_name: "along".into(), ..proto::Attribute::default() };
    inner.attribute.push(reference);
    let function = proto::Function {
        name: "Joined".into(),
        domain: "own".into(),
        input: vec!["a".into(), "b".into()],
        output: vec!["c".into()],
        node: vec![inner],
        opset_import: vec![proto::OperatorSet { domain: String::new(), version: 13 }],
        ..proto::Function::default()
    };
    let call = proto::Node { domain: "own".into(), ..with_int(node("Joined", &["x", "x"], &["y"]), "along", 1) };
    let whole = proto::Model {
        functions: vec![function],
        ..model(graph(vec![value("x", F32, "2,n")], vec![call], vec![value("y", F32, "2,m")]))
    };
    assert!(text(&whole).contains("tensor.concat dim(1)"), "{}", text(&whole));
}

#[test]
fn all_nodes_that_are_not_supported_are_listed() {
    let nodes = vec![
        node("Odd", &["x"], &["a"]),
        node("Relu", &["a"], &["b"]),
        node("Strange", &["b"], &["y"]),
        node("Unused", &["x"], &["z"]),
    ];
    let error =
        error(&model(graph(vec![value("x", F32, "4")], nodes, vec![value("y", F32, "4")])), &Options::default());
    for part in ["node `the a` (Odd): ", "node `the y` (Strange): ", "not supported in version 17"] {
        assert!(error.contains(part), "{part} in {error}");
    }
    assert!(!error.contains("Unused") && !error.contains("Relu"), "{error}");
}

#[test]
fn weights_are_parameters() {
    let folder = std::env::temp_dir().join(format!("incarnate-onnx-weights-{}", std::process::id()));
    fs::create_dir_all(folder.join("data")).unwrap();
    let bytes: Vec<u8> = (0..100_u32).flat_map(|value| (value as f32).to_le_bytes()).collect();
    fs::write(folder.join("data/w.bin"), [vec![0; 16], bytes.clone()].concat()).unwrap();
    let outside = |location: &str| {
        let entry = |key: &str, value: &str| proto::Entry { key: key.into(), value: value.into() };
        proto::Tensor {
            name: "w".into(),
            dims: vec![100],
            data_type: F32,
            data_location: 1,
            external_data: vec![entry("location", location), entry("offset", "16"), entry("length", "400")],
            ..proto::Tensor::default()
        }
    };
    let with = |tensor: proto::Tensor| {
        let nodes = vec![node("Add", &["x", "w"], &["y"])];
        let graph = graph(vec![value("x", F32, "100")], nodes, vec![value("y", F32, "100")]);
        let model = model(proto::Graph { initializer: vec![tensor], ..graph });
        Model::decode(model.encode_to_vec(), &folder).unwrap()
    };
    let inside =
        proto::Tensor { data_location: 0, external_data: Vec::new(), raw_data: bytes.clone().into(), ..outside("") };
    for tensor in [outside("data/w.bin"), inside] {
        let model = with(tensor);
        let imported = import(&model, &Options::default()).unwrap();
        assert!(
            imported.mlir.contains("#flow.parameter.named<\"model\"::\"w\"> : tensor<100xf32>"),
            "{}",
            imported.mlir
        );
        let mut file = Vec::new();
        imported.write_weights(&mut file).unwrap();
        let header = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
        assert_eq!((8 + header) % 64, 0);
        assert!(file[8..8 + header].starts_with(br#"{"w":{"dtype":"F32","shape":[100],"data_offsets":[0,400]}}"#));
        assert_eq!(&file[8 + header..], bytes);
    }
    assert_eq!(with(outside("data/w.bin")).weight_files(), [folder.join("data/w.bin")]);
    for (location, reason) in [
        ("../w.bin", "not in the folder of the model"),
        ("/etc/passwd", "not in the folder of the model"),
        ("data/../../w.bin", "not in the folder of the model"),
        ("data/none.bin", "reading"),
    ] {
        let error = import(&with(outside(location)), &Options::default()).unwrap_err().to_string();
        assert!(error.lines().count() == 1 && error.contains(reason), "{error}");
    }
    fs::write(folder.join("data/w.bin"), [0; 20]).unwrap();
    let error = import(&with(outside("data/w.bin")), &Options::default()).unwrap_err().to_string();
    assert!(error.contains("has 20 bytes, and 400 are wanted from 16 on"), "{error}");
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn hostile_models_are_one_line() {
    // Nodes that need each other.
    let circle = vec![node("Relu", &["b"], &["a"]), node("Relu", &["a"], &["b"])];
    let circle = model(graph(Vec::new(), circle, vec![value("b", F32, "4")]));
    assert!(error(&circle, &Options::default()).contains("no node has the output `b`"));
    // Extents beyond all memory.
    for shape in ["9223372036854775807", "4294967296,4294967296,4294967296"] {
        let nodes = vec![node("Relu", &["x"], &["y"])];
        let large = model(graph(vec![value("x", F32, shape)], nodes, vec![value("y", F32, shape)]));
        assert!(error(&large, &Options::default()).contains("too large"), "{shape}");
    }
    let shape = proto::Graph {
        initializer: vec![integers("shape", &[i64::MAX, i64::MAX, -4])],
        ..graph(vec![value("x", F32, "4")], vec![node("Expand", &["x", "shape"], &["y"])], vec![value("y", F32, "4")])
    };
    error(&model(shape), &Options::default());
    // A tensor that says that it has more elements than bytes.
    let lying = proto::Tensor { dims: vec![1 << 40], ..integers("w", &[1]) };
    let lying = proto::Graph {
        initializer: vec![lying],
        ..graph(Vec::new(), vec![node("Relu", &["w"], &["y"])], vec![value("y", I64, "4")])
    };
    assert!(error(&model(lying), &Options::default()).contains("there are 8 bytes for"));
}

#[test]
fn strided_transposed_convolutions_of_open_batches_are_dispatches_of_their_own() {
    let convolution = |batch: &str| {
        let mut node = node("ConvTranspose", &["x", "w"], &["y"]);
        let strides = proto::Attribute { name: "strides".to_owned(), ints: vec![2], ..proto::Attribute::default() };
        node.attribute.push(strides);
        let inputs = vec![value("x", F32, &format!("{batch},3,50")), value("w", F32, "3,4,2")];
        text(&model(graph(inputs, vec![node], vec![value("y", F32, &format!("{batch},4,100"))])))
    };
    assert!(convolution("n").contains("compute_barrier.start"));
    assert!(!convolution("1").contains("compute_barrier.start"));
}

#[test]
fn open_extents_are_not_squeezed() {
    let squeeze =
        graph(vec![value("x", F32, "1,n,3")], vec![node("Squeeze", &["x"], &["y"])], vec![value("y", F32, "n,3")]);
    let text = text(&model(squeeze));
    assert!(text.contains("-> (tensor<?x3xf32>)"), "{text}");
    assert!(text.contains("node `the y` (Squeeze): the extent n is 1"), "{text}");
}

#[test]
fn functions_that_multiply_nodes_end_the_import() {
    let function = |index: usize| proto::Function {
        name: format!("F{index}"),
        domain: "own".into(),
        input: vec!["x".into()],
        output: vec!["y".into()],
        node: vec![
            proto::Node { domain: "own".into(), ..node(&format!("F{}", index + 1), &["x"], &["a"]) },
            proto::Node { domain: "own".into(), ..node(&format!("F{}", index + 1), &["a"], &["y"]) },
        ],
        opset_import: vec![proto::OperatorSet { domain: String::new(), version: 17 }],
        ..proto::Function::default()
    };
    let mut functions: Vec<proto::Function> = (0..40).map(function).collect();
    functions.push(proto::Function { node: vec![node("Identity", &["x"], &["y"])], ..function(40) });
    let call = |name: &str| proto::Node { domain: "own".into(), ..node(name, &["x"], &["y"]) };
    let whole = |name: &str, functions: Vec<proto::Function>| proto::Model {
        functions,
        ..model(graph(vec![value("x", F32, "4")], vec![call(name)], vec![value("y", F32, "4")]))
    };
    assert!(error(&whole("F0", functions), &Options::default()).contains("nodes"));
    // One that calls itself.
    let own = proto::Function {
        node: vec![proto::Node { domain: "own".into(), ..node("F7", &["x"], &["y"]) }],
        ..function(7)
    };
    assert!(error(&whole("F7", vec![own]), &Options::default()).contains("call each other"));
}

/// `GRU` of 3 elements with initial states, of 4 sequences and a number of steps that is known when it runs.
#[test]
fn steps_of_a_small_recurrence_are_one_dispatch_of_portable_modules() {
    let gru = with_int(node("GRU", &["x", "w", "r", "", "", "h"], &["y"]), "hidden_size", 3);
    let inputs = vec![value("x", 1, "s,4,2"), value("w", 1, "1,9,2"), value("r", 1, "1,9,3"), value("h", 1, "1,4,3")];
    let model = model(graph(inputs, vec![gru], vec![value("y", 1, "s,1,4,3")]));
    let portable = Options { is_portable: true, ..Options::default() };
    let text_of = |options: &Options| imported(&model, options).unwrap().mlir;
    let (on_host, in_dispatch) = (text_of(&Options::default()), text_of(&portable));
    assert_eq!((on_host.matches("scf.for").count(), on_host.matches("flow.dispatch.region").count()), (1, 0));
    assert_eq!((in_dispatch.matches("scf.for").count(), in_dispatch.matches("flow.dispatch.region").count()), (1, 1));
    // One product of a dispatch names the pipeline.
    assert_eq!(in_dispatch.matches("translation_info = ").count(), 1, "{in_dispatch}");
    assert_eq!(in_dispatch.matches("lowering_config = ").count(), 2, "{in_dispatch}");
    // A batch that is not known stays on the host.
    let dims = vec![("s".to_owned(), 5)];
    assert!(text_of(&Options { dims, ..portable }).contains("flow.dispatch.region -> (tensor<6x4x3xf32>)"));
}

#[test]
fn tensors_without_elements_have_open_extents() {
    let nodes = vec![
        node("Shape", &["x"], &["shape"]),
        with_int(node("Concat", &["shape", "none"], &["wanted"]), "axis", 0),
        node("ConstantOfShape", &["wanted"], &["empty"]),
        node("Neg", &["empty"], &["y"]),
    ];
    let net = proto::Graph {
        initializer: vec![integers("none", &[0])],
        ..graph(vec![value("x", F32, "batch")], nodes, vec![value("y", F32, "batch,0")])
    };
    let text = text(&model(net));
    assert!(text.contains("tensor<?x0xf32>"), "{text}");
}

#[test]
fn masks_of_open_extents_are_converted_alone() {
    let masked = |shape: &str| {
        let cast = with_int(node("Cast", &["mask"], &["factor"]), "to", 1);
        let nodes = vec![cast, node("Mul", &["x", "factor"], &["y"])];
        text(&model(graph(vec![value("x", F32, shape), value("mask", 9, shape)], nodes, vec![value("y", F32, shape)])))
    };
    assert!(masked("batch,time").contains("compute_barrier"));
    assert!(!masked("2,time").contains("compute_barrier"));
}

#[test]
fn states_of_recurrences_are_behind_barriers() {
    let w = proto::Tensor {
        dims: vec![1, 4, 2],
        data_type: 1,
        float_data: vec![0.5; 8],
        name: "w".into(),
        ..proto::Tensor::default()
    };
    let r = proto::Tensor { dims: vec![1, 4, 1], float_data: vec![0.5; 4], name: "r".into(), ..w.clone() };
    let recurrence = with_int(node("LSTM", &["x", "w", "r"], &["y"]), "hidden_size", 1);
    let over = |shape: &str| {
        let net = proto::Graph {
            initializer: vec![w.clone(), r.clone()],
            ..graph(vec![value("x", F32, shape)], vec![recurrence.clone()], vec![value("y", F32, "")])
        };
        text(&model(net))
    };
    let text = over("time,1,2");
    assert!(text.contains("util.optimization_barrier") && text.contains("scf.for"), "{text}");
    let text = over("3,1,2");
    assert!(!text.contains("util.optimization_barrier") && text.contains("scf.for"), "{text}");
}

#[test]
fn attention_is_computed_in_floats() {
    let model = |precision: i32| {
        let node = with_int(node("Attention", &["x", "x", "x"], &["y"]), "softmax_precision", i64::from(precision));
        let mut model = model(graph(vec![value("x", F32, "1,1,2,4")], vec![node], vec![value("y", F32, "1,1,2,4")]));
        model.opset_import[0].version = 24;
        model
    };
    assert!(text(&model(F32)).contains("math.exp"));
    let error = error(&model(I64), &Options::default());
    assert!(error.contains("`softmax_precision` names") && error.contains("no type of floats"), "{error}");
}
