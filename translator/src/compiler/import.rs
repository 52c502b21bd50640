//! Models that are imported as MLIR before IREE's compiler reads them.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use incarnate_bytecode::{Result, ResultExt as _};
use incarnate_gguf::Checkpoint;
use incarnate_onnx::{Model, Options, import};

use super::cache::Scratch;
use super::{LeftOut, with_path};

/// Beyond this number of bytes, the compiler does not take a parameter as a constant of the module: all are below.
const LARGEST: u64 = 1 << 40;

/// The compiler's flag for MLIR of core dialects.
const CORE_DIALECTS: &str = "--iree-input-type=none";

/// A model as MLIR, and the compiler's flags for it.
#[derive(Debug)]
pub(super) struct ImportedModel {
    pub(super) mlir: PathBuf,
    pub(super) flags: Vec<String>,
    /// The names of extents that are known when the model runs.
    pub(super) dynamic: Vec<String>,
}

/// Imports an ONNX model into a folder: its MLIR, and a file of its weights, which become constants of the module. Weights that are written to
/// a file that is named are parameters of the program.
///
/// # Errors
/// Errors of reading the model, with all nodes that are not supported.
pub(super) fn imported_onnx(
    scratch: &Scratch,
    model: &Path,
    options: &Options,
    outside: Option<&Path>,
) -> Result<ImportedModel> {
    let imported = import(&Model::open(model)?, options)?;
    let mlir = mlir_path(scratch, model);
    with_path(fs::write(&mlir, &imported.mlir), "writing", &mlir)?;
    let mut flags = vec![CORE_DIALECTS.to_owned()];
    if imported.has_weights() || outside.is_some() {
        let weights = outside.map_or_else(|| scratch.path("weights.safetensors"), Path::to_owned);
        let file = with_path(File::create(&weights), "writing", &weights)?;
        imported.write_weights(file).context(|| format!("writing '{}'", weights.display()))?;
        if outside.is_some() {
            return Ok(ImportedModel { mlir, flags, dynamic: imported.dynamic });
        }
        flags.push(format!("--iree-parameter-import={}={}", incarnate_onnx::SCOPE, weights.display()));
        flags.push(format!("--iree-parameter-import-maximum-size={LARGEST}"));
    }
    Ok(ImportedModel { mlir, flags, dynamic: imported.dynamic })
}

/// Imports a language model as MLIR. Its weights are parameters of the program. Returns, too, what the module is without.
///
/// # Errors
/// Errors of reading the model; those of parts that are not supported.
pub(super) fn language_model(model: &Path, options: &incarnate_gguf::Options) -> Result<(String, Option<LeftOut>)> {
    let checkpoint = Checkpoint::open(model)?;
    let left_out = checkpoint.left_out().map(|without| LeftOut(without.to_owned()));
    Ok((incarnate_gguf::import(&checkpoint, options)?, left_out))
}

/// Writes the text of a model that was imported into a folder.
///
/// # Errors
/// Errors of writing.
pub(super) fn written(scratch: &Scratch, model: &Path, text: &str) -> Result<ImportedModel> {
    let mlir = mlir_path(scratch, model);
    with_path(fs::write(&mlir, text), "writing", &mlir)?;
    Ok(ImportedModel { mlir, flags: vec![CORE_DIALECTS.to_owned()], dynamic: Vec::new() })
}

/// Returns the name of a model: that of its file without the extension, or that of its folder.
pub(super) fn name_of(model: &Path) -> Cow<'_, str> {
    // A path such as `.` has no name.
    let folder = || model.canonicalize().ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    let name = match model.is_dir() {
        true => folder().map(Cow::Owned),
        false => model.file_stem().map(OsStr::to_string_lossy),
    };
    name.unwrap_or(Cow::Borrowed("model"))
}

/// Returns the path of the text that is made of a model, whose name is that of the module.
fn mlir_path(scratch: &Scratch, model: &Path) -> PathBuf {
    let name = name_of(model);
    scratch.path(&format!("{name}.mlir"))
}

/// Returns the files beside a model that have its weights; none if the model cannot be read, which its import says.
pub(super) fn weight_files(model: &Path) -> Vec<PathBuf> {
    Model::open(model).map(|model| model.weight_files()).unwrap_or_default()
}

/// Returns the name of the node that a location `loc("NAME")` at the start of a message is about.
pub(super) fn node_of(location: &str) -> Option<&str> {
    location.strip_prefix("loc(\"")?.strip_suffix("\")")
}
