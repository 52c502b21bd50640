//! The classes of `iree.runtime`, which `incarnate.iree.runtime` presents.

mod allocator;
mod buffer;
mod classes;
mod command_buffer;
mod context;
mod device;
mod dlpack;
mod driver;
mod flag_parser;
mod flags;
mod list;
mod memory;
mod module;
mod natives;
mod packer;
mod parameters;
mod process;
mod python_module;
mod queue;
mod reference;
mod status;
mod timeline;

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Adds the module `iree` to the extension module.
pub(crate) fn register(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = parent.py();
    let module = PyModule::new(py, "iree")?;
    add_classes(&module)?;
    module.add_function(wrap_pyfunction!(driver::create_hal_driver, &module)?)?;
    module.add_function(wrap_pyfunction!(natives::create_hal_module, &module)?)?;
    module.add_function(wrap_pyfunction!(natives::create_io_parameters_module, &module)?)?;
    module.add_function(wrap_pyfunction!(timeline::wait_any, &module)?)?;
    module.add_function(wrap_pyfunction!(flag_parser::parse_flags, &module)?)?;
    add_constants(&module)?;
    parent.setattr("iree", &module)?;
    // Submodules of extension modules are not found by their names otherwise.
    let name = format!("{}.iree", parent.name()?);
    py.import("sys")?.getattr("modules")?.set_item(name, &module)
}

fn add_classes(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<reference::RefObject>()?;
    module.add_class::<reference::VmRef>()?;
    module.add_class::<list::VmVariantList>()?;
    module.add_class::<memory::HostMemory>()?;
    module.add_class::<memory::MappedMemory>()?;
    module.add_class::<memory::VmBuffer>()?;
    module.add_class::<module::VmInstance>()?;
    module.add_class::<module::VmModule>()?;
    module.add_class::<module::VmFunction>()?;
    module.add_class::<context::VmContext>()?;
    module.add_class::<python_module::PyModuleInterface>()?;
    module.add_class::<driver::HalDriver>()?;
    module.add_class::<device::HalDevice>()?;
    module.add_class::<allocator::HalAllocator>()?;
    module.add_class::<buffer::HalBuffer>()?;
    module.add_class::<buffer::HalBufferView>()?;
    module.add_class::<buffer::Shape>()?;
    module.add_class::<timeline::HalSemaphore>()?;
    module.add_class::<timeline::HalFence>()?;
    module.add_class::<command_buffer::HalCommandBuffer>()?;
    module.add_class::<natives::HalModuleDebugSink>()?;
    module.add_class::<parameters::FileHandle>()?;
    module.add_class::<parameters::ParameterIndex>()?;
    module.add_class::<parameters::ParameterIndexEntry>()?;
    module.add_class::<parameters::ParameterProvider>()?;
    module.add_class::<packer::InvokeContext>()?;
    module.add_class::<packer::ArgumentPacker>()
}

/// Adds the names and numbers that the enumerations of the package are created from.
fn add_constants(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let enumerations = PyDict::new(module.py());
    for enumeration in flags::ENUMERATIONS {
        let members: Vec<(&str, u32)> = enumeration.others.iter().chain(enumeration.shown).copied().collect();
        enumerations.set_item(enumeration.name, members)?;
    }
    module.add("FLAGS", enumerations)?;
    module.add("ELEMENT_TYPES", flags::element_types().collect::<Vec<_>>())?;
    module.add("LINKAGES", module::LINKAGES.to_vec())
}
