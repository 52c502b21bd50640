//! What tiles fetch for those that come later.

use std::vec::Vec;

use super::convolution;
use crate::contraction::loops::each;
use crate::contraction::tile::{Ahead, Product, Row, Shape, Tile};
use crate::contraction::{Initial, Loop, Machine, OperandKind, Plan};

#[test]
fn tiles_fetch_all_of_the_next_strip() {
    let (numbers, rows, products) = ([0f32; 1], [Row::default(); 56], [Product::default(); 514]);
    // 49 rows of a strip of 64 columns, whose next one is right behind.
    let strip = |count: usize| {
        let next = numbers.as_ptr().wrapping_add(64 * count);
        let tile = Tile {
            output: core::ptr::null_mut(),
            initial: Initial::Zeros,
            left: numbers.as_ptr(),
            right: numbers.as_ptr(),
            rows: &rows,
            products: &products[..count],
            shape: Shape::of(Shape::SHARED, 16).with(4),
            tail: 16,
            stride: 0,
            distance: None,
            lines: 0,
            ahead: Ahead::Strip(next, next.wrapping_add(64 * count)),
        };
        (tile, next)
    };
    // What the next tiles fetch, in lines from an address on.
    let fetched = |tile: &Tile<'_, f32>, tiles: usize, from: *const f32| -> Vec<(usize, usize)> {
        let of = (0..tiles).map(|at| tile.ahead_of(&[Row::default(); 6], at)).filter(|(_, step)| *step > 0);
        let count = tile.products.len();
        of.map(|(first, step)| ((first as usize).wrapping_sub(from as usize) / 64, count / 4 * 2 * step / 16)).collect()
    };
    for (count, lines, tiles) in [(512, 256, 8), (514, 256, 9), (7, 2, 9)] {
        let (mut tile, next) = strip(count);
        let mut all = fetched(&tile, 5, next);
        tile.fetch_after(5);
        all.extend(fetched(&tile, 4, next));
        let expected: Vec<_> = (0..tiles).map(|at| (lines * at, lines)).collect();
        assert_eq!(all, expected);
        let (mut tile, next) = strip(count);
        tile.repeat(Row { output: 0, left: 0, right: 1 << 20 });
        assert_eq!(fetched(&tile, 9, next.wrapping_add(1 << 20)), expected);
    }
}

#[test]
fn the_next_panel_follows() {
    // 3 x 3 over 128 maps of 7 x 7, to 64 and to 256 in panels of 64: 1152 products, in two passes.
    let filters = |panels: usize| {
        let [channels, y, x, sums @ ..] = convolution(64, 7, 128, 3, 1);
        let [inputs, down, along] = sums.map(|each| Loop { left: 64 * each.left, ..each });
        let panel = each(panels, 64 * 49, 64 * channels.left, 0);
        [panel, Loop { left: 1, ..channels }, y, x, inputs, down, along]
    };
    let next = |loops: &[Loop], left: OperandKind| {
        let (plan, _) = Plan::costed(loops, &Machine::X86_64_V4, [left, OperandKind::Memory]).unwrap();
        assert_eq!((plan.is_swapped, plan.cut.pass), (left == OperandKind::Layout, 576));
        [(4, 576), (3, 576)].map(|(vectors, products)| plan.next_panel(vectors, products))
    };
    assert_eq!(next(&filters(4), OperandKind::Layout), [Some(64 * 1152), None]);
    assert_eq!(next(&filters(1), OperandKind::Layout), [Some(64 * 576), None]);
    // As stored, maps of 8 x 8 are the columns, and packed.
    assert_eq!(next(&convolution(64, 8, 128, 3, 1), OperandKind::Memory), [None, None]);
}

#[test]
fn rows_to_be_fetched_follow_each_other() {
    let cut = |loops: &[Loop]| Plan::of(loops, &Machine::X86_64_V3).unwrap().cut;
    // Of 64 rows, at a distance from each other, of a product with 512 x 96, and the same with exchanged operands.
    let rows = |distance: i64| [each(64, 96, distance, 0), each(512, 0, 1, 96), each(96, 1, 0, 1)];
    let exchanged = rows(512).map(|each| Loop { left: each.right, right: each.left, ..each });
    assert!(cut(&rows(512)).has_adjacent_rows_of(512) && cut(&exchanged).has_adjacent_rows_of(512));
    assert!(!cut(&rows(512)).has_adjacent_rows_of(256) && !cut(&rows(520)).has_adjacent_rows_of(512));
    let every_second = rows(1024).map(|each| Loop { left: 2 * (each.left % 1024) + each.left / 1024 * 1024, ..each });
    assert!(!cut(&every_second).has_adjacent_rows_of(512));
}
