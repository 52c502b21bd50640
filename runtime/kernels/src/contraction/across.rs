//! Contractions whose vectors hold an element of each of some iterations of a loop that moves all operands: of channels, say.

use super::Initial;
use super::blocking::{PANEL, PRODUCTS};
use super::copy::{Lines, is_adjacent};
use super::drive::{Drive, run_tiles};
use super::loops::Offsets;
use super::operand::Piece;
use super::plan::Packing;
use super::scratch::Scratch;
use super::tile::{Product, Row};

/// Adjacent elements of an operand.
#[derive(Clone, Copy)]
pub(super) struct Span {
    first: isize,
    length: usize,
}

impl Span {
    fn of(offsets: impl Iterator<Item = isize>) -> Span {
        let (least, greatest) =
            offsets.fold((isize::MAX, isize::MIN), |(least, greatest), each| (least.min(each), greatest.max(each)));
        Span { first: least, length: greatest.abs_diff(least) + 1 }
    }

    /// Of all sums of an offset of each.
    const fn plus(self, other: Span) -> Span {
        Span { first: self.first + other.first, length: self.length + other.length - 1 }
    }
}

impl<N: Copy> Drive<'_, N> {
    /// How far apart the right operands of listed rows may be: so that a panel holds what all products of the rows access.
    pub(super) fn reach_of_rows(&self) -> u64 {
        let is_packed = self.plan.packing == Packing::Across && self.plan.across.right != 1;
        if is_packed { (PANEL / self.plan.lanes - self.plan.sums.span(|each| each.right)) as u64 } else { u64::MAX }
    }

    /// Makes the offsets of listed rows and products those in panels, where operands or the output are packed. Returns what they access in
    /// the left and in the right operand.
    pub(super) fn list_across(&mut self, rows: usize, products: usize) -> [Span; 2] {
        let (across, lanes) = (self.plan.across, self.plan.lanes as isize);
        let [left, right] = [|source: &Product| source.left, |source: &Product| source.right]
            .map(|offset| Span::of(self.scratch.sources[..products].iter().map(offset)));
        let of_rows = Span::of(self.scratch.rows[..rows].iter().map(|row| row.right));
        let Scratch { products: listed, sources, rows: listed_rows, tile_rows, outputs, are_outputs_adjacent, .. } =
            &mut *self.scratch;
        for (product, source) in listed.iter_mut().zip(sources).take(products) {
            product.left = if across.left == 1 { source.left } else { (source.left - left.first) * lanes };
            product.right = if across.right == 1 { source.right } else { (source.right - right.first) * lanes };
        }
        let tile_rows = &mut tile_rows[..rows];
        if across.right != 1 {
            tile_rows.iter_mut().for_each(|row| row.right = (row.right - of_rows.first) * lanes);
        }
        if across.output != 1 {
            tile_rows.iter_mut().zip(0..).for_each(|(row, at)| row.output = at * lanes);
            outputs.iter_mut().zip(&listed_rows[..rows]).for_each(|(output, row)| *output = row.output);
            *are_outputs_adjacent = is_adjacent(&outputs[..rows]);
        }
        [left, right.plus(of_rows)]
    }

    /// Runs the listed rows and products, which access these spans, for all lanes.
    ///
    /// # Safety
    /// As for [`contract`](super::contract); the processor has the features of the tiles.
    pub(super) unsafe fn run_across(
        &mut self,
        [left_span, right_span]: [Span; 2],
        (rows, products): (usize, usize),
        base: Offsets,
    ) {
        let (Some(left), Some(right)) = (self.left.address(), self.right.address()) else { return };
        let (across, width) = (self.plan.across, self.plan.lanes);
        for first in (0..across.count).step_by(width) {
            let (at, lanes) = (base.after(first, &across), width.min(across.count - first));
            // SAFETY: promised by the caller: elements of all rows, products and lanes are valid.
            unsafe {
                let left = self.lanes_of(left.wrapping_offset(at.left as isize), left_span, (across.left, lanes), true);
                let right = right.wrapping_offset(at.right as isize);
                let right = self.lanes_of(right, right_span, (across.right, lanes), false);
                let output = self.output.wrapping_offset(at.output as isize);
                if across.output == 1 {
                    self.run_tiles_across(output, (left, right), (rows, products), lanes);
                    continue;
                }
                let lines = self.scratch.tiles.as_mut_ptr();
                let packed = Lines {
                    operand: output,
                    offsets: &self.scratch.outputs[..rows],
                    is_adjacent: self.scratch.are_outputs_adjacent,
                    pieces: &[Piece { from: 0, at: 0, length: lanes }],
                    stride: across.output as isize,
                    lines,
                    width,
                };
                if self.initial == Initial::Stored {
                    (self.tiles.copies.gather)(&packed);
                }
                self.run_tiles_across(lines, (left, right), (rows, products), lanes);
                (self.tiles.copies.scatter)(&packed);
            }
        }
    }

    /// Returns where the lanes of an operand are: in the operand, or in a panel, into which they are packed.
    unsafe fn lanes_of(
        &mut self,
        operand: *const N,
        span: Span,
        (stride, lanes): (i64, usize),
        is_left: bool,
    ) -> *const N {
        if stride == 1 {
            return operand;
        }
        // Fields each for itself: the other operand may be in another one.
        let offsets = &mut self.scratch.offsets;
        let panel = if is_left { &mut self.scratch.left } else { &mut self.scratch.panel };
        let width = self.plan.lanes;
        offsets.iter_mut().zip(0..).take(span.length).for_each(|(offset, line)| *offset = line);
        for line in (0..span.length).step_by(PRODUCTS) {
            let lines = Lines {
                operand: operand.wrapping_offset(span.first).wrapping_add(line).cast_mut(),
                offsets: &offsets[..PRODUCTS.min(span.length - line)],
                is_adjacent: true,
                pieces: &[Piece { from: 0, at: 0, length: lanes }],
                stride: stride as isize,
                lines: panel[line * width..].as_mut_ptr(),
                width,
            };
            // SAFETY: promised by the caller; the plan has checked that the panel holds the span.
            unsafe { (self.tiles.copies.gather)(&lines) };
        }
        panel.as_ptr()
    }

    /// Runs all tiles of the listed rows, whose outputs are adjacent vectors.
    unsafe fn run_tiles_across(
        &self,
        output: *mut N,
        operands: (*const N, *const N),
        (rows, products): (usize, usize),
        lanes: usize,
    ) {
        let tile = self.tile_at(output, operands, products, (1, lanes));
        // SAFETY: promised by the caller.
        unsafe { run_tiles(self.tiles.across[0], tile, rows, (1, Row::default())) };
    }
}
