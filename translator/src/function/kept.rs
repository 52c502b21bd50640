//! References of long functions that are kept in one place, which the function and its parts share.
//!
//! Where very many references live across calls, each call would have to know how to drop all of them, and parts would take and
//! give long tuples: the time to compile that grows with the square of their number.

use std::collections::{BTreeMap, HashMap};

use incarnate_runtime::ir::{Function, Type, Value};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use super::tree::{Body, Node, Sequence};

/// As many slots are worth it at least.
const WORTH: usize = 64;

/// Finds the references to keep, and takes them from what parts take and give. None are kept where values
/// are variables with a first value anyway.
pub(super) fn find(body: &mut Body<'_>, sequence: &mut Sequence) {
    if body.has_selectors {
        return;
    }
    // Of each value that parts take or give the first and the last statement of the whole sequence that it is in.
    let mut spans = BTreeMap::new();
    crossing(body, sequence, &mut |value| {
        spans.insert(value, (u32::MAX, 0));
    });
    if spans.len() < WORTH {
        return;
    }
    for (node, position) in sequence.iter().zip(0u32..) {
        each_access(body, node, &mut |value| {
            if let Some((first, last)) = spans.get_mut(&value) {
                (*first, *last) = ((*first).min(position), position);
            }
        });
    }
    let (slots, count) = slots(&spans);
    if (count as usize) < WORTH {
        return;
    }
    remove(body, sequence, &slots);
    (body.kept, body.kept_count) = (slots, count);
}

/// Calls a function with the references of the function's own that parts take or give.
fn crossing(body: &Body<'_>, sequence: &[Node], f: &mut dyn FnMut(Value)) {
    for node in sequence {
        if let Node::Part(part) = node {
            let is_own = |value: &Value| {
                body.function.ty(*value) == Type::Ref
                    && !body.is_borrowed(*value)
                    && !body.function.arguments().contains(value)
            };
            let inputs = part.inputs.iter().map(|input| input.0);
            inputs.chain(part.outputs.iter().copied()).filter(is_own).for_each(&mut *f);
            crossing(body, &part.body, f);
        }
        node.children().into_iter().for_each(|child| crossing(body, child, f));
    }
}

/// Calls a function with each value that a statement accesses, those within parts, too.
fn each_access(body: &Body<'_>, node: &Node, f: &mut dyn FnMut(Value)) {
    body.visit(node, &mut |value, _| f(value));
    if let Node::Part(part) = node {
        part.body.iter().for_each(|inner| each_access(body, inner, f));
    }
    node.children().into_iter().flatten().for_each(|inner| each_access(body, inner, f));
}

/// A slot for each value, and their number: values whose spans have no statement in common may share one.
fn slots(spans: &BTreeMap<Value, (u32, u32)>) -> (HashMap<Value, u32>, u32) {
    let mut order: Vec<(u32, u32, Value)> =
        spans.iter().map(|(value, (first, last))| (*first, *last, *value)).collect();
    order.sort_unstable();
    // Slots by the last statement of the value in them.
    let mut busy: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let (mut slots, mut count) = (HashMap::new(), 0);
    for (first, last, value) in order {
        let free = busy.first_entry().filter(|entry| *entry.key() < first).and_then(|mut entry| {
            let slot = entry.get_mut().pop();
            if entry.get().is_empty() {
                entry.remove();
            }
            slot
        });
        let slot = free.unwrap_or_else(|| {
            count += 1;
            count - 1
        });
        busy.entry(last).or_default().push(slot);
        slots.insert(value, slot);
    }
    (slots, count)
}

/// Takes what is kept from what parts take and give, and tells parts that access it; gives whether the sequence does.
fn remove(body: &Body<'_>, sequence: &mut [Node], slots: &HashMap<Value, u32>) -> bool {
    let mut accesses = false;
    for node in sequence {
        body.visit(node, &mut |value, _| accesses |= slots.contains_key(&value));
        node.children_mut().into_iter().for_each(|child| accesses |= remove(body, child, slots));
        if let Node::Part(part) = node {
            part.needs_kept = remove(body, &mut part.body, slots);
            part.inputs.retain(|(value, _)| !slots.contains_key(value));
            part.outputs.retain(|value| !slots.contains_key(value));
        }
    }
    accesses
}

/// The field of a slot.
fn field(slot: u32) -> Ident {
    format_ident!("slot_{}", slot)
}

/// A reference where it is kept.
pub(super) fn place(slot: u32) -> TokenStream {
    let field = field(slot);
    quote!(kept.#field)
}

/// What the references of a function are kept in.
pub(super) fn type_name(function: &Function) -> Ident {
    format_ident!("Kept{}", function.ordinal)
}

/// The type that the references of a function are kept in.
pub(super) fn type_item(body: &Body<'_>, function: &Ident) -> Option<TokenStream> {
    let doc = format!(" References that [`{function}`] and its parts share.");
    let (name, fields) = (type_name(body.function), (0..body.kept_count).map(field));
    (body.kept_count != 0).then(|| {
        quote! {
            #[doc = #doc]
            pub struct #name { #(pub #fields: Ref),* }
        }
    })
}

/// Makes the place where references are kept.
pub(super) fn declaration(body: &Body<'_>) -> Option<TokenStream> {
    let (name, fields) = (type_name(body.function), (0..body.kept_count).map(field));
    (body.kept_count != 0).then(|| {
        quote! {
            let mut kept = support::Box::new(#name { #(#fields: Ref::Null),* });
            let kept = &mut *kept;
        }
    })
}
