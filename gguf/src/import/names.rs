//! Names of tensors in the layout of Hugging Face, and those that GGUF has for them. Source: `TensorNameMap` of ggml's Python package, and
//! the models of Hugging Face's `transformers`.

/// The names of a file's tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Names {
    /// Names within a layer, without `.weight` and `.bias`, with those of GGUF; none where all names are those of GGUF.
    layer: &'static [&'static [(&'static str, &'static str)]],
}

/// Names outside of layers.
const OUTSIDE: &[(&str, &str)] = &[
    ("model.embed_tokens.weight", "token_embd.weight"),
    ("model.norm.weight", "output_norm.weight"),
    ("lm_head.weight", "output.weight"),
];
const LAYERS: [&str; 2] = ["model.layers.", "blk."];
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

impl Names {
    /// Norms before attention and the feed-forward network.
    pub(super) const PLAIN: Names = Names { layer: &[ATTENTION, NETWORK, NORMS] };
    /// Norms of heads, too.
    pub(super) const WITH_HEAD_NORMS: Names = Names { layer: &[ATTENTION, NETWORK, NORMS, HEAD_NORMS] };
    /// Norms before and behind attention and the feed-forward network.
    pub(super) const WITH_POST_NORMS: Names = Names { layer: &[ATTENTION, NETWORK, NORMS_BEFORE, POST_NORMS] };
    /// Norms of heads, and norms before and behind attention and the feed-forward network.
    pub(super) const WITH_ALL_NORMS: Names =
        Names { layer: &[ATTENTION, NETWORK, NORMS_BEFORE, POST_NORMS, HEAD_NORMS] };
    /// Norms of queries and keys, and norms behind attention and the feed-forward network.
    pub(super) const POST_NORMS_ALONE: Names = Names { layer: &[ATTENTION, NETWORK, POST_NORMS, HEAD_NORMS] };
    /// Joined projections.
    pub(super) const JOINED: Names = Names { layer: &[JOINED, NORMS] };

    fn rows(self) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
        self.layer.iter().copied().flatten()
    }

    /// Returns the name that GGUF has for a tensor; `None` for one that is no part of the model.
    pub(super) fn of_gguf(self, key: &str) -> Option<String> {
        if let Some((_, name)) = OUTSIDE.iter().find(|row| row.0 == key) {
            return Some((*name).to_owned());
        }
        let [of_key, of_name] = LAYERS;
        let (layer, part) = key.strip_prefix(of_key)?.split_once('.')?;
        let (part, kind) = part.rsplit_once('.')?;
        let is_number = !layer.is_empty()
            && layer.bytes().all(|byte| byte.is_ascii_digit())
            && (layer == "0" || !layer.starts_with('0'));
        let (_, name) = self.rows().find(|row| row.0 == part && is_number && KINDS.contains(&kind))?;
        Some(format!("{of_name}{layer}.{name}.{kind}"))
    }

    /// Returns the name in the file of a tensor that GGUF has a name for.
    pub(super) fn key(self, name: &str) -> String {
        let key = || {
            if let Some((key, _)) = OUTSIDE.iter().find(|row| row.1 == name) {
                return Some((*key).to_owned());
            }
            let [of_key, of_name] = LAYERS;
            let (layer, part) = name.strip_prefix(of_name)?.split_once('.')?;
            let (part, kind) = part.rsplit_once('.')?;
            let (key, _) = self.rows().find(|row| row.1 == part)?;
            Some(format!("{of_key}{layer}.{key}.{kind}"))
        };
        let is_of_gguf = self.layer.is_empty();
        key().filter(|_| !is_of_gguf).unwrap_or_else(|| name.to_owned())
    }
}
