//! Operators that draw numbers.
//!
//! Numbers come from Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): the key is the
//! attribute `seed`, as the bits of an `f32` (an integer for `Dropout`), and the number of the operator among those of the model that
//! draw; the counter is the position of the element. Each call of a program therefore draws the same numbers. Without the attribute, the
//! seed is [`SEED`].

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Element, FloatPredicate, Iterator, Map, Value};

use super::{Row, onnx};
use crate::context::Context;
use crate::convert::{converted, widened};
use crate::data_type::{DataType, Kind};
use crate::dim::Dim;
use crate::kit::wrong_type;
use crate::node::{Node, Outputs, invalid, one};
use crate::tensor::Tensor;

pub(super) const ROWS: &[Row] = &[
    onnx("RandomNormal", 1, |cx, node| of_attribute(cx, node, Distribution::Normal)),
    onnx("RandomUniform", 1, |cx, node| of_attribute(cx, node, Distribution::Uniform)),
    onnx("RandomNormalLike", 1, |cx, node| of_input(cx, node, Distribution::Normal)),
    onnx("RandomUniformLike", 1, |cx, node| of_input(cx, node, Distribution::Uniform)),
    onnx("Bernoulli", 15, bernoulli),
    onnx("Multinomial", 7, multinomial),
];

/// The seed of operators without one.
const SEED: f32 = 0.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Distribution {
    Normal,
    Uniform,
}

/// The key of a stream of numbers.
#[derive(Clone, Copy, Debug)]
struct Stream {
    key: [u32; 2],
}

impl Stream {
    /// The stream of the next operator that draws.
    fn next(cx: &mut Context, node: &Node<'_>) -> Stream {
        let seed = node.attribute("seed").map_or(SEED, |seed| seed.f);
        Stream::of(cx, seed.to_bits())
    }

    /// The stream of the next operator that draws, of the bits of a seed.
    fn of(cx: &mut Context, seed: u32) -> Stream {
        let number = cx.random;
        cx.random += 1;
        Stream { key: [seed, u32::try_from(number & 0xFFFF_FFFF).unwrap_or(0)] }
    }

    /// Emits two words of 32 bits for a position.
    fn words(self, b: &mut Builder, position: Value) -> [Value; 2] {
        const ROTATIONS: [[i64; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
        let [first, second] = self.key;
        let keys = [first, second, 0x1BD1_1BDA ^ first ^ second];
        let key = |index: usize, added: u32| keys.get(index % 3).map_or(added, |key| key.wrapping_add(added));
        let word = |b: &mut Builder, word: u32| b.int(i64::from(word), Element::I32);
        let initial = word(b, key(0, 0));
        let mut x = b.addi(position, initial);
        let mut y = word(b, key(1, 0));
        for (round, rotations) in (1..=5).zip(ROTATIONS.iter().cycle()) {
            for rotation in rotations {
                x = b.addi(x, y);
                let (left, right) = (b.int(*rotation, Element::I32), b.int(32 - rotation, Element::I32));
                let (upper, lower) = (b.shli(y, left), b.shrui(y, right));
                let rotated = b.ori(upper, lower);
                y = b.xori(rotated, x);
            }
            let (added, other) = (word(b, key(round, 0)), word(b, key(round + 1, round as u32)));
            (x, y) = (b.addi(x, added), b.addi(y, other));
        }
        [x, y]
    }

    /// Emits a number from 0 to below 1, of type `f32` with `bits` random bits, or of type `f64` with 52.
    fn uniform(self, b: &mut Builder, position: Value, element: Element, bits: i64) -> Value {
        let [x, y] = self.words(b, position);
        if element == Element::F64 {
            return of_bits(b, [x, y]);
        }
        of_word(b, x, bits)
    }
}

/// A number from 0 to below 1 of the upper bits of a word.
fn of_word(b: &mut Builder, word: Value, bits: i64) -> Value {
    let unused = b.int(32 - bits, Element::I32);
    let upper = b.shrui(word, unused);
    let number = b.sitofp(upper, Element::F32);
    let factor = b.float((0.5_f64).powi(bits as i32), Element::F32);
    b.mulf(number, factor)
}

/// A number of type `f64` from 0 to below 1 of 52 bits of two words: the mantissa of one from 1 to below 2, less 1.
fn of_bits(b: &mut Builder, words: [Value; 2]) -> Value {
    let [high, low] = words.map(|word| b.extui(word, Element::I64));
    let (left, right) = (b.int(20, Element::I64), b.int(12, Element::I64));
    let (upper, lower) = (b.shli(high, left), b.shrui(low, right));
    let mantissa = b.ori(upper, lower);
    let exponent = b.int(0x3FF0_0000_0000_0000, Element::I64);
    let bits = b.ori(mantissa, exponent);
    let number = b.bitcast(bits, Element::F64);
    let one = b.float(1.0, Element::F64);
    b.subf(number, one)
}

/// The position of an element by rows, as a word; `strides` are the products of the extents behind each dimension.
fn position(b: &mut Builder, at: &[Value], strides: &[Value]) -> Value {
    let mut sum = None;
    for (index, stride) in at.iter().zip(strides) {
        let term = b.muli(*index, *stride);
        sum = Some(sum.map_or(term, |sum| b.addi(sum, term)));
    }
    let sum = sum.unwrap_or_else(|| b.index(0));
    let wide = b.index_cast(sum, Element::I64);
    b.trunci(wide, Element::I32)
}

fn strides(cx: &mut Context, shape: &[Dim]) -> Vec<Value> {
    let behind = |index: usize| Dim::product(shape.get(index + 1..).unwrap_or_default());
    let products: Vec<Dim> = (0..shape.len()).map(behind).collect();
    products.iter().map(|product| cx.index(product)).collect()
}

fn of_attribute(cx: &mut Context, node: &Node<'_>, distribution: Distribution) -> Result<Outputs> {
    let Some(shape) = node.ints("shape") else { return invalid("there is no attribute `shape`") };
    let shape: Vec<Dim> = shape.iter().copied().map(Dim::constant).collect();
    let ty = node.data_type("dtype")?.unwrap_or(DataType::F32);
    one(draw(cx, node, &shape, ty, distribution)?)
}

fn of_input(cx: &mut Context, node: &Node<'_>, distribution: Distribution) -> Result<Outputs> {
    let like = node.input(0)?;
    let ty = node.data_type("dtype")?.unwrap_or(like.ty);
    one(draw(cx, node, &like.shape, ty, distribution)?)
}

fn draw(cx: &mut Context, node: &Node<'_>, shape: &[Dim], ty: DataType, distribution: Distribution) -> Result<Tensor> {
    if !ty.is_float() {
        return wrong_type(ty);
    }
    let stream = Stream::next(cx, node);
    let element = ty.computed().element();
    let strides = strides(cx, shape);
    let [first, second] = match distribution {
        Distribution::Normal => [node.float_or("mean", 0.0), node.float_or("scale", 1.0)],
        Distribution::Uniform => [node.float_or("low", 0.0), node.float_or("high", 1.0)],
    };
    cx.generate(shape, ty, |b, at| {
        let position = position(b, at, &strides);
        match distribution {
            Distribution::Normal => {
                let number = normal(b, stream, position, element);
                let (mean, scale) = (b.float(first, element), b.float(second, element));
                let scaled = b.mulf(number, scale);
                b.addf(scaled, mean)
            }
            Distribution::Uniform => {
                let number = stream.uniform(b, position, element, mantissa(ty));
                let (low, range) = (b.float(first, element), b.float(second - first, element));
                let scaled = b.mulf(number, range);
                let sum = b.addf(scaled, low);
                // A sum that is rounded up to the upper bound is the number below it.
                let last = b.float(below(second, ty).max(first), element);
                b.minimumf(sum, last)
            }
        }
    })
}

/// The number of bits of a mantissa, with the one that is not stored.
fn mantissa(ty: DataType) -> i64 {
    match ty {
        DataType::F16 => 11,
        DataType::Bf16 => 8,
        DataType::F32 | DataType::F64 => 24,
        _ => 3,
    }
}

/// Returns a number below another, by at most the distance of two numbers of a type.
fn below(number: f64, ty: DataType) -> f64 {
    match ty {
        DataType::F64 => number.next_down(),
        DataType::F32 => f64::from((number as f32).next_down()),
        _ => number - number.abs() * (0.5_f64).powi(mantissa(ty) as i32 - 1),
    }
}

/// Draws of the normal distribution by the method of Box and Muller, with the precision of `f32`: not every target has logarithms and
/// cosines of `f64`.
fn normal(b: &mut Builder, stream: Stream, position: Value, element: Element) -> Value {
    let [x, y] = stream.words(b, position);
    let (first, second) = (of_word(b, x, 24), of_word(b, y, 24));
    let (one, factor) = (b.float(1.0, Element::F32), b.float(-2.0, Element::F32));
    let positive = b.subf(one, first);
    let logarithm = b.log(positive);
    let square = b.mulf(logarithm, factor);
    let radius = b.sqrt(square);
    let circle = b.float(2.0 * core::f64::consts::PI, Element::F32);
    let angle = b.mulf(second, circle);
    let cosine = b.cos(angle);
    let number = b.mulf(radius, cosine);
    if element == Element::F64 { b.extf(number, Element::F64) } else { number }
}

/// Draws a Boolean for each element of a shape: whether a number from 0 to below 1 is not less than the threshold, a scalar. `seed` is
/// the key in place of the attribute.
pub(super) fn draw_not_less(cx: &mut Context, seed: i64, shape: &[Dim], threshold: &Tensor) -> Result<Tensor> {
    let stream = Stream::of(cx, ((seed ^ (seed >> 32)) & 0xFFFF_FFFF) as u32);
    let strides = strides(cx, shape);
    let element = threshold.ty.computed().element();
    cx.map_to(&[threshold], DataType::Bool, shape, |b, elements| {
        let at: Vec<Value> = (0..strides.len()).map(|dimension| b.iteration(dimension)).collect();
        let position = position(b, &at, &strides);
        let number = stream.uniform(b, position, element, 24);
        b.cmpf(FloatPredicate::OrderedGreaterEqual, number, elements[0])
    })
}

fn bernoulli(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let x = node.input(0)?;
    if !x.ty.is_float() {
        return wrong_type(x.ty);
    }
    let ty = node.data_type("dtype")?.unwrap_or(x.ty);
    let stream = Stream::next(cx, node);
    let strides = strides(cx, &x.shape);
    let element = x.ty.computed().element();
    one(cx.map(&[x], ty, |b, elements| {
        let at: Vec<Value> = (0..strides.len()).map(|dimension| b.iteration(dimension)).collect();
        let position = position(b, &at, &strides);
        let number = stream.uniform(b, position, element, 24);
        let is_drawn = b.cmpf(FloatPredicate::OrderedLess, number, elements[0]);
        match ty.kind() {
            Kind::Bool => is_drawn,
            Kind::Float => {
                let (one, zero) = (b.float(1.0, ty.computed().element()), b.float(0.0, ty.computed().element()));
                b.select(is_drawn, one, zero)
            }
            _ => converted(b, is_drawn, DataType::Bool, ty),
        }
    })?)
}

/// The outcome whose logarithm of a probability, plus a number of Gumbel's distribution, is the greatest.
fn multinomial(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let x = node.input(0)?;
    if !x.ty.is_float() {
        return wrong_type(x.ty);
    }
    let [batch, outcomes] = &*x.shape else { return invalid(format!("the input has rank {}, not 2", x.rank())) };
    let ty = node.data_type("dtype")?.unwrap_or(DataType::I32);
    let samples = Dim::constant(node.int_or("sample_size", 1));
    let stream = Stream::next(cx, node);
    let shape = [batch.clone(), samples.clone()];
    cx.check_shape(DataType::I32, &shape)?;
    let strides = strides(cx, &[batch.clone(), samples, outcomes.clone()]);
    let value = cx.value(x)?;
    let extents = cx.extents(&shape);
    let (lowest, zero) = (cx.b.float(f64::NEG_INFINITY, Element::F32), cx.b.int(0, Element::I32));
    let filled = [cx.b.fill(lowest, &extents), cx.b.fill(zero, &extents)];
    let maps = [Map::of(3, &[0, 2]), Map::of(3, &[0, 1]), Map::of(3, &[0, 1])];
    let iterators = [Iterator::Parallel, Iterator::Parallel, Iterator::Reduction];
    let from = x.ty;
    let results = cx.b.generic(&[value], &filled, &maps, &iterators, |b, arguments| {
        let at: Vec<Value> = (0..3).map(|dimension| b.iteration(dimension)).collect();
        let position = position(b, &at, &strides);
        let [word, _] = stream.words(b, position);
        let number = of_word(b, word, 23);
        // The middle of the interval: neither 0 nor 1.
        let half = b.float((0.5_f64).powi(24), Element::F32);
        let middle = b.addf(number, half);
        let logarithm = b.log(middle);
        let negated = b.negf(logarithm);
        let outer = b.log(negated);
        let element = widened(b, arguments[0], from);
        let element = converted(b, element, from.computed(), DataType::F32);
        let key = b.subf(element, outer);
        let is_greater = b.cmpf(FloatPredicate::OrderedGreater, key, arguments[1]);
        let outcome = b.iteration(2);
        let outcome = b.index_cast(outcome, Element::I64);
        let outcome = b.trunci(outcome, Element::I32);
        vec![b.select(is_greater, key, arguments[1]), b.select(is_greater, outcome, arguments[2])]
    });
    let Some(chosen) = results.get(1) else { return invalid("nothing is drawn") };
    let chosen = cx.tensor(*chosen, DataType::I32, shape.to_vec())?;
    one(cx.cast(&chosen, ty)?)
}
