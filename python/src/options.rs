//! How a model is loaded: the arguments of `load`, except the model.

use std::sync::Arc;
use std::time::Duration;

use incarnate_runtime::Result;
use incarnate_runtime::hal::local::loaders::VmvxLoader;
use incarnate_runtime::session::{Session, SessionBuilder};
use incarnate_runtime::vm::{Ledger, Limits};

use crate::parameters::Parameters;
use crate::{devices, interrupt};

/// The options of `load`.
#[derive(Clone)]
pub(crate) struct LoadOptions {
    /// The URIs of the devices; none for the default device.
    pub(crate) devices: Vec<String>,
    /// The number of workers of each device; None for one for each core that the process may use.
    pub(crate) workers: Option<usize>,
    pub(crate) parameters: Parameters,
    /// Whether float reductions may be computed in another order.
    pub(crate) reassociate: bool,
    /// Whether the module may be anyone's: it is limited, and must not contain machine code.
    pub(crate) untrusted: bool,
    pub(crate) timeout: Option<Duration>,
    /// The number of steps of a call.
    pub(crate) fuel: Option<u64>,
    /// The number of bytes that the program may hold.
    pub(crate) memory_limit: Option<u64>,
    /// The number of objects that the program may hold.
    pub(crate) object_limit: Option<u64>,
}

/// The device of models that name none.
const DEFAULT_DEVICE: &str = "local-task";

impl LoadOptions {
    fn limits(&self) -> Limits {
        let limits = if self.untrusted { Limits::portable() } else { Limits::default() };
        let ledger = match (self.untrusted, self.memory_limit, self.object_limit) {
            (false, None, None) => limits.ledger.clone(),
            (untrusted, bytes, objects) => {
                let or = |limit: Option<u64>, portable| limit.unwrap_or(if untrusted { portable } else { u64::MAX });
                Ledger::new(or(bytes, Limits::PORTABLE_BYTES), or(objects, Limits::PORTABLE_OBJECTS))
            }
        };
        Limits {
            ledger,
            fuel: self.fuel.or(limits.fuel),
            timeout: self.timeout.or(limits.timeout),
            interrupt: Some(interrupt::signals()),
            ..limits
        }
    }

    /// Adds the devices to a session. Untrusted modules share none: theirs load bytecode only.
    fn add_devices(&self, builder: SessionBuilder) -> Result<SessionBuilder> {
        let default = [DEFAULT_DEVICE.to_owned()];
        let uris = if self.devices.is_empty() { &default[..] } else { &self.devices[..] };
        if self.untrusted {
            uris.iter().try_for_each(|uri| devices::check(uri))?;
            let mut options = devices::options(self.workers);
            options.memory_limit = self.memory_limit.unwrap_or(Limits::PORTABLE_BYTES);
            options.loaders = Some(vec![Arc::new(VmvxLoader::default())]);
            return Ok(uris.iter().fold(builder.device_options(options), SessionBuilder::device));
        }
        uris.iter().try_fold(builder, |builder, uri| Ok(builder.shared_device(devices::shared(uri, self.workers)?)))
    }

    /// Returns a session's builder with these options.
    ///
    /// # Errors
    /// Errors of creating devices.
    pub(crate) fn builder(&self) -> Result<SessionBuilder> {
        let builder = Session::builder().limits(self.limits()).reassociate(self.reassociate);
        let builder = if self.untrusted { builder.read_module_files() } else { builder };
        Ok(self.parameters.add_to(self.add_devices(builder)?))
    }
}
