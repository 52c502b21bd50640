//! Kernels of loop nests.
//!
//! A [`contraction`] is a nest of loops in which each iteration adds a product to an element. It is described by its loops alone
//! ([`Loop`]): trip counts, and how far an iteration moves each operand. Everything else follows from that at run time: which
//! loops select rows and columns of the output, which are summed over, what is packed, and the tile that stays in registers.
//! Matrix products, convolutions, products of a matrix and a vector, and depthwise convolutions are all this.
//!
//! **Order.** Every element of the output sees its own operations in the order of the loops, and each operation is that of
//! [`semantics`](incarnate_bytecode::semantics). So results are those of the plain loops, bit for bit, on every processor. Where an
//! operation allows any order, products may be added to partial sums ([`contraction::Sums`]): results are the same on every processor,
//! too.
#![no_std]

extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

pub mod contraction;
pub mod peak;
pub mod products;
pub mod proof;

pub use contraction::{Loop, Operand, Operation};
