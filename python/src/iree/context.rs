//! `VmContext`: modules with their state, and calls of their functions.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use incarnate_runtime::bytecode::ConventionItem;
use incarnate_runtime::vm::{Context, Function, Limits, List, Module, Program, Value};
use incarnate_runtime::{Error, Result};
use pyo3::prelude::*;

use super::list::VmVariantList;
use super::module::{VmFunction, VmInstance, VmModule};
use super::process::Process;
use super::status::{OrRaise, exception};
use crate::interrupt;

static NEXT_ID: AtomicI32 = AtomicI32::new(0);

#[derive(Default)]
struct State {
    /// None as long as there are no modules.
    context: Option<Arc<Context>>,
    /// Functions that were called, by the address of their module and their ordinal.
    functions: HashMap<(usize, u32), Arc<Function>>,
}

/// Modules with their state.
#[pyclass(module = "incarnate.iree.runtime", frozen)]
pub(super) struct VmContext {
    /// A number that no other context of the process has.
    #[pyo3(get)]
    context_id: i32,
    state: Mutex<State>,
    process: Process,
}

impl Drop for VmContext {
    fn drop(&mut self) {
        if let Some(context) = &self.state.get_mut().unwrap_or_else(PoisonError::into_inner).context {
            self.process.keep_in_children(context);
        }
    }
}

fn address(module: &Arc<dyn Module>) -> usize {
    Arc::as_ptr(module).addr()
}

/// Of several modules of one name, the last one stands for all of them, where the first one is.
fn without_duplicates(modules: Vec<Arc<dyn Module>>) -> Vec<Arc<dyn Module>> {
    let mut kept: Vec<Arc<dyn Module>> = Vec::with_capacity(modules.len());
    for module in modules {
        match kept.iter_mut().find(|other| other.name() == module.name()) {
            Some(other) => *other = module,
            None => kept.push(module),
        }
    }
    kept
}

impl VmContext {
    fn add(&self, py: Python<'_>, modules: Vec<Arc<dyn Module>>) -> Result<()> {
        let modules = without_duplicates(modules);
        let base = self.with_state(|state| state.context.clone());
        // Initialisers run without the lock, because they can call Python.
        let context = py.detach(|| match &base {
            Some(base) => base.extend(modules),
            None => {
                let limits = Limits { interrupt: Some(interrupt::signals()), ..Limits::default() };
                Context::new(Program::link(modules)?, limits)
            }
        })?;
        self.with_state(|state| {
            let is_current = match (&state.context, &base) {
                (Some(current), Some(base)) => Arc::ptr_eq(current, base),
                (current, base) => current.is_none() && base.is_none(),
            };
            if !is_current {
                return Err(Error::aborted("two threads registered modules at once"));
            }
            state.context = Some(context);
            // They call in the former context. They are dropped without the lock.
            Ok(std::mem::take(&mut state.functions))
        })
        .map(drop)
    }

    fn with_state<R>(&self, body: impl FnOnce(&mut State) -> R) -> R {
        // A panic leaves no change incomplete.
        body(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn function(&self, module: &Arc<dyn Module>, ordinal: u32) -> Result<Arc<Function>> {
        self.with_state(|state| {
            let key = (address(module), ordinal);
            if let Some(function) = state.functions.get(&key) {
                return Ok(Arc::clone(function));
            }
            let registered = state.context.as_ref().and_then(|context| {
                let index = context.program().modules().iter().position(|other| address(other) == key.0)?;
                Some((context, index))
            });
            let (context, index) = registered.ok_or_else(|| {
                Error::not_found(format!("module @{} is not registered with the context", module.name()))
            })?;
            let function = Arc::new(context.export(index, ordinal)?);
            state.functions.insert(key, Arc::clone(&function));
            Ok(function)
        })
    }
}

#[pymethods]
impl VmContext {
    #[new]
    #[pyo3(signature = (instance, modules = None))]
    fn new(
        py: Python<'_>,
        instance: &Bound<'_, VmInstance>,
        modules: Option<Vec<Bound<'_, VmModule>>>,
    ) -> PyResult<VmContext> {
        let _ = instance;
        let context_id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let context = VmContext { context_id, state: Mutex::default(), process: Process::current() };
        if let Some(modules) = modules {
            let modules = modules.iter().map(|module| Arc::clone(&module.get().module)).collect();
            context.add(py, modules).or_raise(py, "Error creating vm context with modules")?;
        }
        Ok(context)
    }

    /// Adds modules, which may import from those before them, and runs their initialisers.
    fn register_modules(&self, py: Python<'_>, modules: Vec<Bound<'_, VmModule>>) -> PyResult<()> {
        let modules = modules.iter().map(|module| Arc::clone(&module.get().module)).collect();
        self.add(py, modules).or_raise(py, "Error registering modules")
    }

    /// Calls a function with the elements of a list, whose numbers are converted to the types of the arguments. The results replace
    /// the elements of the other list. Other threads run meanwhile, and signals are handled.
    fn invoke(
        &self,
        py: Python<'_>,
        function: &Bound<'_, VmFunction>,
        inputs: &Bound<'_, VmVariantList>,
        outputs: &Bound<'_, VmVariantList>,
    ) -> PyResult<()> {
        self.process.check("the context")?;
        let (module, ordinal) = function.get().export()?;
        let function = self.function(&module, ordinal).or_raise(py, "Error invoking function")?;
        let (inputs, outputs) = (Arc::clone(&inputs.get().0), Arc::clone(&outputs.get().0));
        let invoke = || -> Result<()> {
            let results = function.call(&arguments(&function, &inputs)?)?;
            outputs.resize(0)?;
            results.into_iter().try_for_each(|result| outputs.push(result))
        };
        interrupt::detached_with(py, invoke, |error| exception(py, "Error invoking function", error))
    }
}

/// Converts the elements of a list to the types of a function's arguments.
fn arguments(function: &Function, inputs: &List) -> Result<Vec<Value>> {
    let wanted = function.arguments();
    if inputs.len() != wanted.len() {
        return Err(Error::invalid_argument(format!(
            "function `{}` takes {} arguments, {} are given",
            function.name(),
            wanted.len(),
            inputs.len()
        )));
    }
    (0u32..).zip(wanted).map(|(index, item)| convert(function, index, *item, inputs.get(index)?)).collect()
}

fn convert(function: &Function, index: u32, item: ConventionItem, value: Value) -> Result<Value> {
    let converted = match item {
        ConventionItem::I32 => value.to_i32().map(Value::I32),
        ConventionItem::I64 => value.to_i64().map(Value::I64),
        ConventionItem::F32 => value.to_f32().map(Value::F32),
        ConventionItem::F64 => value.to_f64().map(Value::F64),
        // A function that takes more is refused where it is called.
        ConventionItem::Ref | ConventionItem::SpanStart | ConventionItem::SpanEnd => match value {
            Value::None => Some(Value::Ref(Default::default())),
            other => Some(other),
        },
    };
    converted.ok_or_else(|| {
        Error::invalid_argument(format!(
            "argument {index} of `{}` is a reference, not of type {item:?}",
            function.name()
        ))
    })
}
