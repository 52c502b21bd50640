//! Where the time goes: dispatches, transfers, waits and calls of functions, by thread, while recording is on.
//!
//! [`start`] begins a recording of the whole process, and [`stop`] returns it. Off, each point that could record loads one flag.
//!
//! Without the feature `profiling`, which the crates `incarnate-runtime` and `incarnate` have too, these points are empty, and
//! [`stop`] returns a recording without events.

use std::string::String;
use std::sync::Arc;
use std::time::Duration;
use std::vec::Vec;

#[cfg(not(feature = "profiling"))]
mod absent;
#[cfg(feature = "profiling")]
mod recording;

#[cfg(not(feature = "profiling"))]
pub use absent::*;
#[cfg(feature = "profiling")]
pub use recording::*;

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    /// Workgroups of a dispatch.
    Dispatch,
    /// A fill, an update, a copy, or the reading or writing of a file.
    Transfer,
    /// A thread that is blocked until a fence is reached.
    Wait,
    /// A call of a function of a program, with all that it does on its thread.
    Host,
}

/// What loop nests do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Operations of arithmetic on what is loaded and stored: a fused multiplication and addition counts as two.
    pub operations: u64,
    /// Bytes of the elements that are loaded and stored, each once in a nest.
    pub bytes: u64,
}

/// What one thread did without a break.
#[derive(Clone, Debug)]
pub struct Event {
    /// What it is about.
    pub kind: EventKind,
    /// Name of the kernel, transfer or function.
    pub name: Arc<str>,
    /// When it began, counted from the start of the recording.
    pub start: Duration,
    /// How long it took.
    pub duration: Duration,
    /// Workgroups that were run.
    pub workgroups: u64,
    /// Bytes that were moved, or for a dispatch this part's share of what its bindings span: it touches at most as many.
    pub bytes: u64,
    /// The event is the first of its command: a dispatch that is divided among threads has several.
    pub first: bool,
    /// What the loops of a kernel did, as far as the interpreter ran them as loop nests.
    pub work: Work,
}

/// What a thread did, or a queue of a device that has a clock of its own.
#[derive(Clone, Debug)]
pub struct Track {
    /// The name of the thread or of the queue.
    pub thread: String,
    /// In the order in which they ended.
    pub events: Vec<Event>,
}

/// What was recorded.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// By thread.
    pub tracks: Vec<Track>,
    /// From start to stop.
    pub duration: Duration,
    /// Events that were not kept because a thread had more than [`EVENT_LIMIT`].
    pub dropped: u64,
}

/// The most events that are kept of a thread.
pub const EVENT_LIMIT: usize = 1 << 18;

/// What there is to be told of an event beside its time.
#[doc(hidden)]
#[derive(Debug)]
pub struct Facts<'a> {
    /// What the event is about.
    pub kind: EventKind,
    /// Name of the kernel, transfer or function.
    pub name: &'a str,
    /// Workgroups that were run.
    pub workgroups: u64,
    /// Bytes that were moved.
    pub bytes: u64,
    /// The event is the first of its command.
    pub first: bool,
}

impl<'a> Facts<'a> {
    /// Of something without workgroups and bytes.
    pub fn plain(kind: EventKind, name: &'a str) -> Facts<'a> {
        Facts { kind, name, workgroups: 0, bytes: 0, first: true }
    }
}
