//! Commands that run while they are recorded, on devices that can: nothing is kept of them.

use alloc::format;

use smallvec::SmallVec;

use super::executable::Executable;
use super::kernel::{KernelNeeds, MAXIMUM_BINDINGS, too_many_bindings};
use super::ranges::BufferRange;
use super::recorded::BufferRef;
use crate::Result;
use crate::memory::buffer::Buffer;
use crate::memory::parameters::BufferUsage;
use crate::vm::MaybeOwned;

/// A dispatch that runs while it is recorded. Only recording creates one, so that it has been checked against its function.
#[derive(Debug)]
#[non_exhaustive]
pub struct InlineDispatch<'a> {
    /// The executable.
    pub executable: &'a Executable,
    /// The function's ordinal.
    pub function: usize,
    /// What the dispatch needs to know of the function.
    pub needs: KernelNeeds,
    /// The number of workgroups: x, y, z.
    pub workgroup_count: [u32; 3],
    /// Its constants.
    pub constants: &'a [u32],
    /// Its bindings.
    pub bindings: &'a [BufferRange<'a>],
}

/// How a device runs commands while they are recorded. Where it leaves one, that one and all behind it are recorded.
#[derive(Clone, Copy, Debug)]
pub struct InlineExecution {
    /// Runs a dispatch; None for one that it leaves.
    pub dispatch: fn(&InlineDispatch<'_>) -> Option<Result<()>>,
    /// Transfers of more bytes are left.
    pub longest_transfer: u64,
}

/// The bindings of a dispatch.
type Ranges<'a> = SmallVec<[BufferRange<'a>; 8]>;

/// Runs a dispatch at once, unless the device leaves it.
#[inline]
pub(super) fn run_inline(
    inline: InlineExecution,
    executable: &Executable,
    (function, workgroup_count): (u64, [u32; 3]),
    constants: &[u32],
    bindings: &[BufferRef<MaybeOwned<'_, Buffer>>],
) -> Option<Result<()>> {
    if bindings.len() > MAXIMUM_BINDINGS {
        return Some(Err(too_many_bindings()));
    }
    let mut ranges = Ranges::new();
    for (ordinal, binding) in bindings.iter().enumerate() {
        match BufferRange::of(binding, BufferUsage::DISPATCH) {
            Ok(range) => ranges.push(range),
            Err(error) => return Some(Err(error.context(format!("binding {ordinal}")))),
        }
    }
    run_ranges(inline, executable, (function, workgroup_count), constants, &ranges)
}

/// As [`run_inline`], for ranges that were checked.
#[inline]
pub(super) fn run_ranges(
    inline: InlineExecution,
    executable: &Executable,
    (function, workgroup_count): (u64, [u32; 3]),
    constants: &[u32],
    bindings: &[BufferRange<'_>],
) -> Option<Result<()>> {
    if bindings.iter().any(|binding| binding.buffer.is_remote()) {
        return None;
    }
    let (function, info) = match executable.check(function, constants.len(), bindings.len()) {
        Ok(found) => found,
        Err(error) => return Some(Err(error)),
    };
    let needs = info.into();
    (inline.dispatch)(&InlineDispatch { executable, function, needs, workgroup_count, constants, bindings })
}
