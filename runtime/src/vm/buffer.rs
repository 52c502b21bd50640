//! placeholder, being written
use super::reference::RefType;

/// A `!vm.buffer`.
#[derive(Debug)]
pub struct Buffer {}

impl Buffer {
    /// Its type.
    pub const TYPE: RefType = RefType::new("vm.buffer");
}
