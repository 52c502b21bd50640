//! The stages of one execution, whose chunks participants claim.
//!
//! One word holds how many chunks of the stage are unfinished (upper half) and how many are unclaimed (lower half). A
//! participant claims a chunk by a compare-and-exchange that takes one from the lower half, learns from the shares which one it is (`shares`), and
//! finishes its chunks by taking their number from the upper half. The participant that brings the upper half to zero finished the stage: it alone may
//! change the data, and it publishes the next stage by one release store of the word.
//!
//! `docs/engine.md` has the argument why this is sound; `model` checks it.
#![allow(unsafe_code, reason = "the data is shared by participants that hold a claim; see docs/engine.md")]

use core::fmt;
use core::ops::Range;

use super::padded::Padded;
use super::shares::Shares;
use crate::hal::atomic::{AtomicU64, Ordering, SharedCell};
use crate::unwinding::without_unwinding;
use crate::{Error, Result};

/// What a participant does with the data of an execution.
pub(super) trait Participant<T> {
    /// Runs chunks of the present stage: at least the one that is claimed already.
    fn run(&mut self, data: &T, chunks: &mut Chunks<'_>) -> Result<()>;

    /// The share of the chunks that the participant takes from first; see [`Shares::take`]. It does not panic.
    fn share(&self) -> usize;

    /// Takes note of an error of [`Participant::run`] or [`Participant::advance`]. The unclaimed chunks of the stage
    /// are dropped.
    fn fail(&mut self, error: Error);

    /// Prepares the next stage, after every chunk of the present one is finished, divides its chunks among the shares, and returns their
    /// number: zero ends the execution.
    fn advance(&mut self, data: &mut T, shares: &mut Shares) -> Result<u32>;
}

/// The outcome of [`Stages::step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Every chunk of the stage is claimed, or the execution has ended.
    Nothing,
    /// The participant finished chunks.
    Ran,
    /// The participant finished the last chunk of the last stage.
    Ended,
}

/// The present stage of an execution.
pub(super) struct Stages<T> {
    progress: Padded<AtomicU64>,
    contents: SharedCell<Contents<T>>,
}

struct Contents<T> {
    /// The chunks of the stage.
    shares: Shares,
    data: T,
}

// SAFETY: `Stages::step` returns shared references to the data only while a chunk is claimed and not finished, and an exclusive
// one only to the participant that finished the last chunk, before it publishes new ones.
unsafe impl<T: Send + Sync> Sync for Stages<T> {}
// SAFETY: the data is owned.
unsafe impl<T: Send> Send for Stages<T> {}

/// The upper half of the word for so many unfinished chunks.
const fn unfinished(chunks: u32) -> u64 {
    (chunks as u64) << 32
}

/// The number of unclaimed chunks of a word.
#[expect(clippy::cast_possible_truncation, reason = "the lower half")]
const fn unclaimed(word: u64) -> u32 {
    word as u32
}

impl<T> Stages<T> {
    /// Stages of an execution that has ended, whose chunks have so many shares.
    pub(super) fn new(data: T, shares: usize) -> Stages<T> {
        let contents = Contents { shares: Shares::new(shares), data };
        Stages { progress: Padded(AtomicU64::new(0)), contents: SharedCell::new(contents) }
    }

    /// Sets the data up by `set`, and a first stage of so many chunks, at least 1.
    pub(super) fn reset(&mut self, chunks: u32, set: impl FnOnce(&mut T)) {
        self.contents.with_mut(|contents| {
            // SAFETY: the borrow of `self` is exclusive.
            let contents = unsafe { &mut *contents };
            set(&mut contents.data);
            contents.shares.divide(chunks);
        });
        self.progress.store(unfinished(chunks) | u64::from(chunks), Ordering::Release);
    }

    /// True where a chunk is unclaimed.
    #[inline]
    pub(super) fn is_claimable(&self) -> bool {
        unclaimed(self.progress.load(Ordering::Relaxed)) != 0
    }

    /// Claims chunks and has the participant run them. Advances to the next stage where the participant finishes the last chunk.
    pub(super) fn step(&self, participant: &mut impl Participant<T>) -> Step {
        let share = participant.share();
        if !claim(&self.progress) {
            return Step::Nothing;
        }
        let claimed = self.contents.with(|contents| {
            // SAFETY: this thread holds a claimed chunk that is not finished, so no thread has an exclusive reference. The
            // claim acquired the store that published the chunk, and with it the contents.
            let Contents { shares, data } = unsafe { &*contents };
            let mut chunks = Chunks { progress: &self.progress, shares, share, claimed: 1, taken: 0, current: None };
            chunks.take();
            let result = without_unwinding(|| participant.run(data, &mut chunks));
            let result = result.and_then(|()| match (chunks.taken == chunks.claimed, chunks.current) {
                (false, _) => Err(Error::internal("claimed chunk is in no share")),
                (true, Some(_)) => Err(Error::internal("participant left a claimed chunk")),
                (true, None) => Ok(()),
            });
            if let Err(error) = result {
                participant.fail(error);
                chunks.claim_all();
            }
            chunks.claimed
        });
        // Releases what this thread wrote, and acquires what the others did where this is the last one.
        let before = self.progress.fetch_sub(unfinished(claimed), Ordering::AcqRel);
        if before >> 32 != u64::from(claimed) {
            return Step::Ran;
        }
        let count = self.contents.with_mut(|contents| {
            // SAFETY: no chunk of the stage is unclaimed or unfinished, so no other thread has a reference to the contents,
            // and none gets one before the store below. Only one thread brings the number of unfinished chunks to zero.
            let Contents { shares, data } = unsafe { &mut *contents };
            without_unwinding(|| participant.advance(data, shares)).unwrap_or_else(|error| {
                participant.fail(error);
                0
            })
        });
        if count == 0 {
            return Step::Ended;
        }
        self.progress.store(unfinished(count) | u64::from(count), Ordering::Release);
        Step::Ran
    }
}

/// Claims a chunk, if one is unclaimed.
#[inline]
fn claim(progress: &AtomicU64) -> bool {
    let mut word = progress.load(Ordering::Relaxed);
    while unclaimed(word) != 0 {
        match progress.compare_exchange_weak(word, word - 1, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(other) => word = other,
        }
    }
    false
}

/// The chunks of a stage that one participant claims. As long as it has not finished them, the stage stays the same.
#[derive(Debug)]
pub(super) struct Chunks<'a> {
    progress: &'a AtomicU64,
    shares: &'a Shares,
    /// The share that the participant takes from first.
    share: usize,
    /// Number of chunks that the participant has claimed.
    claimed: u32,
    /// Number of those that it has taken from shares.
    taken: u32,
    /// The chunk that is claimed and not run yet.
    current: Option<u32>,
}

impl Chunks<'_> {
    /// Returns the chunk to be run next, which is claimed.
    pub(super) fn peek(&mut self) -> Option<u32> {
        if self.current.is_none() && claim(self.progress) {
            self.claimed += 1;
            self.take();
        }
        self.current
    }

    /// Takes the chunk that was claimed from the shares.
    fn take(&mut self) {
        self.current = self.shares.take(self.share);
        self.taken += u32::from(self.current.is_some());
    }

    /// Calls `run` for the next chunk and every further one that can be claimed, as long as they are of `range`.
    pub(super) fn run_in(&mut self, range: &Range<u32>, mut run: impl FnMut(u32) -> Result<()>) -> Result<()> {
        while let Some(chunk) = self.peek().filter(|chunk| range.contains(chunk)) {
            self.current = None;
            run(chunk)?;
        }
        Ok(())
    }

    /// Claims what is unclaimed, not to be run.
    fn claim_all(&mut self) {
        let mut word = self.progress.load(Ordering::Relaxed);
        while unclaimed(word) != 0 {
            let left = unclaimed(word);
            let taken = word - u64::from(left);
            match self.progress.compare_exchange_weak(word, taken, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    self.claimed += left;
                    return;
                }
                Err(other) => word = other,
            }
        }
    }
}

impl<T> fmt::Debug for Stages<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stages({:#x})", self.progress.load(Ordering::Relaxed))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;

    /// Stages of so many chunks each, of which every chunk that runs is noted.
    #[derive(Default)]
    struct Notes {
        stages: Vec<u32>,
        ran: Vec<(usize, u32)>,
        failures: u32,
        run: Option<fn(&mut Chunks<'_>) -> Result<()>>,
    }

    impl Participant<usize> for Notes {
        fn run(&mut self, stage: &usize, chunks: &mut Chunks<'_>) -> Result<()> {
            if let (Some(run), 1..) = (self.run, *stage) {
                return run(chunks);
            }
            while let Some(first) = chunks.peek() {
                // Up to the next multiple of three, as if those were of one node.
                let start = first / 3 * 3;
                let of_node = start..start + 3;
                chunks.run_in(&of_node, |chunk| {
                    assert!(of_node.contains(&chunk));
                    self.ran.push((*stage, chunk));
                    Ok(())
                })?;
            }
            Ok(())
        }

        fn share(&self) -> usize {
            0
        }

        fn fail(&mut self, _: Error) {
            self.failures += 1;
        }

        fn advance(&mut self, stage: &mut usize, shares: &mut Shares) -> Result<u32> {
            *stage += 1;
            let chunks = self.stages.get(*stage - 1).copied().filter(|_| self.failures == 0).unwrap_or(0);
            Ok(shares.divide(chunks))
        }
    }

    fn run(notes: &mut Notes) -> u32 {
        let mut stages = Stages::new(0, 2);
        stages.reset(1, |stage| *stage = 0);
        assert!(stages.is_claimable());
        let mut steps = 0;
        loop {
            steps += 1;
            match stages.step(notes) {
                Step::Ended => break,
                Step::Ran => {}
                Step::Nothing => unreachable!("one participant leaves nothing unfinished"),
            }
        }
        assert!(!stages.is_claimable());
        assert_eq!(stages.step(notes), Step::Nothing);
        steps
    }

    #[test]
    fn one_participant_runs_all_chunks() {
        let mut notes = Notes { stages: vec![1, 7, 2], ..Notes::default() };
        assert_eq!(run(&mut notes), 4);
        // The second share from its end.
        let expected: [(usize, &[u32]); 4] = [(0, &[0]), (1, &[0]), (2, &[0, 1, 2, 6, 5, 4, 3]), (3, &[0, 1])];
        let expected = expected.into_iter().flat_map(|(stage, chunks)| chunks.iter().map(move |chunk| (stage, *chunk)));
        assert_eq!(notes.ran, expected.collect::<Vec<_>>());
    }

    #[test]
    fn what_a_participant_does_not_run_is_a_failure() {
        let runs: [fn(&mut Chunks<'_>) -> Result<()>; 4] = [
            |_| Ok(()),
            |chunks| chunks.run_in(&(0..0), |_| Ok(())),
            |chunks| chunks.run_in(&(0..9), |chunk| if chunk == 1 { Err(Error::data_loss("as told")) } else { Ok(()) }),
            // Without the message that a panic prints.
            |chunks| chunks.run_in(&(0..9), |_| std::panic::resume_unwind(Box::new("as told"))),
        ];
        for body in runs {
            let mut notes = Notes { stages: vec![3, 2], run: Some(body), ..Notes::default() };
            assert_eq!(run(&mut notes), 2);
            assert_eq!(notes.failures, 1);
        }
    }
}
