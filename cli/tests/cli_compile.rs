//! Models in the place of modules, with a program that stands for IREE's compiler.
#![cfg(unix)]
#![allow(clippy::expect_used, reason = "tests")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use incarnate_translator::compiler::Source;
use scratch::Scratch;

#[path = "support/program.rs"]
mod program;
#[path = "support/scratch.rs"]
mod scratch;

impl Scratch {
    /// Creates a folder with a compiler that notes its flags and writes the module simple_mul, or fails on what says so.
    fn with_compiler(name: &str) -> Scratch {
        let scratch = Scratch::new(name);
        let path = &scratch.0;
        let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models/simple_mul/vmvx.vmfb");
        let script = format!(
            "#!/bin/sh\n[ \"$1\" = --version ] && exit\necho \"$@\" >> {0}/flags\ncat \"$1\" > {0}/read\nif grep -q wrong \"$1\"; then\n  \
             echo \"$1:2:3: error: no such operation\" >&2; exit 1\nfi\n\
             case \"$*\" in *f64-to-f32=false*) if grep -q narrow \"$1\"; then\n  \
             echo \"$1:1:1: error: failed to legalize operation 'arith.truncf': (f64) -> f32\" >&2; exit 1\nfi;; esac\n\
             model=$1; while [ \"$1\" != -o ]; do shift; done\n\
             case \"$(cat \"$model\") $2\" in\n\
             *starved*) echo 'LLVM ERROR: Cannot allocate memory' >&2; exit 1;;\n\
             *killed*) kill -KILL $$;;\n\
             *crowded*/cache/*) echo 'LLVM ERROR: IO failure on output stream: No space left on device' >&2; exit 1;;\n\
             *moving*) echo '// later' >> \"$model\";;\n\
             *refused*) echo 'loc(\"refused\"): error: no such form' >&2; exit 1;;\n\
             *foreign*) echo 'train.py:1:1: error: no such layer' >&2; exit 1;;\n\
             *temporary*) [ -d \"${{TMPDIR:-/tmp}}\" ] || {{ printf 'failed to generate temporary file: No such file or directoryPlease report \
             issues\\nStack dump:\\n' >&2; exit 245; }};;\nesac\n\
             cp {1} \"$2\"\n",
            path.display(),
            module.display()
        );
        scratch.program("iree-compile", &script);
        scratch
    }

    /// Writes a program.
    fn program(&self, name: &str, script: &str) {
        self.file(name, script);
        fs::set_permissions(self.0.join(name), fs::Permissions::from_mode(0o755)).expect("permissions");
    }

    fn file(&self, name: &str, contents: &str) {
        fs::write(self.0.join(name), contents).expect("a file");
    }

    fn run(&self, path: &str, arguments: &[&str]) -> Output {
        program::incarnate()
            .current_dir(&self.0)
            .env("XDG_CACHE_HOME", self.0.join("cache"))
            .env("PATH", format!("{path}:/usr/bin:/bin"))
            .env_remove("IREE_COMPILE")
            .args(arguments)
            .output()
            .expect("the command line starts")
    }

    /// Returns the line of an error.
    fn error(&self, arguments: &[&str]) -> String {
        let output = self.run(&self.0.display().to_string(), arguments);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).expect("text")
    }

    /// Returns standard output.
    fn output(&self, arguments: &[&str]) -> String {
        let output = self.run(&self.0.display().to_string(), arguments);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Returns how often the compiler ran, and the flags of the last time.
    fn runs(&self) -> (usize, String) {
        let flags = fs::read_to_string(self.0.join("flags")).unwrap_or_default();
        (flags.lines().count(), flags.lines().last().unwrap_or_default().to_owned())
    }
}

impl Scratch {
    /// Runs the command line with variables in place of those of [`Scratch::run`]; returns its status and standard error.
    fn run_with(&self, variables: &[(&str, &str)], arguments: &[&str]) -> (Option<i32>, String) {
        let mut command = program::incarnate();
        command.current_dir(&self.0).env("PATH", format!("{}:/usr/bin:/bin", self.0.display())).args(arguments);
        for name in ["IREE_COMPILE", "XDG_CACHE_HOME", "LOCALAPPDATA", "HOME", "TMPDIR"] {
            command.env_remove(name);
        }
        let output = command.envs(variables.iter().copied()).output().expect("the command line starts");
        (output.status.code(), String::from_utf8(output.stderr).expect("text"))
    }

    /// Returns the files of modules in the cache.
    fn cached(&self) -> Vec<std::path::PathBuf> {
        let mut found = vec![self.0.join("cache/incarnate/models")];
        for _ in 0..3 {
            let entries = found.iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
            found = entries.map(|entry| entry.path()).collect();
        }
        found
    }
}

/// A field of a protocol buffer with a length.
fn field(number: u8, value: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, u8::try_from(value.len()).expect("a short field")], value].concat()
}

/// An ONNX model with inputs `x` and `y` of a type `f32` and extents `batch` and 4, whose only node has a name and an operator.
fn onnx(name: &str, operator: &str) -> Vec<u8> {
    let shape = [field(1, &field(2, b"batch")), field(1, &[8, 4])].concat();
    let ty = field(1, &[&[8, 1][..], &field(2, &shape)].concat());
    let value = |name: &[u8]| [field(1, name), field(2, &ty)].concat();
    let node =
        [field(1, b"x"), field(1, b"y"), field(2, b"z"), field(3, name.as_bytes()), field(4, operator.as_bytes())];
    let graph = [
        field(1, &node.concat()),
        field(2, b"net"),
        field(11, &value(b"x")),
        field(11, &value(b"y")),
        field(12, &value(b"z")),
    ];
    [field(7, &graph.concat()), field(8, &[16, 17])].concat()
}

const CALL: [&str; 2] = ["--input=4xf32=1,2,3,4", "--input=4xf32=2"];

#[test]
fn models_are_compiled_once() {
    let scratch = Scratch::with_compiler("once");
    scratch.file("mul.mlir", "module {}");
    let run = ["run", "mul.mlir", CALL[0], CALL[1]];
    for _ in 0..2 {
        assert!(scratch.output(&run).ends_with("4xf32=2 4 6 8\n"));
    }
    let (runs, flags) = scratch.runs();
    assert!(runs == 1 && flags.contains("vmvx") && !flags.contains("llvm-cpu"), "{runs} {flags}");
    scratch.output(&[&run[..], &["--target=native"]].concat());
    let (runs, flags) = scratch.runs();
    assert!(runs == 2 && flags.contains("llvm-cpu") && flags.contains("target-cpu=host"), "{runs} {flags}");
    scratch.file("mul.mlir", "module { }");
    scratch.output(&["dump", "mul.mlir", "--target=both", "--output=metadata"]);
    let (runs, flags) = scratch.runs();
    assert!(runs == 3 && flags.contains("vmvx") && flags.contains("llvm-cpu"), "{runs} {flags}");
    assert!(scratch.error(&["dump", "flags", "--target=both"]).contains("--target=both is for models"));
}

#[test]
fn compile_writes_the_module_and_its_source() {
    let scratch = Scratch::with_compiler("source");
    fs::write(scratch.0.join("net.onnx"), onnx("sum", "Add")).expect("a file");
    let target = "--target=aarch64-unknown-linux-gnu:cortex-a72";
    let text = scratch.output(&["compile", "net.onnx", "-o", "net.vmfb", target, "--", "--iree-opt-level=O3"]);
    assert!(text.starts_with("net.vmfb (") && text.ends_with("for aarch64-unknown-linux-gnu:cortex-a72)\n"), "{text}");
    let flags = scratch.runs().1;
    let wanted = ["triple=aarch64-unknown-linux-gnu", "target-cpu=cortex-a72", "--iree-opt-level=O3"];
    assert!(wanted.iter().all(|flag| flags.contains(flag)), "{flags}");
    let source = fs::read_to_string(scratch.0.join("net.vmfb.source")).expect("a file");
    assert!(source.ends_with(" net.onnx\n"), "{source}");
    assert!(scratch.output(&["run", "net.vmfb", CALL[0], CALL[1]]).contains("2 4 6 8"));
}

/// Portable kernels cannot narrow f64: what fails for that reason is compiled with f32.
#[test]
fn models_that_narrow_f64_are_compiled_with_f32() {
    let scratch = Scratch::with_compiler("narrow");
    scratch.file("narrow.mlir", "module { // narrow\n}");
    let arguments = ["compile", "narrow.mlir", "-o", "narrow.vmfb", "--target=portable"];
    let compiled = scratch.run(&scratch.0.display().to_string(), &arguments);
    let note = String::from_utf8(compiled.stderr).expect("text");
    assert!(compiled.status.success() && note.contains("narrow.mlir: the compiler lacks operations on f64"), "{note}");
    let (runs, flags) = scratch.runs();
    assert!(runs == 2 && flags.contains("f64-to-f32=true") && !flags.contains("f64-to-f32=false"), "{runs} {flags}");
    scratch.file("mul.mlir", "module {}");
    scratch.output(&["compile", "mul.mlir", "-o", "mul.vmfb", "--target=portable"]);
    let (runs, flags) = scratch.runs();
    assert!(runs == 3 && flags.contains("f64-to-f32=false"), "{runs} {flags}");
}

/// A model whose inputs have names is passed to the compiler with these, where the compiler accepts that.
#[test]
fn names_of_inputs_reach_the_compiler() {
    let scratch = Scratch::with_compiler("names");
    let header = "func.func @main(%arg0: tensor<4xf32> loc(\"x['a']\"), %arg1: tensor<4xf32>)";
    scratch.file("net.mlir", header);
    scratch.file("body.mlir", &format!("{header} {{}}"));
    let read = || fs::read_to_string(scratch.0.join("read")).expect("what the compiler read");
    scratch.output(&["run", "body.mlir", CALL[0], CALL[1]]);
    assert!(read().contains("{iree.abi.name = \"x.a\"} loc("), "{}", read());
    assert!(scratch.runs().1.starts_with("body.mlir "), "{}", scratch.runs().1);
    scratch.file("-body.mlir", &format!("{header} {{}}"));
    scratch.output(&["run", "./-body.mlir", CALL[0], CALL[1]]);
    assert!(read().contains("iree.abi.name") && scratch.runs().1.starts_with("./-body.mlir "), "{}", scratch.runs().1);
    // Flags may name files of the current folder.
    scratch.output(&["compile", "body.mlir", "-o", "x.vmfb", "--", "--dump=here"]);
    assert!(read().contains("iree.abi.name") && scratch.runs().1.starts_with("- "), "{}", scratch.runs().1);
    // This is no whole function.
    scratch.output(&["compile", "net.mlir", "-o", "x.vmfb"]);
    assert_eq!(read(), header);
    // What the compiler refuses with names is compiled as it is, and errors are about that.
    scratch.file("wrong.mlir", &format!("{header} {{\n wrong.op\n}}"));
    let before = scratch.runs().0;
    let error = scratch.error(&["run", "wrong.mlir"]);
    assert!(error.contains("line 2 (`wrong.op`)") && scratch.runs().0 == before + 2, "{error}");
    assert!(!read().contains("iree.abi.name"));
}

#[test]
fn errors_name_the_model_and_what_to_do() {
    let scratch = Scratch::with_compiler("errors");
    scratch.file("wrong.mlir", "module {\n  wrong.op\n}\n");
    scratch.file("empty.onnx", "");
    scratch.file("broken.onnx", "broken");
    let error = scratch.error(&["run", "wrong.mlir"]);
    assert!(error.contains("wrong.mlir") && error.contains("line 2 (`wrong.op`): no such operation"), "{error}");
    let error = scratch.error(&["run", "broken.onnx"]);
    assert!(error.contains("this is no ONNX model"), "{error}");
    let error = scratch.error(&["run", "empty.onnx"]);
    assert!(error.contains("not a model but an empty file"), "{error}");
    let error = scratch.error(&["compile", "flags", "-o", "x.vmfb"]);
    assert!(error.contains("'flags'"), "{error}");
    let nowhere = scratch.run("/nowhere", &["build", "wrong.mlir", "-o", "program"]);
    let error = String::from_utf8(nowhere.stderr).expect("text");
    assert!(nowhere.status.code() == Some(1) && error.contains("`incarnate compile --setup` installs it"), "{error}");
}

/// Options of the import of ONNX models are refused for other models, as they would have no effect.
#[test]
fn options_of_the_import_are_refused_for_mlir() {
    let scratch = Scratch::with_compiler("import-options");
    scratch.file("net.mlir", "module {}");
    for option in ["--dim=n=1", "--shape=x=1x2", "--inputs=x", "--outputs=y", "--parameters=w.irpa", "--report"] {
        let error = scratch.error(&["compile", "net.mlir", option, "-o", "x.vmfb"]);
        let name = option.split('=').next().unwrap_or_default();
        assert!(
            error.contains("no ONNX model") && error.contains(name) && !scratch.0.join("x.vmfb").exists(),
            "{error}"
        );
    }
    assert_eq!(scratch.runs().0, 0);
}

/// An ONNX model is imported: the compiler reads MLIR of core dialects, and its errors are about nodes.
#[test]
fn onnx_models_are_imported() {
    let scratch = Scratch::with_compiler("onnx");
    let write = |name: &str, bytes: Vec<u8>| fs::write(scratch.0.join(name), bytes).expect("a file");
    let read = || fs::read_to_string(scratch.0.join("read")).expect("what the compiler read");
    write("net.onnx", onnx("sum", "Add"));
    scratch.output(&["compile", "net.onnx", "-o", "net.vmfb"]);
    let (runs, flags) = scratch.runs();
    assert!(runs == 1 && flags.starts_with("net.mlir ") && flags.contains("--iree-input-type=none"), "{flags}");
    assert!(read().contains("func.func @net(%0: tensor<?x4xf32>") && read().contains("loc(\"sum\")"), "{}", read());
    assert!(read().contains("sync func @net(%x: tensor<?x4xf32>, %y: tensor<?x4xf32>) -> (%z: tensor<?x4xf32>)"));
    // Fixed extents are another module, which is kept, too.
    for _ in 0..2 {
        scratch.output(&["compile", "net.onnx", "-o", "net.vmfb", "--dim=batch=2"]);
        assert!(scratch.runs().0 == 2 && read().contains("tensor<2x4xf32>"), "{}", read());
    }
    scratch.output(&["compile", "net.onnx", "-o", "net.vmfb", "--shape=x=3x4"]);
    assert!(read().contains("%0: tensor<3x4xf32>, %1: tensor<?x4xf32>"), "{}", read());
    let text = scratch.output(&["compile", "net.onnx", "-o", "net.vmfb", "--report"]);
    assert!(text.contains("nodes: 1") && text.contains("when the model runs: batch"), "{text}");
    for (flag, reason) in [
        ("--dim=rows=2", "the extents of the inputs are batch"),
        ("--shape=x=3", "1 extents for a rank of 2"),
        ("--shape=x=3x5", "the extent 1 of the input `x` is 4, not 5"),
        ("--outputs=w", "the graph has no tensor of this name"),
    ] {
        let error = scratch.error(&["compile", "net.onnx", "-o", "x.vmfb", flag]);
        assert!(error.lines().count() == 1 && error.contains(reason), "{error}");
    }
    let usage = scratch.run("/nowhere", &["compile", "net.onnx", "-o", "x.vmfb", "--dim=batch"]);
    assert_eq!(usage.status.code(), Some(2));
    write("refused.onnx", onnx("refused", "Add"));
    let error = scratch.error(&["compile", "refused.onnx", "-o", "x.vmfb"]);
    let expected = "the node `refused`: iree-compile: no such form; with fixed extents it may compile: --dim=batch=N";
    assert!(error.contains(expected), "{error}");
    write("unknown.onnx", onnx("odd", "Odd"));
    let error = scratch.error(&["compile", "unknown.onnx", "-o", "x.vmfb"]);
    assert!(error.contains("node `odd` (Odd): the operator is not supported in version 17"), "{error}");
    // A summary needs no compiler.
    let text =
        program::incarnate().current_dir(&scratch.0).args(["dump", "unknown.onnx"]).env("PATH", "/nowhere").output();
    let text = String::from_utf8(text.expect("the command line starts").stdout).expect("text");
    assert!(text.contains("input: x: tensor<batchx4xf32>") && text.contains("1 Odd, not supported"), "{text}");
}

/// A Python that creates environments whose pip copies the scratch folder's compiler, or fails where the file `offline` is.
const PYTHON: &str = r#"#!/bin/sh
echo "$@" >> HERE/steps
if [ "$2" = venv ]; then mkdir -p "$4/bin"; cp HERE/python3 "$4/bin/python"; exit 0; fi
if [ -e HERE/offline ]; then echo "ERROR: No matching distribution" >&2; echo "[notice] news" >&2; exit 1; fi
cp HERE/tools/iree-compile "$(dirname "$0")/"
"#;

#[test]
fn the_managed_environment_is_complete_or_not_found() {
    let scratch = Scratch::with_compiler("setup");
    let here = scratch.0.display().to_string();
    // The compiler of the test is not in PATH, but in the package that pip installs.
    fs::create_dir(scratch.0.join("tools")).expect("a folder");
    fs::rename(scratch.0.join("iree-compile"), scratch.0.join("tools/iree-compile")).expect("a file");
    scratch.program("python3", &PYTHON.replace("HERE", &here));
    scratch.file("mul.mlir", "module {}");
    let run = ["run", "mul.mlir", CALL[0], CALL[1]];
    assert!(scratch.error(&run).contains("not in PATH: `incarnate compile --setup` installs it"));
    scratch.file("offline", "");
    let error = scratch.error(&["compile", "--setup"]);
    assert!(
        error.contains("installing iree-base-compiler==") && error.ends_with("No matching distribution\n"),
        "{error}"
    );
    let left = fs::read_dir(scratch.0.join("cache/incarnate")).expect("the cache").count();
    assert!(left == 0 && scratch.error(&run).contains("--setup"), "{left}");
    fs::remove_file(scratch.0.join("offline")).expect("a file");
    let text = scratch.output(&["compile", "--setup"]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() == 4 && lines[0].starts_with("creating the environment '"), "{text}");
    assert!(lines[3].starts_with(&here) && lines[3].ends_with("/bin/iree-compile"), "{text}");
    assert!(scratch.output(&run).ends_with("4xf32=2 4 6 8\n"));
    let steps = || fs::read_to_string(scratch.0.join("steps")).expect("the steps").lines().count();
    let before = steps();
    assert!(scratch.output(&["compile", "--setup"]).contains("installed, nothing to do"));
    assert_eq!(steps(), before);
    // The flag, the variable and PATH come first.
    assert!(scratch.error(&["run", "mul.mlir", "--iree-compile=none"]).contains("no compiler 'none'"));
}

#[test]
fn set_up_without_python_says_so() {
    let scratch = Scratch::with_compiler("no-python");
    let mut command = program::incarnate();
    command.env("XDG_CACHE_HOME", scratch.0.join("cache")).env("PATH", "/nowhere").args(["compile", "--setup"]);
    let output = command.output().expect("the command line starts");
    let error = String::from_utf8(output.stderr).expect("text");
    assert!(output.status.code() == Some(1) && error.contains("python3 is not in PATH: install Python"), "{error}");
    assert_eq!(error.lines().count(), 1);
}

#[test]
fn damaged_modules_of_the_cache_are_compiled_anew() {
    let scratch = Scratch::with_compiler("damaged");
    scratch.file("mul.mlir", "module {}");
    let run = ["run", "mul.mlir", CALL[0], CALL[1]];
    scratch.output(&run);
    let cached = scratch.cached();
    let [module] = &cached[..] else { unreachable!("{cached:?}") };
    let whole = fs::read(module).expect("a module");
    for damaged in [&whole[..whole.len() / 2], b"", b"another module"] {
        let (before, _) = scratch.runs();
        fs::write(module, damaged).expect("a file");
        assert!(scratch.output(&run).ends_with("4xf32=2 4 6 8\n"));
        assert_eq!(scratch.runs().0, before + 1);
        assert!(scratch.output(&run).ends_with("4xf32=2 4 6 8\n"));
        assert_eq!((scratch.runs().0, scratch.cached()), (before + 1, cached.clone()));
    }
}

/// A cache is a help, and no condition: without one, models are compiled every time.
#[test]
fn models_are_compiled_without_a_cache() {
    let scratch = Scratch::with_compiler("no-cache");
    let here = scratch.0.display().to_string();
    scratch.file("mul.mlir", "module {}");
    scratch.file("crowded.mlir", "module {} // crowded");
    scratch.file("file", "where the cache should be");
    let temporary = scratch.0.join("tmp");
    fs::create_dir(&temporary).expect("a folder");
    let tmpdir = temporary.display().to_string();
    let (file, cache) = (format!("{here}/file"), format!("{here}/cache"));
    let none: &[(&str, &str)] = &[("TMPDIR", &tmpdir)];
    for (variables, model, why) in [
        (none, "mul.mlir", "the user's cache folder is unknown: set XDG_CACHE_HOME"),
        (&[("TMPDIR", &tmpdir), ("HOME", "relative")], "mul.mlir", "set XDG_CACHE_HOME"),
        (&[("TMPDIR", &tmpdir), ("XDG_CACHE_HOME", &file)], "mul.mlir", "creating '"),
        (&[("TMPDIR", &tmpdir), ("XDG_CACHE_HOME", &cache)], "crowded.mlir", "No space left on device"),
    ] {
        for command in [&["run", model, CALL[0], CALL[1]][..], &["compile", model, "-o", "out.vmfb"]] {
            let (status, error) = scratch.run_with(variables, command);
            assert!(status == Some(0) && error.lines().count() == 1, "{command:?}: {status:?} {error}");
            assert!(error.starts_with("note: compiled models are not kept: ") && error.contains(why), "{error}");
        }
    }
    assert!(scratch.output(&["run", "out.vmfb", CALL[0], CALL[1]]).ends_with("4xf32=2 4 6 8\n"));
    // Memory that is short is not the cache's fault.
    scratch.file("starved.mlir", "module {} // starved");
    let before = scratch.runs().0;
    let (status, error) = scratch.run_with(&[("XDG_CACHE_HOME", &cache)], &["compile", "starved.mlir", "-o", "x.vmfb"]);
    assert!(status == Some(1) && error.lines().count() == 1 && error.contains("RESOURCE_EXHAUSTED"), "{error}");
    assert_eq!(scratch.runs().0, before + 1);
    // Nor is a full disk where the folder of temporary files cannot be used.
    let variables = [("XDG_CACHE_HOME", cache.as_str()), ("TMPDIR", "/nope")];
    let (status, error) = scratch.run_with(&variables, &["compile", "crowded.mlir", "-o", "x.vmfb"]);
    assert!(status == Some(1) && error.lines().count() == 1, "{error}");
    assert!(
        error.contains("No space left on device (the folder of temporary files, '/nope', cannot be used"),
        "{error}"
    );
    assert_eq!(scratch.runs().0, before + 2);
    // One note for several models, and nothing is left.
    let (status, error) = scratch.run_with(none, &["check", "mul.mlir", "crowded.mlir"]);
    assert!(status == Some(0) && error.lines().count() == 1, "{error}");
    assert_eq!(fs::read_dir(&temporary).expect("the folder").count(), 0);
    assert!(scratch.cached().is_empty());
}

/// Two processes of one id, in containers that share the cache, have one scratch folder if its name is the id.
#[test]
fn folders_of_other_processes_are_not_shared() {
    let scratch = Scratch::with_compiler("shared");
    scratch.file("mul.mlir", "module {}");
    let models = scratch.0.join("cache/incarnate/models");
    fs::create_dir_all(&models).expect("a folder");
    // More ids than the next processes can have.
    let highest: u32 =
        fs::read_to_string("/proc/sys/kernel/pid_max").ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    let own = std::process::id();
    for id in own..=(own + 2000).min(highest.max(own)) {
        let folder = models.join(format!(".{id}-0"));
        fs::create_dir(&folder).expect("a folder");
        fs::write(folder.join("model.vmfb"), "another's module").expect("a file");
    }
    let before = fs::read_dir(&models).expect("the cache").count();
    assert!(scratch.output(&["run", "mul.mlir", CALL[0], CALL[1]]).ends_with("4xf32=2 4 6 8\n"));
    // The others' folders stay; ours is gone, and the entry of the key is new.
    assert_eq!(fs::read_dir(&models).expect("the cache").count(), before + 1);
}

/// What is compiled may be another text than the one whose key was computed.
#[test]
fn models_that_change_meanwhile_are_not_kept() {
    let scratch = Scratch::with_compiler("moving");
    scratch.file("moving.mlir", "module {} // moving\n");
    assert!(scratch.output(&["run", "moving.mlir", CALL[0], CALL[1]]).ends_with("4xf32=2 4 6 8\n"));
    assert!(scratch.cached().is_empty());
    // Nor is the module one of the new model.
    fs::copy(scratch.0.join("moving.mlir"), scratch.0.join("before.mlir")).expect("a file");
    scratch.output(&["compile", "moving.mlir", "-o", "moving.vmfb"]);
    let is_of =
        |model: &str| Source::of(&scratch.0.join(model)).expect("a model").is_of(&scratch.0.join("moving.vmfb"));
    assert!(is_of("before.mlir") && !is_of("moving.mlir"));
}

/// A relative path is one of the current folder, also for a compiler that runs in another one.
#[test]
fn relative_paths_of_the_environment_are_those_of_the_user() {
    let scratch = Scratch::with_compiler("relative");
    scratch.file("net.mlir", "func.func @main(%x: tensor<4xf32>) {} // temporary");
    fs::create_dir(scratch.0.join("tmp")).expect("a folder");
    let cache = scratch.0.join("cache").display().to_string();
    let variables = [("PATH", ".:/usr/bin:/bin"), ("TMPDIR", "tmp"), ("XDG_CACHE_HOME", cache.as_str())];
    // With and without a cache.
    for variables in [&variables[..], &variables[..2]] {
        let before = scratch.runs().0;
        let (status, error) = scratch.run_with(variables, &["compile", "net.mlir", "-o", "net.vmfb"]);
        assert_eq!(status, Some(0), "{error}");
        let read = fs::read_to_string(scratch.0.join("read")).expect("what the compiler read");
        assert!(read.contains("iree.abi.name") && scratch.runs().0 == before + 1, "{read}");
    }
}

/// What is not the fault of the names is not tried without them.
#[test]
fn models_whose_compiler_is_ended_are_not_compiled_again() {
    let scratch = Scratch::with_compiler("killed");
    for (contents, error) in [("killed", "SIGKILL"), ("starved", "Cannot allocate memory")] {
        let before = scratch.runs().0;
        scratch.file("net.mlir", &format!("func.func @main(%x: tensor<4xf32>) {{}} // {contents}"));
        let found = scratch.error(&["run", "net.mlir"]);
        assert!(found.contains(error) && scratch.runs().0 == before + 1, "{found}");
    }
}

/// The contents of an object file are not part of the key.
#[test]
fn models_with_object_files_are_compiled_every_time() {
    let scratch = Scratch::with_compiler("objects");
    scratch.file("net.mlir", "func.func @main(%x: tensor<4xf32>) {} // #hal.executable.object<{path = \"f.o\"}>");
    for count in 1..=2 {
        scratch.output(&["run", "net.mlir", CALL[0], CALL[1]]);
        let (runs, flags) = scratch.runs();
        // The compiler runs where the path begins.
        assert!(runs == count && flags.starts_with("- "), "{flags}");
    }
}

/// The names in MLIR bytecode are those that the printer finds.
#[test]
fn the_printer_is_an_input_of_bytecode() {
    let scratch = Scratch::with_compiler("printer");
    fs::write(scratch.0.join("-net.mlirbc"), b"ML\xEFR").expect("a file");
    let read = || fs::read_to_string(scratch.0.join("read")).expect("what the compiler read");
    for (count, name) in [(1, "first"), (1, "first"), (2, "another")] {
        let script = format!(
            "#!/bin/sh\ncase \"$1\" in -*) exit 1;; esac\nwhile [ \"$1\" != -o ]; do shift; done\n\
             echo 'func.func @main(%{name}: tensor<4xf32>) {{}}' > \"$2\"\n"
        );
        if count != scratch.runs().0 {
            scratch.program("iree-opt", &script);
        }
        scratch.output(&["run", CALL[0], CALL[1], "--", "-net.mlirbc"]);
        assert!(scratch.runs().0 == count && read().contains(&format!("iree.abi.name = \"{name}\"")), "{}", read());
    }
}

#[test]
fn the_model_is_blamed_for_what_is_in_it_only() {
    let scratch = Scratch::with_compiler("blame");
    scratch.file("foreign.mlir", "module { // foreign\n}\n");
    let error = scratch.error(&["run", "foreign.mlir"]);
    assert!(error.ends_with("train.py:1:1: error: no such layer\n") && !error.contains("module {"), "{error}");
    scratch.file("linked.mlir", "module {} // temporary");
    let cache = scratch.0.join("cache").display().to_string();
    let (status, error) = scratch
        .run_with(&[("TMPDIR", "/nope"), ("XDG_CACHE_HOME", &cache)], &["compile", "linked.mlir", "-o", "x.vmfb"]);
    assert!(status == Some(1) && !error.contains("bug") && error.contains("NOT_FOUND"), "{error}");
    assert!(error.contains("the folder of temporary files, '/nope', cannot be used"), "{error}");
    let (status, error) = scratch.run_with(&[("TMPDIR", "/nope")], &["compile", "linked.mlir", "-o", "x.vmfb"]);
    assert!(status == Some(1) && error.contains("folder of temporary files (TMPDIR) '/nope'"), "{error}");
}

#[test]
fn paths_that_begin_with_a_hyphen_are_paths() {
    let scratch = Scratch::with_compiler("hyphen");
    for name in ["-net.mlir", "-net.onnx"] {
        let is_onnx = name.ends_with(".onnx");
        let model = if is_onnx { onnx("sum", "Add") } else { b"module {}".to_vec() };
        fs::write(scratch.0.join(name), model).expect("a model");
        for run in [["run", &format!("./{name}"), CALL[0], CALL[1]], ["run", CALL[0], CALL[1], "--"]] {
            let after: &[&str] = if run[3] == "--" { &[name] } else { &[] };
            assert!(scratch.output(&[&run[..], after].concat()).ends_with("4xf32=2 4 6 8\n"), "{name}");
        }
        let flags = scratch.runs().1;
        assert!(is_onnx || flags.starts_with("./-net.mlir "), "{flags}");
        scratch.output(&["compile", "-o", "net.vmfb", "--", name, "--iree-opt-level=O2"]);
        assert!(scratch.runs().1.contains("--iree-opt-level=O2"));
    }
}

/// Files that a flag names may have changed, or have to be written again.
#[test]
fn flags_with_files_are_not_answered_from_the_cache() {
    let scratch = Scratch::with_compiler("flag-files");
    scratch.file("mul.mlir", "module {}");
    for count in 1..=2 {
        scratch.output(&["compile", "mul.mlir", "-o", "mul.vmfb", "--", "--iree-opt-export-parameters=w=w.irpa"]);
        assert_eq!(scratch.runs().0, count);
    }
}
