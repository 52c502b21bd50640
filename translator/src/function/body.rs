//! Bodies of functions: control flow, names, suspension.

use std::cell::Cell;

use incarnate_runtime::ir::{Block, Edge, Graph, Label, Loops, Operand, Terminator, Type, Value};
use incarnate_runtime::{Error, Result};
use proc_macro2::{Ident, Literal, Punct, Spacing, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};

use super::calls::{Form, grouped};
use super::kept;
use super::lookups;
use super::outline::outline;
use super::scope::{Binding, Place, Scopes};
use super::suspend::suspensions;
use super::tree::{Body, Condition, EdgeRef, Node, Part, Sequence};
use super::values::{self, hexadecimal, literal, type_of, types_of};
use super::versions::{self, Parameter, Versioned};
use super::{Analysis, Emitted, FunctionFacts};

/// Emits a function.
pub(super) fn emit(analysis: &Analysis<'_>, ordinal: u32) -> Result<Emitted> {
    let missing = || Error::out_of_range(format!("no function {ordinal}"));
    let function = analysis.bodies.get(ordinal as usize).ok_or_else(missing)?;
    let facts = analysis.functions.get(ordinal as usize).ok_or_else(missing)?;
    let graph = Graph::of(function);
    let loops = Loops::new(&graph, &graph.dominators());
    let (mut body, mut sequence) = Body::new(function, suspensions(function), &facts.lent, analysis.untrusted);
    if outline(&body, analysis, &mut sequence) == 0 {
        lookups::find(&mut body, &analysis.imports, &loops, &sequence);
    } else {
        kept::find(&mut body, &mut sequence);
    }
    let names = values::names(analysis.module, function, &analysis.taken);
    let unit = Unit { analysis, facts, body: &body, loops, names };
    let mut items: Vec<TokenStream> = kept::type_item(unit.body, &facts.ident).into_iter().collect();
    unit.function(&sequence, &mut items)?;
    unit.parts(&sequence, &mut items)?;
    Ok(Emitted { items })
}

/// A function that is emitted.
struct Unit<'a, 'm> {
    analysis: &'a Analysis<'m>,
    facts: &'a FunctionFacts,
    body: &'a Body<'a>,
    loops: Loops,
    names: Vec<Ident>,
}

/// Writes the body of a function, or of a part of one.
pub(super) struct Emitter<'a, 'm> {
    pub(super) analysis: &'a Analysis<'m>,
    pub(super) body: &'a Body<'a>,
    facts: &'a FunctionFacts,
    names: &'a [Ident],
    scopes: Scopes,
    /// References that the function borrows: those that a part is lent.
    lent: Vec<Value>,
    /// References are taken out of variables.
    variables: bool,
    /// What a part gives; None in the function itself.
    outputs: Option<&'a [Value]>,
    /// The body names its place.
    pub(super) places: Cell<bool>,
    /// Number of sequences that have begun.
    sequences: Cell<u32>,
    /// The loop that is innermost, if no block is.
    innermost: Cell<Option<Label>>,
}

impl<'a, 'm> Unit<'a, 'm> {
    fn emitter(&self, scopes: Scopes, variables: bool, part: Option<&'a Part>) -> Emitter<'_, 'm> {
        let lent = part.iter().flat_map(|part| &part.inputs).filter(|input| !input.1).map(|input| input.0);
        Emitter {
            analysis: self.analysis,
            body: self.body,
            facts: self.facts,
            names: &self.names,
            scopes,
            lent: lent.filter(|value| self.body.function.ty(*value) == Type::Ref).collect(),
            variables,
            outputs: part.map(|part| &part.outputs[..]),
            places: Cell::new(false),
            sequences: Cell::new(0),
            innermost: Cell::new(None),
        }
    }

    /// The function, what it saves, and what resumes it.
    fn function(&self, sequence: &Sequence, items: &mut Vec<TokenStream>) -> Result<()> {
        let (function, facts) = (self.body.function, self.facts);
        let variables = self.body.has_selectors;
        let scopes = Scopes::new(self.body, &self.loops, sequence, function.arguments(), &[], variables);
        let emitter = self.emitter(scopes, variables, None);
        let statements = emitter.sequence(sequence, true)?;
        let first = [kept::declaration(self.body).unwrap_or_default(), emitter.variables()];
        let counted = emitter.count_turn(0);
        let here = emitter.here();
        let parameter_list = self.parameter_list(&emitter);
        let parameters = parameter_list.iter().map(Parameter::declaration);
        let docs = facts.docs.iter().map(|line| format!(" {line}"));
        let state = facts.needs_state.then(|| quote!(state: &State,));
        let stack = facts.needs_stack.then(|| quote!(stack: &mut Stack,));
        let (name, results) = (&facts.ident, types_of(&facts.results));
        let body = quote!(#here #counted #(#first)* #statements);
        let body = match facts.is_guarded {
            true => quote!(support::guarded(stack, |stack| { #body })),
            false => body,
        };
        let lints = variables.then(|| {
            quote! {
                #[allow(unused_mut, unused_assignments, unused_variables, reason = "variables that not every way uses")]
            }
        });
        let recursive = facts
            .is_guarded
            .then(|| quote!(#[allow(clippy::only_used_in_recursion, reason = "arguments are those of the bytecode")]));
        let results = if facts.yields() { quote!(Step<#results>) } else { results };
        let saved = self.saved();
        let inline = facts.is_inlined.then(|| quote!(#[inline(always)]));
        let generics = facts.is_inlined.then(|| quote!(<const LANES: usize>));
        if self.body.suspensions.is_empty() {
            let is_whole = !facts.is_inlined && !facts.is_guarded && !facts.yields();
            let versioned = Versioned { state: facts.needs_state, stack: facts.needs_stack, result: &results };
            let body = match is_whole && versions::are_worthwhile(self.analysis, self.body, sequence) {
                true => versioned.body(self.analysis.versions, &parameter_list, &body),
                false => body,
            };
            items.push(quote! {
                #(#[doc = #docs])*
                #inline
                #lints
                #recursive
                pub fn #name #generics(#state #stack #(#parameters),*) -> Result<#results> { #body }
            });
            // The bytecode yields where nothing gets to.
            items.extend(facts.resume.as_ref().map(|resume| {
                quote! {
                    pub enum #saved {}
                    pub fn #resume(_state: &State, stack: &mut Stack) -> Result<#results> {
                        match *stack.take_suspended::<#saved>()? {}
                    }
                }
            }));
            return Ok(());
        }
        items.push(self.suspended());
        let lints = quote!(#lints #recursive);
        self.resumable(&lints, &results, &parameter_list, &body, items)
    }

    /// The parameters of the function, as Rust has them.
    fn parameter_list(&self, emitter: &Emitter<'_, '_>) -> Vec<Parameter> {
        let parameter = |value: &Value| {
            let name = &self.names[value.index()];
            let is_used = emitter.scopes.is_used(*value) || emitter.variables;
            Parameter {
                name: if is_used { name.clone() } else { format_ident!("_{}", name) },
                ty: type_of(self.body.function.ty(*value)),
                is_mutable: emitter.variables,
                is_borrowed: self.body.is_borrowed(*value),
            }
        };
        self.body.function.arguments().iter().map(parameter).collect()
    }

    /// A function that yields, in three: what calls it, what resumes it, and its body, which does either.
    fn resumable(
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
            facts.resume.as_ref().ok_or_else(|| Error::internal("a function that yields has no resumption"))?;
        let passed = parameters.iter().map(|parameter| &parameter.name);
        let plain = parameters.iter().map(Parameter::unchanged);
        let declared = parameters.iter().map(Parameter::declaration);
        let zeros = parameters.iter().zip(function.arguments()).map(|(parameter, value)| {
            let (borrow, zero) = (parameter.borrow(), literal(function.ty(*value), 0, false));
            quote!(#borrow #zero)
        });
        let doc = format!(" Resumes [`{name}`].");
        let run_doc = format!(" The body of [`{name}`], from its beginning or from where it was suspended.");
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

    fn saved(&self) -> Ident {
        format_ident!("Suspended{}", self.body.function.ordinal)
    }

    /// What the function leaves when it yields.
    fn suspended(&self) -> TokenStream {
        let name = self.saved();
        let doc = format!(" What [`{}`] needs to go on, where it is suspended.", self.facts.ident);
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

    /// The parts within a sequence, innermost last.
    fn parts(&self, sequence: &'a Sequence, items: &mut Vec<TokenStream>) -> Result<()> {
        for node in sequence {
            if let Node::Part(part) = node {
                self.part(part, items)?;
                self.parts(&part.body, items)?;
            }
            node.children().into_iter().try_for_each(|child| self.parts(child, items))?;
        }
        Ok(())
    }

    fn part(&self, part: &'a Part, items: &mut Vec<TokenStream>) -> Result<()> {
        let function = self.body.function;
        let inputs: Vec<Value> = part.inputs.iter().map(|input| input.0).collect();
        let scopes = Scopes::new(self.body, &self.loops, &part.body, &inputs, &part.outputs, false);
        let emitter = self.emitter(scopes, false, Some(part));
        let statements = emitter.sequence(&part.body, false)?;
        let here = emitter.here();
        let parameter = |(value, moved): &(Value, bool)| Parameter {
            name: self.names[value.index()].clone(),
            ty: type_of(function.ty(*value)),
            is_mutable: false,
            is_borrowed: function.ty(*value) == Type::Ref && !moved,
        };
        let parameters: Vec<Parameter> = part.inputs.iter().map(parameter).collect();
        // Constants are borrowed from the state.
        let borrows = part.outputs.iter().any(|value| self.body.is_borrowed(*value));
        let lifetime = borrows.then(|| lifetime_named("s"));
        let types = part.outputs.iter().map(|value| {
            let ty = type_of(function.ty(*value));
            if self.body.is_borrowed(*value) { quote!(&#lifetime #ty) } else { ty }
        });
        let results = one_or_tuple(types.collect());
        let outputs = part.outputs.iter().map(|value| self.names[value.index()].to_token_stream());
        let value = one_or_tuple(outputs.collect());
        let name = part_name(self.analysis, self.facts, part);
        let state = part.needs_state.then(|| quote!(state: &#lifetime State,));
        let stack = part.needs_stack.then(|| quote!(stack: &mut Stack,));
        let kept = part.needs_kept.then(|| {
            let ty = kept::type_name(function);
            quote!(kept: &mut #ty,)
        });
        let generics = lifetime.map(|lifetime| quote!(<#lifetime>));
        let doc = format!(" Part of [`{}`].", self.facts.ident);
        let body = quote!(#here #statements Ok(#value));
        let versioned = Versioned { state: part.needs_state, stack: part.needs_stack, result: &results };
        let body = match !borrows && !part.needs_kept && versions::are_worthwhile(self.analysis, self.body, &part.body)
        {
            true => versioned.body(self.analysis.versions, &parameters, &body),
            false => body,
        };
        let parameters = parameters.iter().map(Parameter::declaration);
        items.push(quote! {
            #[doc = #doc]
            #[inline(never)]
            pub fn #name #generics(#state #stack #kept #(#parameters),*) -> Result<#results> { #body }
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

fn part_name(analysis: &Analysis<'_>, facts: &FunctionFacts, part: &Part) -> Ident {
    super::fresh(&analysis.taken, &format!("{}_part_{}", super::stem(&facts.ident), part.number))
}

impl Emitter<'_, '_> {
    /// What a value is called.
    pub(super) fn name(&self, value: Value) -> TokenStream {
        if let Some(ordinal) = self.body.asked(value) {
            let ordinal = Literal::u32_unsuffixed(ordinal);
            return quote!(state.rodata(#ordinal));
        }
        if let Some(slot) = self.body.kept.get(&value) {
            return kept::place(*slot);
        }
        let name = &self.names[value.index()];
        quote!(#name)
    }

    /// Whether a name is that of a borrowed reference.
    pub(super) fn is_lent(&self, value: Value) -> bool {
        self.lent.contains(&value) || self.body.is_borrowed(value)
    }

    /// Whether a reference is moved by taking it out of a variable.
    pub(super) fn is_taken_from(&self, value: Value) -> bool {
        match self.scopes.binding(value) {
            Binding::Let { .. } => false,
            Binding::Kept => true,
            _ => self.variables,
        }
    }

    /// Whether nothing uses a value.
    pub(super) fn is_unused(&self, value: Value) -> bool {
        self.scopes.binding(value) == Binding::Unused
    }

    fn selector(&self, selector: u32) -> Ident {
        super::fresh(&self.analysis.taken, &format!("selector_{selector}"))
    }

    /// The place of the function, if the body names it.
    fn here(&self) -> Option<TokenStream> {
        let ordinal = Literal::u32_unsuffixed(self.body.function.ordinal);
        let kind = if self.analysis.has_static_places { quote!(static) } else { quote!(const) };
        self.places.get().then(|| quote!(#kind HERE: Here = Here::new(&MODULE, #ordinal);))
    }

    /// Declares the variables on top.
    fn variables(&self) -> TokenStream {
        let of = |value: &Value| {
            let (name, ty) = (self.name(*value), self.body.function.ty(*value));
            let (zero, ty) = (literal(ty, 0, false), type_of(ty));
            quote!(let mut #name: #ty = #zero;)
        };
        let selectors = (0..self.body.selector_count).filter(|_| self.outputs.is_none()).map(|selector| {
            let name = self.selector(selector);
            quote!(let mut #name: u32 = 0;)
        });
        self.scopes.variables.iter().map(of).chain(selectors).collect()
    }

    /// A sequence. At the tail its end is the function's, and results stand there without `return`.
    fn sequence(&self, sequence: &Sequence, tail: bool) -> Result<TokenStream> {
        let number = self.sequences.replace(self.sequences.get() + 1);
        let mut tokens = TokenStream::new();
        for (position, node) in sequence.iter().enumerate() {
            for value in self.scopes.declared_before(number, position as u32) {
                let Binding::Declared { mutable } = self.scopes.binding(*value) else { continue };
                let mutable = mutable.then(|| quote!(mut));
                let (name, ty) = (self.name(*value), type_of(self.body.function.ty(*value)));
                // Constants are looked at where they are.
                let borrow = self.body.is_borrowed(*value).then(|| quote!(&));
                tokens.extend(quote!(let #mutable #name: #borrow #ty;));
            }
            tokens.extend(self.node(node, tail && position + 1 == sequence.len())?);
        }
        Ok(tokens)
    }

    fn node(&self, node: &Node, tail: bool) -> Result<TokenStream> {
        Ok(match node {
            Node::Inst(block, position) => self.instruction(*block, *position)?,
            Node::Edge(edge) => self.edge(*edge)?,
            Node::If { condition, then, otherwise } => self.branch(condition, then, otherwise, tail)?,
            Node::Match { block, arms } => self.table(*block, arms, tail)?,
            Node::Block { label, body } => {
                let (label, body) = (lifetime(*label), self.inner(None, body)?);
                quote!(#label: { #body })
            }
            Node::Loop { label, body, header } => {
                let named = self.label(*label, body);
                let counted = self.count_turn(self.offset_of(*header));
                let body = self.inner(Some(*label), body)?;
                let body = quote!(#counted #body);
                match body.is_empty() {
                    // Nothing ever ends this loop.
                    true => quote!(loop {
                        ::core::hint::spin_loop();
                    }),
                    false => quote!(#named loop { #body }),
                }
            }
            Node::While { condition, label, body, header } => {
                let named = self.label(*label, body);
                let condition = self.condition(condition, false)?;
                let counted = self.count_turn(self.offset_of(*header));
                let body = self.inner(Some(*label), body)?;
                quote!(#named while #condition { #counted #body })
            }
            Node::Break(label) => self.jump(*label, quote!(break)),
            Node::Continue(label) => self.jump(*label, quote!(continue)),
            Node::Return(block) => self.leave(*block, tail)?,
            Node::Fail(block) => self.fail(*block, tail)?,
            Node::Breakpoint(block) => self.breakpoint(*block),
            Node::Select { selector, arm } => {
                let (name, arm) = (self.selector(*selector), Literal::u32_unsuffixed(*arm));
                quote!(#name = #arm;)
            }
            Node::Dispatch { selector, arms } => {
                let name = self.selector(*selector);
                self.cases(&quote!(#name), arms, tail)?
            }
            Node::Enter { arms } => self.enter(arms, tail)?,
            Node::Yield(index) => {
                let suspend = self.suspend(*index);
                if tail { quote!(#suspend Ok(Step::Yielded)) } else { quote!(#suspend return Ok(Step::Yielded);) }
            }
            Node::Call(index) => self.suspending(*index, false)?,
            Node::Resume(index) => self.suspending(*index, true)?,
            Node::Nest(index) => self.nest(*index)?,
            Node::Part(part) => self.call_part(part),
        })
    }

    /// Gives results of an expression their names.
    pub(super) fn bind(&self, results: &[Value], expression: TokenStream) -> TokenStream {
        self.bind_grouped(results, expression, false)
    }

    fn bind_grouped(&self, results: &[Value], expression: TokenStream, is_grouped: bool) -> TokenStream {
        let is_let = |value: &Value| matches!(self.scopes.binding(*value), Binding::Let { .. });
        let used: Vec<&Value> = results.iter().filter(|value| !self.is_unused(**value)).collect();
        if used.is_empty() {
            return quote!(#expression;);
        }
        let lets = used.iter().any(|value| is_let(value));
        let mixed = lets && !used.iter().all(|value| is_let(value));
        let mut after = TokenStream::new();
        let pattern: Vec<TokenStream> = results
            .iter()
            .map(|value| {
                if self.is_unused(*value) {
                    return quote!(_);
                }
                let name = self.name(*value);
                match self.scopes.binding(*value) {
                    Binding::Let { mutable: true, .. } => quote!(mut #name),
                    Binding::Let { .. } => name,
                    _ if mixed => {
                        let next = super::fresh(&self.analysis.taken, &format!("{}_next", self.names[value.index()]));
                        after.extend(quote!(#name = #next;));
                        quote!(#next)
                    }
                    _ => name,
                }
            })
            .collect();
        let pattern = match &pattern[..] {
            [one] => one.clone(),
            many if is_grouped => grouped(many),
            many => quote!((#(#many),*)),
        };
        match lets {
            true => quote!(let #pattern = #expression; #after),
            false => quote!(#pattern = #expression;),
        }
    }

    /// Passes the arguments of an edge.
    fn edge(&self, at: EdgeRef) -> Result<TokenStream> {
        let edge = self.body.edge(at).ok_or_else(|| Error::internal("a block has fewer edges than arms"))?;
        let mut tokens: TokenStream = edge.drops.iter().map(|value| self.drop(*value)).collect();
        let (mut assigned, mut sources, mut targets) = (Vec::new(), Vec::new(), Vec::new());
        let mut in_turn = true;
        let mut lets = TokenStream::new();
        for (parameter, operand) in self.in_order(edge, at) {
            let (name, value) = (self.name(parameter), self.take(&operand));
            match self.scopes.binding(parameter) {
                Binding::Let { place, mutable } if place == Place::Edge(at) => {
                    let ty = type_of(self.body.function.ty(parameter));
                    let is_constant = self.body.function.constant_bits(operand.value).is_some();
                    let annotation = is_constant.then(|| quote!(: #ty));
                    let mutable = mutable.then(|| quote!(mut));
                    lets.extend(quote!(let #mutable #name #annotation = #value;));
                }
                _ => {
                    in_turn &= !assigned.contains(&operand.value);
                    assigned.push(parameter);
                    targets.push(name);
                    sources.push(value);
                }
            }
        }
        tokens.extend(lets);
        tokens.extend(match in_turn {
            true => quote!(#(#targets = #sources;)*),
            false => quote!((#(#targets),*) = (#(#sources),*);),
        });
        Ok(tokens)
    }

    /// What an edge passes to names that something uses: first those that are declared by it, then those that are assigned,
    /// and a reference to several of them is moved to the last.
    fn in_order(&self, edge: &Edge, at: EdgeRef) -> Vec<(Value, Operand)> {
        let is_let = |parameter| matches!(self.scopes.binding(parameter), Binding::Let { place, .. } if place == Place::Edge(at));
        let used = self.body.passed(edge).filter(|(parameter, _)| !self.is_unused(*parameter));
        let (mut all, assigned): (Vec<_>, Vec<_>) = used.partition(|(parameter, _)| is_let(*parameter));
        all.extend(assigned);
        for index in 0..all.len() {
            let value = all[index].1.value;
            if all[index].1.moved
                && let Some(last) = all.iter().rposition(|(_, operand)| operand.value == value)
            {
                all[index].1.moved = false;
                all[last].1.moved = true;
            }
        }
        all
    }

    fn condition(&self, condition: &Condition, negate: bool) -> Result<TokenStream> {
        let negated = condition.negated ^ negate;
        if let Some(position) = condition.fused {
            return self.test(self.body.inst(condition.block, position), negated);
        }
        let Terminator::CondBranch { condition: value, .. } = &self.body.block(condition.block).terminator else {
            return Err(Error::internal("a condition of no branch"));
        };
        let value = self.number(*value);
        Ok(if negated { quote!(#value == 0) } else { quote!(#value != 0) })
    }

    fn branch(&self, condition: &Condition, then: &Sequence, otherwise: &Sequence, tail: bool) -> Result<TokenStream> {
        // Conditions that stand within each other and nothing else are one.
        if let ([Node::If { condition: inner, then, otherwise: none }], true) = (&then[..], otherwise.is_empty())
            && none.is_empty()
            && self.scopes.declared_before(self.sequences.get(), 0).is_empty()
        {
            self.sequences.set(self.sequences.get() + 1);
            let (condition, inner) = (self.condition(condition, false)?, self.condition(inner, false)?);
            let body = self.sequence(then, tail)?;
            self.sequences.set(self.sequences.get() + 2);
            return Ok(if body.is_empty() { body } else { quote!(if #condition && #inner { #body }) });
        }
        let body = self.sequence(then, tail)?;
        let number = self.sequences.get();
        let rest = self.sequence(otherwise, tail)?;
        if body.is_empty() && rest.is_empty() {
            return Ok(TokenStream::new());
        }
        let condition = self.condition(condition, body.is_empty())?;
        Ok(match &otherwise[..] {
            _ if body.is_empty() => quote!(if #condition { #rest }),
            _ if rest.is_empty() => quote!(if #condition { #body }),
            [Node::If { .. }] if self.scopes.declared_before(number, 0).is_empty() => {
                quote!(if #condition { #body } else #rest)
            }
            _ => quote!(if #condition { #body } else { #rest }),
        })
    }

    fn table(&self, block: Block, arms: &[Sequence], tail: bool) -> Result<TokenStream> {
        let Terminator::BranchTable { index, .. } = &self.body.block(block).terminator else {
            return Err(Error::internal("a table of no branch"));
        };
        self.cases(&self.typed(*index), arms, tail)
    }

    /// One of several sequences by a number, the last for all others.
    fn cases(&self, index: &TokenStream, arms: &[Sequence], tail: bool) -> Result<TokenStream> {
        let bodies = arms.iter().map(|arm| self.sequence(arm, tail)).collect::<Result<Vec<_>>>()?;
        let Some((last, cases)) = bodies.split_last() else { return Ok(TokenStream::new()) };
        Ok(match cases {
            [] => quote!(#last),
            [one] if one.is_empty() && last.is_empty() => TokenStream::new(),
            [one] if last.is_empty() => quote!(if #index == 0 { #one }),
            [one] => quote!(if #index == 0 { #one } else { #last }),
            _ => {
                let numbers = (0..cases.len()).map(Literal::usize_unsuffixed);
                quote!(match #index { #(#numbers => { #cases })* _ => { #last } })
            }
        })
    }

    fn leave(&self, block: Block, tail: bool) -> Result<TokenStream> {
        let Terminator::Return(operands) = &self.body.block(block).terminator else {
            return Err(Error::internal("a return of no block"));
        };
        let values: Vec<TokenStream> = operands.iter().map(|operand| self.take(operand)).collect();
        let value = match &values[..] {
            [one] => one.clone(),
            many => quote!((#(#many),*)),
        };
        let value = if self.facts.yields() { quote!(Ok(Step::Done(#value))) } else { quote!(Ok(#value)) };
        Ok(if tail { value } else { quote!(return #value;) })
    }

    fn fail(&self, block: Block, tail: bool) -> Result<TokenStream> {
        let data = self.body.block(block);
        let Terminator::Fail { status, message, next } = &data.terminator else {
            return Err(Error::internal("a failure of no block"));
        };
        let (status, message) = (self.number(*status), String::from_utf8_lossy(message));
        let failure = self.fallible(quote!(support::fail(#status, #message)), data.offset);
        if next.is_some() {
            return Ok(quote!(#failure;));
        }
        let offset = hexadecimal(data.offset.into());
        let end = quote!(Err(support::fell_through()).at(HERE, #offset));
        Ok(if tail { quote!(#failure; #end) } else { quote!(#failure; return #end;) })
    }

    fn breakpoint(&self, block: Block) -> TokenStream {
        let ordinal = Literal::u32_unsuffixed(self.body.function.ordinal);
        let tell = quote!(support::breakpoint(&MODULE, #ordinal););
        match &self.body.block(block).terminator {
            Terminator::CondBreak { condition, .. } => {
                let condition = self.number(*condition);
                quote!(if #condition != 0 { #tell })
            }
            _ => tell,
        }
    }

    /// Begins, or restores what was saved and goes on.
    fn enter(&self, arms: &[Sequence], tail: bool) -> Result<TokenStream> {
        let saved = format_ident!("Suspended{}", self.body.function.ordinal);
        let bodies = arms.iter().map(|arm| self.sequence(arm, tail)).collect::<Result<Vec<_>>>()?;
        let (begin, resumed) = bodies.split_first().ok_or_else(|| Error::internal("no way into a function"))?;
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

    /// Saves what is used when the function goes on.
    fn suspend(&self, index: u32) -> TokenStream {
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

    /// Calls what may suspend the function, or goes on with it.
    fn suspending(&self, index: u32, resumes: bool) -> Result<TokenStream> {
        let suspension = &self.body.suspensions[index as usize];
        let data = self.body.block(suspension.block);
        let Terminator::CallYieldable { call, results, .. } = &data.terminator else {
            return Err(Error::internal("a suspension at no call"));
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

    fn call_part(&self, part: &Part) -> TokenStream {
        let name = part_name(self.analysis, self.facts, part);
        let state = part.needs_state.then(|| quote!(state,));
        let stack = part.needs_stack.then(|| quote!(stack,));
        let kept = part.needs_kept.then(|| quote!(kept,));
        let arguments = part.inputs.iter().map(|(value, moved)| match (self.body.function.ty(*value), moved) {
            (Type::Ref, true) if self.is_lent(*value) => {
                let name = self.name(*value);
                quote!(#name.clone())
            }
            (Type::Ref, true) => self.moved(*value),
            _ => self.read(*value),
        });
        // The part says where it failed.
        self.bind(&part.outputs, quote!(#name(#state #stack #kept #(#arguments),*)?))
    }

    /// The label of a loop, where something within another loop or block leaves or repeats it.
    fn label(&self, label: Label, body: &Sequence) -> Option<TokenStream> {
        needs_label(body, label, false).then(|| {
            let label = lifetime(label);
            quote!(#label:)
        })
    }

    /// Jumps to a label, which the innermost loop needs not be named by.
    fn jump(&self, label: Label, keyword: TokenStream) -> TokenStream {
        if self.innermost.get() == Some(label) {
            return quote!(#keyword;);
        }
        let label = lifetime(label);
        quote!(#keyword #label;)
    }

    /// The body of a loop, which is left and repeated without naming it, or of a block.
    fn inner(&self, innermost: Option<Label>, body: &Sequence) -> Result<TokenStream> {
        let outer = self.innermost.replace(innermost);
        let body = self.sequence(body, false);
        self.innermost.set(outer);
        body
    }
}

/// Whether something within a loop's or block's body jumps to its label from within another loop or block.
fn needs_label(sequence: &Sequence, label: Label, is_nested: bool) -> bool {
    sequence.iter().any(|node| match node {
        Node::Break(to) | Node::Continue(to) => is_nested && *to == label,
        node => {
            let nests = matches!(node, Node::Block { .. } | Node::Loop { .. } | Node::While { .. });
            node.children().into_iter().any(|child| needs_label(child, label, is_nested || nests))
        }
    })
}

fn lifetime(label: Label) -> TokenStream {
    lifetime_named(&format!("l{}", label.0))
}

/// A label of its name, without the quotation mark.
pub(super) fn lifetime_named(name: &str) -> TokenStream {
    let name = Ident::new(name, proc_macro2::Span::call_site()).to_token_stream();
    TokenTree::Punct(Punct::new('\'', Spacing::Joint)).to_token_stream().into_iter().chain(name).collect()
}
