//! The progress of tests on a terminal.

use std::io::{IsTerminal, stderr};

use indicatif::{ProgressBar, ProgressStyle};

/// A status line on standard error, if that is a terminal and there are several programs.
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

    /// Clears the line while other output is printed.
    pub(super) fn suspended<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.0 {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    /// Counts one more tested program.
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
