//! Names of tensors in the layout of Hugging Face, and those that GGUF has for them. Source: `TensorNameMap` of ggml's Python package, and
//! the models of Hugging Face's `transformers`.

/// The names of a file's tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Names {
    /// Names within a layer, without `.weight` and `.bias`, with those of GGUF; none where all names are those of GGUF.
    layer: &'static [&'static [(&'static str, &'static str)]],
    /// Those of experts, where each is stored by itself.
    pub(super) experts: Option<ExpertNames>,
    pub(super) placement: Placement,
}

/// Where the tensors of a language model are among those of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placement {
    /// The prefix of all but the weight of the logits.
    pub(super) model: &'static str,
    /// The weight of the logits.
    output: &'static str,
}

impl Placement {
    /// A file of a language model.
    const ALONE: Placement = Placement { model: "model.", output: "lm_head.weight" };
    /// An older file of a model of several modalities.
    pub(super) const WITHIN: Placement =
        Placement { model: "language_model.model.", output: "language_model.lm_head.weight" };
    /// A newer file of a model of several modalities.
    pub(super) const WITHIN_MODEL: Placement = Placement { model: "model.language_model.", output: "lm_head.weight" };
}

impl Default for Placement {
    fn default() -> Placement {
        Placement::ALONE
    }
}

/// The names of the tensors of experts, within a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ExpertNames {
    /// The name before the number of an expert.
    within: &'static str,
    /// The gate, `up` and `down`.
    parts: [&'static str; 3],
}

/// Names outside of layers, behind the prefix of the placement.
const OUTSIDE: &[(&str, &str)] = &[("embed_tokens.weight", "token_embd.weight"), ("norm.weight", "output_norm.weight")];
/// The weight of the logits.
pub(super) const OUTPUT: &str = "output.weight";
const LAYERS: [&str; 2] = ["layers.", "blk."];
const KINDS: [&str; 2] = ["weight", "bias"];

const ATTENTION: &[(&str, &str)] = &[
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.o_proj", "attn_output"),
];
const NETWORK: &[(&str, &str)] =
    &[("mlp.gate_proj", "ffn_gate"), ("mlp.up_proj", "ffn_up"), ("mlp.down_proj", "ffn_down")];
const HEAD_NORMS: &[(&str, &str)] = &[("self_attn.q_norm", "attn_q_norm"), ("self_attn.k_norm", "attn_k_norm")];
const NORMS: &[(&str, &str)] = &[("input_layernorm", "attn_norm"), ("post_attention_layernorm", "ffn_norm")];
const POST_NORMS: &[(&str, &str)] =
    &[("post_attention_layernorm", "post_attention_norm"), ("post_feedforward_layernorm", "post_ffw_norm")];
const NORMS_BEFORE: &[(&str, &str)] = &[("input_layernorm", "attn_norm"), ("pre_feedforward_layernorm", "ffn_norm")];
const JOINED: &[(&str, &str)] = &[
    ("self_attn.qkv_proj", "attn_qkv"),
    ("self_attn.o_proj", "attn_output"),
    ("mlp.gate_up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
];

const ROUTER: &[(&str, &str)] = &[("mlp.gate", "ffn_gate_inp")];
const ROUTER_OF_MIXTRAL: &[(&str, &str)] = &[("block_sparse_moe.gate", "ffn_gate_inp")];
const SHARED_EXPERT: &[(&str, &str)] = &[
    ("mlp.shared_expert.gate_proj", "ffn_gate_shexp"),
    ("mlp.shared_expert.up_proj", "ffn_up_shexp"),
    ("mlp.shared_expert.down_proj", "ffn_down_shexp"),
    ("mlp.shared_expert_gate", "ffn_gate_inp_shexp"),
];
const STACKED_EXPERTS: &[(&str, &str)] = &[
    ("block_sparse_moe.router.layer", "ffn_gate_inp"),
    ("block_sparse_moe.input_linear", "ffn_gate_up_exps"),
    ("block_sparse_moe.output_linear", "ffn_down_exps"),
];
const EXPERTS: ExpertNames = ExpertNames { within: "mlp.experts", parts: ["gate_proj", "up_proj", "down_proj"] };
const EXPERTS_OF_MIXTRAL: ExpertNames = ExpertNames { within: "block_sparse_moe.experts", parts: ["w1", "w3", "w2"] };

/// Parses a number without leading zeros.
fn number(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| is_plain)
}

impl ExpertNames {
    /// Returns the layer, the expert and the part (gate, `up` or `down`) of a tensor.
    pub(super) fn parse(self, placement: Placement, key: &str) -> Option<(u64, u64, usize)> {
        let (layer, rest) = key.strip_prefix(placement.model)?.strip_prefix(LAYERS[0])?.split_once('.')?;
        let rest = rest.strip_prefix(self.within)?.strip_prefix('.')?;
        let (expert, part) = rest.strip_suffix(".weight")?.split_once('.')?;
        let part = self.parts.iter().position(|name| *name == part)?;
        Some((number(layer)?, number(expert)?, part))
    }

    /// Returns the name of the tensors of several experts and parts: with braces if there are several, see
    /// `incarnate_runtime::parameters::ParameterIndex`.
    pub(super) fn key(self, placement: Placement, layer: u64, experts: &[u64], parts: &[usize]) -> String {
        let listed = |names: Vec<String>| match &names[..] {
            [name] => name.clone(),
            _ => format!("{{{}}}", names.join(",")),
        };
        let experts = listed(experts.iter().map(u64::to_string).collect());
        let parts = listed(parts.iter().filter_map(|part| self.parts.get(*part)).map(|&part| part.into()).collect());
        format!("{}{}{layer}.{}.{experts}.{parts}.weight", placement.model, LAYERS[0], self.within)
    }
}

impl Names {
    /// Norms before attention and the feed-forward network.
    pub(super) const PLAIN: Names =
        Names { layer: &[ATTENTION, NETWORK, NORMS], experts: None, placement: Placement::ALONE };
    /// Norms of heads, too.
    pub(super) const WITH_HEAD_NORMS: Names = Names { layer: &[ATTENTION, NETWORK, NORMS, HEAD_NORMS], ..Names::PLAIN };
    /// Norms before and behind attention and the feed-forward network.
    pub(super) const WITH_POST_NORMS: Names =
        Names { layer: &[ATTENTION, NETWORK, NORMS_BEFORE, POST_NORMS], ..Names::PLAIN };
    /// Norms of heads, and norms before and behind attention and the feed-forward network.
    pub(super) const WITH_ALL_NORMS: Names =
        Names { layer: &[ATTENTION, NETWORK, NORMS_BEFORE, POST_NORMS, HEAD_NORMS], ..Names::PLAIN };
    /// Norms of queries and keys, and norms behind attention and the feed-forward network.
    pub(super) const POST_NORMS_ALONE: Names =
        Names { layer: &[ATTENTION, NETWORK, POST_NORMS, HEAD_NORMS], ..Names::PLAIN };
    /// Joined projections.
    pub(super) const JOINED: Names = Names { layer: &[JOINED, NORMS], ..Names::PLAIN };
    /// Experts, each stored by itself.
    pub(super) const EXPERTS: Names =
        Names { layer: &[ATTENTION, ROUTER, NORMS], experts: Some(EXPERTS), ..Names::PLAIN };
    /// Experts with norms of heads.
    pub(super) const EXPERTS_WITH_HEAD_NORMS: Names =
        Names { layer: &[ATTENTION, ROUTER, NORMS, HEAD_NORMS], ..Names::EXPERTS };
    /// Experts and one that all tokens take.
    pub(super) const EXPERTS_WITH_SHARED: Names =
        Names { layer: &[ATTENTION, ROUTER, SHARED_EXPERT, NORMS], ..Names::EXPERTS };
    /// Experts with Mixtral's names.
    pub(super) const EXPERTS_OF_MIXTRAL: Names =
        Names { layer: &[ATTENTION, ROUTER_OF_MIXTRAL, NORMS], experts: Some(EXPERTS_OF_MIXTRAL), ..Names::PLAIN };
    /// Experts in stacks.
    pub(super) const STACKED_EXPERTS: Names = Names { layer: &[ATTENTION, STACKED_EXPERTS, NORMS], ..Names::PLAIN };

    fn rows(self) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
        self.layer.iter().copied().flatten()
    }

    /// Returns the name that GGUF has for a tensor; `None` for one that is no part of the model.
    pub(super) fn of_gguf(self, key: &str) -> Option<String> {
        if key == self.placement.output {
            return Some(OUTPUT.to_owned());
        }
        let key = key.strip_prefix(self.placement.model)?;
        if let Some((_, name)) = OUTSIDE.iter().find(|row| row.0 == key) {
            return Some((*name).to_owned());
        }
        let [of_key, of_name] = LAYERS;
        let (layer, part) = key.strip_prefix(of_key)?.split_once('.')?;
        let (part, kind) = part.rsplit_once('.')?;
        let layer = number(layer)?;
        let (_, name) = self.rows().find(|row| row.0 == part && KINDS.contains(&kind))?;
        Some(format!("{of_name}{layer}.{name}.{kind}"))
    }

    /// Returns the name in the file of a tensor that GGUF has a name for.
    pub(super) fn key(self, name: &str) -> String {
        let key = || {
            let Placement { model, output } = self.placement;
            if name == OUTPUT {
                return Some(output.to_owned());
            }
            if let Some((key, _)) = OUTSIDE.iter().find(|row| row.1 == name) {
                return Some(format!("{model}{key}"));
            }
            let [of_key, of_name] = LAYERS;
            let (layer, part) = name.strip_prefix(of_name)?.split_once('.')?;
            let (part, kind) = part.rsplit_once('.')?;
            let (key, _) = self.rows().find(|row| row.1 == part)?;
            Some(format!("{model}{of_key}{layer}.{key}.{kind}"))
        };
        let is_of_gguf = self.layer.is_empty();
        key().filter(|_| !is_of_gguf).unwrap_or_else(|| name.to_owned())
    }
}
