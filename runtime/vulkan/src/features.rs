//! What a device has, and what code requires of it.
#![allow(unsafe_code, reason = "calls Vulkan")]

use std::ffi::CStr;
use std::fmt;

use ash::vk;
use incarnate_bytecode::gpu_executable::spirv::{Analysis, capability_name};

use crate::{Error, Result};

/// A physical device and its properties.
#[derive(Clone)]
pub(crate) struct Properties {
    pub(crate) physical: vk::PhysicalDevice,
    pub(crate) name: String,
    pub(crate) kind: vk::PhysicalDeviceType,
    pub(crate) version: u32,
    pub(crate) vendor: u32,
    pub(crate) device: u32,
    pub(crate) driver: u32,
    pub(crate) uuid: [u8; vk::UUID_SIZE],
    pub(crate) cache_uuid: [u8; vk::UUID_SIZE],
    pub(crate) limits: vk::PhysicalDeviceLimits,
    /// The greatest allocation in bytes.
    pub(crate) maximum_allocation: u64,
    /// The sizes of subgroups that pipelines can require; an empty range for none.
    pub(crate) subgroup_sizes: std::ops::RangeInclusive<u32>,
    pub(crate) subgroup_operations: vk::SubgroupFeatureFlags,
    pub(crate) memory: vk::PhysicalDeviceMemoryProperties,
    pub(crate) compute_family: Family,
    /// A family for transfers alone.
    pub(crate) transfer_family: Option<Family>,
    pub(crate) features: Features,
    pub(crate) has_push_descriptors: bool,
    /// What addresses and lengths of imported memory of the host must be multiples of; `None` if the device imports none.
    pub(crate) host_pointer_alignment: Option<u64>,
    /// The present value of the clock of timestamps can be asked for.
    pub(crate) has_calibrated_timestamps: bool,
}

/// A family of queues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Family {
    pub(crate) index: u32,
    /// How many queues it has.
    pub(crate) count: u32,
    /// Its queues are used for transfers alone.
    pub(crate) is_for_transfers: bool,
    /// Its queues execute dispatches.
    pub(crate) has_compute: bool,
    /// The bits of its timestamps that count; 0 if it has none.
    pub(crate) timestamp_bits: u32,
}

impl fmt::Debug for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)
    }
}

/// The features that are enabled where a device has them.
#[derive(Clone, Copy, Default)]
pub(crate) struct Features {
    core: vk::PhysicalDeviceFeatures,
    v11: vk::PhysicalDeviceVulkan11Features<'static>,
    v12: vk::PhysicalDeviceVulkan12Features<'static>,
    v13: vk::PhysicalDeviceVulkan13Features<'static>,
    /// Set only if the device has the extension.
    cooperative_matrix: vk::PhysicalDeviceCooperativeMatrixFeaturesKHR<'static>,
}

// SAFETY: the `p_next` pointers, which alone keep the types from being sent, are null in every value that is stored.
unsafe impl Send for Features {}
// SAFETY: as above.
unsafe impl Sync for Features {}

/// Copies the named fields that are set.
macro_rules! keep {
    ($type:ident of $from:expr; $($field:ident),* $(,)?) => {
        vk::$type { $($field: $from.$field,)* ..Default::default() }
    };
}

impl Features {
    /// The features of a device that compute shaders can require, and those that this driver uses.
    fn of(
        instance: &ash::Instance,
        physical: vk::PhysicalDevice,
        version: u32,
        has_cooperative_matrix: bool,
    ) -> Features {
        let mut v11 = vk::PhysicalDeviceVulkan11Features::default();
        let mut v12 = vk::PhysicalDeviceVulkan12Features::default();
        let mut v13 = vk::PhysicalDeviceVulkan13Features::default();
        let mut matrix = vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default();
        let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut v11).push_next(&mut v12);
        if version >= vk::API_VERSION_1_3 {
            features = features.push_next(&mut v13);
        }
        if has_cooperative_matrix {
            features = features.push_next(&mut matrix);
        }
        // SAFETY: the device is one of the instance; the chain has structures that its version of Vulkan has.
        unsafe { instance.get_physical_device_features2(physical, &mut features) };
        let core = features.features;
        Features {
            core: keep!(PhysicalDeviceFeatures of core; shader_float64, shader_int64, shader_int16),
            v11: keep!(PhysicalDeviceVulkan11Features of v11;
                storage_buffer16_bit_access, uniform_and_storage_buffer16_bit_access, storage_push_constant16,
                variable_pointers_storage_buffer, variable_pointers),
            v12: keep!(PhysicalDeviceVulkan12Features of v12;
                storage_buffer8_bit_access, uniform_and_storage_buffer8_bit_access, storage_push_constant8,
                shader_buffer_int64_atomics, shader_shared_int64_atomics, shader_float16, shader_int8,
                scalar_block_layout, shader_subgroup_extended_types, timeline_semaphore, host_query_reset,
                buffer_device_address,
                vulkan_memory_model, vulkan_memory_model_device_scope),
            v13: keep!(PhysicalDeviceVulkan13Features of v13;
                subgroup_size_control, compute_full_subgroups, shader_integer_dot_product, maintenance4),
            cooperative_matrix: keep!(PhysicalDeviceCooperativeMatrixFeaturesKHR of matrix; cooperative_matrix),
        }
    }

    /// Calls `body` with the structure that enables the features.
    pub(crate) fn enabling<R>(&self, version: u32, body: impl FnOnce(vk::PhysicalDeviceFeatures2<'_>) -> R) -> R {
        let (mut v11, mut v12, mut v13) = (self.v11, self.v12, self.v13);
        let features = vk::PhysicalDeviceFeatures2::default().features(self.core);
        let mut features = features.push_next(&mut v11).push_next(&mut v12);
        if version >= vk::API_VERSION_1_3 {
            features = features.push_next(&mut v13);
        }
        let mut matrix = self.cooperative_matrix;
        if self.has_cooperative_matrix() {
            features = features.push_next(&mut matrix);
        }
        body(features)
    }

    pub(crate) fn has_device_addresses(&self) -> bool {
        self.v12.buffer_device_address != 0
    }

    pub(crate) fn has_host_query_reset(&self) -> bool {
        self.v12.host_query_reset != 0
    }

    pub(crate) fn has_cooperative_matrix(&self) -> bool {
        self.cooperative_matrix.cooperative_matrix != 0
    }

    pub(crate) fn has_subgroup_size_control(&self) -> bool {
        self.v13.subgroup_size_control != 0
    }

    /// Returns the name of the feature that a capability of SPIR-V requires, and whether it is enabled; `None` for capabilities
    /// that every device has, or that other properties decide.
    fn of_capability(&self, capability: u32) -> Option<(&'static str, bool)> {
        let Features { core, v11, v12, v13, cooperative_matrix } = self;
        let (name, value) = match capability {
            9 => ("shaderFloat16", v12.shader_float16),
            10 => ("shaderFloat64", core.shader_float64),
            11 => ("shaderInt64", core.shader_int64),
            12 => ("shaderBufferInt64Atomics", v12.shader_buffer_int64_atomics | v12.shader_shared_int64_atomics),
            22 => ("shaderInt16", core.shader_int16),
            39 => ("shaderInt8", v12.shader_int8),
            4433 => ("storageBuffer16BitAccess", v11.storage_buffer16_bit_access),
            4434 => ("uniformAndStorageBuffer16BitAccess", v11.uniform_and_storage_buffer16_bit_access),
            4435 => ("storagePushConstant16", v11.storage_push_constant16),
            4441 => ("variablePointersStorageBuffer", v11.variable_pointers_storage_buffer),
            4442 => ("variablePointers", v11.variable_pointers),
            4448 => ("storageBuffer8BitAccess", v12.storage_buffer8_bit_access),
            4449 => ("uniformAndStorageBuffer8BitAccess", v12.uniform_and_storage_buffer8_bit_access),
            4450 => ("storagePushConstant8", v12.storage_push_constant8),
            5345 => ("vulkanMemoryModel", v12.vulkan_memory_model),
            5346 => ("vulkanMemoryModelDeviceScope", v12.vulkan_memory_model_device_scope),
            5347 => ("bufferDeviceAddress", v12.buffer_device_address),
            6016..=6019 => ("shaderIntegerDotProduct", v13.shader_integer_dot_product),
            5116..=5118 => ("shaderBFloat16Type", 0),
            6022 => ("cooperativeMatrix", cooperative_matrix.cooperative_matrix),
            _ => return None,
        };
        Some((name, value != 0))
    }
}

/// The operations of subgroups that a capability of SPIR-V requires.
const SUBGROUP_CAPABILITIES: &[(u32, vk::SubgroupFeatureFlags)] = &[
    (61, vk::SubgroupFeatureFlags::BASIC),
    (62, vk::SubgroupFeatureFlags::VOTE),
    (63, vk::SubgroupFeatureFlags::ARITHMETIC),
    (64, vk::SubgroupFeatureFlags::BALLOT),
    (65, vk::SubgroupFeatureFlags::SHUFFLE),
    (66, vk::SubgroupFeatureFlags::SHUFFLE_RELATIVE),
    (67, vk::SubgroupFeatureFlags::CLUSTERED),
];

impl Properties {
    /// Returns the properties of a device; `None` if it is not one that this driver can use: of Vulkan 1.2 or newer, with timeline
    /// semaphores and a queue for compute.
    pub(crate) fn of(instance: &ash::Instance, physical: vk::PhysicalDevice) -> Option<Properties> {
        // SAFETY: the device is one of the instance.
        let basic = unsafe { instance.get_physical_device_properties(physical) };
        if basic.api_version < vk::API_VERSION_1_2 {
            return None;
        }
        // SAFETY: as above.
        let (memory, families, extensions) = unsafe {
            (
                instance.get_physical_device_memory_properties(physical),
                instance.get_physical_device_queue_family_properties(physical),
                instance.enumerate_device_extension_properties(physical).unwrap_or_default(),
            )
        };
        let has = |name: &CStr| extensions.iter().any(|row| row.extension_name_as_c_str() == Ok(name));
        let imports = has(ash::ext::external_memory_host::NAME);
        let mut v11 = vk::PhysicalDeviceVulkan11Properties::default();
        let mut v13 = vk::PhysicalDeviceVulkan13Properties::default();
        let mut host = vk::PhysicalDeviceExternalMemoryHostPropertiesEXT::default();
        let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut v11);
        if basic.api_version >= vk::API_VERSION_1_3 {
            properties = properties.push_next(&mut v13);
        }
        if imports {
            properties = properties.push_next(&mut host);
        }
        // SAFETY: as above; the chain has structures that its version of Vulkan has.
        unsafe { instance.get_physical_device_properties2(physical, &mut properties) };
        let has_matrix = has(ash::khr::cooperative_matrix::NAME);
        let features = Features::of(instance, physical, basic.api_version, has_matrix);
        let (compute_family, transfer_family) = (compute_family(&families)?, transfer_family(&families));
        let can_require = v13.required_subgroup_size_stages.contains(vk::ShaderStageFlags::COMPUTE);
        let sizes = v13.min_subgroup_size..=v13.max_subgroup_size;
        #[expect(clippy::reversed_empty_ranges, reason = "no size can be required")]
        let none = 1..=0;
        (features.v12.timeline_semaphore != 0).then(|| Properties {
            physical,
            name: basic.device_name_as_c_str().unwrap_or_default().to_string_lossy().into_owned(),
            kind: basic.device_type,
            version: basic.api_version,
            vendor: basic.vendor_id,
            device: basic.device_id,
            driver: basic.driver_version,
            uuid: v11.device_uuid,
            cache_uuid: basic.pipeline_cache_uuid,
            limits: basic.limits,
            maximum_allocation: v11.max_memory_allocation_size,
            subgroup_sizes: if can_require && features.has_subgroup_size_control() { sizes } else { none },
            subgroup_operations: v11.subgroup_supported_operations,
            memory,
            compute_family,
            transfer_family,
            features,
            has_push_descriptors: has(ash::khr::push_descriptor::NAME),
            host_pointer_alignment: imports.then_some(host.min_imported_host_pointer_alignment),
            has_calibrated_timestamps: has(ash::ext::calibrated_timestamps::NAME),
        })
    }

    /// Returns the path of the device in URIs: its UUID.
    pub(crate) fn path(&self) -> String {
        let hex: String = self.uuid.iter().map(|byte| format!("{byte:02x}")).collect();
        let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
        format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
    }

    /// Returns true if host and device share one memory, so that the host can access all of it in place.
    pub(crate) fn shares_memory(&self) -> bool {
        matches!(self.kind, vk::PhysicalDeviceType::INTEGRATED_GPU | vk::PhysicalDeviceType::CPU)
    }

    /// Checks that the device has what a module requires.
    ///
    /// # Errors
    /// UNAVAILABLE with the name of the feature that it lacks.
    pub(crate) fn check(&self, module: &Analysis) -> Result<()> {
        let (major, minor) = module.version;
        let newest = match self.version {
            vk::API_VERSION_1_3.. => (1, 6),
            _ => (1, 5),
        };
        if module.version > newest {
            return Err(Error::unavailable(format!(
                "SPIR-V {major}.{minor} needs a newer version of Vulkan than that of device '{}'",
                self.name
            )));
        }
        for &capability in &module.capabilities {
            let name = capability_name(capability).unwrap_or("with an unknown name");
            let operations = SUBGROUP_CAPABILITIES.iter().find(|row| row.0 == capability);
            let lacking = match (self.features.of_capability(capability), operations) {
                (Some((feature, false)), _) => feature,
                (_, Some((_, operations))) if !self.subgroup_operations.contains(*operations) => "subgroup operations",
                _ => continue,
            };
            return Err(Error::unavailable(format!(
                "SPIR-V capability {name} ({capability}) needs {lacking}, which device '{}' lacks: compile for another \
                 --iree-vulkan-target",
                self.name
            )));
        }
        for entry_point in &module.entry_points {
            let size = entry_point.workgroup_size;
            let invocations = size.iter().fold(1u64, |product, size| product.saturating_mul(u64::from(*size)));
            let limits = &self.limits;
            let exceeds = size.iter().zip(&limits.max_compute_work_group_size).any(|(size, limit)| size > limit);
            if exceeds || invocations > u64::from(limits.max_compute_work_group_invocations) {
                return Err(Error::unavailable(format!(
                    "workgroups of {size:?} exceed maxComputeWorkGroupSize {:?} or maxComputeWorkGroupInvocations {} of \
                     device '{}'",
                    limits.max_compute_work_group_size, limits.max_compute_work_group_invocations, self.name
                )));
            }
        }
        Ok(())
    }
}

/// Returns the first family that has some flags and none of others.
fn find_family(
    families: &[vk::QueueFamilyProperties],
    with: vk::QueueFlags,
    without: vk::QueueFlags,
) -> Option<Family> {
    families.iter().zip(0u32..).find_map(|(family, index)| {
        let flags = family.queue_flags;
        (flags.contains(with) && !flags.intersects(without) && family.queue_count > 0).then(|| Family {
            index,
            count: family.queue_count,
            is_for_transfers: !with.contains(vk::QueueFlags::COMPUTE),
            has_compute: flags.contains(vk::QueueFlags::COMPUTE),
            timestamp_bits: family.timestamp_valid_bits,
        })
    })
}

/// Returns the family of queues for compute: one without graphics if there is one, as it runs beside a display.
fn compute_family(families: &[vk::QueueFamilyProperties]) -> Option<Family> {
    let find = |without| find_family(families, vk::QueueFlags::COMPUTE, without);
    find(vk::QueueFlags::GRAPHICS).or_else(|| find(vk::QueueFlags::empty()))
}

/// Returns the family of queues for transfers alone, which copy beside what the others compute.
fn transfer_family(families: &[vk::QueueFamilyProperties]) -> Option<Family> {
    let others = vk::QueueFlags::COMPUTE | vk::QueueFlags::GRAPHICS;
    find_family(families, vk::QueueFlags::TRANSFER, others)
}
