//! Sums of products: `output[..] = output[..] + left[..] * right[..]`.
#![allow(unsafe_code, reason = "elements at addresses that callers have checked")]

use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;

use incarnate_bytecode::semantics;

mod across;
mod copy;
#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
mod dot;
mod drive;
mod loops;
mod partial;
mod plan;
mod scratch;
#[cfg(test)]
mod tests;
mod tile;

pub use copy::Piece;
pub use partial::{Partial, Sums};
pub use plan::{Machine, Packing, Plan};

use tile::{Tiles, partial as partial_tiles, portable};

mod sealed {
    use super::{Tiles, partial_tiles};

    #[allow(private_interfaces, reason = "nothing else implements it")]
    pub trait Sealed {
        type Numbers: 'static;

        /// The tiles for a level of processors.
        fn tiles(level: super::Level) -> &'static Tiles<Self::Numbers>;

        /// The tiles of partial sums.
        fn partial(level: super::Level) -> &'static partial_tiles::Tiles<Self::Numbers>;
    }
}

/// A level of processors that there are tiles for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Portable,
    #[cfg(all(feature = "std", target_arch = "x86_64"))]
    X86_64V3,
    #[cfg(all(feature = "std", target_arch = "x86_64"))]
    X86_64V4,
    #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
    Neon,
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    Simd128,
    #[cfg(all(target_arch = "wasm32", target_feature = "relaxed-simd"))]
    RelaxedSimd,
}

impl Level {
    /// The best level of this processor whose vectors have at most so many lanes.
    fn best(lanes: usize) -> Level {
        #[cfg(all(feature = "std", target_arch = "x86_64"))]
        {
            use std::arch::is_x86_feature_detected as has;

            let has_v3 = has!("avx2") && has!("fma");
            if lanes >= Machine::X86_64_V4.lanes && has_v3 && has!("avx512f") {
                return Level::X86_64V4;
            }
            if lanes >= Machine::X86_64_V3.lanes && has_v3 {
                return Level::X86_64V3;
            }
        }
        #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
        if lanes >= Machine::NEON.lanes {
            return Level::Neon;
        }
        #[cfg(all(target_arch = "wasm32", target_feature = "relaxed-simd"))]
        if lanes >= Machine::RELAXED_SIMD.lanes && tile::wasm32_relaxed::is_fused() {
            return Level::RelaxedSimd;
        }
        #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
        if lanes >= Machine::SIMD128.lanes {
            return Level::Simd128;
        }
        let _ = lanes;
        Level::Portable
    }

    /// The best level of this processor that is no better than the machine's.
    fn at_most(machine: &Machine) -> Level {
        #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
        if *machine == Machine::SIMD128 {
            return Level::Simd128;
        }
        if *machine == Machine::PORTABLE { Level::Portable } else { Level::best(machine.lanes) }
    }
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

impl Loop {
    /// The same loop with the operands exchanged.
    const fn swapped(self) -> Loop {
        Loop { left: self.right, right: self.left, ..self }
    }
}

/// What an iteration does to an element.
pub trait Operation: sealed::Sealed<Numbers = Self::Number> + 'static {
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
    ($($(#[$doc:meta])* $name:ident, $number:ty, $zero:literal $add:ident $any_order:literal,
        $partial:ident $portable:ident $v3:ident $v4:ident: |$sum:ident, $left:ident, $right:ident| $apply:expr;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;
        #[allow(private_interfaces, reason = "as the trait's")]
        impl sealed::Sealed for $name {
            type Numbers = $number;
            fn tiles(level: Level) -> &'static Tiles<$number> {
                match level {
                    Level::Portable => &portable::$portable,
                    #[cfg(all(feature = "std", target_arch = "x86_64"))]
                    Level::X86_64V3 => &tile::x86_64::$v3,
                    #[cfg(all(feature = "std", target_arch = "x86_64"))]
                    Level::X86_64V4 => &tile::x86_64::$v4,
                    #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
                    Level::Neon => &tile::aarch64::$portable,
                    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
                    Level::Simd128 => &tile::wasm32::$portable,
                    #[cfg(all(target_arch = "wasm32", target_feature = "relaxed-simd"))]
                    Level::RelaxedSimd => &tile::wasm32_relaxed::$portable,
                }
            }
            fn partial(level: Level) -> &'static partial_tiles::Tiles<$number> {
                partial_tiles::$partial(level)
            }
        }
        impl Operation for $name {
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
    FmaF32, f32, 0.0 add_f32 false, fma_f32 FMA_F32 FMA_F32_V3 FMA_F32_V4: |sum, left, right| semantics::fma_f32(left, right, sum);
    /// `sum + left * right`, both rounded.
    MulAddF32, f32, 0.0 add_f32 false, mul_add_f32 MUL_ADD_F32 MUL_ADD_F32_V3 MUL_ADD_F32_V4: |sum, left, right| semantics::add_f32(sum, semantics::mul_f32(left, right));
    /// `left * right + sum`, modulo 2^32: the order makes no difference.
    MulAddI32, i32, 0 add_i32 true, mul_add_i32 MUL_ADD_I32 MUL_ADD_I32_V3 MUL_ADD_I32_V4: |sum, left, right| semantics::add_i32(sum, semantics::mul_i32(left, right));
}

/// An operation whose products may be added in any order, so that results may differ from those of the loops by rounding. They are
/// the same on every processor: see [`Sums`].
#[derive(Clone, Copy, Debug)]
pub struct AnyOrder<O>(PhantomData<O>);

#[allow(private_interfaces, reason = "as the trait's")]
impl<O: Operation> sealed::Sealed for AnyOrder<O> {
    type Numbers = O::Number;
    fn tiles(level: Level) -> &'static Tiles<O::Number> {
        <O as sealed::Sealed>::tiles(level)
    }
    fn partial(level: Level) -> &'static partial_tiles::Tiles<O::Number> {
        <O as sealed::Sealed>::partial(level)
    }
}

impl<O: Operation> Operation for AnyOrder<O> {
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

    /// Returns where element 0 is if the elements are bytes, and the numbers their sign extensions to `i32`: element `n` is the byte at `n`.
    fn bytes(&self) -> Option<*const u8> {
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
            // SAFETY: promised by the caller.
            unsafe { self.gather(first.wrapping_add(piece.from as i64), stride, numbers) };
        }
    }
}

impl<N> fmt::Debug for Operand<'_, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operand::Memory(address) => f.debug_tuple("Memory").field(address).finish(),
            Operand::Computed(_, first) => f.debug_tuple("Computed").field(first).finish(),
        }
    }
}

/// Runs all iterations of the loops, the outermost first; in another order where the operation allows that: see [`Sums`].
///
/// # Safety
/// - Elements of all iterations are valid and aligned at the addresses; so are those between them, of an operand, for reads. So are
///   those that [`Gather::bytes`] names.
/// - Iterations that differ in a loop that moves the output have different elements of it, and the output overlaps no operand.
/// - Loads and stores are plain. Where another thread accesses the elements meanwhile, what is stored is unspecified.
pub unsafe fn contract<O: Operation>(
    output: *mut O::Number,
    left: Operand<'_, O::Number>,
    right: Operand<'_, O::Number>,
    loops: &[Loop],
) {
    // SAFETY: promised by the caller.
    unsafe { contract_part::<O>(Sums::of::<O>(loops), output, left, right, loops) }
}

/// As [`contract`], for a part of a contraction: that of some iterations of loops that move the output. `sums` are of the whole.
///
/// # Safety
/// As for [`contract`].
pub unsafe fn contract_part<O: Operation>(
    sums: Sums,
    output: *mut O::Number,
    left: Operand<'_, O::Number>,
    right: Operand<'_, O::Number>,
    loops: &[Loop],
) {
    // SAFETY: promised by the caller; the processor is of its level.
    unsafe { contract_on::<O>(Level::best(usize::MAX), sums, output, left, right, loops) }
}

/// As [`contract`], by a level that is no better than the machine's: to compare the levels of one processor. Returns the name of the
/// level.
///
/// # Safety
/// As for [`contract`].
pub unsafe fn contract_at_most<O: Operation>(
    machine: &Machine,
    output: *mut O::Number,
    left: Operand<'_, O::Number>,
    right: Operand<'_, O::Number>,
    loops: &[Loop],
) -> &'static str {
    let level = Level::at_most(machine);
    // SAFETY: promised by the caller; the processor is of its level.
    unsafe { contract_on::<O>(level, Sums::of::<O>(loops), output, left, right, loops) };
    <O as sealed::Sealed>::tiles(level).machine.name
}

/// As [`contract`], by the tiles of a level.
///
/// # Safety
/// As for [`contract`]; the processor is of the level.
unsafe fn contract_on<O: Operation>(
    level: Level,
    sums: Sums,
    output: *mut O::Number,
    left: Operand<'_, O::Number>,
    right: Operand<'_, O::Number>,
    loops: &[Loop],
) {
    if loops.iter().any(|each| each.count == 0) {
        return;
    }
    #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
    // SAFETY: promised by the caller.
    if level == Level::Neon && unsafe { dot::contract::<O>(output, left, right, loops) } {
        return;
    }
    if let (Sums::Partial, Some(plan)) = (sums, Partial::of(loops)) {
        let (left, right) = if plan.is_swapped { (right, left) } else { (left, right) };
        let (tiles, zero) = (<O as sealed::Sealed>::partial(level), O::ZERO);
        return scratch::with(|_, scratch| {
            // SAFETY: promised by the caller.
            unsafe { partial::Drive { plan: &plan, tiles, output, left, right, zero, scratch }.run() }
        });
    }
    let tiles = <O as sealed::Sealed>::tiles(level);
    let is_computed = [&left, &right].map(|operand| matches!(operand, Operand::Computed(..)));
    scratch::with(|planned, scratch| {
        let Some(plan) = planned.plan(loops, &tiles.machine, is_computed) else {
            // SAFETY: promised by the caller.
            return unsafe { in_order::<O>(output, left, right, loops, [0; 3]) };
        };
        let (left, right) = if plan.is_swapped { (right, left) } else { (left, right) };
        // SAFETY: promised by the caller.
        unsafe { drive::Drive { plan, tiles, output, left, right, scratch }.run() };
    });
}

/// A plain load that promises the compiler nothing about the bytes: where another thread writes them meanwhile, the number is
/// unspecified, and it is not the load that is undefined.
///
/// # Safety
/// The address is valid for reads and aligned, and every bit pattern is an `N`.
#[inline(always)]
unsafe fn load<N: Copy>(address: *const N) -> N {
    // SAFETY: promised by the caller. Read as `N` itself, it would come with a promise that no byte is uninitialised, which is what
    // LLVM calls those that race.
    unsafe { address.cast::<MaybeUninit<N>>().read().assume_init() }
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
        element.write(O::apply(load(element), left.number(offsets[1]), right.number(offsets[2])));
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
            Operand::Memory(address) => unsafe { load(address.offset(element as isize)) },
            Operand::Computed(operand, first) => {
                let mut number = [operand.zero()];
                // SAFETY: promised by the caller.
                unsafe { operand.gather(first.wrapping_add(element), 0, &mut number) };
                number[0]
            }
        }
    }

    /// Returns where the byte of the first iteration is, if the numbers are sign extensions of bytes.
    #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
    fn bytes(&self) -> Option<*const u8> {
        match self {
            Operand::Memory(_) => None,
            Operand::Computed(operand, first) => Some(operand.bytes()?.wrapping_offset(*first as isize)),
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
