//! Ensembles of trees: the form that all operators come to, and its evaluation.

use std::collections::HashMap;

use incarnate_bytecode::{Error, Result};
use incarnate_mlir::{Builder, Element, Expression, FloatPredicate, Iterator, Map, Region, Type, Value};

use super::super::tables::table;
use super::length;
use crate::context::Context;
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::node::invalid;
use crate::tensor::{Scalar, Tensor};

/// The most nodes and leaf weights of an ensemble. Large ones have a few million.
const LARGEST: usize = 1 << 28;

/// How a node compares a feature with its threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    LessEqual,
    Less,
    GreaterEqual,
    Greater,
    Equal,
    NotEqual,
}

/// A node: an inner one compares, and a leaf adds weights.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// Goes to `children.0` where the feature is not greater than the threshold (or less, if the ensemble is strict), to `children.2`
    /// where it is NaN, else to `children.1`.
    Inner { feature: i64, threshold: f64, children: (usize, usize, usize) },
    /// Targets and weights.
    Leaf(Vec<(i64, f64)>),
}

/// What becomes of the weights of one target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aggregate {
    Sum,
    Average,
    Min,
    Max,
}

/// An ensemble of trees whose nodes all compare in one way.
#[derive(Debug)]
pub(super) struct Ensemble {
    pub(super) nodes: Vec<Node>,
    pub(super) roots: Vec<usize>,
    pub(super) targets: i64,
    /// Whether nodes ask for less, not for less or equal.
    pub(super) is_strict: bool,
}

/// Builds an ensemble of nodes of all modes.
#[derive(Debug)]
pub(super) struct Growth {
    pub(super) nodes: Vec<Node>,
    is_strict: bool,
    is_double: bool,
}

impl Growth {
    /// Starts with a number of nodes, which are set later. Nodes ask for less if all modes can be said so.
    pub(super) fn new(count: usize, modes: impl IntoIterator<Item = Mode>, is_double: bool) -> Growth {
        let mut modes = modes.into_iter().peekable();
        let is_strict = modes.peek().is_some() && modes.all(|mode| matches!(mode, Mode::Less | Mode::GreaterEqual));
        Growth { nodes: vec![Node::Leaf(Vec::new()); count], is_strict, is_double }
    }

    pub(super) fn finish(self, roots: Vec<usize>, targets: i64) -> Ensemble {
        Ensemble { nodes: self.nodes, roots, targets, is_strict: self.is_strict }
    }

    /// Returns the greatest number of the type that is less; NaN, which no feature is less than, for negative infinity.
    fn before(&self, threshold: f64) -> f64 {
        if threshold == f64::NEG_INFINITY {
            return f64::NAN;
        }
        if self.is_double { threshold.next_down() } else { f64::from((threshold as f32).next_down()) }
    }

    fn put(&mut self, slot: Option<usize>, node: Node) -> usize {
        match slot.and_then(|slot| self.nodes.get_mut(slot).map(|place| (slot, place))) {
            Some((slot, place)) => {
                *place = node;
                slot
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() - 1
            }
        }
    }

    /// Sets a node that goes to `then` where the comparison is true, or where the feature is NaN and `tracks_true`; else to `otherwise`.
    /// NaN is not equal to the threshold, as ONNX Runtime has it. Returns the node's position, which is a new one if there is no slot.
    pub(super) fn compare(
        &mut self,
        slot: Option<usize>,
        feature: i64,
        (mode, threshold): (Mode, f64),
        (then, otherwise): (usize, usize),
        tracks_true: bool,
    ) -> usize {
        let missing = if tracks_true || mode == Mode::NotEqual { then } else { otherwise };
        let inner = |threshold, low, high| Node::Inner { feature, threshold, children: (low, high, missing) };
        let node = match mode {
            Mode::LessEqual => inner(threshold, then, otherwise),
            Mode::Greater => inner(threshold, otherwise, then),
            Mode::Less if self.is_strict => inner(threshold, then, otherwise),
            Mode::GreaterEqual if self.is_strict => inner(threshold, otherwise, then),
            Mode::Less => inner(self.before(threshold), then, otherwise),
            Mode::GreaterEqual => inner(self.before(threshold), otherwise, then),
            Mode::Equal | Mode::NotEqual => {
                let (same, other) = if mode == Mode::Equal { (then, otherwise) } else { (otherwise, then) };
                let below = self.before(threshold);
                // NaN does not come here.
                let second = self.put(None, Node::Inner { feature, threshold: below, children: (other, same, same) });
                inner(threshold, second, other)
            }
        };
        self.put(slot, node)
    }

    /// Sets a node that goes to `then` where the feature is one of sorted numbers.
    pub(super) fn member(
        &mut self,
        slot: Option<usize>,
        feature: i64,
        numbers: &[f64],
        children: (usize, usize),
        tracks_true: bool,
    ) -> usize {
        match numbers {
            // No feature is less than NaN: all go to the second child.
            [] => self.compare(slot, feature, (Mode::LessEqual, f64::NAN), children, tracks_true),
            [only] => self.compare(slot, feature, (Mode::Equal, *only), children, tracks_true),
            _ => {
                let (low, high) = numbers.split_at(numbers.len() / 2);
                let last = low.last().copied().unwrap_or(f64::NAN);
                let low = self.member(None, feature, low, children, tracks_true);
                let high = self.member(None, feature, high, children, tracks_true);
                let missing = if tracks_true { children.0 } else { children.1 };
                self.put(slot, Node::Inner { feature, threshold: last, children: (low, high, missing) })
            }
        }
    }
}

/// Nodes as tables.
struct Tables {
    features: Tensor,
    thresholds: Tensor,
    /// `[nodes, 2 or 3]`.
    children: Tensor,
    missing: Missing,
    roots: Vec<usize>,
    /// The position of the first leaf; leaves are the last.
    first_leaf: usize,
    leaves: Vec<Vec<(i64, f64)>>,
    depth: i64,
}

/// Where NaN goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    Low,
    High,
    /// To a child of its own.
    Own,
}

impl Ensemble {
    /// Returns the greatest number of comparisons to a leaf of each node; an error if a node is among those that follow it.
    pub(super) fn depths(&self) -> Result<Vec<i64>> {
        const UNKNOWN: i64 = -1;
        const OPEN: i64 = -2;
        let mut depths = vec![UNKNOWN; self.nodes.len()];
        for root in &self.roots {
            let mut stack = vec![*root];
            while let Some(&node) = stack.last() {
                let (Some(depth), Some(known)) = (depths.get(node).copied(), self.nodes.get(node)) else {
                    return invalid(format!("there is no node {node} in the ensemble"));
                };
                let children = match known {
                    _ if depth >= 0 => {
                        stack.pop();
                        continue;
                    }
                    Node::Leaf(_) => Vec::new(),
                    Node::Inner { children: (low, high, missing), .. } => vec![*low, *high, *missing],
                };
                let states: Vec<i64> =
                    children.iter().map(|child| depths.get(*child).copied().unwrap_or(UNKNOWN)).collect();
                if states.contains(&OPEN) {
                    return invalid("a node of a tree is its own successor");
                }
                let missing: Vec<usize> = children
                    .iter()
                    .zip(&states)
                    .filter(|(_, state)| **state == UNKNOWN)
                    .map(|(child, _)| *child)
                    .collect();
                let next = if missing.is_empty() {
                    stack.pop();
                    states.iter().max().map_or(0, |depth| depth + 1)
                } else {
                    OPEN
                };
                // A node below an open one is visited once at a time, so that an open child is above.
                stack.extend(missing.first());
                if let Some(slot) = depths.get_mut(node) {
                    *slot = next;
                }
            }
        }
        Ok(depths)
    }

    /// Orders the nodes that trees reach: inner ones, then leaves.
    fn tables(&self, name: &str, ty: DataType) -> Result<Tables> {
        if self.nodes.len() > LARGEST {
            return Err(Error::resource_exhausted("the ensemble has too many nodes"));
        }
        let depths = self.depths()?;
        let mut order: Vec<usize> = Vec::new();
        for (index, depth) in depths.iter().enumerate() {
            if *depth > 0 {
                order.push(index);
            }
        }
        let first_leaf = order.len();
        order.extend(depths.iter().enumerate().filter(|(_, depth)| **depth == 0).map(|(index, _)| index));
        let places: HashMap<usize, usize> = order.iter().enumerate().map(|(place, node)| (*node, place)).collect();
        let place = |node: usize| places.get(&node).copied().unwrap_or(0);
        let inner = order.iter().take(first_leaf).filter_map(|node| match self.nodes.get(*node) {
            Some(Node::Inner { children, .. }) => Some(*children),
            _ => None,
        });
        let inner: Vec<(usize, usize, usize)> = inner.collect();
        let missing = if inner.iter().all(|(_, high, missing)| high == missing) {
            Missing::High
        } else if inner.iter().all(|(low, _, missing)| low == missing) {
            Missing::Low
        } else {
            Missing::Own
        };
        let width: i64 = if missing == Missing::Own { 3 } else { 2 };
        let (mut features, mut thresholds, mut children, mut leaves) = (vec![], vec![], vec![], vec![]);
        for (position, node) in order.iter().enumerate() {
            let (feature, threshold, next) = match self.nodes.get(*node) {
                Some(Node::Inner { feature, threshold, children: (low, high, missing) }) => {
                    (*feature, *threshold, [place(*low), place(*high), place(*missing)])
                }
                Some(Node::Leaf(weights)) => {
                    leaves.push(weights.clone());
                    // A leaf follows itself.
                    (0, 0.0, [position; 3])
                }
                None => return invalid("a tree refers to a node that is not there"),
            };
            features.push(feature as f64);
            thresholds.push(threshold);
            children.extend((0..width).zip(&next).map(|(_, node)| *node as f64));
        }
        let count = length(&order);
        Ok(Tables {
            features: table(&format!("{name}.features"), &features, &[count], DataType::I32),
            thresholds: table(&format!("{name}.thresholds"), &thresholds, &[count], ty),
            children: table(&format!("{name}.children"), &children, &[count, width], DataType::I32),
            missing,
            roots: self.roots.iter().map(|root| place(*root)).collect(),
            first_leaf,
            leaves,
            depth: self.roots.iter().filter_map(|root| depths.get(*root).copied()).max().unwrap_or(0),
        })
    }

    /// Returns the only target of each tree; `None` if a tree has several.
    fn single_targets(&self) -> Option<Vec<i64>> {
        let mut seen = vec![usize::MAX; self.nodes.len()];
        let mut targets = Vec::with_capacity(self.roots.len());
        for (tree, root) in self.roots.iter().enumerate() {
            let mut target = None;
            let mut stack = vec![*root];
            while let Some(node) = stack.pop() {
                if core::mem::replace(seen.get_mut(node)?, tree) == tree {
                    continue;
                }
                match self.nodes.get(node)? {
                    Node::Inner { children: (low, high, missing), .. } => stack.extend([*low, *high, *missing]),
                    Node::Leaf(weights) => {
                        for (own, _) in weights {
                            if *target.get_or_insert(*own) != *own {
                                return None;
                            }
                        }
                    }
                }
            }
            targets.push(target.unwrap_or(0));
        }
        Some(targets)
    }

    /// Orders the trees by their targets, equally many for each, where every tree has one target and few are added: those have one leaf
    /// without weights.
    fn order_by_target(&mut self) -> bool {
        let Some(targets) = self.single_targets().filter(|_| self.targets > 1) else { return false };
        let mut groups = vec![Vec::new(); usize::try_from(self.targets).unwrap_or(0).min(LARGEST)];
        for (root, target) in self.roots.iter().zip(&targets) {
            match usize::try_from(*target).ok().and_then(|target| groups.get_mut(target)) {
                Some(group) => group.push(*root),
                None => return false,
            }
        }
        let most = groups.iter().map(Vec::len).max().unwrap_or(0);
        if most.saturating_mul(groups.len()) > self.roots.len().saturating_mul(2) {
            return false;
        }
        self.nodes.push(Node::Leaf(Vec::new()));
        let nothing = self.nodes.len() - 1;
        groups.iter_mut().for_each(|group| group.resize(most, nothing));
        self.roots = groups.concat();
        true
    }

    /// Evaluates all trees: `[rows, targets]`, in the type of the input, which is that of the comparisons.
    pub(super) fn evaluate(mut self, cx: &mut Context, name: &str, x: &Tensor, aggregate: Aggregate) -> Result<Tensor> {
        let [_, width] = &*x.shape else { return invalid(format!("the input has rank {}, not 2", x.rank())) };
        self.check_features(width)?;
        let trees = self.roots.len() as f64;
        let is_grouped = self.order_by_target();
        let tables = self.tables(name, x.ty.computed())?;
        let neutral = match aggregate {
            Aggregate::Sum | Aggregate::Average => 0.0,
            Aggregate::Min => f64::INFINITY,
            Aggregate::Max => f64::NEG_INFINITY,
        };
        let weights = weights(&tables.leaves, self.targets, neutral, is_grouped)?;
        let leaves = self.leaves(cx, name, x, &tables, is_grouped)?;
        let shape = if is_grouped || self.targets == 1 {
            vec![length(&tables.leaves)]
        } else {
            vec![length(&tables.leaves), self.targets]
        };
        let weights = table(&format!("{name}.weights"), &weights, &shape, x.ty.computed());
        let result = self.aggregated(cx, &weights, &leaves, (aggregate, neutral))?;
        match aggregate {
            Aggregate::Sum => Ok(result),
            Aggregate::Average => cx.map(&[&result], result.ty, |b, x| {
                let count = b.float(trees, b.element_of(x[0]));
                b.divf(x[0], count)
            }),
            // Targets without a weight are 0.
            Aggregate::Min | Aggregate::Max => cx.map(&[&result], result.ty, |b, x| {
                let (nothing, zero) = (b.float(neutral, b.element_of(x[0])), b.float(0.0, b.element_of(x[0])));
                let is_nothing = b.cmpf(FloatPredicate::OrderedEqual, x[0], nothing);
                b.select(is_nothing, zero, x[0])
            }),
        }
    }

    fn check_features(&self, width: &Dim) -> Result<()> {
        let features = self.nodes.iter().filter_map(|node| match node {
            Node::Inner { feature, .. } => Some(*feature),
            Node::Leaf(_) => None,
        });
        let (mut least, mut greatest) = (0, 0);
        for feature in features {
            (least, greatest) = (feature.min(least), feature.max(greatest));
        }
        if least < 0 || width.as_constant().is_some_and(|width| greatest >= width) {
            return invalid(format!(
                "a tree asks for the feature {}, which is not there",
                if least < 0 { least } else { greatest }
            ));
        }
        Ok(())
    }

    /// Returns the leaf that each row reaches in each tree, counted from the first leaf: `[rows, targets or 1, trees]` of `i32`.
    fn leaves(&self, cx: &mut Context, name: &str, x: &Tensor, tables: &Tables, is_grouped: bool) -> Result<Tensor> {
        let groups = if is_grouped { self.targets } else { 1 };
        let trees = length(&self.roots) / groups.max(1);
        let roots: Vec<f64> = tables.roots.iter().map(|root| *root as f64).collect();
        let roots = table(&format!("{name}.roots"), &roots, &[groups, trees], DataType::I32);
        let rows = x.shape.first().cloned().unwrap_or_else(|| Dim::constant(1));
        let width = x.shape.get(1).cloned().unwrap_or_else(|| Dim::constant(1));
        let shape = [rows, Dim::constant(groups), Dim::constant(trees)];
        let walk = Walk {
            x: cx.value(x)?,
            ty: x.ty,
            features: cx.value(&tables.features)?,
            thresholds: cx.value(&tables.thresholds)?,
            children: cx.value(&tables.children)?,
            missing: tables.missing,
            is_strict: self.is_strict,
            last_feature: width.as_constant().is_none().then(|| cx.index(&width.minus(&Dim::constant(1)))),
        };
        let (depth, first) = (tables.depth, i64::try_from(tables.first_leaf).unwrap_or(0));
        let roots = cx.value(&roots)?;
        let extents = cx.extents(&shape);
        let empty = cx.b.empty(&extents, Element::I32);
        let maps = [Map::of(3, &[1, 2]), Map::identity(3)];
        let result = cx.b.generic_single(&[roots], empty, &maps, &[Iterator::Parallel; 3], |b, x| {
            let leaf = walk.from(b, x[0], depth);
            let first = b.int(first, Element::I32);
            b.subi(leaf, first)
        });
        cx.tensor(result, DataType::I32, shape.to_vec())
    }

    /// Aggregates the weights of leaves over the trees: `[rows, targets]`.
    fn aggregated(
        &self,
        cx: &mut Context,
        weights: &Tensor,
        leaves: &Tensor,
        (aggregate, neutral): (Aggregate, f64),
    ) -> Result<Tensor> {
        let ty = weights.ty;
        let is_flat = weights.rank() == 1;
        let rows = leaves.shape.first().cloned().unwrap_or_else(|| Dim::constant(1));
        let shape = vec![rows, Dim::constant(self.targets)];
        let (weights, indices) = (cx.value(weights)?, cx.value(leaves)?);
        let initial = cx.scalar(&Scalar::Float(neutral), ty)?;
        let extents = cx.extents(&shape);
        let filled = cx.b.fill(initial, &extents);
        // Loops: row, target, tree.
        let is_shared = leaves.shape.get(1).is_some_and(|dim| dim.is(1));
        let group = if is_shared { Expression::constant(0) } else { Expression::dimension(1) };
        let from = Map::new(3, vec![Expression::dimension(0), group, Expression::dimension(2)]);
        let maps = [from, Map::of(3, &[0, 1])];
        let iterators = [Iterator::Parallel, Iterator::Parallel, Iterator::Reduction];
        let result = cx.b.generic_single(&[indices], filled, &maps, &iterators, |b, x| {
            let leaf = b.index_cast(x[0], Element::Index);
            let weight = if is_flat {
                b.extract(weights, &[leaf])
            } else {
                let target = b.iteration(1);
                b.extract(weights, &[leaf, target])
            };
            match aggregate {
                Aggregate::Sum | Aggregate::Average => b.addf(x[1], weight),
                Aggregate::Min => b.minimumf(x[1], weight),
                Aggregate::Max => b.maximumf(x[1], weight),
            }
        });
        cx.tensor(result, ty, shape)
    }
}

/// The way of a row through a tree.
struct Walk {
    x: Value,
    ty: DataType,
    features: Value,
    thresholds: Value,
    children: Value,
    missing: Missing,
    is_strict: bool,
    /// The last feature of a row, if the number of features is known when the module runs.
    last_feature: Option<Value>,
}

impl Walk {
    /// Returns the node that a number of comparisons leads to.
    fn from(&self, b: &mut Builder, root: Value, depth: i64) -> Value {
        if depth == 0 {
            return root;
        }
        let row = b.iteration(0);
        let bounds = (b.index(0), b.index(depth), b.index(1));
        let induction = b.argument(Type::Scalar(Element::Index));
        let node = b.argument(Type::Scalar(Element::I32));
        b.open_region();
        let next = self.step(b, row, node);
        let body: Region = b.close_region();
        let results = b.scf_for(bounds, induction, &[node], &[root], (body, vec![next]));
        results.first().copied().unwrap_or(root)
    }

    fn step(&self, b: &mut Builder, row: Value, node: Value) -> Value {
        let at = b.index_cast(node, Element::Index);
        let feature = b.extract(self.features, &[at]);
        let mut feature = b.index_cast(feature, Element::Index);
        if let Some(last) = self.last_feature {
            feature = b.minsi(feature, last);
        }
        let x = crate::kit::read(b, self.x, &[row, feature], self.ty);
        let threshold = b.extract(self.thresholds, &[at]);
        let (zero, one) = (b.index(0), b.index(1));
        let child = match self.missing {
            Missing::Low => {
                // False for NaN, which goes to the first child. VMVX takes `oge` for the opposite of `olt`, which is true for NaN.
                let is_high = if self.is_strict {
                    b.cmpf(FloatPredicate::OrderedLessEqual, threshold, x)
                } else {
                    b.cmpf(FloatPredicate::OrderedGreater, x, threshold)
                };
                b.select(is_high, one, zero)
            }
            Missing::High | Missing::Own => {
                let predicate =
                    if self.is_strict { FloatPredicate::OrderedLess } else { FloatPredicate::OrderedLessEqual };
                let is_low = b.cmpf(predicate, x, threshold);
                b.select(is_low, zero, one)
            }
        };
        let child = if self.missing == Missing::Own {
            let (two, is_missing) = (b.index(2), b.cmpf(FloatPredicate::Unordered, x, x));
            b.select(is_missing, two, child)
        } else {
            child
        };
        b.extract(self.children, &[at, child])
    }
}

/// Returns the weights of leaves by rows: one for each target, or one where the trees have one target each.
fn weights(leaves: &[Vec<(i64, f64)>], targets: i64, neutral: f64, is_grouped: bool) -> Result<Vec<f64>> {
    for weights in leaves {
        if let Some((target, _)) = weights.iter().find(|(target, _)| *target < 0 || *target >= targets) {
            return invalid(format!("a leaf has a weight for the target {target} of {targets}"));
        }
    }
    if targets == 1 || is_grouped {
        return Ok(leaves.iter().map(|weights| joined(weights, neutral)).collect());
    }
    let width = usize::try_from(targets).unwrap_or(usize::MAX);
    if leaves.len().saturating_mul(width) > LARGEST {
        return Err(Error::resource_exhausted("the leaves have too many weights"));
    }
    let mut rows = vec![neutral; leaves.len() * width];
    for (row, leaf) in rows.chunks_exact_mut(width.max(1)).zip(leaves) {
        for (target, slot) in (0..).zip(row) {
            let own: Vec<(i64, f64)> = leaf.iter().copied().filter(|(other, _)| *other == target).collect();
            *slot = joined(&own, neutral);
        }
    }
    Ok(rows)
}

/// Joins the weights of a leaf for one target.
fn joined(weights: &[(i64, f64)], neutral: f64) -> f64 {
    weights.iter().fold(neutral, |joined, (_, weight)| {
        if neutral == 0.0 {
            joined + weight
        } else if neutral > 0.0 {
            joined.min(*weight)
        } else {
            joined.max(*weight)
        }
    })
}
