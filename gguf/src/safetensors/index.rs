//! `model.safetensors.index.json`: which of several files (`.safetensors`) has each tensor of a model.
//!
//! Source: `huggingface_hub`, which writes it with `save_torch_state_dict`. The object `weight_map` has the name of a file for each
//! tensor; other fields are not needed. The files are beside the index or in folders below it, and may be links, as in the cache of
//! Hugging Face. They may contain tensors that the index does not list.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};

use incarnate_bytecode::{Error, Result};
use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};

use crate::shown;

/// The field with the names of files.
const MAP: &str = "weight_map";

/// The names of the tensors of several `.safetensors` files, with that of the file of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SafetensorsIndex {
    tensors: Vec<(String, String)>,
}

impl SafetensorsIndex {
    /// Largest index in bytes, enough for 100,000 tensors.
    pub const LIMIT: usize = 16 << 20;

    /// Reads an index.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for damaged files, RESOURCE_EXHAUSTED for one that exceeds the limit.
    pub fn read(text: &[u8]) -> Result<SafetensorsIndex> {
        if text.len() > SafetensorsIndex::LIMIT {
            let why = format!("an index of {} bytes is above {}", text.len(), SafetensorsIndex::LIMIT);
            return Err(Error::resource_exhausted(why));
        }
        let WeightMap(tensors) =
            serde_json::from_slice(text).map_err(|error| Error::invalid_argument(shown(&error.to_string())))?;
        check_unique(&tensors)?;
        Ok(SafetensorsIndex { tensors })
    }

    /// Returns the name of each tensor and that of its file, in the order of the index.
    #[must_use]
    pub fn tensors(&self) -> &[(String, String)] {
        &self.tensors
    }

    /// Returns the path of a file that an index in a folder names.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for names that are not those of `.safetensors` files in the folder or below it.
    pub fn path_of(folder: &Path, file: &str) -> Result<PathBuf> {
        // Each file has one name, so that it is opened once: without `.` and repeated separators. A name that only another system takes for
        // that of another folder is refused everywhere.
        let is_below = file.split('/').all(|part| !matches!(part, "" | "." | ".."));
        if !is_below || file.contains(['\\', ':', '\0']) {
            return Err(Error::invalid_argument(
                "the name is not that of a file in the folder of the index, such as `model-00001.safetensors` or `folder/model.safetensors`",
            ));
        }
        let name = Path::new(file);
        let extension = name.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        if !extension.eq_ignore_ascii_case("safetensors") {
            return Err(Error::invalid_argument("the name does not end with .safetensors"));
        }
        Ok(folder.join(name))
    }
}

/// Checks that no tensor is listed twice.
fn check_unique(tensors: &[(String, String)]) -> Result<()> {
    let mut seen = HashSet::new();
    match tensors.iter().find(|(key, _)| !seen.insert(key.as_str())) {
        Some((key, _)) => Err(Error::invalid_argument(format!("tensor '{}' is listed twice", shown(key)))),
        None => Ok(()),
    }
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
