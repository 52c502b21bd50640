//! Random delays, which make rare interleavings of threads frequent. They depend on a seed and on the order in which threads
//! are first delayed.

use core::cell::Cell;
use core::hint::spin_loop;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// The environment variable with the seed.
const SEED_VARIABLE: &str = "INCARNATE_PERTURB_SEED";
/// One point in so many sleeps, which has the thread leave its processor as a preemption would.
const SLEEP_EVERY: u64 = 2048;
const SLEEP: Duration = Duration::from_micros(50);
/// One point in so many yields.
const YIELD_EVERY: u64 = 256;
/// One point in so many spins, for at most so many iterations: some hundred nanoseconds to two microseconds.
const SPIN_EVERY: u64 = 8;
const LONGEST_SPIN: u64 = 64;

std::thread_local! {
    /// The state of the thread's generator; zero before its first number.
    static STATE: Cell<u64> = const { Cell::new(0) };
}

/// Delays the thread by a random time, mostly not at all.
pub(crate) fn point() {
    let number = random();
    if number.is_multiple_of(SLEEP_EVERY) {
        thread::sleep(SLEEP);
    } else if number.is_multiple_of(YIELD_EVERY) {
        thread::yield_now();
    } else if number.is_multiple_of(SPIN_EVERY) {
        (0..(number >> 32) % LONGEST_SPIN).for_each(|_| spin_loop());
    }
}

/// A number of the thread's generator (xorshift64).
fn random() -> u64 {
    // A thread that is ending, whose state is gone, gets a number without a delay.
    let next = STATE.try_with(|state| {
        let mut number = state.get();
        if number == 0 {
            number = first();
        }
        number ^= number << 13;
        number ^= number >> 7;
        number ^= number << 17;
        state.set(number);
        // The low bits of xorshift repeat soonest.
        number.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 8
    });
    next.unwrap_or(1)
}

/// Where a thread's generator begins: the seed and the number of the thread, mixed (splitmix64).
#[cold]
fn first() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    static THREADS: AtomicU64 = AtomicU64::new(1);
    let seed = *SEED.get_or_init(|| std::env::var(SEED_VARIABLE).ok().and_then(|seed| seed.parse().ok()).unwrap_or(0));
    let thread = THREADS.fetch_add(1, Ordering::Relaxed);
    let mut mixed = seed.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(thread.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ mixed >> 31).max(1)
}
