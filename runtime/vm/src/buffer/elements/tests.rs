use super::*;
use crate::Ref;
use crate::buffer::HasMemory;
use alloc::sync::Arc;
use alloc::vec::Vec;
use incarnate_bytecode::Contents;

fn buffer(bytes: &[u8]) -> Ref {
    Ref::Buffer(Buffer::copy_of(bytes).unwrap())
}

fn numbers(count: u32) -> Ref {
    buffer(&(0..count).flat_map(u32::to_ne_bytes).collect::<Vec<u8>>())
}

fn grid<T: Element, const D: usize>(of: &Ref, base: i64, loops: [(usize, i64); D]) -> Option<Grid<'_, T, D>> {
    // SAFETY: each test has one thread that accesses the buffer.
    unsafe { of.memory()?.grid(base, loops) }
}

fn grid_mut<T: Element, const D: usize>(of: &Ref, base: i64, loops: [(usize, i64); D]) -> Option<GridMut<'_, T, D>> {
    // SAFETY: as above.
    unsafe { of.memory()?.grid_mut(base, loops) }
}

#[test]
fn settled_numbers_are_the_same() {
    assert_eq!((settled(-7i32), settled(1i64 << 40), settled(0.5f32), settled(-0.25f64)), (-7, 1 << 40, 0.5, -0.25));
    settle_memory();
}

#[test]
fn iterations_access_the_elements_of_their_strides() {
    let reference = numbers(12);
    let matrix = grid::<i32, 2>(&reference, 1, [(3, 4), (3, 1)]).unwrap();
    assert_eq!([matrix.get([0, 0]), matrix.get([1, 2]), matrix.get([2, 2])], [1, 7, 11]);
    let backwards = grid::<i32, 2>(&reference, 11, [(3, -4), (4, -1)]).unwrap();
    assert_eq!([backwards.get([0, 0]), backwards.get([2, 3])], [11, 0]);
    let target = grid_mut::<i32, 1>(&reference, 2, [(2, 3)]).unwrap();
    target.set([1], 70);
    assert_eq!((target.get([1]), backwards.get([1, 2])), (70, 70));
    assert_eq!(grid::<i32, 0>(&reference, 3, []).unwrap().get([]), 3);
}

#[test]
fn parts_begin_at_their_first_iteration() {
    let reference = numbers(24);
    let matrix = grid_mut::<i32, 2>(&reference, 0, [(4, 6), (5, 1)]).unwrap();
    let part = matrix.part(0, 1, 2).part(1, 2, 3);
    assert_eq!([part.get([0, 0]), part.get([1, 2])], [8, 16]);
    assert_eq!(part.lanes::<3>([1, 0], 1), [14, 15, 16]);
    // Along a loop whose elements are not adjacent.
    assert_eq!(part.lanes::<2>([0, 1], 0), [9, 15]);
    // Every second element, up to the last one of the buffer.
    let second = grid::<i32, 1>(&reference, 1, [(12, 2)]).unwrap();
    assert_eq!(second.lanes::<8>([4], 0), [9, 11, 13, 15, 17, 19, 21, 23]);
    assert_eq!((second.lanes::<3>([0], 0), second.lanes::<1>([11], 0)), ([1, 3, 5], [23]));
    assert_eq!(second.lanes::<4>([8], 0), [17, 19, 21, 23]);
    let floats = buffer(&(0..64u8).flat_map(|number| f32::from(number).to_ne_bytes()).collect::<Vec<u8>>());
    let second = grid::<f32, 1>(&floats, 1, [(32, 2)]).unwrap();
    let expected: [f32; 32] = core::array::from_fn(|lane| (2 * lane + 1) as f32);
    assert_eq!(second.lanes::<32>([0], 0), expected);
    assert_eq!([second.lanes::<16>([0], 0), second.lanes::<16>([16], 0)].as_flattened(), expected);
    let floats = buffer(&(0..16u8).flat_map(|number| f64::from(number).to_ne_bytes()).collect::<Vec<u8>>());
    let second = grid::<f64, 1>(&floats, 1, [(8, 2)]).unwrap();
    assert_eq!(second.lanes::<8>([0], 0), [1., 3., 5., 7., 9., 11., 13., 15.]);
    part.set_lanes([0, 0], 1, [50, 51]);
    part.set_lanes([0, 2], 0, [60, 61]);
    let rows = grid::<i32, 2>(&reference, 0, [(4, 6), (6, 1)]).unwrap();
    assert_eq!(rows.lanes::<6>([1, 0], 1), [6, 7, 50, 51, 60, 11]);
    assert_eq!(rows.lanes::<6>([2, 0], 1), [12, 13, 14, 15, 61, 17]);
    assert_eq!(rows.part(0, 4, 0).part(1, 0, 6).loops[0].0, 0);
}

#[test]
fn tuples_are_elements_of_the_last_loop() {
    let reference = numbers(24);
    let adjacent = grid::<i32, 3>(&reference, 1, [(2, 12), (5, 2), (2, 1)]).unwrap();
    assert_eq!(adjacent.tuples::<2, 4>([1, 1, 0], 1), [[15, 16], [17, 18], [19, 20], [21, 22]]);
    assert_eq!((adjacent.get([0, 4, 0]), adjacent.get([0, 4, 1])), (9, 10));
    let apart = grid::<i32, 2>(&reference, 20, [(3, -3), (2, 2)]).unwrap();
    assert_eq!(apart.tuples::<2, 3>([0, 0], 0), [[20, 22], [17, 19], [14, 16]]);
    let panics = |f: &dyn Fn()| std::panic::catch_unwind(core::panic::AssertUnwindSafe(f)).is_err();
    assert!(
        !panics(&|| _ = adjacent.tuples::<2, 5>([1, 0, 0], 1)) && panics(&|| _ = adjacent.tuples::<2, 5>([1, 1, 0], 1))
    );
    assert!(
        panics(&|| _ = adjacent.tuples::<2, 1>([0, 0, 1], 1)) && panics(&|| _ = adjacent.tuples::<2, 2>([0, 0, 0], 2))
    );
    let single = grid::<i32, 2>(&reference, 0, [(4, 2), (1, 1)]).unwrap();
    assert!(panics(&|| _ = single.tuples::<2, 2>([0, 0], 0)));
}

#[test]
fn grids_are_the_same_where_all_elements_are() {
    let reference = numbers(100);
    let one = grid_mut::<i32, 1>(&reference, 1, [(5, 2)]).unwrap();
    assert!(one.is_same::<i32>(&grid(&reference, 1, [(5, 2)]).unwrap()));
    assert!(!one.is_same::<i32>(&grid(&reference, 2, [(5, 2)]).unwrap()));
    assert!(!one.is_same::<i32>(&grid(&reference, 1, [(5, 3)]).unwrap()));
}

#[test]
fn subgrids_are_the_parts_of_all_loops() {
    let reference = numbers(24);
    let matrix = grid_mut::<i32, 2>(&reference, 0, [(4, 6), (5, 1)]).unwrap();
    let part = matrix.subgrid([1, 2], [(2, 6), (3, 1)]);
    assert!(part.is_same(matrix.part(0, 1, 2).part(1, 2, 3).as_grid()));
    assert_eq!((part.lanes::<3>([1, 0], 1), part.stride(0), part.stride(1)), ([14, 15, 16], 6, 1));
    let panics = |first: [usize; 2], loops: [(usize, i64); 2]| {
        std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| drop(matrix.subgrid(first, loops)))).is_err()
    };
    assert!(!panics([4, 5], [(0, 6), (0, 1)]) && !panics([0, 0], [(4, 6), (5, 1)]));
    assert!(panics([3, 0], [(2, 6), (5, 1)]) && panics([0, 1], [(4, 6), (5, 1)]) && panics([5, 0], [(0, 6), (5, 1)]));
    assert!(panics([0, 0], [(4, 5), (5, 1)]) && panics([0, 0], [(4, 6), (5, 2)]));
}

#[test]
fn parts_and_lanes_beyond_the_trip_count_panic() {
    let reference = numbers(24);
    let grid = grid::<i32, 2>(&reference, 0, [(4, 6), (5, 1)]).unwrap();
    let panics = |f: &dyn Fn()| std::panic::catch_unwind(core::panic::AssertUnwindSafe(f)).is_err();
    assert!(panics(&|| drop(grid.part(0, 3, 2))) && panics(&|| drop(grid.part(0, 5, 0))));
    assert!(panics(&|| drop(grid.part(1, usize::MAX, 2))));
    assert!(panics(&|| _ = grid.lanes::<6>([0, 0], 1)) && panics(&|| _ = grid.lanes::<2>([0, 4], 1)));
    assert!(panics(&|| _ = grid.lanes::<2>([4, 0], 1)) && panics(&|| _ = grid.lanes::<2>([3, 0], 0)));
    assert!(!panics(&|| _ = grid.lanes::<5>([3, 0], 1)));
}

#[test]
fn accesses_out_of_range_are_refused() {
    let reference = numbers(12);
    for (base, loops) in [
        (0, [(3, 4), (5, 1)]),
        (-1, [(1, 0), (1, 0)]),
        (1, [(12, 1), (1, 0)]),
        (11, [(4, -4), (1, 0)]),
        (0, [(2, i64::MAX), (2, i64::MAX)]),
        (i64::MAX, [(2, 1), (1, 0)]),
        (i64::MIN, [(2, -1), (1, 0)]),
        (0, [(usize::MAX, 1), (1, 0)]),
        (0, [(2, i64::MIN), (1, 0)]),
    ] {
        assert!(grid::<i32, 2>(&reference, base, loops).is_none(), "{base} {loops:?}");
    }
    assert!(grid::<i32, 1>(&reference, 0, [(12, 1)]).is_some() && grid::<i32, 1>(&reference, 0, [(13, 1)]).is_none());
    assert!(grid::<f64, 1>(&reference, 0, [(6, 1)]).is_some() && grid::<f64, 1>(&reference, 0, [(7, 1)]).is_none());
    assert!(grid::<i32, 1>(&Ref::Null, 0, [(0, 1)]).is_none());
    // Eleven bytes hold two whole elements.
    assert!(grid::<i32, 1>(&buffer(&[0; 11]), 0, [(3, 1)]).is_none());
}

#[test]
fn loops_without_iterations_access_nothing() {
    let reference = numbers(1);
    let grid = grid::<i32, 2>(&reference, 1000, [(7, i64::MAX), (0, 1)]).unwrap();
    assert!(std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| grid.get([0, 0]))).is_err());
}

#[test]
fn iterations_beyond_the_trip_count_panic() {
    let reference = numbers(12);
    let grid = grid::<i32, 1>(&reference, 0, [(3, 1)]).unwrap();
    assert!(std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| grid.get([3]))).is_err());
}

#[test]
fn read_only_and_unaligned_buffers_are_refused() {
    let contents = Arc::new(Contents::copy_from(&[0; 16]));
    let constant = Ref::Buffer(Buffer::of_contents(contents.clone(), 0..16).unwrap());
    assert!(grid_mut::<u8, 1>(&constant, 0, [(16, 1)]).is_none());
    assert!(grid::<u8, 1>(&constant, 0, [(16, 1)]).is_some());
    let unaligned = (0..4).filter(|start| {
        let part = Ref::Buffer(Buffer::of_contents(contents.clone(), *start..*start + 8).unwrap());
        grid::<f32, 1>(&part, 0, [(2, 1)]).is_none()
    });
    assert_eq!(unaligned.count(), 3);
}

#[test]
fn grids_are_disjoint_where_their_bytes_are() {
    let reference = numbers(12);
    let low = grid::<i32, 1>(&reference, 0, [(6, 1)]).unwrap();
    let high = grid::<i32, 1>(&reference, 11, [(6, -1)]).unwrap();
    let middle = grid::<u8, 1>(&reference, 23, [(2, 1)]).unwrap();
    let nothing = grid::<u8, 1>(&reference, 0, [(0, 1)]).unwrap();
    assert!(low.is_disjoint(&high) && high.is_disjoint(&low));
    assert!(!low.is_disjoint(&middle) && !middle.is_disjoint(&high) && !low.is_disjoint(&low));
    assert!(low.is_disjoint(&nothing));
}
