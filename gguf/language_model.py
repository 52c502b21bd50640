"""Language models as files and as NumPy computes them, for `check-models` and for the test models."""

import dataclasses

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

EPSILON, BASE = 1e-5, 10000.0
# The bytes of a block that are floats of 16 bits, and about what they are for elements of about 0.1.
SCALES = {
    Type.Q4_0: [(0, 0.012)],
    Type.Q4_1: [(0, 0.012), (2, -0.1)],
    Type.Q5_0: [(0, 0.006)],
    Type.Q5_1: [(0, 0.006), (2, -0.1)],
    Type.Q8_0: [(0, 0.01)],
    Type.IQ4_NL: [(0, 0.001)],
    Type.Q2_K: [(80, 0.006), (82, 0.009)],
    Type.Q3_K: [(108, 0.002)],
    Type.Q4_K: [(0, 0.0004), (2, 0.003)],
    Type.Q5_K: [(0, 0.0002), (2, 0.003)],
    # Of numbers that are subnormal.
    Type.Q6_K: [(208, 0.00006)],
}
PLAIN = (Type.F32, Type.F16, Type.BF16)
TYPES = [*PLAIN, *SCALES, Type.MXFP4]


def matrix(rng, rows, columns, kind):
    """Random elements as they are stored, and their type."""
    if kind in PLAIN:
        return gguf.quants.quantize((rng.normal(size=(rows, columns)) * 0.1).astype(np.float32), kind), kind
    elements, length = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (rows, columns // elements, length), dtype=np.uint8)
    for position, scale in SCALES.get(kind, []):
        halves = (rng.uniform(0.5, 1, blocks.shape[:2]) * scale).astype(np.float16)
        blocks[:, :, position : position + 2] = halves[..., None].view(np.uint8)
    if kind == Type.MXFP4:
        blocks[:, :, 0] = rng.integers(122, 125, blocks.shape[:2])
    return blocks.reshape(rows, -1), kind


def vector(rng, length, mean=1):
    """Random elements about a mean, and their type."""
    return (mean + rng.normal(size=length) * 0.1).astype(np.float32), Type.F32


def stack(rng, count, rows, columns, kind):
    """Random matrices of one type, one behind the other, and their type."""
    data, kind = matrix(rng, count * rows, columns, kind)
    return data.reshape(count, rows, -1), kind


# The largest integers of rounded vectors.
LARGEST = {"f32": None, "i16": 2**13 - 1, "i8": 2**7 - 1}


@dataclasses.dataclass
class Matrix:
    """The elements of a matrix, or of several, and the largest integer of vectors that are multiplied with it, if they are rounded."""

    elements: np.ndarray
    block: int
    largest: int | None

    def __getitem__(self, at):
        return Matrix(self.elements[at], self.block, self.largest)

    def times(self, x):
        """Products with vectors, which are rounded: as many elements as a block of the matrix has are integers times a scale."""
        if self.largest:
            blocks = x.reshape(len(x), -1, self.block)
            scales = np.abs(blocks).max(-1, keepdims=True) / self.largest
            x = (np.rint(blocks / np.where(scales == 0, 1, scales)) * scales).reshape(x.shape)
        return x @ self.elements.T


def softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def capped(x, cap):
    return cap * np.tanh(x / cap) if cap else x


GEMMAS = ("gemma", "gemma2", "gemma3")
ADJACENT_PAIRS = ("llama", "granite", "granitemoe", "smollm3", "mistral3")


@dataclasses.dataclass
class Model:
    """A model. `weights` has what is stored and its type for each tensor; `facts` are further metadata of the architecture."""

    architecture: str
    layers: int
    width: int
    heads: int
    key_heads: int
    size: int
    hidden: int
    context: int
    weights: dict
    facts: dict = dataclasses.field(default_factory=dict)
    # The tokens of a SentencePiece model, the first of which are those for what is unknown, for the start and for the end; a chat template.
    tokens: list = dataclasses.field(default_factory=list)
    template: str = ""
    # How vectors are rounded before they are multiplied with quantised matrices: a key of LARGEST.
    activations: str = "f32"

    def write(self, path):
        writer = gguf.GGUFWriter(path, self.architecture)
        metadata = {
            "context_length": self.context,
            "embedding_length": self.width,
            "block_count": self.layers,
            "feed_forward_length": self.hidden,
            "attention.head_count": self.heads,
            "attention.head_count_kv": self.key_heads,
            "attention.key_length": self.size,
            "attention.value_length": self.size,
            "rope.dimension_count": self.size,
            "rope.freq_base": BASE,
            "attention.layer_norm_rms_epsilon": EPSILON,
        }
        adders = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
        for key, value in {**metadata, **self.facts}.items():
            adders[type(value)](f"{self.architecture}.{key}", value)
        if self.tokens:
            writer.add_tokenizer_model("llama")
            writer.add_token_list(self.tokens)
            writer.add_token_scores([-float(index) for index in range(len(self.tokens))])
            kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
            writer.add_token_types(kinds + [gguf.TokenType.NORMAL] * (len(self.tokens) - len(kinds)))
            writer.add_chat_template(self.template)
        for name, (data, kind) in self.weights.items():
            writer.add_tensor(name, data, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()

    def window(self, layer):
        """The sliding window of a layer; 0 where it has none. Source: `layer_types` of the configurations of transformers."""
        is_global = {"gemma2": layer % 2 == 1, "gemma3": layer % 6 == 5, "olmo2": layer % 4 == 3}.get(self.architecture, False)
        return 0 if is_global else self.facts.get("attention.sliding_window", 0)

    def rotation(self, layer):
        """The frequencies of the rotated pairs, and the factor of sines. Source: `modeling_rope_utils.py` of transformers."""
        facts, rotated = self.facts, self.facts.get("rope.dimension_count", self.size)
        base, pairs = facts.get("rope.freq_base", BASE), np.arange(rotated // 2)
        if self.architecture == "gemma3" and self.window(layer):
            return 10000.0 ** (-2 * pairs / rotated), 1
        frequencies, factor = base ** (-2 * pairs / rotated), facts.get("rope.scaling.factor", 1)
        # Olmo3RotaryEmbedding of transformers scales the layers without a window alone.
        if self.architecture == "olmo2" and self.window(layer):
            return frequencies, 1
        original = facts.get("rope.scaling.original_context_length", self.context)
        length = "long" if self.context > original else "short"
        if f"rope_factors_{length}.weight" in self.weights:
            return frequencies / self.weights[f"rope_factors_{length}.weight"][0], facts.get("rope.scaling.attn_factor", 1)
        if facts.get("rope.scaling.type") != "yarn":
            return frequencies / factor, 1
        low, high = (
            rotated * np.log(original / (turns * 2 * np.pi)) / (2 * np.log(base))
            for turns in (facts.get("rope.scaling.yarn_beta_fast", 32), facts.get("rope.scaling.yarn_beta_slow", 1))
        )
        low, high = max(np.floor(low), 0), min(np.ceil(high), rotated - 1)
        ramp = np.clip((pairs - low) / (high - low), 0, 1)
        return frequencies / factor * ramp + frequencies * (1 - ramp), 0.1 * np.log(factor) + 1

    def rotated(self, x, layer):
        """Heads `[tokens, heads, size]` with rotary embeddings."""
        # `no_rope_layers` of SmolLM3Config of transformers; llama.cpp's converter of Granite writes `finetuned`.
        if (self.architecture == "smollm3" and layer % 4 == 3) or not self.facts.get("rope.scaling.finetuned", True):
            return x
        frequencies, magnitude = self.rotation(layer)
        angles, pairs = np.arange(len(x))[:, None, None] * frequencies, len(frequencies)
        halves = (slice(0, pairs), slice(pairs, 2 * pairs))
        first, second = (slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)) if self.architecture in ADJACENT_PAIRS else halves
        out, one, other = x.copy(), x[..., first], x[..., second]
        out[..., first] = magnitude * (one * np.cos(angles) - other * np.sin(angles))
        out[..., second] = magnitude * (one * np.sin(angles) + other * np.cos(angles))
        return out

    def active(self, x):
        if self.architecture in GEMMAS:
            return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
        return x * sigmoid(x)

    def attended(self, w, h, layer):
        """What attention makes of vectors that are normalised."""
        count, size, positions = len(h), self.size, np.arange(len(h))
        part = f"blk.{layer}.{{}}".format
        project = lambda name: w[part(f"{name}.weight")].times(h) + w.get(part(f"{name}.bias"), 0)  # noqa: E731
        if part("attn_qkv.weight") in w:
            ends = np.cumsum([self.heads * size, self.key_heads * size])
            q, k, v = np.split(project("attn_qkv"), ends, axis=1)
        else:
            q, k, v = (project(f"attn_{name}") for name in "qkv")
        norms = [w.get(part(f"attn_{name}_norm.weight")) for name in "qk"]
        # The norms of Olmo2Attention and OlmoeAttention of transformers are those of whole vectors.
        if self.architecture in ("olmo2", "olmoe"):
            q, k, norms = norm(q, norms[0]), norm(k, norms[1]), [None, None]
        q, k, v = (x.reshape(count, -1, size) for x in (q, k, v))
        q, k = (norm(x, weight) for x, weight in zip((q, k), norms))
        k, v = (np.repeat(x, self.heads // self.key_heads, axis=1) for x in (self.rotated(k, layer), v))
        scale = self.facts.get("attention.scale", size**-0.5)
        # 27B of each: `query_pre_attn_scalar` of its configuration is the width divided by the number of heads.
        if (self.architecture, self.layers) in (("gemma2", 46), ("gemma3", 62)):
            scale = (self.width / self.heads) ** -0.5
        scores = np.einsum("thd,shd->hts", self.rotated(q, layer), k) * scale
        scores = capped(scores, self.facts.get("attn_logit_softcapping", 0))
        distance = positions[:, None] - positions
        visible = (distance >= 0) & (distance < (self.window(layer) or count))
        attended = np.einsum("hts,shd->thd", softmax(np.where(visible, scores, -np.inf)), v).reshape(count, -1)
        return w[part("attn_output.weight")].times(attended)

    def network(self, w, h, part):
        """A feed-forward network, whose tensors `part` names."""
        up = w[part("up")].times(h)
        gate, up = (w[part("gate")].times(h), up) if part("gate") in w else np.split(up, 2, axis=1)
        return w[part("down")].times(self.active(gate) * up)

    def fed_forward(self, w, h, layer):
        """What the feed-forward network, or experts, make of vectors that are normalised."""
        part = lambda name, suffix="": f"blk.{layer}.ffn_{name}{suffix}.weight"  # noqa: E731
        if part("gate_inp") not in w:
            return self.network(w, h, part)
        chances = softmax(w[part("gate_inp")].times(h))
        best = np.argsort(-chances, axis=1, kind="stable")[:, : self.facts["expert_used_count"]]
        shares = np.take_along_axis(chances, best, 1)
        # `norm_topk_prob` of Qwen2MoeConfig and OlmoeConfig is false; GraniteMoe's softmax of the best logits is that of all, normalised.
        if self.architecture not in ("qwen2moe", "olmoe"):
            shares = shares / shares.sum(1, keepdims=True)
        experts = {name: w[part(name, "_exps")] for name in ("gate", "up", "down")}
        out = np.zeros_like(h)
        for token, (chosen, share) in enumerate(zip(best, shares)):
            for expert, weight in zip(chosen, share):
                out[token] += weight * self.network({name: x[expert] for name, x in experts.items()}, h[None, token], str)[0]
        if part("up", "_shexp") in w:
            shared = self.network(w, h, lambda name: part(name, "_shexp"))
            gate = part("gate_inp", "_shexp")
            out += shared * sigmoid(h @ w[gate])[:, None] if gate in w else shared
        return out

    def dequantized(self):
        """Vectors as arrays, and all others as matrices."""
        tensors = {}
        for name, (data, kind) in self.weights.items():
            elements = gguf.quants.dequantize(data, kind).astype(np.float64)
            largest = None if kind in PLAIN else LARGEST[self.activations]
            block, _ = gguf.GGML_QUANT_SIZES[kind]
            tensors[name] = elements if elements.ndim == 1 else Matrix(elements, block, largest)
        return tensors

    def vectors(self, tokens):
        """The vector of each token behind the last norm, in double precision."""
        w = self.dequantized()
        residual, width = self.facts.get("residual_scale", 1), self.width
        x = w["token_embd.weight"].elements[tokens] * self.facts.get("embedding_scale", width**0.5 if self.architecture in GEMMAS else 1)
        for layer in range(self.layers):
            names = [("attn_norm", self.attended, "post_attention_norm"), ("ffn_norm", self.fed_forward, "post_ffw_norm")]
            for before, apply, after in names:
                added = apply(w, norm(x, w.get(f"blk.{layer}.{before}.weight")), layer)
                x = x + residual * norm(added, w.get(f"blk.{layer}.{after}.weight"))
        return norm(x, w["output_norm.weight"])

    def logits(self, tokens):
        """The logits behind each token, in double precision until they are rounded."""
        w = self.dequantized()
        output = w.get("output.weight", w["token_embd.weight"])
        logits = output.times(self.vectors(tokens)) / self.facts.get("logit_scale", 1)
        return capped(logits, self.facts.get("final_logit_softcapping", 0)).astype(np.float32)


def norm(x, weight):
    """Vectors that are normalised, or as they are without a weight."""
    return x if weight is None else x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * weight
