//! The operands of instructions.

use core::fmt;

use super::isa::{Bank, FUNCTION_ORDINAL_IMPORT_BIT, REF_REGISTER_MASK, REF_REGISTER_MOVE_BIT, REF_REGISTER_TYPE_BIT};
use super::read::u16_at;

/// A register of the 32-bit file: the register itself, or the lower one of a 64-bit pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Register(pub u16);

impl Register {
    /// Index into the file of 32-bit registers.
    #[inline]
    #[must_use]
    pub const fn index(self) -> u16 {
        self.0
    }
}

/// A register of the reference file, as encoded: with the type bit and perhaps the move bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RefRegister(pub u16);

impl RefRegister {
    /// Index into the file of reference registers.
    #[inline]
    #[must_use]
    pub const fn index(self) -> u16 {
        self.0 & REF_REGISTER_MASK
    }

    /// Whether the reference is moved out of the register.
    #[inline]
    #[must_use]
    pub const fn is_move(self) -> bool {
        self.0 & REF_REGISTER_MOVE_BIT != 0
    }
}

/// A register of either file, as encoded: the type bit tells which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AnyRegister(pub u16);

impl AnyRegister {
    /// Whether it is a reference register.
    #[inline]
    #[must_use]
    pub const fn is_ref(self) -> bool {
        self.0 & REF_REGISTER_TYPE_BIT != 0
    }

    /// Index into its file.
    #[inline]
    #[must_use]
    pub const fn index(self) -> u16 {
        if self.is_ref() { self.0 & REF_REGISTER_MASK } else { self.0 }
    }

    /// Whether it is a reference register that the reference is moved out of.
    #[inline]
    #[must_use]
    pub const fn is_move(self) -> bool {
        self.is_ref() && self.0 & REF_REGISTER_MOVE_BIT != 0
    }
}

/// The function that a call names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FunctionOrdinal(pub u32);

impl FunctionOrdinal {
    /// Ordinal in the import table, if it is an import.
    #[inline]
    #[must_use]
    pub const fn import(self) -> Option<u32> {
        if self.0 & FUNCTION_ORDINAL_IMPORT_BIT != 0 { Some(self.0 & !FUNCTION_ORDINAL_IMPORT_BIT) } else { None }
    }

    /// Ordinal in the function table, if it is a function of this module.
    #[inline]
    #[must_use]
    pub const fn internal(self) -> Option<u32> {
        if self.0 & FUNCTION_ORDINAL_IMPORT_BIT == 0 { Some(self.0) } else { None }
    }
}

/// Index into the module's type table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TypeId(pub u32);

/// Offset in bytes of a block marker within the function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockOffset(pub u32);

/// Defines lists of items of a fixed encoded size.
macro_rules! lists {
    ($($(#[$doc:meta])* $name:ident of $item:ty, $size:literal, $decode:expr;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub struct $name<'a> {
            bytes: &'a [u8],
        }

        impl<'a> $name<'a> {
            /// Returns the number of items.
            #[inline]
            #[must_use]
            pub const fn len(self) -> usize {
                self.bytes.len() / $size
            }

            /// Returns true if there are no items.
            #[inline]
            #[must_use]
            pub const fn is_empty(self) -> bool {
                self.bytes.is_empty()
            }

            /// Returns the items in order.
            #[inline]
            pub fn iter(self) -> impl ExactSizeIterator<Item = $item> + Clone + 'a {
                let (items, _) = self.bytes.as_chunks::<$size>();
                items.iter().map($decode)
            }
        }

        impl fmt::Debug for $name<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_list().entries(self.iter()).finish()
            }
        }
    )* };
}
lists! {
    /// A list of registers.
    RegisterList of AnyRegister, 2, |bytes| AnyRegister(u16::from_le_bytes(*bytes));

    /// The sizes of a variadic call's arguments: the number of elements of a span, and
    /// [`SEGMENT_NOT_VARIADIC`](super::isa::SEGMENT_NOT_VARIADIC) for other arguments.
    SegmentSizes of u16, 2, |bytes| u16::from_le_bytes(*bytes);

    /// The register copies of a branch, in order: source and target of each.
    RemapList of (AnyRegister, AnyRegister), 4, |&[a, b, c, d]| {
        (AnyRegister(u16::from_le_bytes([a, b])), AnyRegister(u16::from_le_bytes([c, d])))
    };
}

impl<'a> RegisterList<'a> {
    /// Returns the register of an index.
    #[inline]
    #[must_use]
    pub fn get(self, index: usize) -> Option<AnyRegister> {
        u16_at(self.bytes, index.checked_mul(2)?).map(AnyRegister)
    }

    /// Returns the first `count` registers, and the others; `None` if there are fewer.
    #[inline(always)]
    pub(super) fn split_at(self, count: usize) -> Option<(RegisterList<'a>, RegisterList<'a>)> {
        let (bytes, rest) = self.bytes.split_at_checked(count.checked_mul(2)?)?;
        Some((RegisterList { bytes }, RegisterList { bytes: rest }))
    }
}

/// The cases of a branch table.
#[derive(Clone, Copy)]
pub struct Cases<'a> {
    /// The whole function: the cases' alignment counts from its start.
    function: &'a [u8],
    start: usize,
    count: u16,
}

impl<'a> Cases<'a> {
    /// Number of cases.
    #[inline]
    #[must_use]
    pub const fn len(self) -> usize {
        self.count as usize
    }

    /// Whether there are none.
    #[inline]
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.count == 0
    }

    /// Target and copies of each case, in the order of the table.
    pub fn iter(self) -> impl Iterator<Item = (BlockOffset, RemapList<'a>)> + Clone + 'a {
        let mut reader = Reader::new(self.function, self.start);
        // Decoding the instruction has read all cases once, so that none fails here.
        (0..self.count).map_while(move |_| Some((reader.target().ok()?, reader.remap().ok()?)))
    }
}

impl PartialEq for Cases<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Cases<'_> {}

impl fmt::Debug for Cases<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The function ends before the field does.
pub(super) struct Truncated;

/// Reads the fields of a function's instructions.
#[derive(Clone)]
pub(super) struct Reader<'a> {
    /// The whole function: the alignment of lists counts from its start.
    function: &'a [u8],
    /// What has not been read, at the function's end.
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from a position on; from the end where there is no such position.
    #[inline(always)]
    pub(super) fn new(function: &'a [u8], position: usize) -> Reader<'a> {
        Reader { function, rest: function.get(position..).unwrap_or_default() }
    }

    /// How many bytes have been read, from the start of the function.
    #[inline(always)]
    pub(super) fn position(&self) -> usize {
        self.function.len() - self.rest.len()
    }

    /// Whether the function has no more bytes.
    #[inline(always)]
    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Checks once that so many bytes are there, which spares most checks of the fields that follow.
    #[inline(always)]
    pub(super) fn require(&self, length: usize) -> Result<(), Truncated> {
        if self.rest.len() >= length { Ok(()) } else { Err(Truncated) }
    }

    #[inline(always)]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Truncated> {
        let (bytes, rest) = self.rest.split_first_chunk::<N>().ok_or(Truncated)?;
        self.rest = rest;
        Ok(*bytes)
    }

    #[inline(always)]
    pub(super) fn u8(&mut self) -> Result<u8, Truncated> {
        self.array().map(|[byte]| byte)
    }

    #[inline(always)]
    pub(super) fn u16(&mut self) -> Result<u16, Truncated> {
        self.array().map(u16::from_le_bytes)
    }

    #[inline(always)]
    pub(super) fn u32(&mut self) -> Result<u32, Truncated> {
        self.array().map(u32::from_le_bytes)
    }

    #[inline(always)]
    pub(super) fn register(&mut self) -> Result<Register, Truncated> {
        self.u16().map(Register)
    }

    #[inline(always)]
    fn slice(&mut self, length: usize) -> Result<&'a [u8], Truncated> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(Truncated)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// The bytes of `count` items of `size` bytes behind an aligned 16-bit count.
    #[inline(always)]
    fn items(&mut self, size: usize) -> Result<&'a [u8], Truncated> {
        let padding = self.position() % 2;
        self.rest = self.rest.get(padding..).ok_or(Truncated)?;
        let count = self.u16()?;
        self.slice(usize::from(count) * size)
    }

    #[inline(always)]
    pub(super) fn registers(&mut self) -> Result<RegisterList<'a>, Truncated> {
        self.items(2).map(|bytes| RegisterList { bytes })
    }

    #[inline(always)]
    pub(super) fn segments(&mut self) -> Result<SegmentSizes<'a>, Truncated> {
        self.items(2).map(|bytes| SegmentSizes { bytes })
    }

    #[inline(always)]
    pub(super) fn remap(&mut self) -> Result<RemapList<'a>, Truncated> {
        self.items(4).map(|bytes| RemapList { bytes })
    }

    #[inline(always)]
    pub(super) fn target(&mut self) -> Result<BlockOffset, Truncated> {
        self.u32().map(BlockOffset)
    }

    #[inline(always)]
    pub(super) fn immediate(&mut self, banks: &[Bank]) -> Result<u64, Truncated> {
        match banks.first().map_or(4, |bank| bank.size()) {
            8 => self.array().map(u64::from_le_bytes),
            _ => self.u32().map(u64::from),
        }
    }

    #[inline(always)]
    pub(super) fn string(&mut self) -> Result<&'a [u8], Truncated> {
        let length = self.u16()?;
        self.slice(usize::from(length))
    }

    pub(super) fn cases(&mut self) -> Result<Cases<'a>, Truncated> {
        let count = self.u16()?;
        let start = self.position();
        for _ in 0..count {
            self.target()?;
            self.remap()?;
        }
        Ok(Cases { function: self.function, start, count })
    }
}
