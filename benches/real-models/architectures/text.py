"""Transformers of text and sound, of the package transformers, in small sizes."""

from .model import Model, from_torch

TOKENS = 64
VOCABULARY = 4096
SMALL = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024}


def wrapped(inner, call):
    """Returns a torch module that is `call(inner, *inputs)`, whose results are plain tensors."""
    import torch

    class Wrapped(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = inner

        def forward(self, *inputs):
            return call(self.inner, *inputs)

    return Wrapped()


def tokens(*shape):
    import torch

    return torch.randint(0, VOCABULARY, shape)


def bert():
    import torch
    from transformers import BertConfig, BertModel

    model = BertModel(BertConfig(vocab_size=VOCABULARY, attn_implementation="eager", **SMALL))
    mask = torch.ones(1, TOKENS, dtype=torch.int64)
    mask[:, TOKENS // 2 :] = 0
    call = lambda inner, ids, mask: tuple(inner(input_ids=ids, attention_mask=mask)[:2])
    return wrapped(model, call), (tokens(1, TOKENS), mask)


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=VOCABULARY, n_positions=TOKENS, n_embd=256, n_layer=4, n_head=4, attn_implementation="eager"
    )
    call = lambda inner, ids: inner(input_ids=ids, use_cache=False).logits
    return wrapped(GPT2LMHeadModel(config), call), (tokens(1, TOKENS),)


def whisper():
    """The encoder of Whisper-Tiny, for two seconds of sound."""
    import torch
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(
        d_model=384,
        encoder_layers=4,
        encoder_attention_heads=6,
        encoder_ffn_dim=1536,
        max_source_positions=100,
        attn_implementation="eager",
    )
    call = lambda inner, mel: inner(mel).last_hidden_state
    return wrapped(WhisperEncoder(config), call), (torch.randn(1, 80, 200),)


def llama():
    """One step of generation: a token, its position, and keys and values of the tokens before it, which the step extends."""
    import torch
    from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(vocab_size=VOCABULARY, num_key_value_heads=2, attn_implementation="eager", **SMALL)
    layers, width = config.num_hidden_layers, config.hidden_size // config.num_attention_heads

    def call(inner, token, position, *past):
        cache = DynamicCache()
        for layer in range(layers):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        logits = inner(input_ids=token, position_ids=position, past_key_values=cache, use_cache=True).logits
        return (logits, *(tensor for layer in cache.layers for tensor in (layer.keys, layer.values)))

    past = [torch.randn(1, 2, TOKENS - 1, width) for _ in range(2 * layers)]
    return wrapped(LlamaForCausalLM(config), call), (tokens(1, 1), torch.tensor([[TOKENS - 1]]), *past)


def t5():
    """The encoder of a small T5."""
    from transformers import T5Config, T5EncoderModel

    config = T5Config(vocab_size=VOCABULARY, d_model=256, d_kv=64, d_ff=1024, num_layers=4, num_heads=4)
    call = lambda inner, ids: inner(input_ids=ids).last_hidden_state
    return wrapped(T5EncoderModel(config), call), (tokens(1, TOKENS),)


def row(name: str, title: str, create, size: str, through: str = "mlir") -> Model:
    route = "ONNX" if through == "onnx" else "torch.export"
    return Model(name, title, f"transformers, {route}", size, from_torch(create, through))


MODELS = [
    row("bert", "BERT-Mini", bert, f"1x{TOKENS} tokens, masked"),
    row("gpt2", "GPT-2, 4 layers of 256", gpt2, f"1x{TOKENS} tokens"),
    row("whisper", "Whisper-Tiny's encoder", whisper, "1x80x200, 2 s of sound"),
    row("llama", "LLaMA, 4 layers of 256, a step with KV cache", llama, f"1 token after {TOKENS - 1}"),
    row("t5", "T5's encoder, 4 layers of 256", t5, f"1x{TOKENS} tokens"),
]
