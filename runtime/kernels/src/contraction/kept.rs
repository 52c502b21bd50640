//! What a thread keeps of the contractions before: their plans, and the layouts that were chosen. Workgroups of a dispatch repeat the
//! same contraction, and models repeat all.

use super::layout::{Choice, Layout, Side};
use super::loops::{Loop, MAX_LOOPS};
use super::machine::Machine;
use super::operand::OperandKind;
use super::plan::Plan;

/// Contractions that are kept: those of larger models have some hundred of different loops.
const SETS: usize = 64;
/// Contractions of a set, any of which is replaced by the next.
const WAYS: usize = 4;

/// An answer to a question about a contraction. All zeros is none.
struct Answer<Q, A> {
    loops: [Loop; MAX_LOOPS],
    /// The number of loops; zero if there is no answer.
    count: usize,
    /// The machine of the tiles: operations of one level may have different ones.
    machine: Option<&'static Machine>,
    question: Q,
    answer: A,
}

impl<Q: Copy + Eq, A> Answer<Q, A> {
    fn is_of(&self, loops: &[Loop], machine: &'static Machine, question: Q) -> bool {
        self.count == loops.len()
            && self.machine.is_some_and(|kept| core::ptr::eq(kept, machine))
            && self.question == question
            && self.loops[..self.count] == *loops
    }
}

/// Answers to a question about contractions, by their loops.
pub(super) struct Answers<Q, A> {
    sets: [[Answer<Q, A>; WAYS]; SETS],
    /// The one that was used last: its set, and the way of it.
    last: (usize, usize),
    /// How many there have been.
    made: u64,
}

impl<Q: Copy + Eq, A> Answers<Q, A> {
    /// Returns the answer of before, or makes it with a number that is not zero and different from those before. None where the question
    /// has no answer, and for no loops or too many.
    fn get(
        &mut self,
        loops: &[Loop],
        machine: &'static Machine,
        question: Q,
        make: impl FnOnce(u64) -> Option<A>,
    ) -> Option<&A> {
        let (set, way) = self.last;
        if !self.sets[set][way].is_of(loops, machine, question) {
            let set = set_of(loops);
            let way = match self.sets[set].iter().position(|kept| kept.is_of(loops, machine, question)) {
                Some(way) => way,
                None => self.replace(set, loops, (machine, question), make)?,
            };
            self.last = (set, way);
        }
        let (set, way) = self.last;
        Some(&self.sets[set][way].answer)
    }

    /// Makes an answer in the place of another one of a set.
    fn replace(
        &mut self,
        set: usize,
        loops: &[Loop],
        (machine, question): (&'static Machine, Q),
        make: impl FnOnce(u64) -> Option<A>,
    ) -> Option<usize> {
        if loops.is_empty() || loops.len() > MAX_LOOPS {
            return None;
        }
        let answer = make(self.made + 1)?;
        self.made += 1;
        let is_free = |kept: &Answer<Q, A>| kept.count == 0;
        let way = self.sets[set].iter().position(is_free).unwrap_or(self.made as usize % WAYS);
        let kept = &mut self.sets[set][way];
        kept.loops[..loops.len()].copy_from_slice(loops);
        (kept.count, kept.machine, kept.question, kept.answer) = (loops.len(), Some(machine), question, answer);
        Some(way)
    }
}

/// The set that contractions with these loops are kept in.
fn set_of(loops: &[Loop]) -> usize {
    let mixed = loops.iter().fold(0u32, |mixed, each| {
        let number = each.count as i64 ^ each.output ^ each.left.rotate_left(8) ^ each.right.rotate_left(16);
        (mixed ^ number as u32).wrapping_mul(0x9E37_79B1).rotate_left(15)
    });
    mixed as usize % SETS
}

/// What a thread keeps. All zeros is nothing.
pub(super) struct Kept {
    /// By the kinds of the operands: the plan, and its number.
    plans: Answers<[OperandKind; 2], (Plan, u64)>,
    /// By the side, the kind of the other operand, and the most elements.
    layouts: Answers<(Side, OperandKind, usize), Choice>,
}

impl Kept {
    /// Returns the plan of a contraction, and its number, which is not zero. None where it runs as it stands.
    pub(super) fn plan(
        &mut self,
        loops: &[Loop],
        machine: &'static Machine,
        operands: [OperandKind; 2],
    ) -> Option<(&Plan, u64)> {
        let make = |number| Some((Plan::costed(loops, machine, operands)?.0, number));
        let (plan, number) = self.plans.get(loops, machine, operands, make)?;
        Some((plan, *number))
    }

    /// Chooses a layout: see [`Layout::of`].
    pub(super) fn layout(
        &mut self,
        loops: &[Loop],
        side: Side,
        machine: &'static Machine,
        other: OperandKind,
        most: usize,
    ) -> Option<&Layout> {
        let question = (side, other, most);
        let make = |_| Some(Choice::of(loops, side, machine, other, most));
        self.layouts.get(loops, machine, question, make)?.layout()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::contraction::loops::each;
    use crate::contraction::scratch;
    use alloc::vec::Vec;

    #[test]
    fn plans_are_kept_for_the_next_call() {
        let product =
            |m: usize, k: usize, n: usize| [each(m, n as i64, k as i64, 0), each(k, 0, 1, n as i64), each(n, 1, 0, 1)];
        let products: Vec<[Loop; 3]> = (0..100).map(|at| product(8 + at % 10, 16 + at / 10, 32)).collect();
        scratch::with_nothing_kept(|kept| {
            let mut numbers = || -> Vec<u64> {
                let mut number = |loops| kept.plan(loops, &Machine::X86_64_V4, [OperandKind::Memory; 2]).unwrap().1;
                products.iter().map(|loops| number(loops)).collect()
            };
            let (first, second) = (numbers(), numbers());
            let kept = first.iter().zip(&second).filter(|(first, second)| first == second).count();
            // A few sets have more than their ways.
            assert!(kept >= 90, "{kept}");
            let mut all = first;
            all.extend(&second);
            all.sort_unstable();
            all.dedup();
            assert!(all.len() == 200 - kept && all[0] > 0);
        });
    }

    #[test]
    fn other_questions_have_other_plans() {
        scratch::with_nothing_kept(|kept| {
            let loops = [each(8, 32, 16, 0), each(16, 0, 1, 32), each(32, 1, 0, 1)];
            let mut plan = |machine, operands| {
                let (plan, number) = kept.plan(&loops, machine, operands).unwrap();
                (plan.lanes, number)
            };
            let wide = plan(&Machine::X86_64_V4, [OperandKind::Memory; 2]);
            let (narrow, computed) = (
                plan(&Machine::X86_64_V3, [OperandKind::Memory; 2]),
                plan(&Machine::X86_64_V4, [OperandKind::Computed, OperandKind::Memory]),
            );
            assert_eq!((wide.0, narrow.0, computed.0), (16, 8, 16));
            assert!(wide.1 != narrow.1 && wide.1 != computed.1);
            assert_eq!(plan(&Machine::X86_64_V4, [OperandKind::Memory; 2]), wide);
            assert!(kept.plan(&[], &Machine::X86_64_V4, [OperandKind::Memory; 2]).is_none());
            let many = [each(2, 1, 1, 0); MAX_LOOPS + 1];
            assert!(kept.plan(&many, &Machine::X86_64_V4, [OperandKind::Memory; 2]).is_none());
        });
    }
}
