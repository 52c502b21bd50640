//! The loader of `vmvx-bytecode-fb` executables: bytecode modules within the module, whose exports are kernels.
//!
//! A kernel is a function of the signature [`ENTRY_CONVENTION`], called once for each workgroup:
//!
//! | argument | |
//! |---|---|
//! | `r0` | local memory, as many bytes as the export's attribute `local_memory` says |
//! | `r1` | the dispatch's constants, 32 bits each, read-only |
//! | `r2` | the bindings, a list of byte buffers |
//! | `i0` to `i2` | the workgroup's position x, y, z |
//! | `i3` to `i5` | the workgroup's size |
//! | `i6` to `i8` | how many workgroups there are |
//!
//! Specialization constants go to the export `__set_constants` when the executable is loaded.
//!
//! Each worker that runs workgroups at a time has a context of its own with the executable's globals, so that workers
//! share nothing but the bindings.
//!
//! # Bindings are lent
//!
//! The memory of bindings is valid until the dispatch returns, and a program could keep a buffer over it, in a global. So
//! the worker looks, before it returns, whether it holds the only shares of the buffers that it made. Where it does not, it
//! drops the context while the memory is still there; what the program holds then is nothing that code can reach, as its
//! frames are gone with the call and its globals with the context. The dispatch fails.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use std::sync::Mutex;

use crate::bytecode::{Archive, Contents, Module as BytecodeFile};
use crate::hal::executable_format::VMVX;
use crate::hal::local::grid::Cursor;
use crate::hal::local::{DispatchArguments, ExecutableLoader, ExecutableParameters, FunctionInfo};
use crate::hal::local::{LocalExecutable, Worker};
use crate::modules::vmvx::{self, VmvxState};
use crate::vm::{
    BoundFunction, Buffer, BytecodeModule, CallBuffer, Completion, Context, Invocation, Limits, Linkage, List, Module,
    ModuleState, NativeModule, Program, Ref, Stack, Value, ValueType,
};
use crate::{Error, Result, ResultExt};

/// Calling convention of kernels.
const ENTRY_CONVENTION: &str = "0rrriiiiiiiii_v";
/// The export that takes specialization constants.
const SET_CONSTANTS: &str = "__set_constants";
/// Calling convention of [`SET_CONSTANTS`].
const SET_CONSTANTS_CONVENTION: &str = "0r_v";
/// Contexts of workers that are kept; more workers at a time make their own anew.
const KEPT_WORKERS: usize = 64;

/// Loads bytecode executables. They are verified, and run within the limits of the program that loads them, or others.
#[derive(Clone, Debug, Default)]
pub struct VmvxLoader {
    limits: Option<Limits>,
}

impl VmvxLoader {
    /// A loader whose kernels use up at most `limits`, whatever the program may: the memory is of all of them, the fuel of each
    /// workgroup.
    #[must_use]
    pub fn new(limits: Limits) -> VmvxLoader {
        VmvxLoader { limits: Some(limits) }
    }
}

impl ExecutableLoader for VmvxLoader {
    fn name(&self) -> &'static str {
        "vmvx"
    }

    fn supports(&self, format: &str) -> bool {
        format == VMVX
    }

    fn load(&self, parameters: &ExecutableParameters<'_>) -> Result<Arc<dyn LocalExecutable>> {
        let module = BytecodeFile::parse(archive(parameters)?)?.verify()?;
        let limits = self.limits.as_ref().unwrap_or(parameters.limits).clone();
        let executable = VmvxExecutable::new(BytecodeModule::new(module)?, parameters.constants, limits)?;
        Ok(Arc::new(executable))
    }
}

/// The archive within the file that it is a part of, or within a copy.
fn archive(parameters: &ExecutableParameters<'_>) -> Result<Archive> {
    if let Some(contents) = parameters.contents {
        let (file, data) = (contents.as_bytes().as_ptr().addr(), parameters.data.as_ptr().addr());
        let start = data.checked_sub(file).filter(|start| {
            let end = start.checked_add(parameters.data.len());
            end.is_some_and(|end| end <= contents.as_bytes().len())
        });
        if let Some(start) = start {
            return Archive::within(contents.clone(), start..start + parameters.data.len());
        }
    }
    Archive::new(Arc::new(Contents::copy_from(parameters.data)))
}

/// Kernels of a translated module, which are called as they are.
pub trait CompiledKernels: Send + Sync + fmt::Debug {
    /// Calls the kernel that the export of an ordinal is, for each of some workgroups; `state` is the module's.
    ///
    /// # Errors
    /// What the kernel fails with; INTERNAL where there is no such kernel.
    fn run(
        &self,
        export: u32,
        state: &dyn ModuleState,
        stack: &mut Stack,
        workgroups: &mut Workgroups<'_>,
    ) -> Result<()>;

    /// The bindings that the kernel of an export is known to read only, as bits. What it writes to them nevertheless is refused
    /// where it matters.
    fn read_only_bindings(&self, export: u32) -> u64;
}

/// An executable whose kernels are exports of a module of the virtual machine, interpreted or translated.
pub struct VmvxExecutable {
    program: Arc<Program>,
    /// How kernels are called, where not by packed calls.
    compiled: Option<&'static dyn CompiledKernels>,
    limits: Limits,
    constants: Box<[u32]>,
    functions: Vec<FunctionInfo>,
    /// The export of each function.
    exports: Vec<u32>,
    /// Workers that run nothing. A slot is only ever tried, never waited for.
    idle: Box<[Mutex<Option<Box<VmvxWorker>>>]>,
}

impl VmvxExecutable {
    /// Makes an executable of a module whose exports are kernels.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for exports that are none, and for specialization constants that the module does not take or lacks;
    /// NOT_FOUND for imports from other modules than `vmvx`; what its initialiser fails with.
    pub fn new(module: Arc<dyn Module>, constants: &[u32], limits: Limits) -> Result<VmvxExecutable> {
        VmvxExecutable::of_modules(vmvx::module(), module, None, constants, limits)
    }

    /// Makes an executable of a translated module whose exports are kernels; calls are plain ones.
    ///
    /// # Errors
    /// As above.
    pub fn compiled(
        module: Arc<dyn Module>,
        kernels: &'static dyn CompiledKernels,
        constants: &[u32],
        limits: Limits,
    ) -> Result<VmvxExecutable> {
        VmvxExecutable::of_modules(vmvx::direct_module(), module, Some(kernels), constants, limits)
    }

    fn of_modules(
        library: NativeModule<VmvxState>,
        module: Arc<dyn Module>,
        compiled: Option<&'static dyn CompiledKernels>,
        constants: &[u32],
        limits: Limits,
    ) -> Result<VmvxExecutable> {
        let (exports, mut functions) = kernels(&*module)?;
        for (export, function) in exports.iter().zip(&mut functions) {
            function.read_only_bindings = compiled.map_or(0, |kernels| kernels.read_only_bindings(*export));
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
        let program = Program::link(alloc::vec![Arc::new(library), module])?;
        let idle = (0..KEPT_WORKERS).map(|_| Mutex::new(None)).collect();
        let executable =
            VmvxExecutable { program, compiled, limits, constants: constants.into(), functions, exports, idle };
        // Fails here, where it can be said, if it fails; and is the first worker's.
        let worker = executable.make_worker()?;
        executable.give_back(0, worker);
        Ok(executable)
    }

    #[cold]
    fn make_worker(&self) -> Result<Box<VmvxWorker>> {
        let context = Context::new(self.program.clone(), self.limits.clone())?;
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
        let invocation = context.take_invocation();
        let bindings = List::new(ValueType::Ref(Buffer::TYPE), 0, None)?;
        Ok(Box::new(VmvxWorker {
            invocation,
            functions,
            compiled,
            call: CallBuffer::new(),
            bindings,
            lent: Vec::new(),
            _context: context,
        }))
    }

    fn take_worker(&self, hint: usize) -> Result<Box<VmvxWorker>> {
        let idle = self.slots(hint).find_map(|slot| slot.try_lock().ok()?.take());
        idle.map_or_else(|| self.make_worker(), Ok)
    }

    fn give_back(&self, hint: usize, worker: Box<VmvxWorker>) {
        let mut worker = Some(worker);
        for slot in self.slots(hint) {
            if let Ok(mut slot) = slot.try_lock()
                && slot.is_none()
            {
                *slot = worker.take();
                return;
            }
        }
    }

    /// All slots, beginning with one that is likely to be this worker's.
    fn slots(&self, hint: usize) -> impl Iterator<Item = &Mutex<Option<Box<VmvxWorker>>>> {
        let (before, from) = self.idle.split_at(hint % KEPT_WORKERS);
        from.iter().chain(before)
    }
}

impl fmt::Debug for VmvxExecutable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VmvxExecutable").field("functions", &self.functions).finish_non_exhaustive()
    }
}

/// The kernels of a module: their exports' ordinals, and what is known of them.
fn kernels(module: &dyn Module) -> Result<(Vec<u32>, Vec<FunctionInfo>)> {
    let (mut exports, mut functions) = (Vec::new(), Vec::new());
    let all = (0..).map_while(|export| Some((export, module.function(Linkage::Export, export)?)));
    for (export, info) in all {
        // Some kernels are named like what serves the runtime, such as `__builtin_splat_i64`.
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
        exports.push(export);
        functions.push(FunctionInfo {
            name: String::from(info.name),
            constant_count: attribute("constant_count")?,
            binding_count: attribute("binding_count")?,
            local_memory_size: attribute("local_memory")?,
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
        "@{name} of a VMVX executable has the calling convention {found}, and kernels of this version have {expected}"
    )))
}

impl LocalExecutable for VmvxExecutable {
    fn functions(&self) -> &[FunctionInfo] {
        &self.functions
    }

    fn dispatch(
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
            return Err(Error::invalid_argument(format!("operands of a dispatch do not fit kernel `{}`", info.name)));
        }
        let Some(cursor) = Cursor::new(arguments.workgroup_count, workgroups)? else { return Ok(()) };
        let hint = worker.processor_id as usize;
        let mut state = self.take_worker(hint)?;
        // SAFETY: the caller keeps the bindings in place until this function returns, the constants and the local memory are
        // borrowed as long, and `take_back` says whether the program is done with all of them.
        unsafe { state.lend(arguments, &mut worker.local_memory[..info.local_memory_size]) }?;
        let result = state.run(function, arguments, cursor);
        if state.take_back() {
            self.give_back(hint, state);
            return result.context(|| format!("kernel `{}`", info.name));
        }
        // Its globals go while the memory that they refer to is still there, and nothing of it runs again.
        drop(state);
        result?;
        Err(Error::failed_precondition(format!("kernel `{}` keeps a buffer beyond its dispatch", info.name)))
    }
}

/// What one worker at a time runs kernels in.
struct VmvxWorker {
    invocation: Box<Invocation>,
    functions: Vec<BoundFunction>,
    /// How kernels are called, where not by packed calls, and the module's state.
    compiled: Option<(&'static dyn CompiledKernels, Arc<dyn ModuleState>)>,
    call: CallBuffer,
    /// Shares of `lent`, while a dispatch runs.
    bindings: Arc<List>,
    /// Local memory, constants, then the bindings.
    lent: Vec<Arc<Buffer>>,
    /// Last, as what is above refers into it.
    _context: Arc<Context>,
}

/// Indices in [`VmvxWorker::lent`].
const LOCAL_MEMORY: usize = 0;
const CONSTANTS: usize = 1;
const BINDINGS: usize = 2;

impl VmvxWorker {
    /// Makes buffers over what a dispatch works on.
    ///
    /// # Safety
    /// The memory must stay valid until [`VmvxWorker::take_back`] has given true, or the worker was dropped.
    unsafe fn lend(&mut self, arguments: &DispatchArguments<'_>, local_memory: &mut [u8]) -> Result<()> {
        let constants = (arguments.constants.as_ptr().cast_mut().cast(), size_of_val(arguments.constants), false);
        let fixed = [(local_memory.as_mut_ptr(), local_memory.len(), true), constants];
        let bindings = arguments.binding_pointers.iter().zip(arguments.binding_lengths).enumerate();
        let bindings = bindings.map(|(ordinal, (pointer, length))| {
            let read_only = ordinal >= 64 || arguments.read_only_bindings >> ordinal & 1 == 1;
            (pointer.0, *length, !read_only)
        });
        for (index, (data, length, mutable)) in fixed.into_iter().chain(bindings).enumerate() {
            // SAFETY: promised by the caller. Local memory is exclusively borrowed and not touched meanwhile; constants are
            // shared and read-only; bindings are never lent as slices.
            let buffer = unsafe { Buffer::borrowed(data, length, mutable) };
            match self.lent.get_mut(index) {
                Some(slot) => match Arc::get_mut(slot) {
                    Some(old) => *old = buffer,
                    None => *slot = Arc::new(buffer),
                },
                None => self.lent.push(Arc::new(buffer)),
            }
        }
        self.lent.truncate(BINDINGS + arguments.binding_pointers.len());
        if Arc::get_mut(&mut self.bindings).is_none() {
            self.bindings = List::new(ValueType::Ref(Buffer::TYPE), 0, None)?;
        }
        self.bindings.resize(0)?;
        self.lent[BINDINGS..].iter().try_for_each(|buffer| self.bindings.push(Value::Ref(Ref::from(buffer.clone()))))
    }

    /// Runs workgroups in order.
    fn run(&mut self, function: usize, arguments: &DispatchArguments<'_>, cursor: Cursor) -> Result<()> {
        let Some(function) = self.functions.get(function) else {
            return Err(Error::internal("worker without the function"));
        };
        let mut workgroups = Workgroups {
            local_memory: Ref::from(self.lent[LOCAL_MEMORY].clone()),
            constants: Ref::from(self.lent[CONSTANTS].clone()),
            bindings: Ref::from(self.bindings.clone()),
            arguments,
            cursor,
        };
        if let Some((kernels, state)) = &self.compiled {
            return self.invocation.run_whole(|stack| kernels.run(function.export, &**state, stack, &mut workgroups));
        }
        let (call, invocation) = (&mut self.call, &mut self.invocation);
        workgroups.run(|local_memory, constants, bindings, numbers| {
            call.clear();
            [local_memory, constants, bindings].into_iter().for_each(|reference| call.push_ref(reference.clone()));
            numbers.iter().for_each(|number| call.push_word(u64::from(*number as u32)));
            match invocation.begin(function, call)? {
                Completion::Done => Ok(()),
                Completion::Yielded => {
                    invocation.cancel();
                    Err(Error::failed_precondition("a kernel cannot wait"))
                }
            }
        })
    }

    /// Ends a dispatch; true where the program holds no share of what was lent.
    fn take_back(&mut self) -> bool {
        self.call.clear();
        // A program that put something else into the list loses it, too.
        let emptied = self.bindings.resize(0).is_ok();
        emptied && self.lent.iter_mut().all(|buffer| Arc::get_mut(buffer).is_some())
    }
}

/// Workgroups of a dispatch that one worker runs, and what their kernel works on.
#[derive(Debug)]
pub struct Workgroups<'a> {
    local_memory: Ref,
    constants: Ref,
    bindings: Ref,
    arguments: &'a DispatchArguments<'a>,
    cursor: Cursor,
}

impl Workgroups<'_> {
    /// Calls a kernel for each workgroup, in order: with local memory, constants, bindings, and the numbers that a kernel
    /// gets behind them.
    ///
    /// # Errors
    /// What the kernel fails with.
    #[inline(always)]
    pub fn run(&mut self, mut kernel: impl FnMut(&Ref, &Ref, &Ref, [i32; 9]) -> Result<()>) -> Result<()> {
        let [size_x, size_y, size_z] = self.arguments.workgroup_size;
        let [count_x, count_y, count_z] = self.arguments.workgroup_count;
        loop {
            let Cursor { x, y, z, .. } = self.cursor;
            let numbers = [x, y, z, size_x, size_y, size_z, count_x, count_y, count_z].map(|number| number as i32);
            if let Err(error) = kernel(&self.local_memory, &self.constants, &self.bindings, numbers) {
                return Err(error.context(format!("workgroup {x},{y},{z}")));
            }
            if !self.cursor.advance() {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests;
