//! The kinds of models, as data. Source: the configurations and models of Hugging Face's `transformers`, whose defaults these are.

use super::super::names::Names;

/// A kind of models, by the value of `model_type`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Family {
    pub(super) model_type: &'static str,
    /// The name that GGUF has for the architecture.
    pub(super) architecture: &'static str,
    pub(super) names: Names,
    /// The default of `rms_norm_eps`.
    pub(super) norm_epsilon: f64,
    /// What is added to the weights of norms.
    pub(super) norm_offset: f64,
    /// Whether there are as many heads of keys as of queries without a `num_key_value_heads`.
    pub(super) has_default_key_heads: bool,
    /// The defaults of `num_attention_heads` and of `num_key_value_heads`, of models whose files may not state them.
    pub(super) heads: Option<[u64; 2]>,
    /// The default of `max_position_embeddings`.
    pub(super) positions: Option<u64>,
    /// The default of `head_dim`, without which it is the width divided by the number of heads.
    pub(super) head_size: Option<u64>,
    /// The values of `hidden_act` and of `hidden_activation` that are supported.
    pub(super) activations: [&'static [&'static str]; 2],
    /// The default of `tie_word_embeddings`.
    pub(super) is_tied: bool,
    pub(super) biases: Biases,
    pub(super) window: WindowRule,
    pub(super) rotation: Rotation,
    /// Factors: their keys, the names that GGUF has for them, their defaults.
    pub(super) factors: &'static [(&'static str, &'static str, f64)],
    /// The soft caps of scores and of logits, where a model may have them: their defaults, 0 for none.
    pub(super) soft_caps: Option<[f64; 2]>,
    /// The experts, where the model has them.
    pub(super) experts: Option<ExpertRule>,
    /// The default of `query_pre_attn_scalar`, whose root scores are divided by.
    pub(super) query_scalar: Option<f64>,
}

/// Which projections have biases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Biases {
    Never,
    /// Those to queries, keys and values.
    OfHeads,
    /// Those to queries, keys and values, unless `qkv_bias` is false.
    OfHeadsUnlessStated,
    /// Those that these keys are about: `attention_bias`, and `mlp_bias` if the second is true.
    Stated {
        also_of_network: bool,
    },
}

/// Mixtures of experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ExpertRule {
    /// The key of the size of an expert.
    pub(super) size: &'static str,
    /// Whether `norm_topk_prob` states that the shares of a token's experts are divided by their sum; otherwise they are.
    pub(super) states_normalisation: bool,
    /// Whether `decoder_sparse_step` and `mlp_only_layers` state layers without experts, which are not supported.
    pub(super) states_layers: bool,
    /// Whether all tokens take one more expert, of `shared_expert_intermediate_size`.
    pub(super) has_shared: bool,
}

/// Which layers have a sliding window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WindowRule {
    Never,
    /// All, of this size by default; none if it is 0.
    All(u64),
    /// Those from `max_window_layers` on, or those of `layer_types`, if `use_sliding_window` is true.
    FromLayer {
        size: u64,
        first: u64,
    },
    /// None: `use_sliding_window` must be false.
    Refused,
    /// All but the last one of each period, or those of `layer_types`.
    Periodic {
        size: u64,
        period: u64,
    },
}

/// Rotary embeddings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rotation {
    /// The default of `rope_theta`.
    pub(super) base: f64,
    /// Whether layers with a sliding window have embeddings of their own, which are not scaled, with the default of their base; that of the
    /// other layers without one.
    pub(super) local: Option<Option<f64>>,
    /// Whether `no_rope_layers` states the layers with rotary embeddings: all but the last one of each period.
    pub(super) period: Option<u64>,
}

const PLAIN: Family = Family {
    model_type: "llama",
    architecture: "llama",
    names: Names::PLAIN,
    norm_epsilon: 1e-6,
    norm_offset: 0.0,
    has_default_key_heads: false,
    heads: None,
    positions: None,
    head_size: None,
    activations: [&["silu"], &[]],
    is_tied: false,
    biases: Biases::Never,
    window: WindowRule::Never,
    rotation: Rotation { base: 10_000.0, local: None, period: None },
    factors: &[],
    soft_caps: None,
    experts: None,
    query_scalar: None,
};

/// In Gemma's first models "gelu" stands for the approximation by a hyperbolic tangent.
const GEMMA: Family = Family {
    model_type: "gemma",
    architecture: "gemma",
    norm_offset: 1.0,
    head_size: Some(256),
    activations: [&["gelu", "gelu_pytorch_tanh"], &["gelu", "gelu_pytorch_tanh"]],
    is_tied: true,
    biases: Biases::Stated { also_of_network: false },
    ..PLAIN
};

/// Gemma 2 and later ones take `hidden_activation` alone; `hidden_act` is without effect.
const GEMMA_2: Family = Family {
    model_type: "gemma2",
    architecture: "gemma2",
    names: Names::WITH_POST_NORMS,
    activations: [GEMMA.activations[0], &["gelu_pytorch_tanh"]],
    window: WindowRule::Periodic { size: 4096, period: 2 },
    soft_caps: Some([50.0, 30.0]),
    query_scalar: Some(256.0),
    ..GEMMA
};

/// Experts of Qwen.
const QWEN_EXPERTS: ExpertRule =
    ExpertRule { size: "moe_intermediate_size", states_normalisation: true, states_layers: true, has_shared: false };

/// Experts of Mixtral and of Granite.
const EXPERTS: ExpertRule =
    ExpertRule { size: "intermediate_size", states_normalisation: false, states_layers: false, has_shared: false };

const GRANITE: Family = Family {
    model_type: "granite",
    architecture: "granite",
    has_default_key_heads: true,
    biases: Biases::Stated { also_of_network: true },
    factors: &[
        ("embedding_multiplier", "embedding_scale", 1.0),
        ("attention_multiplier", "attention.scale", 1.0),
        ("residual_multiplier", "residual_scale", 1.0),
        ("logits_scaling", "logit_scale", 1.0),
    ],
    ..PLAIN
};

const OLMO_2: Family = Family {
    model_type: "olmo2",
    architecture: "olmo2",
    names: Names::POST_NORMS_ALONE,
    norm_epsilon: 1e-5,
    has_default_key_heads: true,
    biases: Biases::Stated { also_of_network: false },
    ..PLAIN
};

const FAMILIES: &[Family] = &[
    Family { has_default_key_heads: true, biases: Biases::Stated { also_of_network: true }, ..PLAIN },
    Family { model_type: "mistral", window: WindowRule::All(4096), ..PLAIN },
    Family {
        model_type: "qwen2",
        architecture: "qwen2",
        biases: Biases::OfHeads,
        window: WindowRule::FromLayer { size: 4096, first: 28 },
        ..PLAIN
    },
    Family {
        model_type: "qwen3",
        architecture: "qwen3",
        names: Names::WITH_HEAD_NORMS,
        head_size: Some(128),
        biases: Biases::Stated { also_of_network: false },
        window: WindowRule::FromLayer { size: 4096, first: 28 },
        ..PLAIN
    },
    GEMMA,
    GEMMA_2,
    Family {
        model_type: "gemma3_text",
        architecture: "gemma3",
        names: Names::WITH_ALL_NORMS,
        window: WindowRule::Periodic { size: 4096, period: 6 },
        rotation: Rotation { base: 1e6, local: Some(Some(10_000.0)), period: None },
        soft_caps: Some([0.0; 2]),
        heads: Some([8, 4]),
        positions: Some(131_072),
        ..GEMMA_2
    },
    Family {
        model_type: "phi3",
        architecture: "phi3",
        names: Names::JOINED,
        norm_epsilon: 1e-5,
        has_default_key_heads: true,
        window: WindowRule::All(0),
        ..PLAIN
    },
    GRANITE,
    Family {
        model_type: "smollm3",
        architecture: "smollm3",
        is_tied: true,
        biases: Biases::Stated { also_of_network: true },
        window: WindowRule::Refused,
        rotation: Rotation { base: 2e6, local: None, period: Some(4) },
        ..PLAIN
    },
    OLMO_2,
    Family {
        model_type: "olmo3",
        window: WindowRule::Periodic { size: 4096, period: 4 },
        rotation: Rotation { base: 500_000.0, local: Some(None), period: None },
        ..OLMO_2
    },
    Family {
        model_type: "mixtral",
        names: Names::EXPERTS_OF_MIXTRAL,
        norm_epsilon: 1e-5,
        has_default_key_heads: true,
        window: WindowRule::All(0),
        rotation: Rotation { base: 1e6, local: None, period: None },
        experts: Some(EXPERTS),
        ..PLAIN
    },
    Family {
        model_type: "qwen2_moe",
        architecture: "qwen2moe",
        names: Names::EXPERTS_WITH_SHARED,
        biases: Biases::OfHeadsUnlessStated,
        window: WindowRule::Refused,
        experts: Some(ExpertRule { has_shared: true, ..QWEN_EXPERTS }),
        ..PLAIN
    },
    Family {
        model_type: "qwen3_moe",
        architecture: "qwen3moe",
        names: Names::EXPERTS_WITH_HEAD_NORMS,
        biases: Biases::Stated { also_of_network: false },
        window: WindowRule::Refused,
        experts: Some(QWEN_EXPERTS),
        ..PLAIN
    },
    Family {
        model_type: "granitemoe",
        architecture: "granitemoe",
        names: Names::STACKED_EXPERTS,
        biases: Biases::Stated { also_of_network: false },
        experts: Some(EXPERTS),
        ..GRANITE
    },
    Family {
        model_type: "olmoe",
        architecture: "olmoe",
        names: Names::EXPERTS_WITH_HEAD_NORMS,
        norm_epsilon: 1e-5,
        has_default_key_heads: true,
        biases: Biases::Stated { also_of_network: false },
        experts: Some(ExpertRule { states_normalisation: true, ..EXPERTS }),
        ..PLAIN
    },
];

impl Family {
    /// Finds a kind of models by its name.
    pub(super) fn named(model_type: &str) -> Option<&'static Family> {
        FAMILIES.iter().find(|family| family.model_type == model_type)
    }

    /// Lists the names.
    pub(super) fn names_of_all() -> impl Iterator<Item = &'static str> {
        FAMILIES.iter().map(|family| family.model_type)
    }
}
