//! The translator, as batches use it.

use std::io;
use std::path::Path;
use std::sync::Arc;

use incarnate_runtime::vm::Module;
use incarnate_translator::{File, Options, generate};

use crate::verified::verified;

/// Creates a translated module.
pub type Make = fn() -> Arc<dyn Module>;

/// The files of a translated module.
#[derive(Clone, Debug)]
pub struct Source {
    /// Paths are relative to the folder of sources.
    pub files: Vec<File>,
}

impl Source {
    /// Writes the files.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        for file in &self.files {
            let path = folder.join(&file.path);
            path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
            std::fs::write(path, &file.contents)?;
        }
        Ok(())
    }
}

/// Translates the bytes of a module file to `NAME.rs` and its side files; `reassociate` is the translator's option.
///
/// # Errors
/// Errors of the verifier and of the translator.
pub fn translate(name: &str, module: &[u8], reassociate: bool) -> Result<Source, String> {
    let options = Options { reassociate, ..Options::default() };
    let generated = verified(module).and_then(|module| generate(&module, &options)?.files(name));
    let files = generated.map_err(|error| format!("    is not translated: {error}\n"))?;
    Ok(Source { files })
}
