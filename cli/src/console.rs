//! Standard output and standard error.

use std::io::{self, BufWriter, ErrorKind, StdoutLock, Write};

use tracing_subscriber::filter::LevelFilter;

/// Buffered standard output. If its reader is gone (`incarnate dump model.vmfb | head`) the process exits quietly.
#[derive(Debug)]
pub(super) struct Console {
    writer: BufWriter<StdoutLock<'static>>,
}

impl Console {
    /// Locks standard output.
    pub(super) fn stdout() -> Console {
        Console { writer: BufWriter::with_capacity(1 << 16, io::stdout().lock()) }
    }
}

fn unless_broken<T>(result: io::Result<T>) -> io::Result<T> {
    if let Err(error) = &result
        && error.kind() == ErrorKind::BrokenPipe
    {
        // The status that a shell reports for a process that SIGPIPE ended.
        std::process::exit(141);
    }
    result
}

impl Write for Console {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        unless_broken(self.writer.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        unless_broken(self.writer.flush())
    }
}

/// Writes events of the runtime to standard error.
pub(super) fn log_to_stderr(level: LevelFilter) {
    tracing_subscriber::fmt().with_max_level(level).with_writer(io::stderr).with_ansi(false).init();
}
