//! Memory that a contraction writes is not cleared before, and yet every number is the sum of its products alone.
#![allow(clippy::unwrap_used, reason = "tests")]

use incarnate::runtime::vm::Buffer;
use incarnate::{Result, Session, StatusCode};
use incarnate_translated_tests::accumulating::Module;

/// Sums rows of the numbers 1, 2, .., in memory where pairs of sums are so far apart.
fn sums(pairs: usize, columns: usize, distance: i64) -> Result<Vec<f32>> {
    let module = Module::load_with(Session::builder())?;
    let bytes = |count: usize| (1..=count).flat_map(|number| (number as f32).to_le_bytes()).collect::<Vec<u8>>();
    let (matrix, output) = (Buffer::copy_of(&bytes(2 * pairs * columns))?, Buffer::copy_of(&bytes(2 * pairs))?);
    module.sums(&matrix, &output, pairs as i64, columns as i64, distance)?;
    Ok(output.to_vec()?.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect())
}

/// The sum of each row.
fn expected(pairs: usize, columns: usize) -> Vec<f32> {
    let sum = |row: usize| (row * columns..(row + 1) * columns).map(|number| number as f32 + 1.).sum();
    (0..2 * pairs).map(sum).collect()
}

/// Debug builds write to memory that is not cleared what is no number.
#[test]
fn nothing_else_is_added() {
    for (pairs, columns, distance) in [(1, 5, 2), (20, 9, 2), (20, 9, 3), (7, 100, 170), (0, 3, 2)] {
        assert_eq!(sums(pairs, columns, distance).unwrap(), expected(pairs, columns), "{pairs} {columns} {distance}");
    }
}

/// Without products, and where two rows have the same sum, the loops of the bytecode run.
#[test]
fn memory_is_cleared_for_the_loops() {
    assert_eq!(sums(5, 0, 2).unwrap(), [0.; 10]);
    let rows = expected(3, 4);
    let shared = [rows[0], rows[1] + rows[2], rows[3] + rows[4], rows[5]];
    assert_eq!(sums(3, 4, 1).unwrap(), [shared[0], shared[1], shared[1], shared[2], shared[2], shared[3]]);
    let error = sums(7, 100, 171).unwrap_err();
    assert_eq!(error.code(), StatusCode::OutOfRange, "{error}");
}
