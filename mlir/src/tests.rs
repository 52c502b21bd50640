#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use super::*;

#[test]
fn malformed_operations_are_the_error() {
    let mut b = Builder::new();
    let function = b.function("f", &[Type::Scalar(Element::F32), Type::Scalar(Element::I32)]);
    b.set_location(Some("node \"a\""));
    let sum = b.addf(function.arguments[0], function.arguments[1]);
    b.end_function(function, &[sum], &[], &[]);
    let error = b.finish().unwrap_err();
    assert_eq!(error.0, "arith.addf of f32, i32 at \"node \\22a\\22\"");
}

#[test]
fn names_and_floats_are_quoted() {
    assert_eq!(symbol("main.graph_2$"), "@main.graph_2$");
    assert_eq!(symbol("torch-jit"), "@\"torch-jit\"");
    assert_eq!(symbol("2a\\\n"), "@\"2a\\5C\\0A\"");
    let mut b = Builder::new();
    let function = b.function("f", &[]);
    for value in [1e-5, 1.0, 1e30, f64::NAN, f64::INFINITY, -0.0] {
        b.float(value, Element::F32);
    }
    b.end_function(function, &[], &[], &[]);
    let text = b.finish().unwrap();
    for expected in ["1.0e-5", "1.0 :", "1.0e30", "0x7FC00000", "0x7F800000", "-0.0"] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
}

#[test]
fn regions_are_indented_and_end_with_their_values() {
    let mut b = Builder::new();
    let function = b.function("f", &[Type::Scalar(Element::I1), Type::Scalar(Element::F32)]);
    let [condition, x] = function.arguments[..] else { panic!("two arguments") };
    b.open_region();
    let doubled = b.addf(x, x);
    let then = b.close_region();
    b.open_region();
    let otherwise = b.close_region();
    let results = b.scf_if(condition, &[Type::Scalar(Element::F32)], (then, vec![doubled]), (otherwise, vec![x]));
    b.end_function(function, &results, &[], &[("iree.abi.declaration", "sync func @f()".to_owned())]);
    let text = b.finish().unwrap();
    let expected = "    %3 = scf.if %0 -> (f32){\n      %2 = arith.addf %1, %1 : f32\n      scf.yield %2 : f32\n    } else {\n      \
                    scf.yield %1 : f32\n    }\n    return %3 : f32\n";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn dispatch_regions_have_the_extents_of_their_results() {
    let row = Type::tensor(&[None, Some(4)], Element::F32);
    let mut b = Builder::new();
    let function = b.function("f", &[row, Type::Scalar(Element::Index)]);
    let [x, rows] = function.arguments[..] else { panic!("two arguments") };
    b.open_region();
    let y = b.elementwise(&[x], Element::F32, |b, x| b.addf(x[0], x[0]));
    let region = b.close_region();
    let extents = vec![Extent::Value(rows), Extent::Constant(4)];
    let results = b.dispatch_region(&[extents], (region, vec![y]));
    b.end_function(function, &results, &[], &[]);
    let text = b.finish().unwrap();
    assert!(text.contains("flow.dispatch.region -> (tensor<?x4xf32>{%1}) {"), "{text}");
    assert!(text.contains(&format!("flow.return {y} : tensor<?x4xf32>")), "{text}");
    // Extents that do not fit the type.
    let mut b = Builder::new();
    let function = b.function("f", &[Type::tensor(&[None], Element::F32)]);
    b.open_region();
    let region = b.close_region();
    b.dispatch_region(&[vec![Extent::Constant(4)]], (region, function.arguments.clone()));
    assert!(b.finish().unwrap_err().0.contains("the extents of tensor<?xf32> are 4"));
}

#[test]
fn initializers_compute_globals() {
    let row = Type::tensor(&[Some(4)], Element::I8);
    let mut b = Builder::new();
    b.parameter("w", "model", "w", &row);
    let function = b.function("f", &[]);
    b.open_region();
    let w = b.load_global("w", &row);
    let wide = b.elementwise(&[w], Element::F32, |b, x| b.sitofp(x[0], Element::F32));
    let region = b.close_region();
    b.computed_global("w.2", (region, wide));
    let ty = Type::tensor(&[Some(4)], Element::F32);
    let loaded = b.load_global("w.2", &ty);
    b.end_function(function, &[loaded], &[], &[]);
    let text = b.finish().unwrap();
    let initializer = text.find("util.initializer {").unwrap();
    let store = text.find(&format!("util.global.store {wide}, @w.2 : tensor<4xf32>\n")).unwrap();
    let declared = text.find("util.global private @w.2 : tensor<4xf32>\n").unwrap();
    assert!(declared < initializer && initializer < store && store < text.find("func.func @f").unwrap(), "{text}");
    assert!(text.contains(&format!("{loaded} = util.global.load @w.2 : tensor<4xf32>")), "{text}");
}

/// Passes two tensors on by a branch.
fn passed_on(extent: Option<u64>) -> String {
    let tensor = Type::Tensor { extents: vec![extent], element: Element::F32 };
    let mut b = Builder::new();
    let function = b.function("f", &[Type::Scalar(Element::I1), tensor.clone()]);
    let [condition, x] = function.arguments[..] else { panic!("two arguments") };
    let mut region = || {
        b.open_region();
        b.close_region()
    };
    let (then, otherwise) = (region(), region());
    let types = [tensor.clone(), tensor];
    let results = b.scf_if(condition, &types, (then, vec![x, x]), (otherwise, vec![x, x]));
    b.end_function(function, &results, &[], &[]);
    b.finish().unwrap()
}

#[test]
fn tensors_of_open_extents_are_passed_on_behind_barriers() {
    let barrier = "= util.optimization_barrier %1 : tensor<?xf32>";
    let text = passed_on(None);
    assert!(text.matches(barrier).count() == 4 && text.contains("flow.tensor.tie_shape"), "{text}");
    // The second of two results that are the same tensor is a copy.
    assert_eq!(text.matches("linalg.generic").count(), 2, "{text}");
    let text = passed_on(Some(4));
    assert!(!text.contains("barrier") && text.contains("scf.yield %1, %1"), "{text}");
}

#[test]
fn mutable_globals_have_a_first_value_and_are_written() {
    let mut b = Builder::new();
    let row = Type::tensor(&[Some(2), Some(4)], Element::F32);
    b.mutable_global("state", &row);
    let function = b.function("f", &[]);
    let state = b.load_global("state", &row);
    let doubled = b.elementwise(&[state], Element::F32, |b, x| b.addf(x[0], x[0]));
    b.store_global("state", doubled);
    b.end_function(function, &[], &[], &[]);
    let text = b.finish().unwrap();
    assert!(text.contains("util.global private mutable @state : tensor<2x4xf32>\n  util.initializer {\n"), "{text}");
    assert!(text.contains(&format!("util.global.store {doubled}, @state : tensor<2x4xf32>")), "{text}");
    let mut b = Builder::new();
    b.mutable_global("state", &Type::tensor(&[None], Element::F32));
    assert!(b.finish().unwrap_err().0.contains("a mutable global of type tensor<?xf32>"));
}

#[test]
fn one_generic_operation_is_divided_as_it_should_be() {
    let mut b = Builder::new();
    let function = b.function("f", &[]);
    let empty = b.empty(&[Extent::Constant(4)], Element::F32);
    let y = b.distributed(empty, &[2], |b, _| b.float(1.0, Element::F32));
    let z = b.elementwise(&[y], Element::F32, |b, x| b.negf(x[0]));
    b.end_function(function, &[z], &[], &[]);
    let text = b.finish().unwrap();
    assert_eq!(text.matches("distribution = [2]").count(), 1, "{text}");
}
