//! Copies between an operand and adjacent memory, line by line.

use super::load;

/// Elements of an operand that have the same distance from each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Piece {
    /// How far the first element is, in the operand.
    pub(super) from: isize,
    /// Where it is in a line.
    pub(super) at: usize,
    /// The number of elements.
    pub(super) length: usize,
}

/// Lines of `width` elements in adjacent memory, and the pieces of an operand that they consist of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines<'a, N> {
    /// The first element of the operand.
    pub(super) operand: *mut N,
    /// For each line, how far it is in the operand.
    pub(super) offsets: &'a [isize],
    /// The pieces of each line.
    pub(super) pieces: &'a [Piece],
    /// The distance of the elements of a piece.
    pub(super) stride: isize,
    /// The lines, one behind the other.
    pub(super) lines: *mut N,
    pub(super) width: usize,
}

/// The two directions, for a level of processors.
///
/// Safety: the elements of all pieces are valid at their addresses in the operand, and all lines; the processor has the level's
/// features.
pub(super) struct Copies<N> {
    /// From the operand to the lines.
    pub(super) gather: unsafe fn(&Lines<'_, N>),
    /// Back.
    pub(super) scatter: unsafe fn(&Lines<'_, N>),
}

/// `transpose` is [`transpose`] for the level.
///
/// # Safety
/// See [`Copies`].
#[inline(always)]
pub(super) unsafe fn gather<N: Copy, const CHUNK: usize>(
    lines: &Lines<'_, N>,
    transpose: impl Fn(*const N, isize, *mut N, usize),
) {
    let is_transposed = |offsets: &[isize]| offsets.windows(2).all(|pair| pair[1].wrapping_sub(pair[0]) == 1);
    // SAFETY: promised by the caller.
    unsafe {
        match lines.stride {
            1 => adjacent::<N, CHUNK, false>(lines),
            // The lines are what is adjacent in the operand.
            _ if lines.offsets.len() >= BLOCK && is_transposed(lines.offsets) => transposed(lines, transpose),
            // Every second element, as convolutions of stride 2 need: with a known distance, LLVM makes vectors of it.
            2 => each_piece(lines, |operand, line, length| strided(operand, 2, line, 1, length)),
            stride => each_piece(lines, |operand, line, length| strided(operand, stride, line, 1, length)),
        }
    }
}

/// # Safety
/// See [`Copies`].
#[inline(always)]
pub(super) unsafe fn scatter<N: Copy, const CHUNK: usize>(lines: &Lines<'_, N>) {
    // SAFETY: promised by the caller.
    unsafe {
        match lines.stride {
            1 => adjacent::<N, CHUNK, true>(lines),
            stride => each_piece(lines, |operand, line, length| strided(line, 1, operand, stride, length)),
        }
    }
}

/// Rows and columns that are transposed at once.
pub(super) const BLOCK: usize = 8;

/// Transposes [`BLOCK`] columns, whose elements are adjacent in the operand, to as many lines.
///
/// # Safety
/// All numbers are valid at their addresses.
#[inline(always)]
pub(super) unsafe fn transpose<N: Copy>(from: *const N, stride: isize, to: *mut N, width: usize) {
    for line in 0..BLOCK {
        // SAFETY: promised by the caller.
        unsafe { strided(from.add(line), stride, to.add(line * width), 1, BLOCK) };
    }
}

/// Copies lines that follow each other in the operand, block by block.
#[inline(always)]
unsafe fn transposed<N: Copy>(lines: &Lines<'_, N>, transpose: impl Fn(*const N, isize, *mut N, usize)) {
    let first = lines.offsets.first().copied().unwrap_or(0);
    let (count, operand) = (lines.offsets.len(), lines.operand.wrapping_offset(first));
    let whole = count / BLOCK * BLOCK;
    for piece in lines.pieces {
        let (from, to) = (operand.wrapping_offset(piece.from), lines.lines.wrapping_add(piece.at));
        let columns = piece.length / BLOCK * BLOCK;
        for column in (0..columns).step_by(BLOCK) {
            let from = from.wrapping_offset(lines.stride.wrapping_mul(column as isize));
            for line in (0..whole).step_by(BLOCK) {
                transpose(
                    from.wrapping_add(line),
                    lines.stride,
                    to.wrapping_add(line * lines.width + column),
                    lines.width,
                );
            }
        }
        for line in 0..count {
            // What is in no block.
            let done = if line < whole { columns } else { 0 };
            let from = from.wrapping_add(line).wrapping_offset(lines.stride.wrapping_mul(done as isize));
            let to = to.wrapping_add(line * lines.width + done);
            // SAFETY: promised by the caller.
            unsafe { strided(from, lines.stride, to, 1, piece.length - done) };
        }
    }
}

/// Copies adjacent elements, back to the operand if `BACK`: a piece of all lines at a time, because its length is the same in all.
#[inline(always)]
unsafe fn adjacent<N: Copy, const CHUNK: usize, const BACK: bool>(lines: &Lines<'_, N>) {
    for piece in lines.pieces {
        let of_piece = Lines { pieces: core::slice::from_ref(piece), ..*lines };
        let length = piece.length;
        // SAFETY: promised by the caller; there are at least as many elements as in a chunk.
        unsafe {
            match length {
                0 => {}
                _ if length >= CHUNK => {
                    each_piece(&of_piece, |operand, line, length| chunks::<N, CHUNK, BACK>(operand, line, length))
                }
                8.. => each_piece(&of_piece, |operand, line, length| chunks::<N, 8, BACK>(operand, line, length)),
                4.. => each_piece(&of_piece, |operand, line, length| chunks::<N, 4, BACK>(operand, line, length)),
                2.. => each_piece(&of_piece, |operand, line, length| chunks::<N, 2, BACK>(operand, line, length)),
                _ => each_piece(&of_piece, |operand, line, length| chunks::<N, 1, BACK>(operand, line, length)),
            }
        }
    }
}

/// Copies adjacent elements in chunks. The last chunk overlaps the one before, so that nothing beyond the elements is accessed.
#[inline(always)]
unsafe fn chunks<N: Copy, const CHUNK: usize, const BACK: bool>(operand: *mut N, line: *mut N, length: usize) {
    let (from, to) = if BACK { (line, operand) } else { (operand, line) };
    let last = length - CHUNK;
    let mut at = 0;
    // SAFETY: promised by the caller; chunks are within the elements, and arrays are aligned as their elements.
    unsafe {
        while at < last {
            to.add(at).cast::<[N; CHUNK]>().write(load(from.add(at).cast::<[N; CHUNK]>()));
            at += CHUNK;
        }
        to.add(last).cast::<[N; CHUNK]>().write(load(from.add(last).cast::<[N; CHUNK]>()));
    }
}

/// Calls `copy` with each piece of each line: in the operand, in the line, and its length.
#[inline(always)]
unsafe fn each_piece<N>(lines: &Lines<'_, N>, copy: impl Fn(*mut N, *mut N, usize)) {
    let mut line = lines.lines;
    for offset in lines.offsets {
        let operand = lines.operand.wrapping_offset(*offset);
        for piece in lines.pieces {
            copy(operand.wrapping_offset(piece.from), line.wrapping_add(piece.at), piece.length);
        }
        line = line.wrapping_add(lines.width);
    }
}

#[inline(always)]
unsafe fn strided<N: Copy>(from: *const N, from_stride: isize, to: *mut N, to_stride: isize, length: usize) {
    for at in 0..length as isize {
        // SAFETY: promised by the caller.
        unsafe { to.offset(at * to_stride).write(load(from.offset(at * from_stride))) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;

    #[test]
    fn columns_are_transposed_to_lines() {
        for (columns, count) in [(8, 8), (17, 30), (3, 9), (64, 16)] {
            let operand: Vec<u32> = (0..10_000).collect();
            let (offsets, width) = ((5..5 + count).collect::<Vec<isize>>(), columns + 2);
            let mut lines = vec![u32::MAX; width * count as usize];
            let described = Lines {
                operand: operand.as_ptr().cast_mut(),
                offsets: &offsets,
                pieces: &[Piece { from: 100, at: 1, length: columns }],
                stride: 100,
                lines: lines.as_mut_ptr(),
                width,
            };
            // SAFETY: pieces and lines are within the vectors.
            unsafe { gather::<u32, 16>(&described, |from, stride, to, width| transpose(from, stride, to, width)) };
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
                let described = Lines {
                    operand: operand.as_mut_ptr(),
                    offsets: &[0, 1],
                    pieces: &pieces,
                    stride,
                    lines: lines.as_mut_ptr(),
                    width,
                };
                // SAFETY: pieces and lines are within the vectors.
                unsafe { gather::<u32, 16>(&described, |from, stride, to, width| transpose(from, stride, to, width)) };
                for (line, from, at) in
                    (0..2).flat_map(|line| pieces.iter().map(move |piece| (line, piece.from, piece.at)))
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
                let described =
                    Lines { operand: operand.as_mut_ptr(), lines: lines.as_mut_ptr(), offsets: &[0], ..described };
                // SAFETY: as above.
                unsafe { scatter::<u32, 16>(&described) };
                let changed = operand.iter().zip(&copied).filter(|(new, old)| new != old);
                assert_eq!(changed.clone().count(), length + length / 2);
                assert!(changed.into_iter().all(|(new, old)| *new == *old + 5000));
            }
        }
    }
}
