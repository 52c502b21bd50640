//! The typed API of a translated module: `Module` with a method for each exported function, structs of results, and
//! `module()`.

mod docs;
mod element;
mod method;
mod object;
mod signature;

use std::collections::HashSet;

use incarnate_bytecode::VerifiedModule;
use incarnate_bytecode::imports::PROVIDED;
use proc_macro2::{TokenStream, TokenTree};
use quote::{format_ident, quote};

use crate::function::Analysis;
use crate::names::{Scope, code};
use crate::options::Options;
use method::{method, results_struct};
use signature::Signature;

/// Methods of `Module` that every module has.
const METHODS: &[&str] = &["load", "load_with", "session", "instance"];
/// The items of `support` that methods may use; no generated type has one of these names.
const SUPPORT: &[&str] = &[
    "Arc",
    "BF16",
    "BufferView",
    "Device",
    "F16",
    "F8E4M3FN",
    "F8E4M3FNUZ",
    "F8E5M2",
    "F8E5M2FNUZ",
    "F8E8M0FNU",
    "InlineNative",
    "Instance",
    "IntoInput",
    "BorrowedRef",
    "Limits",
    "Ref",
    "Result",
    "Session",
    "SessionBuilder",
    "Tensor",
    "TranslatedModule",
    "Value",
    "natives",
    "next_result",
];
/// Further reserved names of types.
const TYPES: &[&str] = &["Module", "Option", "Some", "None", "Ok", "Err", "Vec", "Into", "Self"];

/// The text of a doc comment.
fn doc(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(" {text}") }
}

/// The items.
pub(crate) fn items(analysis: &Analysis<'_>, options: &Options) -> Vec<TokenStream> {
    let mut methods = Scope::with(METHODS.iter().copied());
    let mut types = Scope::with(TYPES.iter().chain(SUPPORT).copied());
    let signatures = Signature::all(analysis.module, &analysis.recovered, options, &mut methods, &mut types);
    let path = options.runtime_path();
    let mut items = Vec::new();
    items.push(module_struct(analysis.module, options));
    for signature in &signatures {
        items.extend(results_struct(signature, options));
    }
    items.push(implementation(analysis, &signatures, options));
    let doc = doc(&format!(
        "Returns the module {} for `{}`.",
        code(&format!("@{}", analysis.module.name())),
        if options.no_std { "Session::inline" } else { "SessionBuilder::module" }
    ));
    items.push(quote! {
        #[doc = #doc]
        #[allow(dead_code, unreachable_pub, reason = "programs use parts of it")]
        #[must_use]
        pub fn module() -> Arc<TranslatedModule> {
            TranslatedModule::new(&translated::MODULE)
        }
    });
    let mut used = HashSet::new();
    items.iter().for_each(|item: &TokenStream| identifiers(item.clone(), &mut used));
    let imports = SUPPORT.iter().filter(|name| used.contains(**name)).map(|name| format_ident!("{name}"));
    items.insert(0, quote!(use #path::support::{#(#imports),*};));
    items
}

fn identifiers(tokens: TokenStream, found: &mut HashSet<String>) {
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => drop(found.insert(ident.to_string())),
            TokenTree::Group(group) => identifiers(group.stream(), found),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

/// The attributes that the user adds to a type.
fn attributes<'a>(options: &'a Options, name: &'a str) -> impl Iterator<Item = &'a TokenStream> {
    let wanted = options.type_attributes.iter().filter(move |row| row.0 == name || row.0 == ".");
    wanted.map(|row| &row.1)
}

fn module_struct(module: &VerifiedModule, options: &Options) -> TokenStream {
    let doc =
        doc(&format!("The module {} with its state. Clones share the state.", code(&format!("@{}", module.name()))));
    let attributes = attributes(options, "Module");
    quote! {
        #[doc = #doc]
        #[derive(Clone, Debug)]
        #[allow(unreachable_pub, reason = "the enclosing module may be private")]
        #(#attributes)*
        pub struct Module {
            instance: Instance,
        }
    }
}

/// The native modules that a module imports from.
fn natives(analysis: &Analysis<'_>) -> Vec<TokenStream> {
    let module = analysis.module;
    let declared = module.dependencies().map(|dependency| dependency.name);
    let imported = module.imports().filter_map(|import| import.full_name.split_once('.')).map(|(module, _)| module);
    let needed: HashSet<&str> = declared.chain(imported).collect();
    let provided = PROVIDED.iter().filter(|row| needed.contains(row.0));
    let paths = provided.map(|(name, constant)| {
        let constant = format_ident!("{constant}");
        let imports = module.imports().zip(0..).filter(|(import, _)| import.full_name.split('.').next() == Some(name));
        match imports.into_iter().all(|(_, ordinal)| analysis.is_direct(ordinal)) {
            true => quote!(natives::direct::#constant),
            false => quote!(natives::#constant),
        }
    });
    paths.collect()
}

fn implementation(analysis: &Analysis<'_>, signatures: &[Signature<'_>], options: &Options) -> TokenStream {
    let methods = signatures.iter().map(|signature| method(signature, analysis, options));
    let load = if options.no_std { load_inline(analysis, options) } else { load(analysis, options) };
    quote! {
        #[allow(
            dead_code,
            unreachable_pub,
            clippy::inherent_to_string,
            clippy::len_without_is_empty,
            clippy::new_ret_no_self,
            clippy::should_implement_trait,
            clippy::too_many_arguments,
            clippy::type_complexity,
            clippy::wrong_self_convention,
            reason = "names and signatures are the module's, and programs use parts of them"
        )]
        impl Module {
            #load

            /// Returns the session.
            #[must_use]
            pub fn session(&self) -> &Session {
                self.instance.session()
            }

            #(#methods)*
        }
    }
}

/// The methods that load the module.
fn load(analysis: &Analysis<'_>, options: &Options) -> TokenStream {
    let natives = natives(analysis);
    let untrusted = options.untrusted.then(|| quote!(.untrusted()));
    quote! {
        /// Creates the module's state on a device and runs its initialisers.
        ///
        /// # Errors
        /// Errors of linking the module and of its initialisers.
        pub fn load(device: &Arc<Device>) -> Result<Module> {
            let builder = SessionBuilder::with_natives(&[#(#natives),*]);
            Module::load_with(builder.shared_device(device.clone()))
        }

        /// Adds the module to a session after the modules of the builder, and builds it.
        ///
        /// # Errors
        /// Those of [`Module::load`].
        pub fn load_with(builder: SessionBuilder) -> Result<Module> {
            Ok(Module { instance: Instance::new(builder #untrusted, &translated::MODULE)? })
        }
    }
}

/// The methods that load the module in a program without `std`.
fn load_inline(analysis: &Analysis<'_>, options: &Options) -> TokenStream {
    let limits = if options.untrusted { quote!(Limits::portable()) } else { quote!(Limits::default()) };
    let imports = analysis.module.imports().count() as u32;
    let natives = match (imports, (0..imports).all(|ordinal| analysis.is_direct(ordinal))) {
        (0, _) => None,
        (_, true) => Some(quote!(InlineNative::DIRECT)),
        (_, false) => Some(quote!(InlineNative::PACKED)),
    };
    quote! {
        /// Creates the module's state in memory of the global allocator and runs its initialisers.
        ///
        /// # Errors
        /// Errors of linking the module and of its initialisers.
        pub fn load() -> Result<Module> {
            Module::load_with(#limits)
        }

        /// Loads the module with limits for its calls.
        ///
        /// # Errors
        /// Those of [`Module::load`].
        pub fn load_with(limits: Limits) -> Result<Module> {
            Ok(Module { instance: Instance::inline(&translated::MODULE, &[#natives], limits)? })
        }
    }
}
