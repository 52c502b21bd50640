//! Rows of sums that share what is loaded and converted: each has the sums of its own elements, in the order of the bytecode.
#![allow(clippy::unwrap_used, reason = "tests")]

use incarnate::Session;
use incarnate::runtime::vm::Buffer;
use incarnate_translated_tests::jamming::Module;

const ROWS: usize = 4;
const TERMS: usize = 32;
const LANES: usize = 16;

#[test]
fn rows_have_sums_of_their_own() {
    let weights: Vec<i8> = (0..TERMS * LANES).map(|at| (at * 37 % 251) as u8 as i8).collect();
    let x: Vec<f32> = (0..ROWS * TERMS * LANES).map(|at| (at * 31 % 97) as f32 / 7.0 - 6.0).collect();
    let before: Vec<f32> = (0..ROWS * LANES).map(|at| at as f32).collect();
    let bytes = |numbers: &[f32]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
    let weight_bytes: Vec<u8> = weights.iter().map(|weight| weight.cast_unsigned()).collect();
    let sums = Buffer::copy_of(&bytes(&before)).unwrap();
    let (weight_bytes, x_bytes) = (Buffer::copy_of(&weight_bytes).unwrap(), Buffer::copy_of(&bytes(&x)).unwrap());
    Module::load_with(Session::builder()).unwrap().sums(&sums, &weight_bytes, &x_bytes).unwrap();
    let mut expected = before;
    for (at, sum) in expected.iter_mut().enumerate() {
        let (row, lane) = (at / LANES, at % LANES);
        for term in 0..TERMS {
            *sum += f32::from(weights[term * LANES + lane]) * x[(row * TERMS + term) * LANES + lane];
        }
    }
    assert_eq!(sums.to_vec().unwrap(), bytes(&expected));
}
