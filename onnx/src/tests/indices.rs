//! Indices that are data: errors of the call where they may be out of range, and no operation where they cannot.

use super::*;

const RANGE: &str = "is out of range";

/// A model that gathers rows of `x`, of shape `rows,3`, by the output `i` of nodes.
fn gathering(rows: &str, nodes: Vec<proto::Node>, initializer: Vec<proto::Tensor>) -> proto::Model {
    let gather = node("Gather", &["x", "i"], &["y"]);
    let inputs =
        vec![value("x", F32, &format!("{rows},3")), value("i0", I64, "n"), value("x0", F32, &format!("{rows},3"))];
    let nodes = [nodes, vec![gather]].concat();
    model(proto::Graph { initializer, ..graph(inputs, nodes, vec![value("y", F32, "m,3")]) })
}

/// A number without dimensions.
fn number(name: &str, value: i64) -> proto::Tensor {
    proto::Tensor { dims: Vec::new(), ..integers(name, &[value]) }
}

#[test]
fn indices_that_are_data_are_checked_by_one_reduction() {
    let same = vec![node("Identity", &["i0"], &["i"])];
    let text = text(&gathering("4", same, Vec::new()));
    assert_eq!(text.matches("linalg.generic").count(), 2, "{text}");
    assert_eq!(text.matches("\"reduction\"").count(), 1, "{text}");
    let message = "node `the y` (Gather): an element of `indices` is out of range; valid elements are -4 to 3";
    assert!(text.contains(message), "{text}");
    // The flag is read behind all that computes.
    assert!(text.rfind("linalg.generic") < text.find("cf.assert"), "{text}");
}

#[test]
fn equal_checks_are_emitted_once() {
    let nodes = vec![node("Gather", &["x0", "i0"], &["other"]), node("Identity", &["i0"], &["i"])];
    let mut twice = gathering("4", nodes, Vec::new());
    if let Some(graph) = &mut twice.graph {
        graph.output.push(value("other", F32, "n,3"));
    }
    assert_eq!(text(&twice).matches(RANGE).count(), 1);
}

#[test]
fn indices_within_the_extent_need_no_check() {
    let fits = |nodes: Vec<proto::Node>, initializer: Vec<proto::Tensor>| {
        let text = text(&gathering("4", nodes, initializer));
        assert!(!text.contains(RANGE), "{text}");
    };
    let argmax = with_int(with_int(node("ArgMax", &["x0"], &["i"]), "axis", 0), "keepdims", 0);
    fits(vec![argmax], Vec::new());
    let top = with_int(node("TopK", &["x0", "k"], &["values", "top"]), "axis", 0);
    let column = with_int(node("Gather", &["top", "zero"], &["i"]), "axis", 1);
    fits(vec![top, column], vec![integers("k", &[2]), number("zero", 0)]);
    fits(vec![node("Clip", &["i0", "low", "high"], &["i"])], vec![number("low", -4), number("high", 3)]);
    let clamped = vec![node("Max", &["i0", "low"], &["raised"]), node("Min", &["raised", "high"], &["i"])];
    fits(clamped, vec![number("low", 0), number("high", 3)]);
    fits(vec![node("Mod", &["i0", "four"], &["i"])], vec![number("four", 4)]);
    fits(Vec::new(), vec![integers("i", &[3, -4, 0])]);
}

#[test]
fn a_bound_that_is_too_wide_is_checked() {
    let clip = node("Clip", &["i0", "low", "high"], &["i"]);
    let text = text(&gathering("4", vec![clip], vec![number("low", -4), number("high", 4)]));
    assert_eq!(text.matches(RANGE).count(), 1, "{text}");
}

#[test]
fn ranges_of_positions_are_compared_with_the_extent_alone() {
    let nodes = vec![
        node("Shape", &["i0"], &["shape"]),
        node("Squeeze", &["shape"], &["count"]),
        node("Range", &["zero", "count", "one"], &["i"]),
    ];
    let text = text(&gathering("4", nodes, vec![number("zero", 0), number("one", 1)]));
    assert!(text.contains(RANGE) && !text.contains("\"reduction\""), "{text}");
}

#[test]
fn constants_out_of_range_are_errors_of_the_import_or_the_call() {
    let constant = |rows: &str| gathering(rows, Vec::new(), vec![integers("i", &[0, -5])]);
    let error = error(&constant("4"), &Options::default());
    assert!(error.contains("`indices` contains -5, which is out of range; valid elements are -4 to 3"), "{error}");
    let text = text(&constant("rows"));
    assert!(text.contains("valid elements are -rows to rows-1") && !text.contains("\"reduction\""), "{text}");
}

#[test]
fn constants_of_many_elements_are_scanned() {
    let many = |last: i64| {
        let mut values = vec![1; 5000];
        values.push(last);
        gathering("4", Vec::new(), vec![integers("i", &values)])
    };
    assert!(!text(&many(3)).contains(RANGE));
    assert!(error(&many(4), &Options::default()).contains("`indices` contains 4"));
}

#[test]
fn each_element_of_a_tuple_has_its_extent() {
    let nodes = vec![node("GatherND", &["x", "tuples"], &["y"])];
    let inputs = vec![value("x", F32, "4,3"), value("tuples", I64, "n,2")];
    let text = text(&model(graph(inputs, nodes, vec![value("y", F32, "n")])));
    assert!(text.contains("valid tuples are (-4 to 3, -3 to 2)"), "{text}");
}

#[test]
fn checks_in_branches_are_asserted_there() {
    let branch = |name: &str| {
        let nodes = vec![node("Gather", &["x", "i0"], &[name])];
        proto::Attribute {
            g: Some(graph(Vec::new(), nodes, vec![value(name, F32, "n,3")])),
            ..proto::Attribute::default()
        }
    };
    let mut choice = node("If", &["condition"], &["y"]);
    for (attribute, name) in [("then_branch", "a"), ("else_branch", "b")] {
        choice.attribute.push(proto::Attribute { name: attribute.to_owned(), ..branch(name) });
    }
    let inputs = vec![value("x", F32, "4,3"), value("i0", I64, "n"), value("condition", BOOL, "")];
    let text = text(&model(graph(inputs, vec![choice], vec![value("y", F32, "n,3")])));
    assert_eq!(text.matches(RANGE).count(), 2, "{text}");
    assert!(text.rfind(RANGE) < text.rfind("scf.yield"), "{text}");
}
