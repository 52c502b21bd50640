//! What plans and tiles know of processors.

/// What a plan must know of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The name of the level, as LLVM spells it.
    pub name: &'static str,
    /// Elements of 32 bits in a vector.
    pub lanes: usize,
    /// The most vectors of a strip, unless tiles of a wider one hold all rows.
    pub vectors: usize,
    /// The most rows of a tile whose strips have one vector, two, and so on: accumulators, a strip of the right operand and a number of
    /// the left one are in registers.
    pub rows: &'static [usize],
    /// The same for rows with a right operand each.
    pub separate: &'static [usize],
    /// The same of tiles that have all rows, where there are as many as the first one says.
    pub separate_whole: &'static [usize],
    /// The same for right operands that are transposed in registers.
    pub transposed: &'static [usize],
}

impl Machine {
    /// 512-bit vectors, 32 of them.
    pub const X86_64_V4: Machine = Machine {
        name: "x86-64-v4",
        lanes: 16,
        vectors: 4,
        rows: &[8, 8, 8, 6],
        separate: &[8, 8],
        separate_whole: &[14, 8],
        transposed: &[4],
    };
    /// 256-bit vectors, 16 of them.
    pub const X86_64_V3: Machine = Machine {
        name: "x86-64-v3",
        lanes: 8,
        vectors: 2,
        rows: &[8, 6, 4, 2, 1, 1, 1, 1],
        separate: &[8],
        separate_whole: &[],
        transposed: &[4; 2],
    };
    /// 128-bit vectors, 32 of them.
    pub const NEON: Machine = Machine {
        name: "neon",
        lanes: 4,
        vectors: 4,
        rows: &[8, 8, 6, 4],
        separate: &[8, 4],
        separate_whole: &[],
        transposed: &[4, 4, 2, 2],
    };
    /// 128-bit vectors, 16 of them, as LLVM makes them of arrays.
    pub const PORTABLE: Machine = Machine {
        name: "portable",
        lanes: 4,
        vectors: 2,
        rows: &[8, 4],
        separate: &[4],
        separate_whole: &[],
        transposed: &[4],
    };
    /// The 128-bit vectors of WebAssembly, of which engines for x86-64 keep 15 in registers: tiles are the portable ones.
    pub const SIMD128: Machine = Machine { name: "simd128", ..Machine::PORTABLE };
    /// The same in an engine whose relaxed instructions round a product and a sum once.
    pub const RELAXED_SIMD: Machine = Machine { name: "relaxed-simd", ..Machine::SIMD128 };
}
