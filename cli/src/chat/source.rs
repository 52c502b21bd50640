//! The file of a model: one that a command line names, or that of the program itself.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use incarnate_gguf::{GgufFile, SCOPE};
use incarnate_runtime::mapping::MappedFile;
use incarnate_runtime::parameters::{ArchiveFormat, FileAccess, ParameterFile, ParameterIndex, ScopedIndex};
use incarnate_runtime::session::SessionBuilder;
use incarnate_runtime::{Error, Result, ResultExt as _};

use super::attached::attached;

/// The file of a model.
#[derive(Clone, Debug)]
pub(crate) struct ModelSource {
    path: PathBuf,
    /// Where the file is in the program.
    range: Option<Range<u64>>,
}

impl ModelSource {
    /// Returns the file that a command line names, or else that of the program.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if there is neither; errors of reading the program.
    pub(crate) fn find(named: Option<&Path>) -> Result<ModelSource> {
        match named {
            Some(path) => Ok(ModelSource { path: path.to_owned(), range: None }),
            None => ModelSource::of_program()?
                .ok_or_else(|| Error::invalid_argument("name the model's file: the program has none in it")),
        }
    }

    /// Returns the file in the program, if it has one.
    ///
    /// # Errors
    /// Errors of reading the program.
    pub(crate) fn of_program() -> Result<Option<ModelSource>> {
        let path = std::env::current_exe().context(|| "finding the program's file")?;
        let range = attached(&path).context(|| format!("reading '{}'", path.display()))?;
        Ok(range.map(|range| ModelSource { path, range: Some(range) }))
    }

    /// Returns the path of the file, or that of the program.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the metadata.
    ///
    /// # Errors
    /// Errors of reading, and those of a damaged file.
    pub(crate) fn read(&self) -> Result<GgufFile> {
        match &self.range {
            None => GgufFile::open(&self.path),
            Some(range) => {
                let contents = Arc::new(MappedFile::contents_of_range(&self.path, range.clone())?);
                GgufFile::read(contents).context(|| format!("'{}'", self.path.display()))
            }
        }
    }

    /// Adds the weights to a session, as parameters.
    ///
    /// # Errors
    /// Errors of reading the weights in a program.
    pub(crate) fn add_to(&self, builder: SessionBuilder) -> Result<SessionBuilder> {
        let Some(range) = &self.range else {
            return Ok(builder.parameter_file(SCOPE, &self.path, FileAccess::Map));
        };
        let name = self.path.display().to_string();
        let contents = Arc::new(MappedFile::contents_of_range(&self.path, range.clone())?);
        let mut index = ParameterIndex::new();
        let added = index.add_archive(&ParameterFile::from_contents(name, contents), ArchiveFormat::Gguf);
        added.context(|| format!("weights in '{}'", self.path.display()))?;
        Ok(builder.parameters(ScopedIndex::new(SCOPE, index)))
    }
}
