//! The module's functions.

use alloc::sync::Arc;

use super::HalLoaderState;
use crate::Result;
use crate::hal::Executable;
use crate::hal::local::dispatch_inline;
use crate::modules::bytes::{constant_words, with_bytes};
use crate::vm::{Buffer as VmBuffer, Caller, Span};

#[allow(clippy::too_many_arguments, missing_docs, reason = "the imports, as programs declare them")]
impl HalLoaderState {
    pub fn executable_query_support(&self, _: &mut Caller<'_>, format: &VmBuffer) -> Result<i32> {
        Ok(i32::from(self.loaders.support(self.device.as_deref(), &format.text()?)))
    }

    pub fn executable_load(
        &self,
        caller: &mut Caller<'_>,
        format: Arc<VmBuffer>,
        data: Arc<VmBuffer>,
        constants: Option<Arc<VmBuffer>>,
    ) -> Result<Arc<Executable>> {
        let ledger = caller.ledger();
        let (format, constants) = (format.text()?, constant_words(constants.as_deref(), ledger)?);
        let (device, contents) = (self.device.as_deref(), data.contents());
        with_bytes(&data, 0, data.length(), ledger, |data| {
            self.loaders.load(device, &self.imports, &format, data, contents, &constants, ledger)
        })
    }

    pub fn executable_lookup_function(
        &self,
        _: &mut Caller<'_>,
        executable: &Executable,
        name: &VmBuffer,
    ) -> Result<u64> {
        Ok(executable.lookup(&name.text()?)? as u64)
    }

    pub fn executable_dispatch(
        &self,
        caller: &mut Caller<'_>,
        executable: &Executable,
        function: u64,
        x: u32,
        y: u32,
        z: u32,
        constants: Span<u32>,
        bindings: Span<(Arc<VmBuffer>, u64, u64)>,
    ) -> Result<()> {
        caller.stack.share_meter();
        dispatch_inline(executable, function, [x, y, z], &constants, &bindings, caller.stack.shared_meter())
    }
}
