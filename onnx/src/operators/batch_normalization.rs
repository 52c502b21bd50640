//! Batch normalisation.

use bytes::Bytes;
use incarnate_bytecode::Result;
use incarnate_mlir::{Expression, Map};

use super::nests::{Operand, along, map_nest};
use super::normalization::{Normalization, Statistics, epsilon, floats, statistics};
use super::{Row, onnx};
use crate::context::Context;
use crate::convert::converted;
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::kit::others;
use crate::node::{Node, Outputs, invalid, one};
use crate::tensor::{Constant, Data, Item, Source, Tensor};

pub(super) const ROWS: &[Row] = &[
    // Several outputs say that the statistics are those of the batch.
    onnx("BatchNormalization", 1, |cx, node| {
        let is_training = node.output_count() > 1 && !node.flag("is_test");
        lower(cx, node, is_training, Saved::AsWell)
    }),
    onnx("BatchNormalization", 7, |cx, node| lower(cx, node, node.output_count() > 1, Saved::AsWell)),
    onnx("BatchNormalization", 14, |cx, node| lower(cx, node, node.flag("training_mode"), Saved::Not)),
];

/// Whether the statistics of the batch are outputs, besides the running ones.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Saved {
    AsWell,
    Not,
}

/// The inputs of a node.
struct Inputs<'n> {
    x: &'n Tensor,
    scale: Operand<'n>,
    bias: Operand<'n>,
    mean: Operand<'n>,
    variance: Operand<'n>,
}

fn lower(cx: &mut Context, node: &Node<'_>, is_training: bool, saved: Saved) -> Result<Outputs> {
    let x = floats(node, 0)?;
    // Without `spatial`, each element of an instance has a channel of its own. A tensor of one dimension has one channel.
    let channels: Vec<usize> = match (x.rank(), node.int_or("spatial", 1)) {
        (0, _) => return invalid("the input has no dimensions"),
        (1, _) => Vec::new(),
        (rank, 0) => (1..rank).collect(),
        _ => vec![1],
    };
    let operand = |cx: &mut Context, index: usize| -> Result<Operand<'_>> {
        let tensor = floats(node, index)?;
        // The only channel of a tensor of one dimension has a dimension of extent 1.
        let map = match (&*channels, tensor.rank()) {
            ([], 1) => {
                cx.require_equal(&tensor.count(), &Dim::constant(1), "the number of channels")?;
                Map::new(1, vec![Expression::constant(0)])
            }
            _ => along(cx, tensor, &x.shape, &channels, "a parameter of the channels")?,
        };
        Ok((tensor, map))
    };
    let inputs =
        Inputs { x, scale: operand(cx, 1)?, bias: operand(cx, 2)?, mean: operand(cx, 3)?, variance: operand(cx, 4)? };
    if is_training {
        return training(cx, node, inputs, &others(&channels, x.rank()), saved);
    }
    match of_constants(cx, node, &inputs)? {
        Some((factor, term)) => affine(cx, x, &factor, &term, inputs.scale.1),
        None => {
            let (factor, term) = of_values(cx, &inputs, epsilon(node))?;
            affine(cx, x, &factor, &term, inputs.scale.1)
        }
    }
}

/// Computes `x * factor + term`.
fn affine(cx: &mut Context, x: &Tensor, factor: &Tensor, term: &Tensor, map: Map) -> Result<Outputs> {
    let operands = [(x, Map::identity(x.rank())), (factor, map.clone()), (term, map)];
    one(map_nest(cx, &operands, &x.shape, x.ty, |b, x| {
        let product = b.mulf(x[0], x[1]);
        b.addf(product, x[2])
    })?)
}

/// Computes the factor and the term of each channel of constants.
fn of_constants(cx: &mut Context, node: &Node<'_>, inputs: &Inputs<'_>) -> Result<Option<(Tensor, Tensor)>> {
    let mut columns = Vec::new();
    for (tensor, _) in [&inputs.scale, &inputs.bias, &inputs.mean, &inputs.variance] {
        if matches!(tensor.data, Data::Value(_)) || tensor.shape != inputs.scale.0.shape {
            return Ok(None);
        }
        match cx.floats(tensor)? {
            Some(column) => columns.push(column),
            None => return Ok(None),
        }
    }
    let [scale, bias, mean, variance] = &*columns else { return Ok(None) };
    let epsilon = epsilon(node);
    let (mut factors, mut terms) = (Vec::new(), Vec::new());
    for ((scale, bias), (mean, variance)) in scale.iter().zip(bias).zip(mean.iter().zip(variance)) {
        let factor = scale / (variance + epsilon).sqrt();
        factors.push(factor);
        terms.push(bias - mean * factor);
    }
    let ty = inputs.x.ty.computed();
    let constant = |values: &[f64], part: &str| {
        let bytes: Vec<u8> = match ty {
            DataType::F64 => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            _ => values.iter().flat_map(|value| (*value as f32).to_le_bytes()).collect(),
        };
        let constant = Constant { name: format!("{}.{part}", node.name), source: Source::Bytes(Bytes::from(bytes)) };
        Tensor { ty, shape: inputs.scale.0.shape.clone(), data: Data::Constant(constant.into()) }
    };
    Ok(Some((constant(&factors, "factor"), constant(&terms, "term"))))
}

/// Computes the factor and the term of each channel when the module runs.
fn of_values(cx: &mut Context, inputs: &Inputs<'_>, epsilon: f64) -> Result<(Tensor, Tensor)> {
    let ty = inputs.x.ty.computed();
    let [scale, bias, mean, variance] = [inputs.scale.0, inputs.bias.0, inputs.mean.0, inputs.variance.0];
    let [of_scale, of_bias, of_mean, of_variance] = [scale.ty, bias.ty, mean.ty, variance.ty];
    let factor = cx.map(&[scale, variance], ty, |b, x| {
        let (scale, variance) = (converted(b, x[0], of_scale, ty), converted(b, x[1], of_variance, ty));
        let epsilon = b.float(epsilon, ty.element());
        let sum = b.addf(variance, epsilon);
        let root = b.sqrt(sum);
        b.divf(scale, root)
    })?;
    let term = cx.map(&[bias, mean, &factor], ty, |b, x| {
        let (bias, mean) = (converted(b, x[0], of_bias, ty), converted(b, x[1], of_mean, ty));
        let product = b.mulf(mean, x[2]);
        b.subf(bias, product)
    })?;
    Ok((factor, term))
}

/// Normalises with the statistics of the batch, which the running ones approach.
fn training(cx: &mut Context, node: &Node<'_>, inputs: Inputs<'_>, axes: &[usize], saved: Saved) -> Result<Outputs> {
    let Inputs { x, scale, bias, mean: (old_mean, _), variance: (old_variance, _) } = inputs;
    let Statistics { mean, variance, .. } = statistics(cx, x, axes, true)?;
    let Some(mean) = mean else { return invalid("there is no mean") };
    let normalization = Normalization {
        axes: axes.to_vec(),
        is_centred: true,
        epsilon: epsilon(node),
        scale: Some(scale),
        bias: Some(bias),
        ty: x.ty,
    };
    let normalized = normalization.apply(cx, x)?;
    let momentum = node.float_or("momentum", 0.9);
    let running = |cx: &mut Context, old: &Tensor, new: &Tensor| -> Result<Item> {
        let (ty, work) = (old.ty, new.ty);
        let new = cx.reshape(new, &old.shape)?;
        let result = cx.map(&[old, &new], ty, |b, x| {
            let (kept, taken) = (b.float(momentum, work.element()), b.float(1.0 - momentum, work.element()));
            let old = converted(b, x[0], ty, work);
            let (old, new) = (b.mulf(old, kept), b.mulf(x[1], taken));
            let sum = b.addf(old, new);
            converted(b, sum, work, ty)
        })?;
        Ok(Item::Tensor(result))
    };
    let mut outputs = vec![Item::Tensor(normalized.result)];
    outputs.push(running(cx, old_mean, &mean)?);
    outputs.push(running(cx, old_variance, &variance)?);
    if saved == Saved::AsWell {
        for (old, new) in [(old_mean, &mean), (old_variance, &variance)] {
            let new = cx.reshape(new, &old.shape)?;
            outputs.push(Item::Tensor(cx.cast(&new, old.ty)?));
        }
    }
    Ok(outputs)
}
