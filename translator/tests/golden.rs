//! Golden files: excerpts of generated code that reviewers read. `BLESS=1 cargo test -p incarnate-translator --test golden` rewrites
//! them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use incarnate_bytecode::{Contents, VerifiedModule, assemble};
use incarnate_translator::{Options, Prefer, generate};

/// The most lines of a golden file.
const LINES: usize = 300;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn model(path: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models").join(path)).expect("a model")
}

/// The module of a text in the folder of golden files.
fn assembled(name: &str) -> Vec<u8> {
    assemble(&std::fs::read_to_string(golden(name)).expect("a module's text")).expect("a module")
}

/// The main file of a module.
fn generated(module: Vec<u8>, options: &Options) -> String {
    let module = VerifiedModule::load(Arc::new(Contents::from_vec(module))).expect("a valid module");
    let options = Options { prefer: Prefer::Portable, ..options.clone() };
    let files = generate(&module, &options).and_then(|output| output.files("golden")).expect("source");
    String::from_utf8(files[0].contents.clone()).expect("text")
}

/// The part of a module's main file between two texts, without its indentation.
fn excerpt(module: Vec<u8>, options: &Options, from: &str, to: &str) -> String {
    let text = generated(module, options);
    let start = text.find(from).expect("the first line");
    let end = text[start..].find(to).map_or(text.len(), |length| start + length);
    let excerpt = text[start..end].trim_end();
    let indentation = excerpt.len() - excerpt.trim_start_matches(' ').len();
    excerpt.lines().map(|line| format!("{}\n", line.get(indentation..).unwrap_or_default())).collect()
}

/// Compares an excerpt of a module's main file with a golden file.
fn compare(name: &str, module: Vec<u8>, from: &str, to: &str) {
    compare_excerpt(name, &excerpt(module, &Options::default(), from, to));
}

fn compare_excerpt(name: &str, excerpt: &str) {
    assert!(excerpt.lines().count() < LINES, "{name} is too long to read");
    let path = golden(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, excerpt).expect("the golden file");
        return;
    }
    let expected = std::fs::read_to_string(&path).expect("the golden file");
    assert_eq!(expected, excerpt, "{name} differs from the generated code; BLESS=1 rewrites it");
}

/// A matrix-vector product: bounds checked once, tiled, and the original loop behind it.
#[test]
fn loop_nest() {
    compare("loop_nest.rs", assembled("matvec.vmasm"), "    /// `@matvec`\n    pub fn", "\n}\n");
}

/// A nest with so many iterations that threads divide them: bounds checked once, and variants of the iterations.
#[test]
fn divided_nest() {
    compare("divided_nest.rs", assembled("dividing.vmasm"), "    /// `@bias`\n    pub fn", "    /// `@pool`");
}

/// Loads at computed indices: quotients and rests of a number that counts pixels, and strips that store nothing if an index is out of range.
#[test]
fn gathering_nest() {
    compare("gathering_nest.rs", assembled("resizing.vmasm"), "    /// `@nearest`\n    pub fn", "\n}\n");
}

/// Memory that a contraction writes before it is read: allocated as it is, and cleared where the contraction does not run.
#[test]
fn accumulating_nest() {
    compare(
        "accumulating_nest.rs",
        assembled("accumulating.vmasm"),
        "    /// `@sums`\n    pub fn",
        "                let mut v7",
    );
}

/// Rows of sums that share what is loaded and converted.
#[test]
fn jammed_nest() {
    compare(
        "jammed_nest.rs",
        assembled("jamming.vmasm"),
        "                    for i2 in",
        "                    let i0: usize = 0;\n                    for (strip, accumulators) in accumulators0_0.iter()",
    );
}

/// Sums of products of pairs: bytes and integers that are adjacent share a grid, and the factors are computed before the sums.
#[test]
fn paired_nest() {
    compare(
        "paired_nest.rs",
        assembled("pairing.vmasm"),
        "        impl support::Multiversion for Iterations",
        "        support::settle_memory();",
    );
}

/// Sums of four products of bytes, all of which have a sign.
#[test]
fn nest_of_quads() {
    compare(
        "nest_of_quads.rs",
        assembled("pairing.vmasm"),
        "    /// `@signed_quads`\n    pub fn",
        "        support::settle_memory();",
    );
}

/// Bytes are multiplied four by four only if sums of two products have 16 bits.
#[test]
fn sums_of_large_bytes() {
    let nest = excerpt(assembled("pairing.vmasm"), &Options::default(), "    /// `@large_quads`\n    pub fn", "\n}\n");
    assert!(nest.contains("multiply_pairs") && !nest.contains("multiply_quads"), "{nest}");
}

/// The same of an untrusted module: the nest takes its steps before it runs.
#[test]
fn untrusted_nest() {
    let options = Options { untrusted: true, ..Options::default() };
    let excerpt = excerpt(assembled("matvec.vmasm"), &options, "    /// `@matvec`\n    pub fn", "\n}\n");
    compare_excerpt("untrusted_nest.rs", &excerpt);
}

/// The sum of the exponentials of each row, whose partial sums are in vectors because float reductions may be reassociated.
/// Fused products and sums are separate with the option, and as the compiler wrote them without.
#[test]
fn unfused_contractions() {
    let of = |unfuse| generated(model("mlp/vmvx.vmfb"), &Options { unfuse, ..Options::default() });
    let (fused, unfused) = (of(false), of(true));
    assert!(fused.contains("FmaF32") && fused.contains("fma_f32") && !fused.contains("MulAddF32"));
    assert!(unfused.contains("MulAddF32") && unfused.contains("mul_f32"));
    assert!(!unfused.contains("FmaF32") && !unfused.contains("fma_f32"));
}

/// A function that awaits a fence: it saves its values when it yields, and resumes.
#[test]
fn async_function() {
    compare("async_function.rs", assembled("await.vmasm"), "    /// The values that", "\n}\n");
}

/// The program around one dispatch: HAL calls with named constants.
#[test]
fn hal_calls() {
    compare("hal_calls.rs", model("simple_mul/vmvx.vmfb"), "    /// `@simple_mul`", "\n    /// `@");
}

/// A translated executable with its table of kernels.
#[test]
fn vmvx_kernel() {
    compare(
        "vmvx_kernel.rs",
        model("simple_mul/vmvx.vmfb"),
        "        /// The exports that are kernels.",
        "\n    }\n}\n",
    );
}

/// The interface that programs call.
#[test]
fn typed_api() {
    compare(
        "typed_api.rs",
        model("several_results/inline-static.vmfb"),
        "use ::incarnate",
        "#[rustfmt::skip]\n#[allow(dead_code, unreachable_pub, unused_imports",
    );
}

/// Source locations of the debug database are comments.
#[test]
fn source_locations() {
    compare("source_locations.rs", model("failures/vm.vmfb"), "    /// `@fail`\n    pub fn", "\n}\n");
}

#[test]
fn files_pass_rustfmt() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    for (name, module) in [("mul", model("simple_mul/vmvx.vmfb")), ("matvec", assembled("matvec.vmasm"))] {
        let path = folder.join(format!("{name}.rs"));
        std::fs::write(&path, generated(module, &Options::default())).unwrap();
        let output = Command::new("rustfmt").args(["--check", "--edition", "2024"]).arg(&path).output();
        let output = output.expect("rustfmt, a component of the toolchain");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}
