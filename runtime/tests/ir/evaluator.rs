//! An evaluator of the IR, as a module that replaces the interpreter's: slow, with assertions.
//!
//! Using a reference after it was moved or dropped panics, and so does leaking one.

mod memory;
mod module;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use incarnate_runtime::bytecode::ir::nest::Nests;
use incarnate_runtime::bytecode::ir::{
    Block, Call, Callee, Edge, Function, Global, Inst, Op, Operand, Terminator, Type, Value, ownership,
};
use incarnate_runtime::bytecode::isa::SEGMENT_NOT_VARIADIC;
use incarnate_runtime::bytecode::{Budget, ConventionItem, Dependency, TypeId, TypeKind, VerifiedModule};
use incarnate_runtime::vm::{
    BoundFunction, Buffer, CallBuffer, Completion, FunctionInfo, Limits, Linkage, List, Module, ModuleSignature,
    ModuleState, Ref, RefType, Stack, Value as VmValue, ValueType, semantics,
};
use incarnate_runtime::{Error, Result, StatusCode};
use module::{pack, slots};

/// The passes that run on the IR before it is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// No passes.
    Raw,
    /// The passes of [`Function::new`].
    Simplified,
    /// Also constant folding.
    Folded,
    /// Also loop nests, evaluated as nests.
    Nests,
}

pub const LEVELS: [Level; 4] = [Level::Raw, Level::Simplified, Level::Folded, Level::Nests];

#[derive(Debug)]
pub struct IrModule {
    verified: Arc<VerifiedModule>,
    functions: Vec<Function>,
    nests: Vec<Nests>,
    exports: Vec<(String, u32)>,
    /// Constants are one object each, which programs can see by comparing references.
    rodata: Mutex<HashMap<u32, Ref>>,
}

impl IrModule {
    pub fn new(verified: Arc<VerifiedModule>, level: Level) -> IrModule {
        let make = |ordinal| {
            let mut function =
                Function::unsimplified(&verified, ordinal, &mut Budget::of_function(&verified, ordinal)).unwrap();
            function.validate().unwrap_or_else(|error| panic!("{error}\n{function}"));
            match level {
                Level::Raw => {}
                Level::Simplified => function.simplify(None),
                Level::Folded | Level::Nests => function.simplify(Some(semantics::fold)),
            }
            ownership(&mut function, &mut Budget::of_function(&verified, ordinal)).unwrap();
            function.validate().unwrap_or_else(|error| panic!("{level:?} {error}\n{function}"));
            if level == Level::Simplified {
                assert_eq!(function, Function::new(&verified, ordinal).unwrap());
            }
            function
        };
        let functions: Vec<Function> = (0..verified.function_count()).map(make).collect();
        let nests =
            functions.iter().map(|f| if level == Level::Nests { Nests::of(f) } else { Nests::default() }).collect();
        let exports = verified.exports().map(|export| (export.local_name.to_owned(), export.function)).collect();
        IrModule { verified, functions, nests, exports, rodata: Mutex::default() }
    }

    /// A module whose only function is replaced.
    pub fn of_function(verified: Arc<VerifiedModule>, function: Function) -> IrModule {
        let nests = vec![Nests::of(&function)];
        IrModule { functions: vec![function], nests, ..IrModule::new(verified, Level::Nests) }
    }

    fn type_of(&self, id: TypeId) -> ValueType {
        match self.verified.types()[id.0 as usize].kind() {
            TypeKind::I8 => ValueType::I8,
            TypeKind::I16 => ValueType::I16,
            TypeKind::I32 => ValueType::I32,
            TypeKind::I64 => ValueType::I64,
            TypeKind::F32 => ValueType::F32,
            TypeKind::F64 => ValueType::F64,
            TypeKind::Opaque | TypeKind::AnyRef => ValueType::AnyRef,
            TypeKind::Any => ValueType::Any,
            TypeKind::List(_) => ValueType::Ref(List::TYPE),
            TypeKind::Ref(name) => ValueType::Ref(RefType::intern(name).unwrap()),
        }
    }

    fn element_type_of(&self, id: TypeId) -> ValueType {
        match self.verified.types()[id.0 as usize].kind() {
            TypeKind::Opaque => ValueType::Any,
            _ => self.type_of(id),
        }
    }

    fn check(&self, reference: &Ref, id: TypeId) -> Result<()> {
        match (self.type_of(id), reference.ref_type()) {
            (ValueType::AnyRef | ValueType::Any, _) | (_, None) => Ok(()),
            (ValueType::Ref(expected), Some(found)) if expected == found => Ok(()),
            _ => Err(Error::invalid_argument("reference of another type")),
        }
    }
}

#[derive(Debug)]
pub struct State {
    words: Mutex<Vec<u32>>,
    refs: Mutex<Vec<Ref>>,
    imports: Vec<Option<BoundFunction>>,
}

impl ModuleState for State {}

impl State {
    fn words(&self, offset: u32, count: usize) -> Result<std::ops::Range<usize>> {
        if !offset.is_multiple_of(4) {
            return Err(Error::invalid_argument("misaligned global"));
        }
        let start = offset as usize / 4;
        match start + count <= self.words.lock().unwrap().len() {
            true => Ok(start..start + count),
            false => Err(Error::out_of_range("global")),
        }
    }
}

/// The run-time content of a value.
#[derive(Clone, Debug)]
pub enum Slot {
    Empty,
    Word(u64),
    Ref(Ref),
}

/// A stack frame: function, position, values.
#[derive(Debug)]
pub struct Frame {
    pub function: usize,
    pub block: Block,
    pub next: usize,
    pub slots: Vec<Slot>,
}

/// A suspended call; `import` tells that the last frame's call of an import yielded.
#[derive(Debug)]
struct Suspended {
    frames: Vec<Frame>,
    import: bool,
}

impl Frame {
    pub fn word(&self, f: &Function, value: Value) -> u64 {
        match (f.constant_bits(value), &self.slots[value.index()]) {
            (Some(bits), _) => bits,
            (None, Slot::Word(word)) => *word,
            (None, slot) => panic!("v{} is {slot:?}, not a number\n{f}", value.0),
        }
    }

    fn i32(&self, f: &Function, value: Value) -> i32 {
        assert_eq!(f.ty(value), Type::i32);
        self.word(f, value) as i32
    }

    fn u32(&self, f: &Function, value: Value) -> u32 {
        self.i32(f, value) as u32
    }

    fn u64(&self, f: &Function, value: Value) -> u64 {
        assert_eq!(f.ty(value), Type::i64);
        self.word(f, value)
    }

    pub fn reference(&self, f: &Function, value: Value) -> Ref {
        match (f.constant_bits(value), &self.slots[value.index()]) {
            (Some(_), _) => Ref::Null,
            (None, Slot::Ref(reference)) => reference.clone(),
            (None, slot) => panic!("v{} is {slot:?}, not a reference\n{f}", value.0),
        }
    }

    fn slot(&mut self, f: &Function, operand: Operand) -> Slot {
        match f.ty(operand.value) {
            Type::Ref => {
                let reference = self.reference(f, operand.value);
                if operand.moved {
                    self.slots[operand.value.index()] = Slot::Empty;
                }
                Slot::Ref(reference)
            }
            _ => Slot::Word(self.word(f, operand.value)),
        }
    }

    fn take(&mut self, f: &Function, operand: Operand) -> Ref {
        match self.slot(f, operand) {
            Slot::Ref(reference) => reference,
            slot => panic!("{slot:?} is no reference"),
        }
    }

    fn define(&mut self, f: &Function, value: Value, slot: Slot) {
        match (f.ty(value), &slot) {
            (Type::Ref, Slot::Ref(_)) => assert!(
                matches!(self.slots[value.index()], Slot::Empty | Slot::Word(_)),
                "v{} is written while it owns a reference\n{f}",
                value.0
            ),
            (Type::i32 | Type::f32, Slot::Word(word)) => assert!(*word <= u64::from(u32::MAX)),
            (Type::i64 | Type::f64, Slot::Word(_)) => {}
            _ => panic!("v{} is assigned {slot:?}", value.0),
        }
        self.slots[value.index()] = slot;
    }

    fn drop(&mut self, f: &Function, value: Value) {
        self.reference(f, value);
        self.slots[value.index()] = Slot::Empty;
    }

    fn go(&mut self, f: &Function, edge: &Edge) {
        let passed: Vec<Slot> = edge.arguments.iter().map(|operand| self.slot(f, *operand)).collect();
        edge.drops.iter().for_each(|value| self.drop(f, *value));
        for (parameter, slot) in f.block(edge.target).parameters.iter().zip(passed) {
            self.define(f, *parameter, slot);
        }
        self.block = edge.target;
        self.next = 0;
    }

    fn clean(&self, f: &Function) {
        for (index, slot) in self.slots.iter().enumerate() {
            assert!(!matches!(slot, Slot::Ref(_)), "v{index} is left behind\n{f}");
        }
    }
}

/// An active call of the module.
pub struct Machine<'a> {
    pub module: &'a IrModule,
    pub state: &'a State,
    stack: &'a mut Stack,
    pub frames: Vec<Frame>,
    /// The gathers of the nest that runs, and whether an index was out of range.
    pub gathers: Vec<(Block, usize)>,
    pub missed: bool,
}

/// The result of running.
enum Outcome {
    Done(Vec<Slot>),
    Yielded { import: bool },
}

impl Machine<'_> {
    fn open(&mut self, function: u32, arguments: Vec<Slot>) -> Result<()> {
        let f = &self.module.functions[function as usize];
        if self.frames.len() > 500 {
            return Err(Error::resource_exhausted("too many frames"));
        }
        let mut frame = Frame {
            function: function as usize,
            block: Block::ENTRY,
            next: 0,
            slots: vec![Slot::Empty; f.value_count()],
        };
        assert_eq!(arguments.len(), f.arguments().len());
        for (parameter, slot) in f.arguments().iter().zip(arguments) {
            frame.define(f, *parameter, slot);
        }
        self.frames.push(frame);
        Ok(())
    }

    fn run(&mut self) -> Result<Outcome> {
        loop {
            let frame = self.frames.last().unwrap();
            let f = &self.module.functions[frame.function];
            if let Some(nest) = self.module.nests[frame.function].at(frame.block).filter(|_| frame.next == 0) {
                self.run_nest(f, nest);
            }
            let frame = self.frames.last_mut().unwrap();
            let data = f.block(frame.block);
            frame.next += 1;
            if let Some(inst) = data.instructions.get(frame.next - 1) {
                if let Op::Call(call) = &inst.op {
                    if self.call(f, call)? == Completion::Yielded {
                        return Err(Error::failed_precondition("a plain call yielded"));
                    }
                } else {
                    self.step(f, inst)?;
                }
                continue;
            }
            match &data.terminator {
                Terminator::Branch(edge) | Terminator::Break(edge) | Terminator::CondBreak { next: edge, .. } => {
                    frame.go(f, edge);
                }
                Terminator::CondBranch { condition, if_true, if_false } => {
                    let edge = if frame.i32(f, *condition) != 0 { if_true } else { if_false };
                    frame.go(f, edge);
                }
                Terminator::BranchTable { index, cases, default } => {
                    let edge = cases.get(frame.u32(f, *index) as usize).unwrap_or(default);
                    frame.go(f, edge);
                }
                Terminator::Return(operands) => {
                    let results: Vec<Slot> = operands.iter().map(|operand| frame.slot(f, *operand)).collect();
                    frame.clean(f);
                    self.frames.pop();
                    match self.frames.last() {
                        None => return Ok(Outcome::Done(results)),
                        Some(_) => self.finish(results),
                    }
                }
                Terminator::Fail { status, message, next } => match (StatusCode::from_raw(frame.u32(f, *status)), next)
                {
                    (Some(code), _) => return Err(Error::new(code, String::from_utf8_lossy(message).into_owned())),
                    (None, Some(next)) => frame.go(f, next),
                    (None, None) => return Err(Error::internal("the function ends")),
                },
                Terminator::Yield(edge) => {
                    frame.go(f, edge);
                    return Ok(Outcome::Yielded { import: false });
                }
                Terminator::CallYieldable { call, .. } => {
                    if self.call(f, call)? == Completion::Yielded {
                        return Ok(Outcome::Yielded { import: true });
                    }
                }
            }
        }
    }

    /// Passes the results of a call to its caller's frame, which continues.
    fn finish(&mut self, results: Vec<Slot>) {
        let frame = self.frames.last_mut().unwrap();
        let f = &self.module.functions[frame.function];
        let data = f.block(frame.block);
        let (targets, resume) = match (data.instructions.get(frame.next - 1), &data.terminator) {
            (Some(inst), _) => (&inst.results[..], None),
            (None, Terminator::CallYieldable { results, resume, .. }) => (&results[..], Some(resume)),
            _ => panic!("results of no call"),
        };
        assert_eq!(targets.len(), results.len());
        for (target, slot) in targets.iter().zip(results) {
            frame.define(f, *target, slot);
        }
        if let Some(resume) = resume {
            frame.go(f, resume);
        }
    }

    fn call(&mut self, f: &Function, call: &Call) -> Result<Completion> {
        let frame = self.frames.last_mut().unwrap();
        let arguments: Vec<Slot> = call.operands.iter().map(|operand| frame.slot(f, *operand)).collect();
        let import = match call.callee {
            Callee::Internal(function) => return self.open(function, arguments).map(|()| Completion::Done),
            Callee::Import(import) => import,
        };
        let Some(target) = &self.state.imports[import as usize] else {
            return Err(Error::not_found("unresolved import"));
        };
        let mut buffer = CallBuffer::new();
        let convention = self.module.verified.import(import).unwrap().calling_convention;
        let items: Vec<ConventionItem> = convention.arguments().collect();
        let mut segments = call.segments.iter().flat_map(|segments| segments.iter().copied());
        let mut arguments = arguments.into_iter();
        pack(&items, &mut segments, &mut arguments, true, &mut buffer);
        assert!(arguments.next().is_none());
        let completion = target.module.begin_call(&target.state, target.export, self.stack, &mut buffer)?;
        self.after(import, completion, buffer)
    }

    fn after(&mut self, import: u32, completion: Completion, mut buffer: CallBuffer) -> Result<Completion> {
        if completion == Completion::Done {
            let convention = self.module.verified.import(import).unwrap().calling_convention;
            self.finish(slots(buffer.drain(&convention.results().collect::<Vec<_>>())?));
        }
        Ok(completion)
    }

    /// Resumes the import that yielded.
    fn resume(&mut self) -> Result<Completion> {
        let frame = self.frames.last().unwrap();
        let Terminator::CallYieldable { call, .. } =
            &self.module.functions[frame.function].block(frame.block).terminator
        else {
            panic!("no yieldable call");
        };
        let Callee::Import(import) = call.callee else { panic!("not an import") };
        let target = self.state.imports[import as usize].as_ref().unwrap();
        let mut buffer = CallBuffer::new();
        let completion = target.module.resume_call(&target.state, target.export, self.stack, &mut buffer)?;
        self.after(import, completion, buffer)
    }

    fn global(&self, frame: &Frame, f: &Function, global: Global) -> u32 {
        match global {
            Global::Direct(place) => place,
            Global::Indirect(value) => frame.u32(f, value),
        }
    }

    fn step(&mut self, f: &Function, inst: &Inst) -> Result<()> {
        let (module, state) = (self.module, self.state);
        let mut frame = self.frames.pop().unwrap();
        let result = self.evaluate(module, state, &mut frame, f, inst);
        let slot = result?;
        match (&inst.results[..], slot) {
            ([], None) => {}
            ([value], Some(slot)) => frame.define(f, *value, slot),
            (results, slot) => panic!("{results:?} are assigned {slot:?}"),
        }
        self.frames.push(frame);
        Ok(())
    }

    pub fn evaluate(
        &mut self,
        module: &IrModule,
        state: &State,
        frame: &mut Frame,
        f: &Function,
        inst: &Inst,
    ) -> Result<Option<Slot>> {
        let word = |word: u64| Ok(Some(Slot::Word(word)));
        let flag = |flag: bool| Ok(Some(Slot::Word(flag.into())));
        let reference = |reference: Ref| Ok(Some(Slot::Ref(reference)));
        let result_type = inst.results.first().map_or(Type::i32, |value| f.ty(*value));
        match &inst.op {
            Op::Eval { opcode, operands } => {
                let words: Vec<u64> = operands.iter().map(|value| frame.word(f, *value)).collect();
                word(semantics::evaluate(*opcode, &words).expect("a function of semantics")?)
            }
            Op::Bitcast { operand } => {
                assert_eq!(f.ty(*operand).is_wide(), result_type.is_wide());
                word(frame.word(f, *operand))
            }
            Op::Low { operand } => word(u64::from(frame.u64(f, *operand) as u32)),
            Op::High { operand } => word(frame.u64(f, *operand) >> 32),
            Op::Pair { low, high } => word(u64::from(frame.u32(f, *low)) | u64::from(frame.u32(f, *high)) << 32),
            Op::Switch { index, default, values } => {
                word(frame.word(f, *values.get(frame.u32(f, *index) as usize).unwrap_or(default)))
            }
            Op::GlobalLoad { .. } | Op::GlobalStore { .. } | Op::GlobalLoadRef { .. } | Op::GlobalStoreRef { .. } => {
                self.access_global(module, state, frame, f, inst, result_type)
            }
            Op::Rodata { rodata } => {
                let mut known = module.rodata.lock().unwrap();
                if let Some(buffer) = known.get(rodata) {
                    return reference(buffer.clone());
                }
                let (contents, range) = module.verified.rodata(*rodata).unwrap();
                let buffer = Ref::Buffer(Buffer::of_contents(contents, range)?);
                known.insert(*rodata, buffer.clone());
                reference(buffer)
            }
            Op::CheckRef { type_def, value } => module.check(&frame.reference(f, *value), *type_def).map(|()| None),
            Op::SelectRef { condition, type_def, true_value, false_value } => {
                let condition = frame.i32(f, *condition) != 0;
                let (first, second) = (frame.take(f, *true_value), frame.take(f, *false_value));
                let chosen = if condition { first } else { second };
                module.check(&chosen, *type_def)?;
                reference(chosen)
            }
            Op::SwitchRef { index, type_def, default, values } => {
                let index = frame.u32(f, *index) as usize;
                let default = frame.take(f, *default);
                let values: Vec<Ref> = values.iter().map(|operand| frame.take(f, *operand)).collect();
                let chosen = values.get(index).cloned().unwrap_or(default);
                type_def.map_or(Ok(()), |id| module.check(&chosen, id))?;
                reference(chosen)
            }
            Op::CompareRef { negated, left, right } => {
                flag(frame.reference(f, *left).same(&frame.reference(f, *right)) != *negated)
            }
            Op::IsNonNull { operand } => flag(!frame.reference(f, *operand).is_null()),
            Op::ImportResolved { import } => flag(state.imports[*import as usize].is_some()),
            Op::Trace { operands, .. } => {
                for value in operands {
                    match f.ty(*value) {
                        Type::Ref => drop(frame.reference(f, *value)),
                        _ => drop(frame.i32(f, *value)),
                    }
                }
                Ok(None)
            }
            Op::Drop { value } => {
                frame.drop(f, *value);
                Ok(None)
            }
            Op::Call(_) => panic!("calls are not evaluated here"),
            _ => self.memory(module, frame, f, inst, result_type),
        }
    }

    fn access_global(
        &self,
        module: &IrModule,
        state: &State,
        frame: &mut Frame,
        f: &Function,
        inst: &Inst,
        result_type: Type,
    ) -> Result<Option<Slot>> {
        match &inst.op {
            Op::GlobalLoad { global } => {
                let range = state.words(self.global(frame, f, *global), 1 + usize::from(result_type.is_wide()))?;
                let words = state.words.lock().unwrap();
                let bits = words[range].iter().rev().fold(0, |bits, word| bits << 32 | u64::from(*word));
                Ok(Some(Slot::Word(bits)))
            }
            Op::GlobalStore { global, value } => {
                let bits = frame.word(f, *value);
                let offset = self.global(frame, f, *global);
                let range = state.words(offset, 1 + usize::from(f.ty(*value).is_wide()))?;
                for (index, slot) in state.words.lock().unwrap()[range].iter_mut().enumerate() {
                    *slot = (bits >> (32 * index)) as u32;
                }
                Ok(None)
            }
            Op::GlobalLoadRef { global, type_def, take } => {
                let global = self.global(frame, f, *global) as usize;
                let mut refs = state.refs.lock().unwrap();
                let slot = refs.get_mut(global).ok_or_else(|| Error::out_of_range("global"))?;
                module.check(slot, *type_def)?;
                Ok(Some(Slot::Ref(if *take { std::mem::take(slot) } else { slot.clone() })))
            }
            Op::GlobalStoreRef { global, type_def, value } => {
                let global = self.global(frame, f, *global) as usize;
                let mut refs = state.refs.lock().unwrap();
                let slot = refs.get_mut(global).ok_or_else(|| Error::out_of_range("global"))?;
                let value = frame.take(f, *value);
                module.check(&value, *type_def)?;
                *slot = value;
                Ok(None)
            }
            op => panic!("{op:?} accesses no global"),
        }
    }
}

fn number(ty: Type, bits: u64) -> VmValue {
    match ty {
        Type::i32 => VmValue::I32(bits as i32),
        Type::i64 => VmValue::I64(bits as i64),
        Type::f32 => VmValue::F32(f32::from_bits(bits as u32)),
        Type::f64 => VmValue::F64(f64::from_bits(bits)),
        Type::Ref => panic!("a reference is no number"),
    }
}
