//! Optimisers: a step of training for any number of tensors.
//!
//! Inputs are the learning rate, the number of steps before, and then groups with a tensor for each that is optimised: the tensors
//! themselves, their gradients, and their states. Outputs are groups of the new tensors and of the new states.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, IntPredicate, Value};

use super::{Row, onnx};
use crate::context::Context;
use crate::convert::converted;
use crate::data_type::DataType;
use crate::functions::{expm1, pow};
use crate::kit::wrong_type;
use crate::node::{Node, Outputs, invalid, unsupported};
use crate::tensor::{Item, Tensor};

pub(super) const ROWS: &[Row] = &[
    training("Adagrad", |cx, node| each(cx, node, 3, adagrad)),
    training("Adam", |cx, node| each(cx, node, 4, adam)),
    training("Momentum", |cx, node| each(cx, node, 3, momentum)),
];

const fn training(name: &'static str, lower: fn(&mut Context, &Node<'_>) -> Result<Outputs>) -> Row {
    Row { domain: "ai.onnx.preview.training", ..onnx(name, 1, lower) }
}

/// The inputs of one tensor that is optimised.
struct Inputs<'n> {
    /// The learning rate, a scalar.
    rate: Tensor,
    /// The number of steps before, a scalar of `i64`.
    steps: Tensor,
    x: &'n Tensor,
    gradient: &'n Tensor,
    states: Vec<&'n Tensor>,
}

/// Applies a step to each tensor. `groups` is the number of inputs that each has.
fn each(
    cx: &mut Context,
    node: &Node<'_>,
    groups: usize,
    step: fn(&mut Context, &Node<'_>, &Inputs<'_>) -> Result<Vec<Tensor>>,
) -> Result<Outputs> {
    let all = node.all_inputs()?;
    let [rate, steps, tensors @ ..] = &*all else { return invalid("there are no rate and no number of steps") };
    if tensors.is_empty() || tensors.len() % groups != 0 {
        return invalid(format!("there are {} tensors, and {groups} are expected for each one", tensors.len()));
    }
    if !rate.count().is(1) || !steps.count().is(1) || !rate.ty.is_float() || !steps.ty.is_int() {
        return invalid("the rate and the number of steps are a float and an integer of one element each");
    }
    let (rate, steps) = (cx.reshape(rate, &[])?, cx.reshape(steps, &[])?);
    let count = tensors.len() / groups;
    let mut outputs: Vec<Vec<Item>> = Vec::new();
    for index in 0..count {
        let mut own = tensors.iter().copied().skip(index).step_by(count);
        let (Some(x), Some(gradient)) = (own.next(), own.next()) else { return invalid("there is no gradient") };
        let states: Vec<&Tensor> = own.collect();
        if !matches!(x.ty, DataType::F32 | DataType::F64) {
            return wrong_type(x.ty);
        }
        for other in states.iter().copied().chain([gradient]) {
            if other.ty != x.ty || other.rank() != x.rank() {
                return invalid(format!("the tensor {index}, its gradient and its states have several types or ranks"));
            }
            for (extent, other) in x.shape.iter().zip(&other.shape) {
                cx.require_equal(
                    extent,
                    other,
                    &format!("an extent of the gradient or of a state of the tensor {index}"),
                )?;
            }
        }
        let inputs = Inputs { rate: rate.clone(), steps: steps.clone(), x, gradient, states };
        for (position, output) in step(cx, node, &inputs)?.into_iter().enumerate() {
            match outputs.get_mut(position) {
                Some(list) => list.push(Item::Tensor(output)),
                None => outputs.push(vec![Item::Tensor(output)]),
            }
        }
    }
    Ok(outputs.into_iter().flatten().collect())
}

impl Inputs<'_> {
    /// Computes an output of tensors of the shape of the one that is optimised, and of scalars.
    fn map(
        &self,
        cx: &mut Context,
        tensors: &[&Tensor],
        body: impl FnOnce(&mut Builder, &[Value]) -> Value,
    ) -> Result<Tensor> {
        cx.map_to(tensors, self.x.ty, &self.x.shape, body)
    }

    /// Computes a scalar, of the type of the tensor, of the rate and the number of steps, which the body gets as a float and an integer.
    fn scalar(&self, cx: &mut Context, body: impl FnOnce(&mut Builder, Value, Value) -> Value) -> Result<Tensor> {
        let (from, steps, ty) = (self.rate.ty.computed(), self.steps.ty, self.x.ty);
        cx.map(&[&self.rate, &self.steps], ty, |b, x| {
            let rate = converted(b, x[0], from, ty);
            let steps = converted(b, x[1], steps, DataType::I64);
            body(b, rate, steps)
        })
    }

    fn state(&self, index: usize) -> Result<&Tensor> {
        match self.states.get(index) {
            Some(state) => Ok(state),
            None => invalid(format!("there is no state {index}")),
        }
    }
}

/// `x * factor`.
fn times(b: &mut Builder, x: Value, factor: f64) -> Value {
    let factor = b.float(factor, b.element_of(x));
    b.mulf(x, factor)
}

/// `x + y`.
fn plus(b: &mut Builder, x: Value, y: f64) -> Value {
    let y = b.float(y, b.element_of(x));
    b.addf(x, y)
}

/// The gradient with that of the norm of the tensor.
fn regularised(b: &mut Builder, x: Value, gradient: Value, coefficient: f64) -> Value {
    let norm = times(b, x, coefficient);
    b.addf(norm, gradient)
}

/// Selects a float where the number of steps is positive.
fn after_first(b: &mut Builder, steps: Value, x: Value, first: Value) -> Value {
    let zero = b.int(0, b.element_of(steps));
    let is_later = b.cmpi(IntPredicate::SignedGreater, steps, zero);
    b.select(is_later, x, first)
}

fn adagrad(cx: &mut Context, node: &Node<'_>, inputs: &Inputs<'_>) -> Result<Vec<Tensor>> {
    let norm = node.float_or("norm_coefficient", 0.0);
    let (decay, epsilon) = (node.float_or("decay_factor", 0.0), node.float_or("epsilon", 1e-6));
    let ty = inputs.x.ty;
    let rate = inputs.scalar(cx, |b, rate, steps| {
        let steps = converted(b, steps, DataType::I64, ty);
        let decayed = times(b, steps, decay);
        let divisor = plus(b, decayed, 1.0);
        b.divf(rate, divisor)
    })?;
    let squares = inputs.map(cx, &[inputs.x, inputs.gradient, inputs.state(0)?], |b, x| {
        let gradient = regularised(b, x[0], x[1], norm);
        let square = b.mulf(gradient, gradient);
        b.addf(x[2], square)
    })?;
    let x = inputs.map(cx, &[inputs.x, inputs.gradient, &squares, &rate], |b, x| {
        let gradient = regularised(b, x[0], x[1], norm);
        let root = b.sqrt(x[2]);
        let divisor = plus(b, root, epsilon);
        let scaled = b.mulf(x[3], gradient);
        let step = b.divf(scaled, divisor);
        b.subf(x[0], step)
    })?;
    Ok(vec![x, squares])
}

fn adam(cx: &mut Context, node: &Node<'_>, inputs: &Inputs<'_>) -> Result<Vec<Tensor>> {
    let norm = node.float_or("norm_coefficient", 0.0);
    let norm_after = node.float_or("norm_coefficient_post", 0.0);
    let (alpha, beta) = (node.float_or("alpha", 0.9), node.float_or("beta", 0.999));
    let epsilon = node.float_or("epsilon", 1e-6);
    let ty = inputs.x.ty;
    let rate = inputs.scalar(cx, |b, rate, steps| {
        let exponent = converted(b, steps, DataType::I64, ty);
        let [first, second] = [alpha, beta].map(|base| missing(b, base, exponent));
        let root = b.sqrt(second);
        let scaled = b.mulf(rate, root);
        let adjusted = b.divf(scaled, first);
        after_first(b, steps, adjusted, rate)
    })?;
    let mean = inputs.map(cx, &[inputs.x, inputs.gradient, inputs.state(0)?], |b, x| {
        let gradient = regularised(b, x[0], x[1], norm);
        let (old, new) = (times(b, x[2], alpha), times(b, gradient, 1.0 - alpha));
        b.addf(old, new)
    })?;
    let squares = inputs.map(cx, &[inputs.x, inputs.gradient, inputs.state(1)?], |b, x| {
        let gradient = regularised(b, x[0], x[1], norm);
        let square = b.mulf(gradient, gradient);
        let (old, new) = (times(b, x[2], beta), times(b, square, 1.0 - beta));
        b.addf(old, new)
    })?;
    let x = inputs.map(cx, &[inputs.x, &mean, &squares, &rate], |b, x| {
        let root = b.sqrt(x[2]);
        let divisor = plus(b, root, epsilon);
        let direction = b.divf(x[1], divisor);
        let step = b.mulf(x[3], direction);
        let moved = b.subf(x[0], step);
        times(b, moved, 1.0 - norm_after)
    })?;
    Ok(vec![x, mean, squares])
}

/// `1 - base^exponent`, without cancellation where the base is close to 1.
fn missing(b: &mut Builder, base: f64, exponent: Value) -> Value {
    let element = b.element_of(exponent);
    if base > 0.0 {
        let logarithm = times(b, exponent, base.ln());
        let negated = expm1(b, logarithm);
        return b.negf(negated);
    }
    let (base, one) = (b.float(base, element), b.float(1.0, element));
    let power = pow(b, base, exponent);
    b.subf(one, power)
}

fn momentum(cx: &mut Context, node: &Node<'_>, inputs: &Inputs<'_>) -> Result<Vec<Tensor>> {
    let coefficient = |name: &str| match node.float(name) {
        Some(value) => Ok(value),
        None => invalid(format!("there is no attribute `{name}`")),
    };
    let (norm, alpha, beta) = (coefficient("norm_coefficient")?, coefficient("alpha")?, coefficient("beta")?);
    let is_nesterov = match node.text_or("mode", "standard")? {
        "standard" => false,
        "nesterov" => true,
        other => return unsupported(format!("the mode `{other}` is not known")),
    };
    let ty = inputs.x.ty;
    let rate = inputs.scalar(cx, |_, rate, _| rate)?;
    let share = inputs.scalar(cx, |b, _, steps| {
        let (later, first) = (b.float(beta, ty.element()), b.float(1.0, ty.element()));
        after_first(b, steps, later, first)
    })?;
    let velocity = inputs.map(cx, &[inputs.x, inputs.gradient, inputs.state(0)?, &share], |b, x| {
        let gradient = regularised(b, x[0], x[1], norm);
        let (old, new) = (times(b, x[2], alpha), b.mulf(x[3], gradient));
        b.addf(old, new)
    })?;
    let x = inputs.map(cx, &[inputs.x, inputs.gradient, &velocity, &rate], |b, x| {
        let direction = if is_nesterov {
            let gradient = regularised(b, x[0], x[1], norm);
            let ahead = times(b, x[2], alpha);
            b.addf(gradient, ahead)
        } else {
            x[2]
        };
        let step = b.mulf(x[3], direction);
        b.subf(x[0], step)
    })?;
    Ok(vec![x, velocity])
}
