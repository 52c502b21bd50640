//! The workgroups of a dispatch that a worker runs, and the operands that they share.
#![allow(unsafe_code, reason = "memory of operands, which the caller of a dispatch keeps valid")]

use alloc::format;
use core::fmt;

use crate::grid::Cursor;
use crate::vm::{Buffer, List, Memory, Ref, Value, ValueType};
use crate::{Coarsening, DispatchArguments};
use crate::{Error, Result};

/// The index of the first binding among the operands of a dispatch: local memory and constants come first.
pub(super) const BINDINGS: usize = 2;

/// The operands of a dispatch: valid until it returns.
pub(super) struct Operands<'a> {
    pub(super) arguments: &'a DispatchArguments<'a>,
    pub(super) local_memory: (*mut u8, usize),
}

impl Operands<'_> {
    /// The memory of the constants, for reads.
    pub(super) fn constants(&self) -> (*mut u8, usize) {
        let constants = self.arguments.constants;
        (constants.as_ptr().cast_mut().cast(), size_of_val(constants))
    }
}

/// Appends the bindings among the operands of a dispatch to a list.
pub(super) fn fill(list: &List, operands: &[Ref]) -> Result<()> {
    operands.iter().skip(BINDINGS).try_for_each(|binding| list.push(Value::Ref(binding.clone())))
}

/// Calls a kernel with the numeric arguments of its signature, and the number of workgroups that follow each other along x, the first of which
/// is that of the arguments.
type CallKernel<'k> = &'k mut dyn FnMut([i32; 9], i64) -> Result<()>;

/// The workgroups of a dispatch that one worker runs, and their operands.
pub struct Workgroups<'a> {
    pub(super) operands: &'a Operands<'a>,
    /// References to local memory, constants, then the bindings, for kernels that take references.
    pub(super) references: &'a [Ref],
    /// The workgroups along x of a call.
    pub(super) coarsening: Coarsening,
    pub(super) cursor: Cursor,
}

impl<'a> Workgroups<'a> {
    /// The local memory.
    #[inline(always)]
    #[must_use]
    pub fn local_memory(&self) -> Memory<'a> {
        let (address, length) = self.operands.local_memory;
        // SAFETY: the caller of `dispatch` keeps the operands until it returns, and so do `Operands`, whose lifetime this is.
        unsafe { Memory::borrowed(address, length, true, None) }
    }

    /// The constants of the dispatch, 32 bits each, read-only.
    #[inline(always)]
    #[must_use]
    pub fn constants(&self) -> Memory<'a> {
        let (address, length) = self.operands.constants();
        // SAFETY: as in `local_memory`.
        unsafe { Memory::borrowed(address, length, false, None) }
    }

    /// A binding.
    ///
    /// # Errors
    /// OUT_OF_RANGE if there is none of that number.
    #[inline(always)]
    pub fn binding(&self, ordinal: u32) -> Result<Memory<'a>> {
        let (arguments, index) = (self.operands.arguments, ordinal as usize);
        let bound = (arguments.binding_pointers.get(index), arguments.binding_lengths.get(index));
        let (Some(address), Some(length)) = bound else {
            return Err(no_binding(ordinal, arguments.binding_pointers.len()));
        };
        let is_read_only = index >= 64 || arguments.read_only_bindings >> index & 1 == 1;
        let constant = arguments.binding_constants.get(index).copied().flatten();
        // SAFETY: as in `local_memory`, and promised of constants by the caller of `dispatch`.
        Ok(unsafe { Memory::borrowed(address.0, *length, !is_read_only, constant) })
    }

    /// References to the local memory, the constants, and the bindings, for a kernel that is known to
    /// [take references](super::CompiledKernels::takes_references).
    ///
    /// # Errors
    /// INTERNAL for other kernels.
    pub fn references(&self) -> Result<(&'a Ref, &'a Ref, &'a [Ref])> {
        match self.references {
            [local_memory, constants, bindings @ ..] => Ok((local_memory, constants, bindings)),
            _ => Err(Error::internal("workgroups without references to their operands")),
        }
    }

    /// Creates the list of bindings, for kernels that do more with it than to take bindings.
    ///
    /// # Errors
    /// Those of [`List::push`].
    #[cold]
    pub fn list(&self) -> Result<Ref> {
        let list = List::new(ValueType::Ref(Buffer::TYPE), 0, None)?;
        fill(&list, self.references)?;
        Ok(Ref::from(list))
    }

    /// Calls a kernel until all workgroups have run: with the numeric arguments of its signature, which are those of the first workgroup of the
    /// call, and the number of workgroups, which is one unless the kernel is coarsened.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn run(&mut self, kernel: CallKernel<'_>) -> Result<()> {
        self.run_inlined(kernel)
    }

    /// The same, with the kernel's code in the caller's.
    ///
    /// # Errors
    /// Errors of the kernel.
    #[inline(always)]
    pub fn run_inlined(&mut self, mut kernel: impl FnMut([i32; 9], i64) -> Result<()>) -> Result<()> {
        let [size_x, size_y, size_z] = self.operands.arguments.workgroup_size;
        let [count_x, count_y, count_z] = self.operands.arguments.workgroup_count;
        loop {
            let Cursor { x, y, z, .. } = self.cursor;
            let mut numbers = [0; 9];
            for (slot, number) in numbers.iter_mut().zip([x, y, z, size_x, size_y, size_z, count_x, count_y, count_z]) {
                *slot = number as i32;
            }
            let count = self.cursor.along_x(self.coarsening);
            if let Err(error) = kernel(numbers, count.into()) {
                return Err(of_workgroups(error, [x, y, z], count));
            }
            if !self.cursor.advance_along_x(count) {
                return Ok(());
            }
        }
    }
}

impl fmt::Debug for Workgroups<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workgroups").field("cursor", &self.cursor).finish_non_exhaustive()
    }
}

/// Says in which workgroups of a dispatch a kernel failed.
#[cold]
fn of_workgroups(error: Error, [x, y, z]: [u32; 3], count: u32) -> Error {
    error.context(match count {
        1 => format!("workgroup {x},{y},{z}"),
        _ => format!("workgroups {x},{y},{z} to {},{y},{z}", x + (count - 1)),
    })
}

#[cold]
fn no_binding(ordinal: u32, count: usize) -> Error {
    Error::out_of_range(format!("binding {ordinal} of a dispatch with {count}"))
}
