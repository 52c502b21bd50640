//! The queues of a device, and the timelines of their submissions.
//!
//! Queues are numbered: those for compute first, then the one for transfers. Several of them may stand on one queue of Vulkan.
#![allow(unsafe_code, reason = "calls Vulkan")]

use std::sync::{Arc, Mutex, PoisonError};

use ash::vk;
use incarnate_hal::QueueAffinity;

use crate::Result;
use crate::error::Checked;
use crate::features::{Family, Properties};

/// The most queues for compute that a device is given.
pub(crate) const MOST_QUEUES: u32 = 16;
/// The queues for compute that a device is given if its options do not say how many, where its family has as many.
const DEFAULT_QUEUES: u32 = 4;

/// A submission of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) queue: usize,
    /// The value of the queue's timeline once the submission is done.
    pub(crate) number: u64,
}

/// Which queues a device is given.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueOptions {
    /// The number of queues for compute; `None` for as many as the family has, up to 4. More than it has share them.
    pub compute: Option<u32>,
    /// Whether there is a queue for transfers alone; `None` for one if the device has a family for it.
    pub transfer: Option<bool>,
}

/// The families of the queues, and which of their queues each one is.
pub(crate) fn plan(properties: &Properties, options: QueueOptions) -> Vec<(Family, u32)> {
    let compute = properties.compute_family;
    let count = options.compute.unwrap_or(compute.count.min(DEFAULT_QUEUES)).clamp(1, MOST_QUEUES);
    let mut rows: Vec<_> = (0..count).map(|index| (compute, index % compute.count)).collect();
    match (options.transfer, properties.transfer_family) {
        (Some(true) | None, Some(family)) => rows.push((family, 0)),
        (Some(true), None) => rows.push((Family { is_for_transfers: true, ..compute }, count % compute.count)),
        (Some(false) | None, _) => {}
    }
    rows
}

/// A queue, whose submissions are done in order.
pub(crate) struct Queue {
    pub(crate) family: Family,
    /// The number of the queue of Vulkan in its family.
    index: u32,
    /// A queue of Vulkan, whose use by threads must be synchronized.
    raw: Arc<Mutex<vk::Queue>>,
    /// Counts the submissions that are done.
    pub(crate) timeline: vk::Semaphore,
    /// The number of submissions.
    count: Mutex<u64>,
}

impl Queue {
    /// Creates the queues of a plan, which are those that the device was created with.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub(crate) fn all(device: &ash::Device, plan: &[(Family, u32)]) -> Result<Vec<Queue>> {
        let mut queues: Vec<Queue> = Vec::new();
        for &(family, index) in plan {
            let known = queues.iter().find(|other| (other.family.index, other.index) == (family.index, index));
            let raw = known.map(|other| Arc::clone(&other.raw)).unwrap_or_else(|| {
                // SAFETY: the device was created with the queues of the plan.
                Arc::new(Mutex::new(unsafe { device.get_device_queue(family.index, index) }))
            });
            let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
            let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
            // SAFETY: the device has timeline semaphores.
            let timeline = unsafe { device.create_semaphore(&info, None) }.checked("creating a semaphore");
            match timeline {
                Ok(timeline) => queues.push(Queue { family, index, raw, timeline, count: Mutex::new(0) }),
                Err(error) => {
                    queues.into_iter().for_each(|queue| queue.destroy(device));
                    return Err(error);
                }
            }
        }
        Ok(queues)
    }

    /// Destroys the semaphore, which no submission uses.
    pub(crate) fn destroy(self, device: &ash::Device) {
        // SAFETY: the semaphore is of the device, and the caller's submissions are done, or there are none.
        unsafe { device.destroy_semaphore(self.timeline, None) };
    }

    /// Submits a command buffer, which begins when the values of other timelines are reached, and returns its number.
    ///
    /// # Safety
    /// The command buffer is executable and of the queue's family, and everything that it uses lives until the submission is done.
    /// The semaphores are timelines of the device, and submissions that reach the values have been made.
    ///
    /// # Errors
    /// Those of `vkQueueSubmit`.
    pub(crate) unsafe fn submit(
        &self,
        device: &ash::Device,
        commands: vk::CommandBuffer,
        waits: &[(vk::Semaphore, u64)],
    ) -> Result<u64, vk::Result> {
        let (semaphores, values): (Vec<_>, Vec<_>) = waits.iter().copied().unzip();
        let stages = vec![vk::PipelineStageFlags::ALL_COMMANDS; waits.len()];
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let (buffers, signals, signalled) = ([commands], [self.timeline], [*count + 1]);
        let mut timeline = vk::TimelineSemaphoreSubmitInfo::default()
            .wait_semaphore_values(&values)
            .signal_semaphore_values(&signalled);
        let info = vk::SubmitInfo::default()
            .wait_semaphores(&semaphores)
            .wait_dst_stage_mask(&stages)
            .command_buffers(&buffers)
            .signal_semaphores(&signals)
            .push_next(&mut timeline);
        let raw = self.raw.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the lock synchronizes the queue; the caller keeps what the commands use.
        unsafe { device.queue_submit(*raw, &[info], vk::Fence::null()) }?;
        *count += 1;
        Ok(*count)
    }
}

/// Returns the queue for an operation: the first one that its affinity allows, and that is for its kind if it allows one.
pub(crate) fn select(queues: &[Queue], affinity: QueueAffinity, dispatches: bool) -> usize {
    let allowed = |index: &usize| affinity.allows(*index, queues.len());
    let is_for = |index: &usize, transfers: bool| {
        queues.get(*index).is_some_and(|queue| queue.family.is_for_transfers == transfers)
    };
    let mut all = 0..queues.len();
    match dispatches {
        // The first one has compute, which the affinity may have left out.
        true => all.find(|index| allowed(index) && is_for(index, false)).unwrap_or(0),
        false => {
            let dedicated = all.clone().find(|index| allowed(index) && is_for(index, true));
            dedicated.or_else(|| all.find(allowed)).unwrap_or(0)
        }
    }
}
