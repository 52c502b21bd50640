//! placeholder, being written
use super::reference::RefType;

/// A `!vm.list`.
#[derive(Debug)]
pub struct List {}

impl List {
    /// Its type.
    pub const TYPE: RefType = RefType::new("vm.list");
}
