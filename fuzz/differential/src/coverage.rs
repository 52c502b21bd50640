//! Coverage of instructions: those in programs, and those that run.

use std::collections::BTreeMap;

use incarnate_runtime::bytecode::isa::{INSTRUCTIONS, Opcode};

use crate::generator::Program;
use crate::harness;

/// The number of an instruction's occurrences, and its executions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    /// Occurrences in programs.
    pub written: usize,
    /// Executions: occurrences in blocks, multiplied by the executions of the blocks.
    pub run: usize,
}

/// Counts over the interpreted programs of some seeds. A block that fails counts completely.
pub fn measure(seeds: impl Iterator<Item = u64>) -> BTreeMap<&'static str, Count> {
    let mut counts: BTreeMap<&'static str, Count> = BTreeMap::new();
    INSTRUCTIONS.iter().filter(|row| row.opcode != Opcode::Block).for_each(|row| {
        counts.insert(row.mnemonic, Count::default());
    });
    for seed in seeds {
        let program = Program::new(seed, true);
        for mnemonic in program.blocks.values().flatten() {
            counts.entry(mnemonic).or_default().written += 1;
        }
        let library = harness::library().and_then(|library| harness::interpreted(&library));
        let (Ok(module), Ok(library)) = (harness::interpreted(&program.module), library) else {
            continue;
        };
        for line in harness::run(module, library, &program, true).lines {
            let Some((_, rest)) = line.split_once("message=mark ") else { continue };
            let mark: String = rest.split(' ').take(2).collect::<Vec<_>>().join(" ");
            for mnemonic in program.blocks.get(&format!("mark {mark}")).into_iter().flatten() {
                counts.entry(mnemonic).or_default().run += 1;
            }
        }
    }
    counts
}
