//! Storage for the registers of open calls.
//!
//! The 32-bit registers of all frames lie in one vector, and their reference registers in another; a frame is a range of
//! each. A frame's references are dropped when it is left, so that beyond the top all references are null.

use alloc::vec::Vec;

use super::super::reference::Ref;
use crate::{Error, Result};

/// The registers of a call, and where in its function it is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Frame {
    /// Ordinal of the function.
    pub(super) function: u32,
    /// Index of the instruction to go on with; while a callee runs, of the call.
    pub(super) pc: u32,
    /// Index of the first word of 32-bit registers; a word holds two.
    pub(super) words: usize,
    /// Index of the first reference register.
    pub(super) refs: usize,
}

/// The frames of an invocation.
#[derive(Debug)]
pub(in crate::vm) struct FrameStore {
    words: Vec<u64>,
    refs: Vec<Ref>,
    /// Callers, outermost first; not the function that runs.
    pub(super) callers: Vec<Frame>,
    words_top: usize,
    refs_top: usize,
    call_depth: usize,
    stack_bytes: usize,
}

impl FrameStore {
    /// An empty store.
    pub(in crate::vm) fn new(call_depth: usize, stack_bytes: usize) -> FrameStore {
        FrameStore {
            words: Vec::new(),
            refs: Vec::new(),
            callers: Vec::new(),
            words_top: 0,
            refs_top: 0,
            call_depth,
            stack_bytes,
        }
    }

    /// Closes all frames.
    pub(in crate::vm) fn reset(&mut self) {
        self.callers.clear();
        self.release(0, 0);
    }

    /// Opens a frame: `words` words of zeros, `refs` null references.
    #[inline]
    pub(super) fn allocate(&mut self, function: u32, words: usize, refs: usize) -> Result<Frame> {
        let frame = Frame { function, pc: 0, words: self.words_top, refs: self.refs_top };
        let (words_top, refs_top) = (self.words_top + words, self.refs_top + refs);
        if words_top > self.words.len() || refs_top > self.refs.len() || self.callers.len() >= self.call_depth {
            self.grow(words_top, refs_top)?;
        }
        zero(&mut self.words[frame.words..words_top]);
        self.words_top = words_top;
        self.refs_top = refs_top;
        Ok(frame)
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, words: usize, refs: usize) -> Result<()> {
        if self.callers.len() >= self.call_depth {
            return Err(Error::resource_exhausted(alloc::format!("more than {} nested calls", self.call_depth)));
        }
        if words * size_of::<u64>() + refs * size_of::<Ref>() > self.stack_bytes {
            return Err(Error::resource_exhausted(alloc::format!(
                "the registers of all open calls need more than {} bytes",
                self.stack_bytes
            )));
        }
        self.words.resize(words.next_power_of_two().max(256).max(self.words.len()), 0);
        self.refs.resize_with(refs.next_power_of_two().max(64).max(self.refs.len()), Ref::default);
        Ok(())
    }

    /// Closes the frames from the given tops on: drops their references.
    #[inline]
    pub(super) fn release(&mut self, words: usize, refs: usize) {
        for reference in &mut self.refs[refs..self.refs_top] {
            if !reference.is_null() {
                *reference = Ref::Null;
            }
        }
        self.words_top = words;
        self.refs_top = refs;
    }

    /// The registers of a frame: valid until the next [`FrameStore::allocate`].
    #[inline]
    pub(super) fn registers(&mut self, frame: &Frame) -> (*mut u32, *mut Ref) {
        (self.words.as_mut_ptr().wrapping_add(frame.words).cast(), self.refs.as_mut_ptr().wrapping_add(frame.refs))
    }
}

/// Zeros registers. Most frames have few, and a call of `memset` costs more than they do.
#[inline(always)]
fn zero(words: &mut [u64]) {
    if words.len() > 32 {
        words.fill(0);
    } else {
        for word in words {
            // Opaque, or else the loop becomes a call of `memset`.
            *word = core::hint::black_box(0);
        }
    }
}
