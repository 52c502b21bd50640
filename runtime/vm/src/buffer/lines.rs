//! Copies between elements at a stride and adjacent numbers.
//!
//! They are used by functions for target features, and therefore contain no closures and no adapters of iterators: LLVM does not
//! always inline those.

use core::mem::MaybeUninit;

/// An element in memory, and the number that it is copied to and from.
pub(crate) trait Convert: Copy {
    type Number: Copy;
    fn extended(self) -> Self::Number;
    fn truncated(number: Self::Number) -> Self;
}

macro_rules! conversions {
    ($($element:ident as $number:ident),*) => { $(
        impl Convert for $element {
            type Number = $number;
            #[inline(always)]
            #[allow(clippy::cast_lossless, trivial_numeric_casts, reason = "as for other types")]
            fn extended(self) -> $number {
                self as $number
            }
            #[inline(always)]
            #[allow(trivial_numeric_casts, reason = "as for other types")]
            fn truncated(number: $number) -> $element {
                number as $element
            }
        }
    )* };
}
conversions!(u8 as i32, i8 as i32, u16 as i32, i16 as i32, i32 as i32, i64 as i64);

/// A direction of copies.
pub(crate) trait Direction {
    /// Copies an element.
    ///
    /// # Safety
    /// As for [`line`], for one element.
    unsafe fn one<T: Convert>(memory: *mut T, number: *mut T::Number);

    /// Copies adjacent elements, all of which are loaded before the first is stored.
    ///
    /// # Safety
    /// As for `one`, for as many elements.
    unsafe fn chunk<T: Convert, const COUNT: usize>(memory: *mut T, numbers: *mut T::Number);

    /// Copies the same element for each of some numbers, at least one.
    ///
    /// # Safety
    /// As for `one`, for as many numbers.
    unsafe fn same<T: Convert>(memory: *mut T, numbers: *mut T::Number, count: usize);
}

/// From memory to adjacent numbers.
pub(crate) struct Load;
/// From adjacent numbers to memory.
pub(crate) struct Store;

/// Reads any number of values that other threads may write meanwhile.
#[inline(always)]
pub(crate) unsafe fn read<V: Copy>(address: *const V) -> V {
    // SAFETY: promised by the caller. Read as `V` itself, it would promise that no other thread writes it.
    unsafe { address.cast::<MaybeUninit<V>>().read().assume_init() }
}

impl Direction for Load {
    #[inline(always)]
    unsafe fn one<T: Convert>(memory: *mut T, number: *mut T::Number) {
        // SAFETY: promised by the caller.
        unsafe { number.write(read(memory).extended()) }
    }

    #[inline(always)]
    unsafe fn chunk<T: Convert, const COUNT: usize>(memory: *mut T, numbers: *mut T::Number) {
        // SAFETY: promised by the caller; an array is aligned as its elements.
        unsafe {
            let elements = read(memory.cast::<[T; COUNT]>());
            let mut extended = [elements[0].extended(); COUNT];
            let mut at = 0;
            while at < COUNT {
                extended[at] = elements[at].extended();
                at += 1;
            }
            numbers.cast::<[T::Number; COUNT]>().write(extended);
        }
    }

    #[inline(always)]
    unsafe fn same<T: Convert>(memory: *mut T, numbers: *mut T::Number, count: usize) {
        // SAFETY: promised by the caller.
        unsafe {
            let number = read(memory).extended();
            match count {
                16.. => repeat::<_, 16>(number, numbers, count),
                8.. => repeat::<_, 8>(number, numbers, count),
                4.. => repeat::<_, 4>(number, numbers, count),
                _ => repeat::<_, 1>(number, numbers, count),
            }
        }
    }
}

impl Direction for Store {
    #[inline(always)]
    unsafe fn one<T: Convert>(memory: *mut T, number: *mut T::Number) {
        // SAFETY: promised by the caller.
        unsafe { memory.write(T::truncated(read(number))) }
    }

    #[inline(always)]
    unsafe fn chunk<T: Convert, const COUNT: usize>(memory: *mut T, numbers: *mut T::Number) {
        // SAFETY: promised by the caller; an array is aligned as its elements.
        unsafe {
            let numbers = read(numbers.cast::<[T::Number; COUNT]>());
            let mut elements = [T::truncated(numbers[0]); COUNT];
            let mut at = 0;
            while at < COUNT {
                elements[at] = T::truncated(numbers[at]);
                at += 1;
            }
            memory.cast::<[T; COUNT]>().write(elements);
        }
    }

    #[inline(always)]
    unsafe fn same<T: Convert>(memory: *mut T, numbers: *mut T::Number, count: usize) {
        // The last number remains.
        // SAFETY: promised by the caller.
        unsafe { Store::one(memory, numbers.add(count - 1)) }
    }
}

/// Writes a number so many times, in chunks, of which the last one overlaps the one before.
///
/// # Safety
/// The numbers are valid and aligned, and at least `CHUNK`.
#[inline(always)]
unsafe fn repeat<N: Copy, const CHUNK: usize>(number: N, numbers: *mut N, count: usize) {
    let (mut at, last) = (0, count - CHUNK);
    // SAFETY: promised by the caller; chunks are within the numbers.
    unsafe {
        while at < last {
            numbers.add(at).cast::<[N; CHUNK]>().write([number; CHUNK]);
            at += CHUNK;
        }
        numbers.add(last).cast::<[N; CHUNK]>().write([number; CHUNK]);
    }
}

/// Copies adjacent elements in chunks. The last chunk overlaps the one before, so that nothing else is accessed: where memory and
/// strip are the same elements, it copies them once more.
///
/// # Safety
/// As for [`line`]; there are at least `CHUNK` elements.
#[inline(always)]
unsafe fn chunks<D: Direction, T: Convert, const CHUNK: usize>(memory: *mut T, numbers: *mut T::Number, count: usize) {
    let (mut at, last) = (0, count - CHUNK);
    // SAFETY: promised by the caller; chunks are within the elements.
    unsafe {
        while at < last {
            D::chunk::<T, CHUNK>(memory.add(at), numbers.add(at));
            at += CHUNK;
        }
        D::chunk::<T, CHUNK>(memory.add(last), numbers.add(last));
    }
}

/// # Safety
/// As for [`line`].
#[inline(always)]
unsafe fn strided<D: Direction, T: Convert>(memory: *mut T, stride: i64, numbers: *mut T::Number, count: usize) {
    let mut address = memory;
    for at in 0..count {
        // SAFETY: promised by the caller; the address after the last element is not used.
        unsafe { D::one(address, numbers.add(at)) };
        address = address.wrapping_offset(stride as isize);
    }
}

/// Copies elements at a stride to adjacent numbers, or back.
///
/// # Safety
/// The elements are valid at their addresses, aligned, and so are the numbers; the processor has the target features that the calling
/// function is compiled for. Elements that another thread writes meanwhile are unspecified numbers.
#[inline(always)]
pub(crate) unsafe fn line<D: Direction, T: Convert>(
    memory: *mut T,
    stride: i64,
    numbers: *mut T::Number,
    count: usize,
) {
    // SAFETY: promised by the caller.
    unsafe { lines::<D, T>((memory, 0), stride, numbers, (1, count)) }
}

/// Copies so many lines of so many elements, each as [`line`] does. The first elements of lines are at a distance, and their numbers are
/// adjacent.
///
/// # Safety
/// As for [`line`], for each of them.
#[inline(always)]
pub(crate) unsafe fn lines<D: Direction, T: Convert>(
    (mut memory, step): (*mut T, i64),
    stride: i64,
    mut numbers: *mut T::Number,
    (lines, count): (usize, usize),
) {
    // What is done with a line is decided once. Short ones of the usual lengths, which are constants here, are a vector or two.
    macro_rules! each_line {
        ($copy:expr) => {
            for _ in 0..lines {
                // SAFETY: promised by the caller; there are at least as many elements as in a chunk. The addresses after the last line
                // are not used.
                unsafe { $copy };
                memory = memory.wrapping_offset(step as isize);
                numbers = numbers.wrapping_add(count);
            }
        };
    }
    match (stride, count) {
        (_, 0) => {}
        (1, 4) => each_line!(chunks::<D, T, 4>(memory, numbers, 4)),
        (1, 8) => each_line!(chunks::<D, T, 8>(memory, numbers, 8)),
        (1, 16) => each_line!(chunks::<D, T, 16>(memory, numbers, 16)),
        (1, 17..) => each_line!(chunks::<D, T, 16>(memory, numbers, count)),
        (1, 9..) => each_line!(chunks::<D, T, 8>(memory, numbers, count)),
        (1, 5..) => each_line!(chunks::<D, T, 4>(memory, numbers, count)),
        (0, 4) => each_line!(D::same::<T>(memory, numbers, 4)),
        (0, 8) => each_line!(D::same::<T>(memory, numbers, 8)),
        (0, 16) => each_line!(D::same::<T>(memory, numbers, 16)),
        (0, _) => each_line!(D::same::<T>(memory, numbers, count)),
        // With a known distance, LLVM makes vectors of it.
        (2, _) => each_line!(strided::<D, T>(memory, 2, numbers, count)),
        _ => each_line!(strided::<D, T>(memory, stride, numbers, count)),
    }
}
