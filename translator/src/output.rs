//! A translated module: its items in source order, and its constants.

use std::collections::{BTreeMap, BTreeSet};

use incarnate_bytecode::{Error, Result, VerifiedModule, recovered_declarations};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use crate::comments;
use crate::executables::{Plan, libraries};
use crate::function::{self, Analysis, FunctionFacts, LoopRemark, NestFunction, Nests};
use crate::kernel_table::kernel_table;
use crate::kernels::Kernel;
use crate::module::{self, ConstantTable, Surroundings};
use crate::names::{self, code};
use crate::options::{Constants, Options, TargetFeatures};
use crate::{SUPPORT_VERSION, api, incompatible};

/// A translated module.
#[derive(Debug)]
pub struct Output {
    /// The comment at the top of the file, without the slashes.
    #[cfg_attr(not(feature = "files"), allow(dead_code, reason = "tokens have no comments"))]
    pub(crate) header: String,
    /// The public interface.
    pub(crate) interface: Vec<TokenStream>,
    /// The items of the private module `translated`.
    pub(crate) module: Items,
    /// The translated executables, as modules in `translated`.
    pub(crate) executables: Vec<Nested>,
    /// The constants are a file beside the source, which becomes part of the program.
    #[cfg_attr(not(feature = "files"), allow(dead_code, reason = "only files use it"))]
    pub(crate) included: bool,
    constants: Vec<u8>,
    report: Vec<String>,
    loops: Vec<LoopRemark>,
}

/// Items of a module.
#[derive(Debug)]
pub(crate) struct Items {
    /// The tables and constants.
    pub(crate) tables: Vec<TokenStream>,
    /// The items of each function.
    pub(crate) functions: Vec<Vec<TokenStream>>,
}

/// A translated executable.
#[derive(Debug)]
pub(crate) struct Nested {
    pub(crate) ident: Ident,
    pub(crate) doc: String,
    pub(crate) items: Items,
}

/// The most instructions, operands and arguments of edges of a module and its executables that are translated: about 1 GiB of
/// tokens. Modules of compilers have up to 10,000.
const SIZE_LIMIT: usize = 1 << 21;

fn check_size(size: usize) -> Result<()> {
    if size <= SIZE_LIMIT {
        return Ok(());
    }
    Err(Error::resource_exhausted(format!(
        "the module has {size} instructions, operands and arguments of edges; the limit of a translation is {SIZE_LIMIT}"
    )))
}

/// See [`crate::generate`].
pub(crate) fn generate(module: &VerifiedModule, options: &Options) -> Result<Output> {
    if options.no_std {
        incompatible::check_no_std(module, options)?;
    }
    let target_features = TargetFeatures::bits(&options.target_features);
    let mut analysis = Analysis::new(module, names::functions(module), options, false)?;
    analysis.target_features = target_features;
    analysis.recovered = recovered_declarations(module);
    let mut size = analysis.size;
    check_size(size)?;
    let plan = Plan::new(module, &analysis.creations(), options)?;
    let loaded = plan.loaded_formats().filter(|_| !options.own_loaders);
    let other_targets =
        loaded.map(|formats| incompatible::check(module, formats, &options.target)).transpose()?.flatten();
    let mut bytes = Vec::new();
    let used = analysis.used_rodata();
    let table = ConstantTable::new(module, &used, &options.constants, &plan.replaced, &mut bytes);
    let mut nested = Vec::new();
    for (_, executable) in &plan.translated {
        let mut analysis = Analysis::new(executable, names::functions(executable), options, true)?;
        size = size.saturating_add(analysis.size);
        check_size(size)?;
        analysis.target_features = target_features;
        if target_features != 0 {
            inline_kernels(&mut analysis);
        }
        let (used, replaced) = (analysis.used_rodata(), BTreeMap::new());
        let table = ConstantTable::new(executable, &used, &options.constants, &replaced, &mut bytes);
        nested.push((analysis, table));
    }
    let prelude = function::prelude(&options.runtime_path());
    let version = proc_macro2::Literal::u32_unsuffixed(SUPPORT_VERSION);
    let mut tables = vec![prelude.clone(), quote!(const _: () = support::expect_version(#version);)];
    tables.extend(other_targets);
    if let Constants::ModuleFile(file) = &options.constants {
        tables.push(quote!(
            static CONSTANTS: &[u8] = support::include_constants!(#file);
        ));
    }
    let included = options.constants == Constants::Included && !bytes.is_empty();
    let (executables, rows) = emit_executables(&plan, &nested, &prelude, options, !bytes.is_empty())?;
    let surroundings = Surroundings {
        constants: constants(options, !bytes.is_empty(), &quote!(CONSTANTS)),
        executables: match rows.is_empty() {
            true => quote!(support::Executables::NONE),
            false => quote!(support::Executables::new(&[#(#rows),*])),
        },
        loaders: plan.loaders(options),
        kernels: BTreeSet::new(),
    };
    tables.extend(module::items(&analysis, &table, &surroundings)?);
    tables.extend(libraries(options));
    Ok(Output {
        header: format!(
            "@generated by incarnate-translator {} from module {}. Do not edit.",
            env!("CARGO_PKG_VERSION"),
            code(&format!("@{}", module.name()))
        ),
        interface: api::items(&analysis, options),
        module: items(&analysis, tables)?.0,
        executables,
        included,
        constants: bytes,
        report: plan.report,
        loops: core::iter::once(&analysis)
            .chain(nested.iter().map(|nested| &nested.0))
            .flat_map(Analysis::loops)
            .collect(),
    })
}

/// The expression of the constants of a module, where the static of that name contains those of the program.
fn constants(options: &Options, any: bool, statics: &TokenStream) -> TokenStream {
    match &options.constants {
        Constants::Loaded(file) if any => quote!(support::Constants::file(#file)),
        Constants::ModuleFile(_) => quote!(support::Constants::Static(#statics)),
        Constants::Included if any => quote!(support::Constants::Static(#statics)),
        _ => quote!(support::Constants::Static(&[])),
    }
}

/// The modules of the translated executables, and the rows of their table.
fn emit_executables(
    plan: &Plan,
    nested: &[(Analysis<'_>, ConstantTable)],
    prelude: &TokenStream,
    options: &Options,
    any_constants: bool,
) -> Result<(Vec<Nested>, Vec<TokenStream>)> {
    let target_features = TargetFeatures::bits(&options.target_features);
    let (mut executables, mut nests) = (Vec::new(), Nests::default());
    let mut rows = Vec::new();
    for (index, ((held, _), (analysis, table))) in plan.translated.iter().zip(nested).enumerate() {
        let ident = format_ident!("executable_{index}");
        rows.extend(held.iter().map(|rodata| {
            let rodata = proc_macro2::Literal::u32_unsuffixed(*rodata);
            quote!(support::Executable { rodata: #rodata, module: &#ident::MODULE, kernels: #ident::KERNELS })
        }));
        let ordinals = held.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        let doc = format!(" The executable in constant {ordinals}, {}.", code(&format!("@{}", analysis.module.name())));
        let constants = constants(options, any_constants, &quote!(super::CONSTANTS));
        let (items, found) = executable_items(analysis, table, constants, prelude.clone(), target_features)?;
        found.into_iter().for_each(|nest| nests.add(index, nest));
        executables.push(Nested { ident, doc, items });
    }
    share(nests, prelude, &mut executables);
    Ok((executables, rows))
}

/// The items of an executable's module.
fn executable_items(
    analysis: &Analysis<'_>,
    table: &ConstantTable,
    constants: TokenStream,
    prelude: TokenStream,
    target_features: u8,
) -> Result<(Items, Vec<NestFunction>)> {
    let kernels: Vec<(u32, &FunctionFacts, &Kernel)> = kernels_of(analysis).collect();
    let surroundings = Surroundings {
        constants,
        executables: quote!(support::Executables::NONE),
        loaders: quote!(&[]),
        kernels: kernels.iter().map(|kernel| kernel.0).collect(),
    };
    let mut own = vec![prelude];
    own.extend(module::items(analysis, table, &surroundings)?);
    own.push(kernel_table(&kernels, target_features));
    items(analysis, own)
}

/// Emits the nests of all executables in a module of their own, and completes their calls.
fn share(nests: Nests, prelude: &TokenStream, executables: &mut Vec<Nested>) {
    let shared = nests.finish();
    if shared.functions.is_empty() {
        return;
    }
    for (index, executable) in executables.iter_mut().enumerate() {
        executable.items.tables.insert(
            1,
            quote!(
                use super::nests;
            ),
        );
        for item in executable.items.functions.iter_mut().flatten() {
            *item = shared.complete(index, core::mem::take(item));
        }
    }
    let functions = shared.functions.into_iter().map(|function| vec![function]).collect();
    let items = Items { tables: vec![prelude.clone()], functions };
    let doc = String::from(" Nests of kernels.");
    executables.push(Nested { ident: format_ident!("nests"), doc, items });
}

/// The items of a module, its tables and its functions, and the nests of the functions.
fn items(analysis: &Analysis<'_>, mut tables: Vec<TokenStream>) -> Result<(Items, Vec<NestFunction>)> {
    let types = analysis.type_items();
    if !types.is_empty() {
        tables.push(types);
    }
    let (mut functions, mut nests) = (Vec::new(), Vec::new());
    for ordinal in 0..analysis.module.function_count() {
        let emitted = function::emit(analysis, ordinal)?;
        functions.push(emitted.items);
        nests.extend(emitted.nests);
    }
    Ok((Items { tables, functions }, nests))
}

/// Marks kernels with loops outside of nests to be inlined into their multiversioned callers.
fn inline_kernels(analysis: &mut Analysis<'_>) {
    let functions = analysis.module.exports().map(|export| export.function);
    let functions: Vec<u32> = functions.filter(|function| analysis.has_other_loops(*function)).collect();
    for function in functions {
        if let Some(facts) = analysis.functions.get_mut(function as usize).filter(|facts| facts.kernel.is_some()) {
            facts.is_inlined = !facts.yields();
        }
    }
}

/// An executable's kernels: the ordinal of the export, the facts, and how it is called.
fn kernels_of<'a>(analysis: &'a Analysis<'_>) -> impl Iterator<Item = (u32, &'a FunctionFacts, &'a Kernel)> {
    analysis.module.exports().zip(0u32..).filter_map(|(export, ordinal)| {
        let facts = analysis.functions.get(export.function as usize)?;
        Some((ordinal, facts, facts.kernel.as_ref()?))
    })
}

/// The lints that generated code triggers: programs do not call all functions, and the rest stems from the bytecode.
pub(crate) fn allowed() -> TokenStream {
    let functions = function::attributes();
    quote!(#[allow(dead_code, unreachable_pub, unused_imports, reason = "programs use parts of it")] #functions)
}

impl Output {
    /// The bytes of the file of constants, which is beside the source or loaded by the program.
    #[must_use]
    pub fn constants(&self) -> &[u8] {
        &self.constants
    }

    /// How the module's executables are provided: a line for each format.
    #[must_use]
    pub fn report(&self) -> &[String] {
        &self.report
    }

    /// The remarks about the loops of the module's functions and of its translated executables.
    #[must_use]
    pub fn loops(&self) -> &[LoopRemark] {
        &self.loops
    }

    /// The items of the Rust module as tokens, for modules without a file of constants beside the source.
    #[must_use]
    pub fn tokens(&self) -> TokenStream {
        let Output { interface, module: Items { tables, functions }, executables, .. } = self;
        let (functions, allowed) = (functions.iter().flatten(), allowed());
        let executables = executables.iter().map(|Nested { ident, doc, items: Items { tables, functions } }| {
            let functions = functions.iter().flatten();
            quote! {
                #[doc = #doc]
                mod #ident {
                    #(#tables)*
                    #(#functions)*
                }
            }
        });
        comments::strip(quote! {
            #(#interface)*
            #allowed
            mod translated {
                #(#tables)*
                #(#functions)*
                #(#executables)*
            }
        })
    }
}
