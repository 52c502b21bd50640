//! Instructions within blocks: one generator for every row of the instruction table, by its format.

use incarnate_runtime::bytecode::isa::{Bank, Format, INSTRUCTIONS, InstructionInfo, Opcode};

use super::function::FunctionBuilder;
use super::{GLOBAL_BYTES, GLOBAL_REFS, RODATA, TYPES};

/// Returns the bytes of an element that an instruction accesses, from the bits in its mnemonic; 1 if there are none.
fn width(mnemonic: &str) -> usize {
    let widths = [("i8", 1), ("i16", 2), ("32", 4), ("64", 8)];
    widths.iter().find(|(part, _)| mnemonic.contains(part)).map_or(1, |(_, width)| *width)
}

impl FunctionBuilder<'_> {
    /// Generates an instruction of any row within a block; half of them have a syntax of their own.
    pub(super) fn instruction(&mut self) {
        loop {
            let row = &INSTRUCTIONS[self.random.below(INSTRUCTIONS.len())];
            let plain =
                matches!(row.format, Format::Unary | Format::Binary | Format::BinaryComparison | Format::Conversion);
            if plain && self.random.one_in(2) || row.effects.terminates || row.opcode == Opcode::Block {
                continue;
            }
            self.pinned.clear();
            self.pinned_refs.clear();
            return self.of_row(row);
        }
    }

    fn list_of(&mut self, banks: &[Bank]) -> String {
        banks.iter().map(|bank| self.value(*bank)).collect::<Vec<_>>().join(", ")
    }

    /// Generates an instruction of a row, after those that prepare its operands.
    pub(super) fn of_row(&mut self, row: &'static InstructionInfo) {
        let (v, w) = (row.banks.first().copied(), row.banks.last().copied());
        let (v, w) = (v.unwrap_or(Bank::i32), w.unwrap_or(Bank::i32));
        let name = row.mnemonic;
        let line = match row.format {
            Format::Unary => self.computed(name, v, &[v]),
            Format::Binary if row.effects.fails && !self.risks() => self.division(name, v),
            Format::Binary => self.computed(name, v, &[v, v]),
            Format::Ternary => self.computed(name, v, &[v, v, v]),
            Format::Shift => self.computed(name, v, &[v, Bank::i32]),
            Format::Power => self.computed(name, v, &[v, Bank::i64]),
            Format::UnaryComparison => self.computed(name, Bank::i32, &[v]),
            Format::BinaryComparison => self.computed(name, Bank::i32, &[v, v]),
            Format::Conversion => self.computed(name, w, &[v]),
            Format::Select => {
                let (condition, yes, no) = (self.value(Bank::i32), self.value(v), self.value(v));
                format!("{} = vm.{name} {condition} ? {yes} : {no}", self.result(v))
            }
            Format::Switch => self.switch(name, v),
            Format::Constant => format!("{} = vm.{name} {}", self.result(v), self.immediate(v)),
            Format::ZeroConstant => format!("{} = vm.{name}", self.result(v)),
            Format::Trace => self.trace(name),
            Format::GlobalLoad
            | Format::GlobalStore
            | Format::GlobalLoadIndirect
            | Format::GlobalStoreIndirect
            | Format::GlobalLoadRef
            | Format::GlobalStoreRef
            | Format::GlobalLoadIndirectRef
            | Format::GlobalStoreIndirectRef => self.global(row, v),
            Format::ListAlloc
            | Format::ListReserve
            | Format::ListSize
            | Format::ListResize
            | Format::ListGet
            | Format::ListSet
            | Format::ListGetRef
            | Format::ListSetRef => self.list(row, v),
            Format::BufferLoad
            | Format::BufferStore
            | Format::BufferFill
            | Format::BufferAlloc
            | Format::BufferClone
            | Format::BufferLength
            | Format::BufferCopy
            | Format::BufferCompare
            | Format::BufferHash => self.memory(row, v),
            Format::RefUnaryComparison
            | Format::RefBinaryComparison
            | Format::ConstRefZero
            | Format::ConstRefRodata
            | Format::DiscardRefs
            | Format::AssignRef
            | Format::CastAnyRef
            | Format::SelectRef
            | Format::SwitchRef => self.referring(row),
            Format::Call => return self.call(false),
            Format::CallVariadic => return self.call(true),
            Format::ImportResolved => match self.shape.imports.len() {
                0 => return,
                count => {
                    let import = self.random.below(count);
                    format!("{} = vm.{name} @{}", self.result(Bank::i32), self.shape.imports[import].name)
                }
            },
            // `control` generates the terminators.
            Format::Block
            | Format::Branch
            | Format::CondBranch
            | Format::CondBreak
            | Format::BranchTable
            | Format::CallYieldable
            | Format::CallVariadicYieldable
            | Format::Return
            | Format::Fail => return,
        };
        self.line(&line);
    }

    fn computed(&mut self, name: &str, result: Bank, operands: &[Bank]) -> String {
        let operands = self.list_of(operands);
        format!("{} = vm.{name} {operands}", self.result(result))
    }

    /// Divides by a number that is not zero.
    fn division(&mut self, name: &str, bank: Bank) -> String {
        let divisor = *self.random.pick(&[1, 2, 3, -1, -7, 10, 1 << 30]);
        let right = self.constant(bank, divisor);
        format!("{} = vm.{name} {}, {right}", self.result(bank), self.value(bank))
    }

    fn switch(&mut self, name: &str, bank: Bank) -> String {
        let count = self.random.below(4);
        let index = self.switch_index(count);
        let (values, default) = (self.list_of(&vec![bank; count]), self.value(bank));
        format!("{} = vm.{name} {index}[{values}] else {default}", self.result(bank))
    }

    fn trace(&mut self, name: &str) -> String {
        let count = self.random.below(4);
        let letters: String = (0..count).map(|_| *self.random.pick(&['i', 'i', 'r'])).collect();
        let text = *self.random.pick(&["t", "an \\22event\\22", "{}", "*/ \\5C", ""]);
        let operands = self.operands_of(&letters);
        let comma = if count > 0 { ", " } else { "" };
        format!("vm.{name} \"{text}\"{comma}{operands}")
    }

    /// Returns an index that often selects one of some cases.
    pub(super) fn switch_index(&mut self, count: usize) -> String {
        if self.random.one_in(3) {
            return self.value(Bank::i32);
        }
        let index = self.random.below(count + 2) as i64 - 1;
        self.constant(Bank::i32, index)
    }

    fn global(&mut self, row: &InstructionInfo, v: Bank) -> String {
        let name = row.mnemonic;
        let size = v.size() as usize;
        // Including halves of 64-bit values.
        let offset = 4 * self.random.below((GLOBAL_BYTES - size) / 4 + 1);
        let index = self.random.below(GLOBAL_REFS);
        match row.format {
            Format::GlobalLoad => {
                // Fixed offsets are aligned to the value.
                let offset = offset / size * size;
                format!("{} = vm.{name} .rwdata[{offset}]", self.result(v))
            }
            Format::GlobalStore => {
                let offset = offset / size * size;
                format!("vm.{name} {}, .rwdata[{offset}]", self.value(v))
            }
            Format::GlobalLoadIndirect => {
                let at = self.index(Bank::i32, offset as i64, GLOBAL_BYTES as i64);
                format!("{} = vm.{name} {at}", self.result(v))
            }
            Format::GlobalStoreIndirect => {
                let at = self.index(Bank::i32, offset as i64, GLOBAL_BYTES as i64);
                format!("vm.{name} {at}, {}", self.value(v))
            }
            Format::GlobalLoadRef => {
                let moved = if index > 1 && self.random.one_in(3) { "%R" } else { "%r" };
                let target = self.reference().replace("%r", moved);
                format!("{target} = vm.{name} .refs[{index}] : {}", self.lax_type())
            }
            Format::GlobalStoreRef => {
                // The initialiser's first two globals are never overwritten.
                let index = index.max(2);
                let value = self.movable();
                format!("vm.{name} {value}, .refs[{index}] : {}", self.lax_type())
            }
            Format::GlobalLoadIndirectRef => {
                let moved = if index > 1 && self.random.one_in(3) { "%R" } else { "%r" };
                let at = self.index(Bank::i32, index as i64, GLOBAL_REFS as i64);
                let target = self.reference().replace("%r", moved);
                format!("{target} = vm.{name} {at} : {}", self.lax_type())
            }
            _ => {
                let at = self.index(Bank::i32, index.max(2) as i64, GLOBAL_REFS as i64);
                let value = self.movable();
                format!("vm.{name} {at} : {}, {value}", self.lax_type())
            }
        }
    }

    fn list(&mut self, row: &InstructionInfo, v: Bank) -> String {
        let name = row.mnemonic;
        let good = self.random.below(3) as i64;
        match row.format {
            Format::ListAlloc => {
                let capacity = self.index(Bank::i32, good * 5, 9);
                let element = *self.random.pick(&super::ELEMENTS);
                let element = if self.random.one_in(2) { "!vm.opaque" } else { element };
                format!("{} = vm.{name} {capacity} : !vm.list<{element}>", self.reference())
            }
            Format::ListReserve => {
                let refs = self.random.one_in(2);
                let capacity = self.constant(Bank::i32, good * 4);
                format!("vm.{name} {}, {capacity}", self.some_list(refs))
            }
            Format::ListSize => {
                let refs = self.random.one_in(2);
                let list = self.some_list(refs);
                format!("{} = vm.{name} {list}", self.result(Bank::i32))
            }
            Format::ListResize => {
                let refs = self.random.one_in(2);
                let size = if self.risks() { good } else { good + 3 };
                let size = self.constant(Bank::i32, size);
                format!("vm.{name} {}, {size}", self.some_list(refs))
            }
            Format::ListGet => {
                let (list, index) = (self.some_list(false), self.index(Bank::i32, good, 3));
                format!("{} = vm.{name} {list}, {index}", self.result(v))
            }
            Format::ListSet => {
                let (list, index) = (self.some_list(false), self.index(Bank::i32, good, 3));
                format!("vm.{name} {list}, {index}, {}", self.value(v))
            }
            Format::ListGetRef => {
                let (list, index) = (self.some_list(true), self.index(Bank::i32, good, 3));
                let moved = if self.random.one_in(3) { "%R" } else { "%r" };
                let (target, type_def) = (self.reference().replace("%r", moved), *self.random.pick(&TYPES));
                let type_def = if self.random.one_in(2) { "!vm.ref<?>" } else { type_def };
                format!("{target} = vm.{name} {list}, {index} : {type_def}")
            }
            _ => {
                let (list, index) = (self.some_list(true), self.index(Bank::i32, good, 3));
                // Cyclic lists are never freed, so they are rare.
                let value = if self.random.one_in(8) { self.movable() } else { self.reference() };
                format!("vm.{name} {list}, {index}, {value}")
            }
        }
    }

    fn memory(&mut self, row: &InstructionInfo, v: Bank) -> String {
        let name = row.mnemonic;
        let width = width(name);
        let writes = matches!(row.format, Format::BufferStore | Format::BufferFill);
        let buffer = self.some_buffer(writes);
        let end = buffer.length as i64;
        let count = self.random.below(buffer.length / width.max(1)).min(9);
        let start = self.random.below(buffer.length + 1 - count.max(1) * width) as i64;
        match row.format {
            // Offsets and lengths of loads, stores and fills are in elements; those of other instructions in bytes.
            Format::BufferLoad => {
                let at = self.index(Bank::i64, start / width as i64, end / width as i64);
                format!("{} = vm.{name} {}, {at}", self.result(v), buffer.register)
            }
            Format::BufferStore => {
                let at = self.index(Bank::i64, start / width as i64, end / width as i64);
                format!("vm.{name} {}, {}, {at}", self.value(v), buffer.register)
            }
            Format::BufferFill => {
                let at = self.index(Bank::i64, start / width as i64, end / width as i64);
                let length = self.index(Bank::i64, count as i64, end);
                format!("vm.{name} {}, {at}, {length}, {}", buffer.register, self.value(v))
            }
            Format::BufferAlloc => {
                let length = self.index(Bank::i64, end, -5);
                let good = *self.random.pick(&[0, 1, 2, 16, 4096]);
                let alignment = self.index(Bank::i32, good, 3);
                format!("{} = vm.{name} {length}, {alignment}", self.reference())
            }
            Format::BufferClone => {
                let at = self.index(Bank::i64, start, end);
                let length = self.index(Bank::i64, count as i64 * width as i64, end);
                let alignment = self.constant(Bank::i32, 16);
                format!("{} = vm.{name} {}, {at}, {length}, {alignment}", self.reference(), buffer.register)
            }
            Format::BufferLength => format!("{} = vm.{name} {}", self.result(Bank::i64), buffer.register),
            Format::BufferCopy | Format::BufferCompare => {
                let other = if self.random.one_in(2) { buffer.clone() } else { self.some_buffer(true) };
                // Copies go to a mutable buffer, and may overlap.
                let (from, to) = if other.mutable || self.risks() {
                    (buffer, other)
                } else {
                    let target = self.some_buffer(true);
                    (other, target)
                };
                let most = from.length.min(to.length);
                let length = self.random.below(most + 1);
                let (a, b) = (self.random.below(from.length - length + 1), self.random.below(to.length - length + 1));
                let a = self.index(Bank::i64, a as i64, from.length as i64);
                let b = self.index(Bank::i64, b as i64, to.length as i64);
                let length = self.index(Bank::i64, length as i64, most as i64);
                let operands = format!("{}, {a}, {}, {b}, {length}", from.register, to.register);
                match row.format {
                    Format::BufferCopy => format!("vm.{name} {operands}"),
                    _ => format!("{} = vm.{name} {operands}", self.result(Bank::i32)),
                }
            }
            _ => {
                let at = self.index(Bank::i64, start, end);
                let length = self.index(Bank::i64, count as i64, end);
                format!("{} = vm.{name} {}, {at}, {length}", self.result(Bank::i64), buffer.register)
            }
        }
    }

    fn referring(&mut self, row: &InstructionInfo) -> String {
        let name = row.mnemonic;
        match row.format {
            Format::RefUnaryComparison => format!("{} = vm.{name} {}", self.result(Bank::i32), self.reference()),
            Format::RefBinaryComparison => {
                let (a, b) = (self.reference(), self.reference());
                format!("{} = vm.{name} {a}, {b}", self.result(Bank::i32))
            }
            Format::ConstRefZero => format!("{} = vm.{name}", self.reference()),
            Format::ConstRefRodata => {
                format!("{} = vm.{name} {}", self.reference(), self.random.below(RODATA.len()))
            }
            Format::DiscardRefs => {
                let count = self.random.below(3);
                let operands: Vec<String> = (0..=count)
                    .map(|_| format!("%{}{}", *self.random.pick(&['r', 'R']), self.random.below(self.refs.into())))
                    .collect();
                format!("vm.{name} {}", operands.join(", "))
            }
            Format::AssignRef => {
                let source = self.movable();
                format!("{} = vm.{name} {source}", self.reference())
            }
            Format::CastAnyRef => {
                let (operand, result) = (self.movable(), self.reference());
                match self.random.one_in(3) {
                    true => format!("{result} = vm.{name} {} : !vm.ref<?> -> !vm.buffer", self.buffer.register),
                    false => format!("{result} = vm.{name} {operand} : !vm.ref<?> -> {}", self.lax_type()),
                }
            }
            Format::SelectRef => {
                let (condition, yes, no) = (self.value(Bank::i32), self.movable(), self.movable());
                format!("{} = vm.{name} {condition} ? {yes} : {no} -> {}", self.reference(), self.lax_type())
            }
            _ => {
                let count = self.random.below(4);
                let index = self.switch_index(count);
                let values = self.operands_of(&"r".repeat(count));
                let default = self.movable();
                format!("{} = vm.{name} {index}[{values}] else {default} -> {}", self.reference(), self.lax_type())
            }
        }
    }
}
