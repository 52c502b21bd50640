//! Vectors, as a level of processors has them.

/// Some numbers that are computed at once.
pub(super) trait Vector: Copy {
    type Number: Copy;
    /// Some of the first lanes.
    type Mask: Copy;
    const LANES: usize;
    /// Whether tiles add four products at once where their offsets follow from those of the first one (docs/kernels.md, "The loops around a micro-tile").
    const ADDS_FOUR: bool = false;

    /// Returns zeros. Safety: the processor has the features.
    unsafe fn zero() -> Self;
    /// Safety: so many numbers are valid at the address, and the processor has the features. So for the others.
    unsafe fn load(address: *const Self::Number) -> Self;
    /// Safety: see [`Vector::load`].
    unsafe fn store(self, address: *mut Self::Number);
    /// Returns the first `count` lanes. Safety: the processor has the features.
    unsafe fn mask(count: usize) -> Self::Mask;
    /// Loads these lanes, zeros in the others. Safety: see [`Vector::load`], for these lanes.
    unsafe fn load_some(address: *const Self::Number, mask: Self::Mask) -> Self;
    /// Loads these lanes from numbers at a distance from each other, any numbers in the others. Safety: see [`Vector::load`], for
    /// these lanes.
    unsafe fn gather(address: *const Self::Number, stride: i32, mask: Self::Mask) -> Self;
    /// Loads every second number, the first and the last of those at the address included. Safety: see [`Vector::load`], for one less
    /// than twice as many numbers.
    unsafe fn load_even(address: *const Self::Number) -> Self;
    /// Loads so many of every second number, at least one, any numbers in the other lanes. Safety: see [`Vector::load`], for one less than
    /// twice as many numbers.
    #[inline(always)]
    unsafe fn load_some_even(address: *const Self::Number, count: usize) -> Self {
        // SAFETY: promised by the caller.
        unsafe { Self::gather(address, 2, Self::mask(count)) }
    }
    /// Loads pairs of numbers, so many, and returns the first number of each and the second one. Safety: see [`Vector::load`], for twice as
    /// many numbers.
    #[inline(always)]
    unsafe fn load_pairs(address: *const Self::Number, count: usize) -> [Self; 2] {
        // SAFETY: promised by the caller.
        unsafe { [Self::load_some_even(address, count), Self::load_some_even(address.add(1), count)] }
    }
    /// Returns vectors of four adjacent numbers of each lane, whose first ones are at a distance from each other. Safety: see
    /// [`Vector::load`], for these numbers.
    unsafe fn transpose(address: *const Self::Number, stride: isize) -> [Self; 4];
    /// Stores vectors to where [`Vector::transpose`] would load them. Safety: see [`Vector::load`], for these numbers.
    unsafe fn transpose_back(vectors: [Self; 4], address: *mut Self::Number, stride: isize);
    /// Stores these lanes. Safety: see [`Vector::load`], for these lanes.
    unsafe fn store_some(self, address: *mut Self::Number, mask: Self::Mask);
    /// Safety: see [`Vector::load`], for one number.
    unsafe fn splat(address: *const Self::Number) -> Self;
    /// Returns the sums after a product. Safety: see [`Vector::load`].
    unsafe fn apply(self, left: Self, right: Self) -> Self;
    /// Prefetches the line of the cache at any address into the second cache, where the target has an instruction for it.
    #[inline(always)]
    fn fetch_ahead(_address: *const Self::Number) {}
    /// Returns the address, of which the compiler does not know that it is the same: LLVM else keeps an address for each row of a tile,
    /// and advances all of them.
    #[inline(always)]
    fn hidden(address: *const Self::Number) -> *const Self::Number {
        address
    }
    /// Returns the sums of two sums. Safety: see [`Vector::load`].
    unsafe fn add(self, other: Self) -> Self;
}
