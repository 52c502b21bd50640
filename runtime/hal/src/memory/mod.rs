//! Memory: buffers and their views, the allocator, and the storage behind them. No module here names commands or queues.

pub(crate) mod address;
pub(crate) mod allocator;
pub(crate) mod borrow;
pub(crate) mod buffer;
pub(crate) mod buffer_view;
mod constant;
pub(crate) mod device_memory;
pub(crate) mod exclusive;
#[cfg(all(feature = "std", any(unix, windows)))]
pub mod mapping;
#[cfg(all(feature = "std", not(any(unix, windows))))]
#[path = "mapping/absent.rs"]
pub mod mapping;
pub(crate) mod movable;
pub(crate) mod parameters;
mod pin;
pub(crate) mod pool;
pub(crate) mod promise;
pub(crate) mod storage;
#[cfg(feature = "std")]
pub(crate) mod transients;
