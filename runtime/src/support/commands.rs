//! Fast paths of commands that run while they are recorded, and of executions. Other cases call the native function.

use super::call::PassedNumbers;
use crate::Result;
use crate::hal::backend::BufferRange;
use crate::hal::{Buffer, BufferBinding, CommandBuffer, Device, Executable, Fence, SignalFence};
use crate::modules::hal::HalState;
use crate::vm::{CallCost, Caller, DirectMethod, MaybeOwned, Native, NoElements, Pass, PassBorrowed, Stack};

/// The bindings that a dispatch passes: an array of tuples, or [`NoElements`]. Each is a number that has no meaning, a slot, a buffer, an offset
/// and a length.
pub trait DispatchBindings {
    /// Calls `f` with the ranges, if each is one that a kernel may have.
    fn with<R>(&self, f: impl FnOnce(&[BufferRange<'_>]) -> Option<R>) -> Option<R>;
}

impl<B: PassBorrowed<Buffer>, const N: usize> DispatchBindings for [(i32, i32, B, i64, i64); N] {
    #[inline(always)]
    fn with<R>(&self, f: impl FnOnce(&[BufferRange<'_>]) -> Option<R>) -> Option<R> {
        let mut ranges = [range(self.first()?)?; N];
        for (each, binding) in ranges.iter_mut().zip(self).skip(1) {
            *each = range(binding)?;
        }
        f(&ranges)
    }
}

#[inline(always)]
fn range<B: PassBorrowed<Buffer>>((_, _, buffer, offset, length): &(i32, i32, B, i64, i64)) -> Option<BufferRange<'_>> {
    BufferRange::of_dispatch(buffer.pass_borrowed().ok()?, *offset as u64, *length as u64)
}

impl DispatchBindings for NoElements {
    #[inline(always)]
    fn with<R>(&self, f: impl FnOnce(&[BufferRange<'_>]) -> Option<R>) -> Option<R> {
        f(&[])
    }
}

/// What `command_buffer.dispatch` passes: the command buffer, the executable, the function, the workgroups, the flags, constants and
/// bindings.
type Passed<V, E, K, B> = (V, E, i64, i32, i32, i32, i64, K, B);

/// Calls `command_buffer.dispatch`. The fast path is a dispatch that runs at once and is right.
///
/// # Errors
/// Those of [`Native::call`].
#[inline(never)]
pub fn command_buffer_dispatch<S, C, F, A, V, E, K, B>(
    native: Native<'_, S, C>,
    name: &'static str,
    method: F,
    stack: &mut Stack,
    passed: Passed<V, E, K, B>,
) -> Result<()>
where
    C: CallCost,
    F: DirectMethod<S, A, Passed<V, E, K, B>, Value = ()>,
    V: PassBorrowed<CommandBuffer>,
    E: PassBorrowed<Executable>,
    K: PassedNumbers<u32>,
    B: DispatchBindings,
{
    // Calls that are charged record their commands.
    if C::COST.is_none()
        && native.is_present()
        && let Some(result) = run(&passed)
    {
        return result.map_err(|error| native.failed(name, error));
    }
    native.call(name, method, stack, passed)
}

/// Runs a dispatch at once; returns `None` if it is to be recorded, or is wrong.
#[inline(always)]
fn run<V, E, K, B>(passed: &Passed<V, E, K, B>) -> Option<Result<()>>
where
    V: PassBorrowed<CommandBuffer>,
    E: PassBorrowed<Executable>,
    K: PassedNumbers<u32>,
    B: DispatchBindings,
{
    let (commands, executable, function, x, y, z, flags, constants, bindings) = passed;
    if *flags != 0 {
        return None;
    }
    let (commands, executable) = (commands.pass_borrowed().ok()?, executable.pass_borrowed().ok()?);
    let workgroup_count = [*x as u32, *y as u32, *z as u32];
    bindings.with(|bindings| {
        constants.with(|constants| {
            commands.dispatch_now(executable, (*function as u64, workgroup_count), constants, bindings)
        })
    })
}

/// What `command_buffer.copy_buffer` passes: the command buffer, two slots, the source and its offset, the target and its offset, the
/// length, and flags, which have no meaning.
type PassedCopy<V, R, W> = (V, i32, i32, R, i64, W, i64, i64, i64);

/// Calls `command_buffer.copy_buffer`. The fast path is a copy that runs at once and is right.
///
/// # Errors
/// Those of [`Native::call`].
#[inline(never)]
pub fn command_buffer_copy_buffer<S, C, F, A, V, R, W>(
    native: Native<'_, S, C>,
    name: &'static str,
    method: F,
    stack: &mut Stack,
    passed: PassedCopy<V, R, W>,
) -> Result<()>
where
    C: CallCost,
    F: DirectMethod<S, A, PassedCopy<V, R, W>, Value = ()>,
    V: PassBorrowed<CommandBuffer>,
    R: PassBorrowed<Buffer>,
    W: PassBorrowed<Buffer>,
{
    let (commands, _, _, source, source_offset, target, target_offset, length, _) = &passed;
    if C::COST.is_none()
        && native.is_present()
        && let (Ok(commands), Ok(source), Ok(target)) =
            (commands.pass_borrowed(), source.pass_borrowed(), target.pass_borrowed())
        && let Some(source) = BufferRange::of_source(source, *source_offset as u64, *length as u64)
        && let Some(target) = BufferRange::of_fixed_target(target, *target_offset as u64, *length as u64)
        && let Some(result) = commands.copy_now(source, target)
    {
        return result.map_err(|error| native.failed(name, error));
    }
    native.call(name, method, stack, passed)
}

/// The binding table that an execution passes: an array of buffers, offsets and lengths, or [`NoElements`].
pub trait BindingTable<'a> {
    /// Calls `f` with the bindings.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a reference to another type; those of `f`.
    fn with(self, f: impl FnOnce(&[BufferBinding<'a>]) -> Result<()>) -> Result<()>;
}

impl<'a, R, const N: usize> BindingTable<'a> for [(R, i64, i64); N]
where
    (R, i64, i64): Pass<BufferBinding<'a>>,
{
    #[inline(always)]
    fn with(self, f: impl FnOnce(&[BufferBinding<'a>]) -> Result<()>) -> Result<()> {
        // Not by `map`, which is no loop that is unrolled.
        let mut bindings = [const { BufferBinding::NONE }; N];
        for (slot, binding) in bindings.iter_mut().zip(self) {
            *slot = binding.pass()?;
        }
        f(&bindings)
    }
}

impl<'a> BindingTable<'a> for NoElements {
    #[inline(always)]
    fn with(self, f: impl FnOnce(&[BufferBinding<'a>]) -> Result<()>) -> Result<()> {
        f(&[])
    }
}

/// What `device.queue.execute.indirect` passes: the device, the affinity, two fences, the command buffer, flags, which have no meaning, and the
/// binding table.
type PassedExecution<D, W, S, V, T> = (D, i64, W, S, V, i64, T);

/// Calls `device.queue.execute.indirect`, with the binding table in an array.
///
/// # Errors
/// Those of [`Native::call`].
#[inline(never)]
pub fn queue_execute_indirect<'a, C, F, A, D, W, S, V, T>(
    native: Native<'_, HalState, C>,
    name: &'static str,
    method: F,
    stack: &mut Stack,
    passed: PassedExecution<D, W, S, V, T>,
) -> Result<()>
where
    C: CallCost,
    F: DirectMethod<HalState, A, PassedExecution<D, W, S, V, T>, Value = ()>,
    D: PassBorrowed<Device>,
    W: Pass<Option<MaybeOwned<'a, Fence>>>,
    S: Pass<SignalFence<'a>>,
    V: Pass<MaybeOwned<'a, CommandBuffer>>,
    T: BindingTable<'a>,
{
    let Some(state) = native.state().filter(|_| C::COST.is_none()) else {
        return native.call(name, method, stack, passed);
    };
    let (device, affinity, wait, signal, commands, _, table) = passed;
    let execute = |stack: &mut Stack| {
        let device = device.pass_borrowed()?;
        let (wait, signal, commands) = (wait.pass()?, signal.pass()?, commands.pass()?);
        let fences = (affinity as u64, wait, signal);
        table.with(|table| state.execute_indirect(&mut Caller { stack }, device, fences, &commands, table))
    };
    execute(stack).map_err(|error| native.failed(name, error))
}
