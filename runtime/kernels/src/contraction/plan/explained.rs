//! What a plan says of itself.

use core::fmt;

use super::{Packing, Plan};

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let batch = self.batch.count().saturating_mul(self.across.count);
        if batch != 1 {
            write!(f, "{batch} times ")?;
        }
        let (rows, columns, sums) = (self.rows.count(), self.columns.count(), self.sums.count());
        write!(f, "{rows} rows x {columns} columns, sums of {sums}; tiles of {} x ", self.tile_rows.min(rows))?;
        let place = if self.packing == Packing::Gaxpy { "in memory" } else { "in registers" };
        write!(f, "{} {place}; ", self.vectors * self.lanes)?;
        let right = if self.is_swapped { "left" } else { "right" };
        match self.packing {
            Packing::None => write!(f, "vectors loaded from the {right} operand"),
            Packing::Gaxpy => write!(f, "vectors loaded from the {right} operand, of eight products at once"),
            Packing::Across => write!(f, "lanes across {} iterations of the batch", self.across.count),
            Packing::Separate => write!(f, "vectors loaded from the {right} operand for each row"),
            Packing::Transposed => write!(f, "vectors transposed from the {right} operand"),
            Packing::Panels => write!(f, "panels of the {right} operand packed"),
            Packing::CrossingPanels => write!(f, "panels of the {right} operand packed across runs of columns"),
        }
    }
}
