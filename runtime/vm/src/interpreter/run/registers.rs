//! Registers, through raw pointers into frames.

use super::super::super::reference::Ref;
use incarnate_bytecode::isa::{REF_REGISTER_MASK, REF_REGISTER_MOVE_BIT};

/// The register files of a frame.
pub(super) type Registers = (*mut u32, *mut Ref);

/// A type that registers hold.
pub(super) trait RegisterValue: Copy {
    /// # Safety
    /// The register lies in the frame's register file.
    unsafe fn get(registers: *mut u32, register: u16) -> Self;
    /// # Safety
    /// The register lies in the frame's register file.
    unsafe fn set(registers: *mut u32, register: u16, value: Self);
}

macro_rules! register_values {
    ($($type:ty),*) => {
        $(impl RegisterValue for $type {
            #[inline(always)]
            unsafe fn get(registers: *mut u32, register: u16) -> $type {
                // SAFETY: the caller's promise; a frame begins at a 64-bit word and pairs at even registers, but nothing
                // relies on that here.
                unsafe { registers.add(register as usize).cast::<$type>().read_unaligned() }
            }
            #[inline(always)]
            unsafe fn set(registers: *mut u32, register: u16, value: $type) {
                // SAFETY: as above.
                unsafe { registers.add(register as usize).cast::<$type>().write_unaligned(value) }
            }
        })*
    };
}
register_values!(i32, i64, f32, f64, u64);

/// Borrows a reference register.
///
/// # Safety
/// The register lies in the frame's register file, and no other borrow of it is alive.
#[inline(always)]
pub(super) unsafe fn reference<'a>(references: *mut Ref, register: u16) -> &'a mut Ref {
    // SAFETY: the caller's promise.
    unsafe { &mut *references.add((register & REF_REGISTER_MASK) as usize) }
}

/// Takes or shares the reference of an encoded register.
///
/// # Safety
/// As for [`reference`].
#[inline(always)]
pub(super) unsafe fn transfer(references: *mut Ref, encoded: u16) -> Ref {
    // SAFETY: the caller's promise.
    let source = unsafe { reference(references, encoded) };
    if encoded & REF_REGISTER_MOVE_BIT != 0 { core::mem::take(source) } else { source.clone() }
}
