//! Control flow: edges, branches, and the terminators of blocks.

use incarnate_bytecode::ir::{Block, Edge, Operand, Terminator, Value};
use incarnate_bytecode::{Error, Result};
use proc_macro2::{Literal, TokenStream};
use quote::quote;

use super::emitter::Emitter;
use super::scope::{Binding, Site};
use super::tree::{Condition, EdgeRef, Node, Sequence};
use super::values::{hexadecimal, type_of};

impl Emitter<'_, '_> {
    /// Drops the dead references of an edge.
    pub(super) fn edge_drops(&self, at: EdgeRef) -> Result<TokenStream> {
        let edge = self.body.edge(at).ok_or_else(|| Error::internal("a block has fewer edges than arms"))?;
        Ok(edge.drops.iter().map(|value| self.drop(*value)).collect())
    }

    /// Passes the arguments of an edge.
    pub(super) fn edge(&self, at: EdgeRef) -> Result<TokenStream> {
        let edge = self.body.edge(at).ok_or_else(|| Error::internal("a block has fewer edges than arms"))?;
        let mut tokens = TokenStream::new();
        let (mut assigned, mut sources, mut targets) = (Vec::new(), Vec::new(), Vec::new());
        let mut is_sequential = true;
        let mut lets = TokenStream::new();
        for (parameter, operand) in self.ordered_assignments(edge, at) {
            let (name, value) = (self.name(parameter), self.take(&operand));
            match self.scopes.binding(parameter) {
                Binding::Let { site, mutable } if site == Site::Edge(at) => {
                    let ty = type_of(self.body.function.ty(parameter));
                    let is_constant = self.body.function.constant_bits(operand.value).is_some();
                    let annotation = is_constant.then(|| quote!(: #ty));
                    let mutable = mutable.then(|| quote!(mut));
                    lets.extend(quote!(let #mutable #name #annotation = #value;));
                }
                _ => {
                    is_sequential &= !assigned.contains(&operand.value);
                    assigned.push(parameter);
                    targets.push(name);
                    sources.push(value);
                }
            }
        }
        tokens.extend(lets);
        tokens.extend(match is_sequential {
            true => quote!(#(#targets = #sources;)*),
            false => quote!((#(#targets),*) = (#(#sources),*);),
        });
        Ok(tokens)
    }

    /// The parameters of an edge that have uses, with their operands: first those that the edge declares, then those that it
    /// assigns. A reference that goes to several of them is moved to the last.
    fn ordered_assignments(&self, edge: &Edge, at: EdgeRef) -> Vec<(Value, Operand)> {
        let is_let =
            |parameter| matches!(self.scopes.binding(parameter), Binding::Let { site, .. } if site == Site::Edge(at));
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

    pub(super) fn condition(&self, condition: &Condition, negate: bool) -> Result<TokenStream> {
        let negated = condition.negated ^ negate;
        if let Some(position) = condition.fused {
            return self.test(self.body.inst(condition.block, position), negated);
        }
        let Terminator::CondBranch { condition: value, .. } = &self.body.block(condition.block).terminator else {
            return Err(Error::internal("a condition without a conditional branch"));
        };
        let value = self.number(*value);
        Ok(if negated { quote!(#value == 0) } else { quote!(#value != 0) })
    }

    pub(super) fn branch(
        &self,
        condition: &Condition,
        then: &Sequence,
        otherwise: &Sequence,
        tail: bool,
    ) -> Result<TokenStream> {
        // An `if` whose only statement is another `if` becomes one condition.
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

    pub(super) fn branch_table(&self, block: Block, arms: &[Sequence], tail: bool) -> Result<TokenStream> {
        let Terminator::BranchTable { index, .. } = &self.body.block(block).terminator else {
            return Err(Error::internal("a match without a branch table"));
        };
        self.cases(&self.typed(*index), arms, tail)
    }

    /// Selects one of several sequences by a number; the last is the default.
    pub(super) fn cases(&self, index: &TokenStream, arms: &[Sequence], tail: bool) -> Result<TokenStream> {
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

    pub(super) fn return_(&self, block: Block, tail: bool) -> Result<TokenStream> {
        let Terminator::Return(operands) = &self.body.block(block).terminator else {
            return Err(Error::internal("a return without a return terminator"));
        };
        let values: Vec<TokenStream> = operands.iter().map(|operand| self.take(operand)).collect();
        let value = match &values[..] {
            [one] => one.clone(),
            many => quote!((#(#many),*)),
        };
        let value = if self.facts.yields() { quote!(Ok(Step::Done(#value))) } else { quote!(Ok(#value)) };
        Ok(if tail { value } else { quote!(return #value;) })
    }

    pub(super) fn fail(&self, block: Block, tail: bool) -> Result<TokenStream> {
        let data = self.body.block(block);
        let Terminator::Fail { status, message, next } = &data.terminator else {
            return Err(Error::internal("a failure without a fail terminator"));
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

    pub(super) fn breakpoint(&self, block: Block) -> TokenStream {
        let ordinal = Literal::u32_unsuffixed(self.body.function.ordinal);
        let call = quote!(support::breakpoint(&MODULE, #ordinal););
        match &self.body.block(block).terminator {
            Terminator::CondBreak { condition, .. } => {
                let condition = self.number(*condition);
                quote!(if #condition != 0 { #call })
            }
            _ => call,
        }
    }
}
