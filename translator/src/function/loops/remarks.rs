//! Optimisation remarks about the loops of a module.

use std::fmt;

use super::plans;
use incarnate_bytecode::VerifiedModule;
use incarnate_bytecode::ir::nest::{BailOut, Nest, Nests, Order, Schedule, ScheduledNest};
use incarnate_bytecode::ir::{Block, Function};

/// An optimisation remark about an outermost loop, or about a loop whose outer loops are not nests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopRemark {
    /// The function, as the module names it.
    pub function: String,
    /// The bytecode offset of the loop in the function.
    pub offset: u32,
    /// How the loop is translated.
    pub outcome: LoopOutcome,
}

/// How a loop is translated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoopOutcome {
    /// Missed optimisation: every access is checked on its own. Holds the bail-out reason.
    Unchanged(BailOut),
    /// Nothing to check: no buffer is accessed.
    WithoutAccess,
    /// Missed optimisation of an untrusted module: a loaded number, which another thread may change meanwhile, divides or
    /// selects.
    Racing,
    /// All accesses are checked before the loops run.
    Scheduled {
        /// The trip counts of the loops, the outermost first; None where it is not a constant.
        trip_counts: Vec<Option<u64>>,
        /// The first loop is that over the workgroups that one call of a coarsened kernel runs; its count is the most of them.
        is_coarsened: bool,
        /// What runs in place of the loops, what is checked before, and which loops are merged, as text: it refers to loops by their
        /// position in `trip_counts`, and to views, conditions and gathers by their position in the nest.
        scheduled: String,
        /// The form of the iterations.
        schedule: Box<Schedule>,
        /// What the kernel of a contraction does on a processor with AVX-512, where trip counts and strides are constants: it plans
        /// each call. None without the feature `plans`.
        plan: Option<String>,
        /// Missed optimisation: reductions along adjacent elements stay in the order of the bytecode. Those of contractions are known with
        /// the feature `plans` alone.
        would_reassociate: bool,
    },
}

/// The remarks about the loops of all functions of a module, in order. A function may be a kernel; the number is the most workgroups that a
/// call of it runs.
pub(crate) fn remarks<'f>(
    module: &VerifiedModule,
    functions: impl Iterator<Item = (&'f Function, u32)>,
    untrusted: bool,
    order: Option<Order>,
) -> Vec<LoopRemark> {
    let mut remarks = Vec::new();
    for (ordinal, (function, coarsening)) in (0..).zip(functions) {
        let nests = Nests::of(function);
        let outcome_of = |nest: &Nest| {
            super::bail_out(function, nest, untrusted).unwrap_or_else(|| outcome(function, nest, coarsening, order))
        };
        let mut outcomes: Vec<(Block, LoopOutcome)> =
            nests.found.iter().map(|nest| (nest.loops[0].header, outcome_of(nest))).collect();
        outcomes.extend(nests.rejected.into_iter().map(|(header, reason)| (header, LoopOutcome::Unchanged(reason))));
        outcomes.sort_by_key(|(header, _)| *header);
        remarks.extend(outcomes.into_iter().map(|(header, outcome)| {
            let offset = function.block(header).instructions.first().map_or(0, |inst| inst.offset);
            LoopRemark { function: module.function_name(ordinal), offset, outcome }
        }));
    }
    remarks
}

fn outcome(function: &Function, nest: &Nest, coarsening: u32, order: Option<Order>) -> LoopOutcome {
    let is_coarsened = coarsening > 1;
    let mut trip_counts: Vec<Option<u64>> = nest.loops.iter().map(|counted| counted.constant_trip_count()).collect();
    if is_coarsened {
        trip_counts[0] = Some(coarsening.into());
    }
    let scheduled = ScheduledNest::of(function, nest, order);
    let plan = match &scheduled.schedule {
        Schedule::Contraction(contraction) => plans::constant_plan(nest, &trip_counts, contraction),
        _ => None,
    };
    let would_reassociate = order == Some(Order::Bytecode)
        && match ScheduledNest::of(function, nest, Some(Order::Any)).schedule {
            Schedule::Contraction(contraction) => plans::would_reassociate(nest, &trip_counts, &contraction),
            _ => false,
        };
    let (text, schedule) = (scheduled.to_string(), Box::new(scheduled.schedule));
    LoopOutcome::Scheduled { trip_counts, is_coarsened, scheduled: text, schedule, plan, would_reassociate }
}

impl LoopRemark {
    /// Counts loops by how they are translated: `128 contractions, 256 strips, 10 loops in order`.
    #[must_use]
    pub fn summary(loops: &[LoopRemark]) -> String {
        let of = |is: fn(&Schedule) -> bool| {
            let outcomes = loops.iter().map(|found| &found.outcome);
            outcomes
                .filter(|outcome| matches!(outcome, LoopOutcome::Scheduled { schedule, .. } if is(schedule)))
                .count()
        };
        let contractions = of(|schedule| matches!(schedule, Schedule::Contraction(_)));
        let strips = of(|schedule| matches!(schedule, Schedule::Strips(_)));
        let zeros = of(|schedule| *schedule == Schedule::Zeros);
        let others = loops.len() - contractions - strips - zeros;
        let zeros = if zeros == 0 { String::new() } else { format!(", {zeros} with nothing to do") };
        format!("{contractions} contractions, {strips} strips{zeros}, {others} loops in order")
    }
}

impl fmt::Display for LoopRemark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}+{:#x}: {}", crate::names::line(&self.function), self.offset, self.outcome)
    }
}

impl fmt::Display for LoopOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoopOutcome::Racing => f.write_str(
                "not optimised: another thread may change a number that is used after the loop, divides or selects",
            ),
            LoopOutcome::WithoutAccess => f.write_str("not optimised: no buffer is accessed"),
            LoopOutcome::Unchanged(reason) => write!(f, "not optimised: {reason}"),
            LoopOutcome::Scheduled { trip_counts, is_coarsened, scheduled, plan, would_reassociate, .. } => {
                match (is_coarsened, &trip_counts[..]) {
                    (true, [Some(workgroups), within @ ..]) => {
                        write!(f, "{} iterations of up to {workgroups} workgroups, ", TripCounts(within))
                    }
                    _ => write!(f, "{} iterations, ", TripCounts(trip_counts)),
                }?;
                write!(f, "{scheduled}")?;
                if let Some(plan) = plan {
                    write!(f, "; {plan}")?;
                }
                match would_reassociate {
                    true => {
                        f.write_str("; sums along adjacent elements stay in order: --reassociate allows partial sums")
                    }
                    false => Ok(()),
                }
            }
        }
    }
}

/// Trip counts as text, such as `4 x 8 x ?`.
struct TripCounts<'a>(&'a [Option<u64>]);

impl fmt::Display for TripCounts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, count) in self.0.iter().enumerate() {
            let by = if at == 0 { "" } else { " x " };
            match count {
                Some(count) => write!(f, "{by}{count}")?,
                None => write!(f, "{by}?")?,
            }
        }
        Ok(())
    }
}
