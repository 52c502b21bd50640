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
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.and_then(|list| numbers(list.trim())).unwrap_or_default()
}

/// The numbers of a list as Linux writes it: `0-3,8`. None where it is no such list.
#[cfg(target_os = "linux")]
fn numbers(list: &str) -> Option<Vec<usize>> {
    let mut numbers = Vec::new();
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        numbers.extend(first.parse::<usize>().ok()?..=last.parse().ok()?);
    }
    Some(numbers)
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
#[allow(unsafe_code, reason = "the standard library has no call for this")]
pub(super) fn bind(processors: &[usize]) {
    // SAFETY: the type is an array of integers, for which zeros are valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    let limit = 8 * std::mem::size_of_val(&set);
    for processor in processors.iter().filter(|processor| **processor < limit) {
        // SAFETY: the number is less than that of the set's bits, which was just checked.
        unsafe { libc::CPU_SET(*processor, &mut set) };
    }
    // SAFETY: the set is alive, and the size is its own; 0 is the calling thread.
    if unsafe { libc::sched_setaffinity(0, std::mem::size_of_val(&set), &set) } != 0 {
        let error = std::io::Error::last_os_error();
        tracing::warn!(%error, ?processors, "worker is not bound to its core");
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn bind(_processors: &[usize]) {}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn there_are_cores_and_no_more_physical_than_logical_ones() {
        assert!((1..=logical_cores()).contains(&physical_cores()));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn lists_of_processors_are_read() {
        assert_eq!(numbers("0-2,5,7-8"), Some(vec![0, 1, 2, 5, 7, 8]));
        assert_eq!(numbers("3"), Some(vec![3]));
        assert_eq!(numbers(""), None);
        assert!(!allowed().is_empty());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_bound_thread_may_use_no_other_processor() {
        let bound = std::thread::spawn(|| {
            let one = allowed()[..1].to_vec();
            bind(&one);
            (allowed(), one)
        });
        let (found, expected) = bound.join().unwrap();
        assert_eq!(found, expected);
    }
}
