//! Operands: random registers, and registers with prepared values.

use incarnate_runtime::bytecode::isa::Bank;

use super::function::{FunctionBuilder, Home};
use super::{RODATA, TYPES};

impl FunctionBuilder<'_> {
    /// Returns true if the current instruction may fail.
    pub(super) fn risks(&mut self) -> bool {
        self.shape.risk != usize::MAX && self.random.one_in(self.shape.risk)
    }

    /// Returns a general-purpose register.
    pub(super) fn value(&mut self, bank: Bank) -> String {
        match bank {
            Bank::i32 | Bank::f32 => format!("%i{}", self.random.below(self.values.into())),
            Bank::i64 | Bank::f64 => {
                let low = self.random.below(usize::from(self.values / 2)) * 2;
                format!("%i{low}:{}", low + 1)
            }
        }
    }

    /// Returns a general-purpose register for a result; never a prepared operand.
    pub(super) fn result(&mut self, bank: Bank) -> String {
        self.value(bank)
    }

    pub(super) fn reference(&mut self) -> String {
        format!("%r{}", self.random.below(self.refs.into()))
    }

    /// Returns a reference that may be moved.
    pub(super) fn movable(&mut self) -> String {
        if self.random.one_in(12) {
            let home = self.random.below(3) as u16;
            return format!("%r{}", self.refs + home);
        }
        format!("%{}{}", if self.random.one_in(3) { 'R' } else { 'r' }, self.random.below(self.refs.into()))
    }

    /// Reserves a register that is not yet an operand of the current instruction.
    fn pin(&mut self, bank: Bank) -> String {
        let pairs = usize::from(self.values / 2);
        for _ in 0..20 {
            let low = 2 * self.random.below(pairs) as u16;
            if self.pinned.contains(&low) {
                continue;
            }
            self.pinned.push(low);
            return match bank {
                Bank::i32 | Bank::f32 => format!("%i{}", low + self.random.below(2) as u16),
                Bank::i64 | Bank::f64 => format!("%i{low}:{}", low + 1),
            };
        }
        self.value(bank)
    }

    /// Reserves a reference register that is not yet an operand of the current instruction.
    pub(super) fn pin_reference(&mut self) -> String {
        for _ in 0..20 {
            let register = self.random.below(self.refs.into()) as u16;
            if !self.pinned_refs.contains(&register) {
                self.pinned_refs.push(register);
                return format!("%r{register}");
            }
        }
        self.reference()
    }

    /// Returns a register with a constant.
    pub(super) fn constant(&mut self, bank: Bank, value: i64) -> String {
        let register = self.pin(bank);
        let bank = if matches!(bank, Bank::i32 | Bank::f32) { "i32" } else { "i64" };
        self.line(&format!("{register} = vm.const.{bank} {value}"));
        register
    }

    /// Returns a small number: nearly always `good`, sometimes one near `end`, or any.
    pub(super) fn index(&mut self, bank: Bank, good: i64, end: i64) -> String {
        if !self.risks() {
            return self.constant(bank, good);
        }
        match self.random.below(5) {
            0 => self.value(bank),
            1 => self.constant(bank, -1),
            2 => self.constant(bank, end + 1),
            3 => self.constant(bank, i64::from(i32::MAX)),
            _ => self.constant(bank, end),
        }
    }

    /// Returns an immediate of an instruction.
    pub(super) fn immediate(&mut self, bank: Bank) -> String {
        const FLOATS: [&str; 14] = [
            "0.0", "-0.0", "1.5", "-2.25", "0.1", "1e10", "-1e30", "inf", "-inf", "3.0", "0x1p-149", "255.5", "-0.5",
            "nan",
        ];
        const NUMBERS: [i64; 12] = [0, 1, 2, 3, 7, 31, 32, 63, 100, 255, 65536, 1 << 20];
        let number = *self.random.pick(&NUMBERS);
        let number = if self.random.one_in(3) { -number } else { number };
        match bank {
            Bank::i32 if self.random.one_in(6) => (self.random.bits() as i32).to_string(),
            Bank::i64 if self.random.one_in(4) => (self.random.bits() as i64).to_string(),
            Bank::i32 | Bank::i64 => number.to_string(),
            Bank::f32 | Bank::f64 => self.random.pick(&FLOATS).to_string(),
        }
    }

    /// Returns a buffer; a mutable one if `write` is set.
    pub(super) fn some_buffer(&mut self, write: bool) -> Home {
        if self.risks() {
            let register = match self.random.below(3) {
                0 => self.values_list(),
                _ => self.reference(),
            };
            return Home { register, length: 24, mutable: true };
        }
        if write && !self.buffer.mutable && !self.risks() || self.random.one_in(6) {
            let length = 16 + self.random.below(24);
            let register = self.pin_reference();
            let size = self.constant(Bank::i64, length as i64);
            let alignment = *self.random.pick(&[0, 1, 8, 64]);
            let alignment = self.constant(Bank::i32, alignment);
            self.line(&format!("{register} = vm.buffer.alloc {size}, {alignment}"));
            return Home { register, length, mutable: true };
        }
        if !write && self.random.one_in(4) {
            let index = self.random.below(2);
            let register = self.pin_reference();
            self.line(&format!("{register} = vm.const.ref.rodata {index}"));
            return Home { register, length: RODATA[index], mutable: false };
        }
        self.buffer.clone()
    }

    /// Returns a list of values or of references.
    pub(super) fn some_list(&mut self, refs: bool) -> String {
        if self.risks() {
            return match self.random.below(3) {
                0 => self.reference(),
                1 => self.buffer.register.clone(),
                _ if refs => self.values_list(),
                _ => self.refs_list(),
            };
        }
        if refs { self.refs_list() } else { self.values_list() }
    }

    /// Returns the type of any reference, or sometimes another one.
    pub(super) fn lax_type(&mut self) -> &'static str {
        if self.risks() {
            self.random.pick::<&str>(&TYPES)
        } else {
            self.random.pick::<&str>(&["!vm.ref<?>", "!vm.opaque"])
        }
    }

    /// Returns registers of the letters' types, separated by commas.
    pub(super) fn operands_of(&mut self, letters: &str) -> String {
        let items: Vec<String> = letters.chars().map(|letter| self.operand_of(letter)).collect();
        items.join(", ")
    }

    pub(super) fn operand_of(&mut self, letter: char) -> String {
        match letter {
            'i' => self.value(Bank::i32),
            'f' => self.value(Bank::f32),
            'I' => self.value(Bank::i64),
            'F' => self.value(Bank::f64),
            _ => self.movable(),
        }
    }

    /// Returns registers for results of the letters' types.
    pub(super) fn results_of(&mut self, letters: &str) -> String {
        let result = |letter| match letter {
            'r' => self.reference(),
            other => self.operand_of(other),
        };
        letters.chars().map(result).collect::<Vec<_>>().join(", ")
    }

    /// Returns the copies of a branch, including halves of pairs.
    pub(super) fn copies(&mut self) -> String {
        let mut copies = Vec::new();
        for _ in 0..[0, 0, 1, 2, 3, 5][self.random.below(6)] {
            match self.random.below(4) {
                0 => copies.push(format!("{}->{}", self.value(Bank::i32), self.value(Bank::i32))),
                1 | 2 => {
                    let pairs = usize::from(self.values / 2);
                    let (from, to) = (self.random.below(pairs) * 2, self.random.below(pairs) * 2);
                    copies.push(format!("%i{from}->%i{to}"));
                    copies.push(format!("%i{}->%i{}", from + 1, to + 1));
                }
                _ => copies.push(format!("{}->{}", self.movable(), self.reference())),
            }
        }
        copies.join(", ")
    }
}
