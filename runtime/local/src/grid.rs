//! The grid of workgroups of a dispatch.

use alloc::format;
use core::ops::Range;

use crate::{Coarsening, Error, Result};

/// Position in the grid of workgroups, x fastest, then y, then z.
#[derive(Debug)]
pub(super) struct Cursor {
    pub(super) x: u32,
    pub(super) y: u32,
    pub(super) z: u32,
    count_x: u32,
    count_y: u32,
    /// Workgroups left, with the current one; at least 1.
    remaining: u64,
}

impl Cursor {
    /// The first of the workgroups whose linear ids lie in `range`, or `None` for an empty range.
    ///
    /// # Errors
    /// OUT_OF_RANGE where the range ends beyond the grid.
    #[inline]
    pub(super) fn new([count_x, count_y, count_z]: [u32; 3], range: Range<u64>) -> Result<Option<Cursor>> {
        let plane = u64::from(count_x) * u64::from(count_y);
        if range.end > plane.saturating_mul(u64::from(count_z)) {
            return Err(Cursor::beyond_grid(count_x, count_y, count_z, &range));
        }
        let remaining = range.end.saturating_sub(range.start);
        if remaining == 0 {
            return Ok(None);
        }
        let mut cursor = Cursor { x: 0, y: 0, z: 0, count_x, count_y, remaining };
        if range.start != 0 {
            // The range is not empty and ends inside of the grid, so no count is zero and every quotient fits.
            let (z, in_plane) = (range.start / plane, range.start % plane);
            cursor.x = (in_plane % u64::from(count_x)) as u32;
            cursor.y = (in_plane / u64::from(count_x)) as u32;
            cursor.z = z as u32;
        }
        Ok(Some(cursor))
    }

    /// The number of workgroups from the current one on that follow each other along x and may share a call, up to the next multiple of the
    /// most that may: at least 1.
    #[inline]
    pub(super) fn along_x(&self, coarsening: Coarsening) -> u32 {
        // Kernels take positions as `i32`.
        let positions = (1u32 << 31).saturating_sub(self.x);
        let left = u32::try_from(self.remaining).unwrap_or(u32::MAX);
        let (most, alike) = (coarsening.most.max(1), coarsening.alike.saturating_sub(self.x));
        left.min(self.count_x - self.x).min(positions).min(most - self.x % most).min(alike).max(1)
    }

    /// Moves to the next workgroup; false where there is none.
    #[inline]
    pub(super) fn advance(&mut self) -> bool {
        self.advance_along_x(1)
    }

    /// Moves to the workgroup behind so many that [follow each other along x](Cursor::along_x); false where there is none.
    #[inline]
    pub(super) fn advance_along_x(&mut self, workgroups: u32) -> bool {
        self.remaining -= u64::from(workgroups);
        if self.remaining == 0 {
            return false;
        }
        self.x += workgroups;
        if self.x == self.count_x {
            self.x = 0;
            self.y += 1;
            if self.y == self.count_y {
                self.y = 0;
                self.z += 1;
            }
        }
        true
    }

    #[cold]
    fn beyond_grid(count_x: u32, count_y: u32, count_z: u32, range: &Range<u64>) -> Error {
        Error::out_of_range(format!("workgroups {range:?} of a grid of {count_x}x{count_y}x{count_z}"))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// The position of the first workgroup and the number of those in each call.
    fn calls(count: [u32; 3], range: Range<u64>, most: u32) -> Vec<(u32, u32, u32)> {
        calls_of_alike(count, range, Coarsening { most, ..Coarsening::NONE })
    }

    fn calls_of_alike(count: [u32; 3], range: Range<u64>, coarsening: Coarsening) -> Vec<(u32, u32, u32)> {
        let mut cursor = Cursor::new(count, range).unwrap().unwrap();
        let mut calls = Vec::new();
        loop {
            let workgroups = cursor.along_x(coarsening);
            calls.push((cursor.x, cursor.y, workgroups));
            if !cursor.advance_along_x(workgroups) {
                return calls;
            }
        }
    }

    #[test]
    fn workgroups_behind_those_that_are_alike_have_calls_of_their_own() {
        let of = |count_x, most, alike| {
            let calls = calls_of_alike([count_x, 1, 1], 0..count_x.into(), Coarsening { most, alike });
            calls.iter().map(|call| call.2).collect::<Vec<_>>()
        };
        assert_eq!(of(16, 16, 15), [15, 1]);
        assert_eq!(of(8, 4, 5), [4, 1, 1, 1, 1]);
        assert_eq!(of(4, 4, 9), [4]);
        assert_eq!(of(3, 4, 0), [1, 1, 1]);
    }

    #[test]
    fn calls_are_of_one_row_and_begin_at_multiples() {
        assert_eq!(calls([10, 2, 1], 0..20, 4), [(0, 0, 4), (4, 0, 4), (8, 0, 2), (0, 1, 4), (4, 1, 4), (8, 1, 2)]);
        assert_eq!(calls([10, 2, 1], 3..13, 8), [(3, 0, 5), (8, 0, 2), (0, 1, 3)]);
        assert_eq!(calls([3, 1, 1], 0..3, 0), [(0, 0, 1), (1, 0, 1), (2, 0, 1)]);
        // Positions beyond those of kernels stay single.
        let last = 1u64 << 31;
        assert_eq!(
            calls([u32::MAX, 1, 1], last - 2..last + 2, 64).iter().map(|call| call.2).collect::<Vec<_>>(),
            [2, 1, 1]
        );
    }
}
