//! Growth of arrays whose length a program chooses: charged and fallible.

use alloc::format;
use alloc::vec::Vec;

use crate::vm::Charge;
use crate::{Error, Result};

/// Reserves room for `count` more elements. New memory is charged to the owner of the array before it is allocated.
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

/// Copies elements, as many as a program chose. The caller has charged their bytes.
///
/// # Errors
/// RESOURCE_EXHAUSTED if the system has no memory.
pub(crate) fn copy_of<T: Clone>(elements: &[T]) -> Result<Vec<T>> {
    let mut copy = with_capacity(elements.len())?;
    copy.extend(elements.iter().cloned());
    Ok(copy)
}

/// Creates an array for `capacity` elements, as many as a program chose. The caller has charged their bytes.
///
/// # Errors
/// RESOURCE_EXHAUSTED if the system has no memory.
pub(crate) fn with_capacity<T>(capacity: usize) -> Result<Vec<T>> {
    let mut array = Vec::new();
    array.try_reserve_exact(capacity).map_err(|_| no_memory(capacity))?;
    Ok(array)
}

#[cold]
fn no_memory(count: usize) -> Error {
    Error::resource_exhausted(format!("the host has no memory for {count} elements"))
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
        assert_eq!(copy_of(&array).unwrap(), array);
    }
}
