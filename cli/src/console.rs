//! Standard output and standard error.

use std::io::{self, BufWriter, ErrorKind, StdoutLock, Write};

use incarnate_runtime::bytecode::EscapedLines;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::layer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

#[cfg(feature = "cli")]
use super::copies::{self, Copies};

/// Buffered standard output, which is text. If its reader is gone (`incarnate dump model.vmfb | head`) the process exits
/// quietly.
#[derive(Debug)]
pub(super) struct Console {
    writer: EscapingWriter<BufWriter<StdoutLock<'static>>>,
}

impl Console {
    /// Locks standard output.
    pub(super) fn stdout() -> Console {
        Console { writer: EscapingWriter::new(BufWriter::with_capacity(1 << 16, io::stdout().lock())) }
    }
}

/// Ends the process if the reader of standard output is gone.
pub(super) fn unless_broken<T>(result: io::Result<T>) -> io::Result<T> {
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

/// A writer of text for a terminal. Whatever is written, no character acts on the terminal but line feeds and tabs. Commands
/// escape the names and messages of modules themselves, because a line feed in one of them would begin a line.
#[derive(Debug)]
pub(super) struct EscapingWriter<W: Write> {
    out: W,
    /// The beginning of a character whose other bytes are not written yet.
    partial: Vec<u8>,
}

impl<W: Write> EscapingWriter<W> {
    pub(super) fn new(out: W) -> EscapingWriter<W> {
        EscapingWriter { out, partial: Vec::new() }
    }

    fn write_text(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        loop {
            let (valid, behind, invalid) = match core::str::from_utf8(rest) {
                Ok(text) => (text, &rest[rest.len()..], None),
                Err(error) => {
                    let (valid, behind) = rest.split_at(error.valid_up_to());
                    (core::str::from_utf8(valid).unwrap_or_default(), behind, error.error_len())
                }
            };
            write!(self.out, "{}", EscapedLines(valid))?;
            match invalid {
                Some(length) => {
                    self.out.write_all("\u{FFFD}".as_bytes())?;
                    rest = behind.get(length..).unwrap_or_default();
                }
                None => {
                    self.partial.extend_from_slice(behind);
                    return Ok(());
                }
            }
        }
    }
}

impl<W: Write> Write for EscapingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let is_plain = |byte: &u8| matches!(byte, b'\n' | b'\t' | b' '..=b'~');
        if self.partial.is_empty() && bytes.iter().all(is_plain) {
            self.out.write_all(bytes)?;
        } else if self.partial.is_empty() {
            self.write_text(bytes)?;
        } else {
            let mut text = core::mem::take(&mut self.partial);
            text.extend_from_slice(bytes);
            self.write_text(&text)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Standard error for text.
pub(super) fn stderr() -> EscapingWriter<io::Stderr> {
    EscapingWriter::new(io::stderr())
}

/// The events of a command.
pub(super) struct Events {
    #[cfg(feature = "cli")]
    copies: Copies,
}

impl Events {
    /// Removes what standard error shows of a copy that did not end.
    pub(super) fn end(self) {
        #[cfg(feature = "cli")]
        self.copies.clear();
    }
}

/// Writes events of the runtime to standard error. The whole command line also shows the progress of long copies if that is a
/// terminal.
pub(super) fn subscribe(level: Option<LevelFilter>) -> Events {
    let log = level.map(|level| layer().with_writer(|| EventWriter).with_ansi(false).with_filter(level));
    #[cfg(feature = "cli")]
    let events = Events { copies: Copies::default() };
    #[cfg(feature = "cli")]
    let copies =
        io::IsTerminal::is_terminal(&io::stderr()).then(|| events.copies.clone().with_filter(copies::targets()));
    #[cfg(not(feature = "cli"))]
    let (events, copies): (Events, Option<LevelFilter>) = (Events {}, None);
    if log.is_some() || copies.is_some() {
        // A program that has a subscriber of its own keeps it.
        let _ = tracing_subscriber::registry().with(log).with(copies).try_init();
    }
    events
}

/// A writer of events, one line each: a line feed in a name or a value does not begin a line.
struct EventWriter;

impl Write for EventWriter {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let line = text.strip_suffix('\n').unwrap_or(&text);
        writeln!(io::stderr(), "{}", incarnate_runtime::bytecode::Escaped(line))?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn characters_that_act_are_escaped_in_pieces_of_any_length() {
        let text = "a\u{1b}[2Jé\r\n\tb\u{9b}\u{202e}漢\u{e0041}";
        let expected = "a\\u{1b}[2Jé\\r\n\tb\\u{9b}\\u{202e}漢\\u{e0041}";
        for length in 1..=text.len() {
            let mut writer = EscapingWriter::new(Vec::new());
            text.as_bytes().chunks(length).for_each(|chunk| writer.write_all(chunk).unwrap());
            assert_eq!(String::from_utf8(writer.out).unwrap(), expected, "{length}");
        }
        let mut writer = EscapingWriter::new(Vec::new());
        writer.write_all(b"a\xFF\x9Bb\xE2\x80\n").unwrap();
        assert_eq!(String::from_utf8(writer.out).unwrap(), "a\u{FFFD}\u{FFFD}b\u{FFFD}\n");
    }
}
