//! Runs models through the library: links modules with the native ones that they import, on a device.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use incarnate_runtime::Result;
use incarnate_runtime::bytecode::{Archive, ConventionItem, Module as BytecodeFile};
use incarnate_runtime::hal::local::{ExecutablePlugin, Loaders};
use incarnate_runtime::hal::{
    Allocator, BufferParameters, BufferView, Deadline, Device, DeviceOptions, DriverRegistry, EncodingType, Fence,
    Semaphore,
};
use incarnate_runtime::mapping::MappedFile;
use incarnate_runtime::modules::{hal, hal_inline, hal_loader, io_parameters};
use incarnate_runtime::parameters::{FileAccess, ParameterIndex, ParameterProvider, ScopedIndex};
use incarnate_runtime::vm::{BytecodeModule, Context, Function, Limits, Module, Program, Ref, Value as VmValue};

use super::compare::Output;
use super::value::{Tensor, Value};

/// The environment of a model.
#[derive(Debug)]
pub(crate) struct Machine {
    /// URIs of devices.
    pub(crate) devices: Vec<String>,
    /// Files of executable plugins.
    pub(crate) plugins: Vec<PathBuf>,
    /// Archives of parameters, by scope.
    pub(crate) parameters: Vec<(String, PathBuf)>,
}

impl Machine {
    /// One device.
    pub(crate) fn of(device: &str) -> Machine {
        Machine { devices: vec![device.to_owned()], plugins: Vec::new(), parameters: Vec::new() }
    }

    /// Returns the parameter providers.
    fn providers(&self) -> Result<Vec<Arc<dyn ParameterProvider>>> {
        let mut indices: Vec<(&str, ParameterIndex)> = Vec::new();
        for (scope, file) in &self.parameters {
            let known = indices.iter().position(|(name, _)| name == scope);
            let at = known.unwrap_or_else(|| {
                indices.push((scope, ParameterIndex::new()));
                indices.len() - 1
            });
            indices[at].1.add_file(file, FileAccess::Map)?;
        }
        let provider = |(scope, index)| Arc::new(ScopedIndex::new(scope, index)) as Arc<dyn ParameterProvider>;
        Ok(indices.into_iter().map(provider).collect())
    }

    fn devices(&self) -> Result<Vec<Arc<Device>>> {
        let mut options = DeviceOptions::default();
        for plugin in &self.plugins {
            options.imports.add(ExecutablePlugin::open(plugin.to_str().expect("a path of Unicode"))?);
        }
        let registry = DriverRegistry::default();
        self.devices.iter().map(|uri| registry.create_device(uri, options.clone())).collect()
    }
}

/// A loaded model.
#[derive(Debug)]
pub(crate) struct Instance {
    context: Arc<Context>,
    device: Arc<Device>,
}

impl Instance {
    /// Returns the allocator of the first device.
    #[allow(dead_code, reason = "tests of Vulkan devices use it")]
    pub(crate) fn allocator(&self) -> &Allocator {
        self.device.allocator()
    }

    /// Loads modules, the model last, for interpretation on the devices.
    pub(crate) fn load<'a>(files: impl Iterator<Item = &'a Path>, machine: &Machine) -> Result<Instance> {
        let interpreted = |file: &Path| -> Result<Arc<dyn Module>> {
            let contents = Arc::new(MappedFile::contents(file)?);
            Ok(BytecodeModule::new(BytecodeFile::parse(Archive::new(contents)?)?.verify()?)?)
        };
        Instance::load_with(files, machine, Loaders::all(), &interpreted)
    }

    /// Loads modules by `load`; executables come from the loaders and from the modules themselves.
    pub(crate) fn load_with<'a>(
        files: impl Iterator<Item = &'a Path>,
        machine: &Machine,
        loaders: Loaders,
        load: &dyn Fn(&Path) -> Result<Arc<dyn Module>>,
    ) -> Result<Instance> {
        Instance::load_within(Limits::default(), files, machine, loaders, load)
    }

    /// As [`Instance::load_with`], within limits.
    pub(crate) fn load_within<'a>(
        limits: Limits,
        files: impl Iterator<Item = &'a Path>,
        machine: &Machine,
        loaders: Loaders,
        load: &dyn Fn(&Path) -> Result<Arc<dyn Module>>,
    ) -> Result<Instance> {
        let devices = machine.devices()?;
        let device = devices.first().cloned().expect("a device");
        let options = hal::HalOptions { devices, loaders: loaders.clone(), ..Default::default() };
        let inline = hal_inline::HalInlineOptions { allocator: device.allocator().clone(), ..Default::default() };
        let loader = hal_loader::HalLoaderOptions { loaders, device: None, imports: device.imports().clone() };
        let parameters = io_parameters::IoParametersOptions { providers: machine.providers()?, ..Default::default() };
        let mut modules: Vec<Arc<dyn Module>> = vec![
            Arc::new(hal::module(options)),
            Arc::new(hal_inline::module(inline)),
            Arc::new(hal_loader::module(loader)),
            Arc::new(io_parameters::module(parameters)),
        ];
        for file in files {
            modules.push(load(file)?);
        }
        let context = Context::new(Program::link(modules)?, limits)?;
        Ok(Instance { context, device })
    }

    /// Calls a function of the model, waits for its results and copies them to the host.
    pub(crate) fn call(&self, name: &str, inputs: &[Value]) -> Result<Vec<Output>> {
        self.prepare(name, inputs)?.invoke()?.into_iter().map(output).collect()
    }

    /// Finds a function and copies its arguments to the device.
    pub(crate) fn prepare(&self, name: &str, inputs: &[Value]) -> Result<Call> {
        let function = self.context.function(name)?;
        let pairs = inputs.iter().zip(function.arguments());
        let arguments = pairs.map(|(input, item)| self.argument(input, *item)).collect::<Result<_>>()?;
        Ok(Call { function, arguments })
    }

    fn argument(&self, value: &Value, item: ConventionItem) -> Result<VmValue> {
        Ok(match (value, item) {
            (Value::Scalar(number), ConventionItem::I32) => VmValue::I32(number.to_i64() as i32),
            (Value::Scalar(number), ConventionItem::I64) => VmValue::I64(number.to_i64()),
            (Value::Scalar(number), ConventionItem::F32) => VmValue::F32(number.to_f64() as f32),
            (Value::Scalar(number), ConventionItem::F64) => VmValue::F64(number.to_f64()),
            (Value::Scalar(_), other) => panic!("a number for an argument of convention {other:?}"),
            (Value::Tensor(tensor), _) => VmValue::Ref(Ref::from(Arc::new(self.upload(tensor)?))),
        })
    }

    fn upload(&self, tensor: &Tensor) -> Result<BufferView> {
        let buffer = self.device.allocator().allocate(BufferParameters::DEVICE, tensor.bytes.len() as u64)?;
        buffer.write(0, &tensor.bytes)?;
        BufferView::new(buffer, &tensor.shape, tensor.element, EncodingType::DENSE_ROW_MAJOR)
    }
}

/// A repeatable call.
#[derive(Debug)]
pub(crate) struct Call {
    function: Function,
    arguments: Vec<VmValue>,
}

impl Call {
    /// Runs the call and waits for its results, which stay on the device.
    pub(crate) fn invoke(&mut self) -> Result<Vec<VmValue>> {
        if !is_asynchronous(&self.function) {
            return self.function.call(&self.arguments);
        }
        let done = Arc::new(Fence::from_timepoints([(Arc::new(Semaphore::new(0)), 1)]));
        let mut arguments = self.arguments.clone();
        arguments.extend([VmValue::Ref(Ref::Null), VmValue::Ref(Ref::from(done.clone()))]);
        let results = self.function.call(&arguments)?;
        done.wait(Deadline::NEVER)?;
        Ok(results)
    }
}

/// Returns true if a function takes a wait fence and a signal fence after its own arguments.
fn is_asynchronous(function: &Function) -> bool {
    function.attribute("iree.abi.model") == Some("coarse-fences")
}

fn output(value: VmValue) -> Result<Output> {
    let VmValue::Ref(reference) = &value else { return Ok(Output::Scalar(value)) };
    let view = reference.get::<BufferView>()?;
    let mut bytes = vec![0; view.byte_length() as usize];
    view.buffer().read(0, &mut bytes)?;
    Ok(Output::Tensor(Tensor { shape: view.shape().to_vec(), element: view.element_type(), bytes }))
}
