//! `GridSample` and `AffineGrid`.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Element, FloatPredicate, IntPredicate, Value};

use super::{Row, onnx};
use crate::context::Context;
use crate::convert::{converted, truncated};
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::kit::{read, wrong_type};
use crate::node::{Node, Outputs, invalid, one, unsupported};

pub(super) const ROWS: &[Row] = &[onnx("GridSample", 16, grid_sample), onnx("AffineGrid", 20, affine_grid)];

/// What an element outside of the input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Padding {
    Zeros,
    Border,
    Reflection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Nearest,
    Linear,
    Cubic,
}

/// How positions become elements.
#[derive(Clone, Copy)]
struct Sampling {
    mode: Mode,
    padding: Padding,
    align_corners: bool,
    /// The type of coordinates and weights: `f32` or `f64`.
    coordinate: Element,
}

/// An element along one dimension: its index, its weight, and whether it lies within the input (`None`: always).
#[derive(Clone, Copy)]
struct Tap {
    index: Value,
    weight: Option<Value>,
    is_inside: Option<Value>,
}

fn grid_sample(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let (x, grid) = (node.input(0)?, node.input(1)?);
    let mode = match node.text_or("mode", "linear")? {
        "nearest" => Mode::Nearest,
        "linear" | "bilinear" => Mode::Linear,
        "cubic" | "bicubic" => Mode::Cubic,
        other => return unsupported(format!("the mode `{other}` is not known")),
    };
    let padding = match node.text_or("padding_mode", "zeros")? {
        "zeros" => Padding::Zeros,
        "border" => Padding::Border,
        "reflection" => Padding::Reflection,
        other => return unsupported(format!("the padding mode `{other}` is not known")),
    };
    if !grid.ty.is_float() {
        return wrong_type(grid.ty);
    }
    if x.ty == DataType::Bool && mode != Mode::Nearest {
        return wrong_type(x.ty);
    }
    let (Some([batch, channels]), Some(spatial)) = (x.shape.get(..2), x.shape.get(2..)) else {
        return invalid(format!("a tensor of rank {} has no spatial dimensions", x.rank()));
    };
    let rank = spatial.len();
    let (Some(first), Some(last), Some(to)) = (grid.shape.first(), grid.shape.last(), grid.shape.get(1..=rank)) else {
        return invalid(format!("the grid has rank {}, not {}", grid.rank(), rank + 2));
    };
    if rank == 0 || grid.rank() != rank + 2 {
        return invalid(format!("the grid has rank {}, not {}", grid.rank(), rank + 2));
    }
    if rank > 3 && mode != Mode::Nearest {
        return unsupported(format!("{rank} spatial dimensions are not supported in this mode"));
    }
    cx.require_equal(first, batch, "the number of batches of the grid")?;
    let coordinates = Dim::constant(i64::try_from(rank).unwrap_or(i64::MAX));
    cx.require_equal(last, &coordinates, "the number of coordinates of the grid")?;
    let mut shape = vec![batch.clone(), channels.clone()];
    shape.extend_from_slice(to);
    let lengths: Vec<Value> = spatial.iter().map(|dim| cx.index(dim)).collect();
    let (image, positions) = (cx.value(x)?, cx.value(grid)?);
    let (ty, grid_ty) = (x.ty, grid.ty);
    let sampling =
        Sampling { mode, padding, align_corners: node.flag("align_corners"), coordinate: grid_ty.computed().element() };
    one(cx.generate(&shape, ty, |b, at| {
        let mut taps = Vec::new();
        for (dimension, length) in lengths.iter().enumerate() {
            // The grid has the coordinate of the last dimension first.
            let mut place = vec![at[0]];
            place.extend(at.iter().skip(2));
            let coordinate = i64::try_from(rank - 1 - dimension).unwrap_or(0);
            place.push(b.index(coordinate));
            let normalised = read(b, positions, &place, grid_ty);
            taps.push(sampling.taps(b, normalised, *length));
        }
        let prefix = at.iter().take(2).copied().collect::<Vec<_>>();
        combined(b, image, ty, &prefix, &taps)
    })?)
}

impl Sampling {
    /// Finds the elements along a dimension of `length` elements for a coordinate between -1 and 1.
    fn taps(&self, b: &mut Builder, normalised: Value, length: Value) -> Vec<Tap> {
        let element = self.coordinate;
        let length = b.index_cast(length, Element::I64);
        let extent = b.sitofp(length, element);
        let (one, half) = (b.float(1.0, element), b.float(0.5, element));
        let shifted = b.addf(normalised, one);
        let last = b.subf(extent, one);
        let x = if self.align_corners {
            let halved = b.mulf(shifted, half);
            b.mulf(halved, last)
        } else {
            let scaled = b.mulf(shifted, extent);
            let less = b.subf(scaled, one);
            b.mulf(less, half)
        };
        if self.mode == Mode::Nearest {
            let x = rounded(b, x);
            return vec![self.tap(b, x, None, length, extent)];
        }
        let floor = b.floor(x);
        let rest = b.subf(x, floor);
        let (first, weights) = match self.mode {
            Mode::Cubic => (-1.0, cubic_weights(b, rest)),
            _ => (0.0, vec![b.subf(one, rest), rest]),
        };
        let mut taps = Vec::new();
        for (offset, weight) in (0..).zip(weights) {
            let offset = b.float(first + f64::from(offset), element);
            let position = b.addf(floor, offset);
            taps.push(self.tap(b, position, Some(weight), length, extent));
        }
        taps
    }

    /// The element at a whole position.
    fn tap(&self, b: &mut Builder, position: Value, weight: Option<Value>, length: Value, extent: Value) -> Tap {
        let element = self.coordinate;
        let mut position = position;
        let mut is_inside = None;
        match self.padding {
            Padding::Border => {}
            Padding::Reflection => {
                let reflected = self.reflected(b, position, extent);
                position = truncated(b, reflected);
            }
            Padding::Zeros => {
                let zero = b.float(0.0, element);
                let is_low = b.cmpf(FloatPredicate::OrderedGreaterEqual, position, zero);
                let is_high = b.cmpf(FloatPredicate::OrderedLess, position, extent);
                is_inside = Some(b.andi(is_low, is_high));
            }
        }
        let index = clamped(b, position, length);
        Tap { index, weight, is_inside }
    }

    /// Reflects a position at the borders until it is within.
    fn reflected(&self, b: &mut Builder, x: Value, extent: Value) -> Value {
        let element = self.coordinate;
        let (low, range) = if self.align_corners {
            let one = b.float(1.0, element);
            (b.float(0.0, element), b.subf(extent, one))
        } else {
            (b.float(-0.5, element), extent)
        };
        let high = b.addf(low, range);
        let (below, above) = (b.subf(low, x), b.subf(x, high));
        // The distance beyond the nearer border: negative within.
        let distance = b.maximumf(below, above);
        let quotient = b.divf(distance, range);
        let count = b.floor(quotient);
        let whole = b.mulf(count, range);
        let rest = b.subf(distance, whole);
        let half = b.float(0.5, element);
        let halved = b.mulf(count, half);
        let floor = b.floor(halved);
        let is_even = b.cmpf(FloatPredicate::OrderedEqual, halved, floor);
        let is_low = b.cmpf(FloatPredicate::OrderedLess, x, low);
        // An even number of reflections counts from the border that the position is beyond.
        let counts_from_low = b.cmpi(IntPredicate::Equal, is_even, is_low);
        let (from_low, from_high) = (b.addf(low, rest), b.subf(high, rest));
        let moved = b.select(counts_from_low, from_low, from_high);
        let zero = b.float(0.0, element);
        let is_beyond = b.cmpf(FloatPredicate::OrderedGreater, distance, zero);
        b.select(is_beyond, moved, x)
    }
}

/// Rounds to the nearest integer, halves to the even one.
fn rounded(b: &mut Builder, x: Value) -> Value {
    let element = b.element_of(x);
    let (half, one) = (b.float(0.5, element), b.float(1.0, element));
    let floor = b.floor(x);
    let rest = b.subf(x, floor);
    let halved = b.mulf(floor, half);
    let cut = b.floor(halved);
    let is_odd = b.cmpf(FloatPredicate::UnorderedNotEqual, halved, cut);
    let is_tie = b.cmpf(FloatPredicate::OrderedEqual, rest, half);
    let is_above = b.cmpf(FloatPredicate::OrderedGreater, rest, half);
    let tie_up = b.andi(is_tie, is_odd);
    let is_up = b.ori(is_above, tie_up);
    let next = b.addf(floor, one);
    b.select(is_up, next, floor)
}

/// The type of a float of `f32` or `f64`.
fn float_type(element: Element) -> DataType {
    if element == Element::F64 { DataType::F64 } else { DataType::F32 }
}

/// Converts a whole position to an index within the tensor.
fn clamped(b: &mut Builder, position: Value, length: Value) -> Value {
    let element = b.element_of(position);
    // A position beyond the integers is one beyond the tensor.
    let (low, high) = (b.float(-1.0, element), b.float(1e15, element));
    let raised = b.maximumf(position, low);
    let finite = b.minimumf(raised, high);
    let index = converted(b, finite, float_type(element), DataType::I64);
    let (zero, one) = (b.int(0, Element::I64), b.int(1, Element::I64));
    let last = b.subi(length, one);
    let lesser = b.minsi(index, last);
    let within = b.maxsi(lesser, zero);
    b.index_cast(within, Element::Index)
}

/// The weights of the four elements around a position whose fraction is `rest`, for a coefficient of -0.75.
fn cubic_weights(b: &mut Builder, rest: Value) -> Vec<Value> {
    const A: f64 = -0.75;
    let element = b.element_of(rest);
    let one = b.float(1.0, element);
    let opposite = b.subf(one, rest);
    let (before, behind) = (b.addf(rest, one), b.addf(opposite, one));
    let polynomial = |b: &mut Builder, x: Value, coefficients: [f64; 4]| {
        let [first, others @ ..] = coefficients;
        let mut sum = b.float(first, element);
        for coefficient in others {
            let product = b.mulf(sum, x);
            let term = b.float(coefficient, element);
            sum = b.addf(product, term);
        }
        sum
    };
    let far = [A, -5.0 * A, 8.0 * A, -4.0 * A];
    let near = [A + 2.0, -(A + 3.0), 0.0, 1.0];
    vec![
        polynomial(b, before, far),
        polynomial(b, rest, near),
        polynomial(b, opposite, near),
        polynomial(b, behind, far),
    ]
}

/// Adds the weighted elements of all combinations of taps.
fn combined(b: &mut Builder, image: Value, ty: DataType, prefix: &[Value], taps: &[Vec<Tap>]) -> Value {
    let work = if ty == DataType::F64 { DataType::F64 } else { DataType::F32 };
    let is_plain = taps.iter().all(|taps| taps.iter().all(|tap| tap.weight.is_none()));
    let sum = summed(b, &Image { value: image, ty, work, is_plain }, prefix, taps, None);
    if is_plain || work == ty.computed() {
        return sum;
    }
    let mut sum = sum;
    if let Some((low, high)) = ty.range() {
        let element = work.element();
        let (low, high) = (b.float(low as f64, element), b.float(high as f64, element));
        let raised = b.maximumf(sum, low);
        sum = b.minimumf(raised, high);
    }
    converted(b, sum, work, ty)
}

/// The tensor that is read.
struct Image {
    value: Value,
    ty: DataType,
    /// The type of sums.
    work: DataType,
    /// There are no weights: elements keep their type.
    is_plain: bool,
}

fn summed(b: &mut Builder, image: &Image, prefix: &[Value], taps: &[Vec<Tap>], is_inside: Option<Value>) -> Value {
    let Some((first, rest)) = taps.split_first() else {
        let element = read(b, image.value, prefix, image.ty);
        let element = if image.is_plain { element } else { converted(b, element, image.ty, image.work) };
        return match is_inside {
            None => element,
            Some(is_inside) => {
                let ty = b.element_of(element);
                let zero = b.int(0, ty);
                b.select(is_inside, element, zero)
            }
        };
    };
    let mut sum = None;
    for tap in first {
        let mut place = prefix.to_vec();
        place.push(tap.index);
        let inside = match (is_inside, tap.is_inside) {
            (Some(outer), Some(own)) => Some(b.andi(outer, own)),
            (outer, own) => outer.or(own),
        };
        let mut term = summed(b, image, &place, rest, inside);
        if let Some(weight) = tap.weight {
            let from = float_type(b.element_of(weight));
            let weight = converted(b, weight, from, image.work);
            term = b.mulf(term, weight);
        }
        sum = Some(sum.map_or(term, |sum| b.addf(sum, term)));
    }
    sum.unwrap_or_else(|| b.float(0.0, image.work.element()))
}

fn affine_grid(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let theta = node.input(0)?;
    if !theta.ty.is_float() {
        return wrong_type(theta.ty);
    }
    let size = cx.integers(node.input(1)?)?;
    let (Some([batch, _]), Some(spatial)) = (size.get(..2), size.get(2..)) else {
        return invalid(format!("a size of {} extents has no spatial dimensions", size.len()));
    };
    let rank = spatial.len();
    let [matrices, rows, columns] = &*theta.shape else {
        return invalid(format!("`theta` has rank {}, not 3", theta.rank()));
    };
    let count = i64::try_from(rank).unwrap_or(i64::MAX);
    cx.require_equal(matrices, batch, "the number of matrices of `theta`")?;
    cx.require_equal(rows, &Dim::constant(count), "the number of rows of `theta`")?;
    cx.require_equal(columns, &Dim::constant(count + 1), "the number of columns of `theta`")?;
    let mut shape = vec![batch.clone()];
    shape.extend_from_slice(spatial);
    shape.push(Dim::constant(count));
    let lengths: Vec<Value> = spatial.iter().map(|dim| cx.index(dim)).collect();
    let (ty, value) = (theta.ty, cx.value(theta)?);
    let align_corners = node.flag("align_corners");
    one(cx.generate(&shape, ty, |b, at| {
        let element = ty.computed().element();
        let row = at[rank + 1];
        let last = b.index(count);
        let mut sum = read(b, value, &[at[0], row, last], ty);
        for (dimension, length) in lengths.iter().enumerate() {
            // The first column is for the coordinate of the last dimension.
            let column = b.index(count - 1 - i64::try_from(dimension).unwrap_or(0));
            let factor = read(b, value, &[at[0], row, column], ty);
            let position = coordinate(b, at[dimension + 1], *length, align_corners, element);
            let product = b.mulf(factor, position);
            sum = b.addf(sum, product);
        }
        sum
    })?)
}

/// The coordinate of an index between -1 and 1.
fn coordinate(b: &mut Builder, index: Value, length: Value, align_corners: bool, element: Element) -> Value {
    let (index, length) = (b.index_cast(index, Element::I64), b.index_cast(length, Element::I64));
    let one = b.int(1, Element::I64);
    let doubled = b.addi(index, index);
    let (numerator, divisor) = if align_corners {
        let last = b.subi(length, one);
        (doubled, b.maxsi(last, one))
    } else {
        (b.addi(doubled, one), length)
    };
    let (numerator, divisor) = (b.sitofp(numerator, element), b.sitofp(divisor, element));
    let quotient = b.divf(numerator, divisor);
    let one = b.float(1.0, element);
    b.subf(quotient, one)
}
