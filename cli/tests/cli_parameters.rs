//! Parameters on the command line.
#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};

#[path = "support/program.rs"]
mod program;

fn model() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models/parameters")
}

/// Creates an empty folder for the test.
fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("parameters-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Runs the command line in a folder; returns its output, or its standard error if it fails.
fn incarnate(folder: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut command = program::incarnate();
    let output = command.current_dir(folder).args(arguments).output().expect("the command line starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

fn succeeds(folder: &Path, arguments: &[&str]) -> String {
    incarnate(folder, arguments).unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
}

fn fails(folder: &Path, arguments: &[&str], words: &str) {
    let error = incarnate(folder, arguments).expect_err("it fails");
    assert!(error.contains(words) && error.lines().count() == 1, "{arguments:?}: {error}");
}

#[test]
fn archives_are_listed() {
    let folder = scratch("list");
    let model = model();
    let (gguf, splat) = (model.join("model.gguf"), model.join("splat.irpa"));
    let (gguf, splat) = (format!("model={}", gguf.display()), splat.display().to_string());
    let text = succeeds(&folder, &["parameters", "list", &gguf, &splat, "--extract=model::layer1.bias=bias.bin"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[1], "// Parameter scope `model` (4 entries, 848 total bytes)");
    assert_eq!(lines[5], "             384 |              896 |              512 | `layer0.weight`, F32 [8x16]");
    assert!(
        lines.contains(&"               - |                - |               16 | `a`, 3F000000h everywhere"),
        "{text}"
    );
    assert!(lines.iter().filter(|line| line.starts_with("//=")).all(|line| line.len() == 120), "{text}");
    assert_eq!(fs::read(folder.join("bias.bin")).expect("the file").len(), 16);
    fails(&folder, &["parameters", "list", &splat, "--extract=nope=x.bin"], "NOT_FOUND; no such parameter");
    assert!(!folder.join("x.bin").exists());
}

#[test]
fn archives_are_converted() {
    let folder = scratch("convert");
    let model = model();
    for form in ["gguf", "safetensors", "irpa"] {
        let source = model.join(format!("model.{form}")).display().to_string();
        succeeds(&folder, &["parameters", "convert", &source, "--output=out.irpa"]);
        let (written, expected) = (fs::read(folder.join("out.irpa")), fs::read(model.join("model.irpa")));
        assert!(written.expect("the archive") == expected.expect("the archive"), "{form}");
    }
    let source = model.join("model.gguf").display().to_string();
    let flags = ["--exclude=layer0.weight", "--rename=layer0.bias=b", "--splat=layer1.weight=f32=2", "-o", "out.irpa"];
    let text = succeeds(&folder, &[&["parameters", "convert", &source], &flags[..]].concat());
    for words in ["(3 entries, 336 total", "|               64 | `b`\n", "`layer1.weight`, 40000000h everywhere\n"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let text = succeeds(&folder, &["parameters", "convert", "out.irpa", "--strip", "-o", "stripped.irpa"]);
    assert_eq!(text.matches("00h everywhere").count(), 3, "{text}");
    fails(&folder, &["parameters", "convert", &source, "--splat=what", "-o", "x.irpa"], "--splat=what: no such");
    fails(
        &folder,
        &["parameters", "convert", &source, &source, "--splat=layer0.bias=x24=1", "-o", "x.irpa"],
        "--splat=",
    );
    fails(
        &folder,
        &["parameters", "convert", &source, "--rename=layer0.bias=layer1.bias", "-o", "x.irpa"],
        "duplicate parameter",
    );
    assert!(!folder.join("x.irpa").exists());
}

#[test]
fn programs_read_and_write_created_archives() {
    let folder = scratch("create");
    let model = model();
    let array = format!("--data=b=@{}", model.join("gather.out0.npy").display());
    let flags = ["--data=calls=1xi32=4", "--data=a=4xf32=1,2,3,4", &array, "--splat=s=4xi64=3", "--output=state.irpa"];
    succeeds(&folder, &[&["parameters", "create"], &flags[..]].concat());
    let module = format!("--module={}", model.join("vmvx.vmfb").display());
    let weights = format!("--parameters=model={}", model.join("model.safetensors").display());
    let program = [module.as_str(), &weights, "--parameters=state=state.irpa"];
    let run = |flags: &[&str]| succeeds(&folder, &[&["run"], &program[..], flags].concat());
    run(&["--function=gather", "--expected_output=8xf32=1 2 3 4 2 3 12 13"]);
    run(&["--function=gather", "--expected_output=8xf32=1 2 3 4 2 3 12 13", "--parameter_mode=preload"]);
    run(&["--function=scatter", "--input=8xf32=9 8 7 6 5 4 3 2", "--parameter_mode=write"]);
    run(&["--function=gather", "--device=local-task", "--expected_output=8xf32=9 8 7 6 5 4 3 2"]);
    run(&["--function=count", "--expected_output=1xi32=5"]);
    fails(
        &folder,
        &["run", &module, &weights, "--function=count"],
        "NOT_FOUND; no parameters of scope 'state' were given, as `--parameters=state=FILE`",
    );
    fails(&folder, &["run", &module, "--function=count", "--parameters=state=nowhere.irpa"], "nowhere.irpa: NOT_FOUND");
    let cut = fs::read(folder.join("state.irpa")).expect("the archive");
    fs::write(folder.join("cut.irpa"), &cut[..400]).expect("a file");
    let flags = ["--function=count", "--parameters=state=cut.irpa"];
    fails(
        &folder,
        &[&["run", &module, &weights], &flags[..]].concat(),
        "parameters in 'cut.irpa': IRPA archive: header at byte 0",
    );
    fails(&folder, &["parameters", "create", "--data=a", "-o", "x.irpa"], "--data=a: no '='");
    fails(&folder, &["parameters", "create", "--data=a=4xf32=1,2", "-o", "x.irpa"], "--data=a: ");
}
