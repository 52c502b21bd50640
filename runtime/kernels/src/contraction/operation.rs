//! The tiles of each operation.

use super::arithmetic::{AnyOrder, Arithmetic, FmaF32, MulAddF32, MulAddI32};
use super::level::Level;
#[allow(unused_imports, reason = "only the tiles of the portable level are everywhere")]
use super::tile;
use super::tile::{Tiles, partial, portable};

pub(super) mod sealed {
    use super::{Level, Tiles, partial};

    #[allow(private_interfaces, reason = "nothing else implements it")]
    pub trait Tiled {
        type Numbers: 'static;

        /// The tiles for a level of processors.
        fn tiles(level: Level) -> &'static Tiles<Self::Numbers>;

        /// The tiles of partial sums.
        fn partial(level: Level) -> &'static partial::Tiles<Self::Numbers>;
    }
}
use sealed::Tiled;

/// Arithmetic that there are tiles for.
pub trait Operation: Arithmetic + Tiled<Numbers = Self::Number> {}

impl<O: Arithmetic + Tiled<Numbers = Self::Number>> Operation for O {}

macro_rules! operations {
    ($($name:ident, $number:ty: $partial:ident $portable:ident $v3:ident $v4:ident;)*) => { $(
        #[allow(private_interfaces, reason = "as the trait's")]
        impl Tiled for $name {
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
            fn partial(level: Level) -> &'static partial::Tiles<$number> {
                partial::$partial(level)
            }
        }
    )* };
}
operations! {
    FmaF32, f32: fma_f32 FMA_F32 FMA_F32_V3 FMA_F32_V4;
    MulAddF32, f32: mul_add_f32 MUL_ADD_F32 MUL_ADD_F32_V3 MUL_ADD_F32_V4;
    MulAddI32, i32: mul_add_i32 MUL_ADD_I32 MUL_ADD_I32_V3 MUL_ADD_I32_V4;
}

#[allow(private_interfaces, reason = "as the trait's")]
impl<O: Operation> Tiled for AnyOrder<O> {
    type Numbers = O::Number;
    fn tiles(level: Level) -> &'static Tiles<O::Number> {
        <O as Tiled>::tiles(level)
    }
    fn partial(level: Level) -> &'static partial::Tiles<O::Number> {
        <O as Tiled>::partial(level)
    }
}
