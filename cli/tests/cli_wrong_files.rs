//! Files that are no modules, and modules for other machines, where each command takes a module: one line says what they are.
#![allow(clippy::expect_used, reason = "tests")]

use std::fs;
use std::path::Path;

use scratch::Scratch;

#[path = "support/program.rs"]
mod program;
#[path = "support/scratch.rs"]
mod scratch;

/// Returns a test model's bytes.
fn model(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models").join(name)).expect("a model")
}

/// A format of machine code that this architecture does not run, and its architecture.
const FOREIGN: (&str, &str) = match cfg!(target_arch = "aarch64") {
    true => ("embedded-elf-x86_64", "x86_64"),
    false => ("embedded-elf-arm_64", "aarch64"),
};

/// Replaces the name of the format of a model's machine code everywhere, by one of the same length.
fn for_format(format: &str) -> Vec<u8> {
    const OF_MODEL: &[u8] = b"embedded-elf-x86_64";
    let mut bytes = model("simple_mul/llvm-cpu.vmfb");
    for start in 0..bytes.len() - OF_MODEL.len() {
        if bytes[start..].starts_with(OF_MODEL) {
            bytes[start..start + OF_MODEL.len()].copy_from_slice(format.as_bytes());
        }
    }
    bytes
}

/// Names, contents, and what the error says of them.
fn wrong_files() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let padded = |start: &[u8]| [start, &[0; 64]].concat();
    let onnx = b"\x08\x09\x12\x07pytorch\x3a\x02\x12\0".to_vec();
    let safetensors = [&[15, 0, 0, 0, 0, 0, 0, 0][..], b"{\"a\":{}        "].concat();
    let vmvx = model("simple_mul/vmvx.vmfb");
    vec![
        ("onnx.vmfb", onnx, "not a module but an ONNX model, which `incarnate compile`"),
        (
            "mlir.vmfb",
            b"// A model.\nfunc.func @f() {\n}\n".to_vec(),
            "not a module but MLIR text, which `incarnate compile`",
        ),
        ("module.txt", b"module @m {\n}\n".to_vec(), "not a module but MLIR text"),
        ("assembly.txt", b"vm.module @m {\n}\n".to_vec(), "the text of a module, which `incarnate assemble`"),
        ("program", padded(b"\x7fELF\x02\x01"), "an ELF file, machine code"),
        ("program.exe", padded(b"MZ\x90\0"), "a Windows program"),
        ("library.dylib", padded(b"\xcf\xfa\xed\xfe"), "a Mach-O file"),
        ("kernels.a", padded(b"!<arch>\n"), "an archive of object files"),
        ("module.wasm", padded(b"\0asm\x01"), "a WebAssembly module"),
        ("kernel.spv", padded(b"\x03\x02\x23\x07"), "SPIR-V"),
        ("kernel.bc", padded(b"BC\xc0\xde"), "LLVM bitcode"),
        ("array.npy", model("simple_mul/arrays.in0.npy"), "a NumPy array, which --input=@FILE passes"),
        ("weights.safetensors", safetensors, "parameters (safetensors), which --parameters= passes"),
        ("weights.gguf", padded(b"GGUF\x03"), "parameters (GGUF), which --parameters= passes"),
        ("weights.irpa", padded(b"IRPA"), "parameters (IRPA), which --parameters= passes"),
        ("weights.pt", padded(b"PK\x03\x04\x14\0"), "a ZIP archive, such as PyTorch (.pt)"),
        ("weights.pkl", padded(b"\x80\x04\x95"), "a Python pickle"),
        ("model.h5", padded(b"\x89HDF\r\n\x1a\n"), "an HDF5 file"),
        ("model.tflite", padded(b"\x1c\0\0\0TFL3"), "a TensorFlow Lite model"),
        ("old.bmod", model("../../bmod/tests/model.bmod"), "(BMOD): `incarnate convert FILE -o OUT` converts it"),
        ("saved_model.pb", b"\x08\x01\x12\x05graph".to_vec(), "a TensorFlow SavedModel"),
        ("empty.vmfb", Vec::new(), "an empty file"),
        ("zeros.vmfb", vec![0; 500], "a file of zeros: was a download cut off?"),
        ("cut.vmfb", vmvx[..vmvx.len() / 2].to_vec(), "the file is cut off or is not a module"),
        ("start.vmfb", vmvx[..40].to_vec(), "too short to hold a bytecode module"),
        ("page.vmfb", b"<!DOCTYPE html>".to_vec(), "HTML or XML: was a download answered by an error page?"),
        ("answer.vmfb", b"{\"error\": 404}".to_vec(), "not a module but JSON"),
        (
            "pointer.vmfb",
            b"version https://git-lfs.github.com/spec/v1\n".to_vec(),
            "Git LFS: `git lfs pull` gets the file",
        ),
        ("module.vmfb.gz", padded(b"\x1f\x8b\x08"), "a file compressed by gzip"),
        ("module.vmfb.zst", padded(b"\x28\xb5\x2f\xfd"), "a file compressed by Zstandard"),
        ("picture.png", padded(b"\x89PNG\r\n\x1a\n"), "a picture (PNG)"),
        ("picture.jpg", padded(b"\xff\xd8\xff\xe0"), "a picture (JPEG)"),
        ("script.vmfb", b"#!/bin/sh\n".to_vec(), "not a module but a script"),
        ("notes.txt", b"notes\n".to_vec(), "not a module but a text file"),
    ]
}

impl Scratch {
    /// Runs a command line that must fail; returns the line that it prints.
    fn fails(&self, arguments: &[String]) -> String {
        let output = program::incarnate().current_dir(&self.0).args(arguments).output();
        let output = output.expect("the command line starts");
        let error = String::from_utf8(output.stderr).expect("text");
        assert_eq!((output.status.code(), error.lines().count()), (Some(1), 1), "{arguments:?}: {error}");
        error
    }
}

/// Every way to name a module on the command line.
fn entries(file: &str) -> Vec<Vec<String>> {
    let flag = format!("--module={file}");
    let lines: &[&[&str]] = &[
        &["run", file],
        &["run", &flag],
        &["bench", file],
        &["bench", &flag, "--profile"],
        &["check", file],
        &["check", &flag],
        &["dump", file],
        &["dump", &flag],
        &["translate", file, "-o", "out.rs"],
        &["translate", &flag, "-o", "out.rs"],
        &["build", file, "-o", "out"],
        &["build", &flag, "-o", "out"],
        &["diff", file, file],
    ];
    lines.iter().map(|line| line.iter().map(|&word| word.to_owned()).collect()).collect()
}

#[test]
fn wrong_files_are_named_as_what_they_are() {
    let folder = Scratch::new("table");
    let files = wrong_files();
    assert!(files.len() >= 30);
    for (index, (name, contents, expected)) in files.iter().enumerate() {
        fs::write(folder.0.join(name), contents).expect("a file");
        // Every file where it matters most, and the first ones everywhere.
        let entries = entries(name);
        let count = if index < 3 { entries.len() } else { 1 };
        for arguments in entries.iter().take(count).chain([&entries[index % entries.len()]]) {
            let line = folder.fails(arguments);
            assert!(line.contains(expected) && line.contains(name), "{arguments:?}: {line}");
        }
    }
    assert!(!folder.0.join("out").exists() && !folder.0.join("out.rs").exists());
}

#[test]
fn folders_and_missing_files_are_named() {
    let folder = Scratch::new("folders");
    fs::create_dir_all(folder.0.join("models")).expect("a folder");
    for arguments in entries("models").iter().filter(|arguments| arguments[0] != "check") {
        let line = folder.fails(arguments);
        assert!(line.contains("'models' is a folder"), "{arguments:?}: {line}");
    }
    for arguments in entries("missing.vmfb") {
        let line = folder.fails(&arguments);
        assert!(line.contains("missing.vmfb") && line.contains("NOT_FOUND"), "{arguments:?}: {line}");
    }
}

/// A device has no end, and a pipe no beginning: neither is opened, mapped or read.
#[cfg(target_os = "linux")]
#[test]
fn devices_are_no_files() {
    let folder = Scratch::new("devices");
    let untrusted = [&entries("/dev/zero")[..2], &[vec!["check".to_owned(), "/dev/zero".to_owned()]]].concat();
    let untrusted = untrusted.into_iter().map(|line| [line, vec!["--untrusted".to_owned()]].concat());
    for arguments in entries("/dev/zero").into_iter().chain(untrusted) {
        let line = folder.fails(&arguments);
        assert!(line.contains("'/dev/zero' is not a regular file"), "{arguments:?}: {line}");
    }
    assert!(!folder.0.join("out").exists() && !folder.0.join("out.rs").exists());
}

/// LLVM would make NaN of maxima that begin with it.
#[test]
fn relaxed_vectors_are_refused() {
    let folder = Scratch::new("relaxed");
    fs::write(folder.0.join("mul.vmfb"), model("simple_mul/vmvx.vmfb")).expect("a file");
    let line = folder.fails(&["web", "mul.vmfb", "-o", "mul", "--relaxed-simd"].map(str::to_owned));
    assert!(line.contains("--relaxed-simd") && line.contains("NaN"), "{line}");
    assert!(!folder.0.join("mul").exists());
}

#[test]
fn missing_parameters_are_named_by_programs_that_need_none() {
    let folder = Scratch::new("parameters");
    fs::write(folder.0.join("mul.vmfb"), model("simple_mul/vmvx.vmfb")).expect("a file");
    let arguments = ["run", "mul.vmfb", "--input=4xf32=1", "--input=4xf32=1", "--parameters=missing.irpa"];
    let line = folder.fails(&arguments.map(str::to_owned));
    assert!(line.contains("missing.irpa") && line.contains("NOT_FOUND"), "{line}");
}

#[test]
fn modules_for_other_machines_are_refused() {
    let folder = Scratch::new("machines");
    let compiled = format!("the program is compiled for {}", std::env::consts::ARCH);
    for (name, format, help) in [
        ("gpu.vmfb", "vulkan-spirv-fb-xyz", "programs have local-sync and local-task"),
        ("foreign.vmfb", FOREIGN.0, &compiled),
    ] {
        fs::write(folder.0.join(name), for_format(format)).expect("a file");
        for arguments in entries(name) {
            match &*arguments[0] {
                "run" | "bench" => {
                    let line = folder.fails(&arguments);
                    let compiled = format!("compiled for local ({format}, generic); this program has local-sync (");
                    assert!(line.contains(&compiled), "{arguments:?}: {line}");
                }
                "build" => {
                    let line = folder.fails(&arguments);
                    let compiled = format!("compiled for {format}, generic; {help}");
                    assert!(line.contains(&compiled) && line.contains("--target=portable"), "{arguments:?}: {line}");
                }
                "translate" if name == "gpu.vmfb" => assert!(folder.fails(&arguments).contains(help)),
                _ => {}
            }
        }
    }
    // The source of a program for another machine is translated here, and compiles only there.
    let arguments = ["translate", "foreign.vmfb", "-o", "out.rs"].map(str::to_owned);
    let output = program::incarnate().current_dir(&folder.0).args(&arguments).output();
    assert!(output.is_ok_and(|output| output.status.success()));
    let source = fs::read_to_string(folder.0.join("out.rs")).expect("the source");
    let condition = format!("#[cfg(not(any(target_arch = \"{}\")))]", FOREIGN.1);
    assert!(source.contains(&condition), "{source}");
}
