//! Functions that yield: what they save when a call is suspended, and how they resume.

use incarnate_bytecode::ir::{Terminator, Type};
use incarnate_bytecode::{Error, Result};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use super::calls::Form;
use super::emitter::Emitter;
use super::items::Unit;
use super::multiversion::Parameter;
use super::tree::Sequence;
use super::values::{literal, type_of};

impl Unit<'_, '_> {
    /// Emits a function that yields as three: one that starts it, one that resumes it, and the body that both call.
    pub(super) fn resumable(
        &self,
        lints: &TokenStream,
        results: &TokenStream,
        parameters: &[Parameter],
        body: &TokenStream,
        items: &mut Vec<TokenStream>,
    ) -> Result<()> {
        let (function, facts, saved) = (self.body.function, self.facts, self.saved());
        let (name, docs) = (&facts.ident, facts.docs.iter().map(|line| format!(" {line}")));
        let run = super::fresh(&self.analysis.taken, &format!("{}_run", super::stem(name)));
        let resume =
            facts.resume.as_ref().ok_or_else(|| Error::internal("a function that yields has no resume function"))?;
        let passed = parameters.iter().map(|parameter| &parameter.name);
        let plain = parameters.iter().map(Parameter::unchanged);
        let declared = parameters.iter().map(Parameter::declaration);
        let zeros = parameters.iter().zip(function.arguments()).map(|(parameter, value)| {
            let (borrow, zero) = (parameter.borrow(), literal(function.ty(*value), 0, false));
            quote!(#borrow #zero)
        });
        let doc = format!(" Resumes [`{name}`].");
        let run_doc = format!(" The body of [`{name}`], which starts or resumes.");
        items.push(quote! {
            #(#[doc = #docs])*
            pub fn #name(state: &State, stack: &mut Stack, #(#plain),*) -> Result<#results> {
                #run(state, stack, None, #(#passed),*)
            }
        });
        items.push(quote! {
            #[doc = #doc]
            pub fn #resume(state: &State, stack: &mut Stack) -> Result<#results> {
                let resumed = stack.take_suspended()?;
                #run(state, stack, Some(resumed), #(#zeros),*)
            }
        });
        items.push(quote! {
            #[doc = #run_doc]
            #lints
            pub fn #run(
                state: &State,
                stack: &mut Stack,
                resumed: Option<support::Box<#saved>>,
                #(#declared),*
            ) -> Result<#results> { #body }
        });
        Ok(())
    }

    /// The function that resumes one whose suspensions are unreachable.
    pub(super) fn never_resumed(&self, resume: &Ident, results: &TokenStream) -> TokenStream {
        let saved = self.saved();
        quote! {
            pub enum #saved {}
            pub fn #resume(_state: &State, stack: &mut Stack) -> Result<#results> {
                match *stack.take_suspended::<#saved>()? {}
            }
        }
    }

    fn saved(&self) -> Ident {
        format_ident!("Suspended{}", self.body.function.ordinal)
    }

    /// The type that the function saves when it yields.
    pub(super) fn suspended(&self) -> TokenStream {
        let name = self.saved();
        let doc = format!(" The values that [`{}`] saves while it is suspended.", self.facts.ident);
        let variants = self.body.suspensions.iter().enumerate().map(|(index, suspension)| {
            let variant = format_ident!("At{}", index);
            let types = suspension.saved.iter().map(|value| type_of(self.body.function.ty(*value)));
            if suspension.saved.is_empty() { quote!(#variant) } else { quote!(#variant((#(#types,)*))) }
        });
        quote! {
            #[doc = #doc]
            #[allow(clippy::large_enum_variant, reason = "it is boxed")]
            pub enum #name { #(#variants),* }
        }
    }
}

impl Emitter<'_, '_> {
    /// Starts the body, or restores the saved values and continues at the suspension.
    pub(super) fn enter(&self, arms: &[Sequence], tail: bool) -> Result<TokenStream> {
        let saved = format_ident!("Suspended{}", self.body.function.ordinal);
        let bodies = arms.iter().map(|arm| self.sequence(arm, tail)).collect::<Result<Vec<_>>>()?;
        let (begin, resumed) =
            bodies.split_first().ok_or_else(|| Error::internal("a resumable function without an entry"))?;
        let arms = self.body.suspensions.iter().zip(resumed).enumerate().map(|(index, (suspension, body))| {
            let variant = format_ident!("At{}", index);
            let names: Vec<TokenStream> = suspension.saved.iter().map(|value| self.name(*value)).collect();
            match names.is_empty() {
                true => quote!(Some(#saved::#variant) => { #body }),
                false => quote!(Some(#saved::#variant(saved)) => { (#(#names,)*) = saved; #body }),
            }
        });
        Ok(quote! {
            match resumed.map(|saved| *saved) {
                None => { #begin }
                #(#arms)*
            }
        })
    }

    /// Saves the values that are live when the function resumes.
    pub(super) fn suspend(&self, index: u32) -> TokenStream {
        let (saved, variant) = (format_ident!("Suspended{}", self.body.function.ordinal), format_ident!("At{}", index));
        let values = &self.body.suspensions[index as usize].saved;
        if values.is_empty() {
            return quote!(stack.suspend(support::Box::new(#saved::#variant)););
        }
        let values = values.iter().map(|value| match self.body.function.ty(*value) {
            Type::Ref => self.moved(*value),
            _ => self.name(*value),
        });
        quote!(stack.suspend(support::Box::new(#saved::#variant((#(#values,)*))));)
    }

    /// Calls a function that may yield, or resumes it.
    pub(super) fn suspending(&self, index: u32, resumes: bool) -> Result<TokenStream> {
        let suspension = &self.body.suspensions[index as usize];
        let data = self.body.block(suspension.block);
        let Terminator::CallYieldable { call, results, .. } = &data.terminator else {
            return Err(Error::internal("a suspension without a call"));
        };
        let (step, drops) = match resumes {
            true => (self.resumption(call.callee, data.offset)?, TokenStream::new()),
            false => self.invocation(call, data.offset, Form::Yieldable)?,
        };
        let suspend = self.suspend(index);
        if results.iter().all(|value| self.is_unused(*value)) {
            let (step, matches) = match drops.is_empty() {
                true => (step, TokenStream::new()),
                false => (quote!(step), quote!(let step = #step; #drops)),
            };
            return Ok(quote! {
                #matches
                if matches!(#step, Step::Yielded) {
                    #suspend
                    return Ok(Step::Yielded);
                }
            });
        }
        let (step, before) = match drops.is_empty() {
            true => (step, TokenStream::new()),
            false => (quote!(step), quote!(let step = #step; #drops)),
        };
        let results = self.bind_grouped(
            results,
            quote! {
                match #step {
                    Step::Done(results) => results,
                    Step::Yielded => {
                        #suspend
                        return Ok(Step::Yielded);
                    }
                }
            },
            self.groups_results(call.callee, results.len()),
        );
        Ok(quote!(#before #results))
    }
}
