//! What became of the loops of a module.

use std::fmt;

use incarnate_runtime::bytecode::VerifiedModule;
use incarnate_runtime::ir::nest::{Hindrance, Needed, Nest, Nests, Obstacle, Tiling};
use incarnate_runtime::ir::{Block, Function};

/// What became of an outermost loop, or of one within a loop that is no nest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopReport {
    /// The function, as the module names it.
    pub function: String,
    /// Where the loop begins, as an offset in the function's bytecode.
    pub offset: u32,
    /// What became of it.
    pub fate: LoopFate,
}

/// What became of a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoopFate {
    /// It is run element by element, as the bytecode has it.
    Unchanged(Obstacle),
    /// The same, as its turns are counted.
    Counted,
    /// Its accesses are checked before the first turn; the turns keep their order.
    Checked {
        /// The numbers of turns of the loops, the outermost first; None where it is no constant.
        turns: Vec<Option<u64>>,
        /// Why it is not tiled.
        hindrance: Hindrance,
    },
    /// Its accesses are checked before the first turn, and what it reduces is in registers, block by block.
    Tiled {
        /// The numbers of turns of the loops, the outermost first; None where it is no constant.
        turns: Vec<Option<u64>>,
        /// How: loops are meant by their position among `turns`.
        tiling: Tiling,
    },
}

/// The loops of all functions of a module, in their order.
pub(crate) fn report(module: &VerifiedModule, functions: &[Function], counts_turns: bool) -> Vec<LoopReport> {
    let mut reports = Vec::new();
    for (ordinal, function) in (0..).zip(functions) {
        let nests = Nests::of(function);
        let mut own: Vec<(Block, LoopFate)> =
            nests.found.iter().map(|nest| (nest.loops[0].header, fate(function, nest))).collect();
        own.extend(nests.rejected.into_iter().map(|(header, obstacle)| (header, LoopFate::Unchanged(obstacle))));
        own.sort_by_key(|(header, _)| *header);
        reports.extend(own.into_iter().map(|(header, fate)| {
            let offset = function.block(header).instructions.first().map_or(0, |inst| inst.offset);
            let fate = if counts_turns { LoopFate::Counted } else { fate };
            LoopReport { function: module.function_name(ordinal), offset, fate }
        }));
    }
    reports
}

fn fate(function: &Function, nest: &Nest) -> LoopFate {
    let turns = nest.loops.iter().map(|counted| counted.constant_trip_count()).collect();
    match Tiling::of(function, nest, &Needed::of(function, nest)) {
        Ok(tiling) => LoopFate::Tiled { turns, tiling },
        Err(hindrance) => LoopFate::Checked { turns, hindrance },
    }
}

impl fmt::Display for LoopReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}+{:#x}: {}", crate::names::line(&self.function), self.offset, self.fate)
    }
}

impl fmt::Display for LoopFate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoopFate::Counted => f.write_str("run as it is: turns of untrusted modules are counted"),
            LoopFate::Unchanged(obstacle) => write!(f, "run as it is: {obstacle}"),
            LoopFate::Checked { turns, hindrance } => write!(f, "{} turns, in order: {hindrance}", Turns(turns)),
            LoopFate::Tiled { turns, tiling } => {
                write!(f, "{} turns, tiled: ", Turns(turns))?;
                if let Some(rows) = tiling.rows {
                    write!(f, "{} turns of loop {rows} by ", Tiling::ROWS)?;
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

/// Numbers of turns.
struct Turns<'a>(&'a [Option<u64>]);

impl fmt::Display for Turns<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, turns) in self.0.iter().enumerate() {
            let by = if at == 0 { "" } else { " x " };
            match turns {
                Some(turns) => write!(f, "{by}{turns}")?,
                None => write!(f, "{by}?")?,
            }
        }
        Ok(())
    }
}
