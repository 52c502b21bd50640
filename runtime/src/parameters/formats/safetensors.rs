//! `.safetensors`, the format of Hugging Face's models.

use std::sync::Arc;

use incarnate_gguf::SafetensorsFile;

use crate::Result;
use crate::parameters::file::ParameterFile;
use crate::parameters::index::{ParameterEntry, ParameterIndex, TensorFacts};

pub(super) fn parse(file: &Arc<ParameterFile>, index: &mut ParameterIndex) -> Result<()> {
    for tensor in SafetensorsFile::read(file.contents())?.tensors() {
        let facts = TensorFacts { element_type: tensor.element_type.clone(), shape: tensor.shape.clone() };
        let entry = ParameterEntry::in_file(tensor.name.clone(), file, tensor.offset, tensor.length)?;
        index.add(entry.with_tensor(facts))?;
    }
    Ok(())
}
