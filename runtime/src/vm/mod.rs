//! Values, references, lists, buffers, contexts, the interpreter.

mod buffer;
mod list;
mod reference;

pub use buffer::Buffer;
pub use list::List;
pub use reference::{Ref, RefObject, RefType, TypedRefObject};

/// What the macros of this crate name.
#[doc(hidden)]
pub mod reexport {
    pub use alloc::sync::Arc;
}
