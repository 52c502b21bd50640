//! `model.safetensors.index.json`: which of several files (`.safetensors`) has each tensor of a model.
//!
//! Source: `huggingface_hub`, which writes it with `save_torch_state_dict`. The object `weight_map` has the name of a file for each
//! tensor; other fields are not needed. The files are beside the index or in folders below it, and may be links, as in the cache of
//! Hugging Face. They may contain tensors that the index does not list.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::{Component, Path};
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};

use crate::parameters::file::{FileAccess, ParameterFile};
use crate::parameters::index::ParameterIndex;
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
    let map: WeightMap = serde_json::from_slice(&text)
        .map_err(|error| Error::invalid_argument(error.to_string().escape_debug().to_string()))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut shards: HashMap<&str, ParameterIndex> = HashMap::new();
    for (key, shard) in &map.0 {
        if !shards.contains_key(shard.as_str()) {
            let opened = open(folder, shard, access)
                .context(|| format!("the file '{}' of tensor '{}'", shown(shard), shown(key)))?;
            shards.insert(shard, opened);
        }
        let entry = shards.get(shard.as_str()).and_then(|found| found.get(key)).ok_or_else(|| {
            Error::not_found(format!("tensor '{}' is not in '{}', where {MAP} says it is", shown(key), shown(shard)))
        })?;
        index.add(entry.clone())?;
    }
    Ok(())
}

/// Opens a file that the index names.
fn open(folder: &Path, shard: &str, access: FileAccess) -> Result<ParameterIndex> {
    let name = Path::new(shard);
    let is_below = name.components().all(|part| matches!(part, Component::Normal(_)));
    // A name that only another system takes for one of another folder is refused everywhere.
    if shard.is_empty() || !is_below || shard.contains(['\\', ':', '\0']) {
        return Err(Error::invalid_argument("the name is not that of a file in the folder of the index"));
    }
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
        let (mut pairs, mut seen) = (Vec::new(), HashSet::new());
        while let Some((key, value)) = object.next_entry::<String, String>()? {
            if !seen.insert(key.clone()) {
                return Err(A::Error::custom(format_args!("tensor `{key}` is listed twice")));
            }
            pairs.push((key, value));
        }
        Ok(Pairs(pairs))
    }
}
