//! What a compiled module depends on, as the key of the cache.
//!
//! | input | in the key as |
//! | --- | --- |
//! | the model, and the files beside it that have its weights | their contents; for a language model, the text of its import |
//! | the name of the model, which is in the module | itself |
//! | what is done to MLIR text before it is compiled | [`PREPARATION`] |
//! | the target and the flags | the compiler's arguments |
//! | the compiler; for MLIR bytecode, the printer | paths, and what tells one installation from another |
//! | the environment | the variables of [`LOADING`] and [`PREFIXES`] |
//! | this machine | its architecture and system; where an argument says `host`, [the processor](processor::identity) |
//! | files that a [flag](flags_name_files) or the [model](model_names_files) names | not at all: their compilations take nothing from the cache |

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;

use incarnate_bytecode::Result;

use super::hash::Hash;
use super::prepare::PREPARATION;
use super::process::{LOADING, PREFIXES, contains_any, environment, run};
use super::processor;
use super::source::hash_of;

/// The inputs of a compilation beside the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Inputs {
    texts: Vec<String>,
}

impl Inputs {
    /// Collects the inputs of a compilation by `programs`, of which the compiler is the first, with the given arguments.
    pub(super) fn new(name: &str, arguments: &[String], programs: &[&Path]) -> Inputs {
        let environment = variables(environment());
        Inputs::with(name, arguments, programs, &environment, &processor::identity())
    }

    fn with(name: &str, arguments: &[String], programs: &[&Path], environment: &str, processor: &str) -> Inputs {
        let is_for_host = arguments.iter().any(|argument| argument.ends_with("=host") || argument == "host");
        let mut texts = vec![env!("CARGO_PKG_VERSION").to_owned(), PREPARATION.to_owned(), name.to_owned()];
        texts.push(arguments.len().to_string());
        texts.extend_from_slice(arguments);
        texts.push(environment.to_owned());
        texts.push(format!("{} {}", env::consts::ARCH, env::consts::OS));
        texts.push(if is_for_host { processor.to_owned() } else { String::new() });
        texts.extend(programs.first().map(|compiler| version(compiler)));
        texts.extend(programs.iter().map(|program| installation(program)));
        Inputs { texts }
    }

    /// Returns the hash of these inputs and a model.
    ///
    /// # Errors
    /// Errors of reading the model.
    pub(super) fn key(&self, model: &Path) -> Result<String> {
        Ok(self.key_of_text(&hash_of(model)?))
    }

    /// Returns the hash of these inputs and the text of a model.
    pub(super) fn key_of_text(&self, model: &str) -> String {
        Hash::of_texts(self.texts.iter().map(String::as_str).chain([model]))
    }
}

/// Parts of the names of flags whose values are files or folders.
const OF_FILES: [&str; 9] =
    ["dump", "path", "file", "export", "import", "output", "library", "directory", "reproducer"];
/// Ends of such names.
const ENDS_OF_FILES: [&str; 3] = ["-to", "-from", "-dir"];

/// Returns true if a flag of the user may name a file that the compiler reads or writes: `--iree-opt-export-parameters=w=w.irpa`.
/// The key lacks the contents of files that it reads, and a module from the cache comes without the files that it writes.
pub(super) fn flags_name_files(flags: &[String]) -> bool {
    let is_path = |value: &str| {
        // `sse4.2` has no extension of a file.
        let extension = Path::new(value).extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let is_named = value.contains(['/', '\\']) || extension.starts_with(|c: char| c.is_ascii_alphabetic());
        is_named || Path::new(value).exists()
    };
    flags.iter().any(|flag| {
        // A flag's value may also be the next word.
        let (name, value) =
            if flag.starts_with('-') { flag.split_once('=').unwrap_or((flag, "")) } else { ("", &**flag) };
        let mut parts = value.split(['=', ',', '@', ';']).filter(|part| !part.is_empty());
        ENDS_OF_FILES.iter().any(|end| name.ends_with(end))
            || OF_FILES.iter().any(|part| name.contains(part))
            || parts.any(is_path)
    })
}

/// An attribute of MLIR that may name an object file, which the compiler links: `#hal.executable.object<{path = "f.o"}>`. MLIR bytecode
/// has the same text.
const OBJECT: &[u8] = b"#hal.executable.object";

/// Returns true if a model may name files that the compiler reads. The key lacks their contents.
///
/// # Errors
/// Errors of reading the model.
pub(super) fn model_names_files(model: &Path) -> io::Result<bool> {
    contains_any(model, &[OBJECT])
}

/// Returns the version that a compiler prints if it is a script without packages beside it, such as one of pyenv or of a user: it stays as
/// it is when the compiler that it starts is replaced.
fn version(compiler: &Path) -> String {
    let mut first = [0; 2];
    let is_script = File::open(compiler).and_then(|mut file| file.read_exact(&mut first)).is_ok() && &first == b"#!";
    let program = fs::canonicalize(compiler).unwrap_or_else(|_| compiler.to_owned());
    if !is_script || !package_folders(&program).is_empty() {
        return String::new();
    }
    let printed = run(Command::new(compiler).arg("--version"));
    printed.map(|done| String::from_utf8_lossy(&done.stdout).into_owned()).unwrap_or_default()
}

/// Returns what tells an installation of a program from others at the same path: sizes and times of the program and of the folders
/// of packages beside it. `iree-compile` is a script of a few lines that every version of the package has, so that its contents
/// say nothing. In images of containers the time of modification is often a constant; the time of change is not.
fn installation(program: &Path) -> String {
    let program = fs::canonicalize(program).unwrap_or_else(|_| program.to_owned());
    let mut text = format!("{} {}", program.display(), state(&program));
    for folder in package_folders(&program) {
        text += &format!("\n{} {}", folder.display(), state(&folder));
    }
    text
}

/// Returns the folders of Python packages of the environment that a program is in.
fn package_folders(program: &Path) -> Vec<PathBuf> {
    let Some(root) = program.parent().and_then(Path::parent) else { return Vec::new() };
    let versions = fs::read_dir(root.join("lib")).into_iter().flatten().flatten().map(|entry| entry.path());
    let of_unix = versions.map(|version| version.join("site-packages"));
    let all = of_unix.chain([root.join("Lib").join("site-packages")]);
    let mut folders: Vec<PathBuf> = all.filter(|folder| folder.is_dir()).collect();
    folders.sort();
    folders
}

/// Returns the length and the times of a file or folder.
fn state(path: &Path) -> String {
    let Ok(metadata) = fs::metadata(path) else { return "missing".to_owned() };
    let modified = metadata.modified().ok().and_then(|time| Some(time.duration_since(UNIX_EPOCH).ok()?.as_nanos()));
    #[cfg(unix)]
    let changed = {
        use std::os::unix::fs::MetadataExt;
        (metadata.ctime(), metadata.ctime_nsec())
    };
    #[cfg(not(unix))]
    let changed = ();
    format!("{} {modified:?} {changed:?}", if metadata.is_file() { metadata.len() } else { 0 })
}

/// Returns the variables that the compiler or its interpreter reads, sorted.
fn variables(all: impl Iterator<Item = (OsString, OsString)>) -> String {
    let matters = |name: &str| LOADING.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    // The program's own path is among the inputs.
    let rows = all.filter(|(name, _)| name.to_str().is_some_and(|name| matters(name) && name != super::VARIABLE));
    let mut rows: Vec<String> = rows.map(|(name, value)| format!("{}={value:?}", name.display())).collect();
    rows.sort();
    rows.join("\n")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::super::{CompileOptions, Compiler, Target, gguf};
    use super::*;

    fn key(inputs: &Inputs) -> String {
        let folder = tempfile::tempdir().unwrap();
        let model = folder.path().join("net.mlir");
        fs::write(&model, "module {}").unwrap();
        inputs.key(&model).unwrap()
    }

    #[test]
    fn native_modules_are_keyed_by_the_processor() {
        let of = |target: Target, processor: &str| key(&Inputs::with("net", &target.flags(), &[], "", processor));
        for target in [Target::Native, Target::Both] {
            assert_ne!(of(target.clone(), "znver4 avx512f"), of(target.clone(), "haswell avx2"), "{target}");
            assert_eq!(of(target.clone(), "haswell avx2"), of(target, "haswell avx2"));
        }
        for target in [Target::Portable, "x86_64-unknown-linux-gnu:znver4".parse().unwrap()] {
            assert_eq!(of(target.clone(), "znver4 avx512f"), of(target, "haswell avx2"));
        }
        assert!(!processor::identity().is_empty());
    }

    #[test]
    fn every_input_changes_the_key() {
        let folder = tempfile::tempdir().unwrap();
        let (programs, packages) = (folder.path().join("bin"), folder.path().join("lib/python3.11/site-packages"));
        fs::create_dir_all(&programs).unwrap();
        fs::create_dir_all(&packages).unwrap();
        let program = programs.join("iree-compile");
        fs::write(&program, "one").unwrap();
        let flags = ["--a=b".to_owned()];
        let of = || Inputs::with("net", &flags, &[&program], "", "");
        let first = of();
        let mut keys = vec![
            key(&first),
            key(&Inputs::with("other", &flags, &[&program], "", "")),
            key(&Inputs::with("net", &[], &[&program], "", "")),
            key(&Inputs::with("net", &["--a".to_owned(), "b".to_owned()], &[&program], "", "")),
            key(&Inputs::with("net", &["--a\nb".to_owned()], &[&program], "", "")),
            key(&Inputs::with("net", &["--a".to_owned()], &[&program], "b", "")),
            key(&Inputs::with("net", &flags, &[&program, &program], "", "")),
            key(&Inputs::with("net", &flags, &[&program], "IREE_X=1", "")),
        ];
        assert_eq!(of(), first);
        fs::write(&program, "another").unwrap();
        keys.push(key(&of()));
        // A package is installed beside a script that stays as it is.
        fs::create_dir(packages.join("onnx-1.0.dist-info")).unwrap();
        keys.push(key(&of()));
        for (index, key) in keys.iter().enumerate() {
            assert_eq!(keys.iter().position(|other| other == key), Some(index), "{index}");
        }
    }

    #[test]
    fn language_models_are_keyed_by_header_options_and_compiler() {
        let folder = tempfile::tempdir().unwrap();
        let model = folder.path().join("net.gguf");
        let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/models/language_model/model.gguf");
        let mut bytes = fs::read(fixture).unwrap();
        fs::write(&model, &bytes).unwrap();
        let compiler = |name: &str| Compiler { program: folder.path().join(name) };
        let of = |name: &str, options: &CompileOptions| compiler(name).key_of_language_model(&model, options).unwrap();
        let options = CompileOptions::from(Target::Portable);
        let of_slots = |slots: u64| CompileOptions {
            language_model: gguf::Options { slots, ..gguf::Options::default() },
            ..options.clone()
        };
        let first = of("iree-compile", &options);
        let others = [of("other", &options), of("iree-compile", &of_slots(3)), of("iree-compile", &of_slots(4))];
        // The last byte is one of a weight.
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&model, &bytes).unwrap();
        assert_eq!(of("iree-compile", &options), first);
        let key = bytes.windows(11).position(|text| text == b"llama.block").unwrap();
        bytes[key + 6] = b'c';
        fs::write(&model, &bytes).unwrap();
        let of_other_header = of("iree-compile", &options);
        let all = [vec![first, of_other_header], others.to_vec()].concat();
        for (index, key) in all.iter().enumerate() {
            assert_eq!(all.iter().position(|other| other == key), Some(index), "{index}");
        }
    }

    #[test]
    fn variables_of_the_compiler_count() {
        let row = |name: &str| (OsString::from(name), OsString::from("x"));
        let text =
            variables(["HOME", "IREE_LLVM_EMBEDDED_LINKER_PATH", "IREE_COMPILE", "PYTHONPATH"].map(row).into_iter());
        assert_eq!(text, "IREE_LLVM_EMBEDDED_LINKER_PATH=\"x\"\nPYTHONPATH=\"x\"");
    }

    #[test]
    fn flags_with_paths_are_found() {
        let names = |flags: &[&str]| flags_name_files(&flags.iter().map(|flag| (*flag).to_owned()).collect::<Vec<_>>());
        for flags in [
            &["--iree-opt-export-parameters=scope=weights.irpa"][..],
            &["--iree-hal-dump-executable-files-to=folder"],
            &["--mlir-print-ir-tree-dir=/tmp/x"],
            &["--mlir-print-ir-tree-dir=ir"],
            &["--mlir-pass-pipeline-crash-reproducer=repro"],
            &["--iree-hal-substitute-executable-objects-from=folder"],
            &["--iree-llvmcpu-static-library-output-path", "net.o"],
            &["--iree-codegen-transform-dialect-library=library.mlir@entry"],
        ] {
            assert!(names(flags), "{flags:?}");
        }
        let features = "--iree-llvmcpu-target-cpu-features=+sse4.2,+avx2";
        assert!(!names(&[]) && !names(&["--iree-opt-level=O3", features, "--iree-input-demote-f64-to-f32=false"]));
        assert!(!names(&["--iree-llvmgpu-use-direct-load=true"]));
    }

    #[test]
    fn models_with_object_files_are_found() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let names = |text: &str| {
            fs::write(file.path(), text).unwrap();
            model_names_files(file.path()).unwrap()
        };
        let object = "#hal.executable.object<{path = \"f.o\"}>";
        let far = format!("{}{object}", "#map, \n".repeat(1 << 14));
        for text in [object, &format!("##h#hal.executable.{object}"), &far, &far[1..], &far[2..]] {
            assert!(names(text), "{}", &text[text.len() - 60..]);
        }
        for text in ["", "#", "#hal.executable.target<\"x\">", "hal.executable.object", "#hal.executable.objec"] {
            assert!(!names(text), "{text}");
        }
    }

    /// A script that starts another program stays as it is when that is replaced.
    #[test]
    #[cfg(unix)]
    fn scripts_are_keyed_by_what_they_start() {
        let folder = tempfile::tempdir().unwrap();
        let (script, packages) =
            (folder.path().join("bin/iree-compile"), folder.path().join("lib/python3/site-packages"));
        fs::create_dir_all(script.parent().unwrap()).unwrap();
        fs::write(&script, format!("#!/bin/sh\ncat {}/release\n", folder.path().display())).unwrap();
        fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let of = |release: &str| {
            fs::write(folder.path().join("release"), release).unwrap();
            key(&Inputs::with("net", &[], &[&script], "", ""))
        };
        assert!(of("3.13") != of("3.14") && of("3.14") == of("3.14"));
        // A Python environment shows by itself whether it is another one.
        fs::create_dir_all(packages).unwrap();
        assert_eq!(of("3.13"), of("3.14"));
    }
}
