//! What is done with a contraction: which loops are rows, columns and sums, what is packed, and the tile in registers.

mod explained;
mod tiling;

use super::ablation::Form;
use super::blocking::{PANEL, PRODUCTS};
use super::costs::{
    COMPETING_LOAD, COMPETING_LOAD_OF_TWO, LINES_OF_A_SET, LOADS_A_CYCLE, PACKED_TRANSPOSITION, TILE,
    TRANSPOSED_THERE_AND_BACK, TRANSPOSITION, WAYS,
};
use super::layout::Side;
use super::loops::{Kinds, Loop, Loops, MAX_LOOPS};
use super::machine::Machine;
use super::operand::OperandKind;
use super::tile::{Row, Shape};
use tiling::Tiling;

/// Where vectors of the right operand are loaded from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// From the operand: along the innermost loop of the columns, its elements are adjacent.
    None,
    /// The same for one row, with more columns than a tile holds: the columns of several products at once are added to sums in memory, so
    /// that a matrix by rows is read as it is stored.
    Gaxpy,
    /// From the operand as [`Packing::None`], where the other loops of the columns are the rows: each row of a tile has vectors of its own,
    /// and all have the same left operand. Vectors may hold every second element.
    Separate,
    /// From the operand, whose elements are adjacent along the products: some products of a vector of columns are loaded at once, and
    /// transposed in registers.
    Transposed,
    /// A vector holds an element of each of some iterations of a loop that moves all operands, and so do vectors of the left operand
    /// and the output. Where such elements are not adjacent, all that iterations of the other loops access are transposed to panels.
    Across,
    /// From a panel, into which each strip of columns is copied for all products. Strips end where the innermost loop ends.
    Panels,
    /// The same, with strips across the ends of the innermost loop. Tiles are copied from the output and back.
    CrossingPanels,
}

impl Packing {
    /// Whether vectors are loaded from the operand itself.
    pub(super) const fn is_in_operand(self) -> bool {
        matches!(self, Packing::None | Packing::Gaxpy | Packing::Separate | Packing::Transposed)
    }
}

/// How the iterations of a plan are cut: columns into strips, those of each run alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) batches: usize,
    pub(super) rows: usize,
    pub(super) products: usize,
    /// Products of an iteration of the outermost loop that sums.
    pub(super) period: usize,
    /// Products of a pass over the output: all, or a part of them, in passes of about the same length.
    pub(super) pass: usize,
    pub(super) runs: usize,
    /// Columns of a run.
    pub(super) run: usize,
    /// Strips of a run.
    strips: usize,
    /// Vectors of each strip.
    vectors: usize,
    /// How many of the strips, the first ones, have a vector more.
    wider: usize,
    /// Iterations of the innermost loop that moves all operands for which tiles of a strip run at once, if nothing is packed or copied.
    pub(super) repeats: usize,
    /// Whether vectors are loaded from the right operand and stored to the output, with neither packed nor copied.
    pub(super) is_in_place: bool,
    /// How far such an iteration moves the output and the operands.
    pub(super) step: Row,
    /// Whether the numbers of a row of the left operand are adjacent.
    pub(super) has_adjacent_numbers: bool,
    /// How far the right operand of a product is from that of the product before, if that is the same for all.
    pub(super) distance: Option<isize>,
    /// See [`Plan::lines_of_windows`].
    pub(super) lines: usize,
    /// The shape of tiles, but for their vectors.
    pub(super) shape: Shape,
    /// Whether the numbers of the left operand are adjacent, row after row.
    are_rows_adjacent: bool,
}

impl Cut {
    /// Whether the left operand of so many products at once is adjacent, row after row: in one pass over all of them.
    pub(super) const fn has_adjacent_rows_of(&self, products: usize) -> bool {
        self.are_rows_adjacent && self.products == products
    }

    /// Whether all passes have the same list of products, relative to the first one of each: they begin with an iteration of the outermost
    /// loop that sums.
    pub(super) const fn are_passes_alike(&self) -> bool {
        self.period <= PRODUCTS
    }

    /// The numbers of columns and of vectors of each strip of a run.
    pub(super) fn strips(&self, lanes: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let Cut { strips, vectors, wider, run, .. } = *self;
        let mut left = run;
        (0..strips).map(move |strip| {
            let vectors = vectors + usize::from(strip < wider);
            let columns = left.min(vectors * lanes);
            left -= columns;
            (columns, vectors)
        })
    }

    fn of(plan: &Plan) -> Cut {
        let (columns, innermost) = (plan.columns.count(), plan.columns.innermost().count);
        let (runs, run) = match plan.packing {
            Packing::CrossingPanels => (1, columns),
            _ => (columns / innermost.max(1), innermost),
        };
        let vectors = run.div_ceil(plan.lanes);
        let strips = vectors.div_ceil(plan.vectors);
        let (vectors, wider) = (vectors / strips.max(1), vectors % strips.max(1));
        let (batches, rows, products) = (plan.batch.count(), plan.rows.count(), plan.sums.count());
        let is_in_place = plan.packing.is_in_operand() && plan.columns.innermost().output == 1;
        let step = plan.batch.innermost();
        let is_one_tile = Form::Repeats.is_used() && runs == 1 && strips == 1 && rows <= plan.tile_rows;
        let repeats = match is_in_place {
            true if is_one_tile => usize::MAX,
            true if !Form::Repeats.is_used() => 1,
            true => (REPEATED / plan.elements_of_operands()).max(1),
            false => 1,
        };
        let has_adjacent_numbers = plan.has_adjacent_numbers();
        let distance = plan.sums.distance(|each| each.right).map(|distance| distance as isize);
        let are_rows_adjacent = has_adjacent_numbers && plan.rows.innermost().left == products as i64;
        let inner = plan.sums.as_slice().iter().skip(1);
        let period = inner.fold(1usize, |period, each| period.saturating_mul(each.count)).max(1);
        let lines = match plan.packing {
            Packing::Separate => plan.lines_of_windows(plan.rows.as_slice(), &plan.columns.innermost()),
            _ => 0,
        };
        let kind = match plan.packing {
            Packing::Gaxpy => Shape::GAXPY,
            Packing::Separate if plan.columns.innermost().right == 2 => Shape::SEPARATE_EVEN,
            Packing::Separate => Shape::SEPARATE,
            Packing::Transposed => Shape::TRANSPOSED,
            Packing::Across => Shape::ACROSS,
            Packing::None | Packing::Panels | Packing::CrossingPanels => Shape::SHARED,
        };
        let (count, each) = if period <= PRODUCTS { (products / period, period) } else { (products, 1) };
        let passes = count.div_ceil(PRODUCTS / each).max(1);
        let pass = (count.div_ceil(passes) * each).max(1);
        Cut {
            batches,
            rows,
            products,
            period,
            pass,
            runs,
            run,
            strips,
            vectors,
            wider,
            repeats,
            is_in_place,
            step: Row { output: step.output as isize, left: step.left as isize, right: step.right as isize },
            has_adjacent_numbers,
            distance,
            lines,
            shape: Shape::of(kind, plan.lanes),
            are_rows_adjacent,
        }
    }
}

/// The plan of a contraction.
///
/// ```
/// use incarnate_kernels::contraction::{Loop, Machine, Plan};
///
/// // 64 x 256 times 256 x 960.
/// let loops = [
///     Loop { count: 64, output: 960, left: 256, right: 0 },
///     Loop { count: 960, output: 1, left: 0, right: 1 },
///     Loop { count: 256, output: 0, left: 1, right: 960 },
/// ];
/// let plan = Plan::of(&loops, &Machine::X86_64_V4).map(|plan| plan.to_string());
/// assert_eq!(plan.as_deref(), Some("64 rows x 960 columns, sums of 256; tiles of 6 x 64 in registers; vectors loaded from the right operand"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Loops that move the output and both operands.
    pub(super) batch: Loops,
    /// Loops that move the output and the left operand.
    pub(super) rows: Loops,
    /// Loops that move the output and the right operand; along the innermost one, elements of the output are adjacent if they are along
    /// any.
    pub(super) columns: Loops,
    /// Loops that do not move the output, in order.
    pub(super) sums: Loops,
    /// With [`Packing::Across`], the loop whose iterations are the lanes of vectors; it is not among the others.
    pub(super) across: Loop,
    /// The operands are exchanged: left is right.
    pub(super) is_swapped: bool,
    pub(super) packing: Packing,
    /// Elements in a vector.
    pub(super) lanes: usize,
    /// The number of vectors in a strip of columns, at most.
    pub(super) vectors: usize,
    pub(super) cut: Cut,
    /// The number of rows in a tile, at most.
    pub(super) tile_rows: usize,
}

impl Plan {
    /// Plans the contraction of some loops. None where it runs as it stands: without a loop along which one operand stays and the
    /// output moves, there are no tiles.
    #[must_use]
    pub fn of(loops: &[Loop], machine: &Machine) -> Option<Plan> {
        Plan::costed(loops, machine, [OperandKind::Memory; 2]).map(|(plan, _)| plan)
    }

    /// As [`Plan::of`], for operands of these kinds, with the cycles that the contraction is expected to take.
    pub(super) fn costed(loops: &[Loop], machine: &Machine, operands: [OperandKind; 2]) -> Option<(Plan, usize)> {
        if loops.len() > MAX_LOOPS {
            return None;
        }
        let oriented = |is_swapped: bool| Plan::oriented(loops, machine, is_swapped, operands);
        let (plan, cycles) = match operands.map(|kind| kind == OperandKind::Layout) {
            // The vectors of a layout are those of the right operand.
            [true, false] => oriented(true)?,
            [false, true] => oriented(false)?,
            _ => {
                let (plan, swapped) = (oriented(false)?, oriented(true)?);
                if swapped.1 < plan.1 { swapped } else { plan }
            }
        };
        Some((Plan { cut: Cut::of(&plan), ..plan }, cycles))
    }

    /// About how many elements both operands have in an iteration of the loops that move all of them.
    fn elements_of_operands(&self) -> usize {
        let kinds = [&self.rows, &self.columns, &self.sums];
        let span =
            |stride: fn(&Loop) -> i64| kinds.iter().fold(0usize, |all, kind| all.saturating_add(kind.span(stride)));
        span(|each| each.left).saturating_add(span(|each| each.right))
    }

    /// The columns that each of several tiles loads from its right operand, at most. None where all rows are in one tile or have operands
    /// of their own, and where the operand is packed.
    pub(super) fn columns_loaded_by_tiles(&self) -> Option<usize> {
        (self.packing == Packing::None && self.rows.count() > self.tile_rows).then_some(self.vectors * self.lanes)
    }

    /// How far the panel that is read next is from one of so many vectors and products, if the right operand is in panels: products are at a
    /// distance of their width. It is the next one, or of a single one the products of the next pass.
    pub(super) fn next_panel(&self, vectors: usize, products: usize) -> Option<usize> {
        let (width, Cut { distance, strips, runs, .. }) = (vectors * self.lanes, self.cut);
        let is_panel = self.packing == Packing::None && distance == Some(width as isize);
        is_panel.then_some(width * if runs * strips == 1 { products } else { self.cut.products })
    }

    /// The operand that is packed into panels.
    pub(super) fn packed(&self) -> Option<Side> {
        self.packs_right().then_some(if self.is_swapped { Side::Left } else { Side::Right })
    }

    /// Whether the right operand is packed into panels.
    pub(super) const fn packs_right(&self) -> bool {
        matches!(self.packing, Packing::Panels | Packing::CrossingPanels)
    }

    /// Whether the numbers of a row that its products take are adjacent.
    pub(super) fn has_adjacent_numbers(&self) -> bool {
        self.sums.is_contiguous(|each| each.left)
    }

    /// Plans a contraction with the operands as they are or exchanged, and returns the cycles that it is expected to take.
    fn oriented(
        loops: &[Loop],
        machine: &Machine,
        is_swapped: bool,
        operands: [OperandKind; 2],
    ) -> Option<(Plan, usize)> {
        let oriented = loops.iter().map(|each| if is_swapped { each.swapped() } else { *each });
        let Kinds { batch, rows, mut columns, sums } = Kinds::of(oriented)?;
        if columns.as_slice().is_empty() && rows.as_slice().is_empty() {
            return None;
        }
        if let Some(at) = adjacent(&columns) {
            let innermost = columns.remove(at);
            columns.push(innermost)?;
        }
        let mut plan = Plan {
            batch,
            rows,
            columns,
            sums,
            across: Loop { count: 1, ..Loop::default() },
            is_swapped,
            packing: Packing::None,
            lanes: machine.lanes,
            vectors: 1,
            cut: Cut::default(),
            tile_rows: 1,
        };
        if columns.as_slice().is_empty() {
            return Some((plan, usize::MAX));
        }
        let cycles = plan.choose(machine, operands);
        Some((plan, cycles))
    }

    /// The cycles that loads of vectors of the right operand take for each product, above those of aligned ones from the first cache: of so
    /// many loads, some of which load again what tiles of other rows have loaded. Loads across lines of the cache take longer, and so do
    /// those from lines that have competed for a set of it. What is loaded once takes as long where it is packed.
    fn load_cycles(&self, lanes: usize, loads: usize, again: usize) -> usize {
        let sums = self.sums.as_slice();
        let across_lines = if sums.iter().any(|each| each.right % lanes as i64 != 0) { loads / 3 } else { 0 };
        let competing = competing_load(&self.sums, |each| each.right);
        again.saturating_mul(competing).saturating_add(across_lines)
    }

    /// Chooses the packing by the cycles that each way is expected to take. Returns those of the least.
    fn choose(&mut self, machine: &Machine, operands: [OperandKind; 2]) -> usize {
        let [left, right] = operands.map(OperandKind::is_computed);
        let (is_left_computed, is_computed) = if self.is_swapped { (right, left) } else { (left, right) };
        let (rows, columns, products) = (self.rows.count(), self.columns.count(), self.sums.count());
        let innermost = self.columns.innermost();
        let outer = self.columns.as_slice().split_last().map_or(&[][..], |(_, outer)| outer);
        let runs = self.columns.count() / innermost.count.max(1);
        let run = if runs == 1 { columns } else { innermost.count };
        let within = Tiling::of(machine.lanes, (machine.vectors, machine.rows), rows, runs, run);
        let crossing = Tiling::of(machine.lanes, (machine.vectors, machine.rows), rows, 1, columns);
        let vectors = runs * run.div_ceil(machine.lanes);
        let pieces = if runs > 1 && innermost.count < machine.lanes { 4 * runs } else { 2 * vectors };
        let is_transposable = self.sums.is_contiguous(|each| each.right) && !is_computed;
        let packing = packing_cycles(innermost.right, is_transposable, (pieces, vectors, columns));
        let moving = self.moving_cycles(rows, columns, (pieces, vectors));
        let moving_within = if innermost.output == 1 { 0 } else { moving };
        let across = (Form::Across.is_used() && !is_computed && !is_left_computed)
            .then(|| Across::of(self, machine.lanes))
            .flatten();
        let batches = self.batch.count();
        let numbers_compete = if is_left_computed { 0 } else { competing_load(&self.sums, |each| each.left) };
        let whole = |tiling: Tiling, packing: usize, moving: usize| {
            // A line holds the numbers of several tiles.
            let competing = if rows > tiling.rows { tiling.tiles.saturating_mul(numbers_compete) } else { 0 };
            let cycles = tiling.cycles().saturating_add(packing).saturating_add(competing);
            let cycles = cycles.saturating_mul(products).saturating_add(moving);
            cycles.saturating_add(tiling.beginning).saturating_mul(batches)
        };
        let is_loadable = |stride: i64| innermost.right == stride && innermost.output == 1 && !is_computed;
        let has_whole_vectors = machine.has_masks || run.is_multiple_of(machine.lanes);
        let is_even = Form::EvenColumns.is_used() && has_whole_vectors && is_loadable(2);
        let again = vectors.saturating_mul(rows.div_ceil(within.rows).saturating_sub(1));
        let loading = self.load_cycles(machine.lanes, within.vectors_loaded * runs, again);
        let is_near = innermost.right.unsigned_abs() < 1 << 16;
        let transposed = self.transposed(machine, runs, vectors);
        let is_unpacked = innermost.right == 1 && !is_computed;
        let gaxpy = Tiling::gaxpy(machine.lanes, runs, run);
        let is_gaxpy = Form::Gaxpy.is_used()
            && is_unpacked
            && innermost.output == 1
            && rows == 1
            && within.vectors * machine.lanes < run;
        let separate =
            Tiling::separate(machine, self.lines_of_windows(outer, &innermost), (runs, run), innermost.right);
        // Of a layout's panel, one that loads a part of each line would come back for the others.
        let loads_parts = operands.contains(&OperandKind::Layout) && run > separate.vectors * machine.lanes;
        let is_separate = (is_loadable(1) || is_even) && rows == 1 && !loads_parts;
        let is_transposed = Form::Transposed.is_used() && is_transposable && is_near;
        let way = |is: bool, packing: Packing, tiling: Tiling, cycles: usize| is.then_some((cycles, packing, tiling));
        let crossing = (
            if Form::CrossingPanels.is_used() { whole(crossing, packing, moving) } else { usize::MAX },
            Packing::CrossingPanels,
            crossing,
        );
        let others = [
            way(is_unpacked && !is_gaxpy, Packing::None, within, whole(within, loading, moving_within)),
            way(is_gaxpy, Packing::Gaxpy, gaxpy, whole(gaxpy, 0, 0)),
            way(is_separate, Packing::Separate, separate, whole(separate, 0, 0)),
            way(is_transposed, Packing::Transposed, transposed, whole(transposed, 0, moving_within)),
            across.as_ref().map(|across| (across.cycles, Packing::Across, Tiling::ACROSS)),
        ];
        let panels = (whole(within, packing, moving_within), Packing::Panels, within);
        // Of equal ones, the last.
        let ways = [crossing].into_iter().chain(others.into_iter().flatten());
        let (cycles, packing, tiling) = ways.fold(panels, |best, way| if way.0 <= best.0 { way } else { best });
        (self.packing, self.vectors, self.tile_rows) = (packing, tiling.vectors, tiling.rows);
        self.arrange(across.as_ref());
        cycles
    }

    /// Micro-tiles that transpose the right operand in registers.
    fn transposed(&self, machine: &Machine, runs: usize, vectors: usize) -> Tiling {
        let (rows, innermost) = (self.rows.count(), self.columns.innermost());
        // The columns of two vectors are in more lines than a set has, if all of them compete for one.
        let widths = if innermost.right % LINES_OF_A_SET == 0 { 1 } else { machine.transposed.len() };
        let tiling = Tiling::of(machine.lanes, (widths, &machine.transposed[..widths]), rows, runs, innermost.count);
        let transposing = TRANSPOSITION * vectors * rows.div_ceil(tiling.rows);
        Tiling { busy: tiling.busy.saturating_add(transposing), ..tiling }
    }

    /// The cycles to copy rows of tiles from the output and back, unless they are there as they are.
    fn moving_cycles(&self, rows: usize, columns: usize, (pieces, vectors): (usize, usize)) -> usize {
        let is_row_adjacent = self.rows.is_contiguous(|each| each.output);
        match self.columns.innermost().output {
            1 if self.columns.is_contiguous(|each| each.output) => 0,
            1 => 2 * rows * pieces,
            _ if is_row_adjacent => TRANSPOSED_THERE_AND_BACK * rows * vectors,
            _ => 2 * rows * (pieces + columns),
        }
    }

    /// Makes the loops those that tiles of the packing run over.
    fn arrange(&mut self, across: Option<&Across>) {
        match (self.packing, across) {
            (Packing::Separate, _) => {
                // A row is an iteration of the other loops of the columns.
                self.rows = self.columns;
                let innermost = self.rows.remove(self.columns.as_slice().len() - 1);
                self.columns = Loops::of(innermost);
            }
            (Packing::Across, Some(across)) => {
                self.across = self.batch.remove(across.at);
                self.rows = core::mem::take(&mut self.columns);
            }
            _ => {}
        }
    }
}

/// The cycles to pack all columns of a product: each piece of a strip is copied, in some cycles if its elements are adjacent or those of
/// the products are. Two chunks are the shorter ones, which overlap.
const fn packing_cycles(
    stride: i64,
    is_transposable: bool,
    (pieces, vectors, columns): (usize, usize, usize),
) -> usize {
    match stride {
        1 => pieces,
        2 => pieces + columns / 2,
        _ if is_transposable => PACKED_TRANSPOSITION * vectors,
        _ => pieces + columns,
    }
}

/// The cycles to load from a line again, above those from the first cache, where the lines for the products of a loop are all in one set of
/// that cache or in two, and twice as many as these hold. Loads from lines in four sets or more took no longer.
fn competing_load(sums: &Loops, stride: impl Fn(&Loop) -> i64) -> usize {
    let of_loop = |each: &Loop| match (stride(each), each.count.min(PRODUCTS)) {
        (0, _) => 0,
        _ if !Form::CompetingLoads.is_used() => 0,
        (stride, lines) if stride % LINES_OF_A_SET == 0 && lines >= 2 * WAYS => COMPETING_LOAD,
        (stride, lines) if stride % (LINES_OF_A_SET / 2) == 0 && lines >= 4 * WAYS => COMPETING_LOAD_OF_TWO,
        _ => 0,
    };
    sums.as_slice().iter().map(of_loop).max().unwrap_or(0)
}

/// Elements of operands that stay in the first cache, while the tiles of other strips read them again.
const REPEATED: usize = 4096;

/// Lanes across a loop of the batch.
struct Across {
    /// The loop, among those of the batch.
    at: usize,
    /// The cycles for all its iterations.
    cycles: usize,
}

impl Across {
    /// Of the longest loop. None where rows have left operands of their own, or panels cannot hold what the products access.
    fn of(plan: &Plan, lanes: usize) -> Option<Across> {
        let loops = plan.batch.as_slice();
        let at = (0..loops.len()).max_by_key(|at| loops[*at].count)?;
        let (across, rows, products) = (loops[at], plan.columns.count(), plan.sums.count());
        let capacity = PANEL / lanes;
        let (left, right) = (plan.sums.span(|each| each.left), plan.sums.span(|each| each.right));
        let is_packed = [across.output, across.left, across.right].map(|stride| stride != 1);
        if plan.rows.count() != 1 || (is_packed[1] && left > capacity) || (is_packed[2] && right > capacity / 2) {
            return None;
        }
        let packed =
            |is_packed: bool, lines: usize, each: usize| if is_packed { lines.saturating_mul(each) } else { 0 };
        let span = plan.columns.span(|each| each.right).saturating_add(right);
        let packing = packed(is_packed[0], rows, TRANSPOSED_THERE_AND_BACK)
            .saturating_add(packed(is_packed[1], left, PACKED_TRANSPOSITION))
            .saturating_add(packed(is_packed[2], span, PACKED_TRANSPOSITION));
        // Of eight rows, nine vectors are loaded, two a cycle.
        let tiles = rows.div_ceil(8);
        let tile = products.saturating_mul(9).div_ceil(LOADS_A_CYCLE).saturating_add(TILE);
        let runs = across.count.div_ceil(lanes).saturating_mul(plan.batch.count() / across.count.max(1));
        let cycles = packing.saturating_add(tiles.saturating_mul(tile)).saturating_mul(runs);
        Some(Across { at, cycles })
    }
}

/// The loop along which elements of the output are adjacent: the one with the most iterations.
fn adjacent(loops: &Loops) -> Option<usize> {
    let all = loops.as_slice();
    (0..all.len()).filter(|at| all[*at].output == 1).max_by_key(|at| all[*at].count)
}
