//! The architectures, as data. Source: the graphs of llama.cpp and the models of Hugging Face's `transformers`.

/// How a head's elements form pairs, which rotary embeddings rotate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pairs {
    /// Each two adjacent elements.
    Adjacent,
    /// An element of the first half with one of the second.
    Halves,
}

/// The function between the products of the feed-forward network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activation {
    /// `x * sigmoid(x)`.
    Silu,
    /// The approximation of `x * Φ(x)` by a hyperbolic tangent.
    Gelu,
}

/// The rotary embeddings of layers with a sliding window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum LocalRotation {
    /// Those of all layers.
    Same,
    /// Those of all layers, not scaled.
    Unscaled,
    /// Those of another base, not scaled.
    Base(f64),
}

/// An architecture. Parts that are optional, such as biases and norms of heads, are there where the file has their tensors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Architecture {
    /// The value of `general.architecture`, which is the prefix of its metadata.
    pub(super) name: &'static str,
    pub(super) pairs: Pairs,
    pub(super) activation: Activation,
    /// Whether embeddings are multiplied by the root of their length.
    pub(super) scales_embedding: bool,
    /// Whether norms are behind attention and the feed-forward network alone, not before them.
    pub(super) normalises_results: bool,
    /// Whether norms of queries and keys are those of all heads, not of each.
    pub(super) normalises_all_heads: bool,
    /// Tensors that each layer must have, although they are optional in other architectures.
    pub(super) required: &'static [&'static str],
    /// Whether the rows of the gate are the first half of those of `ffn_up`.
    pub(super) joins_gate: bool,
    /// Whether the shares of the experts that a token takes are divided by their sum.
    pub(super) normalises_shares: bool,
    /// The sliding window of a file that does not state it; 0 where that has none.
    pub(super) window: i64,
    /// The period of layers with a sliding window: the last layer of each period has none. All layers have one where it is 0.
    pub(super) window_period: i64,
    pub(super) local_rotation: LocalRotation,
    /// The period of layers with rotary embeddings: the last layer of each period has none. All layers have them where it is 0.
    pub(super) unrotated_period: i64,
    /// Whether `rope.scaling.finetuned` states that layers have rotary embeddings.
    pub(super) states_rotation: bool,
    /// The soft caps of scores and of logits of a file that does not state them; 0 where that has none.
    pub(super) soft_caps: [f64; 2],
    /// The number of layers of the model whose queries are scaled by the width divided by the number of heads, not by the size of a head.
    pub(super) layers_scaled_by_width: Option<i64>,
}

const fn plain(name: &'static str, pairs: Pairs) -> Architecture {
    Architecture {
        name,
        pairs,
        activation: Activation::Silu,
        scales_embedding: false,
        normalises_results: false,
        normalises_all_heads: false,
        required: &[],
        joins_gate: false,
        normalises_shares: true,
        window: 0,
        window_period: 0,
        local_rotation: LocalRotation::Same,
        unrotated_period: 0,
        states_rotation: false,
        soft_caps: [0.0; 2],
        layers_scaled_by_width: None,
    }
}

const GEMMA: Architecture =
    Architecture { activation: Activation::Gelu, scales_embedding: true, ..plain("gemma", Pairs::Halves) };

const ARCHITECTURES: &[Architecture] = &[
    plain("llama", Pairs::Adjacent),
    plain("qwen2", Pairs::Halves),
    Architecture { required: &["attn_q_norm", "attn_k_norm"], ..plain("qwen3", Pairs::Halves) },
    Architecture { states_rotation: true, ..plain("granite", Pairs::Adjacent) },
    Architecture { states_rotation: true, ..plain("granitemoe", Pairs::Adjacent) },
    // `norm_topk_prob` of Qwen2MoeConfig of transformers is false.
    Architecture { normalises_shares: false, ..plain("qwen2moe", Pairs::Halves) },
    Architecture { required: &["attn_q_norm", "attn_k_norm"], ..plain("qwen3moe", Pairs::Halves) },
    // Olmo 3, too, whose local layers are not scaled: `layer_types` and `rope_scaling` of Olmo3Config of transformers.
    Architecture {
        normalises_results: true,
        normalises_all_heads: true,
        required: &["attn_q_norm", "attn_k_norm", "post_attention_norm", "post_ffw_norm"],
        window_period: 4,
        local_rotation: LocalRotation::Unscaled,
        ..plain("olmo2", Pairs::Halves)
    },
    // `norm_topk_prob` of OlmoeConfig of transformers is false.
    Architecture {
        normalises_all_heads: true,
        required: &["attn_q_norm", "attn_k_norm"],
        normalises_shares: false,
        ..plain("olmoe", Pairs::Halves)
    },
    plain("mistral3", Pairs::Adjacent),
    // `no_rope_layer_interval` of SmolLM3Config of transformers.
    Architecture { unrotated_period: 4, ..plain("smollm3", Pairs::Adjacent) },
    GEMMA,
    // All layers have the window of Phi3Config of transformers; llama.cpp attends to all positions instead.
    Architecture { joins_gate: true, ..plain("phi3", Pairs::Halves) },
    // The window and the caps are those of Gemma2Config of transformers; the model of 27B has 46 layers.
    Architecture {
        name: "gemma2",
        required: &["post_attention_norm", "post_ffw_norm"],
        window: 4096,
        window_period: 2,
        soft_caps: [50.0, 30.0],
        layers_scaled_by_width: Some(46),
        ..GEMMA
    },
    // The base is `rope_local_base_freq` of Gemma3TextConfig of transformers; the model of 27B has 62 layers.
    Architecture {
        name: "gemma3",
        required: &["attn_q_norm", "attn_k_norm", "post_attention_norm", "post_ffw_norm"],
        window_period: 6,
        local_rotation: LocalRotation::Base(10_000.0),
        layers_scaled_by_width: Some(62),
        ..GEMMA
    },
];

impl Architecture {
    /// Finds an architecture by its name.
    pub(super) fn named(name: &str) -> Option<Architecture> {
        ARCHITECTURES.iter().find(|row| row.name == name).copied()
    }

    /// Lists the names.
    pub(super) fn names() -> String {
        ARCHITECTURES.iter().map(|row| row.name).collect::<Vec<_>>().join(", ")
    }
}
