//! Copies between elements in memory and strips.
#![allow(unsafe_code, reason = "elements at addresses that were checked")]

use super::super::super::buffer::lines::{Convert, Direction, Load, Store, line};
use incarnate_bytecode::ir::nest::Element as Kind;

/// The most loops whose iterations share a strip.
pub(super) const TILED: usize = 3;

/// The positions of a strip's elements: trip count and stride in elements of each loop, the innermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    loops: [(usize, i64); TILED],
}

impl Shape {
    /// One element.
    pub(super) const ONE: Shape = Shape { loops: [(1, 0); TILED] };

    /// Returns the positions of the iterations of at most [`TILED`] loops, the innermost first. Loops that continue where the
    /// one within them ends are merged.
    pub(super) fn of(loops: impl Iterator<Item = (usize, i64)>) -> Shape {
        let mut shape = Shape::ONE;
        let mut used = 0usize;
        for (count, stride) in loops.filter(|(count, _)| *count != 1) {
            if let Some((inner, step)) = used.checked_sub(1).and_then(|last| shape.loops.get_mut(last))
                && stride == step.wrapping_mul(*inner as i64)
            {
                *inner *= count;
            } else if let Some(next) = shape.loops.get_mut(used) {
                *next = (count, stride);
                used += 1;
            }
        }
        shape
    }

    /// Returns the positions of elements at a stride.
    pub(super) const fn line(count: usize, stride: i64) -> Shape {
        Shape { loops: [(count, stride), (1, 0), (1, 0)] }
    }

    /// Whether the elements are adjacent.
    pub(super) const fn is_adjacent(&self) -> bool {
        let [(count, stride), (rows, _), (planes, _)] = self.loops;
        (stride == 1 || count == 1) && rows == 1 && planes == 1
    }
}

/// Copies elements in memory to a strip, or back.
///
/// # Safety
/// The elements of the shape are in memory, aligned, and the strip has space for as many numbers; the processor has the target
/// features that the copy was selected for.
pub(super) type Copy = unsafe fn(memory: *mut u8, shape: &Shape, strip: *mut u8);

/// Copies all elements.
///
/// # Safety
/// As for [`Copy`].
#[inline(always)]
unsafe fn copy<D: Direction, T: Convert>(memory: *mut u8, shape: &Shape, strip: *mut u8) {
    let [(count, stride), (rows, row), (planes, plane)] = shape.loops;
    let (mut of_plane, mut numbers) = (memory.cast::<T>(), strip.cast::<T::Number>());
    for _ in 0..planes {
        let mut of_row = of_plane;
        for _ in 0..rows {
            // SAFETY: promised by the caller: the line is a part of the shape.
            unsafe { line::<D, T>(of_row, stride, numbers, count) };
            of_row = of_row.wrapping_offset(row as isize);
            numbers = numbers.wrapping_add(count);
        }
        of_plane = of_plane.wrapping_offset(plane as isize);
    }
}

/// Selects the variant of a copy for the processor.
macro_rules! variants {
    ($is_wide:ident, $direction:ty, $element:ty) => {{
        unsafe fn portable(memory: *mut u8, shape: &Shape, strip: *mut u8) {
            // SAFETY: promised by the caller.
            unsafe { copy::<$direction, $element>(memory, shape, strip) }
        }
        #[cfg(all(feature = "std", target_arch = "x86_64"))]
        #[target_feature(enable = "avx2,fma,bmi1,bmi2,popcnt,lzcnt")]
        unsafe fn featured(memory: *mut u8, shape: &Shape, strip: *mut u8) {
            // SAFETY: promised by the caller.
            unsafe { copy::<$direction, $element>(memory, shape, strip) }
        }
        #[cfg(not(all(feature = "std", target_arch = "x86_64")))]
        use portable as featured;
        if $is_wide { featured as Copy } else { portable as Copy }
    }};
}

/// Returns the copy from memory to strips, in which elements are extended to at least 32 bits.
pub(super) fn load(kind: Kind, is_wide: bool) -> Copy {
    match kind {
        Kind::u8 => variants!(is_wide, Load, u8),
        Kind::i8 => variants!(is_wide, Load, i8),
        Kind::u16 => variants!(is_wide, Load, u16),
        Kind::i16 => variants!(is_wide, Load, i16),
        Kind::i32 | Kind::f32 => variants!(is_wide, Load, i32),
        Kind::i64 | Kind::f64 => variants!(is_wide, Load, i64),
    }
}

/// Returns the copy from strips to memory, in which elements are truncated.
pub(super) fn store(kind: Kind, is_wide: bool) -> Copy {
    match kind {
        Kind::u8 | Kind::i8 => variants!(is_wide, Store, i8),
        Kind::u16 | Kind::i16 => variants!(is_wide, Store, i16),
        Kind::i32 | Kind::f32 => variants!(is_wide, Store, i32),
        Kind::i64 | Kind::f64 => variants!(is_wide, Store, i64),
    }
}

/// Fills a strip with the numbers of arithmetic sequences; of 64 bits if `is_wide`, else of 32.
///
/// # Safety
/// The strip has space for as many numbers as the shape has.
pub(super) unsafe fn sequence(is_wide: bool, first: i64, shape: &Shape, strip: *mut u8) {
    let [(count, stride), (rows, row), (planes, plane)] = shape.loops;
    let (mut of_plane, mut at) = (first, 0);
    for _ in 0..planes {
        let mut of_row = of_plane;
        for _ in 0..rows {
            let mut number = of_row;
            for index in at..at + count {
                // SAFETY: promised by the caller.
                unsafe {
                    match is_wide {
                        true => strip.cast::<i64>().add(index).write(number),
                        false => strip.cast::<i32>().add(index).write(number as i32),
                    }
                }
                number = number.wrapping_add(stride);
            }
            at += count;
            of_row = of_row.wrapping_add(row);
        }
        of_plane = of_plane.wrapping_add(plane);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn loops_that_continue_are_merged() {
        let shape = |loops: &[(usize, i64)]| Shape::of(loops.iter().copied()).loops;
        assert_eq!(shape(&[(7, 1), (7, 7), (5, 49)]), [(245, 1), (1, 0), (1, 0)]);
        assert_eq!(shape(&[(7, 2), (7, 14), (5, 200)]), [(49, 2), (5, 200), (1, 0)]);
        assert_eq!(shape(&[(1, 3), (4, 0), (3, 0)]), [(12, 0), (1, 0), (1, 0)]);
        assert_eq!(shape(&[(4, 0), (3, 1), (2, 9)]), [(4, 0), (3, 1), (2, 9)]);
        assert!(Shape::of([(1, 8)].into_iter()).is_adjacent() && Shape::line(9, 1).is_adjacent());
        assert!(!Shape::line(9, 0).is_adjacent() && !Shape::of([(3, 1), (2, 4)].into_iter()).is_adjacent());
    }

    /// Copies elements of a shape to a strip, and back to other memory.
    fn there_and_back<T: Convert + PartialEq + core::fmt::Debug>(kind: Kind, of: fn(usize) -> T, is_wide: bool) {
        for loops in [[(1, 0), (1, 0), (1, 0)], [(40, 1), (1, 0), (1, 0)], [(7, 1), (5, 20), (3, 200)]]
            .into_iter()
            .chain([[(33, 2), (2, 100), (1, 0)], [(9, -3), (2, 1), (1, 0)], [(16, 1), (2, 50), (2, 300)]])
        {
            let shape = Shape::of(loops.into_iter());
            let mut memory: Vec<T> = (0..1000).map(of).collect();
            let mut strip = [0u64; 256];
            let mut written: Vec<T> = (0..1000).map(|_| of(0)).collect();
            let strip = strip.as_mut_ptr().cast::<u8>();
            // SAFETY: all elements are within the vectors, and the strip has space for 256 numbers.
            unsafe {
                load(kind, is_wide)(memory.as_mut_ptr().add(100).cast(), &shape, strip);
                store(kind, is_wide)(written.as_mut_ptr().add(100).cast(), &shape, strip);
            }
            let mut expected: Vec<T> = (0..1000).map(|_| of(0)).collect();
            for (plane, row, at) in (0..loops[2].0)
                .flat_map(|plane| (0..loops[1].0).map(move |row| (plane, row)))
                .flat_map(|(plane, row)| (0..loops[0].0).map(move |at| (plane, row, at)))
            {
                let element = 100 + plane as i64 * loops[2].1 + row as i64 * loops[1].1 + at as i64 * loops[0].1;
                expected[element as usize] = memory[element as usize];
            }
            assert_eq!(written, expected, "{kind:?} {loops:?}");
        }
    }

    #[test]
    fn elements_are_copied_there_and_back() {
        for is_wide in [false, super::super::kernels::is_wide()] {
            there_and_back::<u8>(Kind::u8, |at| (at % 251) as u8, is_wide);
            there_and_back::<i8>(Kind::i8, |at| (at % 251) as i8, is_wide);
            there_and_back::<i16>(Kind::i16, |at| (at as i16).wrapping_mul(-77), is_wide);
            there_and_back::<u16>(Kind::u16, |at| (at as u16).wrapping_mul(77), is_wide);
            there_and_back::<i32>(Kind::f32, |at| at as i32 * 1_000_003, is_wide);
            there_and_back::<i64>(Kind::i64, |at| at as i64 * 1_000_000_007, is_wide);
        }
    }

    #[test]
    fn narrow_elements_are_extended_as_they_are_loaded() {
        let memory = [0xFEu8; 20];
        for (kind, expected) in [(Kind::u8, 0xFE), (Kind::i8, -2)] {
            for is_wide in [false, super::super::kernels::is_wide()] {
                let mut strip = [0i32; 20];
                // SAFETY: both have 20 elements.
                unsafe {
                    load(kind, is_wide)(memory.as_ptr().cast_mut(), &Shape::line(20, 1), strip.as_mut_ptr().cast())
                };
                assert_eq!(strip, [expected; 20]);
            }
        }
    }

    #[test]
    fn sequences_follow_the_loops() {
        let shape = Shape::of([(3, 2), (2, 100)].into_iter());
        let (mut narrow, mut wide) = ([0i32; 6], [0i64; 6]);
        // SAFETY: both have as many elements as the shape.
        unsafe {
            sequence(false, -1, &shape, narrow.as_mut_ptr().cast());
            sequence(true, i64::from(i32::MAX), &shape, wide.as_mut_ptr().cast());
        }
        assert_eq!(narrow, [-1, 1, 3, 99, 101, 103]);
        assert_eq!(wide[5], i64::from(i32::MAX) + 104);
    }
}
