//! Why the compiler or the importer failed, by what it wrote.
//!
//! The compiler writes `FILE:LINE:COLUMN: error: TEXT` about a model. `FILE` is the model, or what the model says that an operation
//! comes from, such as a Python program. Below it may stand the line of the file, or operations of the model. Anything else is about
//! the compiler, its files or its flags.

use std::fs;
use std::path::Path;
use std::process::{ExitStatus, Output};

use incarnate_bytecode::{Error, StatusCode};

use super::cache::probe;
use super::{ModelFormat, PROGRAM, import};

/// The most letters of a model's line that an error shows.
const SHOWN_OF_LINE: usize = 120;
/// The most letters of a program's message that an error shows.
const SHOWN_OF_MESSAGE: usize = 500;

/// What operating systems say of a file system without space. LLVM writes the same words.
const FULL_DISK: [&str; 4] =
    ["No space left on device", "not enough space on the disk", "Disk quota exceeded", "File too large"];
/// What operating systems say of files and memory, and what that is.
const FILE_ERRORS: [(&str, StatusCode); 7] = [
    ("Too many open files", StatusCode::ResourceExhausted),
    ("Cannot allocate memory", StatusCode::ResourceExhausted),
    ("Permission denied", StatusCode::PermissionDenied),
    ("Read-only file system", StatusCode::PermissionDenied),
    ("No such file or directory", StatusCode::NotFound),
    ("Input/output error", StatusCode::Unavailable),
    ("Bad file descriptor", StatusCode::Unavailable),
];

/// What the compiler says before the frames of a crash.
const STACK_DUMP: &str = "Stack dump:";
/// What the compiler says in each of its crashes. It is no reason.
const BOILERPLATE: [&str; 3] = ["Please report issues", "PLEASE submit a bug report", STACK_DUMP];

/// A model as the compiler read it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject<'a> {
    /// The file that the compiler read: the model, or the MLIR that it was imported as.
    pub(super) source: &'a Path,
    /// The path of this file in the compiler's arguments.
    pub(super) named: &'a Path,
    /// The format of the model.
    pub(super) format: ModelFormat,
    /// The names of extents that are known when the model runs.
    pub(super) dynamic: &'a [String],
}

/// A line of a program's standard error.
#[derive(Clone, Copy, Debug)]
struct Message<'t> {
    text: &'t str,
    kind: Kind,
    /// It begins with a location in the model, or in what the model comes from.
    is_located: bool,
}

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It says that it is an error.
    Error,
    /// A warning, a remark or a note.
    Remark,
    /// It does not say.
    Unknown,
}

/// Returns the messages of a program, without the lines of files and the operations below those with a location.
fn messages(text: &str) -> Vec<Message<'_>> {
    let mut is_below_location = false;
    let lines = text.lines().filter_map(|line| {
        let (kind, is_located) = kind(line);
        let is_excerpt = is_below_location && !is_located && !is_of_program(line);
        is_below_location = is_located || is_excerpt;
        (!is_excerpt).then_some(Message { text: line, kind, is_located })
    });
    lines.collect()
}

/// Returns the kind of a line `KIND: TEXT`, `PROGRAM: KIND: TEXT` or `LOCATION: KIND: TEXT`, and whether it begins with a location. What
/// follows the first kind is text.
fn kind(line: &str) -> (Kind, bool) {
    let mut kinds = line.match_indices(": ").filter_map(|(end, _)| {
        let before = line.get(..end)?;
        let (location, word) = before.rsplit_once(": ").unwrap_or(("", before));
        let kind = match word {
            "warning" | "remark" | "note" => Kind::Remark,
            "error" | "fatal error" => Kind::Error,
            // A class of Python.
            word if word.ends_with("Warning") => Kind::Remark,
            word if word.ends_with("Error") || word.ends_with("ERROR") => Kind::Error,
            _ => return None,
        };
        // The name in a location may have colons.
        let is_within_location = location.starts_with("loc(") && !location.ends_with(')');
        (!is_within_location).then(|| (kind, is_location(location)))
    });
    kinds.next().unwrap_or((Kind::Unknown, false))
}

/// Returns true for `FILE:LINE:COLUMN`, `FILE:LINE` and `loc(...)`.
fn is_location(text: &str) -> bool {
    let number = text.rsplit_once(':').map(|(_, number)| number);
    text.starts_with("loc(") || number.is_some_and(|number| number.parse::<u32>().is_ok())
}

/// Returns true for `PROGRAM: TEXT`, which is no line of a model: that has punctuation, or spaces in front.
fn is_of_program(line: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '.' | '_' | '-' | '+' | '/' | '\\' | ':');
    let program = line.split_once(": ").map_or("", |row| row.0);
    !program.is_empty() && !program.starts_with(' ') && !program.starts_with("//") && program.chars().all(is_plain)
}

/// Returns true if a compiler refused the text that it was given: it did not crash, and had the files and the memory that it needs.
pub(super) fn is_refusal(done: &Output) -> bool {
    let text = String::from_utf8_lossy(&done.stderr);
    let is_crash = signal(done.status).is_some() || text.contains(STACK_DUMP);
    !done.status.success() && !is_crash && file_error(&messages(&text)).is_none()
}

/// Returns true for the error of a file system without space.
pub(super) fn is_full_disk(error: &Error) -> bool {
    let text = error.to_string();
    error.code() == StatusCode::ResourceExhausted && FULL_DISK.iter().any(|words| text.contains(words))
}

/// Returns the error of a compiler that failed.
pub(super) fn of_compiler(done: &Output, subject: &Subject<'_>) -> Error {
    let text = String::from_utf8_lossy(&done.stderr);
    let messages = messages(&text);
    if let Some((line, code)) = file_error(&messages) {
        return Error::new(code, format!("{PROGRAM}: {}{}", shortened(reason_in(line), SHOWN_OF_MESSAGE), temporary()));
    }
    let signal = signal(done.status);
    if signal.is_some() || text.contains(STACK_DUMP) {
        return ended(&messages, text.contains(STACK_DUMP), signal);
    }
    if let Some(first) = messages.iter().find(|message| message.kind == Kind::Error) {
        return of_line(first.text, subject);
    }
    match reasons(&messages).next() {
        Some(line) => {
            // The program's name is often the first word.
            let line = line.strip_prefix(&format!("{PROGRAM}: ")).unwrap_or(line);
            Error::invalid_argument(format!("{PROGRAM}: {}", shortened(line, SHOWN_OF_MESSAGE)))
        }
        None => Error::internal(format!("{PROGRAM}: ended with {} and without a message", done.status)),
    }
}

/// Returns the messages that are no remarks, without what every crash says.
fn reasons<'t>(messages: &[Message<'t>]) -> impl Iterator<Item = &'t str> {
    let reasons = messages.iter().filter(|message| message.kind != Kind::Remark);
    reasons.map(|message| reason_in(message.text)).filter(|line| !line.is_empty())
}

/// Returns the error of a line `LOCATION: error: TEXT`. A location in the model becomes the line of the model there.
fn of_line(line: &str, subject: &Subject<'_>) -> Error {
    let verbatim = || Error::invalid_argument(format!("{PROGRAM}: {}", shortened(line, SHOWN_OF_MESSAGE)));
    let Some((location, message)) = line.split_once(": error: ") else { return verbatim() };
    if let Some(node) = import::node_of(location).filter(|_| subject.format.is_imported()) {
        let message = shortened(message, SHOWN_OF_MESSAGE);
        return Error::invalid_argument(format!("the node `{node}`: {PROGRAM}: {message}{}", fixing(subject.dynamic)));
    }
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
    Error::invalid_argument(match (subject.format, of_source) {
        (ModelFormat::Mlir, Some(text)) => format!("line {number} (`{}`): {message}", shortened(text, SHOWN_OF_LINE)),
        _ => format!("line {number}: {message}"),
    })
}

/// Returns what may help where a model has extents that are known when it runs: the compiler lacks some dynamic forms.
fn fixing(dynamic: &[String]) -> String {
    match dynamic.first() {
        None => String::new(),
        Some(first) => {
            format!("; with fixed extents it may compile: --dim={first}=N (the extents are {})", dynamic.join(", "))
        }
    }
}

/// Returns the error of a compiler that a signal ended, or that wrote the frames of a crash.
fn ended(messages: &[Message<'_>], is_dumped: bool, signal: Option<Signal>) -> Error {
    let first = reasons(messages).find(|line| !line.starts_with('#'));
    let first = first.map(|line| format!(": {}", shortened(line, SHOWN_OF_MESSAGE))).unwrap_or_default();
    if signal == Some(KILLED) {
        let why = "the system kills programs where memory is short";
        return Error::aborted(format!("{PROGRAM} was ended by {KILLED}; {why}{first}"));
    }
    let is_crash = is_dumped || signal.is_some_and(|signal| CRASHES.contains(&signal));
    let signal = signal.map_or_else(|| "a signal".to_owned(), |signal| signal.to_string());
    let why = if is_crash { ", a bug of the compiler that this model provokes" } else { "" };
    Error::internal(format!("{PROGRAM} was ended by {signal}{why}{first}"))
}

/// Returns the first line about a file of the compiler itself, and what it says.
fn file_error<'t>(messages: &[Message<'t>]) -> Option<(&'t str, StatusCode)> {
    let mut own = messages.iter().filter(|message| !message.is_located && message.kind != Kind::Remark);
    own.find_map(|message| Some((message.text, file_code(message.text)?)))
}

/// Returns what a text says of a file.
fn file_code(text: &str) -> Option<StatusCode> {
    if FULL_DISK.iter().any(|words| text.contains(words)) {
        return Some(StatusCode::ResourceExhausted);
    }
    FILE_ERRORS.iter().find(|row| text.contains(row.0)).map(|row| row.1)
}

/// Returns the part of a line before what every crash says, which LLVM writes without a line feed.
fn reason_in(line: &str) -> &str {
    let ends = BOILERPLATE.iter().filter_map(|text| line.find(text));
    line.get(..ends.min().unwrap_or(line.len())).unwrap_or_default().trim()
}

/// Returns what is wrong with the folder of temporary files, if it is.
fn temporary() -> String {
    let folder = std::env::temp_dir();
    match probe(&folder) {
        Ok(()) => String::new(),
        Err(error) => {
            let set = "set TMPDIR to one that can be written";
            format!(" (the folder of temporary files, '{}', cannot be used: {error}; {set})", folder.display())
        }
    }
}

/// The number of a signal of Unix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Signal(i32);

const KILLED: Signal = Signal(9);
/// SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV.
const CRASHES: [Signal; 6] = [Signal(4), Signal(5), Signal(6), Signal(7), Signal(8), Signal(11)];

impl Signal {
    /// The signals that end programs, with their names.
    const NAMES: [(Signal, &str); 15] = [
        (Signal(1), "SIGHUP"),
        (Signal(2), "SIGINT"),
        (Signal(3), "SIGQUIT"),
        (Signal(4), "SIGILL"),
        (Signal(5), "SIGTRAP"),
        (Signal(6), "SIGABRT"),
        (Signal(7), "SIGBUS"),
        (Signal(8), "SIGFPE"),
        (KILLED, "SIGKILL"),
        (Signal(11), "SIGSEGV"),
        (Signal(13), "SIGPIPE"),
        (Signal(15), "SIGTERM"),
        (Signal(24), "SIGXCPU"),
        (Signal(25), "SIGXFSZ"),
        (Signal(31), "SIGSYS"),
    ];

    fn name(self) -> Option<&'static str> {
        Signal::NAMES.iter().find(|row| row.0 == self).map(|row| row.1)
    }
}

impl std::fmt::Display for Signal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "signal {}", self.0),
        }
    }
}

/// Returns the signal that ended a program, or that its status is made of: `iree-compile` is a Python script, whose status is the
/// negative number of the signal that ended the compiler, as 8 bits; a shell adds 128. The status 255 is what programs return for any
/// error.
fn signal(status: ExitStatus) -> Option<Signal> {
    #[cfg(unix)]
    let own = std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    let own = None;
    let of_code = |code: i32| match code {
        192..=254 => Some(Signal(256 - code)),
        129..=191 => Some(Signal(code - 128)),
        _ => None,
    };
    let of_code = |code| of_code(code).filter(|signal| signal.name().is_some());
    own.map(Signal).or_else(|| status.code().filter(|_| cfg!(unix)).and_then(of_code))
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
        let subject =
            Subject { source: &source, named: Path::new("net.mlir"), format: ModelFormat::Mlir, dynamic: &[] };
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
        // A model may say the same, also where the compiler quotes it, and so may a warning of another program.
        let space = "No space left on device";
        for text in [
            format!("net.mlir:3:1: error: no `{space}`"),
            format!("net.mlir:3:1: error: no `{space}`\n\"x.y\"() {{msg = \"a: {space}\"}}\n^\n"),
            format!(
                "net.mlir:3:1: error: no `{space}`\nfunc.func @f(%x: i32 {{a.b = \"{space}\"}}) {{\n// a: {space}\n{space}\n"
            ),
            format!(
                "/bin/bash: warning: setlocale: LC_ALL: cannot change locale (x): {space}\nnet.mlir:3:1: error: no `{space}`"
            ),
            format!("warning: {space}\nx.py:1: UserWarning: {space}\n  {space}\nnet.mlir:3:1: error: no `{space}`"),
        ] {
            assert_error(compiler(1, &text), StatusCode::InvalidArgument, "line 3 (`second.op`): no `No space");
            assert!(is_refusal(&done(1, &text)), "{text}");
        }
        // Behind an excerpt, programs go on.
        for line in [
            "LLVM ERROR",
            "failed to generate temporary file",
            "/opt/x/iree-lld: line 3: cd",
            "C:\\iree-lld.exe: error",
        ] {
            let text = format!("net.mlir:3:1: error: odd\n  second.op\n  ^\n{line}: {space}\n");
            assert_error(compiler(1, &text), StatusCode::ResourceExhausted, &format!("{line}: {space}"));
            assert!(!is_refusal(&done(1, &text)));
        }
    }

    #[test]
    fn only_file_systems_are_full_disks() {
        let error = |text: &str| {
            let subject =
                Subject { source: Path::new(""), named: Path::new(""), format: ModelFormat::Mlir, dynamic: &[] };
            of_compiler(&done(1, text), &subject)
        };
        assert!(is_full_disk(&error("LLVM ERROR: x: Disk quota exceeded")));
        for other in
            ["LLVM ERROR: Cannot allocate memory", "x: Too many open files", "x:1:1: error: Disk quota exceeded"]
        {
            assert!(!is_full_disk(&error(other)), "{other}");
        }
    }

    /// The first kind of a line counts.
    #[test]
    fn errors_may_speak_of_notes() {
        let invalid = StatusCode::InvalidArgument;
        let text = "net.mlir:2:3: warning: no error: none\nnet.mlir:3:1: error: a note: and a warning: of others\n";
        assert_error(compiler(1, text), invalid, "line 3 (`second.op`): a note: and a warning: of others");
        assert_error(compiler(1, "loc(\"a: note: b\"): error: no\n"), invalid, "loc(\"a: note: b\"): error: no");
        assert_error(compiler(1, "iree-lld: fatal error: a note: b\n"), invalid, "iree-lld: fatal error: a note: b");
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
        // These are no signals of programs.
        for code in [255, 128, 160, 200] {
            let (found, error) = compiler(code, "no license");
            assert!(found == StatusCode::InvalidArgument && error.ends_with("iree-compile: no license"), "{error}");
        }
        let flag = "iree-compile: Unknown command line argument '--x'.  Try: 'iree-compile --help'\n";
        assert_error(
            compiler(1, flag),
            StatusCode::InvalidArgument,
            "iree-compile: Unknown command line argument '--x'",
        );
    }

    #[test]
    fn errors_about_nodes_name_the_flag_that_may_help() {
        let dynamic = ["batch".to_owned(), "n".to_owned()];
        let subject =
            Subject { source: Path::new(""), named: Path::new(""), format: ModelFormat::Onnx, dynamic: &dynamic };
        let text = of_compiler(&done(1, "loc(\"a.b\"): error: no such form\n"), &subject).to_string();
        let expected = "the node `a.b`: iree-compile: no such form; with fixed extents it may compile: --dim=batch=N (the extents are batch, n)";
        assert!(text.ends_with(expected), "{text}");
        let text = of_compiler(&done(1, "loc(\"a\"): error: no\n"), &Subject { dynamic: &[], ..subject }).to_string();
        assert!(text.ends_with("the node `a`: iree-compile: no"), "{text}");
    }
}
