//! `incarnate diff`: prints the differences between two modules.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use incarnate_runtime::bytecode::{Archive, Disassembler, Escaped, Module};
use incarnate_runtime::mapping::MappedFile;
use incarnate_runtime::{Result, ResultExt};
use similar::{Algorithm, Change, ChangeTag};

use super::Verdict;
use super::console::Console;
use super::dump;

#[derive(Debug, Args)]
pub(super) struct DiffArguments {
    /// A module file.
    #[arg(value_name = "A")]
    first: PathBuf,
    /// Another module file.
    #[arg(value_name = "B")]
    second: PathBuf,
    /// Print only the names of functions that differ, not their instructions.
    #[arg(long)]
    brief: bool,
}

/// The time limit of the search for a minimal difference between two functions; after it, the remaining lines count as
/// changed.
const TIME_LIMIT: Duration = Duration::from_secs(5);

pub(super) fn diff(arguments: &DiffArguments, out: &mut Console) -> Result<Verdict> {
    let (first, second) = (read(&arguments.first)?, read(&arguments.second)?);
    let mut report = Report { text: String::new(), differences: 0 };
    compare_tables(&mut report, &first, &second);
    compare_rodata(&mut report, &first, &second);
    compare_functions(&mut report, &first, &second, arguments.brief);
    out.write_all(report.text.as_bytes()).context(|| "writing to standard output")?;
    if report.differences == 0 {
        return Ok(Verdict::Success);
    }
    let (first, second) = (arguments.first.display(), arguments.second.display());
    Ok(Verdict::Failure(format!("'{first}' and '{second}' differ in {} respects", report.differences)))
}

fn read(path: &Path) -> Result<Module> {
    let context = || format!("reading '{}'", path.display());
    let contents = Arc::new(MappedFile::contents(path).context(context)?);
    Module::parse(Archive::new(contents).context(context)?).context(context)
}

/// A report with one line for each difference: `-` for items only in the first module, `+` for items only in the
/// second, `~` for changed items.
struct Report {
    text: String,
    differences: usize,
}

impl Report {
    fn line(&mut self, line: &str) {
        self.differences += 1;
        self.detail(line);
    }

    fn detail(&mut self, line: &str) {
        // Writing to a string does not fail. A line feed in a name would begin a line.
        let _ = writeln!(self.text, "{}", Escaped(line));
    }

    /// Compares one property.
    fn fact(&mut self, what: &str, first: &str, second: &str) {
        if first != second {
            self.line(&format!("~ {what}: {first} -> {second}"));
        }
    }

    /// Compares named items.
    fn named(&mut self, what: &str, first: &BTreeMap<String, String>, second: &BTreeMap<String, String>) {
        let only = |one: &BTreeMap<String, String>, other: &BTreeMap<String, String>| {
            let only = one.iter().filter(|row| !other.contains_key(row.0));
            only.map(|(name, value)| format!("{what} {name}{value}")).collect::<Vec<_>>()
        };
        only(first, second).iter().for_each(|row| self.line(&format!("- {row}")));
        only(second, first).iter().for_each(|row| self.line(&format!("+ {row}")));
        for (name, value) in first {
            if let Some(other) = second.get(name).filter(|other| *other != value) {
                self.line(&format!("~ {what} {name}{value} -> {name}{other}"));
            }
        }
    }
}

fn compare_tables(report: &mut Report, first: &Module, second: &Module) {
    report.fact("name", first.name(), second.name());
    let number = |value: u32| value.to_string();
    report.fact("version", &number(first.version()), &number(second.version()));
    let version =
        |module: &Module| format!("{}.{}", module.bytecode_version() >> 16, module.bytecode_version() & 0xFFFF);
    report.fact("bytecode version", &version(first), &version(second));
    let requirements = |module: &Module| dump::requirements(module.requirements());
    report.fact("requirements", &requirements(first), &requirements(second));
    let state = |module: &Module| format!("{} bytes, {} refs", module.global_bytes(), module.global_ref_count());
    report.fact("module state", &state(first), &state(second));
    let attributes = |module: &Module| {
        module.attributes().map(|(key, value)| (key.to_owned(), format!(" = {value}"))).collect::<BTreeMap<_, _>>()
    };
    report.named("attribute", &attributes(first), &attributes(second));
    let types = |module: &Module| {
        module.types().iter().map(|ty| (ty.text().to_string(), String::new())).collect::<BTreeMap<_, _>>()
    };
    report.named("type", &types(first), &types(second));
    let dependencies = |module: &Module| {
        let dependencies = module.dependencies();
        dependencies
            .map(|dependency| {
                let optional = if dependency.optional { ", optional" } else { "" };
                (dependency.name.to_owned(), format!(" version >= {}{optional}", dependency.minimum_version))
            })
            .collect::<BTreeMap<_, _>>()
    };
    report.named("dependency", &dependencies(first), &dependencies(second));
    let imports = |module: &Module| {
        let imports = module.imports();
        imports
            .map(|import| {
                let optional = if import.optional { " (optional)" } else { "" };
                (import.full_name.to_owned(), format!("{}{optional}", dump::signature(import.calling_convention)))
            })
            .collect::<BTreeMap<_, _>>()
    };
    report.named("import", &imports(first), &imports(second));
    report.named("export", &exports(first), &exports(second));
    report.named("executable", &executables(first), &executables(second));
}

/// Returns the exports with the types of their functions, and with the attributes at the first name of each function.
fn exports(module: &Module) -> BTreeMap<String, String> {
    let functions: BTreeMap<&str, u32> = module.exports().map(|row| (row.local_name, row.function)).collect();
    let mut described = HashSet::new();
    let text = |(name, function): (&str, u32)| {
        let mut text =
            module.function(function).map(|function| dump::signature(function.convention)).unwrap_or_default();
        if described.insert(function) {
            for (key, value) in module.function_attributes(function) {
                // Writing to a string does not fail.
                let _ = write!(text, " {{{key}: {value}}}");
            }
        }
        (name.to_owned(), text)
    };
    functions.into_iter().map(text).collect()
}

/// Returns the executables by number, with formats and functions; empty if the module is invalid.
fn executables(module: &Module) -> BTreeMap<String, String> {
    dump::executables_of(module).into_iter().enumerate().map(|(number, text)| (format!("[{number}]"), text)).collect()
}

fn compare_rodata(report: &mut Report, first: &Module, second: &Module) {
    let count = first.rodata_count().max(second.rodata_count());
    for ordinal in 0..count {
        match (first.rodata_bytes(ordinal), second.rodata_bytes(ordinal)) {
            (Some(one), Some(other)) if one == other => {}
            (Some(one), Some(other)) => {
                let at = one.iter().zip(&*other).take_while(|(one, other)| one == other).count();
                let sizes = if one.len() == other.len() {
                    format!("{} bytes", one.len())
                } else {
                    format!("{} -> {} bytes", one.len(), other.len())
                };
                report.line(&format!("~ .rodata[{ordinal}]: {sizes}, different from byte {at} on"));
            }
            (Some(one), None) => report.line(&format!("- .rodata[{ordinal}]: {} bytes", one.len())),
            (None, Some(other)) => report.line(&format!("+ .rodata[{ordinal}]: {} bytes", other.len())),
            (None, None) => {}
        }
    }
}

/// Returns the functions by their names as exports or in the compiler, or by their ordinals.
fn functions(module: &Module) -> BTreeMap<String, u32> {
    let mut functions = BTreeMap::new();
    for ordinal in 0..module.function_count() {
        let name = module.function_name(ordinal);
        // A duplicate name does not identify a function.
        let name = if functions.contains_key(&name) { format!("{name} ({ordinal})") } else { name };
        functions.insert(name, ordinal);
    }
    functions
}

fn compare_functions(report: &mut Report, first: &Module, second: &Module, brief: bool) {
    let (ours, theirs) = (functions(first), functions(second));
    for name in ours.keys().filter(|name| !theirs.contains_key(*name)) {
        report.line(&format!("- function @{name}"));
    }
    for name in theirs.keys().filter(|name| !ours.contains_key(*name)) {
        report.line(&format!("+ function @{name}"));
    }
    let (mut first, mut second) = (Disassembler::new(first), Disassembler::new(second));
    for (name, ordinal) in &ours {
        let Some(other) = theirs.get(name) else { continue };
        let one = first.function(*ordinal).unwrap_or_default();
        let other = second.function(*other).unwrap_or_default();
        if one == other {
            continue;
        }
        let changes = changes(&one.lines().collect::<Vec<_>>(), &other.lines().collect::<Vec<_>>());
        let count = |sign: char| changes.iter().filter(|line| line.starts_with(sign)).count();
        report.line(&format!("~ function @{name}: {} lines less, {} more", count('-'), count('+')));
        if !brief {
            changes.iter().for_each(|line| report.detail(&format!("    {line}")));
        }
    }
}

/// Returns the lines that only one of two texts contains, in order.
fn changes(first: &[&str], second: &[&str]) -> Vec<String> {
    let deadline = Instant::now() + TIME_LIMIT;
    let operations = similar::capture_diff_slices_deadline(Algorithm::Myers, first, second, Some(deadline));
    let changes = operations.iter().flat_map(|operation| operation.iter_changes(first, second));
    let line = |change: Change<&str>| match change.tag() {
        ChangeTag::Equal => None,
        ChangeTag::Delete => Some(format!("- {}", change.value())),
        ChangeTag::Insert => Some(format!("+ {}", change.value())),
    };
    changes.filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_the_least() {
        let lines = |text: &'static str| text.split_whitespace().collect::<Vec<_>>();
        for (first, second, expected) in [
            ("a b c", "a b c", ""),
            ("a b c", "a c", "- b"),
            ("a c", "a b c", "+ b"),
            ("a b c d", "a x c d e", "- b|+ x|+ e"),
            ("", "a", "+ a"),
            ("a b", "", "- a|- b"),
            ("a a", "a", "- a"),
        ] {
            assert_eq!(changes(&lines(first), &lines(second)).join("|"), expected, "{first} / {second}");
        }
    }
}
