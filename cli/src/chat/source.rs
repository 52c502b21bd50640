//! The file or the folder of a model: one that a command line names, or that in the program itself.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use incarnate_gguf::{GgufFile, ModelFolder, SCOPE};
use incarnate_runtime::bytecode::Contents;
use incarnate_runtime::mapping::MappedFile;
use incarnate_runtime::parameters::{ArchiveFormat, FileAccess, ParameterFile, ParameterIndex, ScopedIndex};
use incarnate_runtime::session::SessionBuilder;
use incarnate_runtime::{Error, Result, ResultExt as _};
use incarnate_text::{ChatTemplate, Tokenizer};

use super::attached::attached;

/// Bytes that tell the format of a model's file.
const MAGIC_BYTES: usize = 4;

/// The file or the folder of a model.
#[derive(Clone, Debug)]
pub(crate) struct ModelSource {
    path: PathBuf,
    /// Where the model's file is in the program.
    range: Option<Range<u64>>,
}

/// What has the tokenizer and the chat template of a model.
#[derive(Debug)]
pub(crate) enum ModelText {
    Gguf(Box<GgufFile>),
    Folder(ModelFolder),
}

impl ModelText {
    /// Reads the tokenizer.
    ///
    /// # Errors
    /// Those of [`Tokenizer::from_gguf`] and [`Tokenizer::from_folder`].
    pub(crate) fn tokenizer(&self) -> Result<Tokenizer> {
        match self {
            ModelText::Gguf(file) => Tokenizer::from_gguf(file),
            ModelText::Folder(folder) => Tokenizer::from_folder(folder),
        }
    }

    /// Reads the chat template.
    ///
    /// # Errors
    /// Those of [`ChatTemplate::from_gguf`] and [`ChatTemplate::from_folder`].
    pub(crate) fn template(&self) -> Result<ChatTemplate> {
        match self {
            ModelText::Gguf(file) => ChatTemplate::from_gguf(file),
            ModelText::Folder(folder) => ChatTemplate::from_folder(folder),
        }
    }
}

impl ModelSource {
    /// Returns the file or the folder that a command line names, or else that of the program.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if there is neither; errors of reading the program.
    pub(crate) fn find(named: Option<&Path>) -> Result<ModelSource> {
        match named {
            Some(path) => Ok(ModelSource { path: path.to_owned(), range: None }),
            None => ModelSource::of_program()?
                .ok_or_else(|| Error::invalid_argument("name the model's file or folder: the program has none in it")),
        }
    }

    /// Returns the model in the program, if it has one.
    ///
    /// # Errors
    /// Errors of reading the program.
    pub(crate) fn of_program() -> Result<Option<ModelSource>> {
        ModelSource::in_file(std::env::current_exe().context(|| "finding the program's file")?)
    }

    /// Returns the model in the file of a program, if it has one.
    fn in_file(path: PathBuf) -> Result<Option<ModelSource>> {
        let range = attached(&path).context(|| format!("reading '{}'", path.display()))?;
        Ok(range.map(|range| ModelSource { path, range: Some(range) }))
    }

    /// Returns the path of the file or the folder, or that of the program.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the name of the model: that of the file without its extension, or that of the folder.
    #[cfg(feature = "serve")]
    pub(crate) fn name(&self) -> String {
        let path = std::path::absolute(&self.path).unwrap_or_else(|_| self.path.clone());
        let name = if path.is_dir() { path.file_name() } else { path.file_stem() };
        name.unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Reads the metadata of a file, or finds the files of a folder.
    ///
    /// # Errors
    /// Errors of reading, and those of a damaged file.
    pub(crate) fn text(&self) -> Result<ModelText> {
        let Some(range) = &self.range else {
            return match ModelFolder::at(&self.path) {
                Some(folder) => Ok(ModelText::Folder(folder)),
                None => GgufFile::open(&self.path).map(|file| ModelText::Gguf(Box::new(file))),
            };
        };
        let (contents, format) = self.in_program(range)?;
        let context = || format!("'{}'", self.path.display());
        if format == ArchiveFormat::Gguf {
            return GgufFile::read(contents).context(context).map(|file| ModelText::Gguf(Box::new(file)));
        }
        let index = self.index(contents, format)?;
        let files = ModelFolder::FILES.iter().filter_map(|name| {
            let bytes = index.get(name)?.read();
            Some(bytes.map(|bytes| ((*name).to_owned(), bytes)))
        });
        let files = files.collect::<Result<HashMap<_, _>>>().context(context)?;
        Ok(ModelText::Folder(ModelFolder::of_files(&self.path, files)))
    }

    /// Maps the model's file in the program, and returns its format, which the first bytes say.
    fn in_program(&self, range: &Range<u64>) -> Result<(Arc<Contents>, ArchiveFormat)> {
        let contents = Arc::new(MappedFile::contents_of_range(&self.path, range.clone())?);
        let first = contents.bytes(0..contents.length().min(MAGIC_BYTES))?;
        let format = ArchiveFormat::of(Path::new(""), &first).context(|| format!("'{}'", self.path.display()))?;
        Ok((contents, format))
    }

    /// Lists the parameters of the model's file in the program.
    fn index(&self, contents: Arc<Contents>, format: ArchiveFormat) -> Result<ParameterIndex> {
        let name = self.path.display().to_string();
        let mut index = ParameterIndex::new();
        let added = index.add_archive(&ParameterFile::from_contents(name, contents), format);
        added.context(|| format!("weights in '{}'", self.path.display()))?;
        Ok(index)
    }

    /// Adds the weights to a session, as parameters.
    ///
    /// # Errors
    /// Errors of reading the weights in a program.
    pub(crate) fn add_to(&self, builder: SessionBuilder) -> Result<SessionBuilder> {
        let Some(range) = &self.range else {
            return Ok(builder.parameter_file(SCOPE, &self.path, FileAccess::Map));
        };
        let (contents, format) = self.in_program(range)?;
        Ok(builder.parameters(ScopedIndex::new(SCOPE, self.index(contents, format)?)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod tests {
    #[cfg(feature = "cli")]
    use incarnate_runtime::parameters::ParameterStorage;
    use incarnate_text::LanguageModel as _;
    use serde_json::{Map, Value, json};

    use super::super::model::ModuleModel;
    use super::*;

    /// Writes the weights of a file in the layout of Hugging Face. Their keys are those of the file, which the module of the test has.
    fn write_folder(file: &GgufFile, folder: &Path) {
        let (mut header, mut data) = (Map::new(), Vec::new());
        for tensor in file.tensors() {
            let (start, first) = (data.len(), usize::try_from(tensor.offset).unwrap());
            let length = usize::try_from(tensor.length.unwrap()).unwrap();
            data.extend_from_slice(&file.contents().bytes(first..first + length).unwrap());
            let row = json!({"dtype": "U8", "shape": [length], "data_offsets": [start, data.len()]});
            header.insert(tensor.name.clone(), row);
        }
        let header = Value::from(header).to_string();
        let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat();
        std::fs::write(folder.join("model.safetensors"), bytes).unwrap();
        std::fs::write(folder.join("config.json"), r#"{"eos_token_id": 2}"#).unwrap();
        let tokenizer = include_str!("../../../text/tests/tokenizers/llama3.json");
        std::fs::write(folder.join("tokenizer.json"), tokenizer).unwrap();
    }

    fn fixture() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models/language_model")
    }

    fn logits(source: &ModelSource) -> Vec<f32> {
        let module = fixture().join("vmvx.vmfb");
        let mut model = ModuleModel::load(source, "local-sync", &|builder| builder.module_file(&module)).unwrap();
        model.logits(0, &[7, 3], 0).unwrap().to_vec()
    }

    #[cfg(feature = "cli")]
    #[test]
    fn models_in_programs_are_those_of_files_and_folders() {
        let file = fixture().join("model.gguf");
        let expected = logits(&ModelSource::find(Some(&file)).unwrap());
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().join("small");
        std::fs::create_dir(&folder).unwrap();
        write_folder(&GgufFile::open(&file).unwrap(), &folder);
        // The extension of a program says nothing of what is in it.
        let program = temporary.path().join("talk.safetensors");
        let attach = |model: &Path| {
            std::fs::write(&program, "code").unwrap();
            super::super::attached::attach(&program, model).unwrap();
            ModelSource::in_file(program.clone()).unwrap().unwrap()
        };
        let source = attach(&file);
        assert!(matches!(source.text().unwrap(), ModelText::Gguf(_)));
        assert_eq!(logits(&source), expected);
        let source = attach(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(logits(&source), expected);
        let text = source.text().unwrap();
        assert_eq!(text.tokenizer().unwrap().end_tokens(), [2]);
        let error = text.template().unwrap_err().to_string();
        assert!(error.starts_with("NOT_FOUND") && error.contains("chat_template.jinja"), "{error}");
        // Weights are used in place: each begins at a multiple of 64 bytes.
        let (contents, format) = source.in_program(source.range.as_ref().unwrap()).unwrap();
        for entry in source.index(contents, format).unwrap().entries() {
            let ParameterStorage::File { offset, .. } = entry.storage() else { panic!("{entry:?}") };
            assert!(offset.is_multiple_of(64), "{entry:?}");
        }
    }

    #[test]
    fn folders_have_weights_and_tokenizers_as_files_have() {
        let fixture = fixture();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("Small-1.5B");
        std::fs::create_dir(&path).unwrap();
        write_folder(&GgufFile::open(&fixture.join("model.gguf")).unwrap(), &path);
        let logits = |path: &Path| logits(&ModelSource::find(Some(path)).unwrap());
        assert_eq!(logits(&path), logits(&fixture.join("model.gguf")));
        let source = ModelSource::find(Some(&path)).unwrap();
        let text = source.text().unwrap();
        assert_eq!(text.tokenizer().unwrap().end_tokens(), [2]);
        let error = text.template().unwrap_err().to_string();
        assert!(error.starts_with("NOT_FOUND") && error.contains("chat_template.jinja"), "{error}");
        #[cfg(feature = "serve")]
        assert_eq!(source.name(), "Small-1.5B");
    }
}
