//! Errors of files and processes.

use std::io;

use incarnate_bytecode::Error;

/// The error of a file operation.
pub(crate) fn failed(what: &str, error: &io::Error) -> Error {
    let make = match error.kind() {
        io::ErrorKind::NotFound => Error::not_found,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Error::permission_denied,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            Error::resource_exhausted
        }
        _ => Error::failed_precondition,
    };
    make(format!("{what} {error}"))
}
