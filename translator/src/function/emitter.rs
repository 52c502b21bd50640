//! The emitter of a body: names, declarations and the statements of a sequence.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;

use incarnate_bytecode::Result;
use incarnate_bytecode::ir::{Label, Type, Value};
use proc_macro2::{Ident, Literal, Punct, Spacing, TokenStream, TokenTree};
use quote::{ToTokens, quote};

use super::calls::grouped;
use super::scope::{Binding, Scopes};
use super::spills;
use super::tree::{Body, Node, Outlined, Sequence};
use super::values::{hexadecimal, literal, type_of};
use super::{Analysis, FunctionFacts};
use crate::comments::comment;

/// Emits the body of a function or of an outlined function.
pub(super) struct Emitter<'a, 'm> {
    pub(super) analysis: &'a Analysis<'m>,
    pub(super) body: &'a Body<'a>,
    pub(super) facts: &'a FunctionFacts,
    pub(super) names: &'a [Ident],
    pub(super) scopes: Scopes,
    /// References that an outlined function borrows from its caller.
    pub(super) borrowed: HashSet<Value>,
    /// Values live in variables that are initialised at the top, and references are taken out of them.
    pub(super) uses_variables: bool,
    /// The values that an outlined function returns; None in the function itself.
    pub(super) outputs: Option<&'a [Value]>,
    /// The body refers to the constant of its location.
    pub(super) uses_location: Cell<bool>,
    /// The statement is in a loop that counts iterations in the variable `fuel`.
    pub(super) counts_iterations: Cell<bool>,
    /// A nest runs many iterations, which are compiled with the body.
    pub(super) needs_variants: Cell<bool>,
    /// The source location of the last comment.
    pub(super) source: RefCell<Option<String>>,
    /// The number of sequences whose emission has begun.
    pub(super) sequences: Cell<u32>,
    /// The innermost enclosing loop, unless a labelled block is closer.
    pub(super) innermost: Cell<Option<Label>>,
    /// The function is a nest's, which other nests may share: the offset that its locations count from.
    pub(super) shared: Option<u32>,
}

impl Emitter<'_, '_> {
    /// The name of a value.
    pub(super) fn name(&self, value: Value) -> TokenStream {
        if let Some(ordinal) = self.body.rematerialized(value) {
            let ordinal = Literal::u32_unsuffixed(ordinal);
            return quote!(state.rodata(#ordinal));
        }
        if let Some(slot) = self.body.spill_slots.get(&value) {
            return spills::slot_expression(*slot);
        }
        let name = &self.names[value.index()];
        quote!(#name)
    }

    /// Whether a value is a borrowed reference here.
    pub(super) fn is_borrowed(&self, value: Value) -> bool {
        self.borrowed.contains(&value) || self.body.is_borrowed(value)
    }

    /// Whether a move takes the reference out of a variable and leaves null.
    pub(super) fn is_taken_from(&self, value: Value) -> bool {
        match self.scopes.binding(value) {
            Binding::Let { .. } => false,
            Binding::Spilled => true,
            _ => self.uses_variables,
        }
    }

    /// Whether a value has no use.
    pub(super) fn is_unused(&self, value: Value) -> bool {
        self.scopes.binding(value) == Binding::Unused
    }

    pub(super) fn selector(&self, selector: u32) -> Ident {
        super::fresh(&self.analysis.taken, &format!("selector_{selector}"))
    }

    /// The constant of the function's location, if the body refers to it.
    pub(super) fn location(&self) -> Option<TokenStream> {
        let ordinal = Literal::u32_unsuffixed(self.body.function.ordinal);
        let kind = if self.analysis.has_static_locations { quote!(static) } else { quote!(const) };
        self.uses_location.get().then(|| quote!(#kind HERE: Here = Here::new(&MODULE, #ordinal);))
    }

    /// The comment with the source location of an instruction, if the module has one and it differs from the last comment.
    fn source_comment(&self, offset: u32) -> Option<TokenStream> {
        let module = self.analysis.module;
        let source = module.source_location(self.body.function.ordinal, offset)?;
        let is_new = self.source.borrow().as_ref() != Some(&source);
        // Shared code comes from several locations.
        let comment = (is_new && self.shared.is_none()).then(|| comment(&source));
        self.source.replace(Some(source));
        comment
    }

    /// Declares the variables at the top of the body.
    pub(super) fn variables(&self) -> TokenStream {
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

    /// Emits a sequence. At the tail of the function, results need no `return`.
    pub(super) fn sequence(&self, sequence: &Sequence, tail: bool) -> Result<TokenStream> {
        let number = self.sequences.replace(self.sequences.get() + 1);
        let mut tokens = TokenStream::new();
        for (position, node) in sequence.iter().enumerate() {
            for value in self.scopes.declared_before(number, position as u32) {
                let Binding::Declared { mutable } = self.scopes.binding(*value) else { continue };
                let mutable = mutable.then(|| quote!(mut));
                let (name, ty) = (self.name(*value), type_of(self.body.function.ty(*value)));
                // Constants are borrowed from the state.
                let borrow = self.body.is_borrowed(*value).then(|| quote!(&));
                tokens.extend(quote!(let #mutable #name: #borrow #ty;));
            }
            let statement = self.node(node, tail && position + 1 == sequence.len())?;
            if let (Node::Inst(block, position), false) = (node, statement.is_empty()) {
                tokens.extend(self.source_comment(self.body.inst(*block, *position).offset));
            }
            tokens.extend(statement);
        }
        Ok(tokens)
    }

    fn node(&self, node: &Node, tail: bool) -> Result<TokenStream> {
        Ok(match node {
            Node::Inst(block, position) => self.instruction(*block, *position)?,
            Node::Edge(edge) => [self.edge_drops(*edge)?, self.edge(*edge)?].into_iter().collect(),
            Node::Drops(edge) => self.edge_drops(*edge)?,
            Node::Passes(edge) => self.edge(*edge)?,
            Node::If { condition, then, otherwise } => self.branch(condition, then, otherwise, tail)?,
            Node::Match { block, arms } => self.branch_table(*block, arms, tail)?,
            Node::Block { label, body } => {
                let (label, body) = (lifetime(*label), self.inner(None, body)?);
                quote!(#label: { #body })
            }
            Node::Loop { label, body, header } => self.counting(body, || {
                let named = self.label(*label, body);
                let counted = self.meter_iteration(body, self.offset_of(*header));
                let body = self.inner(Some(*label), body)?;
                let body = quote!(#counted #body);
                Ok(match body.is_empty() {
                    // Nothing ends this loop.
                    true => quote!(loop {
                        ::core::hint::spin_loop();
                    }),
                    false => quote!(#named loop { #body }),
                })
            })?,
            Node::While { condition, label, body, header } => self.counting(body, || {
                let named = self.label(*label, body);
                let condition = self.condition(condition, false)?;
                let counted = self.meter_iteration(body, self.offset_of(*header));
                let body = self.inner(Some(*label), body)?;
                Ok(quote!(#named while #condition { #counted #body }))
            })?,
            Node::Break(label) => self.jump(*label, quote!(break)),
            Node::Continue(label) => self.jump(*label, quote!(continue)),
            Node::Return(block) => self.return_(*block, tail)?,
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
            Node::Outlined(outlined) => self.call_outlined(outlined),
        })
    }

    /// Binds the results of an expression to their names.
    pub(super) fn bind(&self, results: &[Value], expression: TokenStream) -> TokenStream {
        self.bind_grouped(results, expression, false)
    }

    pub(super) fn bind_grouped(&self, results: &[Value], expression: TokenStream, is_grouped: bool) -> TokenStream {
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

    fn call_outlined(&self, outlined: &Outlined) -> TokenStream {
        let name = outlined_name(self.analysis, self.facts, outlined);
        let state = outlined.needs_state.then(|| quote!(state,));
        let stack = outlined.needs_stack.then(|| quote!(stack,));
        let spills = outlined.needs_spills.then(|| quote!(spills,));
        let arguments = outlined.inputs.iter().map(|(value, moved)| match (self.body.function.ty(*value), moved) {
            (Type::Ref, true) if self.is_borrowed(*value) => {
                let name = self.name(*value);
                quote!(#name.clone())
            }
            (Type::Ref, true) => self.moved(*value),
            _ => self.read(*value),
        });
        let location = outlined.is_nest.then(|| {
            self.uses_location.set(true);
            let base = hexadecimal(base_offset(self.body, outlined).into());
            quote!(HERE, #base,)
        });
        // The outlined function adds the location to its errors.
        self.bind(&outlined.outputs, quote!(#name(#location #state #stack #spills #(#arguments,)*)?))
    }

    /// The label of a loop, where a nested loop or block leaves or repeats it.
    fn label(&self, label: Label, body: &Sequence) -> Option<TokenStream> {
        needs_label(body, label, false).then(|| {
            let label = lifetime(label);
            quote!(#label:)
        })
    }

    /// Jumps to a label; the innermost loop needs none.
    fn jump(&self, label: Label, keyword: TokenStream) -> TokenStream {
        if self.innermost.get() == Some(label) {
            return quote!(#keyword;);
        }
        let label = lifetime(label);
        quote!(#keyword #label;)
    }

    /// Emits the body of a loop, whose label `innermost` names, or of a block.
    fn inner(&self, innermost: Option<Label>, body: &Sequence) -> Result<TokenStream> {
        let outer = self.innermost.replace(innermost);
        let body = self.sequence(body, false);
        self.innermost.set(outer);
        body
    }
}

/// The offset that the locations of a nest's function count from: that of the loop's first instruction.
pub(super) fn base_offset(body: &Body<'_>, outlined: &Outlined) -> u32 {
    let header = outlined.body.iter().find_map(|node| match node {
        Node::Loop { header, .. } | Node::While { header, .. } => Some(*header),
        _ => None,
    });
    let instructions = header.and_then(|header| body.function.blocks.get(header.0 as usize));
    instructions.and_then(|block| block.instructions.first()).map_or(0, |inst| inst.offset)
}

/// Whether a loop or block nested in a body jumps to the body's label.
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

/// A lifetime or label of a name, which is given without the quotation mark.
pub(super) fn lifetime_named(name: &str) -> TokenStream {
    let name = Ident::new(name, proc_macro2::Span::call_site()).to_token_stream();
    TokenTree::Punct(Punct::new('\'', Spacing::Joint)).to_token_stream().into_iter().chain(name).collect()
}

/// The name of an outlined function.
pub(super) fn outlined_name(analysis: &Analysis<'_>, facts: &FunctionFacts, outlined: &Outlined) -> Ident {
    super::fresh(&analysis.taken, &format!("{}_outlined_{}", super::stem(&facts.ident), outlined.number))
}
