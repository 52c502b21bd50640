//! A logical device with its queue and the timeline of its submissions.
#![allow(unsafe_code, reason = "calls Vulkan")]

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use ash::vk;

use crate::encoder::Objects;
use crate::error::{Checked, device_lost};
use crate::features::Properties;
use crate::instance::Instance;
use crate::{Error, Result};

/// Recordings whose objects are kept. It bounds memory and no speed but that of programs with more operations at once.
const MOST_OBJECTS: usize = 32;

/// A logical device. Every object of it keeps a share.
pub(crate) struct Gpu {
    pub(crate) raw: ash::Device,
    pub(crate) properties: Properties,
    pub(crate) push_descriptors: Option<ash::khr::push_descriptor::Device>,
    queue: Mutex<Submissions>,
    /// Counts the submissions that are done.
    timeline: vk::Semaphore,
    /// Set when the device is lost.
    lost: OnceLock<Error>,
    /// What recordings have given back.
    objects: Mutex<Vec<Objects>>,
    /// Destroyed last.
    _instance: Arc<Instance>,
}

/// The queue, whose use by threads must be synchronized, and the number of submissions.
struct Submissions {
    queue: vk::Queue,
    count: u64,
}

impl Gpu {
    /// Creates a logical device.
    ///
    /// # Errors
    /// Those of the driver.
    pub(crate) fn new(instance: Arc<Instance>, properties: Properties) -> Result<Gpu> {
        let priorities = [1.0];
        let queues = [vk::DeviceQueueCreateInfo::default()
            .queue_family_index(properties.queue_family)
            .queue_priorities(&priorities)];
        let mut extensions = Vec::new();
        if properties.has_push_descriptors {
            extensions.push(ash::khr::push_descriptor::NAME.as_ptr());
        }
        if properties.features.has_cooperative_matrix() {
            extensions.push(ash::khr::cooperative_matrix::NAME.as_ptr());
        }
        let raw = properties.features.enabling(properties.version, |mut features| {
            let info = vk::DeviceCreateInfo::default()
                .queue_create_infos(&queues)
                .enabled_extension_names(&extensions)
                .push_next(&mut features);
            // SAFETY: the physical device is one of the instance, and has the queue family, the extensions and the features.
            unsafe { instance.raw.create_device(properties.physical, &info, None) }
        });
        let raw = raw.checked("creating a Vulkan device")?;
        let push_descriptors = properties.has_push_descriptors;
        let push_descriptors = push_descriptors.then(|| ash::khr::push_descriptor::Device::new(&instance.raw, &raw));
        let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: the device was created above with timeline semaphores and one queue of the family.
        let (queue, timeline) =
            unsafe { (raw.get_device_queue(properties.queue_family, 0), raw.create_semaphore(&info, None)) };
        let timeline = match timeline {
            Ok(timeline) => timeline,
            Err(result) => {
                // SAFETY: the device has no objects.
                unsafe { raw.destroy_device(None) };
                return Err(crate::error::error(result, "creating a semaphore"));
            }
        };
        let queue = Mutex::new(Submissions { queue, count: 0 });
        Ok(Gpu {
            raw,
            properties,
            push_descriptors,
            queue,
            timeline,
            lost: OnceLock::new(),
            objects: Mutex::default(),
            _instance: instance,
        })
    }

    /// Submits a command buffer and returns its number. Submissions are done in the order of their numbers, because each begins
    /// with a barrier.
    ///
    /// # Safety
    /// The command buffer is executable, and everything that it uses lives until the submission is done.
    ///
    /// # Errors
    /// UNAVAILABLE if the device is lost; RESOURCE_EXHAUSTED.
    pub(crate) unsafe fn submit(&self, commands: vk::CommandBuffer) -> Result<u64> {
        self.check()?;
        let mut submissions = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let (buffers, semaphores, values) = ([commands], [self.timeline], [submissions.count + 1]);
        let mut timeline = vk::TimelineSemaphoreSubmitInfo::default().signal_semaphore_values(&values);
        let info =
            vk::SubmitInfo::default().command_buffers(&buffers).signal_semaphores(&semaphores).push_next(&mut timeline);
        // SAFETY: the lock synchronizes the queue; the caller keeps what the commands use.
        let result = unsafe { self.raw.queue_submit(submissions.queue, &[info], vk::Fence::null()) };
        self.noticing(result, "submitting commands")?;
        submissions.count += 1;
        Ok(submissions.count)
    }

    /// Returns the number of the last submission that is done.
    ///
    /// # Errors
    /// UNAVAILABLE if the device is lost.
    pub(crate) fn completed(&self) -> Result<u64> {
        self.check()?;
        // SAFETY: the semaphore is a timeline of this device.
        let value = unsafe { self.raw.get_semaphore_counter_value(self.timeline) };
        self.noticing(value, "asking for the progress of commands")
    }

    /// Blocks until a submission is done or the time has passed; returns true if it is done.
    ///
    /// # Errors
    /// UNAVAILABLE if the device is lost.
    pub(crate) fn wait(&self, number: u64, timeout: Duration) -> Result<bool> {
        self.check()?;
        let (semaphores, values) = ([self.timeline], [number]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        let timeout = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        // SAFETY: the semaphore is a timeline of this device.
        match unsafe { self.raw.wait_semaphores(&info, timeout) } {
            Err(vk::Result::TIMEOUT) => Ok(false),
            result => self.noticing(result, "waiting for commands").map(|()| true),
        }
    }

    /// Blocks until a submission is done.
    ///
    /// # Errors
    /// UNAVAILABLE if the device is lost.
    pub(crate) fn wait_for(&self, number: u64) -> Result<()> {
        while !self.wait(number, Duration::from_secs(1))? {}
        Ok(())
    }

    /// Returns objects for a recording, if some were given back.
    pub(crate) fn take_objects(&self) -> Option<Objects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Keeps the objects of a recording for the next ones, unless there are enough.
    pub(crate) fn give_back_objects(&self, objects: Objects) {
        let mut kept = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MOST_OBJECTS {
            kept.push(objects);
        } else {
            drop(kept);
            objects.destroy(self);
        }
    }

    fn check(&self) -> Result<()> {
        self.lost.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Marks the device as lost, which executes nothing any more: every later submission and wait fails.
    pub(crate) fn lose(&self, what: &str) {
        let _ = self.lost.set(device_lost(what));
    }

    fn noticing<T>(&self, result: Result<T, vk::Result>, what: &str) -> Result<T> {
        if matches!(&result, Err(vk::Result::ERROR_DEVICE_LOST)) {
            self.lose(what);
        }
        result.checked(what)
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: every object of the device keeps a share of it, so none but the semaphore is left. No submission uses it any
        // more once the device is idle, or lost.
        unsafe {
            let _ = self.raw.device_wait_idle();
            while let Some(objects) = self.take_objects() {
                objects.destroy(self);
            }
            self.raw.destroy_semaphore(self.timeline, None);
            self.raw.destroy_device(None);
        }
    }
}

impl fmt::Debug for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gpu({})", self.properties.name)
    }
}
