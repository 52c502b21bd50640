//! Instructions on references, under their names.

use super::description::Description;
use crate::vm::{Buffer, HasMemory, List, Memory, Ref, Stack, Traced, Value, ValueType, failure, trace};
use crate::{Error, Result};

/// Checks that a reference is null or of a type.
///
/// # Errors
/// INVALID_ARGUMENT.
#[inline]
pub fn check_ref(reference: &Ref, expected: ValueType) -> Result<()> {
    crate::vm::check_ref(reference, expected)
}

/// Returns a reference if it is null or of a type.
///
/// # Errors
/// INVALID_ARGUMENT.
#[inline]
pub fn checked_ref(reference: Ref, expected: ValueType) -> Result<Ref> {
    crate::vm::check_ref(&reference, expected)?;
    Ok(reference)
}

/// Returns 1 if both are the same object or both null, otherwise 0.
#[inline]
#[must_use]
pub fn cmp_eq_ref(left: &Ref, right: &Ref) -> i32 {
    i32::from(left.same(right))
}

/// Returns 0 if both are the same object or both null, otherwise 1.
#[inline]
#[must_use]
pub fn cmp_ne_ref(left: &Ref, right: &Ref) -> i32 {
    i32::from(!left.same(right))
}

/// Returns 1 if the reference is not null, otherwise 0.
#[inline]
#[must_use]
pub fn cmp_nz_ref(reference: &Ref) -> i32 {
    i32::from(!reference.is_null())
}

/// Returns the lower 32 bits.
#[inline(always)]
#[must_use]
pub const fn low(value: i64) -> i32 {
    value as i32
}

/// Returns the upper 32 bits.
#[inline(always)]
#[must_use]
pub const fn high(value: i64) -> i32 {
    (value >> 32) as i32
}

/// Joins two halves to 64 bits.
#[inline(always)]
#[must_use]
pub const fn pair(low: i32, high: i32) -> i64 {
    ((high as i64) << 32) | (low as u32 as i64)
}

/// Selects a value by an unsigned index; out of range selects the default.
#[inline]
pub fn switch<T: Copy, const N: usize>(index: i32, default: T, values: [T; N]) -> T {
    values.get(index as u32 as usize).copied().unwrap_or(default)
}

/// Selects the first of two references if the condition is not zero, otherwise the second.
#[inline]
#[must_use]
pub fn select_ref(condition: i32, first: Ref, second: Ref) -> Ref {
    if condition != 0 { first } else { second }
}

/// Selects a reference by an unsigned index; out of range selects the default.
#[inline]
#[must_use]
pub fn switch_ref<const N: usize>(index: i32, default: Ref, values: [Ref; N]) -> Ref {
    values.into_iter().nth(index as u32 as usize).unwrap_or(default)
}

/// Executes `vm.fail`: a status of zero is no failure.
///
/// # Errors
/// The failure of any other status.
#[inline]
pub fn fail(status: i32, message: &str) -> Result<()> {
    failure::fail(status, message)
}

/// The error of a function that ends in a `fail` whose status is zero.
#[cold]
#[must_use]
pub fn fell_through() -> Error {
    failure::fell_through()
}

/// Emits the event of a `vm.trace`.
#[cold]
pub fn trace<const N: usize>(module: &Description, name: &str, operands: [Traced<'_>; N]) {
    trace::event(module.name, false, name, operands.into_iter());
}

/// Emits the event of a `vm.print`.
#[cold]
pub fn print<const N: usize>(module: &Description, name: &str, operands: [Traced<'_>; N]) {
    trace::event(module.name, true, name, operands.into_iter());
}

/// Emits the event of a `vm.break` in the internal function with the given ordinal.
#[cold]
pub fn breakpoint(module: &Description, function: u32) {
    trace::breakpoint(module.name, function);
}

macro_rules! loads {
    ($($name:ident: $scalar:ty => $type:ty, $bits:ident => $value:expr;)*) => {
        $(/// Loads an element of a buffer, extended to the type.
        ///
        /// # Errors
        /// OUT_OF_RANGE; INVALID_ARGUMENT if the reference is null or not a buffer.
        #[inline(always)]
        pub fn $name(buffer: &impl HasMemory, element: i64) -> Result<$type> {
            let $bits = buffer.expect_memory()?.load::<$scalar>(element as u64)?;
            Ok($value)
        })*
    };
}
loads! {
    buffer_load_i8_u: u8 => i32, bits => i32::from(bits);
    buffer_load_i8_s: i8 => i32, bits => i32::from(bits);
    buffer_load_i16_u: u16 => i32, bits => i32::from(bits);
    buffer_load_i16_s: i16 => i32, bits => i32::from(bits);
    buffer_load_i32: u32 => i32, bits => bits as i32;
    buffer_load_i64: u64 => i64, bits => bits as i64;
    buffer_load_f32: u32 => f32, bits => f32::from_bits(bits);
    buffer_load_f64: u64 => f64, bits => f64::from_bits(bits);
}

macro_rules! stores {
    ($($store:ident, $fill:ident: $type:ty => $scalar:ty, $value:ident => $bits:expr;)*) => {
        $(/// Stores an element of a buffer, truncated.
        ///
        /// # Errors
        /// OUT_OF_RANGE; PERMISSION_DENIED where the buffer is read-only; INVALID_ARGUMENT where the reference is null or no
        /// buffer.
        #[inline(always)]
        pub fn $store(buffer: &impl HasMemory, element: i64, $value: $type) -> Result<()> {
            buffer.expect_memory()?.store::<$scalar>(element as u64, $bits)
        }

        /// Fills elements of a buffer.
        ///
        /// # Errors
        /// As above.
        #[inline]
        pub fn $fill(buffer: &impl HasMemory, element: i64, length: i64, $value: $type) -> Result<()> {
            buffer.expect_memory()?.fill::<$scalar>(element as u64, length as u64, $bits)
        })*
    };
}
stores! {
    buffer_store_i8, buffer_fill_i8: i32 => u8, value => value as u8;
    buffer_store_i16, buffer_fill_i16: i32 => u16, value => value as u16;
    buffer_store_i32, buffer_fill_i32: i32 => u32, value => value as u32;
    buffer_store_i64, buffer_fill_i64: i64 => u64, value => value as u64;
    buffer_store_f32, buffer_fill_f32: f32 => u32, value => value.to_bits();
    buffer_store_f64, buffer_fill_f64: f64 => u64, value => value.to_bits();
}

/// Allocates a buffer of zeros; length and alignment are in bytes.
///
/// # Errors
/// Those of [`Buffer::zeroed`].
#[inline]
pub fn buffer_alloc(stack: &Stack, length: i64, alignment: i32) -> Result<Ref> {
    Buffer::zeroed(length as u64, alignment as u32, Some(&stack.limits().ledger)).map(Ref::Buffer)
}

/// Clears a buffer.
///
/// # Errors
/// INVALID_ARGUMENT if the reference is null or not a buffer.
#[inline(never)]
pub fn buffer_clear(buffer: &impl HasMemory) -> Result<()> {
    let memory = buffer.expect_memory()?;
    memory.fill(0, memory.length(), 0u8)
}

/// Copies a range of bytes of a buffer to a new buffer.
///
/// # Errors
/// Those of [`Memory::clone_range`]; INVALID_ARGUMENT if the reference is null or not a buffer.
#[inline]
pub fn buffer_clone(stack: &Stack, buffer: &impl HasMemory, offset: i64, length: i64, alignment: i32) -> Result<Ref> {
    let budget = Some(&stack.limits().ledger);
    buffer.expect_memory()?.clone_range(offset as u64, length as u64, alignment as u32, budget).map(Ref::Buffer)
}

/// Returns the length of a buffer in bytes.
///
/// # Errors
/// INVALID_ARGUMENT if the reference is null or not a buffer.
#[inline]
pub fn buffer_length(buffer: &impl HasMemory) -> Result<i64> {
    Ok(buffer.expect_memory()?.length() as i64)
}

/// Copies bytes between buffers.
///
/// # Errors
/// Those of [`Memory::copy`]; INVALID_ARGUMENT if a reference is null or not a buffer.
#[inline]
pub fn buffer_copy(
    source: &impl HasMemory,
    source_offset: i64,
    target: &impl HasMemory,
    target_offset: i64,
    length: i64,
) -> Result<()> {
    let (source, target) = (source.expect_memory()?, target.expect_memory()?);
    Memory::copy(source, source_offset as u64, target, target_offset as u64, length as u64)
}

/// Returns 1 if ranges of two buffers contain the same bytes, otherwise 0.
///
/// # Errors
/// Those of [`Memory::equal`]; INVALID_ARGUMENT if a reference is null or not a buffer.
#[inline]
pub fn buffer_compare(
    left: &impl HasMemory,
    left_offset: i64,
    right: &impl HasMemory,
    right_offset: i64,
    length: i64,
) -> Result<i32> {
    let (left, right) = (left.expect_memory()?, right.expect_memory()?);
    Memory::equal(left, left_offset as u64, right, right_offset as u64, length as u64).map(i32::from)
}

/// Returns the hash of a range of bytes of a buffer.
///
/// # Errors
/// Those of [`Memory::hash`]; INVALID_ARGUMENT if the reference is null or not a buffer.
#[inline]
pub fn buffer_hash(buffer: &impl HasMemory, offset: i64, length: i64) -> Result<i64> {
    buffer.expect_memory()?.hash(offset as u64, length as u64)
}

/// Allocates a list with a capacity.
///
/// # Errors
/// Those of [`List::new`].
#[inline]
pub fn list_alloc(stack: &Stack, element_type: ValueType, capacity: i32) -> Result<Ref> {
    List::new(element_type, capacity as u32, Some(&stack.limits().ledger)).map(Ref::List)
}

/// Reserves capacity in a list.
///
/// # Errors
/// Those of [`List::reserve`]; INVALID_ARGUMENT if the reference is null or not a list.
#[inline]
pub fn list_reserve(stack: &Stack, list: &Ref, capacity: i32) -> Result<()> {
    list.list()?.reserve_for(&stack.limits().ledger, capacity as u32)
}

/// Returns the number of elements.
///
/// # Errors
/// INVALID_ARGUMENT if the reference is null or not a list.
#[inline]
pub fn list_size(list: &Ref) -> Result<i32> {
    Ok(list.list()?.len() as i32)
}

/// Changes the number of elements.
///
/// # Errors
/// Those of [`List::resize`]; INVALID_ARGUMENT if the reference is null or not a list.
#[inline]
pub fn list_resize(stack: &Stack, list: &Ref, size: i32) -> Result<()> {
    list.list()?.resize_for(&stack.limits().ledger, size as u32)
}

macro_rules! elements {
    ($($get:ident, $set:ident: $type:ty, $convert:ident, $variant:ident;)*) => {
        $(/// Returns an element, converted to the type.
        ///
        /// # Errors
        /// OUT_OF_RANGE; INVALID_ARGUMENT where it is a reference, or the list is null or none.
        #[inline]
        pub fn $get(list: &Ref, index: i32) -> Result<$type> {
            list.list()?.get(index as u32)?.$convert().ok_or_else(failure::not_a_primitive)
        }

        /// Stores an element, converted to the list's type.
        ///
        /// # Errors
        /// Those of [`List::set`]; INVALID_ARGUMENT if the list is null or not a list.
        #[inline]
        pub fn $set(list: &Ref, index: i32, value: $type) -> Result<()> {
            list.list()?.set(index as u32, Value::$variant(value))
        })*
    };
}
elements! {
    list_get_i32, list_set_i32: i32, to_i32, I32;
    list_get_i64, list_set_i64: i64, to_i64, I64;
    list_get_f32, list_set_f32: f32, to_f32, F32;
    list_get_f64, list_set_f64: f64, to_f64, F64;
}

/// Returns a reference of a list, or null if it has another type; `take` leaves null in the list.
///
/// # Errors
/// Those of [`List::get_ref`]; INVALID_ARGUMENT if the list is null or not a list.
#[inline]
pub fn list_get_ref(list: &Ref, index: i32, expected: ValueType, take: bool) -> Result<Ref> {
    list.list()?.get_ref(index as u32, expected, take)
}

/// Stores a reference.
///
/// # Errors
/// Those of [`List::set`]; INVALID_ARGUMENT if the list is null or not a list.
#[inline]
pub fn list_set_ref(list: &Ref, index: i32, value: Ref) -> Result<()> {
    list.list()?.set(index as u32, Value::Ref(value))
}
