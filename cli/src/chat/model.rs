//! The module of a language model.

use incarnate_runtime::session::{Function, Session, SessionBuilder, Tensor};
use incarnate_runtime::{Error, Result, ResultExt as _};
use incarnate_text::{LanguageModel, Pooling};

use super::source::ModelSource;
use crate::program::AddModules;

/// The attributes of functions that state the number of positions, and that of slots.
const CONTEXT: &str = "incarnate.context";
const SLOTS: &str = "incarnate.slots";
/// The attribute of the function `embed`.
const POOLING: &str = "incarnate.pooling";

/// A module whose functions are those that incarnate-gguf imports.
#[derive(Debug)]
pub(crate) struct ModuleModel {
    session: Session,
    prefill: Function,
    decode: Function,
    embed: Option<(Function, Pooling)>,
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
        let function = |name| session.function(name).context(|| "the program is of no language model of a GGUF file");
        let (prefill, decode) = (function("prefill")?, function("decode")?);
        let stated = |name| {
            let number = decode.vm_function().attribute(name).and_then(|text| text.parse().ok());
            number.ok_or_else(|| Error::not_found(format!("the function @decode does not state its {name}")))
        };
        let (context, slots) = (stated(CONTEXT)?, stated(SLOTS)?);
        // Modules have this function where it was asked for.
        let embed = session.function("embed").ok().and_then(|embed| {
            let pooling = match embed.vm_function().attribute(POOLING)? {
                "mean" => Pooling::Mean,
                "last" => Pooling::Last,
                _ => return None,
            };
            Some((embed, pooling))
        });
        Ok(ModuleModel { session, prefill, decode, embed, context, slots, logits: Vec::new() })
    }

    fn tokens(&self, tokens: &[u32]) -> Result<Tensor<i32>> {
        let tokens = tokens.iter().map(|token| number(*token)).collect::<Result<Vec<i32>>>()?;
        Tensor::new(&self.session, &[tokens.len() as u64], &tokens)
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
                let tokens = self.tokens(tokens)?;
                self.prefill.call((&tokens, position, slot))?
            }
        };
        self.logits.resize(logits.len(), 0.0);
        logits.read(&mut self.logits)?;
        Ok(&mut self.logits)
    }

    fn pooling(&self) -> Option<Pooling> {
        self.embed.as_ref().map(|(_, pooling)| *pooling)
    }

    fn embed(&mut self, slot: usize, tokens: &[u32], position: usize) -> Result<Vec<f32>> {
        let (position, slot, tokens) = (number(position)?, number(slot)?, self.tokens(tokens)?);
        let (embed, _) =
            self.embed.as_mut().ok_or_else(|| Error::unimplemented("the module has no function @embed"))?;
        let embedding: Tensor<f32> = embed.call((&tokens, position, slot))?;
        let mut vector = vec![0.0; embedding.len()];
        embedding.read(&mut vector)?;
        Ok(vector)
    }
}
