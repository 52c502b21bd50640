//! Conversions of elements between types, in forms that all targets of the compiler have.
//!
//! Floats of 16 and 8 bits are decoded and encoded by integer arithmetic on their bits. So are `f64` that become narrower floats or
//! integers: `arith.truncf` and `arith.fptosi` of `f64` are not legal on every target.

use incarnate_mlir::{Builder, Element, FloatPredicate, IntPredicate, Value};

use crate::data_type::{DataType, Kind};

/// The bits of a float format.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// The number of bits, with the sign.
    width: u32,
    /// The number of stored bits of the mantissa.
    mantissa: u32,
    bias: i64,
    /// The bits of the greatest finite number.
    greatest: i64,
    /// The bits of what greater numbers become: infinity, or not a number.
    beyond: i64,
    nan: i64,
}

impl Layout {
    /// Returns the layout of a float type.
    fn of(ty: DataType) -> Layout {
        let layout =
            |width, mantissa, bias, greatest, beyond, nan| Layout { width, mantissa, bias, greatest, beyond, nan };
        match ty {
            DataType::F16 => layout(16, 10, 15, 0x7BFF, 0x7C00, 0x7E00),
            DataType::Bf16 => layout(16, 7, 127, 0x7F7F, 0x7F80, 0x7FC0),
            DataType::F8E4M3FN => layout(8, 3, 7, 0x7E, 0x7F, 0x7F),
            DataType::F8E4M3FNUZ => layout(8, 3, 8, 0x7F, 0x80, 0x80),
            DataType::F8E5M2 => layout(8, 2, 15, 0x7B, 0x7C, 0x7E),
            DataType::F8E5M2FNUZ => layout(8, 2, 16, 0x7F, 0x80, 0x80),
            // NaN becomes a negative zero, as others have it.
            DataType::F4E2M1 => layout(4, 1, 1, 0x7, 0x7, 0x8),
            DataType::F64 => layout(64, 52, 1023, 0x7FEF_FFFF_FFFF_FFFF, 0x7FF0_0000_0000_0000, 0x7FF8_0000_0000_0000),
            _ => layout(32, 23, 127, 0x7F7F_FFFF, 0x7F80_0000, 0x7FC0_0000),
        }
    }

    /// Returns true if the only NaN has the bits of a negative zero.
    fn is_unsigned_zero(self) -> bool {
        self.nan >> (self.width - 1) == 1
    }

    fn element(self) -> Element {
        Element::Int(self.width.max(8) as u8)
    }

    /// The bits of a number without its sign.
    fn magnitude_mask(self) -> i64 {
        i64::MAX >> (64 - self.width)
    }
}

/// Integer arithmetic with constants of one type.
struct Bits<'b> {
    b: &'b mut Builder,
    element: Element,
}

impl Bits<'_> {
    fn constant(&mut self, value: i64) -> Value {
        self.b.int(value, self.element)
    }

    fn and(&mut self, x: Value, mask: i64) -> Value {
        let mask = self.constant(mask);
        self.b.andi(x, mask)
    }

    fn add(&mut self, x: Value, value: i64) -> Value {
        let value = self.constant(value);
        self.b.addi(x, value)
    }

    fn left(&mut self, x: Value, count: u32) -> Value {
        let count = self.constant(i64::from(count));
        self.b.shli(x, count)
    }

    fn right(&mut self, x: Value, count: u32) -> Value {
        let count = self.constant(i64::from(count));
        self.b.shrui(x, count)
    }

    fn compare(&mut self, predicate: IntPredicate, x: Value, value: i64) -> Value {
        let value = self.constant(value);
        self.b.cmpi(predicate, x, value)
    }

    /// `value` where the condition is true, else `otherwise`.
    fn choose(&mut self, condition: Value, value: i64, otherwise: Value) -> Value {
        let value = self.constant(value);
        self.b.select(condition, value, otherwise)
    }
}

/// Converts an element to the type that arithmetic has.
pub(crate) fn widened(b: &mut Builder, element: Value, ty: DataType) -> Value {
    match ty {
        _ if ty.computed() == ty => element,
        DataType::Bf16 => b.extf(element, Element::F32),
        DataType::F8E8M0 => power_of_two(b, element),
        _ => decoded(b, element, ty),
    }
}

/// Converts an element from the type that arithmetic has; floats of 8 bits saturate as ONNX's do.
pub(crate) fn narrowed(b: &mut Builder, element: Value, ty: DataType) -> Value {
    narrowed_to(b, element, ty, Rounding::default())
}

/// How numbers become floats of 8 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rounding {
    /// Numbers beyond the range become the greatest one.
    pub(crate) saturates: bool,
    /// Where numbers between two powers of two go, if the type has nothing else.
    pub(crate) direction: Direction,
}

/// A direction of [`Rounding`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Up,
    Down,
    Nearest,
}

impl From<bool> for Rounding {
    fn from(saturates: bool) -> Rounding {
        Rounding { saturates, ..Rounding::default() }
    }
}

impl Default for Rounding {
    fn default() -> Rounding {
        Rounding { saturates: true, direction: Direction::Up }
    }
}

/// Converts a float of 32 or 64 bits to a narrower one.
pub(crate) fn narrowed_to(b: &mut Builder, x: Value, ty: DataType, rounding: impl Into<Rounding>) -> Value {
    let (from, rounding) = (b.element_of(x), rounding.into());
    match ty {
        _ if from == ty.element() || !from.is_float() => x,
        DataType::Bf16 if from == Element::F32 => b.truncf(x, Element::Bf16),
        DataType::F64 => b.extf(x, Element::F64),
        DataType::F8E8M0 => {
            let x = if from == Element::F64 { encoded(b, x, DataType::F32, true) } else { x };
            exponent(b, x, rounding)
        }
        _ => encoded(b, x, ty, rounding.saturates),
    }
}

/// Returns the `f32` of which a byte is the exponent.
fn power_of_two(b: &mut Builder, x: Value) -> Value {
    let raw = b.extui(x, Element::I32);
    let mut bits = Bits { b, element: Element::I32 };
    let shifted = bits.left(raw, 23);
    let is_least = bits.compare(IntPredicate::Equal, raw, 0);
    let result = bits.choose(is_least, 0x0040_0000, shifted);
    let is_nan = bits.compare(IntPredicate::Equal, raw, 0xFF);
    let result = bits.choose(is_nan, 0x7FC0_0000, result);
    b.bitcast(result, Element::F32)
}

/// Returns the exponent of an `f32` as a byte, which is 255 for infinities and NaN.
fn exponent(b: &mut Builder, x: Value, rounding: Rounding) -> Value {
    let raw = b.bitcast(x, Element::I32);
    let mut bits = Bits { b, element: Element::I32 };
    let shifted = bits.right(raw, 23);
    let exponent = bits.and(shifted, 0xFF);
    let fraction = bits.and(raw, 0x007F_FFFF);
    // The least fraction that is rounded up; a half is, unless the exponent is 0.
    let least = match rounding.direction {
        Direction::Up => bits.constant(1),
        Direction::Down => bits.constant(0x0080_0000),
        Direction::Nearest => {
            let half = bits.constant(0x0040_0000);
            let is_least = bits.compare(IntPredicate::Equal, exponent, 0);
            bits.choose(is_least, 0x0040_0001, half)
        }
    };
    let is_raised = bits.b.cmpi(IntPredicate::SignedGreaterEqual, fraction, least);
    let raised = bits.add(exponent, 1);
    let limit = bits.constant(if rounding.saturates { 0xFE } else { 0xFF });
    let raised = bits.b.minsi(raised, limit);
    let result = bits.b.select(is_raised, raised, exponent);
    let is_special = bits.compare(IntPredicate::Equal, exponent, 0xFF);
    let result = bits.choose(is_special, 0xFF, result);
    b.trunci(result, Element::I8)
}

/// Returns the `f32` that bits of a narrower float mean. Denormal `f32` are avoided: some programs flush them to zero.
fn decoded(b: &mut Builder, x: Value, ty: DataType) -> Value {
    let layout = Layout::of(ty);
    let raw = if b.element_of(x).is_float() { b.bitcast(x, layout.element()) } else { x };
    let raw = b.extui(raw, Element::I32);
    let mut bits = Bits { b, element: Element::I32 };
    let magnitude = bits.and(raw, layout.magnitude_mask());
    let sign = bits.left(raw, 32 - layout.width);
    let sign = bits.and(sign, i64::from(i32::MIN));
    let shifted = bits.left(magnitude, 23 - layout.mantissa);
    let normal = bits.add(shifted, (127 - layout.bias) << 23);
    let small = bits.b.sitofp(magnitude, Element::F32);
    let unit = bits.b.float(2_f64.powi(1 - layout.bias as i32 - layout.mantissa as i32), Element::F32);
    let small = bits.b.mulf(small, unit);
    let small = bits.b.bitcast(small, Element::I32);
    let is_small = bits.compare(IntPredicate::SignedLess, magnitude, 1 << layout.mantissa);
    let mut result = bits.b.select(is_small, small, normal);
    result = match ty {
        DataType::F16 | DataType::F8E5M2 => {
            // Infinities and NaN have the greatest exponent.
            let infinity = bits.constant(0x7F80_0000);
            let special = bits.b.ori(shifted, infinity);
            let is_special = bits.compare(IntPredicate::SignedGreater, magnitude, layout.greatest);
            bits.b.select(is_special, special, result)
        }
        DataType::F4E2M1 => result,
        _ => {
            let compared = if layout.is_unsigned_zero() { raw } else { magnitude };
            let is_nan = bits.compare(IntPredicate::Equal, compared, layout.nan);
            bits.choose(is_nan, 0x7FC0_0000, result)
        }
    };
    let result = b.ori(result, sign);
    b.bitcast(result, Element::F32)
}

/// Returns the bits of a narrower float for an `f32` or `f64`, rounded once, to the nearest and ties to even.
fn encoded(b: &mut Builder, x: Value, ty: DataType, saturates: bool) -> Value {
    let float = b.element_of(x);
    let (from, to) = (Layout::of(if float == Element::F64 { DataType::F64 } else { DataType::F32 }), Layout::of(ty));
    let raw = b.bitcast(x, from.element());
    let mut bits = Bits { b, element: from.element() };
    let magnitude = bits.and(raw, from.magnitude_mask());
    // Normal numbers: the lower bits of the mantissa are rounded away, and the exponent gets the other bias.
    let dropped = from.mantissa - to.mantissa;
    let odd = bits.right(magnitude, dropped);
    let odd = bits.and(odd, 1);
    let rebias = (from.bias - to.bias) << from.mantissa;
    let rounded = bits.add(magnitude, (1 << (dropped - 1)) - 1 - rebias);
    let rounded = bits.b.addi(rounded, odd);
    let normal = bits.right(rounded, dropped);
    // Denormal ones: a sum whose last bit is the unit of the narrower type.
    let unit = 1 - to.bias as i32 - to.mantissa as i32;
    let offset = bits.b.float(2_f64.powi(unit + from.mantissa as i32), float);
    let absolute = bits.b.bitcast(magnitude, float);
    let sum = bits.b.addf(absolute, offset);
    let sum = bits.b.bitcast(sum, from.element());
    let offset = bits.b.bitcast(offset, from.element());
    let small = bits.b.subi(sum, offset);
    let is_small = bits.compare(IntPredicate::SignedLess, magnitude, rebias + (1 << from.mantissa));
    let mut result = bits.b.select(is_small, small, normal);
    let is_beyond = bits.compare(IntPredicate::SignedGreater, result, to.greatest);
    result = bits.choose(is_beyond, if saturates && to.width <= 8 { to.greatest } else { to.beyond }, result);
    let is_nan = bits.compare(IntPredicate::SignedGreater, magnitude, from.beyond);
    result = bits.choose(is_nan, to.nan, result);
    let sign = bits.right(raw, from.width - to.width);
    let sign = bits.and(sign, 1 << (to.width - 1));
    let signed = bits.b.ori(result, sign);
    result = if to.is_unsigned_zero() && to.width == 8 {
        let is_zero = bits.compare(IntPredicate::Equal, result, 0);
        bits.choose(is_zero, 0, signed)
    } else {
        signed
    };
    let result = if from.width == to.width { result } else { b.trunci(result, to.element()) };
    if ty.element().is_float() { b.bitcast(result, ty.element()) } else { result }
}

/// Cuts the fraction of a float.
pub(crate) fn truncated(b: &mut Builder, x: Value) -> Value {
    let element = b.element_of(x);
    let zero = b.float(0.0, element);
    let is_negative = b.cmpf(FloatPredicate::OrderedLess, x, zero);
    let (up, down) = (b.ceil(x), b.floor(x));
    b.select(is_negative, up, down)
}

/// Converts an element of the type that arithmetic has for `from` to that for `to`, as ONNX's `Cast` does: floats are cut, and integers
/// wrap.
pub(crate) fn converted(b: &mut Builder, x: Value, from: DataType, to: DataType) -> Value {
    let (source, target) = (from.computed(), to.computed());
    let element = target.element();
    // Callers may give bytes of which the lower bits are the element alone.
    let x = if from.is_packed() && from.is_int() { wrapped(b, x, from) } else { x };
    match (source.kind(), target.kind()) {
        _ if source == target => x,
        (Kind::Float, Kind::Float) => narrowed(b, x, target),
        (Kind::Float, Kind::Bool) => {
            let zero = b.float(0.0, source.element());
            b.cmpf(FloatPredicate::UnorderedNotEqual, x, zero)
        }
        (_, Kind::Bool) => {
            let zero = b.int(0, source.element());
            b.cmpi(IntPredicate::NotEqual, x, zero)
        }
        (Kind::Float, _) => float_to_int(b, x, source, to),
        (Kind::Bool, Kind::Float) => {
            let (one, zero) = (b.float(1.0, element), b.float(0.0, element));
            b.select(x, one, zero)
        }
        (Kind::Unsigned, Kind::Float) => unsigned_to_float(b, x, source, element),
        (Kind::Signed, Kind::Float) => match (extended(b, x, source), element) {
            (wide, Element::F64) if source.element().bits() <= 32 => {
                // The lower half of the mantissa, offset so that it is not negative.
                let sign = b.int(i64::from(i32::MIN), Element::I32);
                let offset = b.xori(wide, sign);
                double_of_word(b, offset, 4_503_601_774_854_144.0)
            }
            (wide, _) => b.sitofp(wide, element),
        },
        (Kind::Bool | Kind::Unsigned, _) if element.bits() > b.element_of(x).bits() => b.extui(x, element),
        (Kind::Signed, _) if element.bits() > b.element_of(x).bits() => {
            let wide = b.extsi(x, element);
            wrapped(b, wide, to)
        }
        _ => wrapped(b, x, to),
    }
}

/// Converts an element of the type that arithmetic has to a stored one, rounding once.
pub(crate) fn converted_stored(b: &mut Builder, x: Value, from: DataType, to: DataType, rounding: Rounding) -> Value {
    if from.is_float() && to.is_float() {
        return narrowed_to(b, x, to, rounding);
    }
    let computed = converted(b, x, from, to);
    narrowed_to(b, computed, to, rounding)
}

fn float_to_int(b: &mut Builder, x: Value, from: DataType, to: DataType) -> Value {
    if from == DataType::F64 {
        let bits = integer_of_f64(b, x);
        return wrapped(b, bits, to);
    }
    if to.kind() == Kind::Unsigned && to.bits() == 64 {
        // Beyond the range of signed integers, the upper bit is added behind the conversion.
        let half = b.float(9_223_372_036_854_775_808.0, from.element());
        let is_large = b.cmpf(FloatPredicate::OrderedGreaterEqual, x, half);
        let lowered = b.subf(x, half);
        let small = b.select(is_large, lowered, x);
        let cut = truncated(b, small);
        let bits = b.fptosi(cut, Element::I64);
        let sign = b.int(i64::MIN, Element::I64);
        let raised = b.xori(bits, sign);
        return b.select(is_large, raised, bits);
    }
    let cut = truncated(b, x);
    let is_narrow = to.bits() <= 16 || to == DataType::I32;
    let bits = b.fptosi(cut, if is_narrow { Element::I32 } else { Element::I64 });
    wrapped(b, bits, to)
}

/// Cuts an `f64`, and returns the lower 64 bits of the integer, by shifts of the mantissa.
fn integer_of_f64(b: &mut Builder, x: Value) -> Value {
    let raw = b.bitcast(x, Element::I64);
    let mut bits = Bits { b, element: Element::I64 };
    let exponent = bits.right(raw, 52);
    let exponent = bits.and(exponent, 0x7FF);
    let fraction = bits.and(raw, (1 << 52) - 1);
    let leading = bits.constant(1 << 52);
    let mantissa = bits.b.ori(fraction, leading);
    let left = bits.add(exponent, -1075);
    let (zero, most) = (bits.constant(0), bits.constant(63));
    let right = bits.b.subi(zero, left);
    let right = bits.b.maxsi(right, zero);
    let right = bits.b.minsi(right, most);
    let left = bits.b.maxsi(left, zero);
    let left = bits.b.minsi(left, most);
    let cut = bits.b.shrui(mantissa, right);
    let magnitude = bits.b.shli(cut, left);
    let negative = bits.b.subi(zero, magnitude);
    let is_negative = bits.b.cmpi(IntPredicate::SignedLess, raw, zero);
    bits.b.select(is_negative, negative, magnitude)
}

/// Returns the difference of the `f64` whose unit is the last bit of its mantissa, which is a word of 32 bits, and an offset. The
/// compiler makes `arith.sitofp` of 32 bits of one of 64 bits that were extended, which is not legal on every target.
fn double_of_word(b: &mut Builder, word: Value, offset: f64) -> Value {
    let low = b.extui(word, Element::I64);
    let high = b.int(0x4330_0000_0000_0000, Element::I64);
    let bits = b.ori(low, high);
    let sum = b.bitcast(bits, Element::F64);
    let offset = b.float(offset, Element::F64);
    b.subf(sum, offset)
}

/// Converts an integer without a sign to a float.
fn unsigned_to_float(b: &mut Builder, x: Value, from: DataType, to: Element) -> Value {
    if from.bits() < 64 && to == Element::F64 {
        let word = extended(b, x, from);
        return double_of_word(b, word, 4_503_599_627_370_496.0);
    }
    if from.bits() < 64 {
        let wide = if from.bits() < 32 { Element::I32 } else { Element::I64 };
        let wide = b.extui(x, wide);
        return b.sitofp(wide, to);
    }
    // Halved with the lowest bit kept, so that the sum rounds as the whole does.
    let (one, zero) = (b.int(1, Element::I64), b.int(0, Element::I64));
    let (upper, lowest) = (b.shrui(x, one), b.andi(x, one));
    let half = b.ori(upper, lowest);
    let (halved, whole) = (b.sitofp(half, to), b.sitofp(x, to));
    let doubled = b.addf(halved, halved);
    let is_large = b.cmpi(IntPredicate::SignedLess, x, zero);
    b.select(is_large, doubled, whole)
}

/// Keeps the low bits of an integer, extended to the element of the type.
fn wrapped(b: &mut Builder, x: Value, to: DataType) -> Value {
    let element = to.element();
    let narrow = if b.element_of(x).bits() > element.bits() { b.trunci(x, element) } else { x };
    match to {
        DataType::U4 | DataType::U2 => {
            let mask = b.int((1 << to.bits()) - 1, element);
            b.andi(narrow, mask)
        }
        DataType::I4 | DataType::I2 => {
            // The sign of few bits, by arithmetic that no narrow shift is part of.
            let (mask, sign) = (b.int((1 << to.bits()) - 1, element), b.int(1 << (to.bits() - 1), element));
            let low = b.andi(narrow, mask);
            let flipped = b.xori(low, sign);
            b.subi(flipped, sign)
        }
        _ => narrow,
    }
}

/// Extends an integer of fewer than 32 bits, which not every target divides, compares and shifts right.
pub(crate) fn extended(b: &mut Builder, x: Value, ty: DataType) -> Value {
    match (ty.kind(), ty.element().bits() < 32) {
        (Kind::Signed, true) => b.extsi(x, Element::I32),
        (Kind::Unsigned | Kind::Bool, true) => b.extui(x, Element::I32),
        _ => x,
    }
}

/// Keeps the low bits of an integer that was [`extended`].
pub(crate) fn shortened(b: &mut Builder, x: Value, ty: DataType) -> Value {
    wrapped(b, x, ty)
}
