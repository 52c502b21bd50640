//! What orders work in time: semaphores, fences, and waits for them.

pub(crate) mod fence;
pub(crate) mod reached;
pub(crate) mod semaphore;
pub(crate) mod wait;
