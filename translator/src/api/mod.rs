//! What users of a translated module see: `Module` with a method for each exported function, structs of results, and
//! `module()`.

mod element;
mod method;
mod signature;

use incarnate_runtime::bytecode::VerifiedModule;
use proc_macro2::TokenStream;
use quote::quote;

use crate::function::Analysis;
use crate::names::{Scope, code};
use crate::options::Options;
use method::{method, results_struct};
use signature::Signature;

/// Methods of `Module` that every module has.
const METHODS: &[&str] = &["load", "load_with", "session", "instance"];
/// Types that stand beside the structs of results.
const TYPES: &[&str] = &[
    "Arc", "BF16", "BufferView", "Device", "F8E4M3FN", "F8E4M3FNUZ", "F8E5M2", "F8E5M2FNUZ", "F8E8M0FNU", "F16", "I1", "Input",
    "Instance", "Module", "Option", "Ref", "Result", "Session", "SessionBuilder", "Some", "None", "Ok", "Err", "Tensor",
    "TranslatedModule", "Value", "Vec", "Into", "Self",
];

/// The items.
pub(crate) fn items(analysis: &Analysis<'_>, options: &Options) -> Vec<TokenStream> {
    let mut methods = Scope::with(METHODS.iter().copied());
    let mut types = Scope::with(TYPES.iter().copied());
    let signatures = Signature::all(analysis.module, &mut methods, &mut types);
    let path = &options.crate_path;
    let mut items = vec![quote! {
        #[allow(unused_imports)]
        use #path::runtime::support::{
            Arc, BF16, BufferView, Device, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0FNU, F16, I1, Input, Instance, Ref,
            Result, Session, SessionBuilder, Tensor, TranslatedModule, Value, next_result,
        };
    }];
    items.push(module_struct(analysis.module, options));
    for signature in &signatures {
        items.extend(results_struct(signature, options));
    }
    items.push(implementation(analysis, &signatures));
    let doc = format!(
        "The module {}, to be part of a session: see `SessionBuilder::module`.",
        code(&format!("@{}", analysis.module.name()))
    );
    items.push(quote! {
        #[doc = #doc]
        #[allow(dead_code)]
        #[must_use]
        pub fn module() -> Arc<TranslatedModule> {
            TranslatedModule::new(&translated::MODULE)
        }
    });
    items
}

/// The attributes that the user wants of a type.
fn attributes<'a>(options: &'a Options, name: &'a str) -> impl Iterator<Item = &'a TokenStream> {
    let wanted = options.type_attributes.iter().filter(move |row| row.0 == name || row.0 == ".");
    wanted.map(|row| &row.1)
}

fn module_struct(module: &VerifiedModule, options: &Options) -> TokenStream {
    let doc = format!("The module {} with its state. Clones share everything.", code(&format!("@{}", module.name())));
    let attributes = attributes(options, "Module");
    quote! {
        #[doc = #doc]
        #[derive(Clone, Debug)]
        #(#attributes)*
        pub struct Module {
            instance: Instance,
        }
    }
}

fn implementation(analysis: &Analysis<'_>, signatures: &[Signature<'_>]) -> TokenStream {
    let methods = signatures.iter().map(|signature| method(signature, analysis));
    quote! {
        // Names of methods are the module's, and nobody calls all of them.
        #[allow(dead_code, clippy::all)]
        impl Module {
            /// Makes the module's state on a device and runs its initialisers.
            ///
            /// # Errors
            /// What the module needs and cannot have, and what an initialiser fails with.
            pub fn load(device: &Arc<Device>) -> Result<Module> {
                Module::load_with(Session::builder().shared_device(device.clone()))
            }

            /// Makes the module part of a session, as the last one, with what else the builder has: modules that it imports
            /// from, limits.
            ///
            /// # Errors
            /// As above.
            pub fn load_with(builder: SessionBuilder) -> Result<Module> {
                Ok(Module { instance: Instance::new(builder, &translated::MODULE)? })
            }

            /// The session.
            #[must_use]
            pub fn session(&self) -> &Session {
                self.instance.session()
            }

            #(#methods)*
        }
    }
}
