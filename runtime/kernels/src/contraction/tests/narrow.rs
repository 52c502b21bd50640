//! Contractions of narrow integers, which some levels have instructions for, against the loops as they stand.

use super::*;

/// Integers that are extended.
struct Extended(Narrow, *const u8);

// SAFETY: tests have one thread.
unsafe impl Sync for Extended {}

impl Gather<i32> for Extended {
    fn zero(&self) -> i32 {
        0
    }

    fn narrow(&self) -> Option<(Narrow, *const u8)> {
        Some((self.0, self.1))
    }

    unsafe fn gather(&self, first: i64, stride: i64, into: &mut [i32]) {
        for (at, number) in into.iter_mut().enumerate() {
            let element = (first + stride * at as i64) as isize;
            // SAFETY: promised by the caller.
            *number = unsafe {
                match self.0 {
                    Narrow::I8 => self.1.cast::<i8>().offset(element).read().into(),
                    Narrow::U8 => self.1.offset(element).read().into(),
                    Narrow::I16 => self.1.cast::<i16>().offset(element).read().into(),
                }
            };
        }
    }
}

/// Compares all levels with the loops in order. Integers are of all values, or the least one, whose sums are the greatest.
fn check_narrow(random: &mut Random, loops: &[Loop]) {
    let [output, left, right] =
        [memory(loops, |each| each.output), memory(loops, |each| each.left), memory(loops, |each| each.right)];
    let least = random.below(4) == 0;
    let kinds = [(); 2].map(|()| [Narrow::I8, Narrow::U8, Narrow::I16][random.below(3) as usize]);
    // Words, so that integers of 16 bits are aligned.
    let mut words = |count: usize| {
        (0..=count).map(|_| if least { 0x8000 } else { random.below(1 << 16) as u16 }).collect::<Vec<u16>>()
    };
    let (lefts, rights) = (words(left.1), words(right.1));
    // Groups may be aligned or not.
    let skew = random.below(2) as usize;
    let before: Vec<i32> = (0..output.1).map(|_| i32::sample(random)).collect();
    let element = |words: &[u16], kind: Narrow, at: usize| {
        words.as_ptr().cast::<u8>().wrapping_offset(kind.width().wrapping_mul(at as isize))
    };
    let run = |level: Option<Level>| {
        let mut result = before.clone();
        // SAFETY: the vectors contain the elements of all iterations, and elements of the output are distinct.
        unsafe {
            let output = result.as_mut_ptr().add(output.0);
            // The elements of operands may be counted from anywhere.
            let lefts = Extended(kinds[0], element(&lefts, kinds[0], left.0 + 5));
            let rights = Extended(kinds[1], element(&rights, kinds[1], right.0 + skew));
            let (left, right) = (Operand::Computed(&lefts, -5), Operand::Computed(&rights, 0));
            match level {
                Some(level) => contract_on::<MulAddI32>(level, None, (output, Initial::Stored), left, right, loops),
                None => in_order::<MulAddI32>(output, left, right, loops, [0; 3]),
            }
        }
        result
    };
    let expected = run(None);
    for level in levels() {
        assert!(run(Some(level)) == expected, "{level:?} {kinds:?} {least} {loops:?}");
    }
}

#[test]
fn contractions_of_narrow_integers_are_those_of_the_loops() {
    let mut random = Random(41);
    for round in 0..400 {
        let sizes: &[usize] = if round % 2 == 0 { &[1, 2, 3, 4, 5] } else { &[1, 2, 8, 19, 33] };
        let loops = random_loops(&mut random, sizes);
        if loops.iter().fold(1, |all, each| all * each.count) <= 40_000 {
            check_narrow(&mut random, &loops);
        }
    }
}

#[test]
fn contractions_of_narrow_integers_of_real_shapes_are_those_of_the_loops() {
    let mut random = Random(42);
    for (m, n, k) in [(1, 100, 784), (100, 1, 50), (7, 65, 3), (13, 31, 40), (8, 16, 4100), (3, 50, 519), (16, 24, 32)]
    {
        check_narrow(&mut random, &[each(m, n as i64, k as i64, 0), each(k, 0, 1, n as i64), each(n, 1, 0, 1)]);
        check_narrow(&mut random, &[each(m, n as i64, k as i64, 0), each(n, 1, 0, k as i64), each(k, 0, 1, 1)]);
    }
    for (channels, side, inputs, taps, stride) in
        [(10, 13, 5, 3, 1), (6, 29, 3, 3, 2), (9, 7, 18, 1, 1), (64, 5, 2, 3, 1)]
    {
        check_narrow(&mut random, &convolution(channels, side, inputs, taps, stride));
    }
}

/// The instruction is used where the processor has it, and for narrow integers only.
#[cfg(any(all(target_arch = "aarch64", target_feature = "neon"), all(feature = "std", target_arch = "x86_64")))]
#[test]
fn groups_are_multiplied_by_the_instruction_for_them() {
    use groups::{Dot, Grouping};

    let best = Level::best(usize::MAX);
    let is_grouped = |sums: usize, right: OperandKind| {
        let loops = [each(2, 1, sums as i64, 0), each(sums, 0, 1, 1)];
        let left = OperandKind::Narrow { of: Narrow::I8, is_aligned: false };
        groups::of::<MulAddI32>(best, &loops, [left, right]).is_some()
    };
    let bytes = OperandKind::Narrow { of: Narrow::I8, is_aligned: true };
    assert_eq!(is_grouped(10, bytes), Dot::level(best).is_some());
    assert!(!is_grouped(10, OperandKind::Memory) && !is_grouped(10, OperandKind::Computed) && !is_grouped(1, bytes));
}
