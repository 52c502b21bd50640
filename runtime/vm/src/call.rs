//! The packed call interface between modules.
//!
//! Primitives are passed as 64-bit words and references beside them, both in the order of the calling convention. A span is
//! its element count as a word, then its elements. The callee owns the buffer during the call; it takes the arguments out
//! and leaves the results in it.
//!
//! A reference that the caller keeps is borrowed: the callee reads it in the buffer, or clones it, and the caller takes it
//! back. Otherwise reference counting would dominate a small call.

use alloc::vec::Vec;

use super::reference::{Ref, Value};
use crate::{Error, Result};
use incarnate_bytecode::ConventionItem;

/// The arguments of a call, then its results.
#[derive(Clone, Debug, Default)]
pub struct CallBuffer {
    words: Vec<u64>,
    refs: Vec<Ref>,
    /// One bit for each of the first references: it is borrowed.
    borrowed: u64,
    /// Index of the first reference that is a result; borrowed arguments precede it.
    results: usize,
}

impl CallBuffer {
    /// References after this many are not borrowed.
    pub(super) const MAX_BORROWED: usize = u64::BITS as usize;

    /// An empty buffer.
    #[must_use]
    pub const fn new() -> CallBuffer {
        CallBuffer { words: Vec::new(), refs: Vec::new(), borrowed: 0, results: 0 }
    }

    /// Forgets all values and keeps the storage.
    #[inline]
    pub fn clear(&mut self) {
        self.words.clear();
        self.drop_refs();
    }

    /// Forgets the references.
    #[inline(always)]
    pub(crate) fn drop_refs(&mut self) {
        // Most calls pass none, and dropping none of them is still a call.
        if !self.refs.is_empty() {
            self.drop_all_refs();
        }
    }

    fn drop_all_refs(&mut self) {
        self.refs.clear();
        self.borrowed = 0;
        self.results = 0;
    }

    /// Forgets the arguments, after which results can be pushed. Borrowed references stay for their owner.
    #[inline]
    pub fn finish_arguments(&mut self) {
        self.words.clear();
        if !self.refs.is_empty() {
            self.finish_refs();
        }
    }

    fn finish_refs(&mut self) {
        if self.borrowed != 0 {
            self.results = self.refs.len();
        } else {
            self.refs.clear();
        }
    }

    /// Forgets all values and appends the bits of primitives.
    #[inline(always)]
    #[cfg(feature = "std")]
    #[doc(hidden)]
    pub fn set_words<const N: usize>(&mut self, words: [u64; N]) {
        self.drop_refs();
        self.words.clear();
        #[expect(clippy::disallowed_methods, reason = "the length is a constant of the host program")]
        self.words.extend_from_slice(&words);
    }

    /// Forgets the arguments as [`CallBuffer::finish_arguments`] does and appends the bits of results that are primitives.
    #[inline(always)]
    #[doc(hidden)]
    pub fn finish_with_words<const N: usize>(&mut self, words: [u64; N]) {
        if !self.refs.is_empty() {
            self.finish_refs();
        }
        self.words.clear();
        #[expect(clippy::disallowed_methods, reason = "the length is a constant of the host program")]
        self.words.extend_from_slice(&words);
    }

    /// Appends the bits of primitives.
    #[inline(always)]
    pub(super) fn extend_words(&mut self, words: impl ExactSizeIterator<Item = u64>) {
        self.words.extend(words);
    }

    /// Appends the references of a call to an empty buffer. The caller takes those whose bits are in `borrowed` back with
    /// [`CallBuffer::take_back`].
    #[inline(always)]
    pub(super) fn pass_references(&mut self, references: impl ExactSizeIterator<Item = Ref>, borrowed: u64) {
        self.refs.extend(references);
        self.borrowed = borrowed;
    }

    /// Takes back the first of the references that are still borrowed.
    #[inline]
    pub(super) fn take_back(&mut self) -> Option<Ref> {
        let index = self.borrowed.trailing_zeros() as usize;
        self.borrowed &= self.borrowed.wrapping_sub(1);
        self.refs.get_mut(index).map(core::mem::take)
    }

    /// Appends the bits of a primitive, or the element count of a span.
    #[inline]
    pub fn push_word(&mut self, word: u64) {
        self.words.push(word);
    }

    /// Appends the bits of several primitives.
    #[inline(always)]
    pub fn push_words<const N: usize>(&mut self, words: [u64; N]) {
        #[expect(clippy::disallowed_methods, reason = "the length is a constant of the host program")]
        self.words.extend_from_slice(&words);
    }

    /// Appends a reference.
    #[inline]
    pub fn push_ref(&mut self, reference: Ref) {
        self.refs.push(reference);
    }

    /// Appends a value.
    #[inline]
    pub fn push(&mut self, value: Value) {
        match value {
            Value::None => self.push_word(0),
            Value::I32(v) => self.push_word(u64::from(v as u32)),
            Value::I64(v) => self.push_word(v as u64),
            Value::F32(v) => self.push_word(u64::from(v.to_bits())),
            Value::F64(v) => self.push_word(v.to_bits()),
            Value::Ref(v) => self.push_ref(v),
        }
    }

    /// The primitives.
    #[inline]
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// The primitives, to be changed in place.
    pub(crate) fn words_mut(&mut self) -> &mut Vec<u64> {
        &mut self.words
    }

    /// The references.
    #[inline]
    #[must_use]
    pub fn refs(&self) -> &[Ref] {
        self.refs.get(self.results..).unwrap_or_default()
    }

    /// Returns a reader of the values in order. It takes references out, or clones borrowed ones.
    #[inline]
    pub fn reader(&mut self) -> CallReader<'_> {
        let borrowed = if self.results == 0 { self.borrowed } else { 0 };
        // Without a panic, so that a caller that reads only words does not access the references.
        let refs = self.refs.get_mut(self.results..).unwrap_or_default();
        CallReader { words: self.words.iter(), refs: refs.iter_mut(), borrowed }
    }

    /// The values in order, by the items of one side of a calling convention; references are taken out.
    #[inline]
    pub fn values<'a>(&'a mut self, items: &'a [ConventionItem]) -> CallValues<'a> {
        CallValues { reader: self.reader(), items: items.iter() }
    }

    /// Takes all values out, by the items of one side of a calling convention without spans.
    ///
    /// # Errors
    /// INTERNAL where there are fewer values than items; UNIMPLEMENTED for spans.
    pub fn drain(&mut self, items: &[ConventionItem]) -> Result<Vec<Value>> {
        let values = self.values(items).collect();
        self.clear();
        values
    }
}

/// Iterates over the values of a [`CallBuffer`].
#[derive(Debug)]
pub struct CallValues<'a> {
    reader: CallReader<'a>,
    items: core::slice::Iter<'a, ConventionItem>,
}

impl CallValues<'_> {
    /// The bits of the next value, if it is a primitive of the given type; INTERNAL where the buffer has fewer values than
    /// items.
    #[inline]
    pub fn next_word(&mut self, wanted: ConventionItem) -> Option<Result<u64>> {
        if self.items.as_slice().first() != Some(&wanted) {
            return None;
        }
        self.items.next();
        Some(self.reader.word())
    }
}

impl Iterator for CallValues<'_> {
    /// INTERNAL where the buffer has fewer values than items; UNIMPLEMENTED for spans.
    type Item = Result<Value>;

    #[inline]
    fn next(&mut self) -> Option<Result<Value>> {
        let item = self.items.next()?;
        Some(match item {
            ConventionItem::I32 => self.reader.word().map(|word| Value::I32(word as i32)),
            ConventionItem::I64 => self.reader.word().map(|word| Value::I64(word as i64)),
            ConventionItem::F32 => self.reader.word().map(|word| Value::F32(f32::from_bits(word as u32))),
            ConventionItem::F64 => self.reader.word().map(|word| Value::F64(f64::from_bits(word))),
            ConventionItem::Ref => self.reader.reference().map(Value::Ref),
            ConventionItem::SpanStart | ConventionItem::SpanEnd => Err(Error::unimplemented("spans among values")),
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.items.size_hint()
    }
}

impl ExactSizeIterator for CallValues<'_> {}

/// Reads a [`CallBuffer`] in order.
#[derive(Debug)]
pub struct CallReader<'a> {
    words: core::slice::Iter<'a, u64>,
    refs: core::slice::IterMut<'a, Ref>,
    /// One bit for each reference, the next one lowest: it is borrowed.
    borrowed: u64,
}

impl<'a> CallReader<'a> {
    /// The next primitive's bits.
    ///
    /// # Errors
    /// INTERNAL where there is none: caller and callee disagree about the calling convention.
    #[inline]
    pub fn word(&mut self) -> Result<u64> {
        self.words.next().copied().ok_or_else(missing)
    }

    /// Takes the next reference, or clones it where it is borrowed.
    ///
    /// # Errors
    /// INTERNAL where there is none.
    #[inline]
    pub fn reference(&mut self) -> Result<Ref> {
        let borrowed = self.borrowed & 1 != 0;
        self.borrowed >>= 1;
        let reference = self.refs.next().ok_or_else(missing)?;
        Ok(if borrowed { reference.clone() } else { core::mem::take(reference) })
    }

    /// Borrows the next reference.
    ///
    /// # Errors
    /// INTERNAL where there is none.
    #[inline]
    pub fn borrow(&mut self) -> Result<&'a Ref> {
        self.borrowed >>= 1;
        self.refs.next().map(|reference| &*reference).ok_or_else(missing)
    }
}

#[cold]
pub(crate) fn missing() -> Error {
    Error::internal("a call passes fewer values than its calling convention names")
}
