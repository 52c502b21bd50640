//! Packing into tiles, unpacking, and the choice of tile sizes.
//!
//! A packed matrix is outer rows x outer columns of tiles. The flags tell which of the two levels are transposed, with
//! columns before rows.

use alloc::format;
use alloc::sync::Arc;

use super::VmvxState;
use super::product::{area, scratch};
use super::region::{Region, TimeCheck};
use crate::vm::{Buffer, Caller, Scalar, Stack};
use crate::{Error, Result};

/// The bits of the flags that encode the element types; the same for packing and unpacking.
const TYPE_MASK: u32 = 0xFF;
const TYPE_F32F32: u32 = 0x01;
const TYPE_I8I8: u32 = 0x02;
const TYPE_I32I32: u32 = 0x03;
/// Flag: tiles are column-major.
const TRANSPOSE_INNER: u32 = 0x100;
/// Flag: the order of tiles is column-major.
const TRANSPOSE_OUTER: u32 = 0x200;

/// The layout of a packed matrix.
#[derive(Clone, Copy, Debug)]
struct Packing {
    /// Outer rows and columns of tiles.
    outer: [u64; 2],
    /// Rows and columns of a tile.
    tile: [u64; 2],
    transpose_inner: bool,
    transpose_outer: bool,
}

impl Packing {
    /// Returns the sizes in the order of memory, outermost first.
    fn new(sizes: [u64; 4], flags: u32) -> Packing {
        let [outer0, outer1, tile0, tile1] = sizes;
        let (mut outer, mut tile) = ([outer0, outer1], [tile0, tile1]);
        let (transpose_inner, transpose_outer) = (flags & TRANSPOSE_INNER != 0, flags & TRANSPOSE_OUTER != 0);
        if transpose_outer {
            outer.reverse();
        }
        if transpose_inner {
            tile.reverse();
        }
        Packing { outer, tile, transpose_inner, transpose_outer }
    }

    fn tile_length(&self) -> Result<u64> {
        area(&self.tile)
    }

    /// Returns the position of a tile in the packed region, by its outer row and column.
    fn place(&self, row: u64, column: u64) -> (u64, u64) {
        if self.transpose_outer { (column, row) } else { (row, column) }
    }

    /// Returns the index within a tile.
    fn within(&self, row: usize, column: usize) -> usize {
        let [rows, columns] = self.tile.map(|size| size as usize);
        if self.transpose_inner { column * rows + row } else { row * columns + column }
    }

    /// Calls a function with each tile: its outer row and column, and how many of its rows and columns lie inside a
    /// matrix of the given sizes.
    fn for_each_tile(
        &self,
        stack: &Stack,
        sizes: [u64; 2],
        mut run: impl FnMut([u64; 2], [usize; 2]) -> Result<()>,
    ) -> Result<()> {
        let mut time = TimeCheck::new(stack);
        let length = self.tile.iter().product::<u64>() as usize;
        let inside = |index: usize, outer: u64| {
            // At most the tile's size, which memory bounds.
            sizes[index].saturating_sub(outer.saturating_mul(self.tile[index])).min(self.tile[index]) as usize
        };
        for row in 0..self.outer[0] {
            for column in 0..self.outer[1] {
                time.after(length)?;
                run([row, column], [inside(0, row), inside(1, column)])?;
            }
        }
        Ok(())
    }
}

#[allow(clippy::too_many_arguments, missing_docs, reason = "the imports, as programs declare them")]
impl VmvxState {
    pub fn pack(
        &self,
        caller: &mut Caller<'_>,
        source: &Buffer,
        source_offset: u64,
        source_stride0: u64,
        source_stride1: u64,
        target: Arc<Buffer>,
        target_offset: u64,
        target_stride0: u64,
        _target_stride1: u64,
        source_size0: u64,
        source_size1: u64,
        target_size0: u64,
        target_size1: u64,
        target_size2: u64,
        target_size3: u64,
        padding: u64,
        flags: u32,
    ) -> Result<()> {
        let packing = Packing::new([target_size0, target_size1, target_size2, target_size3], flags);
        let source = (source, source_offset, [source_stride0, source_stride1], [source_size0, source_size1]);
        let row_length = area(&[target_size1, target_size2, target_size3])?;
        let target = (&*target, target_offset, [target_stride0, 1], [target_size0, row_length]);
        match flags & TYPE_MASK {
            TYPE_F32F32 | TYPE_I32I32 => pack::<u32>(caller.stack, packing, source, target, padding as u32),
            TYPE_I8I8 => pack::<u8>(caller.stack, packing, source, target, padding as u8),
            other => Err(Error::invalid_argument(format!("pack of element type {other:#x}"))),
        }
    }

    pub fn unpack(
        &self,
        caller: &mut Caller<'_>,
        source: &Buffer,
        source_offset: u64,
        source_stride0: u64,
        _source_stride1: u64,
        target: Arc<Buffer>,
        target_offset: u64,
        target_stride0: u64,
        target_stride1: u64,
        source_size0: u64,
        source_size1: u64,
        source_size2: u64,
        source_size3: u64,
        target_size0: u64,
        target_size1: u64,
        flags: u32,
    ) -> Result<()> {
        let packing = Packing::new([source_size0, source_size1, source_size2, source_size3], flags);
        let row_length = area(&[source_size1, source_size2, source_size3])?;
        let source = (source, source_offset, [source_stride0, 1], [source_size0, row_length]);
        let target = (&*target, target_offset, [target_stride0, target_stride1], [target_size0, target_size1]);
        match flags & TYPE_MASK {
            TYPE_F32F32 | TYPE_I32I32 => unpack::<u32>(caller.stack, packing, source, target),
            TYPE_I8I8 => unpack::<u8>(caller.stack, packing, source, target),
            other => Err(Error::invalid_argument(format!("unpack of element type {other:#x}"))),
        }
    }

    /// Returns the tile sizes that the product is tuned for. They are the same on every host, and so are the results.
    pub fn query_tile_sizes_2d(&self, _: &mut Caller<'_>, _size0: u64, _size1: u64, flags: u32) -> Result<(u64, u64)> {
        /// Tile rows and columns of the result; every product has them.
        const ROWS: u64 = 8;
        const COLUMNS: u64 = 8;
        // The reduction depth of a tile, by operation.
        let depth = match flags & 0xFF00 {
            0x0100 => 1,
            0x0200 => 2,
            0x0300..=0x0600 => 1,
            other => return Err(Error::invalid_argument(format!("tile sizes of operation {other:#x}"))),
        };
        match flags & 0xFF {
            1 => Ok((ROWS, depth)),
            2 => Ok((COLUMNS, depth)),
            3 => Ok((ROWS, COLUMNS)),
            other => Err(Error::invalid_argument(format!("tile sizes of operand {other:#x}"))),
        }
    }
}

/// A buffer, the index of its first element, strides and sizes of its two dimensions, in elements.
type Matrix<'a> = (&'a Buffer, u64, [u64; 2], [u64; 2]);

fn region<'a, T: Scalar>((buffer, offset, strides, sizes): Matrix<'a>) -> Result<Region<'a>> {
    Region::new::<T>(buffer, offset, strides, sizes)
}

fn pack<T: Scalar + Default>(
    stack: &Stack,
    packing: Packing,
    source: Matrix<'_>,
    target: Matrix<'_>,
    padding: T,
) -> Result<()> {
    let (matrix, packed) = (region::<T>(source)?, region::<T>(target)?);
    let length = packing.tile_length()?;
    if packing.outer.contains(&0) || length == 0 {
        return Ok(());
    }
    // A tile, and therefore a row of it, lies within the target.
    let mut tile = scratch::<T>(stack, length as usize)?;
    let mut run = scratch::<T>(stack, packing.tile[1] as usize)?;
    packing.for_each_tile(stack, source.3, |[row, column], [rows, columns]| {
        tile.fill(padding);
        for tile_row in 0..if columns == 0 { 0 } else { rows } {
            let run = &mut run[..columns];
            matrix.load(row * packing.tile[0] + tile_row as u64, column * packing.tile[1], run)?;
            for (tile_column, element) in run.iter().enumerate() {
                tile[packing.within(tile_row, tile_column)] = *element;
            }
        }
        let (row, position) = packing.place(row, column);
        packed.store(row, position * length, &tile)
    })
}

fn unpack<T: Scalar + Default>(stack: &Stack, packing: Packing, source: Matrix<'_>, target: Matrix<'_>) -> Result<()> {
    let (packed, matrix) = (region::<T>(source)?, region::<T>(target)?);
    let length = packing.tile_length()?;
    if packing.outer.contains(&0) || length == 0 {
        return Ok(());
    }
    // A tile, and therefore a row of it, lies within the source.
    let mut tile = scratch::<T>(stack, length as usize)?;
    let mut run = scratch::<T>(stack, packing.tile[1] as usize)?;
    packing.for_each_tile(stack, target.3, |[row, column], [rows, columns]| {
        if rows == 0 || columns == 0 {
            return Ok(());
        }
        let (packed_row, position) = packing.place(row, column);
        packed.load(packed_row, position * length, &mut tile)?;
        for tile_row in 0..rows {
            let run = &mut run[..columns];
            for (tile_column, element) in run.iter_mut().enumerate() {
                *element = tile[packing.within(tile_row, tile_column)];
            }
            matrix.store(row * packing.tile[0] + tile_row as u64, column * packing.tile[1], run)?;
        }
        Ok(())
    })
}
