//! Executables for GPUs, as far as they can be read without a device: Vulkan, CUDA, HIP.
//!
//! An executable is a FlatBuffer behind a header of 64 bytes: identifier, version, and number of the bytes that follow.

mod cuda;
pub mod spirv;
#[cfg(test)]
mod tests;
mod vulkan;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use flatbuffers::VerifierOptions;

pub use cuda::{Kernel, KernelExecutable};
pub use vulkan::{
    BdaBinding, BdaLayout, DescriptorBinding, Pipeline, PipelineLayout, PushConstantRange, VulkanExecutable,
};

use crate::read::{array_at, u32_at};
use crate::{Error, Result};

/// The format of Vulkan executables whose bindings are descriptors.
pub const VULKAN_DESCRIPTORS: &str = "vulkan-spirv-fb";
/// The format of Vulkan executables whose bindings are device addresses.
pub const VULKAN_ADDRESSES: &str = "vulkan-spirv-bda-v1";

/// Returns true for the formats of Vulkan executables.
#[must_use]
pub fn is_vulkan(format: &str) -> bool {
    format == VULKAN_DESCRIPTORS || format == VULKAN_ADDRESSES
}

/// The length of the header in bytes.
const HEADER: usize = 64;

/// Returns what runs executables of a format that this project reads and does not run; `None` for other formats.
#[must_use]
pub fn foreign_device(format: &str) -> Option<&'static str> {
    let known = [("cuda-", "CUDA, for GPUs of NVIDIA"), ("rocm-", "HIP, for GPUs of AMD")];
    known.iter().find(|(prefix, _)| format.starts_with(prefix)).map(|(_, device)| *device)
}

/// Returns the FlatBuffer behind a header with the identifier.
fn contents<'a>(data: &'a [u8], identifier: &str) -> Result<&'a [u8]> {
    if !data.starts_with(identifier.as_bytes()) {
        return Err(Error::invalid_argument(format!("executable does not begin with {identifier}")));
    }
    let (Some(version), Some(length)) = (u32_at(data, 4), array_at(data, 8).map(u64::from_le_bytes)) else {
        return Err(Error::invalid_argument("executable ends in its header"));
    };
    if version != 0 {
        return Err(Error::incompatible(format!("executable is of version {version}, and this build reads version 0")));
    }
    let available = data.get(HEADER..).unwrap_or_default();
    let length = usize::try_from(length).ok().filter(|length| (1..=available.len()).contains(length));
    let Some(contents) = length.and_then(|length| available.get(..length)) else {
        return Err(Error::invalid_argument(format!(
            "header of the executable declares more bytes than the {} that follow, or none",
            available.len()
        )));
    };
    Ok(contents)
}

/// What the verification of a FlatBuffer of some length may visit: tables that are shared count each time.
fn verifier_options(length: usize) -> VerifierOptions {
    VerifierOptions {
        max_depth: 8,
        max_tables: length,
        max_apparent_size: length.saturating_mul(4).saturating_add(1 << 10),
        ignore_missing_null_terminator: false,
    }
}

#[cold]
fn damaged(error: &flatbuffers::InvalidFlatbuffer) -> Error {
    // The text of the error has lines; the kind is on the first one.
    let text = format!("{error}");
    Error::invalid_argument(format!("executable is damaged: {}", text.lines().next().unwrap_or_default()))
}

/// Bounds what is copied from an executable, parts of which may be shared.
struct Copied(usize);

impl Copied {
    /// Allows as many bytes as the executable has.
    fn of(contents: &[u8]) -> Copied {
        Copied(contents.len())
    }

    fn charge(&mut self, bytes: usize) -> Result<()> {
        let left = self.0.checked_sub(bytes);
        self.0 = left.ok_or_else(|| Error::invalid_argument("parts of the executable overlap"))?;
        Ok(())
    }

    fn text(&mut self, text: Option<&str>) -> Result<String> {
        let text = text.unwrap_or_default();
        self.charge(text.len())?;
        Ok(text.into())
    }

    /// Collects what is `size` bytes in the executable.
    fn collect<T>(&mut self, size: usize, items: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>> {
        self.charge(items.len().saturating_mul(size))?;
        Ok(items.collect())
    }
}
