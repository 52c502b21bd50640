//! Devices, buffers, command buffers, semaphores, executables.

mod element_type;
pub mod format;
pub mod local;
mod narrow_float;

pub use element_type::{ElementType, EncodingType, NumericalType};
pub use narrow_float::NarrowFloat;
