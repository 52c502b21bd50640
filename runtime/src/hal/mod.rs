//! Devices, buffers, command buffers, semaphores, executables.

mod element_type;
pub mod local;

pub use element_type::{ElementType, EncodingType, NumericalType};
