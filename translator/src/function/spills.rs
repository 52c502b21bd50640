//! Spill slots: references of long functions in one struct that the function shares with the functions outlined from it.
//!
//! With very many references live across calls, every call needs an unwind path that drops all of them, and outlined
//! functions take and return long tuples. The time to compile that grows with the square of their number.

use std::collections::{BTreeMap, HashMap};

use incarnate_bytecode::ir::{Block, Definition, Function, Type, Value};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use super::tree::{Body, Node, Sequence};

/// The least number of spill slots for which a function gets the struct.
const MIN_SLOTS: usize = 64;

/// Assigns spill slots and removes the spilled references from the inputs and outputs of outlined functions. Functions whose
/// values are initialised variables anyway have no spill slots.
pub(super) fn find(body: &mut Body<'_>, sequence: &mut Sequence) {
    if body.has_selectors {
        return;
    }
    // For each value that outlined functions take or return: the first and the last top-level statement that accesses it.
    let mut spans = BTreeMap::new();
    crossing(body, sequence, &mut |value| {
        spans.insert(value, (u32::MAX, 0));
    });
    if spans.len() < MIN_SLOTS {
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
    if (count as usize) < MIN_SLOTS {
        return;
    }
    remove(body, sequence, &slots);
    (body.spill_slots, body.spill_slot_count) = (slots, count);
}

/// Calls `f` with each owned reference that outlined functions take or return.
fn crossing(body: &Body<'_>, sequence: &[Node], f: &mut dyn FnMut(Value)) {
    for node in sequence {
        if let Node::Outlined(outlined) = node {
            let is_own = |value: &Value| {
                body.function.ty(*value) == Type::Ref
                    && !body.is_borrowed(*value)
                    && !is_argument(body.function, *value)
            };
            let inputs = outlined.inputs.iter().map(|input| input.0);
            inputs.chain(outlined.outputs.iter().copied()).filter(is_own).for_each(&mut *f);
            crossing(body, &outlined.body, f);
        }
        node.children().into_iter().for_each(|child| crossing(body, child, f));
    }
}

fn is_argument(function: &Function, value: Value) -> bool {
    matches!(function.definition(value), Definition::Parameter(Block::ENTRY, _))
}

/// Calls `f` with each value that a statement accesses, including accesses in outlined functions.
fn each_access(body: &Body<'_>, node: &Node, f: &mut dyn FnMut(Value)) {
    body.visit(node, &mut |value, _| f(value));
    if let Node::Outlined(outlined) = node {
        outlined.body.iter().for_each(|inner| each_access(body, inner, f));
    }
    node.children().into_iter().flatten().for_each(|inner| each_access(body, inner, f));
}

/// Assigns a slot to each value and returns the number of slots: values whose spans are disjoint may share one.
fn slots(spans: &BTreeMap<Value, (u32, u32)>) -> (HashMap<Value, u32>, u32) {
    let mut order: Vec<(u32, u32, Value)> =
        spans.iter().map(|(value, (first, last))| (*first, *last, *value)).collect();
    order.sort_unstable();
    // Slots by the last statement that accesses their value.
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

/// Removes spilled values from inputs and outputs, and marks outlined functions that access one. Returns whether the sequence
/// accesses one.
fn remove(body: &Body<'_>, sequence: &mut [Node], slots: &HashMap<Value, u32>) -> bool {
    let mut accesses = false;
    for node in sequence {
        body.visit(node, &mut |value, _| accesses |= slots.contains_key(&value));
        node.children_mut().into_iter().for_each(|child| accesses |= remove(body, child, slots));
        if let Node::Outlined(outlined) = node {
            outlined.needs_spills = remove(body, &mut outlined.body, slots);
            outlined.inputs.retain(|(value, _)| !slots.contains_key(value));
            outlined.outputs.retain(|value| !slots.contains_key(value));
        }
    }
    accesses
}

/// The field of a slot.
fn field(slot: u32) -> Ident {
    format_ident!("slot_{}", slot)
}

/// The expression of a spill slot.
pub(super) fn slot_expression(slot: u32) -> TokenStream {
    let field = field(slot);
    quote!(spills.#field)
}

/// The name of the struct of a function's spill slots.
pub(super) fn type_name(function: &Function) -> Ident {
    format_ident!("Spills{}", function.ordinal)
}

/// The struct of a function's spill slots.
pub(super) fn type_item(body: &Body<'_>, function: &Ident) -> Option<TokenStream> {
    let doc = format!(" Spill slots that [`{function}`] shares with the functions outlined from it.");
    let (name, fields) = (type_name(body.function), (0..body.spill_slot_count).map(field));
    (body.spill_slot_count != 0).then(|| {
        quote! {
            #[doc = #doc]
            pub struct #name { #(pub #fields: Ref),* }
        }
    })
}

/// Declares the spill slots at the top of the function.
pub(super) fn declaration(body: &Body<'_>) -> Option<TokenStream> {
    let (name, fields) = (type_name(body.function), (0..body.spill_slot_count).map(field));
    (body.spill_slot_count != 0).then(|| {
        quote! {
            let mut spills = support::Box::new(#name { #(#fields: Ref::Null),* });
            let spills = &mut *spills;
        }
    })
}
