//! Functions of executables as pipelines.
#![allow(unsafe_code, reason = "calls Vulkan")]

use std::ffi::CString;
use std::fmt;
use std::sync::Arc;

use ash::vk;
use incarnate_bytecode::gpu_executable::{self, BdaLayout, DescriptorBinding, VulkanExecutable};
use incarnate_hal::backend::DeviceExecutable;
use incarnate_hal::kernel::{FunctionInfo, MAXIMUM_BINDINGS, too_many_bindings};

use crate::error::Checked;
use crate::gpu::Gpu;
use crate::{Error, Result};

/// A function.
pub(crate) struct Pipeline {
    pub(crate) raw: vk::Pipeline,
    pub(crate) layout: vk::PipelineLayout,
    /// The layouts of its descriptor sets, by number.
    pub(crate) set_layouts: Vec<vk::DescriptorSetLayout>,
    /// Its bindings in the order in which a dispatch passes them, with the number of the set.
    pub(crate) descriptors: Vec<(usize, DescriptorBinding)>,
    /// For each descriptor, whether it is one of a uniform buffer.
    pub(crate) uniforms: Vec<bool>,
    pub(crate) descriptor_count: usize,
    /// The descriptors are pushed.
    pub(crate) is_pushed: bool,
    pub(crate) push_constant_bytes: u32,
    /// How device addresses are passed; `None` for descriptors.
    pub(crate) addresses: Option<Addresses>,
}

/// How a dispatch passes device addresses.
pub(crate) struct Addresses {
    root_offset: usize,
    constants_offset: usize,
    pub(crate) bindings: Vec<gpu_executable::BdaBinding>,
}

impl Addresses {
    fn new(layout: &BdaLayout) -> Addresses {
        Addresses {
            root_offset: layout.root_offset as usize,
            constants_offset: layout.constants_offset as usize,
            bindings: layout.bindings.clone(),
        }
    }

    /// Returns the push constants of a dispatch: the root, with the address of the table of bindings, and the constants.
    pub(crate) fn push_constants(&self, length: u32, table: u64, constants: &[u32]) -> Vec<u8> {
        let mut bytes = vec![0; length as usize];
        let mut put = |offset: usize, value: &[u8]| {
            if let Some(target) = bytes.get_mut(offset..offset + value.len()) {
                target.copy_from_slice(value);
            }
        };
        // What follows the address in the root is zero: no constants in memory, first elements, flags.
        put(self.root_offset, &table.to_ne_bytes());
        for (index, constant) in constants.iter().enumerate() {
            put(self.constants_offset + 4 * index, &constant.to_ne_bytes());
        }
        bytes
    }
}

/// A loaded executable.
pub(crate) struct Executable {
    gpu: Arc<Gpu>,
    functions: Vec<FunctionInfo>,
    pub(crate) pipelines: Vec<Pipeline>,
    set_layouts: Vec<vk::DescriptorSetLayout>,
    layouts: Vec<vk::PipelineLayout>,
}

impl Executable {
    /// Returns true if the executable is of the device.
    pub(crate) fn is_of(&self, gpu: &Arc<Gpu>) -> bool {
        Arc::ptr_eq(&self.gpu, gpu)
    }
}

impl DeviceExecutable for Executable {
    fn functions(&self) -> &[FunctionInfo] {
        &self.functions
    }
}

impl fmt::Debug for Executable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Executable of {} pipelines", self.pipelines.len())
    }
}

/// The number of descriptors that every device with push descriptors can push.
const MOST_PUSHED: u32 = 32;

/// A pipeline layout: its handle, its bytes of push constants, and whether descriptors are pushed.
type Layout = (vk::PipelineLayout, u32, bool);

impl Executable {
    /// Creates the pipelines of an executable, with the values of its specialization constants.
    ///
    /// # Errors
    /// UNAVAILABLE with the feature or the limit that the device lacks; those of the driver.
    pub(crate) fn new(
        gpu: &Arc<Gpu>,
        cache: vk::PipelineCache,
        source: &VulkanExecutable,
        constants: &[u32],
    ) -> Result<Executable> {
        let mut executable = Executable {
            gpu: Arc::clone(gpu),
            functions: Vec::new(),
            pipelines: Vec::new(),
            set_layouts: Vec::new(),
            layouts: Vec::new(),
        };
        let analyses = source.shader_modules.iter().map(|words| gpu_executable::spirv::Analysis::of(words));
        let analyses = analyses.collect::<Result<Vec<_>>>()?;
        analyses.iter().try_for_each(|analysis| gpu.properties.check(analysis))?;
        let layouts = executable.create_layouts(source)?;
        let modules = ShaderModules::new(gpu, source)?;
        for (index, pipeline) in source.pipelines.iter().enumerate() {
            let of_pipeline = |error: Error| error.context(format!("pipeline {index} '{}'", pipeline.entry_point));
            let (constant_count, binding_count) = source.operand_counts(pipeline);
            if binding_count > MAXIMUM_BINDINGS {
                return Err(of_pipeline(too_many_bindings()));
            }
            check_subgroup_size(gpu, pipeline.subgroup_size).map_err(of_pipeline)?;
            let entry_point =
                analyses.get(pipeline.shader_module).and_then(|row| row.entry_point(&pipeline.entry_point));
            executable.functions.push(FunctionInfo {
                name: pipeline.entry_point.clone(),
                constant_count,
                binding_count,
                workgroup_size: entry_point.map_or([0; 3], |entry_point| entry_point.workgroup_size),
                ..FunctionInfo::default()
            });
            executable.pipelines.push(executable.describe(source, pipeline, &layouts)?);
        }
        executable.compile(cache, source, &modules, constants)?;
        Ok(executable)
    }

    /// Creates the layouts of descriptor sets and of pipelines, which the executable destroys.
    fn create_layouts(&mut self, source: &VulkanExecutable) -> Result<Vec<Layout>> {
        let gpu = Arc::clone(&self.gpu);
        let limits = &gpu.properties.limits;
        let mut layouts = Vec::new();
        for (index, layout) in source.pipeline_layouts.iter().enumerate() {
            let bytes = layout.push_constant_bytes();
            let exceeded = if bytes > limits.max_push_constants_size {
                Some(format!(
                    "{bytes} bytes of push constants exceed maxPushConstantsSize {}",
                    limits.max_push_constants_size
                ))
            } else if layout.sets.len() > limits.max_bound_descriptor_sets as usize {
                Some(format!(
                    "{} sets exceed maxBoundDescriptorSets {}",
                    layout.sets.len(),
                    limits.max_bound_descriptor_sets
                ))
            } else {
                None
            };
            if let Some(exceeded) = exceeded {
                return Err(Error::unavailable(format!("pipeline layout {index}: {exceeded} of the device")));
            }
            // Sets other than the only one cannot be pushed.
            let bindings = |set: &usize| source.descriptor_set_layouts.get(*set).map_or(&[][..], Vec::as_slice);
            let count: u32 = layout.sets.iter().flat_map(bindings).map(|binding| binding.count).sum();
            let is_pushed = gpu.push_descriptors.is_some() && layout.sets.len() == 1 && count <= MOST_PUSHED;
            let first = self.set_layouts.len();
            for set in &layout.sets {
                let created = create_set_layout(&gpu, bindings(set), is_pushed)?;
                self.set_layouts.push(created);
            }
            let sets = self.set_layouts.get(first..).unwrap_or_default();
            let ranges = [vk::PushConstantRange::default().stage_flags(vk::ShaderStageFlags::COMPUTE).size(bytes)];
            let ranges = if bytes > 0 { &ranges[..] } else { &[] };
            let info = vk::PipelineLayoutCreateInfo::default().set_layouts(sets).push_constant_ranges(ranges);
            // SAFETY: the sets are of the device, and the range is within its limit.
            let created =
                unsafe { gpu.raw.create_pipeline_layout(&info, None) }.checked("creating a pipeline layout")?;
            self.layouts.push(created);
            layouts.push((created, bytes, is_pushed));
        }
        Ok(layouts)
    }

    /// Everything of a pipeline but its handle.
    fn describe(
        &self,
        source: &VulkanExecutable,
        pipeline: &gpu_executable::Pipeline,
        layouts: &[Layout],
    ) -> Result<Pipeline> {
        let missing = || Error::internal("pipeline layout is gone");
        let &(layout, push_constant_bytes, is_pushed) = layouts.get(pipeline.layout).ok_or_else(missing)?;
        let before = source.pipeline_layouts.iter().take(pipeline.layout).map(|layout| layout.sets.len()).sum();
        let count = source.pipeline_layouts.get(pipeline.layout).ok_or_else(missing)?.sets.len();
        let set_layouts = self.set_layouts.get(before..before + count).ok_or_else(missing)?.to_vec();
        let descriptors: Vec<_> = source.descriptors(pipeline).map(|(set, binding)| (set, *binding)).collect();
        let uniforms: Vec<bool> = descriptors
            .iter()
            .flat_map(|(_, binding)| std::iter::repeat_n(binding.is_uniform, binding.count as usize))
            .collect();
        Ok(Pipeline {
            raw: vk::Pipeline::null(),
            layout,
            set_layouts,
            descriptor_count: uniforms.len(),
            descriptors,
            uniforms,
            is_pushed,
            push_constant_bytes,
            addresses: pipeline.addresses.as_ref().map(Addresses::new),
        })
    }

    /// Compiles the pipelines, on as many threads as the host has processors.
    fn compile(
        &mut self,
        cache: vk::PipelineCache,
        source: &VulkanExecutable,
        modules: &ShaderModules<'_>,
        constants: &[u32],
    ) -> Result<()> {
        let gpu = &*self.gpu;
        let count = self.pipelines.len();
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(count).max(1);
        let chunk = count.div_ceil(threads).max(1);
        let compile = |pipelines: &mut [Pipeline], sources: &[gpu_executable::Pipeline]| {
            for (pipeline, source) in pipelines.iter_mut().zip(sources) {
                let result = create_pipeline(gpu, cache, pipeline.layout, source, modules, constants);
                pipeline.raw = result.map_err(|error| error.context(format!("pipeline '{}'", source.entry_point)))?;
            }
            Ok(())
        };
        let mut chunks = self.pipelines.chunks_mut(chunk).zip(source.pipelines.chunks(chunk));
        if threads == 1 {
            return chunks.try_for_each(|(pipelines, sources)| compile(pipelines, sources));
        }
        std::thread::scope(|scope| {
            let compile = &compile;
            let spawn = |(pipelines, sources)| scope.spawn(move || compile(pipelines, sources));
            let threads: Vec<_> = chunks.map(spawn).collect();
            let panicked = |_| Err(Error::internal("thread that compiles pipelines panicked"));
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).fold(Ok(()), Result::and)
        })
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        // SAFETY: the handles are of the device, or null, and are destroyed once. Operations that are not done keep their executables.
        unsafe {
            self.pipelines.iter().for_each(|pipeline| self.gpu.raw.destroy_pipeline(pipeline.raw, None));
            self.layouts.iter().for_each(|layout| self.gpu.raw.destroy_pipeline_layout(*layout, None));
            self.set_layouts.iter().for_each(|layout| self.gpu.raw.destroy_descriptor_set_layout(*layout, None));
        }
    }
}

/// Shader modules, which are needed until the pipelines are created.
struct ShaderModules<'a> {
    gpu: &'a Gpu,
    modules: Vec<vk::ShaderModule>,
}

impl<'a> ShaderModules<'a> {
    fn new(gpu: &'a Gpu, source: &VulkanExecutable) -> Result<ShaderModules<'a>> {
        let mut modules = ShaderModules { gpu, modules: Vec::new() };
        for words in &source.shader_modules {
            let info = vk::ShaderModuleCreateInfo::default().code(words);
            // SAFETY: the code is SPIR-V whose instructions are well formed, of features that the device has (`Properties::check`).
            // That it is valid beyond this is trusted, as machine code is; see docs/threat-model.md.
            let module = unsafe { gpu.raw.create_shader_module(&info, None) }.checked("creating a shader module")?;
            modules.modules.push(module);
        }
        Ok(modules)
    }
}

impl Drop for ShaderModules<'_> {
    fn drop(&mut self) {
        // SAFETY: the modules are of the device, and pipelines do not need them once they are created.
        self.modules.iter().for_each(|module| unsafe { self.gpu.raw.destroy_shader_module(*module, None) });
    }
}

fn create_set_layout(gpu: &Gpu, bindings: &[DescriptorBinding], is_pushed: bool) -> Result<vk::DescriptorSetLayout> {
    let bindings: Vec<_> = bindings
        .iter()
        .map(|binding| {
            vk::DescriptorSetLayoutBinding::default()
                .binding(binding.binding)
                .descriptor_type(descriptor_type(binding.is_uniform))
                .descriptor_count(binding.count)
                .stage_flags(vk::ShaderStageFlags::COMPUTE)
        })
        .collect();
    let limits = &gpu.properties.limits;
    let storage = bindings.iter().filter(|binding| binding.descriptor_type == vk::DescriptorType::STORAGE_BUFFER);
    let storage: u32 = storage.map(|binding| binding.descriptor_count).sum();
    if storage > limits.max_per_stage_descriptor_storage_buffers {
        return Err(Error::unavailable(format!(
            "{storage} storage buffers exceed maxPerStageDescriptorStorageBuffers {} of the device",
            limits.max_per_stage_descriptor_storage_buffers
        )));
    }
    let flags = match is_pushed {
        true => vk::DescriptorSetLayoutCreateFlags::PUSH_DESCRIPTOR_KHR,
        false => vk::DescriptorSetLayoutCreateFlags::empty(),
    };
    let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings).flags(flags);
    // SAFETY: the device lives; the numbers of the bindings differ (`VulkanExecutable::read`).
    unsafe { gpu.raw.create_descriptor_set_layout(&info, None) }.checked("creating a descriptor set layout")
}

/// The type of descriptors.
pub(crate) fn descriptor_type(is_uniform: bool) -> vk::DescriptorType {
    if is_uniform { vk::DescriptorType::UNIFORM_BUFFER } else { vk::DescriptorType::STORAGE_BUFFER }
}

fn check_subgroup_size(gpu: &Gpu, size: u32) -> Result<()> {
    let sizes = &gpu.properties.subgroup_sizes;
    if size == 0 || sizes.contains(&size) && size.is_power_of_two() {
        return Ok(());
    }
    Err(Error::unavailable(format!(
        "subgroups of {size} are required (subgroupSizeControl), and device '{}' can be required to have {}: compile for another \
         --iree-vulkan-target",
        gpu.properties.name,
        if sizes.is_empty() { "none".into() } else { format!("{} to {}", sizes.start(), sizes.end()) }
    )))
}

fn create_pipeline(
    gpu: &Gpu,
    cache: vk::PipelineCache,
    layout: vk::PipelineLayout,
    source: &gpu_executable::Pipeline,
    modules: &ShaderModules<'_>,
    constants: &[u32],
) -> Result<vk::Pipeline> {
    let module = modules.modules.get(source.shader_module).copied();
    let module = module.ok_or_else(|| Error::internal("shader module is gone"))?;
    let name = CString::new(source.entry_point.as_str());
    let name = name.map_err(|_| Error::internal("name of an entry point contains a NUL"))?;
    let entries: Vec<_> = (0u32..)
        .zip(constants)
        .map(|(id, _)| vk::SpecializationMapEntry { constant_id: id, offset: id * 4, size: 4 })
        .collect();
    let bytes: Vec<u8> = constants.iter().flat_map(|constant| constant.to_ne_bytes()).collect();
    let specialization = vk::SpecializationInfo::default().map_entries(&entries).data(&bytes);
    let mut size = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo {
        required_subgroup_size: source.subgroup_size,
        ..Default::default()
    };
    let mut stage = vk::PipelineShaderStageCreateInfo::default()
        .stage(vk::ShaderStageFlags::COMPUTE)
        .module(module)
        .name(&name)
        .specialization_info(&specialization);
    if source.subgroup_size != 0 {
        stage = stage.push_next(&mut size);
    }
    let info = [vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout)];
    // SAFETY: module, layout and cache are of the device; the module has the entry point (`VulkanExecutable::read`); the size of
    // subgroups is one that can be required (`check_subgroup_size`).
    match unsafe { gpu.raw.create_compute_pipelines(cache, &info, None) } {
        Ok(pipelines) => pipelines.first().copied().ok_or_else(|| Error::internal("no pipeline was created")),
        Err((_, result)) => Err(crate::error::error(result, "creating a pipeline")),
    }
}
