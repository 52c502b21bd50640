//! What plans and tiles know of processors.

/// What a plan must know of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The name of the level, as LLVM spells it.
    pub name: &'static str,
    /// Elements of 32 bits in a vector.
    pub lanes: usize,
    /// Whether some lanes of a vector are loaded at once.
    pub has_masks: bool,
    /// The most vectors of a strip, unless tiles of a wider one hold all rows.
    pub vectors: usize,
    /// The most rows of a tile whose strips have one vector, two, and so on: accumulators, a strip of the right operand and a number of
    /// the left one are in registers.
    pub rows: &'static [usize],
    /// The numbers of rows of tiles for rows with a right operand each, for each number of vectors: descending to 1.
    pub separate: &'static [&'static [usize]],
    /// As `rows`, for right operands that are transposed in registers.
    pub transposed: &'static [usize],
}

impl Machine {
    /// 512-bit vectors, 32 of them.
    pub const X86_64_V4: Machine = Machine {
        name: "x86-64-v4",
        lanes: 16,
        has_masks: true,
        vectors: 4,
        rows: &[8, 8, 8, 6],
        separate: &[&[14, 8, 4, 2, 1], &[8, 4, 2, 1]],
        transposed: &[4],
    };
    /// 256-bit vectors, 16 of them.
    pub const X86_64_V3: Machine = Machine {
        name: "x86-64-v3",
        lanes: 8,
        has_masks: true,
        vectors: 2,
        rows: &[8, 6, 4, 2, 1, 1, 1, 1],
        separate: &[&[8, 4, 2, 1]],
        transposed: &[4; 2],
    };
    /// 128-bit vectors, 32 of them.
    pub const NEON: Machine = Machine {
        name: "neon",
        lanes: 4,
        has_masks: false,
        vectors: 4,
        rows: &[8, 8, 6, 4],
        separate: &[&[8, 4, 2, 1], &[4, 2, 1]],
        transposed: &[4, 4, 2, 2],
    };
    /// 128-bit vectors, 16 of them, as LLVM makes them of arrays.
    pub const PORTABLE: Machine = Machine {
        name: "portable",
        lanes: 4,
        has_masks: false,
        vectors: 2,
        rows: &[8, 4],
        separate: &[&[4, 2, 1]],
        transposed: &[4],
    };
    /// The 128-bit vectors of WebAssembly, of which engines for x86-64 keep 15 in registers: tiles are the portable ones.
    pub const SIMD128: Machine = Machine { name: "simd128", ..Machine::PORTABLE };
    /// The same in an engine whose relaxed instructions round a product and a sum once.
    pub const RELAXED_SIMD: Machine = Machine { name: "relaxed-simd", ..Machine::SIMD128 };
}
