//! References to objects that have a Rust type, other than tensors.

use proc_macro2::TokenStream;
use quote::quote;

use crate::options::Options;

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Object {
    /// Memory of a device.
    DeviceBuffer,
    Fence,
    /// Memory of the virtual machine.
    Buffer,
    List,
}

impl Object {
    /// Returns the kind that the text of a type names, if programs with these options have it.
    pub(super) fn of(text: &str, options: &Options) -> Option<Object> {
        match text {
            "!hal.buffer" => Some(Object::DeviceBuffer),
            "!hal.fence" => (!options.no_std).then_some(Object::Fence),
            "!util.buffer" | "!vm.buffer" => Some(Object::Buffer),
            _ if text.starts_with("!util.list<") || text.starts_with("!vm.list<") => Some(Object::List),
            _ => None,
        }
    }

    /// Returns the Rust type.
    pub(super) fn rust(self, options: &Options) -> TokenStream {
        let path = options.runtime_path();
        match self {
            Object::DeviceBuffer => quote!(#path::hal::Buffer),
            Object::Fence => quote!(#path::hal::Fence),
            Object::Buffer => quote!(#path::vm::Buffer),
            Object::List => quote!(#path::vm::List),
        }
    }

    /// Returns the expression of a new object for an example, which names the runtime by `path`; `None` for memory of a device.
    pub(super) fn example(self, path: &str) -> Option<String> {
        match self {
            Object::DeviceBuffer => None,
            Object::Fence => Some(format!("std::sync::Arc::new({path}::hal::Fence::new())")),
            Object::Buffer => Some(format!("{path}::vm::Buffer::zeroed(64, 0, None)?")),
            Object::List => Some(format!("{path}::vm::List::new({path}::vm::ValueType::Any, 1, None)?")),
        }
    }
}
