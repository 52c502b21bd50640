//! The loops around the tiles.

use super::Initial;
use super::ablation::Form;
use super::blocking::{COMPUTED_ROWS, PRODUCTS, ROWS};
use super::copy::{Copies, Lines, is_adjacent};
use super::lists::KeptLists;
use super::loops::{Offsets, Walk};
use super::operand::{Gather, Operand, Piece};
use super::plan::{Cut, Packing, Plan};
use super::scratch::Scratch;
use super::tile::{Ahead, Product, Row, Run, Tile, Tiles};

/// A contraction under way.
pub(super) struct Drive<'a, N: 'static> {
    pub(super) plan: &'a Plan,
    /// The plan's number.
    pub(super) number: u64,
    /// All rows and products, where they are kept with the plan.
    pub(super) kept: Option<&'a KeptLists>,
    pub(super) tiles: &'static Tiles<N>,
    pub(super) output: *mut N,
    /// What the output is before the next products.
    pub(super) initial: Initial,
    pub(super) left: Operand<'a, N>,
    pub(super) right: Operand<'a, N>,
    pub(super) scratch: &'a mut Scratch<N>,
}

/// A part of the present run of columns.
struct Strip {
    /// How far its first column is.
    first: Offsets,
    columns: usize,
    vectors: usize,
}

/// Listed rows and products.
pub(super) type Lists<'l> = (&'l [Row], &'l [Product]);

/// Where tiles are computed whose elements of the output are not adjacent, or not all there: in memory of their own.
struct Copied<'s, N> {
    copies: &'s Copies<N>,
    /// The columns of the strip in the output.
    pieces: &'s [Piece],
    /// The distance of the elements of a piece.
    stride: isize,
    /// Elements of a row of the memory.
    width: usize,
    lines: &'s mut [N],
    outputs: &'s mut [isize],
    rows: &'s mut [Row],
}

impl<N: Copy> Copied<'_, N> {
    /// Runs a tile of one size.
    ///
    /// # Safety
    /// As for [`Tile::valid`], but for the output, whose elements are those of the pieces. The code is that of the tile's shape.
    #[inline(never)]
    unsafe fn run(&mut self, tile: &Tile<'_, N>, run: Run<N>) {
        let (outputs, rows) = (&mut self.outputs[..tile.rows.len()], &mut self.rows[..tile.rows.len()]);
        for (at, (listed, (row, output))) in tile.rows.iter().zip(rows.iter_mut().zip(&mut *outputs)).enumerate() {
            *output = listed.output;
            *row = Row { output: (at * self.width) as isize, ..*listed };
        }
        let offsets = (&*outputs, is_adjacent(outputs));
        // SAFETY: the caller promises the elements of the pieces. The memory has a line for each row, as long as a row of the tile:
        // `Lines::new` checks that. A reference to `Copies` proves the features of their functions.
        unsafe {
            let lines = Lines::new(tile.output, offsets, (self.pieces, self.stride), (&mut *self.lines, self.width));
            if tile.initial == Initial::Stored {
                (self.copies.gather)(&lines);
            }
            run(Tile { output: lines.address(), rows, ..*tile }.valid());
            (self.copies.scatter)(&lines);
        }
    }
}

/// The first products whose left operands are at a constant distance: the first one, the distance, and how many there are.
fn run(products: &[Product]) -> (i64, i64, usize) {
    let left = |at: usize| products.get(at).map_or(0, |product| product.left as i64);
    let distance = left(1).wrapping_sub(left(0));
    let mut length = products.len().min(1);
    while length < products.len() && left(length).wrapping_sub(left(length - 1)) == distance {
        length += 1;
    }
    (left(0), distance, length)
}

/// Runs the tiles of all rows of a tile, of each size as many as there are, for so many iterations of a loop that moves by a step.
///
/// # Safety
/// As for [`Tile::valid`], in each iteration. The sizes are those of [`Tiles`] for the tile's shape.
pub(super) unsafe fn run_tiles<N: Copy>(
    sizes: &[(usize, Run<N>)],
    mut tile: Tile<'_, N>,
    (repeats, step): (usize, Row),
) {
    let mut rows = tile.rows;
    for (size, run) in sizes {
        if rows.len() < *size {
            continue;
        }
        let tiles = rows.len() / size;
        // The code runs as many tiles of its size as there are.
        tile.rows = rows;
        let mut repeated = tile;
        // SAFETY: the caller promises rows, products and iterations. A value of `Tiles` proves that the processor has the features.
        unsafe {
            run(repeated.valid());
            for _ in 1..repeats {
                repeated.repeat(step);
                run(repeated.valid());
            }
        }
        tile.fetch_after(tiles);
        rows = &rows[tiles * size..];
    }
}

impl<N: Copy> Drive<'_, N> {
    /// Runs the contraction.
    ///
    /// # Safety
    /// As for [`contract`](super::contract); the plan is one of its loops.
    pub(super) unsafe fn run(&mut self) {
        let plan = self.plan;
        if let (Some(kept), Some(right)) = (self.kept, self.right.address()) {
            // SAFETY: the contract is the same. The lists are all rows and products, as `KeptLists::of` found one pass.
            return unsafe { self.run_kept(kept, right) };
        }
        let Cut { batches, rows: rows_of_all, products: products_of_all, .. } = plan.cut;
        let is_computed = matches!(self.left, Operand::Computed(..));
        let at_once = if is_computed { COMPUTED_ROWS } else { ROWS };
        let repeats_of_all = if is_computed { 1 } else { plan.cut.repeats };
        let mut products_done = 0;
        while products_done < products_of_all {
            let products = plan.cut.pass.min(products_of_all - products_done);
            let first = self.list_products(products_done, products);
            products_done += products;
            let (mut rows, mut rows_left) = (Walk::new(&plan.rows), rows_of_all);
            while rows_left > 0 {
                let count = self.list_rows(&mut rows, rows_left.min(at_once), rows_of_all);
                rows_left -= count;
                let spans = (plan.packing == Packing::Across).then(|| self.list_across(count, products));
                let (mut batch, mut batches_left) = (Walk::new(&plan.batch), batches);
                while batches_left > 0 {
                    let base = batch.offsets().plus(first);
                    let repeats = batch.run().min(batches_left).min(repeats_of_all);
                    batch.advance(repeats);
                    batches_left -= repeats;
                    // SAFETY: the caller promises the elements of all iterations. `Walk` returns the offsets of no others: those of
                    // `base`, and of the rows and products that `list_rows` and `list_products` have listed.
                    unsafe {
                        match spans {
                            Some(spans) => self.run_across(spans, (count, products), base),
                            None => self.rows((count, products), base, repeats),
                        }
                    }
                }
            }
            self.initial = Initial::Stored;
        }
    }

    /// As [`Drive::run`], with all rows and products listed.
    ///
    /// # Safety
    /// As for [`Drive::run`].
    unsafe fn run_kept(&self, kept: &KeptLists, right: *const N) {
        let Cut { batches, repeats, .. } = self.plan.cut;
        let (mut batch, mut batches_left) = (Walk::new(&self.plan.batch), batches);
        while batches_left > 0 {
            let base = batch.offsets();
            let repeats = batch.run().min(batches_left).min(repeats);
            batch.advance(repeats);
            batches_left -= repeats;
            // SAFETY: the caller promises the elements of all iterations: of those that `Walk` returns, in all rows and products.
            unsafe { self.rows_in_place(right, (&kept.rows, &kept.products), base, repeats) };
        }
    }

    /// Lists the offsets of so many of all rows, or of less: as many as the panel can hold. Returns the number.
    fn list_rows(&mut self, walk: &mut Walk<'_>, count: usize, of: usize) -> usize {
        // Their offsets depend on the plan alone. Where operands are packed, they are made those in panels of the same places each time.
        if self.scratch.plan_of_rows == self.number { of } else { self.list_rows_anew(walk, count, of) }
    }

    /// As [`Drive::list_rows`]. Not inlined, as other functions here: most calls need no list, and lost their registers to it.
    #[inline(never)]
    fn list_rows_anew(&mut self, walk: &mut Walk<'_>, count: usize, of: usize) -> usize {
        let most = self.reach_of_rows();
        let (keeps, number) = (self.packs_rows(), self.number_of_lists());
        let Scratch { rows: listed, tile_rows, plan_of_rows, .. } = &mut *self.scratch;
        let (mut least, mut greatest) = (walk.offsets().right, walk.offsets().right);
        let step = self.plan.rows.innermost();
        let mut at = 0;
        while at < count {
            let (Offsets { output, left, right }, run) = (walk.offsets(), walk.run().min(count - at));
            // Where a panel bounds them, one row after the other.
            let run = if most == u64::MAX { run } else { 1 };
            (least, greatest) = (least.min(right), greatest.max(right));
            if greatest.abs_diff(least) >= most {
                break;
            }
            let mut next = Row { output: output as isize, left: left as isize, right: right as isize };
            for row in &mut tile_rows[at..at + run] {
                *row = next;
                next.output = next.output.wrapping_add(step.output as isize);
                next.left = next.left.wrapping_add(step.left as isize);
                next.right = next.right.wrapping_add(step.right as isize);
            }
            walk.advance(run);
            at += run;
        }
        if keeps {
            listed[..at].copy_from_slice(&tile_rows[..at]);
        }
        *plan_of_rows = if at == of { number } else { 0 };
        at
    }

    /// The number of the plan, by which lists of all its rows or products are found again; zero where they are not: those across lanes are
    /// moved into panels, at other places for other rows.
    fn number_of_lists(&self) -> u64 {
        if self.plan.packing == Packing::Across || !Form::KeptLists.is_used() { 0 } else { self.number }
    }

    /// Whether rows and products are packed, so that their offsets in the operands are kept beside those in panels.
    fn packs_rows(&self) -> bool {
        self.plan.packing == Packing::Across
            || [self.left, self.right].iter().any(|operand| matches!(operand, Operand::Computed(..)))
    }

    /// Lists the offsets of so many products from one on, relative to those of the first, which are returned.
    fn list_products(&mut self, first: usize, count: usize) -> Offsets {
        let sums = Walk::at(&self.plan.sums, first);
        let first = sums.offsets();
        // Most often, the pass before was of the same plan: that of another workgroup. The first one is the longest.
        if self.scratch.plan_of_products != self.number {
            self.list_products_anew(sums, count);
        }
        first
    }

    /// Lists the offsets of products from those of a walk on, relative to them.
    #[inline(never)]
    fn list_products_anew(&mut self, mut sums: Walk<'_>, count: usize) {
        let first = sums.offsets();
        let (keeps, number, step) = (self.packs_rows(), self.number_of_lists(), self.plan.sums.innermost());
        let Scratch { products, sources, offsets: lines, are_products_adjacent, panel_width, plan_of_products, .. } =
            &mut *self.scratch;
        *plan_of_products = if self.plan.cut.are_passes_alike() { number } else { 0 };
        // Those of the other iterations of the outermost loop are as far apart as those of the first one.
        let (period, outermost) = (self.plan.cut.period, self.plan.sums.outermost());
        let walked = if self.plan.sums.as_slice().len() > 1 { count.min(period) } else { count };
        let mut at = 0;
        while at < walked {
            let (offsets, run) = (sums.offsets(), sums.run().min(walked - at));
            let (left, right) = (offsets.left.wrapping_sub(first.left), offsets.right.wrapping_sub(first.right));
            let mut next = Product { left: left as isize, right: right as isize };
            for product in &mut products[at..at + run] {
                *product = next;
                next.left = next.left.wrapping_add(step.left as isize);
                next.right = next.right.wrapping_add(step.right as isize);
            }
            sums.advance(run);
            at += run;
        }
        let products = &mut products[..count];
        for at in walked..count {
            let Product { left, right } = products[at - walked];
            let (left, right) =
                (left.wrapping_add(outermost.left as isize), right.wrapping_add(outermost.right as isize));
            products[at] = Product { left, right };
        }
        if keeps {
            sources[..count].copy_from_slice(products);
        }
        if self.plan.packs_right() {
            lines.iter_mut().zip(&*products).for_each(|(line, product)| *line = product.right);
            *are_products_adjacent = is_adjacent(&lines[..count]);
        }
        if matches!(self.left, Operand::Computed(..)) {
            products.iter_mut().zip(0..).for_each(|(product, at)| product.left = at);
        }
        *panel_width = 0;
    }

    /// Lists the offsets of products in a panel of a width.
    #[inline]
    fn list_in_panel(&mut self, width: usize, count: usize) {
        let Scratch { products, panel_width, .. } = &mut *self.scratch;
        if *panel_width != width {
            for (at, product) in products.iter_mut().take(count).enumerate() {
                product.right = (at * width) as isize;
            }
            *panel_width = width;
        }
    }

    /// Runs all strips of the listed rows, for so many iterations of the innermost loop that moves all operands.
    ///
    /// # Safety
    /// As for [`Drive::run`]; so many rows and products are listed, which are those of iterations from `base` on.
    unsafe fn rows(&mut self, (count, products): (usize, usize), base: Offsets, repeats: usize) {
        if let Operand::Computed(operand, element) = self.left {
            // SAFETY: the elements of listed rows and products are those of iterations, as the caller promises.
            unsafe { self.pack_left(operand, element.wrapping_add(base.left), count, products) };
        }
        if let (true, Some(right)) = (self.plan.cut.is_in_place, self.right.address()) {
            // SAFETY: the contract is the same. `Cut::of` found that nothing but the left operand is packed.
            return unsafe { self.rows_in_place(right, self.lists(count, products), base, repeats) };
        }
        let Plan { columns, cut, lanes, .. } = self.plan;
        let mut walk = Walk::new(columns);
        for _ in 0..cut.runs {
            for (columns, vectors) in cut.strips(*lanes) {
                let strip = Strip { first: walk.offsets(), columns, vectors };
                // SAFETY: the contract is the same. `Cut::strips` returns strips of the columns of a run, where `walk` is at the first one.
                unsafe { self.run_strip(&strip, &mut walk, (count, products), base) };
            }
        }
    }

    /// As [`Drive::rows`], where nothing but the left operand is packed.
    ///
    /// # Safety
    /// As for [`Drive::rows`].
    #[inline(never)]
    unsafe fn rows_in_place(&self, right: *const N, lists: Lists<'_>, base: Offsets, repeats: usize) {
        let Plan { columns: loops, cut, lanes, .. } = self.plan;
        let innermost = loops.innermost();
        let tile = self.tile(base, lists, cut.distance);
        let mut walk = Walk::new(loops);
        for _ in 0..cut.runs {
            let mut first = walk.offsets();
            walk.advance(cut.run);
            for (columns, vectors) in cut.strips(*lanes) {
                let right = right.wrapping_offset(base.plus(first).right as isize);
                let tile = self.in_strip(&tile, &Strip { first, columns, vectors }, right);
                // SAFETY: the caller promises the elements of listed rows and products, in the columns of the strip: `Walk` and
                // `Cut::strips` return those of iterations. `sizes` are those of the tile's shape.
                unsafe { run_tiles(self.sizes(vectors), tile, (repeats, cut.step)) };
                first = first.after(columns, &innermost);
            }
        }
    }

    /// The first of the listed rows and products, so many.
    fn lists(&self, rows: usize, products: usize) -> Lists<'_> {
        (&self.scratch.tile_rows[..rows], &self.scratch.products[..products])
    }

    /// The tile of a strip, but for what [`Drive::in_strip`] adds: of all listed rows. `distance` is that between the right operands of
    /// products, if it is constant. Also returns whether the rows that follow are to be fetched.
    #[inline(always)]
    fn tile<'l>(&self, base: Offsets, (rows, products): Lists<'l>, distance: Option<isize>) -> (Tile<'l, N>, bool) {
        let Cut { has_adjacent_numbers, .. } = self.plan.cut;
        // A computed operand is a line for each row.
        let (left, is_adjacent, is_followed) = match self.left.address() {
            Some(address) => {
                let is_followed = self.plan.cut.has_adjacent_rows_of(products.len());
                (address.wrapping_offset(base.left as isize), has_adjacent_numbers, is_followed)
            }
            None => (self.scratch.left.as_ptr(), true, false),
        };
        let distance = distance.filter(|_| is_adjacent && Form::Regular.is_used());
        debug_assert!(
            distance.is_none_or(|distance| {
                let last = products.len() as isize - 1;
                products.last() == Some(&Product { left: last, right: last * distance })
            }),
            "listed products are elsewhere"
        );
        let output = self.output.wrapping_offset(base.output as isize);
        let tile = Tile {
            // Less than 2^16 where it is used.
            stride: self.plan.columns.innermost().right as i32,
            distance,
            ..self.tile_at(output, (left, left), (rows, products), (0, 0))
        };
        (tile, Form::FetchRows.is_used() && is_followed)
    }

    /// The tile in a strip, with the right operand of its first column.
    #[inline(always)]
    fn in_strip<'l>(&self, (tile, is_followed): &(Tile<'l, N>, bool), strip: &Strip, right: *const N) -> Tile<'l, N> {
        let ahead = match self.ahead(right, strip.vectors, tile.products.len()) {
            Ahead::Nothing if *is_followed && strip.first == Offsets::default() => Ahead::Rows,
            ahead => ahead,
        };
        Tile {
            output: tile.output.wrapping_offset(strip.first.output as isize),
            right,
            shape: self.plan.cut.shape.with(strip.vectors),
            tail: strip.columns - (strip.vectors - 1) * self.plan.lanes,
            ahead,
            ..*tile
        }
    }

    /// The strip that follows, if this one is a panel of a constant's layout.
    fn ahead(&self, right: *const N, vectors: usize, products: usize) -> Ahead<N> {
        let is_fetched = Form::FetchPanel.is_used() && matches!(self.right, Operand::Layout(_));
        match self.plan.next_panel(vectors, products).filter(|_| is_fetched) {
            Some(distance) => {
                let next = right.wrapping_add(distance);
                Ahead::Strip(next, next.wrapping_add(products * vectors * self.plan.lanes))
            }
            None => Ahead::Nothing,
        }
    }

    /// A tile of so many vectors, the last one with so many lanes, of all listed rows.
    #[inline(always)]
    pub(super) fn tile_at<'l>(
        &self,
        output: *mut N,
        (left, right): (*const N, *const N),
        (rows, products): Lists<'l>,
        (vectors, tail): (usize, usize),
    ) -> Tile<'l, N> {
        Tile {
            output,
            initial: self.initial,
            left,
            right,
            rows,
            products,
            shape: self.plan.cut.shape.with(vectors),
            tail,
            stride: 0,
            distance: None,
            lines: self.plan.cut.lines,
            ahead: Ahead::Nothing,
        }
    }

    /// The tiles of so many vectors: by their numbers of rows, descending to 1. Their code is that of the plan's shape.
    fn sizes(&self, vectors: usize) -> &'static [(usize, Run<N>)] {
        let by_width = match self.plan.packing {
            Packing::Gaxpy => return self.tiles.gaxpy,
            Packing::Separate => {
                let is_even = self.plan.columns.innermost().right == 2;
                let by_width = if is_even { self.tiles.separate_even } else { self.tiles.separate };
                let sizes = by_width[vectors - 1];
                let first = sizes.iter().position(|(rows, _)| *rows <= self.plan.tile_rows);
                return &sizes[first.unwrap_or(0)..];
            }
            Packing::Transposed => self.tiles.transposed,
            Packing::Across => self.tiles.across,
            Packing::None | Packing::Panels | Packing::CrossingPanels => self.tiles.by_width,
        };
        by_width[vectors - 1]
    }

    /// Lists the pieces of the next columns, a strip. Returns how many there are, and whether all columns are adjacent in the output.
    #[inline]
    fn list_pieces(&mut self, walk: &mut Walk<'_>, Strip { first, columns, .. }: &Strip) -> (usize, bool) {
        let (mut at, mut pieces, mut is_direct) = (0, 0, self.plan.columns.innermost().output == 1);
        while at < *columns {
            let (offsets, length) = (walk.offsets(), walk.run().min(columns - at));
            walk.advance(length);
            let from = offsets.right.wrapping_sub(first.right) as isize;
            self.scratch.pieces[pieces] = Piece { from, at, length };
            let from = offsets.output.wrapping_sub(first.output) as isize;
            self.scratch.output_pieces[pieces] = Piece { from, at, length };
            is_direct &= from == at as isize;
            (at, pieces) = (at + length, pieces + 1);
        }
        (pieces, is_direct)
    }

    /// Runs all tiles of a strip, the next columns.
    ///
    /// # Safety
    /// As for [`Drive::rows`]; the columns of the strip are those of iterations.
    #[inline(never)]
    unsafe fn run_strip(
        &mut self,
        strip: &Strip,
        walk: &mut Walk<'_>,
        (rows, products): (usize, usize),
        base: Offsets,
    ) {
        let (pieces, is_direct) = self.list_pieces(walk, strip);
        let width = strip.vectors * self.plan.lanes;
        let first = base.plus(strip.first).right;
        let (right, distance) = match self.right.address() {
            Some(address) if self.plan.packing.is_in_operand() => {
                (address.wrapping_offset(first as isize), self.plan.cut.distance)
            }
            _ => {
                self.list_in_panel(width, products);
                // SAFETY: `list_pieces` has listed the columns of the strip, which are those of iterations, as the caller promises.
                unsafe { self.pack_right(self.right.moved(first), pieces, width, products) };
                (self.scratch.panel.as_ptr(), Some(width as isize))
            }
        };
        let sizes = self.sizes(strip.vectors);
        let lists = (&self.scratch.tile_rows[..rows], &self.scratch.products[..products]);
        let tile = self.in_strip(&self.tile(base, lists, distance), strip, right);
        if is_direct {
            // SAFETY: the caller promises the elements of listed rows, products and columns; `list_pieces` found the columns adjacent
            // in the output. Of a right operand that is packed, `list_in_panel` has listed where `pack_right` has packed. `sizes` are
            // those of the tile's shape.
            return unsafe { run_tiles(sizes, tile, (1, Row::default())) };
        }
        let mut copied = Copied {
            copies: &self.tiles.copies,
            pieces: &self.scratch.output_pieces[..pieces],
            stride: self.plan.columns.innermost().output as isize,
            width,
            lines: &mut self.scratch.tiles,
            outputs: &mut self.scratch.outputs,
            rows: &mut self.scratch.copied_rows,
        };
        let (mut tile, mut rows) = (tile, tile.rows);
        for (size, run) in sizes {
            while rows.len() >= *size {
                (tile.rows, rows) = rows.split_at(*size);
                // SAFETY: as above, with columns at the pieces that `list_pieces` has listed.
                unsafe { copied.run(&tile, *run) };
                tile.fetch_after(1);
            }
        }
    }

    /// Copies a strip of the right operand into the panel: a line for each product.
    ///
    /// # Safety
    /// The elements of the listed products and of the listed pieces, from the operand's first element on, are those of iterations.
    unsafe fn pack_right(&mut self, operand: Operand<'_, N>, pieces_of_strip: usize, width: usize, products: usize) {
        let stride = self.plan.columns.innermost().right;
        let Scratch { sources, pieces, panel, offsets, are_products_adjacent, .. } = &mut *self.scratch;
        let pieces = &pieces[..pieces_of_strip];
        match operand {
            Operand::Memory(address) | Operand::Layout(address) => {
                let offsets = (&offsets[..products], *are_products_adjacent);
                // SAFETY: the elements are those of iterations, as the caller promises, and `list_products` found whether lines are adjacent.
                // `Tiles` prove the features of their functions.
                unsafe {
                    let lines =
                        Lines::new(address.cast_mut(), offsets, (pieces, stride as isize), (&mut panel[..], width));
                    (self.tiles.copies.gather)(&lines);
                }
            }
            Operand::Computed(operand, element) => {
                for (source, line) in sources.iter().zip(panel.chunks_exact_mut(width)).take(products) {
                    let first = element.wrapping_add(source.right as i64);
                    // SAFETY: the elements are those of iterations, as the caller promises.
                    unsafe { operand.gather_pieces(first, stride, pieces, line) };
                }
            }
        }
    }

    /// Computes the left operand of the listed rows: a line for each.
    ///
    /// # Safety
    /// The elements of the listed rows and products, from `element` on, are those of iterations.
    #[inline(never)]
    unsafe fn pack_left(&mut self, operand: &dyn Gather<N>, element: i64, rows: usize, products: usize) {
        let Scratch { rows: listed, tile_rows, sources, left, .. } = &mut *self.scratch;
        let sources = &sources[..products];
        // Most often, all are.
        let whole = run(sources);
        let lines = left.chunks_exact_mut(PRODUCTS);
        for (at, ((row, packed), line)) in listed.iter().zip(tile_rows).zip(lines).take(rows).enumerate() {
            let first = element.wrapping_add(row.left as i64);
            let mut done = 0;
            while done < products {
                let (from, distance, length) = if whole.2 == products { whole } else { run(&sources[done..]) };
                let numbers = &mut line[done..done + length];
                // SAFETY: `run` returns listed products. The elements are those of iterations, as the caller promises.
                unsafe { operand.gather(first.wrapping_add(from), distance, numbers) };
                done += length;
            }
            packed.left = (at * PRODUCTS) as isize;
        }
    }
}
