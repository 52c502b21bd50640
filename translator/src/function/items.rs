//! The Rust items of one function: the function itself and the functions outlined from it.

use std::cell::{Cell, RefCell};

use incarnate_bytecode::ir::{Graph, Loops, Type, Value};
use incarnate_bytecode::{Budget, Error, Result, ResultExt};
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident, quote};

use super::borrows;
use super::emitter::{Emitter, base_offset, lifetime_named, outlined_name};
use super::multiversion::{Multiversioned, Parameter};
use super::outline::outline;
use super::recordings;
use super::scope::Scopes;
use super::shared::{self, NestFunction};
use super::spills;
use super::suspend::suspensions;
use super::transients;
use super::tree::{Body, Node, Outlined, Sequence};
use super::values::{self, type_of, types_of};
use super::{Analysis, Emitted, FunctionFacts};

/// Emits a function.
pub(super) fn emit(analysis: &Analysis<'_>, ordinal: u32) -> Result<Emitted> {
    let missing = || Error::out_of_range(format!("no function {ordinal}"));
    let function = analysis.bodies.get(ordinal as usize).ok_or_else(missing)?;
    let facts = analysis.functions.get(ordinal as usize).ok_or_else(missing)?;
    let graph = Graph::of(function);
    let loops = Loops::new(&graph, &graph.dominators());
    let suspensions = suspensions(function, &mut Budget::of_function(analysis.module, ordinal))
        .context(|| format!("function @{}", analysis.module.function_name(ordinal)))?;
    let (mut body, mut sequence) =
        Body::new(function, suspensions, &facts.borrowed, analysis.untrusted, analysis.order);
    body.recordings = recordings::find(function, &analysis.imports);
    if !analysis.untrusted {
        body.transients = transients::find(function, &analysis.imports);
    }
    if outline(&body, analysis, &mut sequence, analysis.is_executable) == 0 {
        borrows::find(&mut body, &analysis.imports, &loops, &sequence);
    } else {
        spills::find(&mut body, &mut sequence);
    }
    let names = values::names(analysis.module, function, facts.kernel.as_ref(), &analysis.taken);
    let unit = Unit { analysis, facts, body: &body, loops, names };
    let items: Vec<TokenStream> = spills::type_item(unit.body, &facts.ident).into_iter().collect();
    let mut emitted = Emitted { items, nests: Vec::new() };
    unit.function(&sequence, &mut emitted.items)?;
    unit.outlined_functions(&sequence, &mut emitted)?;
    Ok(emitted)
}

/// A function of the module while its Rust items are built.
pub(super) struct Unit<'a, 'm> {
    pub(super) analysis: &'a Analysis<'m>,
    pub(super) facts: &'a FunctionFacts,
    pub(super) body: &'a Body<'a>,
    loops: Loops,
    names: Vec<Ident>,
}

impl<'a, 'm> Unit<'a, 'm> {
    fn emitter<'u>(
        &'u self,
        scopes: Scopes,
        uses_variables: bool,
        outlined: Option<&'u Outlined>,
        names: &'u [Ident],
    ) -> Emitter<'u, 'm> {
        let borrowed = outlined.iter().flat_map(|outlined| &outlined.inputs).filter(|input| !input.1);
        let borrowed = borrowed.map(|input| input.0).filter(|value| self.body.function.ty(*value) == Type::Ref);
        Emitter {
            analysis: self.analysis,
            body: self.body,
            facts: self.facts,
            names,
            scopes,
            borrowed: borrowed.collect(),
            uses_variables,
            outputs: outlined.map(|outlined| &outlined.outputs[..]),
            uses_location: Cell::new(false),
            counts_iterations: Cell::new(false),
            needs_variants: Cell::new(false),
            source: RefCell::default(),
            sequences: Cell::new(0),
            innermost: Cell::new(None),
            shared: outlined.filter(|outlined| outlined.is_nest).map(|outlined| base_offset(self.body, outlined)),
        }
    }

    /// Emits the function and, where it yields, the type that it saves and the function that resumes it.
    fn function(&self, sequence: &Sequence, items: &mut Vec<TokenStream>) -> Result<()> {
        let (function, facts) = (self.body.function, self.facts);
        let uses_variables = self.body.has_selectors;
        let scopes = Scopes::new(self.body, &self.loops, sequence, function.arguments(), &[], uses_variables);
        let emitter = self.emitter(scopes, uses_variables, None, &self.names);
        let statements = emitter.sequence(sequence, true)?;
        let declarations = [spills::declaration(self.body).unwrap_or_default(), emitter.variables()];
        let metered = emitter.meter_iteration(sequence, 0);
        let location = emitter.location();
        let parameters = self.parameters(&emitter);
        let body = quote!(#location #metered #(#declarations)* #statements);
        let body = match facts.is_guarded {
            true => quote!(support::guarded(stack, |stack| { #body })),
            false => body,
        };
        let results = types_of(&facts.results);
        let results = if facts.yields() { quote!(Step<#results>) } else { results };
        let lints = self.lints();
        if !self.body.suspensions.is_empty() {
            items.push(self.suspended());
            return self.resumable(&lints, &results, &parameters, &body, items);
        }
        let is_plain = !facts.is_inlined && !facts.is_guarded && !facts.yields();
        let body = match is_plain && self.needs_variants(&emitter) {
            true => {
                let shell = Multiversioned { state: facts.needs_state, stack: facts.needs_stack, result: &results };
                shell.body(self.analysis.target_features, &parameters, &body)
            }
            false => body,
        };
        let docs = facts.docs.iter().map(|line| format!(" {line}"));
        let state = facts.needs_state.then(|| quote!(state: &State,));
        let stack = facts.needs_stack.then(|| quote!(stack: &mut Stack,));
        let inline = facts.is_inlined.then(|| quote!(#[inline(always)]));
        let generics = facts.is_inlined.then(|| quote!(<const LANES: usize>));
        let (name, parameters) = (&facts.ident, parameters.iter().map(Parameter::declaration));
        items.push(quote! {
            #(#[doc = #docs])*
            #inline
            #lints
            pub fn #name #generics(#state #stack #(#parameters),*) -> Result<#results> { #body }
        });
        // The bytecode yields only in unreachable blocks.
        items.extend(facts.resume.as_ref().map(|resume| self.never_resumed(resume, &results)));
        Ok(())
    }

    /// Whether a body that was emitted is compiled for several sets of target features. Outlined functions are decided on their own.
    fn needs_variants(&self, emitter: &Emitter<'_, '_>) -> bool {
        self.analysis.target_features != 0 && emitter.needs_variants.get()
    }

    /// The lints that the function's own code triggers.
    fn lints(&self) -> TokenStream {
        let unused = self.body.has_selectors.then(|| {
            quote! {
                #[allow(unused_mut, unused_assignments, unused_variables, reason = "not every path uses all variables")]
            }
        });
        let recursive = self
            .facts
            .is_guarded
            .then(|| quote!(#[allow(clippy::only_used_in_recursion, reason = "arguments are those of the bytecode")]));
        quote!(#unused #recursive)
    }

    /// Whether a value is an operand of a dispatch that the kernel takes as memory.
    fn is_memory(&self, value: Value) -> bool {
        let takes_memory = self.facts.kernel.as_ref().is_some_and(|kernel| !kernel.takes_references);
        let function = self.body.function;
        takes_memory && function.ty(value) == Type::Ref && function.arguments().contains(&value)
    }

    /// The type of a parameter, or what it borrows.
    fn parameter_type(&self, value: Value) -> TokenStream {
        if self.is_memory(value) { quote!(support::Memory) } else { type_of(self.body.function.ty(value)) }
    }

    /// The parameters of the function in Rust.
    fn parameters(&self, emitter: &Emitter<'_, '_>) -> Vec<Parameter> {
        let parameter = |value: &Value| {
            let name = &self.names[value.index()];
            let is_used = emitter.scopes.is_used(*value) || emitter.uses_variables;
            Parameter {
                name: if is_used { name.clone() } else { format_ident!("_{}", name) },
                ty: self.parameter_type(*value),
                is_mutable: emitter.uses_variables,
                is_borrowed: self.body.is_borrowed(*value),
                has_lifetime: self.is_memory(*value),
            }
        };
        self.body.function.arguments().iter().map(parameter).collect()
    }

    /// Emits the functions outlined from a sequence, each after its caller.
    fn outlined_functions(&self, sequence: &Sequence, emitted: &mut Emitted) -> Result<()> {
        for node in sequence {
            if let Node::Outlined(outlined) = node {
                self.outlined_function(outlined, emitted)?;
                self.outlined_functions(&outlined.body, emitted)?;
            }
            node.children().into_iter().try_for_each(|child| self.outlined_functions(child, emitted))?;
        }
        Ok(())
    }

    fn outlined_function(&self, outlined: &Outlined, emitted: &mut Emitted) -> Result<()> {
        let function = self.body.function;
        let shared = outlined.is_nest.then(|| shared::names(self.body, &outlined.body, &self.names));
        let names = shared.as_deref().unwrap_or(&self.names);
        let inputs: Vec<Value> = outlined.inputs.iter().map(|input| input.0).collect();
        let scopes = Scopes::new(self.body, &self.loops, &outlined.body, &inputs, &outlined.outputs, false);
        let emitter = self.emitter(scopes, false, Some(outlined), names);
        let statements = emitter.sequence(&outlined.body, false)?;
        let location = emitter.location();
        let parameter = |(value, moved): &(Value, bool)| Parameter {
            name: names[value.index()].clone(),
            ty: self.parameter_type(*value),
            is_mutable: false,
            is_borrowed: function.ty(*value) == Type::Ref && !moved,
            has_lifetime: self.is_memory(*value),
        };
        let parameters: Vec<Parameter> = outlined.inputs.iter().map(parameter).collect();
        // Constants are borrowed from the state.
        let returns_borrow = outlined.outputs.iter().any(|value| self.body.is_borrowed(*value));
        let lifetime = returns_borrow.then(|| lifetime_named("s"));
        let types = outlined.outputs.iter().map(|value| {
            let ty = type_of(function.ty(*value));
            if self.body.is_borrowed(*value) { quote!(&#lifetime #ty) } else { ty }
        });
        let results = one_or_tuple(types.collect());
        let outputs = outlined.outputs.iter().map(|value| names[value.index()].to_token_stream());
        let value = one_or_tuple(outputs.collect());
        let name = outlined_name(self.analysis, self.facts, outlined);
        let state = outlined.needs_state.then(|| quote!(state: &#lifetime State));
        let stack = outlined.needs_stack.then(|| quote!(stack: &mut Stack));
        let spills = outlined.needs_spills.then(|| {
            let ty = spills::type_name(function);
            quote!(spills: &mut #ty)
        });
        let surroundings: Vec<TokenStream> = [state, stack, spills].into_iter().flatten().collect();
        let generics = lifetime.map(|lifetime| quote!(<#lifetime>));
        let doc = format!(" Outlined from [`{}`].", self.facts.ident);
        let body = quote!(#location #statements Ok(#value));
        let is_plain = !returns_borrow && !outlined.needs_spills;
        let body = match is_plain && self.needs_variants(&emitter) {
            true => {
                let shell =
                    Multiversioned { state: outlined.needs_state, stack: outlined.needs_stack, result: &results };
                let mut passed = parameters.clone();
                passed.extend(outlined.is_nest.then(shared::parameters).into_iter().flatten());
                shell.body(self.analysis.target_features, &passed, &body)
            }
            false => body,
        };
        let parameters = parameters.iter().map(Parameter::declaration);
        let parameters = surroundings.into_iter().chain(parameters);
        if outlined.is_nest {
            let names = (name, self.facts.ident.clone());
            emitted.nests.push(NestFunction::new(names, parameters, &results, &body));
            return Ok(());
        }
        emitted.items.push(quote! {
            #[doc = #doc]
            #[inline(never)]
            pub fn #name #generics(#(#parameters),*) -> Result<#results> { #body }
        });
        Ok(())
    }
}

/// A value, or a tuple of none or several; the same for types.
fn one_or_tuple(items: Vec<TokenStream>) -> TokenStream {
    match &items[..] {
        [one] => one.clone(),
        many => quote!((#(#many),*)),
    }
}
