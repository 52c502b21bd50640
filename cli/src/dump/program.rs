//! The executables and command buffers that a module's functions create, as far as they are constant.

use std::collections::HashMap;

use incarnate_runtime::Result;
use incarnate_runtime::bytecode::VerifiedModule;
use incarnate_runtime::bytecode::isa::SEGMENT_NOT_VARIADIC;
use incarnate_runtime::ir::{Call, Callee, Function, Global, Op, Terminator, Value};

/// An executable that the module creates.
#[derive(Clone, Debug)]
pub(super) struct Executable {
    /// Ordinals of the constants with its format and its bytes.
    pub(super) format: Option<u32>,
    pub(super) data: Option<u32>,
    /// The functions that the module looks up, in order.
    pub(super) entry_points: Vec<EntryPoint>,
    /// The indices of the functions by name.
    numbers: HashMap<String, usize>,
}

/// A function of an executable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct EntryPoint {
    pub(super) name: String,
    /// Constants and bindings of dispatches, and the number of bindings.
    pub(super) constants: usize,
    pub(super) bindings: usize,
    pub(super) dispatches: usize,
}

/// A function that records a command buffer.
#[derive(Clone, Debug)]
pub(super) struct Recorder {
    pub(super) function: u32,
    pub(super) commands: Vec<Command>,
}

#[derive(Clone, Debug)]
pub(super) struct Command {
    pub(super) what: What,
    pub(super) reads: Vec<Range>,
    pub(super) writes: Vec<Range>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    Dispatch { name: String, workgroups: [Option<u64>; 3] },
    Transfer(&'static str),
}

/// A range of memory, which is unknown where it is not constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) memory: Memory,
    pub(super) offset: Option<u64>,
    pub(super) length: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Memory {
    /// The buffer that is bound to a slot at execution.
    Slot(u64),
    /// The buffer in a global of the module.
    Global(u32),
    /// A buffer from an unknown source.
    Other(u32),
}

impl Range {
    /// Returns true if the two ranges may overlap. Different buffers are assumed to be disjoint.
    pub(super) fn may_overlap(&self, other: &Range) -> bool {
        let begins_behind = |one: &Range, other: &Range| {
            let end = one.offset.zip(one.length).map(|(offset, length)| offset.saturating_add(length));
            matches!((end, other.offset), (Some(end), Some(offset)) if offset >= end)
        };
        self.memory == other.memory && !begins_behind(self, other) && !begins_behind(other, self)
    }

    /// Returns true if this range contains the other.
    pub(super) fn covers(&self, other: &Range) -> bool {
        let end = |range: &Range| range.offset?.checked_add(range.length?);
        let within = |end: u64, other_end: u64| self.offset <= other.offset && other_end <= end;
        self.memory == other.memory && end(self).zip(end(other)).is_some_and(|(one, other)| within(one, other))
    }
}

/// The whole range.
#[derive(Debug, Default)]
pub(super) struct Program {
    pub(super) executables: Vec<Executable>,
    pub(super) recorders: Vec<Recorder>,
}

/// The most bytes of a function's name: any number of dispatches may share a long one.
const NAME_LENGTH: usize = 1024;

/// The constant value of a register, if it is known.
#[derive(Clone, Debug)]
enum Known {
    Rodata(u32),
    Global(u32),
    Executable(usize),
    EntryPoint(Option<usize>, String),
}

impl Program {
    /// Reads the functions of a module.
    ///
    /// # Errors
    /// Errors of building the functions' IR.
    pub(super) fn of(module: &VerifiedModule) -> Result<Program> {
        let functions = (0..module.function_count()).map(|ordinal| Function::new(module, ordinal));
        let functions = functions.collect::<Result<Vec<_>>>()?;
        let mut reader = Reader { module, program: Program::default(), executable_of_global: HashMap::new() };
        // One function creates executables and others look them up, in any order.
        functions.iter().for_each(|function| reader.read_executables(function));
        functions.iter().zip(0..).for_each(|(function, ordinal)| reader.read_commands(function, ordinal));
        Ok(reader.program)
    }
}

struct Reader<'a> {
    module: &'a VerifiedModule,
    program: Program,
    executable_of_global: HashMap<u32, usize>,
}

/// A call of an import, by its name, with the number of elements of each span.
struct ImportCall<'a> {
    name: &'a str,
    operands: Vec<Value>,
    spans: Vec<usize>,
    result: Option<Value>,
}

impl<'a> Reader<'a> {
    fn import(&self, call: &Call, result: Option<Value>) -> Option<ImportCall<'a>> {
        let Callee::Import(ordinal) = call.callee else { return None };
        let operands = call.operands.iter().map(|operand| operand.value).collect();
        let counts = call.segments.iter().flat_map(|segments| segments.iter());
        let spans = counts.filter(|count| **count != SEGMENT_NOT_VARIADIC).map(|count| usize::from(*count)).collect();
        Some(ImportCall { name: self.module.import(ordinal)?.full_name, operands, spans, result })
    }

    fn text(&self, known: Option<&Known>) -> Option<String> {
        let Some(Known::Rodata(ordinal)) = known else { return None };
        let bytes = self.module.rodata_bytes(*ordinal)?;
        Some(String::from_utf8_lossy(bytes.get(..NAME_LENGTH).unwrap_or(&bytes)).into_owned())
    }

    /// The definitions in a function, and its calls in order.
    fn walk(&self, function: &Function, each: &mut dyn FnMut(&mut HashMap<Value, Known>, Step<'a>)) {
        let mut known = HashMap::new();
        for (_, block) in function.iter() {
            for inst in &block.instructions {
                let result = inst.results.first().copied();
                match (&inst.op, result) {
                    (Op::Rodata { rodata }, Some(result)) => {
                        known.insert(result, Known::Rodata(*rodata));
                    }
                    (Op::GlobalLoadRef { global: Global::Direct(global), .. }, Some(result)) => {
                        let executable = self.executable_of_global.get(global);
                        known.insert(result, executable.map_or(Known::Global(*global), |at| Known::Executable(*at)));
                    }
                    (Op::GlobalStoreRef { global: Global::Direct(global), value, .. }, _) => {
                        each(&mut known, Step::Store(*global, value.value));
                    }
                    (Op::Call(call), result) => {
                        if let Some(call) = self.import(call, result) {
                            each(&mut known, Step::Call(call));
                        }
                    }
                    _ => {}
                }
            }
            if let Terminator::CallYieldable { call, .. } = &block.terminator
                && let Some(call) = self.import(call, None)
            {
                each(&mut known, Step::Call(call));
            }
        }
    }

    fn read_executables(&mut self, function: &Function) {
        let (mut executables, mut stored) = (Vec::new(), Vec::new());
        let before = self.program.executables.len();
        self.walk(function, &mut |known, step| match step {
            Step::Call(call) => {
                let first = match call.name {
                    "hal.executable.create" => call.operands.len().saturating_sub(3),
                    "hal_loader.executable.load" => 0,
                    _ => return,
                };
                let constant = |at: usize| match call.operands.get(at).and_then(|value| known.get(value)) {
                    Some(Known::Rodata(ordinal)) => Some(*ordinal),
                    _ => None,
                };
                let (format, data) = (constant(first), constant(first + 1));
                if let Some(result) = call.result {
                    known.insert(result, Known::Executable(before + executables.len()));
                }
                executables.push(Executable { format, data, entry_points: Vec::new(), numbers: HashMap::new() });
            }
            Step::Store(global, value) => {
                if let Some(Known::Executable(executable)) = known.get(&value) {
                    stored.push((global, *executable));
                }
            }
        });
        self.program.executables.extend(executables);
        self.executable_of_global.extend(stored);
    }

    fn read_commands(&mut self, function: &Function, ordinal: u32) {
        let (mut commands, mut named) = (Vec::new(), Vec::new());
        let mut records = false;
        self.walk(function, &mut |known, step| {
            let Step::Call(call) = step else { return };
            let operand = |at: usize| call.operands.get(at).copied();
            let of = |at: usize| operand(at).and_then(|value| known.get(&value));
            let number = |at: usize| operand(at).and_then(|value| function.constant_bits(value));
            let range = |slot: usize, buffer: usize, offset: usize, length: usize| Range {
                memory: match (of(buffer), operand(buffer)) {
                    (Some(Known::Global(global)), _) => Memory::Global(*global),
                    (_, Some(buffer)) if function.constant_bits(buffer).is_none() => Memory::Other(buffer.0),
                    _ => number(slot).map_or(Memory::Other(u32::MAX), Memory::Slot),
                },
                offset: number(offset),
                length: number(length),
            };
            let transfer = |name, reads, writes| Command { what: What::Transfer(name), reads, writes };
            match call.name {
                "hal.executable.lookup.function" | "hal_loader.executable.lookup.function" => {
                    let executable = match of(0) {
                        Some(Known::Executable(executable)) => Some(*executable),
                        _ => None,
                    };
                    let name = self.text(of(1)).unwrap_or_default();
                    if let Some(executable) = executable {
                        named.push((executable, EntryPoint { name: name.clone(), ..EntryPoint::default() }));
                    }
                    if let Some(result) = call.result {
                        known.insert(result, Known::EntryPoint(executable, name));
                    }
                }
                "hal.command_buffer.create" => records = true,
                "hal.command_buffer.dispatch" | "hal.command_buffer.dispatch.indirect" => {
                    let entry_point = of(2);
                    let (executable, name) = match entry_point {
                        Some(Known::EntryPoint(executable, name)) => (*executable, name.clone()),
                        _ => (None, number(2).map_or_else(String::new, |ordinal| format!("function {ordinal}"))),
                    };
                    let (constants, bindings) = match call.spans[..] {
                        [constants, bindings] => (constants, bindings),
                        _ => (0, 0),
                    };
                    let first = call.operands.len().saturating_sub(5 * bindings);
                    let ranges: Vec<Range> = (0..bindings)
                        .map(|binding| first + 5 * binding)
                        .map(|at| range(at + 1, at + 2, at + 3, at + 4))
                        .collect();
                    let is_indirect = call.name.ends_with(".indirect");
                    let workgroups = if is_indirect { [None; 3] } else { [number(3), number(4), number(5)] };
                    if let Some(executable) = executable {
                        named.push((executable, EntryPoint { name: name.clone(), constants, bindings, dispatches: 1 }));
                    }
                    // The written bindings of a kernel are unknown; the compiler binds results last.
                    let writes = ranges.last().cloned().into_iter().collect();
                    let reads = match ranges.split_last() {
                        Some((_, [])) | None => ranges,
                        Some((_, others)) => others.to_vec(),
                    };
                    commands.push(Command { what: What::Dispatch { name, workgroups }, reads, writes });
                }
                "hal.command_buffer.fill_buffer" => commands.push(transfer("fill", vec![], vec![range(4, 1, 2, 3)])),
                "hal.command_buffer.update_buffer" => {
                    commands.push(transfer("update", vec![], vec![range(6, 3, 4, 5)]));
                }
                "hal.command_buffer.copy_buffer" => {
                    let (source, target) = (range(1, 3, 4, 7), range(2, 5, 6, 7));
                    commands.push(transfer("copy", vec![source], vec![target]));
                }
                "hal.command_buffer.collective" => commands.push(transfer("collective", vec![], vec![])),
                _ => {}
            }
        });
        for (executable, entry_point) in named {
            self.add_entry_point(executable, entry_point);
        }
        if records {
            self.program.recorders.push(Recorder { function: ordinal, commands });
        }
    }

    fn add_entry_point(&mut self, executable: usize, entry_point: EntryPoint) {
        let Some(executable) = self.program.executables.get_mut(executable) else { return };
        let at = executable.numbers.get(&entry_point.name).copied();
        match at.and_then(|at| executable.entry_points.get_mut(at)) {
            Some(other) => {
                other.constants = other.constants.max(entry_point.constants);
                other.bindings = other.bindings.max(entry_point.bindings);
                other.dispatches += entry_point.dispatches;
            }
            None => {
                executable.numbers.insert(entry_point.name.clone(), executable.entry_points.len());
                executable.entry_points.push(entry_point);
            }
        }
    }
}

/// An event in the walk over a function.
enum Step<'a> {
    Call(ImportCall<'a>),
    /// A reference that is stored to a global.
    Store(u32, Value),
}
