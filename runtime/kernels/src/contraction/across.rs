//! Contractions whose vectors hold an element of each of some iterations of a loop that moves all operands: of channels, say.

use super::Initial;
use super::blocking::{PANEL, PRODUCTS};
use super::copy::{Lines, is_adjacent};
use super::drive::{Drive, run_tiles};
use super::loops::Offsets;
use super::operand::Piece;
use super::plan::Packing;
use super::scratch::Scratch;
use super::tile::{Product, Row, Tile};

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
    /// As for [`Drive::run`]; rows, products and base are those of iterations, and [`Drive::list_across`] has returned the spans.
    pub(super) unsafe fn run_across(
        &mut self,
        [left_span, right_span]: [Span; 2],
        (rows, products): (usize, usize),
        base: Offsets,
    ) {
        let (Some(left), Some(right)) = (self.left.address(), self.right.address()) else { return };
        let (across, width, sizes) = (self.plan.across, self.plan.lanes, self.tiles.across[0]);
        for first in (0..across.count).step_by(width) {
            let (at, lanes) = (base.after(first, &across), width.min(across.count - first));
            let (left, right) = (left.wrapping_offset(at.left as isize), right.wrapping_offset(at.right as isize));
            let output = self.output.wrapping_offset(at.output as isize);
            // SAFETY: the caller promises the elements of rows and products in all iterations of the loop across, of which these are some. The
            // spans contain those and what is between them, which may be read.
            let operands = unsafe {
                (
                    self.lanes_of(left, left_span, (across.left, lanes), true),
                    self.lanes_of(right, right_span, (across.right, lanes), false),
                )
            };
            let lists = (&self.scratch.tile_rows[..rows], &self.scratch.products[..products]);
            let tile = self.tile_at(output, operands, lists, (1, lanes));
            if across.output == 1 {
                // SAFETY: as above; `list_across` has listed where rows and products are in what `lanes_of` has returned.
                unsafe { run_tiles(sizes, tile, (1, Row::default())) };
                continue;
            }
            let offsets = (&self.scratch.outputs[..rows], self.scratch.are_outputs_adjacent);
            let pieces = [Piece { from: 0, at: 0, length: lanes }];
            let memory = (&mut self.scratch.tiles[..], width);
            // SAFETY: as above; `list_across` has listed where the rows are in the output, and a line of the memory for each.
            // `Tiles` prove the features of their functions.
            unsafe {
                let packed = Lines::new(output, offsets, (&pieces, across.output as isize), memory);
                if self.initial == Initial::Stored {
                    (self.tiles.copies.gather)(&packed);
                }
                run_tiles(sizes, Tile { output: packed.address(), ..tile }, (1, Row::default()));
                (self.tiles.copies.scatter)(&packed);
            }
        }
    }

    /// Returns where the lanes of an operand are: in the operand, or in a panel, into which they are packed.
    ///
    /// # Safety
    /// The elements of the span are valid, at the strides of so many lanes.
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
        let pieces = [Piece { from: 0, at: 0, length: lanes }];
        for line in (0..span.length).step_by(PRODUCTS) {
            let first = operand.wrapping_offset(span.first).wrapping_add(line).cast_mut();
            let offsets = (&offsets[..PRODUCTS.min(span.length - line)], true);
            // SAFETY: the caller promises the elements of the span. `Tiles` prove the features of their functions.
            unsafe {
                let lines = Lines::new(first, offsets, (&pieces, stride as isize), (&mut panel[line * width..], width));
                (self.tiles.copies.gather)(&lines);
            }
        }
        panel.as_ptr()
    }
}
