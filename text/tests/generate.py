#!/usr/bin/env python3
"""Writes merges.txt, pieces.txt and cases.txt beside this file: two small vocabularies, and the tokens of texts.

usage: generate.py     needs the Python packages regex, sentencepiece and tokenizers

The expected tokens are those of other implementations: SentencePiece for the model `llama`; for `gpt2` a plain loop over all merges, which must
agree with the Python package tokenizers and the patterns that models' own tokenizer.json have.
"""

import io
import json
import pathlib

import regex
import sentencepiece
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

HERE = pathlib.Path(__file__).parent
DOCS = sorted((HERE.parent.parent / "docs").glob("*.md"))

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool>"]
# A token that no merge leads to.
UNREACHABLE = "Ġunreachable"
OTHER = "naïve café Straße Ünïcödé Ελληνικά абвгд текст 日本語 漢字 カタカナ 한국어 עברית العربية हिन्दी 🤗 👩‍👩‍👧 ½ ² Ⅷ १२३ "

TEXTS = [
    "Hello, world!", "The module reads the file.", "it's we're I'VE they'll don'T o'clock", "  two   spaces ", " \n\n \t x\r\n", "1234567 12 3.14159, 2026",
    "a1b22c333", "fn main() { println!(\"{}\", x + y); }", "naïve café Straße", "日本語の漢字", "🤗 👩‍👩‍👧", "हिन्दी १२३ ½²", "Ελληνικά текст", "عربي עברית",
    "CamelCaseWords HTTPServer ABCdef", "path/to/file.rs // comment", "<=> ^~| $+ !!??", "unreachable unreachable", "e\u0301te\u0301", "\u3000\u00a0x",
    "<|im_start|>user", "<tool>", "ſ's", "x" * 60, "\t\ttabs", "end\n", "\n\nUser:\r\n/",
]

GPT_2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
LLAMA_3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
REST = r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
FIRST = r"[^\r\n\p{L}\p{N}]?"
SUFFIX = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
PATTERNS = {
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT_2, r"\p{N}+", "[0-9][0-9][0-9]"],
    "gpt-2": [GPT_2],
    "smollm": [r"\p{N}", GPT_2],
    "llama-bpe": [LLAMA_3],
    "qwen2": [LLAMA_3.replace("{1,3}", "")],
    "qwen35": [LLAMA_3.replace("{1,3}", "").replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]")],
    "tekken": [f"{FIRST}{UPPER}*{LOWER}+|{FIRST}{UPPER}+{LOWER}*|{REST}"],
    "gpt-4o": [f"{FIRST}{UPPER}*{LOWER}+{SUFFIX}|{FIRST}{UPPER}+{LOWER}*{SUFFIX}|{REST}".replace(r"\p{N}| ?", r"\p{N}{1,3}| ?")],
}
DIRECT = ("llama-bpe", "tekken")


def alphabet():
    direct = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in direct]
    return {byte: chr(byte) for byte in direct} | {byte: chr(256 + index) for index, byte in enumerate(others)}


def corpus():
    return [path.read_text()[:20000] for path in DOCS] + [OTHER] * 40


def train_merges():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=1100, initial_alphabet=alphabet, show_progress=False))
    return [tuple(merge) for merge in json.loads(tokenizer.to_str())["model"]["merges"]]


def split(texts, pattern):
    words = []
    for text in texts:
        end = 0
        for match in regex.finditer(pattern, text):
            words += [text[end : match.start()], match.group()]
            end = match.end()
        words.append(text[end:])
    return [word for word in words if word]


def plain_loop(text, pre, vocab, ranks, letters):
    words = [text]
    for pattern in PATTERNS[pre]:
        words = split(words, pattern)
    tokens = []
    for word in words:
        pieces = [letters[byte] for byte in word.encode()]
        if pre in DIRECT and "".join(pieces) in vocab:
            pieces = ["".join(pieces)]
        while len(pieces) > 1:
            rank, at = min((ranks.get(pair, len(ranks)), at) for at, pair in enumerate(zip(pieces, pieces[1:])))
            if rank == len(ranks):
                break
            pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]
        tokens += [vocab[piece] for piece in pieces]
    return tokens


def package(pre, vocab, merges):
    tokenizer = Tokenizer(models.BPE(vocab, merges, ignore_merges=pre in DIRECT))
    words = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if pre == "gpt-2":
        tokenizer.pre_tokenizer = words
    elif pre == "smollm":
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(True), words])
    else:
        splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in PATTERNS[pre]]
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    return tokenizer


def escaped(text):
    for character, escape in [("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")]:
        text = text.replace(character, escape)
    return text


def byte_level_cases():
    letters, merges = alphabet(), train_merges()
    (HERE / "merges.txt").write_text("".join(f"{left} {right}\n" for left, right in merges))
    tokens = [*SPECIAL, *(letters[byte] for byte in range(256)), *(left + right for left, right in merges), UNREACHABLE]
    vocab = {token: number for number, token in reversed(list(enumerate(tokens)))}
    for special in SPECIAL:
        del vocab[special]
    ranks = {merge: rank for rank, merge in enumerate(merges)}
    for pre in PATTERNS:
        reference = package(pre, vocab, merges)
        for text in TEXTS:
            found = plain_loop(text, pre, vocab, ranks, letters)
            if pre != "default":
                assert reference.encode(text).ids == found, (pre, text)
            # The patterns of llama.cpp take this letter for no S.
            if "ſ" not in text:
                yield pre, text, found


def sentence_piece_cases():
    model = io.BytesIO()
    lines = [line for text in corpus() for line in text.splitlines() if line.strip()]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, model_type="bpe", vocab_size=1000, byte_fallback=True, character_coverage=0.995,
        normalization_rule_name="identity", remove_extra_whitespaces=False, control_symbols=["[INST]"], user_defined_symbols=["<tool>"],
        minloglevel=2,
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    rows = []
    for piece in range(processor.get_piece_size()):
        text = processor.id_to_piece(piece)
        kind = 2 if processor.is_unknown(piece) else 3 if processor.is_control(piece) else 6 if processor.is_byte(piece) else 4 if text == "<tool>" else 1
        rows.append(f"{processor.get_score(piece):g} {kind} {text}\n")
    (HERE / "pieces.txt").write_text("".join(rows))
    for text in TEXTS:
        # SentencePiece recognises symbols of the user everywhere.
        if "<tool>" not in text:
            yield "llama", text, processor.encode(text)


if __name__ == "__main__":
    cases = [*byte_level_cases(), *sentence_piece_cases()]
    lines = (f"{name}\t{escaped(text)}\t{' '.join(map(str, tokens))}\n" for name, text, tokens in cases)
    (HERE / "cases.txt").write_text("".join(lines))
