//! `model.safetensors.index.json`: which of several files (`.safetensors`) has each tensor of a model.
//!
//! Source: `huggingface_hub`, which writes it with `save_torch_state_dict`. The object `weight_map` has the name of a file for each
//! tensor; other fields are not needed. The files are beside the index or in folders below it, and may be links, as in the cache of
//! Hugging Face. They may contain tensors that the index does not list.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};

use crate::parameters::file::{FileAccess, ParameterFile};
use crate::parameters::index::{ParameterEntry, ParameterIndex};
use crate::parameters::shown;
use crate::{Error, Result, ResultExt};

/// Largest index in bytes, enough for 100,000 tensors.
const INDEX_LIMIT: usize = 16 << 20;
/// The field with the names of files.
const MAP: &str = "weight_map";

/// Adds the tensors of an index. `access` is how the files are opened.
pub(super) fn parse(path: &Path, file: &ParameterFile, access: FileAccess, index: &mut ParameterIndex) -> Result<()> {
    let contents = file.contents();
    if contents.length() > INDEX_LIMIT {
        let why = format!("an index of {} bytes is above {INDEX_LIMIT}", contents.length());
        return Err(Error::resource_exhausted(why));
    }
    let text = contents.bytes(0..contents.length())?;
    let WeightMap(tensors) = serde_json::from_slice(&text)
        .map_err(|error| Error::invalid_argument(shown(&error.to_string()).to_string()))?;
    check_unique(&tensors)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut found: Vec<Option<ParameterEntry>> = vec![None; tensors.len()];
    for (shard, keys) in by_shard(&tensors) {
        let first = keys.first().map_or("", |(_, key)| key);
        let opened = open(folder, shard, access)
            .context(|| format!("the file '{}' of tensor '{}'", shown(shard), shown(first)))?;
        for (position, key) in keys {
            let entry = opened.get(key).ok_or_else(|| {
                let (key, shard) = (shown(key), shown(shard));
                Error::not_found(format!("tensor '{key}' is not in '{shard}', where {MAP} says it is"))
            })?;
            found.get_mut(position).map(|slot| slot.replace(entry.clone()));
        }
    }
    found.into_iter().flatten().try_for_each(|entry| index.add(entry))
}

/// Checks that no tensor is listed twice.
fn check_unique(tensors: &[(String, String)]) -> Result<()> {
    let mut seen = HashSet::new();
    match tensors.iter().find(|(key, _)| !seen.insert(key.as_str())) {
        Some((key, _)) => Err(Error::invalid_argument(format!("tensor '{}' is listed twice", shown(key)))),
        None => Ok(()),
    }
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
    // Each file has one name, so that it is opened once: without `.` and repeated separators. A name that only another system takes for
    // that of another folder is refused everywhere.
    let is_below = shard.split('/').all(|part| !matches!(part, "" | "." | ".."));
    if !is_below || shard.contains(['\\', ':', '\0']) {
        return Err(Error::invalid_argument(
            "the name is not that of a file in the folder of the index, such as `model-00001.safetensors` or `folder/model.safetensors`",
        ));
    }
    let name = Path::new(shard);
    let extension = name.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    if !extension.eq_ignore_ascii_case("safetensors") {
        return Err(Error::invalid_argument("the name does not end with .safetensors"));
    }
    let file: Arc<ParameterFile> = ParameterFile::open(&folder.join(name), access)?;
    let mut found = ParameterIndex::new();
    super::safetensors::parse(&file, &mut found).context(|| "safetensors file")?;
    Ok(found)
}

/// Tensors and their files, in the order of the index.
struct WeightMap(Vec<(String, String)>);

impl<'de> Deserialize<'de> for WeightMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> core::result::Result<WeightMap, D::Error> {
        deserializer.deserialize_map(OuterVisitor)
    }
}

/// Reads the object around the map.
struct OuterVisitor;

impl<'de> Visitor<'de> for OuterVisitor {
    type Value = WeightMap;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with the field {MAP}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> core::result::Result<WeightMap, A::Error> {
        let mut map = None;
        while let Some(key) = object.next_key::<String>()? {
            if key != MAP {
                object.next_value::<IgnoredAny>()?;
            } else if map.replace(object.next_value::<Pairs>()?).is_some() {
                return Err(A::Error::custom(format_args!("duplicate field {MAP}")));
            }
        }
        map.map(|pairs| WeightMap(pairs.0)).ok_or_else(|| {
            A::Error::custom(format_args!("the field {MAP} is missing: this is not an index of safetensors files"))
        })
    }
}

/// The fields of an object whose values are texts. Maps of `serde_json` would drop all but one of several fields of one name.
struct Pairs(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> core::result::Result<Pairs, D::Error> {
        deserializer.deserialize_map(PairsVisitor)
    }
}

struct PairsVisitor;

impl<'de> Visitor<'de> for PairsVisitor {
    type Value = Pairs;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of the name of a file for each tensor")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> core::result::Result<Pairs, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = object.next_entry()? {
            pairs.push(pair);
        }
        Ok(Pairs(pairs))
    }
}
