//! Convolutions.

use incarnate_bytecode::Result;
use incarnate_mlir::{Element, IntPredicate, Window};

use super::activation::Activation;
use super::contraction::{accumulator, zero};
use super::products::{contrib, settled};
use super::window::{Geometry, covered, explicit_pads, halves, pad_spatial, spatial, strides_and_dilations};
use super::{Row, onnx};
use crate::context::Context;
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::kit::wrong_type;
use crate::node::{Node, Outputs, invalid, one};
use crate::tensor::Tensor;

pub(super) const ROWS: &[Row] = &[
    onnx("Conv", 1, |cx, node| one(conv(cx, node, Activation::Identity)?)),
    contrib("FusedConv", |cx, node| {
        let activation =
            Activation::of(node.text_or("activation", "")?, node.floats("activation_params").unwrap_or_default())?;
        one(conv(cx, node, activation)?)
    }),
    onnx("ConvTranspose", 1, conv_transpose),
];

/// Returns the number of groups.
pub(super) fn groups(node: &Node<'_>) -> Result<i64> {
    match node.int_or("group", 1) {
        group if group > 0 => Ok(group),
        group => invalid(format!("`group` is {group}")),
    }
}

/// Returns the extents of the windows, which are those of the weights.
pub(super) fn kernel_of(w: &Tensor, x: &Tensor) -> Result<Vec<Dim>> {
    if w.rank() != x.rank() {
        return invalid(format!("the input has rank {}, and the weights have rank {}", x.rank(), w.rank()));
    }
    Ok(spatial(w)?.to_vec())
}

/// Reshapes an element for each channel to one that broadcasts to `[N, C, ..]`.
pub(super) fn per_channel(cx: &mut Context, x: &Tensor, spatial: usize) -> Result<Tensor> {
    let mut shape = vec![x.count()];
    shape.extend(vec![Dim::constant(1); spatial]);
    cx.reshape(x, &shape)
}

fn conv(cx: &mut Context, node: &Node<'_>, activation: Activation) -> Result<Tensor> {
    let (x, w) = (node.input(0)?, node.input(1)?);
    if !x.ty.is_float() || x.ty != w.ty {
        return wrong_type(w.ty);
    }
    let geometry = Geometry::of(node, spatial(x)?, kernel_of(w, x)?, false)?;
    let zero = cx.scalar(&zero(x.ty), x.ty)?;
    let padded = geometry.pad(cx, x, zero)?;
    let y = cx.convolve(&padded, w, &geometry.window, groups(node)?, &geometry.outputs, accumulator(x.ty))?;
    finished(cx, &y, [node.optional(2)?, node.optional(3)?], x.ty, activation)
}

/// Adds a bias for each channel and a tensor of the result's shape, and applies the activation.
fn finished(
    cx: &mut Context,
    y: &Tensor,
    added: [Option<&Tensor>; 2],
    ty: DataType,
    activation: Activation,
) -> Result<Tensor> {
    let mut operands = vec![y.clone()];
    if let Some(bias) = added[0] {
        operands.push(per_channel(cx, bias, y.rank() - 2)?);
    }
    operands.extend(added[1].cloned());
    if operands.len() == 1 && activation == Activation::Identity {
        return settled(cx, y, ty);
    }
    let operands: Vec<&Tensor> = operands.iter().collect();
    cx.map_to(&operands, ty, &y.shape, |b, x| {
        let sum = x.iter().skip(1).fold(x[0], |sum, each| b.addf(sum, *each));
        activation.apply(b, sum)
    })
}

/// Where a transposed convolution lies.
struct Transposed {
    window: Window,
    kernel: Vec<Dim>,
    /// Elements of the full result that are cut off in front.
    low: Vec<Dim>,
    outputs: Vec<Dim>,
    group: i64,
}

fn conv_transpose(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let (x, w) = (node.input(0)?, node.input(1)?);
    if !x.ty.is_float() || x.ty != w.ty {
        return wrong_type(w.ty);
    }
    let transposed = transposed(node, x, w)?;
    let x = &cx.refined(x, 1, &w.shape[0], "the channels of a convolution")?;
    let y = if transposed.window.strides.iter().all(|stride| *stride == 1) {
        unit_stride(cx, x, w, &transposed)?
    } else {
        phases(cx, x, w, &transposed)?
    };
    one(finished(cx, &y, [node.optional(2)?, None], x.ty, Activation::Identity)?)
}

fn transposed(node: &Node<'_>, x: &Tensor, w: &Tensor) -> Result<Transposed> {
    let (kernel, extents) = (kernel_of(w, x)?, spatial(x)?);
    let count = kernel.len();
    let window = strides_and_dilations(node, count)?;
    let (mut low, high) = explicit_pads(node, count)?;
    let (zero, one) = (Dim::constant(0), Dim::constant(1));
    let auto = node.text_or("auto_pad", "NOTSET")?;
    let requested = node.ints("output_shape").unwrap_or_default();
    // ONNX Runtime takes the batch and the channels among them, too.
    let requested = if requested.len() == count + 2 { &requested[2..] } else { requested };
    let mut outputs = Vec::new();
    for index in 0..count {
        let stride = Dim::constant(window.strides[index]);
        let added = Dim::constant(node.ints("output_padding").and_then(|list| list.get(index).copied()).unwrap_or(0));
        let covered = covered(&kernel[index], window.dilations[index]);
        let full = extents[index].minus(&one).times(&stride).plus(&added).plus(&covered);
        let output = match requested.get(index) {
            Some(extent) => Dim::constant(*extent),
            None if auto.starts_with("SAME") => extents[index].times(&stride),
            None if auto == "VALID" => {
                low[index] = zero.clone();
                outputs.push(full);
                continue;
            }
            None => {
                outputs.push(full.minus(&low[index]).minus(&high[index]));
                continue;
            }
        };
        let total = Dim::at_least(&full.minus(&output), &zero);
        low[index] = halves(&total, auto != "SAME_UPPER").0;
        outputs.push(output);
    }
    let group = groups(node)?;
    if w.shape[0].exact_quotient(&Dim::constant(group)).is_none() {
        return invalid(format!("the input channels are not a multiple of {group} groups"));
    }
    Ok(Transposed { window, kernel, low, outputs, group })
}

/// With strides of 1: a convolution with the weights reversed.
fn unit_stride(cx: &mut Context, x: &Tensor, w: &Tensor, transposed: &Transposed) -> Result<Tensor> {
    let (mut low, mut high) = (Vec::new(), Vec::new());
    for (index, extent) in spatial(x)?.iter().enumerate() {
        let covered = covered(&transposed.kernel[index], transposed.window.dilations[index]);
        low.push(covered.minus(&Dim::constant(1)).minus(&transposed.low[index]));
        high.push(transposed.outputs[index].minus(extent).plus(&transposed.low[index]));
    }
    let zero = cx.scalar(&zero(x.ty), x.ty)?;
    let padded = pad_spatial(cx, x, &low, &high, zero)?;
    // From [G * C, M, ..] to [G * M, C, ..].
    let groups = Dim::constant(transposed.group);
    let channels = w.shape[0].floor_div(&groups);
    let split = [&[groups.clone(), channels.clone()], &w.shape[1..]].concat();
    let split = cx.reshape(w, &split)?;
    let permutation: Vec<usize> = [0, 2, 1].into_iter().chain(3..split.rank()).collect();
    let swapped = cx.transpose(&split, &permutation)?;
    let joined = [&[groups.times(&w.shape[1]), channels], &w.shape[2..]].concat();
    let joined = cx.reshape(&swapped, &joined)?;
    let reversed = cx.reverse(&joined, &(2..joined.rank()).collect::<Vec<_>>())?;
    cx.convolve(&padded, &reversed, &transposed.window, transposed.group, &transposed.outputs, accumulator(x.ty))
}

/// The phases of a transposed convolution along an axis with a stride: position `q * stride + r` of the result is the sum over `j` of
/// `x[q + first + j] * w[r + low - stride * (first + j)]`.
struct Phase {
    stride: Dim,
    low: Dim,
    first: Dim,
    taps: Dim,
    /// The number of positions `q`.
    count: Dim,
}

impl Phase {
    fn of(transposed: &Transposed, index: usize) -> Phase {
        let one = Dim::constant(1);
        let stride = Dim::constant(transposed.window.strides[index]);
        let low = transposed.low[index].clone();
        let covered = covered(&transposed.kernel[index], transposed.window.dilations[index]);
        let first = low.minus(&covered).plus(&one).ceil_div(&stride);
        let last = low.plus(&stride).minus(&one).floor_div(&stride);
        let count = transposed.outputs[index].ceil_div(&stride);
        Phase { taps: last.minus(&first).plus(&one), stride, low, first, count }
    }
}

/// With other strides: a convolution that has the phases as channels, which are interleaved behind it.
fn phases(cx: &mut Context, x: &Tensor, w: &Tensor, transposed: &Transposed) -> Result<Tensor> {
    let spatial_count = transposed.outputs.len();
    let phases: Vec<Phase> = (0..spatial_count).map(|index| Phase::of(transposed, index)).collect();
    let (mut low, mut high) = (Vec::new(), Vec::new());
    for (phase, extent) in phases.iter().zip(spatial(x)?) {
        low.push(Dim::constant(0).minus(&phase.first));
        high.push(phase.count.plus(&phase.taps).minus(&Dim::constant(1)).minus(extent).plus(&phase.first));
    }
    let zero = cx.scalar(&zero(x.ty), x.ty)?;
    let padded = pad_spatial(cx, x, &low, &high, zero)?;
    let weights = phase_weights(cx, w, transposed, &phases)?;
    let unit = Window { strides: vec![1; spatial_count], dilations: vec![1; spatial_count] };
    let counts: Vec<Dim> = phases.iter().map(|phase| phase.count.clone()).collect();
    let y = cx.convolve(&padded, &weights, &unit, transposed.group, &counts, accumulator(x.ty))?;
    let channels = w.shape[1].times(&Dim::constant(transposed.group));
    let strides: Vec<Dim> = phases.iter().map(|phase| phase.stride.clone()).collect();
    let shape = [&[x.shape[0].clone(), channels.clone()], &*strides, &*counts].concat();
    let split = cx.reshape_separated(&y, &shape)?;
    let mut permutation = vec![0, 1];
    permutation.extend((0..spatial_count).flat_map(|index| [2 + spatial_count + index, 2 + index]));
    let interleaved = cx.transpose(&split, &permutation)?;
    let full: Vec<Dim> = counts.iter().zip(&strides).map(|(count, stride)| count.times(stride)).collect();
    let joined = cx.reshape(&interleaved, &[&[x.shape[0].clone(), channels.clone()], &*full].concat())?;
    let shape = [&[x.shape[0].clone(), channels], &*transposed.outputs].concat();
    if joined.shape == shape {
        return Ok(joined);
    }
    cx.slice(&joined, &vec![Dim::constant(0); shape.len()], &shape, &vec![1; shape.len()])
}

/// Rearranges weights `[G * C, M, ..]` to `[G * M * phases, C, taps..]`, with zeros where a tap has no weight.
fn phase_weights(cx: &mut Context, w: &Tensor, transposed: &Transposed, phases: &[Phase]) -> Result<Tensor> {
    let groups = Dim::constant(transposed.group);
    let channels = w.shape[0].floor_div(&groups);
    let value = cx.value(w)?;
    let strides: Vec<Dim> = phases.iter().map(|phase| phase.stride.clone()).collect();
    let taps: Vec<Dim> = phases.iter().map(|phase| phase.taps.clone()).collect();
    let shape = [&[groups.clone(), w.shape[1].clone()], &*strides, core::slice::from_ref(&channels), &*taps].concat();
    let per_group = cx.index(&channels);
    let mut axes = Vec::new();
    for (index, phase) in phases.iter().enumerate() {
        let low = phase.low.minus(&phase.stride.times(&phase.first));
        let [low, kernel, stride] = [&low, &transposed.kernel[index], &phase.stride].map(|dim| cx.index(dim));
        axes.push((low, kernel, stride, transposed.window.dilations[index]));
    }
    let (ty, count) = (w.ty, phases.len());
    let weights = cx.generate(&shape, ty, |b, at| {
        let (zero, one) = (b.index(0), b.index(1));
        let start = b.muli(at[0], per_group);
        let mut position = vec![b.addi(start, at[2 + count]), at[1]];
        let mut is_inside = b.int(1, Element::I1);
        for (index, (low, kernel, stride, dilation)) in axes.into_iter().enumerate() {
            // Where the tap lies among the weights with the zeros of the dilation between them.
            let back = b.muli(at[3 + count + index], stride);
            let ahead = b.addi(at[2 + index], low);
            let dilated = b.subi(ahead, back);
            let dilation = b.index(dilation);
            let (tap, rest) = (b.floordivsi(dilated, dilation), b.remsi(dilated, dilation));
            let is_weight = b.cmpi(IntPredicate::Equal, rest, zero);
            let is_in_range = b.cmpi(IntPredicate::UnsignedLess, tap, kernel);
            let both = b.andi(is_weight, is_in_range);
            is_inside = b.andi(is_inside, both);
            let last = b.subi(kernel, one);
            let raised = b.maxsi(tap, zero);
            position.push(b.minsi(raised, last));
        }
        let weight = crate::kit::read(b, value, &position, ty);
        let none = b.float(0.0, b.element_of(weight));
        b.select(is_inside, weight, none)
    })?;
    let outer = Dim::product(&strides).times(&groups).times(&w.shape[1]);
    cx.reshape(&weights, &[&[outer, channels], &*taps].concat())
}
