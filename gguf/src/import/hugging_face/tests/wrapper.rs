//! Models of several modalities.

use super::*;

/// A model with images and a language model of a type in it, whose tensors have names of older files, or of newer ones.
fn wrapped(text: &Model, is_old: bool) -> Model {
    let config = json!({
        "model_type": "gemma3", "text_config": text.config.clone(), "vision_config": {"hidden_size": 8},
        "mm_tokens_per_image": 4, "image_token_index": 31,
    });
    let name = |name: &str| match (name.strip_prefix("model."), is_old) {
        (Some(rest), true) => format!("language_model.model.{rest}"),
        (Some(rest), false) => format!("model.language_model.{rest}"),
        (None, true) => format!("language_model.{name}"),
        (None, false) => name.to_owned(),
    };
    let prefix = if is_old { "" } else { "model." };
    let tensors = text.tensors.iter().map(|row| (name(&row.0), row.1.clone(), row.2)).collect();
    Model { config, tensors }
        .tensor(&format!("{prefix}vision_tower.encoder.weight"), &[8, 8])
        .tensor(&format!("{prefix}multi_modal_projector.weight"), &[8, WIDTH])
}

#[test]
fn the_language_model_is_taken_out_of_models_of_several_modalities() {
    let text = Model::new("gemma3_text");
    let alone = text.import().unwrap();
    for (is_old, prefix) in [(true, "language_model.model."), (false, "model.language_model.")] {
        let model = wrapped(&text, is_old);
        assert_eq!(model.checkpoint().unwrap().left_out(), Some("images"));
        let imported = model.import().unwrap();
        assert!(imported.contains(&format!("\"{prefix}layers.0.mlp.up_proj.weight\"")));
        assert!(imported.replace(prefix, "model.") == alone, "{prefix}");
    }
    assert_eq!(text.checkpoint().unwrap().left_out(), None);
    // Published files do not state the defaults.
    let short = ["num_attention_heads", "num_key_value_heads", "max_position_embeddings"];
    let short = short.into_iter().fold(text, Model::without);
    assert_refused(
        &wrapped(&short, true),
        "'language_model.model.layers.0.self_attn.q_proj.weight' has the shape [256, 256]",
    );
}

#[test]
fn parts_of_wrappers_that_are_not_understood_are_refused_by_their_names() {
    let old = || wrapped(&Model::new("gemma3_text"), true);
    let of_text = |key: &str, value: Value| wrapped(&Model::new("gemma3_text").with(key, value), true);
    let missing = Model::new("gemma3_text").without_tensor("model.norm.weight");
    for (model, words) in [
        (old().without("text_config"), "there is no 'text_config'"),
        (old().with("text_config", json!([])), "'text_config' is not an object"),
        (old().with("audio_config", json!({})), "'audio_config' is not understood"),
        (old().tensor("audio_tower.weight", &[1]), "the tensor 'audio_tower.weight' of the model type 'gemma3_text'"),
        (
            old().with("tie_word_embeddings", json!(false)),
            "'tie_word_embeddings' is false, but not 'text_config.tie_word_embeddings'",
        ),
        (
            wrapped(&Model::new("gemma3_text").without("tie_word_embeddings"), true)
                .with("tie_word_embeddings", json!(false)),
            "'tie_word_embeddings' is false, but not 'text_config.tie_word_embeddings'",
        ),
        (of_text("model_type", json!("llama")), "'text_config.model_type' of 'llama', not 'gemma3_text'"),
        (of_text("final_logit_softcapping", json!(30.0)), "'text_config.final_logit_softcapping'"),
        (of_text("hidden_size", json!(0)), "there is no 'text_config.hidden_size' of 1 or more"),
        (wrapped(&missing, true), "no tensor 'language_model.model.norm.weight'"),
        (wrapped(&missing, false), "no tensor 'model.language_model.norm.weight'"),
    ] {
        assert_refused(&model, words);
    }
}
