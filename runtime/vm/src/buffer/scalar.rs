//! Scalars in the memory of programs.
//!
//! They are loaded and stored by relaxed atomic operations where their address is aligned, which costs nothing on the supported
//! processors, so that threads that race on a scalar read some value that was stored. Where a word has 32 bits, scalars of 64 bits
//! are two words.
#![allow(unsafe_code, reason = "accesses to addresses that buffers checked")]

#[cfg(target_pointer_width = "64")]
use core::sync::atomic::AtomicU64;
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering};

use crate::guest;

/// A type that buffers hold as scalars: every bit pattern is a value.
pub trait Scalar: Copy + sealed::Sealed {
    #[doc(hidden)]
    fn load(address: sealed::Address) -> Self;
    #[doc(hidden)]
    fn store(address: sealed::Address, value: Self);
    #[doc(hidden)]
    fn repeat(self, address: sealed::Address, count: usize);
}

pub(super) mod sealed {
    /// Ensures that only the parent module implements [`super::Scalar`].
    pub trait Sealed {}
    /// An address that was checked to be valid for the scalar that is read or written.
    #[derive(Debug)]
    pub struct Address(pub(in super::super) *mut u8);
}

/// Loads a scalar that is not aligned. Not inlined: memory of programs is aligned, and so are its scalars.
#[cold]
#[inline(never)]
fn load_bytes<const N: usize>(pointer: *mut u8) -> [u8; N] {
    // SAFETY: `Memory::element` checked the range; bytes have no alignment.
    core::array::from_fn(|index| unsafe { AtomicU8::from_ptr(pointer.add(index)) }.load(Ordering::Relaxed))
}

/// Stores a scalar that is not aligned.
#[cold]
#[inline(never)]
fn store_bytes<const N: usize>(pointer: *mut u8, bytes: [u8; N]) {
    for (index, byte) in bytes.into_iter().enumerate() {
        // SAFETY: `Memory::element` checked the range; bytes have no alignment.
        unsafe { AtomicU8::from_ptr(pointer.add(index)) }.store(byte, Ordering::Relaxed);
    }
}

/// A scalar is accessed as words of `$bits`.
macro_rules! scalars {
    ($($type:ty as $bits:ty, $atomic:ident;)*) => {
        $(impl sealed::Sealed for $type {}
        impl Scalar for $type {
            #[inline(always)]
            fn load(sealed::Address(pointer): sealed::Address) -> $type {
                if pointer.addr() % size_of::<$bits>() != 0 {
                    return <$type>::from_ne_bytes(load_bytes(pointer));
                }
                let mut bytes = [0; size_of::<$type>()];
                let (words, _) = bytes.as_chunks_mut::<{ size_of::<$bits>() }>();
                for (index, word) in words.iter_mut().enumerate() {
                    // SAFETY: `Memory::element` checked the range; the alignment was checked above.
                    let atomic = unsafe { $atomic::from_ptr(pointer.cast::<$bits>().add(index)) };
                    *word = atomic.load(Ordering::Relaxed).to_ne_bytes();
                }
                <$type>::from_ne_bytes(bytes)
            }

            #[inline(always)]
            fn store(sealed::Address(pointer): sealed::Address, value: $type) {
                let bytes = value.to_ne_bytes();
                if pointer.addr() % size_of::<$bits>() != 0 {
                    return store_bytes(pointer, bytes);
                }
                let (words, _) = bytes.as_chunks::<{ size_of::<$bits>() }>();
                for (index, word) in words.iter().enumerate() {
                    // SAFETY: `Memory::element` checked the range; the alignment was checked above.
                    unsafe { $atomic::from_ptr(pointer.cast::<$bits>().add(index)) }
                        .store(<$bits>::from_ne_bytes(*word), Ordering::Relaxed);
                }
            }

            #[inline]
            fn repeat(self, sealed::Address(pointer): sealed::Address, count: usize) {
                // SAFETY: `Memory::address_mut` checked the range of all elements.
                unsafe { guest::repeat(pointer, count, self.to_ne_bytes()) };
            }
        })*
    };
}
scalars! {
    u8 as u8, AtomicU8;
    i8 as u8, AtomicU8;
    u16 as u16, AtomicU16;
    i16 as u16, AtomicU16;
    u32 as u32, AtomicU32;
    i32 as u32, AtomicU32;
    f32 as u32, AtomicU32;
}
#[cfg(target_pointer_width = "64")]
scalars! {
    u64 as u64, AtomicU64;
    i64 as u64, AtomicU64;
    f64 as u64, AtomicU64;
}
// Atomic loads of more than a word may write, which constants do not allow.
#[cfg(not(target_pointer_width = "64"))]
scalars! {
    u64 as u32, AtomicU32;
    i64 as u32, AtomicU32;
    f64 as u32, AtomicU32;
}
