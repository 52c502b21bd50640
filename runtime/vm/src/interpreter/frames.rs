//! Storage for the registers of open calls.
//!
//! The 32-bit registers of all frames lie in one vector, and their reference registers in another; a frame is a range of
//! each, right behind its caller's. A frame's references are dropped when it is left, so that beyond the top all
//! references are null. What frames need is in their functions' code, so that only positions are kept here.

use alloc::vec::Vec;

use super::super::failure;
use super::super::reference::Ref;
use crate::Result;

/// Frames have a multiple of so many words, so that zeroing the registers of a small one takes no loop.
pub(super) const FRAME_UNIT: usize = 4;

/// Words, and references, of frames that storage keeps while it is idle: those of some hundred calls.
const KEPT_WORDS: usize = 1 << 13;

/// Where a caller goes on: the function's ordinal, and the index of the call's site in its code. In one word, because
/// it is read back right after it is written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Caller(u64);

impl Caller {
    #[inline(always)]
    pub(super) const fn new(function: u32, site: u32) -> Caller {
        Caller(super::operation::halves(site, function))
    }

    #[inline(always)]
    pub(super) const fn function(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline(always)]
    pub(super) const fn site(self) -> u32 {
        self.0 as u32
    }
}

/// The tops of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    words: usize,
    refs: usize,
    depth: usize,
}

impl Mark {
    /// Number of callers below.
    #[inline(always)]
    pub(super) fn depth(self) -> usize {
        self.depth
    }
}

/// The frames of an invocation.
#[derive(Debug)]
pub(crate) struct FrameStore {
    words: Vec<u64>,
    refs: Vec<Ref>,
    /// Callers, outermost first, as far as `depth`; not the function that runs.
    callers: Vec<Caller>,
    words_top: usize,
    refs_top: usize,
    depth: usize,
    call_depth: usize,
    stack_bytes: usize,
}

impl FrameStore {
    /// An empty store.
    pub(crate) fn new(call_depth: usize, stack_bytes: usize) -> FrameStore {
        FrameStore {
            words: Vec::new(),
            refs: Vec::new(),
            callers: Vec::new(),
            words_top: 0,
            refs_top: 0,
            depth: 0,
            call_depth,
            stack_bytes,
        }
    }

    /// Frees the memory of closed frames if it is much.
    pub(crate) fn trim(&mut self) {
        if self.words_top == 0 && (self.words.len() > KEPT_WORDS || self.refs.len() > KEPT_WORDS) {
            *self = FrameStore::new(self.call_depth, self.stack_bytes);
        }
    }

    /// Closes all frames.
    pub(crate) fn reset(&mut self) {
        self.release(Mark { words: 0, refs: 0, depth: 0 });
    }

    /// Number of callers that wait for the function that runs.
    #[inline(always)]
    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    /// The tops now.
    #[inline(always)]
    pub(super) fn mark(&self) -> Mark {
        Mark { words: self.words_top, refs: self.refs_top, depth: self.depth }
    }

    /// Closes all frames above the mark.
    #[inline]
    pub(super) fn release(&mut self, mark: Mark) {
        if self.refs_top > mark.refs {
            self.drop_refs(mark.refs);
        }
        self.words_top = mark.words;
        self.depth = mark.depth;
    }

    /// Opens a frame of zeros and null references. `words` is a multiple of [`FRAME_UNIT`].
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED at one of the limits.
    #[inline(always)]
    pub(super) fn open(&mut self, words: usize, refs: usize) -> Result<()> {
        let (words_top, refs_top) = (self.words_top + words, self.refs_top + refs);
        if words_top > self.words.len() || refs_top > self.refs.len() || self.depth >= self.callers.len() {
            self.grow(words_top, refs_top)?;
        }
        zero(&mut self.words[self.words_top..words_top]);
        self.words_top = words_top;
        self.refs_top = refs_top;
        Ok(())
    }

    /// As [`FrameStore::open`], of a function that the caller waits for.
    ///
    /// # Errors
    /// As above.
    #[inline(always)]
    pub(super) fn call(&mut self, caller: Caller, words: usize, refs: usize) -> Result<()> {
        self.open(words, refs)?;
        // There is one, or `open` would have failed.
        if let Some(slot) = self.callers.get_mut(self.depth) {
            *slot = caller;
            self.depth += 1;
        }
        Ok(())
    }

    /// Closes the top frame, which has so many registers.
    #[inline(always)]
    pub(super) fn close(&mut self, words: usize, refs: usize) {
        if refs != 0 {
            self.drop_refs(self.refs_top.saturating_sub(refs));
        }
        self.words_top = self.words_top.saturating_sub(words);
    }

    /// The innermost caller, which goes on.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<Caller> {
        let depth = self.depth.checked_sub(1)?;
        self.depth = depth;
        self.callers.get(depth).copied()
    }

    #[cold]
    #[inline(never)]
    #[expect(
        clippy::disallowed_methods,
        reason = "at most twice `Limits::stack_bytes`, and `Limits::call_depth` callers"
    )]
    fn grow(&mut self, words: usize, refs: usize) -> Result<()> {
        if self.depth >= self.call_depth {
            return Err(failure::too_deep(self.call_depth));
        }
        if words * size_of::<u64>() + refs * size_of::<Ref>() > self.stack_bytes {
            return Err(failure::stack_exhausted(self.stack_bytes));
        }
        self.words.resize(words.next_power_of_two().max(256).max(self.words.len()), 0);
        self.refs.resize_with(refs.next_power_of_two().max(64).max(self.refs.len()), Ref::default);
        let callers = (self.depth + 1).next_power_of_two().max(64).min(self.call_depth);
        self.callers.resize(callers.max(self.callers.len()), Caller::default());
        Ok(())
    }

    #[inline]
    fn drop_refs(&mut self, from: usize) {
        if let Some(references) = self.refs.get_mut(from..self.refs_top) {
            for reference in references {
                if !reference.is_null() {
                    *reference = Ref::Null;
                }
            }
        }
        self.refs_top = from;
    }

    /// The registers of the frame whose top is the mark.
    #[inline(always)]
    pub(super) fn registers_below(&mut self, mark: Mark, words: usize, refs: usize) -> (*mut u32, *mut Ref) {
        let (words, refs) = (mark.words.wrapping_sub(words), mark.refs.wrapping_sub(refs));
        (self.words.as_mut_ptr().wrapping_add(words).cast(), self.refs.as_mut_ptr().wrapping_add(refs))
    }

    /// The registers of the top frame, which has so many: valid until the next frame is opened.
    #[inline(always)]
    pub(super) fn registers(&mut self, words: usize, refs: usize) -> (*mut u32, *mut Ref) {
        self.registers_below(self.mark(), words, refs)
    }
}

/// Zeros registers. Most frames have few, and a call of `memset` costs more than they do.
#[inline(always)]
fn zero(words: &mut [u64]) {
    if let Some((first, rest)) = words.split_first_chunk_mut::<FRAME_UNIT>() {
        *first = [0; FRAME_UNIT];
        if let Some((second, rest)) = rest.split_first_chunk_mut::<FRAME_UNIT>() {
            *second = [0; FRAME_UNIT];
            if let Some((third, rest)) = rest.split_first_chunk_mut::<FRAME_UNIT>() {
                *third = [0; FRAME_UNIT];
                rest.fill(0);
            }
        }
    }
}
