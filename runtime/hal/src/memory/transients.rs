//! Small buffers that a program allocates again and again.

use alloc::sync::Arc;

use super::buffer::Buffer;
use super::parameters::BufferParameters;

/// The most bytes of a buffer that is kept: longer ones take over each other's memory instead of a copy.
const LONGEST: u64 = super::allocator::EXCHANGEABLE_FROM - 1;
/// Buffers that are kept.
const KEPT: usize = 16;

/// The small buffers that a program allocated last, among them those that it needs no more: the next allocation of the same length and use takes
/// one of these, which costs no allocation.
///
/// A kept buffer is in use while there is another share of it, or of its memory: that is asked when it is taken, so that nothing has to
/// be told when a program drops its last share. Its allocator counts it as live.
#[derive(Debug, Default)]
pub struct Transients {
    kept: [Option<(BufferParameters, Arc<Buffer>)>; KEPT],
    /// The one that the next one replaces.
    next: usize,
}

impl Transients {
    /// Returns an unshared buffer. It holds what its last user left there.
    #[inline]
    pub fn take(&mut self, parameters: BufferParameters, length: u64) -> Option<Arc<Buffer>> {
        if length > LONGEST {
            return None;
        }
        self.kept.iter_mut().flatten().find_map(|(of, buffer)| {
            let is_candidate = buffer.byte_length() == length && *of == parameters && Arc::strong_count(buffer) == 1;
            // There is one share, strong or weak: this one.
            let is_free = is_candidate && Arc::get_mut(buffer).is_some_and(Buffer::is_sole);
            is_free.then(|| Arc::clone(buffer))
        })
    }

    /// Keeps a buffer that was just allocated, which no ledger counts.
    pub fn keep(&mut self, parameters: BufferParameters, buffer: &Arc<Buffer>) {
        if buffer.byte_length() > LONGEST || !buffer.is_pooled() {
            return;
        }
        self.next = (self.next + 1) % KEPT;
        if let Some(slot) = self.kept.get_mut(self.next) {
            *slot = Some((parameters, Arc::clone(buffer)));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::memory::allocator::Allocator;

    const PARAMETERS: BufferParameters = BufferParameters::DEVICE;

    #[test]
    fn a_buffer_is_taken_again_once_it_is_unshared() {
        let (allocator, mut transients) = (Allocator::new(), Transients::default());
        assert!(transients.take(PARAMETERS, 64).is_none());
        let buffer = allocator.allocate(PARAMETERS, 64).unwrap();
        transients.keep(PARAMETERS, &buffer);
        assert!(transients.take(PARAMETERS, 64).is_none());
        let address = Arc::as_ptr(&buffer);
        drop(buffer);
        assert!(transients.take(PARAMETERS, 60).is_none());
        let again = transients.take(PARAMETERS, 64).unwrap();
        assert_eq!(Arc::as_ptr(&again), address);
        // A view, a weak share, and the bytes as a byte buffer of the program are uses, too.
        let view = again.subspan(0, 32).unwrap();
        drop(again);
        assert!(transients.take(PARAMETERS, 64).is_none());
        drop(view);
        let again = transients.take(PARAMETERS, 64).unwrap();
        let weak = Arc::downgrade(&again);
        drop(again);
        assert!(transients.take(PARAMETERS, 64).is_none());
        drop(weak);
        let again = transients.take(PARAMETERS, 64).unwrap();
        let bytes = Arc::clone(again.vm_buffer().unwrap());
        drop(again);
        assert!(transients.take(PARAMETERS, 64).is_none());
        drop(bytes);
        assert!(transients.take(PARAMETERS, 64).is_some());
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let (allocator, mut transients) = (Allocator::new(), Transients::default());
        let long = allocator.allocate(PARAMETERS, LONGEST + 1).unwrap();
        transients.keep(PARAMETERS, &long);
        drop(long);
        assert!(transients.take(PARAMETERS, LONGEST + 1).is_none());
        for length in 1..=2 * KEPT as u64 {
            transients.keep(PARAMETERS, &allocator.allocate(PARAMETERS, length).unwrap());
        }
        assert!(transients.take(PARAMETERS, 1).is_none());
        assert!(transients.take(PARAMETERS, 2 * KEPT as u64).is_some());
        drop(transients);
        assert_eq!(allocator.statistics().live, 0);
    }
}
