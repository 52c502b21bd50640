//! Vulkan executables: SPIR-V, and the layouts of the pipelines that are created of it.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use incarnate_schemas::vulkan_executable as schema;

use super::{Copied, contents, damaged, spirv, verifier_options};
use crate::{Error, Result};

/// The flag of the compute stage, and the value that means all stages.
const COMPUTE: u32 = 0x20;
const ALL_STAGES: u32 = 0x7FFF_FFFF;
/// The values of `VkDescriptorType` of buffers.
const UNIFORM_BUFFER: u32 = 6;
const STORAGE_BUFFER: u32 = 7;
/// Bytes of the root of a dispatch by device addresses.
const BDA_ROOT: u32 = 32;
/// The most bytes of push constants, far above what any device has.
const MOST_PUSH_CONSTANTS: u32 = 1 << 16;

/// The contents of an executable, checked: every index is in range.
#[derive(Clone, Debug)]
pub struct VulkanExecutable {
    /// The functions, in the order of their ordinals.
    pub pipelines: Vec<Pipeline>,
    /// The layouts of descriptor sets.
    pub descriptor_set_layouts: Vec<Vec<DescriptorBinding>>,
    /// The layouts of pipelines.
    pub pipeline_layouts: Vec<PipelineLayout>,
    /// The words of each shader module, whose instruction stream is well formed.
    pub shader_modules: Vec<Vec<u32>>,
}

/// A function.
#[derive(Clone, Debug)]
pub struct Pipeline {
    /// The index of the shader module.
    pub shader_module: usize,
    /// The name of the entry point in it, without a NUL.
    pub entry_point: String,
    /// The index of the layout.
    pub layout: usize,
    /// The required size of subgroups; 0 for any.
    pub subgroup_size: u32,
    /// The name before compilation; that of the entry point if it is not recorded.
    pub name: String,
    /// How a dispatch passes device addresses; `None` if it passes descriptors.
    pub addresses: Option<BdaLayout>,
}

/// A binding of a descriptor set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorBinding {
    /// The number of the binding in the set.
    pub binding: u32,
    /// True for a uniform buffer, false for a storage buffer.
    pub is_uniform: bool,
    /// The number of descriptors, at least 1.
    pub count: u32,
}

/// A layout of pipelines.
#[derive(Clone, Debug, Default)]
pub struct PipelineLayout {
    /// Indices of descriptor set layouts, by number of the set.
    pub sets: Vec<usize>,
    /// The ranges of push constants, in bytes: multiples of 4.
    pub push_constants: Vec<Range<u32>>,
}

/// A range of push constants in bytes.
pub type PushConstantRange = Range<u32>;

/// How a dispatch passes device addresses.
#[derive(Clone, Debug)]
pub struct BdaLayout {
    /// The position of the root in the push constants.
    pub root_offset: u32,
    /// The position of the constants in the push constants.
    pub constants_offset: u32,
    /// The number of constants.
    pub constant_count: u32,
    /// The number of bindings.
    pub binding_count: u32,
    /// What the shader requires of each binding; none if it requires nothing.
    pub bindings: Vec<BdaBinding>,
}

/// What a shader requires of a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BdaBinding {
    /// A power of two.
    pub minimum_alignment: u32,
    /// Bytes.
    pub minimum_length: u64,
}

impl PipelineLayout {
    /// Returns the number of bytes of push constants.
    #[must_use]
    pub fn push_constant_bytes(&self) -> u32 {
        self.push_constants.iter().map(|range| range.end).max().unwrap_or(0)
    }

    fn covers(&self, offset: u32, length: u32) -> bool {
        let end = u64::from(offset) + u64::from(length);
        let covers = |range: &Range<u32>| range.start <= offset && end <= u64::from(range.end);
        length == 0 || self.push_constants.iter().any(covers)
    }
}

impl VulkanExecutable {
    /// The first bytes of an executable.
    pub const IDENTIFIER: &str = "VKE1";

    /// Reads and checks an executable.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for malformed data; INCOMPATIBLE for another version; UNIMPLEMENTED for what no compiler emits.
    pub fn read(data: &[u8]) -> Result<VulkanExecutable> {
        let contents = contents(data, VulkanExecutable::IDENTIFIER)?;
        let root = schema::root_as_executable_with_opts(&verifier_options(contents.len()), contents);
        let root = root.map_err(|error| damaged(&error))?;
        let mut copied = Copied::of(contents);
        let sets = root.descriptor_set_layouts().unwrap_or_default();
        let descriptor_set_layouts = (sets.iter().enumerate())
            .map(|(index, set)| set_layout(&set, &mut copied).map_err(within("descriptor set layout", index)))
            .collect::<Result<Vec<_>>>()?;
        let layouts = root.pipeline_layouts().unwrap_or_default();
        let pipeline_layouts = (layouts.iter().enumerate())
            .map(|(index, layout)| {
                let layout = pipeline_layout(&layout, descriptor_set_layouts.len(), &mut copied);
                layout.map_err(within("pipeline layout", index))
            })
            .collect::<Result<Vec<_>>>()?;
        let modules = root.shader_modules().unwrap_or_default();
        let shader_modules = (modules.iter().enumerate())
            .map(|(index, module)| shader_module(&module, &mut copied).map_err(within("shader module", index)))
            .collect::<Result<Vec<_>>>()?;
        let mut executable =
            VulkanExecutable { pipelines: Vec::new(), descriptor_set_layouts, pipeline_layouts, shader_modules };
        for (index, row) in root.pipelines().unwrap_or_default().iter().enumerate() {
            let pipeline = executable.pipeline(&row, &mut copied).map_err(within("pipeline", index))?;
            executable.pipelines.push(pipeline);
        }
        if executable.pipelines.is_empty() {
            return Err(Error::invalid_argument("executable has no pipelines"));
        }
        Ok(executable)
    }

    /// Returns the bindings of a pipeline in the order in which a dispatch passes them: the number of the set, and the binding. An
    /// array of descriptors takes as many.
    pub fn descriptors<'a>(&'a self, pipeline: &Pipeline) -> impl Iterator<Item = (usize, &'a DescriptorBinding)> {
        let sets = self.pipeline_layouts.get(pipeline.layout).map_or(&[][..], |layout| &layout.sets);
        let bindings = |set: &usize| self.descriptor_set_layouts.get(*set).map_or(&[][..], Vec::as_slice);
        sets.iter()
            .enumerate()
            .flat_map(move |(number, set)| bindings(set).iter().map(move |binding| (number, binding)))
    }

    /// Returns the numbers of constants and of bindings that a dispatch of a pipeline passes.
    #[must_use]
    pub fn operand_counts(&self, pipeline: &Pipeline) -> (usize, usize) {
        match &pipeline.addresses {
            Some(layout) => (layout.constant_count as usize, layout.binding_count as usize),
            None => {
                let layout = self.pipeline_layouts.get(pipeline.layout);
                let constants = layout.map_or(0, PipelineLayout::push_constant_bytes) / 4;
                let bindings = self.descriptors(pipeline).map(|(_, binding)| binding.count as usize);
                (constants as usize, bindings.fold(0, usize::saturating_add))
            }
        }
    }

    fn pipeline(&self, row: &schema::Pipeline<'_>, copied: &mut Copied) -> Result<Pipeline> {
        let shader_module = row.shader_module() as usize;
        let words = self.shader_modules.get(shader_module);
        let words = words.ok_or_else(|| out_of_range("shader module", shader_module, self.shader_modules.len()))?;
        let layout = row.pipeline_layout() as usize;
        let layouts = &self.pipeline_layouts;
        let layout_row = layouts.get(layout).ok_or_else(|| out_of_range("pipeline layout", layout, layouts.len()))?;
        let entry_point = copied.text(row.entry_point())?;
        if entry_point.is_empty() || entry_point.contains('\0') {
            return Err(Error::invalid_argument("entry point has no name, or a NUL in it"));
        }
        if spirv::Analysis::of(words)?.entry_point(&entry_point).is_none() {
            return Err(Error::invalid_argument(format!(
                "shader module {shader_module} has no compute entry point '{}'",
                crate::Escaped(&entry_point)
            )));
        }
        let addresses = match (row.dispatch_abi(), row.bda_layout()) {
            (schema::DispatchAbi::Descriptor, None) => None,
            (schema::DispatchAbi::Bda, Some(bda)) if layout_row.sets.is_empty() => {
                Some(bda_layout(&bda, layout_row, copied)?)
            }
            (schema::DispatchAbi::Bda, Some(_)) => {
                return Err(Error::invalid_argument(
                    "bindings are device addresses, and the layout has descriptor sets",
                ));
            }
            (schema::DispatchAbi::Descriptor | schema::DispatchAbi::Bda, _) => {
                return Err(Error::invalid_argument(
                    "layout of device addresses is missing, or bindings are descriptors",
                ));
            }
            (abi, _) => return Err(Error::invalid_argument(format!("dispatch ABI {} is unknown", abi.0))),
        };
        let name = copied.text(row.debug_info().and_then(|info| info.name()))?;
        let name = if name.is_empty() { entry_point.clone() } else { name };
        Ok(Pipeline { shader_module, entry_point, layout, subgroup_size: row.subgroup_size(), name, addresses })
    }
}

fn set_layout(set: &schema::DescriptorSetLayout<'_>, copied: &mut Copied) -> Result<Vec<DescriptorBinding>> {
    let rows = set.bindings().unwrap_or_default();
    let bindings = copied.collect(4, rows.iter().map(|row| descriptor(&row)))?;
    let bindings = bindings.into_iter().collect::<Result<Vec<_>>>()?;
    let mut numbers: Vec<u32> = bindings.iter().map(|binding| binding.binding).collect();
    numbers.sort_unstable();
    if numbers.windows(2).any(|pair| pair.first() == pair.last()) {
        return Err(Error::invalid_argument("two bindings have the same number"));
    }
    Ok(bindings)
}

fn descriptor(row: &schema::DescriptorSetLayoutBinding<'_>) -> Result<DescriptorBinding> {
    let is_uniform = match row.descriptor_type() {
        UNIFORM_BUFFER => true,
        STORAGE_BUFFER => false,
        other => {
            return Err(Error::unimplemented(format!(
                "descriptor of type {other}: dispatches pass uniform and storage buffers"
            )));
        }
    };
    check_stages(row.stage_flags())?;
    let count = row.descriptor_count();
    // A dispatch passes at most as many, so more descriptors are never bound.
    if !(1..=64).contains(&count) {
        return Err(Error::invalid_argument(format!("array of {count} descriptors, not of 1 to 64")));
    }
    Ok(DescriptorBinding { binding: row.binding(), is_uniform, count })
}

fn check_stages(flags: u32) -> Result<()> {
    if flags == ALL_STAGES || flags & COMPUTE != 0 {
        return Ok(());
    }
    Err(Error::invalid_argument(format!("stages 0x{flags:X} do not include compute")))
}

fn pipeline_layout(row: &schema::PipelineLayout<'_>, sets: usize, copied: &mut Copied) -> Result<PipelineLayout> {
    let indices = row.descriptor_set_layouts().unwrap_or_default();
    let indices = copied.collect(4, indices.iter().map(|index| index as usize))?;
    if let Some(index) = indices.iter().find(|index| **index >= sets) {
        return Err(out_of_range("descriptor set layout", *index, sets));
    }
    let ranges = row.push_constant_ranges().unwrap_or_default();
    let ranges = copied.collect(12, ranges.iter().map(|range| push_constant_range(*range)))?;
    Ok(PipelineLayout { sets: indices, push_constants: ranges.into_iter().collect::<Result<_>>()? })
}

fn push_constant_range(range: schema::PushConstantRange) -> Result<Range<u32>> {
    check_stages(range.stage_flags())?;
    let (start, size) = (range.offset(), range.size());
    let end = start.checked_add(size).filter(|end| *end <= MOST_PUSH_CONSTANTS && size > 0 && (start | size) % 4 == 0);
    let end = end.ok_or_else(|| Error::invalid_argument(format!("push constants of {size} bytes at {start}")))?;
    Ok(start..end)
}

fn shader_module(row: &schema::ShaderModule<'_>, copied: &mut Copied) -> Result<Vec<u32>> {
    let words = row.spirv_code().unwrap_or_default();
    let words = copied.collect(4, words.iter())?;
    spirv::Analysis::of(&words)?;
    Ok(words)
}

fn bda_layout(row: &schema::BdaLayout<'_>, layout: &PipelineLayout, copied: &mut Copied) -> Result<BdaLayout> {
    if row.abi_version() != 1 || row.root_length() != BDA_ROOT {
        return Err(Error::incompatible(format!(
            "layout of device addresses of version {} with a root of {} bytes; this build has version 1 of {BDA_ROOT}",
            row.abi_version(),
            row.root_length()
        )));
    }
    if row.entry() != schema::BdaEntry::Address {
        return Err(Error::unimplemented("table of addresses with lengths: compile without checks in shaders"));
    }
    let (root, constants, count) = (row.root_offset(), row.constants_offset(), row.constant_count());
    let length = count.checked_mul(4).filter(|length| *length <= MOST_PUSH_CONSTANTS);
    let length = length.ok_or_else(|| Error::invalid_argument(format!("{count} constants")))?;
    if (root | constants) % 4 != 0 || !layout.covers(root, BDA_ROOT) || !layout.covers(constants, length) {
        return Err(Error::invalid_argument("root or constants are not within the push constants"));
    }
    if length > 0 && root < constants + length && constants < root + BDA_ROOT {
        return Err(Error::invalid_argument("constants overlap the root of the device addresses"));
    }
    let rows = row.bindings().unwrap_or_default();
    let requirement = |row: schema::BdaBinding<'_>| BdaBinding {
        minimum_alignment: row.minimum_alignment(),
        minimum_length: row.minimum_length(),
    };
    let bindings = copied.collect(4, rows.iter().map(requirement))?;
    let binding_count = row.binding_count();
    if binding_count > 1 << 16 || !bindings.is_empty() && bindings.len() != binding_count as usize {
        return Err(Error::invalid_argument(format!("{} requirements of {binding_count} bindings", bindings.len())));
    }
    if bindings.iter().any(|binding| !binding.minimum_alignment.is_power_of_two()) {
        return Err(Error::invalid_argument("alignment of a binding is not a power of two"));
    }
    Ok(BdaLayout { root_offset: root, constants_offset: constants, constant_count: count, binding_count, bindings })
}

fn out_of_range(what: &str, index: usize, count: usize) -> Error {
    Error::invalid_argument(format!("{what} {index} of {count}"))
}

/// Names the part that an error is in.
fn within(part: &'static str, index: usize) -> impl FnOnce(Error) -> Error {
    move |error| error.context(format!("{part} {index} of the executable"))
}
