//! Ensembles of trees, as attributes describe them.

use std::collections::HashMap;

use incarnate_bytecode::Result;

use super::super::Row;
use super::ensemble::{Aggregate, Ensemble, Growth, Mode, Node as TreeNode};
use super::scores::{Labels, Transform, class_above, greatest_class};
use super::{doubles, float_rows, length, ml};
use crate::context::Context;
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::elements::decode;
use crate::node::{Node, Outputs, invalid, one};
use crate::tensor::{Data, Item, Scalar, Tensor};

pub(super) const ROWS: &[Row] = &[
    ml("TreeEnsembleClassifier", 1, classifier),
    ml("TreeEnsembleRegressor", 1, regressor),
    ml("TreeEnsemble", 5, ensemble),
];

/// Returns the numbers of a tensor, whatever their number.
fn numbers(tensor: &Tensor) -> Result<Vec<f64>> {
    let (Data::Constant(constant), Some(count)) = (&tensor.data, tensor.count().as_constant()) else {
        return invalid("an attribute is no constant tensor");
    };
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let Some(elements) = decode(&constant.bytes()?, tensor.ty, count) else {
        return invalid("a tensor of an attribute has too few bytes");
    };
    let number = |element: &Scalar| match element {
        Scalar::Float(value) => Some(*value),
        Scalar::Int(dim) => dim.as_constant().map(|value| value as f64),
    };
    Ok(elements.iter().filter_map(number).collect())
}

/// Returns the numbers of an attribute that is a tensor.
fn tensor_numbers(node: &Node<'_>, name: &str) -> Result<Option<Vec<f64>>> {
    match node.attribute(name).and_then(|attribute| attribute.t.as_ref()) {
        Some(proto) => Ok(Some(numbers(&crate::model::embedded(proto, &node.name)?)?)),
        None => Ok(None),
    }
}

/// Returns the numbers of an attribute of floats, or of the tensor that stands for it.
fn floats(node: &Node<'_>, name: &str) -> Result<Vec<f64>> {
    if let Some(numbers) = tensor_numbers(node, &format!("{name}_as_tensor"))? {
        return Ok(numbers);
    }
    Ok(doubles(node.floats(name).unwrap_or_default()))
}

fn has_tensors(node: &Node<'_>) -> bool {
    ["nodes_values_as_tensor", "target_weights_as_tensor", "class_weights_as_tensor", "base_values_as_tensor"]
        .iter()
        .any(|name| node.attribute(name).is_some())
}

/// Returns an attribute of integers that has as many as there are nodes.
fn per_node<'m>(node: &Node<'m>, name: &str, count: usize) -> Result<&'m [i64]> {
    let list = node.ints(name).unwrap_or_default();
    if list.len() == count {
        return Ok(list);
    }
    invalid(format!("the attribute `{name}` has {} elements for {count} nodes", list.len()))
}

fn mode(text: &str) -> Result<Option<Mode>> {
    Ok(Some(match text {
        "LEAF" => return Ok(None),
        "BRANCH_LEQ" => Mode::LessEqual,
        "BRANCH_LT" => Mode::Less,
        "BRANCH_GTE" => Mode::GreaterEqual,
        "BRANCH_GT" => Mode::Greater,
        "BRANCH_EQ" => Mode::Equal,
        "BRANCH_NEQ" => Mode::NotEqual,
        other => return invalid(format!("a node of mode {other}")),
    }))
}

/// Votes of leaves: trees, nodes, targets and weights.
struct Votes<'m> {
    trees: &'m [i64],
    nodes: &'m [i64],
    targets: &'m [i64],
    weights: Vec<f64>,
}

impl<'m> Votes<'m> {
    /// Reads the attributes with a prefix, and those of targets with another.
    fn of(node: &Node<'m>, prefix: &str, targets: &str) -> Result<Votes<'m>> {
        let ints = |name: String| node.ints(&name).unwrap_or_default();
        let weights = floats(node, &format!("{prefix}_weights"))?;
        let votes = Votes {
            trees: ints(format!("{prefix}_treeids")),
            nodes: ints(format!("{prefix}_nodeids")),
            targets: ints(targets.to_owned()),
            weights,
        };
        let count = votes.weights.len();
        if votes.trees.len() != count || votes.nodes.len() != count || votes.targets.len() != count {
            return invalid(format!("the attributes `{prefix}_*` are not equally long"));
        }
        Ok(votes)
    }
}

/// Reads the trees of the first generation of operators.
fn grown(node: &Node<'_>, votes: &Votes<'_>, targets: i64, is_double: bool) -> Result<Ensemble> {
    let trees = node.ints("nodes_treeids").unwrap_or_default();
    let count = trees.len();
    let ids = per_node(node, "nodes_nodeids", count)?;
    let features = per_node(node, "nodes_featureids", count)?;
    let (thens, otherwises) = (per_node(node, "nodes_truenodeids", count)?, per_node(node, "nodes_falsenodeids", count)?);
    let thresholds = floats(node, "nodes_values")?;
    let texts = node.texts("nodes_modes")?.unwrap_or_default();
    if thresholds.len() != count || texts.len() != count {
        return invalid(format!("`nodes_values` or `nodes_modes` have not {count} elements"));
    }
    let modes: Vec<Option<Mode>> = texts.iter().map(|text| mode(text)).collect::<Result<_>>()?;
    let tracks = node.ints("nodes_missing_value_tracks_true").unwrap_or_default();
    let places: HashMap<(i64, i64), usize> =
        trees.iter().zip(ids).enumerate().map(|(place, (tree, id))| ((*tree, *id), place)).collect();
    let mut growth = Growth::new(count, modes.iter().flatten().copied(), is_double);
    for (place, mode) in modes.iter().enumerate() {
        let (Some(mode), Some(tree)) = (mode, trees.get(place)) else { continue };
        let child = |list: &[i64]| list.get(place).and_then(|id| places.get(&(*tree, *id)).copied());
        let (Some(then), Some(otherwise)) = (child(thens), child(otherwises)) else {
            return invalid(format!("a node of the tree {tree} goes to one that is not there"));
        };
        let (feature, threshold) = (features.get(place).copied(), thresholds.get(place).copied());
        let comparison = (*mode, threshold.unwrap_or(0.0));
        let tracks_true = tracks.get(place).is_some_and(|flag| *flag != 0);
        growth.compare(Some(place), feature.unwrap_or(0), comparison, (then, otherwise), tracks_true);
    }
    for (index, weight) in votes.weights.iter().enumerate() {
        let at = |list: &[i64]| list.get(index).copied().unwrap_or(0);
        let place = places.get(&(at(votes.trees), at(votes.nodes)));
        // Votes of inner nodes are never reached.
        if let Some(TreeNode::Leaf(weights)) = place.and_then(|place| growth.nodes.get_mut(*place)) {
            weights.push((at(votes.targets), *weight));
        }
    }
    // The root of a tree is its first node.
    let mut roots = Vec::new();
    let mut known = std::collections::HashSet::new();
    for (place, tree) in trees.iter().enumerate() {
        if known.insert(*tree) {
            roots.push(place);
        }
    }
    Ok(growth.finish(roots, targets))
}

/// Adds values to the scores of all rows: one for each target, or one for all.
fn with_base(cx: &mut Context, scores: &Tensor, base: &[f64]) -> Result<Tensor> {
    if base.iter().all(|value| *value == 0.0) {
        return Ok(scores.clone());
    }
    if base.len() != 1 && scores.shape.get(1) != Some(&Dim::constant(length(base))) {
        return invalid(format!("there are {} base values", base.len()));
    }
    let elements = base.iter().map(|value| Scalar::Float(*value)).collect();
    let base = Tensor::of_elements(scores.ty, vec![Dim::constant(length(base))], elements);
    cx.map(&[scores, &base], scores.ty, |b, x| b.addf(x[0], x[1]))
}

/// Rows of features, of `f64` if they or the thresholds are.
fn features(cx: &mut Context, node: &Node<'_>) -> Result<Tensor> {
    let x = float_rows(cx, node.input(0)?, true)?;
    if has_tensors(node) { cx.cast(&x, DataType::F64) } else { Ok(x) }
}

fn regressor(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let aggregate = match node.text_or("aggregate_function", "SUM")? {
        "SUM" => Aggregate::Sum,
        "AVERAGE" => Aggregate::Average,
        "MIN" => Aggregate::Min,
        "MAX" => Aggregate::Max,
        other => return invalid(format!("the attribute `aggregate_function` is {other}")),
    };
    let targets = node.int_or("n_targets", 1);
    let x = features(cx, node)?;
    let votes = Votes::of(node, "target", "target_ids")?;
    let ensemble = grown(node, &votes, targets, x.ty == DataType::F64)?;
    let scores = ensemble.evaluate(cx, &node.name, &x, aggregate)?;
    let scores = with_base(cx, &scores, &floats(node, "base_values")?)?;
    let scores = cx.cast(&scores, DataType::F32)?;
    one(Transform::of(node)?.apply_to_targets(cx, &scores)?)
}

fn classifier(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let transform = Transform::of(node)?;
    let labels = Labels::of(node, "classlabels_int64s");
    let classes = labels.count();
    let x = features(cx, node)?;
    let mut votes = Votes::of(node, "class", "class_ids")?;
    let base = floats(node, "base_values")?;
    let first = votes.targets.first().copied().unwrap_or(0);
    let is_binary = classes == 2 && votes.targets.iter().all(|target| *target == first);
    if !is_binary {
        let ensemble = grown(node, &votes, classes, x.ty == DataType::F64)?;
        let scores = ensemble.evaluate(cx, &node.name, &x, Aggregate::Sum)?;
        let scores = with_base(cx, &scores, &base)?;
        let winner = greatest_class(cx, &scores)?;
        let scores = cx.cast(&scores, DataType::F32)?;
        return Ok(vec![labels.at(cx, &winner)?, Item::Tensor(transform.apply(cx, &scores)?)]);
    }
    // One score decides between two classes.
    let zeros = vec![0; votes.targets.len()];
    votes.targets = &zeros;
    let ensemble = grown(node, &votes, 1, x.ty == DataType::F64)?;
    let score = ensemble.evaluate(cx, &node.name, &x, Aggregate::Sum)?;
    let own = usize::try_from(first).ok().and_then(|first| base.get(first)).or(base.first());
    let score = with_base(cx, &score, own.map_or(&[], core::slice::from_ref))?;
    let is_probability = votes.weights.iter().all(|weight| *weight >= 0.0);
    let winner = class_above(cx, &score, if is_probability { 0.5 } else { 0.0 })?;
    let score = cx.cast(&score, DataType::F32)?;
    let scores = if first == 0 {
        transform.both(cx, &score, is_probability)?
    } else {
        // Votes for the second class leave the first one without a score.
        let nothing = cx.map(&[&score], score.ty, |b, x| b.float(0.0, b.element_of(x[0])))?;
        let both = cx.concat(&[&nothing, &score], 1)?;
        transform.apply(cx, &both)?
    };
    Ok(vec![labels.at(cx, &winner)?, Item::Tensor(scores)])
}

/// Sets of numbers that nodes ask for, each ended by NaN.
fn member_sets(numbers: &[f64]) -> Vec<Vec<f64>> {
    let mut sets = Vec::new();
    let mut set: Vec<f64> = Vec::new();
    for number in numbers {
        if number.is_nan() {
            set.sort_by(f64::total_cmp);
            set.dedup();
            sets.push(core::mem::take(&mut set));
        } else {
            set.push(*number);
        }
    }
    sets
}

/// Returns the position of a child in the second generation of operators, where leaves stand behind the nodes.
fn child(ids: &[i64], leafs: &[i64], place: usize, (nodes, leaves): (usize, usize)) -> Result<usize> {
    let (id, is_leaf) = (ids.get(place).copied().unwrap_or(-1), leafs.get(place).is_some_and(|flag| *flag != 0));
    match usize::try_from(id) {
        Ok(id) if is_leaf && id < leaves => Ok(nodes + id),
        Ok(id) if !is_leaf && id < nodes => Ok(id),
        _ => invalid(format!("the node {place} goes to {id}, which is not there")),
    }
}

fn ensemble(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let x = node.input(0)?;
    let aggregate = match node.int_or("aggregate_function", 1) {
        0 => Aggregate::Average,
        1 => Aggregate::Sum,
        2 => Aggregate::Min,
        3 => Aggregate::Max,
        other => return invalid(format!("the attribute `aggregate_function` is {other}")),
    };
    let transform = Transform::of_number(node.int_or("post_transform", 0))?;
    let features = node.ints("nodes_featureids").unwrap_or_default();
    let count = features.len();
    let modes = tensor_numbers(node, "nodes_modes")?.unwrap_or_default();
    let splits = tensor_numbers(node, "nodes_splits")?.unwrap_or_default();
    let weights = tensor_numbers(node, "leaf_weights")?.unwrap_or_default();
    let targets = node.ints("leaf_targetids").unwrap_or_default();
    if modes.len() != count || splits.len() != count || targets.len() != weights.len() {
        return invalid("the attributes of nodes or those of leaves are not equally long");
    }
    let mut sets = member_sets(&tensor_numbers(node, "membership_values")?.unwrap_or_default()).into_iter();
    let (thens, otherwises) = (per_node(node, "nodes_truenodeids", count)?, per_node(node, "nodes_falsenodeids", count)?);
    let (then_leafs, otherwise_leafs) = (per_node(node, "nodes_trueleafs", count)?, per_node(node, "nodes_falseleafs", count)?);
    let tracks = node.ints("nodes_missing_value_tracks_true").unwrap_or_default();
    let plain = |number: &f64| match *number as i64 {
        1 => Mode::Less,
        2 => Mode::GreaterEqual,
        3 => Mode::Greater,
        4 | 6 => Mode::Equal,
        5 => Mode::NotEqual,
        _ => Mode::LessEqual,
    };
    let is_double = x.ty == DataType::F64;
    let mut growth = Growth::new(count + weights.len(), modes.iter().map(plain), is_double);
    let sizes = (count, weights.len());
    for (place, (number, feature)) in modes.iter().zip(features).enumerate() {
        let children = (child(thens, then_leafs, place, sizes)?, child(otherwises, otherwise_leafs, place, sizes)?);
        let tracks_true = tracks.get(place).is_some_and(|flag| *flag != 0);
        match *number as i64 {
            0..=5 => {
                let split = splits.get(place).copied().unwrap_or(0.0);
                growth.compare(Some(place), *feature, (plain(number), split), children, tracks_true);
            }
            6 => {
                let Some(set) = sets.next() else { return invalid("there are fewer sets of members than nodes that need one") };
                growth.member(Some(place), *feature, &set, children, tracks_true);
            }
            other => return invalid(format!("a node of mode {other}")),
        }
    }
    for (slot, (weight, target)) in growth.nodes.iter_mut().skip(count).zip(weights.iter().zip(targets)) {
        *slot = TreeNode::Leaf(vec![(*target, *weight)]);
    }
    let roots = node.ints("tree_roots").unwrap_or_default();
    let roots: Option<Vec<usize>> =
        roots.iter().map(|root| usize::try_from(*root).ok().filter(|root| *root < count)).collect();
    let Some(roots) = roots else { return invalid("a root is no node") };
    let ensemble = growth.finish(roots, node.int_or("n_targets", 1));
    let rows = super::rows(cx, x)?;
    let scores = ensemble.evaluate(cx, &node.name, &rows, aggregate)?;
    let scores = transform.apply_to_targets(cx, &scores)?;
    one(cx.cast(&scores, x.ty)?)
}
