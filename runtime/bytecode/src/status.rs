//! Errors: a status code, what was being done, and where.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::escaped::Escaped;

/// A `Result` whose error is [`Error`].
pub type Result<T, E = Error> = core::result::Result<T, E>;

/// The status codes of IREE's `iree_status_code_t`, which are those of `absl::StatusCode` and two more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum StatusCode {
    /// The operation was cancelled, typically by the caller.
    Cancelled = 1,
    /// An error of a kind that nothing else names.
    Unknown = 2,
    /// The caller gave an argument that no state of the system makes valid.
    InvalidArgument = 3,
    /// A deadline passed before the operation was complete.
    DeadlineExceeded = 4,
    /// A named thing does not exist.
    NotFound = 5,
    /// A thing to be created exists already.
    AlreadyExists = 6,
    /// The caller may not do this.
    PermissionDenied = 7,
    /// Memory, stack or another budget is used up.
    ResourceExhausted = 8,
    /// The system is not in the state that the operation needs.
    FailedPrecondition = 9,
    /// The operation was aborted, typically because another one failed.
    Aborted = 10,
    /// An index or a range lies outside of what it indexes.
    OutOfRange = 11,
    /// This build, device or module does not offer the operation.
    Unimplemented = 12,
    /// An invariant of the system does not hold.
    Internal = 13,
    /// The thing is not there now and may be later.
    Unavailable = 14,
    /// Data was lost or is corrupt.
    DataLoss = 15,
    /// The caller is not known.
    Unauthenticated = 16,
    /// The operation has not finished and can be resumed.
    Deferred = 17,
    /// Two things that must agree do not.
    Incompatible = 18,
}

impl StatusCode {
    /// Every code with its name, in the order of the numbers.
    pub const ALL: [(StatusCode, &'static str); 18] = [
        (StatusCode::Cancelled, "CANCELLED"),
        (StatusCode::Unknown, "UNKNOWN"),
        (StatusCode::InvalidArgument, "INVALID_ARGUMENT"),
        (StatusCode::DeadlineExceeded, "DEADLINE_EXCEEDED"),
        (StatusCode::NotFound, "NOT_FOUND"),
        (StatusCode::AlreadyExists, "ALREADY_EXISTS"),
        (StatusCode::PermissionDenied, "PERMISSION_DENIED"),
        (StatusCode::ResourceExhausted, "RESOURCE_EXHAUSTED"),
        (StatusCode::FailedPrecondition, "FAILED_PRECONDITION"),
        (StatusCode::Aborted, "ABORTED"),
        (StatusCode::OutOfRange, "OUT_OF_RANGE"),
        (StatusCode::Unimplemented, "UNIMPLEMENTED"),
        (StatusCode::Internal, "INTERNAL"),
        (StatusCode::Unavailable, "UNAVAILABLE"),
        (StatusCode::DataLoss, "DATA_LOSS"),
        (StatusCode::Unauthenticated, "UNAUTHENTICATED"),
        (StatusCode::Deferred, "DEFERRED"),
        (StatusCode::Incompatible, "INCOMPATIBLE"),
    ];

    /// The code of a raw number, as `vm.fail` carries it. Zero (success) has none; what lies outside of the table is
    /// [`StatusCode::Unknown`].
    #[must_use]
    pub fn from_raw(raw: u32) -> Option<StatusCode> {
        match raw {
            0 => None,
            _ => Some(Self::ALL.get(raw as usize - 1).map_or(StatusCode::Unknown, |row| row.0)),
        }
    }

    /// The name as IREE prints it, such as `INVALID_ARGUMENT`.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize - 1].1
    }
}

impl fmt::Display for StatusCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where an error happened: the parts that are known are filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// Name of the module.
    pub module: Option<String>,
    /// Name of the function.
    pub function: Option<String>,
    /// Offset in bytes into the function's bytecode, or into the file where no function is named.
    pub offset: Option<u64>,
    /// Source location from the module's debug database, such as `mlp.mlir:12:8`.
    pub source: Option<String>,
}

impl fmt::Display for Location {
    /// Writes one line of [`Escaped`] text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [module, function, source] =
            [&self.module, &self.function, &self.source].map(|name| name.as_deref().map(Escaped));
        match (module, function) {
            (Some(module), Some(function)) => write!(f, "@{module}.{function}")?,
            (Some(module), None) => write!(f, "@{module}")?,
            (None, Some(function)) => write!(f, "@{function}")?,
            (None, None) => {}
        }
        if let Some(offset) = self.offset {
            write!(f, "+0x{offset:X}")?;
        }
        if let Some(source) = source {
            write!(f, " ({source})")?;
        }
        Ok(())
    }
}

/// What went wrong, while doing what, and where. One word wide, so that `Result<()>` stays cheap.
pub struct Error(Box<Inner>);

struct Inner {
    code: StatusCode,
    message: Cow<'static, str>,
    /// Innermost first.
    context: Vec<Cow<'static, str>>,
    /// The stack of VM functions, innermost first.
    locations: Vec<Location>,
    /// The function that a program called, or its declaration.
    callee: Option<String>,
}

macro_rules! constructors {
    ($($(#[$doc:meta])* $name:ident => $code:ident;)*) => {
        $($(#[$doc])*
        #[cold]
        pub fn $name(message: impl Into<Cow<'static, str>>) -> Error {
            Error::new(StatusCode::$code, message)
        })*
    };
}

impl Error {
    /// An error of the given code; the message says what is wrong, in lower case and without a full stop.
    #[cold]
    pub fn new(code: StatusCode, message: impl Into<Cow<'static, str>>) -> Error {
        Error(Box::new(Inner {
            code,
            message: message.into(),
            context: Vec::new(),
            locations: Vec::new(),
            callee: None,
        }))
    }

    constructors! {
        /// An argument that no state of the system makes valid.
        invalid_argument => InvalidArgument;
        /// A named thing does not exist.
        not_found => NotFound;
        /// A thing of the name exists already.
        already_exists => AlreadyExists;
        /// The caller may not do this.
        permission_denied => PermissionDenied;
        /// A budget is used up.
        resource_exhausted => ResourceExhausted;
        /// The system is not in the state that the operation needs.
        failed_precondition => FailedPrecondition;
        /// An index or a range lies outside of what it indexes.
        out_of_range => OutOfRange;
        /// This build, device or module does not offer the operation.
        unimplemented => Unimplemented;
        /// An invariant of the system does not hold.
        internal => Internal;
        /// The thing is not there now.
        unavailable => Unavailable;
        /// Data is corrupt.
        data_loss => DataLoss;
        /// Two things that must agree do not.
        incompatible => Incompatible;
        /// A deadline passed.
        deadline_exceeded => DeadlineExceeded;
        /// The operation was aborted because another one failed.
        aborted => Aborted;
    }

    /// The status code.
    #[must_use]
    pub fn code(&self) -> StatusCode {
        self.0.code
    }

    /// The message, without context or location.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The VM functions that were on the stack, innermost first.
    #[must_use]
    pub fn locations(&self) -> &[Location] {
        &self.0.locations
    }

    /// Adds what was being done, outermost last.
    #[must_use]
    pub fn context(mut self, context: impl Into<Cow<'static, str>>) -> Error {
        self.0.context.push(context.into());
        self
    }

    /// Adds the function that a program called: its name, and its declaration in the model if it has one. The callee stands behind the reason,
    /// because declarations are long. The innermost callee counts.
    #[cold]
    #[must_use]
    pub fn calling(mut self, name: &str, declaration: Option<&str>) -> Error {
        self.0.callee.get_or_insert_with(|| match declaration {
            Some(declaration) => alloc::format!("`{declaration}`"),
            None => alloc::format!("@{name}"),
        });
        self
    }

    /// Adds where it happened; callers add theirs after their callees'.
    #[must_use]
    pub fn at(mut self, location: Location) -> Error {
        self.0.locations.push(location);
        self
    }
}

impl Clone for Error {
    fn clone(&self) -> Error {
        let inner = &*self.0;
        Error(Box::new(Inner {
            code: inner.code,
            message: inner.message.clone(),
            context: inner.context.clone(),
            locations: inner.locations.clone(),
            callee: inner.callee.clone(),
        }))
    }
}

impl fmt::Display for Error {
    /// Writes one line of [`Escaped`] text: messages and context contain text of modules. [`Error::message`] is not escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for context in self.0.context.iter().rev() {
            write!(f, "{}: ", Escaped(context))?;
        }
        write!(f, "{}; {}", self.0.code, Escaped(&self.0.message))?;
        for (index, location) in self.0.locations.iter().enumerate() {
            f.write_str(if index == 0 { "; at " } else { ", called from " })?;
            write!(f, "{location}")?;
        }
        match &self.0.callee {
            Some(callee) => write!(f, "; calling {}", Escaped(callee)),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for Error {}

#[cfg(feature = "std")]
impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Error {
        use std::io::ErrorKind;
        let code = match error.kind() {
            ErrorKind::NotFound => StatusCode::NotFound,
            ErrorKind::PermissionDenied => StatusCode::PermissionDenied,
            ErrorKind::AlreadyExists => StatusCode::AlreadyExists,
            ErrorKind::InvalidInput | ErrorKind::InvalidData => StatusCode::InvalidArgument,
            ErrorKind::UnexpectedEof => StatusCode::OutOfRange,
            ErrorKind::OutOfMemory | ErrorKind::StorageFull => StatusCode::ResourceExhausted,
            ErrorKind::Unsupported => StatusCode::Unimplemented,
            _ => StatusCode::Unknown,
        };
        Error::new(code, alloc::string::ToString::to_string(&error))
    }
}

/// Adds context to the error of a `Result`.
pub trait ResultExt<T> {
    /// Says what was being done, outermost last; the closure runs only on an error.
    fn context<C: Into<Cow<'static, str>>>(self, context: impl FnOnce() -> C) -> Result<T>;
}

impl<T, E: Into<Error>> ResultExt<T> for core::result::Result<T, E> {
    // Inlined, as a result that is passed through memory is read in other pieces than it was just written in.
    #[inline(always)]
    fn context<C: Into<Cow<'static, str>>>(self, context: impl FnOnce() -> C) -> Result<T> {
        match self {
            Ok(value) => Ok(value),
            Err(error) => Err(with_context(error, context)),
        }
    }
}

#[cold]
fn with_context<C: Into<Cow<'static, str>>>(error: impl Into<Error>, context: impl FnOnce() -> C) -> Error {
    error.into().context(context())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn codes_are_numbered_as_their_table() {
        for (index, (code, _)) in StatusCode::ALL.iter().enumerate() {
            assert_eq!(*code as usize, index + 1);
            assert_eq!(StatusCode::from_raw(*code as u32), Some(*code));
        }
        assert_eq!(StatusCode::from_raw(0), None);
        assert_eq!(StatusCode::from_raw(4000), Some(StatusCode::Unknown));
    }

    #[test]
    fn display_names_operation_code_message_and_place() {
        let error = Error::out_of_range("index 9 of a list of 3").context("calling @m.f").at(Location {
            module: Some("m".into()),
            function: Some("f".into()),
            offset: Some(18),
            source: None,
        });
        assert_eq!(error.to_string(), "calling @m.f: OUT_OF_RANGE; index 9 of a list of 3; at @m.f+0x12");
    }

    #[test]
    fn the_reason_stands_before_the_declaration() {
        let declared = Some("sync func @f(%a: i32)");
        let error =
            Error::aborted("no").context("argument `a`").calling("f", declared).calling("g", None).context("more");
        assert_eq!(error.to_string(), "more: argument `a`: ABORTED; no; calling `sync func @f(%a: i32)`");
        assert_eq!(Error::aborted("no").calling("f", None).clone().to_string(), "ABORTED; no; calling @f");
    }

    #[test]
    fn display_is_one_line_that_does_not_act() {
        let hostile = || String::from("a\u{1b}[2J\r\n\u{202e}");
        let error = Error::aborted(hostile()).context(hostile()).calling(&hostile(), None).at(Location {
            module: Some(hostile()),
            function: Some(hostile()),
            offset: None,
            source: Some(hostile()),
        });
        for text in [error.to_string(), alloc::format!("{error:?}")] {
            assert!(!text.chars().any(crate::acts), "{}", text.escape_debug());
        }
        assert_eq!(error.message(), hostile());
    }
}
