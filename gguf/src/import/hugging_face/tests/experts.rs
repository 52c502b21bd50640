//! Mixtures of experts.

use super::*;

/// Elements of an expert's hidden vector.
const SMALL: u64 = 128;

/// A model of a type whose layers have `count` experts, without the tensors of these.
fn without_experts(model_type: &str, count: u64) -> Model {
    let mut model = Model::new(model_type).with("num_experts", json!(count)).with("num_experts_per_tok", json!(2));
    model.tensors.retain(|row| !row.0.contains(".mlp."));
    match model_type {
        "mixtral" => {
            model.with("intermediate_size", json!(SMALL)).part("block_sparse_moe.gate.weight", &[count, WIDTH])
        }
        _ => {
            let model = model.with("moe_intermediate_size", json!(SMALL));
            let model = model.part("self_attn.q_norm.weight", &[64]).part("self_attn.k_norm.weight", &[64]);
            model.part("mlp.gate.weight", &[count, WIDTH])
        }
    }
}

/// Adds the tensors of experts: their numbers and their names.
fn with_experts(model: Model, within: &str, order: &[(u64, &str)]) -> Model {
    order.iter().fold(model, |model, (expert, part)| {
        let shape = if ["w2", "down_proj"].contains(part) { [WIDTH, SMALL] } else { [SMALL, WIDTH] };
        model.part(&format!("{within}.{expert}.{part}.weight"), &shape)
    })
}

fn mixtral(order: &[(u64, &str)]) -> Model {
    let count = order.iter().map(|row| row.0 + 1).max().unwrap();
    with_experts(without_experts("mixtral", count), "block_sparse_moe.experts", order)
}

const BY_EXPERT: [(u64, &str); 6] = [(0, "w1"), (0, "w2"), (0, "w3"), (1, "w1"), (1, "w2"), (1, "w3")];

#[test]
fn parameters_of_experts_name_their_tensors_in_the_order_of_the_file() {
    let keys = |model: &Model| -> Vec<String> {
        let text = model.import().unwrap();
        let keys = text.split("#flow.parameter.named<\"model\"::\"model.layers.0.").skip(1);
        keys.filter_map(|text| text.split_once('"'))
            .map(|row| row.0.to_owned())
            .filter(|key| key.contains('{'))
            .collect()
    };
    let has_table = |model: &Model, table: &str| model.import().unwrap().contains(table);
    let model = mixtral(&BY_EXPERT);
    assert_eq!(keys(&model), ["block_sparse_moe.experts.{0,1}.{w1,w2,w3}.weight"]);
    assert!(!has_table(&model, "dense<[0, 1]> : tensor<2xi32>"));
    // Files are sorted by names.
    let sorted: Vec<(u64, &str)> = [0, 1, 10, 2, 3, 4, 5, 6, 7, 8, 9]
        .into_iter()
        .flat_map(|of| ["w1", "w3", "w2"].map(|part| (of, part)))
        .collect();
    let model = mixtral(&sorted);
    assert_eq!(keys(&model), ["block_sparse_moe.experts.{0,1,10,2,3,4,5,6,7,8,9}.{w1,w3,w2}.weight"]);
    assert!(has_table(&model, "dense<[0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 2]> : tensor<11xi32>"));
    // All tensors of a kind may be in a file of their own.
    let by_part = [(1, "w2"), (0, "w2"), (1, "w1"), (0, "w1"), (1, "w3"), (0, "w3")];
    let model = mixtral(&by_part);
    assert_eq!(keys(&model), ["w1", "w3", "w2"].map(|part| format!("block_sparse_moe.experts.{{1,0}}.{part}.weight")));
    assert!(has_table(&model, "dense<[1, 0]> : tensor<2xi32>"));
}

#[test]
fn experts_that_are_not_those_of_the_model_are_refused_by_their_names() {
    let name = |name: &str| format!("model.layers.0.block_sparse_moe.experts.{name}.weight");
    let whole = || mixtral(&BY_EXPERT);
    let qwen = |key: &str, value: Value| {
        let parts = ["gate_proj", "up_proj", "down_proj"].map(|part| (0, part));
        with_experts(without_experts("qwen3_moe", 1), "mlp.experts", &parts)
            .with("num_experts_per_tok", json!(1))
            .with(key, value)
    };
    assert!(
        qwen("norm_topk_prob", json!(true)).import().unwrap() != qwen("mlp_only_layers", json!([])).import().unwrap()
    );
    for (model, words) in [
        (whole().without_tensor(&name("1.w3")), "no tensor 'model.layers.0.block_sparse_moe.experts.1.w3.weight'"),
        (without_experts("mixtral", 2), "no tensor 'model.layers.0.block_sparse_moe.experts.0.w1.weight'"),
        (whole().with("num_experts", json!(1)), "experts.1.w1.weight' of a model of 1 experts"),
        (whole().of_type(&name("1.w2"), "F16"), "experts.1.w2.weight' is F16 [256, 128] instead of F32 [256, 128]"),
        (whole().with("intermediate_size", json!(64)), "has the shape [2, 3, 128, 256] instead of [2, 3, 64, 256]"),
        (
            whole().without_tensor(&name("0.w2")).tensor(&name("0.w2"), &[SMALL, WIDTH]),
            "experts.0.w2.weight' is F32 [128, 256] instead of F32 [256, 128]",
        ),
        (whole().tensor(&name("01.w1"), &[SMALL, WIDTH]), "experts.01.w1.weight' of the model type 'mixtral'"),
        (whole().tensor(&name("0.w4"), &[SMALL, WIDTH]), "experts.0.w4.weight' of the model type 'mixtral'"),
        (whole().with("num_local_experts", json!(3)), "'num_local_experts' is 3, and 'num_experts' is 2"),
        (whole().without("num_experts"), "there is no 'num_experts' of 1 or more"),
        (whole().with("num_experts_per_tok", json!(3)), "3 experts of 2"),
        (whole().without("num_experts_per_tok"), "there is no 'num_experts_per_tok' of 1 or more"),
        (qwen("decoder_sparse_step", json!(2)), "'decoder_sparse_step' with layers that have no experts"),
        (qwen("mlp_only_layers", json!([0])), "'mlp_only_layers' with layers that have no experts"),
        (Model::new("qwen2_moe").with("num_experts", json!(2)), "there is no 'num_experts_per_tok'"),
    ] {
        assert_refused(&model, words);
    }
}

#[test]
fn networks_that_all_tokens_take_must_be_there() {
    let parts = ["gate_proj", "up_proj", "down_proj"].map(|part| (0, part));
    let mut model = with_experts(without_experts("qwen2_moe", 1), "mlp.experts", &parts)
        .with("num_experts_per_tok", json!(1))
        .with("qkv_bias", json!(false))
        .with("shared_expert_intermediate_size", json!(SMALL));
    model.tensors.retain(|row| !row.0.contains("_norm"));
    assert_refused(&model, "no tensor 'model.layers.0.mlp.shared_expert.up_proj.weight'");
    let network = [("gate_proj", [SMALL, WIDTH]), ("up_proj", [SMALL, WIDTH]), ("down_proj", [WIDTH, SMALL])];
    let add =
        |model: Model, (part, shape): (&str, [u64; 2])| model.part(&format!("mlp.shared_expert.{part}.weight"), &shape);
    let model = network.into_iter().fold(model, add);
    assert_refused(&model, "no tensor 'model.layers.0.mlp.shared_expert_gate.weight'");
    model.part("mlp.shared_expert_gate.weight", &[1, WIDTH]).import().unwrap();
}

#[test]
fn stacked_experts_have_gates_and_up_in_one_parameter() {
    let mut model = without_experts("granitemoe", 2).with("intermediate_size", json!(SMALL));
    model.tensors.retain(|row| !row.0.contains("_norm") && !row.0.contains("mlp.gate"));
    let model = model.part("block_sparse_moe.router.layer.weight", &[2, WIDTH]).without("moe_intermediate_size");
    let stacks = |rows: u64| {
        let model = model.clone().part("block_sparse_moe.input_linear.weight", &[2, rows, WIDTH]);
        model.part("block_sparse_moe.output_linear.weight", &[2, WIDTH, SMALL])
    };
    let text = stacks(2 * SMALL).import().unwrap();
    assert_eq!(text.matches("block_sparse_moe.input_linear.weight").count(), 1);
    assert_refused(&stacks(SMALL), "has the shape [2, 128, 256] instead of [2, 256, 256]");
}
