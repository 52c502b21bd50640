//! What a thread keeps of the contractions before: their decisions. Workgroups of a dispatch repeat the same contraction, and models
//! repeat all.

use alloc::rc::Rc;

use super::loops::Loop;
use super::prepared::{Decided, Question};

/// Returns the decisions about a contraction: those of before, or new ones, with a number that is not zero and different from those
/// before.
#[cfg(feature = "std")]
pub(super) fn get(loops: &[Loop], question: Question, decide: impl FnOnce(u64) -> Decided) -> Rc<Decided> {
    // Where the thread is ending there is nothing to keep them for.
    let found = KEPT.try_with(|kept| kept.borrow_mut().get(loops, &question)).ok().flatten();
    found.unwrap_or_else(|| {
        let number = KEPT.try_with(|kept| kept.borrow_mut().next_number()).unwrap_or(1);
        // Parts of a contraction are contractions, so that nothing is borrowed meanwhile.
        let decided = Rc::new(decide(number));
        let _ = KEPT.try_with(|kept| kept.borrow_mut().keep(Rc::clone(&decided)));
        decided
    })
}

/// Decides anew: without threads that end, nothing would free what was kept.
#[cfg(not(feature = "std"))]
pub(super) fn get(_: &[Loop], _: Question, decide: impl FnOnce(u64) -> Decided) -> Rc<Decided> {
    Rc::new(decide(1))
}

#[cfg(feature = "std")]
std::thread_local! {
    static KEPT: core::cell::RefCell<Kept> = const { core::cell::RefCell::new(Kept::NOTHING) };
}

/// Sets of contractions: those of larger models have some hundred of different loops.
#[cfg(feature = "std")]
const SETS: usize = 64;
/// Contractions of a set, any of which is replaced by the next.
#[cfg(feature = "std")]
const WAYS: usize = 4;

#[cfg(feature = "std")]
struct Kept {
    sets: [[Option<Rc<Decided>>; WAYS]; SETS],
    /// The one that was used last: its set, and its way.
    last: (usize, usize),
    /// How many numbers there have been.
    numbers: u64,
}

#[cfg(feature = "std")]
impl Kept {
    const NOTHING: Kept = Kept { sets: [const { [const { None }; WAYS] }; SETS], last: (0, 0), numbers: 0 };

    fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn get(&mut self, loops: &[Loop], question: &Question) -> Option<Rc<Decided>> {
        let is_asked = |kept: &&Rc<Decided>| kept.question == *question && *kept.loops == *loops;
        let (set, way) = self.last;
        if let Some(last) = self.sets[set][way].as_ref().filter(is_asked) {
            return Some(Rc::clone(last));
        }
        let set = set_of(loops);
        let way = self.sets[set].iter().position(|kept| kept.as_ref().is_some_and(|kept| is_asked(&kept)))?;
        self.last = (set, way);
        self.sets[set][way].clone()
    }

    fn keep(&mut self, decided: Rc<Decided>) {
        let set = set_of(&decided.loops);
        let free = self.sets[set].iter().position(Option::is_none);
        let way = free.unwrap_or(self.numbers as usize % WAYS);
        self.sets[set][way] = Some(decided);
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
    use crate::contraction::prepared::decided;
    use crate::contraction::{FmaF32, Level, Machine, MulAddF32, OperandKind};
    use alloc::vec::Vec;

    const IN_MEMORY: [OperandKind; 2] = [OperandKind::Memory; 2];

    #[test]
    fn decisions_are_kept_for_the_next_call() {
        let product =
            |m: usize, k: usize, n: usize| [each(m, n as i64, k as i64, 0), each(k, 0, 1, n as i64), each(n, 1, 0, 1)];
        let products: Vec<[Loop; 3]> = (0..100).map(|at| product(8 + at % 10, 16 + at / 10, 32)).collect();
        let level = Level::at_most(&Machine::PORTABLE);
        let all = || -> Vec<Rc<Decided>> {
            products.iter().map(|loops| decided::<FmaF32>(level, None, loops, IN_MEMORY, [0; 2])).collect()
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
        let of = |level: Level, operands: [OperandKind; 2]| decided::<MulAddF32>(level, None, &loops, operands, [0; 2]);
        let asked = of(best, IN_MEMORY);
        let computed = of(best, [OperandKind::Computed, OperandKind::Memory]);
        let fused = decided::<FmaF32>(best, None, &loops, IN_MEMORY, [0; 2]);
        let constant = decided::<MulAddF32>(best, None, &loops, IN_MEMORY, [0, 1 << 20]);
        assert!([&computed, &fused, &constant].into_iter().all(|other| !Rc::ptr_eq(&asked, other)));
        assert!(best == portable || !Rc::ptr_eq(&asked, &of(portable, IN_MEMORY)));
        assert!(Rc::ptr_eq(&asked, &of(best, IN_MEMORY)));
    }
}
