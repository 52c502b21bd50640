//! `--list_drivers`, `--list_devices`, `--dump_devices`: the available devices.

use std::io::Write;

use incarnate_runtime::hal::{DeviceOptions, Driver, DriverRegistry};
use incarnate_runtime::{Result, ResultExt};

use super::Verdict;
use super::arguments::ProgramArguments;
use super::console::Console;

/// Returns true if the flags request a list.
pub(super) fn is_asked_for(arguments: &ProgramArguments) -> bool {
    arguments.list_drivers || arguments.list_devices.is_some() || arguments.dump_devices.is_some()
}

/// Prints the requested lists.
///
/// # Errors
/// NOT_FOUND if the driver does not exist.
pub(super) fn print(arguments: &ProgramArguments, out: &mut Console) -> Result<Verdict> {
    let registry = DriverRegistry::default();
    let mut text = String::new();
    if arguments.list_drivers {
        text.push_str("# --list_devices=DRIVER lists the devices of a driver.\n");
        registry
            .drivers()
            .for_each(|driver| text.push_str(&format!("{:>16}: {}\n", driver.name(), driver.description())));
    }
    if let Some(name) = &arguments.list_devices {
        for driver in chosen(&registry, name.as_deref())? {
            driver.devices().iter().for_each(|info| text.push_str(&format!("{}://{}\n", driver.name(), info.path)));
        }
    }
    if let Some(name) = &arguments.dump_devices {
        for driver in chosen(&registry, name.as_deref())? {
            for info in driver.devices() {
                let uri = format!("{}://{}", driver.name(), info.path);
                let device = registry.create_device(&uri, DeviceOptions::default())?;
                text.push_str(&format!(
                    "# --device={uri}\nname: {}\nidentifier: {}\nworkers: {}\n\n",
                    info.name,
                    device.id(),
                    device.concurrency()
                ));
            }
        }
    }
    out.write_all(text.as_bytes()).context(|| "writing to standard output")?;
    Ok(Verdict::Success)
}

fn chosen<'a>(registry: &'a DriverRegistry, name: Option<&str>) -> Result<Vec<&'a dyn Driver>> {
    match name {
        Some(name) => Ok(vec![registry.driver(name)?]),
        None => Ok(registry.drivers().collect()),
    }
}
