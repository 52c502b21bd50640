//! Modules: where they are, and what this process has loaded of them.

use std::path::PathBuf;
use std::sync::Arc;

use incarnate_runtime::Result;
use incarnate_runtime::session::{self, Session};
use pyo3::prelude::*;

use crate::fork::PerProcess;
use crate::interrupt;
use crate::options::LoadOptions;

/// Where the module of a model is.
#[derive(Clone)]
pub(crate) enum Source {
    File(PathBuf),
    /// The bytes of a file.
    Bytes(Arc<[u8]>),
}

/// A module that this process has loaded.
pub(crate) struct Loaded {
    pub(crate) session: Session,
    /// In the order of the module's exports.
    pub(crate) functions: Vec<session::Function>,
}

impl Loaded {
    /// Loads a module: verifies it and runs its initialisers.
    ///
    /// # Errors
    /// Those of [`SessionBuilder::build`](session::SessionBuilder::build).
    pub(crate) fn new(source: &Source, options: &LoadOptions) -> Result<Loaded> {
        let builder = options.builder()?;
        let builder = match source {
            Source::File(path) => builder.module_file(path),
            Source::Bytes(bytes) => builder.module_bytes(bytes.to_vec()),
        };
        let session = builder.build()?;
        let functions = session.functions()?;
        Ok(Loaded { session, functions })
    }
}

/// A module, and how to load it again in a child process.
pub(crate) struct Module {
    source: Source,
    options: LoadOptions,
    loaded: PerProcess<Loaded>,
}

impl Module {
    /// Keeps what this process has loaded.
    pub(crate) fn new(source: Source, options: LoadOptions, loaded: Loaded) -> Module {
        Module { source, options, loaded: PerProcess::new(loaded) }
    }

    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    /// Returns the module as this process has loaded it: a child of the process that loaded it first loads it again.
    ///
    /// # Errors
    /// Those of [`Loaded::new`], in a child.
    #[inline]
    pub(crate) fn loaded(&self, py: Python<'_>) -> PyResult<&Loaded> {
        self.loaded.get_or_try_create(|| interrupt::detached(py, || Loaded::new(&self.source, &self.options)))
    }
}
