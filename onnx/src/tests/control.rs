//! `If` whose branches have results of different ranks or types, and loops without an iteration.

use super::*;

/// An attribute with a graph of one node and its output.
fn branch(attribute: &str, node: proto::Node, ty: i32) -> proto::Attribute {
    let name = node.output.first().cloned().unwrap_or_default();
    let g = Some(graph(Vec::new(), vec![node], vec![value(&name, ty, "")]));
    proto::Attribute { name: attribute.to_owned(), g, ..proto::Attribute::default() }
}

/// Removes the last extent of `x`, of shape `2,3,n`, if a condition is true, and ends with other nodes.
fn squeezing(rest: Vec<proto::Node>) -> proto::Model {
    let mut choice = node("If", &["condition"], &["o"]);
    choice.attribute.push(branch("then_branch", node("Squeeze", &["x", "axis"], &["a"]), F32));
    choice.attribute.push(branch("else_branch", node("Identity", &["x"], &["b"]), F32));
    let inputs = vec![value("x", F32, "2,3,n"), value("condition", BOOL, "")];
    let nodes = [vec![choice], rest].concat();
    let output = nodes.last().and_then(|node| node.output.first()).cloned().unwrap_or_default();
    let mut model = model(proto::Graph {
        initializer: vec![integers("axis", &[-1])],
        ..graph(inputs, nodes, vec![value(&output, F32, "")])
    });
    if let Some(opset) = model.opset_import.first_mut() {
        opset.version = 18;
    }
    model
}

#[test]
fn what_follows_branches_of_different_ranks_is_imported_behind_each() {
    let sum = with_int(node("ReduceSum", &["negative"], &["y"]), "keepdims", 0);
    let text = text(&squeezing(vec![node("Neg", &["o"], &["negative"]), sum]));
    assert_eq!(text.matches("arith.negf").count(), 2, "{text}");
    assert!(text.contains("scf.if") && !text.contains("(If)"), "{text}");
}

#[test]
fn a_branch_without_a_continuation_fails_in_the_call() {
    let model = squeezing(vec![node("Gemm", &["o", "o"], &["y"])]);
    let error = "node `the o` (If): what follows `else_branch` cannot be imported: node `the y` (Gemm)";
    let transposed = squeezing(vec![with_int(node("Gemm", &["o", "o"], &["y"]), "transB", 1)]);
    assert!(text(&transposed).contains(error), "{}", text(&transposed));
    // Extents that do not fit are errors behind both branches.
    let refused = imported(&model, &Options::default()).unwrap_err().to_string();
    assert!(refused.contains("(Gemm)"), "{refused}");
}

#[test]
fn outputs_whose_rank_a_condition_decides_are_refused() {
    let error = error(&squeezing(Vec::new()), &Options::default());
    assert!(error.contains("node `the o` (If): the output 0") && error.contains("ranks 2 and 3"), "{error}");
    assert!(error.contains("--outputs="), "{error}");
}

#[test]
fn branches_may_have_results_of_different_types() {
    let mut choice = node("If", &["condition"], &["o"]);
    let cast = with_int(node("Cast", &["x"], &["a"]), "to", i64::from(I64));
    choice.attribute.push(branch("then_branch", cast, I64));
    choice.attribute.push(branch("else_branch", node("Identity", &["x"], &["b"]), F32));
    let nodes = vec![choice, with_int(node("Cast", &["o"], &["y"]), "to", i64::from(F32))];
    let inputs = vec![value("x", F32, "4"), value("condition", BOOL, "")];
    let text = text(&model(graph(inputs, nodes, vec![value("y", F32, "4")])));
    assert!(text.contains("arith.fptosi") && text.contains("scf.if"), "{text}");
}

/// A loop that scans the negative of `x`, of shape `n,3`.
fn scanning(initializer: Vec<proto::Tensor>) -> proto::Model {
    let nodes = vec![node("Identity", &["goes_on"], &["next"]), node("Neg", &["x"], &["row"])];
    let inputs = vec![value("iteration", I64, ""), value("goes_on", BOOL, "")];
    let outputs = vec![value("next", BOOL, ""), value("row", F32, "n,3")];
    let mut repeated = node("Loop", &["trips", ""], &["y"]);
    repeated.attribute.push(proto::Attribute {
        name: "body".to_owned(),
        g: Some(graph(inputs, nodes, outputs)),
        ..proto::Attribute::default()
    });
    let mut inputs = vec![value("x", F32, "n,3")];
    if initializer.is_empty() {
        inputs.push(value("trips", I64, ""));
    }
    model(proto::Graph { initializer, ..graph(inputs, vec![repeated], vec![value("y", F32, "m,n,3")]) })
}

#[test]
fn loops_without_an_iteration_scan_rows_without_open_extents() {
    let none = proto::Tensor { dims: Vec::new(), ..integers("trips", &[0]) };
    let text = text(&scanning(vec![none]));
    assert!(text.contains("-> (tensor<0x0x3xf32>)"), "{text}");
}

#[test]
fn rows_of_loops_have_extents_if_there_is_an_iteration() {
    let open = text(&scanning(Vec::new()));
    assert!(open.contains("arith.minsi") && open.contains("flow.tensor.reshape"), "{open}");
    let two = proto::Tensor { dims: Vec::new(), ..integers("trips", &[2]) };
    assert!(!text(&scanning(vec![two])).contains("arith.minsi"));
}
