#!/usr/bin/env python3
"""Writes tokenizers/*.json and json-cases.txt beside this file: small tokenizers of the forms that published models have, and the tokens of texts
by the Python package tokenizers, which this needs.
"""

import json
import pathlib

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).parent
DOCS = sorted((HERE.parent.parent / "docs").glob("*.md"))
OTHER = "naïve café Straße Ελληνικά текст 日本語 漢字 한국어 हिन्दी 🤗 "
LLAMA_3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEXTS = [
    "Hello, world!", "The module reads the file.", "it's we're I'VE they'll don'T", "  two   spaces ", " \n\n \t x\r\n", "1234567 12 3.14159",
    "fn main() { println!(\"{}\", x + y); }", "naïve café Straße", "日本語の漢字", "🤗 👩‍👩‍👧", "हिन्दी १२३ ½²", "e\u0301te\u0301 \u212b", "\u3000\u00a0x",
    "<s>", "<s>system\nYou are</s>\n<s>user\nHello <tool> world</s>", "Hello<s>Hello<tool> Hello", " <s> x", "a<rest>  b", "a  <rest>\nb", "▁x ▁", "x" * 40,
    "<0x41>", "unreachable", "\n\n\n", "<unk>", "end\n",
]


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def byte_level(**options):
    return pre_tokenizers.ByteLevel(**{"add_prefix_space": False, "use_regex": False, **options})


def space_normalizer(*first):
    return normalizers.Sequence([*first, normalizers.Replace(" ", "▁")])


def piece_decoder(*last):
    return decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *last])


def forms():
    """Names, normalizers, pre-tokenizers, decoders, options of models, whether the start of a text has a token."""
    of_bytes = decoders.ByteLevel()
    yield "qwen2", normalizers.NFC(), pre_tokenizers.Sequence([split(LLAMA_3.replace("{1,3}", "")), byte_level()]), of_bytes, {}, False
    yield "llama3", None, pre_tokenizers.Sequence([split(LLAMA_3), byte_level()]), of_bytes, {"ignore_merges": True}, True
    yield "smollm", None, pre_tokenizers.Sequence([pre_tokenizers.Digits(True), byte_level(use_regex=True)]), of_bytes, {}, False
    yield "prefix", None, byte_level(add_prefix_space=True, use_regex=True), of_bytes, {}, False
    fallback = {"byte_fallback": True, "unk_token": "<unk>", "fuse_unk": True}
    yield "llama2", space_normalizer(normalizers.Prepend("▁")), None, piece_decoder(decoders.Strip(" ", 1, 0)), fallback, True
    metaspace = pre_tokenizers.Metaspace("▁", "first", False)
    yield "metaspace", None, metaspace, piece_decoder(decoders.Strip(" ", 1, 0)), fallback, True
    merged = pre_tokenizers.Split(" ", "merged_with_previous")
    yield "gemma3", space_normalizer(), merged, piece_decoder(), fallback, True


def train(name, normalizer, pre_tokenizer, decoder, options, has_begin):
    tokenizer = Tokenizer(models.BPE(**{key: value for key, value in options.items() if key != "byte_fallback"}))
    if normalizer:
        tokenizer.normalizer = normalizer
    # Merges across words would take all of a line.
    tokenizer.pre_tokenizer = pre_tokenizer or pre_tokenizers.Split("▁", "merged_with_next")
    if name in ("metaspace", "gemma3"):
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace("▁", "first" if name == "metaspace" else "never", True)
    is_byte_level = "byte_fallback" not in options
    bytes_of = [f"<0x{byte:02X}>" for byte in range(256)]
    initial = pre_tokenizers.ByteLevel.alphabet() if is_byte_level else []
    corpus = [path.read_text()[:8000] for path in DOCS] + [OTHER] * 4
    size = 420 if is_byte_level else 300
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=initial, limit_alphabet=1000 if is_byte_level else 110, special_tokens=["<unk>", "<s>", "</s>"], show_progress=False)
    tokenizer.train_from_iterator(corpus, trainer)
    file = json.loads(tokenizer.to_str())
    vocabulary = file["model"]["vocab"]
    for token in bytes_of if not is_byte_level else ["Ġunreachable"]:
        vocabulary.setdefault(token, len(vocabulary))
    file["model"].update(options)
    tokenizer = Tokenizer.from_str(json.dumps(file))
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    else:
        file = json.loads(tokenizer.to_str())
        file["pre_tokenizer"] = None
        tokenizer = Tokenizer.from_str(json.dumps(file))
    tokenizer.decoder = decoder
    tokenizer.add_tokens([AddedToken("<tool>", normalized=False)])
    tokenizer.add_special_tokens([AddedToken("<rest>", normalized=False, lstrip=True, rstrip=True, special=True)])
    if has_begin:
        begin = ("<s>", tokenizer.token_to_id("<s>"))
        tokenizer.post_processor = processors.TemplateProcessing("<s> $A", "<s> $A <s> $B", [begin])
    return tokenizer


def escaped(text):
    return "".join({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character, character) for character in text)


def main():
    lines = []
    for name, *form in forms():
        tokenizer = train(name, *form)
        (HERE / "tokenizers" / f"{name}.json").write_text(json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":")) + "\n")
        for text in TEXTS:
            tokens = tokenizer.encode(text, add_special_tokens=False).ids
            decoded = tokenizer.decode(tokens)
            lines.append("\t".join([name, escaped(text), " ".join(map(str, tokens)), escaped(decoded)]))
    (HERE / "json-cases.txt").write_text("\n".join(lines) + "\n")


main()
