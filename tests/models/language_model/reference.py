"""A language model of two layers, in GGUF: every matrix is of another element type, and its blocks are random bytes.

`model.mlir` is what incarnate-gguf imports for VMVX; `BLESS=1 cargo test -p incarnate-gguf --test fixture` writes it again.
"""

import dataclasses
import sys
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType as Type

import fixture

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "gguf"))
from language_model import Model, matrix, vector  # noqa: E402

VARIANTS = [dataclasses.replace(fixture.VMVX, flags=[*fixture.VMVX.flags, "--iree-input-type=none"])]
LAYERS, WIDTH, HEADS, KEY_HEADS, SIZE, HIDDEN, TOKENS, CONTEXT = 2, 256, 4, 2, 32, 256, 48, 64
# Where numbers are about as far from two integers, they are rounded to different ones, and then what is computed from them: as far as rounded
# logits are from those of `f32`.
TOLERANCES = {"f32": 2e-4, "i8": 0.05}
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
# Words of two letters are tokens, too.
LETTERS = "abcdefghijklmnopqrstuvwxyz.!?\n"
VOCABULARY = ["<unk>", "<s>", "</s>", "\u2581", *LETTERS, "\u2581a", "th", "he", "an", "in", "on", "is", "it", "of", "or", "as", "at", "to", "er"]
TEMPLATE = "{{ bos_token }}{% for message in messages %}{{ message.role }}\n{{ message.content }}\n{% endfor %}assistant\n"
VECTORS = [f"blk.{layer}.{name}" for layer in range(LAYERS) for name in ("attn_norm", "ffn_norm")] + ["output_norm"]


def model(activations="f32"):
    rng = np.random.default_rng(11)
    weights = {f"{name}.weight": matrix(rng, *row) for name, row in MATRICES.items()}
    weights |= {f"{name}.weight": vector(rng, WIDTH) for name in VECTORS}
    return Model("llama", LAYERS, WIDTH, HEADS, KEY_HEADS, SIZE, HIDDEN, CONTEXT, weights, tokens=VOCABULARY, template=TEMPLATE, activations=activations)


def cases(activations="f32"):
    first, second = [7, 3, 44, 0, 21, 9, 9], [1, 2, 3, 4]
    tolerance = TOLERANCES[activations]
    logits, other = model(activations).logits(first), model(activations).logits(second)
    unread = "its reader of GGUF files lacks BF16 and MXFP4"

    def case(name):
        return fixture.Case(name, parameters=("model=model.gguf",), iree_differs=unread)

    def prefill(case, tokens, position, slot, expected):
        array = np.array(tokens, np.int32)
        return case.call("prefill", [array, f"{position}", f"{slot}"], [expected], f32=tolerance)

    def decode(case, token, position, slot, expected):
        return case.call("decode", [f"{token}", f"{position}", f"{slot}"], [expected], f32=tolerance)

    def batch(case, steps, expected):
        tokens, positions, slots = zip(*steps)
        numbers = [f"{number}" for number in (*positions, *slots)]
        return case.call("decode_batch", [np.array(tokens, np.int32), *numbers], [np.stack(expected)], f32=tolerance)

    whole = prefill(case("prefill"), first, 0, 0, logits[-1])
    # Two conversations, whose calls alternate.
    two = prefill(case("conversations"), first[:3], 0, 0, logits[2])
    prefill(two, second[:1], 0, 1, other[0])
    decode(two, first[3], 3, 0, logits[3])
    prefill(two, second[1:], 1, 1, other[3])
    prefill(two, first[4:6], 4, 0, logits[5])
    decode(two, first[6], 6, 0, logits[6])
    # The next tokens of both at once, in any slots, and one of them twice.
    both = prefill(case("batch"), first[:3], 0, 1, logits[2])
    prefill(both, second[:2], 0, 0, other[1])
    batch(both, [(first[3], 3, 1), (second[2], 2, 0)], [logits[3], other[2]])
    batch(both, [(second[3], 3, 0), (first[4], 4, 1)], [other[3], logits[4]])
    batch(both, [(first[5], 5, 1)] * 2, [logits[5]] * 2)
    both.fails("decode_batch", [np.ones(2, np.int32), "4", "64", "0", "1"], "FAILED_PRECONDITION")
    decode(both, first[6], 6, 1, logits[6])
    # A failed call changes nothing.
    wrong = prefill(case("wrong"), first[:6], 0, 1, logits[5])
    for arguments in (["1", "64", "1"], ["1", "-1", "1"], ["1", "0", "2"], ["1", "0", "-1"]):
        wrong.fails("decode", arguments, "FAILED_PRECONDITION")
    for tokens, position in ((np.zeros(0, np.int32), "6"), (np.ones(3, np.int32), "62")):
        wrong.fails("prefill", [tokens, position, "1"], "FAILED_PRECONDITION")
    decode(wrong, first[6], 6, 1, logits[6])
    # The vectors of all tokens, added; those of the second call follow those of the first.
    vectors = model(activations).vectors(first)
    embedded = case("embeddings")
    for tokens, position in ((first[:4], 0), (first[4:], 4), (first[:1], 0)):
        expected = vectors[position : position + len(tokens)].sum(0).astype(np.float32)
        embedded.call("embed", [np.array(tokens, np.int32), f"{position}", "1"], [expected], f32=tolerance)
    return [whole, two, both, wrong, embedded]


def extra_files(folder):
    model().write(folder / "model.gguf")
