//! Fences and bindings as arguments of native functions.

use alloc::string::String;
use alloc::sync::Arc;

use super::completion::SignalFence;
use crate::Result;
use crate::bytecode::imports::Operand;
use crate::commands::recorded::{BufferBinding, BufferRef};
use crate::memory::buffer::Buffer;
use crate::sync::fence::Fence;
use crate::vm::{Argument, CallReader, FromRef, MaybeOwned, Pass, Ref, RefObject};

impl FromRef for SignalFence<'_> {
    #[inline]
    fn from_ref(reference: Ref) -> Result<Self> {
        Option::<Arc<Fence>>::from_ref(reference).map(SignalFence::from)
    }
}

impl Argument for SignalFence<'_> {
    fn letters(text: &mut String) {
        Option::<MaybeOwned<'_, Fence>>::letters(text);
    }

    #[inline]
    fn read(reader: &mut CallReader<'_>) -> Result<Self> {
        Option::<Arc<Fence>>::read(reader).map(SignalFence::from)
    }

    fn operand(&self) -> Operand {
        let extent = if let SignalFence::Given(fence) = self { fence.extent() } else { 0 };
        Operand { value: 0, extent }
    }
}

/// A row of a binding table: buffer, offset, length.
impl Argument for BufferBinding<'_> {
    fn letters(text: &mut String) {
        text.push_str("rII");
    }

    #[inline]
    fn read(reader: &mut CallReader<'_>) -> Result<Self> {
        Ok(BufferBinding { buffer: Argument::read(reader)?, offset: reader.word()?, length: reader.word()? })
    }

    fn operand(&self) -> Operand {
        Operand::default()
    }
}

/// A binding of a dispatch: reserved, slot, buffer, offset, length.
impl Argument for BufferRef<MaybeOwned<'_, Buffer>> {
    fn letters(text: &mut String) {
        text.push_str("iirII");
    }

    #[inline]
    fn read(reader: &mut CallReader<'_>) -> Result<Self> {
        let _reserved = reader.word()?;
        let slot = reader.word()? as u32;
        Ok(BufferRef { buffer: Argument::read(reader)?, slot, offset: reader.word()?, length: reader.word()? })
    }

    fn operand(&self) -> Operand {
        self.buffer.operand()
    }
}

impl<'a, R, S, B, O, L> Pass<BufferRef<MaybeOwned<'a, Buffer>>> for (R, S, B, O, L)
where
    S: Pass<u32>,
    B: Pass<Option<MaybeOwned<'a, Buffer>>>,
    O: Pass<u64>,
    L: Pass<u64>,
{
    #[inline(always)]
    fn pass(self) -> Result<BufferRef<MaybeOwned<'a, Buffer>>> {
        let (_reserved, slot, buffer, offset, length) = self;
        Ok(BufferRef { buffer: buffer.pass()?, slot: slot.pass()?, offset: offset.pass()?, length: length.pass()? })
    }
}

impl<'a, B: Pass<Option<MaybeOwned<'a, Buffer>>>, O: Pass<u64>, L: Pass<u64>> Pass<BufferBinding<'a>> for (B, O, L) {
    #[inline(always)]
    fn pass(self) -> Result<BufferBinding<'a>> {
        let (buffer, offset, length) = self;
        Ok(BufferBinding { buffer: buffer.pass()?, offset: offset.pass()?, length: length.pass()? })
    }
}
