//! Programs: loading and linking modules, finding functions, copying values between host and device.

use std::io::{BufWriter, Write};
#[cfg(feature = "cli")]
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use incarnate_runtime::bytecode::Escaped;
use incarnate_runtime::hal::format::format_view;
use incarnate_runtime::hal::local::engine::TaskOptions;
#[cfg(feature = "cli")]
use incarnate_runtime::hal::local::loaders::SystemLibraryLoader;
use incarnate_runtime::hal::{
    Buffer, BufferParameters, BufferView, Device, DeviceOptions, EncodingType, Fence, wait_for_results,
};
use incarnate_runtime::modules::{TraceSink, check};
use incarnate_runtime::session::{self, Native, Session, SessionBuilder, natives};
use incarnate_runtime::vm::{self, CallBuffer, Invocation, Ref, Value};
use incarnate_runtime::{Error, Result, ResultExt, StatusCode};

use super::arguments::ProgramArguments;
use crate::tooling::output::{Bounded, TextTo};
use crate::tooling::results::ResultValue;
use crate::tooling::spec::Slot;
use crate::tooling::{HostValue, Primitive};

/// Suffix of a function that takes fences and does the same as the one without the suffix.
const ASYNC_FORM: &str = "$async";

/// Adds a program's modules to its session.
pub(super) type AddModules<'a> = &'a dyn Fn(SessionBuilder) -> SessionBuilder;

/// Adds module files to a session.
#[cfg(feature = "cli")]
pub(super) fn module_files(files: &[PathBuf]) -> impl Fn(SessionBuilder) -> SessionBuilder {
    |builder| files.iter().fold(builder, SessionBuilder::module_file)
}

/// Linked modules with their state and devices.
#[derive(Debug)]
pub(super) struct Program {
    session: Session,
}

/// An exported function with its signature.
#[derive(Clone, Debug)]
pub(super) struct Function {
    /// Name, without the module's.
    pub(super) name: String,
    /// The caller's arguments, without the fences that the command line adds.
    pub(super) arguments: Vec<Slot>,
    /// The results.
    pub(super) results: Vec<Slot>,
    declaration: Option<String>,
    /// The attribute `iree.benchmark` of compiled benchmarks, which selects how to run them.
    pub(super) benchmark: Option<String>,
    fences: bool,
    function: vm::Function,
}

impl Function {
    fn new(session_function: session::Function) -> Result<Function> {
        let function = session_function.vm_function().clone();
        let signature = session_function.signature();
        let arguments = Slot::all(session_function.arguments(), signature.inputs)?;
        Ok(Function {
            name: function.name().to_owned(),
            fences: arguments.len() < function.arguments().len(),
            arguments,
            results: Slot::all(session_function.results(), signature.outputs)?,
            declaration: session_function.declaration().map(str::to_owned),
            benchmark: function.attribute("iree.benchmark").map(str::to_owned),
            function,
        })
    }

    /// Adds the function's signature to an error of a call.
    pub(super) fn explain(&self, error: Error) -> Error {
        error.calling(&self.name, self.declaration.as_deref())
    }
}

impl Program {
    /// Loads modules; the last one is the program's main module.
    ///
    /// # Errors
    /// Errors of loading and linking, and those of an initialiser.
    pub(super) fn load(arguments: &ProgramArguments, add_modules: AddModules<'_>) -> Result<Program> {
        Program::build(add_modules(builder(arguments)?))
    }

    /// Loads modules with tests in the last one, with the native modules that only tests import; unmet expectations are
    /// recorded.
    ///
    /// # Errors
    /// Those of [`Program::load`].
    pub(super) fn load_tests(
        arguments: &ProgramArguments,
        unmet: &check::Unmet,
        add_modules: AddModules<'_>,
    ) -> Result<Program> {
        let builder = builder(arguments)?.offer(Arc::new(check::module_recording(unmet)));
        Program::build(add_modules(builder.offer(Arc::new(super::yieldable_test::module()))))
    }

    /// Returns the name of the main module.
    pub(super) fn name(&self) -> &str {
        self.session.context().program().modules().last().map_or("", |module| module.name())
    }

    /// Returns the number of threads of the devices.
    pub(super) fn concurrency(&self) -> usize {
        self.session.devices().iter().map(|device| device.concurrency()).max().unwrap_or(1)
    }

    fn build(builder: SessionBuilder) -> Result<Program> {
        Ok(Program { session: builder.build()? })
    }

    /// Returns the functions that the main module exports for callers.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a malformed calling convention.
    pub(super) fn functions(&self) -> Result<Vec<Function>> {
        self.session.functions()?.into_iter().map(Function::new).collect()
    }

    /// Returns the function of a name, or the only one. The asynchronous form of a function, which the frontend of torch and ONNX
    /// adds as `NAME$async`, does not count.
    ///
    /// # Errors
    /// NOT_FOUND if the name is unknown, INVALID_ARGUMENT if no name is given and the function is not unique; both list
    /// the functions.
    pub(super) fn find(&self, name: Option<&str>) -> Result<Function> {
        let mut functions = self.functions()?;
        let names = || {
            let names: Vec<&str> = functions.iter().map(|function| function.name.as_str()).collect();
            if names.is_empty() { "no functions".to_owned() } else { names.join(", ") }
        };
        let Some(name) = name else {
            let has = |name: &str| functions.iter().any(|function| function.name == name);
            let counts = |function: &&Function| !function.name.strip_suffix(ASYNC_FORM).is_some_and(has);
            return match functions.iter().filter(counts).collect::<Vec<_>>()[..] {
                [only] => Ok(only.clone()),
                _ => {
                    let why = format!("the module exports {}; name one with --function=", names());
                    Err(Error::invalid_argument(why))
                }
            };
        };
        if let Some(index) = functions.iter().position(|function| function.name == name) {
            return Ok(functions.swap_remove(index));
        }
        // Internal functions and those of other modules are callable by name.
        let function = self.session.function(name).map_err(|error| match error.code() {
            StatusCode::NotFound => Error::not_found(format!("no function '{name}': the module exports {}", names())),
            _ => error,
        })?;
        Function::new(function)
    }

    /// Copies arguments to the device.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if the device has no memory for them.
    pub(super) fn prepare(&self, function: &Function, inputs: &[HostValue]) -> Result<Call> {
        let inputs = inputs.iter().enumerate();
        let arguments = inputs.map(|(index, value)| self.upload(value).context(|| format!("argument {index}")));
        Ok(Call {
            arguments: arguments.collect::<Result<_>>()?,
            fences: function.fences,
            devices: self.session.devices().into(),
            buffer: CallBuffer::new(),
            function: function.function.clone(),
        })
    }

    fn upload(&self, value: &HostValue) -> Result<Value> {
        Ok(match value {
            HostValue::Null => Value::Ref(Ref::Null),
            HostValue::Primitive(Primitive::I32(value)) => Value::I32(*value),
            HostValue::Primitive(Primitive::I64(value)) => Value::I64(*value),
            HostValue::Primitive(Primitive::F32(value)) => Value::F32(*value),
            HostValue::Primitive(Primitive::F64(value)) => Value::F64(*value),
            HostValue::Tensor(array) => {
                let (shape, element) = (&array.tensor.shape, array.tensor.element);
                let buffer = self.upload_bytes(&array.bytes)?;
                let view = BufferView::new(buffer, shape, element, EncodingType::DENSE_ROW_MAJOR)?;
                Value::Ref(Ref::from(Arc::new(view)))
            }
            HostValue::Storage(array) => Value::Ref(Ref::from(self.upload_bytes(&array.bytes)?)),
        })
    }

    fn upload_bytes(&self, bytes: &[u8]) -> Result<Arc<Buffer>> {
        let buffer = self.session.allocator().allocate(BufferParameters::DEVICE, bytes.len() as u64)?;
        buffer.write(0, bytes)?;
        Ok(buffer)
    }
}

/// Creates a session without modules from the flags.
fn builder(arguments: &ProgramArguments) -> Result<SessionBuilder> {
    let limits = arguments.limits();
    let task = TaskOptions {
        worker_count: arguments.task_topology_group_count.map(|count| count as usize),
        spin: arguments.task_worker_spin_us.map(|spin| Duration::from_micros(spin.into())),
        pinned: arguments.task_pin_workers,
        ..TaskOptions::default()
    };
    let mut options = DeviceOptions { task, ..DeviceOptions::default() };
    add_plugins(arguments, &mut options)?;
    let builder =
        SessionBuilder::with_natives(NATIVES).trace_sink(trace_printer(arguments.untrusted)).device_options(options);
    let builder = arguments.device.iter().fold(builder, SessionBuilder::device);
    #[cfg(feature = "cli")]
    let builder = match &arguments.keep_libraries {
        Some(folder) => builder.executable_loader(Arc::new(SystemLibraryLoader::keeping_files(folder))),
        None => builder,
    };
    let builder = arguments.parameters.iter().fold(builder, |builder, file| {
        builder.parameter_file(&file.scope, &file.path, arguments.parameter_mode.access())
    });
    // The weights in a program, unless the command line names others.
    #[cfg(all(feature = "chat", not(feature = "cli")))]
    let builder = match arguments.parameters.iter().any(|file| file.scope == incarnate_gguf::SCOPE) {
        true => builder,
        false => match crate::chat::source::ModelSource::of_program()? {
            Some(source) => source.add_to(builder)?,
            None => builder,
        },
    };
    #[cfg(feature = "cli")]
    let builder = builder.reassociate(arguments.reassociate);
    let builder = if arguments.untrusted { builder.untrusted() } else { builder };
    Ok(builder.limits(limits))
}

/// Returns the native modules. Translated programs call them directly; module files need the packed calls and all
/// loaders.
#[cfg(feature = "cli")]
pub(crate) const NATIVES: &[Native] = natives::ALL;
#[cfg(not(feature = "cli"))]
pub(crate) const NATIVES: &[Native] = natives::direct::ALL;

fn add_plugins(arguments: &ProgramArguments, options: &mut DeviceOptions) -> Result<()> {
    for plugin in &arguments.executable_plugin {
        if arguments.untrusted {
            return Err(Error::permission_denied(format!(
                "--executable_plugin={plugin} is machine code, which --untrusted rejects"
            )));
        }
        // Sessions of module files have all loaders; the others open plugins only if one of their loaders uses them.
        #[cfg(feature = "cli")]
        options.imports.add(incarnate_runtime::hal::local::ExecutablePlugin::open(plugin)?);
        #[cfg(not(feature = "cli"))]
        options.imports.add_file(plugin);
    }
    Ok(())
}

/// Bytes of text that an untrusted program may trace.
const UNTRUSTED_TRACE_BYTES: u64 = 64 << 20;
/// Elements of a view that an untrusted program may trace.
const UNTRUSTED_TRACE_ELEMENTS: usize = 1024;

/// Returns a sink that prints traced buffer views as IREE does: all of their elements, unless the program is untrusted.
fn trace_printer(untrusted: bool) -> TraceSink {
    let limit = if untrusted { UNTRUSTED_TRACE_BYTES } else { u64::MAX };
    let elements = if untrusted { UNTRUSTED_TRACE_ELEMENTS } else { usize::MAX };
    let left = Mutex::new(limit);
    TraceSink::new(move |key, views| {
        let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = Bounded::new(BufWriter::new(std::io::stderr()), *left);
        let printed = print_trace(&mut out, key, views, elements);
        *left = out.left();
        if printed.is_err() {
            out.interrupt();
        }
        out.finish(printed, || format!("the program traces more than {limit} bytes of text"))
    })
}

fn print_trace(out: &mut dyn Write, key: &str, views: &[Arc<BufferView>], elements: usize) -> Result<()> {
    writeln!(out, "=== {} ===", Escaped(key)).context(|| "tracing")?;
    for view in views {
        format_view(&mut TextTo(out), view, elements)?;
        writeln!(out).context(|| "tracing")?;
    }
    writeln!(out).and_then(|()| out.flush()).context(|| "tracing")
}

/// A call of a function with its arguments on the device; it can be repeated.
#[derive(Debug)]
pub(super) struct Call {
    function: vm::Function,
    arguments: Vec<Value>,
    fences: bool,
    /// The devices, which signal the fence of the results.
    devices: Box<[Arc<Device>]>,
    /// Storage of arguments and results.
    buffer: CallBuffer,
}

impl Call {
    /// Calls the function and waits until it is done. Drops the previous results.
    ///
    /// # Errors
    /// Errors of the function.
    pub(super) fn invoke(&mut self) -> Result<()> {
        let context = self.function.context().clone();
        context.with_invocation(|invocation| self.invoke_with(invocation))
    }

    /// The function.
    pub(super) fn function(&self) -> &vm::Function {
        &self.function
    }

    /// Calls the function with storage of its context that serves several calls, as [`Call::invoke`] does with other storage.
    ///
    /// # Errors
    /// Errors of the function.
    pub(super) fn invoke_with(&mut self, invocation: &mut Invocation) -> Result<()> {
        self.buffer.clear();
        if !self.fences {
            self.function.pack(self.arguments.iter().cloned(), &mut self.buffer)?;
            return invocation.call(self.function.bound(), &mut self.buffer);
        }
        // A null fence to wait for, and one that signals that the results are complete.
        let done = Arc::new(Fence::of_results());
        let mut arguments = self.arguments.clone();
        arguments.extend([Value::Ref(Ref::Null), Value::Ref(Ref::from(done.clone()))]);
        self.function.pack(arguments.into_iter(), &mut self.buffer)?;
        invocation.call(self.function.bound(), &mut self.buffer)?;
        wait_for_results(invocation, &self.devices, &done)
    }

    /// Returns the results of the last call.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED for lists of too many values.
    pub(super) fn results(&mut self) -> Result<Vec<ResultValue>> {
        ResultValue::all(&self.buffer.drain(self.function.results())?)
    }
}
