//! A module with state: `cargo run --release --example stateful`.
//!
//! Each `Module` has globals of its own; its clones share them, also between threads.

use std::sync::Arc;

use incarnate::{Device, Result};

incarnate::include_module!(accumulator = "tests/models/accumulator/vmvx.vmfb");

fn main() -> Result<()> {
    let device: Arc<Device> = Device::create("local-sync")?;
    let (first, second) = (accumulator::Module::load(&device)?, accumulator::Module::load(&device)?);
    for call in 1..=3 {
        let sum = first.accumulate([1.0; 4])?;
        println!("after {call} calls the first has {:?}", sum.to_vec()?);
    }
    println!("the second was called {} times, the first {}", second.count()?, first.count()?);

    let shared = first.clone();
    let counted = std::thread::spawn(move || {
        shared.accumulate([1.0; 4])?;
        shared.count()
    });
    let counted = counted.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    println!("with the call of another thread, {counted}");
    first.reset()?;
    println!("after `reset`, {}", first.count()?);
    Ok(())
}
