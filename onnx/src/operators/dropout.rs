//! Dropout, which does nothing but where a model is trained.

use incarnate_bytecode::Result;
use incarnate_mlir::{FloatPredicate, Value};

use super::{Row, onnx};
use crate::context::Context;
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::node::{Node, Outputs, invalid, unsupported};
use crate::tensor::{Data, Item, Scalar, Tensor};

pub(super) const ROWS: &[Row] = &[
    // Models of these versions that infer often do not say so.
    onnx("Dropout", 1, |cx, node| identity(cx, node, node.input(0)?.ty)),
    onnx("Dropout", 10, |cx, node| identity(cx, node, DataType::Bool)),
    onnx("Dropout", 12, |cx, node| {
        check(cx, node)?;
        identity(cx, node, DataType::Bool)
    }),
];

/// The input, and a mask of a type that keeps all elements.
fn identity(cx: &mut Context, node: &Node<'_>, ty: DataType) -> Result<Outputs> {
    let x = node.input(0)?;
    let mut outputs = vec![Item::Tensor(x.clone())];
    if node.has_output(1) {
        let kept = if ty.is_float() { Scalar::Float(1.0) } else { Scalar::Int(Dim::constant(1)) };
        outputs.push(Item::Tensor(cx.splat(&kept, ty, &x.shape)?));
    }
    Ok(outputs)
}

/// Requires that no element is dropped: that the mode is not that of training, or the ratio is 0. The call fails where neither is known.
fn check(cx: &mut Context, node: &Node<'_>) -> Result<()> {
    let Some(training) = node.optional(2)? else { return Ok(()) };
    let ratio = node.optional(1)?;
    let is_training = match cx.elements(training)?.as_deref().map(Vec::as_slice) {
        Some([only]) => Some(!only.as_int().is_some_and(|value| value.is(0))),
        _ => None,
    };
    let is_random = match ratio {
        None => Some(true),
        Some(ratio) => cx.floats(ratio)?.map(|values| values.iter().any(|value| *value != 0.0)),
    };
    match (is_training, is_random) {
        (Some(false), _) | (_, Some(false)) => return Ok(()),
        (Some(true), Some(true)) => return unsupported("dropout with a random mask, as in training"),
        _ => {}
    }
    let truth = cx.b.int(1, DataType::Bool.element());
    let trains = match is_training {
        Some(_) => truth,
        None => only(cx, training)?,
    };
    let drops = match ratio {
        Some(ratio) if is_random.is_none() => {
            let value = only(cx, ratio)?;
            let wide = crate::convert::widened(&mut cx.b, value, ratio.ty);
            let zero = cx.b.float(0.0, ratio.ty.computed().element());
            cx.b.cmpf(FloatPredicate::UnorderedNotEqual, wide, zero)
        }
        _ => truth,
    };
    let both = cx.b.andi(trains, drops);
    let fits = cx.b.xori(both, truth);
    cx.b.assert(fits, "dropout with a random mask, as in training, is not supported");
    Ok(())
}

/// Returns the only element of a tensor.
fn only(cx: &mut Context, tensor: &Tensor) -> Result<Value> {
    if !tensor.shape.iter().all(|dim| dim.is(1)) || !matches!(tensor.data, Data::Value(_)) {
        return invalid("the mode and the ratio of dropout have one element each");
    }
    let value = cx.value(tensor)?;
    let zero = cx.b.index(0);
    Ok(cx.b.extract(value, &vec![zero; tensor.rank()]))
}
