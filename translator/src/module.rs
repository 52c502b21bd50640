//! The items around a module's functions: the tables that describe it, and the entry points of packed calls.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use incarnate_bytecode::Result;
use incarnate_bytecode::executable_format::is_machine_code;
use incarnate_bytecode::ir::Type;
use incarnate_bytecode::{ExecutableTarget, VerifiedModule};
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};

use crate::function::{Analysis, FunctionFacts, type_of};
use crate::options::Constants;

/// The largest tuple that `support` implements its traits for.
const TUPLE_LIMIT: usize = 16;
/// The alignment of constants in bytes.
const ALIGNMENT: usize = incarnate_bytecode::SEGMENT_ALIGNMENT;

/// The locations of the constants that functions use.
#[derive(Debug, Default)]
pub(crate) struct ConstantTable {
    /// Offset and length in bytes, by ordinal.
    ranges: Vec<(usize, usize)>,
}

impl ConstantTable {
    /// Appends the used constants to `bytes`, unless they stay in the module's file. `replaced` overrides contents.
    pub(crate) fn new(
        module: &VerifiedModule,
        used: &[u32],
        constants: &Constants,
        replaced: &BTreeMap<u32, Vec<u8>>,
        bytes: &mut Vec<u8>,
    ) -> ConstantTable {
        let mut table = ConstantTable { ranges: vec![(0, 0); module.rodata_count() as usize] };
        for &ordinal in used {
            let Some(slot) = table.ranges.get_mut(ordinal as usize) else { continue };
            if matches!(constants, Constants::ModuleFile(_)) {
                *slot = module.rodata(ordinal).map_or((0, 0), |(_, range)| (range.start, range.len()));
                continue;
            }
            let replacement = replaced.get(&ordinal).map(|own| Cow::Borrowed(own.as_slice()));
            if let Some(own) = replacement.or_else(|| module.rodata_bytes(ordinal)) {
                bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
                *slot = (bytes.len(), own.len());
                bytes.extend_from_slice(&own);
            }
        }
        table
    }

    fn ranges(&self) -> TokenStream {
        let rows = self.ranges.iter().map(|&(offset, length)| {
            let (offset, length) = (Literal::usize_unsuffixed(offset), Literal::usize_unsuffixed(length));
            quote!((#offset, #length))
        });
        quote!(&[#(#rows),*])
    }
}

/// Expressions of a module's description that refer to other items.
#[derive(Debug)]
pub(crate) struct Surroundings {
    /// The bytes that hold the constants.
    pub(crate) constants: TokenStream,
    /// The translated executables.
    pub(crate) executables: TokenStream,
    /// The loaders of other executables.
    pub(crate) loaders: TokenStream,
    /// Exports that are called only as kernels, without packed calls.
    pub(crate) kernels: BTreeSet<u32>,
}

/// The static `MODULE`, and the functions `call` and `resume` that it names.
pub(crate) fn items(
    analysis: &Analysis<'_>,
    table: &ConstantTable,
    surroundings: &Surroundings,
) -> Result<Vec<TokenStream>> {
    let Surroundings { constants, executables, loaders, kernels } = surroundings;
    let module = analysis.module;
    let mut sources = Sources::default();
    let functions: Vec<TokenStream> =
        (0..module.function_count()).map(|ordinal| function_row(module, ordinal, &mut sources)).collect();
    let sources = sources.texts.iter();
    let attributes = pairs(module.attributes());
    let dependencies = module.dependencies().map(|dependency| {
        let (name, version, optional) = (dependency.name, dependency.minimum_version, dependency.optional);
        let version = Literal::u32_unsuffixed(version);
        quote!(support::Dependency { name: #name, minimum_version: #version, optional: #optional })
    });
    let imports = module.imports().zip(0u32..).map(|(import, ordinal)| {
        let (name, optional, direct) = (import.full_name, import.optional, analysis.is_direct(ordinal));
        let convention = analysis.import_convention(ordinal).unwrap_or(import.calling_convention_text);
        quote!(support::ImportedFunction { name: #name, convention: #convention, optional: #optional, direct: #direct })
    });
    let exports = module.exports().map(|export| {
        let (name, function) = (export.local_name, Literal::u32_unsuffixed(export.function));
        let recovered = analysis.recovered.get(export.function).map_or("", String::as_str);
        quote!(support::Export { name: #name, function: #function, recovered: #recovered })
    });
    let targets = module.executable_targets().into_iter().filter(|target| is_machine_code(target.format));
    let targets = targets.map(|target| {
        let ExecutableTarget { backend, format, cpu, features } = target;
        quote!(support::ExecutableTarget { backend: #backend, format: #format, cpu: #cpu, features: #features })
    });
    let (name, version) = (module.name(), Literal::u32_unsuffixed(module.version()));
    let global_bytes = Literal::u32_unsuffixed(module.global_bytes());
    let global_refs = Literal::u32_unsuffixed(module.global_ref_count());
    let ranges = table.ranges();
    Ok(vec![
        quote! {
            pub static MODULE: support::Description = support::Description {
                name: #name,
                version: #version,
                attributes: #attributes,
                dependencies: &[#(#dependencies),*],
                imports: &[#(#imports),*],
                exports: &[#(#exports),*],
                functions: &[#(#functions),*],
                sources: &[#(#sources),*],
                global_bytes: #global_bytes,
                global_refs: #global_refs,
                targets: &[#(#targets),*],
                loaders: #loaders,
                executables: #executables,
                constants: #constants,
                rodata: #ranges,
                call,
                resume,
            };
        },
        entry_point("call", "Calls an export by its ordinal.", analysis, |export, facts| {
            (!kernels.contains(&export)).then(|| call_arm(facts))?
        }),
        entry_point("resume", "Resumes an export that yielded.", analysis, |_, facts| resume_arm(facts)),
    ])
}

/// Interned source locations.
#[derive(Default)]
struct Sources {
    texts: Vec<String>,
    indices: BTreeMap<String, u32>,
    /// The bytes of all texts.
    length: usize,
}

/// The bytes of source locations that a translated module has at most; later functions have none. Short tables of a debug
/// database can describe long locations.
const SOURCES_LENGTH: usize = 16 << 20;

impl Sources {
    fn index(&mut self, text: String) -> Option<u32> {
        if let Some(index) = self.indices.get(&text) {
            return Some(*index);
        }
        self.length = self.length.saturating_add(text.len());
        if self.length > SOURCES_LENGTH {
            return None;
        }
        let index = self.texts.len() as u32;
        self.texts.push(text.clone());
        self.indices.insert(text, index);
        Some(index)
    }
}

fn pairs<'a>(rows: impl Iterator<Item = (&'a str, &'a str)>) -> TokenStream {
    let rows = rows.map(|(key, value)| quote!((#key, #value)));
    quote!(&[#(#rows),*])
}

fn function_row(module: &VerifiedModule, ordinal: u32, sources: &mut Sources) -> TokenStream {
    let export = module.export_of(ordinal).map(|export| export.local_name);
    let name = export.or_else(|| module.function_debug_name(ordinal)).unwrap_or_default();
    let convention = module.function(ordinal).and_then(|view| view.calling_convention).unwrap_or_default();
    let attributes = pairs(module.function_attributes(ordinal));
    let mut locations: Vec<(u32, u32)> = Vec::new();
    if module.has_source_locations() {
        for instruction in module.instructions(ordinal) {
            let offset = instruction.offset;
            let Some(text) = module.source_location(ordinal, offset) else { continue };
            let Some(index) = sources.index(text) else { break };
            if locations.last().is_none_or(|last| last.1 != index) {
                locations.push((offset, index));
            }
        }
    }
    let locations = locations.into_iter().map(|(offset, index)| {
        let (offset, index) = (Literal::u32_unsuffixed(offset), Literal::u32_unsuffixed(index));
        quote!((#offset, #index))
    });
    quote!(support::Function { name: #name, convention: #convention, attributes: #attributes, locations: &[#(#locations),*] })
}

/// An entry point that dispatches on an export's ordinal.
fn entry_point(
    name: &str,
    doc: &str,
    analysis: &Analysis<'_>,
    arm: impl Fn(u32, &FunctionFacts) -> Option<(TokenStream, Uses)>,
) -> TokenStream {
    let mut uses = Uses::default();
    let mut arms = Vec::new();
    for (export, ordinal) in analysis.module.exports().zip(0u32..) {
        let Some(facts) = analysis.functions.get(export.function as usize) else { continue };
        let Some((body, used)) = arm(ordinal, facts) else { continue };
        uses =
            Uses { state: uses.state | used.state, stack: uses.stack | used.stack, buffer: uses.buffer | used.buffer };
        let ordinal = Literal::u32_unsuffixed(ordinal);
        arms.push(quote!(#ordinal => #body));
    }
    let parameter = |name: &str, used: bool| if used { format_ident!("{name}") } else { format_ident!("_{name}") };
    let name = format_ident!("{name}");
    let (state, stack) = (parameter("state", uses.state), parameter("stack", uses.stack));
    let buffer = parameter("buffer", uses.buffer);
    let body = match arms.is_empty() {
        true => quote!(Err(support::no_export(&MODULE, export))),
        false => quote!(match export { #(#arms)* other => Err(support::no_export(&MODULE, other)), }),
    };
    let doc = format!(" {doc}");
    quote! {
        #[doc = #doc]
        fn #name(#state: &State, export: u32, #stack: &mut Stack, #buffer: &mut support::CallBuffer) -> Result<support::Completion> {
            #body
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Uses {
    state: bool,
    stack: bool,
    buffer: bool,
}

fn call_arm(facts: &FunctionFacts) -> Option<(TokenStream, Uses)> {
    let values: Vec<Ident> = (0..facts.arguments.len()).map(|index| format_ident!("input{index}")).collect();
    let take = (!values.is_empty()).then(|| {
        let (pattern, ty) = (nested(&values), nested_types(&facts.arguments));
        quote!(let #pattern: #ty = support::arguments(buffer)?;)
    });
    let passed: Vec<TokenStream> = values
        .iter()
        .enumerate()
        .map(|(index, value)| if facts.is_borrowed(index) { quote!(&#value) } else { quote!(#value) })
        .collect();
    let call = call(facts, &passed);
    let convert = match (facts.yields(), facts.results.len()) {
        (true, count) if count <= TUPLE_LIMIT => quote!(Ok(support::step(buffer, #call?))),
        (false, count) if count <= TUPLE_LIMIT => quote!(Ok(support::results(buffer, #call?))),
        (yields, count) => {
            let outputs: Vec<Ident> = (0..count).map(|index| format_ident!("output{index}")).collect();
            let nested = nested(&outputs);
            match yields {
                true => quote! {
                    match #call? {
                        Step::Done((#(#outputs),*)) => Ok(support::results(buffer, #nested)),
                        Step::Yielded => Ok(support::Completion::Yielded),
                    }
                },
                false => quote! {
                    let (#(#outputs),*) = #call?;
                    Ok(support::results(buffer, #nested))
                },
            }
        }
    };
    let uses = Uses { state: facts.needs_state, stack: facts.needs_stack, buffer: true };
    Some((quote!({ #take #convert }), uses))
}

fn resume_arm(facts: &FunctionFacts) -> Option<(TokenStream, Uses)> {
    let resume = facts.resume.as_ref()?;
    let count = facts.results.len();
    let body = match count <= TUPLE_LIMIT {
        true => quote!(Ok(support::step(buffer, #resume(state, stack)?)),),
        false => {
            let outputs: Vec<Ident> = (0..count).map(|index| format_ident!("output{index}")).collect();
            let nested = nested(&outputs);
            quote! {
                match #resume(state, stack)? {
                    Step::Done((#(#outputs),*)) => Ok(support::results(buffer, #nested)),
                    Step::Yielded => Ok(support::Completion::Yielded),
                }
            }
        }
    };
    Some((body, Uses { state: true, stack: true, buffer: true }))
}

/// The call of a function with the given arguments.
pub(crate) fn call(facts: &FunctionFacts, values: &[TokenStream]) -> TokenStream {
    let state = facts.needs_state.then(|| quote!(state,));
    let stack = facts.needs_stack.then(|| quote!(stack,));
    let function = &facts.ident;
    let generics = facts.is_inlined.then(|| quote!(::<LANES>));
    quote!(#function #generics(#state #stack #(#values),*))
}

/// Values as a tuple, or as a tuple of tuples beyond [`TUPLE_LIMIT`].
fn nested(values: &[Ident]) -> TokenStream {
    if values.len() <= TUPLE_LIMIT {
        return quote!((#(#values,)*));
    }
    let chunks = values.chunks(values.len().div_ceil(TUPLE_LIMIT).max(TUPLE_LIMIT)).map(nested);
    quote!((#(#chunks,)*))
}

fn nested_types(types: &[Type]) -> TokenStream {
    if types.len() <= TUPLE_LIMIT {
        let types = types.iter().map(|ty| type_of(*ty));
        return quote!((#(#types,)*));
    }
    let chunks = types.chunks(types.len().div_ceil(TUPLE_LIMIT).max(TUPLE_LIMIT)).map(nested_types);
    quote!((#(#chunks,)*))
}
