//! Options of servers, which `incarnate serve` passes on to the program of the model.

use std::ffi::OsString;
use std::net::SocketAddr;

use clap::Args;

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
    /// The device, such as local-sync or local-task://?workers=4.
    #[arg(long, value_name = "URI", default_value = "local-task")]
    pub(crate) device: String,
}

impl ServeOptions {
    /// Returns the words of a command line that has these options.
    #[cfg_attr(not(feature = "cli"), allow(dead_code, reason = "for `incarnate serve`"))]
    pub(crate) fn words(&self) -> Vec<OsString> {
        let mut words = vec![
            format!("--listen={}", self.listen),
            format!("--queue={}", self.queue),
            format!("--device={}", self.device),
        ];
        words.extend(self.name.iter().map(|name| format!("--name={name}")));
        words.into_iter().map(OsString::from).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        options: ServeOptions,
    }

    #[test]
    fn options_are_passed_on_as_they_are() {
        for line in [&[][..], &["--listen=[::1]:0", "--name=a b", "--queue=0", "--device=local-sync"]] {
            let options = Line::try_parse_from(["serve"].iter().chain(line)).unwrap().options;
            let words = [OsString::from("serve")].into_iter().chain(options.words());
            assert_eq!(Line::try_parse_from(words).unwrap().options, options, "{line:?}");
        }
    }
}
