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

/// An architecture. Parts that are optional, such as biases and norms of heads, are there where the file has their tensors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Architecture {
    /// The value of `general.architecture`, which is the prefix of its metadata.
    pub(super) name: &'static str,
    pub(super) pairs: Pairs,
    pub(super) activation: Activation,
    /// Whether embeddings are multiplied by the root of their length.
    pub(super) scales_embedding: bool,
}

const fn plain(name: &'static str, pairs: Pairs) -> Architecture {
    Architecture { name, pairs, activation: Activation::Silu, scales_embedding: false }
}

const ARCHITECTURES: &[Architecture] = &[
    plain("llama", Pairs::Adjacent),
    plain("qwen2", Pairs::Halves),
    plain("qwen3", Pairs::Halves),
    plain("granite", Pairs::Adjacent),
    Architecture { activation: Activation::Gelu, scales_embedding: true, ..plain("gemma", Pairs::Halves) },
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
