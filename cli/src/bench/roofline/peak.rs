//! The greatest rates of the machine, measured once and kept in the user's cache.

use std::fs;
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use incarnate_runtime::vm::kernels::peak;
use incarnate_runtime::{Error, Result, ResultExt};
use incarnate_translator::compiler::cache_folder;
use serde::{Deserialize, Serialize};

use crate::tooling::atomic_file;

/// The greatest rates of some threads together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Peak {
    /// 10^9 operations of `f32` a second; a fused multiplication and addition is two.
    #[serde(rename = "gflops_per_second")]
    pub(super) gigaflops: f64,
    /// 10^9 bytes a second that are read from memory.
    #[serde(rename = "gigabytes_per_second")]
    pub(super) gigabytes: f64,
    /// The threads.
    pub(super) threads: usize,
}

/// How long each rate is measured. The best of several rounds counts, since other programs run, too.
const TIME: Duration = Duration::from_millis(250);
/// Bytes that are read in a round, by all threads: more than caches keep.
const BYTES: usize = 512 << 20;
/// Rounds of arithmetic between two readings of the clock: some 0.1 ms.
const ROUNDS: u64 = 20_000;

impl Peak {
    /// "1 thread", "2 threads".
    pub(super) fn of_threads(&self) -> String {
        format!("{} thread{}", self.threads, if self.threads == 1 { "" } else { "s" })
    }

    /// Measures the machine, or finds what an earlier call measured. `threads` run at once.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED where memory is short.
    pub(super) fn of_this_machine(threads: usize) -> Result<Peak> {
        let threads = threads.max(1);
        let file = file(threads);
        let known = file.as_ref().and_then(|file| serde_json::from_slice(&fs::read(file).ok()?).ok());
        if let Some(peak) = known {
            return Ok(peak);
        }
        let arithmetic = best(threads, |_| (ROUNDS, peak::multiply_and_add(ROUNDS)).1 as f64)?;
        let memory = numbers(BYTES / size_of::<u64>())?;
        let part = memory.len() / threads;
        let read = |thread: usize| {
            let part = &memory[thread * part..(thread + 1) * part];
            black_box(sum(part));
            size_of_val(part) as f64
        };
        let peak = Peak { gigaflops: arithmetic / 1e9, gigabytes: best(threads, read)? / 1e9, threads };
        // Without a cache it is measured again.
        if let Some(file) = file.filter(|file| file.parent().is_some_and(|folder| fs::create_dir_all(folder).is_ok())) {
            let text = serde_json::to_vec(&peak).map_err(|error| Error::internal(error.to_string()))?;
            let _ = atomic_file::write(&file, |temporary| fs::write(temporary, text));
        }
        Ok(peak)
    }
}

/// Where the rates of this processor are kept.
fn file(threads: usize) -> Option<PathBuf> {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split_once(':'));
    let model = model.map_or(std::env::consts::ARCH, |(_, model)| model.trim());
    let model: String = model.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    Some(cache_folder().ok()?.join("peaks").join(format!("{model}-{threads}.json")))
}

/// Memory that is written, so that every page exists.
fn numbers(count: usize) -> Result<Vec<u64>> {
    let mut numbers = Vec::new();
    numbers.try_reserve_exact(count).map_err(|_| Error::resource_exhausted("no memory for measuring its rate"))?;
    numbers.extend(0..count as u64);
    Ok(numbers)
}

/// The sum of numbers, several at a time.
fn sum(numbers: &[u64]) -> u64 {
    let (chunks, rest) = numbers.as_chunks::<32>();
    let mut sums = [0u64; 32];
    for chunk in chunks {
        for (sum, number) in sums.iter_mut().zip(chunk) {
            *sum = sum.wrapping_add(*number);
        }
    }
    sums.iter().chain(rest).fold(0, |sum, number| sum.wrapping_add(*number))
}

/// The greatest rate of all threads together, in units a second. `work` does its work on the thread of a number and returns how much it was.
fn best(threads: usize, work: impl Fn(usize) -> f64 + Sync) -> Result<f64> {
    let start = Barrier::new(threads);
    let best = |thread: usize| {
        start.wait();
        let (begin, mut best) = (Instant::now(), 0f64);
        while begin.elapsed() < TIME {
            let round = Instant::now();
            let done = work(thread);
            best = best.max(done / round.elapsed().as_secs_f64());
        }
        best
    };
    std::thread::scope(|scope| {
        let best = &best;
        let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || best(thread))).collect();
        let rates =
            threads.into_iter().map(|thread| thread.join().map_err(|_| Error::internal("a measurement failed")));
        rates.sum::<Result<f64>>().context(|| "measuring the machine")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_numbers_are_read() {
        assert_eq!(numbers(100).map(|numbers| sum(&numbers)).ok(), Some(4950));
    }
}
