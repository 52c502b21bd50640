//! Executables for CUDA and HIP, which have the same tables.

use alloc::string::String;
use alloc::vec::Vec;

use incarnate_schemas::cuda_executable as schema;

use super::{Copied, contents, damaged, verifier_options};
use crate::{Error, Result};

/// The contents of an executable for CUDA or HIP, checked: every index is in range.
#[derive(Clone, Debug)]
pub struct KernelExecutable {
    /// The functions, in the order of their ordinals.
    pub kernels: Vec<Kernel>,
    /// PTX of CUDA, which is text; machine code of HIP.
    pub images: Vec<Vec<u8>>,
}

/// A function.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The index of the image.
    pub image: usize,
    /// The name in the image.
    pub name: String,
    /// Threads of a block in x, y, z.
    pub block_size: [u32; 3],
    /// Bytes of memory that the threads of a block share.
    pub shared_memory_size: u32,
    /// The number of constants that a dispatch passes.
    pub constant_count: u32,
    /// The number of bindings that a dispatch passes.
    pub binding_count: usize,
}

impl KernelExecutable {
    /// The first bytes of executables for CUDA and for HIP.
    pub const IDENTIFIERS: [&str; 2] = ["CDA1", "HIP1"];

    /// Reads and checks an executable.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for malformed data; INCOMPATIBLE for another version.
    pub fn read(data: &[u8]) -> Result<KernelExecutable> {
        let [cuda, hip] = KernelExecutable::IDENTIFIERS;
        let contents = contents(data, if data.starts_with(hip.as_bytes()) { hip } else { cuda })?;
        let root = schema::root_as_executable_with_opts(&verifier_options(contents.len()), contents);
        let root = root.map_err(|error| damaged(&error))?;
        let mut copied = Copied::of(contents);
        let images = root.images().unwrap_or_default();
        let images = (images.iter())
            .map(|image| copied.collect(1, image.code().unwrap_or_default().iter()))
            .collect::<Result<Vec<_>>>()?;
        let kernels = root.kernels().unwrap_or_default();
        let kernels = kernels.iter().map(|row| kernel(&row, images.len(), &mut copied)).collect::<Result<_>>()?;
        Ok(KernelExecutable { kernels, images })
    }
}

fn kernel(row: &schema::Kernel<'_>, images: usize, copied: &mut Copied) -> Result<Kernel> {
    let image = row.image() as usize;
    if image >= images {
        return Err(Error::invalid_argument("kernel of the executable is in an image that it does not have"));
    }
    let size = row.block_size().map_or([0; 3], |size| [size.x(), size.y(), size.z()]);
    Ok(Kernel {
        image,
        name: copied.text(row.name())?,
        block_size: size,
        shared_memory_size: row.shared_memory_size(),
        constant_count: row.constant_count(),
        binding_count: row.bindings().map_or(0, |bindings| bindings.len()),
    })
}
