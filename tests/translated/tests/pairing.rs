//! Sums of products of adjacent integers, which processors have instructions for: they are those of the bytecode.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use incarnate::Session;
use incarnate::runtime::vm::Buffer;
use incarnate_translated_tests::pairing::Module;

const TERMS: usize = 6;

/// 16-bit integers of all sizes and signs; every fifth one is the least.
fn integers(count: usize, factor: usize) -> Vec<i16> {
    let integer = |at: usize| if at.is_multiple_of(5) { i16::MIN } else { (at * factor % 65_536) as u16 as i16 };
    (0..count).map(integer).collect()
}

fn buffer(integers: &[i16]) -> Arc<Buffer> {
    Buffer::copy_of(&integers.iter().flat_map(|integer| integer.to_le_bytes()).collect::<Vec<u8>>()).unwrap()
}

#[test]
fn bytes_and_integers_are_multiplied_in_pairs() {
    const ROWS: usize = 32;
    const LANES: usize = 8;
    let bytes: Vec<u8> = (0..ROWS * TERMS * 2 * LANES).map(|at| (at * 37 % 251) as u8).collect();
    let x = integers(TERMS * 2 * LANES, 7919);
    let sums = Buffer::copy_of(&[0; ROWS * LANES * 4]).unwrap();
    let module = Module::load_with(Session::builder()).unwrap();
    module.nibbles(&sums, &Buffer::copy_of(&bytes).unwrap(), &buffer(&x)).unwrap();
    let mut expected = Vec::new();
    for at in 0..ROWS * LANES {
        let (row, lane) = (at / LANES, at % LANES);
        let mut sum = 0f32;
        for term in 0..TERMS {
            let product = |at: usize| i32::from(bytes[row * TERMS * 2 * LANES + at] & 15) * i32::from(x[at]);
            let first = term * 2 * LANES + 2 * lane;
            sum += (product(first) + product(first + 1)) as f32;
        }
        expected.extend(sum.to_le_bytes());
    }
    assert_eq!(sums.to_vec().unwrap(), expected);
}

#[test]
fn sums_of_the_least_integers_wrap_around() {
    const ROWS: usize = 16;
    const LANES: usize = 20;
    let (left, right) = (integers(ROWS * TERMS * 2 * LANES, 7919), integers(TERMS * 2 * LANES, 104_729));
    // Both products are the greatest one.
    let mut left = left;
    (left[0], left[1]) = (i16::MIN, i16::MIN);
    let mut right = right;
    (right[0], right[1]) = (i16::MIN, i16::MIN);
    let sums = Buffer::copy_of(&[0; ROWS * LANES * 4]).unwrap();
    Module::load_with(Session::builder()).unwrap().whole(&sums, &buffer(&left), &buffer(&right)).unwrap();
    let mut expected = Vec::new();
    for at in 0..ROWS * LANES {
        let (row, lane) = (at / LANES, at % LANES);
        let mut sum = 0i32;
        for term in 0..TERMS {
            let product = |at: usize| i32::from(left[row * TERMS * 2 * LANES + at]) * i32::from(right[at]);
            let first = term * 2 * LANES + 2 * lane;
            sum = sum.wrapping_add(product(first).wrapping_add(product(first + 1)));
        }
        expected.extend(sum.to_le_bytes());
    }
    assert_eq!(sums.to_vec().unwrap(), expected);
}

/// Multiplies bytes four by four, of all sizes, where `left` is what becomes of a left one.
fn check_quads(multiply: impl Fn(&Module, &Arc<Buffer>, &Arc<Buffer>, &Arc<Buffer>), left: impl Fn(u8) -> i32) {
    const ROWS: usize = 32;
    const LANES: usize = 8;
    let of_row = TERMS * 4 * LANES;
    let bytes: Vec<u8> = (0..ROWS * of_row).map(|at| if at.is_multiple_of(3) { 255 } else { at as u8 }).collect();
    let x: Vec<u8> = (0..of_row).map(|at| if at % 7 < 4 { 128 } else { (at * 37) as u8 }).collect();
    let sums = Buffer::copy_of(&[0; ROWS * LANES * 4]).unwrap();
    let module = Module::load_with(Session::builder()).unwrap();
    multiply(&module, &sums, &Buffer::copy_of(&bytes).unwrap(), &Buffer::copy_of(&x).unwrap());
    let mut expected = Vec::new();
    for (row, lane) in (0..ROWS).flat_map(|row| (0..LANES).map(move |lane| (row, lane))) {
        let at = (0..TERMS).flat_map(|term| (0..4).map(move |at| (term * LANES + lane) * 4 + at));
        let sum: i32 = at.map(|at| left(bytes[row * of_row + at]) * i32::from(x[at].cast_signed())).sum();
        expected.extend(sum.to_le_bytes());
    }
    assert_eq!(sums.to_vec().unwrap(), expected);
}

#[test]
fn bytes_are_multiplied_four_by_four() {
    check_quads(|module, sums, left, x| module.quads(sums, left, x).unwrap(), |left| i32::from(left & 63));
    check_quads(|module, sums, left, x| module.signed_quads(sums, left, x).unwrap(), |left| i32::from(left & 63) - 32);
}

#[test]
fn sums_of_two_products_may_exceed_16_bits() {
    check_quads(|module, sums, left, x| module.large_quads(sums, left, x).unwrap(), i32::from);
}
