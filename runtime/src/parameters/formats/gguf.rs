//! GGUF, the format of ggml's models.

use std::sync::Arc;

use incarnate_gguf::GgufFile;

use crate::parameters::file::ParameterFile;
use crate::parameters::index::{ParameterEntry, ParameterIndex, TensorFacts};
use crate::{Error, Result};

pub(super) fn parse(file: &Arc<ParameterFile>, index: &mut ParameterIndex) -> Result<()> {
    let read = GgufFile::read(file.contents().clone())?;
    let tensors = read.tensors();
    let ranges = tensors.iter().filter_map(|tensor| Some((tensor.offset, tensor.length?, tensor.name.as_str())));
    super::check_disjoint(ranges.collect())?;
    for tensor in tensors {
        let name = tensor.name.clone();
        let facts = TensorFacts { element_type: tensor.element_type.to_string(), shape: tensor.shape.clone() };
        let entry = match tensor.length {
            Some(length) => ParameterEntry::in_file(name, file, tensor.offset, length)?,
            None => {
                let why = format!("GGUF file '{}' has it in the unknown element {}", file.name(), tensor.element_type);
                ParameterEntry::unreadable(name, Error::unimplemented(why))
            }
        };
        index.add(entry.with_tensor(facts))?;
    }
    Ok(())
}
