//! Imports of small models, whole and damaged.

use incarnate_bytecode::{Result, StatusCode};

use super::config::Config;
use super::{Checkpoint, Options, import};
use crate::tests::{Row, header, read, text};
use crate::{ElementType, GgufFile};

/// A file with the metadata and the tensors of a model of one layer.
pub(super) struct Model {
    metadata: Vec<(String, Value)>,
    /// Names, shapes with the rows last, types.
    tensors: Vec<(String, Vec<u64>, u32)>,
}

#[derive(Clone)]
enum Value {
    Text(&'static str),
    Count(u32),
    Number(f32),
    Flags(&'static [u8]),
}

pub(super) const WIDTH: u64 = 256;

impl Model {
    /// A model whose matrices are of the type with the number.
    pub(super) fn new(architecture: &'static str, number: u32) -> Model {
        let mut metadata = vec![("general.architecture".to_owned(), Value::Text(architecture))];
        for (key, count) in [
            ("context_length", 64),
            ("embedding_length", 256),
            ("block_count", 1),
            ("feed_forward_length", 512),
            ("attention.head_count", 4),
            ("attention.head_count_kv", 2),
        ] {
            metadata.push((format!("{architecture}.{key}"), Value::Count(count)));
        }
        let mut tensors: Vec<(String, Vec<u64>, u32)> = Vec::new();
        let vectors = ["blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"];
        tensors.extend(vectors.map(|name| (format!("{name}.weight"), vec![WIDTH], 0)));
        for (name, rows, columns) in [
            ("token_embd", 32, WIDTH),
            ("blk.0.attn_q", WIDTH, WIDTH),
            ("blk.0.attn_k", WIDTH / 2, WIDTH),
            ("blk.0.attn_v", WIDTH / 2, WIDTH),
            ("blk.0.attn_output", WIDTH, WIDTH),
            ("blk.0.ffn_gate", 512, WIDTH),
            ("blk.0.ffn_up", 512, WIDTH),
            ("blk.0.ffn_down", WIDTH, 512),
        ] {
            tensors.push((format!("{name}.weight"), vec![rows, columns], number));
        }
        Model { metadata, tensors }
    }

    fn with(mut self, key: &str, value: Value) -> Model {
        self.metadata.retain(|row| row.0 != key);
        self.metadata.push((key.to_owned(), value));
        self
    }

    /// Sets the shape and the type of a tensor, or removes it.
    fn tensor(mut self, name: &str, shape: Option<(&[u64], u32)>) -> Model {
        self.tensors.retain(|row| row.0 != name);
        self.tensors.extend(shape.map(|(shape, number)| (name.to_owned(), shape.to_vec(), number)));
        self
    }

    fn file(&self) -> GgufFile {
        let row = |(key, value): &'_ (String, Value)| match value {
            Value::Text(value) => (key.clone(), 8, text(value)),
            Value::Count(count) => (key.clone(), 4, count.to_le_bytes().to_vec()),
            Value::Number(number) => (key.clone(), 6, number.to_le_bytes().to_vec()),
            Value::Flags(flags) => {
                let count = u64::try_from(flags.len()).unwrap();
                (key.clone(), 9, [&7u32.to_le_bytes()[..], &count.to_le_bytes(), flags].concat())
            }
        };
        let rows: Vec<(String, u32, Vec<u8>)> = self.metadata.iter().map(row).collect();
        let rows: Vec<Row<'_>> = rows.iter().map(|(key, kind, value)| (&**key, *kind, value.clone())).collect();
        read(header(&rows, &self.tensors)).unwrap()
    }

    fn checkpoint(&self) -> Checkpoint {
        Checkpoint::from_gguf(&self.file()).unwrap()
    }

    pub(super) fn import(&self) -> Result<String> {
        import(&self.checkpoint(), &Options::default())
    }
}

/// Joins the projections of queries, keys and values, and those of gates and of the other products.
pub(super) fn joined(model: Model, number: u32) -> Model {
    let removed = ["attn_q", "attn_k", "attn_v", "ffn_gate"];
    let model = removed.iter().fold(model, |model, part| model.tensor(&format!("blk.0.{part}.weight"), None));
    let model = model.tensor("blk.0.attn_qkv.weight", Some((&[2 * WIDTH, WIDTH], number)));
    model.tensor("blk.0.ffn_up.weight", Some((&[1024, WIDTH], number)))
}

/// Adds vectors of layer 0.
pub(super) fn with_vectors(model: Model, names: &[&str], length: u64) -> Model {
    let with = |model: Model, name: &&str| model.tensor(&format!("blk.0.{name}.weight"), Some((&[length], 0)));
    names.iter().fold(model, with)
}

/// Replaces the feed-forward network by four experts, of which two are used.
fn mixed(model: Model, architecture: &str) -> Model {
    let model = model.with(&format!("{architecture}.expert_count"), Value::Count(4));
    let model = model.with(&format!("{architecture}.expert_used_count"), Value::Count(2));
    let parts = ["gate", "up", "down"];
    let model = parts.iter().fold(model, |model, part| model.tensor(&format!("blk.0.ffn_{part}.weight"), None));
    [
        ("gate_inp", &[4, WIDTH][..]),
        ("gate_exps", &[4, 512, WIDTH]),
        ("up_exps", &[4, 512, WIDTH]),
        ("down_exps", &[4, WIDTH, 512]),
    ]
    .iter()
    .fold(model, |model, (part, shape)| model.tensor(&format!("blk.0.ffn_{part}.weight"), Some((shape, 8))))
}

#[test]
fn each_architecture_is_imported() {
    let head_norms = |model: Model| with_vectors(model, &["attn_q_norm", "attn_k_norm"], 64);
    let post_norms = |model: Model| with_vectors(model, &["post_attention_norm", "post_ffw_norm"], WIDTH);
    let all_heads =
        |model: Model| with_vectors(with_vectors(model, &["attn_q_norm"], WIDTH), &["attn_k_norm"], WIDTH / 2);
    let results_alone =
        |model: Model| model.tensor("blk.0.attn_norm.weight", None).tensor("blk.0.ffn_norm.weight", None);
    for (name, complete) in [
        ("llama", &(|model| model) as &dyn Fn(Model) -> Model),
        ("qwen2", &|model| model),
        ("qwen3", &head_norms),
        ("gemma", &|model| model),
        ("gemma2", &post_norms),
        ("gemma3", &|model| post_norms(head_norms(model))),
        ("granite", &|model| model),
        ("phi3", &|model| joined(model, 8)),
        ("smollm3", &|model| model),
        ("mistral3", &|model| model),
        ("olmo2", &|model| results_alone(post_norms(all_heads(model)))),
        ("olmoe", &|model| all_heads(mixed(model, "olmoe"))),
        ("llama", &|model| mixed(model, "llama")),
        ("granitemoe", &|model| mixed(model, "granitemoe")),
        ("qwen2moe", &|model| mixed(model, "qwen2moe")),
        ("qwen3moe", &|model| head_norms(mixed(model, "qwen3moe"))),
    ] {
        complete(Model::new(name, 8)).import().unwrap();
    }
}

#[test]
fn layers_have_the_window_of_their_position() {
    const PATTERN: &str = "attention.sliding_window_pattern";
    let layers = |name: &'static str, facts: &[(&str, Value)]| {
        let model = Model::new(name, 8).with(&format!("{name}.block_count"), Value::Count(7));
        let with = |model: Model, (key, value): &(&str, Value)| model.with(&format!("{name}.{key}"), value.clone());
        let config = Config::of(&facts.iter().fold(model, with).checkpoint(), &Options::default()).unwrap();
        (0..7).map(|layer| config.window_of(layer)).collect::<Vec<_>>()
    };
    let window = |size| ("attention.sliding_window", Value::Count(size));
    let (local, all) = (Some(8), None);
    assert_eq!(layers("llama", &[window(8)]), [local; 7]);
    assert_eq!(layers("phi3", &[window(0)]), [all; 7]);
    assert_eq!(layers("gemma3", &[]), [all; 7]);
    assert_eq!(layers("gemma3", &[window(8)]), [local, local, local, local, local, all, local]);
    assert_eq!(layers("gemma3", &[window(8), (PATTERN, Value::Count(2))])[..3], [local, all, local]);
    assert_eq!(layers("gemma2", &[window(8)])[..3], [local, all, local]);
    // A window of all positions of a conversation.
    assert_eq!(layers("gemma2", &[])[..2], [Some(64), all]);
    let flags = Value::Flags(&[1, 0, 0, 1, 0, 0, 0]);
    assert_eq!(layers("qwen3", &[window(8), (PATTERN, flags)]), [local, all, all, local, all, all, all]);
    let model = Model::new("llama", 8).with("llama.block_count", Value::Count(3));
    let model = model.with(&format!("llama.{PATTERN}"), Value::Flags(&[1, 0]));
    assert!(model.import().unwrap_err().to_string().contains("has 2 of 3 layers"));
}

#[test]
fn the_context_selects_the_factors_of_rotary_embeddings() {
    let model = joined(Model::new("phi3", 8), 8).with("phi3.rope.scaling.original_context_length", Value::Count(32));
    let model = model.tensor("rope_factors_short.weight", Some((&[32], 0)));
    let file = model.tensor("rope_factors_long.weight", Some((&[32], 0))).checkpoint();
    for (context, used) in [(None, "long"), (Some(33), "long"), (Some(32), "short")] {
        let text = import(&file, &Options { context, ..Options::default() }).unwrap();
        let parameters: Vec<_> = text.split("util.global.load @rope_factors_").skip(1).collect();
        assert_eq!(parameters.len(), 2, "one for each function");
        assert!(parameters.iter().all(|rest| rest.starts_with(used)), "{context:?}");
    }
}

#[test]
fn each_element_type_is_imported_or_refused_by_its_name() {
    let supported = [0, 1, 2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 20, 30, 39];
    for number in 0..45 {
        let name = ElementType::of_number(number).to_string();
        match Model::new("llama", number).import() {
            Ok(text) => {
                assert!(supported.contains(&number), "{name}");
                assert!(text.contains("func.func @prefill(") && text.contains("func.func @decode("), "{name}");
            }
            Err(error) => {
                assert!(!supported.contains(&number), "{name}: {error}");
                assert!(error.code() == StatusCode::Unimplemented && error.to_string().contains(&name), "{error}");
            }
        }
    }
}

#[test]
fn parts_are_those_that_a_file_has() {
    let bias = Model::new("qwen2", 0).tensor("blk.0.attn_q.bias", Some((&[WIDTH], 0))).import().unwrap();
    assert!(bias.contains("util.global.load @blk.0.attn_q.bias"));
    let own = Model::new("llama", 8).tensor("output.weight", Some((&[32, WIDTH], 0))).import().unwrap();
    assert!(own.contains("util.global.load @output.weight"));
    let scaled = Model::new("granite", 8).with("granite.logit_scale", Value::Number(4.0)).import().unwrap();
    assert!(scaled.contains("arith.constant 0.25 : f32"));
    let context = Options { context: Some(48), slots: 3, is_portable: true, ..Options::default() };
    let text = import(&Model::new("gemma", 8).checkpoint(), &context).unwrap();
    assert!(text.contains("@cache : tensor<3x48x1x2x2x64xf32>"), "{}", &text[..2000]);
}

#[test]
fn embeddings_are_pooled_as_the_file_says() {
    let options = Options { embeddings: true, ..Options::default() };
    let pooled = |pooling: Option<u32>, options: &Options| {
        let model = pooling
            .into_iter()
            .fold(Model::new("llama", 8), |model, pooling| model.with("llama.pooling_type", Value::Count(pooling)));
        let text = import(&model.checkpoint(), options).unwrap();
        let embed = text.split_once("func.func @embed")?.1.lines().next()?.to_owned();
        Some(
            embed
                .split_once("incarnate.pooling\" = \"")
                .or(embed.split_once("incarnate.pooling = \""))?
                .1
                .split('"')
                .next()?
                .to_owned(),
        )
    };
    for (pooling, expected) in [
        (None, Some("mean")),
        (Some(0), Some("mean")),
        (Some(1), Some("mean")),
        (Some(3), Some("last")),
        (Some(2), None),
    ] {
        assert_eq!(pooled(pooling, &options).as_deref(), expected, "{pooling:?}");
        assert_eq!(pooled(pooling, &Options::default()), None);
    }
}

#[test]
fn wrong_models_are_errors_that_say_what_is_wrong() {
    use Value::{Count, Number, Text};
    let llama = || Model::new("llama", 8);
    let phi3 = || joined(Model::new("phi3", 8), 8);
    let warm = |original| {
        let model = Model::new("mistral3", 8).with("mistral3.attention.temperature_scale", Number(0.1));
        model.with("mistral3.rope.scaling.original_context_length", Count(original))
    };
    assert!(warm(64).import().is_ok());
    let mixture = |key: &str, count| mixed(llama(), "llama").with(&format!("llama.{key}"), Value::Count(count));
    let yarn = |key: &str, value: Value| {
        let scaled =
            llama().with("llama.rope.scaling.type", Text("yarn")).with("llama.rope.scaling.factor", Number(4.0));
        scaled.with(&format!("llama.rope.scaling.{key}"), value)
    };
    for (model, words) in [
        (llama().with("general.architecture", Text("bert")), "'bert' is not supported; these are: llama"),
        (llama().with("general.architecture", Count(1)), "no 'general.architecture'"),
        (llama().with("llama.block_count", Count(0)), "'llama.block_count' is not one number from 1"),
        (llama().with("llama.block_count", Count(u32::MAX)), "'llama.block_count' is not one number from 1"),
        (llama().with("llama.block_count", Count(1 << 24)), "no tensor 'blk.1.attn_norm.weight'"),
        (llama().with("llama.embedding_length", Number(256.0)), "'llama.embedding_length' is not one number"),
        (llama().with("llama.attention.head_count_kv", Count(3)), "4 heads do not share 3"),
        (llama().with("llama.rope.dimension_count", Count(72)), "72 that are rotary embeddings"),
        (llama().with("llama.attention.value_length", Count(32)), "32 of values"),
        (llama().with("llama.rope.scaling.type", Text("dynamic")), "scaled by 'dynamic'"),
        (yarn("factor", Number(-2.0)), "scaled by 'yarn', -2 times"),
        (yarn("yarn_ext_factor", Number(0.5)), "'llama.rope.scaling.yarn_ext_factor' other than 1"),
        (llama().with("llama.rope.freq_base", Number(0.0)), "the base of rotary embeddings is not positive"),
        (llama().with("llama.attention.causal", Count(1)), "the metadata 'llama.attention.causal'"),
        (llama().with("llama.attention.sliding_window", Number(4.0)), "is not one number from 0"),
        (
            llama().tensor("blk.0.attn_sinks", Some((&[4], 0))),
            "the tensor 'blk.0.attn_sinks' of the architecture 'llama'",
        ),
        (Model::new("gemma3", 8), "no tensor 'blk.0.attn_q_norm.weight'"),
        (Model::new("gemma2", 8), "no tensor 'blk.0.post_attention_norm.weight'"),
        (warm(16), "'mistral3.attention.temperature_scale' at more than 16 positions"),
        (mixture("expert_used_count", 5), "5 experts of 4"),
        (mixture("expert_used_count", 0), "0 experts of 4"),
        (mixture("expert_count", 100).with("llama.expert_used_count", Count(65)), "65 experts of 100"),
        (mixture("expert_count", 5), "'blk.0.ffn_gate_inp.weight' has the shape [4, 256] instead of [5, 256]"),
        (mixture("expert_gating_func", 2), "'llama.expert_gating_func' of 2"),
        (mixture("expert_group_count", 2), "'llama.expert_group_count' of 2"),
        (mixture("expert_feed_forward_length", 256), "has the shape [4, 512, 256] instead of [4, 256, 256]"),
        (Model::new("qwen3moe", 8), "no tensor 'blk.0.attn_q_norm.weight'"),
        (phi3().tensor("rope_factors_long.weight", Some((&[32], 0))), "no tensor 'rope_factors_short.weight'"),
        (llama().with("llama.rope.freq_base", Number(f32::NAN)), "'llama.rope.freq_base' is not a finite number"),
        (llama().tensor("token_embd.weight", None), "no tensor 'token_embd.weight'"),
        (llama().tensor("blk.0.ffn_up.weight", None), "no tensor 'blk.0.ffn_up.weight'"),
        (llama().tensor("blk.0.ffn_up.weight", Some((&[512, 288], 8))), "shape [512, 288] instead of [512, 256]"),
        (
            llama().tensor("output_norm.weight", Some((&[WIDTH], 28))),
            "'output_norm.weight' of F64, not F32, F16 or BF16",
        ),
        (llama().tensor("output_norm.weight", Some((&[WIDTH, 1], 0))), "instead of [256]"),
    ] {
        let error = model.import().unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    for (context, slots, words) in [(Some(65), 1, "1 to 64 positions"), (Some(0), 1, "1 to 64"), (None, 0, "0 slots")] {
        let error =
            import(&llama().checkpoint(), &Options { context, slots, ..Options::default() }).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}
