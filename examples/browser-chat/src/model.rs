//! The translated model.

use std::sync::Arc;

use incarnate::runtime::bytecode::Contents;
use incarnate::runtime::parameters::{ArchiveFormat, ParameterFile, ParameterIndex, ScopedIndex};
use incarnate::runtime::session::{Native, natives};
use incarnate::{Device, Error, Result, SessionBuilder};
use incarnate_gguf::SCOPE;
use incarnate_gguf::attributes::CONTEXT;
use incarnate_text::LanguageModel;

/// The output of the build script.
mod language_model {
    include!(concat!(env!("OUT_DIR"), "/language_model.rs"));
}

/// The native modules that language models import.
const NATIVES: &[Native] = &[natives::direct::HAL, natives::direct::IO_PARAMETERS];
/// The slot of the only conversation.
const SLOT: i32 = 0;

/// The model, with the keys and values of one conversation.
#[derive(Debug)]
pub(crate) struct TranslatedModel {
    module: language_model::Module,
    context: usize,
    logits: Vec<f32>,
}

impl TranslatedModel {
    /// Loads the model with the weights of a GGUF file, which are used in place.
    ///
    /// # Errors
    /// NOT_FOUND for the file of another model; errors of a damaged file.
    pub(crate) fn load(file: Arc<Contents>) -> Result<TranslatedModel> {
        let mut weights = ParameterIndex::new();
        weights.add_archive(&ParameterFile::from_contents("the model's file", file), ArchiveFormat::Gguf)?;
        // With this name alone, no other device is linked.
        let device = Device::create("local-sync")?;
        let builder = SessionBuilder::with_natives(NATIVES).shared_device(device);
        let module = language_model::Module::load_with(builder.parameters(ScopedIndex::new(SCOPE, weights)))?;
        let decode = module.session().function("decode")?;
        let context = decode.vm_function().attribute(CONTEXT).and_then(|text| text.parse().ok());
        let context = context.ok_or_else(|| Error::not_found(format!("@decode does not state its {CONTEXT}")))?;
        Ok(TranslatedModel { module, context, logits: Vec::new() })
    }
}

impl LanguageModel for TranslatedModel {
    fn context(&self) -> usize {
        self.context
    }

    fn logits(&mut self, _slot: usize, tokens: &[u32], position: usize) -> Result<&mut [f32]> {
        let position = number(position)?;
        let logits = match tokens {
            [token] => self.module.decode(number(*token)?, position, SLOT)?,
            _ => {
                let tokens = tokens.iter().map(|token| number(*token)).collect::<Result<Vec<i32>>>()?;
                self.module.prefill(&tokens, position, SLOT)?
            }
        };
        self.logits.resize(logits.len(), 0.0);
        logits.read(&mut self.logits)?;
        Ok(&mut self.logits)
    }
}

fn number(value: impl TryInto<i32>) -> Result<i32> {
    value.try_into().map_err(|_| Error::out_of_range("a token or a position exceeds 31 bits"))
}
