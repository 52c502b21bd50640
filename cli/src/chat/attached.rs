//! A model's file behind the code of a program, which is one file then.
//!
//! Systems load the code that the head of a program names, and leave alone what is behind it. The model's file begins at a multiple of
//! [`ALIGNMENT`]; behind it are a mark, its first byte and its length. A folder becomes one file, an archive of parameters (IRPA): its
//! weights by their keys, where they are aligned, and its other files by their names ([`ModelFolder::FILES`]).

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
#[cfg(feature = "cli")]
use std::io::{BufWriter, Write as _};
#[cfg(feature = "chat")]
use std::ops::Range;
use std::path::Path;
#[cfg(feature = "cli")]
use std::sync::Arc;

#[cfg(feature = "cli")]
use incarnate_runtime::bytecode::Contents;
#[cfg(feature = "cli")]
use incarnate_runtime::parameters::{ArchiveWriter, FileAccess, ParameterEntry, ParameterFile, ParameterIndex};
#[cfg(feature = "cli")]
use incarnate_runtime::{Result, ResultExt as _};
#[cfg(feature = "cli")]
use incarnate_translator::compiler::gguf::ModelFolder;

/// Where the file begins, so that it is mapped as a file of its own is: the largest page of the systems that have programs.
#[cfg(feature = "cli")]
const ALIGNMENT: u64 = 1 << 16;
const MARK: [u8; 16] = *b"incarnate model\n";

/// Adds a model's file, or its folder, to a program.
///
/// # Errors
/// Errors of reading and writing.
#[cfg(feature = "cli")]
pub(crate) fn attach(program: &Path, model: &Path) -> Result<()> {
    let mut program = File::options().append(true).open(program)?;
    let end = program.seek(SeekFrom::End(0))?;
    let start = end.next_multiple_of(ALIGNMENT);
    io::copy(&mut io::repeat(0).take(start - end), &mut program)?;
    match ModelFolder::at(model) {
        Some(folder) => {
            let index = contents_of(&folder)?;
            let mut writer = BufWriter::new(&program);
            ArchiveWriter::new(&index).write(&mut writer)?;
            writer.flush()?;
        }
        None => {
            let read = File::open(model).and_then(|mut model| io::copy(&mut model, &mut program));
            read.context(|| format!("copying '{}'", model.display()))?;
        }
    }
    let length = program.seek(SeekFrom::End(0))? - start;
    program.write_all(&[&MARK[..], &start.to_le_bytes(), &length.to_le_bytes()].concat())?;
    Ok(program.sync_all()?)
}

/// Lists the weights of a folder and its other files.
#[cfg(feature = "cli")]
fn contents_of(folder: &ModelFolder) -> Result<ParameterIndex> {
    let (mut weights, mut index) = (ParameterIndex::new(), ParameterIndex::new());
    weights.add_file(folder.path(), FileAccess::Map)?;
    // In the order of the files, in which modules name the tensors of experts: those that are adjacent are used in place.
    for tensor in folder.tensors()? {
        if let Some(entry) = weights.get(&tensor.name) {
            index.add(entry.clone())?;
        }
    }
    for name in ModelFolder::FILES {
        let Some(bytes) = folder.read(name)? else { continue };
        let length = bytes.len() as u64;
        let file = ParameterFile::from_contents(name, Arc::new(Contents::from_vec(bytes)));
        index.add(ParameterEntry::in_file(name, &file, 0, length)?)?;
    }
    Ok(index)
}

/// Returns where the model's file of a program is; `None` if it has none.
///
/// # Errors
/// Errors of reading.
#[cfg(feature = "chat")]
pub(crate) fn attached(program: &Path) -> io::Result<Option<Range<u64>>> {
    let mut program = File::open(program)?;
    let mut tail = [[0; 8]; 4];
    let length = size_of_val(&tail) as u64;
    let Some(end) = program.metadata()?.len().checked_sub(length) else { return Ok(None) };
    program.seek(SeekFrom::Start(end))?;
    program.read_exact(tail.as_flattened_mut())?;
    let [mark @ .., start, length] = tail;
    let [start, length] = [start, length].map(u64::from_le_bytes);
    let is_whole = mark.as_flattened() == MARK && start.checked_add(length) == Some(end);
    Ok(is_whole.then_some(start..end))
}

#[cfg(all(test, feature = "cli", feature = "chat"))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use incarnate_runtime::parameters::{ArchiveFormat, ParameterStorage};

    use super::*;

    #[test]
    fn a_file_is_found_behind_a_program() {
        let folder = tempfile::tempdir().unwrap();
        let (program, model) = (folder.path().join("program"), folder.path().join("model"));
        std::fs::write(&program, vec![1; 100_000]).unwrap();
        std::fs::write(&model, b"weights").unwrap();
        assert_eq!(attached(&program).unwrap(), None);
        assert_eq!(attached(&model).unwrap(), None);
        attach(&program, &model).unwrap();
        let range = attached(&program).unwrap().unwrap();
        assert_eq!(range, 131_072..131_079);
        let bytes = std::fs::read(&program).unwrap();
        assert_eq!((&bytes[131_072..131_079], bytes.len()), (&b"weights"[..], 131_079 + 32));
        // A program that was cut has none.
        std::fs::write(&program, &bytes[1..]).unwrap();
        assert_eq!(attached(&program).unwrap(), None);
    }

    #[test]
    fn weights_of_several_files_keep_their_order() {
        let folder = tempfile::tempdir().unwrap();
        let shard = |name: &str, keys: [&str; 2]| {
            let row = |key: &str, at: u64| {
                format!(r#""{key}":{{"dtype":"U8","shape":[64],"data_offsets":[{at},{}]}}"#, at + 64)
            };
            let header = format!("{{{},{}}}", row(keys[0], 0), row(keys[1], 64));
            let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[7; 128]].concat();
            std::fs::write(folder.path().join(name), bytes).unwrap();
        };
        shard("a.safetensors", ["x.1", "x.0"]);
        shard("b.safetensors", ["x.3", "x.2"]);
        let map = r#"{"x.0": "a.safetensors", "x.2": "b.safetensors", "x.3": "b.safetensors", "x.1": "a.safetensors"}"#;
        std::fs::write(folder.path().join("model.safetensors.index.json"), format!(r#"{{"weight_map": {map}}}"#))
            .unwrap();
        std::fs::write(folder.path().join("config.json"), "{}").unwrap();
        let mut written = Vec::new();
        let index = contents_of(&ModelFolder::at(folder.path()).unwrap()).unwrap();
        ArchiveWriter::new(&index).write(&mut written).unwrap();
        let file = ParameterFile::from_contents("archive", Arc::new(Contents::from_vec(written)));
        let mut read = ParameterIndex::new();
        read.add_archive(&file, ArchiveFormat::Irpa).unwrap();
        let keys: Vec<&str> = read.entries().iter().map(ParameterEntry::key).collect();
        assert_eq!(keys, ["x.1", "x.0", "x.3", "x.2", "config.json"]);
        let joined = read.find("x.{1,0,3,2}").unwrap();
        assert!(matches!(joined.storage(), ParameterStorage::File { offset, .. } if offset.is_multiple_of(64)));
    }
}
