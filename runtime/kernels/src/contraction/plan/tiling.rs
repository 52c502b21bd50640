//! How rows and columns are cut into tiles, and how long these are expected to take.

use crate::contraction::ablation::Form;
use crate::contraction::blocking::GAXPY_COLUMNS;
use crate::contraction::costs::{BROADCASTS_IN_THREE_CYCLES, LATENCY, LOADS_A_CYCLE, PRODUCTS_A_CYCLE, STRIP, TILE};
use crate::contraction::machine::Machine;
use crate::contraction::tile::LEAST_ROWS;

/// A cut of rows and columns into tiles, and what all tiles take for each product.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tiling {
    pub(super) vectors: usize,
    pub(super) rows: usize,
    /// The cycles of arithmetic or of loads, whichever are more.
    pub(super) busy: usize,
    /// How many tiles there are.
    pub(super) tiles: usize,
    /// The vectors of the right operand that all tiles of a run load for each product.
    pub(super) vectors_loaded: usize,
    /// The cycles to begin all tiles and strips.
    pub(super) beginning: usize,
}

impl Tiling {
    /// Of lanes across a loop of the batch.
    pub(super) const ACROSS: Tiling =
        Tiling { vectors: 1, rows: 8, busy: 0, tiles: 0, vectors_loaded: 0, beginning: 0 };

    /// Of a row with many columns: sums are loaded and stored once for eight products.
    pub(super) fn gaxpy(lanes: usize, runs: usize, columns: usize) -> Tiling {
        let vectors = columns.div_ceil(lanes);
        let strips = columns.div_ceil(GAXPY_COLUMNS);
        let busy = (vectors / 2 + vectors / 8).saturating_mul(runs);
        let beginning = STRIP.saturating_mul(strips).saturating_mul(runs);
        Tiling { vectors: vectors.div_ceil(strips.max(1)), rows: 1, busy, tiles: 0, vectors_loaded: vectors, beginning }
    }

    /// Of `runs` runs of adjacent columns, by tiles of so many rows for each number of vectors. Strips have at most the usual number of
    /// vectors, or more where tiles hold all rows.
    pub(super) fn of(
        lanes: usize,
        (usual, tile_rows): (usize, &[usize]),
        rows: usize,
        runs: usize,
        columns: usize,
    ) -> Tiling {
        let vectors = columns.div_ceil(lanes).max(1);
        // Few rows need many vectors, as an addition waits for the one before.
        let holds_all = |width: &usize| Form::WideStrips.is_used() && tile_rows[*width - 1] >= rows;
        let widest = (usual..=tile_rows.len()).rev().find(holds_all).unwrap_or(usual);
        // As few strips as possible, of equal width.
        let strips = vectors.div_ceil(widest);
        let width = vectors.div_ceil(strips);
        let tile = tile_rows[width - 1];
        let tiles = rows.div_ceil(tile).saturating_mul(strips);
        let arithmetic = rows.saturating_mul(vectors);
        let vectors_loaded = tiles.saturating_mul(width);
        let broadcasts = rows.saturating_mul(strips).saturating_mul(3) / BROADCASTS_IN_THREE_CYCLES;
        let busy = (arithmetic / PRODUCTS_A_CYCLE)
            .max(broadcasts.saturating_add(vectors_loaded / LOADS_A_CYCLE))
            .saturating_mul(runs);
        let beginning = TILE.saturating_mul(tiles).saturating_add(STRIP.saturating_mul(strips)).saturating_mul(runs);
        Tiling { vectors: width, rows: tile, busy, tiles: tiles.saturating_mul(runs), vectors_loaded, beginning }
    }

    /// Of rows with a right operand each, of numbers at a distance, 1 or 2, and the same left one. If windows have `lines`, vectors of a line
    /// are loaded once for all rows of a tile.
    pub(super) fn separate(machine: &Machine, lines: usize, (rows, columns): (usize, usize), stride: i64) -> Tiling {
        let vectors = columns.div_ceil(machine.lanes).max(1);
        let strips = vectors.div_ceil(machine.separate.len());
        let width = vectors.div_ceil(strips);
        let (tile, tiles) = fewest_tiles(machine.separate[width - 1], rows);
        let arithmetic = rows.saturating_mul(vectors);
        let vectors_loaded = match lines {
            lines if lines == 0 || tile < LEAST_ROWS => arithmetic,
            _ => arithmetic.saturating_mul(lines + stride as usize * (tile - 1)) / (lines * tile),
        };
        // Of every second element, vectors are made of two.
        let splitting = if stride == 2 { vectors_loaded } else { 0 };
        let tiles = tiles.saturating_mul(strips);
        let loading =
            (tiles.saturating_mul(3) / BROADCASTS_IN_THREE_CYCLES).saturating_add(vectors_loaded / LOADS_A_CYCLE);
        let busy = (arithmetic / PRODUCTS_A_CYCLE).max(loading).saturating_add(splitting);
        let beginning = TILE.saturating_mul(tiles).saturating_add(STRIP.saturating_mul(strips));
        Tiling { vectors: width, rows: tile, busy, tiles, vectors_loaded, beginning }
    }

    /// The cycles of all tiles for each product: an addition of a sum waits four cycles for the one before.
    pub(super) fn cycles(&self) -> usize {
        self.busy.max(self.tiles.saturating_mul(LATENCY))
    }
}

/// Cuts rows into as few tiles as possible whose sizes, descending to 1, are among these: as many as there are of each, the largest first.
/// Returns the size of the first, the least with which there are so few, and their number.
fn fewest_tiles(sizes: &[usize], rows: usize) -> (usize, usize) {
    let tiles_from = |first: usize| {
        let cut = sizes[first..].iter().fold((0, rows), |(tiles, left), size| (tiles + left / size, left % size));
        (sizes[first], cut.0)
    };
    (0..sizes.len()).rev().map(tiles_from).min_by_key(|(_, tiles)| *tiles).unwrap_or((1, rows))
}
