//! Models in the layout of Hugging Face: `config.json` as the metadata, and tensors with the names, that GGUF has for them.

mod experts;
mod facts;
mod family;
mod rope;
mod window;
mod wrapper;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;

use incarnate_bytecode::{Error, Result, ResultExt as _};

use super::checkpoint::{Checkpoint, Conventions, Stated, Stored};
use super::names::OUTPUT;
use crate::file::ARCHITECTURE_KEY;
use crate::{ElementType, ModelFolder, SafetensorsTensor, Value, shown};
use experts::ExpertTensors;
use facts::Facts;
use family::{Biases, Family};
use wrapper::Wrapper;

/// Keys that change no logits: settings of training and of programs, and tokens, which the tokenizer's files state, too.
const WITHOUT_EFFECT: &[&str] = &[
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_name_or_path",
    "architectures",
    "attention_dropout",
    "auto_map",
    "bos_token_id",
    "cache_implementation",
    "dtype",
    "embd_pdrop",
    "eos_token_id",
    "full_attn_mod",
    "initializer_range",
    "interpolate_factor",
    "is_llama_config",
    "output_attentions",
    "output_hidden_states",
    "pad_token_id",
    "pretraining_tp",
    "resid_pdrop",
    "return_dict",
    "tokenizer_class",
    "torch_dtype",
    "transformers.js_config",
    "transformers_version",
    "unsloth_fixed",
    "unsloth_version",
    "use_cache",
];
/// Keys that must be false where they are.
const REFUSED: &[&str] = &[
    "rope_interleaved",
    "use_bidirectional_attention",
    "is_encoder_decoder",
    "add_cross_attention",
    "lm_head_bias",
    "use_mrope",
];

/// Keys that state biases, of attention and of the feed-forward network.
const BIASES: [&str; 2] = ["attention_bias", "mlp_bias"];

/// Translates `config.json` and the list of tensors.
///
/// # Errors
/// UNIMPLEMENTED for models that are not supported, and for values that are not understood; INVALID_ARGUMENT and NOT_FOUND for damaged files.
pub(super) fn checkpoint(config: &[u8], tensors: &[SafetensorsTensor]) -> Result<Checkpoint> {
    let wrong = |error: serde_json::Error| Error::invalid_argument(shown(&error.to_string()));
    let context = || ModelFolder::CONFIG;
    let object = serde_json::from_slice(config).map_err(wrong).context(context)?;
    let facts = Facts::new(&object, String::new());
    let read = move || {
        let model_type = facts.text("model_type")?.ok_or_else(|| Error::not_found("there is no 'model_type'"))?;
        let wrapper = Wrapper::named(model_type);
        let (facts, model_type) = match wrapper {
            Some(wrapper) => wrapper.text(&facts)?,
            None => (facts, model_type),
        };
        let family = Family::named(model_type).ok_or_else(|| {
            let known: Vec<&str> = Family::names_of_all().chain(Wrapper::names_of_all()).collect();
            let (name, known) = (shown(model_type), known.join(", "));
            Error::unimplemented(format!("the model type '{name}' is not supported; these are: {known}"))
        })?;
        let (mut names, norm_offset) = (family.names, family.norm_offset);
        if wrapper.is_some() {
            names.placement = Wrapper::placement(tensors);
        }
        let mut checkpoint = Checkpoint::new(Conventions { names, has_halves: true, norm_offset });
        let sizes = Sizes::read(&facts, family)?;
        // Each layer has tensors, so that what follows is no longer than their list.
        if sizes.layers > tensors.len() as u64 {
            let (layers, count) = (sizes.layers, tensors.len());
            return Err(Error::invalid_argument(format!(
                "'num_hidden_layers' is {layers}, and there are {count} tensors"
            )));
        }
        Translation { facts: &facts, family, checkpoint: &mut checkpoint }.metadata(&sizes)?;
        if let Some(wrapper) = wrapper {
            checkpoint.set_left_out(wrapper.without);
        }
        Ok::<_, Error>((family, checkpoint, sizes))
    };
    let (family, mut checkpoint, sizes) = read().context(context)?;
    let is_of_model =
        |tensor: &&SafetensorsTensor| checkpoint.left_out().is_none() || !Wrapper::leaves_out(&tensor.name);
    let tensors: Vec<&SafetensorsTensor> = tensors.iter().filter(is_of_model).collect();
    add_tensors(&mut checkpoint, family, &sizes, &tensors)?;
    Ok(checkpoint)
}

/// What the tensors of a model depend on, too.
struct Sizes {
    layers: u64,
    width: u64,
    heads: u64,
    key_heads: u64,
    head_size: u64,
    context: u64,
    /// Whether the embedding is the weight of the logits.
    is_tied: bool,
    /// The number of experts; 0 without them.
    experts: u64,
    /// The projections that have biases, by the names that GGUF has for them.
    biases: Vec<&'static str>,
}

impl Sizes {
    fn read(facts: &Facts<'_>, family: &Family) -> Result<Sizes> {
        let [default_heads, default_key_heads] = family.heads.map_or([None; 2], |heads| heads.map(Some));
        let (width, heads) = (facts.size("hidden_size")?, facts.size_or("num_attention_heads", default_heads)?);
        let default_key_heads = default_key_heads.or(family.has_default_key_heads.then_some(heads));
        let head_size = facts.count("head_dim")?.or(family.head_size).unwrap_or(width / heads);
        let (attention, network) = (["attn_q", "attn_k", "attn_v", "attn_output"], ["ffn_gate", "ffn_up", "ffn_down"]);
        let mut biases = Vec::new();
        match family.biases {
            Biases::Never => BIASES.iter().try_for_each(|key| facts.refuse(key))?,
            Biases::OfHeads => {
                BIASES.iter().try_for_each(|key| facts.refuse(key))?;
                biases.extend(&attention[..3]);
            }
            Biases::OfHeadsUnlessStated => {
                BIASES.iter().try_for_each(|key| facts.refuse(key))?;
                if facts.flag("qkv_bias", true)? {
                    biases.extend(&attention[..3]);
                }
            }
            Biases::Stated { also_of_network } => {
                let [of_attention, of_network] = BIASES;
                if facts.flag(of_attention, false)? {
                    biases.extend(attention);
                }
                if also_of_network && facts.flag(of_network, false)? {
                    biases.extend(network);
                }
            }
        }
        Ok(Sizes {
            layers: facts.size("num_hidden_layers")?,
            width,
            heads,
            key_heads: facts.size_or("num_key_value_heads", default_key_heads)?,
            head_size,
            context: facts.size_or("max_position_embeddings", family.positions)?,
            is_tied: facts.flag("tie_word_embeddings", family.is_tied)?,
            experts: match family.experts {
                Some(_) => experts::count(facts)?,
                None => 0,
            },
            biases,
        })
    }
}

/// The translation of a `config.json`.
struct Translation<'a> {
    facts: &'a Facts<'a>,
    family: &'a Family,
    checkpoint: &'a mut Checkpoint,
}

impl Translation<'_> {
    /// Translates all values.
    fn metadata(&mut self, sizes: &Sizes) -> Result<()> {
        let Translation { facts, family, .. } = *self;
        let architecture = Value::String(family.architecture.to_owned());
        self.checkpoint.state(ARCHITECTURE_KEY, Stated::One(architecture));
        for (name, count) in [
            ("embedding_length", sizes.width),
            ("block_count", sizes.layers),
            ("feed_forward_length", facts.size("intermediate_size")?),
            ("context_length", sizes.context),
            ("attention.head_count", sizes.heads),
            ("attention.head_count_kv", sizes.key_heads),
            ("attention.key_length", sizes.head_size),
        ] {
            self.count(name, count);
        }
        self.number("attention.layer_norm_rms_epsilon", facts.positive("rms_norm_eps", family.norm_epsilon)?);
        if let Some(rule) = family.experts {
            for (name, stated) in experts::metadata(facts, rule, sizes.experts)? {
                self.state(name, Stated::One(stated));
            }
        }
        self.activation()?;
        self.rotation(sizes)?;
        self.window(sizes.layers)?;
        for (key, name, default) in family.factors {
            self.number(name, facts.positive(key, *default)?);
        }
        if let Some([scores, logits]) = family.soft_caps {
            // A value that is `null` stands for no cap, and one that is not there for the default.
            for (key, name, default) in [
                ("attn_logit_softcapping", "attn_logit_softcapping", scores),
                ("final_logit_softcapping", "final_logit_softcapping", logits),
            ] {
                let default = if facts.is_null(key) { 0.0 } else { default };
                self.number(name, facts.number(key)?.unwrap_or(default));
            }
        }
        if let Some(default) = family.query_scalar {
            self.number("attention.scale", facts.positive("query_pre_attn_scalar", default)?.sqrt().recip());
        }
        // The embedding says how many tokens there are.
        facts.count("vocab_size")?;
        facts.ignore(WITHOUT_EFFECT);
        REFUSED.iter().try_for_each(|key| facts.refuse(key))?;
        facts.check()
    }

    fn state(&mut self, name: &str, stated: Stated) {
        self.checkpoint.state(&format!("{}.{name}", self.family.architecture), stated);
    }

    fn count(&mut self, name: &str, count: u64) {
        self.state(name, Stated::One(Value::Integer(i128::from(count))));
    }

    fn number(&mut self, name: &str, number: f64) {
        self.state(name, Stated::One(Value::Float(number)));
    }

    fn activation(&self) -> Result<()> {
        for (key, supported) in ["hidden_act", "hidden_activation"].into_iter().zip(self.family.activations) {
            // A key that is not one of the family is left for the check.
            let activation = if supported.is_empty() { None } else { self.facts.text(key)? };
            if let Some(activation) = activation.filter(|activation| !supported.contains(activation)) {
                return Err(Error::unimplemented(format!("'{key}' of '{}'", shown(activation))));
            }
        }
        Ok(())
    }

    fn rotation(&mut self, sizes: &Sizes) -> Result<()> {
        let rope = rope::read(self.facts, self.family.rotation, (sizes.head_size, sizes.context))?;
        self.count("rope.dimension_count", rope.rotated);
        self.number("rope.freq_base", rope.bases.0);
        if let Some(base) = rope.bases.1 {
            self.number("rope.freq_base_swa", base);
        }
        if let Some(scaling) = rope.scaling {
            self.state("rope.scaling.type", Stated::One(Value::String(scaling.to_owned())));
        }
        if let Some(original) = rope.original {
            self.count("rope.scaling.original_context_length", original);
        }
        for (name, number) in rope.numbers {
            self.number(&format!("rope.scaling.{name}"), number);
        }
        for (name, divisors) in rope.divisors {
            self.checkpoint.set_vector(name, divisors);
        }
        match self.family.rotation.period {
            Some(period) => check_rotated_layers(self.facts, sizes.layers, period),
            None => Ok(()),
        }
    }

    fn window(&mut self, layers: u64) -> Result<()> {
        let window = window::read(self.facts, self.family.window, layers)?;
        self.count("attention.sliding_window", window.size);
        if let Some(layers) = window.layers {
            let layers = layers.into_iter().map(Value::Bool).collect();
            self.state("attention.sliding_window_pattern", Stated::Many(layers));
        }
        Ok(())
    }
}

/// Checks that all layers but the last one of each period have rotary embeddings.
fn check_rotated_layers(facts: &Facts<'_>, layers: u64, period: u64) -> Result<()> {
    let stated = facts.count("no_rope_layer_interval")?.unwrap_or(period);
    let flags = facts.list("no_rope_layers", "numbers", serde_json::Value::as_u64)?;
    let is_supported = match flags {
        None => stated == period,
        Some(flags) => {
            let expected = (1..=layers).map(|layer| u64::from(!layer.is_multiple_of(period)));
            expected.eq(flags.into_iter().take(usize::try_from(layers).unwrap_or(usize::MAX)))
        }
    };
    match is_supported {
        true => Ok(()),
        false => Err(Error::unimplemented(format!("'no_rope_layers' other than each one of {period}"))),
    }
}

/// Adds the tensors of a model, with the names that GGUF has for them.
fn add_tensors(
    checkpoint: &mut Checkpoint,
    family: &Family,
    sizes: &Sizes,
    tensors: &[&SafetensorsTensor],
) -> Result<()> {
    let names = checkpoint.conventions.names;
    let mut experts = names.experts.map(|experts| ExpertTensors::new(experts, names.placement, sizes.experts));
    for tensor in tensors {
        let key = shown(&tensor.name);
        // A table that older versions of `transformers` kept.
        if tensor.name.ends_with(".rotary_emb.inv_freq") {
            continue;
        }
        if experts.as_mut().map_or(Ok(false), |experts| experts.add(tensor))? {
            continue;
        }
        let Some(name) = names.of_gguf(&tensor.name) else {
            let kind = family.model_type;
            return Err(Error::unimplemented(format!("the tensor '{key}' of the model type '{kind}'")));
        };
        // The embedding is the weight of the logits, whatever the file has.
        if sizes.is_tied && name == OUTPUT {
            continue;
        }
        let has_bias = |part: &&str| name.strip_suffix(".bias").is_some_and(|name| name.ends_with(&format!(".{part}")));
        if name.ends_with(".bias") && !sizes.biases.iter().any(has_bias) {
            return Err(Error::invalid_argument(format!("the tensor '{key}' is a bias, and config.json states none")));
        }
        let shape = match &tensor.shape[..] {
            // The row of a projection to one number.
            [1, length] if name.ends_with(".ffn_gate_inp_shexp.weight") => vec![*length],
            shape => shape.to_vec(),
        };
        checkpoint.add(Stored { name, key: tensor.name.clone(), element_type: element_type(tensor)?, shape });
    }
    if let Some(experts) = experts {
        experts.add_to(checkpoint, sizes.layers)?;
    }
    let missing = |name: &str| Error::not_found(format!("the file has no tensor '{}'", names.key(name)));
    if !sizes.is_tied && checkpoint.tensor(OUTPUT).is_none() {
        return Err(missing(OUTPUT));
    }
    for layer in 0..sizes.layers {
        let biases = sizes.biases.iter().map(|part| format!("blk.{layer}.{part}.bias"));
        let is_shared = family.experts.is_some_and(|rule| rule.has_shared);
        let shared = ["ffn_up_shexp", "ffn_gate_inp_shexp"].into_iter().filter(|_| is_shared);
        for name in biases.chain(shared.map(|part| format!("blk.{layer}.{part}.weight"))) {
            checkpoint.tensor(&name).ok_or_else(|| missing(&name))?;
        }
    }
    Ok(())
}

/// Returns the element type of a tensor.
fn element_type(tensor: &SafetensorsTensor) -> Result<ElementType> {
    match tensor.element_type.as_str() {
        "F32" => Ok(ElementType::F32),
        "F16" => Ok(ElementType::F16),
        "BF16" => Ok(ElementType::Bf16),
        other => {
            let (key, other) = (shown(&tensor.name), shown(other));
            Err(Error::unimplemented(format!("the tensor '{key}' of {other}, not F32, F16 or BF16")))
        }
    }
}
