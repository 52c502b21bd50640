//! The commands that describe modules (executables, graphs, differences) and the command line itself.
#![allow(clippy::expect_used, reason = "tests")]

use std::fs;
use std::path::Path;

#[path = "support/program.rs"]
mod program;

/// Runs the command line in tests/models: its exit status, standard output and standard error.
fn incarnate(arguments: &[&str]) -> (Option<i32>, String, String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models");
    let mut command = program::incarnate();
    let output = command.current_dir(folder).args(arguments).output().expect("the command line starts");
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("the command line prints text");
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn printed(arguments: &[&str]) -> String {
    let (code, out, error) = incarnate(arguments);
    assert_eq!((code, error.as_str()), (Some(0), ""), "{arguments:?}");
    out
}

#[test]
fn metadata_has_executables_and_locations() {
    let text = printed(&["dump", "digits/llvm-cpu.vmfb", "--output=metadata"]);
    for line in [
        "  [  0] embedded-elf-x86_64, 8168 bytes in .rodata[5]\n",
        "        @classify_dispatch_1_matmul_360x48x64_f32: 0 constants, 3 bindings, dispatched in 1 places\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let text = printed(&["dump", "plugin/llvm-cpu.vmfb", "--output=metadata"]);
    assert!(
        text.contains(" of ABI 0.6, kernels @") && text.contains("        imports incarnate_test_offset\n"),
        "{text}"
    );
    let text = printed(&["dump", "plugin/system-library.vmfb", "--output=metadata"]);
    assert!(text.contains("        imports incarnate_test_offset\n"), "{text}");
    let text = printed(&["dump", "dynamic/llvm-cpu-3.7.1.vmfb", "--output=metadata"]);
    // Older compilers omit the kernels' names.
    assert!(text.contains("        library @model_linked of ABI 0.5\n"), "{text}");
    let text = printed(&["dump", "mlp/vmvx-microkernels.vmfb", "--output=metadata"]);
    assert!(text.contains("  [  0] vmvx-bytecode-fb, "), "{text}");
    assert!(text.contains("        imports vmvx.fill.2d.x32(i32, !vm.ref<?>, i64, i64, i64, i64) -> ()\n"), "{text}");
    let text = printed(&["dump", "simple_mul/flatbuffer.vmfb", "--output=metadata"]);
    assert!(text.contains("// Debug Information\n") && text.contains("\nLocations: "), "{text}");
    assert!(text.contains(" begins at "), "{text}");
}

#[test]
fn edges_lead_from_writers_to_readers() {
    let text = printed(&["dump", "digits/llvm-cpu.vmfb", "--output=graph"]);
    // A chain of four dispatches; weights in a global, inputs and outputs.
    let edges: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("    n0_")).filter(|line| line.contains("->")).collect();
    assert_eq!(
        edges,
        ["0 -> n0_1;", "1 -> n0_2;", "2 -> n0_3;", "3 -> n0_6;", "4 -> n0_0;", "5 -> n0_1;", "5 -> n0_2;"]
    );
    assert!(
        text.contains("n0_2 [label=\"classify_dispatch_2_matmul_360x10x48_f32\\nworkgroups 9 x 1 x 1\", shape=box")
    );
    assert!(text.contains("n0_5 [label=\"buffer of global 2\", shape=cylinder"));
    assert!(text.starts_with("digraph \"jit_classify\" {\n") && text.ends_with("  }\n}\n"));
    let (code, _, error) = incarnate(&["dump", "vm/vm.vmfb", "--output=graph"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("records a command buffer"), "{error}");
}

#[test]
fn differences_are_told() {
    let (one, other) = ("mlp/llvm-cpu.vmfb", "mlp/vmvx.vmfb");
    assert_eq!(printed(&["diff", one, one]), "");
    let (code, out, error) = incarnate(&["diff", one, other]);
    assert_eq!(code, Some(1));
    assert_eq!(error, format!("incarnate diff: '{one}' and '{other}' differ in 4 respects\n"));
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].starts_with("~ executable [0] embedded-elf-x86_64, "), "{out}");
    assert_eq!(lines[1], "~ .rodata[4]: 19 -> 16 bytes, different from byte 0 on");
    assert_eq!(lines[3], "~ function @__init: 5 lines less, 5 more");
    assert_eq!(lines[4..].iter().filter(|line| line.starts_with("    - ")).count(), 5);
    let (_, brief, _) = incarnate(&["diff", one, other, "--brief"]);
    assert_eq!(brief.lines().collect::<Vec<_>>(), lines[..4]);
    let (code, out, _) = incarnate(&["diff", "simple_mul/llvm-cpu.vmfb", "scalars/llvm-cpu.vmfb", "--brief"]);
    assert_eq!(code, Some(1));
    for line in
        ["- function @simple_mul", "- export simple_mul(!vm.ref<?>, !vm.ref<?>) -> (!vm.ref<?>)", "+ function @echo"]
    {
        assert!(out.lines().any(|text| text.starts_with(line)), "{line}: {out}");
    }
    let (code, _, error) = incarnate(&["diff", one, "nothing.vmfb"]);
    assert_eq!((code, error.contains("nothing.vmfb")), (Some(1), true));
}

#[test]
fn completions_and_manual_cover_all_commands() {
    let commands = ["run", "bench", "check", "dump", "translate", "convert", "diff", "parameters", "build"];
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = printed(&["completions", shell]);
        assert!(commands.iter().all(|command| text.contains(command)), "{shell}");
        assert!(text.contains("expected_output"), "{shell}");
    }
    assert!(printed(&["man"]).contains(".SH SUBCOMMANDS"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("man");
    let _ = fs::remove_dir_all(&folder);
    printed(&["man", "--output", folder.to_str().expect("a path of Unicode")]);
    for command in commands {
        let page = fs::read_to_string(folder.join(format!("incarnate-{command}.1"))).expect("a page");
        assert!(page.contains("Examples:"), "{command}");
        assert!(printed(&[command, "--help"]).contains("Examples:\n  incarnate "), "{command}");
    }
}

#[test]
fn modules_of_the_first_format_are_converted() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = folder.path().join("converted.vmfb").display().to_string();
    let written = printed(&["convert", "../../bmod/tests/model.bmod", "-o", &target]);
    assert_eq!(written, format!("{target} (6528 bytes)\n"));
    let kept = fs::read("../tests/models/converted/vm.vmfb").expect("the model");
    assert!(fs::read(&target).expect("the file") == kept);
    assert!(printed(&["run", &target, "--function=add_i32", "--input=7", "--input=3"]).ends_with("i32=10\n"));
    assert!(printed(&["dump", &target]).contains("vm.call @hal.devices.count"));
    let source = folder.path().join("converted.rs").display().to_string();
    printed(&["translate", &target, "-o", &source]);
    let (code, _, error) = incarnate(&["convert", "converted/vm.vmfb", "-o", &target]);
    assert_eq!((code, error.lines().count()), (Some(1), 1), "{error}");
    assert!(error.contains("'converted/vm.vmfb': INVALID_ARGUMENT; the file is not a BMOD file"), "{error}");
}

#[test]
fn modules_of_older_versions_are_assembled_from_text() {
    let folder = tempfile::tempdir().expect("a folder").keep();
    let text = printed(&["dump", "dynamic/vmvx-3.9.0.vmfb", "--output=metadata"]);
    assert!(text.contains("Generation: bytecode 15.0 (compilers 3.0 to 3.9)\n"), "{text}");
    // The text of an older module assembles into a current one.
    let source = folder.join("older.vmasm").display().to_string();
    let text = printed(&["dump", "dynamic/vmvx-3.9.0.vmfb", "--output=disassembly"]);
    fs::write(&source, text).expect("the text is written");
    let target = folder.join("today.vmfb").display().to_string();
    printed(&["assemble", &source, "-o", &target]);
    let text = printed(&["dump", &target, "--output=metadata"]);
    assert!(text.contains("Generation: bytecode 17.0 (compilers 3.11 to 3.13)\n"), "{text}");
    let (code, _, error) = incarnate(&["assemble", "dynamic/cases.txt", "-o", &target]);
    assert_eq!(code, Some(1));
    assert!(
        error.contains("'dynamic/cases.txt': INVALID_ARGUMENT; line 4, column 1: `vm.module` comes first"),
        "{error}"
    );
    fs::remove_dir_all(&folder).expect("the folder goes");
}

/// Assembles a text in a folder of its own; returns the path of the module.
fn assembled(name: &str, text: &str) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, module) = (folder.join(format!("{name}.vmasm")), folder.join(format!("{name}.vmfb")));
    fs::write(&source, text).expect("the text is written");
    let path = |path: &Path| path.to_str().expect("paths are UTF-8").to_owned();
    let (code, _, error) = incarnate(&["assemble", &path(&source), "-o", &path(&module)]);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    path(&module)
}

#[test]
fn products_of_blocks_and_registers_end_in_one_line() {
    let registers = 1..4_000;
    let values: String = registers.clone().map(|at| format!("  %i{at} = vm.add.i32 %i0, %i0\n")).collect();
    let blocks: String = (0..20_000).map(|at| format!("  vm.br ^b{at}()\n^b{at}:\n")).collect();
    let sums: String = registers.map(|at| format!("  %i0 = vm.add.i32 %i0, %i{at}\n")).collect();
    let module = assembled(
        "products",
        &format!(
            "vm.module @m version 0\nvm.type i32\nvm.export @f\nvm.func @f(%i0: i32) -> (i32) {{\n^e:\n{values}\
             {blocks}{sums}  vm.return %i0\n}}\n"
        ),
    );
    let limit = "function @f: RESOURCE_EXHAUSTED; the live registers of the blocks pass the limit of ";
    // Metadata are printed without what is not known.
    let text = printed(&["dump", &module, "--output=metadata", "--untrusted"]);
    assert!(text.contains("// Executables\n") && text.contains(limit) && text.contains("  0 | "), "{text}");
    let out = format!("{module}.rs");
    for arguments in [&["dump", "--output=graph", &module][..], &["translate", &module, "-o", &out]] {
        let (code, printed, error) = incarnate(arguments);
        assert_eq!((code, printed.as_str(), error.lines().count()), (Some(1), "", 1), "{error}");
        assert!(error.contains(limit), "{error}");
    }
    let (code, out, _) = incarnate(&["diff", &module, &module]);
    assert_eq!((code, out.as_str()), (Some(0), ""));
}

#[test]
fn graphs_of_many_commands_are_limited() {
    let text = |count: usize, ahead: usize| {
        let commands: String = (0..count)
            .map(|at| {
                format!(
                    "  %i4:5 = vm.const.i64 {}\n  %i6:7 = vm.const.i64 {}\n  \
                     vm.call @hal.command_buffer.copy_buffer(%r1, %i1, %i1, %r2, %i4:5, %r2, %i6:7, %i8:9, %i1)\n",
                    8 * at,
                    8 * at + ahead
                )
            })
            .collect();
        format!(
            "vm.module @m version 0\nvm.type i32\nvm.type !hal.command_buffer\n//! dependency @hal version 0\n\
             vm.import @hal.command_buffer.create cconv \"0riiIi_r\"\n\
             vm.import @hal.command_buffer.copy_buffer cconv \"0riirIrIIi_v\"\n\
             vm.export @f\nvm.func @f(%i0: i32, %r0: !vm.ref<?>) -> (i32) {{\n^b:\n  %i2:3 = vm.const.i64.zero\n  \
             %i8:9 = vm.const.i64 4\n  %i1 = vm.const.i32 1\n  \
             %r1 = vm.call @hal.command_buffer.create(%r0, %i1, %i1, %i2:3, %i1)\n{commands}  vm.return %i0\n}}\n"
        )
    };
    // Each command reads what the one before it wrote; memory that is read first and written last has a node.
    let chain = printed(&["dump", "--output=graph", &assembled("chain", &text(5_000, 8))]);
    assert_eq!(chain.matches(" -> ").count(), 5_001);
    // Each reads what none of those before it wrote.
    let (code, out, error) = incarnate(&["dump", "--output=graph", &assembled("pairs", &text(7_000, 4))]);
    assert_eq!((code, out.as_str(), error.lines().count()), (Some(1), "", 1), "{error}");
    assert!(error.contains("function @f: RESOURCE_EXHAUSTED"), "{error}");
}

/// Every text goes the same way to standard output: its loss is an error, and a reader that is gone is none.
#[cfg(target_os = "linux")]
#[test]
fn text_that_cannot_be_written_is_an_error() {
    let models = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models");
    for arguments in [
        &["--version"][..],
        &["--help"],
        &["help"],
        &["help", "run"],
        &["run", "--help"],
        &["completions", "bash"],
        &["man"],
        &["run", "--list_drivers"],
        &["dump", "simple_mul/vmvx.vmfb"],
        &["run", "simple_mul/vmvx.vmfb", "--input=4xf32=1", "--input=4xf32=1"],
    ] {
        let full = fs::File::options().write(true).open("/dev/full").expect("the device");
        let output =
            program::incarnate().current_dir(&models).args(arguments).stdout(full).output().expect("it starts");
        let error = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
        assert!(error.lines().count() == 1 && error.contains("writing to standard output"), "{arguments:?}: {error}");
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output =
            program::incarnate().current_dir(&models).args(arguments).stdout(writer).output().expect("it starts");
        assert_eq!(output.status.code(), Some(141), "{arguments:?}");
        assert!(output.stderr.is_empty(), "{arguments:?}");
    }
}
