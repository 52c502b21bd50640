//! Tests the model on the machine: all images of `tests/models/digits` with the scores that NumPy computed, and what happens if
//! memory is short. Prints what a call costs. The exit status is 0 if everything is right.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::vec::Vec;

use bare_metal::heap::Heap;
use bare_metal::{HEAP, HEAP_BYTES, STACK_BYTES, digit, machine};
use incarnate_runtime::{Error, Result, StatusCode};
use semihosting::println;

/// Images that were not used for training: 360 of 64 pixels.
static IMAGES: &[u8] = include_bytes!("../../../../tests/models/digits/test_images.in0.npy");
/// The scores of the ten digits.
static SCORES: &[u8] = include_bytes!("../../../../tests/models/digits/test_images.out0.npy");
/// The digit with the highest score.
static FOUND: &[u8] = include_bytes!("../../../../tests/models/digits/test_images.out1.npy");
/// The digits that the images show.
static LABELS: &[u8] = include_bytes!("../../../../tests/models/digits/labels.npy");

/// The absolute tolerance of a score, as in `tests/models/digits/cases.txt`.
const TOLERANCE: f32 = 1e-3;

#[cfg_attr(target_arch = "arm", cortex_m_rt::entry)]
#[cfg_attr(target_arch = "riscv32", riscv_rt::entry)]
fn main() -> ! {
    bare_metal::exit(run())
}

fn run() -> Result<()> {
    let model = digit::Module::load()?;
    short_of_memory(&model)?;
    let right = images(&model)?;
    // `tests/models/digits/accuracy.txt`.
    expect(right == 347, "347 of 360 images are classified right")?;
    println!("360 images have the expected scores, {right} are classified right");
    expect_status(model.classify([0.0; 63]).map(drop), StatusCode::InvalidArgument)
}

/// Classifies all images. Returns how many are right.
fn images(model: &digit::Module) -> Result<usize> {
    let (mut right, mut used) = (0, 0);
    for (index, image) in rows::<64>(IMAGES).enumerate() {
        let before = HEAP.allocations();
        let (result, instructions) = machine::instructions(|| model.classify(image.map(f32::from_bits)));
        let (scores, found) = result?;
        let allocations = HEAP.allocations() - before;
        if index < 2 {
            println!("call {index}: {instructions} instructions, {allocations} allocations");
        }
        let (mut score, mut digit) = ([0.0; 10], [0]);
        scores.read(&mut score)?;
        found.read(&mut digit)?;
        let expected = row::<10>(SCORES, index)?.map(f32::from_bits);
        let is_near = score.iter().zip(&expected).all(|(score, expected)| (score - expected).abs() <= TOLERANCE);
        expect(is_near, "the scores are those of NumPy")?;
        expect([digit[0] as u32] == row::<1>(FOUND, index)?, "the digit is that of the highest score")?;
        right += usize::from([digit[0] as u32] == row::<1>(LABELS, index)?);
        drop((scores, found));
        // Later calls reuse the blocks of the first ones.
        match (index, used) {
            (0..8, _) => used = HEAP.used(),
            (_, used) => expect(HEAP.used() == used, "the heap does not grow")?,
        }
    }
    println!("{} of {} bytes of the heap were in use at most", HEAP.peak(), HEAP.size());
    if let Some(stack) = machine::stack_peak() {
        println!("{stack} of {STACK_BYTES} bytes of stack were in use at most");
        expect(stack <= STACK_BYTES, "the stack is as large as documented")?;
    }
    Ok(right)
}

/// Calls the model while the heap has no memory for its buffers, and again when it has.
fn short_of_memory(model: &digit::Module) -> Result<()> {
    let mut rest: Vec<u8> = Vec::new();
    let free = HEAP.size() - HEAP.used();
    rest.try_reserve_exact(free - Heap::<HEAP_BYTES>::RESERVE).map_err(|_| Error::internal("the rest of the heap"))?;
    expect_status(model.classify([0.0; 64]).map(drop), StatusCode::ResourceExhausted)?;
    drop(rest);
    model.classify([0.0; 64])?;
    println!("a call that is short of memory fails with RESOURCE_EXHAUSTED, and the next one succeeds");
    Ok(())
}

/// Returns the rows of an array's file, of numbers of 32 bits.
fn rows<const N: usize>(file: &'static [u8]) -> impl Iterator<Item = [u32; N]> {
    // Version 1 of the format: ten bytes with the length of the header in the last two, then the header.
    let header = file.get(8..10).map_or(0, |length| 10 + usize::from(length[0]) + (usize::from(length[1]) << 8));
    let numbers = file.get(header..).unwrap_or_default().as_chunks::<4>().0;
    numbers.as_chunks::<N>().0.iter().map(|row| row.map(u32::from_le_bytes))
}

fn row<const N: usize>(file: &'static [u8], index: usize) -> Result<[u32; N]> {
    rows(file).nth(index).ok_or_else(|| Error::out_of_range("the file has fewer rows"))
}

fn expect(is_so: bool, what: &'static str) -> Result<()> {
    if is_so { Ok(()) } else { Err(Error::internal(alloc::format!("it is not so that {what}"))) }
}

fn expect_status(result: Result<()>, status: StatusCode) -> Result<()> {
    match result {
        Err(error) if error.code() == status => Ok(()),
        Err(error) => Err(error.context("another status was expected")),
        Ok(()) => Err(Error::internal(alloc::format!("a call succeeded, {status:?} was expected"))),
    }
}
