//! A bump allocator in memory of a fixed size, which counts what is in use.
//!
//! Memory is returned when the last block is freed, or when all blocks are freed that were allocated after
//! [`Heap::keep`]: a program calls it once, when it has loaded its model and called it for the first time. Calls after that free
//! what they allocate.
#![allow(unsafe_code, reason = "an implementation of GlobalAlloc")]

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, Ordering};

/// The largest alignment of a block: that of the runtime's buffers.
const ALIGNMENT: usize = 64;

/// A heap of `SIZE` bytes.
#[derive(Debug)]
#[repr(C)]
pub struct Heap<const SIZE: usize> {
    memory: UnsafeCell<Memory<SIZE>>,
    state: UnsafeCell<State>,
    /// Set while the state is in use. Nothing waits for it: an interrupt handler that allocates meanwhile gets no memory.
    taken: AtomicBool,
}

#[derive(Debug)]
#[repr(align(64))]
struct Memory<const SIZE: usize>([u8; SIZE]);

/// Offsets into the memory, and counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct State {
    /// The first free byte.
    top: usize,
    /// The end of the blocks that stay.
    kept: usize,
    /// The number of blocks above them.
    live: usize,
    /// The highest `top` so far.
    peak: usize,
    /// The number of allocations so far.
    allocations: usize,
}

// SAFETY: the state is accessed by `with` alone, which excludes others by `taken`; blocks belong to their owners.
unsafe impl<const SIZE: usize> Sync for Heap<SIZE> {}

impl<const SIZE: usize> Heap<SIZE> {
    /// Creates a heap without blocks.
    #[must_use]
    pub const fn new() -> Heap<SIZE> {
        Heap {
            memory: UnsafeCell::new(Memory([0; SIZE])),
            state: UnsafeCell::new(State { top: 0, kept: 0, live: 0, peak: 0, allocations: 0 }),
            taken: AtomicBool::new(false),
        }
    }

    fn with<R>(&self, body: impl FnOnce(&mut State) -> R) -> Option<R> {
        if self.taken.swap(true, Ordering::Acquire) {
            return None;
        }
        // SAFETY: `taken` was not set, so no other reference to the state exists until it is reset below.
        let result = body(unsafe { &mut *self.state.get() });
        self.taken.store(false, Ordering::Release);
        Some(result)
    }

    fn state(&self) -> State {
        self.with(|state| *state).unwrap_or_default()
    }

    fn start(&self) -> *mut u8 {
        self.memory.get().cast()
    }

    /// Makes all blocks permanent that are allocated.
    pub fn keep(&self) {
        self.with(|state| (state.kept, state.live) = (state.top, 0));
    }

    /// Returns the size of the heap in bytes.
    #[must_use]
    pub const fn size(&self) -> usize {
        SIZE
    }

    /// Returns the number of bytes that permanent blocks take.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.state().kept
    }

    /// Returns the number of bytes up to the end of the highest block.
    #[must_use]
    pub fn used(&self) -> usize {
        self.state().top
    }

    /// Returns the largest number of bytes in use so far.
    #[must_use]
    pub fn peak(&self) -> usize {
        self.state().peak
    }

    /// Returns the number of allocations so far.
    #[must_use]
    pub fn allocations(&self) -> usize {
        self.state().allocations
    }
}

impl<const SIZE: usize> Default for Heap<SIZE> {
    fn default() -> Heap<SIZE> {
        Heap::new()
    }
}

// SAFETY: blocks are disjoint ranges of `memory`, because each begins at `top` or above it and moves it to its end, and `top` moves
// back only over blocks that were freed. Their addresses are aligned, because the memory is to the largest alignment.
unsafe impl<const SIZE: usize> GlobalAlloc for Heap<SIZE> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let block = self.with(|state| {
            let start = state.top.checked_next_multiple_of(layout.align()).filter(|_| layout.align() <= ALIGNMENT)?;
            let end = start.checked_add(layout.size()).filter(|end| *end <= SIZE)?;
            state.top = end;
            state.live += 1;
            state.peak = state.peak.max(end);
            state.allocations += 1;
            Some(start)
        });
        match block.flatten() {
            Some(start) => self.start().wrapping_add(start),
            None => null_mut(),
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        self.with(|state| {
            let start = block.addr() - self.start().addr();
            if start < state.kept {
                return;
            }
            state.live = state.live.saturating_sub(1);
            if state.live == 0 {
                state.top = state.kept;
            } else if start + layout.size() == state.top {
                state.top = start;
            }
        });
    }
}
