//! Modules of this repository, and mutants of them: a seed decides the module, and what changes in it.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use incarnate_differential::random::Random;
use incarnate_runtime::bytecode::{Archive, Contents, Module, assemble, disassemble};

use crate::generator::HOSTILE;

/// Bytes of the longest module that is mutated.
const LONGEST: usize = 100_000;
/// Bytes of the longest text whose lines are mutated.
const LONGEST_TEXT: usize = 400_000;
/// Bytes at the edges of what a byte stands for.
const BYTES: [u8; 8] = [0, 1, 2, 0x7F, 0x80, 0xC0, 0xFE, 0xFF];

/// A module that is mutated.
#[derive(Clone, Debug)]
pub struct Base {
    /// The path of its file, from the folder `tests`.
    pub name: String,
    bytes: Vec<u8>,
    /// Its assembly, unless it is too long.
    text: String,
    /// The tables and functions.
    flatbuffer: Range<usize>,
    /// Functions, also those of modules that are constants.
    functions: Vec<Range<usize>>,
    /// Constants, and tables of modules that are constants.
    constants: Vec<Range<usize>>,
}

/// Reads the modules of `tests/models` and `tests/hostile`, in the order of their names.
///
/// # Errors
/// Errors of the file system, and of a module that is none.
pub fn bases() -> io::Result<Vec<Base>> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests");
    let mut files = Vec::new();
    walk(&tests.join("models"), &mut files)?;
    walk(&tests.join("hostile"), &mut files)?;
    files.sort();
    let mut bases = Vec::new();
    for path in files {
        let bytes = match path.extension().and_then(|extension| extension.to_str()) {
            Some("vmfb") => fs::read(&path)?,
            Some("vmasm") => assemble(&fs::read_to_string(&path)?).map_err(io::Error::other)?,
            _ => continue,
        };
        let name = path.strip_prefix(&tests).unwrap_or(&path).display().to_string();
        if bytes.len() <= LONGEST {
            bases.push(Base::new(name, bytes).map_err(io::Error::other)?);
        }
    }
    Ok(bases)
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            walk(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

impl Base {
    fn new(name: String, bytes: Vec<u8>) -> incarnate_runtime::Result<Base> {
        let contents = Arc::new(Contents::copy_from(&bytes));
        let module = Module::parse(Archive::new(contents.clone())?)?;
        let flatbuffer = module.archive().flatbuffer_range();
        let (mut functions, mut constants) = (code(&module), Vec::new());
        for (_, range) in (0..module.rodata_count()).filter_map(|ordinal| module.rodata(ordinal)) {
            if let Ok(nested) = Archive::within(contents.clone(), range.clone()).and_then(Module::parse) {
                functions.extend(code(&nested));
                constants.push(nested.archive().flatbuffer_range());
            }
            constants.push(range);
        }
        let text = Some(disassemble(&module)).filter(|text| text.len() <= LONGEST_TEXT).unwrap_or_default();
        Ok(Base { name, bytes, text, flatbuffer, functions, constants })
    }
}

/// Returns where the functions of a module are.
fn code(module: &Module) -> Vec<Range<usize>> {
    let archive = module.archive();
    let (start, tables) = (archive.flatbuffer_range().start, archive.flatbuffer().as_ptr().addr());
    let functions = (0..module.function_count()).filter_map(|ordinal| module.function(ordinal));
    let range = |bytecode: &[u8]| {
        let first = start + bytecode.as_ptr().addr() - tables;
        first..first + bytecode.len()
    };
    functions.map(|function| range(function.bytecode)).filter(|range| !range.is_empty()).collect()
}

/// Returns the mutant of a seed, and its module.
#[must_use]
pub fn mutant(bases: &[Base], seed: u64) -> (&Base, Vec<u8>) {
    let mut random = Random::new(seed);
    let base = random.pick(bases);
    if !base.text.is_empty() && random.one_in(3) {
        // Most texts assemble at the first attempt.
        for _ in 0..8 {
            if let Ok(bytes) = assemble(&changed_text(&base.text, &mut random)) {
                return (base, bytes);
            }
        }
    }
    let mut bytes = base.bytes.clone();
    if random.one_in(20) {
        bytes.truncate(random.below(bytes.len()));
        return (base, bytes);
    }
    let everything = 0..bytes.len();
    for _ in 0..*random.pick(&[1, 1, 1, 2, 4, 8]) {
        let area = match random.below(8) {
            0 => &everything,
            // Sizes and offsets of the archive and of the first tables.
            1 => &(0..base.flatbuffer.start + 64),
            2 | 3 => &base.flatbuffer,
            4 if !base.constants.is_empty() => random.pick(&base.constants),
            _ => random.pick(&base.functions),
        };
        change(&mut bytes, area, &mut random);
    }
    (base, bytes)
}

/// Changes bytes of an area.
fn change(bytes: &mut [u8], area: &Range<usize>, random: &mut Random) {
    let length = bytes.len();
    let at = area.start + random.below(area.len());
    let end = |size: usize| at.saturating_add(size).min(length);
    match random.below(5) {
        0 => bytes[at..end(1)].iter_mut().for_each(|byte| *byte ^= 1 << random.below(8)),
        1 => bytes[at..end(1)].fill(*random.pick(&BYTES)),
        2 => {
            let size = *random.pick(&[2, 4, 8]);
            let number = match random.below(4) {
                0 => length as u64,
                1 => (length - at) as u64,
                2 => random.below(1 << 16) as u64,
                _ => *random.pick(&HOSTILE) as u64,
            };
            let aligned = at - at % size;
            let end = length.min(aligned + size);
            bytes[aligned..end].copy_from_slice(&number.to_le_bytes()[..end - aligned]);
        }
        3 => {
            let size = *random.pick(&[2, 4, 4, 8, 16, 40]);
            let source = area.start + random.below(area.len());
            let size = size.min(length - at).min(length - source);
            bytes.copy_within(source..source + size, at);
        }
        _ => {
            let size = random.below(16);
            bytes[at..end(size)].fill_with(|| random.bits() as u8);
        }
    }
}

/// Returns an assembly with lines that are removed, repeated, exchanged or have other numbers.
fn changed_text(text: &str, random: &mut Random) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for _ in 0..*random.pick(&[1, 1, 2, 3]) {
        let at = random.below(lines.len());
        match random.below(6) {
            0 if lines.len() > 1 => drop(lines.remove(at)),
            1 => lines.insert(at, lines[at].clone()),
            2 => {
                let other = random.below(lines.len());
                lines.swap(at, other);
            }
            _ => lines[at] = changed_number(&lines[at], random),
        }
    }
    lines.join("\n") + "\n"
}

/// Replaces one of a line's numbers: of a constant, a register, a block or an ordinal.
fn changed_number(line: &str, random: &mut Random) -> String {
    let is_start = |at: usize| {
        line.as_bytes()[at].is_ascii_digit() && !line[..at].ends_with(|before: char| before.is_ascii_digit())
    };
    let starts: Vec<usize> = (0..line.len()).filter(|at| line.is_char_boundary(*at) && is_start(*at)).collect();
    if starts.is_empty() {
        return line.to_owned();
    }
    let start = *random.pick(&starts);
    let rest = line[start..].trim_start_matches(|digit: char| digit.is_ascii_digit());
    let number = match line[..start].ends_with(' ') {
        true => *random.pick(&HOSTILE),
        // Registers, and parts of words.
        false => random.below(12) as i64,
    };
    format!("{}{number}{rest}", &line[..start])
}
