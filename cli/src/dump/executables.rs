//! The text of a module's executables.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use incarnate_runtime::bytecode::{Archive, Contents, Escaped, Module, VerifiedModule};
use incarnate_runtime::hal::local::loaders::elf::{LibraryFacts, Machine};

use super::gpu;
use super::program::{Executable, Program};

/// Prints the executables that the functions of a module create. Machine code is not loaded, because that would run it.
pub(super) fn write(f: &mut fmt::Formatter<'_>, module: &VerifiedModule, program: &Program) -> fmt::Result {
    let mut described = BTreeSet::new();
    for (number, executable) in program.executables.iter().enumerate() {
        let format = executable.format.and_then(|ordinal| module.rodata_bytes(ordinal));
        let format = format.unwrap_or(Cow::Borrowed(b"unknown format"));
        write!(f, "  [{number:3}] {}", Escaped(&String::from_utf8_lossy(&format)))?;
        match executable.data.map(|ordinal| (ordinal, module.rodata_length(ordinal).unwrap_or(0))) {
            Some((ordinal, length)) => writeln!(f, ", {length} bytes in .rodata[{ordinal}]")?,
            None => writeln!(f, ", bytes chosen at run time")?,
        }
        write_entry_points(f, executable)?;
        // Calls that create the same executable again do not describe it again.
        if !described.insert((executable.format, executable.data)) {
            continue;
        }
        if let Some(library) = library(module, executable) {
            write!(f, "        library @{} of ABI 0.{}", Escaped(&library.name), library.abi)?;
            for (index, name) in library.kernels.iter().enumerate() {
                write!(f, "{}{}", if index == 0 { ", kernels @" } else { " @" }, Escaped(name))?;
            }
            writeln!(f)?;
            library.imports.iter().try_for_each(|name| writeln!(f, "        imports {}", Escaped(name)))?;
        }
        if let Some(nested) = nested(module, executable) {
            write_nested(f, &nested)?;
        }
        gpu::write(f, module, executable)?;
    }
    writeln!(f)
}

/// Prints format, length and functions of each executable on one line.
pub(super) fn facts(module: &VerifiedModule, program: &Program) -> Vec<String> {
    let facts = program.executables.iter().map(|executable| {
        let bytes = |ordinal: Option<u32>| ordinal.and_then(|ordinal| module.rodata_bytes(ordinal)).unwrap_or_default();
        let format = Escaped(&String::from_utf8_lossy(&bytes(executable.format))).to_string();
        let names: Vec<&str> = executable.entry_points.iter().map(|entry_point| entry_point.name.as_str()).collect();
        format!(" {format}, {} bytes: {}", bytes(executable.data).len(), Escaped(&names.join(", ")))
    });
    facts.collect()
}

fn write_entry_points(f: &mut fmt::Formatter<'_>, executable: &Executable) -> fmt::Result {
    for entry_point in &executable.entry_points {
        writeln!(
            f,
            "        @{}: {} constants, {} bindings, dispatched in {} places",
            Escaped(&entry_point.name),
            entry_point.constants,
            entry_point.bindings,
            entry_point.dispatches
        )?;
    }
    Ok(())
}

/// Returns the description in a machine-code executable of the format ELF.
fn library(module: &VerifiedModule, executable: &Executable) -> Option<LibraryFacts> {
    let format = module.rodata_bytes(executable.format?)?;
    let format = core::str::from_utf8(&format).ok()?;
    let architecture = format.strip_prefix("embedded-elf-").or_else(|| format.strip_prefix("system-elf-"))?;
    let machine = Machine::ALL.iter().find(|machine| machine.name == architecture)?;
    // A damaged executable is reported when it is loaded.
    LibraryFacts::read(&module.rodata_bytes(executable.data?)?, machine).ok()?
}

/// Returns the module in a bytecode executable.
fn nested(module: &VerifiedModule, executable: &Executable) -> Option<Module> {
    let format = module.rodata_bytes(executable.format?)?;
    if !format.starts_with(b"vmvx") {
        return None;
    }
    let contents = Contents::copy_from(&module.rodata_bytes(executable.data?)?);
    Module::parse(Archive::new(Arc::new(contents)).ok()?).ok()
}

fn write_nested(f: &mut fmt::Formatter<'_>, nested: &Module) -> fmt::Result {
    write!(f, "        module @{}: {} functions, exports", Escaped(nested.name()), nested.function_count())?;
    nested.exports().try_for_each(|export| write!(f, " @{}", Escaped(export.local_name)))?;
    writeln!(f)?;
    for import in nested.imports() {
        let convention = super::signature(import.calling_convention);
        let optional = if import.optional { "?" } else { "" };
        writeln!(f, "        imports {optional}{}{convention}", Escaped(import.full_name))?;
    }
    Ok(())
}
