//! The data-flow analysis of one function.

use alloc::boxed::Box;
use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::imports::{self, BUFFER, ImportedFunction};
use super::registers::{Access, Fact, Registers, accesses};
use super::types::RefType;
use super::{ArgumentType, Recovery, Summary};
use crate::{
    AnyRegister, BlockOffset, Body, Budget, ConventionItem, EncodingType, FunctionOrdinal, Instruction, RefRegister,
    RegisterList, RemapList, Result, TypeId, TypeKind,
};

/// The most dimensions of a tensor that is recovered: the largest rank of IREE's `hal.buffer_view.create`.
const RANK_LIMIT: usize = 128;
const VM_BUFFER: &str = "!vm.buffer";

/// Computes the summary of a function whose callees have theirs.
///
/// # Errors
/// RESOURCE_EXHAUSTED if the function exceeds the budget.
pub(super) fn summary(recovery: &mut Recovery<'_>, function: u32, budget: &mut Budget) -> Result<Summary> {
    let Some(view) = recovery.module.function(function) else { return Ok(Summary::default()) };
    let refs = |item: &ConventionItem| *item == ConventionItem::Ref;
    let arguments = view.convention.arguments().filter(refs).count();
    let blocks: Vec<u32> = recovery.module.instructions(function).filter(is_block).map(|block| block.offset).collect();
    let entry = Registers::at_entry(view.i32_register_count, view.ref_register_count, arguments);
    budget.spend(blocks.len() + entry.len(), "the registers of the blocks")?;
    let mut states: Vec<Option<Registers>> = vec![None; blocks.len()];
    if let Some(first) = states.first_mut() {
        *first = Some(entry);
    }
    let mut flow = Flow {
        recovery,
        function: view.bytecode,
        blocks,
        pending: (0..states.len().min(1)).map(Reverse).collect(),
        is_pending: vec![false; states.len()],
        states,
        results: None,
        arguments: None,
        is_certain: false,
    };
    flow.run(budget)?;
    flow.arguments = Some(vec![ArgumentType::Unused; arguments]);
    flow.results = None;
    flow.constrain_arguments();
    let (arguments, results) = (flow.arguments, flow.results);
    Ok(Summary { arguments: arguments.unwrap_or_default(), results: results.unwrap_or_default() })
}

fn is_block(instruction: &Instruction<'_>) -> bool {
    matches!(instruction.body, Body::Block {})
}

struct Flow<'r, 'm> {
    recovery: &'r mut Recovery<'m>,
    function: &'m [u8],
    /// The offsets of the blocks, ascending.
    blocks: Vec<u32>,
    /// What holds where each block begins; `None` for blocks that are not reached.
    states: Vec<Option<Registers>>,
    /// The blocks whose state has changed; the first of them is visited next.
    pending: BinaryHeap<Reverse<usize>>,
    is_pending: Vec<bool>,
    /// The references that are returned.
    results: Option<Vec<Fact>>,
    /// The types of the arguments; `None` until the states are final.
    arguments: Option<Vec<ArgumentType>>,
    /// The current block is certain.
    is_certain: bool,
}

/// An edge from a block to another one, with the copies of registers on it.
struct Edge<'m> {
    target: usize,
    copies: Option<RemapList<'m>>,
}

impl<'m> Flow<'_, 'm> {
    /// Visits blocks until no state changes.
    fn run(&mut self, budget: &mut Budget) -> Result<()> {
        while let Some(Reverse(block)) = self.pending.pop() {
            self.is_pending[block] = false;
            let bytes = self.instructions(block).map(|instruction| instruction.length as usize).sum();
            budget.spend(bytes, "the instructions of the blocks")?;
            let Some((end, edges)) = self.visit(block) else { continue };
            budget.spend(end.len(), "the registers of the blocks")?;
            for Edge { target, copies } in edges {
                budget.spend(end.len().saturating_add(1), "the registers of the blocks")?;
                let mut state = end.clone();
                copies.iter().flat_map(|copies| copies.iter()).for_each(|(from, to)| state.copy(from, to));
                let Some(known) = self.states.get_mut(target) else { continue };
                let changed = match known {
                    Some(known) => known.join(&state, &mut self.recovery.types),
                    None => {
                        *known = Some(state);
                        true
                    }
                };
                if changed && !core::mem::replace(&mut self.is_pending[target], true) {
                    self.pending.push(Reverse(target));
                }
            }
        }
        Ok(())
    }

    /// Visits every block once, with final states, to read what it says of arguments.
    fn constrain_arguments(&mut self) {
        let mut block = 0;
        // Unconditional branches and calls lead from certain blocks to certain ones.
        let mut certain = vec![false; self.blocks.len()];
        while certain.get_mut(block).is_some_and(|certain| !core::mem::replace(certain, true)) {
            let Some(last) = self.terminator(block) else { break };
            let target = match last.body {
                Body::Branch { dest, .. } | Body::CondBreak { dest, .. } => dest,
                Body::CallYieldable { resume, .. } | Body::CallVariadicYieldable { resume, .. } => resume,
                _ => break,
            };
            let Some(next) = self.index(target) else { break };
            block = next;
        }
        for (block, is_certain) in certain.into_iter().enumerate() {
            self.is_certain = is_certain;
            drop(self.visit(block));
        }
    }

    fn instructions(&self, block: usize) -> impl Iterator<Item = Instruction<'m>> + use<'m> {
        let mut offset = self.blocks.get(block).copied();
        let function = self.function;
        core::iter::from_fn(move || {
            let instruction = Instruction::decode(function, offset?).ok()?;
            offset = (!instruction.opcode.info().effects.terminates).then(|| instruction.end());
            Some(instruction)
        })
    }

    fn terminator(&self, block: usize) -> Option<Instruction<'m>> {
        self.instructions(block).last()
    }

    fn index(&self, target: BlockOffset) -> Option<usize> {
        self.blocks.binary_search(&target.0).ok()
    }

    /// Returns the registers at the end of a block, and its edges; `None` if it is not reached.
    fn visit(&mut self, block: usize) -> Option<(Registers, Vec<Edge<'m>>)> {
        let mut state = self.states.get(block).cloned().flatten()?;
        let mut edges = Vec::new();
        for instruction in self.instructions(block) {
            let mut edge = |target: BlockOffset, copies: Option<RemapList<'m>>| {
                edges.extend(self.index(target).map(|target| Edge { target, copies }));
            };
            match instruction.body {
                Body::Branch { dest, operands } | Body::CondBreak { dest, operands, .. } => edge(dest, Some(operands)),
                Body::CondBranch { true_dest, true_operands, false_dest, false_operands, .. } => {
                    edge(true_dest, Some(true_operands));
                    edge(false_dest, Some(false_operands));
                }
                Body::BranchTable { default_dest, default_operands, cases, .. } => {
                    cases.iter().for_each(|(target, copies)| edge(target, Some(copies)));
                    edge(default_dest, Some(default_operands));
                }
                Body::CallYieldable { resume, .. } | Body::CallVariadicYieldable { resume, .. } => {
                    edge(resume, None);
                    self.step(&instruction, &mut state);
                }
                // Execution goes on behind it only with status 0, which compilers do not pass.
                Body::Fail { .. } => {}
                Body::Return { operands } => self.returned(operands, &state),
                _ => self.step(&instruction, &mut state),
            }
        }
        Some((state, edges))
    }

    fn returned(&mut self, operands: RegisterList<'_>, state: &Registers) {
        let refs = operands.iter().filter(|register| register.is_ref());
        let facts: Vec<Fact> = refs.map(|register| state.reference(register.index())).collect();
        match &mut self.results {
            None => self.results = Some(facts),
            Some(known) => {
                let types = &mut self.recovery.types;
                known.iter_mut().zip(facts).for_each(|(known, fact)| *known = known.join(fact, types));
            }
        }
    }

    /// Notes what a use of a reference says of an argument.
    fn used(&mut self, fact: Fact, used_as: ArgumentType) {
        if let Fact::Argument(index) = fact
            && let Some(argument) = self.arguments.as_mut().and_then(|arguments| arguments.get_mut(index as usize))
        {
            let mut known = *argument;
            self.recovery.constrain(&mut known, used_as, self.is_certain);
            *argument = known;
        }
    }
}

/// The effects of instructions.
impl Flow<'_, '_> {
    fn step(&mut self, instruction: &Instruction<'_>, state: &mut Registers) {
        match instruction.body {
            Body::Constant { value, result } => {
                state.set_word(result.index(), Fact::Word(value as u32));
                if instruction.opcode.info().banks.first().is_some_and(|bank| bank.size() == 8) {
                    state.set_word(result.index().saturating_add(1), Fact::Word((value >> 32) as u32));
                }
            }
            Body::ZeroConstant { result } => {
                state.set_word(result.index(), Fact::Word(0));
                if instruction.opcode.info().banks.first().is_some_and(|bank| bank.size() == 8) {
                    state.set_word(result.index().saturating_add(1), Fact::Word(0));
                }
            }
            Body::ConstRefZero { result } => state.set_reference(result.index(), Fact::Null),
            Body::AssignRef { source, result } => {
                let fact = state.take(source);
                state.set_reference(result.index(), fact);
            }
            Body::CastAnyRef { operand, result_type, result } => {
                let fact = state.take(operand);
                let ty = self.typed(result_type);
                self.used(fact, ty.map_or(ArgumentType::Used, ArgumentType::Type));
                let fact = match (fact, ty) {
                    (Fact::Varies, Some(ty)) => Fact::Type(ty),
                    (fact, _) => fact,
                };
                state.set_reference(result.index(), fact);
            }
            Body::DiscardRefs { refs } => {
                refs.iter().for_each(|register| state.set_reference(register.index(), Fact::Null));
            }
            Body::Call { callee, operands, results }
            | Body::CallYieldable { callee, operands, results, .. }
            | Body::CallVariadic { callee, operands, results, .. }
            | Body::CallVariadicYieldable { callee, operands, results, .. } => {
                self.call(callee, operands, results, state);
            }
            Body::Trace { operands, .. } => drop(references(operands, state)),
            body => {
                accesses(instruction, &mut |access| match access {
                    Access::Read(register) => {
                        let fact = state.take(register);
                        let used_as = self.operand_type(&body, register);
                        self.used(fact, used_as);
                    }
                    Access::Write(register, count) => {
                        (0..count).for_each(|at| state.set_word(register.index().saturating_add(at), Fact::Varies));
                    }
                    Access::WriteRef(register) => state.set_reference(register.index(), self.result_type(&body)),
                });
            }
        }
    }

    /// Returns the number of the type of a type definition; `None` for references to anything.
    fn typed(&mut self, ty: TypeId) -> Option<u32> {
        let ty = self.recovery.module.types().get(ty.0 as usize)?;
        match ty.kind() {
            TypeKind::Ref(_) | TypeKind::List(_) => Some(self.recovery.types.named(ty.text())),
            _ => None,
        }
    }

    /// Returns what an operand of an instruction must be.
    fn operand_type(&mut self, body: &Body<'_>, register: RefRegister) -> ArgumentType {
        let text = match body {
            Body::BufferLoad { .. }
            | Body::BufferStore { .. }
            | Body::BufferFill { .. }
            | Body::BufferClone { .. }
            | Body::BufferLength { .. }
            | Body::BufferCopy { .. }
            | Body::BufferCompare { .. }
            | Body::BufferHash { .. } => VM_BUFFER,
            Body::ListReserve { .. }
            | Body::ListSize { .. }
            | Body::ListResize { .. }
            | Body::ListGet { .. }
            | Body::ListSet { .. }
            | Body::ListGetRef { .. } => "!vm.list<?>",
            Body::ListSetRef { list, .. } if list.index() == register.index() => "!vm.list<?>",
            Body::GlobalStoreRef { type_def, .. } | Body::GlobalStoreIndirectRef { type_def, .. } => {
                return self.typed(*type_def).map_or(ArgumentType::Used, ArgumentType::Type);
            }
            _ => return ArgumentType::Used,
        };
        ArgumentType::Type(self.recovery.types.named(text))
    }

    /// Returns what the reference is that an instruction writes.
    fn result_type(&mut self, body: &Body<'_>) -> Fact {
        let ty = match *body {
            Body::ConstRefRodata { .. } | Body::BufferAlloc { .. } | Body::BufferClone { .. } => {
                Some(self.recovery.types.named(VM_BUFFER))
            }
            Body::ListAlloc { element_type, .. } => {
                let element = self.recovery.module.types().get(element_type.0 as usize).map_or("?", |ty| ty.text());
                let text = alloc::format!("!vm.list<{element}>");
                Some(self.recovery.types.named(&text))
            }
            Body::GlobalLoadRef { type_def, .. }
            | Body::GlobalLoadIndirectRef { type_def, .. }
            | Body::ListGetRef { type_def, .. }
            | Body::SelectRef { type_def, .. }
            | Body::SwitchRef { type_def, .. } => self.typed(type_def),
            _ => None,
        };
        ty.map_or(Fact::Varies, Fact::Type)
    }

    fn call(
        &mut self,
        callee: FunctionOrdinal,
        operands: RegisterList<'_>,
        results: RegisterList<'_>,
        state: &mut Registers,
    ) {
        let module = self.recovery.module;
        let (convention, returned): (_, Box<dyn Fn(usize) -> Fact>) = match callee.import() {
            Some(import) => {
                let Some(import) = module.import(import) else { return };
                let result = self.imported(imports::function(import.full_name), operands, state);
                drop(references(operands, state));
                (import.calling_convention, Box::new(move |_| result))
            }
            None => {
                let Some(view) = module.function(callee.0) else { return };
                let passed = references(operands, state);
                let summary = self.recovery.summaries.get(callee.0).cloned().unwrap_or_default();
                for (index, fact) in passed.iter().enumerate() {
                    self.used(*fact, summary.arguments.get(index).copied().unwrap_or(ArgumentType::Used));
                }
                let of = move |index: usize| match summary.results.get(index) {
                    Some(Fact::Argument(argument)) => passed.get(*argument as usize).copied().unwrap_or(Fact::Varies),
                    Some(fact) => *fact,
                    None => Fact::Varies,
                };
                (view.convention, Box::new(of))
            }
        };
        let mut refs = 0;
        for (register, item) in results.iter().zip(convention.results()) {
            match item {
                ConventionItem::Ref => {
                    state.set_reference(register.index(), returned(refs));
                    refs += 1;
                }
                ConventionItem::I64 | ConventionItem::F64 => {
                    state.set_word(register.index(), Fact::Varies);
                    state.set_word(register.index().saturating_add(1), Fact::Varies);
                }
                _ => state.set_word(register.index(), Fact::Varies),
            }
        }
    }

    /// Returns what the results of an import are that are references.
    fn imported(&mut self, import: Option<ImportedFunction>, operands: RegisterList<'_>, state: &Registers) -> Fact {
        let operand = |index: usize| operands.get(index).filter(|register| register.is_ref());
        let fact = |register: AnyRegister| state.reference(register.index());
        let (typed, ty, result): (&[usize], _, _) = match import {
            Some(ImportedFunction::AssertView) => {
                let ty = self.tensor(operands, 2, state);
                (&[0], ArgumentType::Type(ty), None)
            }
            Some(ImportedFunction::CreateView) => {
                let ty = self.tensor(operands, 3, state);
                let buffer = self.recovery.types.named(BUFFER);
                (&[0], ArgumentType::Type(buffer), Some(ty))
            }
            Some(ImportedFunction::Other { operands, ty, result }) => {
                let types = &mut self.recovery.types;
                (operands, ArgumentType::Type(types.named(ty)), result.map(|ty| types.named(ty)))
            }
            None => (&[], ArgumentType::Used, None),
        };
        for index in 0..operands.len() {
            let used_as = if typed.contains(&index) { ty } else { ArgumentType::Used };
            if let Some(register) = operand(index) {
                self.used(fact(register), used_as);
            }
        }
        result.map_or(Fact::Varies, Fact::Type)
    }

    /// Returns the type of a tensor whose element type, encoding and extents are operands from the given one on.
    fn tensor(&mut self, operands: RegisterList<'_>, first: usize, state: &Registers) -> u32 {
        let word = |index: usize| operands.get(index).and_then(|register| state.word(register.index()));
        let (element, encoding) = (word(first), word(first + 1));
        let is_dense = encoding.map(EncodingType::from_raw) == Some(EncodingType::DENSE_ROW_MAJOR);
        let dims = operands.iter().skip(first + 2);
        let ty = match element {
            Some(element) if is_dense && dims.len() <= RANK_LIMIT => {
                RefType::Tensor(element, dims.map(|dim| state.wide(dim.index())).collect())
            }
            _ => RefType::View,
        };
        self.recovery.types.number(ty)
    }
}

/// Returns what the references among a call's operands are, and leaves null in the registers that they are moved out of.
fn references(operands: RegisterList<'_>, state: &mut Registers) -> Vec<Fact> {
    let refs = operands.iter().filter(|register| register.is_ref());
    // One register may occur several times.
    let facts = refs.clone().map(|register| state.reference(register.index())).collect();
    for register in refs.filter(|register| register.is_move()) {
        state.set_reference(register.index(), Fact::Null);
    }
    facts
}
