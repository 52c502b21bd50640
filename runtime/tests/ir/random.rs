//! Random programs: few registers of mixed use, branches with random copies, all instructions of the table without a
//! syntax of their own, and most others.

use std::fmt::Write;

use incarnate_runtime::bytecode::isa::{Bank, Format, INSTRUCTIONS, InstructionInfo};

/// Returns the number of random programs that a test runs, of which it runs `count` natively: an eighth where an emulator runs the tests, as
/// the scripts of `.ci/targets.d` say, because all take minutes there.
pub const fn programs(count: usize) -> usize {
    if option_env!("INCARNATE_EMULATED").is_some() { count / 8 } else { count }
}

/// A deterministic generator of pseudorandom numbers.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % below.max(1)
    }

    fn chance(&mut self, one_in: usize) -> bool {
        self.next(one_in) == 0
    }

    fn value(&mut self, bank: Bank) -> String {
        match bank {
            Bank::i32 | Bank::f32 => format!("%i{}", self.next(8)),
            Bank::i64 | Bank::f64 => {
                let low = self.next(4) * 2;
                format!("%i{low}:{}", low + 1)
            }
        }
    }

    fn i32(&mut self) -> String {
        self.value(Bank::i32)
    }

    fn reference(&mut self) -> String {
        format!("%r{}", self.next(4))
    }

    /// Returns a reference that may be moved.
    fn operand(&mut self) -> String {
        format!("%{}{}", if self.chance(3) { 'R' } else { 'r' }, self.next(4))
    }

    fn immediate(&mut self, bank: Bank) -> String {
        let number = [0, 1, 2, 3, 7, 100, 1 << 20][self.next(7)];
        let sign = if self.chance(3) { "-" } else { "" };
        match bank {
            Bank::i32 => format!("{sign}{number}"),
            Bank::i64 if self.chance(3) => format!("{sign}{number}123456789"),
            Bank::i64 => format!("{sign}{number}"),
            Bank::f32 | Bank::f64 => format!("{sign}{number}.5"),
        }
    }

    /// Returns the copies of a branch.
    fn copies(&mut self) -> String {
        let mut copies = Vec::new();
        for _ in 0..self.next(4) {
            match self.next(4) {
                0 => copies.push(format!("%i{}->%i{}", self.next(8), self.next(8))),
                1 | 2 => {
                    let (from, to) = (self.next(4) * 2, self.next(4) * 2);
                    copies.push(format!("%i{from}->%i{to}"));
                    copies.push(format!("%i{}->%i{}", from + 1, to + 1));
                }
                _ => copies.push(format!("{}->{}", self.operand(), self.reference())),
            }
        }
        copies.join(", ")
    }
}

/// Returns an instruction with value operands, or None if the row has another format.
fn arithmetic(row: &InstructionInfo, random: &mut Random) -> Option<String> {
    let (v, w) = (*row.banks.first()?, *row.banks.last()?);
    let name = row.mnemonic;
    let list = |random: &mut Random, banks: &[Bank]| {
        banks.iter().map(|bank| random.value(*bank)).collect::<Vec<_>>().join(", ")
    };
    let (result, operands) = match row.format {
        Format::Unary => (v, list(random, &[v])),
        Format::Binary => (v, list(random, &[v, v])),
        Format::Ternary => (v, list(random, &[v, v, v])),
        Format::Shift => (v, list(random, &[v, Bank::i32])),
        Format::Power => (v, list(random, &[v, Bank::i64])),
        Format::UnaryComparison => (Bank::i32, list(random, &[v])),
        Format::BinaryComparison => (Bank::i32, list(random, &[v, v])),
        Format::Conversion => (w, list(random, &[v])),
        Format::Select => {
            let (condition, yes, no) = (random.i32(), random.value(v), random.value(v));
            (v, format!("{condition} ? {yes} : {no}"))
        }
        Format::Switch => {
            let (index, values, default) = (random.i32(), list(random, &[v, v, v]), random.value(v));
            (v, format!("{index}[{values}] else {default}"))
        }
        Format::Constant => (v, random.immediate(v)),
        Format::ZeroConstant => return Some(format!("{} = vm.{name}", random.value(v))),
        Format::GlobalLoad => (v, format!(".rwdata[{}]", random.next(4) * 8)),
        Format::GlobalStore => {
            return Some(format!("vm.{name} {}, .rwdata[{}]", random.value(v), random.next(4) * 8));
        }
        _ => return None,
    };
    Some(format!("{} = vm.{name} {operands}", random.value(result)))
}

/// Returns the lines of instructions on references, lists, buffers and calls.
fn other(random: &mut Random) -> Vec<String> {
    let r = random.reference();
    let small = random.next(3);
    match random.next(26) {
        0 => vec![format!("{r} = vm.const.ref.zero")],
        1 | 2 => vec![format!("{r} = vm.const.ref.rodata 0")],
        3 => vec![format!("vm.discard.refs {}, {}", random.operand(), r)],
        4 | 5 => vec![format!("{r} = vm.assign.ref {}", random.operand())],
        6 => vec![format!("{r} = vm.cast.any.ref {} : !vm.ref<?> -> !vm.buffer", random.operand())],
        7 => {
            let (c, a, b) = (random.i32(), random.operand(), random.operand());
            vec![format!("{r} = vm.select.ref {c} ? {a} : {b} -> !vm.ref<?>")]
        }
        8 | 9 => {
            let (i, a, b, c) = (random.i32(), random.operand(), random.operand(), random.operand());
            vec![
                format!("{i} = vm.const.i32 {small}"),
                format!("{r} = vm.switch.ref {i}[{a}, {b}] else {c} -> !vm.ref<?>"),
            ]
        }
        10 => vec![format!("{} = vm.cmp.{}.ref {r}, {}", random.i32(), ["eq", "ne"][small % 2], random.reference())],
        11 => vec![format!("{} = vm.cmp.nz.ref {r}", random.i32())],
        12 => vec![format!("vm.global.store.ref {}, .refs[{}] : !vm.ref<?>", random.operand(), small % 2)],
        13 | 14 => {
            vec![format!("{} = vm.global.load.ref .refs[{}] : !vm.ref<?>", random.operand(), small % 2)]
        }
        15 => {
            let i = random.i32();
            vec![
                format!("{i} = vm.const.i32 {small}"),
                format!("{r} = vm.list.alloc {i} : !vm.list<!vm.opaque>"),
                format!("vm.list.resize {r}, {i}"),
            ]
        }
        16 | 17 => elements_of_a_list(random, small),
        18 => {
            let (o, i) = (random.value(Bank::i64), random.i32());
            vec![format!("{o} = vm.const.i64 16"), format!("{r} = vm.buffer.alloc {o}, {i}")]
        }
        19 | 20 => {
            let o = random.value(Bank::i64);
            vec![
                format!("%r3 = vm.const.ref.rodata 0"),
                format!("{o} = vm.const.i64 {small}"),
                format!("{} = vm.buffer.load.{} %r3, {o}", random.i32(), ["i8.s", "i16.u", "f32"][random.next(3)]),
            ]
        }
        21 => {
            let (o, v) = (random.value(Bank::i64), random.value(Bank::f64));
            vec![format!("{o} = vm.const.i64 {small}"), format!("vm.buffer.store.f64 {v}, %r0, {o}")]
        }
        22 => vec![format!("vm.trace \"t\", {}, {}", random.i32(), random.operand())],
        23 | 24 => {
            let (a, b, c) = (random.value(Bank::i64), random.value(Bank::f32), random.operand());
            vec![format!(
                "{}, {}, {r} = vm.call @g({}, {a}, {b}, {c}, {})",
                random.value(Bank::f64),
                random.i32(),
                random.i32(),
                random.operand()
            )]
        }
        _ => vec![format!("{} = vm.buffer.length %r3", random.value(Bank::i64))],
    }
}

/// Returns the lines that store elements in a list and load them.
fn elements_of_a_list(random: &mut Random, small: usize) -> Vec<String> {
    let (i, x) = (random.i32(), random.value(Bank::f64));
    let (size, list) = (random.i32(), random.next(4));
    vec![
        format!("{size} = vm.const.i32 2"),
        format!("%r{list} = vm.list.alloc {size} : !vm.list<!vm.opaque>"),
        format!("vm.list.resize %r{list}, {size}"),
        format!("{i} = vm.const.i32 {}", small % 2),
        format!("vm.list.set.f64 %r{list}, {i}, {x}"),
        format!("{} = vm.list.get.i64 %r{list}, {i}", random.value(Bank::i64)),
        format!("vm.list.set.ref %r{list}, {i}, %{}{}", if small == 0 { 'R' } else { 'r' }, (list + 1) % 4),
        format!(
            "%{}{} = vm.list.get.ref %r{list}, {i} : !vm.ref<?>",
            if small == 1 { 'R' } else { 'r' },
            (list + 2) % 4
        ),
    ]
}

fn terminator(random: &mut Random, block: usize, blocks: usize) -> String {
    let target = |random: &mut Random| {
        let copies = random.copies();
        format!("^bb{}({copies})", 2 * random.next(blocks))
    };
    let (a, b, c) = (target(random), target(random), target(random));
    match random.next(12) {
        0..=1 => format!("vm.br {a}"),
        2..=6 => format!("vm.cond_br {}, {a}, {b}", random.i32()),
        7 => format!("vm.br_table {} {{ default: {a}, 0: {b}, 1: {c} }}", random.i32()),
        8 => format!("vm.yield {a}"),
        9 => format!("vm.cond_break {}, {a}", random.i32()),
        10 => {
            let target = a.split('(').next().unwrap_or_default().to_owned();
            let (x, y, z, w) = (random.value(Bank::i64), random.value(Bank::f32), random.operand(), random.operand());
            let (i, f, s, r) = (random.i32(), random.value(Bank::f64), random.i32(), random.reference());
            format!("vm.call.yieldable @g({i}, {x}, {y}, {z}, {w}) -> {target}({f}, {s}, {r})")
        }
        // A failure with status 0 continues with the next block.
        _ if block + 1 < blocks => format!("vm.fail %i{}, \"failed\"", 9 - usize::from(random.chance(6)) * 2),
        _ => format!("vm.break {a}"),
    }
}

/// Returns a module with a function `f` that takes and returns values of all types, and calls a function `g`.
pub fn program(random: &mut Random) -> String {
    let rows: Vec<&InstructionInfo> = INSTRUCTIONS.iter().filter(|row| !row.mnemonic.contains("indirect")).collect();
    let mut text = String::from(
        "vm.module @m\n//! globals 32 2\nvm.type !vm.buffer\nvm.type !vm.ref<?>\nvm.type !vm.opaque\n\
        vm.rodata[0] = 01800003FF050607\nvm.export @f\n\
        vm.func @f(%i0: i32, %i2:3: i64, %i4: f32, %i6:7: f64, %r0: !vm.ref<?>, %r1: !vm.ref<?>) \
        -> (i64, f64, i32, f32, i64, !vm.ref<?>, !vm.ref<?>) {\n  //! registers 10 4\n",
    );
    let blocks = 2 + random.next(7);
    for block in 0..blocks {
        // Each block decrements a counter first, so that every program terminates.
        let _ = writeln!(text, "^bb{}:", 2 * block);
        let _ = writeln!(text, "  %i9 = vm.const.i32 1\n  %i8 = vm.add.i32 %i8, %i9\n  %i9 = vm.const.i32 50");
        let _ = writeln!(text, "  %i9 = vm.cmp.lt.i32.s %i8, %i9");
        let _ = writeln!(text, "  vm.cond_br %i9, ^bb{}(), ^bb{}()\n^bb{}:", 2 * block + 1, 2 * blocks, 2 * block + 1);
        let _ = writeln!(text, "  %i9 = vm.const.i32.zero");
        for _ in 0..random.next(9) {
            if random.chance(2) {
                other(random).iter().for_each(|line| {
                    let _ = writeln!(text, "  {line}");
                });
                continue;
            }
            let row = rows[random.next(rows.len())];
            if (!row.effects.fails || random.chance(20))
                && let Some(line) = arithmetic(row, random)
            {
                let _ = writeln!(text, "  {line}");
            }
        }
        let _ = writeln!(text, "  {}", terminator(random, block, blocks));
    }
    let _ =
        writeln!(text, "^bb{}:\n  vm.return %i0:1, %i2:3, %i4, %i5, %i6:7, {}, %r3\n}}", 2 * blocks, random.operand());
    text.push_str(
        "vm.func @g(%i0: i32, %i2:3: i64, %i4: f32, %r0: !vm.ref<?>, %r1: !vm.ref<?>) -> (f64, i32, !vm.ref<?>) {\n\
        \x20 //! registers 10 4\n^bb0:\n  %i4 = vm.xor.i32 %i4, %i0\n  %i6:7 = vm.ext.f32.f64 %i9\n  \
        %i2 = vm.add.i32 %i2, %i0\n  vm.yield ^bb1(%R1->%r2, %i2->%i8, %i3->%i9)\n^bb1:\n  \
        vm.return %i8:9, %i4, %R2\n}\n",
    );
    text
}
