//! Scalars in the memory of programs.
//!
//! They are loaded and stored by relaxed atomic operations where their address is aligned, which costs nothing on the supported
//! processors, so that threads that race on a scalar read some value that was stored.
#![allow(unsafe_code, reason = "accesses to addresses that buffers checked")]

use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

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

macro_rules! scalars {
    ($($type:ty as $bits:ty, $atomic:ident;)*) => {
        $(impl sealed::Sealed for $type {}
        impl Scalar for $type {
            #[inline(always)]
            fn load(sealed::Address(pointer): sealed::Address) -> $type {
                // Atomic loads of more than a word may write, which constants do not allow.
                if size_of::<$type>() <= size_of::<usize>() && pointer.addr() % size_of::<$type>() == 0 {
                    // SAFETY: `Buffer::address` checked the range; the alignment was checked in the line above.
                    <$type>::from_ne_bytes(unsafe { $atomic::from_ptr(pointer.cast()) }.load(Ordering::Relaxed).to_ne_bytes())
                } else {
                    let mut bytes = [0; size_of::<$type>()];
                    for (index, byte) in bytes.iter_mut().enumerate() {
                        // SAFETY: `Buffer::address` checked the range; bytes have no alignment.
                        *byte = unsafe { AtomicU8::from_ptr(pointer.add(index)) }.load(Ordering::Relaxed);
                    }
                    <$type>::from_ne_bytes(bytes)
                }
            }

            #[inline(always)]
            fn store(sealed::Address(pointer): sealed::Address, value: $type) {
                if pointer.addr() % size_of::<$type>() == 0 {
                    // SAFETY: `Buffer::address` checked the range; the alignment was checked in the line above.
                    unsafe { $atomic::from_ptr(pointer.cast()) }
                        .store(<$bits>::from_ne_bytes(value.to_ne_bytes()), Ordering::Relaxed);
                } else {
                    for (index, byte) in value.to_ne_bytes().into_iter().enumerate() {
                        // SAFETY: `Buffer::address` checked the range; bytes have no alignment.
                        unsafe { AtomicU8::from_ptr(pointer.add(index)) }.store(byte, Ordering::Relaxed);
                    }
                }
            }

            #[inline]
            fn repeat(self, sealed::Address(pointer): sealed::Address, count: usize) {
                // SAFETY: `Buffer::address` checked the range of all elements.
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
    u64 as u64, AtomicU64;
    i32 as u32, AtomicU32;
    i64 as u64, AtomicU64;
    f32 as u32, AtomicU32;
    f64 as u64, AtomicU64;
}
