//! The loader of `vmvx-bytecode-fb` executables: nested bytecode modules whose exports are kernels.
//!
//! A kernel is a function with the signature [`ENTRY_CONVENTION`], called once for each workgroup. Translated ones take the bindings as
//! arguments of their own, and may run several workgroups in a call.
//!
//! | argument | |
//! |---|---|
//! | `r0` | local memory, of the size in the export's attribute `local_memory` |
//! | `r1` | the dispatch's constants, 32 bits each, read-only |
//! | `r2` | the bindings, a list of byte buffers |
//! | `i0` to `i2` | the workgroup's position x, y, z |
//! | `i3` to `i5` | the workgroup's size |
//! | `i6` to `i8` | the numbers of workgroups |
//!
//! The export `__set_constants` receives the specialization constants when the executable is loaded.
//!
//! Each worker has a context of its own with the executable's globals; concurrent workers share only the bindings.
//!
//! # Bindings are borrowed
//!
//! The memory of bindings is valid until the dispatch returns. Translated kernels take [`Memory`](crate::vm::Memory), whose
//! lifetime ends with the dispatch. Where a kernel takes references to buffers, as interpreted ones do and those that compare,
//! pass or store references, it could store one in a global.
//! So after such kernels the worker checks that it owns the only references to the buffers that it created. If it does
//! not, it drops the context while the memory is still valid, and the dispatch fails. References that remain inside the
//! program are unreachable: its frames ended with the call, and its globals with the context.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use core::ptr;
use std::sync::{Mutex, MutexGuard, TryLockError};

use crate::bytecode::executable_format::VMVX;
use crate::bytecode::{Archive, Contents, Module as BytecodeFile, VerifiedModule, ir};
use crate::dispatch::{MAXIMUM_LOCAL_MEMORY, too_much_local_memory};
use crate::grid::Cursor;
use crate::vm::{
    BoundFunction, Buffer, BytecodeModule, CallBuffer, Completion, Context, Fuel, Invocation, Limits, Linkage, List,
    Module, ModuleState, Program, Ref, Stack, Value, ValueType, failure,
};
use crate::vmvx;
use crate::{Coarsening, DispatchArguments, ExecutableLoader, ExecutableParameters, FunctionInfo};
use crate::{Error, Result, ResultExt};
use crate::{LocalExecutable, Worker};

pub use workgroups::Workgroups;
use workgroups::{BINDINGS, Operands, fill};

mod workgroups;

/// Calling convention of kernels.
const ENTRY_CONVENTION: &str = "0rrriiiiiiiii_v";
/// The export that takes specialization constants.
const SET_CONSTANTS: &str = "__set_constants";
/// Calling convention of [`SET_CONSTANTS`].
const SET_CONSTANTS_CONVENTION: &str = "0r_v";
/// Most idle worker contexts that are kept; further concurrent workers create theirs anew.
const KEPT_WORKERS: usize = 64;

/// Loads bytecode executables. They are verified, and run within the limits of the loading program or explicit ones.
#[derive(Clone, Debug, Default)]
pub struct VmvxLoader {
    limits: Option<Limits>,
}

impl VmvxLoader {
    /// Creates a loader with explicit limits for kernels, whatever the program's: the memory limit is shared by all of
    /// them, the fuel limit applies to each workgroup.
    #[must_use]
    pub fn new(limits: Limits) -> VmvxLoader {
        VmvxLoader { limits: Some(limits) }
    }
}

impl ExecutableLoader for VmvxLoader {
    fn name(&self) -> &'static str {
        "vmvx"
    }

    fn is_verifying(&self) -> bool {
        true
    }

    fn supports(&self, format: &str) -> bool {
        format == VMVX
    }

    fn load(&self, parameters: &ExecutableParameters<'_>) -> Result<Arc<dyn LocalExecutable>> {
        let verified = BytecodeFile::parse(archive(parameters)?)?.verify()?;
        let limits = self.limits.as_ref().unwrap_or(parameters.limits).clone();
        let module = match parameters.reassociate {
            true => BytecodeModule::reassociating(verified.clone())?,
            false => BytecodeModule::new(verified.clone())?,
        };
        let mut executable = VmvxExecutable::new(module, parameters.constants, limits)?;
        for (export, function) in executable.exports.iter().zip(&mut executable.functions) {
            function.read_only_bindings = only_read(&verified, *export);
        }
        Ok(Arc::new(executable))
    }
}

/// Returns a bit set of the bindings that a kernel only reads; none where its analysis takes more than its budget.
fn only_read(module: &VerifiedModule, export: u32) -> u64 {
    let body = module.exported_function(export).and_then(|function| ir::Function::new(module, function).ok());
    body.map_or(0, |body| ir::read_only_bindings(&body, BINDINGS))
}

/// The executable as part of the module's file, or as a copy.
fn archive(parameters: &ExecutableParameters<'_>) -> Result<Archive> {
    if let Some((contents, file)) = parameters.contents.and_then(|contents| Some((contents, contents.as_bytes()?))) {
        let (first, data) = (file.as_ptr().addr(), parameters.data.as_ptr().addr());
        let start = data.checked_sub(first).filter(|start| {
            let end = start.checked_add(parameters.data.len());
            end.is_some_and(|end| end <= file.len())
        });
        if let Some(start) = start {
            return Archive::within(contents.clone(), start..start + parameters.data.len());
        }
    }
    Archive::new(Arc::new(Contents::copy_from(parameters.data)))
}

/// The kernels of a translated module, which are called directly.
pub trait CompiledKernels: Send + Sync + fmt::Debug {
    /// Calls the kernel of an export, by ordinal, for each of some workgroups; `state` is the module's.
    ///
    /// # Errors
    /// Errors of the kernel; INTERNAL if there is no such kernel.
    fn run(
        &self,
        export: u32,
        state: &dyn ModuleState,
        stack: &mut Stack,
        workgroups: &mut Workgroups<'_>,
    ) -> Result<()>;

    /// Whether a kernel takes references to buffers: [`Workgroups::references`]. Others take [`Memory`](crate::vm::Memory).
    fn takes_references(&self, export: u32) -> bool;

    /// Returns a bit set of the bindings that a kernel is known to only read. Writes to them fail if they would be
    /// visible.
    fn read_only_bindings(&self, export: u32) -> u64;

    /// Returns the workgroups along x that a call of a kernel may run.
    fn coarsening(&self, export: u32) -> Coarsening;
}

/// The most steps that the initialiser of an executable takes, and the function that stores its constants. Those of compilers take a
/// few; as many as a call takes between two readings of its clock.
const INITIALIZER_STEPS: u64 = 1 << 16;

/// An executable whose kernels are exports of a VM module, interpreted or translated.
pub struct VmvxExecutable {
    program: Arc<Program>,
    /// The direct calls of kernels; None for packed calls.
    compiled: Option<&'static dyn CompiledKernels>,
    limits: Limits,
    constants: Box<[u32]>,
    functions: Vec<FunctionInfo>,
    /// The export of each kernel.
    exports: Vec<u32>,
    /// For each kernel, whether it takes references to buffers.
    takes_references: Vec<bool>,
    /// The contexts of workers, locked while kernels run. No thread waits for a slot.
    workers: Box<[Mutex<Option<Box<VmvxWorker>>>]>,
}

/// A locked slot of a worker.
type Slot<'a> = MutexGuard<'a, Option<Box<VmvxWorker>>>;

impl VmvxExecutable {
    /// Creates an executable from a module whose exports are kernels.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for exports that are not kernels, and for missing or superfluous specialization constants;
    /// NOT_FOUND for imports from modules other than `vmvx`; errors of its initialiser.
    pub fn new(module: Arc<dyn Module>, constants: &[u32], limits: Limits) -> Result<VmvxExecutable> {
        VmvxExecutable::of_modules(Arc::new(vmvx::module()), module, None, constants, limits)
    }

    /// Creates an executable from a translated module whose kernels are called directly.
    ///
    /// # Errors
    /// Those of [`VmvxExecutable::new`].
    pub fn compiled(
        module: Arc<dyn Module>,
        kernels: &'static dyn CompiledKernels,
        constants: &[u32],
        limits: Limits,
    ) -> Result<VmvxExecutable> {
        VmvxExecutable::of_modules(Arc::new(vmvx::direct_module()), module, Some(kernels), constants, limits)
    }

    fn of_modules(
        library: Arc<dyn Module>,
        module: Arc<dyn Module>,
        compiled: Option<&'static dyn CompiledKernels>,
        constants: &[u32],
        limits: Limits,
    ) -> Result<VmvxExecutable> {
        let (exports, mut functions) = kernels(&*module)?;
        for (export, function) in exports.iter().zip(&mut functions) {
            function.read_only_bindings = compiled.map_or(0, |kernels| kernels.read_only_bindings(*export));
            function.coarsening = compiled.map_or(Coarsening::NONE, |kernels| kernels.coarsening(*export));
        }
        let takes_constants = match module.lookup(Linkage::Export, SET_CONSTANTS) {
            None => false,
            Some(export) => {
                let found = module.function(Linkage::Export, export).map_or("", |info| info.calling_convention);
                check_convention(SET_CONSTANTS, found, SET_CONSTANTS_CONVENTION)?;
                true
            }
        };
        if takes_constants == constants.is_empty() {
            let (takes, given) = (if takes_constants { "takes" } else { "takes no" }, constants.len());
            return Err(Error::invalid_argument(format!(
                "the executable {takes} specialization constants and {given} are given"
            )));
        }
        let program = Program::link(alloc::vec![library, module])?;
        let takes_references =
            exports.iter().map(|export| compiled.is_none_or(|kernels| kernels.takes_references(*export)));
        let takes_references = takes_references.collect();
        let workers = (0..KEPT_WORKERS).map(|_| Mutex::new(None)).collect();
        let mut executable = VmvxExecutable {
            program,
            compiled,
            limits,
            constants: constants.into(),
            functions,
            exports,
            takes_references,
            workers,
        };
        // Reports an error of the initialiser here. The worker is kept for the first dispatch.
        let worker = executable.create_worker()?;
        if let Some(Ok(slot)) = executable.workers.first_mut().map(Mutex::get_mut) {
            *slot = Some(worker);
        }
        Ok(executable)
    }

    /// Creates a context. No call's fuel pays for initialisers: each has at most `INITIALIZER_STEPS`, in all sessions, or a program
    /// could take any number of steps by creating executables.
    #[cold]
    fn create_worker(&self) -> Result<Box<VmvxWorker>> {
        let fuel = self.limits.fuel.unwrap_or(u64::MAX).min(INITIALIZER_STEPS);
        let context = Context::new(self.program.clone(), Limits { fuel: Some(fuel), ..self.limits.clone() })?;
        if !self.constants.is_empty() {
            let bytes: Vec<u8> = self.constants.iter().flat_map(|word| word.to_le_bytes()).collect();
            let constants = Value::Ref(Ref::from(Buffer::copy_of(&bytes)?));
            let module = self.program.modules().last().map_or("", |module| module.name());
            context.function(&format!("{module}.{SET_CONSTANTS}"))?.call(&[constants])?;
        }
        let module = self.program.modules().len() - 1;
        let bound = |export: &u32| Ok(context.export(module, *export)?.bound().clone());
        let functions = self.exports.iter().map(bound).collect::<Result<_>>()?;
        let compiled = self.compiled.zip(context.state(module).cloned());
        let kernels = Limits { fuel: self.limits.fuel, ..context.limits().clone() };
        let invocation = Box::new(Invocation::new(kernels));
        let list = List::new(ValueType::Ref(Buffer::TYPE), 0, None)?;
        Ok(Box::new(VmvxWorker {
            invocation,
            functions,
            compiled,
            call: CallBuffer::new(),
            list,
            borrowed: Vec::new(),
            _context: context,
        }))
    }

    /// Runs kernels with a worker that no other thread uses: most often the one that this thread used last. `run` returns whether the worker
    /// is kept.
    #[inline]
    fn with_worker<R>(&self, hint: usize, run: impl FnOnce(&mut VmvxWorker) -> (R, bool)) -> Result<R> {
        let mut slot = match self.workers.get(hint % KEPT_WORKERS).and_then(try_lock) {
            Some(slot) => Some(slot),
            None => self.workers.iter().find_map(try_lock),
        };
        let mut own = None;
        let place: &mut Option<Box<VmvxWorker>> = slot.as_deref_mut().unwrap_or(&mut own);
        let worker = match place {
            Some(worker) => worker,
            None => place.insert(self.create_worker()?),
        };
        let (result, is_kept) = run(worker);
        if !is_kept {
            *place = None;
        }
        Ok(result)
    }
}

/// Locks a slot that no thread uses. The worker of a thread that panicked is dropped.
#[inline]
fn try_lock(slot: &Mutex<Option<Box<VmvxWorker>>>) -> Option<Slot<'_>> {
    match slot.try_lock() {
        Ok(slot) => Some(slot),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Poisoned(poisoned)) => {
            slot.clear_poison();
            let mut slot = poisoned.into_inner();
            *slot = None;
            Some(slot)
        }
    }
}

impl fmt::Debug for VmvxExecutable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VmvxExecutable").field("functions", &self.functions).finish_non_exhaustive()
    }
}

/// Returns the kernels of a module: the ordinals of their exports, and their properties.
fn kernels(module: &dyn Module) -> Result<(Vec<u32>, Vec<FunctionInfo>)> {
    let (mut exports, mut functions) = (Vec::new(), Vec::new());
    let all = (0..).map_while(|export| Some((export, module.function(Linkage::Export, export)?)));
    for (export, info) in all {
        // Some kernels have names like those of internal exports, such as `__builtin_splat_i64`.
        if info.name.starts_with("__") && info.calling_convention != ENTRY_CONVENTION {
            continue;
        }
        check_convention(info.name, info.calling_convention, ENTRY_CONVENTION)?;
        let attribute = |key: &str| match module.function_attribute_value(Linkage::Export, export, key) {
            None => Ok(0),
            Some(text) => text
                .parse::<u32>()
                .map(|value| value as usize)
                .map_err(|_| Error::invalid_argument(format!("attribute {key} of kernel @{} is `{text}`", info.name))),
        };
        let local_memory_size = attribute("local_memory")?;
        if local_memory_size > MAXIMUM_LOCAL_MEMORY {
            return Err(too_much_local_memory(local_memory_size).context(format!("kernel @{}", info.name)));
        }
        exports.push(export);
        functions.push(FunctionInfo {
            name: String::from(info.name),
            constant_count: attribute("constant_count")?,
            binding_count: attribute("binding_count")?,
            local_memory_size,
            ..FunctionInfo::default()
        });
    }
    Ok((exports, functions))
}

fn check_convention(name: &str, found: &str, expected: &str) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::invalid_argument(format!(
        "@{name} of a VMVX executable has the calling convention {found} instead of {expected}"
    )))
}

impl LocalExecutable for VmvxExecutable {
    fn functions(&self) -> &[FunctionInfo] {
        &self.functions
    }

    unsafe fn dispatch(
        &self,
        function: usize,
        arguments: &DispatchArguments<'_>,
        workgroups: Range<u64>,
        worker: &mut Worker<'_>,
    ) -> Result<()> {
        let Some(info) = self.functions.get(function) else {
            let count = self.functions.len();
            return Err(Error::out_of_range(format!("function {function} of an executable with {count} functions")));
        };
        if arguments.binding_lengths.len() != arguments.binding_pointers.len()
            || arguments.binding_pointers.len() != info.binding_count
            || arguments.constants.len() != info.constant_count
            || worker.local_memory.len() < info.local_memory_size
        {
            return Err(Error::invalid_argument(format!("operands of a dispatch do not match kernel `{}`", info.name)));
        }
        // Errors of the range come before all else.
        let Some(cursor) = Cursor::new(arguments.workgroup_count, workgroups.clone())? else { return Ok(()) };
        let takes_references = self.takes_references.get(function).is_none_or(|takes| *takes);
        let local_memory = &mut worker.local_memory[..info.local_memory_size];
        let operands = Operands { arguments, local_memory: (local_memory.as_mut_ptr(), local_memory.len()) };
        let fuel = &mut *worker.fuel;
        let function = (function, info.coarsening);
        let result = self.with_worker(worker.processor_id as usize, |state| {
            if !takes_references {
                let result = state.run(function, &operands, (cursor, workgroups), fuel);
                state.invocation.trim();
                return (result, true);
            }
            // SAFETY: the caller keeps the bindings valid until this function returns; the constants and the local memory
            // are borrowed as long; `reclaim` checks that the program keeps no reference to any of them.
            unsafe { state.borrow(&operands) };
            let listed = if state.compiled.is_none() { state.list_bindings() } else { Ok(()) };
            let result = listed.and_then(|()| state.run(function, &operands, (cursor, workgroups), fuel));
            state.invocation.trim();
            match state.reclaim() {
                true => (result, true),
                // The worker is dropped while the memory that its globals refer to is still valid; none of its code runs again.
                false => (result.and_then(|()| Err(kept())), false),
            }
        })?;
        result.context(|| format!("kernel `{}`", info.name))
    }
}

#[cold]
fn kept() -> Error {
    Error::failed_precondition("the kernel keeps a buffer beyond its dispatch")
}

/// A context in which one worker at a time runs kernels.
struct VmvxWorker {
    invocation: Box<Invocation>,
    functions: Vec<BoundFunction>,
    /// The direct calls of kernels and the module's state; None for packed calls.
    compiled: Option<(&'static dyn CompiledKernels, Arc<dyn ModuleState>)>,
    call: CallBuffer,
    /// References to the bindings, for packed calls during a dispatch.
    list: Arc<List>,
    /// Local memory, constants, then the bindings: buffers, which no other references share between dispatches.
    borrowed: Vec<Ref>,
    /// Declared last, because the fields above refer into it.
    _context: Arc<Context>,
}

/// Workgroups that are run between two checks of the time.
const WORKGROUPS_PER_CHECK: u64 = 64;

impl VmvxWorker {
    /// Creates buffers over the operands of a dispatch.
    ///
    /// # Safety
    /// The memory, and constants that it has the bytes of, must stay valid until [`VmvxWorker::reclaim`] has returned true, or the worker was
    /// dropped.
    unsafe fn borrow(&mut self, operands: &Operands<'_>) {
        let (arguments, local_memory, constants) = (operands.arguments, operands.local_memory, operands.constants());
        let fixed = [(local_memory.0, local_memory.1, true), (constants.0, constants.1, false)];
        let bindings = arguments.binding_pointers.iter().zip(arguments.binding_lengths).enumerate();
        let bindings = bindings.map(|(ordinal, (pointer, length))| {
            let read_only = ordinal >= 64 || arguments.read_only_bindings >> ordinal & 1 == 1;
            (pointer.0, *length, !read_only)
        });
        let count = BINDINGS + arguments.binding_pointers.len();
        self.borrowed.truncate(count);
        while self.borrowed.len() < count {
            self.borrowed.push(Ref::default());
        }
        for (index, (memory, slot)) in fixed.into_iter().chain(bindings).zip(&mut self.borrowed).enumerate() {
            let constant = index.checked_sub(BINDINGS).and_then(|binding| *arguments.binding_constants.get(binding)?);
            // SAFETY: promised by the caller, until this dispatch ends. Local memory is exclusively borrowed and not accessed meanwhile;
            // constants are shared and read-only; bindings are never borrowed as slices.
            let borrow = |buffer: &mut Buffer| unsafe { buffer.borrow_other(memory, constant) };
            match slot {
                Ref::Buffer(buffer) => {
                    debug_assert!(Arc::get_mut(buffer).is_some(), "a binding of an earlier dispatch is shared");
                    // SAFETY: `reclaim` has found no other share, strong or weak, or the worker was dropped; and the worker makes none
                    // between dispatches. The exclusive borrow of the slot is one of the buffer.
                    borrow(unsafe { &mut *Arc::as_ptr(buffer).cast_mut() });
                }
                _ => {
                    // SAFETY: no byte is borrowed.
                    let mut buffer = unsafe { Buffer::borrowed(ptr::null_mut(), 0, false) };
                    borrow(&mut buffer);
                    *slot = Ref::from(Arc::new(buffer));
                }
            }
        }
    }

    /// Fills the list of bindings.
    fn list_bindings(&mut self) -> Result<()> {
        if Arc::get_mut(&mut self.list).is_none() {
            self.list = List::new(ValueType::Ref(Buffer::TYPE), 0, None)?;
        }
        self.list.resize(0)?;
        fill(&self.list, &self.borrowed)
    }

    /// Runs workgroups of a function, which may be coarsened, sequentially, with the fuel of the call that submitted them, or within the
    /// worker's own limits if there is none.
    fn run(
        &mut self,
        function: (usize, Coarsening),
        operands: &Operands<'_>,
        (cursor, mut workgroups): (Cursor, Range<u64>),
        fuel: &mut Fuel,
    ) -> Result<()> {
        if !fuel.is_limited() {
            return self.run_part(function, operands, cursor);
        }
        loop {
            let part = workgroups.start..workgroups.end.min(workgroups.start.saturating_add(WORKGROUPS_PER_CHECK));
            workgroups.start = part.end;
            let Some(part) = Cursor::new(operands.arguments.workgroup_count, part)? else { return Ok(()) };
            self.invocation.exchange_fuel(fuel);
            let result = self.run_part(function, operands, part);
            self.invocation.exchange_fuel(fuel);
            result?;
            if workgroups.is_empty() {
                return Ok(());
            }
            // Their kernels may not take a step.
            fuel.check()?;
        }
    }

    fn run_part(
        &mut self,
        (function, coarsening): (usize, Coarsening),
        operands: &Operands<'_>,
        cursor: Cursor,
    ) -> Result<()> {
        let Some(function) = self.functions.get(function) else {
            return Err(Error::internal("worker without the function"));
        };
        let mut workgroups = Workgroups { operands, references: &self.borrowed, coarsening, cursor };
        if let Some((kernels, state)) = &self.compiled {
            return self.invocation.run_whole(|stack| kernels.run(function.export, &**state, stack, &mut workgroups));
        }
        let (call, invocation, list) = (&mut self.call, &mut self.invocation, Ref::from(self.list.clone()));
        let (local_memory, constants, _) = workgroups.references()?;
        workgroups.run(&mut |numbers, _| {
            call.clear();
            [local_memory, constants, &list].into_iter().for_each(|reference| call.push_ref(reference.clone()));
            numbers.iter().for_each(|number| call.push_word(u64::from(*number as u32)));
            match invocation.begin(function, call)? {
                Completion::Done => Ok(()),
                Completion::Yielded => {
                    invocation.cancel();
                    Err(failure::kernel_yields())
                }
            }
        })
    }

    /// Ends a dispatch; returns true if the program keeps no reference to the borrowed buffers.
    fn reclaim(&mut self) -> bool {
        self.call.clear();
        // Also drops other objects that the program stored in the list.
        let emptied = self.compiled.is_some() || self.list.resize(0).is_ok();
        // Not by the counts alone: modules written in Rust may keep weak references.
        emptied && self.borrowed.iter_mut().all(|buffer| sole(buffer).is_some())
    }
}

/// The buffer of a reference, if there are no others to it.
fn sole(reference: &mut Ref) -> Option<&mut Buffer> {
    match reference {
        Ref::Buffer(buffer) => Arc::get_mut(buffer),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
