//! Changes of shape, and elements that are known at other positions.

use std::rc::Rc;

use incarnate_bytecode::Result;
use incarnate_mlir::{Extent, Iterator, Map, Type, Value};

use crate::context::Context;
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::node::invalid;
use crate::tensor::{Constant, Data, Scalar, Tensor};

impl Context {
    /// Permutes dimensions: dimension `i` of the result is `permutation[i]` of the input.
    pub(crate) fn transpose(&mut self, input: &Tensor, permutation: &[usize]) -> Result<Tensor> {
        if permutation.iter().copied().eq(0..input.rank()) {
            return Ok(input.clone());
        }
        let shape: Vec<Dim> = permutation.iter().filter_map(|index| input.shape.get(*index).cloned()).collect();
        if shape.len() != input.rank() || permutation.len() != input.rank() {
            return invalid(format!("{permutation:?} is no permutation of {} dimensions", input.rank()));
        }
        let permuted = |position: &[i64]| {
            let mut at = vec![0; position.len()];
            for (index, from) in position.iter().zip(permutation) {
                *at.get_mut(*from)? = *index;
            }
            Some(at)
        };
        if let Some(known) = self.rearranged(input, &shape, permuted)? {
            return Ok(known);
        }
        let value = self.value(input)?;
        let extents = self.extents(&shape);
        let empty = self.b.empty(&extents, input.ty.element());
        let mut inverse = vec![0; permutation.len()];
        for (to, from) in permutation.iter().enumerate() {
            if let Some(slot) = inverse.get_mut(*from) {
                *slot = to;
            }
        }
        let maps = [Map::of(shape.len(), &inverse), Map::identity(shape.len())];
        let iterators = vec![Iterator::Parallel; shape.len()];
        let result = self.b.generic_single(&[value], empty, &maps, &iterators, |_, x| x[0]);
        self.tensor(result, input.ty, shape)
    }

    /// Changes the shape, keeping the elements by rows. The number of elements is checked when the module runs, where it is not known.
    pub(crate) fn reshape(&mut self, input: &Tensor, shape: &[Dim]) -> Result<Tensor> {
        if input.shape == shape {
            return Ok(input.clone());
        }
        self.check_shape(input.ty, shape)?;
        self.require_equal(&input.count(), &Dim::product(shape), "the number of elements of a reshaped tensor")?;
        match &input.data {
            Data::Elements(elements) => {
                let data = Data::Elements(Rc::clone(elements));
                return Ok(Tensor { ty: input.ty, shape: shape.to_vec(), data });
            }
            // A constant of its own, as values of constants are found by address.
            Data::Constant(constant) if shape.iter().all(|dim| dim.as_constant().is_some()) => {
                let data = Data::Constant(Rc::new(Constant::clone(constant)));
                return Ok(Tensor { ty: input.ty, shape: shape.to_vec(), data });
            }
            Data::Constant(_) | Data::Value(_) => {}
        }
        let value = self.value(input)?;
        let groups = crate::reshape::groups(&input.shape, shape);
        let mut value = value;
        if shape.is_empty() && input.rank() > 0 {
            let ones = Type::tensor(&vec![Some(1); input.rank()], input.ty.element());
            value = self.b.cast_to(value, &ones);
            value = self.b.collapse_shape(value, &[]);
        } else if groups.iter().any(|group| group.from.len() != 1) {
            let from: Vec<Vec<usize>> = groups.iter().map(|group| group.from.clone().collect()).collect();
            let from = if input.rank() == 0 { None } else { Some(from) };
            if let Some(from) = from {
                value = self.b.collapse_shape(value, &from);
            }
        }
        if groups.iter().any(|group| group.to.len() != 1) || input.rank() == 0 {
            let to: Vec<Vec<usize>> = groups.iter().map(|group| group.to.clone().collect()).collect();
            let to = if input.rank() == 0 { Vec::new() } else { to };
            if !shape.is_empty() {
                let extents = self.extents(shape);
                value = self.b.expand_shape(value, &to, &extents);
            }
        }
        self.tensor(value, input.ty, shape.to_vec())
    }

    /// Inserts dimensions of extent 1 before positions of the result, in ascending order.
    pub(crate) fn unsqueeze(&mut self, input: &Tensor, axes: &[usize]) -> Result<Tensor> {
        let mut shape = input.shape.clone();
        let mut axes = axes.to_vec();
        axes.sort_unstable();
        for axis in axes {
            if axis > shape.len() {
                return invalid(format!("the axis {axis} is beyond the shape"));
            }
            shape.insert(axis, Dim::constant(1));
        }
        self.reshape(input, &shape)
    }

    /// Removes dimensions of extent 1.
    pub(crate) fn squeeze(&mut self, input: &Tensor, axes: &[usize]) -> Result<Tensor> {
        let mut shape = Vec::new();
        for (index, dim) in input.shape.iter().enumerate() {
            if axes.contains(&index) {
                self.require_equal(dim, &Dim::constant(1), "the extent of a removed dimension")?;
            } else {
                shape.push(dim.clone());
            }
        }
        self.reshape(input, &shape)
    }

    /// Returns `count` elements of each dimension from an offset on, which must be within the tensor, each `step` behind the one
    /// before.
    pub(crate) fn slice(&mut self, input: &Tensor, offsets: &[Dim], counts: &[Dim], steps: &[i64]) -> Result<Tensor> {
        let starts: Option<Vec<i64>> = offsets.iter().map(Dim::as_constant).collect();
        if let Some(starts) = starts {
            let source = |position: &[i64]| {
                let at = position.iter().zip(starts.iter().zip(steps));
                Some(at.map(|(index, (start, step))| start + index * step).collect())
            };
            if let Some(known) = self.rearranged(input, counts, source)? {
                return Ok(known);
            }
        }
        if input.count().is(0) || counts.iter().any(|count| count.is(0)) {
            // A range of no elements may begin behind the last one, which a slice must not.
            let extents = self.extents(counts);
            let empty = self.b.empty(&extents, input.ty.element());
            return self.tensor(empty, input.ty, counts.to_vec());
        }
        let value = self.value(input)?;
        let (offsets, sizes) = (self.extents(offsets), self.extents(counts));
        let steps: Vec<Extent> = steps.iter().copied().map(Extent::Constant).collect();
        let sliced = self.b.extract_slice(value, &offsets, &sizes, &steps, &[]);
        self.tensor(sliced, input.ty, counts.to_vec())
    }

    /// Reverses the order along axes.
    pub(crate) fn reverse(&mut self, input: &Tensor, axes: &[usize]) -> Result<Tensor> {
        let lengths = input.static_shape();
        let source = |position: &[i64]| {
            let mut at = position.to_vec();
            for axis in axes {
                let length = *lengths.as_ref()?.get(*axis)?;
                let slot = at.get_mut(*axis)?;
                *slot = length - 1 - *slot;
            }
            Some(at)
        };
        if let Some(known) = self.rearranged(input, &input.shape, source)? {
            return Ok(known);
        }
        let value = self.value(input)?;
        let mut lasts = Vec::new();
        for axis in axes {
            let last = input.shape.get(*axis).map(|dim| dim.minus(&Dim::constant(1)));
            lasts.push((*axis, self.index(&last.unwrap_or_else(|| Dim::constant(0)))));
        }
        let ty = input.ty;
        self.generate(&input.shape.clone(), ty, |b, positions| {
            let mut at = positions.to_vec();
            for (axis, last) in lasts {
                if let Some(slot) = at.get_mut(axis) {
                    *slot = b.subi(last, *slot);
                }
            }
            b.extract(value, &at)
        })
    }

    /// Returns a range of one dimension, which must be within the tensor.
    pub(crate) fn slice_axis(&mut self, input: &Tensor, axis: usize, offset: &Dim, count: &Dim) -> Result<Tensor> {
        let mut offsets = vec![Dim::constant(0); input.rank()];
        let mut counts = input.shape.clone();
        if let (Some(slot), Some(size)) = (offsets.get_mut(axis), counts.get_mut(axis)) {
            (*slot, *size) = (offset.clone(), count.clone());
        }
        self.slice(input, &offsets, &counts, &vec![1; input.rank()])
    }

    /// Joins tensors along an axis.
    pub(crate) fn concat(&mut self, parts: &[&Tensor], axis: usize) -> Result<Tensor> {
        let Some(first) = parts.first() else { return invalid("nothing is concatenated") };
        if let [only] = parts {
            return Ok(Tensor::clone(only));
        }
        let mut shape = first.shape.clone();
        let mut length = Dim::constant(0);
        for part in parts {
            if part.rank() != shape.len() || part.ty != first.ty {
                return invalid("tensors of several ranks or types are concatenated");
            }
            for (index, (dim, other)) in shape.iter_mut().zip(&part.shape).enumerate() {
                if index == axis {
                    length = length.plus(other);
                } else {
                    self.require_equal(dim, other, "an extent of concatenated tensors")?;
                    if other.as_constant().is_some() {
                        *dim = other.clone();
                    }
                }
            }
        }
        match shape.get_mut(axis) {
            Some(slot) => *slot = length,
            None => return invalid(format!("the axis {axis} is beyond the shape")),
        }
        if let Some(known) = self.concat_known(parts, axis, &shape)? {
            return Ok(known);
        }
        // Tensors without elements, as caches before the first step, add nothing.
        let filled = parts.iter().filter(|part| !part.shape.get(axis).is_some_and(|extent| extent.is(0)));
        let filled: Vec<&Tensor> = filled.copied().collect();
        if let [only] = &*filled {
            let value = self.value(only)?;
            return self.tensor(value, first.ty, shape);
        }
        let filled = if filled.is_empty() { parts.to_vec() } else { filled };
        let values: Vec<Value> = filled.iter().map(|part| self.value(part)).collect::<Result<_>>()?;
        let joined = self.b.concat(axis, &values);
        self.tensor(joined, first.ty, shape)
    }

    /// Joins known elements, where there are few; `None` if some are not known.
    fn concat_known(&mut self, parts: &[&Tensor], axis: usize, shape: &[Dim]) -> Result<Option<Tensor>> {
        let Some(first) = parts.first() else { return Ok(None) };
        let (mut known, mut lengths) = (Vec::new(), Vec::new());
        for part in parts {
            let (Some(elements), Some(from)) = (self.elements(part)?, part.static_shape()) else { return Ok(None) };
            lengths.push(from.get(axis).copied().unwrap_or(0));
            known.push((elements, from));
        }
        // All elements behind one another, and the position of each part among them.
        let mut all = Vec::new();
        let mut starts = Vec::new();
        for (elements, _) in &known {
            starts.push(i64::try_from(all.len()).unwrap_or(i64::MAX));
            all.extend(elements.iter().cloned());
        }
        let total = vec![i64::try_from(all.len()).unwrap_or(i64::MAX)];
        let Some(to) = shape.iter().map(Dim::as_constant).collect::<Option<Vec<i64>>>() else { return Ok(None) };
        let elements = crate::fold::remapped(&all, &total, &to, |position| {
            let mut position = position.to_vec();
            let along = position.get_mut(axis)?;
            let mut part = 0;
            while *along >= *lengths.get(part)? {
                *along -= lengths.get(part)?;
                part += 1;
            }
            let (_, from) = known.get(part)?;
            let flat = position.iter().zip(from).fold(0, |flat, (index, extent)| flat * extent + index);
            Some(vec![starts.get(part)? + flat])
        });
        Ok(elements.map(|elements| Tensor::of_elements(first.ty, shape.to_vec(), elements)))
    }

    /// Adds elements of one value around a tensor; negative numbers remove elements.
    pub(crate) fn pad(&mut self, input: &Tensor, low: &[Dim], high: &[Dim], value: Value) -> Result<Tensor> {
        let zero = Dim::constant(0);
        let (mut offsets, mut counts) = (Vec::new(), Vec::new());
        let pads = input.shape.iter().zip(low.iter().zip(high));
        for (dim, (low, high)) in pads.clone() {
            let removed = [low, high].map(|pad| pad.at_most(&zero));
            offsets.push(zero.minus(&removed[0]));
            counts.push(dim.plus(&removed[0]).plus(&removed[1]));
        }
        let sliced = if counts == input.shape {
            input.clone()
        } else {
            self.slice(input, &offsets, &counts, &vec![1; input.rank()])?
        };
        let added = |pads: &[Dim]| -> Vec<Dim> { pads.iter().map(|pad| pad.at_least(&zero)).collect() };
        let shape: Vec<Dim> = pads.map(|(dim, (low, high))| dim.plus(low).plus(high)).collect();
        if shape == sliced.shape {
            return Ok(sliced);
        }
        let operand = self.value(&sliced)?;
        let (low, high) = (added(low), added(high));
        let (low, high) = (self.extents(&low), self.extents(&high));
        let padded = self.b.pad(operand, &low, &high, value);
        self.tensor(padded, input.ty, shape)
    }

    /// Computes the elements of a tensor of known ones, which broadcast; `None` if one is not known, or cannot be computed now.
    pub(crate) fn fold(
        &mut self,
        inputs: &[&Tensor],
        ty: DataType,
        compute: impl Fn(&[Scalar]) -> Option<Scalar>,
    ) -> Result<Option<Tensor>> {
        let mut known = Vec::new();
        for input in inputs {
            let (Some(elements), Some(shape)) = (self.elements(input)?, input.static_shape()) else { return Ok(None) };
            known.push((elements, shape));
        }
        let shapes: Vec<&[Dim]> = inputs.iter().map(|input| &*input.shape).collect();
        let result = self.broadcast(&shapes)?;
        let Some(to) = result.iter().map(Dim::as_constant).collect::<Option<Vec<i64>>>() else { return Ok(None) };
        let mut columns = Vec::new();
        for (elements, shape) in &known {
            let skipped = to.len() - shape.len();
            let broadcast = |position: &[i64]| {
                let own = position.get(skipped..).unwrap_or_default();
                Some(own.iter().zip(shape).map(|(index, extent)| if *extent == 1 { 0 } else { *index }).collect())
            };
            match crate::fold::remapped(elements, shape, &to, broadcast) {
                Some(column) => columns.push(column),
                None => return Ok(None),
            }
        }
        let count = columns.first().map_or(0, Vec::len);
        let mut elements = Vec::with_capacity(count);
        for index in 0..count {
            let operands: Vec<Scalar> = columns.iter().filter_map(|column| column.get(index).cloned()).collect();
            let rounded = compute(&operands).and_then(|scalar| match scalar {
                Scalar::Float(value) => crate::fold::rounded(value, ty).map(Scalar::Float),
                Scalar::Int(dim) => match dim.as_constant() {
                    Some(value) => Some(Scalar::Int(Dim::constant(crate::fold::wrapped(value, ty)))),
                    None => (ty.bits() >= 32).then_some(Scalar::Int(dim)),
                },
            });
            match rounded {
                Some(element) => elements.push(element),
                None => return Ok(None),
            }
        }
        Ok(Some(Tensor::of_elements(ty, result, elements)))
    }

    /// Reads known elements at other positions, for a result of a known shape; `None` if they are not known.
    pub(crate) fn rearranged(
        &self,
        input: &Tensor,
        shape: &[Dim],
        source: impl FnMut(&[i64]) -> Option<Vec<i64>>,
    ) -> Result<Option<Tensor>> {
        let (Some(elements), Some(from)) = (self.elements(input)?, input.static_shape()) else { return Ok(None) };
        let Some(to) = shape.iter().map(Dim::as_constant).collect::<Option<Vec<i64>>>() else { return Ok(None) };
        let elements = crate::fold::remapped(&elements, &from, &to, source);
        Ok(elements.map(|elements| Tensor::of_elements(input.ty, shape.to_vec(), elements)))
    }
}
