//! Cores of the host.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

/// Logical processors that this process may run on, as the system and its containers bound them.
pub(super) fn logical_cores() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Physical cores that this process may run on: logical processors that share a core count once. Where the system does not
/// tell, all logical ones.
pub(super) fn physical_cores() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| {
        let cores: BTreeSet<String> = allowed().into_iter().filter_map(siblings).collect();
        if cores.is_empty() { logical_cores() } else { cores.len().min(logical_cores()) }
    })
}

/// The logical processors that share a core with one, as Linux lists them.
fn siblings(processor: usize) -> Option<String> {
    let path = format!("/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list");
    std::fs::read_to_string(path).ok()
}

/// Numbers of the logical processors that this process may run on; none where the system does not tell.
#[cfg(target_os = "linux")]
fn allowed() -> Vec<usize> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else { return Vec::new() };
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|processor| set.is_set(*processor)).collect()
}

#[cfg(not(target_os = "linux"))]
fn allowed() -> Vec<usize> {
    Vec::new()
}

/// The logical processors that this process may run on, one of each core before the second of any.
pub(super) fn processors() -> &'static [usize] {
    static ORDER: OnceLock<Vec<usize>> = OnceLock::new();
    ORDER.get_or_init(|| {
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        let mut ranked: Vec<(usize, usize)> = allowed()
            .into_iter()
            .map(|processor| {
                let rank = seen.entry(siblings(processor).unwrap_or_else(|| processor.to_string())).or_default();
                *rank += 1;
                (*rank, processor)
            })
            .collect();
        ranked.sort_unstable();
        ranked.into_iter().map(|(_, processor)| processor).collect()
    })
}

/// The logical processor that the calling thread runs on.
#[cfg(target_os = "linux")]
pub(super) fn current_processor() -> Option<usize> {
    Some(rustix::thread::sched_getcpu())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn current_processor() -> Option<usize> {
    None
}

/// A thread, for [`bind`].
#[cfg(target_os = "linux")]
pub(super) type ThreadId = rustix::thread::Pid;
#[cfg(not(target_os = "linux"))]
pub(super) type ThreadId = ();

/// The calling thread.
#[cfg(target_os = "linux")]
pub(super) fn current_thread() -> ThreadId {
    rustix::thread::gettid()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn current_thread() {}

/// Has a thread run on some logical processors and on no others, where the system allows it.
#[cfg(target_os = "linux")]
pub(super) fn bind(thread: ThreadId, processors: &[usize]) {
    let mut set = rustix::thread::CpuSet::new();
    for processor in processors {
        set.set(*processor);
    }
    if let Err(error) = rustix::thread::sched_setaffinity(Some(thread), &set) {
        tracing::warn!(%error, ?processors, "worker is not bound to its core");
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn bind(_thread: ThreadId, _processors: &[usize]) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_cores_and_no_more_physical_than_logical_ones() {
        assert!((1..=logical_cores()).contains(&physical_cores()));
    }
}
