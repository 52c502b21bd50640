//! Positions and weights of `Resize`, computed when the model is imported or in a kernel.

use incarnate_mlir::{Builder, Element, FloatPredicate, Value};

/// Arithmetic that is done now or emitted.
pub(super) trait Numbers {
    type Number: Copy;
    fn constant(&mut self, value: f64) -> Self::Number;
    fn add(&mut self, x: Self::Number, y: Self::Number) -> Self::Number;
    fn sub(&mut self, x: Self::Number, y: Self::Number) -> Self::Number;
    fn mul(&mut self, x: Self::Number, y: Self::Number) -> Self::Number;
    fn div(&mut self, x: Self::Number, y: Self::Number) -> Self::Number;
    fn floor(&mut self, x: Self::Number) -> Self::Number;
    /// Returns `then` if `x < y`, else `otherwise`.
    fn if_less(
        &mut self,
        x: Self::Number,
        y: Self::Number,
        then: Self::Number,
        otherwise: Self::Number,
    ) -> Self::Number;
}

/// Arithmetic on numbers that are known, rounded to `f32` unless `is_double`.
pub(super) struct Known {
    pub(super) is_double: bool,
}

impl Known {
    fn rounded(&self, value: f64) -> f64 {
        if self.is_double { value } else { f64::from(value as f32) }
    }
}

// An `f64` result of `f32` operands that is rounded to `f32` is the result of the operation in `f32`.
impl Numbers for Known {
    type Number = f64;

    fn constant(&mut self, value: f64) -> f64 {
        self.rounded(value)
    }

    fn add(&mut self, x: f64, y: f64) -> f64 {
        self.rounded(x + y)
    }

    fn sub(&mut self, x: f64, y: f64) -> f64 {
        self.rounded(x - y)
    }

    fn mul(&mut self, x: f64, y: f64) -> f64 {
        self.rounded(x * y)
    }

    fn div(&mut self, x: f64, y: f64) -> f64 {
        self.rounded(x / y)
    }

    fn floor(&mut self, x: f64) -> f64 {
        x.floor()
    }

    fn if_less(&mut self, x: f64, y: f64, then: f64, otherwise: f64) -> f64 {
        if x < y { then } else { otherwise }
    }
}

/// Arithmetic in the body of a kernel.
pub(super) struct Emitted<'b> {
    pub(super) b: &'b mut Builder,
    pub(super) element: Element,
}

impl Numbers for Emitted<'_> {
    type Number = Value;

    fn constant(&mut self, value: f64) -> Value {
        self.b.float(value, self.element)
    }

    fn add(&mut self, x: Value, y: Value) -> Value {
        self.b.addf(x, y)
    }

    fn sub(&mut self, x: Value, y: Value) -> Value {
        self.b.subf(x, y)
    }

    fn mul(&mut self, x: Value, y: Value) -> Value {
        self.b.mulf(x, y)
    }

    fn div(&mut self, x: Value, y: Value) -> Value {
        self.b.divf(x, y)
    }

    fn floor(&mut self, x: Value) -> Value {
        self.b.floor(x)
    }

    fn if_less(&mut self, x: Value, y: Value, then: Value, otherwise: Value) -> Value {
        let is_less = self.b.cmpf(FloatPredicate::OrderedLess, x, y);
        self.b.select(is_less, then, otherwise)
    }
}

/// How a position in the result becomes one in the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transform {
    HalfPixel,
    HalfPixelSymmetric,
    PytorchHalfPixel,
    AlignCorners,
    Asymmetric,
    HalfPixelForNearest,
    CropAndResize,
}

/// How a position becomes the index of the nearest element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rounding {
    PreferFloor,
    PreferCeil,
    Floor,
    Ceil,
    /// That of opset 10 and older: up where the scale is below 1, else down.
    Simple,
}

/// A filter by the distance of an element from the position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Filter {
    /// The coefficient of a cubic filter; a linear one has none.
    pub(super) cubic: Option<f64>,
    pub(super) antialias: bool,
    pub(super) exclude_outside: bool,
}

impl Filter {
    /// The distance at which the filter ends, for a scale of 1.
    pub(super) fn support(self) -> f64 {
        if self.cubic.is_some() { 2.0 } else { 1.0 }
    }

    /// Returns true if the weights of a position do not sum up to 1.
    pub(super) fn is_normalised_afterwards(self) -> bool {
        self.antialias || self.exclude_outside
    }

    /// Returns the number of weights on either side of a position.
    pub(super) fn reach(self, scale: f64) -> f64 {
        let narrowed = if self.antialias { scale.min(1.0) } else { 1.0 };
        (self.support() / narrowed).ceil()
    }
}

/// What the positions along an axis depend on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<N> {
    pub(super) scale: N,
    pub(super) input: N,
    pub(super) output: N,
    pub(super) start: N,
    pub(super) end: N,
}

/// Returns the position in the input for an index of the result.
pub(super) fn origin<M: Numbers>(n: &mut M, transform: Transform, x: M::Number, line: &Line<M::Number>) -> M::Number {
    let (zero, half, one) = (n.constant(0.0), n.constant(0.5), n.constant(1.0));
    let centre = |n: &mut M| {
        let moved = n.add(x, half);
        n.div(moved, line.scale)
    };
    match transform {
        Transform::Asymmetric => n.div(x, line.scale),
        Transform::HalfPixelForNearest => centre(n),
        Transform::HalfPixel => {
            let centre = centre(n);
            n.sub(centre, half)
        }
        Transform::PytorchHalfPixel => {
            let centre = centre(n);
            let moved = n.sub(centre, half);
            n.if_less(one, line.output, moved, zero)
        }
        Transform::HalfPixelSymmetric => {
            let width = n.mul(line.scale, line.input);
            let adjustment = n.div(line.output, width);
            let rest = n.sub(one, adjustment);
            let middle = n.mul(line.input, half);
            let offset = n.mul(middle, rest);
            let centre = centre(n);
            let sum = n.add(offset, centre);
            n.sub(sum, half)
        }
        Transform::AlignCorners => {
            let (from, to) = (n.sub(line.input, one), n.sub(line.output, one));
            let product = n.mul(x, from);
            let moved = n.div(product, to);
            n.if_less(one, line.output, moved, zero)
        }
        Transform::CropAndResize => {
            let (from, to) = (n.sub(line.input, one), n.sub(line.output, one));
            let first = n.mul(line.start, from);
            let length = n.sub(line.end, line.start);
            let product = n.mul(x, length);
            let product = n.mul(product, from);
            let step = n.div(product, to);
            let moved = n.add(first, step);
            let sum = n.add(line.start, line.end);
            let middle = n.mul(half, sum);
            let middle = n.mul(middle, from);
            n.if_less(one, line.output, moved, middle)
        }
    }
}

/// Returns the index of the element that is nearest to a position, as a number; it may be out of range.
pub(super) fn nearest<M: Numbers>(n: &mut M, rounding: Rounding, x: M::Number, line: &Line<M::Number>) -> M::Number {
    let (zero, half, one) = (n.constant(0.0), n.constant(0.5), n.constant(1.0));
    let floor = n.floor(x);
    let rest = n.sub(x, floor);
    let next = n.add(floor, one);
    match rounding {
        Rounding::Floor => floor,
        Rounding::Ceil => n.if_less(zero, rest, next, floor),
        Rounding::PreferFloor => n.if_less(half, rest, next, floor),
        Rounding::PreferCeil => n.if_less(rest, half, floor, next),
        Rounding::Simple => {
            let ceil = n.if_less(zero, rest, next, floor);
            n.if_less(line.scale, one, ceil, floor)
        }
    }
}

/// Returns the index of the `k`-th element around a position, as a number that may be out of range, and its weight before they are
/// normalised. `reach` is the number of elements on either side.
pub(super) fn tap<M: Numbers>(
    n: &mut M,
    filter: Filter,
    x: M::Number,
    k: M::Number,
    reach: M::Number,
    line: &Line<M::Number>,
) -> (M::Number, M::Number) {
    let (zero, one) = (n.constant(0.0), n.constant(1.0));
    let floor = n.floor(x);
    let first = n.sub(floor, reach);
    let next = n.add(first, one);
    let index = n.add(next, k);
    let difference = n.sub(index, x);
    let negated = n.sub(zero, difference);
    let mut distance = n.if_less(difference, zero, negated, difference);
    if filter.antialias {
        let narrowed = n.if_less(line.scale, one, line.scale, one);
        distance = n.mul(distance, narrowed);
    }
    let mut weight = match filter.cubic {
        None => n.sub(one, distance),
        Some(a) => cubic(n, distance, a),
    };
    let end = n.constant(filter.support());
    weight = n.if_less(distance, end, weight, zero);
    if filter.exclude_outside {
        weight = n.if_less(index, zero, zero, weight);
        let last = n.sub(line.input, one);
        weight = n.if_less(last, index, zero, weight);
    }
    (index, weight)
}

/// The cubic filter at a distance below 2.
pub(super) fn cubic<M: Numbers>(n: &mut M, distance: M::Number, a: f64) -> M::Number {
    // ((a + 2) d - (a + 3)) d d + 1 up to 1, and ((a d - 5 a) d + 8 a) d - 4 a beyond.
    let one = n.constant(1.0);
    let near = polynomial(n, distance, [a + 2.0, -(a + 3.0), 0.0, 1.0]);
    let far = polynomial(n, distance, [a, -5.0 * a, 8.0 * a, -4.0 * a]);
    n.if_less(distance, one, near, far)
}

fn polynomial<M: Numbers>(n: &mut M, x: M::Number, coefficients: [f64; 4]) -> M::Number {
    let [first, rest @ ..] = coefficients;
    let mut sum = n.constant(first);
    for coefficient in rest {
        sum = n.mul(sum, x);
        if coefficient != 0.0 {
            let term = n.constant(coefficient);
            sum = n.add(sum, term);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    const SINGLE: Known = Known { is_double: false };

    fn line(input: f64, output: f64) -> Line<f64> {
        Line { scale: f64::from(output as f32 / input as f32), input, output, start: 0.0, end: 1.0 }
    }

    fn origins(transform: Transform, input: f64, output: f64) -> Vec<f64> {
        let mut n = SINGLE;
        (0..output as i64).map(|x| origin(&mut n, transform, x as f64, &line(input, output))).collect()
    }

    #[test]
    fn origins_follow_the_formulae() {
        assert_eq!(origins(Transform::HalfPixel, 2.0, 4.0), [-0.25, 0.25, 0.75, 1.25]);
        assert_eq!(origins(Transform::Asymmetric, 4.0, 2.0), [0.0, 2.0]);
        assert_eq!(origins(Transform::AlignCorners, 3.0, 5.0), [0.0, 0.5, 1.0, 1.5, 2.0]);
        assert_eq!(origins(Transform::AlignCorners, 3.0, 1.0), [0.0]);
        assert_eq!(origins(Transform::PytorchHalfPixel, 3.0, 1.0), [0.0]);
        assert_eq!(origins(Transform::CropAndResize, 5.0, 1.0), [2.0]);
    }

    #[test]
    fn ties_go_where_the_mode_says() {
        let at = |rounding, x| nearest(&mut { SINGLE }, rounding, x, &line(4.0, 8.0));
        assert_eq!([at(Rounding::PreferFloor, 1.5), at(Rounding::PreferCeil, 1.5)], [1.0, 2.0]);
        assert_eq!([at(Rounding::Ceil, 1.0), at(Rounding::Ceil, 1.25), at(Rounding::Floor, -0.25)], [1.0, 2.0, -1.0]);
        assert_eq!(at(Rounding::PreferCeil, f64::from(0.499_999_97_f32)), 0.0);
    }

    #[test]
    fn weights_of_a_position_sum_up_to_one() {
        for (cubic, reach) in [(None, 1.0), (Some(-0.75), 2.0)] {
            let filter = Filter { cubic, antialias: false, exclude_outside: false };
            let taps =
                (0..2 * reach as i64).map(|k| tap(&mut { SINGLE }, filter, 1.25, k as f64, reach, &line(4.0, 8.0)));
            let sum: f64 = taps.map(|(_, weight)| weight).sum();
            assert!((sum - 1.0).abs() < 1e-6, "{cubic:?}: {sum}");
            assert_eq!(filter.reach(0.5), reach);
        }
    }
}
