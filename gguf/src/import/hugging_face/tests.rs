//! Models of `config.json`, whole and wrong.

mod experts;
mod wrapper;

use incarnate_bytecode::Result;
use serde_json::{Value, json};

use super::super::config::Config;
use super::super::tests::{Model as GgufModel, WIDTH, joined, with_vectors};
use super::super::{Checkpoint, Options, import};
use super::checkpoint;
use crate::SafetensorsTensor;

/// A `config.json` and tensors: names, shapes, types.
#[derive(Clone)]
struct Model {
    config: Value,
    tensors: Vec<(String, Vec<u64>, &'static str)>,
}

const HIDDEN: u64 = 512;

impl Model {
    /// A model of one layer with the sizes of the model in GGUF.
    fn new(model_type: &str) -> Model {
        let config = json!({
            "model_type": model_type, "hidden_size": WIDTH, "num_hidden_layers": 1, "num_attention_heads": 4,
            "num_key_value_heads": 2, "head_dim": 64, "intermediate_size": HIDDEN, "max_position_embeddings": 64,
            "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": true, "vocab_size": 32,
        });
        let model = Model { config, tensors: Vec::new() };
        let model = model.tensor("model.embed_tokens.weight", &[32, WIDTH]).tensor("model.norm.weight", &[WIDTH]);
        let joined = model_type == "phi3";
        let parts: &[(&str, u64, u64)] = match joined {
            true => &[("self_attn.qkv_proj", 2 * WIDTH, WIDTH), ("mlp.gate_up_proj", 2 * HIDDEN, WIDTH)],
            false => &[
                ("self_attn.q_proj", WIDTH, WIDTH),
                ("self_attn.k_proj", WIDTH / 2, WIDTH),
                ("self_attn.v_proj", WIDTH / 2, WIDTH),
                ("mlp.gate_proj", HIDDEN, WIDTH),
                ("mlp.up_proj", HIDDEN, WIDTH),
            ],
        };
        let shared = [("self_attn.o_proj", WIDTH, WIDTH), ("mlp.down_proj", WIDTH, HIDDEN)];
        let model = parts
            .iter()
            .chain(&shared)
            .fold(model, |model, (part, rows, columns)| model.part(&format!("{part}.weight"), &[*rows, *columns]));
        let norms: &[&str] = match model_type {
            "gemma2" | "gemma3_text" => &[
                "input_layernorm",
                "post_attention_layernorm",
                "pre_feedforward_layernorm",
                "post_feedforward_layernorm",
            ],
            "olmo2" | "olmo3" => &["post_attention_layernorm", "post_feedforward_layernorm"],
            _ => &["input_layernorm", "post_attention_layernorm"],
        };
        let model = norms.iter().fold(model, |model, norm| model.part(&format!("{norm}.weight"), &[WIDTH]));
        let lengths = match model_type {
            "qwen3" | "gemma3_text" => [64; 2],
            "olmo2" | "olmo3" => [WIDTH, WIDTH / 2],
            "qwen2" => {
                let biases = [("q", WIDTH), ("k", WIDTH / 2), ("v", WIDTH / 2)];
                let bias = |model: Model, (part, length): (&str, u64)| {
                    model.part(&format!("self_attn.{part}_proj.bias"), &[length])
                };
                return biases.into_iter().fold(model, bias);
            }
            _ => return model,
        };
        let [queries, keys] = lengths;
        model.part("self_attn.q_norm.weight", &[queries]).part("self_attn.k_norm.weight", &[keys])
    }

    fn tensor(mut self, name: &str, shape: &[u64]) -> Model {
        self.tensors.push((name.to_owned(), shape.to_vec(), "F32"));
        self
    }

    /// Adds a tensor of layer 0.
    fn part(self, name: &str, shape: &[u64]) -> Model {
        self.tensor(&format!("model.layers.0.{name}"), shape)
    }

    fn without_tensor(mut self, name: &str) -> Model {
        self.tensors.retain(|row| row.0 != name);
        self
    }

    fn of_type(mut self, name: &str, element_type: &'static str) -> Model {
        self.tensors.iter_mut().filter(|row| row.0 == name).for_each(|row| row.2 = element_type);
        self
    }

    fn with(mut self, key: &str, value: Value) -> Model {
        self.config[key] = value;
        self
    }

    fn without(mut self, key: &str) -> Model {
        self.config.as_object_mut().unwrap().remove(key);
        self
    }

    fn checkpoint(&self) -> Result<Checkpoint> {
        let tensor = |(name, shape, element_type): &(String, Vec<u64>, &str)| SafetensorsTensor {
            name: name.clone(),
            element_type: (*element_type).to_owned(),
            shape: shape.clone(),
            offset: 0,
            length: 0,
        };
        let tensors: Vec<_> = self.tensors.iter().map(tensor).collect();
        checkpoint(self.config.to_string().as_bytes(), &tensors)
    }

    fn import(&self) -> Result<String> {
        import(&self.checkpoint()?, &Options::default())
    }

    fn config(&self) -> Config {
        Config::of(&self.checkpoint().unwrap(), &Options::default()).unwrap()
    }
}

#[test]
fn each_model_type_is_imported() {
    let (plain, mixtures): (Vec<&str>, Vec<&str>) =
        super::Family::names_of_all().partition(|name| super::Family::named(name).unwrap().experts.is_none());
    assert_eq!(mixtures, ["mixtral", "qwen2_moe", "qwen3_moe", "granitemoe", "olmoe"]);
    for name in &plain {
        let text = Model::new(name).import().unwrap();
        assert!(text.contains("#flow.parameter.named<\"model\"::\"model.embed_tokens.weight\">"), "{name}");
    }
    assert_eq!(plain.len(), 12);
}

/// The text of a model with the names that GGUF has for its parameters.
fn renamed(text: &str) -> String {
    let mut renamed = text.to_owned();
    for (key, name) in [
        ("model.embed_tokens", "token_embd"),
        ("model.norm", "output_norm"),
        ("model.layers.0.self_attn.q_proj", "blk.0.attn_q"),
        ("model.layers.0.self_attn.k_proj", "blk.0.attn_k"),
        ("model.layers.0.self_attn.v_proj", "blk.0.attn_v"),
        ("model.layers.0.self_attn.o_proj", "blk.0.attn_output"),
        ("model.layers.0.self_attn.q_norm", "blk.0.attn_q_norm"),
        ("model.layers.0.self_attn.k_norm", "blk.0.attn_k_norm"),
        ("model.layers.0.self_attn.qkv_proj", "blk.0.attn_qkv"),
        ("model.layers.0.input_layernorm", "blk.0.attn_norm"),
        ("model.layers.0.post_attention_layernorm", "blk.0.ffn_norm"),
        ("model.layers.0.mlp.gate_proj", "blk.0.ffn_gate"),
        ("model.layers.0.mlp.gate_up_proj", "blk.0.ffn_up"),
        ("model.layers.0.mlp.up_proj", "blk.0.ffn_up"),
        ("model.layers.0.mlp.down_proj", "blk.0.ffn_down"),
    ] {
        renamed = renamed.replace(&format!("\"{key}.weight\""), &format!("\"{name}.weight\""));
    }
    renamed
}

#[test]
fn modules_are_those_of_the_same_models_in_gguf() {
    let plain = |name: &'static str| GgufModel::new(name, 0);
    let qwen_3 = with_vectors(plain("qwen3"), &["attn_q_norm", "attn_k_norm"], 64);
    for (name, gguf) in [("qwen3", qwen_3), ("phi3", joined(plain("phi3"), 0))] {
        assert!(renamed(&Model::new(name).import().unwrap()) == gguf.import().unwrap(), "{name}");
    }
    // The pairs of rotary embeddings are others, and nothing else: rows of queries and keys are not permuted.
    let llama = renamed(&Model::new("llama").import().unwrap());
    assert!(llama != plain("llama").import().unwrap());
    assert!(llama == plain("qwen2").import().unwrap());
}

#[test]
fn vectors_of_16_bits_are_read_as_f32() {
    for element_type in ["F16", "BF16"] {
        let text = Model::new("llama").of_type("model.norm.weight", element_type).import().unwrap();
        assert!(text.contains("\"model.norm.weight\"> : tensor<256xi16>"), "{element_type}");
    }
    let gemma = Model::new("gemma").import().unwrap();
    assert!(
        gemma.matches("arith.constant 1.0 : f32").count()
            > Model::new("llama").import().unwrap().matches("arith.constant 1.0 : f32").count()
    );
}

#[test]
fn sliding_windows_are_those_of_the_layers() {
    let windows = |model: Model| {
        let layers = (1..7).fold(model.with("num_hidden_layers", json!(7)), |model, layer| {
            let parts: Vec<_> =
                model.tensors.iter().filter(|row| row.0.starts_with("model.layers.0.")).cloned().collect();
            let rename = |name: &str| name.replace(".0.", &format!(".{layer}."));
            parts.into_iter().fold(model, |model, (name, shape, _)| model.tensor(&rename(&name), &shape))
        });
        let config = layers.config();
        (0..7).map(|layer| config.window_of(layer).is_some()).collect::<Vec<_>>()
    };
    let types = |pattern: &str| -> Value {
        pattern.chars().map(|kind| if kind == 's' { "sliding_attention" } else { "full_attention" }).collect()
    };
    let flags = |pattern: &str| pattern.chars().map(|kind| kind == 's').collect::<Vec<_>>();
    let window = |name: &str| Model::new(name).with("sliding_window", json!(8));
    let qwen = || window("qwen3").with("max_window_layers", json!(5));
    for (model, expected) in [
        (window("mistral"), "sssssss"),
        (Model::new("mistral"), "sssssss"),
        (Model::new("mistral").with("sliding_window", json!(null)), "fffffff"),
        (Model::new("phi3"), "fffffff"),
        (qwen(), "fffffff"),
        (qwen().with("use_sliding_window", json!(true)), "fffffss"),
        (qwen().with("use_sliding_window", json!(true)).with("layer_types", types("sfsffff")), "sfsffff"),
        (window("gemma2"), "sfsfsfs"),
        (window("gemma3_text"), "sssssfs"),
        (window("gemma3_text").with("sliding_window_pattern", json!(3)), "ssfssfs"),
        (window("gemma3_text").with("layer_types", types("ffffffs")), "ffffffs"),
        (window("olmo3"), "sssfsss"),
        (Model::new("smollm3").with("layer_types", types("fffffff")), "fffffff"),
    ] {
        assert_eq!(windows(model.clone()), flags(expected), "{}", model.config);
    }
}

#[test]
fn rotary_embeddings_are_those_of_older_and_newer_files() {
    let bits = |model: &Model| {
        let config = model.config();
        [config.frequencies, config.local_frequencies]
            .map(|all| (0..4).map(|pair| all.of_pair(pair)).collect::<Vec<_>>())
    };
    let linear = json!({"type": "linear", "factor": 4.0});
    let old = Model::new("llama").with("rope_scaling", linear).with("rope_theta", json!(500.0));
    let parameters = json!({"rope_type": "linear", "factor": 4.0, "rope_theta": 500.0});
    let new = Model::new("llama").without("rope_theta").with("rope_parameters", parameters);
    assert_eq!(bits(&old), bits(&new));
    assert_eq!(bits(&old)[0][0], 0.25);
    let old = Model::new("gemma3_text").with("rope_theta", json!(1e6)).with("rope_local_base_freq", json!(100.0));
    let old = old.with("rope_scaling", json!({"rope_type": "linear", "factor": 8.0}));
    let parameters = json!({
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
    });
    let new = Model::new("gemma3_text").without("rope_theta").with("rope_parameters", parameters);
    assert_eq!(bits(&old), bits(&new));
    assert_eq!([bits(&old)[0][0], bits(&old)[1][0]], [0.125, 1.0]);
    // The frequencies that turn most often stay, and the others are divided by the factor.
    let scaling = json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32});
    let divisors = Model::new("llama").with("rope_scaling", scaling).checkpoint().unwrap();
    let divisors = divisors.vector("rope_freqs.weight").unwrap().to_vec();
    assert_eq!((divisors.len(), divisors[0], divisors[31]), (32, 1.0, 8.0));
    assert!(divisors.is_sorted());
}

fn assert_refused(model: &Model, words: &str) {
    let error = model.import().unwrap_err().to_string();
    assert!(error.contains(words), "{words}: {error}");
}

#[test]
fn rotary_embeddings_that_are_not_understood_are_refused_by_their_names() {
    let llama = || Model::new("llama");
    let scaled = |value: Value| llama().with("rope_scaling", value);
    let list = |length: usize| vec![1.0; length];
    let long = |count| json!({"type": "longrope", "short_factor": list(32), "long_factor": list(count)});
    for (model, words) in [
        (scaled(json!({"type": "dynamic", "factor": 2.0})), "of the type 'dynamic' ('rope_scaling.rope_type')"),
        (scaled(json!({"type": "linear"})), "no 'rope_scaling.factor' above 0"),
        (
            scaled(json!({"type": "linear", "factor": 2.0, "finetuned": true})),
            "'rope_scaling.finetuned' is not understood",
        ),
        (scaled(json!("linear")), "'rope_scaling' is not an object"),
        (scaled(json!({"type": "yarn", "factor": 2.0, "truncate": false})), "'rope_scaling.truncate' of false"),
        (scaled(long(31)), "'rope_scaling.long_factor' has 31 numbers, not 32 above 0"),
        (scaled(json!({"type": "longrope"})), "no 'rope_scaling.short_factor'"),
        (
            scaled(json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0, "high_freq_factor": 4.0})),
            "'rope_scaling.low_freq_factor' is not below 'rope_scaling.high_freq_factor'",
        ),
        (scaled(json!({})).with("rope_parameters", json!({})), "both 'rope_parameters' and 'rope_scaling'"),
        (
            Model::new("gemma3_text").with("rope_parameters", json!({"rope_theta": 1e6})),
            "'rope_parameters.rope_theta' is not understood",
        ),
        (
            Model::new("olmo3").with("rope_parameters", json!({"sliding_attention": {"type": "linear"}})),
            "of the type 'linear' ('rope_parameters.sliding_attention.rope_type')",
        ),
    ] {
        assert_refused(&model, words);
    }
}

#[test]
fn tensors_that_are_not_those_of_the_model_are_refused_by_their_names() {
    let llama = || Model::new("llama");
    for (model, words) in [
        (llama().with("attention_bias", json!(true)), "no tensor 'model.layers.0.self_attn.q_proj.bias'"),
        (llama().part("self_attn.q_proj.bias", &[WIDTH]), "'model.layers.0.self_attn.q_proj.bias' is a bias"),
        (
            llama().part("self_attn.sinks", &[4]),
            "the tensor 'model.layers.0.self_attn.sinks' of the model type 'llama'",
        ),
        (
            llama().tensor("model.layers.00.mlp.up_proj.weight", &[1]),
            "'model.layers.00.mlp.up_proj.weight' of the model",
        ),
        (llama().tensor("model.layers.1.mlp.up_proj.weight", &[1]), "'model.layers.1.mlp.up_proj.weight' of the archi"),
        (llama().part("self_attn.q_norm.weight", &[64]), "'model.layers.0.self_attn.q_norm.weight' of the model type"),
        (Model::new("phi3").with("attention_bias", json!(true)), "'attention_bias'"),
        (Model::new("qwen2").with("use_mrope", json!(true)), "'use_mrope'"),
        (llama().with("tie_word_embeddings", json!(false)), "no tensor 'lm_head.weight'"),
        (llama().without_tensor("model.norm.weight"), "no tensor 'model.norm.weight'"),
        (llama().of_type("model.norm.weight", "F64"), "'model.norm.weight' of F64, not F32, F16 or BF16"),
        (llama().of_type("model.embed_tokens.weight", "F8_E4M3"), "'model.embed_tokens.weight' of F8_E4M3"),
        (
            llama().without_tensor("model.norm.weight").tensor("model.norm.weight", &[WIDTH, 1]),
            "'model.norm.weight' has the shape [256, 1] instead of [256]",
        ),
    ] {
        assert_refused(&model, words);
    }
}

#[test]
fn what_is_not_understood_is_refused_by_its_name() {
    let llama = || Model::new("llama");
    for (model, words) in [
        (
            llama().with("model_type", json!("bert")),
            "the model type 'bert' is not supported; these are: llama, mistral",
        ),
        (llama().without("model_type"), "there is no 'model_type'"),
        (llama().with("hidden_size", json!("256")), "'hidden_size' is not one number from 0"),
        (llama().without("hidden_size"), "there is no 'hidden_size' of 1 or more"),
        (llama().with("num_attention_heads", json!(0)), "there is no 'num_attention_heads' of 1 or more"),
        (llama().with("num_hidden_layers", json!(100)), "'num_hidden_layers' is 100, and there are 11 tensors"),
        (llama().with("num_hidden_layers", json!(2)), "no tensor 'model.layers.1.input_layernorm.weight'"),
        (Model::new("qwen3").without("num_key_value_heads"), "there is no 'num_key_value_heads'"),
        (llama().with("rms_norm_eps", json!(0)), "'rms_norm_eps' of 0 is not above 0"),
        (llama().with("hidden_act", json!("gelu")), "'hidden_act' of 'gelu'"),
        (llama().with("hidden_activation", json!("silu")), "'hidden_activation' is not understood"),
        (Model::new("gemma2").with("hidden_activation", json!("gelu")), "'hidden_activation' of 'gelu'"),
        (llama().with("quantization_config", json!({"bits": 4})), "'quantization_config' is not understood"),
        (llama().with("sliding_window", json!(8)), "'sliding_window' is not understood"),
        (llama().with("rope_interleaved", json!(true)), "'rope_interleaved'"),
        (Model::new("gemma").with("use_bidirectional_attention", json!(true)), "'use_bidirectional_attention'"),
        (Model::new("smollm3").with("use_sliding_window", json!(true)), "'use_sliding_window'"),
        (Model::new("smollm3").with("no_rope_layers", json!([0])), "'no_rope_layers' other than each one of 4"),
        (Model::new("smollm3").with("no_rope_layer_interval", json!(2)), "'no_rope_layers' other than"),
        (
            Model::new("gemma2").with("layer_types", json!(["full_attention", "full_attention"])),
            "'layer_types' has 2 of 1 layers",
        ),
        (Model::new("gemma2").with("layer_types", json!(["chunked_attention"])), "'layer_types' is not an array of"),
        (Model::new("gemma3_text").with("sliding_window_pattern", json!(0)), "'sliding_window_pattern' is 0"),
        (Model::new("granite").with("logits_scaling", json!(-1)), "'logits_scaling' of -1 is not above 0"),
    ] {
        assert_refused(&model, words);
    }
    for (text, words) in [("", "EOF"), ("[]", "expected a map"), ("{\"a\": 1", "EOF"), (&"[".repeat(1000), "recursion")]
    {
        let error = checkpoint(text.as_bytes(), &[]).unwrap_err().to_string();
        assert!(error.contains("config.json") && !error.contains('\n'), "{words}: {error}");
    }
}

#[test]
fn tensors_without_effect_are_left_out() {
    let tied = Model::new("llama").tensor("lm_head.weight", &[32, WIDTH]).part("self_attn.rotary_emb.inv_freq", &[32]);
    assert!(!tied.import().unwrap().contains("@output.weight"));
    let own = tied.with("tie_word_embeddings", json!(false)).import().unwrap();
    assert!(own.contains("@output.weight = #flow.parameter.named<\"model\"::\"lm_head.weight\">"));
}
