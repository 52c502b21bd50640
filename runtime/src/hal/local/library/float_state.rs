//! The floating-point mode that kernels run in: denormal numbers are flushed to zero, as inputs and as results.
//!
//! The peer runtime sets this mode around every dispatch, and so results agree only in the same mode.
//! Rust's own floating-point code assumes the default mode; therefore the mode is set just around calls of kernels.

/// Sets the mode when made and restores the former one when dropped. Does nothing on other architectures.
#[derive(Debug)]
pub(super) struct FlushDenormals {
    previous: register::Word,
}

impl FlushDenormals {
    /// Enters the mode.
    #[inline]
    pub(super) fn enter() -> FlushDenormals {
        let previous = register::read();
        if previous & register::FLUSH != register::FLUSH {
            register::write(previous | register::FLUSH);
        }
        FlushDenormals { previous }
    }
}

impl Drop for FlushDenormals {
    #[inline]
    fn drop(&mut self) {
        if self.previous & register::FLUSH != register::FLUSH {
            register::write(self.previous);
        }
    }
}

#[cfg(any(target_arch = "x86_64", all(target_arch = "x86", target_feature = "sse")))]
mod register {
    use core::arch::asm;

    pub(super) type Word = u32;

    /// MXCSR: flush to zero (bit 15) and denormals are zero (bit 6).
    pub(super) const FLUSH: Word = 1 << 15 | 1 << 6;

    #[inline]
    pub(super) fn read() -> Word {
        let mut value: Word = 0;
        // SAFETY: stores the 32-bit MXCSR, which every processor with SSE has, to a local.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut value, options(nostack, preserves_flags)) };
        value
    }

    #[inline]
    pub(super) fn write(value: Word) {
        // SAFETY: `value` is what the register held with only defined bits changed, so it cannot fault. Between the
        // write of the flushing mode and the write that restores the former mode only kernels run.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const value, options(nostack, preserves_flags)) };
    }
}

#[cfg(target_arch = "aarch64")]
mod register {
    use core::arch::asm;

    pub(super) type Word = u64;

    /// FPCR: flush to zero (bit 24) and flush half precision to zero (bit 19).
    pub(super) const FLUSH: Word = 1 << 24 | 1 << 19;

    #[inline]
    pub(super) fn read() -> Word {
        let value;
        // SAFETY: FPCR can be read in user mode.
        unsafe { asm!("mrs {}, fpcr", out(reg) value, options(nostack, preserves_flags)) };
        value
    }

    #[inline]
    pub(super) fn write(value: Word) {
        // SAFETY: FPCR can be written in user mode; `value` is what it held with only defined bits changed. Between the
        // write of the flushing mode and the write that restores the former mode only kernels run.
        unsafe { asm!("msr fpcr, {}", in(reg) value, options(nostack, preserves_flags)) };
    }
}

#[cfg(not(any(target_arch = "x86_64", all(target_arch = "x86", target_feature = "sse"), target_arch = "aarch64")))]
mod register {
    pub(super) type Word = u32;

    /// No bit: there is nothing to set.
    pub(super) const FLUSH: Word = 0;

    pub(super) fn read() -> Word {
        0
    }

    pub(super) fn write(_value: Word) {}
}
