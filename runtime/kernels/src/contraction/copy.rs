//! Copies between an operand and adjacent memory, line by line.

use core::marker::PhantomData;

use super::operand::{Piece, load};
use super::vector::Vector;

/// Lines of `width` elements in adjacent memory, and the pieces of an operand that they consist of. All of both are valid:
/// [`Lines::new`] checks the lines, and was promised the operand.
#[derive(Debug)]
pub(super) struct Lines<'a, N> {
    /// The first element of the operand.
    operand: *mut N,
    /// For each line, how far it is in the operand.
    offsets: &'a [isize],
    /// Whether each line follows the one before in the operand.
    is_adjacent: bool,
    /// The pieces of each line.
    pieces: &'a [Piece],
    /// The distance of the elements of a piece.
    stride: isize,
    /// The lines, one behind the other.
    lines: *mut N,
    width: usize,
    memory: PhantomData<&'a mut [N]>,
}

impl<'a, N> Lines<'a, N> {
    /// Names lines that begin at offsets from an element of an operand, `is_adjacent` if each follows the one before, and consist of
    /// pieces, whose elements are at a distance; and the memory of the lines, so many elements each.
    ///
    /// # Panics
    /// If the lines are not within the memory, or pieces not within a line.
    ///
    /// # Safety
    /// The elements of all pieces of all lines are valid in the operand, those between them for reads; for [`scatter`], the elements are valid
    /// for writes, and no two of them are the same.
    #[inline(always)]
    pub(super) unsafe fn new(
        operand: *mut N,
        (offsets, is_adjacent): (&'a [isize], bool),
        (pieces, stride): (&'a [Piece], isize),
        (lines, width): (&'a mut [N], usize),
    ) -> Lines<'a, N> {
        assert!(offsets.len() * width <= lines.len());
        for piece in pieces {
            assert!(piece.at <= width && piece.length <= width - piece.at);
        }
        let lines = lines.as_mut_ptr();
        Lines { operand, offsets, is_adjacent, pieces, stride, lines, width, memory: PhantomData }
    }
}

impl<N> Lines<'_, N> {
    /// Where the lines are.
    pub(super) const fn address(&self) -> *mut N {
        self.lines
    }
}

/// The two directions, for a level of processors. A value proves that this processor is of the level, as [`Tiles`](super::tile::Tiles) do.
///
/// # Safety
/// The processor has the level's features.
pub(super) struct Copies<N> {
    /// From the operand to the lines.
    pub(super) gather: unsafe fn(&Lines<'_, N>),
    /// Back.
    pub(super) scatter: unsafe fn(&Lines<'_, N>),
}

// The functions below are compiled for each level as a part of its own. They use no closures and no adapters of iterators: LLVM
// does not inline a function without the level's features if it calls one that passes vectors.

#[inline(always)]
pub(super) fn gather<N: Copy, V: Vector, const CHUNK: usize>(level: V::Level, lines: &Lines<'_, N>) {
    match lines.stride {
        1 => adjacent::<N, CHUNK, false>(lines),
        // The lines are what is adjacent in the operand.
        _ if lines.offsets.len() >= 4 && lines.is_adjacent => transposed::<N, V, false>(level, lines),
        // As convolutions of stride 2 need.
        2 => every_second::<N, V>(level, lines),
        stride => each_line::<N, false>(lines, stride),
    }
}

#[inline(always)]
pub(super) fn scatter<N: Copy, V: Vector, const CHUNK: usize>(level: V::Level, lines: &Lines<'_, N>) {
    match lines.stride {
        1 => adjacent::<N, CHUNK, true>(lines),
        _ if lines.offsets.len() >= 4 && lines.is_adjacent => transposed::<N, V, true>(level, lines),
        stride => each_line::<N, true>(lines, stride),
    }
}

/// Whether each offset follows the one before.
pub(super) fn is_adjacent(offsets: &[isize]) -> bool {
    offsets.windows(2).all(|pair| pair[1].wrapping_sub(pair[0]) == 1)
}

/// Copies lines that follow each other in the operand, back to it if `BACK`, four lines and a vector of columns at a time. The last
/// blocks overlap those before; pieces that are shorter than a vector are copied element by element.
#[inline(always)]
fn transposed<N: Copy, V: Vector, const BACK: bool>(level: V::Level, lines: &Lines<'_, N>) {
    const { assert!(size_of::<N>() == size_of::<V::Number>()) };
    let first = lines.offsets.first().copied().unwrap_or(0);
    let (count, operand) = (lines.offsets.len(), lines.operand.wrapping_offset(first));
    for piece in lines.pieces {
        let (from, to) = (operand.wrapping_offset(piece.from), lines.lines.wrapping_add(piece.at));
        if piece.length < V::LANES {
            for line in 0..count {
                let (from, to) = (from.wrapping_add(line), to.wrapping_add(line * lines.width));
                // SAFETY: `Lines::new`: these are the elements of the piece.
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
                // SAFETY: `Lines::new`: columns and lines of the block are among those of the piece, as it has as many columns as a
                // vector and there are four lines (`gather`, `scatter`).
                unsafe {
                    if BACK {
                        let mut vectors = [V::zero(level); 4];
                        let mut at = 0;
                        while at < 4 {
                            vectors[at] = V::load(level, to.wrapping_add(at * lines.width));
                            at += 1;
                        }
                        V::transpose_back(level, vectors, from, lines.stride);
                    } else {
                        let vectors = V::transpose(level, from, lines.stride);
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
fn adjacent<N: Copy, const CHUNK: usize, const BACK: bool>(lines: &Lines<'_, N>) {
    for piece in lines.pieces {
        // SAFETY: the piece is one of the lines', and has at least as many elements as a chunk.
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
///
/// # Safety
/// The piece is one of the lines', and has at least as many elements as a chunk.
#[inline(always)]
unsafe fn each_chunk<N: Copy, const CHUNK: usize, const BACK: bool>(lines: &Lines<'_, N>, piece: &Piece) {
    let mut line = lines.lines.wrapping_add(piece.at);
    let last = piece.length - CHUNK;
    for offset in lines.offsets {
        let operand = lines.operand.wrapping_offset(offset.wrapping_add(piece.from));
        let (from, to) = if BACK { (line, operand) } else { (operand, line) };
        let mut at = 0;
        // SAFETY: `Lines::new`: chunks are within the elements of the piece, as the caller promises. Arrays are aligned as their elements.
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
fn every_second<N: Copy, V: Vector>(level: V::Level, lines: &Lines<'_, N>) {
    const { assert!(size_of::<N>() == size_of::<V::Number>()) };
    for piece in lines.pieces {
        let mut line = lines.lines.wrapping_add(piece.at);
        for offset in lines.offsets {
            let operand = lines.operand.wrapping_offset(offset.wrapping_add(piece.from));
            // SAFETY: `Lines::new`: vectors hold elements of the piece, from the first one to the last.
            unsafe {
                if piece.length < V::LANES {
                    strided(operand, 2, line, 1, piece.length);
                } else {
                    let (mut at, last) = (0, piece.length - V::LANES);
                    while at < last {
                        V::load_even(level, operand.add(2 * at).cast()).store(line.add(at).cast());
                        at += V::LANES;
                    }
                    V::load_even(level, operand.add(2 * last).cast()).store(line.add(last).cast());
                }
            }
            line = line.wrapping_add(lines.width);
        }
    }
}

/// Copies elements at a distance from each other, back to the operand if `BACK`.
#[inline(always)]
fn each_line<N: Copy, const BACK: bool>(lines: &Lines<'_, N>, stride: isize) {
    let mut line = lines.lines;
    for offset in lines.offsets {
        let operand = lines.operand.wrapping_offset(*offset);
        for piece in lines.pieces {
            let (operand, line) = (operand.wrapping_offset(piece.from), line.wrapping_add(piece.at));
            // SAFETY: `Lines::new`: these are the elements of the piece.
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

/// Copies elements, at one distance from each other, to another distance.
///
/// # Safety
/// So many elements are valid at their addresses.
#[inline(always)]
unsafe fn strided<N: Copy>(from: *const N, from_stride: isize, to: *mut N, to_stride: isize, length: usize) {
    for at in 0..length as isize {
        // SAFETY: the caller promises so many elements on both sides.
        unsafe { to.offset(at * to_stride).write(load(from.offset(at * from_stride))) };
    }
}
