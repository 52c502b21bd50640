//! Copies between an operand and adjacent memory, line by line.

use super::operand::{Piece, load};
use super::vector::Vector;

/// Lines of `width` elements in adjacent memory, and the pieces of an operand that they consist of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines<'a, N> {
    /// The first element of the operand.
    pub(super) operand: *mut N,
    /// For each line, how far it is in the operand.
    pub(super) offsets: &'a [isize],
    /// Whether each line follows the one before in the operand.
    pub(super) is_adjacent: bool,
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
/// Safety: the elements of all pieces are valid at their addresses in the operand, those between them for reads, and all lines; the
/// processor has the level's features.
pub(super) struct Copies<N> {
    /// From the operand to the lines.
    pub(super) gather: unsafe fn(&Lines<'_, N>),
    /// Back.
    pub(super) scatter: unsafe fn(&Lines<'_, N>),
}

// The functions below are compiled for each level as a part of its own. They use no closures and no adapters of iterators: LLVM
// does not inline a function without the level's features if it calls one that passes vectors.

/// # Safety
/// See [`Copies`], for vectors of the level.
#[inline(always)]
pub(super) unsafe fn gather<N: Copy, V: Vector, const CHUNK: usize>(lines: &Lines<'_, N>) {
    // SAFETY: promised by the caller.
    unsafe {
        match lines.stride {
            1 => adjacent::<N, CHUNK, false>(lines),
            // The lines are what is adjacent in the operand.
            _ if lines.offsets.len() >= 4 && lines.is_adjacent => transposed::<N, V, false>(lines),
            // As convolutions of stride 2 need.
            2 => every_second::<N, V>(lines),
            stride => each_line::<N, false>(lines, stride),
        }
    }
}

/// # Safety
/// See [`Copies`].
#[inline(always)]
pub(super) unsafe fn scatter<N: Copy, V: Vector, const CHUNK: usize>(lines: &Lines<'_, N>) {
    // SAFETY: promised by the caller.
    unsafe {
        match lines.stride {
            1 => adjacent::<N, CHUNK, true>(lines),
            _ if lines.offsets.len() >= 4 && lines.is_adjacent => transposed::<N, V, true>(lines),
            stride => each_line::<N, true>(lines, stride),
        }
    }
}

/// Whether each offset follows the one before.
pub(super) fn is_adjacent(offsets: &[isize]) -> bool {
    offsets.windows(2).all(|pair| pair[1].wrapping_sub(pair[0]) == 1)
}

/// Copies lines that follow each other in the operand, back to it if `BACK`, four lines and a vector of columns at a time. The last
/// blocks overlap those before; pieces that are shorter than a vector are copied element by element.
#[inline(always)]
unsafe fn transposed<N: Copy, V: Vector, const BACK: bool>(lines: &Lines<'_, N>) {
    const { assert!(size_of::<N>() == size_of::<V::Number>()) };
    let first = lines.offsets.first().copied().unwrap_or(0);
    let (count, operand) = (lines.offsets.len(), lines.operand.wrapping_offset(first));
    for piece in lines.pieces {
        let (from, to) = (operand.wrapping_offset(piece.from), lines.lines.wrapping_add(piece.at));
        if piece.length < V::LANES {
            for line in 0..count {
                let (from, to) = (from.wrapping_add(line), to.wrapping_add(line * lines.width));
                // SAFETY: promised by the caller.
                unsafe {
                    match BACK {
                        true => strided(to, 1, from, lines.stride, piece.length),
                        false => strided(from, lines.stride, to, 1, piece.length),
                    }
                }
            }
            continue;
        }
        // A column after the other: processors prefetch from few places at once.
        let mut column = 0;
        while column < piece.length {
            let column_of_block = column.min(piece.length - V::LANES);
            let from = from.wrapping_offset(lines.stride.wrapping_mul(column_of_block as isize));
            let to = to.wrapping_add(column_of_block);
            let mut line = 0;
            while line < count {
                let line_of_block = line.min(count - 4);
                let from = from.wrapping_add(line_of_block).cast::<V::Number>();
                let to = to.wrapping_add(line_of_block * lines.width).cast::<V::Number>();
                // SAFETY: promised by the caller: columns and lines of the block are among those of the piece.
                unsafe {
                    if BACK {
                        let mut vectors = [V::zero(); 4];
                        let mut at = 0;
                        while at < 4 {
                            vectors[at] = V::load(to.wrapping_add(at * lines.width));
                            at += 1;
                        }
                        V::transpose_back(vectors, from, lines.stride);
                    } else {
                        let vectors = V::transpose(from, lines.stride);
                        let mut at = 0;
                        while at < 4 {
                            vectors[at].store(to.wrapping_add(at * lines.width));
                            at += 1;
                        }
                    }
                }
                line += 4;
            }
            column += V::LANES;
        }
    }
}

/// Copies adjacent elements, back to the operand if `BACK`: a piece of all lines at a time, because its length is the same in all.
#[inline(always)]
unsafe fn adjacent<N: Copy, const CHUNK: usize, const BACK: bool>(lines: &Lines<'_, N>) {
    for piece in lines.pieces {
        // SAFETY: promised by the caller; there are at least as many elements as in a chunk.
        unsafe {
            match piece.length {
                0 => {}
                length if length >= CHUNK => each_chunk::<N, CHUNK, BACK>(lines, piece),
                8.. => each_chunk::<N, 8, BACK>(lines, piece),
                4.. => each_chunk::<N, 4, BACK>(lines, piece),
                2.. => each_chunk::<N, 2, BACK>(lines, piece),
                _ => each_chunk::<N, 1, BACK>(lines, piece),
            }
        }
    }
}

/// Copies a piece of each line in chunks. The last chunk overlaps the one before, so that nothing beyond the elements is accessed.
#[inline(always)]
unsafe fn each_chunk<N: Copy, const CHUNK: usize, const BACK: bool>(lines: &Lines<'_, N>, piece: &Piece) {
    let mut line = lines.lines.wrapping_add(piece.at);
    let last = piece.length - CHUNK;
    for offset in lines.offsets {
        let operand = lines.operand.wrapping_offset(offset.wrapping_add(piece.from));
        let (from, to) = if BACK { (line, operand) } else { (operand, line) };
        let mut at = 0;
        // SAFETY: promised by the caller; chunks are within the elements, and arrays are aligned as their elements.
        unsafe {
            while at < last {
                to.add(at).cast::<[N; CHUNK]>().write(load(from.add(at).cast::<[N; CHUNK]>()));
                at += CHUNK;
            }
            to.add(last).cast::<[N; CHUNK]>().write(load(from.add(last).cast::<[N; CHUNK]>()));
        }
        line = line.wrapping_add(lines.width);
    }
}

/// Copies every second element, a vector at a time. The last vector of a piece overlaps the one before; pieces that are shorter than a
/// vector are copied element by element.
#[inline(always)]
unsafe fn every_second<N: Copy, V: Vector>(lines: &Lines<'_, N>) {
    const { assert!(size_of::<N>() == size_of::<V::Number>()) };
    for piece in lines.pieces {
        let mut line = lines.lines.wrapping_add(piece.at);
        for offset in lines.offsets {
            let operand = lines.operand.wrapping_offset(offset.wrapping_add(piece.from));
            // SAFETY: promised by the caller: vectors hold elements of the piece.
            unsafe {
                if piece.length < V::LANES {
                    strided(operand, 2, line, 1, piece.length);
                } else {
                    let (mut at, last) = (0, piece.length - V::LANES);
                    while at < last {
                        V::load_even(operand.add(2 * at).cast()).store(line.add(at).cast());
                        at += V::LANES;
                    }
                    V::load_even(operand.add(2 * last).cast()).store(line.add(last).cast());
                }
            }
            line = line.wrapping_add(lines.width);
        }
    }
}

/// Copies elements at a distance from each other, back to the operand if `BACK`.
#[inline(always)]
unsafe fn each_line<N: Copy, const BACK: bool>(lines: &Lines<'_, N>, stride: isize) {
    let mut line = lines.lines;
    for offset in lines.offsets {
        let operand = lines.operand.wrapping_offset(*offset);
        for piece in lines.pieces {
            let (operand, line) = (operand.wrapping_offset(piece.from), line.wrapping_add(piece.at));
            // SAFETY: promised by the caller.
            unsafe {
                match BACK {
                    true => strided(line, 1, operand, stride, piece.length),
                    false => strided(operand, stride, line, 1, piece.length),
                }
            }
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
