//! The module of a language model.

use std::path::Path;

use incarnate_gguf::SCOPE;
use incarnate_runtime::parameters::FileAccess;
use incarnate_runtime::session::{Function, Session, SessionBuilder, Tensor};
use incarnate_runtime::{Error, Result, ResultExt as _};
use incarnate_text::LanguageModel;

use crate::program::AddModules;

/// The attribute of functions that states the number of positions.
const CONTEXT: &str = "incarnate.context";

/// A module whose functions are those that incarnate-gguf imports, and the first of its slots.
#[derive(Debug)]
pub(super) struct ModuleModel {
    session: Session,
    prefill: Function,
    decode: Function,
    context: usize,
    logits: Vec<f32>,
}

impl ModuleModel {
    /// Loads the modules of a program, with the weights of a file, on a device.
    ///
    /// # Errors
    /// Errors of loading; NOT_FOUND if the program is of no language model.
    pub(super) fn load(weights: &Path, device: &str, add_modules: AddModules<'_>) -> Result<ModuleModel> {
        let builder = SessionBuilder::with_natives(crate::program::NATIVES).device(device);
        let session = add_modules(builder.parameter_file(SCOPE, weights, FileAccess::Map)).build()?;
        let function = |name| session.function(name).context(|| "the program is of no language model of a GGUF file");
        let (prefill, decode) = (function("prefill")?, function("decode")?);
        let context = decode.vm_function().attribute(CONTEXT).and_then(|text| text.parse().ok());
        let context = context
            .ok_or_else(|| Error::not_found(format!("the function @decode does not state its context ({CONTEXT})")))?;
        Ok(ModuleModel { session, prefill, decode, context, logits: Vec::new() })
    }
}

fn number(value: impl TryInto<i32>) -> Result<i32> {
    value.try_into().map_err(|_| Error::out_of_range("a token or a position exceeds 31 bits"))
}

impl LanguageModel for ModuleModel {
    fn context(&self) -> usize {
        self.context
    }

    fn logits(&mut self, tokens: &[u32], position: usize) -> Result<&mut [f32]> {
        let (position, slot) = (number(position)?, 0);
        let logits: Tensor<f32> = match tokens {
            [token] => self.decode.call((number(*token)?, position, slot))?,
            _ => {
                let tokens = tokens.iter().map(|token| number(*token)).collect::<Result<Vec<i32>>>()?;
                let tokens = Tensor::new(&self.session, &[tokens.len() as u64], &tokens)?;
                self.prefill.call((&tokens, position, slot))?
            }
        };
        self.logits.resize(logits.len(), 0.0);
        logits.read(&mut self.logits)?;
        Ok(&mut self.logits)
    }
}
