//! Imports on channels of collective communication.

use alloc::sync::Arc;

use super::HalState;
use crate::Result;
use crate::hal::{Buffer, Channel, CommandBuffer, Device};
use crate::vm::{Buffer as VmBuffer, Caller};

#[allow(clippy::too_many_arguments, missing_docs, reason = "the imports, as programs declare them")]
impl HalState {
    pub fn channel_create(
        &self,
        _: &mut Caller<'_>,
        device: &Device,
        _affinity: u64,
        _flags: u64,
        _id: Option<Arc<VmBuffer>>,
        _group: Option<Arc<VmBuffer>>,
        _rank: i32,
        _count: i32,
    ) -> Result<Arc<Channel>> {
        Channel::unsupported("channel.create", device.id())
    }

    pub fn channel_split(
        &self,
        _: &mut Caller<'_>,
        _channel: Arc<Channel>,
        _color: i32,
        _key: i32,
        _flags: u64,
    ) -> Result<Arc<Channel>> {
        Channel::unsupported("channel.split", "local")
    }

    pub fn channel_rank_and_count(&self, _: &mut Caller<'_>, channel: Arc<Channel>) -> Result<(i32, i32)> {
        Ok(channel.rank_and_count())
    }

    pub fn command_buffer_collective(
        &self,
        _: &mut Caller<'_>,
        _commands: &CommandBuffer,
        _channel: Option<Arc<Channel>>,
        _operation: u32,
        _parameter: u32,
        _send_slot: u32,
        _receive_slot: u32,
        _send_buffer: Option<Arc<Buffer>>,
        _receive_buffer: Option<Arc<Buffer>>,
        _send_offset: u64,
        _send_length: u64,
        _receive_offset: u64,
        _receive_length: u64,
        _element_count: u64,
    ) -> Result<()> {
        Channel::unsupported("command_buffer.collective", "local")
    }
}
