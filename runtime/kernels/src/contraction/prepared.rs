//! Decisions about a contraction, taken once for all contractions of the same loops and of operands of the same kinds.

use alloc::rc::Rc;
use core::marker::PhantomData;

use incarnate_bytecode::trip_count::{Reach, is_injective_by};

use super::ablation::Form;
use super::costs::{CYCLE, SCALAR_ITERATION};
use super::division;
use super::groups::{self, Grouped};
#[cfg(feature = "std")]
use super::kept::Kept;
use super::kept::Question;
use super::layout::{Layout, Side};
use super::level::Level;
use super::lists::KeptLists;
use super::loops::{Loop, MAX_LOOPS};
use super::operand::{Operand, OperandKind};
use super::operation::Operation;
use super::operation::sealed::Tiled;
use super::partial::{Partial, Sums};
use super::plan::Plan;
use super::{Initial, clear, drive, in_order, partial, scratch};

/// The decisions.
pub(super) struct Decided {
    level: Level,
    operands: [OperandKind; 2],
    loops: Rc<[Loop]>,
    /// How far the loops reach in C, A and B.
    reaches: [Reach; 3],
    /// Iterations that differ in loops that move C have different elements of it.
    is_injective: bool,
    /// Not zero, and different for each contraction that a thread prepares: lists in the thread's scratch memory are named by it.
    number: u64,
    sums: Sums,
    schedule: Schedule,
    /// The rows and products of tiles, if they are few and nothing is packed.
    lists: Option<KeptLists>,
    prepacked: Option<Prepacked>,
    /// The loop that threads divide.
    divided: Option<usize>,
    /// The cycles that the contraction is expected to take.
    pub(super) cycles: usize,
}

/// How the iterations run.
enum Schedule {
    /// There are none.
    Nothing,
    /// One after the other, as the loops stand.
    Scalar,
    /// With partial sums along a loop in which both operands are adjacent.
    Partial(Partial),
    /// By micro-tiles.
    Tiles(Plan),
    /// By an instruction for several narrow integers.
    Groups(Grouped),
}

/// The contraction with an operand that is copied once in an order that suits it.
struct Prepacked {
    side: Side,
    layout: Layout,
    decided: Rc<Decided>,
}

/// A contraction with all decisions taken: [`prepare`].
#[allow(missing_debug_implementations, reason = "its plan says of itself what it does: `Plan`")]
pub struct Prepared<O> {
    decided: Rc<Decided>,
    operation: PhantomData<O>,
}

/// Decides how a contraction runs, for operands of these kinds. `constants` says which operands are in constants: one of them may be
/// [prepacked](Prepared::prepacked). A thread keeps the answers to the last questions.
#[must_use]
pub fn prepare<O: Operation>(loops: &[Loop], operands: [OperandKind; 2], constants: [bool; 2]) -> Prepared<O> {
    prepare_part::<O>(None, loops, operands, constants)
}

/// As [`prepare`], for the part of a contraction whose order of sums is given: that of the whole.
fn prepare_part<O: Operation>(
    sums: Option<Sums>,
    loops: &[Loop],
    operands: [OperandKind; 2],
    constants: [bool; 2],
) -> Prepared<O> {
    let level = Level::best(usize::MAX);
    Prepared { decided: decided::<O>(level, sums, loops, operands, constants), operation: PhantomData }
}

/// As [`prepare_part`], for the tiles of a level.
pub(super) fn decided<O: Operation>(
    level: Level,
    sums: Option<Sums>,
    loops: &[Loop],
    operands: [OperandKind; 2],
    constants: [bool; 2],
) -> Rc<Decided> {
    let machine = &<O as Tiled>::tiles(level).machine;
    let sums = if O::ANY_ORDER { sums } else { Some(Sums::Sequential) };
    let question = Question { level, machine, sums, operands, constants };
    kept(loops, question, |number| Decided::of::<O>(loops, question, number))
}

#[cfg(feature = "std")]
std::thread_local! {
    static KEPT: core::cell::RefCell<Kept<Decided>> = const { core::cell::RefCell::new(Kept::NOTHING) };
    /// The number of the last contraction that the thread has prepared. It has no destructor: the lists in scratch memory may outlive `KEPT`
    /// where the thread is ending, and no other contraction may have their number.
    static NUMBER: core::cell::Cell<u64> = const { core::cell::Cell::new(0) };
}

/// Returns the decisions about a contraction: those of before, or new ones.
#[cfg(feature = "std")]
fn kept(loops: &[Loop], question: Question, decide: impl FnOnce(u64) -> Decided) -> Rc<Decided> {
    // Where the thread is ending there is nothing to keep them for.
    let found = KEPT.try_with(|kept| kept.borrow_mut().get(loops, &question)).ok().flatten();
    found.unwrap_or_else(|| {
        let number = NUMBER.get() + 1;
        NUMBER.set(number);
        // Parts of a contraction are contractions, so that nothing is borrowed meanwhile.
        let decided = Rc::new(decide(number));
        let (loops, answer) = (Rc::clone(&decided.loops), Rc::clone(&decided));
        let _ = KEPT.try_with(|kept| kept.borrow_mut().keep(loops, question, answer));
        decided
    })
}

/// Decides anew: without threads that end, nothing would free what was kept.
#[cfg(not(feature = "std"))]
fn kept(_: &[Loop], _: Question, decide: impl FnOnce(u64) -> Decided) -> Rc<Decided> {
    Rc::new(decide(1))
}

impl Decided {
    fn of<O: Operation>(loops: &[Loop], question: Question, number: u64) -> Decided {
        let Question { level, machine, operands, .. } = question;
        let sums = question.sums.unwrap_or_else(|| Sums::of::<O>(loops));
        let (schedule, cycles) = Schedule::of::<O>(loops, question, sums);
        let reach = |stride: fn(&Loop) -> i64| Reach::of(loops.iter().map(|each| (each.count, stride(each))));
        let reaches = [reach(|each| each.output), reach(|each| each.left), reach(|each| each.right)];
        // A loop that does not move C sums.
        let moving = |at: usize| (if loops[at].output == 0 { 1 } else { loops[at].count }, loops[at].output);
        let is_injective = is_injective_by(loops.len(), moving);
        let prepacked = match &schedule {
            Schedule::Tiles(_) => [Side::Left, Side::Right].into_iter().find_map(|side| {
                // A copy has at most as many elements as there are from the first to the last.
                let most = usize::try_from(reaches[1 + side.index()].elements()).unwrap_or(usize::MAX);
                let other = operands[side.other().index()];
                let is_constant = question.constants[side.index()];
                let layout = if is_constant { Layout::of(loops, side, machine, other, most) } else { None }?;
                let mut operands = operands;
                operands[side.index()] = OperandKind::Layout;
                let decided = decided::<O>(level, Some(sums), layout.loops(), operands, [false; 2]);
                Some(Prepacked { side, layout, decided })
            }),
            _ => None,
        };
        let lists = match &schedule {
            Schedule::Tiles(plan) => KeptLists::of(plan, operands[usize::from(plan.is_swapped)]),
            _ => None,
        };
        let packed = match &schedule {
            Schedule::Tiles(plan) => plan.packed(),
            _ => None,
        };
        let divided = division::divisible(loops, operands, packed);
        let loops = loops.into();
        Decided {
            level,
            operands,
            loops,
            reaches,
            is_injective,
            number,
            sums,
            schedule,
            lists,
            prepacked,
            divided,
            cycles,
        }
    }
}

impl Schedule {
    /// Returns the schedule, and the cycles that it is expected to take.
    fn of<O: Operation>(loops: &[Loop], question: Question, sums: Sums) -> (Schedule, usize) {
        let Question { level, machine, operands, .. } = question;
        if loops.iter().any(|each| each.count == 0) {
            return (Schedule::Nothing, 0);
        }
        let iterations = loops.iter().fold(1usize, |all, each| all.saturating_mul(each.count));
        let scalar = (Schedule::Scalar, iterations.saturating_mul(SCALAR_ITERATION));
        if loops.is_empty() || loops.len() > MAX_LOOPS {
            return scalar;
        }
        if let Some((grouped, cycles)) = groups::of::<O>(level, loops, operands) {
            return (Schedule::Groups(grouped), cycles);
        }
        if sums == Sums::Partial
            && let Some(plan) = Partial::of(loops)
        {
            let cycles = plan.cycles();
            return (Schedule::Partial(plan), cycles);
        }
        let Some((plan, cycles)) = Plan::costed(loops, machine, operands) else { return scalar };
        (Schedule::Tiles(plan), cycles)
    }
}

impl<O: Operation> Prepared<O> {
    /// The operand whose elements take less time in another order, that order, and the contraction of it. The elements are an
    /// [`Operand::Layout`] of that contraction.
    #[must_use]
    pub fn prepacked(&self) -> Option<(Side, &Layout, Prepared<O>)> {
        let Prepacked { side, layout, decided } = self.decided.prepacked.as_ref()?;
        Some((*side, layout, Prepared { decided: Rc::clone(decided), operation: PhantomData }))
    }

    /// The loops.
    #[must_use]
    pub fn loops(&self) -> &[Loop] {
        &self.decided.loops
    }

    /// The kinds of the operands.
    #[must_use]
    pub fn operands(&self) -> [OperandKind; 2] {
        self.decided.operands
    }

    /// How far the loops reach in C, A and B.
    #[must_use]
    pub fn reaches(&self) -> [Reach; 3] {
        self.decided.reaches
    }

    /// Whether iterations that differ in loops that move C have different elements of it.
    #[must_use]
    pub fn is_injective(&self) -> bool {
        self.decided.is_injective
    }

    /// The order of the sums, which all parts of a divided contraction have.
    #[must_use]
    pub fn sums(&self) -> Sums {
        self.decided.sums
    }

    /// The loop that threads divide; None where they should not.
    #[must_use]
    pub fn divided(&self) -> Option<usize> {
        self.decided.divided
    }

    /// The time that the contraction is expected to take on one thread, in picoseconds.
    #[must_use]
    pub fn time(&self) -> u64 {
        (self.decided.cycles as u64).saturating_mul(CYCLE)
    }

    /// Runs the contraction.
    ///
    /// # Safety
    /// As for [`contract`](super::contract), and the operands are of the kinds that it was prepared for.
    pub unsafe fn run(
        &self,
        output: (*mut O::Number, Initial),
        left: Operand<'_, O::Number>,
        right: Operand<'_, O::Number>,
    ) {
        // SAFETY: the contract is the same.
        unsafe { run::<O>(&self.decided, output, left, right) }
    }
}

/// Runs iterations of a contraction: those of a part, whose order of sums is that of the whole.
///
/// # Safety
/// As for [`contract`](super::contract).
pub unsafe fn contract_part<O: Operation>(
    sums: Sums,
    output: (*mut O::Number, Initial),
    left: Operand<'_, O::Number>,
    right: Operand<'_, O::Number>,
    loops: &[Loop],
) {
    // SAFETY: the contract is that of `run`, for operands of the kinds that this is prepared for.
    unsafe { prepare_part::<O>(Some(sums), loops, [left.kind(), right.kind()], [false; 2]).run(output, left, right) }
}

/// Runs a contraction as it was decided.
///
/// # Safety
/// As for [`Prepared::run`].
pub(super) unsafe fn run<O: Operation>(
    decided: &Decided,
    (output, initial): (*mut O::Number, Initial),
    left: Operand<'_, O::Number>,
    right: Operand<'_, O::Number>,
) {
    let Decided { level, operands, loops, number, schedule, lists, .. } = decided;
    debug_assert_eq!(*operands, [left.kind(), right.kind()], "prepared for other operands");
    let is_loaded = matches!(schedule, Schedule::Scalar | Schedule::Partial(_)) || !Form::Zeros.is_used();
    let initial = if is_loaded && initial == Initial::Zeros {
        // SAFETY: the caller promises the output's elements for the iterations of these loops.
        unsafe { clear(output, O::ZERO, loops) };
        Initial::Stored
    } else {
        initial
    };
    let swapped = |is_swapped: bool| if is_swapped { (right, left) } else { (left, right) };
    // SAFETY: the caller promises the elements of the iterations of the loops, which `Decided::of` planned: each schedule runs these. The
    // operands are exchanged where the plan has exchanged them. The tiles are those of `level`, which proves their features.
    unsafe {
        match schedule {
            Schedule::Nothing => {}
            Schedule::Scalar => in_order::<O>(output, left, right, loops, [0; 3]),
            Schedule::Groups(grouped) => groups::run::<O>(grouped, (output, initial), left, right),
            Schedule::Partial(plan) => {
                let (tiles, zero, (left, right)) = (<O as Tiled>::partial(*level), O::ZERO, swapped(plan.is_swapped));
                scratch::with(|scratch| partial::Drive { plan, tiles, output, left, right, zero, scratch }.run());
            }
            Schedule::Tiles(plan) => {
                let (tiles, number, (of_left, of_right)) =
                    (<O as Tiled>::tiles(*level), *number, swapped(plan.is_swapped));
                scratch::with(|scratch| {
                    let (left, right, kept) = (of_left, of_right, lists.as_ref());
                    drive::Drive { plan, number, kept, tiles, output, initial, left, right, scratch }.run();
                });
            }
        }
    }
}
