//! The module of a language model.

use incarnate_runtime::session::{Function, Session, SessionBuilder, Tensor, ToValue};
use incarnate_runtime::{Error, Result, ResultExt as _};
use incarnate_text::{LanguageModel, Pooling, Step};

use super::source::ModelSource;
use crate::program::AddModules;

/// The attributes of functions that state the number of positions, that of slots, and that of the tokens of a batch.
const CONTEXT: &str = "incarnate.context";
const SLOTS: &str = "incarnate.slots";
const BATCH: &str = "incarnate.batch";

/// A batch takes about as long as this part of its tokens one by one: below it, steps are computed one by one.
const SINGLE_STEPS: usize = 3;
/// The attribute of the function `embed`.
const POOLING: &str = "incarnate.pooling";

/// A module whose functions are those that incarnate-gguf imports.
#[derive(Debug)]
pub(crate) struct ModuleModel {
    session: Session,
    prefill: Function,
    decode: Function,
    /// The function for the next tokens of several slots, and their number, where the module has it.
    decode_batch: Option<(Function, usize)>,
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
        let function = |name| session.function(name).context(|| "the program is of no language model");
        let (prefill, decode) = (function("prefill")?, function("decode")?);
        let stated = |name| {
            let number = decode.vm_function().attribute(name).and_then(|text| text.parse().ok());
            number.ok_or_else(|| Error::not_found(format!("the function @decode does not state its {name}")))
        };
        let (context, slots) = (stated(CONTEXT)?, stated(SLOTS)?);
        let decode_batch = session.function("decode_batch").ok().and_then(|function| {
            let count = function.vm_function().attribute(BATCH)?.parse().ok().filter(|count| *count > 0)?;
            Some((function, count))
        });
        // Modules have this function where it was asked for.
        let embed = session.function("embed").ok().and_then(|embed| {
            let pooling = match embed.vm_function().attribute(POOLING)? {
                "mean" => Pooling::Mean,
                "last" => Pooling::Last,
                _ => return None,
            };
            Some((embed, pooling))
        });
        Ok(ModuleModel { session, prefill, decode, decode_batch, embed, context, slots, logits: Vec::new() })
    }

    /// Computes the logits behind at most as many tokens as a batch has, each of a slot of its own.
    fn logits_of_batch(&mut self, steps: &[Step]) -> Result<&mut [f32]> {
        let (function, count) = self.decode_batch.as_ref().ok_or_else(|| Error::internal("no function for batches"))?;
        // A step that is computed twice changes nothing.
        let steps: Vec<&Step> = (0..*count).filter_map(|at| steps.get(at).or(steps.last())).collect();
        let of_steps =
            |value: &dyn Fn(&Step) -> Result<i32>| steps.iter().map(|step| value(step)).collect::<Result<Vec<i32>>>();
        let tokens: Vec<u32> = steps.iter().map(|step| step.token).collect();
        let numbers = [of_steps(&|step| number(step.position))?, of_steps(&|step| number(step.slot))?].concat();
        let tokens = self.tokens(&tokens)?;
        let mut arguments: Vec<&dyn ToValue> = vec![&tokens];
        arguments.extend(numbers.iter().map(|number| number as &dyn ToValue));
        let logits = function.call(&arguments[..])?;
        self.read(&logits)
    }

    fn read(&mut self, logits: &Tensor<f32>) -> Result<&mut [f32]> {
        self.logits.resize(logits.len(), 0.0);
        logits.read(&mut self.logits)?;
        Ok(&mut self.logits)
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
        self.read(&logits)
    }

    fn logits_of_steps(&mut self, steps: &[Step], receive: &mut dyn FnMut(usize, &mut [f32])) -> Result<()> {
        let batch = self.decode_batch.as_ref().map_or(1, |(_, count)| *count);
        for (chunk, first) in steps.chunks(batch).zip((0..).step_by(batch)) {
            if chunk.len() == 1 || chunk.len() * SINGLE_STEPS <= batch {
                for (number, step) in chunk.iter().enumerate() {
                    receive(first + number, self.logits(step.slot, &[step.token], step.position)?);
                }
                continue;
            }
            let logits = self.logits_of_batch(chunk)?;
            let count = logits.len() / batch;
            for (number, logits) in logits.chunks_mut(count).take(chunk.len()).enumerate() {
                receive(first + number, logits);
            }
        }
        Ok(())
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::path::Path;

    use super::*;

    fn fixture() -> ModuleModel {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models/language_model");
        let source = ModelSource::find(Some(&fixture.join("model.gguf"))).unwrap();
        let module = fixture.join("vmvx.vmfb");
        ModuleModel::load(&source, "local-sync", &|builder| builder.module_file(&module)).unwrap()
    }

    #[test]
    fn steps_of_a_batch_have_the_logits_of_single_steps() {
        let steps = [Step { slot: 1, token: 7, position: 3 }, Step { slot: 0, token: 44, position: 1 }];
        let read = |model: &mut ModuleModel| {
            model.logits(1, &[1, 2, 3], 0).unwrap();
            model.logits(0, &[5], 0).unwrap();
        };
        let (mut single, mut together) = (fixture(), fixture());
        assert_eq!(together.decode_batch.as_ref().map(|(_, count)| *count), Some(2));
        read(&mut single);
        read(&mut together);
        let expected = steps.map(|step| single.logits(step.slot, &[step.token], step.position).unwrap().to_vec());
        let mut received = vec![Vec::new(); 2];
        together.logits_of_steps(&steps, &mut |number, logits| received[number] = logits.to_vec()).unwrap();
        for (received, expected) in received.iter().zip(&expected) {
            assert_eq!(received.len(), expected.len());
            let differ = received.iter().zip(expected).map(|(one, other)| (one - other).abs());
            assert!(differ.fold(0.0, f32::max) < 1e-3, "{received:?} {expected:?}");
        }
        assert!(received[0] != received[1]);
        let beyond = [Step { slot: 0, token: 1, position: 64 }, steps[0]];
        assert!(together.logits_of_steps(&beyond, &mut |_, _| ()).is_err());
    }
}
