//! Classifies an image of a handwritten digit.
#![no_std]
#![no_main]

use bare_metal::{HEAP, digit};
use incarnate_runtime::Result;
use semihosting::println;

/// The image: 8 x 8 pixels, from 0 to 16.
static IMAGE: [u8; 64] = [
    0, 0, 0, 8, 15, 10, 1, 0, //
    0, 0, 5, 16, 16, 10, 0, 0, //
    0, 0, 14, 12, 11, 8, 0, 0, //
    0, 0, 0, 0, 14, 6, 0, 0, //
    0, 2, 12, 16, 16, 16, 6, 0, //
    0, 0, 9, 15, 7, 1, 0, 0, //
    0, 0, 4, 13, 0, 0, 0, 0, //
    0, 0, 11, 8, 0, 0, 0, 0,
];

#[cfg_attr(target_arch = "arm", cortex_m_rt::entry)]
#[cfg_attr(target_arch = "riscv32", riscv_rt::entry)]
fn main() -> ! {
    bare_metal::exit(run())
}

fn run() -> Result<()> {
    let model = digit::Module::load()?;
    let (_, found) = model.classify(IMAGE.map(f32::from))?;
    let mut digit = [0];
    found.read(&mut digit)?;
    println!("the image shows a {}", digit[0]);
    println!("{} of {} bytes of the heap were in use at most", HEAP.peak(), HEAP.size());
    Ok(())
}
