//! Devices, buffers, command buffers, semaphores, executables.

pub mod local;
