//! Imports of small models, whole and damaged.

use incarnate_bytecode::{Result, StatusCode};

use super::{Options, import};
use crate::tests::{Row, header, read, text};
use crate::{ElementType, GgufFile};

/// A file with the metadata and the tensors of a model of one layer.
struct Model {
    metadata: Vec<(String, Value)>,
    /// Names, shapes with the rows last, types.
    tensors: Vec<(String, Vec<u64>, u32)>,
}

#[derive(Clone)]
enum Value {
    Text(&'static str),
    Count(u32),
    Number(f32),
}

const WIDTH: u64 = 256;

impl Model {
    /// A model whose matrices are of the type with the number.
    fn new(architecture: &'static str, number: u32) -> Model {
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
        };
        let rows: Vec<(String, u32, Vec<u8>)> = self.metadata.iter().map(row).collect();
        let rows: Vec<Row<'_>> = rows.iter().map(|(key, kind, value)| (&**key, *kind, value.clone())).collect();
        read(header(&rows, &self.tensors)).unwrap()
    }

    fn import(&self) -> Result<String> {
        import(&self.file(), &Options::default())
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
    let context = Options { context: Some(48), slots: 3, is_portable: true };
    let text = import(&Model::new("gemma", 8).file(), &context).unwrap();
    assert!(text.contains("@cache : tensor<1x2x3x48x2x64xf32>"), "{}", &text[..2000]);
}

#[test]
fn wrong_models_are_errors_that_say_what_is_wrong() {
    use Value::{Count, Number, Text};
    let llama = || Model::new("llama", 8);
    for (model, words) in [
        (llama().with("general.architecture", Text("bert")), "'bert' is not supported; these are: llama"),
        (llama().with("general.architecture", Count(1)), "no 'general.architecture'"),
        (llama().with("llama.block_count", Count(0)), "'llama.block_count' is not one number from 1"),
        (llama().with("llama.block_count", Count(u32::MAX)), "'llama.block_count' is not one number from 1"),
        (llama().with("llama.block_count", Count(1 << 24)), "no tensor 'blk.1.attn_norm.weight'"),
        (llama().with("llama.embedding_length", Number(256.0)), "'llama.embedding_length' is not one number"),
        (llama().with("llama.attention.head_count_kv", Count(3)), "4 heads do not share 3"),
        (llama().with("llama.rope.dimension_count", Count(32)), "32 that are rotary embeddings"),
        (llama().with("llama.rope.scaling.type", Text("yarn")), "scaled by 'yarn'"),
        (llama().with("llama.rope.freq_base", Number(f32::NAN)), "'llama.rope.freq_base' is not a finite number"),
        (llama().tensor("token_embd.weight", None), "no tensor 'token_embd.weight'"),
        (llama().tensor("blk.0.ffn_up.weight", None), "no tensor 'blk.0.ffn_up.weight'"),
        (llama().tensor("blk.0.ffn_up.weight", Some((&[512, 288], 8))), "shape [512, 288] instead of [512, 256]"),
        (llama().tensor("output_norm.weight", Some((&[WIDTH], 1))), "'output_norm.weight' of F16, not F32"),
        (llama().tensor("output_norm.weight", Some((&[WIDTH, 1], 0))), "instead of [256]"),
    ] {
        let error = model.import().unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    for (context, slots, words) in [(Some(65), 1, "1 to 64 positions"), (Some(0), 1, "1 to 64"), (None, 0, "0 slots")] {
        let error = import(&llama().file(), &Options { context, slots, ..Options::default() }).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}
