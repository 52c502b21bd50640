//! Where windows lie: strides, dilations, paddings and the extents of results.

use incarnate_bytecode::Result;
use incarnate_mlir::{Value, Window};

use crate::context::Context;
use crate::dim::Dim;
use crate::node::{Node, invalid};
use crate::tensor::Tensor;

/// The windows of a convolution or a pool, with a list element for each spatial dimension.
#[derive(Clone, Debug)]
pub(super) struct Geometry {
    pub(super) kernel: Vec<Dim>,
    pub(super) window: Window,
    /// Elements that are added in front of the input; negative ones are removed.
    pub(super) low: Vec<Dim>,
    /// Elements that the model adds behind the input.
    pub(super) high: Vec<Dim>,
    /// Elements that the last window needs behind the input: with `ceil_mode`, more than the model adds.
    pub(super) reach: Vec<Dim>,
    pub(super) outputs: Vec<Dim>,
}

/// Returns the strides and dilations of a node.
pub(super) fn strides_and_dilations(node: &Node<'_>, spatial: usize) -> Result<Window> {
    let read = |name: &str| match node.ints(name).unwrap_or_default() {
        [] => Ok(vec![1; spatial]),
        list if list.len() == spatial && list.iter().all(|each| *each > 0) => Ok(list.to_vec()),
        list => invalid(format!("`{name}` {list:?} is not one positive number for each of {spatial} dimensions")),
    };
    Ok(Window { strides: read("strides")?, dilations: read("dilations")? })
}

/// Returns the extent that a dilated window covers.
pub(super) fn covered(kernel: &Dim, dilation: i64) -> Dim {
    let one = Dim::constant(1);
    kernel.minus(&one).times(&Dim::constant(dilation)).plus(&one)
}

/// Returns `kernel_shape`.
pub(super) fn kernel_shape(node: &Node<'_>, spatial: usize) -> Result<Vec<Dim>> {
    match node.ints("kernel_shape") {
        Some(list) if list.len() == spatial && list.iter().all(|each| *each > 0) => {
            Ok(list.iter().copied().map(Dim::constant).collect())
        }
        Some(list) => {
            invalid(format!("`kernel_shape` {list:?} is not one positive number for each of {spatial} dimensions"))
        }
        None => invalid("there is no attribute `kernel_shape`"),
    }
}

/// Returns the explicit paddings in front and behind.
pub(super) fn explicit_pads(node: &Node<'_>, spatial: usize) -> Result<(Vec<Dim>, Vec<Dim>)> {
    let dims = |list: &[i64]| list.iter().copied().map(Dim::constant).collect::<Vec<_>>();
    match node.ints("pads").unwrap_or_default() {
        [] => Ok((vec![Dim::constant(0); spatial], vec![Dim::constant(0); spatial])),
        list if list.len() == 2 * spatial => Ok((dims(&list[..spatial]), dims(&list[spatial..]))),
        list => invalid(format!("`pads` {list:?} are not two numbers for each of {spatial} dimensions")),
    }
}

/// Splits a padding of a number of elements: the odd one is behind, or in front for `SAME_LOWER`.
pub(super) fn halves(total: &Dim, is_lower: bool) -> (Dim, Dim) {
    let two = Dim::constant(2);
    let low = if is_lower { total.ceil_div(&two) } else { total.floor_div(&two) };
    (low.clone(), total.minus(&low))
}

/// Returns the number of elements behind the input that windows need, of which the model adds `high`.
///
/// Where it is known, less than that is added, but no elements are removed unless there is only one window: the compiler takes the
/// extent of such an input for that of the window.
fn reached(needed: &Dim, high: &Dim, output: &Dim, rounds_up: bool) -> Dim {
    match (needed.as_constant(), high.as_constant()) {
        (Some(_), _) if output.is(1) => needed.clone(),
        (Some(needed), Some(high)) if high >= 0 => Dim::constant(needed.max(0)),
        _ if rounds_up => Dim::at_least(needed, high),
        _ => high.clone(),
    }
}

impl Geometry {
    /// Computes where the windows of a node lie on an input of the extents `spatial`.
    pub(super) fn of(node: &Node<'_>, spatial: &[Dim], kernel: Vec<Dim>, rounds_up: bool) -> Result<Geometry> {
        let window = strides_and_dilations(node, spatial.len())?;
        let (zero, one) = (Dim::constant(0), Dim::constant(1));
        let auto = node.text_or("auto_pad", "NOTSET")?;
        let (mut low, mut high) = match auto {
            "NOTSET" | "" => explicit_pads(node, spatial.len())?,
            "VALID" | "SAME_UPPER" | "SAME_LOWER" => {
                (vec![zero.clone(); spatial.len()], vec![zero.clone(); spatial.len()])
            }
            other => return invalid(format!("`auto_pad` is `{other}`")),
        };
        let (mut outputs, mut reach) = (Vec::new(), Vec::new());
        for (index, extent) in spatial.iter().enumerate() {
            let stride = Dim::constant(window.strides[index]);
            let covered = covered(&kernel[index], window.dilations[index]);
            if auto.starts_with("SAME") {
                let output = extent.ceil_div(&stride);
                let total = Dim::at_least(&output.minus(&one).times(&stride).plus(&covered).minus(extent), &zero);
                (low[index], high[index]) = halves(&total, auto == "SAME_LOWER");
                outputs.push(output);
                reach.push(high[index].clone());
                continue;
            }
            let inner = extent.plus(&low[index]);
            let free = inner.plus(&high[index]).minus(&covered);
            let output = free.floor_div(&stride).plus(&one);
            // A window that would start behind the input does not exist.
            let limit = inner.ceil_div(&stride);
            let output = if rounds_up { Dim::at_most(&free.ceil_div(&stride).plus(&one), &limit) } else { output };
            let needed = output.minus(&one).times(&stride).plus(&covered).minus(&inner);
            reach.push(reached(&needed, &high[index], &output, rounds_up));
            outputs.push(output);
        }
        Ok(Geometry { kernel, window, low, high, reach, outputs })
    }

    /// Adds the elements around the spatial dimensions of `[N, C, ..]`.
    pub(super) fn pad(&self, cx: &mut Context, x: &Tensor, value: Value) -> Result<Tensor> {
        pad_spatial(cx, x, &self.low, &self.reach, value)
    }

    /// Returns true if no element is added.
    pub(super) fn is_unpadded(&self) -> bool {
        self.low.iter().chain(&self.reach).all(|dim| dim.is(0))
    }
}

/// Adds elements of a value around the spatial dimensions of `[N, C, ..]`.
pub(super) fn pad_spatial(cx: &mut Context, x: &Tensor, low: &[Dim], high: &[Dim], value: Value) -> Result<Tensor> {
    let full = |pads: &[Dim]| [&[Dim::constant(0), Dim::constant(0)], pads].concat();
    cx.pad(x, &full(low), &full(high), value)
}

/// Returns the spatial extents of `[N, C, ..]`.
pub(super) fn spatial(x: &Tensor) -> Result<&[Dim]> {
    match x.shape.get(2..) {
        Some(spatial) if !spatial.is_empty() => Ok(spatial),
        _ => invalid(format!("a tensor of rank {} has no batch, channel and spatial dimensions", x.rank())),
    }
}
