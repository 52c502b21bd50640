//! The code of a level's micro-tiles, and the tables of it.

/// The functions of a level, in a module of that name, which are compiled for its features: all micro-tiles, and copies by vectors of
/// `block` and chunks of `chunk` elements.
macro_rules! level {
    ($level:ident, $block:ty, $chunk:literal $(, $features:literal)?) => {
        pub(super) mod $level {
            use super::{Tile, Vector};
            use crate::contraction::copy::{self, Lines};
            use crate::contraction::tile;

            /// Safety: see [`tile::Run`], for these features.
            $(#[target_feature(enable = $features)])?
            pub(in super::super) unsafe fn run<V: Vector, const ROWS: usize, const VECTORS: usize, const STRIDE: usize>(
                tile: &Tile<V::Number>,
            ) {
                // SAFETY: promised by the caller.
                unsafe { tile::run::<V, ROWS, VECTORS, STRIDE>(tile) }
            }

            /// Safety: see [`tile::Run`], for these features.
            $(#[target_feature(enable = $features)])?
            pub(in super::super) unsafe fn transposed<V: Vector, const ROWS: usize, const VECTORS: usize>(
                tile: &Tile<V::Number>,
            ) {
                // SAFETY: promised by the caller.
                unsafe { tile::run_transposed::<V, ROWS, VECTORS>(tile) }
            }

            /// Safety: see [`tile::Run`], for these features.
            $(#[target_feature(enable = $features)])?
            pub(in super::super) unsafe fn across<V: Vector, const ROWS: usize>(tile: &Tile<V::Number>) {
                // SAFETY: promised by the caller.
                unsafe { tile::run_lanes::<V, ROWS>(tile) }
            }

            /// Safety: see [`tile::Run`], for these features.
            $(#[target_feature(enable = $features)])?
            pub(in super::super) unsafe fn gaxpy<V: Vector>(tile: &Tile<V::Number>) {
                // SAFETY: promised by the caller.
                unsafe { tile::run_gaxpy::<V>(tile) }
            }

            /// Safety: see [`copy::Copies`], for these features.
            $(#[target_feature(enable = $features)])?
            pub(in super::super) unsafe fn gather<N: Copy>(lines: &Lines<'_, N>) {
                // SAFETY: promised by the caller.
                unsafe { copy::gather::<N, $block, $chunk>(lines) }
            }

            /// Safety: see [`copy::Copies`], for these features.
            $(#[target_feature(enable = $features)])?
            pub(in super::super) unsafe fn scatter<N: Copy>(lines: &Lines<'_, N>) {
                // SAFETY: promised by the caller.
                unsafe { copy::scatter::<N, $block, $chunk>(lines) }
            }
        }
    };
}
pub(in super::super) use level;

/// The table of an operation's micro-tiles, by the functions of a level: for each number of vectors, the numbers of rows.
macro_rules! tiles {
    ($name:ident: $vector:ty as $number:ty, $machine:expr, $level:ident,
        [$($vectors:literal: $($rows:literal)*;)*], separate [$($separate:literal: $($single:literal)*;)*],
        transposed [$($transposed:literal: $($few:literal)*;)*]) => {
        pub(in super::super) static $name: Tiles<$number> = Tiles {
            machine: $machine,
            by_width: &[$(&[$(($rows, $level::run::<$vector, $rows, $vectors, 0>)),*]),*],
            separate: &[$(&[$(($single, $level::run::<$vector, $single, $separate, 1>)),*]),*],
            separate_even: &[$(&[$(($single, $level::run::<$vector, $single, $separate, 2>)),*]),*],
            transposed: &[$(&[$(($few, $level::transposed::<$vector, $few, $transposed>)),*]),*],
            across: &[&[
                (8, $level::across::<$vector, 8>),
                (4, $level::across::<$vector, 4>),
                (2, $level::across::<$vector, 2>),
                (1, $level::across::<$vector, 1>),
            ]],
            gaxpy: &[(1, $level::gaxpy::<$vector>)],
            copies: Copies { gather: $level::gather, scatter: $level::scatter },
        };
    };
}
pub(in super::super) use tiles;
