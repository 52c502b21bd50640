//! The arguments that the commands of language models have in common.

#[cfg(feature = "chat")]
use std::path::PathBuf;

use clap::Args;

/// The command line of a command of a program with a language model.
#[cfg(feature = "chat")]
#[derive(Debug, Args)]
pub(crate) struct OfModel<O: Args> {
    /// The file or the folder of the model, with weights and tokenizer; by default that in the program (`incarnate build --with-weights`).
    #[arg(value_name = "MODEL")]
    pub(crate) model: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) options: O,
}

/// The device of a language model.
#[derive(Clone, Debug, PartialEq, Args)]
pub(crate) struct DeviceOption {
    /// The device, such as local-sync or local-task://?workers=4.
    #[arg(long = "device", value_name = "URI", default_value = "local-task")]
    pub(crate) uri: String,
}

#[cfg(feature = "cli")]
impl DeviceOption {
    /// Returns the word of a command line that has this device.
    pub(crate) fn word(&self) -> String {
        format!("--device={}", self.uri)
    }
}
