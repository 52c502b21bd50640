//! Accesses to the memory of programs that other threads may write meanwhile: copies and fills of ranges.
//!
//! The memory of a program is untyped and shared, and only the program orders its accesses. So two threads may access a byte
//! at once, and that must not be undefined behaviour in Rust. `copy_nonoverlapping` would be: it is a plain access.
//!
//! The functions here are, in Rust's terms, relaxed atomic loads and stores of the single bytes. Where processors have the
//! instructions, the machine code of the C library does them: the functions `memmove` and `memset`, called through an address
//! that the compiler cannot see through. So it is foreign code, of which Rust knows what its documentation here states:
//! each byte is loaded and stored as a relaxed atomic would, at least once, in any order. Processors access single bytes
//! indivisibly, in vector instructions too. What was copied is a value like any other: the compiler knows nothing of its
//! origin and cannot take it to be uninitialised.
//!
//! Elsewhere, and under Miri and ThreadSanitizer, which check them, they are the atomic accesses themselves, which compilers do not
//! vectorise.
#![allow(unsafe_code, reason = "copies between raw addresses; see above")]

use core::mem::MaybeUninit;

pub use bulk::{copy, fill};

#[cfg(all(
    not(any(miri, tsan)),
    any(
        target_arch = "x86_64",
        target_arch = "x86",
        target_arch = "aarch64",
        target_arch = "arm",
        target_arch = "riscv64"
    )
))]
#[allow(clippy::pointers_in_nomem_asm_block, reason = "the statement does not use the address")]
mod bulk {
    use core::arch::asm;
    use core::ffi::{c_int, c_void};

    unsafe extern "C" {
        // Every Rust program has them: `core` relies on them.
        fn memmove(target: *mut c_void, source: *const c_void, length: usize) -> *mut c_void;
        fn memset(target: *mut c_void, value: c_int, length: usize) -> *mut c_void;
    }

    type Move = unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> *mut c_void;
    type Set = unsafe extern "C" fn(*mut c_void, c_int, usize) -> *mut c_void;

    /// Copies bytes between addresses; the ranges may overlap.
    ///
    /// # Safety
    /// Both ranges must be valid: the source for reads, the target for writes. Accesses of other threads to the same bytes
    /// are atomic, or of this module.
    #[inline(always)]
    pub unsafe fn copy(source: *const u8, target: *mut u8, length: usize) {
        let mut function: Move = memmove;
        // SAFETY: no instructions: the register has the same address afterwards, which the compiler does not know. The caller
        // promises what the function needs.
        unsafe {
            asm!("/* {0} */", inout(reg) function, options(pure, nomem, nostack, preserves_flags));
            function(target.cast(), source.cast(), length);
        }
    }

    /// Fills bytes with one value.
    ///
    /// # Safety
    /// The range must be valid for writes. Accesses of other threads to the same bytes are atomic, or of this module.
    #[inline(always)]
    pub unsafe fn fill(target: *mut u8, value: u8, length: usize) {
        let mut function: Set = memset;
        // SAFETY: as in `copy`.
        unsafe {
            asm!("/* {0} */", inout(reg) function, options(pure, nomem, nostack, preserves_flags));
            function(target.cast(), c_int::from(value), length);
        }
    }
}

#[cfg(not(all(
    not(any(miri, tsan)),
    any(
        target_arch = "x86_64",
        target_arch = "x86",
        target_arch = "aarch64",
        target_arch = "arm",
        target_arch = "riscv64"
    )
)))]
mod bulk {
    use core::sync::atomic::{AtomicU8, Ordering};

    /// Copies bytes between addresses; the ranges may overlap.
    ///
    /// # Safety
    /// Both ranges must be valid: the source for reads, the target for writes. Accesses of other threads to the same bytes
    /// are atomic, or of this module.
    pub unsafe fn copy(source: *const u8, target: *mut u8, length: usize) {
        let step = |index: usize| {
            // SAFETY: the caller promises the ranges. Read-only memory is read by an atomic load of one byte, which all
            // processors with the instruction do without a write.
            unsafe {
                let byte = AtomicU8::from_ptr(source.add(index).cast_mut()).load(Ordering::Relaxed);
                AtomicU8::from_ptr(target.add(index)).store(byte, Ordering::Relaxed);
            }
        };
        if source.addr() < target.addr() {
            (0..length).rev().for_each(step);
        } else {
            (0..length).for_each(step);
        }
    }

    /// Fills bytes with one value.
    ///
    /// # Safety
    /// The range must be valid for writes. Accesses of other threads to the same bytes are atomic, or of this module.
    pub unsafe fn fill(target: *mut u8, value: u8, length: usize) {
        for index in 0..length {
            // SAFETY: the caller promises the range.
            unsafe { AtomicU8::from_ptr(target.add(index)) }.store(value, Ordering::Relaxed);
        }
    }
}

/// Repeats a pattern from an address on.
///
/// # Safety
/// `count` patterns must be valid for writes. Accesses of other threads to the same bytes are atomic, or of this module.
pub unsafe fn repeat<const N: usize>(target: *mut u8, count: usize, pattern: [u8; N]) {
    if pattern.iter().all(|byte| *byte == pattern[0]) {
        // SAFETY: promised by the caller.
        return unsafe { fill(target, pattern[0], count * N) };
    }
    // The first piece, of which the rest are copies.
    const PIECE: usize = 4096;
    let mut piece = MaybeUninit::<[u8; PIECE]>::uninit();
    let (first, patterns) = (piece.as_mut_ptr().cast::<[u8; N]>(), count.min(PIECE / N));
    for index in 0..patterns {
        // SAFETY: as many patterns as this are no longer than the piece.
        unsafe { first.add(index).write(pattern) };
    }
    let (length, mut done) = (count * N, 0);
    while done < length {
        let next = (length - done).min(patterns * N);
        // SAFETY: `done + next` is at most the length that the caller promises, and so much of the piece is written.
        unsafe { copy(first.cast(), target.add(done), next) };
        done += next;
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    #[test]
    fn ranges_are_copied_and_filled() {
        let mut bytes: Vec<u8> = (0..=255).collect();
        let start = bytes.as_mut_ptr();
        // SAFETY: all ranges are within the vector.
        unsafe {
            copy(start, start.add(3), 200);
            copy(start.add(100), start.add(90), 100);
            fill(start.add(250), 9, 6);
            repeat(start.add(1), 3, [1, 2]);
        }
        let mut expected: Vec<u8> = (0..=255).collect();
        expected.copy_within(0..200, 3);
        expected.copy_within(100..200, 90);
        expected[250..].fill(9);
        expected[1..7].copy_from_slice(&[1, 2, 1, 2, 1, 2]);
        assert_eq!(bytes, expected);
    }

    #[test]
    fn patterns_are_repeated_across_pieces() {
        let mut bytes = vec![0u8; 8 * 1500 + 4];
        // SAFETY: 1500 patterns of 8 bytes are within the vector.
        unsafe { repeat(bytes.as_mut_ptr().add(3), 1500, [1, 2, 3, 4, 5, 6, 7, 8]) };
        assert!(bytes[3..12003].as_chunks::<8>().0.iter().all(|chunk| *chunk == [1, 2, 3, 4, 5, 6, 7, 8]));
        assert_eq!((bytes[2], bytes[12003]), (0, 0));
    }

    #[test]
    fn threads_may_copy_the_same_bytes() {
        let memory = crate::Buffer::zeroed(4096, 0, None);
        let Ok(memory) = memory else { return };
        std::thread::scope(|scope| {
            for value in 1..4u8 {
                let memory = &memory;
                scope.spawn(move || {
                    for _ in 0..20 {
                        assert!(memory.write(0, &[value; 512]).is_ok());
                        assert!(memory.fill(512, 512, value).is_ok());
                        let copied = crate::Buffer::copy(memory, 0, memory, 256, 512);
                        let bytes = memory.to_vec().unwrap_or_default();
                        assert!(copied.is_ok() && bytes.len() == 4096 && bytes.iter().all(|byte| *byte < 4));
                    }
                });
            }
        });
    }
}
