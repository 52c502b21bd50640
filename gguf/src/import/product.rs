//! Products with matrices of weights, and rows of embeddings.
//!
//! A product with one vector computes elements of weights where they are used. Each of 16 lanes sums the elements of a row whose positions
//! are congruent, and the lanes are added at last: so the loop over lanes is a vector. A product with many vectors computes all
//! elements of the weights first, and is an ordinary product of matrices then.

use incarnate_mlir::{Builder, Element, Extent, IntPredicate, Iterator, Map, Value};

use super::blocks::{Block, Format, INTEGER_LANES, LANES, Scales, float_of};
use super::rounding::{Quantized, elements_of_lane, first_of_lane, quantized, rounded};
use super::weight::{Weight, constants};

/// The vectors of a call: one for each token.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rows {
    /// One.
    One,
    /// A few, of several conversations: each element of a weight is computed once for all of them.
    Few(i64),
    /// A number that is known when the module runs: a value of type `index`.
    Many(Value),
}

impl Rows {
    /// The first extent of tensors.
    pub(super) fn extent(self) -> Extent {
        match self {
            Rows::One => Extent::Constant(1),
            Rows::Few(count) => Extent::Constant(count),
            Rows::Many(count) => Extent::Value(count),
        }
    }
}

/// Rows of weights whose elements a workgroup computes.
const ROWS_OF_WORKGROUP: i64 = 64;

/// The dimensions of a loop nest whose last ones are those of [`Weight::split_groups`].
fn element(b: &mut Builder, weight: &Weight, stored: Value, row: Value, first: usize) -> Value {
    let groups: Vec<Extent> =
        (0..weight.format.groups.len()).map(|index| b.iteration(first + 1 + index).into()).collect();
    let (block, lane) = (b.iteration(first), b.iteration(first + 1 + groups.len()));
    weight.format.element(b, &weight.block(stored, [row, block]), &groups, lane)
}

/// Multiplies vectors `[rows, columns]` with the rows of a weight: `[rows, rows of the weight]`. `addend` of the same shape is
/// added.
pub(super) fn product(b: &mut Builder, rows: Rows, x: Value, weight: &Weight, addend: Option<Value>) -> Value {
    match rows {
        Rows::One => {
            let x = b.collapse_shape(x, &[vec![0, 1]]);
            let addend = addend.map(|addend| b.collapse_shape(addend, &[vec![0, 1]]));
            let y = product_of_one(b, x, weight, addend);
            b.expand_shape(y, &[vec![0, 1]], &constants(&[1, weight.rows]))
        }
        Rows::Few(count) => {
            let x = rounded(b, rows.extent(), x, weight);
            product_of_few(b, count, x, weight, addend)
        }
        Rows::Many(_) => {
            let x = rounded(b, rows.extent(), x, weight);
            product_of_many(b, rows, x, weight, addend)
        }
    }
}

/// Multiplies a vector with the rows of a weight.
///
/// The loops run over rows, blocks, groups and lanes. Where groups that differ in their last dimension share a scale, that dimension is
/// unrolled: quanta are multiplied first, and their sums with the scale.
pub(super) fn product_of_one(b: &mut Builder, x: Value, weight: &Weight, addend: Option<Value>) -> Value {
    product_of_rows(b, x, weight, None, addend)
}

/// A matrix of a stack.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chosen {
    /// The tensor that holds the number of the matrix, as `i32`. A number that is none of a matrix is that of the last one.
    pub(super) numbers: Value,
    /// The position of the number.
    pub(super) at: [Value; 2],
    /// How many matrices there are.
    pub(super) count: i64,
    /// Where they are in the stack.
    pub(super) rows: StackedRows,
}

/// Where matrices are in a stack.
#[derive(Clone, Copy, Debug)]
pub(super) struct StackedRows {
    /// Rows of a matrix.
    pub(super) count: i64,
    /// The first row of the first matrix.
    pub(super) first: i64,
    /// Rows from the first one of a matrix to that of the next matrix.
    pub(super) stride: i64,
}

impl Chosen {
    /// Computes the first row of the matrix.
    fn first_row(&self, b: &mut Builder) -> Value {
        let number = b.extract(self.numbers, &self.at);
        let (last, stride) = (b.int(self.count - 1, Element::I32), b.index(self.rows.stride));
        let number = b.minui(number, last);
        let number = b.index_castui(number, Element::Index);
        let row = b.muli(number, stride);
        if self.rows.first == 0 {
            return row;
        }
        let first = b.index(self.rows.first);
        b.addi(row, first)
    }
}

/// Multiplies a vector with the rows of a matrix out of a stack.
pub(super) fn product_of_chosen(
    b: &mut Builder,
    x: Value,
    weight: &Weight,
    chosen: &Chosen,
    addend: Option<Value>,
) -> Value {
    product_of_rows(b, x, weight, Some(chosen), addend)
}

/// The vector of a product.
enum Operand {
    /// Elements as `f32`: blocks, and their elements.
    Floats(Value),
    /// Integers with scales.
    Integers(Quantized),
}

impl Operand {
    fn of(b: &mut Builder, x: Value, weight: &Weight) -> Operand {
        match quantized(b, x, weight) {
            Some(quantized) => Operand::Integers(quantized),
            None => {
                let extents = constants(&weight.split_columns());
                Operand::Floats(b.expand_shape(x, &[vec![0, 1]], &extents))
            }
        }
    }

    /// How many sums a row has.
    fn sums(&self) -> i64 {
        match self {
            Operand::Floats(_) => LANES,
            Operand::Integers(_) => INTEGER_LANES,
        }
    }
}

/// Multiplies a vector with the rows of a weight, or of a chosen matrix of it.
fn product_of_rows(
    b: &mut Builder,
    x: Value,
    weight: &Weight,
    chosen: Option<&Chosen>,
    addend: Option<Value>,
) -> Value {
    let stored = weight.load(b);
    let x = Operand::of(b, x, weight);
    let zero = b.float(0.0, Element::F32);
    let count = chosen.map_or(weight.rows, |chosen| chosen.rows.count);
    let rows = constants(&[count]);
    b.dispatch(&rows, |b| {
        // Read before the loops, so that the positions of blocks are sums of multiples of indices.
        let first = chosen.map(|chosen| chosen.first_row(b));
        // States the extent of the loop over blocks; it is not read.
        let window = b.empty(&constants(&[weight.columns / weight.format.elements()]), Element::F32);
        let sums = b.fill(zero, &constants(&[count, x.sums()]));
        let maps = [Map::of(3, &[1]), Map::of(3, &[0, 2])];
        let iterators = [Iterator::Parallel, Iterator::Reduction, Iterator::Parallel];
        let sums = b.generic_single(&[window], sums, &maps, &iterators, |b, sum| {
            let [mut row, block, lane] = [0, 1, 2].map(|dimension| b.iteration(dimension));
            if let Some(first) = first {
                row = b.addi(first, row);
            }
            let block_of_weight = weight.block(stored, [row, block]);
            match &x {
                Operand::Floats(x) => add_products(b, weight, (&block_of_weight, *x), lane, sum[1]),
                Operand::Integers(x) => add_products_of_integers(b, weight, (&block_of_weight, x), lane, sum[1]),
            }
        });
        let initial = addend.unwrap_or_else(|| b.fill(zero, &rows));
        let maps = [Map::identity(2), Map::of(2, &[0])];
        let iterators = [Iterator::Parallel, Iterator::Reduction];
        b.generic_single(&[sums], initial, &maps, &iterators, |b, x| b.addf(x[1], x[0]))
    })
}

/// Adds the products of a lane of a block and those of a vector, group by group: loops over groups would repeat what all of them have in common.
/// Quanta of groups that share a scale are multiplied first, and their sum with the scale.
fn add_products(b: &mut Builder, weight: &Weight, (block, x): (&Block, Value), lane: Value, mut sum: Value) -> Value {
    let [_, at] = block.at;
    let of_block = weight.format.scales_of_block(b, block);
    let mut first = 0;
    for groups in weight.format.all_groups().chunks(weight.format.groups_of_scale() as usize) {
        let (mut products, mut all) = (None, None);
        for group in groups {
            let element = at_lane(b, first, lane);
            let x = b.extract(x, &[at, element]);
            let factor = if groups.len() > 1 {
                let quantum = weight.format.quantum(b, block, group, lane);
                float_of(b, quantum)
            } else {
                weight.format.element(b, block, group, lane)
            };
            let product = b.mulf(factor, x);
            products = Some(products.map_or(product, |products| b.addf(products, product)));
            all = Some(all.map_or(x, |all| b.addf(all, x)));
            first += LANES;
        }
        let ([group, ..], Some(mut products), Some(all)) = (groups, products, all) else { return sum };
        if groups.len() > 1 {
            let of_group = weight.format.scales_of_group(b, block, group);
            let scales = of_block.times(b, of_group);
            products = scaled(b, [products, all], scales);
        }
        sum = b.addf(sum, products);
    }
    sum
}

/// The product of a sum of quanta's products with the scale, and that of a sum of elements with the minimum.
fn scaled(b: &mut Builder, [products, all]: [Value; 2], Scales { scale, minimum }: Scales) -> Value {
    let scaled = scale.map_or(products, |scale| b.mulf(products, scale));
    match minimum {
        Some(minimum) => {
            let shifted = b.mulf(all, minimum);
            b.addf(scaled, shifted)
        }
        None => scaled,
    }
}

/// [`add_products`] of a lane of integers, which are added within the block. Processors have instructions for products of a few adjacent
/// integers.
fn add_products_of_integers(
    b: &mut Builder,
    weight: &Weight,
    (block, x): (&Block, &Quantized),
    lane: Value,
    sum: Value,
) -> Value {
    let [_, at] = block.at;
    let of_lane = elements_of_lane(weight);
    let group_length = of_lane * INTEGER_LANES;
    let groups_of_scale = weight.format.groups_of_scale().max(group_length / LANES);
    let first_of_lane = first_of_lane(b, weight, lane);
    let (mut products, mut minima, mut first) = (Vec::new(), Vec::new(), 0);
    for groups in weight.format.all_groups().chunks(groups_of_scale as usize) {
        let mut of_scale = Vec::new();
        for group in groups.iter().step_by((group_length / LANES) as usize) {
            let mut of_group = Vec::new();
            for element in 0..of_lane {
                let element = at_lane(b, element, first_of_lane);
                let quantum = weight.format.quantum(b, block, group, element);
                let element = at_lane(b, first, element);
                let x = x.quantum(b, at, element);
                of_group.push(b.muli(quantum, x));
            }
            of_scale.extend(of_group.into_iter().reduce(|sum, product| b.addi(sum, product)));
            first += group_length;
        }
        let Some(of_scale) = sum_of(b, of_scale) else { return sum };
        let of_groups = scales_of_lane(b, weight.format, block, groups, lane);
        products.push(of_groups.scale.map_or(of_scale, |scale| b.muli(of_scale, scale)));
        minima.extend(of_groups.minimum);
    }
    let Some(products) = sum_of(b, products) else { return sum };
    let scale_of_x = x.scale(b, at);
    let products = b.sitofp(products, Element::F32);
    let of_block = weight.format.scales_of_block(b, block);
    let scale = of_block.scale.map_or(scale_of_x, |scale| b.mulf(scale, scale_of_x));
    let (all, minimum) = match of_block.minimum.zip(x.sums) {
        None => (products, None),
        Some((minimum, sums_of_x)) if minima.is_empty() => (sums_of_x.of_block(b, at, lane), Some(minimum)),
        Some((minimum, sums_of_x)) => {
            let mut sums = Vec::new();
            for (index, minima) in minima.chunks_exact(2).enumerate() {
                let index = b.index(index as i64);
                let all = sums_of_x.of_groups(b, [at, index, lane]);
                let [first, second] = [0, 1].map(|group| b.muli(minima[group], all[group]));
                sums.push(b.addi(first, second));
            }
            let sum = sum_of(b, sums).unwrap_or(lane);
            (b.sitofp(sum, Element::F32), Some(b.mulf(minimum, scale_of_x)))
        }
    };
    let scaled = scaled(b, [products, all], Scales { scale: Some(scale), minimum });
    b.addf(sum, scaled)
}

/// The numbers that the products of a lane are multiplied with: those of the first half of the lanes are the first group's where two groups are
/// multiplied at once.
fn scales_of_lane(b: &mut Builder, format: Format, block: &Block, groups: &[Vec<Extent>], lane: Value) -> Scales {
    let [group, others @ ..] = groups else { return Scales::default() };
    let of_first = format.scales_of_group(b, block, group);
    let Some(other) = others.first().filter(|_| format.groups_of_scale() == 1) else { return of_first };
    let (of_other, half) = (format.scales_of_group(b, block, other), b.index(INTEGER_LANES / 2));
    let is_first = b.cmpi(IntPredicate::UnsignedLess, lane, half);
    let mut chosen = |first: Option<Value>, other: Option<Value>| Some(b.select(is_first, first?, other?));
    Scales { scale: chosen(of_first.scale, of_other.scale), minimum: chosen(of_first.minimum, of_other.minimum) }
}

/// The position of the element of a lane, from the first one of its group on.
fn at_lane(b: &mut Builder, first: i64, lane: Value) -> Value {
    let first = b.index(first);
    b.addi(first, lane)
}

/// The sum of integers, as a tree: chains of products and sums would become other instructions.
fn sum_of(b: &mut Builder, mut values: Vec<Value>) -> Option<Value> {
    while values.len() > 1 {
        values =
            values.chunks(2).map(|pair| pair.iter().copied().reduce(|x, y| b.addi(x, y)).unwrap_or(pair[0])).collect();
    }
    values.first().copied()
}

/// Multiplies a few vectors with the rows of a weight. The loops are those of [`product_of_one`], with one over vectors behind that over
/// rows. Elements are computed whole, as all vectors share them.
fn product_of_few(b: &mut Builder, vectors: i64, x: Value, weight: &Weight, addend: Option<Value>) -> Value {
    let stored = weight.load(b);
    let columns = weight.split_groups();
    let mut extents = constants(&[vectors]);
    extents.extend(constants(&columns));
    let x = b.expand_shape(x, &[vec![0], (1..extents.len()).collect()], &extents);
    let shared = Some(weight.format.groups_of_scale()).filter(|count| *count > 1);
    // The loops over blocks and groups end before that over lanes, which is the last one.
    let lanes = columns.len() - usize::from(shared.is_some()) + 1;
    let zero = b.float(0.0, Element::F32);
    let results = constants(&[vectors, weight.rows]);
    b.dispatch(&results, |b| {
        let window = b.empty(&constants(columns.get(..lanes - 2).unwrap_or_default()), Element::F32);
        let (blocks, kept) = ((2..lanes).collect::<Vec<_>>(), [0, 1, lanes]);
        let mut iterators = vec![Iterator::Reduction; lanes + 1];
        for dimension in kept {
            iterators[dimension] = Iterator::Parallel;
        }
        let sums = b.fill(zero, &constants(&[weight.rows, vectors, LANES]));
        let maps = [Map::of(lanes + 1, &blocks), Map::of(lanes + 1, &kept)];
        let sums = b.generic_single(&[window], sums, &maps, &iterators, |b, sum| {
            let vector = b.iteration(1);
            let at: Vec<Value> = (0..lanes).filter(|dimension| *dimension != 1).map(|at| b.iteration(at)).collect();
            let lane = b.iteration(lanes);
            let [row, block, groups @ ..] = &at[..] else { return sum[1] };
            let block_of_weight = weight.block(stored, [*row, *block]);
            let mut sum = sum[1];
            for index in 0..shared.unwrap_or(1) {
                let mut groups = groups.to_vec();
                groups.extend(shared.map(|_| b.index(index)));
                let group: Vec<Extent> = groups.iter().copied().map(Extent::Value).collect();
                let element = weight.format.element(b, &block_of_weight, &group, lane);
                let position: Vec<Value> = [vector, *block].iter().chain(&groups).chain([&lane]).copied().collect();
                let x = b.extract(x, &position);
                let product = b.mulf(element, x);
                sum = b.addf(sum, product);
            }
            sum
        });
        let initial = addend.unwrap_or_else(|| b.fill(zero, &results));
        let maps = [Map::of(3, &[1, 0, 2]), Map::of(3, &[0, 1])];
        let iterators = [Iterator::Parallel, Iterator::Parallel, Iterator::Reduction];
        b.generic_single(&[sums], initial, &maps, &iterators, |b, x| b.addf(x[1], x[0]))
    })
}

fn product_of_many(b: &mut Builder, rows: Rows, x: Value, weight: &Weight, addend: Option<Value>) -> Value {
    let elements = elements(b, weight);
    let initial = addend.unwrap_or_else(|| {
        let zero = b.float(0.0, Element::F32);
        b.fill(zero, &[rows.extent(), Extent::Constant(weight.rows)])
    });
    let maps = [Map::of(3, &[0, 2]), Map::of(3, &[1, 2]), Map::of(3, &[0, 1])];
    let iterators = [Iterator::Parallel, Iterator::Parallel, Iterator::Reduction];
    b.generic_single(&[x, elements], initial, &maps, &iterators, multiply_add)
}

/// The body of a product: the third value, and the product of the others.
pub(super) fn multiply_add(b: &mut Builder, x: &[Value]) -> Value {
    let product = b.mulf(x[0], x[1]);
    b.addf(x[2], product)
}

/// Computes all elements of a weight, in a dispatch of its own: `[rows, columns]`.
fn elements(b: &mut Builder, weight: &Weight) -> Value {
    let stored = weight.load(b);
    let columns = weight.split_groups();
    let extents: Vec<i64> = core::iter::once(weight.rows).chain(columns).collect();
    let mut sizes = vec![0; extents.len()];
    sizes[0] = ROWS_OF_WORKGROUP;
    let all = constants(&extents);
    let elements = b.dispatch(&all, |b| {
        let empty = b.empty(&all, Element::F32);
        let body = |b: &mut Builder, _: &[Value]| {
            let row = b.iteration(0);
            element(b, weight, stored, row, 1)
        };
        match weight.is_portable {
            true => b.distributed(empty, &sizes, body),
            false => {
                let iterators = vec![Iterator::Parallel; all.len()];
                b.generic_single(&[], empty, &[Map::identity(all.len())], &iterators, body)
            }
        }
    });
    b.collapse_shape(elements, &[vec![0], (1..all.len()).collect()])
}

/// Reads rows of a weight, by tokens `[rows] i32`, times a factor: `[rows, columns]`. A token that is none reads the last row.
pub(super) fn embedding(b: &mut Builder, rows: Rows, tokens: Value, weight: &Weight, factor: f64) -> Value {
    let stored = weight.load(b);
    let columns = weight.split_groups();
    let mut extents = vec![rows.extent()];
    extents.extend(constants(&columns));
    let empty = b.empty(&extents, Element::F32);
    let maps = [Map::of(extents.len(), &[0]), Map::identity(extents.len())];
    let iterators = vec![Iterator::Parallel; extents.len()];
    let embedded = b.generic_single(&[tokens], empty, &maps, &iterators, |b, x| {
        let last = b.int(weight.rows - 1, Element::I32);
        let token = b.minui(x[0], last);
        let row = b.index_castui(token, Element::Index);
        let element = element(b, weight, stored, row, 1);
        if factor == 1.0 {
            return element;
        }
        let factor = b.float(factor, Element::F32);
        b.mulf(element, factor)
    });
    b.collapse_shape(embedded, &[vec![0], (1..extents.len()).collect()])
}
