//! Cores of the host.

use std::collections::BTreeSet;
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

/// Binds the calling thread to a core: to the `worker`th that the process may run on, with one processor of each core
/// before the second of any.
#[cfg(target_os = "linux")]
pub(super) fn pin(worker: usize) {
    static ORDER: OnceLock<Vec<usize>> = OnceLock::new();
    let order = ORDER.get_or_init(|| {
        let mut seen: std::collections::BTreeMap<String, usize> = std::collections::BTreeMap::new();
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
    });
    let Some(processor) = worker.checked_rem(order.len()).and_then(|index| order.get(index)) else { return };
    let mut set = rustix::thread::CpuSet::new();
    set.set(*processor);
    if let Err(error) = rustix::thread::sched_setaffinity(None, &set) {
        tracing::warn!(%error, processor, "worker is not bound to its core");
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn pin(_worker: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_cores_and_no_more_physical_than_logical_ones() {
        assert!((1..=logical_cores()).contains(&physical_cores()));
    }
}
