//! What lowerings are made of: loop nests over tensors, and conversions.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Element, Expression, IntPredicate, Iterator, Map, Value};

use crate::context::Context;
use crate::convert::{Rounding, converted_stored};
#[allow(unused_imports, reason = "lowerings take conversions from here")]
pub(crate) use crate::convert::{converted, narrowed, truncated, widened};
use crate::data_type::{DataType, Kind};
use crate::dim::Dim;
use crate::elements::encode;
use crate::node::{invalid, unsupported};
use crate::tensor::{Data, Scalar, Tensor, type_of};

impl Context {
    /// Returns the shape that several broadcast to, as NumPy does it. Where it is not known whether an extent is 1, the call fails
    /// unless the extents are equal or 1.
    pub(crate) fn broadcast(&mut self, shapes: &[&[Dim]]) -> Result<Vec<Dim>> {
        let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
        let mut result = vec![Dim::constant(1); rank];
        for shape in shapes {
            let skipped = rank - shape.len();
            for (position, dim) in shape.iter().enumerate() {
                let Some(known) = result.get(skipped + position).cloned() else { continue };
                let joined = self.broadcast_extent(&known, dim)?;
                if let Some(slot) = result.get_mut(skipped + position) {
                    *slot = joined;
                }
            }
        }
        Ok(result)
    }

    fn broadcast_extent(&mut self, a: &Dim, b: &Dim) -> Result<Dim> {
        match (a.as_constant(), b.as_constant()) {
            _ if a == b => Ok(a.clone()),
            (Some(1), _) => Ok(b.clone()),
            (_, Some(1)) => Ok(a.clone()),
            (Some(_), Some(_)) => invalid(format!("shapes do not broadcast: {} and {}", self.text(a), self.text(b))),
            _ => {
                let (x, y) = (self.index(a), self.index(b));
                let one = self.b.index(1);
                let is_one = self.b.cmpi(IntPredicate::Equal, x, one);
                let other_is_one = self.b.cmpi(IntPredicate::Equal, y, one);
                let is_equal = self.b.cmpi(IntPredicate::Equal, x, y);
                let either = self.b.ori(is_one, other_is_one);
                let fits = self.b.ori(either, is_equal);
                self.assert(fits, &format!("shapes do not broadcast: {} and {}", self.text(a), self.text(b)));
                // An operand with a constant extent other than 1 decides.
                if a.as_constant().is_some() {
                    return Ok(a.clone());
                }
                if b.as_constant().is_some() {
                    return Ok(b.clone());
                }
                let joined = self.b.select(is_one, y, x);
                Ok(self.symbol(&format!("broadcast({},{})", self.text(a), self.text(b)), joined))
            }
        }
    }

    /// Repeats an operand along the dimensions of a result of which it is not known whether the operand's extent is 1. Where all extents are
    /// equal, which is the usual case, this is the operand itself, so that loop nests read all operands by affine maps.
    fn widened(&mut self, input: &Tensor, result: &[Dim]) -> Result<Tensor> {
        let skipped = result.len() - input.shape.len();
        let mut shape = input.shape.clone();
        let mut is_equal: Option<Value> = None;
        let mut lasts = vec![None; shape.len()];
        for ((slot, last), extent) in shape.iter_mut().zip(&mut lasts).zip(&result[skipped..]) {
            if slot == extent || slot.is(1) {
                continue;
            }
            let (own, wide, one) = (self.index(slot), self.index(extent), self.b.index(1));
            let fits = self.b.cmpi(IntPredicate::Equal, own, wide);
            is_equal = Some(is_equal.map_or(fits, |others| self.b.andi(others, fits)));
            *last = Some(self.b.subi(own, one));
            *slot = extent.clone();
        }
        let Some(is_equal) = is_equal else { return Ok(input.clone()) };
        let (value, ty) = (self.value(input)?, type_of(input.ty, &shape));
        let extents = self.extents(&shape);
        self.open_region();
        let same = self.b.cast_to(value, &ty);
        let then = self.close_region();
        self.open_region();
        let empty = self.b.empty(&extents, input.ty.element());
        let iterators = vec![Iterator::Parallel; shape.len()];
        let wide = self.b.generic_single(&[], empty, &[Map::identity(shape.len())], &iterators, |b, _| {
            let position = |(dimension, last): (usize, &Option<Value>)| {
                let iteration = b.iteration(dimension);
                last.map_or(iteration, |last| b.minui(iteration, last))
            };
            let positions: Vec<Value> = lasts.iter().enumerate().map(position).collect();
            b.extract(value, &positions)
        });
        let otherwise = self.close_region();
        let results = self.b.scf_if(is_equal, &[ty], (then, vec![same]), (otherwise, vec![wide]));
        self.tensor(results.first().copied().unwrap_or(value), input.ty, shape)
    }

    /// Computes each element of a tensor of those at its position in the inputs, which broadcast. The body gets and returns elements of
    /// the types that arithmetic has: `f32` for narrower floats.
    pub(crate) fn map(
        &mut self,
        inputs: &[&Tensor],
        ty: DataType,
        body: impl FnOnce(&mut Builder, &[Value]) -> Value,
    ) -> Result<Tensor> {
        let shapes: Vec<&[Dim]> = inputs.iter().map(|input| &*input.shape).collect();
        let shape = self.broadcast(&shapes)?;
        self.map_to(inputs, ty, &shape, body)
    }

    /// [`Context::map`] to a shape that the inputs broadcast to.
    pub(crate) fn map_to(
        &mut self,
        inputs: &[&Tensor],
        ty: DataType,
        shape: &[Dim],
        body: impl FnOnce(&mut Builder, &[Value]) -> Value,
    ) -> Result<Tensor> {
        self.map_as(inputs, ty, shape, View::Numbers, |b, x| {
            let result = body(b, x);
            narrowed(b, result, ty)
        })
    }

    /// [`Context::map_to`] for bodies that only choose elements: they see floats narrower than 32 bits as integers of their bits.
    pub(crate) fn choose_to(
        &mut self,
        inputs: &[&Tensor],
        ty: DataType,
        shape: &[Dim],
        body: impl FnOnce(&mut Builder, &[Value]) -> Value,
    ) -> Result<Tensor> {
        self.map_as(inputs, ty, shape, View::Bits, |b, x| {
            let result = body(b, x);
            if b.element_of(result) == ty.element() { result } else { b.bitcast(result, ty.element()) }
        })
    }

    /// [`Context::map_to`] whose body returns elements as they are stored.
    fn map_as(
        &mut self,
        inputs: &[&Tensor],
        ty: DataType,
        shape: &[Dim],
        view: View,
        body: impl FnOnce(&mut Builder, &[Value]) -> Value,
    ) -> Result<Tensor> {
        self.check_shape(ty, shape)?;
        let (mut values, mut maps, mut sources) = (Vec::new(), Vec::new(), Vec::new());
        for input in inputs {
            match self.splat_element(input)? {
                Some(Scalar::Int(dim)) if dim.as_constant().is_none() => {
                    sources.push(Read::Outer(self.scalar(&Scalar::Int(dim), input.ty)?));
                    continue;
                }
                Some(scalar) if view == View::Numbers || encode(&scalar, input.ty).is_some() => {
                    sources.push(Read::Splat(scalar, input.ty, view));
                    continue;
                }
                _ => {}
            }
            let input = self.widened(input, shape)?;
            sources.push(Read::Argument(values.len(), input.ty, view));
            values.push(self.value(&input)?);
            maps.push(access(&input.shape, shape));
        }
        let extents = self.extents(shape);
        let empty = self.b.empty(&extents, ty.element());
        maps.push(Map::identity(shape.len()));
        let iterators = vec![Iterator::Parallel; shape.len()];
        let result = self.b.generic_single(&values, empty, &maps, &iterators, |b, arguments| {
            let elements: Vec<Value> = sources.iter().map(|source| source.read(b, arguments)).collect();
            body(b, &elements)
        });
        self.tensor(result, ty, shape.to_vec())
    }

    /// Returns the element of a small tensor whose elements are known to be the same.
    fn splat_element(&mut self, tensor: &Tensor) -> Result<Option<Scalar>> {
        if matches!(tensor.data, Data::Value(_)) || tensor.count().as_constant().is_none_or(|count| count > 64) {
            return Ok(None);
        }
        let same = |x: &Scalar, y: &Scalar| match (x, y) {
            (Scalar::Float(x), Scalar::Float(y)) => x.to_bits() == y.to_bits(),
            _ => x == y,
        };
        Ok(self.elements(tensor)?.and_then(|elements| {
            let (first, rest) = elements.split_first()?;
            rest.iter().all(|other| same(first, other)).then(|| first.clone())
        }))
    }

    /// Computes each element of a tensor of its position. The body gets the positions along the dimensions, and returns an element of
    /// the type that arithmetic has. It may read tensors by [`read`].
    pub(crate) fn generate(
        &mut self,
        shape: &[Dim],
        ty: DataType,
        body: impl FnOnce(&mut Builder, &[Value]) -> Value,
    ) -> Result<Tensor> {
        self.check_shape(ty, shape)?;
        let extents = self.extents(shape);
        let empty = self.b.empty(&extents, ty.element());
        let iterators = vec![Iterator::Parallel; shape.len()];
        let result = self.b.generic_single(&[], empty, &[Map::identity(shape.len())], &iterators, |b, _| {
            let positions: Vec<Value> = (0..iterators.len()).map(|dimension| b.iteration(dimension)).collect();
            let result = body(b, &positions);
            narrowed(b, result, ty)
        });
        self.tensor(result, ty, shape.to_vec())
    }

    /// Combines the elements along axes, which the result does not have. The body gets an element and the accumulator, both of the
    /// type that arithmetic has, and returns the next accumulator, whose first value is `initial`. The result has type `ty`, which is
    /// that of the accumulator.
    pub(crate) fn reduce(
        &mut self,
        input: &Tensor,
        axes: &[usize],
        ty: DataType,
        initial: Scalar,
        body: impl FnOnce(&mut Builder, Value, Value) -> Value,
    ) -> Result<Tensor> {
        let rank = input.rank();
        let kept: Vec<usize> = (0..rank).filter(|index| !axes.contains(index)).collect();
        let shape: Vec<Dim> = kept.iter().filter_map(|index| input.shape.get(*index).cloned()).collect();
        let value = self.value(input)?;
        let initial = self.scalar(&initial, ty)?;
        let extents = self.extents(&shape);
        let filled = self.b.fill(initial, &extents);
        let iterators: Vec<Iterator> = (0..rank)
            .map(|index| if axes.contains(&index) { Iterator::Reduction } else { Iterator::Parallel })
            .collect();
        let maps = [Map::identity(rank), Map::of(rank, &kept)];
        let from = input.ty;
        let result = self.b.generic_single(&[value], filled, &maps, &iterators, |b, arguments| {
            let element = widened(b, arguments[0], from);
            body(b, element, arguments[1])
        });
        self.tensor(result, ty, shape)
    }

    /// A scalar constant of the type that a value of `ty` has in MLIR.
    pub(crate) fn scalar(&mut self, scalar: &Scalar, ty: DataType) -> Result<Value> {
        Ok(match scalar {
            Scalar::Float(value) if ty.element().is_float() => self.b.float(*value, ty.element()),
            Scalar::Float(_) => {
                let Some(bits) = encode(scalar, ty) else { return wrong_type(ty) };
                self.b.int(bits.cast_signed(), ty.element())
            }
            Scalar::Int(dim) if ty.is_float() => {
                let (numerator, denominator) = dim.as_ratio();
                let index = self.index(&numerator);
                let wide = self.b.index_cast(index, Element::I64);
                let quotient = self.b.sitofp(wide, ty.computed().element());
                let divisor = self.b.float(denominator as f64, ty.computed().element());
                let quotient = if denominator == 1 { quotient } else { self.b.divf(quotient, divisor) };
                narrowed(&mut self.b, quotient, ty)
            }
            Scalar::Int(dim) => match dim.as_constant() {
                Some(value) => self.b.int(value, ty.element()),
                None => {
                    let index = self.index(dim);
                    let wide = self.b.index_cast(index, Element::I64);
                    if ty.element() == Element::I64 { wide } else { self.b.trunci(wide, ty.element()) }
                }
            },
        })
    }

    /// A tensor whose elements are all the same.
    pub(crate) fn splat(&mut self, scalar: &Scalar, ty: DataType, shape: &[Dim]) -> Result<Tensor> {
        self.check_shape(ty, shape)?;
        let count = Dim::product(shape).as_constant().and_then(|count| usize::try_from(count).ok());
        if let Some(count) = count.filter(|count| *count <= 64) {
            return Ok(Tensor::of_elements(ty, shape.to_vec(), vec![scalar.clone(); count]));
        }
        let value = self.scalar(scalar, ty)?;
        let extents = self.extents(shape);
        let filled = self.b.fill(value, &extents);
        self.tensor(filled, ty, shape.to_vec())
    }

    /// Converts elements as ONNX's `Cast` does.
    pub(crate) fn cast(&mut self, input: &Tensor, ty: DataType) -> Result<Tensor> {
        self.cast_as(input, ty, Rounding::default())
    }

    /// [`Context::cast`] with a rounding to floats of 8 bits.
    pub(crate) fn cast_as(&mut self, input: &Tensor, ty: DataType, rounding: impl Into<Rounding>) -> Result<Tensor> {
        let (from, rounding) = (input.ty, rounding.into());
        if from == ty {
            return Ok(input.clone());
        }
        if rounding.saturates
            && let Some(elements) = self.elements(input)?
            && let Some(cast) = crate::fold::cast(&elements, from, ty)
        {
            return Ok(Tensor::of_elements(ty, input.shape.clone(), cast));
        }
        if let Some(same) = with_sign(input, ty) {
            return Ok(same);
        }
        let shape = input.shape.clone();
        self.map_as(&[input], ty, &shape, View::Numbers, |b, x| converted_stored(b, x[0], from, ty, rounding))
    }

    /// Broadcasts a tensor to a shape.
    pub(crate) fn broadcast_to(&mut self, input: &Tensor, shape: &[Dim]) -> Result<Tensor> {
        if input.shape == shape {
            return Ok(input.clone());
        }
        let from = input.shape.clone();
        let skipped = shape.len() - from.len().min(shape.len());
        let source = |position: &[i64]| {
            let own = position.get(skipped..).unwrap_or_default();
            Some(own.iter().zip(&from).map(|(index, dim)| if dim.is(1) { 0 } else { *index }).collect())
        };
        if let Some(known) = self.rearranged(input, shape, source)? {
            return Ok(known);
        }
        self.choose_to(&[input], input.ty, shape, |_, x| x[0])
    }
}

/// How a loop nest over a result reads an operand whose shape is broadcast to that of the result: each extent is equal, or 1.
fn access(shape: &[Dim], result: &[Dim]) -> Map {
    let skipped = result.len() - shape.len();
    let position = |(index, dim): (usize, &Dim)| match result.get(skipped + index) {
        Some(extent) if extent == dim => Expression::dimension(skipped + index),
        _ => Expression::constant(0),
    };
    Map::new(result.len(), shape.iter().enumerate().map(position).collect())
}

/// Returns a tensor of integers as one of the type of the same width that has a sign, or none; `None` for other types.
pub(crate) fn with_sign(input: &Tensor, ty: DataType) -> Option<Tensor> {
    let is_same = input.ty.is_int() && ty.is_int() && input.ty.bits() == ty.bits() && !ty.is_packed();
    let is_whole = !matches!(input.data, Data::Elements(_));
    (is_same && is_whole).then(|| Tensor { ty, ..input.clone() })
}

/// How a body sees elements.
#[derive(Clone, Copy, PartialEq, Eq)]
enum View {
    /// As the type that arithmetic has.
    Numbers,
    /// Floats narrower than 32 bits as their bits.
    Bits,
}

impl View {
    fn of(self, b: &mut Builder, raw: Value, ty: DataType) -> Value {
        match self {
            View::Numbers => widened(b, raw, ty),
            View::Bits if ty.computed() == ty => raw,
            View::Bits if !ty.element().is_float() => raw,
            View::Bits => b.bitcast(raw, Element::Int(ty.bits() as u8)),
        }
    }
}

/// Where an element of an operand is.
enum Read {
    Argument(usize, DataType, View),
    /// A constant.
    Splat(Scalar, DataType, View),
    /// A scalar that is computed before the loop nest.
    Outer(Value),
}

impl Read {
    fn read(&self, b: &mut Builder, arguments: &[Value]) -> Value {
        match self {
            Read::Argument(index, ty, view) => match arguments.get(*index) {
                Some(raw) => view.of(b, *raw, *ty),
                None => b.index(0),
            },
            Read::Outer(value) => *value,
            Read::Splat(scalar, ty, View::Bits) if ty.computed() != *ty => {
                let bits = encode(scalar, *ty).unwrap_or(0);
                b.int(bits.cast_signed(), Element::Int(ty.bits().max(8) as u8))
            }
            Read::Splat(Scalar::Float(value), ty, _) => b.float(*value, ty.computed().element()),
            Read::Splat(Scalar::Int(dim), ty, _) => b.int(dim.as_constant().unwrap_or(0), ty.element()),
        }
    }
}

/// Reads an element within a loop nest, as the type that arithmetic has.
pub(crate) fn read(b: &mut Builder, tensor: Value, indices: &[Value], ty: DataType) -> Value {
    let raw = b.extract(tensor, indices);
    widened(b, raw, ty)
}

/// The greater of two elements: NaN if one of the floats is.
pub(crate) fn maximum(b: &mut Builder, x: Value, y: Value, kind: Kind) -> Value {
    match kind {
        Kind::Float => b.maximumf(x, y),
        Kind::Signed => b.maxsi(x, y),
        Kind::Unsigned | Kind::Bool => b.maxui(x, y),
    }
}

/// The lesser of two elements: NaN if one of the floats is.
pub(crate) fn minimum(b: &mut Builder, x: Value, y: Value, kind: Kind) -> Value {
    match kind {
        Kind::Float => b.minimumf(x, y),
        Kind::Signed => b.minsi(x, y),
        Kind::Unsigned | Kind::Bool => b.minui(x, y),
    }
}

/// The positions of the dimensions of a tensor that a list of axes does not name.
pub(crate) fn others(axes: &[usize], rank: usize) -> Vec<usize> {
    (0..rank).filter(|index| !axes.contains(index)).collect()
}

/// An error about a type that an operator does not take.
pub(crate) fn wrong_type<T>(ty: DataType) -> Result<T> {
    unsupported(format!("elements of type {} are not supported", ty.name()))
}
