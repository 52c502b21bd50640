//! What calls of native functions cost.
//!
//! A program that may take a number of steps must not do work behind native calls for nothing. So each row of the tables says
//! what a call costs by its operands; a row without a cost does not compile. The cost is charged before the function runs.
//! What only the execution knows, such as the workgroups of a recorded dispatch, is charged when it is executed.

/// Bytes that a step processes.
pub const BYTES_PER_STEP: u64 = 64;
/// Instructions of the bytecode that are a step where they run one after the other: a step of longer code would take longer than
/// the clock may go unread.
pub const INSTRUCTIONS_PER_STEP: usize = 256;
/// Elements that a step computes.
const ELEMENTS_PER_STEP: u64 = 64;

/// What a call costs besides the step that each call is: the sum of its terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost(pub &'static [Term]);

/// A part of a call's cost. Arguments are named by their indices; a span is one argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Term {
    /// As many bytes as the value of an argument says.
    Bytes(u8),
    /// As many bytes as the value of the first argument says, but at most the whole object of the second.
    BytesOf(u8, u8),
    /// The whole object of an argument, or all objects of a span and 64 bytes for each.
    Whole(u8),
    /// The whole object of an argument, which is verified and compiled: a step for each byte.
    Compiled(u8),
    /// As many elements as the product of the values of arguments; a loop over nothing counts as one over one element.
    Elements(&'static [u8]),
}

/// An argument of a call, as far as costs depend on it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Operand {
    /// The value of an integer; 0 for others.
    pub value: u64,
    /// The bytes of an object, such as the length of a buffer; 0 for others.
    pub extent: u64,
}

impl Cost {
    /// The cost of functions whose time does not depend on their operands.
    pub const CONSTANT: Cost = Cost(&[]);

    /// Returns the steps of a call with these operands; operands that are missing count as 0.
    // Inlined, so that the terms of a function are constants where it is called.
    #[inline(always)]
    #[must_use]
    pub fn steps(self, operands: &[Operand]) -> u64 {
        let operand = |index: u8| operands.get(usize::from(index)).copied().unwrap_or_default();
        let steps = |term: &Term| match *term {
            Term::Bytes(count) => operand(count).value / BYTES_PER_STEP,
            Term::BytesOf(count, of) => operand(count).value.min(operand(of).extent) / BYTES_PER_STEP,
            Term::Whole(object) => operand(object).extent / BYTES_PER_STEP,
            Term::Compiled(object) => operand(object).extent,
            Term::Elements(sizes) => {
                let product = |product: u64, size: &u8| product.saturating_mul(operand(*size).value.max(1));
                sizes.iter().fold(1, product) / ELEMENTS_PER_STEP
            }
        };
        self.0.iter().map(steps).fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_sums_of_terms() {
        let value = |value| Operand { value, extent: 0 };
        let object = |extent| Operand { value: 0, extent };
        let operands = [object(640), value(u64::MAX), value(128), value(0), value(3)];
        assert_eq!(Cost::CONSTANT.steps(&operands), 0);
        assert_eq!(Cost(&[Term::BytesOf(1, 0), Term::Bytes(2), Term::Whole(0)]).steps(&operands), 10 + 2 + 10);
        assert_eq!(Cost(&[Term::Compiled(0), Term::Whole(9)]).steps(&operands), 640);
        // Nothing is computed 128 times 3 times over.
        assert_eq!(Cost(&[Term::Elements(&[2, 3, 4])]).steps(&operands), 6);
        assert!(Cost(&[Term::Elements(&[1, 2]), Term::Bytes(1)]).steps(&operands) > 1 << 58);
    }
}
