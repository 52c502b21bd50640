//! Where the time goes: dispatches, transfers, waits and calls of functions, by thread, while recording is on.
//!
//! Nothing is recorded until `start` is called; until then each place that could record loads one flag. Recording is of the whole
//! process. Without the feature `profiling` nothing can be recorded, and these places are empty.

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
