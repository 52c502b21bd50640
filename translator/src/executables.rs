//! The executables that a module creates: those that are translated with it, and the loaders that the others need.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use incarnate_bytecode::executable_format::{LOADERS, STATIC, VMVX, is_machine_code, is_unverified, untrusted_refusal};
use incarnate_bytecode::gpu_executable::is_vulkan;
use incarnate_bytecode::imports::find;
use incarnate_bytecode::ir::{Call, Callee, Function, Op, Terminator, Value};
use incarnate_bytecode::{Archive, Module, VerifiedModule};
use incarnate_bytecode::{Error, Result, ResultExt};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use crate::options::{Options, Prefer};

/// The methods of native modules that create executables, and the indices of the arguments for format and data.
const CREATORS: &[(&str, usize, usize)] = &[("executable_create", 2, 3), ("executable_load", 0, 1)];

/// Constants of this length in bytes or more are not names of formats.
const NAME_BYTES: usize = 256;

/// The calls of a module that create executables.
#[derive(Debug, Default)]
pub(crate) struct Creations {
    calls: BTreeSet<Creation>,
    /// Constants that only such calls use.
    exclusive: BTreeSet<u32>,
}

/// A call that creates an executable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Creation {
    /// The constant that holds the name of the format, if it is a constant.
    format: Option<u32>,
    /// The constant that holds the executable, if it is a constant.
    data: Option<u32>,
}

impl Creations {
    /// Finds the calls in the functions of a module.
    pub(crate) fn find(module: &VerifiedModule, bodies: &[Function]) -> Creations {
        let creators: BTreeMap<u32, (usize, usize)> = (0..)
            .zip(module.imports())
            .filter_map(|(ordinal, import)| {
                let method = find(import.full_name, import.calling_convention_text)?.0.method;
                let creator = CREATORS.iter().find(|creator| creator.0 == method)?;
                Some((ordinal, (creator.1, creator.2)))
            })
            .collect();
        let mut found = Creations::default();
        if creators.is_empty() {
            return found;
        }
        let mut others = BTreeSet::new();
        for body in bodies {
            found.visit(body, &creators, &mut others);
        }
        found.exclusive =
            found.calls.iter().filter_map(|call| call.data).filter(|data| !others.contains(data)).collect();
        found
    }

    /// Adds the calls of a function, and adds the constants with other uses to `others`.
    fn visit(&mut self, body: &Function, creators: &BTreeMap<u32, (usize, usize)>, others: &mut BTreeSet<u32>) {
        let mut constants: BTreeMap<Value, u32> = BTreeMap::new();
        for inst in body.blocks.iter().flat_map(|block| &block.instructions) {
            if let (Op::Rodata { rodata }, Some(value)) = (&inst.op, inst.results.first()) {
                constants.insert(*value, *rodata);
            }
        }
        let mut used = |value: Value| others.extend(constants.get(&value));
        let mut call = |call: &Call, used: &mut dyn FnMut(Value)| {
            let creator = match call.callee {
                Callee::Import(import) => creators.get(&import),
                Callee::Internal(_) => None,
            };
            let constant = |index: usize| constants.get(&call.operands.get(index)?.value).copied();
            if let Some(&(format, data)) = creator {
                self.calls.insert(Creation { format: constant(format), data: constant(data) });
            }
            let operands = call.operands.iter().enumerate();
            operands
                .filter(|(index, _)| creator.is_none_or(|creator| creator.1 != *index))
                .for_each(|row| used(row.1.value));
        };
        for block in &body.blocks {
            for inst in &block.instructions {
                match &inst.op {
                    Op::Call(inner) => call(inner, &mut used),
                    Op::Drop { .. } => {}
                    op => op.visit(|operand| used(operand.value())),
                }
            }
            match &block.terminator {
                Terminator::CallYieldable { call: inner, .. } => call(inner, &mut used),
                terminator => terminator.visit(|operand| used(operand.value())),
            }
        }
    }
}

/// How a module's executables are provided.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The translated executables, each with the constants that hold it.
    pub(crate) translated: Vec<(Vec<u32>, Arc<VerifiedModule>)>,
    /// The first of `translated` with a digest of its bytes.
    by_digest: BTreeMap<u128, usize>,
    /// The replacement bytes of constants that only serve to create translated or omitted executables.
    pub(crate) replaced: BTreeMap<u32, Vec<u8>>,
    /// The formats that need loaders; None if a format is not known at translation time.
    formats: Option<BTreeSet<String>>,
    /// The indices in `LOADERS` of formats that the module names without creating an executable of them.
    unused: BTreeSet<usize>,
    /// The decisions as text: a line for each format.
    pub(crate) report: Vec<String>,
}

impl Plan {
    /// Decides for each format whether its executables are translated, omitted, linked or loaded.
    ///
    /// # Errors
    /// The errors of a nested module.
    pub(crate) fn new(module: &VerifiedModule, creations: &Creations, options: &Options) -> Result<Plan> {
        let format = |creation: &Creation| {
            let bytes = module.rodata_bytes(creation.format?)?;
            core::str::from_utf8(&bytes).ok().map(str::to_owned)
        };
        let mut formats: BTreeMap<String, Vec<Option<u32>>> = BTreeMap::new();
        let mut plan = Plan { formats: Some(BTreeSet::new()), ..Plan::default() };
        for creation in &creations.calls {
            match format(creation) {
                Some(format) => formats.entry(format).or_default().push(creation.data),
                None => plan.formats = None,
            }
        }
        plan.unused = unused(module, &formats, options);
        let omitted = match plan.formats {
            Some(_) => omitted(&formats, options),
            None => BTreeSet::new(),
        };
        for (format, data) in &formats {
            let count = match data.len() {
                1 => "1 executable".to_owned(),
                count => format!("{count} executables"),
            };
            let known: Option<Vec<u32>> = data.iter().copied().collect();
            let decision = match known {
                _ if omitted.contains(format.as_str()) => {
                    let prefer = if options.untrusted { Prefer::Portable } else { options.prefer }.name();
                    data.iter().flatten().for_each(|ordinal| plan.replace(module, creations, *ordinal));
                    format!("left out, as {prefer} executables are preferred")
                }
                Some(known) if format == VMVX => {
                    for ordinal in known {
                        plan.translate(module, creations, ordinal)?;
                    }
                    "translated".to_owned()
                }
                _ => {
                    if let Some(formats) = &mut plan.formats {
                        formats.insert(format.clone());
                    }
                    match LOADERS.iter().any(|loader| format.starts_with(loader.1)) {
                        _ if format == STATIC && !options.static_libraries.is_empty() => {
                            "linked into the program".to_owned()
                        }
                        _ if is_vulkan(format) => "loaded by the program's Vulkan device".to_owned(),
                        true => "loaded by the program".to_owned(),
                        false => "loaded by the program, if its devices have a loader of this format".to_owned(),
                    }
                }
            };
            plan.report.push(format!("{count} of format {}: {decision}", crate::names::line(format)));
        }
        if options.untrusted {
            plan.refuse_machine_code(options)?;
        }
        Ok(plan)
    }

    /// Checks that an untrusted module needs no loader of code that no verifier checks. Formats that only the program knows are
    /// refused when it runs.
    ///
    /// # Errors
    /// PERMISSION_DENIED if it needs one.
    fn refuse_machine_code(&self, options: &Options) -> Result<()> {
        let needed = self.formats.iter().flatten().filter(|format| is_unverified(format));
        let linked = options.static_libraries.first().map(|_| STATIC);
        let needed: BTreeSet<&str> = needed.map(String::as_str).chain(linked).collect();
        if needed.is_empty() {
            return Ok(());
        }
        let needed = needed.into_iter().collect::<Vec<_>>().join(", ");
        Err(Error::permission_denied(crate::names::line(&untrusted_refusal(&needed))))
    }

    fn translate(&mut self, module: &VerifiedModule, creations: &Creations, ordinal: u32) -> Result<()> {
        let context = || format!("translating the executable in constant {ordinal}");
        self.replace(module, creations, ordinal);
        let bytes = module.rodata_bytes(ordinal);
        let index =
            *self.by_digest.entry(digest(bytes.as_deref().unwrap_or_default())).or_insert(self.translated.len());
        if let Some((held, _)) = self.translated.get_mut(index)
            && held.first().is_some_and(|first| module.rodata_bytes(*first) == bytes)
        {
            held.push(ordinal);
            return Ok(());
        }
        let (contents, range) = module.rodata(ordinal).ok_or_else(|| Error::internal("no such constant"))?;
        let nested = Archive::within(contents, range).and_then(Module::parse).and_then(Module::verify);
        self.translated.push((vec![ordinal], nested.context(context)?));
        Ok(())
    }

    /// Replaces the bytes of an executable that is not loaded by a digest, which identifies it.
    fn replace(&mut self, module: &VerifiedModule, creations: &Creations, ordinal: u32) {
        if let Some(bytes) = module.rodata_bytes(ordinal).filter(|_| creations.exclusive.contains(&ordinal)) {
            self.replaced.insert(ordinal, digest(&bytes).to_le_bytes().to_vec());
        }
    }

    /// Returns the formats of a module's executables if they are known and none is translated.
    pub(crate) fn loaded_formats(&self) -> Option<&BTreeSet<String>> {
        self.formats.as_ref().filter(|_| self.translated.is_empty())
    }

    /// The loaders of executables that are not translated, and of libraries that the program links. If a format is not known,
    /// all loaders of the runtime are included.
    pub(crate) fn loaders(&self, options: &Options) -> TokenStream {
        let is_needed = |prefix: &str| match &self.formats {
            None => true,
            Some(formats) => formats.iter().any(|format| format.starts_with(prefix)),
        };
        let constants = LOADERS.iter().enumerate().filter_map(|(index, row)| {
            let constant = format_ident!("{}", row.0);
            if is_needed(row.1) {
                return Some(quote!(support::Loader::#constant));
            }
            self.unused.contains(&index).then(|| quote!(support::UnusedLoader::#constant))
        });
        let linked = (!options.static_libraries.is_empty()).then(|| quote!(libraries::LOADER));
        let loaders = constants.chain(linked);
        quote!(&[#(#loaders),*])
    }
}

/// The indices in `LOADERS` of formats that a module names in a constant without creating an executable of them: programs
/// query devices for their target format even if they have no kernels.
fn unused(module: &VerifiedModule, created: &BTreeMap<String, Vec<Option<u32>>>, options: &Options) -> BTreeSet<usize> {
    let names: Vec<String> = (0..module.rodata_count())
        .filter_map(|ordinal| module.rodata_bytes(ordinal).filter(|bytes| bytes.len() < NAME_BYTES))
        .filter_map(|bytes| String::from_utf8(bytes.into_owned()).ok())
        .collect();
    let is_unused = |prefix: &str| {
        !created.keys().any(|format| format.starts_with(prefix)) && names.iter().any(|name| name.starts_with(prefix))
    };
    // A session of an untrusted module asks the loader of bytecode alone.
    let is_permitted = |prefix: &str| !options.untrusted || prefix == VMVX;
    (0..LOADERS.len()).filter(|index| is_permitted(LOADERS[*index].1) && is_unused(LOADERS[*index].1)).collect()
}

/// The module `libraries` for kernel libraries that the program links.
pub(crate) fn libraries(options: &Options) -> Option<TokenStream> {
    let symbols = &options.static_libraries;
    if symbols.is_empty() {
        return None;
    }
    let path = options.runtime_path();
    let functions: Vec<Ident> = (0..symbols.len()).map(|index| format_ident!("library_{index}")).collect();
    Some(quote! {
        #[doc = " Kernel libraries that are linked into the program. The only unsafe code of this module asserts that they follow"]
        #[doc = " the executable library ABI."]
        #[allow(
            unsafe_code,
            clippy::undocumented_unsafe_blocks,
            reason = "the compiler emitted these functions for this module"
        )]
        mod libraries {
            use #path::support;

            unsafe extern "C" {
                #(#[link_name = #symbols]
                fn #functions(
                    version: u32,
                    environment: *const support::LibraryEnvironment,
                ) -> *const *const support::LibraryHeader;)*
            }

            #[doc = " Loads kernels from these libraries."]
            pub const LOADER: support::Loader = support::Loader::of_program(|| {
                let libraries = unsafe { [#(support::StaticLibrary::new(#functions)),*] };
                support::Arc::new(support::StaticLibraryLoader::new(libraries))
            });
        }
    })
}

/// The formats to omit if all executables exist both in the portable format and as machine code for the target.
fn omitted<'f>(formats: &'f BTreeMap<String, Vec<Option<u32>>>, options: &Options) -> BTreeSet<&'f str> {
    let Some(portable) = formats.get(VMVX) else { return BTreeSet::new() };
    let machine_code =
        formats.iter().filter(|row| is_machine_code(row.0) || (options.untrusted && is_unverified(row.0)));
    let machine_code: Vec<(&str, bool)> = machine_code
        .filter(|row| row.1.len() == portable.len())
        .map(|row| (row.0.as_str(), is_native(row.0, options)))
        .collect();
    match options.prefer {
        _ if options.untrusted => machine_code.iter().map(|row| row.0).collect(),
        Prefer::Portable => machine_code.iter().map(|row| row.0).collect(),
        Prefer::Native if machine_code.iter().any(|row| row.1) => BTreeSet::from([VMVX]),
        Prefer::Native => BTreeSet::new(),
    }
}

/// Whether executables of a format are machine code for the target.
fn is_native(format: &str, options: &Options) -> bool {
    options.target.is_of_format(format) || (format == STATIC && !options.static_libraries.is_empty())
}

/// A digest of 128 bits that identifies contents: FNV-1a.
fn digest(bytes: &[u8]) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = (1 << 88) + 0x13b;
    bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use incarnate_bytecode::{Contents, assemble};

    use super::*;

    /// A module that asks its device for formats, and has no kernels.
    #[test]
    fn untrusted_modules_name_no_loader_of_machine_code() {
        let names = ["embedded-elf-x86_64", "system-elf-x86_64", "system-x", VMVX];
        let digits = |name: &str| name.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
        let constants =
            names.iter().enumerate().map(|(index, name)| format!("vm.rodata[{index}] = {}\n", digits(name)));
        let text = format!("vm.module @m\n{}", constants.collect::<String>());
        let module = VerifiedModule::load(Arc::new(Contents::from_vec(assemble(&text).unwrap()))).unwrap();
        let unused = |untrusted: bool| {
            let found = unused(&module, &BTreeMap::new(), &Options { untrusted, ..Options::default() });
            found.into_iter().map(|index| LOADERS[index].0).collect::<Vec<_>>()
        };
        assert_eq!(unused(false), ["EMBEDDED_ELF", "SYSTEM_LIBRARY", "VMVX"]);
        assert_eq!(unused(true), ["VMVX"]);
    }
}
