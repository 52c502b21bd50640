//! `LinearAttention`, and the convolution that comes with it.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Element, Expression, Extent, Iterator, Map, Type, Value};

use super::attention_core::{Heads, contraction};
use super::{Row, onnx};
use crate::context::Context;
use crate::convert::{narrowed, widened};
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::node::{Node, Outputs, invalid};
use crate::tensor::{Item, Scalar, Tensor, type_of};

pub(super) const ROWS: &[Row] =
    &[onnx("LinearAttention", 27, linear_attention), onnx("CausalConvWithState", 27, causal_conv)];

/// The operands of a recurrence, in `f32`, and how it goes on.
struct Recurrence {
    /// `[batch, steps, heads of keys, group, size of keys]`.
    query: Tensor,
    /// `[batch, steps, heads, size of keys]`.
    key: Tensor,
    /// `[batch, steps, heads, size of values]`.
    value: Tensor,
    /// Factors of the state: `[batch, steps, heads, size of keys or 1]`.
    decay: Option<Tensor>,
    /// `[batch, steps, heads or 1, 1]`.
    rate: Option<Tensor>,
    scale: f64,
}

fn linear_attention(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let (Some(queries), Some(keys)) = (node.int("q_num_heads"), node.int("kv_num_heads")) else {
        return invalid("there are no attributes `q_num_heads` and `kv_num_heads`");
    };
    if keys <= 0 || queries <= 0 || queries % keys != 0 {
        return invalid(format!("{queries} heads of queries share {keys} of keys"));
    }
    let rule = node.text_or("update_rule", "gated_delta")?;
    let (is_gated, is_delta) = match rule {
        "linear" => (false, false),
        "gated" => (true, false),
        "delta" => (false, true),
        "gated_delta" => (true, true),
        _ => return invalid(format!("the attribute `update_rule` is {rule}")),
    };
    let ty = node.input(0)?.ty;
    let [query, key, value] = [(0, queries), (1, keys), (2, keys)].map(|(index, heads)| {
        let wide = cx.cast(node.input(index)?, DataType::F32)?;
        Heads::of_packed(cx, &wide, heads)
    });
    let (query, key, value) = (query?, key?, value?);
    let size = query.size();
    let scale = match (node.float_or("scale", 0.0), size.as_constant()) {
        (scale, _) if scale != 0.0 => scale,
        (_, Some(size)) => 1.0 / (size as f64).sqrt(),
        _ => return invalid("the size of heads is not a constant, and there is no `scale`"),
    };
    let (batch, steps) = (query.batch(), query.sequence());
    let per_head = |cx: &mut Context, tensor: &Tensor, heads: i64| -> Result<Tensor> {
        let wide = cx.cast(tensor, DataType::F32)?;
        Ok(Heads::of_packed(cx, &wide, heads)?.tensor)
    };
    let decay = match node.optional(4)? {
        Some(decay) if is_gated => Some(per_head(cx, decay, keys)?),
        None if is_gated => return invalid(format!("the rule `{rule}` needs a decay")),
        _ => None,
    };
    let decay = decay.map(|decay| cx.map(&[&decay], DataType::F32, |b, x| b.exp(x[0]))).transpose()?;
    let rate = match node.optional(5)? {
        Some(rate) if is_delta => {
            let heads = if rate.shape.get(2).is_some_and(|dim| dim.is(1)) { 1 } else { keys };
            Some(per_head(cx, rate, heads)?)
        }
        None if is_delta => return invalid(format!("the rule `{rule}` needs a rate `beta`")),
        _ => None,
    };
    let group = Dim::constant(queries / keys);
    let shape = [batch.clone(), steps.clone(), Dim::constant(keys), group, size.clone()];
    let query = cx.reshape(&query.tensor, &shape)?;
    let state_shape = [batch.clone(), Dim::constant(keys), size, value.size()];
    let (state, state_ty) = match node.optional(3)? {
        Some(state) => (cx.cast(state, DataType::F32)?, state.ty),
        None => (zeros(cx, &state_shape)?, ty),
    };
    for (dim, expected) in state.shape.iter().zip(&state_shape) {
        cx.require_equal(dim, expected, "an extent of the past state")?;
    }
    let output_shape = [batch, steps, Dim::constant(queries).times(&value.size())];
    let recurrence = Recurrence { query, key: key.tensor, value: value.tensor, decay, rate, scale };
    let (output, state) = recurrence.run(cx, &state)?;
    let output = cx.reshape(&output, &output_shape)?;
    Ok(vec![Item::Tensor(cx.cast(&output, ty)?), Item::Tensor(cx.cast(&state, state_ty)?)])
}

/// A tensor of zeros that is a value.
fn zeros(cx: &mut Context, shape: &[Dim]) -> Result<Tensor> {
    let zero = cx.b.float(0.0, Element::F32);
    let extents = cx.extents(shape);
    let filled = cx.b.fill(zero, &extents);
    cx.tensor(filled, DataType::F32, shape.to_vec())
}

impl Recurrence {
    /// Runs all steps. Returns `[batch, steps, heads, group, size of values]` and the last state.
    fn run(&self, cx: &mut Context, state: &Tensor) -> Result<(Tensor, Tensor)> {
        let mut shape: Vec<Dim> = self.query.shape.iter().take(4).cloned().collect();
        shape.extend(self.value.shape.last().cloned());
        let output = zeros(cx, &shape)?;
        let steps = shape.get(1).cloned().unwrap_or_else(|| Dim::constant(0));
        let bounds = (cx.b.index(0), cx.index(&steps), cx.b.index(1));
        let initial = [cx.value(state)?, cx.value(&output)?];
        // Values that the body uses are computed before it.
        let gates = [&self.decay, &self.rate].into_iter().flatten();
        for tensor in [&self.query, &self.key, &self.value].into_iter().chain(gates) {
            cx.value(tensor)?;
            cx.extents(&tensor.shape);
        }
        let carried = [state, &output].map(|tensor| cx.b.argument(type_of(tensor.ty, &tensor.shape)));
        let step = cx.b.argument(Type::Scalar(Element::Index));
        cx.open_region();
        let old = cx.tensor(carried[0], DataType::F32, state.shape.clone())?;
        let (new, result) = self.step(cx, step, &old)?;
        let mut offsets = vec![Extent::Constant(0); 5];
        offsets[1] = Extent::Value(step);
        let mut sizes = cx.extents(&shape);
        sizes[1] = Extent::Constant(1);
        let result = cx.value(&result)?;
        let outputs = cx.b.insert_slice(result, carried[1], &offsets, &sizes, &[Extent::Constant(1); 5], &[1]);
        let next = vec![cx.value(&new)?, outputs];
        let body = cx.close_region();
        let results = cx.b.scf_for(bounds, step, &carried, &initial, (body, next));
        let [last, outputs] = results[..] else { return invalid("a loop without results") };
        Ok((cx.tensor(outputs, DataType::F32, shape)?, cx.tensor(last, DataType::F32, state.shape.clone())?))
    }

    /// Returns the elements of a step, without the dimension of steps.
    fn at(cx: &mut Context, tensor: &Tensor, step: Value) -> Result<Tensor> {
        let rank = tensor.rank();
        let mut offsets = vec![Extent::Constant(0); rank];
        let mut sizes = cx.extents(&tensor.shape);
        let mut shape = tensor.shape.clone();
        if rank > 1 {
            (offsets[1], sizes[1]) = (Extent::Value(step), Extent::Constant(1));
            shape.remove(1);
        }
        let value = cx.value(tensor)?;
        let slice = cx.b.extract_slice(value, &offsets, &sizes, &vec![Extent::Constant(1); rank], &[1]);
        cx.tensor(slice, tensor.ty, shape)
    }

    /// Returns the next state and the result of a step: `[batch, heads, group, size of values]`.
    fn step(&self, cx: &mut Context, step: Value, state: &Tensor) -> Result<(Tensor, Tensor)> {
        let ty = DataType::F32;
        let (query, key) = (Self::at(cx, &self.query, step)?, Self::at(cx, &self.key, step)?);
        let mut value = Self::at(cx, &self.value, step)?;
        let mut state = state.clone();
        if let Some(decay) = &self.decay {
            let decay = Self::at(cx, decay, step)?;
            let decay = cx.unsqueeze(&decay, &[3])?;
            state = cx.map(&[&state, &decay], ty, |b, x| b.mulf(x[0], x[1]))?;
        }
        if let Some(rate) = &self.rate {
            // Loops: batch, head, element of the value, element of the key.
            let maps = [Map::of(4, &[0, 1, 3, 2]), Map::of(4, &[0, 1, 3]), Map::of(4, &[0, 1, 2])];
            let known = contraction(cx, &state, &key, &maps, &value.shape.clone(), ty)?;
            let rate = Self::at(cx, rate, step)?;
            value = cx.map(&[&value, &known, &rate], ty, |b, x| {
                let difference = b.subf(x[0], x[1]);
                b.mulf(difference, x[2])
            })?;
        }
        let (rows, columns) = (cx.unsqueeze(&key, &[3])?, cx.unsqueeze(&value, &[2])?);
        state = cx.map(&[&state, &rows, &columns], ty, |b, x| {
            let product = b.mulf(x[1], x[2]);
            b.addf(x[0], product)
        })?;
        // Loops: batch, head, query of the group, element of the value, element of the key.
        let maps = [Map::of(5, &[0, 1, 2, 4]), Map::of(5, &[0, 1, 4, 3]), Map::of(5, &[0, 1, 2, 3])];
        let mut shape: Vec<Dim> = query.shape.iter().take(3).cloned().collect();
        shape.extend(value.shape.last().cloned());
        let result = contraction(cx, &query, &state, &maps, &shape, ty)?;
        let scale = self.scale;
        let result = cx.map(&[&result], ty, |b, x| {
            let factor = b.float(scale, Element::F32);
            b.mulf(x[0], factor)
        })?;
        Ok((state, result))
    }
}

/// A convolution of each channel along the last dimension, whose first windows reach into the state.
fn causal_conv(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let (x, weight) = (node.input(0)?, node.input(1)?);
    let ([batch, channels, length], [_, _, taps]) = (&*x.shape, &*weight.shape) else {
        return invalid("the input and the weight have not 3 dimensions");
    };
    let is_silu = match node.text_or("activation", "none")? {
        "none" => false,
        "silu" | "swish" => true,
        other => return invalid(format!("the attribute `activation` is {other}")),
    };
    let past = taps.minus(&Dim::constant(1));
    let padded = match node.optional(3)? {
        _ if past.is(0) => x.clone(),
        Some(state) => cx.concat(&[state, x], 2)?,
        None => {
            let (none, zero) = (Dim::constant(0), cx.b.float(0.0, x.ty.element()));
            cx.pad(x, &[none.clone(), none.clone(), past.clone()], &[none.clone(), none.clone(), none], zero)?
        }
    };
    let weight = cx.reshape(weight, &[channels.clone(), taps.clone()])?;
    let sums = windows(cx, &padded, &weight, [batch.clone(), channels.clone(), length.clone()])?;
    let bias = match node.optional(2)? {
        Some(bias) => cx.reshape(bias, &[channels.clone(), Dim::constant(1)])?,
        None => Tensor::of_elements(DataType::F32, vec![Dim::constant(1)], vec![Scalar::Float(0.0)]),
    };
    let ty = x.ty;
    let output = cx.map(&[&sums, &bias], ty, |b, x| {
        let sum = b.addf(x[0], x[1]);
        if is_silu { silu(b, sum, ty) } else { sum }
    })?;
    let state = match past.as_constant() {
        Some(0) => Tensor::of_elements(ty, vec![batch.clone(), channels.clone(), past.clone()], Vec::new()),
        _ => cx.slice_axis(&padded, 2, length, &past)?,
    };
    Ok(vec![Item::Tensor(output), Item::Tensor(state)])
}

/// Sums the products of windows: `[batch, channels, length]`, in the type of arithmetic.
fn windows(cx: &mut Context, x: &Tensor, weight: &Tensor, shape: [Dim; 3]) -> Result<Tensor> {
    let ty = x.ty.computed();
    let operands = [cx.value(x)?, cx.value(weight)?];
    let zero = cx.b.float(0.0, ty.element());
    let extents = cx.extents(&shape);
    let filled = cx.b.fill(zero, &extents);
    let window = Expression::dimension(2).plus(3, 1);
    let maps = [
        Map::new(4, vec![Expression::dimension(0), Expression::dimension(1), window]),
        Map::of(4, &[1, 3]),
        Map::of(4, &[0, 1, 2]),
    ];
    let iterators = [Iterator::Parallel, Iterator::Parallel, Iterator::Parallel, Iterator::Reduction];
    let types = (x.ty, weight.ty);
    let sums = cx.b.generic_single(&operands, filled, &maps, &iterators, |b, x| {
        let (x0, x1) = (widened(b, x[0], types.0), widened(b, x[1], types.1));
        let product = b.mulf(x0, x1);
        b.addf(x[2], product)
    });
    cx.tensor(sums, ty, shape.to_vec())
}

/// The activation, of a value that is rounded to a type first.
fn silu(b: &mut Builder, x: Value, ty: DataType) -> Value {
    let narrow = narrowed(b, x, ty);
    let x = widened(b, narrow, ty);
    let element = b.element_of(x);
    let one = b.float(1.0, element);
    let negative = b.negf(x);
    let power = b.exp(negative);
    let sum = b.addf(one, power);
    b.divf(x, sum)
}
