//! `Resize` and `Upsample`: what they ask for, as positions along each axis.

mod coordinates;
mod passes;

use incarnate_bytecode::Result;
use incarnate_mlir::{Element, FloatPredicate, Value};

use self::coordinates::{Filter, Rounding, Transform};
use super::{Row, onnx};
use crate::context::Context;
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::node::{Node, Outputs, axes, invalid, one, unsupported};
use crate::tensor::{Scalar, Tensor};

pub(super) const ROWS: &[Row] = &[
    onnx("Upsample", 1, |cx, node| {
        let (Some(height), Some(width)) = (node.float("height_scale"), node.float("width_scale")) else {
            return invalid("there are no attributes `height_scale` and `width_scale`");
        };
        upsample(cx, node, &[1.0, 1.0, height, width])
    }),
    onnx("Upsample", 7, |cx, node| {
        let Some(scales) = node.floats("scales") else { return invalid("there is no attribute `scales`") };
        upsample(cx, node, &scales.iter().copied().map(f64::from).collect::<Vec<_>>())
    }),
    onnx("Upsample", 9, |cx, node| oldest(cx, node, node.input(1)?)),
    onnx("Resize", 10, |cx, node| oldest(cx, node, node.input(1)?)),
    onnx("Resize", 11, |cx, node| {
        let x = node.input(0)?;
        let axes = match node.ints("axes") {
            Some(list) => axes(list, x.rank())?,
            None => (0..x.rank()).collect(),
        };
        let not_empty = |tensor: &&Tensor| !tensor.count().is(0);
        let roi = node.optional(1)?.filter(not_empty);
        let scales = node.optional(2)?.filter(not_empty);
        let sizes = node.optional(3)?.filter(not_empty);
        let options = options(node)?;
        let mut lines = match (scales, sizes) {
            (Some(scales), None) => scaled(cx, x, &axes, scales)?,
            (None, Some(sizes)) => sized(cx, x, &axes, sizes, node.text_or("keep_aspect_ratio_policy", "stretch")?)?,
            _ => return invalid("one of `scales` and `sizes` is expected"),
        };
        if options.transform == Transform::CropAndResize {
            let Some(roi) = roi else { return invalid("`roi` is expected") };
            crop(cx, &mut lines, roi)?;
        }
        one(passes::resize(cx, x, &lines, &options)?)
    }),
];

/// The attributes.
#[derive(Clone, Copy, Debug)]
struct Options {
    transform: Transform,
    interpolation: Interpolation,
    /// The value of elements outside of the input, for [`Transform::CropAndResize`].
    extrapolation: f64,
}

/// How elements are computed of those around a position.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Interpolation {
    Nearest(Rounding),
    Filtered(Filter),
}

/// A number that may be computed when the module runs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Number {
    Known(f64),
    /// A value of type `f32`.
    Computed(Value),
}

/// What is done along an axis.
#[derive(Clone, Debug)]
struct AxisLine {
    pub(super) axis: usize,
    pub(super) input: Dim,
    pub(super) output: Dim,
    /// The quotient of the extents if there is none.
    pub(super) scale: Option<Number>,
    pub(super) start: Number,
    pub(super) end: Number,
}

impl AxisLine {
    fn new(axis: usize, input: Dim, output: Dim, scale: Option<Number>) -> AxisLine {
        AxisLine { axis, input, output, scale, start: Number::Known(0.0), end: Number::Known(1.0) }
    }
}

fn options(node: &Node<'_>) -> Result<Options> {
    let transform = match node.text_or("coordinate_transformation_mode", "half_pixel")? {
        "half_pixel" => Transform::HalfPixel,
        "half_pixel_symmetric" => Transform::HalfPixelSymmetric,
        "pytorch_half_pixel" => Transform::PytorchHalfPixel,
        "align_corners" => Transform::AlignCorners,
        "asymmetric" => Transform::Asymmetric,
        "tf_half_pixel_for_nn" => Transform::HalfPixelForNearest,
        "tf_crop_and_resize" => Transform::CropAndResize,
        other => return unsupported(format!("the coordinate transformation `{other}` is not known")),
    };
    let rounding = match node.text_or("nearest_mode", "round_prefer_floor")? {
        "round_prefer_floor" => Rounding::PreferFloor,
        "round_prefer_ceil" => Rounding::PreferCeil,
        "floor" => Rounding::Floor,
        "ceil" => Rounding::Ceil,
        other => return unsupported(format!("the nearest mode `{other}` is not known")),
    };
    let (antialias, exclude_outside) = (node.flag("antialias"), node.flag("exclude_outside"));
    let filter = |cubic| Interpolation::Filtered(Filter { cubic, antialias, exclude_outside });
    let interpolation = match node.text_or("mode", "nearest")? {
        "nearest" => Interpolation::Nearest(rounding),
        "linear" => filter(None),
        "cubic" => filter(Some(node.float_or("cubic_coeff_a", -0.75))),
        other => return unsupported(format!("the mode `{other}` is not known")),
    };
    Ok(Options { transform, interpolation, extrapolation: node.float_or("extrapolation_value", 0.0) })
}

/// The forms of opset 10 and older, with scales that are known.
fn upsample(cx: &mut Context, node: &Node<'_>, scales: &[f64]) -> Result<Outputs> {
    let length = i64::try_from(scales.len()).unwrap_or(i64::MAX);
    let elements = scales.iter().copied().map(Scalar::Float).collect();
    let scales = Tensor::of_elements(DataType::F32, vec![Dim::constant(length)], elements);
    oldest(cx, node, &scales)
}

/// The forms of opset 10 and older.
fn oldest(cx: &mut Context, node: &Node<'_>, scales: &Tensor) -> Result<Outputs> {
    let x = node.input(0)?;
    let interpolation = match node.text_or("mode", "nearest")? {
        "nearest" => Interpolation::Nearest(Rounding::Simple),
        "linear" | "bilinear" => {
            Interpolation::Filtered(Filter { cubic: None, antialias: false, exclude_outside: false })
        }
        other => return unsupported(format!("the mode `{other}` is not known")),
    };
    let axes: Vec<usize> = (0..x.rank()).collect();
    let lines = scaled(cx, x, &axes, scales)?;
    one(passes::resize(
        cx,
        x,
        &lines,
        &Options { transform: Transform::Asymmetric, interpolation, extrapolation: 0.0 },
    )?)
}

/// Returns the elements of a tensor of floats of one dimension, which are read when the module runs if they are not known.
fn numbers(cx: &mut Context, tensor: &Tensor, count: usize, name: &str) -> Result<Vec<Number>> {
    let expected = Dim::constant(i64::try_from(count).unwrap_or(i64::MAX));
    if tensor.rank() != 1 || !tensor.ty.is_float() {
        return invalid(format!("`{name}` is no list of floats"));
    }
    cx.require_equal(&tensor.count(), &expected, &format!("the number of elements of `{name}`"))?;
    if let Some(known) = cx.floats(tensor)? {
        return Ok(known.into_iter().map(Number::Known).collect());
    }
    let tensor = cx.cast(tensor, DataType::F32)?;
    let value = cx.value(&tensor)?;
    let read = |position: usize| {
        let index = cx.b.index(i64::try_from(position).unwrap_or(i64::MAX));
        Number::Computed(cx.b.extract(value, &[index]))
    };
    Ok((0..count).map(read).collect())
}

/// The lines for an input `scales`.
fn scaled(cx: &mut Context, x: &Tensor, axes: &[usize], scales: &Tensor) -> Result<Vec<AxisLine>> {
    let scales = numbers(cx, scales, axes.len(), "scales")?;
    let mut lines = Vec::new();
    for (axis, scale) in axes.iter().zip(scales) {
        let Some(input) = x.shape.get(*axis).cloned() else { continue };
        if matches!(scale, Number::Known(scale) if scale.is_nan() || scale <= 0.0) {
            return invalid("an element of `scales` is not positive");
        }
        let output = times(cx, &input, scale, false);
        lines.push(AxisLine::new(*axis, input, output, Some(scale)));
    }
    Ok(lines)
}

/// The greatest numerator of a scale whose product with an extent is computed in integers.
const NUMERATOR: f64 = 65_536.0;

/// Multiplies an extent in `f32`, and rounds down, or to the nearest with halves up.
fn times(cx: &mut Context, extent: &Dim, scale: Number, is_rounded: bool) -> Dim {
    if let (Some(extent), Number::Known(scale)) = (extent.as_constant(), scale) {
        let product = extent as f32 * scale as f32;
        let product = if is_rounded { (product + 0.5).floor() } else { product.floor() };
        return Dim::constant(product as i64);
    }
    if let (Number::Known(scale), false) = (scale, is_rounded) {
        for shift in 0..=8 {
            let numerator = scale * f64::from(1 << shift);
            if numerator.fract() == 0.0 && numerator < NUMERATOR {
                return extent.times(&Dim::constant(numerator as i64)).floor_div(&Dim::constant(1 << shift));
            }
        }
    }
    let number = float(cx, extent);
    let factor = value(cx, scale);
    let mut product = cx.b.mulf(number, factor);
    if is_rounded {
        let half = cx.b.float(0.5, Element::F32);
        product = cx.b.addf(product, half);
    }
    let whole = cx.b.floor(product);
    let integer = cx.b.fptosi(whole, Element::I64);
    let index = cx.b.index_cast(integer, Element::Index);
    cx.symbol("resized", index)
}

/// Returns an extent as a value of type `f32`.
fn float(cx: &mut Context, extent: &Dim) -> Value {
    let index = cx.index(extent);
    let integer = cx.b.index_cast(index, Element::I64);
    cx.b.sitofp(integer, Element::F32)
}

fn value(cx: &mut Context, number: Number) -> Value {
    match number {
        Number::Known(number) => cx.b.float(number, Element::F32),
        Number::Computed(value) => value,
    }
}

/// The lines for an input `sizes`.
fn sized(cx: &mut Context, x: &Tensor, axes: &[usize], sizes: &Tensor, policy: &str) -> Result<Vec<AxisLine>> {
    let sizes = cx.integers(sizes)?;
    if sizes.len() != axes.len() {
        return invalid(format!("{} sizes for {} axes", sizes.len(), axes.len()));
    }
    let is_larger = match policy {
        "stretch" => None,
        "not_larger" => Some(false),
        "not_smaller" => Some(true),
        other => return unsupported(format!("the aspect ratio policy `{other}` is not known")),
    };
    let pairs: Vec<(usize, Dim, Dim)> =
        axes.iter().zip(sizes).filter_map(|(axis, size)| Some((*axis, x.shape.get(*axis)?.clone(), size))).collect();
    let Some(is_larger) = is_larger else {
        return Ok(pairs.into_iter().map(|(axis, input, size)| AxisLine::new(axis, input, size, None)).collect());
    };
    let scale = common_scale(cx, &pairs, is_larger);
    let mut lines = Vec::new();
    for (axis, input, _) in pairs {
        let output = times(cx, &input, scale, true);
        lines.push(AxisLine::new(axis, input, output, Some(scale)));
    }
    Ok(lines)
}

/// Returns the least or the greatest of the quotients of sizes and extents.
fn common_scale(cx: &mut Context, pairs: &[(usize, Dim, Dim)], is_greatest: bool) -> Number {
    let known: Option<Vec<f64>> = pairs
        .iter()
        .map(|(_, input, size)| Some(f64::from(size.as_constant()? as f32 / input.as_constant()? as f32)))
        .collect();
    if let Some(known) = known {
        let extreme = if is_greatest { f64::max } else { f64::min };
        return Number::Known(known.into_iter().reduce(extreme).unwrap_or(1.0));
    }
    let mut extreme = None;
    for (_, input, size) in pairs {
        let (input, size) = (float(cx, input), float(cx, size));
        let scale = cx.b.divf(size, input);
        extreme = Some(match extreme {
            None => scale,
            Some(other) => {
                let predicate = if is_greatest { FloatPredicate::OrderedGreater } else { FloatPredicate::OrderedLess };
                let is_beyond = cx.b.cmpf(predicate, scale, other);
                cx.b.select(is_beyond, scale, other)
            }
        });
    }
    extreme.map_or(Number::Known(1.0), Number::Computed)
}

/// Sets the regions of the lines: all starts, then all ends.
fn crop(cx: &mut Context, lines: &mut [AxisLine], roi: &Tensor) -> Result<()> {
    let bounds = numbers(cx, roi, 2 * lines.len(), "roi")?;
    let (starts, ends) = bounds.split_at(lines.len());
    for (line, (start, end)) in lines.iter_mut().zip(starts.iter().zip(ends)) {
        (line.start, line.end) = (*start, *end);
    }
    Ok(())
}
