//! Operands whose elements are in another order: those that are copied once and read often, such as constants.

use super::ablation::Form;
use super::loops::{Kinds, Loop};
use super::machine::Machine;
use super::operand::OperandKind;
use super::plan::Plan;

/// The most loops of a contraction with an operand in another layout.
const MAX_LOOPS: usize = 8;

/// The left or the right operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The left operand.
    Left,
    /// The right operand.
    Right,
}

impl Side {
    /// How far an iteration of a loop moves the operand.
    #[must_use]
    pub const fn stride(self, of: &Loop) -> i64 {
        match self {
            Side::Left => of.left,
            Side::Right => of.right,
        }
    }

    fn set_stride(self, of: &mut Loop, stride: i64) {
        match self {
            Side::Left => of.left = stride,
            Side::Right => of.right = stride,
        }
    }

    /// Zero for left, one for right.
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Side::Left => 0,
            Side::Right => 1,
        }
    }

    pub(super) const fn other(self) -> Side {
        match self {
            Side::Left => Side::Right,
            Side::Right => Side::Left,
        }
    }
}

/// A loop that moves an operand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Axis {
    /// Trip count.
    pub count: usize,
    /// Distance of the elements of two iterations in the operand.
    pub stride: i64,
}

/// An order of an operand's elements, and the contraction of the operand in this order. Lengths and strides are in elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// The loops that move the operand, the outermost of the layout first; unused ones have one iteration.
    pub axes: [Axis; Layout::AXES],
    /// The strides of the axes in the layout.
    pub strides: [i64; Layout::AXES],
    loops: [Loop; MAX_LOOPS],
    count: usize,
}

impl Layout {
    /// Columns of a panel: so many are computed at once where a vector has 16 lanes, and compilers cut matrices into as many. A panel is
    /// read as it is stored; columns of a longer line are read in pieces, which took half as long again (`jax_lstm`, `llama`).
    pub const PANEL: usize = 64;

    /// The most loops that move the operand: those of a convolution's filters are output channels, of which each panel has some, input channels
    /// and two of the window.
    pub const AXES: usize = 5;

    /// Streams that the lines of a panel are interleaved from: each is in the stream after that of the line before. So a processor fetches
    /// ahead in as many pages, which took three quarters of the time where panels were in memory, and as long as one stream in a cache. It was
    /// no faster with eight.
    const STREAMS: usize = 4;

    /// Returns the layout in which vectors of an operand are adjacent, if the contraction is then expected to take less time: along
    /// the longest loop that moves the output and only this operand, or panels of it. None, too, where there would be more elements than
    /// `most`, because several iterations have the same.
    ///
    /// Rows of vectors that are adjacent as they are stored are laid out in panels, too, if several tiles read them: a tile would read a part
    /// of each row, which is in another page than the one before (docs/kernels.md, "Prepacked constants").
    pub(super) fn of(loops: &[Loop], side: Side, machine: &Machine, other: OperandKind, most: usize) -> Option<Layout> {
        let operands = |of: OperandKind| if side == Side::Left { [of, other] } else { [other, of] };
        let costed = |layout: &Layout| Plan::costed(layout.loops(), machine, operands(OperandKind::Layout));
        // In panels, or in lines where those make too many axes.
        let candidate = |panel: usize, streams: usize| {
            let panel = if Form::LayoutPanels.is_used() { panel } else { usize::MAX };
            Layout::candidate(loops, side, panel, streams).filter(|_| Form::Layouts.is_used())
        };
        let mut layout = candidate(Layout::PANEL, 1).or_else(|| candidate(usize::MAX, 1))?;
        let (mut plan, mut cycles) = costed(&layout)?;
        let is_adjacent = List::merged(loops)?.is_adjacent(side)?;
        // Several tiles that each load a part of a line would fetch the operand from memory in pieces, so panels are as wide as tiles. Where
        // each number of the other operand is in another line, it is faster as stored (1 x 1 convolutions of 7 x 7 maps).
        let in_pieces =
            |plan: &Plan, layout: &Layout| plan.columns_loaded_by_tiles().filter(|columns| *columns < layout.line());
        if let Some(columns) = in_pieces(&plan, &layout).filter(|_| plan.has_adjacent_numbers()) {
            layout = candidate(columns, 1)?;
            (plan, cycles) = costed(&layout)?;
        }
        if layout.elements() > most || in_pieces(&plan, &layout).is_some() {
            return None;
        }
        let (_, cycles_as_stored) = Plan::costed(loops, machine, operands(OperandKind::Memory))?;
        let pieces = plan.columns_loaded_by_tiles();
        let gains = match is_adjacent {
            true => {
                Form::LayoutsByRows.is_used()
                    && cycles <= cycles_as_stored
                    && pieces.is_some()
                    && plan.has_adjacent_numbers()
                    && !layout.is_as_stored()
            }
            false => cycles < cycles_as_stored,
        };
        if !gains {
            return None;
        }
        // What is read once comes from memory.
        let is_read_once = pieces.is_none() && plan.vectors * plan.lanes >= layout.line();
        let interleaved =
            if is_read_once && Form::Streams.is_used() { candidate(Layout::PANEL, Layout::STREAMS) } else { None };
        let is_alike = |interleaved: &Layout| costed(interleaved).is_some_and(|(each, _)| each.packing == plan.packing);
        Some(interleaved.filter(is_alike).unwrap_or(layout))
    }

    /// A layout of panels with so many columns, whose lines are interleaved from so many streams.
    fn candidate(loops: &[Loop], side: Side, panel: usize, streams: usize) -> Option<Layout> {
        let mut merged = List::merged(loops)?;
        let columns = merged.columns(side)?;
        let columns = merged.split(columns, panel)?;
        // The innermost of two loops that sum moves to the next stream.
        let stream = if streams > 1 { Some(merged.split_sums(side, streams)?) } else { None };
        let loops = merged.as_slice();
        let count = loops.len();
        let mut layout = Layout { count, ..Layout::default() };
        layout.loops[..count].copy_from_slice(loops);
        let others = |sums: bool| {
            let is_other =
                move |at: &usize| *at != columns && (loops[*at].output == 0) == sums && side.stride(&loops[*at]) != 0;
            (0..count).filter(is_other)
        };
        let sums = others(true).filter(move |at| Some(*at) != stream);
        let order = others(false).chain(stream).chain(sums).chain([columns]);
        let unused = Layout::AXES.checked_sub(order.clone().count())?;
        layout.axes = [Axis { count: 1, stride: 0 }; Layout::AXES];
        for (axis, at) in layout.axes[unused..].iter_mut().zip(order.clone()) {
            *axis = Axis { count: loops[at].count, stride: side.stride(&loops[at]) };
        }
        layout.strides = strides(&layout.axes)?;
        for (stride, at) in layout.strides[unused..].iter().zip(order) {
            side.set_stride(&mut layout.loops[at], *stride);
        }
        Some(layout)
    }

    /// The loops of the contraction.
    #[must_use]
    pub fn loops(&self) -> &[Loop] {
        &self.loops[..self.count]
    }

    /// Whether the elements are in the order in which they are stored.
    fn is_as_stored(&self) -> bool {
        self.axes.iter().zip(self.strides).all(|(axis, stride)| axis.count == 1 || axis.stride == stride)
    }

    /// The columns of a panel, or of all where there are none.
    const fn line(&self) -> usize {
        self.axes[Layout::AXES - 1].count
    }

    /// The number of elements.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.axes.iter().map(|axis| axis.count).product()
    }
}

/// Loops of which a layout is made.
#[derive(Default)]
struct List {
    loops: [Loop; MAX_LOOPS],
    count: usize,
}

impl List {
    /// The loops, those merged that go on where another one of their kind ends: axes are longer then, and fewer. None for too many.
    fn merged(loops: &[Loop]) -> Option<List> {
        let Kinds { batch, rows, columns, sums } = Kinds::of(loops.iter().copied())?;
        let mut merged = List::default();
        for each in [batch, rows, columns, sums].iter().flat_map(|kind| kind.as_slice()) {
            *merged.loops.get_mut(merged.count)? = *each;
            merged.count += 1;
        }
        Some(merged)
    }

    fn as_slice(&self) -> &[Loop] {
        &self.loops[..self.count]
    }

    /// The longest loop that moves the output and only one operand.
    fn columns(&self, side: Side) -> Option<usize> {
        let is_column = |each: &Loop| each.output != 0 && side.stride(each) != 0 && side.other().stride(each) == 0;
        (0..self.count).filter(|at| is_column(&self.loops[*at])).max_by_key(|at| self.loops[*at].count)
    }

    /// Whether the elements of its columns are adjacent. None if there are no columns.
    fn is_adjacent(&self, side: Side) -> Option<bool> {
        self.columns(side).map(|columns| side.stride(&self.loops[columns]) == 1)
    }

    /// Splits the innermost loop, if it sums and moves the operand, into two, of which the inner one has that trip count. Returns its position.
    /// None where the loop does not, or its trip count is no multiple.
    fn split_sums(&mut self, side: Side, length: usize) -> Option<usize> {
        let at = self.count.checked_sub(1)?;
        let last = self.loops[at];
        let is_sum = last.output == 0 && side.stride(&last) != 0;
        let inner = if is_sum { self.split(at, length)? } else { at };
        (inner != at).then_some(inner)
    }

    /// Splits a loop whose trip count is a multiple of `length`, and more, into two, of which the inner one has that trip count. Returns the
    /// position of the inner one, or of the loop as it was. None for too many loops.
    fn split(&mut self, at: usize, length: usize) -> Option<usize> {
        let Loop { count, output, left, right } = self.loops[at];
        if count <= length || !count.is_multiple_of(length) {
            return Some(at);
        }
        if self.count == MAX_LOOPS {
            return None;
        }
        let step = |stride: i64| stride.checked_mul(length as i64);
        let outer = Loop { count: count / length, output: step(output)?, left: step(left)?, right: step(right)? };
        self.loops.copy_within(at..self.count, at + 1);
        self.count += 1;
        (self.loops[at], self.loops[at + 1].count) = (outer, length);
        Some(at + 1)
    }
}

/// The strides of axes of which each goes on where the one within it ends. None where there are more elements than memory.
fn strides(axes: &[Axis; Layout::AXES]) -> Option<[i64; Layout::AXES]> {
    let mut strides = [1i64; Layout::AXES];
    for at in (1..Layout::AXES).rev() {
        strides[at - 1] = strides[at].checked_mul(i64::try_from(axes[at].count).ok()?)?;
    }
    let length = strides[0].checked_mul(i64::try_from(axes[0].count).ok()?)?;
    (length <= isize::MAX as i64 / 4).then_some(strides)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contraction::loops::each;
    use crate::contraction::tests::convolution;

    fn layout(loops: &[Loop], side: Side) -> Option<Layout> {
        Layout::of(loops, side, &Machine::X86_64_V4, OperandKind::Memory, 1 << 20)
    }

    #[test]
    fn matrices_by_columns_are_transposed() {
        let loops = [each(64, 1, 0, 256), each(256, 0, 1, 1)];
        let transposed = layout(&loops, Side::Right).map(|layout| layout.loops().to_vec());
        let interleaved = [each(64, 1, 0, 1), each(64, 0, 4, 64), each(4, 0, 1, 64 * 64)];
        assert_eq!(transposed.as_deref(), Some(&interleaved[..]));
        // The vector, which has no columns, and a matrix by rows.
        assert_eq!(layout(&loops, Side::Left), None);
        assert_eq!(layout(&[each(64, 1, 0, 1), each(256, 0, 1, 64)], Side::Right), None);
        // In panels, one after the other; others are a single one.
        let loops = [each(128, 1, 0, 9), each(9, 0, 1, 1)];
        let transposed = layout(&loops, Side::Right).map(|layout| (layout.strides, layout.loops().to_vec()));
        let panels = [each(2, 64, 0, 576), each(64, 1, 0, 1), each(9, 0, 1, 64)].to_vec();
        assert_eq!(transposed, Some(([1152, 1152, 576, 64, 1], panels)));
        let loops = [each(1000, 1, 0, 9), each(9, 0, 1, 1)];
        let transposed = layout(&loops, Side::Right).map(|layout| layout.loops().to_vec());
        assert_eq!(transposed.as_deref(), Some(&[each(1000, 1, 0, 1), each(9, 0, 1, 1000)][..]));
        let loops = [each(1024, 1, 0, 9), each(9, 0, 1, 1)];
        assert_eq!(Layout::of(&loops, Side::Right, &Machine::X86_64_V4, OperandKind::Memory, 9 * 1024 - 1), None);
    }

    #[test]
    fn plans_load_vectors_of_layouts() {
        // 1 x 1 over 512 maps of 7 x 7, to 512: whatever the plan of the matrices as stored, vectors are those of the layout.
        let loops = [each(512, 49, 1, 0), each(49, 1, 0, 1), each(512, 0, 512, 49)];
        let plan = |left: OperandKind| {
            let plan = Plan::costed(&loops, &Machine::X86_64_V4, [left, OperandKind::Memory]);
            plan.map(|(plan, _)| plan.is_swapped)
        };
        assert_eq!(plan(OperandKind::Layout), Some(true));
        let right = Plan::costed(&loops, &Machine::X86_64_V4, [OperandKind::Memory, OperandKind::Layout]);
        assert!(right.is_some_and(|(plan, _)| !plan.is_swapped));
    }

    #[test]
    fn tiles_read_no_lines_in_pieces() {
        // 1 x 1 over 512 maps of 7 x 7, to 64: strips of 64 columns, or of 16.
        let pixels =
            |count: usize| [each(64, count as i64, 512, 0), each(count, 1, 0, 1), each(512, 0, 1, count as i64)];
        let of =
            |loops: &[Loop], machine: &Machine| Layout::of(loops, Side::Left, machine, OperandKind::Memory, 1 << 20);
        assert!(of(&pixels(49), &Machine::X86_64_V4).is_some());
        assert!(of(&pixels(49), &Machine::X86_64_V3).is_none());
        // The same for the rest of the columns.
        assert!(of(&[each(5, 1, 512, 0), each(129, 5, 0, 1), each(512, 0, 1, 129)], &Machine::X86_64_V3).is_none());
        // The rows of one tile: each piece is read once.
        assert!(of(&pixels(4), &Machine::X86_64_V3).is_some());
    }

    #[test]
    fn what_several_tiles_read_is_in_panels_as_wide_as_tiles() {
        // 64 x 256, times a tile of 64 columns of a matrix by rows, and of one by columns.
        let by_rows = |rows: usize| [each(rows, 64, 256, 0), each(64, 1, 0, 1), each(256, 0, 1, 1024)];
        let by_columns = |rows: usize| [each(rows, 64, 256, 0), each(64, 1, 0, 256), each(256, 0, 1, 1)];
        let of = |loops: &[Loop], machine: &Machine| {
            let layout = Layout::of(loops, Side::Right, machine, OperandKind::Memory, 1 << 20);
            layout.map(|layout| {
                layout.loops()[1..].iter().map(|each| (each.count, each.right)).collect::<std::vec::Vec<_>>()
            })
        };
        for loops in [by_rows(64), by_columns(64)] {
            assert_eq!(of(&loops, &Machine::X86_64_V4), Some(std::vec![(64, 1), (256, 64)]));
            assert_eq!(of(&loops, &Machine::X86_64_V3), Some(std::vec![(4, 4096), (16, 1), (256, 16)]));
        }
        // Whatever the vectors.
        let machines = [Machine::X86_64_V4, Machine::X86_64_V3, Machine::NEON, Machine::SIMD128, Machine::PORTABLE];
        let tile = |columns: i64, sums: i64| [each(33, 64, 512, 0), each(64, 1, 0, columns), each(512, 0, 1, sums)];
        assert!(
            machines.iter().all(|machine| of(&tile(1, 128), machine).is_some() && of(&tile(512, 1), machine).is_some())
        );
        // As stored, it is a panel.
        let panel = [each(64, 64, 256, 0), each(64, 1, 0, 1), each(256, 0, 1, 64)];
        assert_eq!((of(&panel, &Machine::X86_64_V4), of(&panel, &Machine::X86_64_V3).is_some()), (None, true));
        // The rows of one tile read each row of the matrix once.
        assert_eq!((of(&by_rows(1), &Machine::X86_64_V3), of(&by_rows(4), &Machine::X86_64_V4)), (None, None));
        // The numbers of a row are each in another line.
        assert_eq!(of(&[each(64, 64, 1, 0), each(64, 1, 0, 1), each(256, 0, 64, 1024)], &Machine::X86_64_V3), None);
    }

    #[test]
    fn columns_that_are_no_whole_vectors_have_layouts() {
        for columns in [65, 129, 1025] {
            let loops = [each(2, columns, 512, 0), each(columns as usize, 1, 0, 512), each(512, 0, 1, 1)];
            for machine in [Machine::X86_64_V3, Machine::X86_64_V4] {
                assert!(
                    Layout::of(&loops, Side::Right, &machine, OperandKind::Memory, 1 << 20).is_some(),
                    "{columns} {}",
                    machine.name
                );
            }
        }
    }

    #[test]
    fn channels_of_small_maps_are_columns() {
        // 3 x 3 over 16 maps of 7 x 7, to 64.
        let filter = |channels: usize| -> Option<std::vec::Vec<i64>> {
            let layout = layout(&convolution(channels, 7, 16, 3, 1), Side::Left)?;
            Some(layout.loops().iter().map(|each| each.left).collect())
        };
        assert_eq!(filter(64), Some(std::vec![1, 0, 0, 576, 192, 64]));
        // To 128: two panels.
        assert_eq!(filter(128), Some(std::vec![9216, 1, 0, 0, 576, 192, 64]));
    }
}
