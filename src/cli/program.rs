//! Programs: modules loaded and linked, functions found, values carried between the host and the device.

use std::path::PathBuf;
use std::sync::Arc;

use incarnate_runtime::hal::format::TensorType;
use incarnate_runtime::hal::{
    Allocator, Buffer, BufferParameters, BufferView, Deadline, ElementType, EncodingType, Fence, Semaphore,
};
use incarnate_runtime::vm::{self, CallBuffer, Context, Invocation, Linkage, Ref, TypedRefObject, Value};
use incarnate_runtime::{Error, Result, ResultExt};

use super::arguments::ProgramArguments;
use super::loading::{self, Loaded};
use crate::tooling::spec::ValueKind;
use crate::tooling::{HostTensor, HostValue, Primitive};

/// Attribute of a function: the types of its arguments and results as the model has them.
const DECLARATION: &str = "iree.abi.declaration";
/// Attribute of a function: how it synchronises with its caller.
const MODEL: &str = "iree.abi.model";
/// Value of [`MODEL`]: the last two arguments are a fence to wait for and one to signal.
const COARSE_FENCES: &str = "coarse-fences";
/// Number of arguments that [`COARSE_FENCES`] adds.
const FENCE_ARGUMENTS: usize = 2;

/// Modules, linked and with state, and the device that they run on.
#[derive(Debug)]
pub(super) struct Program {
    context: Arc<Context>,
    allocator: Arc<Allocator>,
    /// Index of the module whose functions are called: the last one.
    main: usize,
}

/// An exported function, and what its caller has to know.
#[derive(Clone, Debug)]
pub(super) struct Function {
    /// Name, without the module's.
    pub(super) name: String,
    /// What the caller passes; fences that the command line adds do not count.
    pub(super) arguments: Vec<ValueKind>,
    /// What it returns.
    pub(super) results: Vec<ValueKind>,
    declaration: Option<String>,
    /// The value of `iree.benchmark`, by which compiled benchmarks say how they are to be run.
    pub(super) benchmark: Option<String>,
    fences: bool,
    function: vm::Function,
}

impl Function {
    /// Adds what the function takes and returns to an error of a call.
    pub(super) fn explain(&self, error: Error) -> Error {
        match &self.declaration {
            Some(declaration) => error.context(format!("calling `{declaration}`")),
            None => error.context(format!("calling @{}", self.name)),
        }
    }
}

impl Program {
    /// Loads module files; the last one is the program's main module.
    ///
    /// # Errors
    /// What is wrong with a file, a module that is missing, and what an initialiser fails with.
    pub(super) fn load(files: &[PathBuf], arguments: &ProgramArguments) -> Result<Program> {
        Ok(Program::new(loading::load(files, arguments, &[])?))
    }

    /// Loads modules of which the last has tests, with the native modules that only tests import.
    ///
    /// # Errors
    /// As [`Program::load`].
    pub(super) fn load_tests(files: &[PathBuf], arguments: &ProgramArguments) -> Result<Program> {
        let tests: Arc<dyn vm::Module> = Arc::new(super::yieldable_test::module());
        Ok(Program::new(loading::load(files, arguments, &[tests])?))
    }

    fn new(loaded: Loaded) -> Program {
        let main = loaded.context.program().modules().len().saturating_sub(1);
        let allocator = loaded.device.map_or_else(|| Arc::new(Allocator::new()), |device| device.allocator().clone());
        Program { context: loaded.context, allocator, main }
    }

    /// The functions that the main module exports for callers. Those whose names begin with `__` or contain `$` serve the
    /// runtime.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a malformed calling convention.
    pub(super) fn functions(&self) -> Result<Vec<Function>> {
        let Some(module) = self.context.program().modules().get(self.main) else { return Ok(Vec::new()) };
        let exports = 0..u32::try_from(module.signature().export_count).unwrap_or(u32::MAX);
        let named = exports.filter_map(|export| Some((export, module.function(Linkage::Export, export)?.name)));
        let public = named.filter(|(_, name)| !name.starts_with("__") && !name.contains('$'));
        public.map(|(export, _)| self.function(export)).collect()
    }

    fn function(&self, export: u32) -> Result<Function> {
        let function = self.context.export(self.main, export)?;
        let module = function.module();
        let convention = module.function(Linkage::Export, export).map(|info| info.convention()).transpose()?;
        let convention = convention.unwrap_or_default();
        let mut arguments = ValueKind::parse_all(convention.argument_letters())?;
        let fences = function.attribute(MODEL) == Some(COARSE_FENCES);
        if fences {
            let own = arguments.len().checked_sub(FENCE_ARGUMENTS).ok_or_else(|| {
                Error::invalid_argument(format!("@{} is of model {COARSE_FENCES} but takes no fences", function.name()))
            })?;
            arguments.truncate(own);
        }
        Ok(Function {
            name: function.name().to_owned(),
            arguments,
            results: ValueKind::parse_all(convention.result_letters())?,
            declaration: function.attribute(DECLARATION).map(str::to_owned),
            benchmark: function.attribute("iree.benchmark").map(str::to_owned),
            fences,
            function,
        })
    }

    /// The function of a name, or the only one.
    ///
    /// # Errors
    /// NOT_FOUND where there is none of the name, INVALID_ARGUMENT where there is not exactly one; both say which ones
    /// there are.
    pub(super) fn find(&self, name: Option<&str>) -> Result<Function> {
        let mut functions = self.functions()?;
        let names = || {
            let names: Vec<&str> = functions.iter().map(|function| function.name.as_str()).collect();
            if names.is_empty() { "no functions".to_owned() } else { names.join(", ") }
        };
        let Some(name) = name else {
            if functions.len() != 1 {
                let why = format!("the module exports {}; name one with --function=", names());
                return Err(Error::invalid_argument(why));
            }
            return functions.pop().ok_or_else(|| Error::internal("the only function is gone"));
        };
        let module = self.context.program().modules().get(self.main);
        // Functions of the runtime can be called, too, by whoever names them.
        let export = module.and_then(|module| {
            let local = name.strip_prefix(module.name()).and_then(|rest| rest.strip_prefix('.'));
            module.lookup(Linkage::Export, local.unwrap_or(name))
        });
        match export {
            Some(export) => self.function(export),
            None => Err(Error::not_found(format!("no function '{name}': the module exports {}", names()))),
        }
    }

    /// Carries arguments to the device, so that the call can be made.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED where the device has no memory for them.
    pub(super) fn prepare(&self, function: &Function, inputs: &[HostValue]) -> Result<Call> {
        let inputs = inputs.iter().enumerate();
        let arguments = inputs.map(|(index, value)| self.upload(value).context(|| format!("argument {index}")));
        Ok(Call {
            arguments: arguments.collect::<Result<_>>()?,
            fences: function.fences,
            invocation: self.context.take_invocation(),
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
            HostValue::Bytes(_) | HostValue::List(_) | HostValue::Other(_) => {
                return Err(Error::unimplemented("it has no text, so it cannot be passed"));
            }
        })
    }

    fn upload_bytes(&self, bytes: &[u8]) -> Result<Arc<Buffer>> {
        let buffer = self.allocator.allocate(BufferParameters::DEVICE, bytes.len() as u64)?;
        buffer.write(0, bytes)?;
        Ok(buffer)
    }
}

/// A call of a function with arguments on the device; it can be made again and again.
#[derive(Debug)]
pub(super) struct Call {
    function: vm::Function,
    arguments: Vec<Value>,
    fences: bool,
    invocation: Invocation,
    /// Storage of arguments, then of results.
    buffer: CallBuffer,
}

impl Call {
    /// Makes the call and waits for its end. The results of the call before are given up.
    ///
    /// # Errors
    /// What the function fails with.
    pub(super) fn invoke(&mut self) -> Result<()> {
        self.buffer.clear();
        if !self.fences {
            self.function.pack(self.arguments.iter().cloned(), &mut self.buffer)?;
            return self.invocation.call(self.function.bound(), &mut self.buffer);
        }
        // Nothing to wait for, and a fence that is reached when the results are there.
        let done = Arc::new(Fence::from_timepoints([(Arc::new(Semaphore::new(0)), 1)]));
        let mut arguments = self.arguments.clone();
        arguments.extend([Value::Ref(Ref::Null), Value::Ref(Ref::from(done.clone()))]);
        self.function.pack(arguments.into_iter(), &mut self.buffer)?;
        self.invocation.call(self.function.bound(), &mut self.buffer)?;
        done.wait(Deadline::NEVER)
    }

    /// Carries the results of the last call to the host.
    ///
    /// # Errors
    /// What reading a buffer gives.
    pub(super) fn results(mut self) -> Result<Vec<HostValue>> {
        let values = self.buffer.drain(self.function.results().iter().copied())?;
        let mut download = Download { items_left: LIST_ITEM_LIMIT };
        let values = values.iter().enumerate();
        values.map(|(index, value)| download.value(value, 0).context(|| format!("result {index}"))).collect()
    }
}

/// Carries values to the host; what they hold together is bounded, as lists can hold themselves.
struct Download {
    items_left: usize,
}

/// Most values of lists that are carried to the host.
const LIST_ITEM_LIMIT: usize = 1 << 20;
/// Most lists within lists.
const LIST_DEPTH_LIMIT: usize = 32;

impl Download {
    fn value(&mut self, value: &Value, depth: usize) -> Result<HostValue> {
        Ok(match value {
            Value::None => HostValue::Null,
            Value::I32(value) => HostValue::Primitive(Primitive::I32(*value)),
            Value::I64(value) => HostValue::Primitive(Primitive::I64(*value)),
            Value::F32(value) => HostValue::Primitive(Primitive::F32(*value)),
            Value::F64(value) => HostValue::Primitive(Primitive::F64(*value)),
            Value::Ref(reference) => self.object(reference, depth)?,
        })
    }

    fn object(&mut self, reference: &Ref, depth: usize) -> Result<HostValue> {
        let Some(ty) = reference.ref_type() else { return Ok(HostValue::Null) };
        if ty == BufferView::TYPE {
            let view = reference.get::<BufferView>()?;
            let tensor = TensorType { shape: view.shape().to_vec(), element: view.element_type() };
            return Ok(HostValue::Tensor(HostTensor { bytes: read(view.buffer(), view.byte_length())?, tensor }));
        }
        if ty == Buffer::TYPE {
            let buffer = reference.to::<Buffer>()?;
            let tensor = TensorType { shape: vec![buffer.byte_length()], element: ElementType::INT_8 };
            return Ok(HostValue::Storage(HostTensor { bytes: read(&buffer, buffer.byte_length())?, tensor }));
        }
        if ty == vm::List::TYPE {
            let list = reference.list()?;
            let length = list.len();
            if depth >= LIST_DEPTH_LIMIT || length > self.items_left {
                return Err(Error::resource_exhausted(format!(
                    "lists with more than {LIST_ITEM_LIMIT} values or {LIST_DEPTH_LIMIT} levels are not printed"
                )));
            }
            self.items_left -= length;
            let indices = 0..u32::try_from(length).unwrap_or(u32::MAX);
            let items = indices.map(|index| self.value(&list.get(index)?, depth + 1));
            return items.collect::<Result<_>>().map(HostValue::List);
        }
        if ty == vm::Buffer::TYPE {
            return Ok(HostValue::Bytes(reference.buffer()?.to_vec()));
        }
        Ok(HostValue::Other(ty.name()))
    }
}

fn read(buffer: &Buffer, length: u64) -> Result<Vec<u8>> {
    let length = usize::try_from(length).ok().filter(|length| *length as u64 <= buffer.byte_length());
    let length = length.ok_or_else(|| Error::out_of_range("the view is longer than its buffer"))?;
    let mut bytes = vec![0; length];
    buffer.read(0, &mut bytes)?;
    Ok(bytes)
}
