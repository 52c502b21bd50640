//! Contractions by partial sums against a scalar model of them, and those of integers against the loops as they stand.

use super::super::blocking::PARTIAL;
use super::super::tile::partial::combine;
use super::*;
use crate::contraction::loops::{Loops, Offsets, Walk};

/// How far each iteration of some loops is.
fn walked(loops: &Loops) -> Vec<Offsets> {
    let mut walk = Walk::new(loops);
    let next = |_| {
        let offsets = walk.offsets();
        walk.advance(1);
        offsets
    };
    (0..loops.count()).map(next).collect()
}

/// Adds the products of each element as [`Sums::Partial`] says, one after the other.
unsafe fn model<O: Operation>(
    plan: &Partial,
    output: *mut O::Number,
    left: Operand<'_, O::Number>,
    right: Operand<'_, O::Number>,
) {
    let (rows, columns, runs) = (walked(&plan.rows), walked(&plan.columns), walked(&plan.outer));
    let of_batch = |base: Offsets| {
        let elements = rows.iter().flat_map(|row| columns.iter().map(|column| base.plus(*row).plus(*column)));
        elements.collect::<Vec<Offsets>>()
    };
    let length = plan.along.count;
    for element in walked(&plan.batch).into_iter().flat_map(of_batch) {
        let mut sums = [O::ZERO; PARTIAL];
        for (run, at) in runs.iter().flat_map(|run| (0..length.next_multiple_of(PARTIAL)).map(move |at| (run, at))) {
            let product = element.plus(*run).after(at, &plan.along);
            let of = |operand: &Operand<'_, O::Number>, offset: i64| match at < length {
                // SAFETY: the caller promises that the elements of all iterations are there.
                true => unsafe { operand.number(offset) },
                false => O::ZERO,
            };
            let sum = &mut sums[at % PARTIAL];
            *sum = O::apply(*sum, of(&left, product.left), of(&right, product.right));
        }
        for half in [8, 4, 2, 1] {
            for at in 0..half {
                sums[at] = O::add(sums[at], sums[at + half]);
            }
        }
        // SAFETY: as above.
        unsafe {
            let element = output.offset(element.output as isize);
            element.write(O::add(element.read(), sums[0]));
        }
    }
}

/// Compares all levels with the model; returns whether there is a loop for partial sums.
fn check_partial<O: Operation>(random: &mut Random, loops: &[Loop]) -> bool
where
    O::Number: Sample,
{
    let Some(plan) = Partial::of(loops) else { return false };
    let memories =
        [memory(loops, |each| each.output), memory(loops, |each| each.left), memory(loops, |each| each.right)];
    let [before, lefts, rights] =
        memories.map(|(_, count)| (0..count).map(|_| O::Number::sample(random)).collect::<Vec<O::Number>>());
    let kind = random.below(4);
    let run = |level: Option<Level>| {
        let mut result = before.clone();
        // SAFETY: the vectors contain the elements of all iterations, and elements of the output are distinct.
        unsafe {
            let output = result.as_mut_ptr().add(memories[0].0);
            let (left, right) = (lefts.as_ptr().add(memories[1].0), rights.as_ptr().add(memories[2].0));
            let (changed_left, changed_right) = (Changed(left), Changed(right));
            let left = if kind == 1 { Operand::Computed(&changed_left, 0) } else { Operand::Memory(left) };
            let right = if kind == 2 { Operand::Computed(&changed_right, 0) } else { Operand::Memory(right) };
            match level {
                Some(level) => {
                    contract_on::<O>(level, Some(Sums::Partial), (output, Initial::Stored), left, right, loops)
                }
                None if plan.is_swapped => model::<O>(&plan, output, right, left),
                None => model::<O>(&plan, output, left, right),
            }
        }
        result.into_iter().map(Sample::bits).collect::<Vec<u32>>()
    };
    let expected = run(None);
    for level in levels() {
        assert!(run(Some(level)) == expected, "{level:?} {kind} {loops:?}");
    }
    true
}

#[test]
fn partial_sums_are_those_of_the_model() {
    let mut random = Random(31);
    let mut compared = 0;
    for round in 0..1500 {
        let sizes: &[usize] = if round % 2 == 0 { &[1, 2, 3, 4, 5] } else { &[1, 2, 9, 17] };
        let mut loops = random_loops(&mut random, sizes);
        let count = random.pick(&[1, 2, 15, 16, 17, 32, 47, 530]);
        let at = random.below(loops.len() as u64 + 1) as usize;
        loops.insert(at, Loop { count, output: 0, left: 1, right: 1 });
        if loops.iter().fold(1, |all, each| all * each.count) > 40_000 {
            continue;
        }
        compared += usize::from(match round % 5 {
            0 => check_partial::<MulAddI32>(&mut random, &loops),
            1 => check_partial::<AnyOrder<MulAddF32>>(&mut random, &loops),
            _ => check_partial::<AnyOrder<FmaF32>>(&mut random, &loops),
        });
    }
    assert!(compared > 500, "{compared}");
}

#[test]
fn partial_sums_of_real_shapes_are_those_of_the_model() {
    let mut random = Random(32);
    for (m, n, k) in [(1, 100, 784), (70, 1, 50), (9, 65, 600), (13, 31, 40), (8, 64, 512), (2, 3, 2100)] {
        let transposed = [each(m, n as i64, k as i64, 0), each(n, 1, 0, k as i64), each(k, 0, 1, 1)];
        assert!(check_partial::<AnyOrder<FmaF32>>(&mut random, &transposed));
        // Integers are the same in any order.
        check::<MulAddI32>(&mut random, &transposed);
    }
}

#[test]
fn partial_sums_are_used_where_packing_takes_longer() {
    let product =
        |m: usize, n: usize, k: usize| [each(m, n as i64, k as i64, 0), each(n, 1, 0, k as i64), each(k, 0, 1, 1)];
    assert_eq!(Sums::of::<AnyOrder<FmaF32>>(&product(1, 512, 784)), Sums::Partial);
    assert_eq!(Sums::of::<AnyOrder<FmaF32>>(&product(4, 512, 784)), Sums::Partial);
    assert_eq!(Sums::of::<MulAddI32>(&product(1, 512, 784)), Sums::Partial);
    // In the order of the loops, unless the operation allows another one.
    assert_eq!(Sums::of::<FmaF32>(&product(1, 512, 784)), Sums::Sequential);
    // A packed matrix is used by many rows.
    assert_eq!(Sums::of::<AnyOrder<FmaF32>>(&product(128, 128, 64)), Sums::Sequential);
    // Depthwise: vectors along the output need no packing.
    let depthwise = [each(9, 1, 0, 1), each(20, 0, 1, 1)];
    assert_eq!(Sums::of::<AnyOrder<FmaF32>>(&depthwise), Sums::Sequential);
    // Adjacent elements of one operand only.
    let by_rows = [each(512, 1, 0, 1), each(784, 0, 1, 512)];
    assert_eq!(Sums::of::<AnyOrder<FmaF32>>(&by_rows), Sums::Sequential);
}

/// A thread that keeps the decisions about an operation in any order must not take them for the same one in order.
#[test]
fn operations_in_order_stay_in_order() {
    let mut random = Random(33);
    let loops = [each(1, 512, 784, 0), each(512, 1, 0, 784), each(784, 0, 1, 1)];
    assert_eq!(Sums::of::<AnyOrder<FmaF32>>(&loops), Sums::Partial);
    for _ in 0..2 {
        let level = Level::best(usize::MAX);
        let [before, lefts, rights] =
            [512, 784, 512 * 784].map(|count| (0..count).map(|_| f32::sample(&mut random)).collect::<Vec<f32>>());
        let run = |is_any_order: bool, is_plain: bool| {
            let mut result = before.clone();
            let (left, right) = (Operand::Memory(lefts.as_ptr()), Operand::Memory(rights.as_ptr()));
            // SAFETY: the vectors contain the elements of all iterations, and elements of the output are distinct.
            unsafe {
                let output = (result.as_mut_ptr(), Initial::Stored);
                match (is_any_order, is_plain) {
                    (_, true) => in_order::<FmaF32>(output.0, left, right, &loops, [0; 3]),
                    (true, _) => contract_on::<AnyOrder<FmaF32>>(level, None, output, left, right, &loops),
                    (false, _) => contract_on::<FmaF32>(level, None, output, left, right, &loops),
                }
            }
            result.into_iter().map(Sample::bits).collect::<Vec<u32>>()
        };
        let (any_order, in_order) = (run(true, false), run(false, false));
        assert!(in_order == run(false, true) && any_order != in_order);
        assert!(run(true, false) == any_order);
    }
}

#[test]
fn halves_are_combined() {
    let partial = core::array::from_fn(|at| 1u32 << at);
    assert_eq!(combine(partial, |lower, upper| lower | upper), 0xffff);
    // `lower - upper` four times: the sign of each is the parity of the bits of its position.
    let parity = |at: usize| if at.count_ones().is_multiple_of(2) { 1 } else { -1 };
    assert_eq!(combine(core::array::from_fn(parity), |lower, upper| lower - upper), 16);
}
