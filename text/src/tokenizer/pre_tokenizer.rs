//! How text is split into words before byte-level BPE. Source: `llm_tokenizer_bpe` and `load` of llama.cpp's `src/llama-vocab.cpp`.

/// What `tokenizer.ggml.pre` names.
#[derive(Clone, Copy, Debug)]
pub(super) struct PreTokenizer {
    /// Regular expressions, each of which splits the words of the one before it. Text between matches is a word, too.
    pub(super) patterns: &'static [&'static str],
    /// Whether a word that is a token is that token, whatever the merges are.
    pub(super) ignores_merges: bool,
    /// Whether texts begin with the token of the beginning, unless the file says otherwise.
    pub(super) adds_begin: bool,
}

const GPT_2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)";
const LLAMA_3: &str = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN_2: &str = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN_3_5: &str = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT_4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Returns the pre-tokenizer of a name.
pub(super) fn of_name(name: &str) -> Option<PreTokenizer> {
    let patterns: &[&str] = match name {
        "default" => &[r"[\p{P}\$\+<=>\^~\|]+", GPT_2, r"\p{N}+", "[0-9][0-9][0-9]"],
        "gpt-2" | "phi-2" | "mpt" | "olmo" | "jais" | "trillion" | "granite-docling" | "exaone4" | "gigachat"
        | "a.x-4.0" | "mellum" => &[GPT_2],
        "smollm" | "starcoder" | "refact" | "command-r" | "codeshell" | "exaone" | "minerva-7b" | "mellum2" => {
            &[r"\p{N}", GPT_2]
        }
        "llama3" | "llama-v3" | "llama-bpe" | "falcon3" | "falcon-h1" | "pixtral" | "midm-2.0" | "lfm2" | "dbrx"
        | "smaug-bpe" | "glm4" | "chatglm-bpe" => &[LLAMA_3],
        "qwen2" | "deepseek-r1-qwen" | "kormo" | "stablelm2" | "hunyuan" | "megrez" | "solar-open" | "grok-2" => {
            &[QWEN_2]
        }
        "qwen35" => &[QWEN_3_5],
        "tekken" => &[TEKKEN],
        "gpt-4o" | "llama4" | "kanana2" => &[GPT_4O],
        _ => return None,
    };
    let is_llama_3 = patterns == [LLAMA_3] && !matches!(name, "dbrx" | "smaug-bpe" | "glm4" | "chatglm-bpe");
    let is_direct = is_llama_3 || name == "tekken";
    Some(PreTokenizer { patterns, ignores_merges: is_direct, adds_begin: is_direct })
}
