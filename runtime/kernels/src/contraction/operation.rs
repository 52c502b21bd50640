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

        /// The tiles for a level of processors. The level proves that this processor has the features of the tiles: all tables are
        /// reached by it.
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
    ($($name:ident, $number:ty: $all:ident $v3:ident $v4:ident;)*) => { $(
        #[allow(private_interfaces, reason = "as the trait's")]
        impl Tiled for $name {
            type Numbers = $number;
            fn tiles(level: Level) -> &'static Tiles<$number> {
                match level {
                    Level::Portable(portable) => portable::$all(portable),
                    #[cfg(all(feature = "std", target_arch = "x86_64"))]
                    Level::X86_64V3(v3) => tile::x86_64::$v3(v3),
                    #[cfg(all(feature = "std", target_arch = "x86_64"))]
                    Level::X86_64V4(v4) => tile::x86_64::$v4(v4),
                    #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
                    Level::Neon(neon) => tile::aarch64::$all(neon),
                    #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
                    Level::DotProduct(proof) => tile::aarch64::$all(proof.into()),
                    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
                    Level::Simd128(simd128) => tile::wasm32::$all(simd128),
                    #[cfg(all(target_arch = "wasm32", target_feature = "relaxed-simd"))]
                    Level::RelaxedSimd(simd128) => tile::wasm32_relaxed::$all(simd128),
                }
            }
            fn partial(level: Level) -> &'static partial::Tiles<$number> {
                partial::$all(level)
            }
        }
    )* };
}
operations! {
    FmaF32, f32: fma_f32 fma_f32_v3 fma_f32_v4;
    MulAddF32, f32: mul_add_f32 mul_add_f32_v3 mul_add_f32_v4;
    MulAddI32, i32: mul_add_i32 mul_add_i32_v3 mul_add_i32_v4;
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
