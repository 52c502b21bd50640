//! Contractions of elements of buffers, by the kernels of [`incarnate_kernels`].

use core::fmt;
use core::ops::Range;

use super::elements::{Element, load};
use super::layouts::{self, ConstantBytes};
use super::memory::HasMemory;
use super::memory::Memory;
use super::region::Region;
use crate::Ref;
use incarnate_bytecode::trip_count::Reach;
use incarnate_kernels::contraction::{
    self, FmaF32, FmaF32AnyOrder, Gather, Initial, MulAddF32, MulAddF32AnyOrder, MulAddI32, Narrow, OperandKind, Piece,
    Prepared, Side,
};
use incarnate_kernels::{Loop, Operation};

mod divided;

/// The stride of an operand in a loop.
type Stride = fn(&Loop) -> i64;

/// Elements of a buffer that a contraction accesses: the index of that of the first iteration, in elements.
#[derive(Clone, Copy, Debug)]
pub struct View<'a, T> {
    memory: Option<Memory<'a>>,
    base: i64,
    is_of_zeros: bool,
    element: core::marker::PhantomData<T>,
}

impl<'a, T: Element> View<'a, T> {
    /// Names the elements of a buffer's memory from `base` on. Without memory, contractions return false.
    #[must_use]
    pub const fn new(memory: Option<Memory<'a>>, base: i64) -> View<'a, T> {
        View { memory, base, is_of_zeros: false, element: core::marker::PhantomData }
    }

    /// Says that a contraction takes all elements for zeros, whatever is in memory, and writes all of them.
    #[must_use]
    pub const fn of_zeros(self) -> View<'a, T> {
        View { is_of_zeros: true, ..self }
    }

    /// Computes each number of an operand from an element. The function must not fail.
    #[must_use]
    pub const fn map<F>(self, function: F) -> Computed<'a, T, F> {
        Computed { view: self, function }
    }

    fn region(&self, is_written: bool, reach: Reach) -> Option<Region> {
        self.memory?.region_of((size_of::<T>(), is_written), self.base, reach)
    }
}

macro_rules! extended {
    ($($name:ident: $element:ty as $narrow:ident;)*) => { $(
        impl<'a> View<'a, $element> {
            /// Extends each integer to 32 bits: kernels may have instructions for narrow integers.
            #[must_use]
            pub const fn $name(self) -> Extended<'a, $element> {
                Extended(self)
            }
        }

        impl NarrowElement for $element {
            const NARROW: Narrow = Narrow::$narrow;
        }
    )* };
}
extended! {
    extended_i8: i8 as I8;
    extended_u8: u8 as U8;
    extended_i16: i16 as I16;
}

/// The number 1, which a contraction of it multiplies in all iterations: sums of numbers are sums of such products.
#[derive(Clone, Copy, Debug)]
pub struct One;

/// Integers of a buffer, extended to 32 bits: [`View::extended_i8`].
#[derive(Clone, Copy, Debug)]
pub struct Extended<'a, T>(View<'a, T>);

/// The kind of an operand of narrow integers, of so many bytes each, that begins at an element of memory.
fn narrow_kind(of: Narrow, memory: Option<Memory<'_>>, base: i64, width: usize) -> OperandKind {
    let first = memory.map_or(0, |memory| memory.first_address().wrapping_add((base as usize).wrapping_mul(width)));
    OperandKind::Narrow { of, is_aligned: first.is_multiple_of(align_of::<u32>()) }
}

/// Numbers that are computed from elements of a buffer: [`View::map`].
#[derive(Clone, Copy)]
pub struct Computed<'a, T, F> {
    view: View<'a, T>,
    function: F,
}

impl<T, F> fmt::Debug for Computed<'_, T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Computed").field("base", &self.view.base).finish_non_exhaustive()
    }
}

mod sealed {
    use super::{ConstantBytes, Element, Loop, Narrow, OperandKind, Range, Reach, Stride, contraction};

    /// Integers that kernels may have instructions for.
    pub trait NarrowElement: Element + Into<i32> {
        const NARROW: Narrow;
    }

    /// What [`Source::checked`] calls with an operand, the addresses of its elements, and the bytes of a constant from that of the
    /// first iteration on, if they are such.
    pub(super) type Then<'a, N> =
        &'a mut dyn FnMut(contraction::Operand<'_, N>, Range<usize>, Option<ConstantBytes>) -> bool;

    /// What a contraction multiplies.
    pub trait Source<N> {
        /// The kind of the operand, and whether its elements are bytes of a constant.
        fn kind(&self, loops: &[Loop], stride: Stride) -> (OperandKind, bool);

        /// Checks that the elements of all iterations are within the buffer, and returns what `then` makes of the operand, of that kind,
        /// and of the addresses of its elements.
        fn checked(&self, kind: OperandKind, reach: Reach, then: Then<'_, N>) -> bool;
    }
}
pub(crate) use sealed::Source as FactorSource;
use sealed::{NarrowElement, Source, Then};

impl<N: Element> Source<N> for View<'_, N> {
    fn kind(&self, _: &[Loop], _: Stride) -> (OperandKind, bool) {
        (OperandKind::Memory, self.memory.is_some_and(|memory| memory.is_of_constant()))
    }

    fn checked(&self, _: OperandKind, reach: Reach, then: Then<'_, N>) -> bool {
        let region = self.region(false, reach);
        region.is_some_and(|region| {
            let address = region.origin.cast_const();
            let constant = self.memory.and_then(|memory| memory.constant_at(address));
            then(contraction::Operand::Memory(address.cast()), region.span, constant)
        })
    }
}

impl Source<f32> for One {
    fn kind(&self, loops: &[Loop], stride: Stride) -> (OperandKind, bool) {
        // With strides, no element of memory is read, wherever it is.
        let is_one_element = loops.iter().all(|each| stride(each) == 0);
        (if is_one_element { OperandKind::Memory } else { OperandKind::Computed }, false)
    }

    fn checked(&self, kind: OperandKind, _: Reach, then: Then<'_, f32>) -> bool {
        static ONE: f32 = 1.0;
        let operand = match kind {
            OperandKind::Memory => contraction::Operand::Memory(&raw const ONE),
            _ => contraction::Operand::Computed(&One, 0),
        };
        then(operand, 0..0, None)
    }
}

impl Gather<f32> for One {
    fn zero(&self) -> f32 {
        0.0
    }

    unsafe fn gather(&self, _: i64, _: i64, into: &mut [f32]) {
        into.fill(1.0);
    }
}

/// Computes the numbers of an operand from elements whose type is known only at run time.
pub(crate) trait Compute<N>: Sync {
    /// The narrow integers that the elements are, if the numbers are those, extended to 32 bits.
    fn narrow(&self) -> Option<Narrow>;

    /// Writes the numbers of pieces, one after the other: of the elements that begin at a distance from an address and follow each
    /// other at a stride, in elements.
    ///
    /// # Safety
    /// The elements are within a buffer and aligned. The pieces have as many elements as there are numbers.
    unsafe fn compute(&self, first: *const u8, stride: i64, pieces: &[Piece], into: &mut [N]);
}

/// Elements of a buffer whose type is known only at run time.
pub(crate) struct Elements<'a, N> {
    pub(crate) buffer: &'a Ref,
    /// The index of the element of the first iteration.
    pub(crate) base: i64,
    /// Bytes of an element.
    pub(crate) width: usize,
    /// What is computed from elements; None where they are the numbers.
    pub(crate) compute: Option<&'a dyn Compute<N>>,
}

/// The elements from an address on.
struct Addressed<'a, N> {
    origin: *const u8,
    width: usize,
    compute: &'a dyn Compute<N>,
}

// SAFETY: an address through which nothing is written. `checked` found the elements within the buffer, and `contract` that the output
// overlaps no operand.
unsafe impl<N> Sync for Addressed<'_, N> {}

impl<N: Copy + Default> Gather<N> for Addressed<'_, N> {
    fn zero(&self) -> N {
        N::default()
    }

    fn narrow(&self) -> Option<(Narrow, *const u8)> {
        Some((self.compute.narrow()?, self.origin))
    }

    unsafe fn gather(&self, first: i64, stride: i64, into: &mut [N]) {
        let first = self.origin.wrapping_offset((first as isize).wrapping_mul(self.width as isize));
        let piece = Piece { from: 0, at: 0, length: into.len() };
        // SAFETY: the caller promises that these are elements of iterations, which `checked` found within the buffer.
        unsafe { self.compute.compute(first, stride, &[piece], into) };
    }

    unsafe fn gather_pieces(&self, first: i64, stride: i64, pieces: &[Piece], into: &mut [N]) {
        let first = self.origin.wrapping_offset((first as isize).wrapping_mul(self.width as isize));
        let count = pieces.last().map_or(0, |piece| piece.at + piece.length);
        // SAFETY: as above; pieces follow each other.
        unsafe { self.compute.compute(first, stride, pieces, &mut into[..count]) };
    }
}

impl<N: Element + Default> Source<N> for Elements<'_, N> {
    fn kind(&self, _: &[Loop], _: Stride) -> (OperandKind, bool) {
        match (self.compute, self.buffer.memory()) {
            (None, memory) => (OperandKind::Memory, memory.is_some_and(|memory| memory.is_of_constant())),
            (Some(compute), memory) => match compute.narrow() {
                Some(of) => (narrow_kind(of, memory, self.base, self.width), false),
                None => (OperandKind::Computed, false),
            },
        }
    }

    fn checked(&self, _: OperandKind, reach: Reach, then: Then<'_, N>) -> bool {
        let Ref::Buffer(buffer) = self.buffer else { return false };
        let memory = buffer.memory();
        memory.region_of((self.width, false), self.base, reach).is_some_and(|region| {
            let (origin, width) = (region.origin.cast_const(), self.width);
            match self.compute {
                None => then(contraction::Operand::Memory(origin.cast()), region.span, memory.constant_at(origin)),
                Some(compute) => {
                    let addressed = Addressed { origin, width, compute };
                    then(contraction::Operand::Computed(&addressed, 0), region.span, None)
                }
            }
        })
    }
}

/// The elements from an address on.
struct Gathered<'f, T, F> {
    origin: *const T,
    function: &'f F,
}

// SAFETY: an address through which nothing is written. `checked` found the elements within the buffer, and `contract` that the output
// overlaps no operand. The function is `Sync`.
unsafe impl<T, F: Sync> Sync for Gathered<'_, T, F> {}

impl<N: Copy + Default, T: Element, F: Fn(T) -> N + Sync> Gather<N> for Gathered<'_, T, F> {
    fn zero(&self) -> N {
        N::default()
    }

    unsafe fn gather(&self, first: i64, stride: i64, into: &mut [N]) {
        let mut element = first;
        for number in into {
            // SAFETY: the caller promises that these are elements of iterations, which `checked` found within the buffer.
            *number = (self.function)(unsafe { load(self.origin.offset(element as isize)) });
            element = element.wrapping_add(stride);
        }
    }
}

impl<N: Copy + Default, T: Element, F: Fn(T) -> N + Sync> Source<N> for Computed<'_, T, F> {
    fn kind(&self, _: &[Loop], _: Stride) -> (OperandKind, bool) {
        (OperandKind::Computed, false)
    }

    fn checked(&self, _: OperandKind, reach: Reach, then: Then<'_, N>) -> bool {
        self.view.region(false, reach).is_some_and(|region| {
            let gathered = Gathered { origin: region.origin.cast_const().cast(), function: &self.function };
            then(contraction::Operand::Computed(&gathered, 0), region.span, None)
        })
    }
}

/// The integers from an address on.
struct Integers<T>(*const T);

// SAFETY: an address through which nothing is written. `checked` found the elements within the buffer, and `contract` that the output
// overlaps no operand.
unsafe impl<T> Sync for Integers<T> {}

impl<T: NarrowElement> Gather<i32> for Integers<T> {
    fn zero(&self) -> i32 {
        0
    }

    fn narrow(&self) -> Option<(Narrow, *const u8)> {
        Some((T::NARROW, self.0.cast()))
    }

    unsafe fn gather(&self, first: i64, stride: i64, into: &mut [i32]) {
        let gathered = Gathered { origin: self.0, function: &T::into };
        // SAFETY: promised by the caller.
        unsafe { gathered.gather(first, stride, into) };
    }
}

impl<T: NarrowElement> Source<i32> for Extended<'_, T> {
    fn kind(&self, _: &[Loop], _: Stride) -> (OperandKind, bool) {
        (narrow_kind(T::NARROW, self.0.memory, self.0.base, size_of::<T>()), false)
    }

    fn checked(&self, _: OperandKind, reach: Reach, then: Then<'_, i32>) -> bool {
        self.0.region(false, reach).is_some_and(|region| {
            then(
                contraction::Operand::Computed(&Integers::<T>(region.origin.cast_const().cast()), 0),
                region.span,
                None,
            )
        })
    }
}

/// An operation with contractions of elements of buffers. What programs call is compiled once, with this crate.
pub trait Contract: Operation<Number: Element> {
    /// Runs a contraction: in each iteration of the loops, the outermost first, the element of the output becomes what the
    /// operation makes of it and of the numbers of the operands. Operations in any order may add to partial sums.
    ///
    /// Returns false, and does nothing, where elements are out of range or not aligned, where the output is read-only or overlaps an operand,
    /// where two iterations that differ in loops that move the output may have the same element of it, or where a view
    /// [of zeros](View::of_zeros) gets no product. The loops must then run with checked accesses. The last check is `permitted`, which may
    /// take the loops' steps from the limits of a call.
    ///
    /// # Safety
    /// As for [`Memory::grid`].
    #[must_use]
    unsafe fn contract(
        output: View<'_, Self::Number>,
        left: &dyn Source<Self::Number>,
        right: &dyn Source<Self::Number>,
        loops: &[Loop],
        permitted: &mut dyn FnMut() -> bool,
    ) -> bool;
}

macro_rules! contract {
    ($($operation:ty)*) => { $(
        impl Contract for $operation {
            unsafe fn contract(
                output: View<'_, Self::Number>,
                left: &dyn Source<Self::Number>,
                right: &dyn Source<Self::Number>,
                loops: &[Loop],
                permitted: &mut dyn FnMut() -> bool,
            ) -> bool {
                // SAFETY: promised by the caller.
                unsafe { contract::<$operation>(output, left, right, loops, permitted) }
            }
        }
    )* };
}
contract!(FmaF32 FmaF32AnyOrder MulAddF32 MulAddF32AnyOrder MulAddI32);

/// # Safety
/// As for [`Contract::contract`].
unsafe fn contract<O: Contract>(
    output: View<'_, O::Number>,
    left: &dyn Source<O::Number>,
    right: &dyn Source<O::Number>,
    loops: &[Loop],
    permitted: &mut dyn FnMut() -> bool,
) -> bool {
    let (left_stride, right_stride): (Stride, Stride) = (|each| each.left, |each| each.right);
    let (left_kind, is_left_constant) = left.kind(loops, left_stride);
    let (right_kind, is_right_constant) = right.kind(loops, right_stride);
    let prepared = contraction::prepare::<O>(loops, [left_kind, right_kind], [is_left_constant, is_right_constant]);
    let [reach, left_reach, right_reach] = prepared.reaches();
    let Some(region) = output.region(true, reach) else { return false };
    if reach == Reach::Nothing {
        return !output.is_of_zeros && permitted();
    }
    let initial = if output.is_of_zeros { Initial::Zeros } else { Initial::Stored };
    let is_disjoint = |span: &Range<usize>| span.end <= region.span.start || region.span.end <= span.start;
    prepared.is_injective()
        && left.checked(left_kind, left_reach, &mut |left, left_span, left_constant| {
            right.checked(right_kind, right_reach, &mut |right, right_span, right_constant| {
                let is_prepared_for = [left.kind(), right.kind()] == prepared.operands();
                if !is_prepared_for || !is_disjoint(&left_span) || !is_disjoint(&right_span) || !permitted() {
                    return false;
                }
                let output = (region.origin.cast(), initial);
                // SAFETY: `Memory::region_of` checked that the elements are within their buffers and aligned, and that the output can
                // be written to; its elements are distinct, and this function checked that they overlap no operand's.
                // Memory that `constant_at` found has the bytes of a constant that lives. The operands are of the kinds of `prepared`.
                unsafe { by_layouts::<O>(&prepared, output, (left, right), [left_constant, right_constant]) };
                true
            })
        })
}

/// Runs a contraction, with the prepacked copy of an operand that is in a constant where there is one. `constants` are where an operand
/// is in a constant.
///
/// # Safety
/// As for [`contraction::Prepared::run`]; and the constants live, and have the elements of all iterations.
unsafe fn by_layouts<O: Operation>(
    prepared: &Prepared<O>,
    output: (*mut O::Number, Initial),
    operands: (contraction::Operand<'_, O::Number>, contraction::Operand<'_, O::Number>),
    constants: [Option<ConstantBytes>; 2],
) {
    let (mut left, mut right) = operands;
    let prepacked = prepared.prepacked().and_then(|(side, layout, prepared)| {
        // SAFETY: promised by the caller.
        Some((side, unsafe { layouts::elements(constants[side.index()]?, layout) }?, prepared))
    });
    let Some((side, elements, with_copy)) = prepacked else {
        // SAFETY: promised by the caller.
        return unsafe { divided::run::<O>(prepared, output, left, right) };
    };
    let copy = contraction::Operand::Layout(elements.cast());
    match side {
        Side::Left => left = copy,
        Side::Right => right = copy,
    }
    // SAFETY: promised by the caller. Copies have the elements of all iterations, and nothing writes to them.
    unsafe { divided::run::<O>(&with_copy, output, left, right) };
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::super::{Buffer, HasMemory};
    use super::*;
    use alloc::vec::Vec;

    fn buffer<N: Copy, const B: usize>(numbers: &[N], bytes: fn(N) -> [u8; B]) -> Ref {
        Ref::Buffer(Buffer::copy_of(&numbers.iter().flat_map(|number| bytes(*number)).collect::<Vec<u8>>()).unwrap())
    }

    fn numbers(of: &Ref) -> Vec<f32> {
        let Ref::Buffer(buffer) = of else { return Vec::new() };
        (0..buffer.length() / 4).map(|at| f32::from_bits(buffer.load::<u32>(at).unwrap())).collect()
    }

    /// `output[2, 2] += left[2, 3] * right[3, 2]`.
    const LOOPS: [Loop; 3] = [
        Loop { count: 2, output: 2, left: 3, right: 0 },
        Loop { count: 3, output: 0, left: 1, right: 2 },
        Loop { count: 2, output: 1, left: 0, right: 1 },
    ];

    #[test]
    fn matrices_are_multiplied() {
        let left = buffer(&[1f32, 2., 3., 4., 5., 6.], f32::to_le_bytes);
        let right = buffer(&[1f32, 0., 0., 1., 1., 1.], f32::to_le_bytes);
        let output = buffer(&[0.5f32; 4], f32::to_le_bytes);
        // SAFETY: this test has one thread.
        let done = unsafe {
            FmaF32::contract(
                View::new(output.memory(), 0),
                &View::new(left.memory(), 0),
                &View::new(right.memory(), 0),
                &LOOPS,
                &mut || true,
            )
        };
        assert!(done);
        assert_eq!(numbers(&output), [4.5, 5.5, 10.5, 11.5]);
    }

    #[test]
    fn operands_are_computed() {
        let left = buffer(&[1i8, 2, 3, -4, 5, 6], i8::to_le_bytes);
        let right = buffer(&[1i32, 0, 0, 1, 1, 1], i32::to_le_bytes);
        let output = buffer(&[0i32; 4], i32::to_le_bytes);
        // SAFETY: this test has one thread.
        let done = unsafe {
            let left = View::<i8>::new(left.memory(), 0).map(|number| i32::from(number) - 1);
            MulAddI32::contract(
                View::new(output.memory(), 0),
                &left,
                &View::new(right.memory(), 0),
                &LOOPS,
                &mut || true,
            )
        };
        assert!(done);
        let Ref::Buffer(output) = output else { return };
        assert_eq!((0..4).map(|at| output.load::<u32>(at).unwrap() as i32).collect::<Vec<_>>(), [2, 3, 0, 9]);
    }

    #[test]
    fn bytes_are_extended() {
        // `output[2, 2] += left[2, 6] * right[6, 2]`, of rows that begin at the second byte.
        let loops = [
            Loop { count: 2, output: 2, left: 6, right: 0 },
            Loop { count: 6, output: 0, left: 1, right: 2 },
            Loop { count: 2, output: 1, left: 0, right: 1 },
        ];
        let left = buffer(&[9i8, -128, 127, 1, 0, 2, 3, 1, 1, 1, 1, 1, -1], i8::to_le_bytes);
        let right = buffer(&[9i8, -128, 1, 127, 2, 0, 3, 0, 4, 1, 5, -1, 6], i8::to_le_bytes);
        let output = buffer(&[1i32, i32::MAX, 0, 0], i32::to_le_bytes);
        // SAFETY: this test has one thread.
        let done = unsafe {
            let (left, right) = (View::new(left.memory(), 1).extended_i8(), View::new(right.memory(), 1).extended_i8());
            MulAddI32::contract(View::new(output.memory(), 0), &left, &right, &loops, &mut || true)
        };
        assert!(done);
        let Ref::Buffer(output) = output else { return };
        let sum = |of: [i32; 6], column: [i32; 6], first: i32| {
            of.iter().zip(column).fold(first, |sum, (left, right)| sum.wrapping_add(left * right))
        };
        let (rows, columns) =
            ([[-128, 127, 1, 0, 2, 3], [1, 1, 1, 1, 1, -1]], [[-128, 127, 0, 0, 1, -1], [1, 2, 3, 4, 5, 6]]);
        let expected = [
            sum(rows[0], columns[0], 1),
            sum(rows[0], columns[1], i32::MAX),
            sum(rows[1], columns[0], 0),
            sum(rows[1], columns[1], 0),
        ];
        assert_eq!([0, 1, 2, 3].map(|at| output.load::<u32>(at).unwrap() as i32), expected);
        assert!(expected[1] < 0);
    }

    #[test]
    fn what_may_differ_from_the_loops_is_refused() {
        let (left, right) = (buffer(&[1f32; 6], f32::to_le_bytes), buffer(&[1f32; 6], f32::to_le_bytes));
        let output = buffer(&[0f32; 4], f32::to_le_bytes);
        let run = |output: (&Ref, i64), left: (&Ref, i64), loops: [Loop; 3]| {
            let (output, left) = (View::new(output.0.memory(), output.1), View::new(left.0.memory(), left.1));
            // SAFETY: this test has one thread.
            unsafe { FmaF32::contract(output, &left, &View::new(right.memory(), 0), &loops, &mut || true) }
        };
        assert!(!run((&output, 1), (&left, 0), LOOPS) && !run((&output, 0), (&left, 1), LOOPS));
        assert!(!run((&output, 0), (&left, -1), LOOPS) && !run((&Ref::Null, 0), (&left, 0), LOOPS));
        let overlapping = buffer(&[1f32; 6], f32::to_le_bytes);
        assert!(!run((&overlapping, 0), (&overlapping, 0), LOOPS));
        let [rows, sums, columns] = LOOPS;
        assert!(!run((&output, 0), (&left, 0), [Loop { output: 1, ..rows }, sums, columns]));
        assert_eq!(numbers(&output), [0.; 4]);
        assert!(run((&output, 0), (&left, 0), [rows, Loop { count: 0, ..sums }, columns]));
        assert_eq!(numbers(&output), [0.; 4]);
    }
}
