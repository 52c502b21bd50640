//! The cost of a session to its process between calls: no CPU time while idle, and constant memory over many calls.
//! Linux reports both in /proc. `INCARNATE_IDLE_SECONDS` and `INCARNATE_CALLS` request longer runs.
#![cfg(target_os = "linux")]
#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

#[allow(dead_code, reason = "other tests use the rest")]
mod support;

use std::path::Path;
use std::time::Duration;

use support::IS_EMULATED;
use support::cases;
use support::program::Instance;

/// The limit of CPU time of other threads while no call runs.
const IDLE_TIME: Duration = Duration::from_millis(if IS_EMULATED { 20 } else { 1 });
/// The limit of the change in resident memory: pages that the allocator had not touched before.
const GROWTH: u64 = if IS_EMULATED { 4 << 20 } else { 512 << 10 };

fn asked(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

/// Returns the CPU time of all other threads of this process. If a virtual machine is paused, its host may charge the time to the running
/// thread, which is this one: one that slept for a second was charged 4 ms.
fn processor_time() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").expect("the threads");
    let this = std::fs::read_link("/proc/thread-self").expect("this thread");
    let of_thread = |thread: std::io::Result<std::fs::DirEntry>| {
        let path = thread.expect("a thread").path();
        if path.file_name() == this.file_name() {
            return 0;
        }
        let text = std::fs::read_to_string(path.join("schedstat")).expect("the times of a thread");
        text.split(' ').next().and_then(|time| time.parse::<u64>().ok()).expect("nanoseconds")
    };
    Duration::from_nanos(threads.map(of_thread).sum())
}

/// Returns the bytes of memory that this process uses.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("the process's memory");
    let pages: u64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number of pages");
    pages * page_size()
}

fn page_size() -> u64 {
    let text = std::fs::read_to_string("/proc/self/smaps").expect("the process's mappings");
    let line = text.lines().find(|line| line.starts_with("KernelPageSize:")).expect("a page size");
    line.split_whitespace().nth(1).and_then(|size| size.parse::<u64>().ok()).expect("kilobytes") << 10
}

/// A single-call model whose dispatches run in parallel.
fn instance(device: &str) -> (Instance, cases::Case) {
    let models = cases::models();
    let model = models.into_iter().find(|model| model.folder.ends_with("attention")).expect("the model");
    let case = model.cases.into_iter().find(|case| case.calls.len() == 1).expect("a case of one call");
    // Machine code, where there is some for this architecture.
    let machine_code = model.variants.iter().find(|variant| !variant.ends_with("vmvx.vmfb"));
    let variant = machine_code.or(model.variants.first()).expect("a variant");
    let files = case.modules.iter().map(AsRef::as_ref).chain([variant.as_ref() as &Path]);
    let instance = Instance::load(files, &case.machine(device)).expect("the model");
    (instance, case)
}

#[test]
fn idle_sessions_use_no_cpu_time_and_constant_memory() {
    for device in ["local-task?workers=2", "local-task?workers=4&spin_us=40"] {
        let (instance, case) = instance(device);
        let call = &case.calls[0];
        let run = |count: u64| {
            for _ in 0..count {
                instance.call(&call.function, &call.inputs).expect("results");
            }
        };
        let calls = asked("INCARNATE_CALLS", 5000);
        run(calls.min(1000));
        let before = resident();
        run(calls);
        let after = resident();
        println!("{device}: {before} bytes resident before, {after} after the calls");
        assert!(after <= before + GROWTH, "{device}: {before} bytes resident before, {after} after the calls");
        // Idle workers poll for some microseconds.
        std::thread::sleep(Duration::from_millis(200));
        let idle_time = || {
            let begin = processor_time();
            std::thread::sleep(Duration::from_secs(asked("INCARNATE_IDLE_SECONDS", 1)));
            processor_time() - begin
        };
        let idle = idle_time().min(idle_time());
        println!("{device}: {idle:?} of processor time while idle");
        assert!(idle < IDLE_TIME, "{device}: {idle:?} of processor time while idle");
    }
}
