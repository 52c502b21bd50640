//! Sessions as a service would build them for anyone's modules: VMVX executables alone, and limits for everything.

use std::sync::Arc;
use std::time::Duration;

use incarnate_runtime::Result;
use incarnate_runtime::bytecode::{Contents, VerifiedModule};
use incarnate_runtime::hal::DeviceOptions;
use incarnate_runtime::hal::local::engine::TaskOptions;
use incarnate_runtime::hal::local::vmvx;
use incarnate_runtime::modules::{TraceSink, check};
use incarnate_runtime::parameters::{ParameterEntry, ParameterIndex, ScopedIndex, Splat};
use incarnate_runtime::session::Session;
use incarnate_runtime::vm::{BytecodeModule, Ledger, Limits, Module};

/// Bytes that the program of a case may hold.
pub const BYTES: u64 = 64 << 20;
/// Objects that the program of a case may hold.
pub const OBJECTS: u64 = 10_000;
/// Steps of a call.
pub const FUEL: u64 = 200_000;
/// The devices that cases run on.
pub const DEVICES: [&str; 2] = ["local-sync", "local-task"];
/// The scope and the key of the one parameter that programs can load.
pub const PARAMETER: (&str, &str) = ("s", "a");
/// Bytes of the parameter.
pub const PARAMETER_BYTES: u64 = 4096;

/// Returns the limits of a case; each call of this function creates a ledger.
pub fn limits(timeout: Duration) -> Limits {
    let ledger = Ledger::new(BYTES, OBJECTS);
    Limits { ledger, fuel: Some(FUEL), timeout: Some(timeout), call_depth: 1000, ..Limits::default() }
}

/// Creates the interpreted module of a file's bytes.
///
/// # Errors
/// Errors of the verifier.
pub fn interpreted(module: &[u8]) -> Result<Arc<dyn Module>> {
    Ok(BytecodeModule::new(VerifiedModule::load(Arc::new(Contents::copy_from(module)))?)?)
}

/// Builds the session of a module with all native modules that it imports.
///
/// # Errors
/// Errors of linking and of the module's initialiser.
pub fn build(module: Arc<dyn Module>, device: &str, limits: Limits) -> Result<Session> {
    let mut index = ParameterIndex::new();
    index.add(ParameterEntry::splat(PARAMETER.1, Splat::new(&[1], PARAMETER_BYTES)?))?;
    let options = DeviceOptions {
        task: TaskOptions { worker_count: Some(2), ..TaskOptions::default() },
        ..DeviceOptions::default()
    };
    Session::builder()
        .device_options(options)
        .device(device)
        .trace_sink(TraceSink::new(|_, _| Ok(())))
        .parameters(ScopedIndex::new(PARAMETER.0, index))
        .offer(Arc::new(check::module_recording(&check::Unmet::default())))
        .offer(Arc::new(vmvx::module()))
        .untrusted()
        .limits(limits)
        .module(module)
        .build()
}
