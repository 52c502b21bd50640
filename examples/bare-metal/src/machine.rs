//! What the test measures: instructions and stack.
#![allow(unsafe_code, reason = "registers, and the memory below the stack")]

#[cfg(target_arch = "arm")]
pub use arm::{instructions, stack_peak};
#[cfg(target_arch = "riscv32")]
pub use riscv32::{instructions, stack_peak};

#[cfg(target_arch = "arm")]
mod arm {
    use cortex_m::peripheral::SYST;
    use cortex_m::peripheral::syst::SystClkSource;

    /// An instruction takes a nanosecond of QEMU's time with `-icount shift=0`; the clock of the board has 25 MHz.
    const INSTRUCTIONS_PER_TICK: u32 = 40;
    const RELOAD: u32 = (1 << 24) - 1;

    /// Runs the closure and returns its number of instructions, in steps of 40. At most 671 million are counted.
    pub fn instructions<R>(body: impl FnOnce() -> R) -> (R, u64) {
        // SAFETY: no other code of the program uses the timer.
        let mut timer = unsafe { cortex_m::Peripherals::steal() }.SYST;
        timer.set_clock_source(SystClkSource::Core);
        timer.set_reload(RELOAD);
        timer.clear_current();
        timer.enable_counter();
        let start = SYST::get_current();
        let result = body();
        let ticks = start.wrapping_sub(SYST::get_current()) & RELOAD;
        (result, u64::from(ticks * INSTRUCTIONS_PER_TICK))
    }

    /// Returns the bytes of stack that were in use at most: cortex-m-rt paints it before `main`.
    pub fn stack_peak() -> Option<usize> {
        const PAINT: u32 = 0xcccc_cccc;
        unsafe extern "C" {
            static mut _stack_start: u32;
            static mut _stack_end: u32;
        }
        let (top, mut lowest) = ((&raw const _stack_start), (&raw const _stack_end));
        // SAFETY: the linker places both symbols at the ends of the stack; the words between them are initialised memory.
        while lowest < top && unsafe { lowest.read_volatile() } == PAINT {
            lowest = lowest.wrapping_add(1);
        }
        Some(top.addr() - lowest.addr())
    }
}

#[cfg(target_arch = "riscv32")]
mod riscv32 {
    use core::arch::asm;

    fn retired() -> u64 {
        let (low, high): (u32, u32);
        // SAFETY: the instructions read counters.
        unsafe { asm!("csrr {0}, minstret", "csrr {1}, minstreth", out(reg) low, out(reg) high) };
        u64::from(high) << 32 | u64::from(low)
    }

    /// Runs the closure and returns its number of instructions.
    pub fn instructions<R>(body: impl FnOnce() -> R) -> (R, u64) {
        let start = retired();
        let result = body();
        (result, retired().wrapping_sub(start))
    }

    /// Returns none: riscv-rt does not paint the stack.
    pub fn stack_peak() -> Option<usize> {
        None
    }
}
