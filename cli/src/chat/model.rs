//! The module of a language model.

use incarnate_runtime::session::{Function, Session, SessionBuilder, Tensor};
use incarnate_runtime::{Error, Result, ResultExt as _};
use incarnate_text::LanguageModel;

use super::source::ModelSource;
use crate::program::AddModules;

/// The attributes of functions that state the number of positions, and that of slots.
const CONTEXT: &str = "incarnate.context";
const SLOTS: &str = "incarnate.slots";

/// A module whose functions are those that incarnate-gguf imports.
#[derive(Debug)]
pub(crate) struct ModuleModel {
    session: Session,
    prefill: Function,
    decode: Function,
    context: usize,
    slots: usize,
    logits: Vec<f32>,
}

impl ModuleModel {
    /// Loads the modules of a program, with the weights of a model, on a device.
    ///
    /// # Errors
    /// Errors of loading; NOT_FOUND if the program is of no language model.
    pub(crate) fn load(weights: &ModelSource, device: &str, add_modules: AddModules<'_>) -> Result<ModuleModel> {
        let builder = SessionBuilder::with_natives(crate::program::NATIVES).device(device);
        let session = add_modules(weights.add_to(builder)?).build()?;
        let function = |name| session.function(name).context(|| "the program is of no language model");
        let (prefill, decode) = (function("prefill")?, function("decode")?);
        let stated = |name| {
            let number = decode.vm_function().attribute(name).and_then(|text| text.parse().ok());
            number.ok_or_else(|| Error::not_found(format!("the function @decode does not state its {name}")))
        };
        let (context, slots) = (stated(CONTEXT)?, stated(SLOTS)?);
        Ok(ModuleModel { session, prefill, decode, context, slots, logits: Vec::new() })
    }
}

fn number(value: impl TryInto<i32>) -> Result<i32> {
    value.try_into().map_err(|_| Error::out_of_range("a token, a position or a slot exceeds 31 bits"))
}

impl LanguageModel for ModuleModel {
    fn context(&self) -> usize {
        self.context
    }

    fn slots(&self) -> usize {
        self.slots
    }

    fn logits(&mut self, slot: usize, tokens: &[u32], position: usize) -> Result<&mut [f32]> {
        let (position, slot) = (number(position)?, number(slot)?);
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
