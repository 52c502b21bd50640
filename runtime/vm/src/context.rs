//! Contexts: the state of a program's modules, and the functions that can be called in it.

use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::call::CallBuffer;
use super::cycles::BrokenCycles;
use super::invocation::{CallFuture, Invocation};
use super::limits::Limits;
use super::module::{BoundFunction, Completion, Entry, Linkage, Module, ModuleState, Signal};
use super::program::Program;
use super::reference::Value;
use super::stack::Stack;
use super::sync::{Lock, Taken, TryLock};
use crate::{Error, Result, ResultExt};
use incarnate_bytecode::{ConventionItem, wrong_argument_count};

/// Name of the function that a module exports to be called when a context is created.
const INITIALIZER: &str = "__init";
/// Name of the function that a module exports to be called when a context is dropped.
const DEINITIALIZER: &str = "__deinit";

/// A program with state: its modules' globals, the devices that its native modules hold.
pub struct Context {
    program: Arc<Program>,
    states: Vec<Arc<dyn ModuleState>>,
    /// The context that this one extends, which owns the first states.
    base: Option<Arc<Context>>,
    limits: Limits,
    /// Storage of a single invocation: taken in place, it costs one lock.
    invocation: TryLock<Invocation>,
    /// Number of invocations that run besides that one.
    concurrent: Arc<AtomicUsize>,
    /// Storage of concurrent invocations, not in use.
    #[allow(clippy::vec_box, reason = "a pointer is moved in and out, not the storage itself")]
    invocations: Lock<Vec<Box<Invocation>>>,
    /// Of this context and its forks.
    cycles: Arc<BrokenCycles>,
}

impl Context {
    /// Creates the state of all modules and runs their initialisers, in the order of registration. With limited memory, references
    /// by which a list leads back to itself become null when the context is dropped.
    ///
    /// # Errors
    /// What a module's state needs and cannot have, and what an initialiser fails with.
    pub fn new(program: Arc<Program>, limits: Limits) -> Result<Arc<Context>> {
        let limits = Limits { ledger: limits.ledger.of_context(), ..limits };
        let cycles = Arc::new(BrokenCycles(limits.ledger.clone()));
        let mut context = Context::without_state(program, limits, cycles);
        context.initialize()?;
        Ok(Arc::new(context))
    }

    /// Adds modules, which may import from those of this context: creates their state and runs their initialisers. The result
    /// shares the state of the modules of this context and keeps it.
    ///
    /// Call functions of the result from then on: a call in one of the two that waits for a call in the other one may be taken for
    /// a deadlock.
    ///
    /// # Errors
    /// Those of [`Program::link`] and [`Context::new`]. This context is unchanged.
    pub fn extend(self: &Arc<Context>, modules: Vec<Arc<dyn Module>>) -> Result<Arc<Context>> {
        let program = self.program.extend(modules)?;
        let mut context = Context::without_state(program, self.limits.clone(), Arc::clone(&self.cycles));
        context.states = self.states.clone();
        context.base = Some(Arc::clone(self));
        context.initialize()?;
        Ok(Arc::new(context))
    }

    /// Creates the states that are missing and runs the initialisers of their modules.
    fn initialize(&mut self) -> Result<()> {
        for index in self.states.len()..self.program.modules().len() {
            let module = self.program.modules()[index].clone();
            let mut state = module.allocate_state(&self.limits)?;
            for link in self.program.links(index) {
                module.resolve_import(&mut *state, link.import, self.bound(link.module, link.export))?;
            }
            self.states.push(Arc::from(state));
            self.call_if_exported(index, INITIALIZER).context(|| format!("initialising @{}", module.name()))?;
        }
        Ok(())
    }

    fn without_state(program: Arc<Program>, limits: Limits, cycles: Arc<BrokenCycles>) -> Context {
        let concurrent = Arc::new(AtomicUsize::new(0));
        let invocation = TryLock::new(Invocation::first(limits.clone(), concurrent.clone()));
        let (states, invocations) = (Vec::new(), Lock::default());
        Context { program, states, base: None, limits, invocation, concurrent, invocations, cycles }
    }

    /// Copies the state of all modules; what it refers to is shared. Initialisers do not run; modules are told by
    /// [`Signal::Fork`].
    ///
    /// # Errors
    /// UNIMPLEMENTED where a module's state cannot be copied.
    pub fn fork(&self) -> Result<Arc<Context>> {
        let mut child = Context::without_state(self.program.clone(), self.limits.clone(), self.cycles.clone());
        for (index, module) in self.program.modules().iter().enumerate() {
            let mut state = module.fork_state(&*self.states[index])?;
            for link in self.program.links(index) {
                module.resolve_import(&mut *state, link.import, child.bound(link.module, link.export))?;
            }
            child.states.push(Arc::from(state));
        }
        child.notify(Signal::Fork)?;
        Ok(Arc::new(child))
    }

    /// The program.
    #[must_use]
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// What a call in this context may use up.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Tells all modules of an event; in reverse order for [`Signal::Suspend`] and [`Signal::LowMemory`].
    ///
    /// # Errors
    /// What a module fails with; the modules after it are not told.
    pub fn notify(&self, signal: Signal) -> Result<()> {
        let mut pairs: Vec<_> = self.program.modules().iter().zip(&self.states).collect();
        if matches!(signal, Signal::Suspend | Signal::LowMemory) {
            pairs.reverse();
        }
        pairs.into_iter().try_for_each(|(module, state)| module.notify(&**state, signal))
    }

    /// The state of a module, by its index in the program.
    #[must_use]
    pub fn state(&self, module: usize) -> Option<&Arc<dyn ModuleState>> {
        self.states.get(module)
    }

    fn bound(&self, module: usize, export: u32) -> BoundFunction {
        BoundFunction { module: self.program.modules()[module].clone(), state: self.states[module].clone(), export }
    }

    fn call_if_exported(&self, module: usize, name: &str) -> Result<()> {
        let Some(export) = self.program.modules()[module].lookup(Linkage::Export, name) else { return Ok(()) };
        let mut buffer = CallBuffer::new();
        self.with_invocation(|invocation| invocation.call(&self.bound(module, export), &mut buffer))
    }

    /// Finds an exported function: `function`, or `module.function`.
    ///
    /// # Errors
    /// NOT_FOUND; INVALID_ARGUMENT for a malformed calling convention.
    pub fn function(self: &Arc<Context>, name: &str) -> Result<Function> {
        let (module, export) = self.program.lookup(name)?;
        self.export(module, export)
    }

    /// The exported function of a module, by its index in the program and the export's ordinal.
    ///
    /// # Errors
    /// NOT_FOUND; INVALID_ARGUMENT for a malformed calling convention.
    pub fn export(self: &Arc<Context>, module: usize, export: u32) -> Result<Function> {
        let modules = self.program.modules();
        let info = modules.get(module).and_then(|module| module.function(Linkage::Export, export));
        let info = info.ok_or_else(|| Error::not_found(format!("module {module} has no export {export}")))?;
        let convention = info.convention()?;
        let (arguments, results) = (convention.arguments().collect(), convention.results().collect());
        let bound = self.bound(module, export);
        let entry = bound.module.clone().entry(bound.state.clone(), export);
        Ok(Function { context: self.clone(), bound, entry, arguments, results })
    }

    /// Calls the closure with storage for an invocation: the context's own, if no other invocation uses it.
    // The closure stands here once and so is inlined: results that are passed on through memory are read in other pieces than
    // they were just written in.
    #[inline(always)]
    pub fn with_invocation<R>(&self, body: impl FnOnce(&mut Invocation) -> R) -> R {
        let mut guard = self.borrow_invocation();
        let result = body(guard.invocation());
        guard.give_back();
        result
    }

    /// Borrows storage for an invocation: the context's own, if no other invocation uses it.
    #[inline(always)]
    #[doc(hidden)]
    pub fn borrow_invocation(&self) -> InvocationGuard<'_> {
        let own = self.invocation.take();
        let pooled = if own.is_none() { Some(self.take_invocation()) } else { None };
        InvocationGuard { context: self, own, pooled }
    }

    /// Storage for an invocation, reused where one was given back.
    #[must_use]
    #[cold]
    pub fn take_invocation(&self) -> Box<Invocation> {
        self.concurrent.fetch_add(1, Ordering::AcqRel);
        let pooled = self.invocations.lock().pop();
        pooled.unwrap_or_else(|| Box::new(Invocation::new(self.limits.clone())))
    }

    /// Returns the storage of an invocation for reuse.
    pub fn give_invocation(&self, invocation: Box<Invocation>) {
        self.invocations.lock().push(invocation);
        self.concurrent.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Storage of a context that is borrowed for an invocation, until it is given back; after a panic it is not reused.
#[derive(Debug)]
pub struct InvocationGuard<'a> {
    context: &'a Context,
    own: Option<Taken<'a, Invocation>>,
    /// Present if `own` is not.
    pooled: Option<Box<Invocation>>,
}

impl InvocationGuard<'_> {
    /// The storage.
    #[inline(always)]
    pub fn invocation(&mut self) -> &mut Invocation {
        match &mut self.own {
            Some(taken) => taken.value(),
            None => self.pooled.get_or_insert_with(|| self.context.take_invocation()),
        }
    }

    /// Returns the storage to the context.
    #[inline(always)]
    pub fn give_back(self) {
        if let Some(taken) = self.own {
            taken.give_back();
        }
        if let Some(invocation) = self.pooled {
            self.context.give_invocation(invocation);
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let borrowed = self.base.as_ref().map_or(0, |base| base.states.len());
        for index in (borrowed..self.states.len()).rev() {
            if let Err(error) = self.call_if_exported(index, DEINITIALIZER) {
                tracing::warn!(%error, module = self.program.modules()[index].name(), "deinitialiser failed");
            }
        }
        // Modules hold objects of those before them.
        while self.states.pop().is_some() {}
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("modules", &self.program.modules()).finish_non_exhaustive()
    }
}

/// An exported function in a context.
#[derive(Clone, Debug)]
pub struct Function {
    context: Arc<Context>,
    bound: BoundFunction,
    entry: Option<Arc<dyn Entry>>,
    arguments: Vec<ConventionItem>,
    results: Vec<ConventionItem>,
}

impl Function {
    /// The context that the function works in.
    #[must_use]
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// The function as modules see it.
    #[must_use]
    pub fn bound(&self) -> &BoundFunction {
        &self.bound
    }

    #[inline(always)]
    pub(super) fn begin_call(&self, stack: &mut Stack, buffer: &mut CallBuffer) -> Result<Completion> {
        match &self.entry {
            Some(entry) => entry.begin_call(stack, buffer),
            None => self.bound.module.begin_call(&self.bound.state, self.bound.export, stack, buffer),
        }
    }

    /// The module that exports the function.
    #[must_use]
    pub fn module(&self) -> &Arc<dyn Module> {
        &self.bound.module
    }

    /// Name, without the module's.
    #[must_use]
    pub fn name(&self) -> &str {
        self.bound.module.function(Linkage::Export, self.bound.export).map_or("", |info| info.name)
    }

    /// Types of the arguments.
    #[must_use]
    pub fn arguments(&self) -> &[ConventionItem] {
        &self.arguments
    }

    /// Types of the results.
    #[must_use]
    pub fn results(&self) -> &[ConventionItem] {
        &self.results
    }

    /// The value of an attribute, such as `iree.abi.model`.
    #[must_use]
    pub fn attribute(&self, key: &str) -> Option<&str> {
        self.bound.module.function_attribute_value(Linkage::Export, self.bound.export, key)
    }

    /// The attributes in the module: keys and values.
    pub fn attributes(&self) -> impl Iterator<Item = (&str, &str)> {
        (0..).map_while(|index| self.bound.module.function_attribute(Linkage::Export, self.bound.export, index))
    }

    /// The declaration in the module: see [`Module::attribute_declaration`].
    #[must_use]
    pub fn attribute_declaration(&self) -> Option<&str> {
        self.bound.module.attribute_declaration(self.bound.export)
    }

    /// The declaration: see [`Module::declaration`].
    #[must_use]
    pub fn declaration(&self) -> Option<&str> {
        self.bound.module.declaration(self.bound.export)
    }

    /// Puts values into a call buffer, checked against the calling convention.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for another number or other types of values; UNIMPLEMENTED for a variadic function.
    pub fn pack(&self, arguments: impl ExactSizeIterator<Item = Value>, buffer: &mut CallBuffer) -> Result<()> {
        if arguments.len() != self.arguments.len() {
            let error = Error::invalid_argument(wrong_argument_count(self.arguments.len(), arguments.len()));
            return Err(error.calling(self.name(), self.attribute_declaration()));
        }
        for (index, (value, item)) in arguments.zip(&self.arguments).enumerate() {
            match (&value, item) {
                (Value::I32(_), ConventionItem::I32)
                | (Value::I64(_), ConventionItem::I64)
                | (Value::F32(_), ConventionItem::F32)
                | (Value::F64(_), ConventionItem::F64)
                | (Value::Ref(_), ConventionItem::Ref) => buffer.push(value),
                (_, ConventionItem::SpanStart | ConventionItem::SpanEnd) => {
                    return Err(Error::unimplemented(format!("function `{}` is variadic", self.name())));
                }
                (value, item) => {
                    return Err(Error::invalid_argument(format!(
                        "argument {index} of `{}` is {value:?}, not of type {item:?}",
                        self.name()
                    )));
                }
            }
        }
        Ok(())
    }

    /// Calls the function and waits for its end.
    ///
    /// # Errors
    /// Those of [`Function::pack`], and what the function fails with. The context stays usable.
    pub fn call(&self, arguments: &[Value]) -> Result<Vec<Value>> {
        self.context.with_invocation(|invocation| {
            invocation.buffer().clear();
            let packed = self.pack(arguments.iter().cloned(), invocation.buffer());
            let called = packed.and_then(|()| invocation.call_packed(self));
            let results = called.and_then(|()| invocation.buffer().drain(&self.results));
            invocation.buffer().clear();
            results
        })
    }

    /// Calls the function; while it is suspended, the future is pending.
    ///
    /// # Errors
    /// Those of [`Function::pack`]; the future's output is that of [`Function::call`].
    pub fn call_async(&self, arguments: &[Value]) -> Result<CallFuture> {
        let mut buffer = CallBuffer::new();
        self.pack(arguments.iter().cloned(), &mut buffer)?;
        Ok(CallFuture::new(self.clone(), buffer))
    }
}
