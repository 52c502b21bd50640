//! What plans and micro-tiles know of processors.

/// What a plan must know of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The name of the level, as LLVM spells it.
    pub name: &'static str,
    /// Elements of 32 bits in a vector.
    pub lanes: usize,
    /// The most vectors of a strip, unless micro-tiles of a wider one hold all rows.
    pub vectors: usize,
    /// The most rows (MR) of a micro-tile whose strips have one vector, two, and so on: accumulators, a strip of B and a number of A
    /// are in registers.
    pub rows: &'static [usize],
    /// The numbers of rows of micro-tiles for rows with a B each, for each number of vectors: descending to 1.
    pub separate: &'static [&'static [usize]],
    /// Whether a part of a vector of every second element is loaded as fast as a whole one.
    pub has_masks: bool,
    /// As `rows`, for B that is transposed in registers.
    pub transposed: &'static [usize],
}

/// Calls a macro with the micro-tiles of a level behind its other arguments: for each number of vectors, the numbers of rows, descending
/// to 1. The rows have the same B, a B each, or the same B, which is transposed in registers. All sizes of micro-tiles derive from this
/// table.
macro_rules! micro_tiles {
    // 32 vectors.
    (X86_64_V4, $then:ident! { $($arguments:tt)* }) => {
        $then! { $($arguments)*, [1: 8 4 2 1; 2: 8 4 2 1; 3: 8 4 2 1; 4: 6 4 2 1;], separate [1: 14 8 4 2 1; 2: 8 4 2 1;],
            transposed [1: 4 2 1;] }
    };
    // 16 vectors.
    (X86_64_V3, $then:ident! { $($arguments:tt)* }) => {
        $then! { $($arguments)*, [1: 8 4 2 1; 2: 6 4 2 1; 3: 4 2 1; 4: 2 1; 5: 1; 6: 1; 7: 1; 8: 1;], separate [1: 8 4 2 1;],
            transposed [1: 4 2 1; 2: 4 2 1;] }
    };
    // 32 vectors.
    (NEON, $then:ident! { $($arguments:tt)* }) => {
        $then! { $($arguments)*, [1: 8 4 2 1; 2: 8 4 2 1; 3: 6 4 2 1; 4: 4 2 1;], separate [1: 8 4 2 1; 2: 4 2 1;],
            transposed [1: 4 2 1; 2: 4 2 1; 3: 2 1; 4: 2 1;] }
    };
    // 16 vectors. The same for WebAssembly, of whose vectors engines for x86-64 keep 15 in registers.
    (PORTABLE, $then:ident! { $($arguments:tt)* }) => {
        $then! { $($arguments)*, [1: 8 4 2 1; 2: 4 2 1;], separate [1: 4 2 1;], transposed [1: 4 2 1;] }
    };
    // Products of WebAssembly that are rounded once without an instruction for it.
    (EMULATED, $then:ident! { $($arguments:tt)* }) => {
        $then! { $($arguments)*, [1: 4 2 1;], separate [1: 4 2 1;], transposed [1: 4 2 1;] }
    };
}
pub(super) use micro_tiles;

/// A machine with micro-tiles.
macro_rules! machine {
    ($name:literal, $lanes:literal, $has_masks:literal, $vectors:literal,
        [$($width:literal: $most:literal $($less:literal)*;)*], separate [$($separate:literal: $($rows:literal)*;)*],
        transposed [$($transposed:literal: $few:literal $($fewer:literal)*;)*]) => {
        Machine {
            name: $name,
            lanes: $lanes,
            has_masks: $has_masks,
            vectors: $vectors,
            rows: &[$($most),*],
            separate: &[$(&[$($rows),*]),*],
            transposed: &[$($few),*],
        }
    };
}

impl Machine {
    /// 512-bit vectors.
    pub const X86_64_V4: Machine = micro_tiles!(X86_64_V4, machine! { "x86-64-v4", 16, true, 4 });
    /// 256-bit vectors.
    pub const X86_64_V3: Machine = micro_tiles!(X86_64_V3, machine! { "x86-64-v3", 8, false, 2 });
    /// 128-bit vectors.
    pub const NEON: Machine = micro_tiles!(NEON, machine! { "neon", 4, false, 4 });
    /// 128-bit vectors, as LLVM makes them of arrays.
    pub const PORTABLE: Machine = micro_tiles!(PORTABLE, machine! { "portable", 4, false, 2 });
    /// The 128-bit vectors of WebAssembly.
    pub const SIMD128: Machine = Machine { name: "simd128", ..Machine::PORTABLE };
    /// The same in an engine whose relaxed instructions round a product and a sum once.
    pub const RELAXED_SIMD: Machine = Machine { name: "relaxed-simd", ..Machine::SIMD128 };
    /// The same without such instructions, for products that are rounded once.
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    pub(super) const EMULATED: Machine = micro_tiles!(EMULATED, machine! { "simd128", 4, false, 1 });
}
