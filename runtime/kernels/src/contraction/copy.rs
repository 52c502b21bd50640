//! Copies between an operand and adjacent memory, line by line.

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

/// # Safety
/// See [`Copies`].
#[inline(always)]
pub(super) unsafe fn gather<N: Copy, const CHUNK: usize>(lines: &Lines<'_, N>) {
    // SAFETY: promised by the caller.
    unsafe {
        each_piece(lines, |operand, line, length| match lines.stride {
            1 => adjacent::<N, CHUNK>(operand, line, length),
            // Every second element, as convolutions of stride 2 need: with a known distance, LLVM makes vectors of it.
            2 => strided(operand, 2, line, 1, length),
            stride => strided(operand, stride, line, 1, length),
        });
    }
}

/// # Safety
/// See [`Copies`].
#[inline(always)]
pub(super) unsafe fn scatter<N: Copy, const CHUNK: usize>(lines: &Lines<'_, N>) {
    // SAFETY: promised by the caller.
    unsafe {
        each_piece(lines, |operand, line, length| match lines.stride {
            1 => adjacent::<N, CHUNK>(line, operand, length),
            stride => strided(line, 1, operand, stride, length),
        });
    }
}

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

/// Copies adjacent elements in chunks. The last chunk overlaps the one before, so that nothing beyond the elements is accessed.
#[inline(always)]
unsafe fn adjacent<N: Copy, const CHUNK: usize>(from: *const N, to: *mut N, length: usize) {
    // SAFETY: promised by the caller; chunks are within the elements, and arrays are aligned as their elements.
    unsafe {
        if length >= CHUNK {
            let last = length - CHUNK;
            let mut at = 0;
            while at < last {
                to.add(at).cast::<[N; CHUNK]>().write(from.add(at).cast::<[N; CHUNK]>().read());
                at += CHUNK;
            }
            to.add(last).cast::<[N; CHUNK]>().write(from.add(last).cast::<[N; CHUNK]>().read());
        } else if length >= 4 && CHUNK > 4 {
            adjacent_of_four(from, to, length);
        } else {
            strided(from, 1, to, 1, length);
        }
    }
}

/// As [`adjacent`] in chunks of four.
#[inline(always)]
unsafe fn adjacent_of_four<N: Copy>(from: *const N, to: *mut N, length: usize) {
    // SAFETY: promised by the caller; there are at least four elements.
    unsafe {
        let last = length - 4;
        let mut at = 0;
        while at < last {
            to.add(at).cast::<[N; 4]>().write(from.add(at).cast::<[N; 4]>().read());
            at += 4;
        }
        to.add(last).cast::<[N; 4]>().write(from.add(last).cast::<[N; 4]>().read());
    }
}

#[inline(always)]
unsafe fn strided<N: Copy>(from: *const N, from_stride: isize, to: *mut N, to_stride: isize, length: usize) {
    for at in 0..length as isize {
        // SAFETY: promised by the caller.
        unsafe { to.offset(at * to_stride).write(from.offset(at * from_stride).read()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;

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
                unsafe { gather::<u32, 16>(&described) };
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
