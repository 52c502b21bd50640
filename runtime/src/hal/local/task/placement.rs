//! Which logical processor each worker runs on.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::topology::{self, ThreadId};

/// A processor for each worker: one that neither another worker has who is awake, nor the thread that wakes it.
///
/// Schedulers like to run a thread that is woken where the thread runs that wakes it, for the sake of caches, or in virtual
/// machines to leave the other processors to others. That thread goes on working, so that the worker would begin when
/// everything is done. Where there are more workers than processors the system decides.
#[derive(Debug)]
pub(super) struct Placement {
    places: Box<[Place]>,
    processors: &'static [usize],
    /// Places never change.
    pinned: bool,
    epoch: Instant,
}

#[derive(Debug)]
struct Place {
    thread: OnceLock<ThreadId>,
    /// [`NOWHERE`] as long as it has none.
    processor: AtomicUsize,
    /// In nanoseconds since the pool was made.
    woken: AtomicU64,
    /// Something else kept the processor busy when it was last woken.
    late: AtomicBool,
}

const NOWHERE: usize = usize::MAX;
/// A worker that takes so much longer to arrive is placed elsewhere.
const LATE: Duration = Duration::from_millis(1);

impl Placement {
    /// Places of so many workers, which never change if they are `pinned`.
    pub(super) fn new(workers: usize, pinned: bool) -> Placement {
        Placement::among(topology::processors(), workers, pinned)
    }

    fn among(processors: &'static [usize], workers: usize, pinned: bool) -> Placement {
        let place = |worker: usize| {
            let fixed = worker.checked_rem(processors.len()).and_then(|index| processors.get(index));
            Place {
                thread: OnceLock::new(),
                processor: AtomicUsize::new(fixed.copied().filter(|_| pinned).unwrap_or(NOWHERE)),
                woken: AtomicU64::new(0),
                late: AtomicBool::new(false),
            }
        };
        let places = (0..workers).map(place).collect();
        Placement { places, processors, pinned, epoch: Instant::now() }
    }

    /// To be called by a worker when it starts.
    pub(super) fn start(&self, worker: usize) {
        let Some(place) = self.places.get(worker) else { return };
        let thread = *place.thread.get_or_init(topology::current_thread);
        match place.processor.load(Ordering::Relaxed) {
            // Whoever started it may be bound to one.
            NOWHERE if self.chooses() => topology::bind(thread, self.processors),
            NOWHERE => {}
            processor => topology::bind(thread, &[processor]),
        }
    }

    /// To be called by whoever wakes or starts a worker, right before. `awake` tells it of others.
    pub(super) fn wake(&self, worker: usize, awake: impl Fn(usize) -> bool) {
        let Some(place) = self.places.get(worker).filter(|_| self.chooses()) else { return };
        place.woken.store(self.now(), Ordering::Relaxed);
        let Some(next) = self.choose(worker, topology::current_processor(), awake) else { return };
        place.processor.store(next, Ordering::Relaxed);
        if let Some(thread) = place.thread.get() {
            topology::bind(*thread, &[next]);
        }
    }

    /// To be called by a worker that was woken.
    pub(super) fn arrive(&self, worker: usize) {
        let Some(place) = self.places.get(worker).filter(|_| self.chooses()) else { return };
        let time = self.now().saturating_sub(place.woken.load(Ordering::Relaxed));
        let late = u128::from(time) > LATE.as_nanos();
        if late != place.late.load(Ordering::Relaxed) {
            place.late.store(late, Ordering::Relaxed);
        }
    }

    /// True where workers are given places when they are woken.
    fn chooses(&self) -> bool {
        !self.pinned && self.places.len() <= self.processors.len()
    }

    fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// The processor that a worker is to change to, if it is to.
    fn choose(&self, worker: usize, waking: Option<usize>, awake: impl Fn(usize) -> bool) -> Option<usize> {
        let place = self.places.get(worker)?;
        let current = place.processor.load(Ordering::Relaxed);
        let is_free = |processor: usize| {
            let others = self.places.iter().enumerate().filter(|(other, _)| *other != worker);
            Some(processor) != waking
                && others
                    .into_iter()
                    .all(|(other, place)| place.processor.load(Ordering::Relaxed) != processor || !awake(other))
        };
        if current != NOWHERE && !place.late.load(Ordering::Relaxed) && is_free(current) {
            return None;
        }
        // From the one after it on, so that one who is late goes through them all.
        let start = self.processors.iter().position(|processor| *processor == current).map_or(0, |index| index + 1);
        let (before, from) = self.processors.split_at_checked(start)?;
        from.iter().chain(before).copied().find(|processor| is_free(*processor)).filter(|next| *next != current)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Places a worker as [`Placement::wake`] does from a processor.
    fn place(placement: &Placement, worker: usize, waking: usize, awake: &[usize]) -> usize {
        let slot = &placement.places[worker].processor;
        if let Some(next) = placement.choose(worker, Some(waking), |other| awake.contains(&other)) {
            slot.store(next, Ordering::Relaxed);
        }
        slot.load(Ordering::Relaxed)
    }

    #[test]
    fn workers_have_processors_to_themselves() {
        let placement = Placement::among(&[0, 2, 1, 3], 4, false);
        assert_eq!(place(&placement, 0, 0, &[]), 2);
        assert_eq!(place(&placement, 1, 0, &[0]), 1);
        assert_eq!(place(&placement, 2, 0, &[0, 1]), 3);
        assert_eq!(place(&placement, 3, 0, &[0, 1, 2]), NOWHERE, "there is none left");
        assert_eq!(place(&placement, 3, 2, &[1, 2]), 0);
        assert_eq!(place(&placement, 0, 2, &[1, 2, 3]), 2, "as good as any other");
        assert_eq!(place(&placement, 0, 1, &[2, 3]), 2, "it stays where it was");
        assert_eq!(place(&placement, 0, 2, &[2, 3]), 1, "that of a worker who sleeps");
    }

    #[test]
    fn who_is_late_goes_elsewhere() {
        let placement = Placement::among(&[0, 1, 2], 2, false);
        let mut seen = Vec::new();
        for _ in 0..4 {
            seen.push(place(&placement, 0, 0, &[]));
            placement.places[0].late.store(true, Ordering::Relaxed);
        }
        assert_eq!(seen, [1, 2, 1, 2]);
        let two = Placement::among(&[0, 1], 2, false);
        assert_eq!(place(&two, 0, 1, &[]), 0);
        two.places[0].late.store(true, Ordering::Relaxed);
        assert_eq!(place(&two, 0, 1, &[]), 0, "there is nowhere else");
    }

    #[test]
    fn pinned_workers_have_their_processors_from_the_start() {
        let placement = Placement::among(&[4, 6], 3, true);
        let places: Vec<usize> = placement.places.iter().map(|place| place.processor.load(Ordering::Relaxed)).collect();
        assert_eq!(places, [4, 6, 4]);
    }
}
