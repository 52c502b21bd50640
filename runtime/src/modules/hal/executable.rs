//! Imports on executables.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{HalState, with_bytes};
use crate::hal::{Device, Executable};
use crate::vm::{Buffer as VmBuffer, Caller};
use crate::{Error, Result};

#[allow(missing_docs, reason = "the imports, as programs declare them")]
impl HalState {
    pub fn executable_create(
        &self,
        _: &mut Caller<'_>,
        device: &Device,
        _affinity: u64,
        format: Arc<VmBuffer>,
        data: Arc<VmBuffer>,
        constants: Option<Arc<VmBuffer>>,
    ) -> Result<Arc<Executable>> {
        let constants: Vec<u32> = match constants {
            None => Vec::new(),
            Some(constants) => with_bytes(&constants, 0, constants.length(), |bytes| match bytes.as_chunks::<4>() {
                (words, []) => Ok(words.iter().map(|word| u32::from_le_bytes(*word)).collect()),
                (_, _) => Err(Error::invalid_argument(alloc::format!(
                    "specialization constants of {} bytes are not 32-bit words",
                    bytes.len()
                ))),
            })?,
        };
        let format = format.to_text()?;
        with_bytes(&data, 0, data.length(), |data| device.create_executable(&format, data, &constants))
    }

    pub fn executable_lookup_function(
        &self,
        _: &mut Caller<'_>,
        executable: &Executable,
        name: Arc<VmBuffer>,
    ) -> Result<u64> {
        Ok(executable.lookup(&name.to_text()?)? as u64)
    }
}
