//! How far the tests are, on a terminal.

use std::io::{IsTerminal, stderr};

use indicatif::{ProgressBar, ProgressStyle};

/// A line at the end of standard error, where that is a terminal and there is more than one program.
#[derive(Debug)]
pub(super) struct Progress(Option<ProgressBar>);

impl Progress {
    pub(super) fn new(programs: usize) -> Progress {
        if programs < 2 || !stderr().is_terminal() {
            return Progress(None);
        }
        let bar = ProgressBar::new(programs as u64);
        if let Ok(style) = ProgressStyle::with_template("[{bar:40}] {pos}/{len} files, {msg} failed, {elapsed}") {
            bar.set_style(style);
        }
        bar.set_message("0");
        Progress(Some(bar))
    }

    /// Takes the line away while something is printed.
    pub(super) fn suspended<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.0 {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    /// One more program has been tested.
    pub(super) fn advance(&self, failed: usize) {
        if let Some(bar) = &self.0 {
            bar.set_message(failed.to_string());
            bar.inc(1);
        }
    }

    pub(super) fn finish(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
