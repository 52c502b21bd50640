//! Times of commands for profiles, by timestamps that the device writes.
//!
//! A timestamp is written when the commands before it are done, one after each command: so the time of a command begins when those
//! before it are done, and the times of a recording do not overlap, also those of commands that run at the same time.
#![allow(unsafe_code, reason = "calls Vulkan")]

use std::sync::Arc;
use std::time::Duration;

use ash::vk;
use incarnate_hal::BufferBinding;
use incarnate_hal::backend::{Command, Commands, WorkgroupCount};
use incarnate_vm::profile::{self, EventKind, Facts};

use crate::Result;
use crate::error::Checked;
use crate::features::Family;
use crate::gpu::Gpu;

/// A command that is timed.
struct Timed {
    kind: EventKind,
    name: String,
    workgroups: u64,
    bytes: u64,
}

/// The timestamps of a recording, which is submitted once.
pub(crate) struct Timing {
    gpu: Arc<Gpu>,
    pool: vk::QueryPool,
    /// The number of timestamps that the pool has room for.
    capacity: u32,
    timestamp_bits: u32,
    commands: Vec<Timed>,
}

impl Timing {
    /// Creates timestamps for `count` commands; `None` if nothing is profiled, or the device or the queue has none.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub(crate) fn new(gpu: &Arc<Gpu>, family: Family, count: usize) -> Result<Option<Timing>> {
        let can_reset = gpu.properties.features.has_host_query_reset();
        if !profile::is_on() || !can_reset || family.timestamp_bits == 0 {
            return Ok(None);
        }
        // At most as many as a pool may have; later commands are not timed.
        let capacity = u32::try_from(count).unwrap_or(u32::MAX).min(1 << 16) + 1;
        let info = vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(capacity);
        // SAFETY: the device lives, as the value keeps a share, and has the feature to reset queries, which nothing uses yet.
        let pool = unsafe {
            let pool = gpu.raw.create_query_pool(&info, None).checked("creating a query pool")?;
            gpu.raw.reset_query_pool(pool, 0, capacity);
            pool
        };
        let timestamp_bits = family.timestamp_bits;
        Ok(Some(Timing { gpu: Arc::clone(gpu), pool, capacity, timestamp_bits, commands: Vec::new() }))
    }

    /// Writes the first timestamp.
    pub(crate) fn begin(&self, commands: vk::CommandBuffer) {
        self.write(commands, 0);
    }

    /// Writes the timestamp after a command.
    pub(crate) fn command(
        &mut self,
        buffer: vk::CommandBuffer,
        commands: &Commands,
        command: &Command,
        table: &[BufferBinding<'_>],
    ) {
        let bytes = |binding: u32| commands.resolve(binding, table).map_or(0, |(_, _, length)| length as u64);
        let (kind, name, workgroups, bytes) = match (command, command.transfer()) {
            (_, Some(transfer)) => (EventKind::Transfer, transfer.name.to_owned(), 0, bytes(transfer.target)),
            (Command::Dispatch(dispatch), None) => {
                let info = dispatch.executable.functions().get(dispatch.function);
                let name = info.map(|info| info.name.clone()).filter(|name| !name.is_empty());
                let all = dispatch.bindings.clone().map(bytes).fold(0, u64::saturating_add);
                let workgroups = match dispatch.workgroup_count {
                    WorkgroupCount::Direct(count) => {
                        count.iter().fold(1u64, |product, count| product.saturating_mul(u64::from(*count)))
                    }
                    // Only the device knows.
                    WorkgroupCount::Indirect(_) => 0,
                };
                (EventKind::Dispatch, name.unwrap_or_else(|| "dispatch".into()), workgroups, all)
            }
            _ => return,
        };
        let query = self.commands.len() as u32 + 1;
        if query < self.capacity {
            self.commands.push(Timed { kind, name, workgroups, bytes });
            self.write(buffer, query);
        }
    }

    fn write(&self, commands: vk::CommandBuffer, query: u32) {
        // SAFETY: the command buffer is being recorded; the query is within the pool and was reset.
        unsafe {
            self.gpu.raw.cmd_write_timestamp(commands, vk::PipelineStageFlags::BOTTOM_OF_PIPE, self.pool, query);
        }
    }

    /// Adds the times to the profile, of commands that are done.
    pub(crate) fn report(&self, queue: usize) {
        let mut values = vec![0u64; self.commands.len() + 1];
        // SAFETY: the pool has at least that many queries, and the device has written them.
        let results =
            unsafe { self.gpu.raw.get_query_pool_results(self.pool, 0, &mut values, vk::QueryResultFlags::TYPE_64) };
        let (Ok(()), Some(last)) = (results, values.last().copied()) else { return };
        let mask = 1u64.checked_shl(self.timestamp_bits).map_or(u64::MAX, |bit| bit - 1);
        let period = f64::from(self.gpu.properties.limits.timestamp_period);
        let time = |ticks: u64| Duration::from_nanos((ticks as f64 * period) as u64);
        let (now, present) = self.gpu.present(last);
        let at = |value: u64| {
            let before = time(present.wrapping_sub(value) & mask);
            now.checked_sub(before).unwrap_or(now)
        };
        let events = self.commands.iter().zip(values.windows(2)).filter_map(|(command, pair)| {
            let &[start, end] = pair else { return None };
            let facts = Facts {
                workgroups: command.workgroups,
                bytes: command.bytes,
                ..Facts::plain(command.kind, &command.name)
            };
            Some((at(start), time(end.wrapping_sub(start) & mask), facts))
        });
        profile::record_device(&format!("vulkan {} queue {queue}", self.gpu.number), events);
    }
}

impl Drop for Timing {
    fn drop(&mut self) {
        // SAFETY: the submission that used the queries is done, or there was none.
        unsafe { self.gpu.raw.destroy_query_pool(self.pool, None) };
    }
}
