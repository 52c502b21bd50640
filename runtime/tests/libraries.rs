//! System libraries as executables and as plugins.
#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(target_feature = "crt-static")
))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "tests")]

#[macro_use]
mod fixture;
mod kernels;
#[path = "../../tests/support/native.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod native;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use incarnate_runtime::hal::local::library::{ImportProvider, ImportRegistry};
use incarnate_runtime::hal::local::loaders::{EmbeddedElfLoader, SystemLibraryLoader};
use incarnate_runtime::hal::local::{ExecutableLoader, ExecutableParameters, ExecutablePlugin, LocalExecutable};
use incarnate_runtime::vm::Limits;
use incarnate_runtime::{Error, Result, StatusCode};
use kernels::{Aligned, binding, dispatch};

const FORMAT: &str = concat!("system-elf-", architecture!());
const EMBEDDED_FORMAT: &str = concat!("embedded-elf-", architecture!());
const SIMPLE_MUL: &[u8] = fixture!("system/simple_mul");
const IMPORTS: &[u8] = fixture!("system/imports");
const EMBEDDED_IMPORTS: &[u8] = fixture!("elf/imports");
/// A library for another architecture.
const FOREIGN: &[u8] = if cfg!(target_arch = "aarch64") {
    include_bytes!("fixtures/elf/simple_mul_x86_64.so")
} else {
    include_bytes!("fixtures/elf/simple_mul_arm_64.so")
};

fn load(
    loader: &dyn ExecutableLoader,
    format: &str,
    data: &[u8],
    imports: &ImportRegistry,
) -> Result<Arc<dyn LocalExecutable>> {
    loader.load(&ExecutableParameters {
        format,
        data,
        contents: None,
        constants: &[],
        imports,
        limits: &Limits::default(),
        reassociate: false,
    })
}

fn load_system(data: &[u8]) -> Result<Arc<dyn LocalExecutable>> {
    load(&SystemLibraryLoader::default(), FORMAT, data, &ImportRegistry::default())
}

fn product(executable: &dyn LocalExecutable) -> [f32; 4] {
    let (mut lhs, mut rhs) = (Aligned([1.0f32, 2.0, 3.0, 4.0]), Aligned([2.0f32, 3.0, 4.0, 5.0]));
    let mut out = Aligned([0.0f32; 4]);
    dispatch(executable, 1, 0..1, &[], &[binding(&mut lhs), binding(&mut rhs), binding(&mut out)]).unwrap();
    out.0
}

/// Returns the results of the kernel that imports a function, for 1, 2, 3, 4.
fn offset(executable: &dyn LocalExecutable) -> [f32; 4] {
    let (mut values, mut out) = (Aligned([1.0f32, 2.0, 3.0, 4.0]), Aligned([0.0f32; 4]));
    dispatch(executable, 1, 0..1, &[], &[binding(&mut values), binding(&mut out)]).unwrap();
    out.0
}

fn fixture(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/system");
    folder.join(native::native(name)).display().to_string()
}

/// Returns a library without the query function of executables.
fn other_library() -> Vec<u8> {
    fs::read(fixture("plugin.so")).unwrap()
}

/// A folder for one test, which is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        Scratch(tempfile::Builder::new().prefix(name).tempdir().unwrap().keep())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

#[test]
fn kernels_of_system_libraries_run() {
    let executable = load_system(SIMPLE_MUL).unwrap();
    assert!(executable.functions()[0].name.starts_with("simple_mul_dispatch_0"), "{:?}", executable.functions());
    assert_eq!(product(&*executable), [2.0, 6.0, 12.0, 20.0]);
}

#[test]
fn reloaded_libraries_are_distinguished() {
    let plugin = ImportRegistry::default().with(ExecutablePlugin::open(&fixture("plugin.so")).unwrap());
    let loader = SystemLibraryLoader::default();
    for _ in 0..300 {
        let first = load_system(SIMPLE_MUL).unwrap();
        let second = load(&loader, FORMAT, IMPORTS, &plugin).unwrap();
        assert_eq!((product(&*first), offset(&*second)), ([2.0, 6.0, 12.0, 20.0], [101.0, 102.0, 103.0, 104.0]));
        drop(first);
        // Reuses the descriptor of the first file.
        let third = load(&loader, FORMAT, IMPORTS, &plugin).unwrap();
        assert_eq!(offset(&*third), [101.0, 102.0, 103.0, 104.0]);
    }
}

#[test]
fn files_are_kept_on_request_only() {
    let scratch = Scratch::new("keep");
    let loader = SystemLibraryLoader::keeping_files(&scratch.0);
    let executable = load(&loader, FORMAT, SIMPLE_MUL, &ImportRegistry::default()).unwrap();
    assert_eq!(product(&*executable), [2.0, 6.0, 12.0, 20.0]);
    drop(executable);
    let files: Vec<_> = fs::read_dir(&scratch.0).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    assert_eq!(fs::read(&files[0]).unwrap(), SIMPLE_MUL);
    let nowhere = SystemLibraryLoader::keeping_files(scratch.0.join("nowhere"));
    let error = load(&nowhere, FORMAT, SIMPLE_MUL, &ImportRegistry::default()).unwrap_err();
    assert_eq!(error.code(), StatusCode::NotFound, "{error}");
}

#[test]
fn truncated_libraries_are_rejected() {
    for length in (0..SIMPLE_MUL.len()).step_by(61).chain([SIMPLE_MUL.len() - 1]) {
        let error = load_system(&SIMPLE_MUL[..length]).unwrap_err();
        assert!(matches!(error.code(), StatusCode::InvalidArgument | StatusCode::Incompatible), "{length}: {error}");
    }
}

/// Returns where the descriptions of segments of a kind are.
fn offsets_of_segments(kind: u32) -> impl DoubleEndedIterator<Item = usize> {
    let word = |at: usize| u32::from_le_bytes(SIMPLE_MUL[at..at + 4].try_into().unwrap());
    let count = usize::from(SIMPLE_MUL[56]);
    (0..count).map(|index| 64 + 56 * index).filter(move |at| word(*at) == kind)
}

fn offset_of_segment(kind: u32) -> usize {
    offsets_of_segments(kind).next().unwrap()
}

#[test]
fn wrong_sizes_are_rejected() {
    let number = |at: usize| u64::from_le_bytes(SIMPLE_MUL[at..at + 8].try_into().unwrap()) as usize;
    let (load, dynamic) = (offset_of_segment(1), offset_of_segment(2));
    let dynamic_load = offsets_of_segments(1).next_back().unwrap();
    let table = number(dynamic + 8);
    let entries: Vec<usize> = (0..number(dynamic + 32) / 16).map(|index| table + 16 * index).collect();
    let tagged = |tag: usize| entries.iter().find(|at| number(**at) == tag).unwrap() + 8;
    let (hash, names) = (number(tagged(0x6fff_fef5)), number(tagged(5)));
    for (what, at, value) in [
        ("offset of a segment", load + 8, 1u64 << 40),
        ("size of a segment", load + 32, u64::MAX),
        ("size of the dynamic table", dynamic + 32, 16),
        ("strings", tagged(5), 1 << 30),
        ("size of strings", tagged(10), 1 << 30),
        ("symbols", tagged(6), 1 << 40),
        ("relocations", tagged(7), u64::MAX - 64),
        ("size of relocations", tagged(8), 1 << 40),
        ("hash table", tagged(0x6fff_fef5), 0xFFFF_FFFF),
        ("buckets", hash, 0),
        ("end of the dynamic table", entries[3], 0),
        ("part that is protected", offset_of_segment(0x6474_e552) + 40, 0xBFB6),
        ("size of the segment of the dynamic table", dynamic_load + 32, 0x7F),
        ("position of the dynamic table", dynamic + 16, 0x1000),
        ("filter of the hash table", hash + 8, 0x0100_0000_0000),
        ("name of a library", tagged(10), (names - names) as u64 + 1),
    ] {
        let mut data = SIMPLE_MUL.to_vec();
        data[at..at + 8].copy_from_slice(&value.to_le_bytes());
        let error = load_system(&data).map(drop).expect_err(what);
        assert_eq!(error.code(), StatusCode::InvalidArgument, "{what}: {error}");
    }
}

#[test]
fn other_file_types_are_detected() {
    let code = |result: Result<Arc<dyn LocalExecutable>>| result.map(drop).map_err(|error| error.code());
    for foreign in [FOREIGN, include_bytes!("fixtures/elf/simple_mul_x86_32.so"), b"", b"text"] {
        assert_eq!(code(load_system(foreign)), Err(StatusCode::Incompatible));
    }
    let error = load_system(&other_library()).map(drop).unwrap_err();
    assert_eq!(error.code(), StatusCode::NotFound);
    assert!(error.to_string().contains("`iree_hal_executable_library_query`"), "{error}");
    let loader = SystemLibraryLoader::default();
    for format in ["system-elf-arm_32", "system-elf-", "system-dll-x86_64", EMBEDDED_FORMAT, architecture!()] {
        assert!(!loader.supports(format), "{format}");
        let result = load(&loader, format, SIMPLE_MUL, &ImportRegistry::default());
        assert_eq!(code(result), Err(StatusCode::Incompatible));
    }
    assert!(loader.supports(FORMAT));
}

/// Runs each kind of executable with its imports.
fn offsets(imports: &ImportRegistry) -> Result<[[f32; 4]; 2]> {
    let system = load(&SystemLibraryLoader::default(), FORMAT, IMPORTS, imports)?;
    let embedded = load(&EmbeddedElfLoader, EMBEDDED_FORMAT, EMBEDDED_IMPORTS, imports)?;
    Ok([offset(&*system), offset(&*embedded)])
}

#[test]
fn plugins_resolve_imports_and_the_last_one_wins() {
    let error = offsets(&ImportRegistry::default()).unwrap_err();
    assert_eq!(error.code(), StatusCode::NotFound);
    assert!(error.to_string().contains("`incarnate_test_offset`"), "{error}");
    let (library, standalone) = (fixture("plugin.so"), fixture("plugin.sos"));
    let library = ExecutablePlugin::open(&library).unwrap();
    let standalone = ExecutablePlugin::open(&standalone).unwrap();
    assert_eq!((library.name(), standalone.name()), ("test", "test"));
    let mut imports = ImportRegistry::default().with(library);
    assert_eq!(offsets(&imports).unwrap(), [[101.0, 102.0, 103.0, 104.0]; 2]);
    assert!(standalone.resolve("incarnate_test_offset").is_some() && standalone.resolve("something").is_none());
    imports.add(standalone);
    assert_eq!(offsets(&imports).unwrap(), [[1001.0, 1002.0, 1003.0, 1004.0]; 2]);
    // The executable keeps the plugin loaded.
    let executable = load(&SystemLibraryLoader::default(), FORMAT, IMPORTS, &imports).unwrap();
    drop(imports);
    assert_eq!(offset(&*executable), [1001.0, 1002.0, 1003.0, 1004.0]);
}

#[test]
fn incompatible_plugins_are_rejected() {
    let open = |name: &str| -> Error { ExecutablePlugin::open(name).map(drop).unwrap_err() };
    let scratch = Scratch::new("plugins");
    let write = |name: &str, bytes: &[u8]| {
        let path = scratch.0.join(name);
        fs::write(&path, bytes).unwrap();
        path.display().to_string()
    };
    let library = other_library();
    let short = write("short.so", &library[..library.len() / 2]);
    let short_embedded = write("short.sos", &library[..library.len() / 2]);
    let foreign = write("foreign.so", FOREIGN);
    let foreign_machine = if cfg!(target_arch = "aarch64") { "machine 62" } else { "machine 183" };
    let embedded_library = format!("embedded:{}", fixture("plugin.so"));
    for (path, code, what) in [
        (fixture("missing.so"), StatusCode::NotFound, "missing"),
        (fixture("missing.sos"), StatusCode::NotFound, "missing"),
        (fixture("plugin_without_query.so"), StatusCode::NotFound, "`iree_hal_executable_plugin_query`"),
        (fixture("plugin_newer.so"), StatusCode::Incompatible, "version 2"),
        (embedded_library, StatusCode::Incompatible, "features 0x0"),
        (short, StatusCode::InvalidArgument, "short.so"),
        (short_embedded, StatusCode::InvalidArgument, "short.sos"),
        (foreign, StatusCode::Incompatible, foreign_machine),
    ] {
        let error = open(&path);
        assert_eq!(error.code(), code, "{path}: {error}");
        assert!(error.to_string().contains(what), "{path}: {error}");
    }
}
