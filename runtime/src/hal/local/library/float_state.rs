//! The floating-point mode that kernels run in: denormal numbers are flushed to zero, as inputs and as results.
//!
//! The peer runtime sets this mode around every dispatch, and so results agree only in the same mode.
//! Rust's own floating-point code assumes the default mode; therefore the mode is set just around calls of kernels.

use core::cell::Cell;
use core::marker::PhantomData;

std::thread_local! {
    /// True while a guard is alive on this thread. Asking it is cheaper than asking the processor.
    static ENTERED: Cell<bool> = const { Cell::new(false) };
}

/// Sets the mode of this thread when made and restores the former one when dropped. Does nothing on architectures that
/// have no such mode.
///
/// [`LibraryExecutable`](super::LibraryExecutable) enters the mode for each call of `dispatch`, which costs some
/// nanoseconds. A thread that dispatches many times in a row may hold a guard meanwhile; nested guards cost nothing.
#[derive(Debug)]
pub struct FlushDenormals {
    /// The mode to restore; `None` in a nested guard.
    previous: Option<register::Word>,
    /// The mode belongs to a thread.
    _not_send: PhantomData<*const ()>,
}

impl FlushDenormals {
    /// Enters the mode.
    ///
    /// # Safety
    /// Until the guard is dropped the thread must run no floating-point operations of Rust code, which the language defines
    /// for the default mode only. Guards must be dropped in the reverse of the order in which they were made.
    #[inline]
    #[must_use]
    pub unsafe fn enter() -> FlushDenormals {
        if ENTERED.replace(true) {
            return FlushDenormals { previous: None, _not_send: PhantomData };
        }
        let previous = register::read();
        if register::flushing(previous) != previous {
            register::write(register::flushing(previous));
        }
        FlushDenormals { previous: Some(previous), _not_send: PhantomData }
    }
}

impl Drop for FlushDenormals {
    #[inline]
    fn drop(&mut self) {
        let Some(previous) = self.previous else { return };
        if register::flushing(previous) != previous {
            register::write(previous);
        }
        ENTERED.set(false);
    }
}

#[cfg(any(target_arch = "x86_64", all(target_arch = "x86", target_feature = "sse")))]
mod register {
    use core::arch::asm;

    pub(super) type Word = u32;

    /// MXCSR with flush to zero (bit 15) and denormals are zero (bit 6).
    #[inline]
    pub(super) fn flushing(value: Word) -> Word {
        value | 1 << 15 | 1 << 6
    }

    #[inline]
    pub(super) fn read() -> Word {
        let mut value: Word = 0;
        // SAFETY: stores the 32-bit MXCSR, which every processor with SSE has, to a local.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut value, options(nostack, preserves_flags)) };
        value
    }

    #[inline]
    pub(super) fn write(value: Word) {
        // SAFETY: `value` is what the register held with only defined bits changed, so it cannot fault. What runs until
        // the former value is written back is the contract of `FlushDenormals::enter`.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const value, options(nostack, preserves_flags)) };
    }
}

#[cfg(target_arch = "aarch64")]
mod register {
    use core::arch::asm;

    pub(super) type Word = u64;

    /// FPCR with flush to zero (bit 24) and flush half precision to zero (bit 19).
    #[inline]
    pub(super) fn flushing(value: Word) -> Word {
        value | 1 << 24 | 1 << 19
    }

    #[inline]
    pub(super) fn read() -> Word {
        let value;
        // SAFETY: FPCR can be read in user mode.
        unsafe { asm!("mrs {}, fpcr", out(reg) value, options(nostack, preserves_flags)) };
        value
    }

    #[inline]
    pub(super) fn write(value: Word) {
        // SAFETY: FPCR can be written in user mode; `value` is what it held with only defined bits changed. What runs
        // until the former value is written back is the contract of `FlushDenormals::enter`.
        unsafe { asm!("msr fpcr, {}", in(reg) value, options(nostack, preserves_flags)) };
    }
}

#[cfg(not(any(target_arch = "x86_64", all(target_arch = "x86", target_feature = "sse"), target_arch = "aarch64")))]
mod register {
    pub(super) type Word = u32;

    /// The value as it is: there is nothing to set.
    pub(super) fn flushing(value: Word) -> Word {
        value
    }

    pub(super) fn read() -> Word {
        0
    }

    pub(super) fn write(_value: Word) {}
}
