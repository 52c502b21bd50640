//! Devices in containers: `local-task` uses as many threads as the affinity mask and the CPU quota of the control group allow.
//!
//! A child of this process runs in a mount namespace where the files of a control group say its quota, or with an affinity mask.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

#[allow(dead_code, reason = "other tests use the rest")]
mod support;

use std::path::Path;
use std::process::{Command, Output};

use incarnate_runtime::hal::{DeviceOptions, DriverRegistry};
use support::cases;
use support::program::Instance;

/// The name of the test that a child runs.
const CHILD: &str = "child";

/// Programs that run what follows in namespaces where they may mount; the first one needs privileges, the second one the right to
/// create user namespaces.
const NAMESPACES: [&[&str]; 2] =
    [&["unshare", "--mount", "--propagation=private"], &["unshare", "--map-root-user", "--mount"]];

/// Puts the process into the control group `/a/b`, whose files it reads from `$2`, by the line `$1` of `/proc/self/cgroup`.
const ENTER: &str = r#"
set -e
mount -t tmpfs none /sys/fs/cgroup
mkdir -p "/sys/fs/cgroup/$2/a/b"
echo "$1" >/sys/fs/cgroup/line
mount --bind /sys/fs/cgroup/line "/proc/$$/cgroup"
cd "/sys/fs/cgroup/$2"
eval "$3"
shift 3
exec "$@"
"#;

/// Returns the number of threads of this process.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("the threads").count()
}

/// Prints the concurrency of `local-task`, and how many threads it started for calls whose dispatches run in parallel.
#[test]
#[ignore = "the other tests of this file run it in child processes"]
fn child() {
    let device = DriverRegistry::default().create_device("local-task", DeviceOptions::default()).expect("the device");
    let before = threads();
    let model = cases::models().into_iter().find(|model| model.folder.ends_with("attention")).expect("the model");
    let case = model.cases.iter().find(|case| case.calls.len() == 1).expect("a case of one call");
    let files = case.modules.iter().map(AsRef::as_ref).chain([model.variants[0].as_ref() as &Path]);
    let instance = Instance::load(files, &case.machine("local-task")).expect("the model");
    for _ in 0..200 {
        instance.call(&case.calls[0].function, &case.calls[0].inputs).expect("results");
    }
    println!("concurrency {}, started {}", device.concurrency(), threads() - before);
}

/// Returns a command that runs a child of this process by another program, which takes it as its last arguments.
fn by(program: &[&str]) -> Command {
    let mut command = Command::new(program[0]);
    command.args(&program[1..]).arg(std::env::current_exe().expect("this program"));
    command.args(["--exact", CHILD, "--ignored", "--nocapture"]);
    command
}

/// Panics unless a child may use one processor and started at most one worker, which works while the caller waits.
fn assert_one_processor(output: &Output) {
    let printed = String::from_utf8_lossy(&output.stdout);
    let is_one = ["concurrency 1, started 0", "concurrency 1, started 1"].iter().any(|line| printed.contains(line));
    assert!(output.status.success() && is_one, "{output:?}");
}

#[test]
fn the_affinity_mask_bounds_the_workers() {
    let status = std::fs::read_to_string("/proc/self/status").expect("the status");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("the mask").trim();
    let first = list.split([',', '-']).next().expect("a processor");
    assert_one_processor(&by(&["taskset", "--cpu-list", first]).output().expect("taskset"));
}

/// Runs a child in a control group whose quota is one processor, set by a command for the shell.
fn check_quota(line: &str, folder: &str, set: &str) {
    let may_mount = |namespace: &&&[&str]| {
        let mount = ["mount", "-t", "tmpfs", "none", "/sys/fs/cgroup"];
        let tried = Command::new(namespace[0]).args(&namespace[1..]).args(mount).output();
        tried.is_ok_and(|output| output.status.success())
    };
    let Some(namespace) = NAMESPACES.iter().find(may_mount) else {
        println!("not run: this system permits no mount namespaces");
        return;
    };
    let enter = [namespace, ["sh", "-c", ENTER, "sh", line, folder, set].as_slice()].concat();
    assert_one_processor(&by(&enter).output().expect("unshare"));
}

#[test]
fn quotas_of_control_groups_of_version_1_bound_the_workers() {
    let set = "echo 100000 >a/b/cpu.cfs_quota_us; echo 100000 >a/b/cpu.cfs_period_us";
    check_quota("3:cpu,cpuacct:/a/b", "cpu,cpuacct", set);
}

/// The quota is that of the group above.
#[test]
fn quotas_of_control_groups_of_version_2_bound_the_workers() {
    let set =
        "touch cgroup.controllers a/b/cgroup.controllers; echo 150000 100000 >a/cpu.max; echo max 100000 >a/b/cpu.max";
    check_quota("0::/a/b", ".", set);
}
