//! Vectors, as a level of processors has them.

/// Some numbers that are computed at once.
///
/// A vector proves that the processor has the level's instructions: no vector is created without the proof of the level.
pub(super) trait Vector: Copy {
    type Number: Copy;
    /// Some of the first lanes.
    type Mask: Copy;
    /// The proof that the processor has the instructions: see [`level`](super::level).
    type Level: Copy;
    const LANES: usize;
    /// Whether tiles add four products at once where their offsets follow from those of the first one (docs/kernels.md, "The loops around a micro-tile").
    const ADDS_FOUR: bool = false;

    /// Returns zeros.
    fn zero(level: Self::Level) -> Self;
    /// Returns the number in all lanes.
    fn splat(level: Self::Level, number: Self::Number) -> Self;
    /// Returns the sums after a product.
    fn apply(self, left: Self, right: Self) -> Self;
    /// Returns the sums of two sums.
    fn add(self, other: Self) -> Self;
    /// Returns the first `count` lanes, at most all.
    fn mask(level: Self::Level, count: usize) -> Self::Mask;

    /// Loads adjacent numbers.
    ///
    /// # Safety
    /// As many numbers as a vector has are valid at the address.
    unsafe fn load(level: Self::Level, address: *const Self::Number) -> Self;
    /// Stores adjacent numbers.
    ///
    /// # Safety
    /// See [`Vector::load`].
    unsafe fn store(self, address: *mut Self::Number);
    /// Loads these lanes, zeros in the others.
    ///
    /// # Safety
    /// See [`Vector::load`], for these lanes.
    unsafe fn load_some(level: Self::Level, address: *const Self::Number, mask: Self::Mask) -> Self;
    /// Stores these lanes.
    ///
    /// # Safety
    /// See [`Vector::load`], for these lanes.
    unsafe fn store_some(self, address: *mut Self::Number, mask: Self::Mask);
    /// Loads these lanes from numbers at a distance from each other, any numbers in the others.
    ///
    /// # Safety
    /// The numbers of these lanes are valid at their addresses.
    unsafe fn gather(level: Self::Level, address: *const Self::Number, stride: i32, mask: Self::Mask) -> Self;
    /// Loads every second number, the first and the last of those at the address included.
    ///
    /// # Safety
    /// See [`Vector::load`], for one less than twice as many numbers.
    unsafe fn load_even(level: Self::Level, address: *const Self::Number) -> Self;
    /// Loads so many of every second number, at least one, any numbers in the other lanes.
    ///
    /// # Safety
    /// One less than twice as many numbers are valid at the address.
    #[inline(always)]
    unsafe fn load_some_even(level: Self::Level, address: *const Self::Number, count: usize) -> Self {
        // SAFETY: the lanes of the mask are every second of the numbers that the caller promises.
        unsafe { Self::gather(level, address, 2, Self::mask(level, count)) }
    }
    /// Loads pairs of numbers, so many, and returns the first number of each and the second one.
    ///
    /// # Safety
    /// Twice as many numbers are valid at the address.
    #[inline(always)]
    unsafe fn load_pairs(level: Self::Level, address: *const Self::Number, count: usize) -> [Self; 2] {
        // SAFETY: from the second number on, there is one less than twice as many, too.
        unsafe { [Self::load_some_even(level, address, count), Self::load_some_even(level, address.add(1), count)] }
    }
    /// Returns vectors of four adjacent numbers of each lane, whose first ones are at a distance from each other.
    ///
    /// # Safety
    /// Four numbers of each lane are valid at their addresses.
    unsafe fn transpose(level: Self::Level, address: *const Self::Number, stride: isize) -> [Self; 4];
    /// Stores vectors to where [`Vector::transpose`] would load them.
    ///
    /// # Safety
    /// See [`Vector::transpose`].
    unsafe fn transpose_back(level: Self::Level, vectors: [Self; 4], address: *mut Self::Number, stride: isize);

    /// Prefetches the line of the cache at any address into the second cache, where the target has an instruction for it.
    #[inline(always)]
    fn fetch_ahead(_address: *const Self::Number) {}
    /// Returns the address, of which the compiler does not know that it is the same: LLVM else keeps an address for each row of a tile,
    /// and advances all of them.
    #[inline(always)]
    fn hidden(address: *const Self::Number) -> *const Self::Number {
        address
    }
}

/// Defines functions of instructions that access no memory. They are safe: each takes the proof of the level, or a vector, which is one.
#[allow(unused_macros, reason = "the vectors of the portable level are arrays")]
macro_rules! registers {
    ($($(#[$doc:meta])* $visibility:vis fn $name:ident($($parameters:tt)*) -> $result:ty { $($body:tt)* })*) => { $(
        $(#[$doc])*
        #[inline(always)]
        #[allow(unused_unsafe, reason = "a few are not instructions of the level")]
        $visibility fn $name($($parameters)*) -> $result {
            // SAFETY: the proof among the parameters (`level`), or the vector, which was created with one, says that the processor has the
            // instructions. They access no memory.
            unsafe { $($body)* }
        }
    )* };
}
#[allow(unused_imports, reason = "as above")]
pub(super) use registers;

/// Defines functions of instructions that access memory.
macro_rules! memory {
    ($($(#[$doc:meta])* $visibility:vis unsafe fn $name:ident($($parameters:tt)*) $(-> $result:ty)? { $($body:tt)* })*) => { $(
        $(#[$doc])*
        #[inline(always)]
        $visibility unsafe fn $name($($parameters)*) $(-> $result)? {
            // SAFETY: `registers!` says who proves that the processor has the instructions. They access the numbers of which the function's
            // contract says that they are valid, and no lanes that are not in a mask; they need no alignment beyond that of a number.
            unsafe { $($body)* }
        }
    )* };
}
pub(super) use memory;
