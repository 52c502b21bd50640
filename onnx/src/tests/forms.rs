//! The forms that loop nests and operands have.

use super::*;

fn adding(left: &str, right: &str) -> String {
    let inputs = vec![value("a", F32, left), value("b", F32, right)];
    text(&model(graph(inputs, vec![node("Add", &["a", "b"], &["y"])], vec![value("y", F32, "m,n")])))
}

#[test]
fn operands_of_open_extents_are_read_by_affine_maps() {
    let equal = adding("m,n", "m,n");
    assert!(!equal.contains("scf.if") && !equal.contains("tensor.extract"), "{equal}");
    // A known extent of 1 is a map, too.
    let known = adding("m,n", "1,n");
    assert!(!known.contains("scf.if") && known.contains("affine_map<(d0, d1) -> (0, d1)>"), "{known}");
    // Which is 1 is not known: a branch repeats an operand, and the nest that adds has maps.
    let open = adding("m,4", "k,4");
    assert_eq!((open.matches("scf.if").count(), open.matches("tensor.extract").count()), (2, 2), "{open}");
    assert!(open.contains("node `the y` (Add): shapes do not broadcast: m and k"), "{open}");
    let sum = open.rfind("linalg.generic").map(|at| &open[at..]).unwrap_or_default();
    assert!(sum.contains("arith.addf") && !sum.contains("arith.minui"), "{open}");
}

#[test]
fn refusals_name_the_flags_that_fix_extents() {
    let inputs = vec![value("depth", I64, ""), value("indices", I64, "4"), value("values", F32, "count")];
    let nodes = vec![node("OneHot", &["indices", "depth", "values"], &["y"])];
    let error = error(&model(graph(inputs, nodes, vec![value("y", F32, "4,d")])), &Options::default());
    assert!(error.ends_with("; with fixed extents it may be supported: --dim=count=N"), "{error}");
}

#[test]
fn weights_that_steps_convert_are_converted_when_the_module_is_loaded() {
    // One direction, four gates of 40 elements, inputs of 40.
    let tensor = |name: &str, dims: Vec<i64>, data_type: i32| proto::Tensor {
        dims,
        name: name.to_owned(),
        data_type,
        ..proto::Tensor::default()
    };
    let bytes: Vec<u8> = (0..40 * 160).map(|index| (index % 251) as u8).collect();
    let weights = |name: &str| proto::Tensor { raw_data: bytes.clone().into(), ..tensor(name, vec![1, 40, 160], I8) };
    let scale = |name: &str| proto::Tensor { float_data: vec![0.01], ..tensor(name, vec![1], F32) };
    let zero = |name: &str| proto::Tensor { int32_data: vec![3], ..tensor(name, vec![1], I8) };
    let names = ["x", "w", "r", "", "", "", "", "", "ws", "wz", "rs", "rz"];
    let lstm = proto::Node { domain: "com.microsoft".to_owned(), ..node("DynamicQuantizeLSTM", &names, &["y"]) };
    let initializer = vec![weights("w"), weights("r"), scale("ws"), scale("rs"), zero("wz"), zero("rz")];
    let inputs = vec![value("x", F32, "steps,1,40")];
    let graph = graph(inputs, vec![with_int(lstm, "hidden_size", 40)], vec![value("y", F32, "steps,1,1,40")]);
    let mut model = model(proto::Graph { initializer, ..graph });
    model.opset_import.push(proto::OperatorSet { domain: "com.microsoft".to_owned(), version: 1 });
    let text = text(&model);
    assert_eq!(text.matches("util.initializer {").count(), 2, "{text}");
    // The conversions stand there, behind a barrier, and nowhere else.
    let functions = text.find("func.func").unwrap_or_default();
    let conversion = "arith.sitofp %";
    assert!(text[..functions].matches(conversion).count() >= 2, "{text}");
    assert!(!text[functions..].contains(": i8 to f32"), "{text}");
    assert_eq!(text[..functions].matches("util.optimization_barrier").count(), 4, "{text}");
}
