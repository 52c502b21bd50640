//! Copies to lines and back.

use std::vec;
use std::vec::Vec;

use super::{Random, check};
use crate::contraction::arithmetic::{FmaF32, MulAddI32};
use crate::contraction::copy::{Lines, gather, scatter};
use crate::contraction::loops::each;
use crate::contraction::machine::Machine;
use crate::contraction::operand::Piece;
use crate::contraction::plan::Plan;
use crate::contraction::tile::portable::Array;
use crate::proof::Portable;

#[test]
fn columns_are_transposed_to_lines() {
    for (columns, count) in [(8, 8), (17, 30), (3, 9), (64, 16)] {
        let operand: Vec<u32> = (0..10_000).collect();
        let (offsets, width) = ((5..5 + count).collect::<Vec<isize>>(), columns + 2);
        let mut lines = vec![u32::MAX; width * count as usize];
        let pieces = [Piece { from: 100, at: 1, length: columns }];
        let first = operand.as_ptr().cast_mut();
        // SAFETY: pieces are within the vector.
        let described = unsafe { Lines::new(first, (&offsets, true), (&pieces, 100), (&mut lines, width)) };
        gather::<u32, Array<MulAddI32>, 16>(Portable::here(), &described);
        for (line, column) in (0..count as usize).flat_map(|line| (0..columns).map(move |column| (line, column))) {
            assert_eq!(lines[line * width + 1 + column] as usize, 105 + line + 100 * column);
        }
        assert_eq!(lines.iter().filter(|number| **number == u32::MAX).count(), 2 * count as usize);
    }
}

#[test]
fn pieces_are_copied_to_lines_and_back() {
    for stride in [1isize, 2, 3, -1] {
        for length in 0..40usize {
            let pieces = [Piece { from: 500, at: 0, length }, Piece { from: 1000, at: length, length: length / 2 }];
            let width = length + length / 2 + 3;
            let mut operand: Vec<u32> = (0..3000).collect();
            let mut lines = vec![u32::MAX; 2 * width];
            let first = operand.as_mut_ptr();
            // SAFETY: pieces are within the vector.
            let described = unsafe { Lines::new(first, (&[0, 1], true), (&pieces, stride), (&mut lines, width)) };
            gather::<u32, Array<MulAddI32>, 16>(Portable::here(), &described);
            for (line, from, at) in (0..2).flat_map(|line| pieces.iter().map(move |piece| (line, piece.from, piece.at)))
            {
                let count = if at == 0 { length } else { length / 2 };
                for element in 0..count {
                    let expected = from + line + stride * element as isize;
                    assert_eq!(lines[line as usize * width + at + element] as isize, expected, "{stride} {length}");
                }
            }
            assert_eq!(lines.iter().filter(|number| **number == u32::MAX).count(), 6);
            lines.iter_mut().for_each(|number| *number = number.wrapping_add(5000));
            let copied = operand.clone();
            let first = operand.as_mut_ptr();
            // SAFETY: as above.
            let described = unsafe { Lines::new(first, (&[0], true), (&pieces, stride), (&mut lines, width)) };
            scatter::<u32, Array<MulAddI32>, 16>(Portable::here(), &described);
            let changed = operand.iter().zip(&copied).filter(|(new, old)| new != old);
            assert_eq!(changed.clone().count(), length + length / 2);
            assert!(changed.into_iter().all(|(new, old)| *new == *old + 5000));
        }
    }
}

#[test]
fn rows_that_are_adjacent_in_the_output_are_copied() {
    let mut random = Random(29);
    // Vectors are those of the other operand, whose elements are adjacent.
    for rows in [128, 129, 225, 600] {
        for columns in [64, 31, 17] {
            let sums = each(100, 0, 3 * rows as i64, columns as i64);
            let loops = [each(rows, 1, 3, 0), each(columns, rows as i64, 0, 1), sums];
            let plan = Plan::of(&loops, &Machine::X86_64_V4).unwrap();
            assert!(plan.columns.innermost().output != 1, "{plan}");
            check::<FmaF32>(&mut random, &loops);
        }
    }
}
