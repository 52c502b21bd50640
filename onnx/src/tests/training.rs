//! Operators of training.

use super::*;

/// A model with one node, of the inputs `x`, `ratio` and `training`.
fn dropout(initializer: Vec<proto::Tensor>, inputs: Vec<proto::ValueInfo>) -> proto::Model {
    let nodes = vec![node("Dropout", &["x", "ratio", "training"], &["y"])];
    let inputs = [vec![value("x", F32, "4,n")], inputs].concat();
    model(proto::Graph { initializer, ..graph(inputs, nodes, vec![value("y", F32, "4,n")]) })
}

fn ratio(value: f32) -> proto::Tensor {
    proto::Tensor { name: "ratio".to_owned(), data_type: F32, float_data: vec![value], ..proto::Tensor::default() }
}

#[test]
fn dropout_of_nothing_is_no_operation() {
    let none = dropout(vec![ratio(0.0)], vec![value("training", BOOL, "")]);
    assert!(!text(&none).contains("linalg.generic"), "{}", text(&none));
    let infers =
        proto::Tensor { name: "training".to_owned(), data_type: BOOL, int32_data: vec![0], ..proto::Tensor::default() };
    let infers = dropout(vec![infers], vec![value("ratio", F32, "")]);
    assert!(!text(&infers).contains("linalg.generic"), "{}", text(&infers));
}

#[test]
fn dropout_needs_no_known_ratio_or_mode() {
    let open = dropout(Vec::new(), vec![value("ratio", F32, ""), value("training", BOOL, "")]);
    let text = text(&open);
    assert!(text.contains("linalg.generic") && !text.contains("tensor.extract"), "{text}");
}

#[test]
fn ratios_of_dropout_are_below_one() {
    let all = dropout(vec![ratio(1.0)], vec![value("training", BOOL, "")]);
    let error = error(&all, &Options::default());
    assert!(error.contains("node `the y` (Dropout): the ratio 1 is not from 0 to below 1"), "{error}");
}

#[test]
fn optimisers_take_any_number_of_tensors() {
    let optimiser = |count: usize, tensors: usize| {
        let inputs: Vec<String> = (0..tensors).map(|index| format!("x{index}")).collect();
        let names: Vec<&str> = ["r", "t"].into_iter().chain(inputs.iter().map(String::as_str)).collect();
        let outputs: Vec<String> = (0..3 * count).map(|index| format!("y{index}")).collect();
        let outputs: Vec<&str> = outputs.iter().map(String::as_str).collect();
        let adam = proto::Node { domain: "ai.onnx.preview.training".to_owned(), ..node("Adam", &names, &outputs) };
        let mut values = vec![value("r", F32, ""), value("t", I64, "")];
        values.extend(inputs.iter().map(|name| value(name, F32, "3,n")));
        let mut model = model(graph(values, vec![adam], outputs.iter().map(|name| value(name, F32, "3,n")).collect()));
        let domain = "ai.onnx.preview.training".to_owned();
        model.opset_import.push(proto::OperatorSet { domain, version: 1 });
        model
    };
    assert_eq!(text(&optimiser(3, 12)).matches("math.sqrt").count(), 6);
    let error = error(&optimiser(3, 11), &Options::default());
    assert!(error.contains("there are 11 tensors, and 4 are expected for each one"), "{error}");
}
