//! Operands: elements in memory, and numbers that are computed from elements.

use core::fmt;
use core::mem::MaybeUninit;

/// Elements of an operand that have the same distance from each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// How far the first element is, in the operand.
    pub from: isize,
    /// Its position in a line.
    pub at: usize,
    /// The number of elements.
    pub length: usize,
}

/// Numbers that a contraction multiplies.
#[derive(Clone, Copy)]
pub enum Operand<'a, N> {
    /// Elements in memory: the address of that of the first iteration.
    Memory(*const N),
    /// Those of a constant that was copied in the order of a [`Layout`](super::Layout), which often are in no cache: behind what a
    /// contraction reads of it is what the next one reads.
    Layout(*const N),
    /// Numbers that are computed from elements, and the element of the first iteration.
    Computed(&'a dyn Gather<N>, i64),
}

/// What a plan must know of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperandKind {
    /// Elements in memory.
    Memory,
    /// Elements in an order that was chosen for vectors of them: the plan loads such vectors.
    Layout,
    /// Numbers that are computed, not loaded as vectors.
    Computed,
    /// Integers that are extended to 32 bits, not loaded as vectors.
    Narrow {
        /// What they are in memory.
        of: Narrow,
        /// Whether the element of the first iteration is at a multiple of four bytes.
        is_aligned: bool,
    },
}

impl OperandKind {
    /// Whether numbers are computed, not loaded as vectors.
    pub(super) const fn is_computed(self) -> bool {
        matches!(self, OperandKind::Computed | OperandKind::Narrow { .. })
    }
}

/// Integers of fewer than 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Narrow {
    /// Bytes with a sign.
    I8,
    /// Bytes without one.
    U8,
    /// 16 bits with a sign.
    I16,
}

impl Narrow {
    /// Bytes of an integer.
    #[must_use]
    pub const fn width(self) -> isize {
        match self {
            Narrow::I8 | Narrow::U8 => 1,
            Narrow::I16 => 2,
        }
    }
}

/// Computes the numbers of an operand.
pub trait Gather<N>: Sync {
    /// Returns any number, for memory that is then filled.
    fn zero(&self) -> N;

    /// Returns what the elements are and where element 0 is, if the numbers are narrow integers, extended to `i32`: element `n` is the
    /// integer `n`.
    fn narrow(&self) -> Option<(Narrow, *const u8)> {
        None
    }

    /// Writes the numbers of the elements `first`, `first + stride` and so on, all of them.
    ///
    /// # Safety
    /// The elements are those of iterations of the contraction.
    unsafe fn gather(&self, first: i64, stride: i64, into: &mut [N]);

    /// As [`Gather::gather`] for each of some pieces, whose elements begin at a distance from `first`.
    ///
    /// # Safety
    /// As for [`Gather::gather`].
    unsafe fn gather_pieces(&self, first: i64, stride: i64, pieces: &[Piece], into: &mut [N]) {
        for piece in pieces {
            let numbers = &mut into[piece.at..piece.at + piece.length];
            // SAFETY: the caller promises the elements of each piece.
            unsafe { self.gather(first.wrapping_add(piece.from as i64), stride, numbers) };
        }
    }
}

impl<N> fmt::Debug for Operand<'_, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operand::Memory(address) => f.debug_tuple("Memory").field(address).finish(),
            Operand::Layout(address) => f.debug_tuple("Layout").field(address).finish(),
            Operand::Computed(_, first) => f.debug_tuple("Computed").field(first).finish(),
        }
    }
}

impl<N: Copy> Operand<'_, N> {
    /// Returns a number.
    ///
    /// # Safety
    /// The element is that of an iteration of the contraction.
    pub(super) unsafe fn number(&self, element: i64) -> N {
        match self {
            // SAFETY: the caller promises that this is the element of an iteration.
            Operand::Memory(address) | Operand::Layout(address) => unsafe { load(address.offset(element as isize)) },
            Operand::Computed(operand, first) => {
                let mut number = [operand.zero()];
                // SAFETY: as above.
                unsafe { operand.gather(first.wrapping_add(element), 0, &mut number) };
                number[0]
            }
        }
    }

    /// Returns what the elements are and where that of the first iteration is, if the numbers are narrow integers.
    pub(super) fn narrow(&self) -> Option<(Narrow, *const u8)> {
        match self {
            Operand::Memory(_) | Operand::Layout(_) => None,
            Operand::Computed(operand, first) => {
                let (narrow, address) = operand.narrow()?;
                Some((narrow, address.wrapping_offset(narrow.width().wrapping_mul(*first as isize))))
            }
        }
    }

    /// Where numbers come from.
    #[must_use]
    pub fn kind(&self) -> OperandKind {
        match (self, self.narrow()) {
            (Operand::Memory(_), _) => OperandKind::Memory,
            (Operand::Layout(_), _) => OperandKind::Layout,
            (Operand::Computed(..), None) => OperandKind::Computed,
            (Operand::Computed(..), Some((of, first))) => {
                OperandKind::Narrow { of, is_aligned: first.cast::<u32>().is_aligned() }
            }
        }
    }

    /// The address of the element of the first iteration, unless numbers are computed.
    pub(super) const fn address(&self) -> Option<*const N> {
        match self {
            Operand::Memory(address) | Operand::Layout(address) => Some(*address),
            Operand::Computed(..) => None,
        }
    }

    /// Returns the operand whose first iteration has the element that is so many further.
    #[must_use]
    pub const fn moved(self, elements: i64) -> Self {
        match self {
            Operand::Memory(address) => Operand::Memory(address.wrapping_offset(elements as isize)),
            Operand::Layout(address) => Operand::Layout(address.wrapping_offset(elements as isize)),
            Operand::Computed(operand, first) => Operand::Computed(operand, first.wrapping_add(elements)),
        }
    }
}

/// A plain load that promises the compiler nothing about the bytes: where another thread writes them meanwhile, the number is
/// unspecified, and it is not the load that is undefined.
///
/// # Safety
/// The address is valid for reads and aligned, and every bit pattern is an `N`.
#[inline(always)]
pub(super) unsafe fn load<N: Copy>(address: *const N) -> N {
    // SAFETY: promised by the caller. Read as `N` itself, it would come with a promise that no byte is uninitialised, which is what
    // LLVM calls those that race.
    unsafe { address.cast::<MaybeUninit<N>>().read().assume_init() }
}
