//! The values that operations use and define.

use smallvec::SmallVec;

use super::function::BlockData;
use super::op::{Edge, Global, Op, Operand, Terminator};
use super::value::{Block, Value};

/// How an operand is used: the argument of [`Op::visit`]'s closure.
#[derive(Debug)]
pub enum Use<'a> {
    /// Read, or borrowed.
    Read(&'a Value),
    /// Moved.
    Take(&'a Operand),
}

/// How an operand is used, mutably: the argument of [`Op::visit_mut`]'s closure.
#[derive(Debug)]
pub enum UseMut<'a> {
    /// Read, or borrowed.
    Read(&'a mut Value),
    /// Moved.
    Take(&'a mut Operand),
}

impl Use<'_> {
    /// The value.
    #[must_use]
    pub fn value(&self) -> Value {
        match self {
            Use::Read(value) => **value,
            Use::Take(operand) => operand.value,
        }
    }
}

impl UseMut<'_> {
    /// The value, to be replaced.
    pub fn value_mut(&mut self) -> &mut Value {
        match self {
            UseMut::Read(value) => value,
            UseMut::Take(operand) => &mut operand.value,
        }
    }
}

/// Both directions of the visitors over operands, in the order in which they are read.
macro_rules! visitors {
    ($visit:ident, $visit_edges:ident, $outlined:ident, $use:ident, $iter:ident, ($($mutable:tt)*)) => {
        impl Op {
            /// Calls a function with each operand, in the order in which they are read.
            pub fn $visit<'a>(&'a $($mutable)* self, mut f: impl FnMut($use<'a>)) {
                self.$outlined(&mut f);
            }

            // One copy for all callers: copies of their own would be a tenth of the translator.
            fn $outlined<'a>(&'a $($mutable)* self, f: &mut dyn FnMut($use<'a>)) {
                match self {
                    Op::Eval { operands, .. } => operands.$iter().for_each(|value| f($use::Read(value))),
                    Op::Bitcast { operand } | Op::Low { operand } | Op::High { operand } | Op::IsNonNull { operand } => {
                        f($use::Read(operand));
                    }
                    Op::Pair { low: left, high: right } | Op::CompareRef { left, right, .. } => {
                        [left, right].into_iter().for_each(|value| f($use::Read(value)));
                    }
                    Op::Switch { index, default, values } => {
                        f($use::Read(index));
                        f($use::Read(default));
                        values.$iter().for_each(|value| f($use::Read(value)));
                    }
                    Op::GlobalLoad { global } | Op::GlobalLoadRef { global, .. } => {
                        if let Global::Indirect(value) = global {
                            f($use::Read(value));
                        }
                    }
                    Op::GlobalStore { global, value } => {
                        if let Global::Indirect(value) = global {
                            f($use::Read(value));
                        }
                        f($use::Read(value));
                    }
                    Op::GlobalStoreRef { global, value, .. } => {
                        if let Global::Indirect(value) = global {
                            f($use::Read(value));
                        }
                        f($use::Take(value));
                    }
                    Op::Rodata { .. } | Op::ImportResolved { .. } => {}
                    Op::CheckRef { value, .. } | Op::Drop { value } => f($use::Read(value)),
                    Op::SelectRef { condition, true_value, false_value, .. } => {
                        f($use::Read(condition));
                        f($use::Take(true_value));
                        f($use::Take(false_value));
                    }
                    Op::SwitchRef { index, default, values, .. } => {
                        f($use::Read(index));
                        f($use::Take(default));
                        values.$iter().for_each(|value| f($use::Take(value)));
                    }
                    Op::ListAlloc { capacity, .. } => f($use::Read(capacity)),
                    Op::ListSize { list: buffer } | Op::BufferLength { buffer } => f($use::Read(buffer)),
                    Op::ListReserve { list, capacity: value }
                    | Op::ListResize { list, size: value }
                    | Op::ListGet { list, index: value }
                    | Op::ListGetRef { list, index: value, .. } => {
                        [list, value].into_iter().for_each(|value| f($use::Read(value)));
                    }
                    Op::ListSet { list, index, value } => {
                        [list, index, value].into_iter().for_each(|value| f($use::Read(value)));
                    }
                    Op::ListSetRef { list, index, value } => {
                        [list, index].into_iter().for_each(|value| f($use::Read(value)));
                        f($use::Take(value));
                    }
                    Op::BufferLoad { buffer, offset, .. } | Op::BufferAlloc { length: buffer, alignment: offset } => {
                        [buffer, offset].into_iter().for_each(|value| f($use::Read(value)));
                    }
                    Op::BufferStore { buffer, offset, value, .. }
                    | Op::BufferHash { buffer, offset, length: value } => {
                        [buffer, offset, value].into_iter().for_each(|value| f($use::Read(value)));
                    }
                    Op::BufferFill { buffer, offset, length, value, .. }
                    | Op::BufferClone { buffer, offset, length, alignment: value } => {
                        [buffer, offset, length, value].into_iter().for_each(|value| f($use::Read(value)));
                    }
                    Op::BufferCopy { source: a, source_offset: b, target: c, target_offset: d, length: e }
                    | Op::BufferCompare { left: a, left_offset: b, right: c, right_offset: d, length: e } => {
                        [a, b, c, d, e].into_iter().for_each(|value| f($use::Read(value)));
                    }
                    Op::Call(call) => call.operands.$iter().for_each(|operand| f($use::Take(operand))),
                    Op::Trace { operands, .. } => operands.$iter().for_each(|value| f($use::Read(value))),
                }
            }
        }

        impl Terminator {
            /// Calls a function with each operand but those of edges.
            pub fn $visit<'a>(&'a $($mutable)* self, mut f: impl FnMut($use<'a>)) {
                match self {
                    Terminator::CondBranch { condition, .. } | Terminator::CondBreak { condition, .. } => {
                        f($use::Read(condition));
                    }
                    Terminator::BranchTable { index, .. } => f($use::Read(index)),
                    Terminator::Fail { status, .. } => f($use::Read(status)),
                    Terminator::Return(operands) => operands.$iter().for_each(|operand| f($use::Take(operand))),
                    Terminator::CallYieldable { call, .. } => {
                        call.operands.$iter().for_each(|operand| f($use::Take(operand)));
                    }
                    Terminator::Branch(_) | Terminator::Yield(_) | Terminator::Break(_) => {}
                }
            }

            /// Calls a function with each edge, in order.
            pub fn $visit_edges<'a>(&'a $($mutable)* self, mut f: impl FnMut(&'a $($mutable)* Edge)) {
                match self {
                    Terminator::Branch(edge)
                    | Terminator::Yield(edge)
                    | Terminator::CallYieldable { resume: edge, .. }
                    | Terminator::Break(edge)
                    | Terminator::CondBreak { next: edge, .. } => f(edge),
                    Terminator::CondBranch { if_true, if_false, .. } => {
                        f(if_true);
                        f(if_false);
                    }
                    Terminator::BranchTable { cases, default, .. } => {
                        cases.$iter().for_each(&mut f);
                        f(default);
                    }
                    Terminator::Fail { next, .. } => next.$iter().for_each(f),
                    Terminator::Return(_) => {}
                }
            }
        }
    };
}
visitors!(visit, visit_edges, visit_with, Use, iter, ());
visitors!(visit_mut, visit_edges_mut, visit_mut_with, UseMut, iter_mut, (mut));

impl BlockData {
    /// Calls a function with each value that instructions and the terminator use.
    pub fn visit_values(&self, mut f: impl FnMut(Value)) {
        self.instructions.iter().for_each(|inst| inst.op.visit(|operand| f(operand.value())));
        self.terminator.visit_values(f);
    }
}

impl Terminator {
    /// Calls a function with each value that is used: operands, and arguments of edges.
    pub fn visit_values(&self, mut f: impl FnMut(Value)) {
        self.visit(|operand| f(operand.value()));
        self.visit_edges(|edge| edge.arguments.iter().for_each(|operand| f(operand.value)));
    }

    /// The blocks that may follow, in the order of the edges; a block may be named more than once.
    #[must_use]
    pub fn successors(&self) -> SmallVec<[Block; 2]> {
        let mut blocks = SmallVec::new();
        self.visit_edges(|edge| blocks.push(edge.target));
        blocks
    }

    /// The edge of a number, in the order of [`Terminator::visit_edges`].
    #[must_use]
    pub fn edge(&self, number: usize) -> Option<&Edge> {
        match self {
            Terminator::BranchTable { cases, default, .. } => match cases.get(number) {
                Some(edge) => Some(edge),
                None => Some(default).filter(|_| number == cases.len()),
            },
            terminator => {
                let (mut count, mut found) = (0, None);
                terminator.visit_edges(|edge| {
                    found = found.or(Some(edge).filter(|_| count == number));
                    count += 1;
                });
                found
            }
        }
    }
}
