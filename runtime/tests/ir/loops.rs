//! Random loop nests over buffers: bounds, steps, tests and indices of many kinds, and rarely operations that no nest may contain.

use std::fmt::Display;

use super::random::Random;

/// A writer of random programs.
struct Generator<'r> {
    random: &'r mut Random,
    text: String,
    next_register: usize,
    next_block: usize,
    /// Registers with 64-bit indices: induction variables, extended integers, arguments.
    indices: Vec<usize>,
    numbers: Vec<usize>,
    floats: Vec<usize>,
}

/// Registers of every program: the sums that it returns.
const SUM: usize = 40;
const FLOAT_SUM: usize = 42;

impl Generator<'_> {
    fn line(&mut self, line: String) {
        self.text.push_str("  ");
        self.text.push_str(&line);
        self.text.push('\n');
    }

    fn wide(&mut self) -> usize {
        self.next_register += 2;
        self.next_register - 2
    }

    fn block(&mut self) -> usize {
        self.next_block += 1;
        self.next_block - 1
    }

    fn constant(&mut self, number: i64) -> usize {
        let register = self.wide();
        self.line(format!("{} = vm.const.i64 {number}", pair(register)));
        register
    }

    fn any(&mut self, of: &[usize]) -> usize {
        of[self.random.next(of.len())]
    }

    /// Returns a register with an index, mostly affine.
    fn index(&mut self) -> usize {
        let indices = self.indices.clone();
        let mut at = self.any(&indices);
        for _ in 0..self.random.next(4) {
            let other = self.any(&indices);
            let result = self.wide();
            let small = [1, 2, 3, -1, 4, 0][self.random.next(6)];
            match self.random.next(8) {
                0 | 1 => self.line(format!("{} = vm.add.i64 {}, {}", pair(result), pair(at), pair(other))),
                2 => self.line(format!("{} = vm.sub.i64 {}, {}", pair(result), pair(at), pair(other))),
                3 | 4 => {
                    let by = self.constant(small);
                    self.line(format!("{} = vm.mul.i64 {}, {}", pair(result), pair(at), pair(by)));
                }
                5 => {
                    let by = self.constant(small);
                    let operands = format!("{}, {}, {}", pair(at), pair(by), pair(other));
                    self.line(format!("{} = vm.fma.i64 {operands}", pair(result)));
                }
                6 => {
                    let amount = self.wide();
                    self.line(format!("%i{amount} = vm.const.i32 {}", self.random_amount()));
                    self.line(format!("{} = vm.shl.i64 {}, %i{amount}", pair(result), pair(at)));
                }
                _ => {
                    let narrow = self.wide();
                    let sign = ["s", "u"][self.random.next(2)];
                    self.line(format!("%i{narrow} = vm.trunc.i64.i32 {}", pair(at)));
                    self.line(format!("{} = vm.ext.i32.i64.{sign} %i{narrow}", pair(result)));
                }
            }
            at = result;
        }
        at
    }

    fn random_amount(&self) -> usize {
        [1, 0, 2, 65][self.next_register / 2 % 4]
    }

    fn statement(&mut self, depth: usize) {
        let buffer = self.random.next(3);
        let index = self.index();
        match self.random.next(10) {
            0..=3 => {
                let kind = ["i8.u", "i8.s", "i16.u", "i16.s", "i32", "f32", "i64"][self.random.next(7)];
                let result = self.wide();
                let name = if kind == "i64" { pair(result) } else { format!("%i{result}") };
                self.line(format!("{name} = vm.buffer.load.{kind} %r{buffer}, {}", pair(index)));
                match kind {
                    "f32" => self.floats.push(result),
                    "i64" => self.line(format!("{} = vm.add.i64 {}, {name}", pair(SUM), pair(SUM))),
                    _ => self.numbers.push(result),
                }
            }
            4..=6 => {
                let buffer = buffer.min(1);
                let kind = ["i8", "i16", "i32", "f32", "i64"][self.random.next(5)];
                let value = match kind {
                    "f32" => format!("%i{}", self.any(&self.floats.clone())),
                    "i64" => pair(SUM),
                    _ => format!("%i{}", self.any(&self.numbers.clone())),
                };
                self.line(format!("vm.buffer.store.{kind} {value}, %r{buffer}, {}", pair(index)));
            }
            7 => {
                let (a, b) = (self.any(&self.floats.clone()), self.any(&self.floats.clone()));
                self.line(format!("%i{FLOAT_SUM} = vm.fma.f32 %i{a}, %i{b}, %i{FLOAT_SUM}"));
            }
            8 => {
                let (a, b, result) = (self.any(&self.numbers.clone()), self.any(&self.numbers.clone()), self.wide());
                match self.random.next(5) {
                    // By a constant, possibly -1, for which the least integer overflows.
                    4 => {
                        let (name, sign) = (["div", "rem"][self.random.next(2)], ["s", "u"][self.random.next(2)]);
                        let divisor = [3, -1, 7, 1, -16][self.random.next(5)];
                        let by = self.wide();
                        self.line(format!("%i{by} = vm.const.i32 {divisor}"));
                        // Or by a value that is replaced by one if it is zero.
                        let by = match self.random.next(2) {
                            0 => by,
                            _ => {
                                let (zero, is_zero, other, chosen) =
                                    (self.wide(), self.wide(), self.wide(), self.wide());
                                self.line(format!("%i{zero} = vm.const.i32.zero"));
                                self.line(format!("%i{is_zero} = vm.cmp.eq.i32 %i{b}, %i{zero}"));
                                self.line(format!("%i{other} = vm.or.i32 %i{a}, %i{is_zero}"));
                                self.line(format!("%i{chosen} = vm.select.i32 %i{other} ? %i{by} : %i{b}"));
                                chosen
                            }
                        };
                        self.line(format!("%i{result} = vm.{name}.i32.{sign} %i{a}, %i{by}"));
                    }
                    name => {
                        let name = ["add", "mul", "xor", "sub"][name];
                        self.line(format!("%i{result} = vm.{name}.i32 %i{a}, %i{b}"));
                    }
                }
                self.line(format!("%i{} = vm.add.i32 %i{}, %i{result}", SUM, SUM));
                self.numbers.push(result);
            }
            _ if depth < 3 => self.nested(depth + 1),
            // Rarely, an operation that no nest may contain.
            _ if self.random.next(6) == 0 => {
                let (a, result) = (self.any(&self.numbers.clone()), self.wide());
                self.line(format!("%i{result} = vm.div.i32.s %i{SUM}, %i{a}"));
                self.numbers.push(result);
            }
            _ => {}
        }
    }

    fn nested(&mut self, depth: usize) {
        let (head, body, done) = (self.block(), self.block(), self.block());
        let narrow = self.random.next(4) == 0;
        let (at, bound, step) = (self.wide(), self.wide(), self.wide());
        let ty = if narrow { "i32" } else { "i64" };
        let name = |register| if narrow { format!("%i{register}") } else { pair(register) };
        let step_number = [1, 1, 1, 2, 3, -1, -2][self.random.next(7)];
        let (first, last) = (self.random.next(4) as i64 - 1, self.random.next(9) as i64);
        let (first, last) = if step_number < 0 { (last, first) } else { (first, last) };
        self.line(format!("{} = vm.const.{ty} {first}", name(at)));
        self.line(format!("{} = vm.const.{ty} {step_number}", name(step)));
        match self.random.next(4) {
            0 if narrow => self.line(format!("%i{bound} = vm.trunc.i64.i32 %i2:3")),
            0 => self.line(format!("{} = vm.add.i64 %i0:1, %i2:3", pair(bound))),
            // Sometimes a bound that the body modifies.
            1 if !narrow && self.random.next(4) == 0 => {
                let index = self.any(&self.indices.clone());
                self.line(format!("{} = vm.add.i64 {}, %i2:3", pair(bound), pair(index)));
            }
            _ => self.line(format!("{} = vm.const.{ty} {last}", name(bound))),
        }
        let scope = (self.indices.len(), self.numbers.len(), self.floats.len());
        let tested_last = self.random.next(3) == 0;
        let (condition, sign) = (self.wide(), ["s", "s", "s", "u"][self.random.next(4)]);
        let compare = match (step_number > 0, self.random.next(6)) {
            (_, 0) => format!("%i{condition} = vm.cmp.ne.{ty} {}, {}", name(at), name(bound)),
            (true, _) => format!("%i{condition} = vm.cmp.lt.{ty}.{sign} {}, {}", name(at), name(bound)),
            (false, _) => format!("%i{condition} = vm.cmp.lt.{ty}.s {}, {}", name(bound), name(at)),
        };
        self.text.push_str(&format!("  vm.br ^bb{head}()\n^bb{head}:\n"));
        if !tested_last {
            self.line(compare.clone());
            self.text.push_str(&format!("  vm.cond_br %i{condition}, ^bb{body}(), ^bb{done}()\n^bb{body}:\n"));
        }
        if narrow {
            let wide = self.wide();
            let sign = ["s", "u"][self.random.next(2)];
            self.line(format!("{} = vm.ext.i32.i64.{sign} %i{at}", pair(wide)));
            self.indices.push(wide);
            self.numbers.push(at);
        } else {
            self.indices.push(at);
        }
        for _ in 0..1 + self.random.next(5) {
            self.statement(depth);
        }
        self.line(format!("{} = vm.add.{ty} {}, {}", name(at), name(at), name(step)));
        match tested_last {
            true => {
                self.line(compare);
                self.text.push_str(&format!("  vm.cond_br %i{condition}, ^bb{head}(), ^bb{done}()\n"));
                self.text.push_str(&format!("^bb{body}:\n  vm.br ^bb{done}()\n^bb{done}:\n"));
            }
            false => self.text.push_str(&format!("  vm.br ^bb{head}()\n^bb{done}:\n")),
        }
        // Registers of the loop body may be undefined here.
        self.indices.truncate(scope.0);
        self.numbers.truncate(scope.1);
        self.floats.truncate(scope.2);
    }
}

pub fn pair(register: usize) -> String {
    format!("%i{register}:{}", register + 1)
}

/// Returns a module whose function `f` takes three buffers and two numbers, and returns two sums.
pub fn program(random: &mut Random) -> String {
    let mut generator = Generator {
        random,
        text: String::new(),
        next_register: 50,
        next_block: 1,
        indices: vec![0, 2],
        numbers: vec![SUM],
        floats: vec![FLOAT_SUM],
    };
    generator.line(format!("%i{SUM} = vm.const.i32 5"));
    generator.line(format!("%i{} = vm.const.i32.zero", SUM + 1));
    generator.line(format!("%i{FLOAT_SUM} = vm.const.f32 0.5"));
    for _ in 0..1 + generator.random.next(2) {
        generator.nested(0);
    }
    format!(
        "vm.module @m\nvm.type !vm.buffer\nvm.export @f\nvm.func @f(%r0: !vm.buffer, %r1: !vm.buffer, %r2: !vm.buffer, \
         %i0:1: i64, %i2:3: i64) -> (i64, f32) {{\n^bb0:\n{}  vm.return {}, %i{FLOAT_SUM}\n}}\n",
        generator.text,
        pair(SUM),
    )
}

/// Returns a module like that of [`program`] with one reducing nest: a product of two buffers is added to a third, over two to
/// four loops in any order, mostly with padded strides. Buffers may overlap. Some loops are collapsed into one.
pub fn product(random: &mut Random) -> String {
    let depth = 2 + random.next(3);
    let counts: Vec<i64> = (0..depth).map(|_| [0, 1, 2, 3, 3, 5, 9, 20, 35][random.next(9)]).collect();
    let strides = |random: &mut Random, chosen: &[bool]| {
        let mut order: Vec<usize> = (0..depth).collect();
        (0..depth).for_each(|at| order.swap(at, at + random.next(depth - at)));
        let (mut strides, mut next) = (vec![0i64; depth], 1);
        for at in order {
            if chosen[at] {
                strides[at] = if random.next(8) == 0 { -next } else { next };
                next *= (counts[at] - i64::from(random.next(12) == 0)).max(1);
            }
        }
        strides
    };
    let choose = |random: &mut Random, one_in: usize| (0..depth).map(|_| random.next(one_in) != 0).collect::<Vec<_>>();
    let (stored, first, second) = (choose(random, 2), choose(random, 4), choose(random, 3));
    let forms = [strides(random, &stored), strides(random, &first), strides(random, &second)];
    let (float, same_first) = (random.next(3) != 0, random.next(6) == 0);
    let mut text = String::from("^bb0:\n  %i4:5 = vm.const.i64.zero\n  %i6:7 = vm.const.i64 1\n");
    let body = iteration(random, &counts, &forms, float, same_first);
    for (at, count) in counts.iter().enumerate() {
        text.push_str(&format!("  {} = vm.const.i64 {count}\n", pair(20 + at * 2)));
    }
    // Collapse the first loops, or all of them, into one.
    let collapsed = if random.next(3) == 0 { 2 + random.next(depth - 1) } else { 1 };
    text.push_str(&digits_bound(&counts[..collapsed]));
    for at in collapsed - 1..depth {
        let (counter, head, next) = (10 + at * 2, 1 + at * 3, 2 + at * 3);
        let is_digits = collapsed > 1 && at == collapsed - 1;
        let (counter, bound) = if is_digits { (COLLAPSED, COLLAPSED_BOUND) } else { (counter, 20 + at * 2) };
        text.push_str(&format!("  vm.br ^bb{head}(%i4->%i{counter}, %i5->%i{})\n^bb{head}:\n", counter + 1));
        text.push_str(&format!("  %i8 = vm.cmp.lt.i64.s {}, {}\n", pair(counter), pair(bound)));
        text.push_str(&format!("  vm.cond_br %i8, ^bb{next}(), ^bb{}()\n^bb{next}:\n", next + 1));
        if is_digits {
            text.push_str(&digits(random, collapsed));
        }
    }
    text.push_str(&body);
    for at in (collapsed - 1..depth).rev() {
        let counter = pair(if collapsed > 1 && at == collapsed - 1 { COLLAPSED } else { 10 + at * 2 });
        text.push_str(&format!(
            "  {counter} = vm.add.i64 {counter}, %i6:7\n  vm.br ^bb{}()\n^bb{}:\n",
            1 + at * 3,
            3 + at * 3
        ));
    }
    format!(
        "vm.module @m\nvm.type !vm.buffer\nvm.export @f\nvm.func @f(%r0: !vm.buffer, %r1: !vm.buffer, %r2: !vm.buffer, \
         %i0:1: i64, %i2:3: i64) -> (i64, f32) {{\n{text}  %i60 = vm.const.f32 0.5\n  vm.return %i6:7, %i60\n}}\n",
    )
}

/// Returns the lines of an iteration of [`product`]: the indices by the strides of `forms`, the loads, the sum and the store.
fn iteration(random: &mut Random, counts: &[i64], forms: &[Vec<i64>; 3], float: bool, same_first: bool) -> String {
    let mut body = String::new();
    for (number, form) in forms.iter().enumerate() {
        let index = 30 + number * 2;
        let base = least_base(counts, form) + (random.next(3) * random.next(2)) as i64;
        body.push_str(&index_of(index, base, form));
    }
    let ty = if float { "f32" } else { "i32" };
    let (a, b) = (if same_first { 1 } else { 0 }, 2);
    let narrow = !float && random.next(2) == 0;
    let first_ty = if narrow { ["i8.s", "i8.u", "i16.s"][random.next(3)] } else { ty };
    body.push_str(&format!("  %i50 = vm.buffer.load.{first_ty} %r{a}, {}\n", pair(32)));
    body.push_str(&format!("  %i51 = vm.buffer.load.{ty} %r{b}, {}\n", pair(34)));
    body.push_str(&format!("  %i52 = vm.buffer.load.{ty} %r1, {}\n", pair(30)));
    body.push_str(&operands(random, float));
    match random.next(6) {
        0 => body.push_str(&format!("  %i52 = vm.mul.{ty} %i50, %i51\n")),
        // Rounded twice.
        2 => {
            let sum = ["%i53, %i52", "%i52, %i53"][random.next(2)];
            body.push_str(&format!("  %i53 = vm.mul.{ty} %i50, %i51\n  %i52 = vm.add.{ty} {sum}\n"));
        }
        1 if float => body.push_str(&reduction(random)),
        1 => body.push_str(&format!("  %i53 = vm.trunc.i64.i32 {}\n  %i52 = vm.fma.i32 %i53, %i50, %i52\n", pair(10))),
        _ => body.push_str(&format!("  %i52 = vm.fma.{ty} %i50, %i51, %i52\n")),
    }
    body.push_str(&format!("  vm.buffer.store.{ty} %i52, %r1, {}\n", pair(30)));
    // Sometimes a second result over the same loops, after the first one or, mostly, in a buffer of its own.
    if random.next(4) == 0 {
        let (buffer, further) = [(1, 200), (0, 0), (0, 100), (1, 7)][random.next(4)];
        body.push_str(&format!("  {} = vm.const.i64 {further}\n", pair(54)));
        body.push_str(&format!("  {} = vm.add.i64 {}, {}\n", pair(54), pair(30), pair(54)));
        body.push_str(&format!("  %i56 = vm.buffer.load.{ty} %r{buffer}, {}\n", pair(54)));
        body.push_str(&format!("  %i57 = vm.add.{ty} %i52, %i51\n  %i56 = vm.sub.{ty} %i57, %i56\n"));
        body.push_str(&format!("  vm.buffer.store.{ty} %i56, %r{buffer}, {}\n", pair(54)));
    }
    body
}

/// Combines a float with an element: a sum, or the greatest or least number.
fn reduction(random: &mut Random) -> String {
    let select = |less: &str| {
        format!(
            "  %i53 = vm.cmp.lt.f32.u {less}\n  %i53 = vm.select.f32 %i53 ? %i50 : %i52\n  \
             %i59 = vm.cmp.nan.f32 %i50\n  %i52 = vm.select.f32 %i59 ? %i52 : %i53\n"
        )
    };
    match random.next(6) {
        0 => "  %i52 = vm.max.f32 %i52, %i50\n".into(),
        1 => "  %i52 = vm.min.f32 %i50, %i52\n".into(),
        2 => select("%i52, %i50"),
        3 => select("%i50, %i52"),
        _ => "  %i52 = vm.add.f32 %i52, %i50\n".into(),
    }
}

/// Returns a module like that of [`program`] with one nest that reduces adjacent numbers to elements: over one loop or two, in any
/// order. Buffers may overlap.
pub fn sums(random: &mut Random) -> String {
    let counts =
        [[1, 3, 6][random.next(3)], [1, 1, 2][random.next(3)], [1, 5, 15, 16, 17, 33, 70, 150][random.next(8)]];
    let mut order = [0, 1, 2];
    if random.next(3) == 0 {
        (0..3).for_each(|at| order.swap(at, at + random.next(3 - at)));
    }
    let [_, runs, length] = counts;
    // The loops select an element, a run and a number of it.
    let adjacent = [runs * length, length, 1];
    let second = [[0, 0, 1], [0, length, 1], adjacent, [1, 0, 0]][random.next(4)];
    let forms = [[1, 0, 0], adjacent, second];
    let mut body = String::new();
    for (number, form) in forms.iter().enumerate() {
        body.push_str(&index_of(30 + number * 2, random.next(3) * random.next(2), form));
    }
    body.push_str(&format!("  %i50 = vm.buffer.load.f32 %r0, {}\n", pair(32)));
    body.push_str(&format!("  %i51 = vm.buffer.load.f32 %r2, {}\n", pair(34)));
    body.push_str(&format!("  %i52 = vm.buffer.load.f32 %r1, {}\n", pair(30)));
    body.push_str(&match random.next(7) {
        0 => reduction(random),
        1 => format!("  %i50 = vm.sub.f32 %i50, %i51\n{}", reduction(random)),
        2 => String::from("  %i50 = vm.exp.f32 %i50\n  %i52 = vm.add.f32 %i50, %i52\n"),
        3 => String::from("  %i53 = vm.mul.f32 %i50, %i51\n  %i52 = vm.add.f32 %i52, %i53\n"),
        _ => format!("{}  %i52 = vm.fma.f32 %i50, %i51, %i52\n", operands(random, true)),
    });
    body.push_str(&format!("  vm.buffer.store.f32 %i52, %r1, {}\n", pair(30)));
    in_loops(&counts, &order, ["", &body, ""])
}

/// Returns a module like that of [`program`] with one nest that computes rows of a result, of few and of many numbers: each from its own
/// operands, or as a sum or the greatest number of adjacent ones. Buffers may overlap.
pub fn rows(random: &mut Random) -> String {
    let columns = [1, 3, 4, 7, 8, 9, 13, 15, 16, 17, 24, 31, 32, 33, 47, 63, 64, 70][random.next(18)];
    let counts = [[1, 2, 3, 5][random.next(4)], columns, [1, 1, 2, 3][random.next(4)]];
    let mut order = [0, 1, 2];
    if random.next(4) == 0 {
        (0..3).for_each(|at| order.swap(at, at + random.next(3 - at)));
    }
    // The loops select a row, a column, and a number of those that are combined.
    let stored = [columns + 2 * random.next(2), 1, 0];
    let stride = [1, 1, 2, 3][random.next(4)];
    let is_in_place = counts[2] == 1 && random.next(3) == 0;
    let first = if is_in_place { stored } else { [stride * columns + 2, stride, 1] };
    let second = [[1, 0, 0], [0, 1, 0], [columns, 1, 0]][random.next(3)];
    let base = random.next(3) * random.next(2);
    let mut body = String::new();
    for (number, form) in [stored, first, second].iter().enumerate() {
        let base = if random.next(4) == 0 { base + 1 } else { base };
        body.push_str(&index_of(30 + number * 2, base, form));
    }
    let (ty, sign) = [("f32", ""), ("f32", ""), ("i32", ""), ("i8", ".s"), ("i16", ".u")][random.next(5)];
    let is_float = ty == "f32";
    let of = if is_float { "f32" } else { "i32" };
    let from = usize::from(is_in_place);
    body.push_str(&format!("  %i50 = vm.buffer.load.{ty}{sign} %r{from}, {}\n", pair(32)));
    body.push_str(&format!("  %i51 = vm.buffer.load.{ty}{sign} %r2, {}\n", pair(34)));
    if counts[2] > 1 {
        body.push_str(&format!("  %i52 = vm.buffer.load.{ty}{sign} %r1, {}\n", pair(30)));
    }
    body.push_str(&match (counts[2], random.next(3), is_float) {
        (1, 0, true) => String::from("  %i52 = vm.sub.f32 %i50, %i51\n  %i52 = vm.exp.f32 %i52\n"),
        (1, 1, true) => String::from(
            "  %i53 = vm.add.f32 %i50, %i51\n  %i54 = vm.const.f32.zero\n  %i55 = vm.cmp.lt.f32.u %i54, %i53\n  \
             %i52 = vm.select.f32 %i55 ? %i53 : %i54\n",
        ),
        (1, ..) => format!("  %i52 = vm.mul.{of} %i50, %i51\n  %i52 = vm.sub.{of} %i52, %i50\n"),
        (_, 0 | 1, true) => reduction(random),
        _ => format!("  %i53 = vm.sub.{of} %i50, %i51\n  %i52 = vm.add.{of} %i52, %i53\n"),
    });
    body.push_str(&format!("  vm.buffer.store.{ty} %i52, %r1, {}\n", pair(30)));
    in_loops(&counts, &order, ["", &body, ""])
}

/// Computes an index from the counters of loops.
pub fn index_of<N: Default + Display + PartialEq>(register: usize, base: N, form: &[N]) -> String {
    let index = pair(register);
    let mut text = format!("  {index} = vm.const.i64 {base}\n");
    for (at, stride) in form.iter().enumerate().filter(|(_, stride)| **stride != N::default()) {
        let (stride_register, counter) = (pair(40), pair(10 + at * 2));
        text.push_str(&format!("  {stride_register} = vm.const.i64 {stride}\n"));
        text.push_str(&format!("  {index} = vm.fma.i64 {counter}, {stride_register}, {index}\n"));
    }
    text
}

/// Returns the least base that leaves no index of a form negative.
pub fn least_base(counts: &[i64], form: &[i64]) -> i64 {
    form.iter().zip(counts).map(|(stride, count)| (-stride * (count - 1)).max(0)).sum()
}

/// Returns a module whose function runs an iteration in loops, in an order, between two other texts.
pub fn in_loops<N: Display>(counts: &[N], order: &[usize], [before, body, after]: [&str; 3]) -> String {
    let mut text = String::from("^bb0:\n  %i4:5 = vm.const.i64.zero\n  %i6:7 = vm.const.i64 1\n");
    for (at, count) in counts.iter().enumerate() {
        text.push_str(&format!("  {} = vm.const.i64 {count}\n", pair(20 + at * 2)));
    }
    text.push_str(before);
    for (depth, at) in order.iter().enumerate() {
        let (counter, head, next) = (10 + at * 2, 1 + depth * 3, 2 + depth * 3);
        text.push_str(&format!("  vm.br ^bb{head}(%i4->%i{counter}, %i5->%i{})\n^bb{head}:\n", counter + 1));
        text.push_str(&format!("  %i8 = vm.cmp.lt.i64.s {}, {}\n", pair(counter), pair(20 + at * 2)));
        text.push_str(&format!("  vm.cond_br %i8, ^bb{next}(), ^bb{}()\n^bb{next}:\n", next + 1));
    }
    text.push_str(body);
    for (depth, at) in order.iter().enumerate().rev() {
        let counter = pair(10 + at * 2);
        let (head, behind) = (1 + depth * 3, 3 + depth * 3);
        text.push_str(&format!("  {counter} = vm.add.i64 {counter}, %i6:7\n  vm.br ^bb{head}()\n^bb{behind}:\n"));
    }
    text.push_str(after);
    format!(
        "vm.module @m\nvm.type !vm.buffer\nvm.export @f\nvm.func @f(%r0: !vm.buffer, %r1: !vm.buffer, %r2: !vm.buffer, \
         %i0:1: i64, %i2:3: i64) -> (i64, f32) {{\n{text}  %i60 = vm.const.f32 0.5\n  vm.return %i6:7, %i60\n}}\n",
    )
}

/// Computes operands of a product from what was loaded, rarely from other numbers, too: a zero point or a scale.
fn operands(random: &mut Random, float: bool) -> String {
    let by = ["%i58", "%i58", "%i58", "%i51"][random.next(4)];
    match (random.next(4), float) {
        (0, false) => format!("  %i58 = vm.const.i32 3\n  %i50 = vm.sub.i32 %i50, {by}\n"),
        (1, false) => format!("  %i58 = vm.const.i32 -5\n  %i51 = vm.add.i32 {by}, %i51\n"),
        (0, true) => format!("  %i58 = vm.const.f32 0.75\n  %i50 = vm.mul.f32 {by}, %i50\n"),
        (1, true) => String::from("  %i51 = vm.neg.f32 %i51\n"),
        _ => String::new(),
    }
}

/// The registers of the collapsed loop's counter, of its bound, and of products of trip counts.
const COLLAPSED: usize = 70;
const COLLAPSED_BOUND: usize = 72;
const WEIGHTS: usize = 74;

/// Computes the product of the trip counts, and the products without the first count, without the first two, and so on.
fn digits_bound(counts: &[i64]) -> String {
    let mut text = String::new();
    let mut product = pair(20 + (counts.len() - 1) * 2);
    for at in (0..counts.len() - 1).rev() {
        // The divisor of the digit, and the product that the digit belongs to.
        text.push_str(&format!("  {} = vm.mul.i64 {product}, %i6:7\n", pair(WEIGHTS + at * 2)));
        let of = if at == 0 { COLLAPSED_BOUND } else { WEIGHTS + (at - 1) * 2 };
        text.push_str(&format!("  {} = vm.mul.i64 {product}, {}\n", pair(of), pair(20 + at * 2)));
        product = pair(of);
    }
    text
}

/// Computes the counters of collapsed loops by division as compilers emit it, mostly floor division.
fn digits(random: &mut Random, collapsed: usize) -> String {
    let is_floor_division = random.next(4) != 0;
    let mut text = String::from("  %i90:91 = vm.const.i64 -1\n");
    let mut rest = pair(COLLAPSED);
    for at in 0..collapsed {
        let counter = pair(10 + at * 2);
        if at == collapsed - 1 {
            text.push_str(&format!("  {counter} = vm.mul.i64 {rest}, %i6:7\n"));
            break;
        }
        let (weight, quotient, next) = (pair(WEIGHTS + at * 2), pair(92), pair(100 + at * 2));
        text.push_str(&format!("  {quotient} = vm.div.i64.s {rest}, {weight}\n"));
        match is_floor_division {
            false => text.push_str(&format!("  {counter} = vm.mul.i64 {quotient}, %i6:7\n")),
            true => text.push_str(&format!(
                "  %i94:95 = vm.mul.i64 {quotient}, {weight}\n  %i96 = vm.cmp.ne.i64 {rest}, %i94:95\n  \
                 %i97 = vm.cmp.lt.i64.s {rest}, %i4:5\n  %i98 = vm.cmp.lt.i64.s {weight}, %i4:5\n  \
                 %i97 = vm.cmp.ne.i32 %i97, %i98\n  %i96 = vm.and.i32 %i96, %i97\n  \
                 %i94:95 = vm.add.i64 {quotient}, %i90:91\n  {counter} = vm.select.i64 %i96 ? %i94:95 : {quotient}\n"
            )),
        }
        text.push_str(&format!("  {next} = vm.rem.i64.s {rest}, {weight}\n"));
        if is_floor_division {
            text.push_str(&format!(
                "  %i97 = vm.cmp.lt.i64.s {next}, %i4:5\n  %i94:95 = vm.add.i64 {next}, {weight}\n  \
                 {next} = vm.select.i64 %i97 ? %i94:95 : {next}\n"
            ));
        }
        rest = next;
    }
    text
}
