use super::*;

fn named(text: &str) -> String {
    let Some(prepared) = Prepared::of(text.as_bytes()) else { return text.to_owned() };
    let mut out = Vec::new();
    prepared.write(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Returns the names that are added to the first function, without its attributes and types.
fn names(header: &str) -> Vec<String> {
    let text = named(&format!("module {{\n  {header} {{\n  }}\n}}\n"));
    text.split("iree.abi.name = \"").skip(1).map(|rest| rest.split('"').next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn names_of_jax_are_those_of_its_structures() {
    let text = r#"#loc3 = loc("state.c")
module @jit_f attributes {mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: tensor<3xf32> loc("params['b']"), %arg1: tensor<2x4xf32> {mhlo.sharding = "{replicated}"} loc("features"), %arg2: tensor<3xf32> loc(#loc3), %arg3: tensor<f32> {} loc("args[0]"(#loc7))) -> (tensor<2x3xf32> {jax.result_info = "result['a.b']"}, tensor<i32> {jax.result_info = "result['nested']['k'][1][0]"}, tensor<3xf32> {jax.result_info = "result['st'].h"}) {
    %0 = stablehlo.add %arg0, %arg1 : tensor<3xf32> loc(#loc9)
  } loc(#loc)
  func.func private @argmax(%arg0: tensor<6xf32> loc("x")) -> tensor<i32> {
  }
}
#loc = loc(unknown)
#loc7 = loc("/tmp/probe.py":16:4 to :53)
"#;
    let wanted = r#"#loc3 = loc("state.c")
module @jit_f attributes {mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: tensor<3xf32> {iree.abi.name = "params.b"} loc("params['b']"), %arg1: tensor<2x4xf32> {iree.abi.name = "features", mhlo.sharding = "{replicated}"} loc("features"), %arg2: tensor<3xf32> {iree.abi.name = "state.c"} loc(#loc3), %arg3: tensor<f32> {iree.abi.name = "args.0"} loc("args[0]"(#loc7))) -> (tensor<2x3xf32> {iree.abi.name = "a.b", jax.result_info = "result['a.b']"}, tensor<i32> {iree.abi.name = "nested.k.1.0", jax.result_info = "result['nested']['k'][1][0]"}, tensor<3xf32> {iree.abi.name = "st.h", jax.result_info = "result['st'].h"}) {
    %0 = stablehlo.add %arg0, %arg1 : tensor<3xf32> loc(#loc9)
  } loc(#loc)
  func.func private @argmax(%arg0: tensor<6xf32> loc("x")) -> tensor<i32> {
  }
}
#loc = loc(unknown)
#loc7 = loc("/tmp/probe.py":16:4 to :53)
"#;
    assert_eq!(named(text), wanted);
}

#[test]
fn functions_with_dynamic_shapes_have_the_names_of_what_they_wrap() {
    let text = r#"
  func.func public @main(%arg0: tensor<?x4xf32> loc(unknown), %arg1: tensor<4xf32> loc(unknown)) -> (tensor<?xi32> {jax.result_info = "result['label']"}) {
    %2 = call @_wrapped_jax_export_main(%0, %arg0, %arg1) : (tensor<i32>, tensor<?x4xf32>, tensor<4xf32>) -> tensor<?xi32> loc(#loc)
  } loc(#loc)
  func.func private @_wrapped_jax_export_main(%arg0: tensor<i32> {jax.global_constant = "b"} loc(unknown), %arg1: tensor<?x4xf32> loc("x"), %arg2: tensor<4xf32> loc("w['a']")) -> (tensor<?xi32> {jax.result_info = "result['label']"}) {
  }
"#;
    let found = named(text);
    let wanted = [("%arg0: tensor<?x4xf32>", "x"), ("%arg1: tensor<4xf32>", "w.a")];
    for (value, name) in wanted {
        assert!(found.contains(&format!("{value} {{iree.abi.name = \"{name}\"}} loc(unknown)")), "{found}");
    }
    assert_eq!(found.matches("iree.abi.name").count(), 3);
    // Another number of arguments is that of another function.
    assert_eq!(named(&text.replace("{jax.global_constant = \"b\"} ", "")).matches("iree.abi.name").count(), 1);
}

#[test]
fn elements_of_tuples_have_numbers() {
    let result = |infos: &[&str]| {
        let all: Vec<String> = infos.iter().map(|info| format!("i32 {{jax.result_info = \"{info}\"}}")).collect();
        names(&format!("func.func @f() -> ({})", all.join(", ")))
    };
    assert_eq!(result(&["result[0]['h']", "result[0]['c']", "result[1]"]), ["output0.h", "output0.c", "output1"]);
    assert_eq!(result(&["result"]), [""; 0]);
    assert_eq!(result(&["result[<flat index 0>]", "[1]"]), ["output0", "1"]);
    // Older versions of JAX have no root.
    assert_eq!(result(&["['label']", "['scores']"]), ["label", "scores"]);
}

#[test]
fn names_are_unique() {
    let result = |keys: &[&str]| {
        let all: Vec<String> = keys.iter().map(|key| format!("i32 {{jax.result_info = \"result{key}\"}}")).collect();
        names(&format!("func.func @f() -> ({}, i32)", all.join(", ")))
    };
    assert_eq!(result(&["['a.b']", "['a_b']", "['a']['b']", "['a b']"]), ["a.b", "a_b", "a.b_2", "a_b_2"]);
    // The last result is `output2` to the compiler.
    assert_eq!(result(&["['output2']", "['output0']"]), ["output2_2", "output0"]);
    assert_eq!(result(&[r"['it\\'s']", r"[\22q]u\22]", "['größe']"]), ["it__s", "q_u", "größe"]);
    // A text that several arguments have describes none of them.
    let header = "func.func @f(%arg0: i32 loc(\"jit\"), %arg1: i32 loc(\"jit\"), %arg2: i32 loc(\"x\"))";
    assert_eq!(names(header), ["x"]);
    let header = "func.func @f(%arg0: i32 {iree.abi.name = \"x\"}, %x: i32)";
    assert_eq!(names(header), ["x", "x_2"]);
}

#[test]
fn names_of_variables_are_taken_unless_a_printer_generated_them() {
    assert_eq!(names("func.func @mul(%a: tensor<4xf32>, %b-c: tensor<4xf32>) -> tensor<4xf32>"), ["a", "b-c"]);
    assert_eq!(names("func.func @f(%arg0: i32, %arg_1: i32, %0: i32, %args: i32)"), ["args"]);
    let types = "func.func @\"f(\"(%a: (i32, i32) -> (i32), // an (odd) one\n  %b: memref<2x?xf32, affine_map<(d0)[s0] -> \
                 (d0 + s0)>>\n, %c : !x.y<\"),\", {a = 1}> {x.y = [\"%d: \", {a}], z}loc(\"k\"))";
    assert_eq!(names(types), ["a", "b", "k"]);
}

#[test]
fn locations_of_files_and_operations_are_no_names() {
    let header = |location: &str| names(&format!("func.func @f(%arg0: i32 loc({location}))"));
    for location in ["\"f.py\":3:4", "unknown", "#loc9", "callsite(\"a\" at \"b\")", "\"jit(f)/add\"(#loc1)", "\"...\""]
    {
        assert_eq!(header(location), [""; 0], "{location}");
    }
    assert_eq!(header("\"serving_default_x:0\""), ["serving_default_x_0"]);
    // A key of a structure may have a slash.
    for (location, name) in [("params['enc/dec']", "params.enc_dec"), ("x['a]/(b']['c'].d", "x.a___b.c.d")] {
        assert_eq!(header(&format!("\"{location}\"")), [name]);
    }
    for location in ["\"jit(f)/x['a']\"", "\"x[0]/add\"", "\"x['a']/b\""] {
        assert_eq!(header(location), [""; 0], "{location}");
    }
}

/// A type that ends like the keyword is none.
#[test]
fn attributes_are_those_of_the_function() {
    for ty in ["i32", "!x.attributes", "!attributes", "(i32) -> i32"] {
        let header = format!("func.func @f(%x: i32) -> {ty}");
        assert_eq!(names(&format!("{header} attributes {{a = \"iree.abi\"}}")), ["x"], "{ty}");
        assert_eq!(
            named(&format!("{header} {{ \"iree.abi.declaration\" }}")).matches("iree.abi.name").count(),
            1,
            "{ty}"
        );
    }
}

#[test]
fn comments_behind_values_are_no_parts_of_them() {
    let text =
        "func.func @f(%a: i32 // first\n  , %b: (i32) // (second)\n -> i32 // , third\n {x.y}, %c: i32// last\n) {\n}";
    let wanted = "func.func @f(%a: i32 {iree.abi.name = \"a\"} // first\n  , %b: (i32) // (second)\n -> i32 // , third\n \
                  {iree.abi.name = \"b\", x.y}, %c: i32 {iree.abi.name = \"c\"}// last\n) {\n}";
    assert_eq!(named(text), wanted);
}

/// Reading to the end of the text at each word would take 10^11 bytes.
#[test]
fn text_with_open_brackets_is_read_once() {
    for text in ["func.func @f(%a: <", "stablehlo.dynamic_broadcast_in_dim %0, %1, dims = [", "func.func @f() -> ( "] {
        assert!(Prepared::of(text.repeat(1 << 17).as_bytes()).is_none());
    }
}

#[test]
fn models_that_name_their_values_stay_as_they_are() {
    for text in [
        "func.func @f(%x: i32 {iree.abi.name = \"y\"}) {\n}",
        "func.func @f(%x: i32) attributes {iree.reflection = {iree.abi.declaration = \"func @f(%y: i32)\"}} {\n}",
        "func.func @f(%x: i32) -> i32 attributes {iree.reflection = {iree.abi.declaration = \"sync func @f(%y: i32) -> (%z: i32)\"}} {\n}",
        "func.func @f(%x: i32) -> tensor<4x!t<\"{\">> // A comment. {\n attributes // Another.\n {iree.abi.declaration = \"func @f(%y: \
         i32)\"} {\n}",
        "func.func private @f(%x: i32)\nfunc.func nested @g(%x: i32) {\n}",
        "// func.func @f(%x: i32) {\n",
        "#a = \"func.func @f(%x: i32) {\"",
        "\"func.func\"() <{sym_name = \"f\"}> ({\n^bb0(%x: i32):\n})",
        "func.func @f(%arg0: i32) -> i32 {\n}",
        "func.func @f() {\n}",
    ] {
        assert!(Prepared::of(text.as_bytes()).is_none(), "{text}");
    }
}

#[test]
fn text_of_any_form_is_no_error() {
    let text = "#loc1 = loc(\"x\")\nfunc.func public @\"a\\\"b\"(%x: tensor<4x!t<\"a\">> {a.b = \"\\22\", c} loc(#loc1)) -> (i32 \
                {jax.result_info = \"result['a']\"}, (i32) -> i32) attributes {a = [1]} {\n}";
    assert_eq!(named(text).matches("iree.abi.name").count(), 2);
    for length in 0..text.len() {
        let _ = named(&text[..length]);
        for byte in [b'"', b'(', b'}', b'>', b'\\', b'\n', b'/', 0xFF] {
            let mut bytes = text.as_bytes().to_vec();
            bytes[length] = byte;
            if let Some(prepared) = Prepared::of(&bytes) {
                prepared.write(&mut Vec::new()).unwrap();
            }
        }
    }
}

#[test]
fn dynamic_shapes_of_jax_are_written_for_the_compiler() {
    let operation = |text: &str| {
        let module =
            format!("module attributes {{jax.uses_shape_polymorphism = true}} {{\n  %9 = {text} loc(#loc)\n}}\n");
        let found = named(&module);
        let inner = found.split("%9 = ").nth(1).unwrap().strip_suffix(" loc(#loc)\n}\n").unwrap().to_owned();
        assert_eq!(named(&module.replace("= true", "= false")), module.replace("= true", "= false"));
        inner
    };
    let broadcast = "stablehlo.dynamic_broadcast_in_dim";
    for (text, wanted) in [
        (
            "stablehlo.dynamic_reshape %arg0, %6#1 : (tensor<?x4xf32>, tensor<1xi32>) -> tensor<?xf32>",
            "tensor.reshape %arg0(%6#1) : (tensor<?x4xf32>, tensor<1xi32>) -> tensor<?xf32>",
        ),
        (
            &format!("{broadcast} %4, %6, dims = [0] : (tensor<?xf32>, tensor<2xi32>) -> tensor<?x1xf32>"),
            "tensor.reshape %4(%6) : (tensor<?xf32>, tensor<2xi32>) -> tensor<?x1xf32>",
        ),
        (
            &format!("{broadcast} %4, %6, dims = [0, 1] : (tensor<?x1xf32>, tensor<2xi32>) -> tensor<?x3xf32>"),
            &format!(
                "{broadcast} %4, %6, dims = [0, 1] {{known_nonexpanding_dimensions = array<i64: 0>}} : (tensor<?x1xf32>, \
                 tensor<2xi32>) -> tensor<?x3xf32>"
            ),
        ),
        (
            &format!("{broadcast} %4, %6, dims = [2, 0] : (tensor<?x?xf32>, tensor<3xi32>) -> tensor<?x1x?xf32>"),
            &format!(
                "{broadcast} %4, %6, dims = [2, 0] {{known_nonexpanding_dimensions = array<i64: 0, 1>}} : (tensor<?x?xf32>, \
                 tensor<3xi32>) -> tensor<?x1x?xf32>"
            ),
        ),
    ] {
        assert_eq!(operation(text), wanted);
    }
    // These need no change, or have attributes already.
    for text in [
        &format!("{broadcast} %4, %6, dims = [] : (tensor<f32>, tensor<2xi32>) -> tensor<?x3xf32>")[..],
        &format!("{broadcast} %4, %6, dims = [1] : (tensor<3xf32>, tensor<2xi32>) -> tensor<?x3xf32>"),
        &format!(
            "{broadcast} %4, %6, dims = [0] {{known_expanding_dimensions = array<i64>}} : (tensor<?xf32>, \
                  tensor<2xi32>) -> tensor<?x3xf32>"
        ),
        "stablehlo.reshape %4 : (tensor<4xf32>) -> tensor<2x2xf32>",
    ] {
        assert_eq!(operation(text), text);
    }
}

/// Returns a module with checks of extents as it is compiled.
fn asserted(body: &str) -> String {
    let text = format!("module attributes {{jax.uses_shape_polymorphism = true}} {{\n{body}\n}}\n");
    let changed = named(&text);
    changed.split_once("{\n").unwrap().1.strip_suffix("\n}\n").unwrap().to_owned()
}

#[test]
fn checks_of_extents_become_assertions_of_scalars() {
    let compare = "  %3 = stablehlo.compare EQ, %1, %0, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1> loc(#loc4)\n";
    let call = "stablehlo.custom_call @shape_assertion(%3, %1, %0) {api_version = 2 : i32, error_message = \"Shapes do not match. \
                Extent a.shape[0] (= {0}) is not 'b' (= {1}). Obtained 'b' = {1}.\", has_side_effect = true} : (tensor<i1>, \
                tensor<i32>, tensor<i32>) -> () loc(#loc3)";
    let message = "\"Shapes do not match. Extent a.shape[0] is not 'b'.\"";
    assert_eq!(
        asserted(&format!("{compare}  {call}")),
        format!(
            "{compare}  %shape_assertion_0_0 = tensor.extract %1[] : tensor<i32> %shape_assertion_0_1 = tensor.extract %0[] : \
             tensor<i32> %shape_assertion_0 = arith.cmpi eq, %shape_assertion_0_0, %shape_assertion_0_1 : i32 cf.assert \
             %shape_assertion_0, {message} loc(#loc3)"
        )
    );
    // The condition is not a comparison of scalars that is visible there.
    for before in [
        "",
        "%3 = stablehlo.compare EQ, %1, %0, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>",
        &format!("{compare}  %3 = stablehlo.not %2 : tensor<i1>"),
    ] {
        assert!(asserted(&format!("{before}\n  {call}")).ends_with(&format!(
            "\n  %shape_assertion_0 = tensor.extract %3[] : tensor<i1> cf.assert %shape_assertion_0, {message} loc(#loc3)"
        )));
    }
}

#[test]
fn other_calls_and_checks_of_another_form_stay() {
    for text in [
        "  stablehlo.custom_call @other(%3) {error_message = \"a\"} : (tensor<i1>) -> ()",
        "  stablehlo.custom_call @shape_assertion(%3) {error_message = \"a\"} : (tensor<i1>) -> tensor<i1>",
    ] {
        assert_eq!(asserted(text), text);
    }
}
