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

    def write(self, path):
        writer = gguf.GGUFWriter(path, self.architecture)
        writer.add_context_length(self.context)
        writer.add_embedding_length(self.width)
        writer.add_block_count(self.layers)
        writer.add_feed_forward_length(self.hidden)
        writer.add_head_count(self.heads)
        writer.add_head_count_kv(self.key_heads)
        writer.add_key_length(self.size)
        writer.add_value_length(self.size)
        writer.add_rope_dimension_count(self.size)
        writer.add_rope_freq_base(BASE)
        writer.add_layer_norm_rms_eps(EPSILON)
        for key, value in self.facts.items():
            writer.add_float32(f"{self.architecture}.{key}", value)
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

    def logits(self, tokens):
        """The logits behind each token, in double precision until they are rounded."""
        w = {name: gguf.quants.dequantize(data, kind).astype(np.float64) for name, (data, kind) in self.weights.items()}
        count, size, positions = len(tokens), self.size, np.arange(len(tokens))
        is_gemma = self.architecture == "gemma"
        residual, scale = self.facts.get("residual_scale", 1), self.facts.get("attention.scale", size**-0.5)

        def norm(x, name):
            return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * w[name]

        def rotated(x):
            angles = positions[:, None, None] * BASE ** (-2 * np.arange(size // 2) / size)
            halves = (slice(0, None, 2), slice(1, None, 2)) if self.architecture in ("llama", "granite") else None
            first, second = halves or (slice(0, size // 2), slice(size // 2, None))
            out, one, other = np.empty_like(x), x[..., first], x[..., second]
            out[..., first] = one * np.cos(angles) - other * np.sin(angles)
            out[..., second] = one * np.sin(angles) + other * np.cos(angles)
            return out

        def active(x):
            if is_gemma:
                return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
            return x / (1 + np.exp(-x))

        x = w["token_embd.weight"][tokens] * self.facts.get("embedding_scale", self.width**0.5 if is_gemma else 1)
        for layer in range(self.layers):
            part = f"blk.{layer}.{{}}.weight".format
            h = norm(x, part("attn_norm"))
            product = lambda name: h @ w[part(name)].T + w.get(f"blk.{layer}.{name}.bias", 0)  # noqa: E731
            q, k, v = (product(f"attn_{name}").reshape(count, -1, size) for name in "qkv")
            if part("attn_q_norm") in w:
                q, k = norm(q, part("attn_q_norm")), norm(k, part("attn_k_norm"))
            k, v = (np.repeat(each, self.heads // self.key_heads, axis=1) for each in (rotated(k), v))
            scores = np.einsum("thd,shd->hts", rotated(q), k) * scale
            scores = np.exp(np.where(positions <= positions[:, None], scores, -np.inf))
            attended = np.einsum("hts,shd->thd", scores / scores.sum(-1, keepdims=True), v).reshape(count, -1)
            x = x + residual * (attended @ w[part("attn_output")].T)
            h = norm(x, part("ffn_norm"))
            hidden = active(h @ w[part("ffn_gate")].T) * (h @ w[part("ffn_up")].T)
            x = x + residual * (hidden @ w[part("ffn_down")].T)
        output = w.get("output.weight", w["token_embd.weight"])
        return (norm(x, "output_norm.weight") @ output.T / self.facts.get("logit_scale", 1)).astype(np.float32)
