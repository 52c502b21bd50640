//! Allocates more than there is: ends with the status 101 of a panic, which `.ci/targets.d/bare-metal` checks.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::vec::Vec;

use bare_metal::HEAP_BYTES;

#[cfg_attr(target_arch = "arm", cortex_m_rt::entry)]
#[cfg_attr(target_arch = "riscv32", riscv_rt::entry)]
fn main() -> ! {
    let memory: Vec<u8> = Vec::with_capacity(core::hint::black_box(HEAP_BYTES + 1));
    bare_metal::exit(Err::<(), _>(core::hint::black_box(memory).capacity()))
}
