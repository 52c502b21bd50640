//! Channels of collective communication, which local devices do not support.

use alloc::format;

use crate::{Error, Result, ref_object};

/// A channel between participants of collective operations (`!hal.channel`). No device of this build creates one, so
/// references to channels are always null; see [`Channel::unsupported`].
#[derive(Debug)]
pub struct Channel {
    rank: i32,
    count: i32,
}

ref_object!(Channel, "hal.channel");

impl Channel {
    /// Returns the rank of this participant, and the number of participants.
    #[must_use]
    pub fn rank_and_count(&self) -> (i32, i32) {
        (self.rank, self.count)
    }

    /// Returns the error of every collective operation.
    ///
    /// # Errors
    /// UNIMPLEMENTED, always.
    pub fn unsupported<T>(what: &str, device: &str) -> Result<T> {
        Err(Error::unimplemented(format!(
            "{what} needs a collective channel, which device '{device}' does not provide"
        )))
    }
}
