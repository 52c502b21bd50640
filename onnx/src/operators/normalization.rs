//! Normalisations by the mean and the variance of elements: of instances, groups and layers.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Map, Value};

use super::nests::{Count, Operand, Reduction, aligned, along, map_nest};
use super::{Row, onnx};
use crate::context::Context;
use crate::convert::converted;
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::kit::wrong_type;
use crate::node::{Node, Outputs, data_type, invalid, one};
use crate::tensor::{Item, Tensor};

pub(super) const ROWS: &[Row] = &[
    onnx("InstanceNormalization", 1, instance),
    onnx("GroupNormalization", 18, |cx, node| group(cx, node, Parameters::OfGroups)),
    onnx("GroupNormalization", 21, |cx, node| group(cx, node, Parameters::OfChannels)),
    // Models that ONNX Runtime has optimised use it in older versions, too.
    onnx("LayerNormalization", 1, layer),
    onnx("RMSNormalization", 23, root_mean_square),
    // An operator of ONNX Runtime that its optimiser and exporters put into ONNX's domain.
    onnx("SimplifiedLayerNormalization", 1, root_mean_square),
];

/// What elements are normalised with.
pub(super) struct Statistics {
    /// The mean along the axes, which it does not have; `None` if elements are not centred.
    pub(super) mean: Option<Tensor>,
    /// The mean of the squares of the centred elements.
    pub(super) variance: Tensor,
    /// The map from the dimensions of the tensor to those of the statistics.
    pub(super) map: Map,
}

/// Computes the mean, and the mean of squared differences from it, in the type that arithmetic has.
pub(super) fn statistics(cx: &mut Context, x: &Tensor, axes: &[usize], is_centred: bool) -> Result<Statistics> {
    let ty = x.ty.computed();
    let reduction = Reduction::along(&x.shape, axes);
    let identity = Map::identity(x.rank());
    let mean = if is_centred {
        let sum = reduction.sum(cx, &[(x, identity.clone())], ty, |_, x| x[0])?;
        Some(divided(cx, &sum, &reduction.count)?)
    } else {
        None
    };
    let mut operands = vec![(x, identity)];
    operands.extend(mean.as_ref().map(|mean| (mean, reduction.output.clone())));
    let squares = reduction.sum(cx, &operands, ty, |b, x| {
        let centred = centred(b, x);
        b.mulf(centred, centred)
    })?;
    let variance = divided(cx, &squares, &reduction.count)?;
    Ok(Statistics { mean, variance, map: reduction.output })
}

/// Subtracts the second element, if there is one, from the first.
fn centred(b: &mut Builder, x: &[Value]) -> Value {
    match x {
        [x, mean, ..] => b.subf(*x, *mean),
        _ => x[0],
    }
}

/// Divides all elements by a number of elements.
fn divided(cx: &mut Context, sum: &Tensor, count: &Dim) -> Result<Tensor> {
    let (count, ty) = (Count::new(cx, count), sum.ty);
    map_nest(cx, &[(sum, Map::identity(sum.rank()))], &sum.shape, ty, |b, x| {
        let count = count.element(b, ty);
        b.divf(x[0], count)
    })
}

/// Returns `1 / sqrt(x + epsilon)`.
pub(super) fn inverse_deviation(cx: &mut Context, variance: &Tensor, epsilon: f64) -> Result<Tensor> {
    let ty = variance.ty;
    map_nest(cx, &[(variance, Map::identity(variance.rank()))], &variance.shape, ty, |b, x| {
        let (epsilon, one) = (b.float(epsilon, ty.element()), b.float(1.0, ty.element()));
        let sum = b.addf(x[0], epsilon);
        let root = b.sqrt(sum);
        b.divf(one, root)
    })
}

/// A normalised tensor, and what it was normalised with.
pub(super) struct Normalized {
    pub(super) result: Tensor,
    pub(super) mean: Option<Tensor>,
    pub(super) inverse: Tensor,
}

/// What a normalisation does.
pub(super) struct Normalization<'t> {
    pub(super) axes: Vec<usize>,
    pub(super) is_centred: bool,
    pub(super) epsilon: f64,
    /// Factors of normalised elements.
    pub(super) scale: Option<Operand<'t>>,
    /// Terms that are added to them.
    pub(super) bias: Option<Operand<'t>>,
    /// The type of the result.
    pub(super) ty: DataType,
}

impl Normalization<'_> {
    /// Computes `(x - mean) / sqrt(variance + epsilon) * scale + bias`.
    pub(super) fn apply(&self, cx: &mut Context, x: &Tensor) -> Result<Normalized> {
        let Statistics { mean, variance, map } = statistics(cx, x, &self.axes, self.is_centred)?;
        let inverse = inverse_deviation(cx, &variance, self.epsilon)?;
        let mut operands: Vec<Operand<'_>> = vec![(x, Map::identity(x.rank())), (&inverse, map.clone())];
        operands.extend(mean.as_ref().map(|mean| (mean, map)));
        operands.extend(self.scale.clone());
        operands.extend(self.bias.clone());
        let (ty, to) = (x.ty.computed(), self.ty);
        let types: Vec<DataType> = operands.iter().map(|operand| operand.0.ty).collect();
        let (has_mean, has_scale, has_bias) = (mean.is_some(), self.scale.is_some(), self.bias.is_some());
        let result = map_nest(cx, &operands, &x.shape, to, |b, elements| {
            let mut rest = elements.iter().zip(types).map(|(element, from)| (*element, from));
            let mut next = |b: &mut Builder| rest.next().map(|(element, from)| converted(b, element, from, ty));
            let (Some(mut value), Some(inverse)) = (next(b), next(b)) else { return elements[0] };
            if let Some(mean) = has_mean.then(|| next(b)).flatten() {
                value = b.subf(value, mean);
            }
            value = b.mulf(value, inverse);
            if let Some(scale) = has_scale.then(|| next(b)).flatten() {
                value = b.mulf(value, scale);
            }
            if let Some(bias) = has_bias.then(|| next(b)).flatten() {
                value = b.addf(value, bias);
            }
            converted(b, value, ty, to)
        })?;
        Ok(Normalized { result, mean, inverse })
    }
}

/// The epsilon of a node. Those of ONNX's operators are 1e-5 unless they say otherwise.
pub(super) fn epsilon(node: &Node<'_>) -> f64 {
    node.float_or("epsilon", 1e-5)
}

/// Returns an input that must be of floats.
pub(super) fn floats<'n>(node: &'n Node<'_>, index: usize) -> Result<&'n Tensor> {
    let x = node.input(index)?;
    if x.ty.is_float() { Ok(x) } else { wrong_type(x.ty) }
}

fn instance(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let x = floats(node, 0)?;
    if x.rank() < 2 {
        return invalid(format!("the input has rank {}, and no channels", x.rank()));
    }
    let (scale, bias) = (floats(node, 1)?, floats(node, 2)?);
    let scale = Some((scale, along(cx, scale, &x.shape, &[1], "the scale")?));
    let bias = Some((bias, along(cx, bias, &x.shape, &[1], "the bias")?));
    let axes = (2..x.rank()).collect();
    let normalization = Normalization { axes, is_centred: true, epsilon: epsilon(node), scale, bias, ty: x.ty };
    one(normalization.apply(cx, x)?.result)
}

/// What the scale and the bias of a group normalisation have an element of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parameters {
    OfGroups,
    OfChannels,
}

/// The channels are split into groups, which have a dimension of their own.
fn group(cx: &mut Context, node: &Node<'_>, parameters: Parameters) -> Result<Outputs> {
    let x = floats(node, 0)?;
    let groups = node.int_or("num_groups", 0);
    let Some(channels) = x.shape.get(1).cloned().filter(|_| groups > 0) else {
        return invalid(format!("{groups} groups of the channels of a tensor of rank {}", x.rank()));
    };
    let groups = Dim::constant(groups);
    let each = channels.floor_div(&groups);
    let mut shape = x.shape.clone();
    shape.splice(1..2, [groups.clone(), each.clone()]);
    let split = cx.reshape(x, &shape)?;
    let (scale, bias) = (floats(node, 1)?, floats(node, 2)?);
    let (parts, dimensions): (&[Dim], &[usize]) = match parameters {
        Parameters::OfGroups => (&[groups], &[1]),
        Parameters::OfChannels => (&[groups, each], &[1, 2]),
    };
    let (scale, bias) = (cx.reshape(scale, parts)?, cx.reshape(bias, parts)?);
    let scale_map = along(cx, &scale, &shape, dimensions, "the scale")?;
    let bias_map = along(cx, &bias, &shape, dimensions, "the bias")?;
    let normalization = Normalization {
        axes: (2..shape.len()).collect(),
        is_centred: true,
        epsilon: epsilon(node),
        scale: Some((&scale, scale_map)),
        bias: Some((&bias, bias_map)),
        ty: x.ty,
    };
    let normalized = normalization.apply(cx, &split)?;
    one(cx.reshape(&normalized.result, &x.shape)?)
}

/// Normalises the dimensions from `axis` on.
fn layer(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let x = floats(node, 0)?;
    let first = node.axis("axis", -1, x.rank())?;
    let scale = floats(node, 1)?;
    let scale = (scale, aligned(cx, scale, &x.shape, "the scale")?);
    let bias = match node.optional(2)? {
        Some(bias) if !bias.ty.is_float() => return wrong_type(bias.ty),
        Some(bias) => Some((bias, aligned(cx, bias, &x.shape, "the bias")?)),
        None => None,
    };
    let axes: Vec<usize> = (first..x.rank()).collect();
    let normalization = Normalization {
        axes: axes.clone(),
        is_centred: true,
        epsilon: epsilon(node),
        scale: Some(scale),
        bias,
        ty: x.ty,
    };
    let Normalized { result, mean, inverse } = normalization.apply(cx, x)?;
    let mut outputs = vec![Item::Tensor(result)];
    if let Some(mean) = mean.filter(|_| node.has_output(1)) {
        outputs.push(Item::Tensor(stashed(cx, node, &mean, &axes)?));
    } else {
        outputs.push(Item::Nothing);
    }
    if node.has_output(2) {
        outputs.push(Item::Tensor(stashed(cx, node, &inverse, &axes)?));
    }
    Ok(outputs)
}

/// Converts statistics to the type that the attribute `stash_type` names, with extents of 1 where elements were reduced.
pub(super) fn stashed(cx: &mut Context, node: &Node<'_>, x: &Tensor, axes: &[usize]) -> Result<Tensor> {
    let ty = data_type(node.int_or("stash_type", 1))?;
    let cast = cx.cast(x, ty)?;
    cx.unsqueeze(&cast, axes)
}

/// Divides by the root of the mean of squares of the dimensions from `axis` on.
fn root_mean_square(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let x = floats(node, 0)?;
    let first = node.axis("axis", -1, x.rank())?;
    let scale = floats(node, 1)?;
    let ty = scale.ty;
    let scale = (scale, aligned(cx, scale, &x.shape, "the scale")?);
    let axes: Vec<usize> = (first..x.rank()).collect();
    let normalization = Normalization {
        axes: axes.clone(),
        is_centred: false,
        epsilon: epsilon(node),
        scale: Some(scale),
        bias: None,
        ty,
    };
    let Normalized { result, inverse, .. } = normalization.apply(cx, x)?;
    let mut outputs = vec![Item::Tensor(result)];
    if node.has_output(1) {
        outputs.push(Item::Tensor(stashed(cx, node, &inverse, &axes)?));
    }
    Ok(outputs)
}
