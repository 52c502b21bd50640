//! Lists of rows and products that are kept with a plan.

use alloc::boxed::Box;

use super::loops::{Loops, Offsets, Walk};
use super::operand::OperandKind;
use super::plan::{Cut, Packing, Plan};
use super::tile::{Product, Row};

/// All rows and products of a plan that packs nothing and has one pass: what its tiles need beside the addresses of the operands.
pub(super) struct KeptLists {
    pub(super) rows: Box<[Row]>,
    pub(super) products: Box<[Product]>,
}

impl KeptLists {
    /// The most rows and products together. A thread keeps lists for 256 contractions.
    const MOST: usize = 512;

    /// Lists them; `left` is the kind of the plan's left operand. None where the plan packs operands or has several passes, or there are
    /// many: others list anew what they need, which takes little time beside theirs.
    pub(super) fn of(plan: &Plan, left: OperandKind) -> Option<KeptLists> {
        let Cut { rows, products, pass, is_in_place, .. } = plan.cut;
        let is_in_memory = matches!(left, OperandKind::Memory | OperandKind::Layout);
        let is_listed = rows.checked_add(products).is_some_and(|all| all <= KeptLists::MOST);
        if !is_in_place || !is_in_memory || pass < products || !is_listed || plan.packing == Packing::Across {
            return None;
        }
        let rows = offsets(&plan.rows, rows).map(|Offsets { output, left, right }| Row {
            output: output as isize,
            left: left as isize,
            right: right as isize,
        });
        let products = offsets(&plan.sums, products)
            .map(|Offsets { left, right, .. }| Product { left: left as isize, right: right as isize });
        Some(KeptLists { rows: rows.collect(), products: products.collect() })
    }
}

/// The offsets of the first iterations of loops.
fn offsets(loops: &Loops, count: usize) -> impl Iterator<Item = Offsets> {
    let mut walk = Walk::new(loops);
    (0..count).map(move |_| {
        let offsets = walk.offsets();
        walk.advance(1);
        offsets
    })
}
