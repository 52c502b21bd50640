//! Modules of loop nests over buffers in the form of compiled tensor operations, which the translator optimises. The
//! generators are those of the runtime's tests.

use super::{Argument, Call};
use crate::random::Random;

#[path = "../../../../runtime/tests/ir/gathers.rs"]
mod gathers;
#[path = "../../../../runtime/tests/ir/loops.rs"]
mod loops;
#[path = "../../../../runtime/tests/ir/strides.rs"]
mod strides;

/// The random numbers that the generators of the runtime's tests use.
mod random {
    /// A deterministic generator of pseudorandom numbers.
    pub struct Random(pub crate::random::Random);

    impl Random {
        pub fn next(&mut self, below: usize) -> usize {
            self.0.below(below)
        }
    }
}

/// Returns the text of a module that exports `f`, and its calls: with disjoint buffers, and with aliased ones.
pub(super) fn program(random: &mut Random) -> (String, Vec<Call>) {
    let reduces = !random.one_in(4);
    let mut source = random::Random(random.clone());
    let (text, length) = match (reduces, source.next(5)) {
        (true, 0) => (loops::sums(&mut source), 8000),
        (true, 1) => (loops::rows(&mut source), 8000),
        (true, 2) => (gathers::gathers(&mut source), 2000),
        (true, 3) => (strides::strides(&mut source), strides::BYTES),
        (true, _) => (loops::product(&mut source), 8000),
        (false, _) => (loops::program(&mut source), 200),
    };
    *random = source.0;
    let calls = (0..3).map(|round| {
        let mut arguments = vec![buffer(length, random)];
        arguments.push(if round == 1 { Argument::Same } else { buffer(length, random) });
        arguments.push(if random.one_in(6) { Argument::Same } else { buffer(length, random) });
        arguments.extend([Argument::I64(round * 3), Argument::I64(4 - round)]);
        Call { export: "f".into(), arguments, cancel_at: None }
    });
    let calls = calls.collect();
    (text, calls)
}

/// Floats of moderate size, whose sum depends on the order.
fn buffer(length: usize, random: &mut Random) -> Argument {
    let floats = (0..length / 4).flat_map(|_| {
        let bits = random.bits() as u32;
        ((bits & 0x83FF_FFFF) | 0x3C00_0000).to_le_bytes()
    });
    Argument::Buffer(floats.collect())
}
