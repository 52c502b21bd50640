//! Loop nests over tensors that are read along some of the loops, with several results.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Element, Expression, Iterator, Map, Value};

use crate::context::Context;
use crate::convert::{narrowed, widened};
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::node::invalid;
use crate::tensor::{Scalar, Tensor};

/// A tensor that a loop nest reads, and the map from the loops to the position of the element.
pub(super) type Operand<'t> = (&'t Tensor, Map);

/// A result of a loop nest.
pub(super) struct Output {
    pub(super) ty: DataType,
    pub(super) shape: Vec<Dim>,
    /// The map from the loops to the position of the element.
    pub(super) map: Map,
    /// The value of all elements before the first iteration; `None` if the body does not read them.
    pub(super) initial: Option<Scalar>,
}

/// The loops of a nest.
pub(super) struct Loops {
    pub(super) iterators: Vec<Iterator>,
    /// Extents of loops that no tensor has, and the map to those loops.
    pub(super) window: Option<(Vec<Dim>, Map)>,
}

/// Executes a loop nest. The body gets the elements of the operands and of the outputs, as the types that arithmetic has, and returns
/// the next elements of the outputs.
pub(super) fn nest(
    cx: &mut Context,
    operands: &[Operand<'_>],
    loops: &Loops,
    outputs: &[Output],
    body: impl FnOnce(&mut Builder, &[Value], &[Value]) -> Vec<Value>,
) -> Result<Vec<Tensor>> {
    let (mut values, mut maps) = (Vec::new(), Vec::new());
    for (tensor, map) in operands {
        values.push(cx.value(tensor)?);
        maps.push(map.clone());
    }
    if let Some((extents, map)) = &loops.window {
        let extents = cx.extents(extents);
        values.push(cx.b.empty(&extents, Element::F32));
        maps.push(map.clone());
    }
    let mut initial = Vec::new();
    for output in outputs {
        cx.check_shape(output.ty, &output.shape)?;
        let extents = cx.extents(&output.shape);
        initial.push(match &output.initial {
            None => cx.b.empty(&extents, output.ty.element()),
            Some(scalar) => {
                let scalar = cx.scalar(scalar, output.ty)?;
                cx.b.fill(scalar, &extents)
            }
        });
        maps.push(output.map.clone());
    }
    let inputs = values.len();
    let results = cx.b.generic(&values, &initial, &maps, &loops.iterators, |b, arguments| {
        let (read, accumulated) = arguments.split_at(inputs.min(arguments.len()));
        let read: Vec<Value> =
            read.iter().zip(operands).map(|(raw, (tensor, _))| widened(b, *raw, tensor.ty)).collect();
        let accumulated: Vec<Value> = accumulated
            .iter()
            .zip(outputs)
            .map(|(raw, output)| if output.initial.is_some() { widened(b, *raw, output.ty) } else { *raw })
            .collect();
        let next = body(b, &read, &accumulated);
        next.into_iter().zip(outputs).map(|(value, output)| narrowed(b, value, output.ty)).collect()
    });
    results.into_iter().zip(outputs).map(|(value, output)| cx.tensor(value, output.ty, output.shape.clone())).collect()
}

/// Computes each element of a tensor of those of operands.
pub(super) fn map_nest(
    cx: &mut Context,
    operands: &[Operand<'_>],
    shape: &[Dim],
    ty: DataType,
    body: impl FnOnce(&mut Builder, &[Value]) -> Value,
) -> Result<Tensor> {
    let loops = Loops { iterators: vec![Iterator::Parallel; shape.len()], window: None };
    let output = Output { ty, shape: shape.to_vec(), map: Map::identity(shape.len()), initial: None };
    let results = nest(cx, operands, &loops, &[output], |b, elements, _| vec![body(b, elements)])?;
    first(results)
}

/// Returns the first of the results of a nest.
pub(super) fn first(results: Vec<Tensor>) -> Result<Tensor> {
    match results.into_iter().next() {
        Some(result) => Ok(result),
        None => invalid("a loop nest has no result"),
    }
}

/// A reduction: the loops, and the elements of the result that they combine into.
pub(super) struct Reduction {
    pub(super) loops: Loops,
    /// The map from the loops to the position in the result.
    pub(super) output: Map,
    /// The shape of the result.
    pub(super) shape: Vec<Dim>,
    /// The number of elements that combine into one.
    pub(super) count: Dim,
}

impl Reduction {
    /// Reduces axes of a shape, which the result does not have.
    pub(super) fn along(shape: &[Dim], axes: &[usize]) -> Reduction {
        let rank = shape.len();
        let kept = crate::kit::others(axes, rank);
        let iterator = |index| if axes.contains(&index) { Iterator::Reduction } else { Iterator::Parallel };
        Reduction {
            loops: Loops { iterators: (0..rank).map(iterator).collect(), window: None },
            output: Map::of(rank, &kept),
            shape: kept.iter().filter_map(|index| shape.get(*index).cloned()).collect(),
            count: Dim::product(axes.iter().filter_map(|index| shape.get(*index))),
        }
    }

    /// Combines elements into accumulators, each of a type that arithmetic has and with a first value.
    pub(super) fn reduce(
        &self,
        cx: &mut Context,
        operands: &[Operand<'_>],
        accumulators: &[(DataType, Scalar)],
        body: impl FnOnce(&mut Builder, &[Value], &[Value]) -> Vec<Value>,
    ) -> Result<Vec<Tensor>> {
        if self.count.is(0) {
            return accumulators.iter().map(|(ty, initial)| cx.splat(initial, *ty, &self.shape)).collect();
        }
        let output = |(ty, initial): &(DataType, Scalar)| Output {
            ty: *ty,
            shape: self.shape.clone(),
            map: self.output.clone(),
            initial: Some(initial.clone()),
        };
        let outputs: Vec<Output> = accumulators.iter().map(output).collect();
        nest(cx, operands, &self.loops, &outputs, body)
    }

    /// Sums what the body computes of the elements.
    pub(super) fn sum(
        &self,
        cx: &mut Context,
        operands: &[Operand<'_>],
        ty: DataType,
        body: impl FnOnce(&mut Builder, &[Value]) -> Value,
    ) -> Result<Tensor> {
        first(self.reduce(cx, operands, &[(ty, Scalar::Float(0.0))], |b, elements, sums| {
            let term = body(b, elements);
            vec![b.addf(sums[0], term)]
        })?)
    }
}

/// A number of elements as a loop nest uses it.
#[derive(Clone, Copy)]
pub(super) enum Count {
    Constant(i64),
    Index(Value),
}

impl Count {
    pub(super) fn new(cx: &mut Context, dim: &Dim) -> Count {
        dim.as_constant().map_or_else(|| Count::Index(cx.index(dim)), Count::Constant)
    }

    /// Returns the number as an element of a type: a float, or an integer of 32 bits or more.
    pub(super) fn element(self, b: &mut Builder, ty: DataType) -> Value {
        let element = ty.element();
        match self {
            Count::Constant(value) if ty.is_float() => b.float(value as f64, element),
            Count::Constant(value) => b.int(value, element),
            Count::Index(index) => {
                let wide = b.index_cast(index, Element::I64);
                match element {
                    Element::I64 => wide,
                    Element::Int(_) => b.trunci(wide, element),
                    _ => b.sitofp(wide, element),
                }
            }
        }
    }
}

/// Returns the map of a tensor that broadcasts to a shape, whose last dimensions are those of the tensor.
pub(super) fn aligned(cx: &mut Context, tensor: &Tensor, shape: &[Dim], what: &str) -> Result<Map> {
    let Some(skipped) = shape.len().checked_sub(tensor.rank()) else {
        return invalid(format!("{what} has more dimensions than the input"));
    };
    along(cx, tensor, shape, &(skipped..shape.len()).collect::<Vec<_>>(), what)
}

/// Returns the map of a tensor whose dimensions are some of those of a shape, or 1.
pub(super) fn along(cx: &mut Context, tensor: &Tensor, shape: &[Dim], dimensions: &[usize], what: &str) -> Result<Map> {
    if dimensions.len() != tensor.rank() {
        return invalid(format!("{what} has {} dimensions in place of {}", tensor.rank(), dimensions.len()));
    }
    let mut expressions = Vec::new();
    for (dimension, dim) in dimensions.iter().zip(&tensor.shape) {
        let Some(extent) = shape.get(*dimension) else {
            return invalid(format!("{what} has more dimensions than the input"));
        };
        if dim.is(1) && !extent.is(1) {
            expressions.push(Expression::constant(0));
        } else {
            cx.require_equal(dim, extent, &format!("an extent of {what}"))?;
            expressions.push(Expression::dimension(*dimension));
        }
    }
    Ok(Map::new(shape.len(), expressions))
}

/// Returns the only element of a tensor of integers.
pub(super) fn only_integer(cx: &mut Context, tensor: &Tensor, what: &str) -> Result<Dim> {
    let vector = cx.reshape(tensor, &[Dim::constant(1)])?;
    match &*cx.integers(&vector)? {
        [only] => Ok(only.clone()),
        list => invalid(format!("{what} has {} elements in place of one", list.len())),
    }
}
