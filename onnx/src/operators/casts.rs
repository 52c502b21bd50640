//! Conversions of elements.

use incarnate_bytecode::Result;

use super::{Row, onnx};
use crate::context::Context;
use crate::convert::{Direction, Rounding, shortened};
use crate::data_type::DataType;
use crate::kit::with_sign;
use crate::node::{Node, Outputs, invalid, one, unsupported};
use crate::tensor::{Data, Tensor};

pub(super) const ROWS: &[Row] = &[
    onnx("Cast", 1, |cx, node| {
        // The name of the type.
        let ty = match node.text_or("to", "")?.to_ascii_uppercase().as_str() {
            "FLOAT" => DataType::F32,
            "UINT8" => DataType::U8,
            "INT8" => DataType::I8,
            "UINT16" => DataType::U16,
            "INT16" => DataType::I16,
            "INT32" => DataType::I32,
            "INT64" => DataType::I64,
            "BOOL" => DataType::Bool,
            "FLOAT16" => DataType::F16,
            "DOUBLE" => DataType::F64,
            "UINT32" => DataType::U32,
            "UINT64" => DataType::U64,
            // Some models of this version have the number, as later ones do.
            "" => return cast(cx, node),
            other => return unsupported(format!("elements of type {other} are not supported")),
        };
        one(cx.cast(node.input(0)?, ty)?)
    }),
    onnx("Cast", 6, cast),
    onnx("CastLike", 15, |cx, node| {
        let ty = node.input(1)?.ty;
        one(cx.cast_as(node.input(0)?, ty, rounding(node)?)?)
    }),
    onnx("BitCast", 26, |cx, node| {
        let Some(ty) = node.data_type("to")? else { return invalid("there is no attribute `to`") };
        one(bit_cast(cx, node.input(0)?, ty)?)
    }),
];

fn cast(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let Some(ty) = node.data_type("to")? else { return invalid("there is no attribute `to`") };
    let x = node.input(0)?;
    let y = cx.cast_as(x, ty, rounding(node)?)?;
    one(if x.ty.is_float() { y } else { widened_alone(cx, x, y)? })
}

/// Keeps a conversion to a wider type out of the dispatches that read it, as of masks of sequences. The compiler repeats it in them, where
/// VMVX lacks a buffer of a size that is not known.
fn widened_alone(cx: &mut Context, x: &Tensor, y: Tensor) -> Result<Tensor> {
    let open = y.shape.iter().filter(|dim| dim.as_constant().is_none()).count();
    let Data::Value(value) = y.data else { return Ok(y) };
    if x.ty.bits() >= y.ty.bits() || open < 2 {
        return Ok(y);
    }
    let value = cx.b.barrier(value);
    Ok(Tensor { data: Data::Value(value), ..y })
}

fn rounding(node: &Node<'_>) -> Result<Rounding> {
    let direction = match node.text_or("round_mode", "up")? {
        "up" => Direction::Up,
        "down" => Direction::Down,
        "nearest" => Direction::Nearest,
        other => {
            return invalid(format!("the attribute `round_mode` is `{other}`, which is none of up, down and nearest"));
        }
    };
    Ok(Rounding { saturates: node.int_or("saturate", 1) != 0, direction })
}

/// Returns the bits of elements as those of another type of the same width. Booleans have 8 bits.
fn bit_cast(cx: &mut Context, x: &Tensor, ty: DataType) -> Result<Tensor> {
    let width = |ty: DataType| if ty == DataType::Bool { 8 } else { ty.bits() };
    if width(x.ty) != width(ty) {
        return invalid(format!("elements of type {} and {} have not the same number of bits", x.ty.name(), ty.name()));
    }
    if let Some(same) = with_sign(x, ty) {
        return Ok(same);
    }
    match (x.ty, ty) {
        (from, to) if from == to => Ok(x.clone()),
        (DataType::Bool, _) => {
            let bytes = cx.cast(x, DataType::U8)?;
            bit_cast(cx, &bytes, ty)
        }
        (_, DataType::Bool) => {
            let bytes = bit_cast(cx, x, DataType::U8)?;
            cx.cast(&bytes, DataType::Bool)
        }
        _ => {
            let shape = x.shape.clone();
            cx.choose_to(
                &[x],
                ty,
                &shape,
                |b, x| if ty.is_packed() && ty.is_int() { shortened(b, x[0], ty) } else { x[0] },
            )
        }
    }
}
