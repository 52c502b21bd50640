//! The memory of a process over many executions on a Vulkan device; alone in its process. `INCARNATE_VULKAN_ROUNDS=10000` measures longer.
#![cfg(feature = "vulkan")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod support;

use std::path::{Path, PathBuf};

use incarnate_runtime::hal::DriverRegistry;
use support::cases;
use support::program::{Instance, Machine};

fn modules() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("vulkan/modules")
}

#[test]
fn memory_is_flat_over_many_executions() {
    if DriverRegistry::default().driver("vulkan").unwrap().devices().is_empty() {
        println!("skipped: this machine has no Vulkan device");
        return;
    }
    let rounds = std::env::var("INCARNATE_VULKAN_ROUNDS").map_or(500, |text| text.parse().unwrap());
    let models = cases::models();
    for (file, model, case) in [("mlp.descriptor", "mlp", 0), ("dynamic.bda", "dynamic", 0)] {
        let model = models.iter().find(|row| row.folder.ends_with(model)).unwrap();
        let call = &model.cases[case].calls[0];
        // Validation layers, which keep state for each submission, are off.
        let machine = Machine::of("vulkan://?validation=0");
        let instance =
            Instance::load([modules().join(format!("{file}.vmfb")).as_path()].into_iter(), &machine).unwrap();
        let run = |count: usize| (0..count).for_each(|_| drop(instance.call(&call.function, &call.inputs).unwrap()));
        run(rounds / 5);
        let (device, resident) = (instance.allocator().statistics(), resident_bytes());
        run(rounds);
        let (after, grown) = (instance.allocator().statistics(), resident_bytes().saturating_sub(resident));
        assert_eq!((after.live, after.system_allocations), (device.live, device.system_allocations), "{file}");
        assert!(grown < 4 << 20, "{file}: {grown} bytes more after {rounds} executions");
        println!("{file}: {grown} bytes more after {rounds} executions");
    }
}

/// The memory that the process occupies, if the system tells.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|text| text.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}
