//! Calls of kernels: finds and pins the memory of a dispatch's bindings, and runs its workgroups on the calling thread.
#![allow(unsafe_code, reason = "passes addresses of bindings to kernels")]

use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::Cell;
use core::ops::Range;
use core::ptr::null_mut;

use smallvec::SmallVec;

use super::unwinding::without_unwinding;
use super::worker_number::current_worker;
use super::{BindingPointer, DispatchArguments, MAXIMUM_BINDINGS, Worker};
use crate::hal::backend::{Access, Commands, Dispatch, PinGuard, WorkgroupCount, resolve_range, too_many_bindings};
use crate::hal::{BufferBinding, Executable, MINIMUM_ALIGNMENT, MemoryAccess};
use crate::vm::{ConstantBytes, Fuel, Meter, array};
use crate::{Error, Result, vm};

/// Memory that a thread reuses from one execution to the next.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    bindings: ResolvedBindings,
    local_memory: LocalMemory,
}

/// The pins of a dispatch's bindings, but for those whose address never changes.
type Pins<'a> = SmallVec<[PinGuard<'a>; 4]>;

/// The addresses of one dispatch's bindings.
#[derive(Debug)]
struct ResolvedBindings {
    count: usize,
    pointers: [BindingPointer; MAXIMUM_BINDINGS],
    lengths: [usize; MAXIMUM_BINDINGS],
    /// The bytes of constants that bindings have which the kernel only reads; empty if there are none.
    constants: SmallVec<[Option<ConstantBytes>; 4]>,
    read_only: u64,
}

impl Default for ResolvedBindings {
    fn default() -> Self {
        let (pointers, lengths) = ([BindingPointer(null_mut()); MAXIMUM_BINDINGS], [0; MAXIMUM_BINDINGS]);
        ResolvedBindings { count: 0, pointers, lengths, constants: SmallVec::new(), read_only: 0 }
    }
}

impl ResolvedBindings {
    fn pointers(&self) -> &[BindingPointer] {
        self.pointers.get(..self.count).unwrap_or_default()
    }

    fn lengths(&self) -> &[usize] {
        self.lengths.get(..self.count).unwrap_or_default()
    }

    /// Allocates space for bindings and returns the ordinal of each, and where its address and its length are stored.
    fn slots(&mut self, count: usize) -> Result<impl Iterator<Item = (usize, (&mut BindingPointer, &mut usize))>> {
        if count > MAXIMUM_BINDINGS {
            return Err(too_many_bindings());
        }
        self.count = count;
        Ok(self.pointers.iter_mut().zip(&mut self.lengths).enumerate())
    }

    /// Finds and pins the memory of a dispatch's bindings. The addresses are valid as long as `commands`, `table` and `pins`
    /// are kept.
    #[inline]
    fn resolve<'a>(
        &mut self,
        commands: &'a Commands,
        dispatch: &Dispatch,
        table: &'a [BufferBinding<'_>],
        pins: &mut Pins<'a>,
    ) -> Result<()> {
        let bindings = commands.bindings(dispatch);
        let (mut movable, mut read_only, mut constant) = (0, 0, 0);
        self.constants.clear();
        for (binding, (ordinal, (pointer, byte_length))) in bindings.iter().zip(self.slots(bindings.len())?) {
            let (buffer, offset, length) = match commands.resolve_binding(binding, table) {
                Ok(found) => found,
                Err(error) => return Err(of_binding(error, ordinal)),
            };
            match buffer.fixed_address() {
                Some(address) => *pointer = BindingPointer(address.0.wrapping_add(offset)),
                None => movable |= 1 << ordinal,
            }
            *byte_length = length;
            let access = buffer.access();
            if access.contains(MemoryAccess::UNALIGNED) {
                return Err(of_binding(unaligned(), ordinal));
            }
            read_only |= u64::from(!access.contains(MemoryAccess::WRITE)) << ordinal;
            constant |= u64::from(buffer.constant_bytes().is_some()) << ordinal;
        }
        self.read_only = read_only;
        if constant != 0 {
            self.find_constants(commands, dispatch, table, constant)?;
        }
        if movable != 0 {
            self.pin(commands, dispatch, table, movable, pins)?;
        }
        Ok(())
    }

    /// Finds the bytes of constants among the bindings with a bit in `constant`: of those that the kernel only reads. The others are
    /// marked as written first, as several bindings may have the same memory.
    #[inline(never)]
    fn find_constants(
        &mut self,
        commands: &Commands,
        dispatch: &Dispatch,
        table: &[BufferBinding<'_>],
        constant: u64,
    ) -> Result<()> {
        let info = dispatch.executable.functions().get(dispatch.function);
        let only_read = self.read_only | info.map_or(0, |info| info.read_only_bindings);
        let bindings = commands.bindings(dispatch);
        let is_among = |ordinals: u64, ordinal: usize| ordinals >> (ordinal & 63) & 1 != 0;
        for (ordinal, binding) in bindings.iter().enumerate().filter(|(at, _)| is_among(constant & !only_read, *at)) {
            let (buffer, ..) = commands.resolve_binding(binding, table).map_err(|error| of_binding(error, ordinal))?;
            buffer.mark_written();
        }
        if constant & only_read == 0 {
            return Ok(());
        }
        for (ordinal, binding) in bindings.iter().enumerate() {
            let (buffer, offset, _) =
                commands.resolve_binding(binding, table).map_err(|error| of_binding(error, ordinal))?;
            let bytes = buffer.constant_bytes().filter(|_| is_among(only_read, ordinal));
            self.constants.push(bytes.map(|bytes| bytes.moved(offset)));
        }
        Ok(())
    }

    /// Pins the bindings with a bit in `movable`.
    #[inline(never)]
    fn pin<'a>(
        &mut self,
        commands: &'a Commands,
        dispatch: &Dispatch,
        table: &'a [BufferBinding<'_>],
        movable: u64,
        pins: &mut Pins<'a>,
    ) -> Result<()> {
        let info = dispatch.executable.functions().get(dispatch.function);
        let only_read = info.map_or(0, |info| info.read_only_bindings);
        // A pin for writing moves borrowed memory, so bindings of the same buffer that are only read are pinned afterwards.
        for (ordinals, access) in [(movable & !only_read, Access::Kernel), (movable & only_read, Access::Read)] {
            let bindings = commands.bindings(dispatch).iter().zip(&mut self.pointers).enumerate();
            for (ordinal, (binding, pointer)) in bindings.filter(|(ordinal, _)| ordinals >> (ordinal & 63) & 1 != 0) {
                let (buffer, offset, _) = commands.resolve_binding(binding, table)?;
                let pin = buffer.pin(access)?;
                *pointer = BindingPointer(pin.address().0.wrapping_add(offset));
                self.read_only |= u64::from(pin.is_borrowed()) << (ordinal & 63);
                if !pin.is_fixed() {
                    pins.push(pin);
                }
            }
        }
        Ok(())
    }

    /// Finds the memory of ranges of byte buffers. It stays valid as long as they are kept.
    fn resolve_ranges(&mut self, ranges: &[(Arc<vm::Buffer>, u64, u64)]) -> Result<()> {
        let mut read_only = 0;
        self.constants.clear();
        for ((buffer, offset, length), (ordinal, (pointer, byte_length))) in
            ranges.iter().zip(self.slots(ranges.len())?)
        {
            let available = usize::try_from(buffer.length()).unwrap_or(usize::MAX);
            let (offset, length) =
                resolve_range(available, *offset, *length).map_err(|error| of_binding(error, ordinal))?;
            *pointer = BindingPointer(buffer.as_ptr().wrapping_add(offset));
            *byte_length = length;
            read_only |= u64::from(!buffer.is_mutable()) << ordinal;
        }
        self.read_only = read_only;
        Ok(())
    }
}

#[cold]
fn of_binding(error: Error, ordinal: usize) -> Error {
    error.context(format!("binding {ordinal}"))
}

#[cold]
fn unaligned() -> Error {
    Error::permission_denied("memory that was imported for transfers alone is not aligned as kernels rely on")
}

/// The most local memory of a kernel, in bytes: what each thread at work may have, which no ledger counts.
pub(crate) const MAXIMUM_LOCAL_MEMORY: usize = 16 << 20;
/// The most local memory, in bytes, that a thread keeps for its next execution.
const KEPT_LOCAL_MEMORY: usize = 1 << 20;

/// Scratch memory of kernels: grows to the largest need and stays, unless it is much.
#[derive(Debug, Default)]
struct LocalMemory(Vec<u8>);

impl LocalMemory {
    /// At least `size` bytes, aligned to 64.
    fn reserve(&mut self, size: usize) -> Result<&mut [u8]> {
        if size == 0 {
            return Ok(&mut []);
        }
        if size > MAXIMUM_LOCAL_MEMORY {
            return Err(too_much_local_memory(size));
        }
        let needed = size.saturating_add(MINIMUM_ALIGNMENT);
        if self.0.len() < needed {
            self.0 = Vec::new();
            self.0 = array::filled(needed, 0).map_err(|_| no_local_memory(size))?;
        }
        let start = self.0.as_ptr().align_offset(MINIMUM_ALIGNMENT);
        self.0.get_mut(start..).and_then(|memory| memory.get_mut(..size)).ok_or_else(|| no_local_memory(size))
    }
}

#[cold]
pub(crate) fn too_much_local_memory(size: usize) -> Error {
    Error::resource_exhausted(format!("{size} bytes of local memory exceed the limit of {MAXIMUM_LOCAL_MEMORY}"))
}

#[cold]
fn no_local_memory(size: usize) -> Error {
    Error::resource_exhausted(format!("the host has no {size} bytes of local memory for a worker"))
}

/// The workgroup counts of a dispatch, and how many workgroups that makes.
#[inline(always)]
pub(crate) fn workgroup_count(
    commands: &Commands,
    dispatch: &Dispatch,
    table: &[BufferBinding<'_>],
) -> Result<([u32; 3], u64)> {
    let count = match dispatch.workgroup_count {
        WorkgroupCount::Direct(count) => count,
        WorkgroupCount::Indirect(binding) => indirect_count(commands, binding, table)?,
    };
    Ok((count, total(count)?))
}

/// Reads workgroup counts.
fn indirect_count(commands: &Commands, binding: u32, table: &[BufferBinding<'_>]) -> Result<[u32; 3]> {
    let (buffer, offset, _) = commands.resolve(binding, table)?;
    let mut bytes = [0; size_of::<[u32; 3]>()];
    buffer.read(offset as u64, &mut bytes)?;
    let mut count = [0; 3];
    for (word, bytes) in count.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    Ok(count)
}

/// How many workgroups there are.
#[inline]
fn total(count: [u32; 3]) -> Result<u64> {
    let [x, y, z] = count.map(u64::from);
    // Two counts cannot overflow 64 bits.
    match (x * y).checked_mul(z) {
        Some(total) => Ok(total),
        None => Err(Error::out_of_range(format!("dispatch of {x} x {y} x {z} workgroups exceeds 64 bits"))),
    }
}

thread_local! {
    static SCRATCH: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

impl Scratch {
    /// Takes the thread's scratch memory, so that an execution inside of an execution makes its own.
    #[inline]
    pub(crate) fn take() -> Box<Scratch> {
        SCRATCH.try_with(Cell::take).ok().flatten().unwrap_or_default()
    }

    /// Keeps the memory for the thread's next execution.
    #[inline]
    pub(crate) fn give_back(mut self: Box<Scratch>) {
        if self.local_memory.0.len() > KEPT_LOCAL_MEMORY {
            self.local_memory = LocalMemory::default();
        }
        // Where the thread is ending there is nothing to keep it for.
        let _ = SCRATCH.try_with(|slot| slot.set(Some(self)));
    }
}

/// Runs ranges of a dispatch's workgroups, which `drive` names by calling its argument. `threads` may run some at once.
#[inline]
#[expect(clippy::too_many_arguments, reason = "the parts of a dispatch, without a structure that each call fills")]
pub(crate) fn execute_ranges(
    commands: &Commands,
    dispatch: &Dispatch,
    table: &[BufferBinding<'_>],
    fuel: &mut Fuel,
    scratch: &mut Scratch,
    threads: u8,
    workgroup_count: [u32; 3],
    drive: impl FnOnce(&mut dyn FnMut(Range<u64>) -> Result<()>) -> Result<()>,
) -> Result<()> {
    // Dropped when the workgroups are done, before any other thread learns of it.
    let mut pins = Pins::new();
    scratch.bindings.resolve(commands, dispatch, table, &mut pins)?;
    let code = dispatch.executable.local_code()?;
    let Some(info) = code.functions().get(dispatch.function) else {
        return Err(Error::internal(format!("executable lost its function {}", dispatch.function)));
    };
    let arguments = DispatchArguments {
        workgroup_count,
        workgroup_size: info.workgroup_size.map(|size| size.max(1)),
        constants: commands.constants(dispatch),
        binding_pointers: scratch.bindings.pointers(),
        binding_lengths: scratch.bindings.lengths(),
        read_only_bindings: scratch.bindings.read_only,
        binding_constants: &scratch.bindings.constants,
        max_concurrency: threads,
    };
    let processor_id = if threads > 1 { current_worker() } else { 0 };
    let local_memory = scratch.local_memory.reserve(info.local_memory_size)?;
    let mut worker = Worker { processor_id, local_memory, fuel };
    without_unwinding(|| {
        drive(&mut |workgroups| {
            // SAFETY: `resolve` found each address and length, one for each binding, by `Commands::resolve_binding`, which
            // checks the range against the buffer. `commands` and `table` keep the buffers, with the constants that they have the bytes
            // of, and `pins` the addresses that may change, until `drive` has returned.
            unsafe { code.dispatch(dispatch.function, &arguments, workgroups, &mut worker) }
        })
    })
}

/// Runs all workgroups of one function over ranges of a program's byte buffers, sequentially, on the calling thread. They are
/// charged to the meter of the call before.
///
/// # Errors
/// Those of [`Executable::check`]; OUT_OF_RANGE for ranges that leave their buffers; those of [`Fuel::charge`] and of the
/// kernel.
pub fn dispatch_inline(
    executable: &Executable,
    function: u64,
    workgroup_count: [u32; 3],
    constants: &[u32],
    bindings: &[(Arc<vm::Buffer>, u64, u64)],
    meter: Option<&Arc<Meter>>,
) -> Result<()> {
    let function = executable.check(function, constants.len(), bindings.len())?;
    let total = total(workgroup_count)?;
    let mut fuel = Fuel::of(meter);
    fuel.charge(total)?;
    let code = executable.local_code()?;
    let Some(info) = code.functions().get(function).filter(|_| total > 0) else { return Ok(()) };
    let mut scratch = Scratch::take();
    let result = scratch.bindings.resolve_ranges(bindings).and_then(|()| {
        let arguments = DispatchArguments {
            workgroup_count,
            workgroup_size: info.workgroup_size.map(|size| size.max(1)),
            constants,
            binding_pointers: scratch.bindings.pointers(),
            binding_lengths: scratch.bindings.lengths(),
            read_only_bindings: scratch.bindings.read_only,
            binding_constants: &scratch.bindings.constants,
            max_concurrency: 1,
        };
        let local_memory = scratch.local_memory.reserve(info.local_memory_size)?;
        let mut worker = Worker { processor_id: 0, local_memory, fuel: &mut fuel };
        // SAFETY: `resolve_ranges` found each address and length, one for each binding, and checked the range against its byte
        // buffer by `resolve_range`. `bindings` keeps the buffers, whose bytes do not move.
        unsafe { code.dispatch(function, &arguments, 0..total, &mut worker) }
    });
    scratch.give_back();
    result.map_err(|error| error.context(format!("dispatch of function {function} '{}'", info.name)))
}
