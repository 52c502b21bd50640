//! Contractions of all shapes against the loops as they stand.
#![allow(clippy::unwrap_used, reason = "tests")]

mod copies;
mod fetches;
mod narrow;
mod partial_sums;

use super::loops::each;
use super::*;
use std::string::ToString;
use std::vec::Vec;

/// Numbers that look random, the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (bits ^ (bits >> 31)) % bound
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// Numbers of an operation.
trait Sample: Copy + PartialEq + std::fmt::Debug + Default {
    fn sample(random: &mut Random) -> Self;
    fn bits(self) -> u32;
    fn changed(self) -> Self;
}

impl Sample for f32 {
    fn sample(random: &mut Random) -> f32 {
        random.below(2001) as f32 / 777.0 - 1.25
    }
    fn bits(self) -> u32 {
        self.to_bits()
    }
    fn changed(self) -> f32 {
        self * 0.5 + 0.125
    }
}

impl Sample for i32 {
    fn sample(random: &mut Random) -> i32 {
        random.below(1 << 32) as i32
    }
    fn bits(self) -> u32 {
        self as u32
    }
    fn changed(self) -> i32 {
        self.wrapping_mul(3) - 7
    }
}

/// An operand that changes its elements.
struct Changed<N>(*const N);

// SAFETY: tests have one thread.
unsafe impl<N> Sync for Changed<N> {}

impl<N: Sample> Gather<N> for Changed<N> {
    fn zero(&self) -> N {
        N::default()
    }

    unsafe fn gather(&self, first: i64, stride: i64, into: &mut [N]) {
        for (at, number) in into.iter_mut().enumerate() {
            // SAFETY: promised by the caller.
            *number = unsafe { self.0.offset((first + stride * at as i64) as isize).read() }.changed();
        }
    }
}

/// The first element and the number of elements that the strides need.
fn memory(loops: &[Loop], stride: impl Fn(&Loop) -> i64) -> (usize, usize) {
    let reach = |each: &Loop| stride(each) * (each.count as i64 - 1).max(0);
    let below: i64 = loops.iter().map(|each| reach(each).min(0)).sum();
    let above: i64 = loops.iter().map(|each| reach(each).max(0)).sum();
    ((-below) as usize, (above - below + 1) as usize)
}

fn levels() -> Vec<Level> {
    let machines = [
        Machine::PORTABLE,
        Machine::NEON,
        Machine::SIMD128,
        Machine::RELAXED_SIMD,
        Machine::X86_64_V3,
        Machine::X86_64_V4,
    ];
    let mut levels = machines.map(|of| Level::at_most(&of)).to_vec();
    levels.dedup();
    levels
}

/// The elements of the output, if there are iterations.
fn elements(loops: &[Loop], first: usize) -> Vec<usize> {
    let moving = loops.iter().filter(|each| each.output != 0);
    let all = moving.fold(Vec::from([first]), |all, each| {
        let at = |first: usize, iteration: i64| first.wrapping_add_signed((each.output * iteration) as isize);
        all.into_iter().flat_map(|first| (0..each.count as i64).map(move |iteration| at(first, iteration))).collect()
    });
    if loops.iter().all(|each| each.count != 0) { all } else { Vec::new() }
}

/// Compares all levels with the loops in order.
fn check<O: Operation>(random: &mut Random, loops: &[Loop])
where
    O::Number: Sample,
{
    let [output, left, right] =
        [memory(loops, |each| each.output), memory(loops, |each| each.left), memory(loops, |each| each.right)];
    let mut numbers = |count: usize| (0..count).map(|_| O::Number::sample(random)).collect::<Vec<O::Number>>();
    let (mut before, lefts, rights, others) = (numbers(output.1), numbers(left.1), numbers(right.1), numbers(64));
    let kind = random.below(5);
    let initial = if random.below(3) == 0 { Initial::Zeros } else { Initial::Stored };
    if initial == Initial::Zeros {
        before.fill(O::Number::default());
    }
    // Zeros are not loaded: other numbers are there.
    let outputs: Vec<usize> = if initial == Initial::Zeros { elements(loops, output.0) } else { Vec::new() };
    let run = |level: Option<Level>| {
        let mut result = before.clone();
        if level.is_some() {
            outputs.iter().for_each(|at| result[*at] = O::Number::default().changed());
        }
        // SAFETY: the vectors contain the elements of all iterations, and elements of the output are distinct.
        unsafe {
            let (output, left, right) =
                (result.as_mut_ptr().add(output.0), lefts.as_ptr().add(left.0), rights.as_ptr().add(right.0));
            let (changed_left, changed_right) = (Changed(left), Changed(right));
            let (left, right) = match kind {
                0 => (Operand::Memory(left), Operand::Memory(right)),
                1 => (Operand::Computed(&changed_left, 0), Operand::Memory(right)),
                2 => (Operand::Memory(left), Operand::Computed(&changed_right, 0)),
                3 => (Operand::Layout(left), Operand::Memory(right)),
                _ => (Operand::Memory(left), Operand::Layout(right)),
            };
            match level {
                Some(level) => contract_on::<O>(level, None, (output, initial), left, right, loops),
                None => in_order::<O>(output, left, right, loops, [0; 3]),
            }
        }
        result.into_iter().map(Sample::bits).collect::<Vec<u32>>()
    };
    let expected = run(None);
    // The second time, plan and lists are there; the third time, lists of another plan.
    for (level, times) in levels().into_iter().flat_map(|level| [(level, 1), (level, 2), (level, 3)]) {
        if times == 3 {
            let (mut sums, [left, right]) =
                ([O::Number::default(); 20], [0, 32].map(|at| Operand::Memory(&raw const others[at])));
            let other = [each(4, 5, 3, 0), each(3, 0, 1, 5), each(5, 1, 0, 1)];
            let output = (sums.as_mut_ptr(), Initial::Stored);
            // SAFETY: 4 x 3 times 3 x 5.
            unsafe { contract_on::<O>(level, None, output, left, right, &other) };
        }
        assert!(run(Some(level)) == expected, "{level:?} {kind} {initial:?} {loops:?} {times}");
    }
}

/// Loops whose output is dense in some order, with operands of any strides.
fn random_loops(random: &mut Random, sizes: &[usize]) -> Vec<Loop> {
    let count = random.below(7) as usize;
    let mut loops: Vec<Loop> = (0..count)
        .map(|_| {
            let stride = |random: &mut Random| random.pick(&[0, 0, 1, 1, 2, 3, 5, 17, 40, -1, -3, 100]);
            let (left, right) = (stride(random), stride(random));
            Loop { count: random.pick(sizes), output: i64::from(random.below(3) > 0), left, right }
        })
        .collect();
    // The moving loops get strides in a random order.
    let mut moving: Vec<usize> = (0..count).filter(|at| loops[*at].output != 0).collect();
    let mut stride = random.pick(&[1, 1, 1, 2, -1]);
    while !moving.is_empty() {
        let at = moving.swap_remove(random.below(moving.len() as u64) as usize);
        loops[at].output = stride;
        stride *= loops[at].count.max(1) as i64 + random.below(2) as i64;
    }
    loops
}

#[test]
fn contractions_of_all_shapes_are_those_of_the_loops() {
    let mut random = Random(20);
    for round in 0..1500 {
        let sizes: &[usize] = match round % 3 {
            0 => &[1, 2, 3, 4, 5],
            1 => &[0, 1, 2, 7, 9],
            _ => &[1, 2, 3, 19, 33],
        };
        let loops = random_loops(&mut random, sizes);
        if loops.iter().fold(1, |all, each| all * each.count) > 40_000 {
            continue;
        }
        match round % 5 {
            0 => check::<MulAddI32>(&mut random, &loops),
            1 => check::<MulAddF32>(&mut random, &loops),
            _ => check::<FmaF32>(&mut random, &loops),
        }
    }
}

/// `channels` maps of `side` x `side` from `inputs` maps, with a filter of `taps` x `taps`.
pub(super) fn convolution(channels: usize, side: usize, inputs: usize, taps: usize, stride: usize) -> [Loop; 6] {
    let (source, s) = (side * stride + taps, side as i64);
    let (row, map, taps_i64) = (source as i64, (source * source) as i64, taps as i64);
    [
        each(channels, s * s, inputs as i64 * taps_i64 * taps_i64, 0),
        each(side, s, 0, row * stride as i64),
        each(side, 1, 0, stride as i64),
        each(inputs, 0, taps_i64 * taps_i64, map),
        each(taps, 0, taps_i64, row),
        each(taps, 0, 1, 1),
    ]
}

#[test]
fn single_rows_load_whole_lines_of_panels() {
    // A vector of 1024 numbers times a matrix by columns, of which 15 workgroups have 64 each.
    let stored = [each(15, 64, 0, 65536), each(64, 1, 0, 1024), each(1024, 0, 1, 1)];
    for machine in [&Machine::X86_64_V3, &Machine::X86_64_V4] {
        let layout = Layout::of(&stored, Side::Right, machine, OperandKind::Memory, usize::MAX);
        let loops = layout.as_ref().map_or(&[][..], |layout| layout.loops());
        let plan = Plan::costed(loops, machine, [OperandKind::Memory, OperandKind::Layout]);
        let loaded = plan.map(|(plan, _)| (plan.packing.is_in_operand(), plan.rows.count(), plan.vectors * plan.lanes));
        assert_eq!(loaded, Some((true, 1, 64)), "{}", machine.name);
    }
}

#[test]
fn real_shapes_are_those_of_the_loops() {
    let mut random = Random(7);
    for (channels, side, inputs, taps, stride) in
        [(10, 13, 5, 3, 1), (6, 29, 3, 3, 2), (3, 30, 2, 7, 2), (9, 7, 3, 1, 1), (1, 14, 4, 3, 1), (64, 5, 2, 3, 1)]
    {
        check::<FmaF32>(&mut random, &convolution(channels, side, inputs, taps, stride));
    }
    for (m, n, k) in
        [(1, 100, 50), (100, 1, 50), (7, 65, 1), (13, 31, 40), (8, 16, 1100), (3, 50, 519), (2, 3, 2100), (600, 17, 3)]
    {
        let product = [each(m, n as i64, k as i64, 0), each(k, 0, 1, n as i64), each(n, 1, 0, 1)];
        check::<FmaF32>(&mut random, &product);
        let transposed = [each(m, n as i64, k as i64, 0), each(n, 1, 0, k as i64), each(k, 0, 1, 1)];
        check::<MulAddI32>(&mut random, &transposed);
        check::<FmaF32>(&mut random, &transposed);
    }
    // Lines that compete for a set of the cache.
    check::<FmaF32>(&mut random, &[each(9, 1, 1024, 0), each(70, 0, 1, 1)]);
    check::<FmaF32>(&mut random, &[each(20, 1024, 5, 0), each(5, 0, 1, 1024), each(40, 1, 0, 1)]);
    // Depthwise, in both layouts.
    check::<FmaF32>(
        &mut random,
        &[each(5, 49, 9, 81), each(7, 7, 0, 9), each(7, 1, 0, 1), each(3, 0, 3, 9), each(3, 0, 1, 1)],
    );
    check::<FmaF32>(
        &mut random,
        &[each(7, 35, 0, 45), each(7, 5, 0, 5), each(5, 1, 1, 1), each(3, 0, 15, 45), each(3, 0, 5, 5)],
    );
}

#[test]
fn passes_are_those_of_the_loops() {
    let mut random = Random(8);
    // Alike, the last one shorter: 200 x 9 are 603, 603 and 594.
    check::<FmaF32>(&mut random, &convolution(5, 4, 200, 3, 1));
    // Interleaved from four streams.
    let interleaved = [each(64, 1, 0, 1), each(501, 0, 4, 64), each(4, 0, 1, 501 * 64)];
    check::<FmaF32>(&mut random, &interleaved);
    // Passes that begin anywhere in the inner loop.
    check::<FmaF32>(&mut random, &[each(3, 9, 2000, 0), each(2, 0, 1000, 9), each(1000, 0, 1, 20), each(9, 1, 0, 1)]);
    check::<MulAddI32>(&mut random, &[each(3, 9, 2100, 0), each(3, 0, 700, 9), each(700, 0, 1, 30), each(9, 1, 0, 1)]);
    let endless = [each(usize::MAX / 2, 0, 0, 0), each(5, 0, 1, 1), each(9, 1, 0, 1)];
    assert_eq!(Plan::of(&endless, &Machine::PORTABLE).unwrap().cut.period, 5);
    let passes = |loops: &[Loop]| {
        let cut = Plan::of(loops, &Machine::PORTABLE).unwrap().cut;
        (cut.pass, cut.are_passes_alike())
    };
    assert_eq!(passes(&interleaved), (668, true));
    assert_eq!(passes(&[each(9, 1, 0, 1), each(3, 0, 700, 9), each(700, 0, 1, 30)]), (700, true));
    assert_eq!(passes(&[each(9, 1, 0, 1), each(2, 0, 1000, 9), each(1000, 0, 1, 20)]), (667, false));
}

#[test]
fn lanes_across_channels_are_those_of_the_loops() {
    let mut random = Random(11);
    // The last two are loaded row by row.
    for (channels, side, taps, stride) in
        [(40, 7, 3, 1), (17, 4, 5, 1), (33, 6, 3, 2), (16, 12, 2, 3), (3, 32, 3, 2), (2, 37, 3, 2)]
    {
        let source = ((side - 1) * stride + taps) as i64;
        let (c, s, t) = (channels as i64, side as i64, taps as i64);
        let first = [
            each(channels, s * s, t * t, source * source),
            each(side, s, 0, source * stride as i64),
            each(side, 1, 0, stride as i64),
            each(taps, 0, t, source),
            each(taps, 0, 1, 1),
        ];
        let last = [
            each(side, s * c, 0, source * c * stride as i64),
            each(side, c, 0, c * stride as i64),
            each(channels, 1, 1, 1),
            each(taps, 0, t * c, source * c),
            each(taps, 0, c, c),
        ];
        for loops in [first, last] {
            check::<FmaF32>(&mut random, &loops);
            check::<MulAddI32>(&mut random, &loops);
        }
    }
    let channels_last = [each(14, 448, 0, 1024), each(14, 32, 0, 64), each(32, 1, 1, 1), each(9, 0, 32, 32)];
    assert!(
        Plan::of(&channels_last, &Machine::X86_64_V4)
            .unwrap()
            .to_string()
            .ends_with("lanes across 32 iterations of the batch")
    );
    // More rows than a panel holds: 200 x 200 maps, every third element.
    let wide =
        [each(16, 4489, 1, 40_401), each(67, 67, 0, 603), each(67, 1, 0, 3), each(2, 0, 16, 201), each(2, 0, 32, 1)];
    check::<FmaF32>(&mut random, &wide);
}

#[test]
fn operations_with_other_tiles_have_plans_of_their_own() {
    let mut random = Random(3);
    let product = [each(1, 300, 40, 0), each(40, 0, 1, 300), each(300, 1, 0, 1)];
    for _ in 0..2 {
        check::<MulAddF32>(&mut random, &product);
        check::<FmaF32>(&mut random, &product);
    }
}

#[test]
fn plans_explain_themselves() {
    let plan = |loops: &[Loop]| Plan::of(loops, &Machine::X86_64_V4).unwrap().to_string();
    assert_eq!(
        plan(&convolution(64, 112, 3, 3, 2)),
        "64 rows x 12544 columns, sums of 27; tiles of 6 x 64 in registers; panels of the right operand packed across runs of columns"
    );
    let vector = [each(512, 1, 784, 0), each(784, 0, 1, 1)];
    assert_eq!(
        plan(&vector),
        "1 rows x 512 columns, sums of 784; tiles of 1 x 16 in registers; vectors transposed from the left operand"
    );
    // Lines at 4 KiB from each other, which the tiles of 64 rows would load again, and that of one row loads once.
    let by_rows = |rows: usize| plan(&[each(rows, 1024, 512, 0), each(512, 0, 1, 1024), each(1024, 1, 0, 1)]);
    assert!(by_rows(64).ends_with("panels of the right operand packed across runs of columns"));
    assert!(
        by_rows(1)
            .ends_with("tiles of 1 x 1024 in memory; vectors loaded from the right operand, of eight products at once")
    );
    assert!(Plan::of(&[each(4, 0, 1, 1)], &Machine::X86_64_V4).is_none());
    assert!(Plan::of(&[each(4, 1, 1, 1); 17], &Machine::X86_64_V4).is_none());
}

#[test]
fn products_at_a_distance_are_those_of_the_loops() {
    let mut random = Random(14);
    // Fewer than are added at once, as many, and some more; rows that follow each other in memory, and others.
    for (products, columns, pitch) in [
        (1, 40, 1),
        (3, 64, 3),
        (4, 33, 9),
        (5, 64, 5),
        (7, 40, 7),
        (8, 49, 12),
        (27, 49, 27),
        (42, 100, 42),
        (770, 20, 770),
    ] {
        let by_rows = [each(19, columns, pitch, 0), each(columns as usize, 1, 0, 1), each(products, 0, 1, columns)];
        check::<FmaF32>(&mut random, &by_rows);
        check::<MulAddI32>(&mut random, &by_rows);
        // Lines in the reverse order, every third one, and the same one; outputs that are copied there and back.
        for distance in [-columns, 3 * columns, 0] {
            let lines = [each(10, columns, pitch, 0), each(columns as usize, 1, 0, 1), each(products, 0, 1, distance)];
            check::<MulAddF32>(&mut random, &lines);
            let copied =
                [each(9, 3 * columns, pitch, 0), each(columns as usize, 3, 0, 1), each(products, 0, 1, distance)];
            check::<FmaF32>(&mut random, &copied);
        }
        let by_columns = [each(8, columns, pitch, 0), each(columns as usize, 1, 0, pitch), each(products, 0, 1, 1)];
        check::<FmaF32>(&mut random, &by_columns);
        // Numbers of the left operand that are not adjacent.
        let strided = [each(19, columns, 1, 0), each(columns as usize, 1, 0, 1), each(products, 0, 19, columns)];
        check::<FmaF32>(&mut random, &strided);
    }
    // Adjacent numbers, but lines at two distances; several iterations of a batch at once, of several strips.
    let windows = [each(12, 64, 12, 0), each(64, 1, 0, 1), each(4, 0, 3, 200), each(3, 0, 1, 64)];
    let batch = [each(5, 320, 24, 144), each(8, 40, 3, 0), each(40, 1, 0, 1), each(3, 0, 1, 48)];
    for loops in [&windows, &batch] {
        for _ in 0..4 {
            check::<FmaF32>(&mut random, loops);
            check::<MulAddI32>(&mut random, loops);
        }
    }
    let facts = |loops: &[Loop]| {
        let plan = Plan::of(loops, &Machine::X86_64_V3).unwrap();
        (plan.packing, plan.cut.distance, plan.cut.has_adjacent_numbers)
    };
    // Lines at one distance through several loops, which move the left operand at two.
    let lines = [each(12, 64, 9, 0), each(64, 1, 0, 1), each(4, 0, 200, 192), each(3, 0, 1, 64)];
    check::<FmaF32>(&mut random, &lines);
    assert_eq!(facts(&lines), (Packing::None, Some(64), false));
    assert_eq!(facts(&windows), (Packing::None, None, true));
    assert_eq!(facts(&batch), (Packing::None, Some(48), true));
    assert!(Plan::of(&batch, &Machine::X86_64_V3).unwrap().cut.repeats > 1);
    let product = |left: i64| [each(19, 64, left, 0), each(64, 1, 0, 1), each(9, 0, 20 - left, 64)];
    assert_eq!(facts(&product(19)), (Packing::None, Some(64), true));
    assert_eq!(facts(&product(1)), (Packing::None, Some(64), false));
}

#[test]
fn products_of_a_vector_and_a_matrix_by_rows_are_those_of_the_loops() {
    let mut random = Random(10);
    for (products, columns) in [(1, 100), (2, 300), (7, 131), (8, 67), (15, 600), (40, 129), (3, 5000), (900, 130)] {
        let product = [each(products, 0, 1, columns as i64), each(columns, 1, 0, 1)];
        check::<FmaF32>(&mut random, &product);
        check::<MulAddI32>(&mut random, &product);
        // Several of them, and the matrix on the left.
        let swapped = [each(2, columns as i64, 0, 1), each(products, 0, columns as i64, 3), each(columns, 1, 1, 0)];
        check::<MulAddF32>(&mut random, &swapped);
    }
    let (columns, strips) = (2 * 4096 + 100, 3);
    let plan = Plan::of(&[each(9, 0, 1, 9000), each(columns, 1, 0, 1)], &Machine::X86_64_V3).unwrap();
    let cut = plan.cut;
    assert_eq!((cut.runs, cut.run, cut.strips(plan.lanes).count()), (1, columns, strips));
}

#[test]
fn what_is_in_place_repeats_over_the_batch() {
    let mut random = Random(11);
    let depthwise = |channels: usize, side: usize| {
        let (s, source) = (side as i64, side as i64 + 2);
        [
            each(channels, s * s, 9, source * source),
            each(side, s, 0, source),
            each(side, 1, 0, 1),
            each(3, 0, 3, source),
            each(3, 0, 1, 1),
        ]
    };
    let repeats = |loops: &[Loop]| {
        let plan = Plan::of(loops, &Machine::X86_64_V3).unwrap();
        (plan.packing, plan.cut.repeats)
    };
    // One tile; several strips, of which the first cache holds some; one map is too much.
    for (side, expected) in [(8, usize::MAX), (14, 4096 / 265), (70, 1)] {
        let loops = depthwise(40, side);
        assert_eq!(repeats(&loops), (Packing::Separate, expected), "{side}");
        if side < 70 {
            check::<FmaF32>(&mut random, &loops);
            check::<MulAddI32>(&mut random, &loops);
        }
    }
    // Panels are packed for each iteration, and lanes across take several.
    assert_eq!(repeats(&[each(9, 1, 4, 4), each(30, 9, 0, 40), each(4, 0, 1, 1)]).1, 1);
}

/// A convolution of each of five maps by itself: rows begin so many lines below each other, and columns so many elements beside each other.
fn windows([height, width]: [usize; 2], [lines, columns]: [usize; 2], [down, beside]: [i64; 2]) -> [Loop; 5] {
    let line = width as i64 * beside + columns as i64;
    let map = line * (height as i64 * down + lines as i64);
    [
        each(5, (height * width) as i64, (lines * columns) as i64, map),
        each(height, width as i64, 0, down * line),
        each(width, 1, 0, beside),
        each(lines, 0, columns as i64, line),
        each(columns, 0, 1, 1),
    ]
}

#[test]
fn windows_that_overlap_are_those_of_the_loops() {
    let mut random = Random(13);
    let lines = |loops: &[Loop]| Plan::of(loops, &Machine::X86_64_V4).unwrap().cut.lines;
    // Tiles of 14, 8 and 4 rows, of one vector and of two, whole ones and parts, down to a single lane.
    let maps = [[14, 14], [16, 14], [28, 15], [29, 16], [12, 31], [13, 40], [8, 32], [7, 20], [7, 9], [56, 56]];
    for map in maps.into_iter().chain([[9, 17], [14, 33]]) {
        for of in [[3, 3], [5, 5], [3, 2], [5, 4], [4, 4]] {
            for stride in [1, 2] {
                let loops = windows(map, of, [stride; 2]);
                let expected = if of[0] == 4 { 0 } else { of[0] };
                assert_eq!(lines(&loops), expected, "{map:?} {of:?} {stride}");
                check::<FmaF32>(&mut random, &loops);
                check::<MulAddI32>(&mut random, &loops);
            }
        }
    }
    // Rows and columns at other distances, lines at another one, and numbers in another order.
    let [channels, rows, columns, of_window, of_line] = windows([14, 14], [3, 3], [1; 2]);
    let further = [channels, rows, columns, Loop { right: 2 * of_window.right, ..of_window }, of_line];
    let turned = [channels, rows, columns, Loop { left: 1, ..of_window }, Loop { left: of_window.left, ..of_line }];
    let other = [[2, 1], [1, 2], [3, 1], [4, 2], [3, 3]].map(|strides| windows([14, 14], [3, 3], strides));
    for loops in other.into_iter().chain([further, turned]) {
        assert_eq!(lines(&loops), 0, "{loops:?}");
        check::<FmaF32>(&mut random, &loops);
    }
}

#[test]
fn rows_with_operands_of_their_own_are_cut_into_few_tiles() {
    let rows = |map| Plan::of(&windows(map, [3, 3], [1; 2]), &Machine::X86_64_V4).unwrap().tile_rows;
    let maps = [[14, 14], [12, 14], [15, 14], [16, 14], [28, 14], [7, 16], [14, 28]];
    assert_eq!(maps.map(rows), [14, 8, 14, 8, 14, 4, 8]);
}

#[test]
fn matrices_by_columns_times_a_vector_have_outputs_anywhere() {
    let mut random = Random(12);
    for output in [1, 3, 49, -2] {
        let loops = [each(70, output, 131, 0), each(131, 0, 1, 2)];
        let plan = Plan::of(&loops, &Machine::X86_64_V3).unwrap();
        assert_eq!((plan.packing, plan.is_swapped), (Packing::Transposed, true));
        check::<FmaF32>(&mut random, &loops);
        check::<MulAddF32>(&mut random, &loops.map(|each| each.swapped()));
    }
}

#[test]
fn last_columns_that_are_part_of_a_vector_are_those_of_the_loops() {
    let mut random = Random(9);
    for (rows, columns, products) in [(64, 17, 90), (64, 33, 90), (40, 50, 200), (24, 49, 780)] {
        let (c, p) = (columns as i64, products as i64);
        let batch = each(2, rows as i64 * c, rows as i64 * p, p * c);
        let product = [batch, each(rows, c, p, 0), each(products, 0, 1, c), each(columns, 1, 0, 1)];
        check::<FmaF32>(&mut random, &product);
        // The operands exchanged.
        check::<MulAddI32>(&mut random, &product.map(|each| each.swapped()));
    }
    check::<FmaF32>(&mut random, &convolution(64, 7, 8, 3, 1));
}

#[test]
fn lines_compete_only_where_tiles_load_them_again() {
    // 3 x 3 over 32 maps of 28 x 28 at a distance from each other: 8 rows are one tile.
    let costed = |rows: usize, distance: i64| {
        let loops = [
            each(rows, 784, 288, 0),
            each(28, 28, 0, 30),
            each(28, 1, 0, 1),
            each(32, 0, 9, distance),
            each(3, 0, 3, 30),
            each(3, 0, 1, 1),
        ];
        Plan::costed(&loops, &Machine::X86_64_V4, [OperandKind::Memory; 2]).unwrap()
    };
    assert_eq!(costed(8, 1024).1, costed(8, 1040).1);
    assert!(costed(64, 1024).1 >= costed(64, 1040).1);
}
