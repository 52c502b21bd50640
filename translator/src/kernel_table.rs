//! The table of an executable's kernels, and the closures by which dispatches call them.

use incarnate_bytecode::ir::Type;
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{ToTokens, format_ident, quote};

use crate::function::FunctionFacts;
use crate::kernels::{ARGUMENT_NAMES, Kernel, REFERENCES, WORKGROUPS, binding_name};
use crate::module;

/// The table of an executable's kernels.
pub(crate) fn kernel_table(kernels: &[(u32, &FunctionFacts, &Kernel)], target_features: u8) -> TokenStream {
    let target_features = Literal::u8_unsuffixed(target_features);
    let mut multiversioned = Vec::new();
    let rows = kernels.iter().map(|(ordinal, facts, kernel)| {
        let (operands, call) = (kernel.operands(), kernel.closure(facts));
        let parameter = |name: &str, used: bool| if used { format_ident!("{name}") } else { format_ident!("_{name}") };
        let (state, stack) = (parameter("state", facts.needs_state), parameter("stack", facts.needs_stack));
        let ordinal = Literal::u32_unsuffixed(*ordinal);
        let takes_references = kernel.takes_references;
        let only_read = Literal::u64_unsuffixed(kernel.only_read);
        let coarsening = kernel.coarsening();
        let row = |function: TokenStream| {
            quote! {
                support::ExportedKernel {
                    export: #ordinal,
                    function: #function,
                    takes_references: #takes_references,
                    read_only_bindings: #only_read,
                    coarsening: #coarsening,
                }
            }
        };
        if !facts.is_inlined {
            return row(quote!(|#state, #stack, workgroups| { #operands workgroups.run(&mut #call) }));
        }
        let name = format_ident!("Kernel{}", multiversioned.len());
        let doc = format!(" [`{}`].", facts.ident);
        // The closure must be inlined into each variant, too.
        multiversioned.push(quote! {
            #[doc = #doc]
            struct #name;
            impl support::MultiversionedKernel for #name {
                #[inline(always)]
                fn run<const LANES: usize>(
                    #state: &State,
                    #stack: &mut Stack,
                    workgroups: &mut support::Workgroups<'_>,
                ) -> Result<()> {
                    #operands
                    workgroups.run_inlined(#[inline(always)] #call)
                }
            }
        });
        row(quote!(support::multiversioned_kernel::<#target_features, #name>))
    });
    let rows: Vec<TokenStream> = rows.collect();
    quote! {
        #[doc = " The exports that are kernels."]
        pub static KERNELS: &[support::ExportedKernel] = &[#(#rows),*];
        #(#multiversioned)*
    }
}

impl Kernel {
    /// The workgroups that a call may run, for the table of kernels.
    fn coarsening(&self) -> TokenStream {
        if self.coarsening == 1 {
            return quote!(support::Coarsening::NONE);
        }
        let most = Literal::u32_unsuffixed(self.coarsening);
        let alike = match self.alike {
            u32::MAX => quote!(u32::MAX),
            alike => Literal::u32_unsuffixed(alike).into_token_stream(),
        };
        quote!(support::Coarsening { most: #most, alike: #alike })
    }

    /// Takes the operands of a dispatch that all its workgroups share, as variables of their names.
    fn operands(&self) -> TokenStream {
        let [local_memory, constants, list] = [0, 1, 2].map(|index| format_ident!("{}", ARGUMENT_NAMES[index]));
        let Some(ordinals) = &self.bindings else {
            return quote! {
                let (#local_memory, #constants, _) = workgroups.references()?;
                let #list = &workgroups.list()?;
            };
        };
        let names = ordinals.iter().map(|ordinal| format_ident!("{}", binding_name(ordinal)));
        let ordinals = ordinals.iter().map(|ordinal| Literal::u32_unsuffixed(*ordinal));
        if self.takes_references {
            return quote! {
                let (#local_memory, #constants, #list) = workgroups.references()?;
                #(let #names = support::binding(#list, #ordinals)?;)*
            };
        }
        quote! {
            let #local_memory = &workgroups.local_memory();
            let #constants = &workgroups.constants();
            #(let #names = &workgroups.binding(#ordinals)?;)*
        }
    }

    /// The closure by which the workgroups of a dispatch call the kernel, which is a function of the translated module.
    fn closure(&self, facts: &FunctionFacts) -> TokenStream {
        let inputs: Vec<Ident> = self.argument_names().iter().map(|name| format_ident!("{name}")).collect();
        // The dispatch owns the references; each workgroup borrows them.
        let passed = inputs.iter().zip(&facts.arguments).enumerate();
        let passed = passed.map(|(index, (input, ty))| match *ty == Type::Ref && !facts.is_borrowed(index) {
            true => quote!(#input.clone()),
            false => quote!(#input),
        });
        let call = module::call(facts, &passed.collect::<Vec<TokenStream>>());
        let call = if facts.yields() { quote!(#call?.of_kernel()) } else { call };
        let named = ARGUMENT_NAMES.map(|name| format_ident!("{name}"));
        let (_, numbers) = named.split_at(REFERENCES);
        let count = if self.coarsening > 1 { format_ident!("{WORKGROUPS}") } else { format_ident!("_{WORKGROUPS}") };
        quote!(|[#(#numbers),*], #count| #call)
    }
}
