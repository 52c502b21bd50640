//! The comparisons that end an iteration, as relations of trip counts.

use super::super::operation::Operation;
use incarnate_bytecode::trip_count::Relation;

/// A fused comparison of 64-bit (`wide`) or 32-bit values. It is `<`, or one for equality.
#[derive(Clone, Copy)]
pub(super) struct Comparison {
    kind: Kind,
    pub(super) wide: bool,
    pub(super) signed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Equal,
    NotEqual,
    Less,
}

impl Comparison {
    pub(super) fn of(operation: Operation) -> Option<Comparison> {
        let (kind, wide, signed) = match operation {
            Operation::CmpEqI32Branch => (Kind::Equal, false, true),
            Operation::CmpNeI32Branch => (Kind::NotEqual, false, true),
            Operation::CmpLtI32SBranch => (Kind::Less, false, true),
            Operation::CmpLtI32UBranch => (Kind::Less, false, false),
            Operation::CmpEqI64Branch => (Kind::Equal, true, true),
            Operation::CmpNeI64Branch => (Kind::NotEqual, true, true),
            Operation::CmpLtI64SBranch => (Kind::Less, true, true),
            Operation::CmpLtI64UBranch => (Kind::Less, true, false),
            _ => return None,
        };
        Some(Comparison { kind, wide, signed })
    }

    /// The relation of the tested value to the limit for which the result is `expected`. The limit is the left operand where
    /// they are `swapped`. None where they must be equal: such a loop does not count.
    pub(super) fn continues_while(self, swapped: bool, expected: bool) -> Option<Relation> {
        Some(match (self.kind, swapped, expected) {
            (Kind::Less, false, true) => Relation::Less,
            (Kind::Less, false, false) => Relation::GreaterOrEqual,
            (Kind::Less, true, true) => Relation::Greater,
            (Kind::Less, true, false) => Relation::LessOrEqual,
            (Kind::Equal, _, false) | (Kind::NotEqual, _, true) => Relation::NotEqual,
            (Kind::Equal, _, true) | (Kind::NotEqual, _, false) => return None,
        })
    }
}
