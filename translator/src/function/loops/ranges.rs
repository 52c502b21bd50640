//! The integers that values of a nest may be.

use std::collections::BTreeMap;

use incarnate_bytecode::ir::nest::Element;
use incarnate_bytecode::ir::{Block, Function, Op, Value};
use incarnate_bytecode::isa::Opcode;

use super::sums::{Factors, Form};
use super::writer::Writer;

/// The least and the greatest integer that a value of 32 bits with a sign may be.
pub(super) type Range = (i64, i64);

const ALL: Range = (i32::MIN as i64, i32::MAX as i64);

/// The ranges of values that instructions compute; a value without one may be any integer.
pub(super) struct Ranges(BTreeMap<Value, Range>);

impl Ranges {
    /// The ranges of the results of instructions, which are in the order in which they run.
    pub(super) fn of(writer: &Writer<'_, '_, '_>, instructions: &[(Block, usize)]) -> Ranges {
        let (function, nest) = (writer.emitter.body.function, writer.nest);
        let mut ranges = Ranges(BTreeMap::new());
        for (block, position) in instructions {
            let inst = nest.instruction(function, *block, *position);
            let [result] = inst.results[..] else { continue };
            let range = match (nest.access(*block, *position), &inst.op) {
                (Some(access), _) => of_element(nest.views[access.view].element),
                (None, Op::Eval { opcode, operands }) => {
                    let operands: Vec<Range> = operands.iter().map(|value| ranges.get(function, *value)).collect();
                    of_result(*opcode, &operands)
                }
                _ => ALL,
            };
            if ALL.0 <= range.0 && range.1 <= ALL.1 {
                ranges.0.insert(result, range);
            }
        }
        ranges
    }

    /// Whether a value is a 16-bit integer with a sign.
    pub(super) fn is_i16(&self, function: &Function, value: Value) -> bool {
        self.is_within(function, value, of_element(Element::i16))
    }

    /// Whether a value is in a range.
    pub(super) fn is_within(&self, function: &Function, value: Value, range: Range) -> bool {
        contains(range, self.get(function, value))
    }

    /// The factors of two products, if they have 16 bits.
    pub(super) fn pairs(&self, function: &Function, products: &[(Value, Value)]) -> Option<Factors> {
        let is_narrow =
            |(left, right): &(Value, Value)| [*left, *right].iter().all(|value| self.is_i16(function, *value));
        products.iter().all(is_narrow).then(|| Factors::of(Form::Pairs, products.iter().copied()))
    }

    /// The factors of four products, if they are bytes whose products have sums of 16 bits, two by two. Bytes without a sign are the left ones. Where
    /// all have a sign, the right ones are not -128.
    pub(super) fn quads(&self, function: &Function, products: &[(Value, Value)]) -> Option<Factors> {
        let [unsigned, signed] = [Element::u8, Element::i8].map(of_element);
        for (form, left, right) in [(Form::Quads, unsigned, signed), (Form::SignedQuads, signed, (-0x7f, 0x7f))] {
            let ordered = |(one, other): &(Value, Value)| {
                let fits = |value: &Value, range: Range| self.is_within(function, *value, range);
                if fits(one, left) && fits(other, right) {
                    Some((*one, *other))
                } else {
                    (fits(other, left) && fits(one, right)).then_some((*other, *one))
                }
            };
            let ordered: Option<Vec<(Value, Value)>> = products.iter().map(ordered).collect();
            let Some(ordered) = ordered else { continue };
            let has_narrow_sums = ordered.chunks(2).all(|pair| {
                let products = pair.iter().map(|(left, right)| {
                    of_result(Opcode::MulI32, &[self.get(function, *left), self.get(function, *right)])
                });
                let sum = products.fold((0, 0), |sum, product| of_result(Opcode::AddI32, &[sum, product]));
                contains(of_element(Element::i16), sum)
            });
            if has_narrow_sums {
                return Some(Factors::of(form, ordered.into_iter()));
            }
        }
        None
    }

    fn get(&self, function: &Function, value: Value) -> Range {
        match function.constant_bits(value) {
            Some(bits) => (i64::from(bits as i32), i64::from(bits as i32)),
            None => self.0.get(&value).copied().unwrap_or(ALL),
        }
    }
}

fn contains(range: Range, part: Range) -> bool {
    range.0 <= part.0 && part.1 <= range.1
}

fn of_element(element: Element) -> Range {
    match element {
        Element::u8 => (0, 0xff),
        Element::i8 => (-0x80, 0x7f),
        Element::u16 => (0, 0xffff),
        Element::i16 => (-0x8000, 0x7fff),
        _ => ALL,
    }
}

/// The range of an instruction's result; one with integers that have more bits where the result may wrap around.
fn of_result(opcode: Opcode, operands: &[Range]) -> Range {
    let narrowed = |operand: Range, to: Range| if to.0 <= operand.0 && operand.1 <= to.1 { operand } else { to };
    match (opcode, operands) {
        (Opcode::ExtI8I32U, [x]) => narrowed(*x, of_element(Element::u8)),
        (Opcode::ExtI8I32S, [x]) => narrowed(*x, of_element(Element::i8)),
        (Opcode::ExtI16I32U, [x]) => narrowed(*x, of_element(Element::u16)),
        (Opcode::ExtI16I32S, [x]) => narrowed(*x, of_element(Element::i16)),
        (Opcode::AndI32, [x, y]) => match (x.0 >= 0, y.0 >= 0) {
            (true, true) => (0, x.1.min(y.1)),
            (true, false) => (0, x.1),
            (false, true) => (0, y.1),
            (false, false) => ALL,
        },
        (Opcode::OrI32, [x, y]) if x.0 >= 0 && y.0 >= 0 => {
            (0, (x.1.max(y.1) + 1).unsigned_abs().next_power_of_two().cast_signed() - 1)
        }
        (Opcode::AddI32, [x, y]) => (x.0 + y.0, x.1 + y.1),
        (Opcode::SubI32, [x, y]) => (x.0 - y.1, x.1 - y.0),
        (Opcode::ShlI32 | Opcode::ShrI32S | Opcode::ShrI32U, [_, bits]) if bits.0 < 0 || bits.1 > 31 => ALL,
        (Opcode::ShlI32, [x, bits]) => {
            (x.0 << if x.0 < 0 { bits.1 } else { bits.0 }, x.1 << if x.1 < 0 { bits.0 } else { bits.1 })
        }
        (Opcode::ShrI32U, [x, bits]) if x.0 < 0 => (0, i64::from(u32::MAX) >> bits.0),
        (Opcode::ShrI32S | Opcode::ShrI32U, [x, bits]) => {
            (x.0 >> if x.0 < 0 { bits.0 } else { bits.1 }, x.1 >> if x.1 < 0 { bits.1 } else { bits.0 })
        }
        (Opcode::MulI32, [x, y]) => {
            let products = [x.0 * y.0, x.0 * y.1, x.1 * y.0, x.1 * y.1];
            (products.into_iter().fold(i64::MAX, i64::min), products.into_iter().fold(i64::MIN, i64::max))
        }
        (Opcode::CmpEQI32 | Opcode::CmpNEI32, _) => (0, 1),
        (Opcode::SelectI32, [_, x, y]) => (x.0.min(y.0), x.1.max(y.1)),
        _ => ALL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_all_results() {
        let byte = of_result(Opcode::ExtI8I32U, &[of_element(Element::i8)]);
        assert_eq!(byte, (0, 255));
        assert_eq!(of_result(Opcode::AndI32, &[byte, (15, 15)]), (0, 15));
        assert_eq!(of_result(Opcode::AndI32, &[ALL, (-16, -16)]), ALL);
        assert_eq!(of_result(Opcode::ShrI32U, &[byte, (4, 4)]), (0, 15));
        assert_eq!(of_result(Opcode::ShrI32U, &[ALL, (28, 28)]), (0, 15));
        assert_eq!(of_result(Opcode::ShrI32U, &[byte, (0, 4)]), (0, 255));
        assert_eq!(of_result(Opcode::ShrI32U, &[byte, (0, 32)]), ALL);
        assert_eq!(of_result(Opcode::ShrI32S, &[(-100, 100), (1, 2)]), (-50, 50));
        assert_eq!(of_result(Opcode::ShlI32, &[(-3, 3), (0, 2)]), (-12, 12));
        assert_eq!(of_result(Opcode::ShlI32, &[(2, 3), (1, 2)]), (4, 12));
        assert_eq!(of_result(Opcode::ShrI32S, &[ALL, (24, 24)]), (-128, 127));
        assert_eq!(of_result(Opcode::OrI32, &[(0, 15), (0, 48)]), (0, 63));
        assert_eq!(of_result(Opcode::SubI32, &[(0, 63), (32, 32)]), (-32, 31));
        assert_eq!(of_result(Opcode::SelectI32, &[ALL, (-127, 1), (13, 113)]), (-127, 113));
        // The result may wrap around.
        assert_eq!(of_result(Opcode::AddI32, &[(0, i64::from(i32::MAX)), (1, 1)]).1, 1 << 31);
        assert_eq!(of_result(Opcode::ShlI32, &[byte, (24, 24)]).1, 255 << 24);
        assert_eq!(of_result(Opcode::MulI32, &[(-3, 2), (-5, 7)]), (-21, 15));
        assert_eq!(of_result(Opcode::MulI32, &[ALL, ALL]).1, 1 << 62);
    }
}
