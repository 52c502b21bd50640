//! Recordings of a command buffer that is executed more than once.
//!
//! A recording is for certain memory. Programs that call a function again get the same memory from the allocator, so a few recordings
//! serve them. A recording keeps no memory alive: blocks are numbered, so that memory of a new block is never taken for that of one
//! which is gone.

use std::sync::{Arc, Mutex, PoisonError};

use incarnate_hal::BufferBinding;
use incarnate_hal::backend::Commands;

use crate::Result;
use crate::context::Context;
use crate::encoder::Recording;
use crate::features::Family;
use crate::memory::BufferPosition;
use crate::recorder::{allocation_of, record};
use crate::shadows::Shadows;

/// Recordings that are kept for a command buffer: for the memory of calls that overlap, or that alternate.
const MOST: usize = 4;

/// The recordings of a command buffer by memory and family of queues, the last used one at the end.
#[derive(Debug, Default)]
pub(crate) struct Replays(Mutex<Vec<(Key, u32, Arc<Recording>)>>);

/// Where the memory of each slot is, and how long.
type Key = Vec<Option<(BufferPosition, u64)>>;

/// Returns where the buffers of a table are; `None` if one is memory of another device.
fn key(context: &Context, commands: &Commands, table: &[BufferBinding<'_>]) -> Option<Key> {
    let position = |binding: &BufferBinding<'_>| {
        let Some(buffer) = &binding.buffer else { return Some(None) };
        let (offset, length) = buffer.range(binding.offset, binding.length).ok()?;
        if length == 0 {
            return Some(None);
        }
        let (allocation, start) = allocation_of(context, buffer)?;
        Some(Some((allocation.position(start + offset as u64), length as u64)))
    };
    table.iter().take(commands.slot_count()).map(position).collect()
}

impl Replays {
    /// Returns a recording of the commands for a binding table and queues of a family, and what copies of other devices' memory its submission needs.
    ///
    /// # Errors
    /// Those of [`record`].
    pub(crate) fn get(
        &self,
        context: &Context,
        commands: &Commands,
        table: &[BufferBinding<'_>],
        family: Family,
    ) -> Result<(Arc<Recording>, Shadows)> {
        let Some(key) = key(context, commands, table) else {
            let (recording, shadows) = record(context, commands, table, family, false)?;
            return Ok((Arc::new(recording), shadows));
        };
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = rows.iter().position(|(other, index, _)| *other == key && *index == family.index) {
            let row = rows.remove(index);
            let recording = Arc::clone(&row.2);
            rows.push(row);
            return Ok((recording, Shadows::default()));
        }
        drop(rows);
        let (recording, shadows) = record(context, commands, table, family, true)?;
        let recording = Arc::new(recording);
        if shadows.is_empty() {
            let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if rows.len() >= MOST {
                rows.remove(0);
            }
            rows.push((key, family.index, Arc::clone(&recording)));
        }
        Ok((recording, shadows))
    }
}
