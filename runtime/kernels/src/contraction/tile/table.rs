//! The code of a level's micro-tiles, and the tables of it.

/// The functions of a level, in a module of that name, which are compiled for its features: all micro-tiles, and copies by vectors of
/// `block` and chunks of `chunk` elements. In a function that is compiled for the features, `$proof::here` is safe to call.
macro_rules! level {
    ($level:ident, $proof:ident, $block:ty, $chunk:literal $(, $features:literal)?) => {
        pub(super) mod $level {
            use super::{$proof, Vector};
            use crate::contraction::copy::{self, Lines};
            use crate::contraction::tile::{self, Valid};

            $(#[target_feature(enable = $features)])?
            pub(in super::super) fn run<
                V: Vector<Level = $proof>,
                const ROWS: usize,
                const VECTORS: usize,
                const STRIDE: usize,
            >(
                tile: Valid<'_, V::Number>,
            ) {
                tile::run::<V, ROWS, VECTORS, STRIDE>($proof::here(), tile);
            }

            $(#[target_feature(enable = $features)])?
            pub(in super::super) fn transposed<V: Vector<Level = $proof>, const ROWS: usize, const VECTORS: usize>(
                tile: Valid<'_, V::Number>,
            ) {
                tile::run_transposed::<V, ROWS, VECTORS>($proof::here(), tile);
            }

            $(#[target_feature(enable = $features)])?
            pub(in super::super) fn across<V: Vector<Level = $proof>, const ROWS: usize>(tile: Valid<'_, V::Number>) {
                tile::run_lanes::<V, ROWS>($proof::here(), tile);
            }

            $(#[target_feature(enable = $features)])?
            pub(in super::super) fn gaxpy<V: Vector<Level = $proof>>(tile: Valid<'_, V::Number>) {
                tile::run_gaxpy::<V>($proof::here(), tile);
            }

            $(#[target_feature(enable = $features)])?
            pub(in super::super) fn gather<N: Copy>(lines: &Lines<'_, N>) {
                copy::gather::<N, $block, $chunk>($proof::here(), lines);
            }

            $(#[target_feature(enable = $features)])?
            pub(in super::super) fn scatter<N: Copy>(lines: &Lines<'_, N>) {
                copy::scatter::<N, $block, $chunk>($proof::here(), lines);
            }
        }
    };
}
pub(in super::super) use level;

/// The table of an operation's micro-tiles, by the functions of a level: for each number of vectors, the numbers of rows. Only the proof
/// of the level leads to it.
macro_rules! tiles {
    ($name:ident: $vector:ty as $number:ty, $machine:expr, $level:ident $proof:ty,
        [$($vectors:literal: $($rows:literal)*;)*], separate [$($separate:literal: $($single:literal)*;)*],
        transposed [$($transposed:literal: $($few:literal)*;)*]) => {
        pub(in super::super) fn $name(_: $proof) -> &'static Tiles<$number> {
            static TILES: Tiles<$number> = Tiles {
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
            &TILES
        }
    };
}
pub(in super::super) use tiles;
