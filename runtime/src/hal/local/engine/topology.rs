//! Cores of the host.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

/// The number of logical processors that this process may use: the standard library reads the affinity mask and the CPU quotas of
/// control groups, versions 1 and 2.
pub(super) fn logical_cores() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// The number of physical cores that this process may use: logical processors that share a core count once. It is at most
/// [`logical_cores`], which it is where the system does not list the cores.
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

/// Has the calling thread run on some logical processors and on no others, where the system allows it.
#[cfg(target_os = "linux")]
pub(super) fn bind(processors: &[usize]) {
    let mut set = rustix::thread::CpuSet::new();
    for processor in processors {
        set.set(*processor);
    }
    if let Err(error) = rustix::thread::sched_setaffinity(None, &set) {
        tracing::warn!(%error, ?processors, "worker is not bound to its core");
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn bind(_processors: &[usize]) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_cores_and_no_more_physical_than_logical_ones() {
        assert!((1..=logical_cores()).contains(&physical_cores()));
    }
}
