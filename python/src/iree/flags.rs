//! The names of flags and element types: what Python's enumerations are made of, and how flags are shown.

use incarnate_runtime::hal::{BufferUsage, ElementType, MemoryAccess, MemoryType};

/// Names and bits. Those of several flags precede the single ones, so that flags are shown by as few names as possible.
pub(super) type Names = &'static [(&'static str, u32)];

/// The names of an enumeration's members: those of the bits, and those of no bits and of combinations that are not shown.
pub(super) struct Enumeration {
    pub(super) name: &'static str,
    pub(super) shown: Names,
    pub(super) others: Names,
}

/// The usage of buffers that ask for none.
pub(super) const DEFAULT_USAGE: BufferUsage = BufferUsage::TRANSFER.union(BufferUsage::DISPATCH_STORAGE);

pub(super) const MEMORY_TYPES: Names = &[
    ("HOST_LOCAL", MemoryType::HOST_LOCAL.bits()),
    ("DEVICE_LOCAL", MemoryType::DEVICE_LOCAL.bits()),
    ("OPTIMAL", MemoryType::OPTIMAL.bits()),
    ("HOST_VISIBLE", MemoryType::HOST_VISIBLE.bits()),
    ("HOST_COHERENT", MemoryType::HOST_COHERENT.bits()),
    ("HOST_CACHED", MemoryType::HOST_CACHED.bits()),
    ("DEVICE_VISIBLE", MemoryType::DEVICE_VISIBLE.bits()),
];

pub(super) const MEMORY_ACCESSES: Names = &[
    ("ALL", MemoryAccess::ALL.bits()),
    ("DISCARD_WRITE", MemoryAccess::DISCARD.union(MemoryAccess::WRITE).bits()),
    ("READ", MemoryAccess::READ.bits()),
    ("WRITE", MemoryAccess::WRITE.bits()),
    ("DISCARD", MemoryAccess::DISCARD.bits()),
];

pub(super) const BUFFER_USAGES: Names = &[
    ("TRANSFER", BufferUsage::TRANSFER.bits()),
    ("DISPATCH", BufferUsage::DISPATCH.bits()),
    ("DISPATCH_STORAGE", BufferUsage::DISPATCH_STORAGE.bits()),
    ("DISPATCH_IMAGE", BufferUsage::DISPATCH_IMAGE_READ.union(BufferUsage::DISPATCH_IMAGE_WRITE).bits()),
    ("MAPPING", BufferUsage::MAPPING_SCOPED.union(BufferUsage::MAPPING_ACCESS_RANDOM).bits()),
    ("TRANSFER_SOURCE", BufferUsage::TRANSFER_SOURCE.bits()),
    ("TRANSFER_TARGET", BufferUsage::TRANSFER_TARGET.bits()),
    ("DISPATCH_INDIRECT_PARAMETERS", BufferUsage::DISPATCH_INDIRECT_PARAMETERS.bits()),
    ("DISPATCH_UNIFORM_READ", BufferUsage::DISPATCH_UNIFORM_READ.bits()),
    ("DISPATCH_STORAGE_READ", BufferUsage::DISPATCH_STORAGE_READ.bits()),
    ("DISPATCH_STORAGE_WRITE", BufferUsage::DISPATCH_STORAGE_WRITE.bits()),
    ("DISPATCH_IMAGE_READ", BufferUsage::DISPATCH_IMAGE_READ.bits()),
    ("DISPATCH_IMAGE_WRITE", BufferUsage::DISPATCH_IMAGE_WRITE.bits()),
    ("SHARING_EXPORT", BufferUsage::SHARING_EXPORT.bits()),
    ("SHARING_REPLICATE", BufferUsage::SHARING_REPLICATE.bits()),
    ("SHARING_CONCURRENT", BufferUsage::SHARING_CONCURRENT.bits()),
    ("SHARING_IMMUTABLE", BufferUsage::SHARING_IMMUTABLE.bits()),
    ("MAPPING_SCOPED", BufferUsage::MAPPING_SCOPED.bits()),
    ("MAPPING_PERSISTENT", BufferUsage::MAPPING_PERSISTENT.bits()),
    ("MAPPING_OPTIONAL", BufferUsage::MAPPING_OPTIONAL.bits()),
    ("MAPPING_ACCESS_RANDOM", BufferUsage::MAPPING_ACCESS_RANDOM.bits()),
    ("MAPPING_ACCESS_SEQUENTIAL_WRITE", BufferUsage::MAPPING_ACCESS_SEQUENTIAL_WRITE.bits()),
];

/// What an allocator can do with buffers of given parameters; the bits of `iree_hal_buffer_compatibility_t`.
pub(super) const COMPATIBILITIES: Names = &[
    ("ALLOCATABLE", 1 << 0),
    ("IMPORTABLE", 1 << 1),
    ("EXPORTABLE", 1 << 2),
    ("QUEUE_TRANSFER", 1 << 10),
    ("QUEUE_DISPATCH", 1 << 11),
];

/// What semaphores can be waited for and signalled by; the bits of `iree_hal_semaphore_compatibility_t`.
const SEMAPHORE_COMPATIBILITIES: Names = &[
    ("ALL", 0b1111),
    ("HOST_ONLY", 0b0101),
    ("DEVICE_ONLY", 0b1010),
    ("HOST_WAIT", 1 << 0),
    ("DEVICE_WAIT", 1 << 1),
    ("HOST_SIGNAL", 1 << 2),
    ("DEVICE_SIGNAL", 1 << 3),
];

const TIMEPOINT_TYPES: Names = &[("ASYNC_PRIMITIVE", 1), ("CUDA_EVENT", 2), ("HIP_EVENT", 3)];

const NONE: Names = &[("NONE", 0)];

/// Enumerations whose members are combined by `|`.
pub(super) const ENUMERATIONS: &[Enumeration] = &[
    Enumeration { name: "MemoryType", shown: MEMORY_TYPES, others: NONE },
    Enumeration { name: "MemoryAccess", shown: MEMORY_ACCESSES, others: NONE },
    Enumeration {
        name: "BufferUsage",
        shown: BUFFER_USAGES,
        others: &[("NONE", 0), ("DEFAULT", DEFAULT_USAGE.bits())],
    },
    Enumeration { name: "BufferCompatibility", shown: COMPATIBILITIES, others: NONE },
    Enumeration { name: "SemaphoreCompatibility", shown: SEMAPHORE_COMPATIBILITIES, others: NONE },
    Enumeration { name: "ExternalTimepointType", shown: TIMEPOINT_TYPES, others: NONE },
    Enumeration { name: "ExternalTimepointFlags", shown: &[], others: NONE },
];

/// Returns the names of flags, such as `DEVICE_LOCAL|HOST_VISIBLE`.
pub(super) fn text(names: Names, bits: u32) -> String {
    let mut left = bits;
    let mut found = Vec::new();
    for (name, flags) in names {
        if left & flags == *flags {
            left &= !flags;
            found.push((*name).to_owned());
        }
    }
    if left != 0 {
        found.push(format!("{left:#x}"));
    }
    if found.is_empty() { String::from("NONE") } else { found.join("|") }
}

/// Returns the names and numbers of element types. Complex numbers have the names of their numbers of bits.
pub(super) fn element_types() -> impl Iterator<Item = (String, u32)> {
    ElementType::NAMED.iter().map(|(element_type, name)| (name.replace("COMPLEX_FLOAT", "COMPLEX"), element_type.raw()))
}
