//! Imports on executables.

use alloc::sync::Arc;

use super::{HalState, constant_words, with_bytes};
use crate::Result;
use crate::hal::{Device, Executable};
use crate::vm::{Buffer as VmBuffer, Caller};

#[allow(missing_docs, reason = "the imports, as programs declare them")]
impl HalState {
    pub fn executable_create(
        &self,
        caller: &mut Caller<'_>,
        device: &Device,
        _affinity: u64,
        format: Arc<VmBuffer>,
        data: Arc<VmBuffer>,
        constants: Option<Arc<VmBuffer>>,
    ) -> Result<Arc<Executable>> {
        let ledger = caller.ledger();
        let constants = constant_words(constants.as_deref(), ledger)?;
        let format = format.text()?;
        let contents = data.contents();
        with_bytes(&data, 0, data.length(), ledger, |data| {
            device.create_executable(&self.loaders, &format, data, contents, &constants, ledger)
        })
    }

    pub fn executable_lookup_function(
        &self,
        _: &mut Caller<'_>,
        executable: &Executable,
        name: &VmBuffer,
    ) -> Result<u64> {
        // Constants, as most names are, need no check of their text.
        match name.as_bytes().and_then(|name| executable.position(name)) {
            Some(position) => Ok(position as u64),
            None => Ok(executable.lookup(&name.text()?)? as u64),
        }
    }
}
