//! Answers to the last questions about contractions. Workgroups of a dispatch repeat the same contraction, and models repeat all.

#[cfg(feature = "std")]
use alloc::rc::Rc;

use super::level::Level;
#[cfg(feature = "std")]
use super::loops::Loop;
use super::machine::Machine;
use super::operand::OperandKind;
use super::partial::Sums;

/// Everything that decides how a contraction runs, beside its loops.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    pub(super) level: Level,
    /// The machine of the tiles, which are different ones for each operation: its address stands for the operation.
    pub(super) machine: &'static Machine,
    /// The order of the sums. None where the loops decide, which they do for operations in any order alone: these share machines with the
    /// same operations in order.
    pub(super) sums: Option<Sums>,
    pub(super) operands: [OperandKind; 2],
    /// Whether each operand is in a constant, so that it may be prepacked.
    pub(super) constants: [bool; 2],
}

impl PartialEq for Question {
    /// The level follows from the machine.
    fn eq(&self, other: &Question) -> bool {
        core::ptr::eq(self.machine, other.machine)
            && (self.sums, self.operands, self.constants) == (other.sums, other.operands, other.constants)
    }
}

/// Sets of contractions: those of larger models have some hundred of different loops.
#[cfg(feature = "std")]
const SETS: usize = 64;
/// Contractions of a set, any of which is replaced by the next.
#[cfg(feature = "std")]
const WAYS: usize = 4;

/// A question, and its answer.
#[cfg(feature = "std")]
struct Entry<A> {
    loops: Rc<[Loop]>,
    question: Question,
    answer: Rc<A>,
}

/// The answers that a thread keeps.
#[cfg(feature = "std")]
pub(super) struct Kept<A> {
    sets: [[Option<Entry<A>>; WAYS]; SETS],
    /// The one that was used last: its set, and its way.
    last: (usize, usize),
    /// How many answers there have been.
    answers: usize,
}

#[cfg(feature = "std")]
impl<A> Kept<A> {
    pub(super) const NOTHING: Kept<A> =
        Kept { sets: [const { [const { None }; WAYS] }; SETS], last: (0, 0), answers: 0 };

    /// Returns the answer to a question about loops, if it is kept.
    pub(super) fn get(&mut self, loops: &[Loop], question: &Question) -> Option<Rc<A>> {
        let is_asked = |entry: &&Entry<A>| *entry.loops == *loops && entry.question == *question;
        let (set, way) = self.last;
        if let Some(last) = self.sets[set][way].as_ref().filter(is_asked) {
            return Some(Rc::clone(&last.answer));
        }
        let set = set_of(loops);
        let way = self.sets[set].iter().position(|entry| entry.as_ref().is_some_and(|entry| is_asked(&entry)))?;
        self.last = (set, way);
        self.sets[set][way].as_ref().map(|entry| Rc::clone(&entry.answer))
    }

    /// Keeps an answer.
    pub(super) fn keep(&mut self, loops: Rc<[Loop]>, question: Question, answer: Rc<A>) {
        self.answers += 1;
        let set = set_of(&loops);
        let free = self.sets[set].iter().position(Option::is_none);
        let way = free.unwrap_or(self.answers % WAYS);
        self.sets[set][way] = Some(Entry { loops, question, answer });
        self.last = (set, way);
    }
}

/// The set that contractions with these loops are kept in.
#[cfg(feature = "std")]
fn set_of(loops: &[Loop]) -> usize {
    let mixed = loops.iter().fold(0u32, |mixed, each| {
        let number = each.count as i64 ^ each.output ^ each.left.rotate_left(8) ^ each.right.rotate_left(16);
        (mixed ^ number as u32).wrapping_mul(0x9E37_79B1).rotate_left(15)
    });
    mixed as usize % SETS
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::contraction::loops::each;
    use crate::contraction::prepared::{Decided, decided};
    use crate::contraction::{AnyOrder, FmaF32, MulAddF32};
    use alloc::vec::Vec;

    const IN_MEMORY: [OperandKind; 2] = [OperandKind::Memory; 2];

    #[test]
    fn decisions_are_kept_for_the_next_call() {
        let product =
            |m: usize, k: usize, n: usize| [each(m, n as i64, k as i64, 0), each(k, 0, 1, n as i64), each(n, 1, 0, 1)];
        let products: Vec<[Loop; 3]> = (0..100).map(|at| product(8 + at % 10, 16 + at / 10, 32)).collect();
        let level = Level::at_most(&Machine::PORTABLE);
        let all = || -> Vec<Rc<Decided>> {
            products.iter().map(|loops| decided::<FmaF32>(level, None, loops, IN_MEMORY, [false; 2])).collect()
        };
        let (first, second) = (all(), all());
        let kept = first.iter().zip(&second).filter(|(first, second)| Rc::ptr_eq(first, second)).count();
        // A few sets have more than their ways.
        assert!(kept >= 90, "{kept}");
    }

    #[test]
    fn other_questions_have_other_answers() {
        let loops = [each(8, 32, 16, 0), each(16, 0, 1, 32), each(32, 1, 0, 1)];
        let (best, portable) = (Level::best(usize::MAX), Level::at_most(&Machine::PORTABLE));
        let of =
            |level: Level, operands: [OperandKind; 2]| decided::<MulAddF32>(level, None, &loops, operands, [false; 2]);
        let asked = of(best, IN_MEMORY);
        // Before others replace it: a set has fewer ways than there are questions here.
        assert!(Rc::ptr_eq(&asked, &of(best, IN_MEMORY)));
        let computed = of(best, [OperandKind::Computed, OperandKind::Memory]);
        let fused = decided::<FmaF32>(best, None, &loops, IN_MEMORY, [false; 2]);
        let constant = decided::<MulAddF32>(best, None, &loops, IN_MEMORY, [false, true]);
        let any_order = decided::<AnyOrder<MulAddF32>>(best, None, &loops, IN_MEMORY, [false; 2]);
        assert!([&computed, &fused, &constant, &any_order].into_iter().all(|other| !Rc::ptr_eq(&asked, other)));
        assert!(best == portable || !Rc::ptr_eq(&asked, &of(portable, IN_MEMORY)));
    }
}
