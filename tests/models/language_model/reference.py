"""A language model of two layers, in GGUF: every matrix is of another element type, and its blocks are random bytes.

`model.mlir` is what incarnate-gguf imports for VMVX; `BLESS=1 cargo test -p incarnate-gguf --test fixture` writes it again.
"""

import dataclasses

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

import fixture

VARIANTS = [dataclasses.replace(fixture.VMVX, flags=[*fixture.VMVX.flags, "--iree-input-type=none"])]
LAYERS, WIDTH, HEADS, KEY_HEADS, SIZE, HIDDEN, TOKENS, CONTEXT = 2, 256, 4, 2, 32, 256, 48, 64
BASE, EPSILON, TOLERANCE = 10000.0, 1e-5, 2e-4
QUERIES, KEYS = HEADS * SIZE, KEY_HEADS * SIZE
MATRICES = {
    "token_embd": (TOKENS, WIDTH, Type.Q8_0),
    "blk.0.attn_q": (QUERIES, WIDTH, Type.Q4_K),
    "blk.0.attn_k": (KEYS, WIDTH, Type.Q6_K),
    "blk.0.attn_v": (KEYS, WIDTH, Type.Q5_K),
    "blk.0.attn_output": (WIDTH, QUERIES, Type.Q4_1),
    "blk.0.ffn_gate": (HIDDEN, WIDTH, Type.Q2_K),
    "blk.0.ffn_up": (HIDDEN, WIDTH, Type.Q3_K),
    "blk.0.ffn_down": (WIDTH, HIDDEN, Type.Q5_0),
    "blk.1.attn_q": (QUERIES, WIDTH, Type.Q4_0),
    "blk.1.attn_k": (KEYS, WIDTH, Type.F16),
    "blk.1.attn_v": (KEYS, WIDTH, Type.BF16),
    "blk.1.attn_output": (WIDTH, QUERIES, Type.F32),
    "blk.1.ffn_gate": (HIDDEN, WIDTH, Type.MXFP4),
    "blk.1.ffn_up": (HIDDEN, WIDTH, Type.IQ4_NL),
    "blk.1.ffn_down": (WIDTH, HIDDEN, Type.Q5_1),
}
VECTORS = [f"blk.{layer}.{name}" for layer in range(LAYERS) for name in ("attn_norm", "ffn_norm")] + ["output_norm"]
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
    Type.Q6_K: [(208, 0.00006)],
}


def stored(rng, rows, columns, kind):
    """Random elements as they are stored."""
    if kind in (Type.F32, Type.F16, Type.BF16):
        return gguf.quants.quantize((rng.normal(size=(rows, columns)) * 0.1).astype(np.float32), kind)
    elements, length = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (rows, columns // elements, length), dtype=np.uint8)
    for position, scale in SCALES.get(kind, []):
        halves = (rng.uniform(0.5, 1, blocks.shape[:2]) * scale).astype(np.float16)
        blocks[:, :, position : position + 2] = halves[..., None].view(np.uint8)
    if kind == Type.MXFP4:
        blocks[:, :, 0] = rng.integers(122, 125, blocks.shape[:2])
    return blocks.reshape(rows, -1)


def weights():
    """The stored matrices and vectors, by name, and their types."""
    rng = np.random.default_rng(11)
    all = {name: (stored(rng, *row), row[2]) for name, row in MATRICES.items()}
    return all | {name: ((1 + rng.normal(size=WIDTH) * 0.1).astype(np.float32), Type.F32) for name in VECTORS}


def forward(tokens):
    """The logits behind each token."""
    w = {name: gguf.quants.dequantize(data, kind).astype(np.float64) for name, (data, kind) in weights().items()}
    count = len(tokens)
    positions = np.arange(count)

    def norm(x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * w[name]

    def rotated(x):
        angles = positions[:, None, None] * BASE ** (-2 * np.arange(SIZE // 2) / SIZE)
        even, odd, out = x[..., 0::2], x[..., 1::2], np.empty_like(x)
        out[..., 0::2] = even * np.cos(angles) - odd * np.sin(angles)
        out[..., 1::2] = even * np.sin(angles) + odd * np.cos(angles)
        return out

    x = w["token_embd"][tokens]
    for layer in range(LAYERS):
        part = f"blk.{layer}.{{}}".format
        h = norm(x, part("attn_norm"))
        q, k, v = ((h @ w[part(f"attn_{name}")].T).reshape(count, -1, SIZE) for name in "qkv")
        q, k, v = rotated(q), *(np.repeat(each, HEADS // KEY_HEADS, axis=1) for each in (rotated(k), v))
        scores = np.einsum("thd,shd->hts", q, k) / np.sqrt(SIZE)
        scores = np.exp(np.where(positions <= positions[:, None], scores, -np.inf))
        attended = np.einsum("hts,shd->thd", scores / scores.sum(-1, keepdims=True), v).reshape(count, -1)
        x = x + attended @ w[part("attn_output")].T
        h = norm(x, part("ffn_norm"))
        gate = h @ w[part("ffn_gate")].T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ w[part("ffn_up")].T)) @ w[part("ffn_down")].T
    return (norm(x, "output_norm") @ w["token_embd"].T).astype(np.float32)


def cases():
    first, second = [7, 3, 44, 0, 21, 9, 9], [1, 2, 3, 4]
    logits, other = forward(first), forward(second)
    unread = "its reader of GGUF files lacks BF16 and MXFP4"

    def case(name):
        return fixture.Case(name, parameters=("model=model.gguf",), iree_differs=unread)

    def prefill(case, tokens, position, slot, expected):
        array = np.array(tokens, np.int32)
        return case.call("prefill", [array, f"{position}", f"{slot}"], [expected], f32=TOLERANCE)

    def decode(case, token, position, slot, expected):
        return case.call("decode", [f"{token}", f"{position}", f"{slot}"], [expected], f32=TOLERANCE)

    whole = prefill(case("prefill"), first, 0, 0, logits[-1])
    # Two conversations, whose calls alternate.
    two = prefill(case("conversations"), first[:3], 0, 0, logits[2])
    prefill(two, second[:1], 0, 1, other[0])
    decode(two, first[3], 3, 0, logits[3])
    prefill(two, second[1:], 1, 1, other[3])
    prefill(two, first[4:6], 4, 0, logits[5])
    decode(two, first[6], 6, 0, logits[6])
    # A failed call changes nothing.
    wrong = prefill(case("wrong"), first[:6], 0, 1, logits[5])
    for arguments in (["1", "64", "1"], ["1", "-1", "1"], ["1", "0", "2"], ["1", "0", "-1"]):
        wrong.fails("decode", arguments, "FAILED_PRECONDITION")
    for tokens, position in ((np.zeros(0, np.int32), "6"), (np.ones(3, np.int32), "62")):
        wrong.fails("prefill", [tokens, position, "1"], "FAILED_PRECONDITION")
    decode(wrong, first[6], 6, 1, logits[6])
    return [whole, two, wrong]


def extra_files(folder):
    writer = gguf.GGUFWriter(folder / "model.gguf", "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_HEADS)
    writer.add_key_length(SIZE)
    writer.add_value_length(SIZE)
    writer.add_rope_dimension_count(SIZE)
    writer.add_rope_freq_base(BASE)
    writer.add_layer_norm_rms_eps(EPSILON)
    for name, (data, kind) in weights().items():
        writer.add_tensor(f"{name}.weight", data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
