//! Models of several modalities, of which the language model is taken. Source: the configurations of Hugging Face's `transformers`, and its
//! `conversion_mapping.py`, which has the names of the tensors of older and newer files.

use incarnate_bytecode::{Error, Result};

use super::super::names::Placement;
use super::WITHOUT_EFFECT;
use super::facts::Facts;
use crate::{SafetensorsTensor, shown};

/// A kind of models with a language model in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wrapper {
    model_type: &'static str,
    /// The value of `model_type` of the language model.
    text_type: &'static str,
    /// The default of `tie_word_embeddings`.
    is_tied: bool,
    /// Keys of the parts that are left out.
    keys: &'static [&'static str],
    /// What the language model is without.
    pub(super) without: &'static str,
}

const TEXT: &str = "text_config";
const TIED: &str = "tie_word_embeddings";
/// A key of language models that these wrappers do not read.
const LOGIT_CAP: &str = "final_logit_softcapping";
/// Names of tensors of other parts, in older files; newer ones have them within `model.`.
const OTHER_PARTS: [&str; 2] = ["vision_tower.", "multi_modal_projector."];

const WRAPPERS: &[Wrapper] = &[Wrapper {
    model_type: "gemma3",
    text_type: "gemma3_text",
    is_tied: true,
    keys: &["boi_token_index", "eoi_token_index", "image_token_index", "mm_tokens_per_image", "vision_config"],
    without: "images",
}];

impl Wrapper {
    /// Finds a kind of models by its name.
    pub(super) fn named(model_type: &str) -> Option<&'static Wrapper> {
        WRAPPERS.iter().find(|wrapper| wrapper.model_type == model_type)
    }

    /// Lists the names.
    pub(super) fn names_of_all() -> impl Iterator<Item = &'static str> {
        WRAPPERS.iter().map(|wrapper| wrapper.model_type)
    }

    /// Returns the configuration of the language model, and its kind. Checks the other values.
    pub(super) fn text<'a>(&self, facts: &Facts<'a>) -> Result<(Facts<'a>, &'static str)> {
        let text = facts.object(TEXT)?.ok_or_else(|| Error::not_found(format!("there is no '{TEXT}'")))?;
        if let Some(other) = text.text("model_type")?.filter(|other| *other != self.text_type) {
            let (key, other) = (text.key("model_type"), shown(other));
            return Err(Error::unimplemented(format!("'{key}' of '{other}', not '{}'", self.text_type)));
        }
        let is_tied = facts.flag(TIED, self.is_tied)?;
        if text.flag(TIED, self.is_tied)? != is_tied {
            return Err(Error::invalid_argument(format!("'{TIED}' is {is_tied}, but not '{}'", text.key(TIED))));
        }
        if text.number(LOGIT_CAP)?.is_some() {
            return Err(Error::unimplemented(format!("'{}'", text.key(LOGIT_CAP))));
        }
        facts.ignore(WITHOUT_EFFECT);
        facts.ignore(self.keys);
        facts.check()?;
        Ok((text, self.text_type))
    }

    /// Returns where the tensors of the language model are.
    pub(super) fn placement(tensors: &[SafetensorsTensor]) -> Placement {
        let is_old = tensors.iter().any(|tensor| tensor.name.starts_with(Placement::WITHIN.model));
        if is_old { Placement::WITHIN } else { Placement::WITHIN_MODEL }
    }

    /// Whether a tensor is one of a part that is left out.
    pub(super) fn leaves_out(name: &str) -> bool {
        let name = name.strip_prefix("model.").unwrap_or(name);
        OTHER_PARTS.iter().any(|part| name.starts_with(part))
    }
}
