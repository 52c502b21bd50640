//! A logical device with its queues.
#![allow(unsafe_code, reason = "calls Vulkan")]

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use ash::vk;
use incarnate_hal::QueueAffinity;
use incarnate_vm::clock::Instant;

use crate::error::{Checked, device_lost};
use crate::features::Properties;
use crate::instance::Instance;
use crate::objects::Objects;
use crate::queues::{self, Point, Queue, QueueOptions};
use crate::{Error, Result};

/// Recordings whose objects are kept. It bounds memory and no speed but that of programs with more operations at once.
const MOST_OBJECTS: usize = 32;

/// How long a thread waits before it asks a driver again that has no memory.
const WITHOUT_MEMORY: Duration = Duration::from_millis(1);

/// The devices that this process has created.
static DEVICES: AtomicUsize = AtomicUsize::new(0);

/// A logical device. Every object of it keeps a share.
pub(crate) struct Gpu {
    pub(crate) raw: ash::Device,
    /// How many devices this process created before.
    pub(crate) number: usize,
    pub(crate) properties: Properties,
    pub(crate) push_descriptors: Option<ash::khr::push_descriptor::Device>,
    pub(crate) external_host_memory: Option<ash::ext::external_memory_host::Device>,
    calibrated_timestamps: Option<ash::ext::calibrated_timestamps::Device>,
    queues: Vec<Queue>,
    /// The families of the queues, each once.
    pub(crate) families: Vec<u32>,
    /// Set when the device is lost.
    lost: OnceLock<Error>,
    /// What recordings have given back.
    objects: Mutex<Vec<Objects>>,
    /// Destroyed last.
    _instance: Arc<Instance>,
}

impl Gpu {
    /// Creates a logical device.
    ///
    /// # Errors
    /// Those of the driver.
    pub(crate) fn new(instance: Arc<Instance>, properties: Properties, options: QueueOptions) -> Result<Gpu> {
        let plan = queues::plan(&properties, options);
        let mut families: Vec<u32> = plan.iter().map(|row| row.0.index).collect();
        families.dedup();
        let raw = create(&instance, &properties, &families, &plan)?;
        let push_descriptors = properties.has_push_descriptors;
        let push_descriptors = push_descriptors.then(|| ash::khr::push_descriptor::Device::new(&instance.raw, &raw));
        let calibrated = properties.has_calibrated_timestamps;
        let calibrated = calibrated.then(|| ash::ext::calibrated_timestamps::Device::new(&instance.raw, &raw));
        let external_host_memory = properties.host_pointer_alignment;
        let external_host_memory =
            external_host_memory.map(|_| ash::ext::external_memory_host::Device::new(&instance.raw, &raw));
        let queues = Queue::all(&raw, &plan).inspect_err(|_| {
            // SAFETY: the device has no objects.
            unsafe { raw.destroy_device(None) };
        })?;
        Ok(Gpu {
            raw,
            number: DEVICES.fetch_add(1, Ordering::Relaxed),
            properties,
            push_descriptors,
            external_host_memory,
            calibrated_timestamps: calibrated,
            queues,
            families,
            lost: OnceLock::new(),
            objects: Mutex::default(),
            _instance: instance,
        })
    }

    /// Returns the number of queues.
    pub(crate) fn queue_count(&self) -> usize {
        self.queues.len()
    }

    /// Returns a queue.
    ///
    /// # Errors
    /// INTERNAL if there is none of the number.
    pub(crate) fn queue(&self, queue: usize) -> Result<&Queue> {
        self.queues.get(queue).ok_or_else(|| Error::internal("queue of a Vulkan device is not there"))
    }

    /// Returns the queue for an operation: the first one that its affinity allows, and that is for its kind if it allows one.
    pub(crate) fn select(&self, affinity: QueueAffinity, dispatches: bool) -> usize {
        queues::select(&self.queues, affinity, dispatches)
    }

    /// Submits a command buffer that begins when submissions of other queues are done, and returns its point. Submissions of one
    /// queue are done in order, because each begins with a barrier.
    ///
    /// # Safety
    /// The command buffer is executable and of the queue's family, and everything that it uses lives until the submission is done.
    ///
    /// # Errors
    /// UNAVAILABLE if the device is lost; RESOURCE_EXHAUSTED.
    pub(crate) unsafe fn submit(&self, queue: usize, commands: vk::CommandBuffer, waits: &[Point]) -> Result<Point> {
        self.check()?;
        let waits = waits.iter().map(|point| Ok((self.queue(point.queue)?.timeline, point.number)));
        let waits = waits.collect::<Result<Vec<_>>>()?;
        // SAFETY: points are of submissions; the caller keeps what the commands use.
        let result = unsafe { self.queue(queue)?.submit(&self.raw, commands, &waits) };
        let number = self.noticing(result, "submitting commands")?;
        Ok(Point { queue, number })
    }

    /// Returns true if a submission is done; false if the driver has no memory for the answer.
    ///
    /// # Errors
    /// UNAVAILABLE if the device is lost.
    pub(crate) fn is_done(&self, point: Point) -> Result<bool> {
        self.check()?;
        // SAFETY: the semaphore is a timeline of this device.
        let value = unsafe { self.raw.get_semaphore_counter_value(self.queue(point.queue)?.timeline) };
        Ok(self.answered(value, "asking for the progress of commands")?.is_some_and(|value| value >= point.number))
    }

    /// Blocks until a submission is done or the time has passed, or for a moment if the driver has no memory for the wait; returns true
    /// if it is done.
    ///
    /// # Errors
    /// UNAVAILABLE if the device is lost.
    pub(crate) fn wait(&self, point: Point, timeout: Duration) -> Result<bool> {
        self.check()?;
        let (semaphores, values) = ([self.queue(point.queue)?.timeline], [point.number]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        let timeout = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        // SAFETY: the semaphore is a timeline of this device.
        match unsafe { self.raw.wait_semaphores(&info, timeout) } {
            Err(vk::Result::TIMEOUT) => Ok(false),
            result => {
                let is_done = self.answered(result, "waiting for commands")?.is_some();
                if !is_done {
                    std::thread::sleep(WITHOUT_MEMORY);
                }
                Ok(is_done)
            }
        }
    }

    /// Returns what the driver answers about submissions; `None` if it has no memory for that, which says nothing about them: they may
    /// use their operands still. After any other error nothing can be known of the device, and it counts as lost.
    ///
    /// # Errors
    /// UNAVAILABLE if the device is lost.
    fn answered<T>(&self, answer: Result<T, vk::Result>, what: &str) -> Result<Option<T>> {
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(vk::Result::ERROR_OUT_OF_HOST_MEMORY | vk::Result::ERROR_OUT_OF_DEVICE_MEMORY) => Ok(None),
            Err(_) => {
                self.lose(what);
                self.check().map(|()| None)
            }
        }
    }

    /// Blocks until a submission is done.
    ///
    /// # Errors
    /// UNAVAILABLE if the device is lost.
    pub(crate) fn wait_for(&self, point: Point) -> Result<()> {
        while !self.wait(point, Duration::from_secs(1))? {}
        Ok(())
    }

    /// Returns the present time, and the present value of the clock of timestamps: `last` on devices that do not tell it.
    pub(crate) fn present(&self, last: u64) -> (Instant, u64) {
        let before = Instant::now();
        let device = vk::CalibratedTimestampInfoEXT::default().time_domain(vk::TimeDomainEXT::DEVICE);
        let value = self.calibrated_timestamps.as_ref().and_then(|functions| {
            // SAFETY: the device has the extension and this domain: `Instance::devices` asked for both.
            unsafe { functions.get_calibrated_timestamps(&[device]) }.ok()?.0.first().copied()
        });
        (before + before.elapsed() / 2, value.unwrap_or(last))
    }

    /// Returns objects for a recording for queues of a family, if some were given back.
    pub(crate) fn take_objects(&self, family: u32) -> Option<Objects> {
        let mut kept = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        let index = kept.iter().rposition(|objects| objects.family == family)?;
        Some(kept.swap_remove(index))
    }

    /// Keeps the objects of a recording for the next ones, unless there are enough.
    pub(crate) fn give_back_objects(&self, objects: Objects) {
        let mut kept = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MOST_OBJECTS {
            kept.push(objects);
        } else {
            drop(kept);
            objects.destroy(&self.raw);
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

/// Creates the device of Vulkan with the queues of a plan, and what its properties say is enabled.
fn create(
    instance: &Instance,
    properties: &Properties,
    families: &[u32],
    plan: &[(crate::features::Family, u32)],
) -> Result<ash::Device> {
    let most = |family: u32| plan.iter().filter(|row| row.0.index == family).map(|row| row.1 + 1).max().unwrap_or(1);
    let priorities = [1.0; queues::MOST_QUEUES as usize + 1];
    let priorities = |family: u32| priorities.get(..most(family) as usize).unwrap_or(&priorities);
    let queues: Vec<_> = families
        .iter()
        .map(|&family| {
            vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(priorities(family))
        })
        .collect();
    let mut extensions = Vec::new();
    if properties.has_push_descriptors {
        extensions.push(ash::khr::push_descriptor::NAME.as_ptr());
    }
    if properties.host_pointer_alignment.is_some() {
        extensions.push(ash::ext::external_memory_host::NAME.as_ptr());
    }
    if properties.has_calibrated_timestamps {
        extensions.push(ash::ext::calibrated_timestamps::NAME.as_ptr());
    }
    if properties.features.has_cooperative_matrix() {
        extensions.push(ash::khr::cooperative_matrix::NAME.as_ptr());
    }
    let raw = properties.features.enabling(properties.version, |mut features| {
        let info = vk::DeviceCreateInfo::default()
            .queue_create_infos(&queues)
            .enabled_extension_names(&extensions)
            .push_next(&mut features);
        // SAFETY: the physical device is one of the instance, and has the queues, the extensions and the features.
        unsafe { instance.raw.create_device(properties.physical, &info, None) }
    });
    raw.checked("creating a Vulkan device")
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: every object of the device keeps a share of it, so none but the semaphores of the queues and the objects that were
        // given back are left. No submission uses them any more once the device is idle, or lost; no thread uses a queue.
        unsafe {
            let _ = self.raw.device_wait_idle();
            for objects in std::mem::take(self.objects.get_mut().unwrap_or_else(PoisonError::into_inner)) {
                objects.destroy(&self.raw);
            }
            for queue in std::mem::take(&mut self.queues) {
                queue.destroy(&self.raw);
            }
            self.raw.destroy_device(None);
        }
    }
}

impl fmt::Debug for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gpu({})", self.properties.name)
    }
}
