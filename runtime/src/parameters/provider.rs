//! Who has parameters, and how they come into buffers.

use std::fmt;
use std::sync::Arc;

use super::index::{ParameterEntry, ParameterIndex, ParameterStorage};
use super::shown;
use crate::hal::{Buffer, BufferParameters, Device, Fences, MemoryAccess, SignalFence, Transfers};
use crate::vm::Signal;
use crate::{Error, Result, ResultExt};

/// A part of a parameter, and its place in a buffer.
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

/// What a program asks of a provider.
#[derive(Debug)]
pub struct Transfer<'a> {
    /// The device whose queue does it.
    pub device: &'a Device,
    /// What is waited for, and what is signalled.
    pub fences: Fences<'a>,
    /// The scope of the keys.
    pub scope: &'a str,
    /// The parts.
    pub spans: &'a [ParameterSpan],
}

/// Has the parameters of scopes.
///
/// A provider of one's own answers [`provides`](ParameterProvider::provides) and [`find`](ParameterProvider::find). The others
/// have bodies that use the queue of the device, and may be replaced, to stream parameters from elsewhere: they must see to it
/// that the signal fence is signalled or failed.
pub trait ParameterProvider: Send + Sync + fmt::Debug {
    /// True where it has the parameters of a scope.
    fn provides(&self, scope: &str) -> bool;

    /// The parameter of a scope and a key.
    ///
    /// # Errors
    /// NOT_FOUND.
    fn find(&self, scope: &str, key: &str) -> Result<ParameterEntry>;

    /// Gives a buffer for each span, to be used once the signal fence is reached: in place where it can be, else allocated as
    /// the parameters say. The spans' offsets into buffers are 0.
    ///
    /// # Errors
    /// What finding, allocating and copying give; the signal fence fails as well.
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
    /// What finding and copying give; the signal fence fails as well.
    fn gather(&self, transfer: Transfer<'_>, target: &Arc<Buffer>) -> Result<()> {
        let mut transfers = Transfers::new();
        let gathered = transfer.spans.iter().try_for_each(|span| {
            gather_one(self, transfer.scope, span, target, &mut transfers)
                .context(|| operation("gathering", transfer.scope, span))
        });
        submit(transfer, gathered, transfers)
    }

    /// Copies parts of a buffer into parameters.
    ///
    /// # Errors
    /// What finding and copying give, PERMISSION_DENIED for parameters that cannot be written; the signal fence fails as well.
    fn scatter(&self, transfer: Transfer<'_>, source: &Arc<Buffer>) -> Result<()> {
        let mut transfers = Transfers::new();
        let scattered = transfer.spans.iter().try_for_each(|span| {
            scatter_one(self, transfer.scope, span, source, &mut transfers)
                .context(|| operation("scattering to", transfer.scope, span))
        });
        submit(transfer, scattered, transfers)
    }

    /// Tells of an event of the hosting program, such as a shortage of memory.
    ///
    /// # Errors
    /// What the provider fails with.
    fn notify(&self, signal: Signal) -> Result<()> {
        let _ = signal;
        Ok(())
    }
}

fn operation(what: &str, scope: &str, span: &ParameterSpan) -> String {
    format!("{what} parameter '{}' of scope '{}'", shown(&span.key), shown(scope))
}

/// Submits what was prepared, or fails those who would wait for it.
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
        return Err(Error::invalid_argument(format!(
            "it is to be put at offset {} of a buffer of its own length",
            span.buffer_offset
        )));
    }
    let allocator = transfer.device.allocator();
    if let ParameterStorage::File { file, offset } = entry.storage() {
        let start = offset.saturating_add(span.parameter_offset);
        if let Some(buffer) = file.import(allocator, start, span.length, parameters)? {
            return Ok(buffer);
        }
    }
    let buffer = allocator.allocate(parameters, span.length)?;
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
        return Err(Error::permission_denied("it is a pattern, which is stored nowhere and cannot be written"));
    };
    if !file.file().access().contains(MemoryAccess::WRITE) {
        return Err(Error::permission_denied(format!("'{}' is open for reading only", file.name())));
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
    }
}

/// The parameters of an index under one scope.
#[derive(Clone, Debug)]
pub struct ScopedIndex {
    scope: String,
    index: Arc<ParameterIndex>,
}

impl ScopedIndex {
    /// A provider of a scope; the empty scope is that of programs that name none.
    #[must_use]
    pub fn new(scope: impl Into<String>, index: impl Into<Arc<ParameterIndex>>) -> ScopedIndex {
        ScopedIndex { scope: scope.into(), index: index.into() }
    }

    /// The scope.
    #[must_use]
    pub fn scope(&self) -> &str {
        &self.scope
    }

    /// The parameters.
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
        let entry = self.index.get(key).cloned();
        entry.ok_or_else(|| {
            Error::not_found(format!("no such parameter among the {} of the scope", self.index.entries().len()))
        })
    }
}
