//! Folders in the layout of Hugging Face.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;

use incarnate_gguf::{Checkpoint, ModelFolder, Options, import};

/// A `.safetensors` file of F32 with these names and shapes; all elements are 0.
fn safetensors(tensors: &[(&str, &[usize])]) -> Vec<u8> {
    let (mut fields, mut end) = (Vec::new(), 0);
    for (name, shape) in tensors {
        let start = end;
        end += 4 * shape.iter().product::<usize>();
        fields.push(format!(r#""{name}":{{"dtype":"F32","shape":{shape:?},"data_offsets":[{start},{end}]}}"#));
    }
    let header = format!("{{{}}}", fields.join(","));
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![0; end]].concat()
}

const CONFIG: &str = r#"{"model_type": "mistral", "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1,
    "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 8, "architectures": ["MistralForCausalLM"]}"#;
const FIRST: &[(&str, &[usize])] = &[
    ("lm_head.weight", &[4, 16]),
    ("model.embed_tokens.weight", &[4, 16]),
    ("model.layers.0.input_layernorm.weight", &[16]),
    ("model.layers.0.mlp.down_proj.weight", &[16, 32]),
    ("model.layers.0.mlp.gate_proj.weight", &[32, 16]),
    ("model.layers.0.mlp.up_proj.weight", &[32, 16]),
];
const SECOND: &[(&str, &[usize])] = &[
    ("model.layers.0.post_attention_layernorm.weight", &[16]),
    ("model.layers.0.self_attn.k_proj.weight", &[8, 16]),
    ("model.layers.0.self_attn.o_proj.weight", &[16, 16]),
    ("model.layers.0.self_attn.q_proj.weight", &[16, 16]),
    ("model.layers.0.self_attn.v_proj.weight", &[8, 16]),
    ("model.norm.weight", &[16]),
];

/// Writes a model in one file.
fn write_one(folder: &Path) {
    fs::write(folder.join("config.json"), CONFIG).unwrap();
    fs::write(folder.join("model.safetensors"), safetensors(&[FIRST, SECOND].concat())).unwrap();
}

/// Writes an index whose tensors of the second file are in the file of this name.
fn write_index(folder: &Path, second: &str) {
    let row = |file: &str, tensors: &[(&str, &[usize])]| {
        tensors.iter().map(|(name, _)| format!(r#""{name}": "{file}""#)).collect::<Vec<_>>().join(",")
    };
    let map = [row("a.safetensors", FIRST), row(second, SECOND)].join(",");
    fs::write(folder.join("model.safetensors.index.json"), format!(r#"{{"weight_map": {{{map}}}}}"#)).unwrap();
}

fn imported(folder: &Path) -> incarnate_bytecode::Result<String> {
    import(&Checkpoint::open(folder)?, &Options::default())
}

#[test]
fn models_of_several_files_are_those_of_one() {
    let (one, several) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write_one(one.path());
    fs::write(several.path().join("config.json"), CONFIG).unwrap();
    // A tensor that the index does not list is no part of the model.
    fs::write(several.path().join("a.safetensors"), safetensors(&[FIRST, &[("other", &[2])]].concat())).unwrap();
    fs::write(several.path().join("b.safetensors"), safetensors(SECOND)).unwrap();
    write_index(several.path(), "b.safetensors");
    assert!(imported(several.path()).unwrap() == imported(one.path()).unwrap());
    let [one, several] = [one, several].map(|folder| ModelFolder::at(folder.path()).unwrap().header().unwrap());
    assert_eq!(one, several);
    assert!(String::from_utf8(one).unwrap().contains("model.norm.weight F32 [16]"));
}

#[test]
fn headers_depend_on_all_that_a_module_depends_on() {
    let folder = tempfile::tempdir().unwrap();
    write_one(folder.path());
    let header = || ModelFolder::at(folder.path()).unwrap().header().unwrap();
    let first = header();
    fs::write(folder.path().join("config.json"), CONFIG.replace("mistral", "llama")).unwrap();
    let other_config = header();
    fs::write(folder.path().join("model.safetensors"), safetensors(&[FIRST, SECOND, &[("x", &[1])]].concat())).unwrap();
    assert!(first != other_config && header() != other_config);
}

#[test]
fn damaged_folders_are_errors_that_say_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    assert!(ModelFolder::at(path).is_none());
    let error = Checkpoint::open(path).unwrap_err().to_string();
    assert!(error.contains("is a folder"), "{error}");
    fs::write(path.join("config.json"), CONFIG).unwrap();
    let fails = |words: &str| {
        let error = imported(path).unwrap_err().to_string();
        assert!(error.contains(words) && !error.contains('\n'), "{words}: {error}");
    };
    fails("has no weights: neither model.safetensors nor model.safetensors.index.json");
    write_index(path, "b.safetensors");
    fails("a.safetensors");
    fs::write(path.join("a.safetensors"), safetensors(FIRST)).unwrap();
    fs::write(path.join("b.safetensors"), safetensors(&SECOND[1..])).unwrap();
    fails("the tensor 'model.layers.0.post_attention_layernorm.weight' is not in");
    for name in ["../b.safetensors", "/b.safetensors", "b.bin"] {
        write_index(path, name);
        fails("the name");
    }
    fs::write(path.join("model.safetensors.index.json"), "{}").unwrap();
    fails("the field weight_map is missing");
    // The file of all weights counts before the index.
    for (bytes, words) in
        [(&b"short"[..], "ends before its header"), (b"\xff\xff\xff\xff\xff\xff\xff\xff", "a header of")]
    {
        fs::write(path.join("model.safetensors"), bytes).unwrap();
        fails(words);
    }
    write_one(path);
    imported(path).unwrap();
    fs::write(path.join("config.json"), "{").unwrap();
    fails("config.json");
}
