//! The floating-point mode of kernels, which flushes denormal inputs and results to zero.
//!
//! IREE sets this mode around every dispatch, so results agree only in the same mode. Rust code assumes the default
//! mode; therefore only calls of kernels run in the special one.

use core::cell::Cell;
use core::marker::PhantomData;

std::thread_local! {
    /// True while a guard exists on this thread. Cheaper than reading the processor's register.
    static ENTERED: Cell<bool> = const { Cell::new(false) };
}

/// A guard that sets the thread's mode and restores the previous one on drop. It does nothing on architectures without
/// such a mode.
///
/// [`LibraryExecutable`](super::LibraryExecutable) enters the mode for each call of `dispatch`, which costs some
/// nanoseconds. A thread that runs many dispatches in a row can hold a guard around them; nested guards cost nothing.
#[derive(Debug)]
pub struct FlushDenormals {
    /// The mode to restore; `None` in a nested guard.
    previous: Option<register::Word>,
    /// Makes the guard `!Send`: the mode belongs to a thread.
    _not_send: PhantomData<*const ()>,
}

impl FlushDenormals {
    /// Enters the mode.
    ///
    /// # Safety
    /// Until the guard is dropped the thread must run no floating-point operations of Rust code, which the language
    /// defines only for the default mode. Guards must be dropped in reverse order.
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
        // SAFETY: `value` is a value of the register with only defined bits changed, so it cannot fault. The contract
        // of `FlushDenormals::enter` covers the code until the mode is restored.
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
        // SAFETY: FPCR can be written in user mode; `value` is a value of the register with only defined bits changed.
        // The contract of `FlushDenormals::enter` covers the code until the mode is restored.
        unsafe { asm!("msr fpcr, {}", in(reg) value, options(nostack, preserves_flags)) };
    }
}

#[cfg(not(any(target_arch = "x86_64", all(target_arch = "x86", target_feature = "sse"), target_arch = "aarch64")))]
mod register {
    pub(super) type Word = u32;

    /// Returns the value unchanged: there is no such mode.
    pub(super) fn flushing(value: Word) -> Word {
        value
    }

    pub(super) fn read() -> Word {
        0
    }

    pub(super) fn write(_value: Word) {}
}
