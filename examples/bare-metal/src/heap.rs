//! A bump allocator in memory of a fixed size, which counts what is in use.
//!
//! A block that is freed is reused for the next one of its size. Calls of a model with static shapes allocate the same sizes in the
//! same order, so the heap is as large after the thousandth call as after the second one.
//!
//! The runtime returns an error if there is no memory for a buffer, but small objects such as reference counts cannot fail: without
//! memory for them, a program ends. So blocks of more than [`Heap::SMALL`] bytes, which buffers are, leave [`Heap::RESERVE`] bytes
//! free.
#![allow(unsafe_code, reason = "an implementation of GlobalAlloc")]

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, Ordering};

/// The largest alignment of a block.
const ALIGNMENT: usize = 64;
/// Sizes of blocks are multiples of it: a free block holds a [`Free`].
const UNIT: usize = 8;
/// Stands for no block; others are numbered by the unit that they begin at, from 1 on. Zeros make a heap that takes no flash.
const NONE: usize = 0;

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
#[derive(Clone, Copy, Debug)]
struct State {
    /// The end of the highest block.
    top: usize,
    /// The first of the free blocks, which are below it.
    free: usize,
    /// The largest `top` so far.
    peak: usize,
    /// The number of allocations so far.
    allocations: usize,
}

/// What a free block contains.
#[derive(Clone, Copy)]
#[repr(C)]
struct Free {
    next: usize,
    size: usize,
}

// SAFETY: the state and free blocks are accessed by `with` alone, which excludes others by `taken`; other blocks belong to their
// owners.
unsafe impl<const SIZE: usize> Sync for Heap<SIZE> {}

impl<const SIZE: usize> Heap<SIZE> {
    /// The largest size of a small object in bytes.
    pub const SMALL: usize = 256;
    /// Bytes that are for small objects alone: more than those of a call and of an error take.
    pub const RESERVE: usize = 1024;

    /// Creates a heap without blocks.
    #[must_use]
    pub const fn new() -> Heap<SIZE> {
        const { assert!(size_of::<Free>() <= UNIT && SIZE > Self::RESERVE) };
        Heap {
            memory: UnsafeCell::new(Memory([0; SIZE])),
            state: UnsafeCell::new(State { top: 0, free: NONE, peak: 0, allocations: 0 }),
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

    fn at(&self, offset: usize) -> *mut u8 {
        self.memory.get().cast::<u8>().wrapping_add(offset)
    }

    /// Unlinks the first free block that meets a condition on its offset and its size; returns its offset.
    fn unlink(&self, state: &mut State, condition: impl Fn(usize, usize) -> bool) -> Option<usize> {
        let link = |block: usize| self.at((block - 1) * UNIT).cast::<Free>();
        let (mut previous, mut block) = (NONE, state.free);
        while block != NONE {
            // SAFETY: the block is free: `dealloc` wrote its link, and no other code has its address.
            let Free { next, size } = unsafe { link(block).read() };
            if condition((block - 1) * UNIT, size) {
                match previous {
                    NONE => state.free = next,
                    // SAFETY: as above, for the block before.
                    _ => unsafe { (*link(previous)).next = next },
                }
                return Some((block - 1) * UNIT);
            }
            (previous, block) = (block, next);
        }
        None
    }

    /// Extends the part of the memory that has blocks.
    fn extend(&self, state: &mut State, layout: Layout) -> Option<usize> {
        let limit = if layout.size() > Self::SMALL { SIZE - Self::RESERVE } else { SIZE };
        let start = state.top.checked_next_multiple_of(layout.align())?;
        let end = start.checked_add(layout.size()).filter(|end| *end <= limit)?;
        state.top = end;
        state.peak = state.peak.max(end);
        Some(start)
    }

    /// Returns the size of the heap in bytes.
    #[must_use]
    pub const fn size(&self) -> usize {
        SIZE
    }

    /// Returns the number of bytes up to the end of the highest block.
    #[must_use]
    pub fn used(&self) -> usize {
        self.with(|state| state.top).unwrap_or(SIZE)
    }

    /// Returns the largest number of bytes in use so far.
    #[must_use]
    pub fn peak(&self) -> usize {
        self.with(|state| state.peak).unwrap_or(SIZE)
    }

    /// Returns the number of allocations so far.
    #[must_use]
    pub fn allocations(&self) -> usize {
        self.with(|state| state.allocations).unwrap_or_default()
    }
}

impl<const SIZE: usize> Default for Heap<SIZE> {
    fn default() -> Heap<SIZE> {
        Heap::new()
    }
}

/// The layout of the block for a request.
fn block(layout: Layout) -> Option<Layout> {
    let size = layout.size().max(1).checked_next_multiple_of(UNIT)?;
    Layout::from_size_align(size, layout.align().max(UNIT)).ok().filter(|layout| layout.align() <= ALIGNMENT)
}

// SAFETY: blocks are disjoint ranges of `memory`: `extend` begins at `top` or above it and moves it to the end, `dealloc` moves it
// back over free blocks alone, and a block is unlinked where it is reused. They have the size and the alignment of
// their layout, because the memory is aligned to the largest alignment.
unsafe impl<const SIZE: usize> GlobalAlloc for Heap<SIZE> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(layout) = block(layout) else { return null_mut() };
        let found = self.with(|state| {
            let fits = |start: usize, size| size == layout.size() && start.is_multiple_of(layout.align());
            let found = self.unlink(state, fits).or_else(|| self.extend(state, layout))?;
            state.allocations += 1;
            Some(found)
        });
        found.flatten().map_or(null_mut(), |offset| self.at(offset))
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        let Some(layout) = block(layout) else { return };
        self.with(|state| {
            let start = address.addr() - self.at(0).addr();
            // SAFETY: the caller frees the block, which is aligned to `UNIT` and has the size of a link or more.
            unsafe { address.cast::<Free>().write(Free { next: state.free, size: layout.size() }) };
            state.free = start / UNIT + 1;
            loop {
                let top = state.top;
                let Some(highest) = self.unlink(state, |start, size| start + size == top) else { return };
                state.top = highest;
            }
        });
    }
}
