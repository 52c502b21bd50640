//! The recording of events.

use std::cell::{Cell, RefCell};
use std::string::String;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::Instant;
use std::vec::Vec;

use super::{EVENT_LIMIT, Event, EventKind, Facts, Recording, Track, Work};

static ON: AtomicBool = AtomicBool::new(false);
/// Which recording is the present one, so that threads begin anew with each.
static GENERATION: AtomicU64 = AtomicU64::new(0);
static STATE: Mutex<Option<State>> = Mutex::new(None);

struct State {
    epoch: Instant,
    tracks: Vec<Arc<Mutex<OpenTrack>>>,
}

struct OpenTrack {
    thread: String,
    /// It is named after a queue of a device and belongs to no thread.
    is_of_device: bool,
    events: Vec<Event>,
    dropped: u64,
}

struct Local {
    generation: u64,
    epoch: Instant,
    track: Arc<Mutex<OpenTrack>>,
}

std::thread_local! {
    static LOCAL: RefCell<Option<Local>> = const { RefCell::new(None) };
    /// Work that belongs to the dispatch under way.
    static WORK: Cell<Work> = const { Cell::new(Work { operations: 0, bytes: 0 }) };
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins a recording and forgets the one before.
pub fn start() {
    *lock(&STATE) = Some(State { epoch: Instant::now(), tracks: Vec::new() });
    GENERATION.fetch_add(1, Ordering::AcqRel);
    ON.store(true, Ordering::Release);
}

/// Ends the recording. What is under way meanwhile may be missing.
#[must_use]
pub fn stop() -> Recording {
    ON.store(false, Ordering::Release);
    let Some(state) = lock(&STATE).take() else { return Recording::default() };
    let mut recording = Recording { duration: state.epoch.elapsed(), ..Recording::default() };
    for track in state.tracks {
        let mut track = lock(&track);
        recording.dropped += track.dropped;
        recording.tracks.push(Track { thread: track.thread.clone(), events: core::mem::take(&mut track.events) });
    }
    recording.tracks.sort_by(|a, b| a.thread.cmp(&b.thread));
    recording
}

/// True while recording.
#[inline]
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// The present time if something is recorded, for [`record`].
#[inline]
#[doc(hidden)]
pub fn now() -> Option<Instant> {
    is_on().then(Instant::now)
}

/// Adds work to the dispatch that this thread is running.
#[doc(hidden)]
#[cold]
pub fn add_work(more: Work) {
    let add = |work: &Cell<Work>| {
        let Work { operations, bytes } = work.get();
        work.set(Work {
            operations: operations.saturating_add(more.operations),
            bytes: bytes.saturating_add(more.bytes),
        });
    };
    let _ = WORK.try_with(add);
}

/// Records what this thread has done since `start`.
#[doc(hidden)]
#[cold]
pub fn record(start: Instant, facts: &Facts<'_>) {
    let duration = start.elapsed();
    let work = match facts.kind {
        EventKind::Dispatch => WORK.try_with(Cell::take).unwrap_or_default(),
        _ => Work::default(),
    };
    // A thread that is ending records no more.
    let _ = LOCAL.try_with(|local| {
        let mut local = local.borrow_mut();
        let generation = GENERATION.load(Ordering::Acquire);
        if local.as_ref().is_none_or(|local| local.generation != generation) {
            *local = join(generation);
        }
        let Some(local) = &*local else { return };
        let start = start.saturating_duration_since(local.epoch);
        lock(&local.track).push(start, duration, work, facts);
    });
}

/// Records what a device has done, on a track of its own. Each event has its start and its duration.
#[doc(hidden)]
#[cold]
pub fn record_device<'a>(track: &str, events: impl Iterator<Item = (Instant, Duration, Facts<'a>)>) {
    let mut state = lock(&STATE);
    let Some(state) = state.as_mut() else { return };
    let epoch = state.epoch;
    let known = state.tracks.iter().find(|known| lock(known).is_named(track)).map(Arc::clone);
    let track = known.unwrap_or_else(|| {
        let track = OpenTrack { thread: track.into(), is_of_device: true, events: Vec::new(), dropped: 0 };
        let track = Arc::new(Mutex::new(track));
        state.tracks.push(Arc::clone(&track));
        track
    });
    let mut track = lock(&track);
    for (start, duration, facts) in events {
        track.push(start.saturating_duration_since(epoch), duration, Work::default(), &facts);
    }
}

impl OpenTrack {
    fn is_named(&self, device: &str) -> bool {
        self.is_of_device && self.thread == device
    }

    fn push(&mut self, start: Duration, duration: Duration, work: Work, facts: &Facts<'_>) {
        if self.events.len() >= EVENT_LIMIT {
            self.dropped += 1;
            return;
        }
        let Facts { kind, name, workgroups, bytes, first } = *facts;
        // Kernels repeat, and share their name with one of the last events.
        let known = self.events.iter().rev().take(64).find(|event| &*event.name == name);
        let name = known.map_or_else(|| Arc::from(name), |event| Arc::clone(&event.name));
        self.events.push(Event { kind, name, start, duration, workgroups, bytes, first, work });
    }
}

/// Adds this thread to the recording.
fn join(generation: u64) -> Option<Local> {
    let mut state = lock(&STATE);
    let state = state.as_mut()?;
    let number = state.tracks.len();
    let thread = std::thread::current().name().map_or_else(|| std::format!("thread {number}"), String::from);
    let track = Arc::new(Mutex::new(OpenTrack { thread, is_of_device: false, events: Vec::new(), dropped: 0 }));
    state.tracks.push(Arc::clone(&track));
    Some(Local { generation, epoch: state.epoch, track })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_kept_by_thread_while_recording() {
        assert!(now().is_none());
        start();
        let begin = now().unwrap_or_else(Instant::now);
        let facts = Facts { workgroups: 3, bytes: 40, ..Facts::plain(EventKind::Dispatch, "profiled kernel") };
        add_work(Work { operations: 1, bytes: 2 });
        add_work(Work { operations: 10, bytes: 20 });
        record(begin, &facts);
        std::thread::scope(|scope| {
            let body = || record(begin, &Facts::plain(EventKind::Wait, "profiled wait"));
            let _ = std::thread::Builder::new().name("profiled".into()).spawn_scoped(scope, body);
        });
        for duration in [5, 7] {
            let facts = Facts::plain(EventKind::Dispatch, "profiled dispatch");
            record_device("profiled queue", [(begin, Duration::from_nanos(duration), facts)].into_iter());
        }
        let recording = stop();
        // Other tests of this process may have been recorded, too.
        let find = |name: &str| {
            let found = |track: &Track| track.events.iter().find(|event| &*event.name == name).cloned();
            recording.tracks.iter().find_map(|track| Some((track.thread.clone(), found(track)?)))
        };
        let (_, kernel) = find("profiled kernel").unwrap_or_else(|| unreachable!());
        assert_eq!((kernel.workgroups, kernel.bytes, kernel.first), (3, 40, true));
        assert_eq!(kernel.work, Work { operations: 11, bytes: 22 });
        assert!(kernel.start + kernel.duration <= recording.duration);
        assert_eq!(find("profiled wait").map(|(thread, _)| thread).as_deref(), Some("profiled"));
        let on_device = recording.tracks.iter().filter(|track| track.thread == "profiled queue");
        let events: Vec<_> = on_device.flat_map(|track| &track.events).collect();
        assert_eq!(events.iter().map(|event| event.duration.as_nanos()).collect::<Vec<_>>(), [5, 7]);
        assert!(stop().tracks.is_empty());
    }
}
