//! `model.safetensors.index.json`: which of several files (`.safetensors`) has each tensor of a model.
//!
//! The files are beside the index or in folders below it, and may be links, as in the cache of Hugging Face. They may contain tensors
//! that the index does not list.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use incarnate_gguf::SafetensorsIndex;

use crate::parameters::file::{FileAccess, ParameterFile};
use crate::parameters::index::{ParameterEntry, ParameterIndex};
use crate::parameters::shown;
use crate::{Error, Result, ResultExt};

/// Adds the tensors of an index. `access` is how the files are opened.
pub(super) fn parse(path: &Path, file: &ParameterFile, access: FileAccess, index: &mut ParameterIndex) -> Result<()> {
    let contents = file.contents();
    // A longer index is refused by its first bytes.
    let read = SafetensorsIndex::read(&contents.bytes(0..contents.length().min(SafetensorsIndex::LIMIT + 1))?)?;
    let tensors = read.tensors();
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut found: Vec<Option<ParameterEntry>> = vec![None; tensors.len()];
    for (shard, keys) in by_shard(tensors) {
        let first = keys.first().map_or("", |(_, key)| key);
        let opened = open(folder, shard, access)
            .context(|| format!("the file '{}' of tensor '{}'", shown(shard), shown(first)))?;
        for (position, key) in keys {
            let entry = opened.get(key).ok_or_else(|| {
                let (key, shard) = (shown(key), shown(shard));
                Error::not_found(format!("tensor '{key}' is not in '{shard}', where the index says it is"))
            })?;
            found.get_mut(position).map(|slot| slot.replace(entry.clone()));
        }
    }
    found.into_iter().flatten().try_for_each(|entry| index.add(entry))
}

/// A file, and the positions and keys of its tensors.
type Shard<'a> = (&'a str, Vec<(usize, &'a str)>);

/// Groups tensors by file, in the order of the first tensor of each, so that the contents of one file are in memory at a time.
fn by_shard(tensors: &[(String, String)]) -> Vec<Shard<'_>> {
    let mut shards: Vec<Shard<'_>> = Vec::new();
    let mut indices: HashMap<&str, usize> = HashMap::new();
    for (position, (key, shard)) in tensors.iter().enumerate() {
        let index = *indices.entry(shard).or_insert(shards.len());
        match shards.get_mut(index) {
            Some((_, keys)) => keys.push((position, key)),
            None => shards.push((shard, vec![(position, key)])),
        }
    }
    shards
}

/// Opens a file that the index names.
fn open(folder: &Path, shard: &str, access: FileAccess) -> Result<ParameterIndex> {
    let file: Arc<ParameterFile> = ParameterFile::open(&SafetensorsIndex::path_of(folder, shard)?, access)?;
    let mut found = ParameterIndex::new();
    super::safetensors::parse(&file, &mut found).context(|| "safetensors file")?;
    Ok(found)
}
