//! Vector operations: one function for each instruction, over strips of elements.
//!
//! All consist of inlined functions of `semantics`, so that they are vectorised, and are compiled for two sets of target
//! features. They compute the same results, bit for bit.
#![allow(unsafe_code, reason = "strips at raw addresses")]

use core::mem::MaybeUninit;

use super::super::super::buffer::Element;
use incarnate_bytecode::ir::nest::Element as Kind;
use incarnate_bytecode::isa::{Opcode, for_each_instruction};
use incarnate_bytecode::semantics;
use incarnate_bytecode::target_features;

/// The strips of a vector operation.
#[derive(Clone, Copy)]
pub(super) struct Strips {
    /// The result, which overlaps no operand.
    pub(super) into: *mut u8,
    /// The operands.
    pub(super) from: [*const u8; 3],
    /// Number of elements.
    pub(super) count: usize,
}

/// A vector operation.
///
/// # Safety
/// The strips have as many elements of the instruction's types as `count` says, and are aligned for them; the processor has
/// the target features that the operation was selected for.
pub(super) type Kernel = unsafe fn(Strips);

/// Whether the processor has the target features of the second set.
pub(super) fn is_wide() -> bool {
    target_features::of_processor() & target_features::X86_64_V3 != 0
}

impl Strips {
    /// The elements of an operand.
    ///
    /// # Safety
    /// As for [`Kernel`]. Elements that another thread writes meanwhile are unspecified numbers.
    #[inline(always)]
    unsafe fn operand<A: Element>(&self, at: usize, index: usize) -> A {
        // SAFETY: promised by the caller. Read as `A` itself, it would promise that no other thread writes the element.
        unsafe { self.from[at].cast::<MaybeUninit<A>>().add(index).read().assume_init() }
    }

    /// # Safety
    /// As for [`Kernel`].
    #[inline(always)]
    unsafe fn result<'a, R: Element>(self) -> &'a mut [MaybeUninit<R>] {
        // SAFETY: promised by the caller.
        unsafe { core::slice::from_raw_parts_mut(self.into.cast(), self.count) }
    }

    /// # Safety
    /// As for [`Kernel`].
    #[inline(always)]
    unsafe fn unary<A: Element, R: Element>(self, evaluate: impl Fn(A) -> R) {
        // SAFETY: promised by the caller.
        unsafe {
            for (index, result) in self.result().iter_mut().enumerate() {
                result.write(evaluate(self.operand(0, index)));
            }
        }
    }

    /// # Safety
    /// As for [`Kernel`].
    #[inline(always)]
    unsafe fn binary<A: Element, B: Element, R: Element>(self, evaluate: impl Fn(A, B) -> R) {
        // SAFETY: promised by the caller.
        unsafe {
            for (index, result) in self.result().iter_mut().enumerate() {
                result.write(evaluate(self.operand(0, index), self.operand(1, index)));
            }
        }
    }

    /// # Safety
    /// As for [`Kernel`].
    #[inline(always)]
    unsafe fn ternary<A: Element, B: Element, R: Element>(self, evaluate: impl Fn(A, B, B) -> R) {
        // SAFETY: promised by the caller.
        unsafe {
            for (index, result) in self.result().iter_mut().enumerate() {
                result.write(evaluate(self.operand(0, index), self.operand(1, index), self.operand(2, index)));
            }
        }
    }
}

/// Selects the variant of an operation for the processor.
macro_rules! variants {
    ($wide:ident, |$strips:ident| $run:expr) => {{
        unsafe fn portable($strips: Strips) {
            // SAFETY: promised by the caller.
            unsafe { $run }
        }
        #[cfg(all(feature = "std", target_arch = "x86_64"))]
        #[target_feature(enable = "avx2,fma,bmi1,bmi2,popcnt,lzcnt")]
        unsafe fn featured($strips: Strips) {
            // SAFETY: promised by the caller.
            unsafe { $run }
        }
        #[cfg(not(all(feature = "std", target_arch = "x86_64")))]
        use portable as featured;
        if $wide { featured as Kernel } else { portable as Kernel }
    }};
}

macro_rules! kernel {
    ($wide:ident [unary $v:ident] eval $f:ident) => {
        Some(variants!($wide, |strips| strips.unary::<$v, $v>(semantics::$f)))
    };
    ($wide:ident [conversion $v:ident $w:ident] eval $f:ident) => {
        Some(variants!($wide, |strips| strips.unary::<$v, $w>(semantics::$f)))
    };
    ($wide:ident [unary_comparison $v:ident] eval $f:ident) => {
        Some(variants!($wide, |strips| strips.unary::<$v, i32>(semantics::$f)))
    };
    ($wide:ident [binary $v:ident] eval $f:ident) => {
        Some(variants!($wide, |strips| strips.binary::<$v, $v, $v>(semantics::$f)))
    };
    ($wide:ident [binary $v:ident] try_eval $f:ident) => {
        // Only divisors that are not zero get here.
        Some(variants!($wide, |strips| strips
            .binary::<$v, $v, $v>(|left, right| semantics::$f(left, right).unwrap_or_default())))
    };
    ($wide:ident [binary_comparison $v:ident] eval $f:ident) => {
        Some(variants!($wide, |strips| strips.binary::<$v, $v, i32>(semantics::$f)))
    };
    ($wide:ident [shift $v:ident] eval $f:ident) => {
        Some(variants!($wide, |strips| strips.binary::<$v, i32, $v>(semantics::$f)))
    };
    ($wide:ident [power $v:ident] eval $f:ident) => {
        Some(variants!($wide, |strips| strips.binary::<$v, i64, $v>(semantics::$f)))
    };
    ($wide:ident [ternary $v:ident] eval $f:ident) => {
        Some(variants!($wide, |strips| strips.ternary::<$v, $v, $v>(semantics::$f)))
    };
    ($wide:ident [select $v:ident] eval $f:ident) => {
        Some(variants!($wide, |strips| strips.ternary::<i32, $v, $v>(semantics::$f)))
    };
    ($wide:ident [$($format:tt)*] special) => {
        None
    };
}

macro_rules! kernels {
    ($(($set:ident, $byte:literal, $name:ident, $mnemonic:literal, $format:tt, [$($effect:tt)*], $($semantics:ident)*))*) => {
        /// Returns the vector operation of an instruction; `wide` selects the target features.
        pub(super) fn kernel(opcode: Opcode, wide: bool) -> Option<Kernel> {
            match opcode {
                $(Opcode::$name => kernel!(wide $format $($semantics)*),)*
            }
        }
    };
}
for_each_instruction!(kernels);

/// A vector operation that folds its operands into one number.
///
/// # Safety
/// As for [`Kernel`], but the result is one number, which has been written before.
pub(super) type FoldKernel = Kernel;

impl Strips {
    /// Combines the number at `into` with one element after the other.
    ///
    /// # Safety
    /// As for [`FoldKernel`].
    #[inline(always)]
    unsafe fn fold<A: Element>(self, step: impl Fn(A, usize) -> A) {
        let number = self.into.cast::<A>();
        // SAFETY: promised by the caller.
        let mut result = unsafe { number.read() };
        for index in 0..self.count {
            result = step(result, index);
        }
        // SAFETY: as above.
        unsafe { number.write(result) };
    }
}

/// Returns the operation that folds strips into the number at `into` of the strips; None where there is none. `is_swapped` says that the
/// number is the second operand. LLVM vectorises sums of integers, as they may be added in any order; floats are added one by one.
pub(super) fn fold_kernel(opcode: Opcode, is_swapped: bool, wide: bool) -> Option<FoldKernel> {
    macro_rules! fold {
        ($type:ident $function:ident) => {
            variants!(wide, |strips| strips
                .fold::<$type>(|number, at| semantics::$function(number, strips.operand(0, at))))
        };
        (swapped $type:ident $function:ident) => {
            match is_swapped {
                false => fold!($type $function),
                true => variants!(wide, |strips| strips
                    .fold::<$type>(|number, at| semantics::$function(strips.operand(0, at), number))),
            }
        };
        (product $type:ident $function:ident) => {
            variants!(wide, |strips| strips
                .fold::<$type>(|number, at| semantics::$function(strips.operand(0, at), strips.operand(1, at), number)))
        };
    }
    Some(match opcode {
        Opcode::AddI32 => fold!(i32 add_i32),
        Opcode::MulI32 => fold!(i32 mul_i32),
        Opcode::AndI32 => fold!(i32 and_i32),
        Opcode::OrI32 => fold!(i32 or_i32),
        Opcode::XorI32 => fold!(i32 xor_i32),
        Opcode::MinI32S => fold!(i32 min_i32_s),
        Opcode::MinI32U => fold!(i32 min_i32_u),
        Opcode::MaxI32S => fold!(i32 max_i32_s),
        Opcode::MaxI32U => fold!(i32 max_i32_u),
        Opcode::AddI64 => fold!(i64 add_i64),
        Opcode::MulI64 => fold!(i64 mul_i64),
        Opcode::AndI64 => fold!(i64 and_i64),
        Opcode::OrI64 => fold!(i64 or_i64),
        Opcode::XorI64 => fold!(i64 xor_i64),
        Opcode::MinI64S => fold!(i64 min_i64_s),
        Opcode::MinI64U => fold!(i64 min_i64_u),
        Opcode::MaxI64S => fold!(i64 max_i64_s),
        Opcode::MaxI64U => fold!(i64 max_i64_u),
        Opcode::FmaI32 => fold!(product i32 fma_i32),
        Opcode::FmaI64 => fold!(product i64 fma_i64),
        Opcode::AddF32 => fold!(swapped f32 add_f32),
        Opcode::MulF32 => fold!(swapped f32 mul_f32),
        Opcode::MinF32 => fold!(swapped f32 min_f32),
        Opcode::MaxF32 => fold!(swapped f32 max_f32),
        Opcode::FmaF32 => fold!(product f32 fma_f32),
        Opcode::AddF64 => fold!(swapped f64 add_f64),
        Opcode::MulF64 => fold!(swapped f64 mul_f64),
        Opcode::MinF64 => fold!(swapped f64 min_f64),
        Opcode::MaxF64 => fold!(swapped f64 max_f64),
        Opcode::FmaF64 => fold!(product f64 fma_f64),
        _ => return None,
    })
}

/// Bytes of an element in memory.
pub(super) const fn width(kind: Kind) -> usize {
    match kind {
        Kind::u8 | Kind::i8 => 1,
        Kind::u16 | Kind::i16 => 2,
        Kind::i32 | Kind::f32 => 4,
        Kind::i64 | Kind::f64 => 8,
    }
}

/// Bytes of the number in a strip.
pub(super) const fn register_width(kind: Kind) -> usize {
    match kind {
        Kind::i64 | Kind::f64 => 8,
        Kind::u8 | Kind::i8 | Kind::u16 | Kind::i16 | Kind::i32 | Kind::f32 => 4,
    }
}
