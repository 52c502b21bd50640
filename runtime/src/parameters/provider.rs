//! Providers of parameters, and the transfers between parameters and buffers.

use std::fmt;
use std::sync::Arc;

use super::index::{ParameterEntry, ParameterIndex, ParameterStorage};
use super::shown;
use crate::hal::{Buffer, BufferParameters, Device, Fences, MemoryAccess, SignalFence, Transfers};
use crate::vm::Signal;
use crate::{Error, Result, ResultExt};

/// A range of a parameter, and its position in a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterSpan {
    /// The parameter's key.
    pub key: String,
    /// Offset in bytes into the parameter.
    pub parameter_offset: u64,
    /// Offset in bytes into the buffer.
    pub buffer_offset: u64,
    /// Number of bytes.
    pub length: u64,
}

/// A request of a program to a provider.
#[derive(Debug)]
pub struct Transfer<'a> {
    /// The device whose queue performs the transfer.
    pub device: &'a Device,
    /// The fences to wait for and to signal.
    pub fences: Fences<'a>,
    /// The scope of the keys.
    pub scope: &'a str,
    /// The ranges.
    pub spans: &'a [ParameterSpan],
}

/// Provides the parameters of scopes.
///
/// Implementations supply [`provides`](ParameterProvider::provides) and [`find`](ParameterProvider::find). The default
/// bodies of the other methods use the device's queue. Overriding them, for example to stream parameters over a
/// network, includes the duty to signal or fail the signal fence.
pub trait ParameterProvider: Send + Sync + fmt::Debug {
    /// Returns true if this provider contains the parameters of a scope.
    fn provides(&self, scope: &str) -> bool;

    /// Returns the parameter of a scope and a key.
    ///
    /// # Errors
    /// NOT_FOUND.
    fn find(&self, scope: &str, key: &str) -> Result<ParameterEntry>;

    /// Returns a buffer for each span, which is ready when the signal fence is reached: in place if possible, otherwise
    /// allocated with the given buffer parameters. The spans' offsets into buffers are 0.
    ///
    /// # Errors
    /// Errors of finding, allocating and copying; they fail the signal fence, too.
    fn load(&self, transfer: Transfer<'_>, parameters: BufferParameters) -> Result<Vec<Arc<Buffer>>> {
        let mut transfers = Transfers::new();
        let loaded = transfer.spans.iter().map(|span| {
            load_one(self, &transfer, parameters, span, &mut transfers)
                .context(|| operation("loading", transfer.scope, span))
        });
        let loaded = loaded.collect::<Result<Vec<_>>>();
        submit(transfer, loaded, transfers)
    }

    /// Copies parameters into a buffer.
    ///
    /// # Errors
    /// Errors of finding and copying; they fail the signal fence, too.
    fn gather(&self, transfer: Transfer<'_>, target: &Arc<Buffer>) -> Result<()> {
        let mut transfers = Transfers::new();
        let gathered = transfer.spans.iter().try_for_each(|span| {
            gather_one(self, transfer.scope, span, target, &mut transfers)
                .context(|| operation("gathering", transfer.scope, span))
        });
        submit(transfer, gathered, transfers)
    }

    /// Copies ranges of a buffer into parameters.
    ///
    /// # Errors
    /// Errors of finding and copying; PERMISSION_DENIED for parameters that are not writable. They fail the signal
    /// fence, too.
    fn scatter(&self, transfer: Transfer<'_>, source: &Arc<Buffer>) -> Result<()> {
        let mut transfers = Transfers::new();
        let scattered = transfer.spans.iter().try_for_each(|span| {
            scatter_one(self, transfer.scope, span, source, &mut transfers)
                .context(|| operation("scattering to", transfer.scope, span))
        });
        submit(transfer, scattered, transfers)
    }

    /// Forwards a signal of the hosting program, such as low memory.
    ///
    /// # Errors
    /// Errors of the provider.
    fn notify(&self, signal: Signal) -> Result<()> {
        let _ = signal;
        Ok(())
    }
}

fn operation(what: &str, scope: &str, span: &ParameterSpan) -> String {
    format!("{what} parameter '{}' of scope '{}'", shown(&span.key), shown(scope))
}

/// Submits prepared transfers, or fails the signal fence.
fn submit<T>(transfer: Transfer<'_>, prepared: Result<T>, transfers: Transfers) -> Result<T> {
    match prepared {
        Ok(value) => transfer.device.queue_transfers(transfer.fences, transfers).map(|()| value),
        Err(error) => {
            if let SignalFence::Given(signal) = &transfer.fences.signal {
                signal.fail(&error);
            }
            Err(error)
        }
    }
}

fn find_range(
    provider: &(impl ParameterProvider + ?Sized),
    scope: &str,
    span: &ParameterSpan,
) -> Result<ParameterEntry> {
    let entry = provider.find(scope, &span.key)?;
    entry.check_range(span.parameter_offset, span.length)?;
    Ok(entry)
}

fn load_one(
    provider: &(impl ParameterProvider + ?Sized),
    transfer: &Transfer<'_>,
    parameters: BufferParameters,
    span: &ParameterSpan,
    transfers: &mut Transfers,
) -> Result<Arc<Buffer>> {
    let entry = find_range(provider, transfer.scope, span)?;
    if span.buffer_offset != 0 {
        return Err(Error::invalid_argument(format!("offset {} into the loaded buffer is not 0", span.buffer_offset)));
    }
    let (allocator, ledger) = (transfer.device.allocator(), transfer.fences.limits.ledger());
    if let ParameterStorage::File { file, offset } = entry.storage() {
        let start = offset.saturating_add(span.parameter_offset);
        if let Some(buffer) = file.import(allocator, start, span.length, parameters, ledger)? {
            return Ok(buffer);
        }
    }
    let buffer = allocator.allocate_charged(parameters, span.length, ledger)?;
    copy_in(&entry, span, (buffer.clone(), 0), transfers);
    Ok(buffer)
}

fn gather_one(
    provider: &(impl ParameterProvider + ?Sized),
    scope: &str,
    span: &ParameterSpan,
    target: &Arc<Buffer>,
    transfers: &mut Transfers,
) -> Result<()> {
    let entry = find_range(provider, scope, span)?;
    target.range(span.buffer_offset, span.length)?;
    copy_in(&entry, span, (target.clone(), span.buffer_offset), transfers);
    Ok(())
}

fn scatter_one(
    provider: &(impl ParameterProvider + ?Sized),
    scope: &str,
    span: &ParameterSpan,
    source: &Arc<Buffer>,
    transfers: &mut Transfers,
) -> Result<()> {
    let entry = find_range(provider, scope, span)?;
    source.range(span.buffer_offset, span.length)?;
    let ParameterStorage::File { file, offset } = entry.storage() else {
        return Err(Error::permission_denied("a parameter that is no range of a file cannot be written"));
    };
    if !file.file().access().contains(MemoryAccess::WRITE) {
        return Err(Error::permission_denied(format!("'{}' is read-only: open it with write access", file.name())));
    }
    let target = (file.file().clone(), offset.saturating_add(span.parameter_offset));
    transfers.write((source.clone(), span.buffer_offset), target, span.length);
    Ok(())
}

fn copy_in(entry: &ParameterEntry, span: &ParameterSpan, target: (Arc<Buffer>, u64), transfers: &mut Transfers) {
    match entry.storage() {
        ParameterStorage::Splat(splat) => {
            transfers.splat(target.0, target.1, span.length, &splat.pattern_at(span.parameter_offset));
        }
        ParameterStorage::File { file, offset } => {
            let source = (file.file().clone(), offset.saturating_add(span.parameter_offset));
            transfers.read(source, target, span.length);
        }
        ParameterStorage::Joined(parts) => {
            let (mut first, end) = (0, span.parameter_offset.saturating_add(span.length));
            for part in parts.iter() {
                let behind = first + part.length();
                let (from, to) = (first.max(span.parameter_offset), behind.min(end));
                if from < to {
                    let offset = target.1 + (from - span.parameter_offset);
                    let of_part = ParameterSpan { parameter_offset: from - first, length: to - from, ..span.clone() };
                    copy_in(part, &of_part, (target.0.clone(), offset), transfers);
                }
                first = behind;
            }
        }
        // `find_range` has returned the reason.
        ParameterStorage::Unreadable(_) => {}
    }
}

/// A provider of the parameters of an index under one scope.
#[derive(Clone, Debug)]
pub struct ScopedIndex {
    scope: String,
    index: Arc<ParameterIndex>,
}

impl ScopedIndex {
    /// Creates a provider of a scope; the empty scope serves programs that name none.
    #[must_use]
    pub fn new(scope: impl Into<String>, index: impl Into<Arc<ParameterIndex>>) -> ScopedIndex {
        ScopedIndex { scope: scope.into(), index: index.into() }
    }

    /// Returns the scope.
    #[must_use]
    pub fn scope(&self) -> &str {
        &self.scope
    }

    /// Returns the parameters.
    #[must_use]
    pub fn index(&self) -> &ParameterIndex {
        &self.index
    }
}

impl ParameterProvider for ScopedIndex {
    fn provides(&self, scope: &str) -> bool {
        self.scope == scope
    }

    fn find(&self, _: &str, key: &str) -> Result<ParameterEntry> {
        self.index.find(key)
    }
}
