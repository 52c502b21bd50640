//! Modules of tests/hostile whose shapes have no bytes and whose text acts on terminals, through every command.
#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use incarnate_runtime::bytecode::{Archive, Contents, Module, acts, assemble};

#[path = "support/program.rs"]
mod program;

/// Time after which a command counts as hanging. They take less than a second.
const PATIENCE: Duration = Duration::from_secs(120);
/// Most bytes that a command may print.
const OUTPUT_LIMIT: usize = 20 << 20;

/// The module files of the members of a class, by the prefix of their names, in a folder of the test's own.
fn modules(test: &str, prefix: &str, minimum: usize) -> (PathBuf, Vec<PathBuf>) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("hostile-{test}"));
    fs::create_dir_all(&folder).expect("a folder");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/hostile");
    let mut files = Vec::new();
    for entry in fs::read_dir(sources).expect("the hostile modules") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if let Some(name) = name.strip_suffix(".vmasm").filter(|name| name.starts_with(prefix)) {
            let text = fs::read_to_string(&path).expect("a source");
            assert!(text.starts_with("// "), "{name} says what it does");
            let file = folder.join(format!("{name}.vmfb"));
            fs::write(&file, assemble(&text).expect("sound assembly")).expect("a module");
            files.push(file);
        }
    }
    assert!(files.len() >= minimum, "{prefix}: {files:?}");
    files.sort();
    (folder, files)
}

struct Outcome {
    status: i32,
    out: String,
    error: String,
}

/// Runs a command that must end by itself, in time, with status 0, or with status 1 and one line of error.
fn run(folder: &Path, arguments: &[&str]) -> Outcome {
    // Files, because the test reads the streams only after the command has ended: a full pipe would block the command.
    let stream = |name: &str| folder.join(format!("{name}-{:?}", std::thread::current().id()));
    let (out, error) = (stream("out"), stream("error"));
    let file = |path: &Path| Stdio::from(File::create(path).expect("a file"));
    let mut command = program::incarnate();
    let mut child = command
        .current_dir(folder)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(file(&out))
        .stderr(file(&error))
        .spawn()
        .expect("the command line starts");
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a status") {
            break status.code();
        }
        if start.elapsed() > PATIENCE {
            child.kill().expect("the process ends");
            child.wait().expect("a status");
            panic!("{arguments:?} does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let text = |path: &Path| String::from_utf8(fs::read(path).expect("a stream")).expect("text");
    let (out, error) = (text(&out), text(&error));
    assert!(out.len() + error.len() < OUTPUT_LIMIT, "{arguments:?} prints {} bytes", out.len());
    assert!(matches!(status, Some(0 | 1)), "{arguments:?}: {status:?}, {error}");
    let status = status.unwrap_or_default();
    if status == 1 {
        let last = error.lines().last().unwrap_or_default();
        assert!(last.starts_with(&format!("incarnate {}: ", arguments[0])), "{arguments:?}: {error}");
        assert_eq!(error.lines().filter(|line| line.starts_with("incarnate ")).count(), 1, "{error}");
    }
    Outcome { status, out, error }
}

/// Asserts that no character of a text acts but line feeds and tabs.
fn assert_inert(text: &str, what: &str) {
    let found: Vec<char> = text.chars().filter(|c| acts(*c) && !matches!(c, '\n' | '\t')).collect();
    assert!(found.is_empty(), "{what}: {found:?}");
}

fn exports(file: &Path) -> Vec<String> {
    let contents = Contents::from_vec(fs::read(file).expect("a module"));
    let module = Module::parse(Archive::new(contents.into()).expect("an archive")).expect("a module");
    module.exports().map(|export| export.local_name.to_owned()).collect()
}

fn name(file: &Path) -> &str {
    file.file_name().and_then(|name| name.to_str()).expect("a name")
}

#[test]
fn shapes_and_lists_are_printed_in_bounded_time_and_space() {
    for (prefix, minimum) in [("shape_", 9), ("list_", 3)] {
        let (folder, files) = modules("shapes", prefix, minimum);
        for file in &files {
            for device in ["--device=local-sync", "--device=local-task"] {
                let module = format!("--module={}", name(file));
                let of_call = [&*module, "--function=f", "--untrusted", "--fuel=100000000", device];
                for arguments in [&["run"][..], &["run", "--expected_output=2xf32=1 2"]] {
                    run(&folder, &[arguments, &of_call].concat());
                }
                let check = run(&folder, &["check", name(file), "--untrusted", "--fuel=100000000", device]);
                assert_eq!(check.out.lines().filter(|line| line.starts_with(['P', 'F'])).count(), 1, "{}", check.out);
            }
        }
    }
}

#[test]
fn views_without_bytes_are_refused_and_long_ones_are_not_read() {
    let (folder, _) = modules("refused", "shape_", 9);
    for (module, why) in [
        ("shape_zero_bits", "have no bits"),
        ("shape_zero_bits_trace", "have no bits"),
        ("shape_overflow", "cannot hold a view of shape 4294967296x4294967296 of i8"),
        ("shape_rank", "rank 16384 of a buffer view exceeds the limit of 128"),
        ("shape_opaque", "the view is longer than its buffer"),
    ] {
        for output in ["--output=-", "--output=@out.npy", "--output=@out.bin"] {
            let module = format!("--module={module}.vmfb");
            let outcome = run(&folder, &["run", &module, "--function=f", output]);
            assert_eq!(outcome.status, 1);
            assert!(outcome.error.contains(why) && outcome.error.lines().count() == 1, "{}", outcome.error);
        }
    }
}

#[test]
fn text_of_modules_does_not_act_in_any_output() {
    let (folder, files) = modules("text", "text_", 4);
    for file in &files {
        let module = name(file);
        let flag = format!("--module={module}");
        let names = exports(file);
        let mut commands: Vec<Vec<&str>> = [
            "dump",
            "dump --output=metadata",
            "dump --output=signature",
            "dump --output=signature --format=json",
            "dump --output=disassembly",
            "dump --output=graph",
            "dump --function=nothing",
            "translate -o plain.rs",
            "translate -o counted.rs --untrusted",
            "diff text_names.vmfb",
            "diff text_kernels.vmfb",
            "check --junit=report.xml",
            "check --log=trace",
            "check --untrusted --device=local-task",
        ]
        .map(|line| line.split(' ').chain([module]).collect())
        .to_vec();
        commands.push(vec!["run", &flag]);
        commands.push(vec!["run", &flag, "--function=nothing"]);
        let functions: Vec<String> =
            names.iter().filter(|name| !name.contains('\0')).map(|name| format!("--function={name}")).collect();
        for function in &functions {
            for line in [
                "run",
                "run --profile",
                "run --profile=profile.json",
                "run --log=trace",
                "dump",
                "bench --benchmark_min_time=1x",
                "bench --benchmark_min_time=1x --benchmark_format=json --benchmark_out=report.json",
                "bench --benchmark_min_time=1x --benchmark_format=rows",
                "bench --benchmark_min_time=1x --profile",
            ] {
                let file = if line == "dump" { module } else { &flag };
                commands.push(line.split(' ').chain([file, function]).collect());
            }
        }
        for arguments in &commands {
            let outcome = run(&folder, arguments);
            assert_inert(&outcome.out, &format!("{arguments:?}"));
            assert_inert(&outcome.error, &format!("{arguments:?}"));
            if arguments[0] == "check" {
                let count = |word: &str| outcome.out.lines().filter(|line| line.starts_with(word)).count();
                assert_eq!(count("PASS") + count("FAIL"), names.len(), "{}", outcome.out);
                assert_eq!(outcome.out.lines().count(), names.len() + 1, "{}", outcome.out);
                assert!(!outcome.error.lines().any(|line| line.starts_with("PASS")), "{}", outcome.error);
            }
            if outcome.status == 1 && arguments[0] != "check" && !arguments.contains(&"--log=trace") {
                let is_trace = outcome.error.starts_with("=== ");
                assert!(is_trace || outcome.error.lines().count() == 1, "{arguments:?}: {}", outcome.error);
            }
        }
        for written in ["report.xml", "plain.rs", "counted.rs", "profile.json", "report.json"] {
            if let Ok(text) = fs::read_to_string(folder.join(written)) {
                assert_inert(&text, written);
            }
        }
        let report = fs::read_to_string(folder.join("report.xml")).expect("the report");
        assert_eq!(report.matches("<testcase ").count(), names.len(), "{report}");
        assert_eq!(report.matches("</testsuite>").count(), 1, "{report}");
        // What `dump` prints is the module.
        let text = run(&folder, &["dump", "--output=disassembly", module]).out;
        assert_eq!(assemble(&text).expect("sound assembly"), fs::read(file).expect("a module"), "{module}");
    }
}

#[test]
fn keys_and_scopes_of_archives_do_not_act() {
    let (folder, _) = modules("keys", "text_", 4);
    let key = "k\u{1b}[2J\r\nkey\u{202e}\u{9b}";
    let splat = format!("--splat={key}=4xi32=1");
    assert_eq!(run(&folder, &["parameters", "create", &splat, "--output=archive.irpa"]).status, 0);
    let listed = run(&folder, &["parameters", "list", &format!("{key}=archive.irpa")]);
    assert_inert(&listed.out, "parameters");
    assert!(listed.out.contains("k\\u{1b}[2J\\r\\nkey\\u{202e}\\u{9b}"), "{}", listed.out);
    let missing = run(&folder, &["parameters", "list", "archive.irpa", &format!("--extract=no{key}=file")]);
    assert_inert(&missing.error, "parameters");
    assert_eq!((missing.status, missing.error.lines().count()), (1, 1), "{}", missing.error);
}

/// Modules that use up steps, memory or objects, or wait for ever, end in the error that their second line says.
#[test]
fn limits_end_in_one_line() {
    let (folder, files) = modules("limits", "limit_", 18);
    for file in files {
        let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../tests/hostile/{name}.vmasm"));
        let source = fs::read_to_string(source).expect("a source");
        let expected = source.lines().nth(1).and_then(|line| line.strip_prefix("// expect: ")).expect("an expectation");
        let module = format!("--module={}", file.display());
        for device in ["--device=local-sync", "--device=local-task"] {
            let outcome = run(&folder, &["run", &module, "--function=f", "--untrusted", "--fuel=100000", device]);
            assert_eq!(outcome.status, 1, "{name} {device}: {}", outcome.out);
            assert!(outcome.error.contains(expected), "{name} {device}: {}", outcome.error);
        }
    }
}
