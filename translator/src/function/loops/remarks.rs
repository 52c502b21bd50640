//! Optimisation remarks about the loops of a module.

use std::fmt;

use incarnate_bytecode::VerifiedModule;
use incarnate_bytecode::ir::nest::{BailOut, Contraction, Needed, Nest, Nests, Tiling, TilingBailOut};
use incarnate_bytecode::ir::{Block, Function};
use incarnate_kernels::contraction::{Loop, Machine, Plan};

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
    /// All accesses are checked before the loops run, which stay scalar.
    Checked {
        /// The trip counts of the loops, the outermost first; None where it is not a constant.
        trip_counts: Vec<Option<u64>>,
        /// Why the nest is not tiled.
        reason: TilingBailOut,
    },
    /// A contraction, which a kernel of the runtime runs.
    Contraction {
        /// The trip counts of the loops, the outermost first; None where it is not a constant.
        trip_counts: Vec<Option<u64>>,
        /// What the kernel does on a processor with AVX-512, where trip counts and strides are constants: it plans each call.
        plan: Option<String>,
    },
    /// All accesses are checked before the loops run, and blocks of results are accumulated in registers.
    Tiled {
        /// The trip counts of the loops, the outermost first; None where it is not a constant.
        trip_counts: Vec<Option<u64>>,
        /// The tiling, which refers to loops by their position in `trip_counts`.
        tiling: Tiling,
    },
}

/// The remarks about the loops of all functions of a module, in order.
pub(crate) fn remarks(module: &VerifiedModule, functions: &[Function], untrusted: bool) -> Vec<LoopRemark> {
    let mut remarks = Vec::new();
    for (ordinal, function) in (0..).zip(functions) {
        let nests = Nests::of(function);
        let outcome_of =
            |nest: &Nest| super::bail_out(function, nest, untrusted).unwrap_or_else(|| outcome(function, nest));
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

fn outcome(function: &Function, nest: &Nest) -> LoopOutcome {
    let trip_counts = nest.loops.iter().map(|counted| counted.constant_trip_count()).collect();
    let needed = Needed::of(function, nest);
    if let Some(contraction) = Contraction::of(function, nest, &needed) {
        let loops =
            contraction.loops.iter().map(|at| constant_loop(nest, &contraction, *at)).collect::<Option<Vec<_>>>();
        let plan = loops.and_then(|loops| Plan::of(&loops, &Machine::X86_64_V4)).map(|plan| plan.to_string());
        return LoopOutcome::Contraction { trip_counts, plan };
    }
    match Tiling::of(function, nest, &needed) {
        Ok(tiling) => LoopOutcome::Tiled { trip_counts, tiling },
        Err(reason) => LoopOutcome::Checked { trip_counts, reason },
    }
}

/// A loop of a contraction whose trip count and strides are constants.
fn constant_loop(nest: &Nest, contraction: &Contraction, at: usize) -> Option<Loop> {
    let stride = |view: usize| nest.views[view].index.constant_stride(at);
    Some(Loop {
        count: usize::try_from(nest.loops[at].constant_trip_count()?).ok()?,
        output: stride(contraction.output)?,
        left: stride(contraction.left.view)?,
        right: stride(contraction.right.view)?,
    })
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
            LoopOutcome::Contraction { trip_counts, plan } => {
                write!(f, "{} iterations, a contraction: ", TripCounts(trip_counts))?;
                f.write_str(plan.as_deref().unwrap_or("planned when it runs"))
            }
            LoopOutcome::Checked { trip_counts, reason } => {
                write!(f, "{} iterations, not tiled: {reason}", TripCounts(trip_counts))
            }
            LoopOutcome::Tiled { trip_counts, tiling } => {
                write!(f, "{} iterations, tiled: ", TripCounts(trip_counts))?;
                if let Some(rows) = tiling.rows {
                    write!(f, "{} iterations of loop {rows} by ", Tiling::ROWS)?;
                }
                write!(f, "lanes of loop {}, reducing over", tiling.lanes)?;
                for at in &tiling.reductions {
                    write!(f, " {at}")?;
                }
                if !tiling.panels.is_empty() {
                    write!(f, ", {} packed", tiling.panels.len())?;
                }
                Ok(())
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
