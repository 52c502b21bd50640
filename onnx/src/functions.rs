//! Elementary functions of `f32` and `f64`, in forms that are accurate on all targets of the compiler.
//!
//! Some of the dialect `math` is not legal on every target, or is inaccurate there: sines of great numbers, powers of negative ones,
//! most functions of `f64`, and all inverse and hyperbolic functions but `atan` and `tanh` of `f32`.

#![allow(clippy::excessive_precision, reason = "coefficients are written as their source has them")]

use incarnate_mlir::{Builder, Element, FloatPredicate, Value};

/// Arithmetic of floats with constants of the type of a value.
struct Floats<'b> {
    b: &'b mut Builder,
    element: Element,
}

impl<'b> Floats<'b> {
    fn of(b: &'b mut Builder, x: Value) -> Floats<'b> {
        let element = b.element_of(x);
        Floats { b, element }
    }

    fn is_double(&self) -> bool {
        self.element == Element::F64
    }

    fn constant(&mut self, value: f64) -> Value {
        self.b.float(value, self.element)
    }

    /// `x + value`.
    fn plus(&mut self, x: Value, value: f64) -> Value {
        let value = self.constant(value);
        self.b.addf(x, value)
    }

    /// `value - x`.
    fn from(&mut self, value: f64, x: Value) -> Value {
        let value = self.constant(value);
        self.b.subf(value, x)
    }

    /// `x * value`.
    fn times(&mut self, x: Value, value: f64) -> Value {
        let value = self.constant(value);
        self.b.mulf(x, value)
    }

    fn compare(&mut self, predicate: FloatPredicate, x: Value, value: f64) -> Value {
        let value = self.constant(value);
        self.b.cmpf(predicate, x, value)
    }

    /// A polynomial, whose coefficients begin with that of the highest power.
    fn polynomial(&mut self, x: Value, coefficients: &[f64]) -> Value {
        let (first, rest) = coefficients.split_first().map_or((0.0, &[][..]), |(first, rest)| (*first, rest));
        let mut sum = self.constant(first);
        for coefficient in rest {
            let product = self.b.mulf(sum, x);
            sum = self.plus(product, *coefficient);
        }
        sum
    }

    /// `magnitude` with the sign of `x`, which keeps zeros and NaN of an odd function.
    fn odd(&mut self, magnitude: Value, x: Value) -> Value {
        let negative = self.b.negf(magnitude);
        let is_negative = self.compare(FloatPredicate::OrderedLess, x, 0.0);
        let signed = self.b.select(is_negative, negative, magnitude);
        let is_zero = self.compare(FloatPredicate::OrderedEqual, x, 0.0);
        self.b.select(is_zero, x, signed)
    }
}

/// `exp(x) - 1`, accurate near 0.
pub(crate) fn expm1(b: &mut Builder, x: Value) -> Value {
    let mut f = Floats::of(b, x);
    if !f.is_double() {
        return b.expm1(x);
    }
    // (u - 1) * x / log(u) for u = exp(x), after Kahan.
    let u = f.b.exp(x);
    let less = f.plus(u, -1.0);
    let log = f.b.log(u);
    let quotient = f.b.divf(x, log);
    let product = f.b.mulf(less, quotient);
    let is_one = f.compare(FloatPredicate::OrderedEqual, u, 1.0);
    let result = f.b.select(is_one, x, product);
    let is_far = f.b.absf(x);
    let is_far = f.compare(FloatPredicate::OrderedGreater, is_far, 1.0);
    f.b.select(is_far, less, result)
}

/// `log(1 + x)`, accurate near 0.
pub(crate) fn log1p(b: &mut Builder, x: Value) -> Value {
    let mut f = Floats::of(b, x);
    if !f.is_double() {
        return b.log1p(x);
    }
    let u = f.plus(x, 1.0);
    let log = f.b.log(u);
    let less = f.plus(u, -1.0);
    let quotient = f.b.divf(x, less);
    let product = f.b.mulf(log, quotient);
    let is_one = f.compare(FloatPredicate::OrderedEqual, u, 1.0);
    let result = f.b.select(is_one, x, product);
    let is_large = f.compare(FloatPredicate::OrderedGreater, x, 1e16);
    f.b.select(is_large, log, result)
}

/// The hyperbolic tangent.
pub(crate) fn tanh(b: &mut Builder, x: Value) -> Value {
    let mut f = Floats::of(b, x);
    if !f.is_double() {
        return b.tanh(x);
    }
    let absolute = f.b.absf(x);
    let doubled = f.times(absolute, -2.0);
    let e = expm1(f.b, doubled);
    let divisor = f.plus(e, 2.0);
    let quotient = f.b.divf(e, divisor);
    let magnitude = f.b.negf(quotient);
    f.odd(magnitude, x)
}

/// `1 / (1 + exp(-x))`.
pub(crate) fn sigmoid(b: &mut Builder, x: Value) -> Value {
    let negative = b.negf(x);
    let e = b.exp(negative);
    let mut f = Floats::of(b, x);
    let (one, divisor) = (f.constant(1.0), f.plus(e, 1.0));
    b.divf(one, divisor)
}

/// `log(1 + exp(x))`.
pub(crate) fn softplus(b: &mut Builder, x: Value) -> Value {
    let absolute = b.absf(x);
    let negative = b.negf(absolute);
    let e = b.exp(negative);
    let log = log1p(b, e);
    let zero = Floats::of(b, x).constant(0.0);
    let positive = b.maximumf(x, zero);
    b.addf(positive, log)
}

/// The error function.
pub(crate) fn erf(b: &mut Builder, x: Value) -> Value {
    /// Coefficients of Cephes: within 1, and of the complement up to 8.
    const T: &[f64] = &[
        9.60497373987051638749E0,
        9.00260197203842689217E1,
        2.23200534594684319226E3,
        7.00332514112805075473E3,
        5.55923013010394962768E4,
    ];
    const U: &[f64] = &[
        1.0,
        3.35617141647503099647E1,
        5.21357949780152679795E2,
        4.59432382970980127987E3,
        2.26290000613890934246E4,
        4.92673942608635921086E4,
    ];
    const P: &[f64] = &[
        2.46196981473530512524E-10,
        5.64189564831068821977E-1,
        7.46321056442269912687E0,
        4.86371970985681366614E1,
        1.96520832956077098242E2,
        5.26445194995477358631E2,
        9.34528527171957607540E2,
        1.02755188689515710272E3,
        5.57535335369399327526E2,
    ];
    const Q: &[f64] = &[
        1.0,
        1.32281951154744992508E1,
        8.67072140885989742329E1,
        3.54937778887819891062E2,
        9.75708501743205489753E2,
        1.82390916687909736289E3,
        2.24633760818710981792E3,
        1.65666309194161350182E3,
        5.57535340817727675546E2,
    ];
    let mut f = Floats::of(b, x);
    if !f.is_double() {
        return b.erf(x);
    }
    let square = f.b.mulf(x, x);
    let (t, u) = (f.polynomial(square, T), f.polynomial(square, U));
    let quotient = f.b.divf(t, u);
    let near = f.b.mulf(x, quotient);
    let absolute = f.b.absf(x);
    let most = f.constant(7.0);
    let limited = f.b.minimumf(absolute, most);
    let (p, q) = (f.polynomial(limited, P), f.polynomial(limited, Q));
    let quotient = f.b.divf(p, q);
    let square = f.b.mulf(limited, limited);
    let square = f.b.negf(square);
    let e = f.b.exp(square);
    let complement = f.b.mulf(e, quotient);
    let magnitude = f.from(1.0, complement);
    let far = f.odd(magnitude, x);
    let is_near = f.compare(FloatPredicate::OrderedLess, absolute, 1.0);
    f.b.select(is_near, near, far)
}

/// The sine.
pub(crate) fn sin(b: &mut Builder, x: Value) -> Value {
    if b.element_of(x) == Element::F64 {
        return sine_of_quarters(b, x, 0.0);
    }
    let reduced = within_pi(b, x);
    b.sin(reduced)
}

/// The cosine.
pub(crate) fn cos(b: &mut Builder, x: Value) -> Value {
    if b.element_of(x) == Element::F64 {
        return sine_of_quarters(b, x, 1.0);
    }
    let reduced = within_pi(b, x);
    b.cos(reduced)
}

/// The tangent.
pub(crate) fn tan(b: &mut Builder, x: Value) -> Value {
    let (sine, cosine) = (sin(b, x), cos(b, x));
    b.divf(sine, cosine)
}

/// Subtracts a multiple of two pi from an `f32`: not every target does so with more bits than 32.
fn within_pi(b: &mut Builder, x: Value) -> Value {
    let mut f = Floats::of(b, x);
    let turns = f.times(x, 0.5 / core::f64::consts::PI);
    let turns = f.b.roundeven(turns);
    let mut rest = x;
    // Two pi in three parts, so that products with numbers of up to 13 bits are exact.
    for part in [6.28125, 4058.0 / 2_097_152.0, 3.019_915_981_956_752_86e-7] {
        let product = f.times(turns, part);
        rest = f.b.subf(rest, product);
    }
    // Beyond, the parts are not exact.
    let absolute = f.b.absf(x);
    let is_exact = f.compare(FloatPredicate::OrderedLess, absolute, 131_072.0);
    f.b.select(is_exact, rest, x)
}

/// The sine of an `f64` and a number of quarters of a circle, with the polynomials of Cephes.
fn sine_of_quarters(b: &mut Builder, x: Value, quarters: f64) -> Value {
    const SINE: &[f64] = &[
        1.58962301576546568060E-10,
        -2.50507477628578072866E-8,
        2.75573136213857245213E-6,
        -1.98412698295895385996E-4,
        8.33333333332211858878E-3,
        -1.66666666666666307295E-1,
    ];
    const COSINE: &[f64] = &[
        -1.13585365213876817300E-11,
        2.08757008419747316778E-9,
        -2.75573141792967388112E-7,
        2.48015872888517045348E-5,
        -1.38888888888730564116E-3,
        4.16666666666665929218E-2,
    ];
    let mut f = Floats::of(b, x);
    let count = f.times(x, core::f64::consts::FRAC_2_PI);
    let count = f.b.roundeven(count);
    let mut rest = x;
    for part in [1.570_796_251_296_997_07, 7.549_789_415_861_596_353e-8, 5.390_302_858_158_119_052_9e-15] {
        let product = f.times(count, part);
        rest = f.b.subf(rest, product);
    }
    let square = f.b.mulf(rest, rest);
    let polynomial = f.polynomial(square, SINE);
    let cube = f.b.mulf(square, rest);
    let product = f.b.mulf(cube, polynomial);
    let sine = f.b.addf(rest, product);
    let polynomial = f.polynomial(square, COSINE);
    let fourth = f.b.mulf(square, square);
    let product = f.b.mulf(fourth, polynomial);
    let half = f.times(square, 0.5);
    let cosine = f.from(1.0, half);
    let cosine = f.b.addf(cosine, product);
    // The count modulo 4: 0 and 2 are sines, 1 and 3 cosines; 2 and 3 are negative.
    let count = f.plus(count, quarters);
    let fours = f.times(count, 0.25);
    let fours = f.b.floor(fours);
    let fours = f.times(fours, 4.0);
    let quarter = f.b.subf(count, fours);
    let is_first = f.compare(FloatPredicate::OrderedEqual, quarter, 0.0);
    let is_third = f.compare(FloatPredicate::OrderedEqual, quarter, 2.0);
    let is_sine = f.b.ori(is_first, is_third);
    let magnitude = f.b.select(is_sine, sine, cosine);
    let negative = f.b.negf(magnitude);
    let is_negative = f.compare(FloatPredicate::OrderedGreaterEqual, quarter, 2.0);
    f.b.select(is_negative, negative, magnitude)
}

/// The arc tangent.
pub(crate) fn atan(b: &mut Builder, x: Value) -> Value {
    /// Coefficients of Cephes.
    const P: &[f64] = &[
        -8.750608600031904122785E-1,
        -1.615753718733365076637E1,
        -7.500855792314704667340E1,
        -1.228866684490136173410E2,
        -6.485021904942025371773E1,
    ];
    const Q: &[f64] = &[
        1.0,
        2.485846490142306297962E1,
        1.650270098316988542046E2,
        4.328810604912902668951E2,
        4.853903996359136964868E2,
        1.945506571482613964425E2,
    ];
    let mut f = Floats::of(b, x);
    if !f.is_double() {
        return b.atan(x);
    }
    let absolute = f.b.absf(x);
    let is_large = f.compare(FloatPredicate::OrderedGreater, absolute, 2.414_213_562_373_095_048_80);
    let is_middle = f.compare(FloatPredicate::OrderedGreater, absolute, 0.66);
    let minus_one = f.constant(-1.0);
    let inverse = f.b.divf(minus_one, absolute);
    let (less, more) = (f.plus(absolute, -1.0), f.plus(absolute, 1.0));
    let middle = f.b.divf(less, more);
    let reduced = f.b.select(is_middle, middle, absolute);
    let reduced = f.b.select(is_large, inverse, reduced);
    let square = f.b.mulf(reduced, reduced);
    let (p, q) = (f.polynomial(square, P), f.polynomial(square, Q));
    let quotient = f.b.divf(p, q);
    let product = f.b.mulf(square, quotient);
    let product = f.b.mulf(product, reduced);
    let near = f.b.addf(product, reduced);
    // The angle that was taken away, and its lower bits.
    let (zero, eighth, quarter) =
        (f.constant(0.0), f.constant(core::f64::consts::FRAC_PI_4), f.constant(core::f64::consts::FRAC_PI_2));
    let (low_eighth, low_quarter) = (f.constant(3.061_616_997_868_383e-17), f.constant(6.123_233_995_736_766e-17));
    let base = f.b.select(is_middle, eighth, zero);
    let base = f.b.select(is_large, quarter, base);
    let low = f.b.select(is_middle, low_eighth, zero);
    let low = f.b.select(is_large, low_quarter, low);
    let near = f.b.addf(near, low);
    let magnitude = f.b.addf(base, near);
    f.odd(magnitude, x)
}

/// The arc sine.
pub(crate) fn asin(b: &mut Builder, x: Value) -> Value {
    let mut f = Floats::of(b, x);
    let (less, more) = (f.from(1.0, x), f.plus(x, 1.0));
    let product = f.b.mulf(less, more);
    let root = f.b.sqrt(product);
    let quotient = f.b.divf(x, root);
    atan(b, quotient)
}

/// The arc cosine.
pub(crate) fn acos(b: &mut Builder, x: Value) -> Value {
    let mut f = Floats::of(b, x);
    let (less, more) = (f.from(1.0, x), f.plus(x, 1.0));
    let quotient = f.b.divf(less, more);
    let root = f.b.sqrt(quotient);
    let half = atan(f.b, root);
    f.times(half, 2.0)
}

/// `exp(x)` of an absolute value, halved: the product of two roots, as the exponential may be infinite where its half is not.
fn half_exponential(f: &mut Floats<'_>, absolute: Value) -> (Value, Value) {
    let half = f.times(absolute, 0.5);
    let root = f.b.exp(half);
    let halved = f.times(root, 0.5);
    (f.b.mulf(halved, root), root)
}

/// The hyperbolic sine.
pub(crate) fn sinh(b: &mut Builder, x: Value) -> Value {
    let mut f = Floats::of(b, x);
    let absolute = f.b.absf(x);
    let e = expm1(f.b, absolute);
    let more = f.plus(e, 1.0);
    let quotient = f.b.divf(e, more);
    let sum = f.b.addf(e, quotient);
    let near = f.times(sum, 0.5);
    let (far, _) = half_exponential(&mut f, absolute);
    let is_far = f.compare(FloatPredicate::OrderedGreater, absolute, 20.0);
    let magnitude = f.b.select(is_far, far, near);
    f.odd(magnitude, x)
}

/// The hyperbolic cosine.
pub(crate) fn cosh(b: &mut Builder, x: Value) -> Value {
    let mut f = Floats::of(b, x);
    let absolute = f.b.absf(x);
    let (growing, root) = half_exponential(&mut f, absolute);
    let square = f.b.mulf(root, root);
    let half = f.constant(0.5);
    let falling = f.b.divf(half, square);
    f.b.addf(growing, falling)
}

/// Beyond this number, `log(2 * x)` is the inverse of both hyperbolic functions, also in `f64`.
const LARGE: f64 = 1e10;

/// `log(2 * x)`, whose double may be infinite.
fn logarithm_of_double(f: &mut Floats<'_>, x: Value) -> Value {
    let log = f.b.log(x);
    f.plus(log, core::f64::consts::LN_2)
}

/// The inverse of the hyperbolic sine.
pub(crate) fn asinh(b: &mut Builder, x: Value) -> Value {
    let mut f = Floats::of(b, x);
    let absolute = f.b.absf(x);
    let square = f.b.mulf(absolute, absolute);
    let sum = f.plus(square, 1.0);
    let root = f.b.sqrt(sum);
    let divisor = f.plus(root, 1.0);
    let quotient = f.b.divf(square, divisor);
    let sum = f.b.addf(absolute, quotient);
    let near = log1p(f.b, sum);
    let far = logarithm_of_double(&mut f, absolute);
    let is_far = f.compare(FloatPredicate::OrderedGreater, absolute, LARGE);
    let magnitude = f.b.select(is_far, far, near);
    f.odd(magnitude, x)
}

/// The inverse of the hyperbolic cosine.
pub(crate) fn acosh(b: &mut Builder, x: Value) -> Value {
    let mut f = Floats::of(b, x);
    let (less, more) = (f.plus(x, -1.0), f.plus(x, 1.0));
    let product = f.b.mulf(less, more);
    let root = f.b.sqrt(product);
    let sum = f.b.addf(less, root);
    let near = log1p(f.b, sum);
    let far = logarithm_of_double(&mut f, x);
    let is_far = f.compare(FloatPredicate::OrderedGreater, x, LARGE);
    let result = f.b.select(is_far, far, near);
    let nan = f.constant(f64::NAN);
    let is_outside = f.compare(FloatPredicate::OrderedLess, x, 1.0);
    f.b.select(is_outside, nan, result)
}

/// The inverse of the hyperbolic tangent.
pub(crate) fn atanh(b: &mut Builder, x: Value) -> Value {
    let mut f = Floats::of(b, x);
    let absolute = f.b.absf(x);
    let doubled = f.times(absolute, 2.0);
    let divisor = f.from(1.0, absolute);
    let quotient = f.b.divf(doubled, divisor);
    let log = log1p(f.b, quotient);
    let magnitude = f.times(log, 0.5);
    f.odd(magnitude, x)
}

/// The rest of a division with the sign of the dividend. One target rounds the quotient of `arith.remf` to the nearest, and others
/// have it for `f32` alone.
pub(crate) fn fmod(b: &mut Builder, x: Value, y: Value) -> Value {
    let mut f = Floats::of(b, x);
    let absolute = f.b.absf(y);
    let rest = if f.is_double() { rest_of_double(&mut f, x, absolute) } else { f.b.remf(x, y) };
    // A rest of the other sign is one step away.
    let negative = f.b.negf(absolute);
    let is_negative = f.compare(FloatPredicate::OrderedLess, x, 0.0);
    let step = f.b.select(is_negative, negative, absolute);
    let is_other = has_other_sign(f.b, rest, step);
    let raised = f.b.addf(rest, step);
    let result = f.b.select(is_other, raised, rest);
    // What is below any divisor is the rest.
    let size = f.b.absf(x);
    let is_below = f.b.cmpf(FloatPredicate::OrderedLess, size, absolute);
    f.b.select(is_below, x, result)
}

/// `x - trunc(x / y) * y`, with products of halves, which are exact.
fn rest_of_double(f: &mut Floats<'_>, x: Value, y: Value) -> Value {
    let quotient = f.b.divf(x, y);
    let quotient = crate::convert::truncated(f.b, quotient);
    // The upper half of the mantissa, after Veltkamp.
    let upper = |f: &mut Floats<'_>, value: Value| {
        let scaled = f.times(value, 134_217_729.0);
        let difference = f.b.subf(scaled, value);
        f.b.subf(scaled, difference)
    };
    let (q, d) = (upper(f, quotient), upper(f, y));
    let (r, e) = (f.b.subf(quotient, q), f.b.subf(y, d));
    let mut rest = x;
    for (a, b) in [(q, d), (q, e), (r, d), (r, e)] {
        let product = f.b.mulf(a, b);
        rest = f.b.subf(rest, product);
    }
    rest
}

/// The rest of a division with the sign of the divisor.
pub(crate) fn modulo(b: &mut Builder, x: Value, y: Value) -> Value {
    let rest = fmod(b, x, y);
    let is_other = has_other_sign(b, rest, y);
    let raised = b.addf(rest, y);
    b.select(is_other, raised, rest)
}

/// Returns whether one number is positive and one negative.
fn has_other_sign(b: &mut Builder, x: Value, y: Value) -> Value {
    let mut f = Floats::of(b, x);
    let (low, high) = (FloatPredicate::OrderedLess, FloatPredicate::OrderedGreater);
    let (is_negative, is_positive) = (f.compare(low, x, 0.0), f.compare(high, x, 0.0));
    let (is_below, is_above) = (f.compare(low, y, 0.0), f.compare(high, y, 0.0));
    let (first, second) = (b.andi(is_negative, is_above), b.andi(is_positive, is_below));
    b.ori(first, second)
}

/// A power: that of the absolute value, as not every target has those of negative numbers.
pub(crate) fn pow(b: &mut Builder, x: Value, y: Value) -> Value {
    let mut f = Floats::of(b, x);
    let absolute = f.b.absf(x);
    let power = f.b.powf(absolute, y);
    // One to any power, and any number to the power of 0.
    let one = f.constant(1.0);
    let is_one = f.b.cmpf(FloatPredicate::OrderedEqual, absolute, one);
    let is_none = f.compare(FloatPredicate::OrderedEqual, y, 0.0);
    let is_unit = f.b.ori(is_one, is_none);
    let power = f.b.select(is_unit, one, power);
    let whole = f.b.floor(y);
    let is_whole = f.b.cmpf(FloatPredicate::OrderedEqual, y, whole);
    let half = f.times(y, 0.5);
    let floor = f.b.floor(half);
    let is_even = f.b.cmpf(FloatPredicate::OrderedEqual, half, floor);
    let negative = f.b.negf(power);
    let signed = f.b.select(is_even, power, negative);
    let nan = f.constant(f64::NAN);
    let is_infinite = f.compare(FloatPredicate::OrderedEqual, absolute, f64::INFINITY);
    let fraction = f.b.select(is_infinite, power, nan);
    let below = f.b.select(is_whole, signed, fraction);
    let is_negative = f.compare(FloatPredicate::OrderedLess, x, 0.0);
    let result = f.b.select(is_negative, below, power);
    // NaN to a power other than 0.
    let is_nan = f.b.cmpf(FloatPredicate::Unordered, x, x);
    let undefined = f.b.select(is_none, one, nan);
    f.b.select(is_nan, undefined, result)
}

/// A power of a constant exponent.
pub(crate) fn pow_constant(b: &mut Builder, x: Value, exponent: f64) -> Value {
    let mut f = Floats::of(b, x);
    match exponent {
        0.0 => f.constant(1.0),
        1.0 => x,
        2.0 => f.b.mulf(x, x),
        3.0 => {
            let square = f.b.mulf(x, x);
            f.b.mulf(square, x)
        }
        4.0 => {
            let square = f.b.mulf(x, x);
            f.b.mulf(square, square)
        }
        -1.0 => {
            let one = f.constant(1.0);
            f.b.divf(one, x)
        }
        0.5 => {
            // Unlike a root, the power of an infinity is positive, and so is that of a zero.
            let root = f.b.sqrt(x);
            let positive = f.b.absf(root);
            let infinity = f.constant(f64::INFINITY);
            let is_least = f.compare(FloatPredicate::OrderedEqual, x, f64::NEG_INFINITY);
            f.b.select(is_least, infinity, positive)
        }
        _ => {
            let exponent = f.constant(exponent);
            pow(b, x, exponent)
        }
    }
}
