//! Memory that a contraction writes is not cleared before, and yet every number is the sum of its products alone.
#![allow(clippy::unwrap_used, reason = "tests")]

use incarnate::Session;
use incarnate::runtime::vm::Buffer;
use incarnate_translated_tests::accumulating::Module;

/// Sums rows of the numbers 1, 2, .. in memory where sums are so far apart.
fn sums(rows: usize, columns: usize, distance: i64) -> incarnate::Result<Vec<f32>> {
    let module = Module::load_with(Session::builder())?;
    let bytes = |count: usize| (1..=count).flat_map(|number| (number as f32).to_le_bytes()).collect::<Vec<u8>>();
    let (matrix, output) = (Buffer::copy_of(&bytes(rows * columns))?, Buffer::copy_of(&bytes(rows))?);
    module.sums(&matrix, &output, rows as i64, columns as i64, distance)?;
    Ok(output.to_vec()?.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect())
}

/// Debug builds write to memory that is not cleared what is no number.
#[test]
fn nothing_else_is_added() {
    let sum = |numbers: std::ops::Range<usize>| numbers.map(|number| number as f32 + 1.).sum::<f32>();
    for (rows, columns, distance) in [(1, 5, 1), (40, 9, 1), (40, 9, 3), (7, 100, 170), (0, 3, 1)] {
        let expected: Vec<f32> = (0..rows).map(|row| sum(row * columns..(row + 1) * columns)).collect();
        assert_eq!(sums(rows, columns, distance).unwrap(), expected, "{rows} {columns} {distance}");
    }
}

/// Without products, and where rows have the same sum, the loops of the bytecode run.
#[test]
fn memory_is_cleared_for_the_loops() {
    assert_eq!(sums(5, 0, 1).unwrap(), [0.; 5]);
    assert_eq!(sums(4, 3, 0).unwrap(), [78.; 4]);
    let error = sums(7, 100, 171).unwrap_err();
    assert_eq!(error.code(), incarnate::StatusCode::OutOfRange, "{error}");
}
