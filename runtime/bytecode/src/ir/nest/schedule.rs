//! Schedules: what back ends run in place of the loops of a nest.
//!
//! A schedule says what may be done, and what must be checked before. Trip counts and strides may be known only at run time,
//! so cache blocks, register tiles and packing are the kernel's business.

use super::contraction::Contraction;
use super::perfect::Perfect;
pub use super::perfect::{InOrder, Order};
use super::strips::Strips;
use super::{Needed, Nest};
use crate::ir::function::Function;

/// How a nest is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Sums of products, by a kernel.
    Contraction(Contraction),
    /// Vector operations over strips of elements.
    Strips(Strips),
    /// One iteration after the other, as the bytecode has them.
    InOrder(InOrder),
    /// Nothing: zeros are stored to buffers that have only zeros.
    Zeros,
}

impl Schedule {
    /// The schedule of every nest on targets without vectors and without memory for kernels.
    pub const SCALAR: Schedule = Schedule::InOrder(InOrder::Scalar);

    /// Returns the schedule of a nest whose float operations are in an order.
    #[must_use]
    pub fn of(function: &Function, nest: &Nest, needed: &Needed, order: Order) -> Schedule {
        if nest.stores_zeros_to_zeros(function) {
            return Schedule::Zeros;
        }
        // No back end runs these in another order.
        let order = if nest.decides_by_loaded_numbers(function) { Order::Bytecode } else { order };
        let scheduled = Perfect::of(function, nest, needed).and_then(|perfect| {
            if let Some(contraction) = Contraction::of(function, nest, needed, (&perfect, order)) {
                return Ok(Schedule::Contraction(contraction));
            }
            Strips::of(function, nest, needed, &perfect).map(Schedule::Strips)
        });
        scheduled.unwrap_or_else(Schedule::InOrder)
    }
}
