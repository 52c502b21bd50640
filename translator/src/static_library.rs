//! Object files of kernels that programs link: their query functions, and archives of them for the linker.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::file_error::failed;
use incarnate_bytecode::{Error, Result, ResultExt, read_regular_file};
use object::read::archive::ArchiveFile;
use object::{Architecture, BinaryFormat, File as Object, Object as _, ObjectSymbol};

/// The suffix of query functions; the compiler derives their names from the libraries' names.
const QUERY_SUFFIX: &str = "_library_query";
/// The first bytes of an archive.
const ARCHIVE_MAGIC: &[u8] = b"!<arch>\n";
/// The most bytes of an object file that the index of an archive can address.
const OBJECT_SIZE_LIMIT: usize = u32::MAX as usize;

/// An object file of kernels, or an archive of several.
#[derive(Debug)]
pub(crate) struct StaticLibrary {
    path: PathBuf,
    contents: Vec<u8>,
    /// The functions that it exports, without the prefix that some systems add to names.
    exports: BTreeSet<String>,
    is_archive: bool,
    format: BinaryFormat,
}

impl StaticLibrary {
    /// Reads a file.
    ///
    /// # Errors
    /// Errors of reading; INVALID_ARGUMENT if it is not an object file or is damaged; INCOMPATIBLE if it is not for the given
    /// architecture, or for the target of a build script.
    pub(crate) fn read(path: &Path, architecture: Option<&str>) -> Result<StaticLibrary> {
        let context = || format!("static library '{}'", path.display());
        let contents = read_regular_file(path).context(context)?;
        let of_script = || std::env::var("CARGO_CFG_TARGET_ARCH").ok();
        let architecture = architecture.map(str::to_owned).or_else(of_script);
        StaticLibrary::parse(path, contents, architecture.as_deref()).context(context)
    }

    fn parse(path: &Path, contents: Vec<u8>, architecture: Option<&str>) -> Result<StaticLibrary> {
        let damaged =
            |error: object::Error| Error::invalid_argument(format!("it is not an object file, or damaged: {error}"));
        let mut exports = BTreeSet::new();
        let mut format = BinaryFormat::Elf;
        let is_archive = contents.starts_with(ARCHIVE_MAGIC);
        let mut add = |data: &[u8]| -> Result<()> {
            let object = Object::parse(data).map_err(damaged)?;
            check_architecture(object.architecture(), architecture)?;
            format = object.format();
            for symbol in object.symbols().filter(|symbol| symbol.is_global() && symbol.is_definition()) {
                // Rust cannot call symbols whose names are not UTF-8.
                let Ok(name) = symbol.name() else { continue };
                let prefixed = format == BinaryFormat::MachO
                    || (format == BinaryFormat::Coff && object.architecture() == Architecture::I386);
                exports.insert(if prefixed { name.strip_prefix('_').unwrap_or(name) } else { name }.to_owned());
            }
            Ok(())
        };
        if is_archive {
            for member in ArchiveFile::parse(&*contents).map_err(damaged)?.members() {
                add(member.map_err(damaged)?.data(&*contents).map_err(damaged)?)?;
            }
        } else {
            add(&contents)?;
        }
        Ok(StaticLibrary { path: path.to_owned(), contents, exports, is_archive, format })
    }

    /// The query functions: the given ones, or all of the file.
    ///
    /// # Errors
    /// NOT_FOUND if the file lacks a given function or has none.
    pub(crate) fn queries(&self, given: &[String]) -> Result<Vec<String>> {
        let context = || format!("static library '{}'", self.path.display());
        if let Some(missing) = given.iter().find(|name| !self.exports.contains(*name)) {
            let exports: Vec<&str> = self.exports.iter().map(String::as_str).collect();
            return Err(Error::not_found(format!("it does not export `{missing}` but: {}", exports.join(", "))))
                .context(context);
        }
        if !given.is_empty() {
            return Ok(given.to_vec());
        }
        let found: Vec<String> = self.exports.iter().filter(|name| name.ends_with(QUERY_SUFFIX)).cloned().collect();
        if found.is_empty() {
            let why = format!(
                "no function `*{QUERY_SUFFIX}` is exported: the model was compiled without --iree-llvmcpu-link-static"
            );
            return Err(Error::not_found(why)).context(context);
        }
        Ok(found)
    }

    /// The bytes of the archive for the linker.
    ///
    /// # Errors
    /// UNIMPLEMENTED for Mach-O; RESOURCE_EXHAUSTED for objects beyond 4 GiB.
    pub(crate) fn archive(&self) -> Result<Vec<u8>> {
        if self.is_archive {
            return Ok(self.contents.clone());
        }
        if self.format == BinaryFormat::MachO {
            return Err(Error::unimplemented(
                "archives of Mach-O objects are not written: make one by `ar`, and give that",
            ));
        }
        if self.contents.len() > OBJECT_SIZE_LIMIT {
            return Err(Error::resource_exhausted("an object of more than 4 GiB"));
        }
        Ok(archive(&self.contents, self.exports.iter().map(String::as_str)))
    }
}

/// Rejects object files for another architecture than `wanted`.
fn check_architecture(found: Architecture, wanted: Option<&str>) -> Result<()> {
    let Some(wanted) = wanted else { return Ok(()) };
    let name = match found {
        Architecture::X86_64 => "x86_64",
        Architecture::I386 => "x86",
        Architecture::Aarch64 => "aarch64",
        Architecture::Arm => "arm",
        Architecture::Riscv64 => "riscv64",
        Architecture::Riscv32 => "riscv32",
        _ => return Ok(()),
    };
    if name == wanted {
        return Ok(());
    }
    Err(Error::incompatible(format!("it is for {name}, and the program is built for {wanted}")))
}

/// An archive of one object with an index of its symbols, in the format for linkers of ELF and COFF.
fn archive<'a>(object: &[u8], symbols: impl Iterator<Item = &'a str> + Clone) -> Vec<u8> {
    let mut names = Vec::new();
    symbols.clone().for_each(|name| names.extend(name.bytes().chain([0])));
    let count = symbols.count();
    let index_size = 4 + 4 * count + names.len();
    let mut bytes = ARCHIVE_MAGIC.to_vec();
    header(&mut bytes, "/", index_size);
    // The object's header follows the index, at an even offset.
    let offset = (bytes.len() + index_size).next_multiple_of(2) as u32;
    bytes.extend((count as u32).to_be_bytes());
    (0..count).for_each(|_| bytes.extend(offset.to_be_bytes()));
    bytes.extend(names);
    pad(&mut bytes);
    header(&mut bytes, "kernels.o/", object.len());
    bytes.extend(object);
    pad(&mut bytes);
    bytes
}

/// Appends the header of a member: name, time, owner, group, mode, size.
fn header(bytes: &mut Vec<u8>, name: &str, size: usize) {
    bytes.extend(format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{size:<10}`\n", 0, 0, 0, 644).bytes());
}

fn pad(bytes: &mut Vec<u8>) {
    if !bytes.len().is_multiple_of(2) {
        bytes.push(b'\n');
    }
}

/// Links an object file of kernels into the program of a build script, for modules that `include_module!` translates:
///
/// ```no_run
/// // build.rs
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// incarnate_translator::link_static_library("models/digits.o")?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As [`Config::static_library`](crate::Config::static_library).
pub fn link_static_library(object: impl AsRef<Path>) -> Result<()> {
    let object = object.as_ref();
    println!("cargo::rerun-if-changed={}", object.display());
    let library = StaticLibrary::read(object, None)?;
    library.queries(&[])?;
    let out_dir = std::env::var_os("OUT_DIR").ok_or_else(|| {
        Error::failed_precondition("OUT_DIR is not set: static libraries are linked by build scripts")
    })?;
    link(&library, Path::new(&out_dir), &crate::module_identifier(object)).map(drop)
}

/// Writes a library's archive to a folder, tells cargo to link it, and returns its name. `stem` is unique among the libraries of
/// a program.
pub(crate) fn link(library: &StaticLibrary, folder: &Path, stem: &str) -> Result<String> {
    let name = format!("incarnate_kernels_{stem}");
    // MSVC's linker expects names without a prefix.
    let is_msvc = std::env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|environment| environment == "msvc");
    let file = if is_msvc { format!("{name}.lib") } else { format!("lib{name}.a") };
    let (path, contents) = (folder.join(file), library.archive()?);
    if std::fs::read(&path).ok().as_deref() != Some(&*contents) {
        std::fs::write(&path, contents).map_err(|error| failed(&format!("writing '{}':", path.display()), &error))?;
    }
    if is_build_script() {
        println!("cargo::rustc-link-search=native={}", folder.display());
        println!("cargo::rustc-link-lib=static={name}");
    }
    Ok(name)
}

/// Whether cargo reads the standard output.
pub(crate) fn is_build_script() -> bool {
    std::env::var_os("CARGO_MANIFEST_DIR").is_some() && std::env::var_os("OUT_DIR").is_some()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const OBJECT: &[u8] = include_bytes!("../../tests/static/kernels.o");

    fn parse(contents: &[u8]) -> Result<StaticLibrary> {
        StaticLibrary::parse(Path::new("kernels.o"), contents.to_vec(), None)
    }

    #[test]
    fn objects_for_another_architecture_are_refused() {
        let parse = |wanted| StaticLibrary::parse(Path::new("kernels.o"), OBJECT.to_vec(), wanted).map(drop);
        assert!(parse(None).is_ok() && parse(Some("x86_64")).is_ok());
        let error = parse(Some("aarch64")).unwrap_err().to_string();
        assert_eq!(error, "INCOMPATIBLE; it is for x86_64, and the program is built for aarch64");
    }

    #[test]
    fn query_functions_are_found() {
        let library = parse(OBJECT).unwrap();
        assert_eq!(library.queries(&[]).unwrap(), ["static_kernels_linked_library_query"]);
        let named = ["static_kernels_linked_library_query".to_owned()];
        assert_eq!(library.queries(&named).unwrap(), named);
        let error = library.queries(&["other".to_owned()]).unwrap_err().to_string();
        assert!(
            error.contains("NOT_FOUND; it does not export `other` but: static_kernels_linked_library_query"),
            "{error}"
        );
    }

    #[test]
    fn archives_have_an_index_and_are_not_archived_again() {
        let archive = parse(OBJECT).unwrap().archive().unwrap();
        let read = ArchiveFile::parse(&*archive).unwrap();
        let symbols: Vec<_> = read.symbols().unwrap().unwrap().map(|symbol| symbol.unwrap()).collect();
        assert_eq!(symbols.len(), 1);
        assert_eq!(symbols[0].name(), b"static_kernels_linked_library_query");
        assert_eq!(read.member(symbols[0].offset()).unwrap().data(&*archive).unwrap(), OBJECT);
        let again = parse(&archive).unwrap();
        assert_eq!(again.queries(&[]).unwrap().len(), 1);
        assert_eq!(again.archive().unwrap(), archive);
    }

    #[test]
    fn other_files_are_refused() {
        for contents in [&b""[..], b"text", &OBJECT[..100], &OBJECT[..OBJECT.len() / 2], b"!<arch>\nrubbish"] {
            let error = parse(contents).map(drop).unwrap_err().to_string();
            assert!(error.starts_with("INVALID_ARGUMENT; it is not an object file"), "{error}");
        }
        let other = include_bytes!("../../runtime/tests/fixtures/system/plugin.so");
        let error = parse(other).unwrap().queries(&[]).unwrap_err().to_string();
        assert!(error.contains("NOT_FOUND; no function `*_library_query` is exported"), "{error}");
    }
}
