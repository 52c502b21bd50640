//! What the iterations of contractions compute.

use core::fmt;
use core::marker::PhantomData;

use incarnate_bytecode::semantics;

/// What an iteration does to an element.
pub trait Arithmetic: 'static {
    /// The type of the numbers: of 32 bits, and every bit pattern is one.
    type Number: Copy + fmt::Debug + 'static;

    /// The empty sum.
    const ZERO: Self::Number;

    /// The products of an element may be added in any order.
    const ANY_ORDER: bool;

    /// Returns the sum after an iteration.
    fn apply(sum: Self::Number, left: Self::Number, right: Self::Number) -> Self::Number;

    /// Returns the sum of two sums.
    fn add(first: Self::Number, second: Self::Number) -> Self::Number;
}

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident, $number:ty, $zero:literal $add:ident $any_order:literal:
        |$sum:ident, $left:ident, $right:ident| $apply:expr;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl Arithmetic for $name {
            type Number = $number;
            const ZERO: $number = $zero;
            const ANY_ORDER: bool = $any_order;
            #[inline(always)]
            fn apply($sum: $number, $left: $number, $right: $number) -> $number {
                $apply
            }
            #[inline(always)]
            fn add(first: $number, second: $number) -> $number {
                semantics::$add(first, second)
            }
        }
    )* };
}
operations! {
    /// `left * right + sum`, rounded once.
    FmaF32, f32, 0.0 add_f32 false: |sum, left, right| semantics::fma_f32(left, right, sum);
    /// `sum + left * right`, both rounded.
    MulAddF32, f32, 0.0 add_f32 false: |sum, left, right| semantics::add_f32(sum, semantics::mul_f32(left, right));
    /// `left * right + sum`, modulo 2^32: the order makes no difference.
    MulAddI32, i32, 0 add_i32 true: |sum, left, right| semantics::add_i32(sum, semantics::mul_i32(left, right));
}

/// An operation whose products may be added in any order, so that results may differ from those of the loops by rounding. They are
/// the same on every processor: see [`Sums`](super::Sums).
#[derive(Clone, Copy, Debug)]
pub struct AnyOrder<O>(PhantomData<O>);

impl<O: Arithmetic> Arithmetic for AnyOrder<O> {
    type Number = O::Number;
    const ZERO: O::Number = O::ZERO;
    const ANY_ORDER: bool = true;
    #[inline(always)]
    fn apply(sum: O::Number, left: O::Number, right: O::Number) -> O::Number {
        O::apply(sum, left, right)
    }
    #[inline(always)]
    fn add(first: O::Number, second: O::Number) -> O::Number {
        O::add(first, second)
    }
}

/// [`FmaF32`] in any order.
pub type FmaF32AnyOrder = AnyOrder<FmaF32>;
/// [`MulAddF32`] in any order.
pub type MulAddF32AnyOrder = AnyOrder<MulAddF32>;
