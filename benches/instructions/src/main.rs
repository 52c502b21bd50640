//! Counts the instructions of frequent operations with callgrind, and compares them with `counts.txt`.
//!
//! Each operation runs in a process of its own, so that no count depends on the operations before it. The process prepares the operation,
//! runs it some times, and then once more in `measured_operation`, which is all that callgrind counts.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a measurement that cannot begin has no caller to tell")]
#![allow(unsafe_code, reason = "kernels take addresses; callgrind finds a function by its name")]

mod counts;
mod device;
mod kernels;
mod models;
mod operations;

use std::process::ExitCode;

/// An operation, ready to run.
type Operation = Box<dyn FnMut()>;

/// Runs an operation once. callgrind collects between entry and exit of this name.
#[inline(never)]
#[unsafe(no_mangle)]
pub extern "C" fn measured_operation(operation: &mut Operation) {
    operation();
}

/// Runs before the measurement: caches are filled, layouts of constants are kept from the second call on, and recordings from the third.
const WARM_UPS: usize = 40;

/// Runs an operation by name, for callgrind.
fn run(name: &str) -> ExitCode {
    let Some((_, prepare, warm_ups)) = operations::ALL.iter().find(|row| row.0 == name) else {
        eprintln!("no operation '{name}'");
        return ExitCode::from(2);
    };
    // valgrind 3.19 shows programs the same processor on all machines with AVX2. Elsewhere other kernels would run.
    #[cfg(target_arch = "x86_64")]
    if !std::arch::is_x86_feature_detected!("avx2") || std::arch::is_x86_feature_detected!("avx512f") {
        eprintln!("counts are those of x86-64-v3, and valgrind shows another level");
        return ExitCode::FAILURE;
    }
    let mut operation = prepare();
    for _ in 0..*warm_ups {
        operation();
    }
    measured_operation(&mut operation);
    ExitCode::SUCCESS
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["run", name] => run(name),
        ["check"] => counts::check(false),
        ["update"] => counts::check(true),
        ["list"] => {
            operations::ALL.iter().for_each(|row| println!("{}", row.0));
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("usage: check | update | list | run NAME");
            ExitCode::from(2)
        }
    }
}
