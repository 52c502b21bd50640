//! Channels of collective communication, which local devices do not have.

use alloc::format;

use crate::{Error, Result, ref_object};

/// A channel between participants of collective operations (`!hal.channel`). No device of this build makes one, so that
/// references to it are always null; see [`Channel::unsupported`].
#[derive(Debug)]
pub struct Channel {
    rank: i32,
    count: i32,
}

ref_object!(Channel, "hal.channel");

impl Channel {
    /// The rank of this participant, and the number of participants.
    #[must_use]
    pub fn rank_and_count(&self) -> (i32, i32) {
        (self.rank, self.count)
    }

    /// What every attempt to communicate gives.
    ///
    /// # Errors
    /// UNIMPLEMENTED, always.
    pub fn unsupported<T>(what: &str, device: &str) -> Result<T> {
        Err(Error::unimplemented(format!(
            "{what} needs a collective channel, which device '{device}' does not provide"
        )))
    }
}
