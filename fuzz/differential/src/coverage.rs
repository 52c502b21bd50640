//! Which instructions programs contain, and which of them run.

use std::collections::BTreeMap;

use incarnate_runtime::bytecode::isa::{INSTRUCTIONS, Opcode};

use crate::generator::Program;
use crate::harness;

/// How often an instruction stands in programs, and in how many blocks that ran.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    /// Instructions in programs.
    pub written: usize,
    /// Instructions in blocks that ran, counted as often as they did.
    pub run: usize,
}

/// Counts over the programs of some seeds, run interpreted. A block that fails counts as a whole.
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
        let peer = harness::peer().and_then(|peer| harness::interpreted(&peer));
        let (Ok(module), Ok(peer)) = (harness::interpreted(&program.module), peer) else {
            continue;
        };
        for line in harness::run(module, peer, &program, true).lines {
            let Some((_, rest)) = line.split_once("message=mark ") else { continue };
            let mark: String = rest.split(' ').take(2).collect::<Vec<_>>().join(" ");
            for mnemonic in program.blocks.get(&format!("mark {mark}")).into_iter().flatten() {
                counts.entry(mnemonic).or_default().run += 1;
            }
        }
    }
    counts
}
