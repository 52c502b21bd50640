//! The command line: its output, its files, its exit status.
#![allow(clippy::expect_used, reason = "tests")]

use std::fs;
use std::path::Path;

use scratch::Scratch;

#[path = "cli/build_errors.rs"]
mod build_errors;
#[path = "support/program.rs"]
mod program;
#[path = "support/scratch.rs"]
mod scratch;

/// The outcome of a process.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    code: Option<i32>,
    out: String,
    error: String,
}

fn incarnate(arguments: &[&str]) -> Outcome {
    let output = program::incarnate()
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models"))
        .args(program::native_arguments(arguments))
        .output()
        .expect("the command line starts");
    let text = |bytes| String::from_utf8(bytes).expect("the command line prints text");
    Outcome { code: output.status.code(), out: text(output.stdout), error: text(output.stderr) }
}

impl Scratch {
    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Writes a module from assembly text.
    fn module(&self, name: &str, source: &str) -> String {
        let path = self.path(name);
        fs::write(&path, incarnate_runtime::bytecode::assemble(source).expect("sound assembly")).expect("a file");
        path
    }
}

const SIMPLE_MUL: &str = "--module=simple_mul/llvm-cpu.vmfb";
const INPUTS: [&str; 2] = ["--input=4xf32=1,2,3,4", "--input=4xf32=2"];

fn run_simple_mul(more: &[&str]) -> Outcome {
    let mut arguments = vec!["run", SIMPLE_MUL, "--function=simple_mul"];
    arguments.extend(INPUTS);
    arguments.extend(more);
    incarnate(&arguments)
}

fn success(out: &str) -> Outcome {
    Outcome { code: Some(0), out: out.to_owned(), error: String::new() }
}

/// Golden text: iree-run-module of release 3.13 with the same flags.
#[test]
fn run_prints_like_iree() {
    let printed = success("EXEC @simple_mul\nresult[0]: hal.buffer_view\n4xf32=2 4 6 8\n");
    assert_eq!(run_simple_mul(&[]), printed);
    assert_eq!(run_simple_mul(&["--device=local-sync"]), printed);
    // The only function need not be named, and values may be separate from their flags.
    let separate = ["run", SIMPLE_MUL, "--input", "4xf32=1 2 3 4", "--input", "4xf32=2"];
    assert_eq!(incarnate(&separate), printed);
    let fences = ["run", "--module=simple_mul/async-external.vmfb", INPUTS[0], INPUTS[1]];
    assert_eq!(incarnate(&fences), printed);
    assert_eq!(run_simple_mul(&["--output=-"]), success("EXEC @simple_mul\nhal.buffer_view\n4xf32=2 4 6 8\n"));
    assert_eq!(run_simple_mul(&["--output="]), success("EXEC @simple_mul\n"));
    let elided = run_simple_mul(&["--output_max_element_count=2"]);
    assert_eq!(elided.out.lines().last(), Some("4xf32=2 4..."));
}

#[test]
fn run_writes_files_and_reads_them_back() {
    let scratch = Scratch::new("files");
    let (array, raw) = (scratch.path("y.npy"), scratch.path("y.bin"));
    assert_eq!(run_simple_mul(&[&format!("--output=@{array}")]), success("EXEC @simple_mul\n"));
    assert_eq!(run_simple_mul(&[&format!("--output=+{raw}")]).code, Some(0));
    let floats = [2f32, 4.0, 6.0, 8.0].map(f32::to_le_bytes).concat();
    assert_eq!(fs::read(&raw).expect("the file"), floats);
    assert!(fs::read(&array).expect("the file").ends_with(&floats));
    let matched = "EXEC @simple_mul\n[SUCCESS] all function outputs matched their expected values.\n";
    assert_eq!(run_simple_mul(&[&format!("--expected_output=@{array}")]), success(matched));
    assert_eq!(run_simple_mul(&[&format!("--expected_output=4xf32=@{raw}")]), success(matched));
    let missing = run_simple_mul(&[&format!("--output=@{}", scratch.path("no/y.npy"))]);
    assert_eq!(missing.code, Some(1));
    assert!(missing.error.contains("result 0: creating '"), "{}", missing.error);
}

#[test]
fn run_reports_unexpected_results() {
    let failed = run_simple_mul(&["--expected_output=4xf32=2 4 6 9"]);
    assert_eq!(
        failed,
        Outcome {
            code: Some(1),
            out: "EXEC @simple_mul\n[FAILED] result[0]: element at index 3 (8) does not match the expected (9); expected \
                  that the view is equal to contents of a view of 4xf32\n  expected:\n4xf32=2 4 6 9\n  actual:\n\
                  4xf32=2 4 6 8\n"
                .to_owned(),
            error: "incarnate run: @simple_mul: result[0]: element at index 3 (8) does not match the expected (9); \
                    expected that the view is equal to contents of a view of 4xf32\n"
                .to_owned(),
        }
    );
    assert_eq!(run_simple_mul(&["--expected_output=4xf32=2 4 6 8.00001"]).code, Some(0));
    assert_eq!(run_simple_mul(&["--expected_output=4xf32=2 4 6 8.00001", "--equality_mode=exact"]).code, Some(1));
    assert_eq!(run_simple_mul(&["--expected_output=4xf32=2 4 6 9", "--expected_f32_threshold=1"]).code, Some(0));
    assert_eq!(run_simple_mul(&["--expected_output=(ignored)"]).code, Some(0));
}

#[test]
fn errors_are_one_line_with_operation_and_location() {
    let callee = "; calling `sync func @simple_mul(%input0: tensor<4xf32>, %input1: tensor<4xf32>) -> (%output0: \
                  tensor<4xf32>)`";
    for (arguments, error) in [
        (
            &["run", "--module=missing.vmfb"][..],
            format!("opening missing.vmfb: NOT_FOUND; {}", fs::File::open("missing.vmfb").expect_err("it is missing")),
        ),
        (
            &["run", SIMPLE_MUL, "--function=nope"],
            "NOT_FOUND; no function 'nope': the module exports simple_mul".to_owned(),
        ),
        (
            &["run", SIMPLE_MUL, INPUTS[0]],
            format!("INVALID_ARGUMENT; the function takes 2 arguments, but 1 was given{callee}"),
        ),
        (
            &["run", SIMPLE_MUL, INPUTS[0], "--input=4xf32=1 x 3 4"],
            format!("--input: in '4xf32=1 x 3 4': element 1: INVALID_ARGUMENT; 'x' is not a value of f32{callee}"),
        ),
        (
            &["run", SIMPLE_MUL, INPUTS[0], INPUTS[1], "--device=abacus"],
            "NOT_FOUND; no driver for device 'abacus'".to_owned(),
        ),
        (&["run", "--module=README.md"], "loading 'README.md': ".to_owned()),
    ] {
        let outcome = incarnate(arguments);
        assert_eq!(outcome.code, Some(1), "{outcome:?}");
        assert!(outcome.error.starts_with(&format!("incarnate run: {error}")), "{outcome:?}");
        assert_eq!(outcome.error.lines().count(), 1, "{outcome:?}");
    }
    let wrong_shape = incarnate(&["run", SIMPLE_MUL, "--input=3xf32=1", INPUTS[1]]);
    assert_eq!(wrong_shape.code, Some(1));
    assert!(wrong_shape.error.contains("shape is 3, expected 4"), "{}", wrong_shape.error);
    for usage in [&["run"][..], &["run", SIMPLE_MUL, "--nope"], &["fly"], &[]] {
        let outcome = incarnate(usage);
        assert_eq!((outcome.code, outcome.out.as_str()), (Some(2), ""), "{usage:?}");
        assert!(!outcome.error.is_empty());
    }
    assert_eq!(incarnate(&["--version"]).out, format!("incarnate {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn drivers_and_devices_are_listed() {
    for command in ["run", "bench", "check"] {
        let drivers = incarnate(&[command, "--list_drivers"]);
        assert_eq!(drivers.code, Some(0), "{drivers:?}");
        assert!(
            drivers.out.contains("\n      local-sync: ") && drivers.out.contains("\n      local-task: "),
            "{drivers:?}"
        );
        assert_eq!(incarnate(&[command, "--list_devices"]).out, "local-sync://\nlocal-task://\n");
    }
    assert_eq!(incarnate(&["run", "--list_devices=local-task"]).out, "local-task://\n");
    let described = incarnate(&["run", "--dump_devices=local-sync"]);
    assert!(
        described.out.starts_with("# --device=local-sync://\n") && described.out.contains("workers: 1\n"),
        "{described:?}"
    );
    let unknown = incarnate(&["run", "--list_devices=abacus"]);
    assert_eq!((unknown.code, unknown.out.as_str()), (Some(1), ""));
    assert!(
        unknown.error.contains("no driver for devices of 'abacus'; drivers: local-sync, local-task"),
        "{unknown:?}"
    );
    for uri in ["local-sync://", "local-task://default", "local-task://?workers=2&spin_us=0"] {
        assert_eq!(run_simple_mul(&[&format!("--device={uri}")]).code, Some(0), "{uri}");
    }
    for (uri, error) in [("local-sync://3", "NOT_FOUND"), ("local-task://?colour=1", "INVALID_ARGUMENT")] {
        let outcome = run_simple_mul(&[&format!("--device={uri}")]);
        assert!(outcome.code == Some(1) && outcome.error.contains(error), "{outcome:?}");
    }
}

#[test]
fn programs_of_several_devices_need_them() {
    let module = "--module=two_devices/llvm-cpu.vmfb";
    let call = &["run", module, "--function=relay", "--input=64xf32=2", "--expected_output=64xf32=12"];
    let both = incarnate(&[&call[..], &["--device=local-sync", "--device=local-task"]].concat());
    assert_eq!(both.code, Some(0), "{both:?}");
    let one = incarnate(&[&call[..], &["--device=local-sync"]].concat());
    assert_eq!(one.code, Some(1));
    assert!(one.error.contains("INCOMPATIBLE") && one.error.contains("device_b"), "{one:?}");
}

#[test]
fn unusable_plugins_are_rejected() {
    let module = "--module=plugin/llvm-cpu.vmfb";
    let call = &["run", module, "--function=offset", "--input=4xf32=1"];
    let without = incarnate(call);
    assert!(without.code == Some(1) && without.error.contains("`incarnate_test_offset`"), "{without:?}");
    let plugin = "--executable_plugin=../../runtime/tests/fixtures/system/plugin.so";
    for (flags, error) in [
        (&["--executable_plugin=missing.so"][..], "loading the executable plugin 'missing.so': NOT_FOUND"),
        (&[plugin, "--untrusted"], "PERMISSION_DENIED"),
    ] {
        let outcome = incarnate(&[&call[..], flags].concat());
        assert!(outcome.code == Some(1) && outcome.error.contains(error), "{outcome:?}");
    }
}

#[test]
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn libraries_are_kept_for_profilers_on_request() {
    let scratch = Scratch::new("libraries");
    let keep = format!("--keep_libraries={}", scratch.path(""));
    let module = "--module=simple_mul/system-library.vmfb";
    let outcome = incarnate(&["run", module, INPUTS[0], INPUTS[1], "--expected_output=4xf32=2,4,6,8", &keep]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let files = fs::read_dir(scratch.path("")).expect("the folder").count();
    assert_eq!(files, 1);
}

#[test]
fn endless_loops_end_when_their_fuel_is_used_up() {
    let scratch = Scratch::new("fuel");
    let source = "vm.module @m version 0\nvm.export @spin\nvm.func @spin() -> () {\n^bb0:\n  vm.br ^bb0()\n}\n";
    let module = format!("--module={}", scratch.module("spin.vmfb", source));
    let outcome = incarnate(&["run", &module, "--fuel=1000"]);
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.error.contains("RESOURCE_EXHAUSTED") && outcome.error.contains("fuel"), "{}", outcome.error);
}

#[test]
fn bench_reports_as_google_benchmark_does() {
    let mut arguments = vec!["bench", SIMPLE_MUL, INPUTS[0], INPUTS[1], "--benchmark_min_time=10x"];
    let console = incarnate(&arguments);
    assert_eq!(console.code, Some(0), "{}", console.error);
    let lines: Vec<&str> = console.out.lines().collect();
    assert_eq!(lines.len(), 4, "{}", console.out);
    assert!(lines[1].starts_with("Benchmark ") && lines[1].ends_with("Iterations UserCounters..."));
    let row: Vec<&str> = lines[3].split_whitespace().collect();
    assert_eq!((row[0], row[2], row[4], row[5]), ("BM_simple_mul/process_time/real_time", "ms", "ms", "10"));

    let scratch = Scratch::new("bench");
    let (file, out) = (scratch.path("report.json"), format!("--benchmark_out={}", scratch.path("report.json")));
    arguments.extend(["--benchmark_format=json", "--benchmark_repetitions=2", "--time_unit=us", &out]);
    let json = incarnate(&arguments);
    assert_eq!((json.code, json.error.as_str()), (Some(0), ""));
    assert_eq!(fs::read_to_string(file).expect("the report"), json.out);
    for (text, count) in [
        ("\"name\": \"BM_simple_mul/process_time/real_time\",", 2),
        ("\"name\": \"BM_simple_mul/process_time/real_time_median\",", 1),
        ("\"run_type\": \"iteration\",", 2),
        ("\"run_type\": \"aggregate\",", 4),
        ("\"iterations\": 10,", 2),
        ("\"time_unit\": \"us\",", 6),
        ("\"real_time\": ", 6),
        ("\"num_cpus\": ", 1),
    ] {
        assert_eq!(json.out.matches(text).count(), count, "{text} in {}", json.out);
    }
}

#[test]
fn bench_verifies_the_results() {
    let right =
        ["bench", SIMPLE_MUL, INPUTS[0], INPUTS[1], "--benchmark_min_time=2x", "--expected_output=4xf32=2 4 6 8"];
    assert_eq!(incarnate(&right).code, Some(0));
    let wrong = ["bench", SIMPLE_MUL, INPUTS[0], INPUTS[1], "--benchmark_min_time=2x", "--expected_output=4xf32=1"];
    let outcome = incarnate(&wrong);
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.error.contains("incarnate bench: @simple_mul: result[0]: element at index 0 (2)"), "{outcome:?}");
    let nothing_to_run = incarnate(&["bench", SIMPLE_MUL]);
    assert_eq!(nothing_to_run.code, Some(1));
    assert!(nothing_to_run.error.contains("name one with --function="), "{}", nothing_to_run.error);
}

const CHECKS: &str = r#"vm.module @checks version 0
vm.type i32
vm.import @yieldable_test.yield_n cconv "0ii_i"

vm.export @passes
vm.func @passes() -> () {
^bb0:
  vm.return
}

vm.export @fail_as_it_must
vm.func @fail_as_it_must() -> () {
^bb0:
  %i0 = vm.const.i32 3
  vm.fail %i0, "on purpose"
}

vm.export @yields
vm.func @yields() -> () {
^bb0:
  %i0 = vm.const.i32 10
  %i1 = vm.const.i32 3
  %i2 = vm.const.i32 13
  %i3 = vm.const.i32 9
  vm.call.yieldable @yieldable_test.yield_n(%i0, %i1) -> ^bb1(%i0)
^bb1:
  %i0 = vm.cmp.ne.i32 %i0, %i2
  vm.cond_br %i0, ^bb3(), ^bb2()
^bb2:
  vm.return
^bb3:
  vm.fail %i3, "10 and three yields make 13"
}

vm.export @takes_an_argument
vm.func @takes_an_argument(%i0: i32) -> (i32) {
^bb0:
  vm.return %i0
}
"#;

#[test]
fn check_runs_every_function_without_arguments() {
    let scratch = Scratch::new("check");
    let good = scratch.module("good.vmfb", CHECKS);
    let passed = incarnate(&["check", &good]);
    let expected = ["passes", "fail_as_it_must", "yields"].map(|name| format!("PASS {good} @{name}\n")).concat();
    assert_eq!(passed, success(&format!("{expected}3 passed, 0 failed\n")));
    assert_eq!(incarnate(&["check", &format!("--module={good}")]), passed);

    let exchanged = CHECKS.replace("@passes", "@fail_but_does_not").replace("@fail_as_it_must", "@falls");
    let bad = scratch.module("bad.vmfb", &exchanged);
    let failed = incarnate(&["check", &bad, &good]);
    assert_eq!(failed.code, Some(1));
    let lines: Vec<&str> = failed.out.lines().collect();
    assert_eq!(lines[0], format!("FAIL {bad} @fail_but_does_not: it succeeded, but functions named fail_* must fail"));
    assert!(
        lines[1].starts_with(&format!("FAIL {bad} @falls: INVALID_ARGUMENT; on purpose; at @checks.falls+0x")),
        "{}",
        lines[1]
    );
    assert_eq!(lines.last(), Some(&"4 passed, 2 failed"));
    assert_eq!(failed.error.lines().count(), 1, "{}", failed.error);

    let none = incarnate(&["check", "simple_mul/llvm-cpu.vmfb"]);
    assert_eq!((none.code, none.out.lines().last()), (Some(0), Some("0 passed, 0 failed")));
}

#[test]
fn dump_prints_signatures() {
    let text = incarnate(&["dump", "dynamic/vmvx.vmfb", "--output=signature"]).out;
    assert!(
        text.contains("\nmatmul(input0: tensor<?x?xf32>, input1: tensor<?x?xf32>) -> (output0: tensor<?x?xf32>)\n"),
        "{text}"
    );
    let text = incarnate(&["dump", "imported/vmvx.vmfb", "--output=signature"]).out;
    assert_eq!(
        text,
        "classify(input0: tensor<?x4xf32>, input1: tensor<4x3xf32>) -> (output0: tensor<?x3xf32>, output1: tensor<?x3xi1>)\n\
         advance(input0: tensor<2xi64>, input1: !hal.buffer_view) -> (output0: tensor<2xi64>)\n"
    );
    let json = incarnate(&["dump", "imported/vmvx.vmfb", "--output=signature", "--format=json"]).out;
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let classify = &json["functions"][0];
    assert_eq!((classify["name"].as_str(), classify["declared"].as_bool()), (Some("classify"), Some(false)));
    assert_eq!(classify["inputs"][0]["shape"], serde_json::json!([null, 4]));
    assert_eq!(classify["inputs"][0]["element_type"], "f32");
    assert_eq!(json["functions"][1]["inputs"][1], serde_json::json!({"name": "input1", "type": "!hal.buffer_view"}));
}

#[test]
fn dump_prints_tables_and_instructions() {
    let all = incarnate(&["dump", "simple_mul/llvm-cpu.vmfb"]);
    assert_eq!((all.code, all.error.as_str()), (Some(0), ""));
    for text in [
        "// @module : version 0\n",
        "  hal, version >= 7, required\n",
        ".fence.await(i32, i64, tuple<!vm.ref<?>>...) -> (i32)\n",
        "  [  0] simple_mul(!vm.ref<?>, !vm.ref<?>) -> (!vm.ref<?>)\n",
        "        iree.abi.declaration: sync func @simple_mul(",
        "embedded       19 bytes `embedded-elf-x86_64`\n",
        " | simple_mul\n",
        "vm.func @simple_mul(",
    ] {
        assert!(all.out.contains(text), "{text:?} in {}", all.out);
    }
    let metadata = incarnate(&["dump", "simple_mul/llvm-cpu.vmfb", "--output=metadata"]).out;
    let disassembly = incarnate(&["dump", "simple_mul/llvm-cpu.vmfb", "--output=disassembly"]).out;
    assert_eq!(all.out, format!("{metadata}{disassembly}"));
    // The disassembly is the assembler's input.
    incarnate_runtime::bytecode::assemble(&disassembly).expect("the text of a module");
    let shaders = incarnate(&["dump", "../vulkan/modules/mlp.bda.vmfb", "--output=disassembly"]).out;
    assert!(shaders.contains("// Shader module 0 of .rodata["), "{shaders}");
    incarnate_runtime::bytecode::assemble(&shaders).expect("the text of a module for Vulkan");
    let function = incarnate(&["dump", "simple_mul/llvm-cpu.vmfb", "--function=simple_mul"]).out;
    assert_eq!(function.matches("vm.func").count(), 1);
    assert!(disassembly.contains(&function), "{function}");
    let missing = incarnate(&["dump", "simple_mul/llvm-cpu.vmfb", "--function=nope"]);
    assert_eq!(missing.code, Some(1));
    assert!(missing.error.contains("no function 'nope'"), "{}", missing.error);
}

#[test]
fn programs_with_embedded_modules_take_the_same_flags() {
    let main = |source: &str, arguments: &[&str]| {
        let line = std::iter::once("program").chain(arguments.iter().copied()).map(std::ffi::OsString::from);
        let module = incarnate_runtime::bytecode::assemble(source).expect("sound assembly");
        format!("{:?}", incarnate_cli::program_main(line, |session| session.module_bytes(module.clone())))
    };
    let code = |code: u8| format!("{:?}", std::process::ExitCode::from(code));
    assert_eq!(main(CHECKS, &["check"]), code(0));
    const SAME: &str = "vm.module @m version 0\nvm.export @same\nvm.func @same(%i0: i32) -> (i32) {\n^bb0:\n  \
                        vm.return %i0\n}\n";
    assert_eq!(main(SAME, &["run", "--input=3", "--expected_output=3"]), code(0));
    assert_eq!(main(SAME, &["run", "--input=3", "--expected_output=4"]), code(1));
    assert_eq!(main(SAME, &["bench", "--input=3", "--benchmark_min_time=3x"]), code(0));
    assert_eq!(main(SAME, &["run", "--module=a.vmfb"]), code(2));
}

#[test]
fn translate_writes_the_source_and_its_side_files() {
    let scratch = Scratch::new("translate");
    let target = scratch.path("mul.rs");
    let outcome = incarnate(&["translate", "simple_mul/llvm-cpu.vmfb", "-o", &target]);
    assert_eq!((outcome.code, outcome.error.as_str()), (Some(0), ""));
    let constants = scratch.path("mul.constants.bin");
    assert!(outcome.out.contains(&target) && outcome.out.contains(&constants), "{}", outcome.out);
    let source = fs::read_to_string(&target).expect("the source");
    assert!(source.contains("pub fn simple_mul") && source.contains("include_constants!(\"mul.constants.bin\")"));
    assert!(fs::read(&constants).expect("the constants").len() > 64);
    // Unchanged files are not written again.
    let written = |path: &str| fs::metadata(path).and_then(|metadata| metadata.modified()).expect("a time");
    let before = written(&target);
    assert_eq!(incarnate(&["translate", "simple_mul/llvm-cpu.vmfb", "-o", &target]).code, Some(0));
    assert_eq!(written(&target), before);
}

#[test]
fn translate_reports_the_optimisation_of_loops() {
    let scratch = Scratch::new("translate-loops");
    let translated = |model: &str, further: &[&str]| {
        let target = scratch.path("model.rs");
        let outcome = incarnate(&[&["translate", model, "-o", &target], further].concat());
        assert_eq!((outcome.code, outcome.error.as_str()), (Some(0), ""));
        outcome.out
    };
    let lines_with = |model: &str, further: &[&str]| {
        let out = translated(model, &[&["--remarks"], further].concat());
        out.lines().filter(|line| line.starts_with('@')).map(String::from).collect::<Vec<_>>()
    };
    let lines = |model: &str| lines_with(model, &[]);
    let matmul = lines("mlp/vmvx.vmfb");
    let contractions: Vec<&String> = matmul.iter().filter(|line| line.contains("contraction FmaF32; 8 rows")).collect();
    assert!(contractions.len() == 3 && contractions[0].contains(": 8 x 48 x 32 iterations"), "{matmul:#?}");
    // Without the flag, one line counts them.
    let summary = translated("mlp/vmvx.vmfb", &[]);
    let counts = "3 contractions, 3 strips, 3 with nothing to do, 1 loops in order\n";
    assert!(summary.contains(counts) && !summary.contains('@'), "{summary}");
    let gather = lines("indexing/vmvx.vmfb");
    assert!(gather.iter().any(|line| line.contains("not optimised: the index of the access at 0x")), "{gather:#?}");
    // Loops over tiles of dynamic size are collapsed into one, but count as three.
    let attention = lines("attention/vmvx.vmfb");
    assert!(attention.iter().any(|line| line.contains(": ? x 32 x ? iterations, contraction")), "{attention:#?}");
    // Each loop that the flag changes is named without it.
    let in_order = lines("several_results/vmvx.vmfb");
    let advised = in_order.iter().filter(|line| line.ends_with("--reassociate allows partial sums")).count();
    let reassociated = lines_with("several_results/vmvx.vmfb", &["--reassociate"]);
    let reduced = reassociated.iter().filter(|line| line.contains("in 16 partial sums")).count();
    assert!(advised > 0 && advised == reduced, "{in_order:#?} {reassociated:#?}");
    let (input, output) = ("--input=@attention/sequence.in0.npy", "--expected_output=@attention/sequence.out0.npy");
    let tolerance = "--expected_f32_threshold=0.0001";
    let run = incarnate(&["run", "--reassociate", "--module=attention/vmvx.vmfb", input, output, tolerance]);
    assert_eq!((run.code, run.error.as_str()), (Some(0), ""), "{}", run.out);
}

#[test]
fn translation_of_an_invalid_module_writes_nothing() {
    let scratch = Scratch::new("translate-failures");
    let module = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models/scalars/llvm-cpu.vmfb"));
    let mut module = module.expect("a model");
    let cut = scratch.path("cut.vmfb");
    fs::write(&cut, &module[..module.len() / 2]).expect("a file");
    // An unknown opcode somewhere within the functions.
    let position = module.windows(4).rposition(|bytes| bytes == [0x79, 0x79, 0x79, 0x79]);
    let position = position.unwrap_or(module.len() / 3);
    module[position..position + 64].fill(0xFF);
    let broken = scratch.path("broken.vmfb");
    fs::write(&broken, &module).expect("a file");
    let nothing = scratch.path("nothing.vmfb");
    let target = scratch.path("out.rs");
    for file in [&cut, &broken, &nothing] {
        let outcome = incarnate(&["translate", file, "-o", &target]);
        assert_eq!(outcome.code, Some(1), "{file}: {}", outcome.out);
        let why = &outcome.error;
        assert!(why.lines().count() == 1 && why.contains(file.as_str()), "{why}");
    }
    let left: Vec<_> =
        fs::read_dir(&scratch.0).expect("a folder").map(|entry| entry.expect("an entry").file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
    let outcome = incarnate(&["translate", "simple_mul/llvm-cpu.vmfb", "-o", &scratch.path("out.txt")]);
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.error.contains("its name must end with .rs"), "{}", outcome.error);
}

#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "the objects of tests/static are for x86-64 here")]
fn translate_takes_objects_of_kernels() {
    let scratch = Scratch::new("translate-static");
    let target = scratch.path("kernels.rs");
    let translate = |library: &str| {
        let library = format!("--static-library=../static/{library}");
        incarnate(&["translate", "../static/kernels.vmfb", "-o", &target, &library])
    };
    for library in ["kernels.o", "kernels.o=static_kernels_linked_library_query"] {
        let outcome = translate(library);
        assert_eq!((outcome.code, outcome.error.as_str()), (Some(0), ""));
        let line = outcome.out.lines().find(|line| line.contains("an archive of kernels")).expect("a line");
        let name = line.rsplit("-l static=").next().expect("a name");
        let archive = fs::read(scratch.path(&format!("lib{name}.a"))).expect("the archive");
        let object =
            fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/static/kernels.o")).expect("an object");
        assert!(archive.windows(object.len()).any(|part| part == object), "{line}");
        let source = fs::read_to_string(&target).expect("the source");
        assert!(source.contains("static_kernels_linked_library_query"), "{source}");
    }
    for (library, why) in [
        ("kernels.o=other", "it does not export `other` but: static_kernels_linked_library_query"),
        ("none.o", "opening ../static/none.o: NOT_FOUND;"),
        ("kernels.mlir", "INVALID_ARGUMENT; it is not an object file, or damaged"),
    ] {
        let outcome = translate(library);
        assert_eq!(outcome.code, Some(1));
        assert!(outcome.error.contains(why) && outcome.error.lines().count() == 1, "{}", outcome.error);
    }
}
