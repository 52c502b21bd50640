//! Calls of the module's own functions, of known native functions, and of other imports.

use incarnate_bytecode::ConventionItem;
use incarnate_bytecode::imports::{Cost, DirectImport, Term};
use incarnate_bytecode::ir::{Call, Callee, Inst, Operand, Type, Value};
use incarnate_bytecode::isa::SEGMENT_NOT_VARIADIC;
use incarnate_bytecode::{Error, Result};
use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};

use super::abi;
use super::emitter::Emitter;
use super::recordings;
use super::transients;
use super::values::types_of;

/// The largest tuple of a call; more values are passed as a tuple of tuples.
const TUPLE: usize = 16;

/// The form of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The call does not yield.
    Plain,
    /// The call may yield; it returns a `Step`.
    Yieldable,
}

/// An argument of an import.
enum Argument<'f> {
    Value(&'f Operand),
    /// The elements of a span, each of one or more arguments.
    Span(Vec<Vec<Argument<'f>>>),
}

/// How the references of a call are passed.
struct Passing<'f> {
    /// Moved operands that are passed as borrows and dropped after the call: those that the call also passes elsewhere, and
    /// those in a span whose other elements are borrowed, because all elements of a span have one type.
    borrowed: Vec<&'f Operand>,
    /// The operand in whose place the call takes a slot for a deferred fence.
    deferred: Option<&'f Operand>,
}

impl Emitter<'_, '_> {
    /// A call that does not yield, as a statement.
    pub(super) fn call(&self, call: &Call, inst: &Inst) -> Result<TokenStream> {
        if let Some(result) = inst.results.last().filter(|result| self.body.is_borrowed_result(**result)) {
            return self.borrowing_call(call, inst, *result);
        }
        let (expression, drops) = self.invocation(call, inst.offset, Form::Plain)?;
        let bound = self.bind(&inst.results, expression);
        Ok(quote!(#bound #drops))
    }

    /// A call whose last result is borrowed from its owner: the only argument, or the first result.
    fn borrowing_call(&self, call: &Call, inst: &Inst, result: Value) -> Result<TokenStream> {
        let missing = || Error::internal("a call without a borrowed result");
        let Callee::Import(ordinal) = call.callee else { return Err(missing()) };
        let direct = self.analysis.imports.direct(ordinal).ok_or_else(missing)?;
        let borrow = direct.borrowed.ok_or_else(missing)?;
        let (before, owner) = match (borrow.alone, &call.operands[..]) {
            (Some(alone), _) => {
                let owner = *inst.results.first().ok_or_else(missing)?;
                let (expression, drops) = self.import(ordinal, (call, inst.offset), Form::Plain, Some(alone))?;
                let bound = self.bind(&[owner], self.fallible(expression, inst.offset));
                (quote!(#bound #drops), self.read(owner))
            }
            (None, [operand]) => (TokenStream::new(), self.read(operand.value)),
            (None, _) => return Err(missing()),
        };
        let (native, name, _) = self.native(direct, None);
        let function = format_ident!("{}", borrow.function);
        let borrowed = self.fallible(quote!(support::#function(state.#native(), #name, #owner)), inst.offset);
        let result = self.name(result);
        Ok(quote!(#before let #result = &*#borrowed;))
    }

    /// A call as an expression, and the drops after it.
    pub(super) fn invocation(&self, call: &Call, offset: u32, form: Form) -> Result<(TokenStream, TokenStream)> {
        let (expression, drops) = match call.callee {
            Callee::Internal(ordinal) => self.internal(ordinal, call)?,
            Callee::Import(ordinal) => self.import(ordinal, (call, offset), form, None)?,
        };
        Ok((self.fallible(expression, offset), drops))
    }

    fn internal(&self, ordinal: u32, call: &Call) -> Result<(TokenStream, TokenStream)> {
        let facts = self.analysis.functions.get(ordinal as usize).ok_or_else(|| Error::internal("no such function"))?;
        let name = &facts.ident;
        let generics = facts.is_inlined.then(|| quote!(::<LANES>));
        let state = facts.needs_state.then(|| quote!(state,));
        let stack = facts.needs_stack.then(|| quote!(stack,));
        let is_borrowed = |at: usize| facts.is_borrowed(at);
        let is_borrowed_value = |value: Value| {
            call.operands.iter().enumerate().any(|(at, operand)| operand.value == value && is_borrowed(at))
        };
        let arguments = call.operands.iter().enumerate().map(|(at, operand)| match is_borrowed(at) {
            true => self.read(operand.value),
            // A value that the same call borrows is not moved by it.
            false => self.take(&Operand { moved: operand.moved && !is_borrowed_value(operand.value), ..*operand }),
        });
        let dropped = call.operands.iter().filter(|operand| {
            operand.moved
                && is_borrowed_value(operand.value)
                && self.body.function.ty(operand.value) == Type::Ref
                && self.body.function.constant_bits(operand.value).is_none()
        });
        let drops = dropped.map(|operand| self.drop(operand.value)).collect();
        Ok((quote!(#name #generics(#state #stack #(#arguments),*)), drops))
    }

    /// A call of an import, at an offset of the bytecode; `method` overrides the method of the native module.
    fn import(
        &self,
        ordinal: u32,
        (call, offset): (&Call, u32),
        form: Form,
        method: Option<&str>,
    ) -> Result<(TokenStream, TokenStream)> {
        let convention: Vec<ConventionItem> =
            self.analysis.imports.convention(self.analysis.module, ordinal)?.arguments().collect();
        let mut segments = call.segments.iter().flat_map(|segments| segments.iter().copied());
        let mut operands = call.operands.iter();
        let tree = arguments(&convention, &mut segments, &mut operands, true)?;
        let passing = self.passing(call, &tree);
        let direct = self.analysis.imports.direct(ordinal);
        let values = tree.iter().enumerate().map(|(index, argument)| {
            let named = self.abi_name(direct, index, argument);
            let value = named.unwrap_or_else(|| self.argument(argument, &passing, direct.is_some()));
            match self.body.recordings.get(&offset) {
                Some(wait) if index == recordings::MODES => {
                    let wait = self.read(*wait);
                    quote!(support::modes_of_recording(#value, #wait))
                }
                _ => value,
            }
        });
        let values: Vec<TokenStream> = values.collect();
        let expression = match direct {
            Some(direct) => {
                let is_transient = self.body.transients.contains(&offset);
                let method = if is_transient { Some(transients::METHOD) } else { method };
                let (native, name, method) = self.native(direct, method);
                let charged =
                    self.analysis.untrusted.then(|| cost(direct.cost)).map(|cost| quote!(.charged::<#cost>()));
                let native = quote!(state.#native()#charged);
                let call = match direct.form {
                    None => quote!(#native.call(#name, #method, stack, (#(#values,)*))),
                    Some("inline") => quote!(#native.call_inline(#name, #method, stack, (#(#values,)*))),
                    Some(form) => {
                        let form = format_ident!("{form}");
                        quote!(support::#form(#native, #name, #method, stack, (#(#values,)*)))
                    }
                };
                match (form, direct.resume) {
                    _ if passing.deferred.is_some() => self.signalled(ordinal, &call)?,
                    (Form::Plain, Some(_)) => quote!(#call.and_then(Step::done)),
                    _ => call,
                }
            }
            None => {
                let (import, results) = (Literal::u32_unsuffixed(ordinal), self.result_types(ordinal)?);
                let method = match form {
                    Form::Plain => format_ident!("call"),
                    Form::Yieldable => format_ident!("call_yieldable"),
                };
                let values = tuple(&values);
                quote!(state.import(#import).#method::<#results>(stack, #values))
            }
        };
        let drops = passing.borrowed.iter().map(|operand| self.drop(operand.value)).collect();
        Ok((expression, drops))
    }

    /// A queue operation with a deferred fence, which is the last result.
    fn signalled(&self, import: u32, call: &TokenStream) -> Result<TokenStream> {
        let import = self.analysis.module.import(import).ok_or_else(|| Error::internal("no such import"))?;
        Ok(match import.calling_convention.results().next() {
            None => quote!(support::signalled(|signal| #call)),
            Some(_) => quote!(support::signalled_with(|signal| #call)),
        })
    }

    /// Resumes a callee that yielded.
    pub(super) fn resumption(&self, callee: Callee, offset: u32) -> Result<TokenStream> {
        let expression = match callee {
            Callee::Internal(ordinal) => {
                let resume = self.analysis.functions.get(ordinal as usize).and_then(|facts| facts.resume.as_ref());
                let resume = resume.ok_or_else(|| Error::internal("a function that does not yield is resumed"))?;
                quote!(#resume(state, stack))
            }
            Callee::Import(ordinal) => match self.analysis.imports.direct(ordinal) {
                Some(direct) => {
                    let (native, name, _) = self.native(direct, None);
                    let state = format_ident!("{}", direct.state);
                    let method = direct.resume.map(|resume| format_ident!("{}", resume));
                    quote!(state.#native().resume(#name, support::#state::#method, stack))
                }
                None => {
                    let (import, results) = (Literal::u32_unsuffixed(ordinal), self.result_types(ordinal)?);
                    quote!(state.import(#import).resume::<#results>(stack))
                }
            },
        };
        Ok(self.fallible(expression, offset))
    }

    fn native(&self, direct: &DirectImport, method: Option<&str>) -> (proc_macro2::Ident, &'static str, TokenStream) {
        let (state, method) = (format_ident!("{}", direct.state), format_ident!("{}", method.unwrap_or(direct.method)));
        (format_ident!("{}", direct.module), direct.name, quote!(support::#state::#method))
    }

    /// The type of an import's results in a packed call.
    fn result_types(&self, import: u32) -> Result<TokenStream> {
        let import = self.analysis.module.import(import).ok_or_else(|| Error::internal("no such import"))?;
        let types: Vec<Type> = import.calling_convention.results().filter_map(Type::of_item).collect();
        let groups: Vec<TokenStream> = types.chunks(TUPLE).map(tuple_type).collect();
        Ok(if types.len() > TUPLE { quote!((#(#groups,)*)) } else { types_of(&types) })
    }

    /// Whether an import has more results than a tuple holds.
    pub(super) fn groups_results(&self, callee: Callee, count: usize) -> bool {
        count > TUPLE && matches!(callee, Callee::Import(_))
    }

    /// Finds the moved references that are passed as borrows.
    fn passing<'f>(&self, call: &'f Call, tree: &[Argument<'f>]) -> Passing<'f> {
        let is_owned = |operand: &Operand| {
            let function = &self.body.function;
            operand.moved
                && function.ty(operand.value) == Type::Ref
                && function.constant_bits(operand.value).is_none()
                && !self.is_borrowed(operand.value)
        };
        let shared = |value: Value| call.operands.iter().any(|other| other.value == value && !other.moved);
        let is_taken = |operand: &Operand| is_owned(operand) && !shared(operand.value);
        let mut borrowed: Vec<&'f Operand> =
            call.operands.iter().filter(|operand| is_owned(operand) && shared(operand.value)).collect();
        for argument in tree {
            if let Argument::Span(_) = argument {
                let mut all = Vec::new();
                leaves(argument, &mut all);
                let references = || all.iter().filter(|operand| self.body.function.ty(operand.value) == Type::Ref);
                if references().any(|operand| !is_taken(operand)) {
                    borrowed.extend(references().filter(|operand| is_owned(operand)));
                }
            }
        }
        let mut found: Vec<&Operand> = Vec::new();
        for operand in borrowed {
            if !found.iter().any(|other| other.value == operand.value) {
                found.push(operand);
            }
        }
        let deferred = call.deferred.and_then(|argument| call.operands.get(usize::from(argument)));
        Passing { borrowed: found, deferred }
    }

    /// The named form of a constant argument that is a flag or a type of the HAL ABI.
    fn abi_name(&self, import: Option<&DirectImport>, index: usize, argument: &Argument<'_>) -> Option<TokenStream> {
        let (Some(import), Argument::Value(operand)) = (import, argument) else { return None };
        let bits = self.body.function.constant_bits(operand.value)?;
        abi::named(&format!("{}.{}", import.module, import.name), index, bits as u32 as i32)
    }

    fn argument(&self, argument: &Argument<'_>, passing: &Passing<'_>, is_direct: bool) -> TokenStream {
        match argument {
            Argument::Value(operand) => self.passed(operand, passing),
            Argument::Span(elements) if elements.is_empty() => quote!(support::NoElements),
            Argument::Span(elements) => {
                let nested = elements.iter().flatten().any(|argument| matches!(argument, Argument::Span(_)));
                let values: Vec<TokenStream> = elements
                    .iter()
                    .map(|element| {
                        let values: Vec<TokenStream> =
                            element.iter().map(|argument| self.argument(argument, passing, is_direct)).collect();
                        match &values[..] {
                            [one] => one.clone(),
                            _ => tuple(&values),
                        }
                    })
                    .collect();
                if nested && !is_direct {
                    let (count, values) = (Literal::usize_unsuffixed(elements.len()), tuple(&values));
                    return quote!(support::Elements(#count, #values));
                }
                quote!([#(#values),*])
            }
        }
    }

    fn passed(&self, operand: &Operand, passing: &Passing<'_>) -> TokenStream {
        if passing.deferred.is_some_and(|deferred| core::ptr::eq(deferred, operand)) {
            return quote!(signal);
        }
        if self.body.function.ty(operand.value) != Type::Ref {
            return self.typed(operand.value);
        }
        let is_borrowed = !operand.moved || passing.borrowed.iter().any(|other| other.value == operand.value);
        if is_borrowed || self.is_borrowed(operand.value) || self.body.function.constant_bits(operand.value).is_some() {
            return self.read(operand.value);
        }
        self.take(operand)
    }
}

/// What a call costs, as a type.
fn cost(cost: Cost) -> TokenStream {
    let terms = cost.0.iter().map(|term| {
        let (name, indices) = match term {
            Term::Elements(sizes) => ("Elements", sizes.to_vec()),
            Term::Bytes(count) => ("Bytes", vec![*count]),
            Term::BytesOf(count, of) => ("BytesOf", vec![*count, *of]),
            Term::Whole(object) => ("Whole", vec![*object]),
            Term::Compiled(object) => ("Compiled", vec![*object]),
        };
        let (name, indices) = (format_ident!("{name}"), indices.into_iter().map(Literal::u8_unsuffixed));
        quote!(support::cost::#name<#(#indices),*>)
    });
    quote!((#(#terms,)*))
}

/// The values of a tuple; tuples of tuples if there are many.
fn tuple(values: &[TokenStream]) -> TokenStream {
    if values.len() <= TUPLE {
        return quote!((#(#values,)*));
    }
    let size = values.len().div_ceil(TUPLE).max(TUPLE);
    let groups: Vec<TokenStream> = values.chunks(size).map(tuple).collect();
    quote!((#(#groups,)*))
}

fn tuple_type(types: &[Type]) -> TokenStream {
    let types = types.iter().map(|ty| super::values::type_of(*ty));
    quote!((#(#types,)*))
}

/// The pattern of results in a tuple of tuples.
pub(super) fn grouped(names: &[TokenStream]) -> TokenStream {
    let groups = names.chunks(TUPLE).map(|names| quote!((#(#names,)*)));
    quote!((#(#groups,)*))
}

/// The operands in an argument.
fn leaves<'f>(argument: &Argument<'f>, into: &mut Vec<&'f Operand>) {
    match argument {
        Argument::Value(operand) => into.push(operand),
        Argument::Span(elements) => elements.iter().flatten().for_each(|argument| leaves(argument, into)),
    }
}

/// Groups operands by the items of a calling convention. Each item at the top level has a segment, and so has each nested
/// span.
fn arguments<'f>(
    items: &[ConventionItem],
    segments: &mut dyn Iterator<Item = u16>,
    operands: &mut dyn Iterator<Item = &'f Operand>,
    top_level: bool,
) -> Result<Vec<Argument<'f>>> {
    let missing = || Error::internal("a call passes fewer values than its calling convention names");
    let mut found = Vec::new();
    let mut index = 0;
    while let Some(item) = items.get(index) {
        index += 1;
        let is_span = *item == ConventionItem::SpanStart;
        let segment = if top_level || is_span { segments.next() } else { None };
        if !is_span {
            found.push(Argument::Value(operands.next().ok_or_else(missing)?));
            continue;
        }
        let mut depth = 1;
        let length = items[index..].iter().position(|item| {
            depth += i32::from(*item == ConventionItem::SpanStart) - i32::from(*item == ConventionItem::SpanEnd);
            depth == 0
        });
        let end = index + length.ok_or_else(missing)?;
        let count = segment.filter(|count| *count != SEGMENT_NOT_VARIADIC).ok_or_else(missing)?;
        let elements =
            (0..count).map(|_| arguments(&items[index..end], segments, operands, false)).collect::<Result<Vec<_>>>()?;
        found.push(Argument::Span(elements));
        index = end + 1;
    }
    Ok(found)
}
