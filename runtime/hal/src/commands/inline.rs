//! Commands that run while they are recorded, on devices that can: nothing is kept of them.

use smallvec::SmallVec;

use super::executable::Executable;
use super::kernel::KernelNeeds;
use super::ranges::BufferRange;
use crate::Result;

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
pub(super) type Ranges<'a> = SmallVec<[BufferRange<'a>; 8]>;
