//! Growth of arrays whose length a program chooses: charged and fallible.

use alloc::vec::Vec;

use crate::Result;
use crate::vm::{Charge, array::no_memory};

/// Reserves space for `count` more elements. New memory is charged to the owner of the array before it is allocated.
///
/// # Errors
/// RESOURCE_EXHAUSTED if the ledger or the system has no more memory.
#[inline(always)]
pub(crate) fn reserve<T>(array: &mut Vec<T>, charge: &mut Charge, count: usize) -> Result<()> {
    if array.capacity() - array.len() >= count { Ok(()) } else { grow(array, charge, count) }
}

/// At least doubles the capacity, so that the time of many calls is linear in what they append.
#[cold]
#[inline(never)]
fn grow<T>(array: &mut Vec<T>, charge: &mut Charge, count: usize) -> Result<()> {
    const LEAST: usize = 4;
    let needed = array.len().saturating_add(count);
    let capacity = needed.max(array.capacity().saturating_mul(2)).max(LEAST);
    let more = (capacity - array.capacity()).saturating_mul(size_of::<T>()) as u64;
    charge.grow(more)?;
    array.try_reserve_exact(capacity - array.len()).map_err(|_| {
        charge.shrink(more);
        no_memory(needed)
    })
}

/// Appends elements. New memory is charged to the owner of the array before it is allocated.
///
/// # Errors
/// RESOURCE_EXHAUSTED if the ledger or the system has no more memory.
#[inline]
pub(crate) fn append<T: Clone>(array: &mut Vec<T>, charge: &mut Charge, elements: &[T]) -> Result<()> {
    reserve(array, charge, elements.len())?;
    #[expect(clippy::disallowed_methods, reason = "the memory is reserved")]
    array.extend_from_slice(elements);
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::vm::Ledger;

    #[test]
    fn capacity_is_charged_before_it_is_allocated() {
        let ledger = Ledger::new(64, 1);
        let (mut array, mut charge) = (Vec::<u64>::new(), ledger.charge(0).unwrap());
        for number in 0..8 {
            reserve(&mut array, &mut charge, 1).unwrap();
            array.push(number);
            assert!(ledger.bytes() >= size_of_val(&*array) as u64);
        }
        assert_eq!(ledger.bytes(), 64);
        assert!(reserve(&mut array, &mut charge, 1).is_err() && reserve(&mut array, &mut charge, usize::MAX).is_err());
        assert_eq!((array.capacity(), ledger.bytes()), (8, 64));
        assert!(reserve(&mut array, &mut Charge::none(), usize::MAX).is_err());
        assert!(append(&mut array, &mut charge, &[8]).is_err());
        array.clear();
        append(&mut array, &mut charge, &[8, 9]).unwrap();
        assert_eq!(array, [8, 9]);
    }
}
