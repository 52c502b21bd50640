//! One function of a program: its registers and its text.
//!
//! Most registers are used for every purpose, by instructions of all types. Reserved are the counters that make every
//! loop end, and references to a buffer and lists, so that most instructions succeed.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{ELEMENTS, RODATA, Shape, Signature, symbol};
use crate::random::Random;

/// Maximum depth of nested loops.
pub(super) const LOOP_DEPTH: u16 = 3;

/// A buffer for instructions: its register, its length, and its mutability.
#[derive(Clone, Debug)]
pub(super) struct Home {
    pub(super) register: String,
    pub(super) length: usize,
    pub(super) mutable: bool,
}

pub(super) struct FunctionBuilder<'p> {
    pub(super) shape: &'p Shape,
    pub(super) ordinal: usize,
    pub(super) random: &'p mut Random,
    /// The number of general-purpose registers; even.
    pub(super) values: u16,
    /// The number of general-purpose reference registers.
    pub(super) refs: u16,
    pub(super) buffer: Home,
    /// Registers that hold prepared operands of the current instruction.
    pub(super) pinned: Vec<u16>,
    pub(super) pinned_refs: Vec<u16>,
    /// Blocks to append at the end.
    pub(super) tail: String,
    /// The number of open loops.
    pub(super) loops: u16,
    /// Number of calls so far; bounded, because each may take long.
    pub(super) calls: usize,
    text: String,
    labels: usize,
    marked: BTreeMap<String, Vec<&'static str>>,
    mark: String,
}

impl<'p> FunctionBuilder<'p> {
    pub(super) fn new(shape: &'p Shape, ordinal: usize, random: &'p mut Random) -> FunctionBuilder<'p> {
        let signature = &shape.functions[ordinal];
        let mut needed = 0u16;
        for letter in signature.arguments.chars() {
            match letter {
                'I' | 'F' => needed = needed.next_multiple_of(2) + 2,
                'i' | 'f' => needed += 1,
                _ => {}
            }
        }
        let needed_refs = signature.arguments.chars().filter(|&letter| letter == 'r').count() as u16;
        let values = (needed + 1).max(10 + 2 * random.below(5) as u16).next_multiple_of(2);
        let refs = needed_refs.max(3 + random.below(4) as u16);
        let buffer = Home { register: format!("%r{refs}"), length: 0, mutable: false };
        FunctionBuilder {
            shape,
            ordinal,
            random,
            values,
            refs,
            buffer,
            pinned: Vec::new(),
            pinned_refs: Vec::new(),
            tail: String::new(),
            loops: 0,
            calls: 0,
            text: String::new(),
            labels: 0,
            marked: BTreeMap::new(),
            mark: String::new(),
        }
    }

    pub(super) fn signature(&self) -> &'p Signature {
        &self.shape.functions[self.ordinal]
    }

    /// The fuel of loops without another bound.
    pub(super) fn fuel(&self) -> String {
        format!("%i{}", self.values)
    }

    /// Constants for the counters.
    pub(super) fn scratch(&self) -> String {
        format!("%i{}", self.values + 1)
    }

    /// The remaining depth of recursive calls.
    pub(super) fn depth(&self) -> String {
        format!("%i{}", self.values + 2)
    }

    /// Returns the counter of a loop by its depth; a register pair.
    pub(super) fn counter(&self, level: u16) -> u16 {
        self.values + 4 + 2 * level
    }

    /// A list of values, with at least three elements.
    pub(super) fn values_list(&self) -> String {
        format!("%r{}", self.refs + 1)
    }

    /// A list of references, with at least three elements.
    pub(super) fn refs_list(&self) -> String {
        format!("%r{}", self.refs + 2)
    }

    pub(super) fn line(&mut self, line: &str) {
        let _ = writeln!(self.text, "  {line}");
        if self.shape.marks
            && let Some(at) = line.find("vm.")
            && let name = line[at + 3..].split(' ').next().unwrap_or_default()
            && let Some(row) = incarnate_runtime::bytecode::isa::INSTRUCTIONS.iter().find(|row| row.mnemonic == name)
        {
            self.marked.entry(self.mark.clone()).or_default().push(row.mnemonic);
        }
    }

    /// Returns a new label.
    pub(super) fn new_label(&mut self) -> String {
        self.labels += 1;
        format!("^l{}", self.labels)
    }

    /// Begins a block.
    pub(super) fn begin(&mut self, label: &str) {
        let _ = writeln!(self.text, "{label}:");
        if self.shape.marks {
            self.mark = format!("mark {} {label}", self.ordinal);
            let trace = format!("vm.trace \"{}\"", self.mark);
            self.line(&trace);
        }
    }

    /// Generates the whole function.
    pub(super) fn build(&mut self) {
        self.begin("^entry");
        self.prologue();
        match self.random.below(5) {
            0 | 1 => self.tangle(),
            2 | 3 => {
                self.structured();
                self.line("vm.br ^exit()");
            }
            _ => {
                self.structured();
                self.tangle();
            }
        }
        self.begin("^exit");
        if self.random.one_in(3) {
            self.statement();
        }
        self.return_();
        let tail = std::mem::take(&mut self.tail);
        self.text += &tail;
    }

    /// Initialises the reserved registers.
    fn prologue(&mut self) {
        let (fuel, scratch, depth) = (self.fuel(), self.scratch(), self.depth());
        let trip_count = 4 + self.random.below(9);
        self.line(&format!("{fuel} = vm.const.i32 {trip_count}"));
        if let Some(mask) = self.signature().recursion {
            self.line(&format!("{scratch} = vm.const.i32 {mask}"));
            self.line(&format!("{depth} = vm.and.i32 %i0, {scratch}"));
        }
        self.home_buffer();
        let length = 3 + self.random.below(3);
        self.line(&format!("{scratch} = vm.const.i32 {length}"));
        let element = ELEMENTS[self.random.below(6)];
        let element = if self.random.one_in(5) { "!vm.opaque" } else { element };
        for (list, element) in [
            (self.values_list(), element),
            (self.refs_list(), *self.random.pick(&["!vm.ref<?>", "!vm.ref<?>", "!vm.opaque"])),
        ] {
            self.line(&format!("{list} = vm.list.alloc {scratch} : !vm.list<{element}>"));
            self.line(&format!("vm.list.resize {list}, {scratch}"));
        }
    }

    fn home_buffer(&mut self) {
        let register = self.buffer.register.clone();
        let wide = self.counter(0);
        let (length, mutable) = match self.random.below(4) {
            0 | 1 if self.shape.initialized => {
                self.line(&format!("{register} = vm.global.load.ref .refs[0] : !vm.buffer"));
                (48, true)
            }
            2 => {
                let index = self.random.below(2);
                self.line(&format!("{register} = vm.const.ref.rodata {index}"));
                (RODATA[index], false)
            }
            _ => {
                let length = 16 + self.random.below(40);
                let scratch = self.scratch();
                self.line(&format!("%i{wide}:{} = vm.const.i64 {length}", wide + 1));
                let alignment = *self.random.pick(&[0, 1, 16, 64]);
                self.line(&format!("{scratch} = vm.const.i32 {alignment}"));
                self.line(&format!("{register} = vm.buffer.alloc %i{wide}:{}, {scratch}", wide + 1));
                (length, true)
            }
        };
        self.buffer = Home { register, length, mutable };
    }

    /// Generates a return of registers of the right types.
    pub(super) fn return_(&mut self) {
        let letters = self.signature().results.clone();
        let operands = self.operands_of(&letters);
        self.line(format!("vm.return {operands}").trim_end());
    }

    /// Returns the function's text; records the instructions of marked blocks.
    pub(super) fn finish(mut self, blocks: &mut BTreeMap<String, Vec<&'static str>>) -> String {
        blocks.append(&mut self.marked);
        let signature = &self.shape.functions[self.ordinal];
        let (mut next, mut next_ref) = (0u16, 0u16);
        let mut arguments = Vec::new();
        for letter in signature.arguments.chars() {
            arguments.push(match letter {
                'I' | 'F' => {
                    let low = next.next_multiple_of(2);
                    next = low + 2;
                    format!("%i{low}:{}: {}", low + 1, if letter == 'I' { "i64" } else { "f64" })
                }
                'r' => {
                    next_ref += 1;
                    format!("%r{}: !vm.ref<?>", next_ref - 1)
                }
                _ => {
                    next += 1;
                    format!("%i{}: {}", next - 1, if letter == 'i' { "i32" } else { "f32" })
                }
            });
        }
        let name_of = |letter| match letter {
            'i' => "i32",
            'I' => "i64",
            'f' => "f32",
            'F' => "f64",
            _ => "!vm.ref<?>",
        };
        let results: Vec<&str> = signature.results.chars().map(name_of).collect();
        format!(
            "vm.func {}({}) -> ({}) {{\n  //! registers {} {}\n{}}}\n",
            symbol(&signature.name),
            arguments.join(", "),
            results.join(", "),
            self.counter(LOOP_DEPTH) + 2,
            self.refs + 3,
            self.text,
        )
    }
}
