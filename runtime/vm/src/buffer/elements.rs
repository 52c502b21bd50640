//! The elements of a buffer that a loop accesses: the range is checked once, before the loop.
//!
//! The accesses are plain loads and stores, which compilers vectorise, and not the atomic ones of [`Buffer::load`].
//! docs/memory.md says under "Plain elements in loop nests" which loops may use them, and what happens if another thread
//! writes the same bytes.

use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ops::Range;
use core::ptr::NonNull;

use super::region::Region;
use super::{Buffer, Memory};
use incarnate_bytecode::trip_count::Reach;

mod gather;

pub use gather::{Gather, Misses};
pub(crate) use gather::{elements_of, is_element};

mod sealed {
    /// Ensures that only this module implements [`super::Element`].
    pub trait Sealed {}

    /// Ensures that only this module implements [`super::Number`].
    pub trait Number: Copy {
        fn settled(self) -> Self;
    }
}

/// Runs a block for the index of each loop of a grid. It is unrolled here, because the optimiser would unroll a loop only after it looked
/// for what is constant.
macro_rules! each_loop {
    ($at:ident < $count:ident => $block:block) => {
        each_loop!(@ $at, $count, $block, 0 1 2 3 4 5 6 7);
        let mut $at = 8;
        while $at < $count {
            $block
            $at += 1;
        }
    };
    (@ $at:ident, $count:ident, $block:block, $($index:literal)*) => {
        $(if const { $count > $index } {
            let $at: usize = $index;
            $block
        })*
    };
}

/// A type that buffers hold as elements: every bit pattern is a value.
pub trait Element: Copy + sealed::Sealed {}

macro_rules! elements {
    ($($type:ty)*) => { $(impl sealed::Sealed for $type {} impl Element for $type {})* };
}
elements!(u8 i8 u16 i16 i32 i64 f32 f64);

/// A type of numbers that nests compute.
pub trait Number: sealed::Number {}

macro_rules! numbers {
    ($($type:ty as $bits:ty;)*) => {
        $(impl sealed::Number for $type {
            #[inline(always)]
            fn settled(self) -> $type {
                #[allow(unused_mut, reason = "as on processors without the instruction")]
                let mut bits = u64::from(<$bits>::from_ne_bytes(self.to_ne_bytes()));
                #[cfg(all(not(miri), any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
                // SAFETY: no instructions: the register has the same number afterwards, which the compiler does not know.
                unsafe {
                    core::arch::asm!("/* {0} */", inout(reg) bits, options(nomem, nostack, preserves_flags));
                }
                #[cfg(all(not(miri), not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))))]
                {
                    bits = core::hint::black_box(bits);
                }
                <$type>::from_ne_bytes((bits as $bits).to_ne_bytes())
            }
        }
        impl Number for $type {})*
    };
}
numbers! {
    i32 as u32;
    i64 as u64;
    f32 as u32;
    f64 as u64;
}

/// Returns the number as it is in a register. Where it came from plain loads that raced, the compiler may take it to be a
/// different one at each use; afterwards it is one number.
#[inline(always)]
pub fn settled<T: Number>(number: T) -> T {
    sealed::Number::settled(number)
}

/// As [`settled`], for all memory: what plain stores wrote is from now on what is in memory.
#[inline(always)]
pub fn settle_memory() {
    #[cfg(all(not(miri), any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
    // SAFETY: no instructions. Without `nomem`, the compiler takes all memory that others can reach to be read and written.
    unsafe {
        core::arch::asm!("", options(nostack, preserves_flags));
    }
}

/// The elements of a buffer that a nest of `D` loops reads, or reads and writes.
///
/// The iteration `[k0, k1, ..]` of the loops, each counted from zero, accesses the element
/// `base + k0 * stride0 + k1 * stride1 + ..`. The constructor checks that all of them are within the buffer. An access only
/// compares the iteration with the trip counts, and the compiler removes that check within `for k0 in 0..count0`.
pub struct Grid<'a, T, const D: usize> {
    origin: NonNull<T>,
    /// Trip count and stride of each loop.
    loops: [(usize, i64); D],
    /// The addresses of all elements.
    span: Range<usize>,
    buffer: PhantomData<&'a Buffer>,
}

/// A [`Grid`] that can be written to.
pub struct GridMut<'a, T, const D: usize>(Grid<'a, T, D>);

// SAFETY: trip counts, and addresses in a buffer, which is `Sync`. Accesses of several threads are those that the caller of `Memory::grid` and
// `Memory::grid_mut` has promised; a `GridMut` is a `Grid`.
unsafe impl<T: Element, const D: usize> Sync for Grid<'_, T, D> {}

impl<T: Element, const D: usize> Grid<'_, T, D> {
    /// Returns the element of an iteration.
    ///
    /// # Panics
    /// Where a loop has no such iteration.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, iteration: [usize; D]) -> T {
        // SAFETY: `element` returns an address within the buffer, aligned for the type.
        unsafe { load(self.element(iteration)) }
    }

    /// Whether no byte belongs to both.
    #[inline]
    #[must_use]
    pub fn is_disjoint<U: Element, const E: usize>(&self, other: &Grid<'_, U, E>) -> bool {
        self.span.end <= other.span.start || other.span.end <= self.span.start
    }

    #[inline(always)]
    fn element(&self, iteration: [usize; D]) -> *mut T {
        let mut offset = 0i64;
        each_loop!(at < D => {
            if iteration[at] >= self.loops[at].0 {
                no_such_iteration();
            }
            offset = offset.wrapping_add(self.loops[at].1.wrapping_mul(iteration[at] as i64));
        });
        // SAFETY: `new` checked that this offset, for every iteration below the trip counts, is that of an element of the buffer.
        unsafe { self.origin.as_ptr().offset(offset as isize) }
    }

    /// Returns the grid of `count` iterations of one of the loops, from `first`, which is its iteration zero.
    ///
    /// # Panics
    /// Where the loop has no such iterations.
    #[inline(always)]
    #[must_use]
    pub fn part(&self, of: usize, first: usize, count: usize) -> Self {
        let (trip_count, stride) = self.loops[of];
        if first > trip_count || count > trip_count - first {
            no_such_iteration();
        }
        let mut loops = self.loops;
        loops[of].0 = count;
        // The address may be outside of the buffer where another loop has no iteration. It is never used then.
        let origin = self.origin.as_ptr().wrapping_offset(stride.wrapping_mul(first as i64) as isize);
        let origin = NonNull::new(origin).unwrap_or(self.origin);
        Grid { origin, loops, span: self.span.clone(), buffer: PhantomData }
    }

    /// Returns the grid of some iterations of each loop, from `first` on, which is its iteration zero. `loops` has their numbers, and this
    /// grid's strides: code that is compiled for a grid from elsewhere knows the constant ones from then on.
    ///
    /// # Panics
    /// Where a loop has no such iterations, or another stride.
    #[inline(always)]
    #[must_use]
    pub fn subgrid(&self, first: [usize; D], loops: [(usize, i64); D]) -> Self {
        let mut part = Grid { origin: self.origin, loops: self.loops, span: self.span.clone(), buffer: PhantomData };
        each_loop!(at < D => {
            if loops[at].1 != self.loops[at].1 {
                no_such_iteration();
            }
            part = part.part(at, first[at], loops[at].0);
        });
        Grid { loops, ..part }
    }

    /// The stride of one of the loops, in elements.
    #[inline(always)]
    #[must_use]
    pub const fn stride(&self, of: usize) -> i64 {
        self.loops[of].1
    }

    /// Returns the elements of an iteration and the following ones of one of the loops.
    ///
    /// # Panics
    /// Where a loop has no such iterations.
    #[inline(always)]
    #[must_use]
    pub fn lanes<const L: usize>(&self, iteration: [usize; D], along: usize) -> [T; L] {
        let first = self.lane(iteration, along, L);
        let stride = self.loops[along].1;
        if stride == 1 {
            // SAFETY: `lane` checked that the iterations exist; their elements are adjacent, as the stride is one.
            return unsafe { load(first.cast::<[T; L]>()) };
        }
        if stride == 2 && L > 1 {
            #[cfg(target_arch = "x86_64")]
            if L.is_multiple_of(16) && size_of::<T>() == 4 {
                // SAFETY: `lane` checked that the iterations exist, and `Memory::region_of` that all elements between theirs are within it.
                return unsafe { even_by_vectors(first) };
            }
            // SAFETY: as above.
            return unsafe { if L >= 8 && size_of::<T>() == 4 { even_by_pairs(first) } else { even(first) } };
        }
        // Not by closures, which would not always be inlined into functions for target features.
        // SAFETY: as below; there is a first lane.
        let mut lanes = [unsafe { load(first) }; L];
        let mut lane = 1;
        while lane < L {
            // SAFETY: `lane` checked that the iteration exists, and `Memory::region_of` that its element is within the buffer.
            lanes[lane] = unsafe { load(first.offset(stride.wrapping_mul(lane as i64) as isize)) };
            lane += 1;
        }
        lanes
    }

    /// Returns the elements of some adjacent iterations of the last loop, for an iteration and the following ones of another loop. Tuples whose
    /// elements are all adjacent are loaded as vectors.
    ///
    /// # Panics
    /// Where a loop has no such iterations.
    #[inline(always)]
    #[must_use]
    pub fn tuples<const N: usize, const L: usize>(&self, iteration: [usize; D], along: usize) -> [[T; N]; L] {
        let last = D - 1;
        if N == 0 || along == last || self.loops[last].0 < N || iteration[last] > self.loops[last].0 - N {
            no_such_iteration();
        }
        let first = self.lane(iteration, along, L);
        let (stride, within) = (self.loops[along].1, self.loops[last].1);
        if stride == N as i64 && within == 1 {
            // SAFETY: `lane` checked that the iterations exist; their elements are adjacent by their strides.
            return unsafe { load(first.cast::<[[T; N]; L]>()) };
        }
        // SAFETY: as below; there is a first lane.
        let mut tuples = [[unsafe { load(first) }; N]; L];
        let mut lane = 0;
        while lane < L {
            let mut at = 0;
            while at < N {
                let offset = stride.wrapping_mul(lane as i64).wrapping_add(within.wrapping_mul(at as i64));
                // SAFETY: `lane` checked that the iterations exist, and `Memory::region_of` that their elements are within the buffer.
                tuples[lane][at] = unsafe { load(first.offset(offset as isize)) };
                at += 1;
            }
            lane += 1;
        }
        tuples
    }

    /// Returns the address of the element of the first of `count` iterations.
    #[inline(always)]
    fn lane(&self, iteration: [usize; D], along: usize, count: usize) -> *mut T {
        if count == 0 || count > self.loops[along].0 || iteration[along] > self.loops[along].0 - count {
            no_such_iteration();
        }
        self.element(iteration)
    }

    /// The elements of a region that was checked for the loops and for the type.
    #[inline(always)]
    const fn of(region: Region, loops: [(usize, i64); D]) -> Self {
        // SAFETY: the address of a buffer's element, or of a buffer.
        let origin = unsafe { NonNull::new_unchecked(region.origin.cast()) };
        Grid { origin, loops, span: region.span, buffer: PhantomData }
    }
}

impl<T: Element, const D: usize> GridMut<'_, T, D> {
    /// Returns the element of an iteration.
    ///
    /// # Panics
    /// Where a loop has no such iteration.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, iteration: [usize; D]) -> T {
        self.0.get(iteration)
    }

    /// Sets the element of an iteration.
    ///
    /// # Panics
    /// Where a loop has no such iteration.
    #[inline(always)]
    pub fn set(&self, iteration: [usize; D], value: T) {
        // SAFETY: `element` returns an address within the buffer, aligned for the type; `Memory::grid_mut` checked that the buffer
        // can be written to.
        unsafe { self.0.element(iteration).write(value) }
    }

    /// As [`Grid::part`].
    ///
    /// # Panics
    /// Where the loop has no such iterations.
    #[inline(always)]
    #[must_use]
    pub fn part(&self, of: usize, first: usize, count: usize) -> Self {
        GridMut(self.0.part(of, first, count))
    }

    /// As [`Grid::subgrid`].
    ///
    /// # Panics
    /// Where a loop has no such iterations, or another stride.
    #[inline(always)]
    #[must_use]
    pub fn subgrid(&self, first: [usize; D], loops: [(usize, i64); D]) -> Self {
        GridMut(self.0.subgrid(first, loops))
    }

    /// The stride of one of the loops, in elements.
    #[inline(always)]
    #[must_use]
    pub const fn stride(&self, of: usize) -> i64 {
        self.0.stride(of)
    }

    /// As [`Grid::lanes`].
    ///
    /// # Panics
    /// Where a loop has no such iterations.
    #[inline(always)]
    #[must_use]
    pub fn lanes<const L: usize>(&self, iteration: [usize; D], along: usize) -> [T; L] {
        self.0.lanes(iteration, along)
    }

    /// Sets the elements of an iteration and the following ones of one of the loops. Where two are the same, the last value remains.
    ///
    /// # Panics
    /// Where a loop has no such iterations.
    #[inline(always)]
    pub fn set_lanes<const L: usize>(&self, iteration: [usize; D], along: usize, values: [T; L]) {
        let first = self.0.lane(iteration, along, L);
        let stride = self.0.loops[along].1;
        if stride == 1 {
            // SAFETY: as in `Grid::lanes`; `Memory::grid_mut` checked that the buffer can be written to.
            return unsafe { first.cast::<[T; L]>().write(values) };
        }
        let mut lane = 0;
        while lane < L {
            // SAFETY: as in `Grid::lanes`; `Memory::grid_mut` checked that the buffer can be written to.
            unsafe { first.offset(stride.wrapping_mul(lane as i64) as isize).write(values[lane]) };
            lane += 1;
        }
    }

    /// Whether no byte belongs to both.
    #[inline]
    #[must_use]
    pub fn is_disjoint<U: Element, const E: usize>(&self, other: &Grid<'_, U, E>) -> bool {
        self.0.is_disjoint(other)
    }

    /// Whether the iterations of each loop have the same elements in both grids: then some iterations may load from one and store to the
    /// other, if all of their numbers are loaded before the first is stored.
    #[inline(always)]
    #[must_use]
    pub fn is_same<U: Element>(&self, other: &Grid<'_, U, D>) -> bool {
        let mut is_same = size_of::<T>() == size_of::<U>() && self.0.origin.cast() == other.origin;
        each_loop!(at < D => {
            is_same &= self.0.loops[at] == other.loops[at];
        });
        is_same
    }

    /// Returns the same elements for reading.
    #[inline]
    #[must_use]
    pub const fn as_grid(&self) -> &Grid<'_, T, D> {
        &self.0
    }
}

/// Prevents the compiler from reordering or interleaving the iterations of a loop that calls it.
///
/// Integer sums may be computed in any order. So compilers may vectorise an outer loop, and then access single elements in
/// the inner loop instead of vectors.
#[inline(always)]
pub fn keep_iteration_order() {
    #[cfg(all(not(miri), any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
    // SAFETY: no instructions.
    unsafe {
        core::arch::asm!("", options(nomem, nostack, preserves_flags));
    }
}

/// Loads every second element of `2 * L - 1`, the first and the last included, from two arrays. The second one ends at the last element.
///
/// # Safety
/// These elements are valid.
#[inline(always)]
unsafe fn even<T: Element, const L: usize>(first: *const T) -> [T; L] {
    // SAFETY: promised by the caller.
    let (low, high) = unsafe { (load(first.cast::<[T; L]>()), load(first.add(L - 1).cast::<[T; L]>())) };
    let mut lanes = low;
    let mut lane = 0;
    while lane < L {
        lanes[lane] = if 2 * lane < L { low[2 * lane] } else { high[2 * lane + 1 - L] };
        lane += 1;
    }
    lanes
}

/// Two elements of 32 bits, which are aligned as one of them.
#[derive(Clone, Copy)]
#[repr(C, packed(4))]
struct Pair(u64);

/// The same for elements of 32 bits, as numbers of 64 bits: of 8 elements and more of an array, LLVM 22 loads one or two at a time and inserts
/// them into a vector, which takes twice as long (AVX2).
///
/// # Safety
/// These elements are valid.
#[inline(always)]
unsafe fn even_by_pairs<T: Element, const L: usize>(first: *const T) -> [T; L] {
    // SAFETY: promised by the caller.
    let mut lanes = [unsafe { load(first) }; L];
    let mut lane = 0;
    while lane < L {
        // Of the first half the first elements of pairs, of the second half the second ones.
        let is_first = 2 * lane < L;
        // SAFETY: promised by the caller, and this type has as many bytes as `T`, of which every bit pattern is a value.
        unsafe {
            let Pair(pair) = load(first.add(2 * lane - usize::from(!is_first)).cast());
            let bits = if is_first == cfg!(target_endian = "little") { pair } else { pair >> 32 };
            lanes[lane] = core::mem::transmute_copy(&(bits as u32));
        }
        lane += 1;
    }
    lanes
}

/// The same for multiples of 16 elements of 32 bits, by loads of the processor's longest vectors: the compiler makes one instruction of each
/// two with AVX-512, and with AVX2 what it makes of pairs.
///
/// # Safety
/// These elements are valid.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn even_by_vectors<T: Element, const L: usize>(first: *const T) -> [T; L] {
    use core::arch::x86_64::__m512;

    /// Elements of a vector, aligned as one of them.
    #[derive(Clone, Copy)]
    #[repr(C, packed(4))]
    struct Vector(__m512);

    // SAFETY: promised by the caller.
    let mut lanes = [unsafe { load(first) }; L];
    let mut at = 0;
    while at < L {
        // SAFETY: promised by the caller, as the second vector ends with the last of these elements; 16 of this type have as many bytes.
        let (low, high): ([T; 16], [T; 16]) = unsafe {
            let (low, high): (Vector, Vector) = (load(first.add(2 * at).cast()), load(first.add(2 * at + 15).cast()));
            (core::mem::transmute_copy(&low), core::mem::transmute_copy(&high))
        };
        let mut lane = 0;
        while lane < 8 {
            lanes[at + lane] = low[2 * lane];
            lanes[at + 8 + lane] = high[2 * lane + 1];
            lane += 1;
        }
        at += 16;
    }
    lanes
}

/// A plain load that promises the compiler nothing about the bytes: where another thread writes them meanwhile, the number is
/// unspecified, and it is not the load that is undefined.
///
/// # Safety
/// The address must be valid for reads and aligned, and every bit pattern a value of `V`.
#[inline(always)]
pub(super) unsafe fn load<V: Copy>(address: *const V) -> V {
    // SAFETY: promised by the caller. Read as `V` itself, it would come with a promise that no byte is uninitialised, which is
    // what LLVM calls those that race.
    unsafe { address.cast::<MaybeUninit<V>>().read().assume_init() }
}

#[cold]
#[inline(never)]
#[expect(clippy::panic, reason = "as for an index that is not within a slice")]
fn no_such_iteration() -> ! {
    panic!("an iteration beyond the trip count of a grid")
}

impl<'a> Memory<'a> {
    /// Returns the elements that loops read: the index of the first, and for each loop, outer ones first, its trip
    /// count and its stride in elements. Loops that do not change the element can be left out.
    ///
    /// Returns None where elements are out of range or not aligned. The loops must then run with
    /// checked accesses, which report the failure.
    ///
    /// # Safety
    /// A number that is loaded while another thread writes the element is unspecified: another one at each use, until it is
    /// [`settled`], or was stored and the memory is settled ([`settle_memory`]). The caller must only compute with it what cannot
    /// fail, and store the results. docs/memory.md has the argument under "Plain elements in loop nests".
    #[inline(always)]
    #[must_use]
    pub unsafe fn grid<T: Element, const D: usize>(
        &self,
        base: i64,
        loops: [(usize, i64); D],
    ) -> Option<Grid<'a, T, D>> {
        // The check sees a copy: of what it may keep the address of, the compiler does not know the contents.
        let copy = loops;
        let region = self.checked_region((size_of::<T>(), false), base, &copy)?;
        Some(Grid::of(region, loops))
    }

    /// As [`Memory::grid`], for loops that also write. Returns None also where the memory is read-only.
    ///
    /// # Safety
    /// As for [`Memory::grid`]. Threads that share the grid must store to different elements.
    #[inline(always)]
    #[must_use]
    pub unsafe fn grid_mut<T: Element, const D: usize>(
        &self,
        base: i64,
        loops: [(usize, i64); D],
    ) -> Option<GridMut<'a, T, D>> {
        // As in `grid`.
        let copy = loops;
        let region = self.checked_region((size_of::<T>(), true), base, &copy)?;
        Some(GridMut(Grid::of(region, loops)))
    }

    /// As [`Memory::region_of`]. Programs have a call of it for each view of a nest, not its code.
    #[inline(never)]
    fn checked_region(&self, element: (usize, bool), base: i64, loops: &[(usize, i64)]) -> Option<Region> {
        self.region_of(element, base, Reach::of(loops.iter().copied()))
    }
}

impl<T, const D: usize> fmt::Debug for Grid<'_, T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grid").field("loops", &self.loops).finish_non_exhaustive()
    }
}

impl<T, const D: usize> fmt::Debug for GridMut<'_, T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
