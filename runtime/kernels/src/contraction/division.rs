//! The choice of the loop of a contraction that threads divide.

use super::layout::Side;
use super::loops::Loop;
use super::operand::OperandKind;

/// The most loops of a contraction that is divided: so few that all of its parts are planned, whose sums have the same order then.
/// Nests of more are none that compilers emit.
pub const MAX_DIVIDED: usize = 8;

/// The fewest iterations of a loop that is divided rather than the columns of a panel.
const LEAST_AROUND_PANELS: usize = 4;

/// A loop is divided instead of the longest one if that has at most so many times its iterations.
const SHORTER: usize = 4;

/// The loop that is divided: the longest of those that move the output, but the columns of a layout's panel only where no other loop has
/// iterations enough, as they are vectors. Threads that divide a loop which does not move what is packed would pack all of it, each for itself;
/// so that has to, unless it is much shorter.
pub(super) fn divisible(loops: &[Loop], kinds: [OperandKind; 2], packed: Option<Side>) -> Option<usize> {
    let is_of_panel = |each: &Loop| {
        let of = |kind: OperandKind, own: i64, other: i64| kind == OperandKind::Layout && own == 1 && other == 0;
        of(kinds[0], each.left, each.right) || of(kinds[1], each.right, each.left)
    };
    let longest_of = |is_of: &dyn Fn(&Loop) -> bool| {
        // Of those that are as long, the outermost.
        let found = (0..loops.len()).rev().filter(|at| loops[*at].output != 0 && is_of(&loops[*at]));
        found.max_by_key(|at| loops[*at].count)
    };
    let around = longest_of(&|each| !is_of_panel(each)).filter(|at| loops[*at].count >= LEAST_AROUND_PANELS);
    let longest = around.or_else(|| longest_of(&|_| true)).filter(|_| loops.len() <= MAX_DIVIDED)?;
    let other = packed.and_then(|side| longest_of(&|each| side.stride(each) != 0));
    Some(other.filter(|other| loops[*other].count * SHORTER >= loops[longest].count).unwrap_or(longest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contraction::loops::each;
    use crate::contraction::{Machine, Plan};

    const IN_MEMORY: [OperandKind; 2] = [OperandKind::Memory; 2];

    #[test]
    fn columns_of_panels_are_divided_last() {
        // Rows, panels of 64 columns, and sums of 512.
        let of = |rows: usize, panels: usize, kinds: [OperandKind; 2]| {
            let loops = [each(rows, 1024, 512, 0), each(panels, 64, 0, 8192), each(64, 1, 0, 1), each(512, 0, 1, 64)];
            divisible(&loops, kinds, None)
        };
        let of_layout = |rows: usize, panels: usize| of(rows, panels, [OperandKind::Memory, OperandKind::Layout]);
        assert_eq!(
            [(8, 16), (8, 3), (3, 4)].map(|(rows, panels)| of_layout(rows, panels)),
            [Some(1), Some(0), Some(1)]
        );
        assert_eq!([of_layout(3, 3), of_layout(1, 1), of(8, 16, IN_MEMORY)], [Some(2); 3]);
        // 3 x 3 over 128 maps of 28 x 28, to the 64 columns of a panel.
        let convolution = [
            each(64, 784, 1, 0),
            each(28, 28, 0, 30),
            each(28, 1, 0, 1),
            each(128, 0, 576, 900),
            each(3, 0, 192, 30),
            each(3, 0, 64, 1),
        ];
        assert_eq!(divisible(&convolution, [OperandKind::Layout, OperandKind::Memory], None), Some(1));
        assert_eq!(divisible(&convolution, IN_MEMORY, None), Some(0));
        assert_eq!(divisible(&[each(512, 0, 1, 1)], IN_MEMORY, None), None);
    }

    #[test]
    fn what_is_packed_is_divided() {
        // 3 x 3 over 16 maps, to 64.
        let convolution = |side: usize| {
            let (pixels, line) = ((side * side) as i64, side as i64 + 2);
            [
                each(64, pixels, 144, 0),
                each(side, side as i64, 0, line),
                each(side, 1, 0, 1),
                each(16, 0, 9, line * line),
                each(3, 0, 3, line),
                each(3, 0, 1, 1),
            ]
        };
        let of = |side: usize, packed: Option<Side>| divisible(&convolution(side), IN_MEMORY, packed);
        // Lines of the image, unless there are few.
        assert_eq!([28, 16, 15].map(|side| of(side, Some(Side::Right))), [Some(1), Some(1), Some(0)]);
        assert_eq!([of(28, None), of(28, Some(Side::Left)), of(112, Some(Side::Left))], [Some(0), Some(0), Some(0)]);
        assert_eq!(of(112, None), Some(1));
        let packed = |loops: &[Loop]| Plan::of(loops, &Machine::X86_64_V3).and_then(|plan| plan.packed());
        assert_eq!(packed(&convolution(28)), Some(Side::Right));
        let exchanged = convolution(28).map(|each| Loop { left: each.right, right: each.left, ..each });
        let packed = packed(&exchanged);
        assert_eq!((packed, divisible(&exchanged, IN_MEMORY, packed)), (Some(Side::Left), Some(1)));
    }
}
