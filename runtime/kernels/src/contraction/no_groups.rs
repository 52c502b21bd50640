//! On targets without an instruction for several narrow integers.

use super::Initial;
use super::level::Level;
use super::loops::Loop;
use super::operand::{Operand, OperandKind};
use super::operation::Operation;

/// There is none.
pub(super) enum Grouped {}

/// Returns None.
pub(super) fn of<O: Operation>(_: Level, _: &[Loop], _: [OperandKind; 2]) -> Option<(Grouped, usize)> {
    None
}

/// Is never called.
///
/// # Safety
/// None is needed.
pub(super) unsafe fn run<O: Operation>(
    grouped: &Grouped,
    _: (*mut O::Number, Initial),
    _: Operand<'_, O::Number>,
    _: Operand<'_, O::Number>,
) {
    match *grouped {}
}
