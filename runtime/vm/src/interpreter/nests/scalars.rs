//! The numbers of a nest that are known before it runs.

use alloc::vec::Vec;

use super::{Counted, Form, MAX_LOOPS, Nest, Scalar};
use incarnate_bytecode::semantics;
use incarnate_bytecode::trip_count::{outer_trip_count, trip_count};

/// Reads a register, or a pair.
pub(super) fn read(words: &[u32], register: usize, is_wide: bool) -> u64 {
    let low = u64::from(words[register]);
    if is_wide { low | u64::from(words[register + 1]) << 32 } else { low }
}

/// Computes what no iteration changes.
pub(super) fn compute(nest: &Nest, words: &[u32], scalars: &mut Vec<u64>) -> Option<()> {
    scalars.clear();
    scalars.try_reserve(nest.scalars.len()).ok()?;
    for scalar in &nest.scalars {
        let of = |slot: &u16| scalars[usize::from(*slot)];
        let number = match scalar {
            Scalar::Constant(bits) => *bits,
            Scalar::Narrow(register) => read(words, usize::from(*register), false),
            Scalar::Wide(register) => read(words, usize::from(*register), true),
            Scalar::Eval(opcode, operands) => {
                let mut bits = [0; 3];
                let bits = bits.get_mut(..operands.len())?;
                bits.iter_mut().zip(operands).for_each(|(bits, slot)| *bits = of(slot));
                semantics::fold(*opcode, bits)?
            }
            Scalar::Copy(slot) => of(slot),
            Scalar::Low(slot) => of(slot) & u64::from(u32::MAX),
            Scalar::High(slot) => of(slot) >> 32,
            Scalar::Pair(low, high) => of(low) | of(high) << 32,
        };
        scalars.push(number);
    }
    Some(())
}

/// The numbers of a nest that are known before it.
pub(super) struct Values<'a> {
    pub(super) scalars: &'a [u64],
}

impl Values<'_> {
    pub(super) fn form(&self, form: &Form) -> i64 {
        let mut sum = 0i64;
        for (coefficient, factors) in form {
            let mut product = *coefficient;
            for (slot, is_narrow) in factors {
                let bits = self.scalars[usize::from(*slot)];
                product = product.wrapping_mul(if *is_narrow { i64::from(bits as u32 as i32) } else { bits as i64 });
            }
            sum = sum.wrapping_add(product);
        }
        sum
    }

    /// Computes the trip counts, and returns how many iterations of the outermost loop there are.
    pub(super) fn trip_counts(&self, nest: &Nest, counts: &mut [usize; MAX_LOOPS]) -> Option<usize> {
        let mut iterations = 0;
        for (at, (counted, count)) in nest.loops.iter().zip(counts).enumerate() {
            let all = self.trip_count(counted)?;
            iterations = if at == 0 { all } else { iterations };
            *count = match &counted.divisor {
                None => all,
                Some(divisor) => outer_trip_count(all, self.form(divisor))?,
            };
        }
        Some(iterations)
    }

    fn trip_count(&self, counted: &Counted) -> Option<usize> {
        let (first, bound) = (self.form(&counted.first), self.form(&counted.bound));
        let (step, relation) = (counted.step, counted.relation);
        let count = match (counted.is_wide, counted.is_signed) {
            (true, true) => trip_count(first, step, relation, bound),
            (true, false) => trip_count(first as u64, step, relation, bound as u64),
            (false, true) => trip_count(first as i32, step, relation, bound as i32),
            (false, false) => trip_count(first as u32, step, relation, bound as u32),
        }?;
        count.checked_add(counted.tested_last.into())
    }
}
