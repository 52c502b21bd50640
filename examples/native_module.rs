//! A module written in Rust that a translated module imports: `cargo run --release --example native_module`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use incarnate::runtime::native_functions;
use incarnate::runtime::vm::{Caller, ModuleState, NativeModule};
use incarnate::{Result, Session};

// It imports `native_import_module.add_1`.
incarnate::include_module!(calls = "tests/models/vm/vm.vmfb");

/// The state of our module: its number of calls.
#[derive(Debug)]
struct Adder {
    calls: Arc<AtomicU32>,
}

impl ModuleState for Adder {}

impl Adder {
    fn add_1(&self, _: &mut Caller<'_>, value: i32) -> Result<i32> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        Ok(value.wrapping_add(1))
    }
}

fn main() -> Result<()> {
    let calls = Arc::new(AtomicU32::new(0));
    let counter = calls.clone();
    let adder = NativeModule::new(
        "native_import_module",
        0,
        move || Ok(Adder { calls: counter.clone() }),
        native_functions! {
            "add_1" => Adder::add_1,
        },
    );
    let module = calls::Module::load_with(Session::builder().offer(Arc::new(adder)))?;
    println!("call_imported(7) is {}", module.call_imported(7)?);
    println!("add_1 was called {} times", calls.load(Ordering::Relaxed));
    Ok(())
}
