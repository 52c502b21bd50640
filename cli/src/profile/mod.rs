//! `--profile`: the time of each part of a call, as a table or as a trace for Perfetto.

mod summary;
mod table;
mod trace;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use incarnate_runtime::profile::{self, Recording};
use incarnate_runtime::{Result, ResultExt};

use crate::tooling::atomic_file::AtomicFile;
#[cfg(feature = "cli")]
pub(super) use summary::{Row, rows};
#[cfg(feature = "cli")]
pub(super) use trace::read_trace;

/// Runs `body` and reports its profile: as a trace to a file, or as a table to `out`. Without `destination` nothing is
/// recorded. `threads` is the number of threads of the devices; `first_call` is the time of a call before this one, which the table
/// names.
pub(super) fn profiled<T>(
    destination: Option<&Option<PathBuf>>,
    threads: usize,
    first_call: Option<Duration>,
    out: &mut dyn Write,
    body: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let Some(destination) = destination else { return body() };
    profile::start();
    let result = body();
    let recording = profile::stop();
    let value = result?;
    match destination {
        None => {
            let table = table::table(&recording, threads, first_call);
            out.write_all(table.as_bytes()).context(|| "writing the profile")?;
        }
        Some(path) => write(path, &recording)?,
    }
    Ok(value)
}

fn write(path: &Path, recording: &Recording) -> Result<()> {
    let mut file = AtomicFile::create(path, false)?;
    file.write_all(trace::trace(recording)?.as_bytes()).context(|| format!("writing '{}'", path.display()))?;
    file.commit()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use incarnate_runtime::profile::{Event, EventKind, Recording, Track, Work};

    /// Two threads: a kernel in two ranges at the same time, then a wait of the first.
    pub(super) fn recording() -> Recording {
        let event = |kind, name: &str, start, duration, workgroups, first| Event {
            kind,
            name: Arc::from(name),
            start: Duration::from_micros(start),
            duration: Duration::from_micros(duration),
            workgroups,
            bytes: workgroups * 1000,
            first,
            work: Work::default(),
        };
        let track = |thread: &str, events| Track { thread: thread.to_owned(), events };
        Recording {
            tracks: vec![
                track(
                    "main",
                    vec![
                        event(EventKind::Dispatch, "matmul<\"a\">", 0, 100, 6, true),
                        event(EventKind::Wait, "wait for a fence", 110, 20, 0, true),
                        event(EventKind::Host, "@main", 0, 140, 0, true),
                    ],
                ),
                track("task-worker-0", vec![event(EventKind::Dispatch, "matmul<\"a\">", 0, 50, 2, false)]),
            ],
            duration: Duration::from_micros(150),
            dropped: 0,
        }
    }
}
