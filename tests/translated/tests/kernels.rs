//! Bytecode kernels, interpreted and translated: their limits, and races between them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use incarnate::runtime::hal::DeviceOptions;
use incarnate::runtime::hal::local::engine::TaskOptions;
use incarnate::runtime::vm::{Ledger, Limits};
use incarnate::{Result, Session, SessionBuilder, StatusCode, Tensor};
use incarnate_translated_tests::kernels::{KERNELS, Kernel};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Interpreted,
    Translated,
    /// The kernel translated as untrusted.
    Untrusted,
}

const MODES: [Mode; 3] = [Mode::Interpreted, Mode::Translated, Mode::Untrusted];

fn kernel(name: &str) -> &'static Kernel {
    KERNELS.iter().find(|kernel| kernel.name == name).unwrap()
}

fn session(name: &str, mode: Mode, limits: Limits) -> Result<Session> {
    let task = TaskOptions { worker_count: Some(4), ..TaskOptions::default() };
    let builder =
        Session::builder().device("local-task").device_options(DeviceOptions { task, ..DeviceOptions::default() });
    let builder: SessionBuilder = match mode {
        Mode::Interpreted => builder.module_static(kernel(name).file),
        Mode::Translated => builder.module((kernel(name).translated)()),
        Mode::Untrusted => builder.module((kernel(name).untrusted)()),
    };
    builder.limits(limits).build()
}

/// Runs a kernel's 64 workgroups, and returns the contents of the binding.
fn run(name: &str, mode: Mode, limits: Limits) -> Result<Vec<i32>> {
    let output: Tensor<i32> = session(name, mode, limits)?.function("run")?.call(())?;
    output.to_vec()
}

#[test]
fn kernels_have_the_limits_of_trusted_programs() {
    for mode in MODES {
        assert_eq!(run("deep", mode, Limits::default()).unwrap()[0], 1000, "{mode:?}");
        assert!((0..64).contains(&run("hoard", mode, Limits::default()).unwrap()[0]), "{mode:?}");
    }
}

/// A kernel has nothing to wait for: one that yields ends the execution with an error.
#[test]
fn kernels_that_yield_are_refused() {
    for mode in MODES {
        let error = run("pause", mode, Limits::default()).unwrap_err();
        assert!(error.to_string().contains("kernel yields, but kernels cannot wait"), "{mode:?}: {error}");
    }
}

#[test]
fn command_buffers_are_executed_with_empty_binding_tables() {
    for mode in MODES {
        let session = session("deep", mode, Limits::default()).unwrap();
        let status: i32 = session.function("run_without_bindings").unwrap().call(()).unwrap();
        assert_eq!(status, 0, "{mode:?}");
    }
}

/// The limits of kernels are those of the session.
#[test]
fn kernels_keep_within_the_limits_of_their_session() {
    let memory = || Limits { ledger: Ledger::new(1 << 20, u64::MAX), ..Limits::default() };
    let calls = || Limits { call_depth: 100, ..Limits::default() };
    let fuel = || Limits { fuel: Some(100_000), ..Limits::default() };
    for mode in MODES {
        let failed = |name: &str, limits: Limits, message: &str| {
            let error = run(name, mode, limits).unwrap_err();
            assert_eq!(error.code(), StatusCode::ResourceExhausted, "{mode:?}: {error}");
            assert!(error.to_string().contains(message), "{mode:?}: {error}");
        };
        failed("hoard", memory(), "4194304 more bytes exceed the limit of 1048576");
        failed("deep", calls(), "more than 100 nested calls");
        // Trusted code counts no iterations.
        if mode != Mode::Translated {
            failed("spin", fuel(), "fuel of the call is used up");
        }
        // Memory is returned; the 64 workgroups share the fuel of the call.
        let limits = Limits { ledger: Ledger::new(16 << 20, u64::MAX), fuel: Some(2_000_000), ..Limits::default() };
        match run("race", mode, limits.clone()) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.code(), StatusCode::OutOfRange, "{mode:?}: {error}"),
        }
        assert_eq!(limits.ledger.bytes(), 0, "{mode:?}");
        // Fewer steps than all workgroups need together, and more than one needs.
        if mode != Mode::Translated {
            let error = run("race", mode, Limits { fuel: Some(20_000), ..Limits::default() }).unwrap_err();
            assert!(
                matches!(error.code(), StatusCode::ResourceExhausted | StatusCode::OutOfRange),
                "{mode:?}: {error}"
            );
        }
    }
}

/// Workgroups on four threads write the same elements, and use the elements that others wrote as indices. Every element
/// ends with a value from some order of the reads and writes, or a run fails with an index that is out of range.
#[test]
fn workgroups_race_without_harm() {
    const GREATEST: i32 = 63 + 64 * 64;
    for mode in MODES {
        let (mut ended, mut failed) = (0, 0);
        for _ in 0..if mode == Mode::Interpreted { 5 } else { 40 } {
            match run("race", mode, Limits::default()) {
                Ok(elements) => {
                    assert!(elements.iter().all(|element| (0..=GREATEST).contains(element)), "{mode:?}: {elements:?}");
                    ended += 1;
                }
                Err(error) => {
                    assert_eq!(error.code(), StatusCode::OutOfRange, "{mode:?}: {error}");
                    failed += 1;
                }
            }
        }
        assert!(ended + failed >= 5, "{mode:?}");
        println!("{mode:?}: {ended} ended, {failed} had an index out of range");
    }
}
