//! The executables that a module creates, and the loaders that they need.

use std::collections::{BTreeMap, BTreeSet};

use incarnate_runtime::bytecode::VerifiedModule;
use incarnate_runtime::hal::executable_format::LOADERS;
use incarnate_runtime::ir::{Call, Callee, Function, Op, Terminator, Value};
use proc_macro2::TokenStream;
use quote::{format_ident, quote};

/// A call that creates an executable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Creation<'m> {
    /// The format, where it is a constant.
    pub(crate) format: Option<&'m str>,
    /// The ordinal of the constant that is the executable, where it is one.
    pub(crate) data: Option<u32>,
}

/// Functions that create executables, and the arguments that are the format and the executable.
const CREATORS: &[(&str, usize, usize)] = &[("hal.executable.create", 2, 3), ("hal_loader.executable.load", 0, 1)];

/// The calls of functions that create executables.
pub(crate) fn creations<'m>(module: &'m VerifiedModule, bodies: &[Function]) -> Vec<Creation<'m>> {
    let creators: BTreeMap<u32, (usize, usize)> = (0..)
        .zip(module.imports())
        .filter_map(|(ordinal, import)| {
            let creator = CREATORS.iter().find(|creator| creator.0 == import.full_name)?;
            Some((ordinal, (creator.1, creator.2)))
        })
        .collect();
    let mut found = Vec::new();
    if creators.is_empty() {
        return found;
    }
    for body in bodies {
        let mut constants: BTreeMap<Value, u32> = BTreeMap::new();
        let instructions = || body.blocks.iter().flat_map(|block| &block.instructions);
        for inst in instructions() {
            if let (Op::Rodata { rodata }, Some(value)) = (&inst.op, inst.results.first()) {
                constants.insert(*value, *rodata);
            }
        }
        let mut visit = |call: &Call| {
            let Callee::Import(import) = call.callee else { return };
            let Some(&(format, data)) = creators.get(&import) else { return };
            let constant = |index: usize| constants.get(&call.operands.get(index)?.value).copied();
            let format = constant(format).and_then(|ordinal| module.rodata_bytes(ordinal));
            let format = format.and_then(|bytes| core::str::from_utf8(bytes).ok());
            found.push(Creation { format, data: constant(data) });
        };
        for inst in instructions() {
            if let Op::Call(call) = &inst.op {
                visit(call);
            }
        }
        for block in &body.blocks {
            if let Terminator::CallYieldable { call, .. } = &block.terminator {
                visit(call);
            }
        }
    }
    found
}

/// The loaders that some executables need: all, if a format is no constant.
pub(crate) fn loaders(creations: &[Creation<'_>]) -> TokenStream {
    let formats: Option<BTreeSet<&str>> = creations.iter().map(|creation| creation.format).collect();
    let is_needed = |prefix: &str| match &formats {
        None => true,
        Some(formats) => formats.iter().any(|format| format.starts_with(prefix)),
    };
    let constants = LOADERS.iter().filter(|row| is_needed(row.1)).map(|row| format_ident!("{}", row.0));
    quote!(&[#(support::Loader::#constants),*])
}
