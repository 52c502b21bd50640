//! Operations on whole tensors.

use core::fmt;

use crate::builder::{Builder, Value, list};
use crate::types::{Element, Type};

/// An extent, an offset or a stride: a constant, or a value of type `index`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// A constant.
    Constant(i64),
    /// A value of type `index`.
    Value(Value),
}

impl Extent {
    /// Returns the extent as the type of a tensor has it.
    fn of_type(self) -> Option<u64> {
        match self {
            Extent::Constant(extent) => u64::try_from(extent).ok(),
            Extent::Value(_) => None,
        }
    }
}

impl From<i64> for Extent {
    fn from(value: i64) -> Extent {
        Extent::Constant(value)
    }
}

impl From<Value> for Extent {
    fn from(value: Value) -> Extent {
        Extent::Value(value)
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Extent::Constant(extent) => write!(f, "{extent}"),
            Extent::Value(value) => write!(f, "{value}"),
        }
    }
}

/// Returns the type of a tensor of these extents.
pub(crate) fn type_of_extents(extents: &[Extent], element: Element) -> Type {
    Type::Tensor { extents: extents.iter().map(|extent| extent.of_type()).collect(), element }
}

impl Builder {
    /// Checks that values are positions.
    fn check_indices(&mut self, name: &str, extents: &[Extent]) {
        for extent in extents {
            match extent {
                Extent::Value(value) if *self.type_of(*value) != Type::Scalar(Element::Index) => {
                    self.fail(format!("{name} with an extent of type {}", self.type_of(*value)));
                }
                _ => {}
            }
        }
    }

    /// Checks the number of extents of a tensor.
    fn check_rank(&mut self, name: &str, x: Value, rank: usize) {
        if self.type_of(x).extents().map(<[_]>::len) != Some(rank) {
            self.fail(format!("{name} of {} with {rank} positions", self.type_of(x)));
        }
    }

    /// `tensor.empty`: a tensor whose elements have no value yet.
    pub fn empty(&mut self, extents: &[Extent], element: Element) -> Value {
        self.check_indices("tensor.empty", extents);
        let ty = type_of_extents(extents, element);
        let dynamic: Vec<&Extent> = extents.iter().filter(|extent| matches!(extent, Extent::Value(_))).collect();
        self.operation(ty.clone(), &format!("tensor.empty({}) : {ty}", list(&dynamic)))
    }

    /// `tensor.dim`: the extent of a dimension.
    pub fn dim(&mut self, x: Value, dimension: usize) -> Value {
        if dimension >= self.rank(x) {
            self.fail(format!("tensor.dim {dimension} of {}", self.type_of(x)));
        }
        let position = self.index(i64::try_from(dimension).unwrap_or(i64::MAX));
        let ty = self.type_of(x).clone();
        self.operation(Type::Scalar(Element::Index), &format!("tensor.dim {x}, {position} : {ty}"))
    }

    /// Returns the extents of a tensor: constants where the type has them.
    pub fn extents(&mut self, x: Value) -> Vec<Extent> {
        let extents = self.type_of(x).extents().unwrap_or_default().to_vec();
        let all = extents.into_iter().enumerate();
        all.map(|(index, extent)| match extent.and_then(|extent| i64::try_from(extent).ok()) {
            Some(extent) => Extent::Constant(extent),
            None => Extent::Value(self.dim(x, index)),
        })
        .collect()
    }

    /// Returns an extent as a value of type `index`.
    pub fn index_of(&mut self, extent: Extent) -> Value {
        match extent {
            Extent::Constant(extent) => self.index(extent),
            Extent::Value(value) => value,
        }
    }

    /// `tensor.extract`: one element.
    pub fn extract(&mut self, x: Value, indices: &[Value]) -> Value {
        self.check_rank("tensor.extract", x, indices.len());
        self.check_indices("tensor.extract", &indices.iter().copied().map(Extent::Value).collect::<Vec<_>>());
        let ty = self.type_of(x).clone();
        self.operation(Type::Scalar(ty.element()), &format!("tensor.extract {x}[{}] : {ty}", list(indices)))
    }

    /// `tensor.insert`: a tensor with another element at a position.
    pub fn insert(&mut self, scalar: Value, into: Value, indices: &[Value]) -> Value {
        self.check_rank("tensor.insert", into, indices.len());
        let ty = self.type_of(into).clone();
        if *self.type_of(scalar) != Type::Scalar(ty.element()) {
            self.fail(format!("tensor.insert of {} into {ty}", self.type_of(scalar)));
        }
        self.operation(ty.clone(), &format!("tensor.insert {scalar} into {into}[{}] : {ty}", list(indices)))
    }

    /// `tensor.extract_slice`. Dimensions that `dropped` names, whose size is 1, are none of the result's.
    pub fn extract_slice(
        &mut self,
        x: Value,
        offsets: &[Extent],
        sizes: &[Extent],
        strides: &[Extent],
        dropped: &[usize],
    ) -> Value {
        self.check_slice("tensor.extract_slice", x, [offsets, sizes, strides]);
        let from = self.type_of(x).clone();
        let kept: Vec<Extent> = kept(sizes, dropped);
        let ty = type_of_extents(&kept, from.element());
        let slice = format!("[{}] [{}] [{}]", list(offsets), list(sizes), list(strides));
        self.operation(ty.clone(), &format!("tensor.extract_slice {x}{slice} : {from} to {ty}"))
    }

    /// `tensor.insert_slice`: a tensor with another slice. Dimensions that `dropped` names, whose size is 1, are none of the slice's.
    pub fn insert_slice(
        &mut self,
        slice: Value,
        into: Value,
        offsets: &[Extent],
        sizes: &[Extent],
        strides: &[Extent],
        dropped: &[usize],
    ) -> Value {
        self.check_slice("tensor.insert_slice", into, [offsets, sizes, strides]);
        let ty = self.type_of(into).clone();
        let expected = type_of_extents(&kept(sizes, dropped), ty.element());
        let slice = self.cast_to(slice, &expected);
        let at = format!("[{}] [{}] [{}]", list(offsets), list(sizes), list(strides));
        self.operation(ty.clone(), &format!("tensor.insert_slice {slice} into {into}{at} : {expected} into {ty}"))
    }

    fn check_slice(&mut self, name: &str, x: Value, parts: [&[Extent]; 3]) {
        for part in parts {
            self.check_rank(name, x, part.len());
            self.check_indices(name, part);
        }
    }

    /// `tensor.collapse_shape`: joins adjacent dimensions, in groups.
    pub fn collapse_shape(&mut self, x: Value, groups: &[Vec<usize>]) -> Value {
        // Without groups, all extents are 1, and the result has none.
        if !groups.is_empty() {
            self.check_rank("tensor.collapse_shape", x, groups.iter().map(Vec::len).sum());
        }
        let from = self.type_of(x).clone();
        let extents = from.extents().unwrap_or_default();
        let joined = groups
            .iter()
            .map(|group| group.iter().try_fold(1_u64, |product, index| product.checked_mul((*extents.get(*index)?)?)));
        let ty = Type::Tensor { extents: joined.collect(), element: from.element() };
        self.operation(ty.clone(), &format!("tensor.collapse_shape {x} {} : {from} into {ty}", grouping(groups)))
    }

    /// `tensor.expand_shape`: splits dimensions; `groups` has for each dimension those of the result, whose extents are `extents`.
    pub fn expand_shape(&mut self, x: Value, groups: &[Vec<usize>], extents: &[Extent]) -> Value {
        self.check_rank("tensor.expand_shape", x, groups.len());
        self.check_indices("tensor.expand_shape", extents);
        if !groups.is_empty() && groups.iter().map(Vec::len).sum::<usize>() != extents.len() {
            self.fail(format!("tensor.expand_shape of {} to {} extents", self.type_of(x), extents.len()));
        }
        let mut x = x;
        let mut from = self.type_of(x).clone();
        let ty = type_of_extents(extents, from.element());
        // Where all of a group are constants, the dimension that they split is one, too.
        if let Type::Tensor { extents: split, .. } = &mut from {
            let results = ty.extents().unwrap_or_default();
            for (extent, group) in split.iter_mut().zip(groups) {
                let product =
                    group.iter().try_fold(1_u64, |product, index| product.checked_mul((*results.get(*index)?)?));
                *extent = product;
            }
            x = self.cast_to(x, &from);
        }
        let shape = format!("output_shape [{}]", list(extents));
        self.operation(ty.clone(), &format!("tensor.expand_shape {x} {} {shape} : {from} into {ty}", grouping(groups)))
    }

    /// `tensor.pad`: adds elements of one value before and behind each dimension.
    pub fn pad(&mut self, x: Value, low: &[Extent], high: &[Extent], value: Value) -> Value {
        self.check_slice("tensor.pad", x, [low, high, low]);
        let from = self.type_of(x).clone();
        if *self.type_of(value) != Type::Scalar(from.element()) {
            self.fail(format!("tensor.pad of {from} with {}", self.type_of(value)));
        }
        let extents = from.extents().unwrap_or_default().iter().zip(low.iter().zip(high));
        let sums = extents.map(|(extent, pads)| match pads {
            (Extent::Constant(low), Extent::Constant(high)) => {
                extent.and_then(|extent| extent.checked_add_signed(low.checked_add(*high)?))
            }
            _ => None,
        });
        let ty = Type::Tensor { extents: sums.collect(), element: from.element() };
        self.open_region();
        let header: Vec<String> =
            (0..low.len()).map(|_| self.argument(Type::Scalar(Element::Index)).to_string()).collect();
        let header: Vec<String> = header.into_iter().map(|name| format!("{name}: index")).collect();
        self.line_before_block(&header);
        self.line(&format!("tensor.yield {value} : {}", from.element()));
        let region = self.close_region();
        let header = format!("tensor.pad {x} low[{}] high[{}]", list(low), list(high));
        let trailer = format!(" : {from} to {ty}");
        self.with_regions(&[ty], &header, &[(" ", &region)], &trailer).first().copied().unwrap_or(x)
    }

    /// `tensor.from_elements`: a tensor of scalars, by rows.
    pub fn from_elements(&mut self, values: &[Value], extents: &[u64]) -> Value {
        let element = values.first().map_or(Element::Index, |first| self.element_of(*first));
        if values.iter().any(|value| *self.type_of(*value) != Type::Scalar(element)) {
            self.fail("tensor.from_elements of several types");
        }
        let ty = Type::Tensor { extents: extents.iter().copied().map(Some).collect(), element };
        self.operation(ty.clone(), &format!("tensor.from_elements {} : {ty}", list(values)))
    }

    /// `tensor.cast` to a type that has other constants among its extents; nothing where the type is the same.
    pub fn cast_to(&mut self, x: Value, ty: &Type) -> Value {
        let from = self.type_of(x).clone();
        if from == *ty {
            return x;
        }
        let fits = |pair: (&Option<u64>, &Option<u64>)| pair.0.is_none() || pair.1.is_none() || pair.0 == pair.1;
        let (Some(before), Some(after)) = (from.extents(), ty.extents()) else {
            self.fail(format!("tensor.cast of {from} to {ty}"));
            return x;
        };
        if before.len() != after.len() || !before.iter().zip(after).all(fits) || from.element() != ty.element() {
            self.fail(format!("tensor.cast of {from} to {ty}"));
        }
        self.operation(ty.clone(), &format!("tensor.cast {x} : {from} to {ty}"))
    }

    /// `iree_tensor_ext.compute_barrier.start`: loop nests that read the result are not in the dispatch of those that computed `x`.
    pub fn barrier(&mut self, x: Value) -> Value {
        let ty = self.type_of(x).clone();
        let dynamic: Vec<Extent> =
            self.extents(x).into_iter().filter(|extent| matches!(extent, Extent::Value(_))).collect();
        let sizes = if dynamic.is_empty() { String::new() } else { format!("{{{}}}", list(&dynamic)) };
        self.operation(ty.clone(), &format!("iree_tensor_ext.compute_barrier.start {x} : {ty}{sizes} -> {ty}"))
    }

    /// Returns a tensor whose dynamic extents the compiler does not relate to others: `flow.tensor.reshape` to extents behind
    /// `util.optimization_barrier`.
    pub fn with_opaque_extents(&mut self, x: Value) -> Value {
        let extents: Vec<Value> = self
            .extents(x)
            .into_iter()
            .filter_map(|extent| match extent {
                Extent::Value(value) => Some(value),
                Extent::Constant(_) => None,
            })
            .collect();
        if extents.is_empty() {
            return x;
        }
        let opaque: Vec<Value> = extents.iter().map(|extent| self.opaque(*extent)).collect();
        self.with_extents(x, &opaque)
    }

    /// `flow.tensor.reshape` of a tensor to the same constant extents and other dynamic ones, which have the same number of elements.
    pub fn with_extents(&mut self, x: Value, dynamic: &[Value]) -> Value {
        let ty = self.type_of(x).clone();
        let extents: Vec<Extent> =
            self.extents(x).into_iter().filter(|extent| matches!(extent, Extent::Value(_))).collect();
        if extents.len() != dynamic.len() {
            self.fail(format!("flow.tensor.reshape of {ty} to {} dynamic extents", dynamic.len()));
        }
        let (before, after) = (list(&extents), list(dynamic));
        self.operation(ty.clone(), &format!("flow.tensor.reshape {x} : {ty}{{{before}}} -> {ty}{{{after}}}"))
    }

    /// Returns a tensor that the compiler does not relate to the operation of `x`: `util.optimization_barrier`.
    pub(crate) fn detached(&mut self, x: Value) -> Value {
        let ty = self.type_of(x).clone();
        let dynamic: Vec<Extent> =
            self.extents(x).into_iter().filter(|extent| matches!(extent, Extent::Value(_))).collect();
        let detached = self.opaque(x);
        if dynamic.is_empty() {
            return detached;
        }
        self.operation(ty.clone(), &format!("flow.tensor.tie_shape {detached} : {ty}{{{}}}", list(&dynamic)))
    }

    /// Returns a copy of a tensor that the compiler does not find to be the same: a choice, by a Boolean that it does not know, of the elements
    /// or 0.
    pub(crate) fn copied(&mut self, x: Value) -> Value {
        let detached = self.detached(x);
        let element = self.element_of(x);
        let truth = self.int(1, Element::I1);
        let opaque = self.opaque(truth);
        self.elementwise(&[detached], element, |b, x| {
            let zero = match element {
                // VMVX lacks constants of these.
                Element::F16 | Element::Bf16 => {
                    let bits = b.int(0, Element::I16);
                    b.bitcast(bits, element)
                }
                _ if element.is_float() => b.float(0.0, element),
                _ => b.int(0, element),
            };
            x.first().map_or(zero, |x| b.select(opaque, *x, zero))
        })
    }

    /// `tensor.concat` along a dimension.
    pub fn concat(&mut self, dimension: usize, parts: &[Value]) -> Value {
        let Some(first) = parts.first().map(|first| self.type_of(*first).clone()) else {
            self.fail("tensor.concat of nothing");
            return Value(0);
        };
        let mut extents = first.extents().unwrap_or_default().to_vec();
        for part in parts.get(1..).unwrap_or_default() {
            self.check_rank("tensor.concat", *part, extents.len());
            let other = self.type_of(*part).extents().unwrap_or_default().to_vec();
            for (index, (extent, other)) in extents.iter_mut().zip(other).enumerate() {
                *extent = match (index == dimension, *extent, other) {
                    (true, Some(extent), Some(other)) => extent.checked_add(other),
                    (true, ..) => None,
                    (false, known, other) => known.or(other),
                };
            }
        }
        let ty = Type::Tensor { extents, element: first.element() };
        let text = format!("tensor.concat dim({dimension}) {} : ({}) -> {ty}", list(parts), self.types_of(parts));
        self.operation(ty, &text)
    }
}

/// Returns the sizes of the dimensions that are not dropped.
fn kept(sizes: &[Extent], dropped: &[usize]) -> Vec<Extent> {
    let all = sizes.iter().enumerate();
    all.filter(|(index, _)| !dropped.contains(index)).map(|(_, size)| *size).collect()
}

fn grouping(groups: &[Vec<usize>]) -> String {
    let groups: Vec<String> = groups.iter().map(|group| format!("[{}]", list(group))).collect();
    format!("[{}]", list(&groups))
}
