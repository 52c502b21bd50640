//! Deterministic pseudorandom numbers.

/// A generator of numbers (splitmix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates the generator of a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number less than `end`, or 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.bits() >> 11) as usize % end.max(1)
    }

    /// Returns true with a probability of one in `times`.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// Returns one of the items.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}
