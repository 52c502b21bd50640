//! Options of servers, which `incarnate serve` passes on to the program of the model.

#[cfg(feature = "cli")]
use std::ffi::OsString;
use std::net::SocketAddr;

use clap::Args;

use crate::chat::DeviceOption;
#[cfg(feature = "cli")]
use crate::chat::program::ModelOptions;

/// How a model is served.
#[derive(Clone, Debug, PartialEq, Args)]
pub(crate) struct ServeOptions {
    /// The address and the port to listen on; port 0 is any free one.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    pub(crate) listen: SocketAddr,
    /// The name of the model for clients; by default the name of its file.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Requests that wait for a free conversation; more are refused.
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub(crate) queue: usize,
    #[command(flatten)]
    pub(crate) device: DeviceOption,
}

#[cfg(feature = "cli")]
impl ModelOptions for ServeOptions {
    const COMMAND: &'static str = "serve";
    /// For a few clients. A batch is computed for all slots, so that three conversations of eight slots would take as long as eight; and a slot
    /// that was used keeps its keys and values, up to 1 GiB for a model of 8 billion parameters (32 layers, 8 heads of keys, 4096 positions).
    const SLOTS: u64 = 4;
    const EMBEDDINGS: bool = true;

    fn words(&self) -> Vec<OsString> {
        let mut words =
            vec![format!("--listen={}", self.listen), format!("--queue={}", self.queue), self.device.word()];
        words.extend(self.name.iter().map(|name| format!("--name={name}")));
        words.into_iter().map(OsString::from).collect()
    }
}

#[cfg(all(test, feature = "cli"))]
mod tests {
    use super::*;
    use crate::chat::program::tests::check_passed_on;

    #[test]
    fn options_are_passed_on_as_they_are() {
        for line in [&[][..], &["--listen=[::1]:0", "--name=a b", "--queue=0", "--device=local-sync"]] {
            check_passed_on::<ServeOptions>(line);
        }
    }
}
