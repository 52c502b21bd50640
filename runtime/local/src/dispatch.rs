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
use crate::hal::backend::{
    Access, Binding, BufferRange, Commands, Dispatch, KernelNeeds, PinGuard, WorkgroupCount, resolve_range,
    too_many_bindings,
};
use crate::hal::{Buffer, BufferBinding, Executable, MINIMUM_ALIGNMENT, MemoryAccess};
use crate::vm::{ConstantBytes, Fuel, Meter, array};
use crate::{Error, Result, vm};

/// Memory that a thread reuses from one execution to the next.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    bindings: ResolvedBindings,
    local_memory: LocalMemory,
}

/// The bindings of a dispatch: a range of each, by its buffer, offset and length.
pub(crate) trait Bindings<'a> {
    /// How many there are.
    fn count(&self) -> usize;

    /// Returns one of them.
    ///
    /// # Errors
    /// Those of [`Commands::resolve`].
    fn get(&self, ordinal: usize) -> Result<(&'a Buffer, usize, usize)>;
}

impl<'a> Bindings<'a> for &'a [BufferRange<'a>] {
    #[inline(always)]
    fn count(&self) -> usize {
        self.len()
    }

    #[inline(always)]
    fn get(&self, ordinal: usize) -> Result<(&'a Buffer, usize, usize)> {
        let all: &'a [BufferRange<'a>] = self;
        match all.get(ordinal) {
            Some(BufferRange { buffer, offset, length, .. }) => Ok((buffer, *offset, *length)),
            None => Err(no_binding(ordinal)),
        }
    }
}

/// The bindings of a dispatch that was recorded.
pub(crate) struct RecordedBindings<'a> {
    commands: &'a Commands,
    bindings: &'a [Binding],
    table: &'a [BufferBinding<'a>],
}

impl<'a> RecordedBindings<'a> {
    /// Those of one of the commands; `table` has the buffers that are bound to slots.
    #[inline(always)]
    pub(crate) fn new(commands: &'a Commands, dispatch: &Dispatch, table: &'a [BufferBinding<'a>]) -> Self {
        RecordedBindings { commands, bindings: commands.bindings(dispatch), table }
    }
}

impl<'a> Bindings<'a> for RecordedBindings<'a> {
    #[inline(always)]
    fn count(&self) -> usize {
        self.bindings.len()
    }

    #[inline(always)]
    fn get(&self, ordinal: usize) -> Result<(&'a Buffer, usize, usize)> {
        let Some(binding) = self.bindings.get(ordinal) else { return Err(no_binding(ordinal)) };
        let (buffer, offset, length) = self.commands.resolve_binding(binding, self.table)?;
        Ok((buffer, offset, length))
    }
}

#[cold]
fn no_binding(ordinal: usize) -> Error {
    Error::internal(format!("a dispatch lost its binding {ordinal}"))
}

/// A dispatch without its bindings, and the number of threads that may run workgroups of it at once.
pub(crate) struct KernelCall<'a> {
    pub(crate) executable: &'a Executable,
    pub(crate) function: usize,
    /// What a dispatch needs to know of the function.
    pub(crate) needs: &'a KernelNeeds,
    pub(crate) workgroup_count: [u32; 3],
    pub(crate) constants: &'a [u32],
    pub(crate) threads: u8,
}

/// The positions of the bits that are set.
fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let position = set.trailing_zeros();
        set &= set.wrapping_sub(1);
        (position < u64::BITS).then_some(position as usize)
    })
}

/// The pins of a dispatch's bindings, but for those whose address never changes.
type Pins<'a> = SmallVec<[PinGuard<'a>; 4]>;

/// The addresses of one dispatch's bindings.
#[derive(Debug)]
struct ResolvedBindings {
    count: usize,
    pointers: [BindingPointer; MAXIMUM_BINDINGS],
    lengths: [usize; MAXIMUM_BINDINGS],
    /// The bytes of constants that bindings have which the kernel only reads, where there are any.
    constants: [Option<ConstantBytes>; MAXIMUM_BINDINGS],
    has_constants: bool,
    read_only: u64,
}

impl Default for ResolvedBindings {
    fn default() -> Self {
        ResolvedBindings {
            count: 0,
            pointers: [BindingPointer(null_mut()); MAXIMUM_BINDINGS],
            lengths: [0; MAXIMUM_BINDINGS],
            constants: [None; MAXIMUM_BINDINGS],
            has_constants: false,
            read_only: 0,
        }
    }
}

impl ResolvedBindings {
    fn pointers(&self) -> &[BindingPointer] {
        self.pointers.get(..self.count).unwrap_or_default()
    }

    fn lengths(&self) -> &[usize] {
        self.lengths.get(..self.count).unwrap_or_default()
    }

    /// The bytes of constants, one for each binding, or none at all.
    fn constants(&self) -> &[Option<ConstantBytes>] {
        if self.has_constants { self.constants.get(..self.count).unwrap_or_default() } else { &[] }
    }

    /// Begins with no bindings, of so many.
    #[inline(always)]
    fn begin(&mut self, count: usize) -> Result<()> {
        if count > MAXIMUM_BINDINGS {
            return Err(too_many_bindings());
        }
        (self.count, self.has_constants) = (count, false);
        Ok(())
    }

    /// Sets the address and the length of a binding, whose ordinal is below the count.
    #[inline(always)]
    fn set(&mut self, ordinal: usize, address: *mut u8, length: usize) {
        self.pointers[ordinal % MAXIMUM_BINDINGS] = BindingPointer(address);
        self.lengths[ordinal % MAXIMUM_BINDINGS] = length;
    }

    /// Finds and pins the memory of a dispatch's bindings. The addresses are valid as long as the bindings' buffers and `pins`
    /// are kept.
    #[inline]
    fn resolve<'a>(&mut self, bindings: &impl Bindings<'a>, only_read: u64, pins: &mut Pins<'a>) -> Result<()> {
        let count = bindings.count();
        self.begin(count)?;
        let (mut movable, mut read_only, mut constant) = (0, 0, 0);
        for ordinal in 0..count {
            let (buffer, offset, length) = match bindings.get(ordinal) {
                Ok(found) => found,
                Err(error) => return Err(of_binding(error, ordinal)),
            };
            let address = match buffer.fixed_address() {
                Some(address) => address.0.wrapping_add(offset),
                None => {
                    movable |= 1 << ordinal;
                    null_mut()
                }
            };
            self.set(ordinal, address, length);
            let access = buffer.access();
            if access.contains(MemoryAccess::UNALIGNED) {
                return Err(of_binding(unaligned(), ordinal));
            }
            read_only |= u64::from(!access.contains(MemoryAccess::WRITE)) << ordinal;
            constant |= u64::from(buffer.is_of_constant()) << ordinal;
        }
        self.read_only = read_only;
        if constant != 0 {
            self.find_constants(bindings, only_read, constant)?;
        }
        if movable != 0 {
            self.pin(bindings, only_read, movable, pins)?;
        }
        Ok(())
    }

    /// Finds the bytes of constants among the bindings with a bit in `constant`: of those that the kernel only reads. The others are
    /// marked as written first, as several bindings may have the same memory.
    #[inline(never)]
    fn find_constants<'a>(&mut self, bindings: &impl Bindings<'a>, only_read: u64, constant: u64) -> Result<()> {
        let only_read = self.read_only | only_read;
        for ordinal in bits(constant & !only_read) {
            bindings.get(ordinal)?.0.mark_written();
        }
        if constant & only_read == 0 {
            return Ok(());
        }
        if let Some(constants) = self.constants.get_mut(..self.count) {
            constants.fill(None);
        }
        self.has_constants = true;
        for ordinal in bits(constant & only_read) {
            let (buffer, offset, _) = bindings.get(ordinal)?;
            self.constants[ordinal % MAXIMUM_BINDINGS] = buffer.constant_bytes().map(|bytes| bytes.moved(offset));
        }
        Ok(())
    }

    /// Pins the bindings with a bit in `movable`.
    #[inline(never)]
    fn pin<'a>(
        &mut self,
        bindings: &impl Bindings<'a>,
        only_read: u64,
        movable: u64,
        pins: &mut Pins<'a>,
    ) -> Result<()> {
        // A pin for writing moves borrowed memory, so bindings of the same buffer that are only read are pinned afterwards.
        for (ordinals, access) in [(movable & !only_read, Access::Kernel), (movable & only_read, Access::Read)] {
            for ordinal in bits(ordinals) {
                let (buffer, offset, length) = bindings.get(ordinal)?;
                let pin = buffer.pin(access)?;
                self.set(ordinal, pin.address().0.wrapping_add(offset), length);
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
        self.begin(ranges.len())?;
        for (ordinal, (buffer, offset, length)) in ranges.iter().enumerate() {
            let available = usize::try_from(buffer.length()).unwrap_or(usize::MAX);
            let (offset, length) =
                resolve_range(available, *offset, *length).map_err(|error| of_binding(error, ordinal))?;
            self.set(ordinal, buffer.as_ptr().wrapping_add(offset), length);
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
pub(crate) fn total(count: [u32; 3]) -> Result<u64> {
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

/// Runs ranges of a dispatch's workgroups, which `drive` names by calling its argument.
#[inline]
pub(crate) fn execute_ranges<'a>(
    call: &KernelCall<'_>,
    bindings: &impl Bindings<'a>,
    fuel: &mut Fuel,
    scratch: &mut Scratch,
    drive: impl FnOnce(&mut dyn FnMut(Range<u64>) -> Result<()>) -> Result<()>,
) -> Result<()> {
    // Dropped when the workgroups are done, before any other thread learns of it.
    let mut pins = Pins::new();
    scratch.bindings.resolve(bindings, call.needs.read_only_bindings, &mut pins)?;
    let code = call.executable.local_code()?;
    let arguments = DispatchArguments {
        workgroup_count: call.workgroup_count,
        workgroup_size: call.needs.workgroup_size,
        constants: call.constants,
        binding_pointers: scratch.bindings.pointers(),
        binding_lengths: scratch.bindings.lengths(),
        read_only_bindings: scratch.bindings.read_only,
        binding_constants: scratch.bindings.constants(),
        max_concurrency: call.threads,
    };
    let processor_id = if call.threads > 1 { current_worker() } else { 0 };
    let local_memory = scratch.local_memory.reserve(call.needs.local_memory_size)?;
    let mut worker = Worker { processor_id, local_memory, fuel };
    without_unwinding(|| {
        drive(&mut |workgroups| {
            // SAFETY: `resolve` found each address and length, one for each binding, by `Bindings::get`, whose implementations check the
            // range against the buffer (`Buffer::range`). The bindings keep the buffers, with the constants that they have the bytes
            // of, and `pins` the addresses that may change, until `drive` has returned.
            unsafe { code.dispatch(call.function, &arguments, workgroups, &mut worker) }
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
    let (function, info) = executable.check(function, constants.len(), bindings.len())?;
    let total = total(workgroup_count)?;
    let mut fuel = Fuel::of(meter);
    fuel.charge(total)?;
    let code = executable.local_code()?;
    if total == 0 {
        return Ok(());
    }
    let mut scratch = Scratch::take();
    let result = scratch.bindings.resolve_ranges(bindings).and_then(|()| {
        let arguments = DispatchArguments {
            workgroup_count,
            workgroup_size: info.workgroup_size.map(|size| size.max(1)),
            constants,
            binding_pointers: scratch.bindings.pointers(),
            binding_lengths: scratch.bindings.lengths(),
            read_only_bindings: scratch.bindings.read_only,
            binding_constants: scratch.bindings.constants(),
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
