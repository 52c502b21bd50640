//! Sums of products: `output[..] = output[..] + left[..] * right[..]`.
#![allow(unsafe_code, reason = "elements at addresses that callers have checked")]

use core::fmt;

use incarnate_bytecode::semantics;

mod sealed {
    pub trait Sealed {}
}

/// A loop of a contraction. The element of an operand in an iteration is that of the first iteration plus, for each loop, the
/// index of the iteration times the stride.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loop {
    /// Trip count.
    pub count: usize,
    /// Stride of the output, in elements; zero if the loop sums.
    pub output: i64,
    /// Stride of the left operand, in elements.
    pub left: i64,
    /// Stride of the right operand, in elements.
    pub right: i64,
}

/// What an iteration does to an element.
pub trait Operation: sealed::Sealed + 'static {
    /// The type of the numbers.
    type Number: Copy + fmt::Debug + 'static;

    /// Returns the sum after an iteration.
    fn apply(sum: Self::Number, left: Self::Number, right: Self::Number) -> Self::Number;
}

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident, $number:ty: |$sum:ident, $left:ident, $right:ident| $apply:expr;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;
        impl sealed::Sealed for $name {}
        impl Operation for $name {
            type Number = $number;
            #[inline(always)]
            fn apply($sum: $number, $left: $number, $right: $number) -> $number {
                $apply
            }
        }
    )* };
}
operations! {
    /// `left * right + sum`, rounded once.
    FmaF32, f32: |sum, left, right| semantics::fma_f32(left, right, sum);
    /// `sum + left * right`, both rounded.
    MulAddF32, f32: |sum, left, right| semantics::add_f32(sum, semantics::mul_f32(left, right));
    /// `left * right + sum`, modulo 2^32.
    MulAddI32, i32: |sum, left, right| semantics::add_i32(sum, semantics::mul_i32(left, right));
}

/// Numbers that a contraction multiplies.
#[derive(Clone, Copy)]
pub enum Operand<'a, N> {
    /// Elements in memory: the address of that of the first iteration.
    Memory(*const N),
    /// Numbers that are computed from elements, and the element of the first iteration.
    Computed(&'a dyn Gather<N>, i64),
}

/// Computes the numbers of an operand.
pub trait Gather<N>: Sync {
    /// Returns any number, for memory that is then filled.
    fn zero(&self) -> N;

    /// Writes the numbers of the elements `first`, `first + stride` and so on, all of them.
    ///
    /// # Safety
    /// The elements are those of iterations of the contraction.
    unsafe fn gather(&self, first: i64, stride: i64, into: &mut [N]);
}

impl<N> fmt::Debug for Operand<'_, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operand::Memory(address) => f.debug_tuple("Memory").field(address).finish(),
            Operand::Computed(_, first) => f.debug_tuple("Computed").field(first).finish(),
        }
    }
}

/// Runs all iterations of the loops, the outermost first.
///
/// # Safety
/// - Elements of all iterations are valid and aligned at the addresses.
/// - Iterations that differ in a loop that moves the output have different elements of it, and the output overlaps no operand.
/// - Loads and stores are plain. Where another thread accesses the elements meanwhile, what is stored is unspecified.
pub unsafe fn contract<O: Operation>(
    output: *mut O::Number,
    left: Operand<'_, O::Number>,
    right: Operand<'_, O::Number>,
    loops: &[Loop],
) {
    // SAFETY: promised by the caller.
    unsafe { in_order::<O>(output, left, right, loops, [0; 3]) }
}

/// Runs the loops as they stand, from the elements at the given offsets of output, left and right.
unsafe fn in_order<O: Operation>(
    output: *mut O::Number,
    left: Operand<'_, O::Number>,
    right: Operand<'_, O::Number>,
    loops: &[Loop],
    offsets: [i64; 3],
) {
    if let Some((outermost, inner)) = loops.split_first() {
        let mut offsets = offsets;
        for _ in 0..outermost.count {
            // SAFETY: promised by the caller; the offsets are those of the iteration.
            unsafe { in_order::<O>(output, left, right, inner, offsets) };
            for (offset, stride) in offsets.iter_mut().zip([outermost.output, outermost.left, outermost.right]) {
                *offset = offset.wrapping_add(stride);
            }
        }
        return;
    }
    // SAFETY: promised by the caller: these are the elements of an iteration.
    unsafe {
        let element = output.offset(offsets[0] as isize);
        element.write(O::apply(element.read(), left.number(offsets[1]), right.number(offsets[2])));
    }
}

impl<N: Copy> Operand<'_, N> {
    /// Returns a number.
    ///
    /// # Safety
    /// The element is that of an iteration of the contraction.
    unsafe fn number(&self, element: i64) -> N {
        match self {
            // SAFETY: promised by the caller.
            Operand::Memory(address) => unsafe { address.offset(element as isize).read() },
            Operand::Computed(operand, first) => {
                let mut number = [operand.zero()];
                // SAFETY: promised by the caller.
                unsafe { operand.gather(first.wrapping_add(element), 0, &mut number) };
                number[0]
            }
        }
    }

    /// Returns the operand whose first iteration has the element that is so many further.
    #[must_use]
    pub const fn moved(self, elements: i64) -> Self {
        match self {
            Operand::Memory(address) => Operand::Memory(address.wrapping_offset(elements as isize)),
            Operand::Computed(operand, first) => Operand::Computed(operand, first.wrapping_add(elements)),
        }
    }
}
