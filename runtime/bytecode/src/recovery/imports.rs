//! The reference types in the signatures of the functions of `hal` and `hal_inline`, as far as functions of models pass such
//! references on to their callers.

use crate::declaration::BUFFER_VIEW;

/// The types of a function's references.
#[derive(Clone, Copy, Debug)]
pub(super) enum ImportedFunction {
    /// Checks the type of its first operand, a view: message, element type, encoding, extents.
    AssertView,
    /// Creates a view of its first operand, a buffer: offset, length, element type, encoding, extents.
    CreateView,
    /// Another function.
    Other {
        /// The operands of [`ImportedFunction::Other::ty`], by their indices.
        operands: &'static [usize],
        /// The type of these operands.
        ty: &'static str,
        /// The type of the results that are references.
        result: Option<&'static str>,
    },
}

/// The type of device buffers.
pub(super) const BUFFER: &str = "!hal.buffer";
const FENCE: &str = "!hal.fence";

/// Returns the types of an import's references; `None` for functions of other modules.
pub(super) fn function(name: &str) -> Option<ImportedFunction> {
    let (module, function) = name.split_once('.')?;
    if !matches!(module, "hal" | "hal_inline") {
        return None;
    }
    let other = |operands, ty, result| ImportedFunction::Other { operands, ty, result };
    Some(match function {
        "buffer_view.assert" => ImportedFunction::AssertView,
        "buffer_view.create" => ImportedFunction::CreateView,
        "buffer_view.buffer" => other(&[0], BUFFER_VIEW, Some(BUFFER)),
        "buffer_view.trace" => other(&[], BUFFER_VIEW, None),
        "buffer.subspan" => other(&[0], BUFFER, Some(BUFFER)),
        "buffer.allocate" | "buffer.allocate.initialized" | "buffer.wrap" => other(&[], BUFFER, None),
        "allocator.allocate" | "allocator.import" => other(&[], BUFFER, Some(BUFFER)),
        // Device, affinity, and the fences to wait for and to signal.
        "device.queue.alloca" => other(&[2, 3], FENCE, Some(BUFFER)),
        "fence.create" | "fence.join" => other(&[], FENCE, Some(FENCE)),
        "fence.signal" | "fence.fail" | "fence.query" => other(&[0], FENCE, None),
        _ if function.starts_with("buffer_view.") => other(&[0], BUFFER_VIEW, None),
        _ if function.starts_with("buffer.") => other(&[0], BUFFER, None),
        _ if function.starts_with("device.queue.") => other(&[2, 3], FENCE, None),
        _ => other(&[], FENCE, None),
    })
}
