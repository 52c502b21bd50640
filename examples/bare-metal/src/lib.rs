//! What the programs of this package share: the model, the heap, and how a program ends.
#![no_std]

extern crate alloc;

use core::fmt::Display;
use core::panic::PanicInfo;

use semihosting::{eprintln, process};

pub mod heap;
pub mod machine;

/// The model: `build.rs` translates it.
#[allow(missing_docs, reason = "generated code")]
pub mod digit {
    include!(concat!(env!("OUT_DIR"), "/digit.rs"));
}

/// The bytes that the program can allocate. `check` measures what it needs, and fails if that is more.
pub const HEAP_BYTES: usize = 7 << 10;

/// The bytes of stack that the program may use, in which `check` measures it.
pub const STACK_BYTES: usize = 4 << 10;

/// The memory of the program.
#[global_allocator]
pub static HEAP: heap::Heap<HEAP_BYTES> = heap::Heap::new();

/// Ends the program with the status of a result.
pub fn exit<E: Display>(result: Result<(), E>) -> ! {
    match result {
        Ok(()) => process::exit(0),
        Err(error) => {
            eprintln!("{error}");
            process::exit(1)
        }
    }
}

/// Ends the program. A panic is an error of the program: the runtime returns errors. Memory that small objects of the runtime do
/// not get is one, too; a product would start again.
#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    eprintln!("{info}");
    process::exit(101)
}
