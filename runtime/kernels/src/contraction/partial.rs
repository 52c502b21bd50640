//! Sums along adjacent elements, by partial sums.
//!
//! Where both operands are adjacent along a loop that sums, as in a product of a matrix by rows and a vector, elements of the
//! output are far from each other in both operands. Vectors then need the products of one element, which are added to
//! [`PARTIAL`] partial sums. That is another order of additions, but one that no processor and no plan changes:
//!
//! - Product `i` of a run of that loop is added to the partial sum `i` modulo [`PARTIAL`]. Runs follow each other in the order
//!   of the other loops that sum, and products of zeros pad each to a multiple of [`PARTIAL`].
//! - Partial sums start at zero. At the end each of the lower half is added to by that of the upper half, until one is left, and that
//!   is added to the element.

use core::fmt;

use super::arithmetic::Arithmetic;
use super::blocking::{COLUMNS, PANEL, PARTIAL, PRODUCTS, TILE_ROWS};
use super::costs::{IN_ORDER, IN_PARTIAL_SUMS, PACKED_NUMBER, PARTIAL_SUMS};
use super::loops::{Kinds, Loop, Loops, MAX_LOOPS, Offsets, Walk};
use super::operand::{Gather, Operand};
use super::scratch::Scratch;
use super::tile::partial::{Finish, ROW_STRIDE, Tile, Tiles};

/// How the products of an element are added. All parts of a divided contraction must be run alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sums {
    /// One after the other, in the order of the loops.
    Sequential,
    /// In partial sums along a loop in which both operands are adjacent.
    Partial,
}

impl Sums {
    /// Returns how a contraction is expected to take the least time, if its operation allows any order. It depends on nothing but
    /// the loops, so that results are the same on every processor.
    #[must_use]
    pub fn of<O: Arithmetic>(loops: &[Loop]) -> Sums {
        let pays = O::ANY_ORDER && Partial::of(loops).is_some_and(|partial| partial.pays());
        if pays { Sums::Partial } else { Sums::Sequential }
    }
}

/// The plan of a contraction by partial sums.
///
/// ```
/// use incarnate_kernels::contraction::{Loop, Partial};
///
/// // A matrix of 512 rows of 784 elements times a vector.
/// let loops = [Loop { count: 512, output: 1, left: 784, right: 0 }, Loop { count: 784, output: 0, left: 1, right: 1 }];
/// let plan = Partial::of(&loops).filter(Partial::pays).map(|plan| plan.to_string());
/// assert_eq!(plan.as_deref(), Some("1 rows x 512 columns, sums of 784 in 16 partial sums along adjacent elements"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partial {
    /// Loops that move the output and both operands.
    pub(super) batch: Loops,
    /// Loops that move the output and the left operand; not more iterations than `columns` have.
    pub(super) rows: Loops,
    /// Loops that move the output and the right operand.
    pub(super) columns: Loops,
    /// Loops that do not move the output, but for `along`.
    pub(super) outer: Loops,
    /// The loop that does not move the output and in which both operands are adjacent.
    pub(super) along: Loop,
    /// The operands are exchanged: left is right.
    pub(super) is_swapped: bool,
    /// The times that a number which is packed for sums in the order of the loops is used; none if vectors of the operand along the
    /// output's adjacent elements are there without.
    uses: Option<usize>,
}

impl Partial {
    /// Plans a contraction; None where there is no loop that sums and in which both operands are adjacent.
    #[must_use]
    pub fn of(loops: &[Loop]) -> Option<Partial> {
        if loops.len() > MAX_LOOPS {
            return None;
        }
        let Kinds { batch, rows, columns, sums: mut outer } = Kinds::of(loops.iter().copied())?;
        let along = outer.as_slice().iter().rposition(|each| each.left == 1 && each.right == 1)?;
        let along = outer.remove(along);
        let adjacent = |loops: &Loops| loops.as_slice().iter().find(|each| each.output == 1).copied();
        let uses = match (adjacent(&columns), adjacent(&rows)) {
            (Some(column), _) => (column.right != 1).then(|| rows.count()),
            (None, Some(row)) => (row.left != 1).then(|| columns.count()),
            (None, None) => Some(if columns.as_slice().is_empty() { 1 } else { rows.count() }),
        };
        let mut plan = Partial { batch, rows, columns, outer, along, is_swapped: false, uses };
        if plan.rows.count() > plan.columns.count() {
            plan = Partial {
                batch: batch.swapped(),
                rows: columns.swapped(),
                columns: rows.swapped(),
                outer: outer.swapped(),
                is_swapped: true,
                ..plan
            };
        }
        Some(plan)
    }

    /// Whether partial sums are expected to take less time than sums in the order of the loops, for which vectors of one operand may
    /// have to be packed.
    #[must_use]
    pub fn pays(&self) -> bool {
        let products = self.outer.count().saturating_mul(self.along.count);
        let packing = self.uses.map_or(0, |uses| products.saturating_mul(PACKED_NUMBER) / uses.max(1));
        self.cost_of_element() <= products.saturating_mul(IN_ORDER).saturating_add(packing)
    }

    /// The time that an element of the output takes with partial sums, in 1/64 of a cycle.
    fn cost_of_element(&self) -> usize {
        let padded = self.outer.count().saturating_mul(self.along.count.div_ceil(PARTIAL)).saturating_mul(PARTIAL);
        padded.saturating_mul(IN_PARTIAL_SUMS).saturating_add(PARTIAL_SUMS)
    }

    /// The cycles that the contraction is expected to take with partial sums.
    pub(super) fn cycles(&self) -> usize {
        let elements = [&self.batch, &self.rows, &self.columns].map(Loops::count);
        elements.into_iter().fold(self.cost_of_element(), usize::saturating_mul) / 64
    }
}

impl fmt::Display for Partial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let batch = self.batch.count();
        if batch != 1 {
            write!(f, "{batch} times ")?;
        }
        let products = self.outer.count().saturating_mul(self.along.count);
        write!(f, "{} rows x {} columns, ", self.rows.count(), self.columns.count())?;
        write!(f, "sums of {products} in {PARTIAL} partial sums along adjacent elements")
    }
}

/// Rows and columns of a block, whose partial sums are in memory at the same time.
const BLOCK_ROWS: usize = TILE_ROWS;
const BLOCK_COLUMNS: usize = COLUMNS;
/// Some rows or columns: how far the output and the operand are.
#[derive(Clone, Copy, Debug)]
struct Listed<const N: usize> {
    output: [isize; N],
    operand: [isize; N],
    count: usize,
}

impl<const N: usize> Listed<N> {
    /// Lists the next iterations, at most `left`; `step` is the innermost loop.
    fn next(walk: &mut Walk<'_>, step: &Loop, left: usize, operand: impl Fn(&Offsets) -> i64) -> Listed<N> {
        let mut listed = Listed { output: [0; N], operand: [0; N], count: left.min(N) };
        let mut at = 0;
        while at < listed.count {
            let (mut offsets, run) = (walk.offsets(), walk.run().min(listed.count - at));
            for (output, of_operand) in listed.output[at..at + run].iter_mut().zip(&mut listed.operand[at..at + run]) {
                (*output, *of_operand) = (offsets.output as isize, operand(&offsets) as isize);
                offsets = offsets.after(1, step);
            }
            walk.advance(run);
            at += run;
        }
        listed
    }
}

/// A contraction under way.
pub(super) struct Drive<'a, N: 'static> {
    pub(super) plan: &'a Partial,
    pub(super) tiles: &'static Tiles<N>,
    pub(super) output: *mut N,
    pub(super) left: Operand<'a, N>,
    pub(super) right: Operand<'a, N>,
    pub(super) zero: N,
    pub(super) scratch: &'a mut Scratch<N>,
}

impl<N: Copy> Drive<'_, N> {
    /// Runs the contraction.
    ///
    /// # Safety
    /// As for [`contract`](super::contract); the plan is one of its loops.
    pub(super) unsafe fn run(&mut self) {
        let plan = self.plan;
        let mut batch = Walk::new(&plan.batch);
        for _ in 0..plan.batch.count() {
            let base = batch.offsets();
            batch.advance(1);
            let (mut walk, mut columns_left) = (Walk::new(&plan.columns), plan.columns.count());
            while columns_left > 0 {
                let columns = Listed::next(&mut walk, &plan.columns.innermost(), columns_left, |offsets| offsets.right);
                columns_left -= columns.count;
                let (mut walk, mut rows_left) = (Walk::new(&plan.rows), plan.rows.count());
                while rows_left > 0 {
                    let rows = Listed::next(&mut walk, &plan.rows.innermost(), rows_left, |offsets| offsets.left);
                    rows_left -= rows.count;
                    // SAFETY: `Walk` returns the offsets of iterations alone, of which the caller promises the elements.
                    unsafe { self.block(&rows, &columns, base) };
                }
            }
        }
    }

    /// Adds all products of some elements.
    ///
    /// # Safety
    /// As for [`Drive::run`]; rows, columns and base are those of iterations.
    unsafe fn block(&mut self, rows: &Listed<BLOCK_ROWS>, columns: &Listed<BLOCK_COLUMNS>, base: Offsets) {
        let plan = self.plan;
        for row in 0..rows.count {
            self.scratch.sums[row * ROW_STRIDE..][..columns.count * PARTIAL].fill(self.zero);
        }
        let mut outer = Walk::new(&plan.outer);
        for _ in 0..plan.outer.count() {
            let run = base.plus(outer.offsets());
            outer.advance(1);
            for at in (0..plan.along.count).step_by(PRODUCTS) {
                let count = (plan.along.count - at).min(PRODUCTS);
                // SAFETY: the caller promises rows, columns and base; products of `outer` and `along` are those of iterations, too: `Walk`.
                unsafe { self.products(rows, columns, run.after(at, &plan.along), count) };
            }
        }
        for row in 0..rows.count {
            let first = base.output.wrapping_add(rows.output[row] as i64) as isize;
            let (sums, output) = (&self.scratch.sums[row * ROW_STRIDE..], self.output.wrapping_offset(first));
            // SAFETY: these are elements of iterations, as the caller promises. `Tiles` prove the features of their functions.
            unsafe { (self.tiles.finish)(&Finish::new(sums, output, &columns.output[..columns.count])) };
        }
    }

    /// Adds some products of a run to the partial sums, from those at `first` on.
    ///
    /// # Safety
    /// As for [`Drive::block`]; so many products from `first` on are those of iterations.
    unsafe fn products(
        &mut self,
        rows: &Listed<BLOCK_ROWS>,
        columns: &Listed<BLOCK_COLUMNS>,
        first: Offsets,
        count: usize,
    ) {
        let Scratch { left, panel, sums, .. } = &mut *self.scratch;
        // SAFETY: the caller promises that the elements are those of iterations. `lines` returns where as many adjacent numbers of the
        // first rows and columns are, so many as are listed.
        let mut tile = unsafe {
            let left = lines(self.left.moved(first.left), rows, left, count);
            let right = lines(self.right.moved(first.right), columns, panel, count);
            Tile::new(left, right, count, sums)
        };
        let mut row = 0;
        while let Some((height, widths)) = self.tiles.sizes.iter().find(|size| size.0 <= rows.count - row) {
            let mut column = 0;
            while let Some((width, run)) = widths.iter().find(|size| size.0 <= columns.count - column) {
                // SAFETY: rows and columns of this size are listed from there on: they are no more than are left. `Tiles` prove the
                // features of their functions.
                unsafe {
                    tile.move_to(row, column);
                    run(&mut tile);
                }
                column += width;
            }
            row += height;
        }
    }
}

/// The address of the first of some adjacent numbers of an operand, and how far from there those of each row are: in the operand, or
/// in `packed`, into which they are computed.
///
/// # Safety
/// So many elements of each listed row are those of iterations.
unsafe fn lines<'o, N: Copy, const ROWS: usize>(
    operand: Operand<'_, N>,
    rows: &'o Listed<ROWS>,
    packed: &mut [N; PANEL],
    count: usize,
) -> (*const N, &'o [isize; ROWS]) {
    let (operand, element): (&dyn Gather<N>, i64) = match operand {
        Operand::Memory(address) | Operand::Layout(address) => return (address, &rows.operand),
        Operand::Computed(operand, element) => (operand, element),
    };
    for (offset, line) in rows.operand[..rows.count].iter().zip(packed.chunks_exact_mut(PRODUCTS)) {
        // SAFETY: the caller promises so many elements of each listed row.
        unsafe { operand.gather(element.wrapping_add(*offset as i64), 1, &mut line[..count]) };
    }
    (packed.as_ptr(), const { &lines_of_panel() })
}

/// Where the packed lines of an operand begin.
const fn lines_of_panel<const ROWS: usize>() -> [isize; ROWS] {
    const { assert!(ROWS * PRODUCTS <= PANEL) };
    let mut lines = [0; ROWS];
    let mut at = 0;
    while at < ROWS {
        lines[at] = (at * PRODUCTS) as isize;
        at += 1;
    }
    lines
}
