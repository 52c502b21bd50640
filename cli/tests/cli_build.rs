//! `incarnate build` end to end: programs are compiled, run, and judged by their output; without optimisation, and in a
//! persistent folder, so that common dependencies are compiled once.
#![cfg(target_os = "linux")]
#![allow(clippy::expect_used, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "support/checks.rs"]
mod checks;
#[path = "support/program.rs"]
mod program;

/// The outcome of a process: its exit status, standard output, standard error.
type Outcome = (Option<i32>, String, String);

fn outcome(command: &mut Command) -> Outcome {
    let output = command.output().expect("the program starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Returns a path in the tests' own folder.
fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("built");
    fs::create_dir_all(&folder).expect("a folder");
    folder.join(name)
}

/// Builds a program in the folder of static libraries.
fn build(target: &Path, arguments: &[&str]) -> Outcome {
    let mut command = program::incarnate();
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/static"));
    command.env("XDG_CACHE_HOME", scratch("cache")).env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0");
    command.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "256").env_remove("CARGO_BUILD_TARGET");
    outcome(command.arg("build").args(arguments).arg("-o").arg(target))
}

/// Returns input `index` of the layer: integers, so that sums are exact.
fn input(index: usize, columns: usize) -> Vec<f32> {
    (0..columns * [5, 16][index]).map(|element| (element * 37 % 11) as f32 - 5.0).collect()
}

fn text(values: &[f32]) -> String {
    values.iter().map(f32::to_string).collect::<Vec<_>>().join(" ")
}

/// Calls `@layer` of a program and compares the result with a plain Rust computation.
fn run_layer(program: &Path) {
    let (x, w) = (input(0, 16), input(1, 7));
    let element =
        |row: usize, column: usize| (0..16).map(|k| x[row * 16 + k] * w[k * 7 + column]).sum::<f32>().max(0.0);
    let sums: Vec<f32> = (0..5).map(|row| (0..7).map(|column| element(row, column)).sum()).collect();
    let mut command = Command::new(program);
    command.args(["run", "--function=static_kernels.layer"]);
    command.arg(format!("--input=5x16xf32={}", text(&x))).arg(format!("--input=16x7xf32={}", text(&w)));
    let printed = format!("EXEC @layer\nresult[0]: hal.buffer_view\n5xf32={}\n", text(&sums));
    for device in ["--device=local-sync", "--device=local-task"] {
        assert_eq!(outcome(command.arg(device)), (Some(0), printed.clone(), String::new()));
    }
}

#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "cargo builds for x86-64, as the objects of tests/static are")]
fn static_libraries_are_linked_and_run() {
    let program = scratch("layer");
    let (code, out, error) = build(&program, &["kernels.vmfb", "--static-library=kernels.o"]);
    assert_eq!((code, error.as_str()), (Some(0), ""), "{out}");
    run_layer(&program);
    // Two modules, each with an object; the symbols of one of them are named.
    let program = scratch("both");
    let libraries = ["--static-library=kernels.o=static_kernels_linked_library_query", "--static-library=other.o"];
    let (code, out, error) = build(&program, &["kernels.vmfb", "other.vmfb", libraries[0], libraries[1]]);
    assert_eq!((code, error.as_str()), (Some(0), ""), "{out}");
    run_layer(&program);
    let square = outcome(Command::new(&program).args(["run", "--function=square", "--input=4xf32=1 -2 3 0.5"]));
    let printed = "EXEC @square\nresult[0]: hal.buffer_view\n4xf32=1 4 9 0.25\n".to_owned();
    assert_eq!(square, (Some(0), printed, String::new()));
    // An object of one module is not linked to another.
    let program = scratch("unlinked");
    let (code, _, error) = build(&program, &["other.vmfb", "--static-library=kernels.o"]);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    let (code, _, error) = outcome(Command::new(&program).args(["run", "--input=4xf32=1"]));
    assert_eq!(code, Some(1));
    assert!(error.contains("`square_dispatch_0`") && error.lines().count() == 1, "{error}");
}

#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "cargo builds for x86-64, as the objects of tests/static are")]
fn incompatible_static_libraries_are_rejected() {
    let mut object =
        fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/static/kernels.o")).expect("an object");
    // The machine of an ELF header: 183 is AArch64.
    object[18..20].copy_from_slice(&183u16.to_le_bytes());
    let foreign = scratch("foreign.o");
    fs::write(&foreign, object).expect("a file");
    let target = scratch("none");
    for (library, why) in [
        ("missing.o", "static library 'missing.o': opening missing.o: NOT_FOUND;".to_owned()),
        (
            "kernels.o=other_library_query",
            "NOT_FOUND; it does not export `other_library_query` but: static_".to_owned(),
        ),
        ("kernels.vmfb", "INVALID_ARGUMENT; it is not an object file".to_owned()),
        (
            foreign.to_str().expect("a path of text"),
            "INCOMPATIBLE; it is for aarch64, and the program is built for x86_64".to_owned(),
        ),
    ] {
        let (code, out, error) = build(&target, &["kernels.vmfb", &format!("--static-library={library}")]);
        assert_eq!((code, out.as_str()), (Some(1), ""));
        assert!(error.contains(&why) && error.lines().count() == 1, "{error}");
        assert!(!target.exists());
    }
}

#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "cargo builds for x86-64, as the objects of tests/static are")]
fn checks_of_programs_report_what_interpreted_ones_do() {
    let (module, program) = (scratch("tests.vmfb"), scratch("tests"));
    fs::write(&module, checks::module(Some("met_after_all"))).expect("a module");
    let (code, out, error) = build(&program, &[module.to_str().expect("a path of text")]);
    assert_eq!((code, error.as_str()), (Some(0), ""), "{out}");
    let (code, out, error) = outcome(Command::new(&program).arg("check"));
    assert_eq!(code, Some(1));
    let unmet = "FAIL tests @unmet: Value of: operand\n  Actual: false\nExpected: true\nExpected 0 to be nonzero.\n\
                 Value of: operand\n  Actual: true\nExpected: false\nExpected 3 to be zero.\nFAIL tests @unmet_and_fails: ";
    assert!(out.contains(unmet), "{out}");
    assert!(out.ends_with("PASS tests @fail_unmet\nPASS tests @met_after_all\n3 passed, 2 failed\n"), "{out}");
    // The same output, except for the program's name.
    let mut interpreted = program::incarnate();
    let interpreted = outcome(interpreted.current_dir(scratch("")).args(["check", "tests.vmfb"]));
    let named = |text: &str| text.replace("tests.vmfb", "tests");
    assert_eq!(interpreted.0, code);
    assert_eq!(named(&interpreted.1), out);
    let words = |text: &str| text.split_once(": ").map(|parts| named(parts.1));
    assert_eq!(words(&interpreted.2), words(&error), "{error}");
}
