//! Why the compiler or the importer failed, by what it wrote.
//!
//! The compiler writes `FILE:LINE:COLUMN: error: TEXT` about a model. `FILE` is the model, or what the model says that an operation
//! comes from, such as a Python program. Anything else is about the compiler, its files or its flags.

use std::fs;
use std::path::Path;
use std::process::{ExitStatus, Output};

use incarnate_bytecode::{Error, StatusCode};

use super::{IMPORTER, INSTALL, ModelFormat, PROGRAM, onnx};

/// The most letters of a model's line that an error shows.
const SHOWN_OF_LINE: usize = 120;
/// The most letters of a program's message that an error shows.
const SHOWN_OF_MESSAGE: usize = 500;

/// What operating systems say of files, and what that is. LLVM writes the same words.
const FILE_ERRORS: [(&str, StatusCode); 11] = [
    ("No space left on device", StatusCode::ResourceExhausted),
    ("not enough space on the disk", StatusCode::ResourceExhausted),
    ("Disk quota exceeded", StatusCode::ResourceExhausted),
    ("File too large", StatusCode::ResourceExhausted),
    ("Too many open files", StatusCode::ResourceExhausted),
    ("Cannot allocate memory", StatusCode::ResourceExhausted),
    ("Permission denied", StatusCode::PermissionDenied),
    ("Read-only file system", StatusCode::PermissionDenied),
    ("No such file or directory", StatusCode::NotFound),
    ("Input/output error", StatusCode::Unavailable),
    ("Bad file descriptor", StatusCode::Unavailable),
];

/// What the compiler says in each of its crashes. It is no reason.
const BOILERPLATE: [&str; 3] = ["Please report issues", "PLEASE submit a bug report", "Stack dump:"];

/// A model as the compiler read it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject<'a> {
    /// The file that the compiler read: the model, or what the importer made of it.
    pub(super) source: &'a Path,
    /// The path of this file in the compiler's arguments.
    pub(super) named: &'a Path,
    /// The format of the model.
    pub(super) format: ModelFormat,
    /// The nodes of a model of ONNX.
    pub(super) nodes: &'a [onnx::Node],
}

/// Returns the error of a compiler that failed.
pub(super) fn of_compiler(done: &Output, subject: &Subject<'_>) -> Error {
    let text = String::from_utf8_lossy(&done.stderr);
    if let Some((line, code)) = file_error(&text) {
        return Error::new(code, format!("{PROGRAM}: {}{}", shortened(reason_in(line), SHOWN_OF_MESSAGE), temporary()));
    }
    let signal = signal(done.status);
    let first = text.lines().find(|line| line.contains("error: ") && !is_remark(line));
    match (first, signal) {
        (Some(line), None) if !text.contains("Stack dump:") => of_line(line, subject),
        _ if signal.is_some() || text.contains("Stack dump:") => ended(&text, signal),
        _ => {
            let status = || format!("ended with {} and without a message", done.status);
            let line = text.lines().map(reason_in).find(|line| !line.is_empty() && !is_remark(line));
            let why = line.map_or_else(status, |line| shortened(line, SHOWN_OF_MESSAGE));
            // The program's name is often the first word.
            let why = why.strip_prefix(&format!("{PROGRAM}: ")).unwrap_or(&why);
            let new = if line.is_some() { Error::invalid_argument } else { Error::internal };
            new(format!("{PROGRAM}: {why}"))
        }
    }
}

/// Returns the error of an importer that failed: the exception of a Python traceback, which has several lines where it shows a
/// part of the model.
pub(super) fn of_importer(done: &Output) -> Error {
    let text = String::from_utf8_lossy(&done.stderr);
    if text.contains("No module named 'onnx'") {
        return Error::failed_precondition(format!("{IMPORTER} needs the Python package onnx: {INSTALL}"));
    }
    let mut tracebacks = text.split("Traceback (most recent call last):");
    let before = tracebacks.next().unwrap_or_default();
    let exceptions: Vec<String> = tracebacks.map(exception).filter(|found| !found.is_empty()).collect();
    let raised = match exceptions.as_slice() {
        // Without a traceback, the first line that says so, or the first one.
        [] => {
            let mut lines = before.lines().map(str::trim).filter(|line| !line.is_empty());
            let first = lines.clone().next();
            lines.find(|line| line.to_ascii_lowercase().contains("error")).or(first).unwrap_or("no message").to_owned()
        }
        [only] => only.clone(),
        // The exception that the importer raised, and the one that it raised it for.
        [first, .., last] => format!("{last} (because of {})", shortened(first, SHOWN_OF_LINE)),
    };
    let text = format!("{IMPORTER}: {}", shortened(&raised, SHOWN_OF_MESSAGE));
    match (file_error(&raised), signal(done.status)) {
        (Some((_, code)), _) => Error::new(code, text),
        (None, Some(signal)) if exceptions.is_empty() => Error::internal(format!("{IMPORTER} was ended by {signal}")),
        _ => Error::invalid_argument(text),
    }
}

/// Returns the exception that a traceback ends with, on one line: what is not indented, until the next traceback's introduction.
fn exception(traceback: &str) -> String {
    let frames = |line: &&str| line.is_empty() || line.starts_with(char::is_whitespace);
    let lines = traceback.lines().skip_while(frames);
    let lines = lines
        .take_while(|line| !line.contains("exception was the direct cause") && !line.starts_with("During handling"));
    lines.map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Returns the error of a line `LOCATION: error: TEXT`. A location in the model becomes the line of the model there.
fn of_line(line: &str, subject: &Subject<'_>) -> Error {
    let verbatim = || Error::invalid_argument(format!("{PROGRAM}: {}", shortened(line, SHOWN_OF_MESSAGE)));
    let Some((location, message)) = line.split_once(": error: ") else { return verbatim() };
    let mut parts = location.rsplitn(3, ':');
    let (column, number, file) = (parts.next(), parts.next(), parts.next());
    let number = column.and_then(|column| column.parse::<usize>().ok()).and(number).and_then(|line| line.parse().ok());
    let number: usize = match number {
        Some(number) if number > 0 && file.is_some_and(|file| Path::new(file) == subject.named) => number,
        _ => return verbatim(),
    };
    let message = shortened(message, SHOWN_OF_MESSAGE);
    let all = fs::read_to_string(subject.source).unwrap_or_default();
    let of_source = all.lines().nth(number - 1).map(str::trim);
    let operator = of_source.and_then(onnx::operator);
    Error::invalid_argument(match (subject.format, operator, of_source) {
        (ModelFormat::Onnx, Some(operator), _) => match onnx::node_at(&all, number, subject.nodes) {
            Some(name) => format!("the node `{name}` (ONNX operator {operator}): {message}"),
            None => format!("the ONNX operator {operator}: {message}"),
        },
        (ModelFormat::Mlir, _, Some(text)) => {
            format!("line {number} (`{}`): {message}", shortened(text, SHOWN_OF_LINE))
        }
        _ => format!("line {number}: {message}"),
    })
}

/// Returns the error of a compiler that a signal ended.
fn ended(text: &str, signal: Option<Signal>) -> Error {
    let first = text.lines().map(reason_in).find(|line| !line.is_empty() && !is_remark(line) && !line.starts_with('#'));
    let first = first.map(|line| format!(": {}", shortened(line, SHOWN_OF_MESSAGE))).unwrap_or_default();
    let signal = signal.map_or_else(|| "a signal".to_owned(), |signal| signal.to_string());
    if signal == Signal(KILLED).to_string() {
        let why = "the system kills programs where memory is short";
        return Error::aborted(format!("{PROGRAM} was ended by {signal}; {why}{first}"));
    }
    let is_crash = text.contains("Stack dump:") || CRASHES.iter().any(|number| Signal(*number).to_string() == signal);
    let why = if is_crash { ", a bug of the compiler that this model provokes" } else { "" };
    Error::internal(format!("{PROGRAM} was ended by {signal}{why}{first}"))
}

/// Returns the first line about a file of the compiler itself, and what it says. Lines with a location show parts of the model.
fn file_error(text: &str) -> Option<(&str, StatusCode)> {
    text.lines().filter(|line| !is_located(line)).find_map(|line| {
        let row = FILE_ERRORS.iter().find(|row| line.contains(row.0))?;
        Some((line, row.1))
    })
}

/// Returns true for `FILE:LINE:COLUMN: KIND: TEXT`.
fn is_located(line: &str) -> bool {
    ["error", "warning", "remark", "note"].iter().any(|kind| {
        let before = line.split_once(&format!(": {kind}: ")).map(|row| row.0);
        before.and_then(|before| before.rsplit(':').next()).is_some_and(|column| column.parse::<u32>().is_ok())
    })
}

/// Returns true for lines that are no errors.
fn is_remark(line: &str) -> bool {
    ["warning: ", "remark: ", "note: "].iter().any(|kind| line.contains(kind))
}

/// Returns the part of a line before what every crash says, which LLVM writes without a line feed.
fn reason_in(line: &str) -> &str {
    let ends = BOILERPLATE.iter().filter_map(|text| line.find(text));
    line.get(..ends.min().unwrap_or(line.len())).unwrap_or_default().trim()
}

/// Returns what is wrong with the folder of temporary files, if it is.
fn temporary() -> String {
    let folder = std::env::temp_dir();
    match tempfile::tempfile_in(&folder) {
        Ok(_) => String::new(),
        Err(error) => {
            let set = "set TMPDIR to one that can be written";
            format!(" (the folder of temporary files, '{}', cannot be used: {error}; {set})", folder.display())
        }
    }
}

/// The number of a signal of Unix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Signal(i32);

/// SIGKILL.
const KILLED: i32 = 9;
/// SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV.
const CRASHES: [i32; 6] = [4, 5, 6, 7, 8, 11];

impl std::fmt::Display for Signal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const NAMES: [(i32, &str); 12] = [
            (1, "SIGHUP"),
            (2, "SIGINT"),
            (4, "SIGILL"),
            (5, "SIGTRAP"),
            (6, "SIGABRT"),
            (7, "SIGBUS"),
            (8, "SIGFPE"),
            (KILLED, "SIGKILL"),
            (11, "SIGSEGV"),
            (15, "SIGTERM"),
            (24, "SIGXCPU"),
            (25, "SIGXFSZ"),
        ];
        match NAMES.iter().find(|row| row.0 == self.0) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "signal {}", self.0),
        }
    }
}

/// Returns the signal that ended a program, or that its status is made of: `iree-compile` is a Python script, whose status is the
/// negative number of the signal that ended the compiler, as 8 bits; a shell adds 128.
fn signal(status: ExitStatus) -> Option<Signal> {
    #[cfg(unix)]
    let own = std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    let own = None;
    let of_code = |code: i32| match code {
        192..=255 => Some(256 - code),
        129..=191 => Some(code - 128),
        _ => None,
    };
    own.or_else(|| status.code().filter(|_| cfg!(unix)).and_then(of_code)).map(Signal)
}

/// The start of a text that may hold megabytes of weights.
fn shortened(text: &str, shown: usize) -> String {
    match text.char_indices().nth(shown) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// The status of a program that exits with a code.
    fn done(code: i32, text: &str) -> Output {
        let status = std::os::unix::process::ExitStatusExt::from_raw(code << 8);
        Output { status, stdout: Vec::new(), stderr: text.as_bytes().to_vec() }
    }

    fn compiler(code: i32, text: &str) -> (StatusCode, String) {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("net.mlir");
        fs::write(&source, "module {\n  first.op\n  second.op\n}\n").unwrap();
        let subject = Subject { source: &source, named: Path::new("net.mlir"), format: ModelFormat::Mlir, nodes: &[] };
        let error = of_compiler(&done(code, text), &subject);
        (error.code(), error.to_string())
    }

    fn assert_error(found: (StatusCode, String), code: StatusCode, text: &str) {
        assert!(found.0 == code && found.1.contains(text), "{found:?}: {text}");
    }

    #[test]
    fn messages_with_weights_are_shortened() {
        let weights = "0.5, ".repeat(100_000);
        for text in [format!("net.mlir:3:1: error: failed [{weights}]"), format!("fatal [{weights}]")] {
            let (_, error) = compiler(1, &text);
            assert!(error.contains("[0.5, ") && error.ends_with("...") && error.len() < 1000, "{error}");
        }
    }

    #[test]
    fn only_locations_in_the_model_quote_it() {
        let invalid = StatusCode::InvalidArgument;
        assert_error(compiler(1, "net.mlir:2:3: error: no such op\n"), invalid, "line 2 (`first.op`): no such op");
        for line in [
            "train.py:3:1: error: failed to legalize operation 'x.y'",
            "/other/net.mlir:2:3: error: no",
            "loc(\"features\"): error: no",
            "<unknown>:0: error: no",
            "iree-lld: error: undefined symbol: foo",
        ] {
            let (code, error) =
                compiler(1, &format!("net.mlir:2:3: warning: error: none\n{line}\nnet.mlir:2:3: note: x\n"));
            assert!(code == invalid && error.ends_with(line) && !error.contains("op`"), "{error}");
        }
    }

    #[test]
    fn files_are_not_the_models_fault() {
        let glued = "failed to generate temporary file: No such file or directoryPlease report issues to https://x and include \
                     the crash backtrace.\nStack dump:\n0.\tProgram arguments: iree-compile\n";
        let found = compiler(245, glued);
        assert_error(
            found.clone(),
            StatusCode::NotFound,
            "failed to generate temporary file: No such file or directory",
        );
        assert!(!found.1.contains("bug") && !found.1.contains("Please"), "{found:?}");
        let full = "iree-lld: error: net.o: section header table goes past the end of the file\n\
                    net.mlir:2:8: error: failed to link executable\nLLVM ERROR: IO failure on output stream: No space left on device\n";
        assert_error(compiler(1, full), StatusCode::ResourceExhausted, "IO failure on output stream: No space left");
        // A model may say the same.
        let quoted = "net.mlir:3:1: error: no `No space left on device`";
        assert_error(compiler(1, quoted), StatusCode::InvalidArgument, "line 3 (`second.op`): no `No space");
    }

    #[test]
    fn crashes_are_told_from_other_ends() {
        let crash = "net.mlir:2:3: error: odd\nStack dump:\n #0 0x00 x\n";
        for code in [245, 139] {
            assert_error(compiler(code, crash), StatusCode::Internal, "SIGSEGV, a bug of the compiler that this model");
        }
        assert_error(compiler(134, "\nLLVM ERROR: odd\n"), StatusCode::Internal, "provokes: LLVM ERROR: odd");
        assert_error(compiler(247, ""), StatusCode::Aborted, "was ended by SIGKILL; the system kills");
        let (code, error) = compiler(241, "");
        assert!(code == StatusCode::Internal && error.ends_with("was ended by SIGTERM"), "{error}");
        assert_error(compiler(1, ""), StatusCode::Internal, "without a message");
        let flag = "iree-compile: Unknown command line argument '--x'.  Try: 'iree-compile --help'\n";
        assert_error(
            compiler(1, flag),
            StatusCode::InvalidArgument,
            "iree-compile: Unknown command line argument '--x'",
        );
    }

    #[test]
    fn exceptions_of_the_importer_are_whole() {
        let error = |text: &str| of_importer(&done(1, text)).to_string();
        let traceback = "UserWarning: x\nTraceback (most recent call last):\n  File \"a.py\", line 8, in <module>\n    main()\n    ^^^^^^\n\
                         ValidationError: Field 'shape' is required\n\n==> Context: initializer\nname: \"w\"\n";
        assert!(
            error(traceback)
                .ends_with("ValidationError: Field 'shape' is required ==> Context: initializer name: \"w\"")
        );
        let cause = "\nThe above exception was the direct cause of the following exception:\n\n";
        let chained =
            "Traceback (most recent call last):\n  File \"a.py\", line 1\nOnnxImportError: Unsupported tensor type\n";
        let chained = error(&format!("{traceback}{cause}{chained}"));
        assert!(
            chained.contains("OnnxImportError: Unsupported tensor type (because of ValidationError: Field")
                && !chained.contains("direct"),
            "{chained}"
        );
        assert!(error("ValueError: a broken model\n").ends_with(": ValueError: a broken model"));
        assert!(error("usage: x\nx: error: no file\n").ends_with("x: error: no file"));
        assert!(error("").ends_with("no message"));
        let full = of_importer(&done(
            1,
            "Traceback (most recent call last):\n  File\nOSError: [Errno 28] No space left on device\n",
        ));
        assert_eq!(full.code(), StatusCode::ResourceExhausted);
    }
}
