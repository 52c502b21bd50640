//! Emission of nests: what is checked before them, and their loops.

use incarnate_bytecode::Result;
use incarnate_bytecode::ir::nest::{Counted, Schedule, ScheduledNest};
use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};

use super::super::emitter::{Emitter, lifetime_named};
use super::super::{multiversion, shared};
use super::forms::unsigned;
use super::joined::Joined;
use super::sums::Sums;
use super::writer::{Parameters, Prepared, Writer, count, mentions};

impl Emitter<'_, '_> {
    /// Emits a nest: a block that is left if an access may fail, and that otherwise runs all iterations.
    pub(in super::super) fn nest(&self, index: u32) -> Result<TokenStream> {
        let nest = &self.body.nests.found[index as usize];
        let mut writer = Writer {
            emitter: self,
            nest,
            scheduled: ScheduledNest::of(self.body.function, nest, self.analysis.order),
            index_values: nest.index_values(self.body.function),
            label: {
                let label = lifetime_named(&format!("nest{index}"));
                quote!(#label)
            },
            joined: Joined::default(),
            sums: Sums::default(),
            prepared: Prepared::new(),
            parameters: Parameters::None,
        };
        writer.parameters = match &writer.scheduled.schedule {
            _ if self.shared.is_none() => Parameters::None,
            Schedule::Contraction(_) => Parameters::All,
            Schedule::Strips(strips) if !strips.reductions.is_empty() => Parameters::None,
            _ => Parameters::Outer,
        };
        writer.prepared = writer.divisions_prepared();
        writer.sums = writer.sums_found();
        writer.joined = writer.joined_views();
        writer.nest(index)
    }
}

impl Writer<'_, '_, '_> {
    fn nest(&self, index: u32) -> Result<TokenStream> {
        let label = &self.label;
        let leave = quote!(else { break #label; });
        let mut tokens = self.checked(&self.scheduled.checks);
        let iterations = self.iterations_as_scheduled()?;
        tokens.extend(self.division_conditions());
        tokens.extend(iterations);
        let root = &self.nest.loops[0];
        tokens.extend(self.settle(root));
        for induction in &root.inductions {
            let count = if root.divisor.is_some() { format_ident!("iterations") } else { count(0) };
            let name = self.emitter.name(induction.parameter);
            let end = self.induction(induction, &count);
            tokens.extend(quote!(#name = #end;));
        }
        let mut first = TokenStream::new();
        for (block, position) in &self.nest.hoisted {
            first.extend(self.instruction(*block, *position, None)?);
        }
        for (at, counted) in self.nest.loops.iter().enumerate() {
            let trip_count = self.trip_count(counted);
            // Loops without work must terminate, too: otherwise the loops of the bytecode do not.
            let name = if mentions(&tokens, &count(at)) { count(at) } else { format_ident!("_count{}", at) };
            first.extend(match (&counted.divisor, self.scheduled.trip_count(at)) {
                (None, Some(known)) => {
                    let known = match self.literal_count(at) {
                        None => shared::constant(shared::Kind::Usize, known),
                        Some(known) => unsigned(known),
                    };
                    quote!(let #name: usize = #known;)
                }
                (None, None) => quote!(let Some(#name) = #trip_count #leave;),
                (Some(divisor), _) => {
                    let divisor = self.form(divisor.base());
                    let all = if at == 0 { format_ident!("iterations") } else { name.clone() };
                    quote! {
                        let Some(#all) = #trip_count #leave;
                        let Some(#name) = support::outer_trip_count(#all, #divisor) #leave;
                    }
                }
            });
        }
        Ok(match self.emitter.body.accumulators.output_of(index as usize) {
            None => quote!(#label: { #first #tokens }),
            // Where the block is left, the loops of the bytecode add to what is in memory.
            Some(buffer) => {
                let (run, buffer) = (lifetime_named(&format!("run{index}")), self.emitter.read(buffer));
                let cleared = self.emitter.fallible(
                    quote!(support::buffer_clear(#buffer)),
                    self.emitter.offset_of(self.nest.loops[0].header),
                );
                quote!(#run: { #label: { #first #tokens break #run; } #cleared })
            }
        })
    }

    /// The iterations, as the schedule runs them.
    fn iterations_as_scheduled(&self) -> Result<TokenStream> {
        let label = &self.label;
        // Without the steps, the original loop takes those that are left, and fails.
        let permitted = self.emitter.analysis.untrusted.then(|| {
            let steps = self.steps(0);
            // A kernel runs a contraction.
            let instructions = match &self.scheduled.schedule {
                Schedule::Contraction(_) | Schedule::Zeros => 1,
                _ => self.nest.instructions().count(),
            };
            let instructions = Literal::usize_unsuffixed(instructions);
            quote!(stack.take_steps(#steps, #instructions))
        });
        let steps = permitted.as_ref().map(|permitted| quote!(if !#permitted { break #label; }));
        let iterations = match &self.scheduled.schedule {
            Schedule::Contraction(contraction) => {
                let call = self.contraction(contraction, permitted)?;
                return Ok(quote!(if !#call { break #label; }));
            }
            // Of elements that are each computed for themselves, LLVM makes vectors.
            Schedule::Strips(strips) if self.scheduled.runs_on_strips() => {
                let iterations = self.checked_iterations(self.strips(strips)?);
                let independent = self.checked(&self.scheduled.independence);
                let iterations = if self.has_variants(strips) {
                    self.with_variants(strips, iterations)
                } else {
                    self.stays_in_function();
                    iterations
                };
                return Ok(quote!(#independent #steps #iterations));
            }
            Schedule::Strips(_) | Schedule::InOrder(_) => {
                self.stays_in_function();
                self.iterations(0)?
            }
            Schedule::Zeros => TokenStream::new(),
        };
        Ok(quote!(#steps #iterations))
    }

    /// Notes that the iterations are part of the body around them, which has variants for their sake if they are many.
    fn stays_in_function(&self) {
        let needs_variants = &self.emitter.needs_variants;
        needs_variants.set(needs_variants.get() || multiversion::is_long(self.nest));
    }

    /// Makes numbers of what raced, for the code behind the nest.
    fn settle(&self, root: &Counted) -> TokenStream {
        let loads = !self.nest.accesses.is_empty();
        let carried = root.carried.iter().filter(|carried| loads && carried.next != carried.parameter);
        let names = carried.map(|carried| self.emitter.name(carried.parameter));
        let settled = names.map(|name| quote!(#name = support::settled(#name);));
        let stores = self.nest.accesses.iter().any(|access| access.stored.is_some() && self.scheduled.keeps(access));
        let memory = stores.then(|| quote!(support::settle_memory();));
        quote!(#(#settled)* #memory)
    }
}
