//! The drivers of local devices.

use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::super::device::{Device, DeviceOptions};
use super::super::driver::{DeviceInfo, DeviceUri, Driver};
use super::execution;
use super::sync::SyncBackend;
use crate::{Error, Result};

/// Every local driver, the default first. The one list of them.
pub(in crate::hal) fn default_drivers() -> Vec<Box<dyn Driver>> {
    vec![Box::new(SyncDriver)]
}

/// Makes `local-sync` devices.
#[derive(Debug)]
struct SyncDriver;

impl Driver for SyncDriver {
    fn name(&self) -> &'static str {
        "local-sync"
    }

    fn devices(&self) -> Vec<DeviceInfo> {
        vec![DeviceInfo { path: "default".into(), name: "the calling thread".into() }]
    }

    fn create_device(&self, uri: &DeviceUri<'_>, options: DeviceOptions) -> Result<Arc<Device>> {
        if !matches!(uri.path, "" | "default" | "0") {
            return Err(Error::not_found(format!("{} has no device '{}'; it has 'default'", self.name(), uri.path)));
        }
        if let Some((key, _)) = uri.parameters.first() {
            return Err(Error::invalid_argument(format!("{} has no parameter '{key}'", self.name())));
        }
        Ok(Arc::new(Device::new(self.name(), options, Arc::new(SyncBackend), Some(execution::execute))))
    }
}
