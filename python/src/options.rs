//! How a model is loaded: the arguments of `load`, except the model.

use std::time::Duration;

use incarnate_runtime::Result;
use incarnate_runtime::session::{Session, SessionBuilder};
use incarnate_runtime::vm::{GivenLimits, Limits};

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
        let given = GivenLimits {
            bytes: self.memory_limit,
            objects: self.object_limit,
            fuel: self.fuel,
            timeout: self.timeout,
        };
        Limits { interrupt: Some(interrupt::signals()), ..given.limits(self.untrusted) }
    }

    /// Adds the devices to a session. Untrusted modules share none: the memory of theirs is limited.
    fn add_devices(&self, builder: SessionBuilder) -> Result<SessionBuilder> {
        let default = [DEFAULT_DEVICE.to_owned()];
        let uris = if self.devices.is_empty() { &default[..] } else { &self.devices[..] };
        if self.untrusted {
            uris.iter().try_for_each(|uri| devices::check(uri))?;
            let builder = builder.device_options(devices::options(self.workers));
            return Ok(uris.iter().fold(builder, SessionBuilder::device));
        }
        uris.iter().try_fold(builder, |builder, uri| Ok(builder.shared_device(devices::shared(uri, self.workers)?)))
    }

    /// Returns a session's builder with these options.
    ///
    /// # Errors
    /// Errors of creating devices.
    pub(crate) fn builder(&self) -> Result<SessionBuilder> {
        let builder = Session::builder().limits(self.limits()).reassociate(self.reassociate);
        let builder = if self.untrusted { builder.untrusted() } else { builder };
        Ok(self.parameters.add_to(self.add_devices(builder)?))
    }
}
