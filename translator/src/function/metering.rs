//! The metering of untrusted code: what counts against the fuel besides calls of native functions.

use incarnate_bytecode::Result;
use incarnate_bytecode::imports::INSTRUCTIONS_PER_STEP;
use incarnate_bytecode::ir::{Op, Value};
use incarnate_bytecode::isa::Opcode;
use proc_macro2::{Literal, TokenStream};
use quote::quote;

use super::emitter::Emitter;
use super::outline::Needs;
use super::tree::{Node, Sequence};

/// The bulk work of an instruction, which counts against the fuel.
pub(super) enum BulkWork {
    /// A number of bytes.
    Bytes(Value),
    /// A number of elements, and the bytes of each.
    Elements(Value, u64),
    /// A number of list elements.
    ListElements(Value),
}

/// The bulk work of an operation, if it has any.
pub(super) fn bulk_work(op: &Op) -> Option<BulkWork> {
    Some(match op {
        Op::BufferAlloc { length, .. }
        | Op::BufferClone { length, .. }
        | Op::BufferCopy { length, .. }
        | Op::BufferCompare { length, .. }
        | Op::BufferHash { length, .. } => BulkWork::Bytes(*length),
        Op::BufferFill { opcode, length, .. } => BulkWork::Elements(*length, filled_bytes(*opcode)),
        Op::ListAlloc { capacity: count, .. }
        | Op::ListReserve { capacity: count, .. }
        | Op::ListResize { size: count, .. } => BulkWork::ListElements(*count),
        _ => return None,
    })
}

/// Bytes of an element that an instruction `buffer.fill.*` writes.
fn filled_bytes(opcode: Opcode) -> u64 {
    match opcode {
        Opcode::BufferFillI8 => 1,
        Opcode::BufferFillI16 => 2,
        Opcode::BufferFillI32 | Opcode::BufferFillF32 => 4,
        _ => 8,
    }
}

impl Emitter<'_, '_> {
    /// Counts a loop iteration or a call against the fuel, in untrusted modules.
    /// `body` is what runs in it.
    pub(super) fn meter_iteration(&self, body: &Sequence, offset: u32) -> Option<TokenStream> {
        let steps = 1 + self.instructions(body) / INSTRUCTIONS_PER_STEP;
        let (is_counting, count) = (self.counts_iterations.get(), Literal::usize_unsuffixed(steps));
        let spend = match (is_counting, steps) {
            (true, 1) => quote!(fuel.spend()),
            (true, _) => quote!(fuel.charge(#count)),
            (false, 1) => quote!(stack.spend_fuel()),
            (false, _) => quote!(stack.charge(#count)),
        };
        let metered = self.analysis.untrusted.then(|| self.fallible(spend, offset))?;
        Some(quote!(#metered;))
    }

    /// The number of instructions of a sequence and of arguments of its edges, without those of its loops, which take their own
    /// steps.
    fn instructions(&self, sequence: &Sequence) -> usize {
        let of = |node: &Node| match node {
            Node::Inst(..) => 1,
            Node::Edge(edge) | Node::Passes(edge) => self.body.edge(*edge).map_or(0, |edge| edge.arguments.len()),
            Node::Outlined(outlined) => self.instructions(&outlined.body),
            Node::Loop { .. } | Node::While { .. } => 0,
            node => node.children().into_iter().map(|child| self.instructions(child)).sum(),
        };
        sequence.iter().map(of).sum()
    }

    /// Emits a loop. The outermost loop of untrusted code that takes nothing else from the stack counts its iterations, and those
    /// of the loops in it, in a variable: a count in the stack would be written to memory in each iteration.
    pub(super) fn counting(&self, body: &Sequence, emit: impl FnOnce() -> Result<TokenStream>) -> Result<TokenStream> {
        if !self.analysis.untrusted || self.counts_iterations.get() || self.takes_stack(body) {
            return emit();
        }
        self.counts_iterations.set(true);
        let emitted = emit();
        self.counts_iterations.set(false);
        let emitted = emitted?;
        Ok(quote!({ let mut fuel = stack.iterations(); #emitted }))
    }

    /// Whether a sequence takes the stack for anything but counting the iterations of its loops.
    fn takes_stack(&self, sequence: &Sequence) -> bool {
        sequence.iter().any(|node| match node {
            Node::Inst(block, position) => self.analysis.needs(&self.body.inst(*block, *position).op).1,
            Node::Outlined(outlined) => outlined.needs_stack,
            Node::Nest(_) | Node::Call(_) | Node::Resume(_) | Node::Yield(_) => true,
            node => node.children().into_iter().any(|child| self.takes_stack(child)),
        })
    }

    /// Charges the bulk work of an instruction before it runs, in untrusted modules.
    pub(super) fn meter_bulk_work(&self, op: &Op, offset: u32) -> Option<TokenStream> {
        let work = bulk_work(op).filter(|_| self.analysis.untrusted)?;
        let charge = match work {
            BulkWork::Bytes(length) => {
                let length = self.typed(length);
                quote!(stack.charge_bytes(#length as u64))
            }
            BulkWork::Elements(count, width) => {
                let (count, width) = (self.typed(count), Literal::u64_unsuffixed(width));
                quote!(stack.charge_bytes((#count as u64).saturating_mul(#width)))
            }
            BulkWork::ListElements(count) => {
                let count = self.typed(count);
                quote!(stack.charge_list_elements(#count as u32 as u64))
            }
        };
        let charge = self.fallible(charge, offset);
        Some(quote!(#charge;))
    }
}
