//! Vulkan devices: they run the SPIR-V executables of modules on the GPU of any vendor.
//!
//! The loader of Vulkan is opened at run time. A machine without it has no such devices, and everything else works.
//!
//! | module | contains |
//! |---|---|
//! | `instance`, `physical`, `features` | the loader; devices and their names; what a device has and code requires |
//! | `gpu`, `queues`, `context` | logical devices, their queues and timelines |
//! | `memory`, `block`, `ranges`, `staging` | allocations in blocks of memory; imported memory of the host; copies between the host and memory that it cannot access |
//! | `pipeline`, `pipeline_cache`, `descriptors` | executables; the file of compiled pipelines; descriptor sets |
//! | `objects`, `encoder`, `recorder`, `replays`, `shadows` | commands in Vulkan's form; memory of other devices in them |
//! | `timing` | times of commands in profiles |
//! | `submissions`, `backend` | operations that are not done; the backend |

mod backend;
mod block;
mod context;
mod descriptors;
mod encoder;
mod error;
mod features;
mod gpu;
mod instance;
mod memory;
mod objects;
mod physical;
mod pipeline;
mod pipeline_cache;
mod queues;
mod ranges;
mod recorder;
mod replays;
mod shadows;
mod staging;
mod submissions;
mod timing;

pub use backend::{VulkanBackend, VulkanOptions};
pub use instance::validation_messages;
pub use memory::HostAccess;
pub use physical::{DeviceDescription, devices};
pub use queues::QueueOptions;

use incarnate_vm::{Error, Result};
