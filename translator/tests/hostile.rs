//! Modules with changed bytes: each is rejected with its file and a reason, or translated. Nothing panics, and a failed
//! translation writes no files.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

#[path = "../../tests/support/parallel.rs"]
mod parallel;

use incarnate_bytecode::{Contents, StatusCode, VerifiedModule};
use incarnate_translator::{Config, Options, generate};

/// The number of mutations of each module, which the environment variable `MUTATIONS` overrides: `.ci/full fuzzing` makes more.
const MUTATIONS: usize = 10;
/// The number of bytes at the start of a module that mutations change. In large modules, the rest is constants.
const CHANGED: usize = 32 << 10;

/// A pseudorandom number generator with a fixed seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end.max(1)
    }
}

fn models() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/models");
    let folders = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files =
        folders.filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|end| end == "vmfb")).collect();
    found.sort();
    assert!(found.len() > 10);
    found
}

/// Changes bits, bytes or words of a file, or truncates it.
fn mutated(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let end = bytes.len().min(CHANGED);
    for _ in 0..=random.below(3) {
        let at = random.below(end.min(bytes.len()));
        match random.below(8) {
            0..=4 => bytes[at] ^= 1 << random.below(8),
            5 => bytes[at] = random.below(256) as u8,
            6 => {
                let word = [0, 1, u32::MAX, 1 << 31, 0xFFFF][random.below(5)].to_le_bytes();
                bytes.iter_mut().skip(at).zip(word).for_each(|(byte, new)| *byte = new);
            }
            _ if random.below(10) == 0 => bytes.truncate(at),
            _ => bytes[at] = 0,
        }
        if bytes.is_empty() {
            return bytes;
        }
    }
    bytes
}

#[test]
fn changed_modules_are_rejected_or_translated() {
    let count = std::env::var("MUTATIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(MUTATIONS);
    let (rejected, translated) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let models: Vec<(usize, PathBuf)> = models().into_iter().enumerate().collect();
    parallel::for_each(&models, |(number, path)| {
        let mut random = Random(0x9E37_79B9_7F4A_7C15 ^ *number as u64);
        let bytes = std::fs::read(path).unwrap();
        for index in 0..count {
            let changed = mutated(&bytes, &mut random);
            let Ok(module) = VerifiedModule::load(Arc::new(Contents::from_vec(changed))) else {
                rejected.fetch_add(1, Relaxed);
                continue;
            };
            let files = generate(&module, &Options::default()).and_then(|output| output.files("changed"));
            match files {
                Ok(files) => assert!(!files.is_empty()),
                // Executables are verified when they are translated.
                Err(error) if error.to_string().contains("translating the executable in constant") => {
                    _ = rejected.fetch_add(1, Relaxed)
                }
                // The name of a format that no program loads.
                Err(error) if error.code() == StatusCode::Incompatible => _ = rejected.fetch_add(1, Relaxed),
                Err(error) => panic!("mutation {index} of {}: {error}", path.display()),
            }
            translated.fetch_add(1, Relaxed);
        }
    });
    let (rejected, translated) = (rejected.into_inner(), translated.into_inner());
    assert!(rejected > count && translated > count, "{rejected} rejected, {translated} translated");
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).map_or(Vec::new(), |entries| entries.map(|entry| entry.unwrap().path()).collect())
}

#[test]
fn rejected_files_leave_no_output() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    let out = folder.join("out");
    std::fs::create_dir_all(&out).unwrap();
    let good = std::fs::read(&models()[0]).unwrap();
    let cut = good[..good.len() / 3].to_vec();
    for (name, bytes) in [("empty", Vec::new()), ("text", b"not a module".to_vec()), ("cut", cut)] {
        let file = folder.join(format!("{name}.vmfb"));
        std::fs::write(&file, bytes).unwrap();
        let error = Config::new().out_dir(&out).compile(&file).unwrap_err().to_string();
        assert!(error.contains(&format!("{name}.vmfb")), "{error}");
        assert_eq!(entries(&out), Vec::<PathBuf>::new(), "{name}");
    }
    let error = Config::new().out_dir(&out).compile(folder.join("none.vmfb")).unwrap_err().to_string();
    assert!(error.contains("none.vmfb") && error.contains("NOT_FOUND"), "{error}");
    // The files of an earlier translation stay unchanged.
    let file = folder.join("model.vmfb");
    std::fs::write(&file, &good).unwrap();
    let written = Config::new().out_dir(&out).compile(&file).unwrap();
    let before = std::fs::read(&written.source).unwrap();
    std::fs::write(&file, &good[..good.len() / 2]).unwrap();
    assert!(Config::new().out_dir(&out).compile(&file).is_err());
    assert_eq!(std::fs::read(&written.source).unwrap(), before);
    assert_eq!(entries(&out).len(), written.files.len());
}
