//! Random loop nests with elements at any distance from each other.

use super::loops::{in_loops, index_of, least_base, pair};
use super::random::Random;

/// The bytes of a buffer with the elements of most nests of [`strides`].
pub const BYTES: usize = 16_000;

/// The first registers of the indices, of the loaded numbers, and of the number that iterations carry.
const INDICES: usize = 30;
const NUMBERS: usize = 50;
const CARRIED: usize = 62;

/// A type of numbers: its name in instructions of arithmetic, in loads and in stores.
#[derive(Clone, Copy)]
struct Type {
    name: &'static str,
    load: &'static str,
    store: &'static str,
}

const TYPES: [Type; 7] = [
    Type { name: "i32", load: "i32", store: "i32" },
    Type { name: "i32", load: "i32", store: "i32" },
    Type { name: "i32", load: "i8.s", store: "i8" },
    Type { name: "i32", load: "i16.u", store: "i16" },
    Type { name: "i64", load: "i64", store: "i64" },
    Type { name: "f32", load: "f32", store: "f32" },
    Type { name: "f32", load: "f32", store: "f32" },
];

impl Type {
    /// The name of a register, or of a pair for numbers of 64 bits.
    fn register(self, register: usize) -> String {
        if self.name == "i64" { pair(register) } else { format!("%i{register}") }
    }

    fn load(self, (register, buffer, view): (usize, usize, usize)) -> String {
        let (number, index) = (self.register(register), pair(INDICES + view * 2));
        format!("  {number} = vm.buffer.load.{} %r{buffer}, {index}\n", self.load)
    }

    fn store(self, (register, buffer, view): (usize, usize, usize)) -> String {
        let (number, index) = (self.register(register), pair(INDICES + view * 2));
        format!("  vm.buffer.store.{} {number}, %r{buffer}, {index}\n", self.store)
    }

    /// Combines the number in a register with the one in another.
    fn combine(self, random: &mut Random, register: usize, with: usize) -> String {
        let name = self.name;
        let operation = match name {
            "f32" => ["add", "add", "mul", "max", "min", "sub", "fma"][random.next(7)].into(),
            _ => match random.next(10) {
                at @ 0..=6 => String::from(["add", "add", "mul", "and", "or", "xor", "sub"][at]),
                7 => {
                    return format!("  {0} = vm.min.{name}.s {0}, {1}\n", self.register(register), self.register(with));
                }
                8 => {
                    return format!("  {0} = vm.max.{name}.u {1}, {0}\n", self.register(register), self.register(with));
                }
                _ => String::from("fma"),
            },
        };
        let (result, other) = (self.register(register), self.register(with));
        let operands = match (&*operation, random.next(3)) {
            ("fma", 0) => format!("{result}, {other}, {other}"),
            ("fma", _) => format!("{other}, {other}, {result}"),
            (_, 0) => format!("{other}, {result}"),
            _ => format!("{result}, {other}"),
        };
        format!("  {result} = vm.{operation}.{name} {operands}\n")
    }
}

/// Returns a module like that of [`program`](super::loops::program) with one nest of one to three loops: trip counts around the length of
/// a strip, of 1 and of 0, some of which the call decides; strides of either sign and of 0. Iterations store elements of their own, fold
/// numbers into one element or into a number that they carry, or do several of these. Views and buffers may overlap.
pub fn strides(random: &mut Random) -> String {
    let depth = 1 + random.next(3);
    let mut counts: Vec<i64> = (0..depth).map(|_| [1, 1, 1, 2, 3, 3, 5, 0][random.next(8)]).collect();
    if random.next(6) != 0 {
        counts[random.next(depth)] = [3, 16, 255, 256, 257, 300, 300, 513][random.next(8)];
    }
    let ty = TYPES[random.next(TYPES.len())];
    let (mut before, mut body) = (String::new(), String::new());
    // Counts of the call: less than the constants, or none in the last rounds.
    if random.next(4) == 0 {
        let bound = pair(20 + 2 * random.next(depth));
        before.push_str(&format!("  {bound} = vm.sub.i64 {bound}, %i0:1\n"));
    }
    for view in 0..4 {
        let form = form(random, &counts);
        let offset = [0, 0, 0, 1, 2, 300, 1000][random.next(7)];
        body.push_str(&index_of(INDICES + view * 2, least_base(&counts, &form) + offset, &form));
        if random.next(12) == 0 {
            // A stride of the call: zero in the first round or, for the other argument, in the last one.
            let (index, counter) = (pair(INDICES + view * 2), pair(10 + 2 * random.next(depth)));
            let stride = ["%i0:1", "%i2:3"][random.next(2)];
            body.push_str(&format!("  {index} = vm.fma.i64 {counter}, {stride}, {index}\n"));
        }
    }
    let loaded = (NUMBERS, [0, 0, 0, 1, 2][random.next(5)], 0);
    body.push_str(&ty.load(loaded));
    body.push_str(&iteration(random, ty));
    let order: Vec<usize> = (0..depth).collect();
    let carried = ty.register(CARRIED);
    before.push_str(&format!("  {carried} = vm.const.{} 3\n", ty.name));
    let after = format!("  vm.buffer.store.{} {carried}, %r2, %i4:5\n", ty.name);
    in_loops(&counts, &order, [&before, &body, &after])
}

/// Returns the work of an iteration with the number in the first register.
fn iteration(random: &mut Random, ty: Type) -> String {
    let (stored, second, third) = ((NUMBERS + 2, 1, 1), (NUMBERS + 4, [0, 2, 2][random.next(3)], 2), (NUMBERS, 1, 3));
    // An element that is combined with the number: it moves along any of the loops, or along none.
    let update = |random: &mut Random, at: (usize, usize, usize)| {
        format!("{}{}{}", ty.load(at), ty.combine(random, at.0, NUMBERS), ty.store(at))
    };
    let mut body = String::new();
    match random.next(8) {
        0..=2 => body.push_str(&update(random, stored)),
        3 => body.push_str(&format!("{}{}", ty.load(second), ty.store((second.0, stored.1, stored.2)))),
        4 => body.push_str(&format!(
            "{}{}{}",
            ty.load(second),
            ty.combine(random, second.0, NUMBERS),
            ty.store((second.0, stored.1, stored.2))
        )),
        5 => body.push_str(&format!("{}{}", update(random, stored), update(random, second))),
        kind => {
            body.push_str(&ty.combine(random, CARRIED, NUMBERS));
            if kind == 6 {
                body.push_str(&update(random, stored));
            }
        }
    }
    if random.next(3) == 0 {
        body.push_str(&ty.store(third));
    }
    body
}

/// The strides of a view in loops: mostly such that iterations which differ in the loops that move it have different elements.
fn form(random: &mut Random, counts: &[i64]) -> Vec<i64> {
    if random.next(4) == 0 {
        return counts.iter().map(|_| [0, 1, 1, -1, 2, -2, 3, 7][random.next(8)]).collect();
    }
    let mut order: Vec<usize> = (0..counts.len()).rev().collect();
    if random.next(3) == 0 {
        (0..order.len()).for_each(|at| order.swap(at, at + random.next(counts.len() - at)));
    }
    let (mut strides, mut next) = (vec![0; counts.len()], [1, 1, 2, 3][random.next(4)]);
    for at in order {
        if random.next(3) != 0 {
            strides[at] = if random.next(8) == 0 { -next } else { next };
            next *= counts[at].max(1);
        }
    }
    strides
}
