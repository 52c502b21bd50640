//! Blocks of quantised elements: which loops run over one, and what an element is.
//!
//! The elements of a block are `groups` of [`LANES`] adjacent ones, whose bits are in adjacent bytes, so that a loop over the lanes of
//! a group is a vector. Dimensions of groups are such that the position of each byte is a sum of multiples of their indices. Source
//! of the formats: `ggml-quants.c`, and `gguf.quants` of ggml's Python package.

use incarnate_mlir::{Builder, Element, Extent, IntPredicate, Type, Value};

use super::half::{float_of_bits, of_half};
use crate::ElementType;

/// Elements of a group.
pub(super) const LANES: i64 = 16;

/// Lanes of products of integers, each of several adjacent elements.
pub(super) const INTEGER_LANES: i64 = LANES / 2;

/// A format of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Format {
    element_type: ElementType,
    /// The extents of the dimensions of groups.
    pub(super) groups: &'static [i64],
    /// Bytes of a block; 0 where elements are no blocks.
    bytes: i64,
}

/// The values of IQ4_NL: `kvalues_iq4nl` of ggml.
const IQ4_NL: [i64; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// A block of a matrix, within a loop nest.
pub(super) struct Block {
    /// The stored matrix.
    pub(super) stored: Value,
    /// The positions of the row, and of the block in the row.
    pub(super) at: [Value; 2],
    /// Whether the code is for VMVX alone.
    pub(super) is_portable: bool,
}

/// What quanta become elements by: an element is `quantum * scale + minimum`, without the scale or the minimum where there is none. Both are numbers
/// of a block, as `f32`, times numbers of a group, as `i32` of at most 8 bits with their signs, where groups have such.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scales {
    pub(super) scale: Option<Value>,
    pub(super) minimum: Option<Value>,
}

impl Scales {
    /// The products of those of a block and those of a group.
    pub(super) fn times(self, b: &mut Builder, of_group: Scales) -> Scales {
        let mut product = |of_block: Option<Value>, of_group: Option<Value>| match (of_block, of_group) {
            (Some(of_block), Some(of_group)) => {
                let of_group = b.sitofp(of_group, Element::F32);
                Some(b.mulf(of_block, of_group))
            }
            (of_block, _) => of_block,
        };
        let scale = product(self.scale, of_group.scale);
        Scales { scale, minimum: product(self.minimum, of_group.minimum) }
    }
}

/// A quantum as `f32`.
pub(super) fn float_of(b: &mut Builder, quantum: Value) -> Value {
    if b.element_of(quantum).is_float() { quantum } else { b.sitofp(quantum, Element::F32) }
}

impl Format {
    /// Returns the format of an element type; `None` if it is not supported.
    pub(super) fn of(element_type: ElementType) -> Option<Format> {
        use ElementType as E;
        let groups: &[i64] = match element_type {
            E::F32 | E::F16 | E::Bf16 => &[],
            E::Q4_0 | E::Q4_1 | E::Q5_0 | E::Q5_1 | E::Q8_0 | E::Iq4Nl | E::Mxfp4 => &[2],
            E::Q3K | E::Q4K | E::Q5K | E::Q6K => &[2, 2, 2, 2],
            E::Q2K => &[2, 4, 2],
            _ => return None,
        };
        let bytes = match element_type.block() {
            Some((1, _)) | None => 0,
            Some((_, bytes)) => bytes.cast_signed(),
        };
        Some(Format { element_type, groups, bytes })
    }

    /// Elements of a block.
    pub(super) fn elements(self) -> i64 {
        LANES * self.groups.iter().product::<i64>()
    }

    /// Whether elements are quanta with scales.
    pub(super) fn is_quantized(self) -> bool {
        self.bytes != 0
    }

    /// Whether groups have scales of their own.
    pub(super) fn has_scales_of_groups(self) -> bool {
        self.groups.len() > 1
    }

    /// Whether elements are sums with a minimum.
    pub(super) fn has_minima(self) -> bool {
        use ElementType as E;
        matches!(self.element_type, E::Q4_1 | E::Q5_1 | E::Q2K | E::Q4K | E::Q5K)
    }

    /// The type of a stored matrix.
    pub(super) fn storage(self, rows: i64, columns: i64) -> Type {
        let element = match self.element_type {
            ElementType::F32 => Element::F32,
            ElementType::F16 | ElementType::Bf16 => Element::I16,
            _ => Element::I8,
        };
        let inner = if self.is_quantized() { self.bytes } else { LANES };
        let extents = [rows, columns / self.elements(), inner].map(|extent| u64::try_from(extent).ok());
        Type::tensor(&extents, element)
    }

    /// How many groups of the last dimension have a scale and a minimum in common.
    pub(super) fn groups_of_scale(self) -> i64 {
        use ElementType as E;
        let own = matches!(self.element_type, E::F32 | E::F16 | E::Bf16 | E::Q2K | E::Q3K | E::Q6K);
        self.groups.last().copied().filter(|_| !own).unwrap_or(1)
    }

    /// The indices of each group of a block, in order.
    pub(super) fn all_groups(self) -> Vec<Vec<Extent>> {
        let count: i64 = self.groups.iter().product();
        let indices = |ordinal: i64| {
            let mut rest = ordinal;
            let mut indices = Vec::new();
            for extent in self.groups.iter().rev() {
                indices.push(Extent::Constant(rest % extent));
                rest /= extent;
            }
            indices.reverse();
            indices
        };
        (0..count).map(indices).collect()
    }

    /// Computes an element; `group` has the indices of its group.
    pub(super) fn element(self, b: &mut Builder, block: &Block, group: &[Extent], lane: Value) -> Value {
        let quantum = self.quantum(b, block, group, lane);
        let (of_block, of_group) = (self.scales_of_block(b, block), self.scales_of_group(b, block, group));
        let Scales { scale, minimum } = of_block.times(b, of_group);
        let quantum = float_of(b, quantum);
        let scaled = scale.map_or(quantum, |scale| b.mulf(quantum, scale));
        minimum.map_or(scaled, |minimum| b.addf(scaled, minimum))
    }

    /// Computes the quantum of an element: an `i32` of at most 8 bits with its sign; an `f32` where elements are no blocks.
    pub(super) fn quantum(self, b: &mut Builder, block: &Block, group: &[Extent], lane: Value) -> Value {
        use ElementType as E;
        let mut r = Reader { b, block };
        let g = |index: usize| group.get(index).copied().unwrap_or(Extent::Value(lane));
        match self.element_type {
            E::F32 => r.stored(lane),
            E::F16 | E::Bf16 => {
                let bits = r.stored(lane);
                float_of_bits(r.b, self.element_type, bits, block.is_portable)
            }
            E::Q4_0 => {
                let q = r.nibble(2, g(0), lane);
                r.minus(q, 8)
            }
            E::Q4_1 => r.nibble(4, g(0), lane),
            E::Q5_0 => r.five_bits(2, 6, -16, (g(0), lane)),
            E::Q5_1 => r.five_bits(4, 8, 0, (g(0), lane)),
            E::Q8_0 => {
                let byte = r.byte(2, &[(g(0), 16), (lane.into(), 1)]);
                r.b.extsi(byte, Element::I32)
            }
            E::Iq4Nl => {
                let q = r.nibble(2, g(0), lane);
                r.one_of(q, &IQ4_NL)
            }
            E::Mxfp4 => r.mxfp4(g(0), lane),
            E::Q2K => r.q2_k([g(0), g(1), g(2)], lane),
            E::Q3K => r.q3_k([g(0), g(1), g(2), g(3)], lane),
            E::Q4K => r.q4_k([g(0), g(1), g(2), g(3)], lane),
            E::Q5K => r.q5_k([g(0), g(1), g(2), g(3)], lane),
            E::Q6K => r.q6_k([g(0), g(1), g(2), g(3)], lane),
            // `Format::of` has returned none.
            _ => r.b.float(0.0, Element::F32),
        }
    }

    /// Computes the numbers of a block, as `f32`.
    pub(super) fn scales_of_block(self, b: &mut Builder, block: &Block) -> Scales {
        use ElementType as E;
        let mut r = Reader { b, block };
        let (scale, minimum) = match self.element_type {
            E::Q4_0 | E::Q5_0 | E::Q8_0 | E::Iq4Nl => (Some(r.half(0)), None),
            E::Q4_1 | E::Q5_1 => (Some(r.half(0)), Some(r.half(2))),
            E::Mxfp4 => (Some(r.scale_of_mxfp4()), None),
            E::Q2K => (Some(r.half(80)), Some(r.subtracted(82))),
            E::Q3K => (Some(r.half(108)), None),
            E::Q4K | E::Q5K => (Some(r.half(0)), Some(r.subtracted(2))),
            E::Q6K => (Some(r.half(208)), None),
            _ => (None, None),
        };
        Scales { scale, minimum }
    }

    /// Computes the numbers of a group, as `i32`.
    pub(super) fn scales_of_group(self, b: &mut Builder, block: &Block, group: &[Extent]) -> Scales {
        use ElementType as E;
        let mut r = Reader { b, block };
        let (scale, minimum) = match (self.element_type, group) {
            (E::Q2K, &[n, s, p]) => {
                let both = r.unsigned(0, &[(n, 8), (s, 2), (p, 1)]);
                (Some(r.and(both, 15)), Some(r.right(both, 4)))
            }
            (E::Q3K, &[n, s1, s0, p]) => (Some(r.scale_of_q3_k([n, s1, s0, p])), None),
            (E::Q4K | E::Q5K, &[high, low1, low0, ..]) => {
                let [scale, minimum] = r.scales_of_32(high, [(low1, 2), (low0, 1)]);
                (Some(scale), Some(minimum))
            }
            (E::Q6K, &[n, a, c, p]) => {
                let scale = r.byte(192, &[(n, 8), (a, 4), (c, 2), (p, 1)]);
                (Some(r.b.extsi(scale, Element::I32)), None)
            }
            _ => (None, None),
        };
        Scales { scale, minimum }
    }
}

/// The indices of terms with their factors, and the sum of the constant terms.
fn parted(terms: &[(Extent, i64)]) -> (Vec<(Value, i64)>, i64) {
    let (mut values, mut sum) = (Vec::new(), 0);
    for (index, factor) in terms {
        match index {
            Extent::Value(index) => values.push((*index, *factor)),
            Extent::Constant(index) => sum += index * factor,
        }
    }
    (values, sum)
}

/// Reads parts of a block.
struct Reader<'a> {
    b: &'a mut Builder,
    block: &'a Block,
}

impl Reader<'_> {
    /// The stored element at a position of the block.
    fn stored(&mut self, position: Value) -> Value {
        let [row, block] = self.block.at;
        self.b.extract(self.block.stored, &[row, block, position])
    }

    /// The byte at a constant and a sum of multiples of indices.
    fn byte(&mut self, start: i64, terms: &[(Extent, i64)]) -> Value {
        let (values, constant) = parted(terms);
        let mut position = self.b.index(start + constant);
        for (index, factor) in values {
            let term = if factor == 1 {
                index
            } else {
                let factor = self.b.index(factor);
                self.b.muli(index, factor)
            };
            position = self.b.addi(position, term);
        }
        self.stored(position)
    }

    /// [`Reader::byte`] without a sign, as `i32`.
    fn unsigned(&mut self, start: i64, terms: &[(Extent, i64)]) -> Value {
        let byte = self.byte(start, terms);
        self.b.extui(byte, Element::I32)
    }

    fn int(&mut self, value: i64) -> Value {
        self.b.int(value, Element::I32)
    }

    fn and(&mut self, x: Value, mask: i64) -> Value {
        let mask = self.int(mask);
        self.b.andi(x, mask)
    }

    fn left(&mut self, x: Value, bits: i64) -> Value {
        if bits == 0 {
            return x;
        }
        let bits = self.int(bits);
        self.b.shli(x, bits)
    }

    fn right(&mut self, x: Value, bits: i64) -> Value {
        if bits == 0 {
            return x;
        }
        let bits = self.int(bits);
        self.b.shrui(x, bits)
    }

    fn minus(&mut self, x: Value, value: i64) -> Value {
        let value = self.int(value);
        self.b.subi(x, value)
    }

    /// Shifts to the right by a sum of multiples of indices.
    fn right_by(&mut self, x: Value, terms: &[(Extent, i64)]) -> Value {
        if let (values, bits) = parted(terms)
            && values.is_empty()
        {
            return self.right(x, bits);
        }
        let bits = self.sum(terms);
        self.b.shrui(x, bits)
    }

    /// A sum of multiples of indices.
    fn sum(&mut self, terms: &[(Extent, i64)]) -> Value {
        let (values, constant) = parted(terms);
        let mut sum = self.int(constant);
        for (index, factor) in values {
            let index = self.b.index_cast(index, Element::I32);
            let factor = self.int(factor);
            let term = self.b.muli(index, factor);
            sum = self.b.addi(sum, term);
        }
        sum
    }

    /// The number of 16 bits at a position.
    fn half_bits(&mut self, start: i64) -> Value {
        let (low, high) = (self.unsigned(start, &[]), self.unsigned(start + 1, &[]));
        let high = self.left(high, 8);
        self.b.ori(low, high)
    }

    /// The `f16` at a position.
    fn half(&mut self, start: i64) -> Value {
        let bits = self.half_bits(start);
        of_half(self.b, bits, self.block.is_portable)
    }

    /// One of constants, as many as a power of two, by selections of each bit of an index: a vector has no load for each lane.
    fn one_of(&mut self, index: Value, constants: &[i64]) -> Value {
        let mut values: Vec<Value> = constants.iter().map(|constant| self.int(*constant)).collect();
        let zero = self.int(0);
        let mut bit = 0;
        while values.len() > 1 {
            let digit = self.right(index, bit);
            let digit = self.and(digit, 1);
            let is_even = self.b.cmpi(IntPredicate::Equal, digit, zero);
            let (pairs, _) = values.as_chunks::<2>();
            values = pairs.iter().map(|[even, odd]| self.b.select(is_even, *even, *odd)).collect();
            bit += 1;
        }
        values.first().copied().unwrap_or(zero)
    }

    /// The `f16` at a position with the other sign, as it is subtracted.
    fn subtracted(&mut self, start: i64) -> Value {
        let half = self.half(start);
        self.b.negf(half)
    }

    /// Four bits of a byte: the lower ones are the first group.
    fn nibble(&mut self, start: i64, group: Extent, lane: Value) -> Value {
        let byte = self.unsigned(start, &[(lane.into(), 1)]);
        let shifted = self.right_by(byte, &[(group, 4)]);
        self.and(shifted, 15)
    }

    /// Adds `set` where a bit of a number, at a sum of multiples of indices, is set, and `clear` where it is not; `set - clear` is a power of two. A
    /// bit at a constant is moved to where it is added, which vectors of bytes do; otherwise a vector of conditions and one addition take its place.
    fn add_by_bit(&mut self, q: Value, (bits, at): (Value, &[(Extent, i64)]), [clear, set]: [i64; 2]) -> Value {
        if let (indices, position) = parted(at)
            && indices.is_empty()
        {
            let bit = self.right(bits, position);
            let bit = self.and(bit, 1);
            let bit = self.left(bit, (set - clear).trailing_zeros().into());
            let sum = self.b.addi(q, bit);
            return if clear == 0 { sum } else { self.minus(sum, -clear) };
        }
        let position = self.sum(at);
        let (one, zero) = (self.int(1), self.int(0));
        let mask = self.b.shli(one, position);
        let bit = self.b.andi(bits, mask);
        let is_clear = self.b.cmpi(IntPredicate::Equal, bit, zero);
        let mut sum = |addend: i64| if addend == 0 { q } else { self.minus(q, -addend) };
        let (clear, set) = (sum(clear), sum(set));
        self.b.select(is_clear, clear, set)
    }

    /// Four bits of a byte, and one of the 32 bits at `high`, of which the least value is `least`.
    fn five_bits(&mut self, high: i64, start: i64, least: i64, (group, lane): (Extent, Value)) -> Value {
        let low = self.nibble(start, group, lane);
        let mut bits = self.int(0);
        // A group's bits are 16 of the 32.
        for (index, shift) in [(0, 0), (1, 8)] {
            let byte = self.unsigned(high + index, &[(group, 2)]);
            let byte = self.left(byte, shift);
            bits = self.b.ori(bits, byte);
        }
        self.add_by_bit(low, (bits, &[(lane.into(), 1)]), [least, least + 16])
    }

    /// A scale of 8 bits, which are an exponent, halved: quanta are twice the values.
    fn scale_of_mxfp4(&mut self) -> Value {
        let exponent = self.unsigned(0, &[]);
        let (bits, zero) = (self.left(exponent, 23), self.int(0));
        let smallest = self.int(1 << 22);
        let is_zero = self.b.cmpi(IntPredicate::Equal, exponent, zero);
        let bits = self.b.select(is_zero, smallest, bits);
        let (scale, half) = (self.b.bitcast(bits, Element::F32), self.b.float(0.5, Element::F32));
        self.b.mulf(scale, half)
    }

    /// Twice a 4-bit float with two bits of exponent.
    fn mxfp4(&mut self, group: Extent, lane: Value) -> Value {
        let zero = self.int(0);
        let q = self.nibble(1, group, lane);
        let (magnitude, sign) = (self.and(q, 7), self.right(q, 3));
        // 0, 1, 2, 3, 4, 6, 8, 12. Exponents above 0 shift by one less: 0, 1, 2.
        let (exponent, fraction) = (self.right(magnitude, 1), self.and(magnitude, 1));
        let (upper, two) = (self.right(exponent, 1), self.int(2));
        let both = self.b.andi(upper, exponent);
        let shift = self.b.addi(upper, both);
        let significand = self.b.ori(two, fraction);
        let normal = self.b.shli(significand, shift);
        let is_small = self.b.cmpi(IntPredicate::Equal, exponent, zero);
        let twice = self.b.select(is_small, fraction, normal);
        let negative = self.b.subi(zero, twice);
        let is_positive = self.b.cmpi(IntPredicate::Equal, sign, zero);
        self.b.select(is_positive, twice, negative)
    }

    fn q2_k(&mut self, [n, s, p]: [Extent; 3], lane: Value) -> Value {
        let byte = self.unsigned(16, &[(n, 32), (p, 16), (lane.into(), 1)]);
        let q = self.right_by(byte, &[(s, 2)]);
        self.and(q, 3)
    }

    fn q3_k(&mut self, [n, s1, s0, p]: [Extent; 4], lane: Value) -> Value {
        let byte = self.unsigned(32, &[(n, 32), (p, 16), (lane.into(), 1)]);
        let q = self.right_by(byte, &[(s1, 4), (s0, 2)]);
        let q = self.and(q, 3);
        let mask = self.unsigned(0, &[(p, 16), (lane.into(), 1)]);
        self.add_by_bit(q, (mask, &[(n, 4), (s1, 2), (s0, 1)]), [-4, 0])
    }

    /// Six bits: four of one byte, two of another.
    fn scale_of_q3_k(&mut self, [n, s1, s0, p]: [Extent; 4]) -> Value {
        let low = self.unsigned(96, &[(s1, 4), (s0, 2), (p, 1)]);
        let low = self.right_by(low, &[(n, 4)]);
        let low = self.and(low, 15);
        let high = self.unsigned(104, &[(s0, 2), (p, 1)]);
        let high = self.right_by(high, &[(n, 4), (s1, 2)]);
        let high = self.and(high, 3);
        let high = self.left(high, 4);
        let scale = self.b.ori(low, high);
        self.minus(scale, 32)
    }

    /// The numbers of the scale and of the minimum of 32 elements, each six bits.
    fn scales_of_32(&mut self, high: Extent, low: [(Extent, i64); 2]) -> [Value; 2] {
        match high {
            Extent::Constant(0) => self.first_scales(low),
            Extent::Constant(_) => self.later_scales(low),
            Extent::Value(high) => {
                let zero = self.b.index(0);
                let is_first = self.b.cmpi(IntPredicate::Equal, high, zero);
                let (first, later) = (self.first_scales(low), self.later_scales(low));
                [0, 1].map(|of| self.b.select(is_first, first[of], later[of]))
            }
        }
    }

    /// Those of the first half of a block.
    fn first_scales(&mut self, at: [(Extent, i64); 2]) -> [Value; 2] {
        [4, 8].map(|start| {
            let byte = self.unsigned(start, &at);
            self.and(byte, 63)
        })
    }

    /// Those of the second half: four bits of one byte, two of another.
    fn later_scales(&mut self, at: [(Extent, i64); 2]) -> [Value; 2] {
        let third = self.unsigned(12, &at);
        let four = [self.and(third, 15), self.right(third, 4)];
        [0, 1].map(|of| {
            let two = self.unsigned([4, 8][of], &at);
            let two = self.right(two, 6);
            let two = self.left(two, 4);
            self.b.ori(four[of], two)
        })
    }

    fn q4_k(&mut self, [high, low1, low0, p]: [Extent; 4], lane: Value) -> Value {
        let byte = self.unsigned(16, &[(high, 64), (low1, 32), (p, 16), (lane.into(), 1)]);
        let q = self.right_by(byte, &[(low0, 4)]);
        self.and(q, 15)
    }

    fn q5_k(&mut self, [high, low1, low0, p]: [Extent; 4], lane: Value) -> Value {
        let byte = self.unsigned(48, &[(high, 64), (low1, 32), (p, 16), (lane.into(), 1)]);
        let q = self.right_by(byte, &[(low0, 4)]);
        let q = self.and(q, 15);
        let bits = self.unsigned(16, &[(p, 16), (lane.into(), 1)]);
        self.add_by_bit(q, (bits, &[(high, 4), (low1, 2), (low0, 1)]), [0, 16])
    }

    fn q6_k(&mut self, [n, a, c, p]: [Extent; 4], lane: Value) -> Value {
        let low = self.unsigned(0, &[(n, 64), (c, 32), (p, 16), (lane.into(), 1)]);
        let low = self.right_by(low, &[(a, 4)]);
        let low = self.and(low, 15);
        let high = self.unsigned(128, &[(n, 32), (p, 16), (lane.into(), 1)]);
        let high = self.right_by(high, &[(a, 4), (c, 2)]);
        let high = self.and(high, 3);
        let high = self.left(high, 4);
        let q = self.b.ori(low, high);
        self.minus(q, 32)
    }
}
