//! Sums of products: matrix products and convolutions of operands that have been padded.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Element, Expression, Iterator, Kernel, Map, Value, Window};

use crate::context::Context;
use crate::convert::{converted, widened};
use crate::data_type::{DataType, Kind};
use crate::dim::Dim;
use crate::node::invalid;
use crate::tensor::{Data, Scalar, Tensor};

/// Returns the type in which products of a type are summed.
pub(super) fn accumulator(ty: DataType) -> DataType {
    match ty.kind() {
        Kind::Float => ty.computed(),
        _ if ty.bits() < 32 => DataType::I32,
        _ => ty,
    }
}

/// Returns 0 as an element of a type.
pub(super) fn zero(ty: DataType) -> Scalar {
    if ty.is_float() { Scalar::Float(0.0) } else { Scalar::Int(Dim::constant(0)) }
}

/// Converts an element of an operand to the accumulator's type.
fn extended(b: &mut Builder, x: Value, ty: DataType, sum: DataType) -> Value {
    let wide = widened(b, x, ty);
    converted(b, wide, ty, sum)
}

/// Adds a product to a sum.
fn multiply_add(b: &mut Builder, x: &[Value], types: [DataType; 2], sum: DataType) -> Value {
    let (left, right) = (extended(b, x[0], types[0], sum), extended(b, x[1], types[1], sum));
    if sum.is_float() {
        let product = b.mulf(left, right);
        return b.addf(x[2], product);
    }
    let product = b.muli(left, right);
    b.addi(x[2], product)
}

/// Returns true if a named kernel extends operands of these types to the type of the sum: integers are extended with their sign.
fn has_kernel(types: [DataType; 2], sum: DataType) -> bool {
    let fits = |ty: DataType| {
        ty.is_float() == sum.is_float()
            && (ty.is_float() || ty.bits() == sum.bits() || ty.kind() == Kind::Signed && ty.bits() >= 8)
    };
    types.into_iter().all(fits)
}

impl Context {
    /// Returns a tensor with an extent that is known to be equal to one of its own, which the call checks where the import cannot.
    pub(crate) fn refined(&mut self, x: &Tensor, axis: usize, dim: &Dim, what: &str) -> Result<Tensor> {
        let Some(known) = x.shape.get(axis).cloned() else {
            return invalid(format!("{what}: there is no axis {axis}"));
        };
        self.require_equal(&known, dim, what)?;
        if known == *dim || known.as_constant().is_some() {
            return Ok(x.clone());
        }
        let mut shape = x.shape.clone();
        if let Some(slot) = shape.get_mut(axis) {
            *slot = dim.clone();
        }
        let value = self.value(x)?;
        self.tensor(value, x.ty, shape)
    }

    /// Multiplies matrices as NumPy's `matmul` does. The result has the type of the sums.
    pub(crate) fn matmul(&mut self, a: &Tensor, b: &Tensor, sum: DataType) -> Result<Tensor> {
        if a.rank() == 0 || b.rank() == 0 {
            return invalid("an operand of a matrix product is a scalar");
        }
        let left = if a.rank() == 1 { self.unsqueeze(a, &[0])? } else { a.clone() };
        let right = if b.rank() == 1 { self.unsqueeze(b, &[1])? } else { b.clone() };
        let (left, right) = (self.computed(&left)?, self.computed(&right)?);
        let product = self.matrix_product(&left, &right, sum)?;
        let rank = product.rank();
        let mut dropped = Vec::new();
        if a.rank() == 1 {
            dropped.push(rank - 2);
        }
        if b.rank() == 1 {
            dropped.push(rank - 1);
        }
        self.squeeze(&product, &dropped)
    }

    /// Multiplies matrices of at least two dimensions.
    fn matrix_product(&mut self, a: &Tensor, b: &Tensor, sum: DataType) -> Result<Tensor> {
        let what = "the extent that a matrix product sums over";
        let (rank, depth) = (a.rank(), b.shape.get(b.rank() - 2).cloned().unwrap_or_else(|| Dim::constant(1)));
        let a = self.refined(a, rank - 1, &depth, what)?;
        let depth = a.shape.get(rank - 1).cloned().unwrap_or(depth);
        let b = self.refined(b, b.rank() - 2, &depth, what)?;
        let (outer_a, outer_b) = (&a.shape[..a.rank() - 2], &b.shape[..b.rank() - 2]);
        let (rows, columns) = (a.shape[a.rank() - 2].clone(), b.shape[b.rank() - 1].clone());
        let outer = self.broadcast(&[outer_a, outer_b])?;
        let mut shape = outer.clone();
        shape.extend([rows.clone(), columns.clone()]);
        let is_one = |dims: &[Dim]| dims.iter().all(|dim| dim.is(1));
        if is_one(outer_b) {
            let all = Dim::product(outer_a).times(&rows);
            let left = self.reshape(&a, &[all.clone(), depth.clone()])?;
            let right = self.reshape(&b, &[depth, columns.clone()])?;
            let product = self.multiply(&left, &right, sum)?;
            return self.reshape(&product, &shape);
        }
        if !is_same(outer_a, &outer) || !is_same(outer_b, &outer) {
            return self.broadcast_product(&a, &b, &outer, sum);
        }
        let batch = Dim::product(&outer);
        let left = self.reshape(&a, &[batch.clone(), rows, depth.clone()])?;
        let right = self.reshape(&b, &[batch, depth, columns])?;
        let product = self.multiply(&left, &right, sum)?;
        self.reshape(&product, &shape)
    }

    /// Multiplies two matrices, or two batches of them: `[..,M,K]` by `[..,K,N]`.
    pub(crate) fn multiply(&mut self, a: &Tensor, b: &Tensor, sum: DataType) -> Result<Tensor> {
        let (a, b) = (&self.computed(a)?, &self.computed(b)?);
        let rank = a.rank();
        let mut shape = a.shape.clone();
        if let (Some(slot), Some(columns)) = (shape.last_mut(), b.shape.last()) {
            *slot = columns.clone();
        }
        if !has_kernel([a.ty, b.ty], sum) {
            let batch: Vec<usize> = (0..rank - 2).collect();
            let dims = |own: [usize; 2]| batch.iter().copied().chain(own).collect::<Vec<_>>();
            let (left, right) = (dims([rank - 2, rank]), dims([rank, rank - 1]));
            return self.contract((a, &left), (b, &right), rank + 1, &shape, sum);
        }
        self.check_shape(sum, &shape)?;
        let (left, right) = (self.value(a)?, self.value(b)?);
        let kernel = if rank == 2 { Kernel::Matmul } else { Kernel::BatchMatmul };
        let filled = self.zeros(sum, &shape)?;
        let product = self.b.kernel(kernel, &[left, right], filled, None);
        self.tensor(product, sum, shape)
    }

    /// Multiplies batches of matrices whose outer dimensions broadcast.
    fn broadcast_product(&mut self, a: &Tensor, b: &Tensor, outer: &[Dim], sum: DataType) -> Result<Tensor> {
        let rank = outer.len() + 2;
        let (left, left_dims) = self.batched(a, outer, [rank - 2, rank])?;
        let (right, right_dims) = self.batched(b, outer, [rank, rank - 1])?;
        let mut shape = outer.to_vec();
        shape.extend(a.shape.get(a.rank() - 2).cloned());
        shape.extend(b.shape.last().cloned());
        self.contract((&left, &left_dims), (&right, &right_dims), rank + 1, &shape, sum)
    }

    /// Returns an operand without the outer dimensions that it repeats, and the loop dimensions of the others.
    fn batched(&mut self, x: &Tensor, outer: &[Dim], matrix: [usize; 2]) -> Result<(Tensor, Vec<usize>)> {
        let own = x.rank() - 2;
        let skipped = outer.len() - own;
        let (mut shape, mut dims) = (Vec::new(), Vec::new());
        let is_plain = x.shape[..own].iter().zip(&outer[skipped..]).all(|(dim, to)| dim == to || dim.is(1));
        let x = if is_plain {
            x.clone()
        } else {
            let mut full = outer.get(skipped..).unwrap_or_default().to_vec();
            full.extend(x.shape[own..].iter().cloned());
            self.broadcast_to(x, &full)?
        };
        for (index, dim) in x.shape[..own].iter().enumerate() {
            if !dim.is(1) {
                shape.push(dim.clone());
                dims.push(skipped + index);
            }
        }
        shape.extend(x.shape[own..].iter().cloned());
        dims.extend(matrix);
        Ok((self.reshape(&x, &shape)?, dims))
    }

    /// Sums products of elements over loop dimensions. The first loop dimensions are those of the result; each operand has the loop
    /// dimension of each of its own.
    pub(crate) fn contract(
        &mut self,
        a: (&Tensor, &[usize]),
        b: (&Tensor, &[usize]),
        loops: usize,
        shape: &[Dim],
        sum: DataType,
    ) -> Result<Tensor> {
        let maps = [Map::of(loops, a.1), Map::of(loops, b.1)];
        self.contract_mapped([a.0, b.0], maps, shape, sum)
    }

    fn contract_mapped(
        &mut self,
        operands: [&Tensor; 2],
        maps: [Map; 2],
        shape: &[Dim],
        sum: DataType,
    ) -> Result<Tensor> {
        self.check_shape(sum, shape)?;
        let values = [self.value(operands[0])?, self.value(operands[1])?];
        let types = operands.map(|operand| operand.ty);
        let filled = self.zeros(sum, shape)?;
        let loops = maps[0].dimensions();
        let iterators: Vec<Iterator> = (0..loops)
            .map(|index| if index < shape.len() { Iterator::Parallel } else { Iterator::Reduction })
            .collect();
        let out = Map::of(loops, &(0..shape.len()).collect::<Vec<_>>());
        let [left, right] = maps;
        let maps = [left, right, out];
        let y = self.b.generic_single(&values, filled, &maps, &iterators, |b, x| multiply_add(b, x, types, sum));
        let y = self.separated(y, shape);
        self.tensor(y, sum, shape.to_vec())
    }

    /// Keeps loop nests out of the dispatch of a reduction if the buffer between them would be large, or of a size that is not known:
    /// VMVX divides the last three parallel loops alone into tiles, and lacks buffers of an unknown size.
    pub(crate) fn separated(&mut self, y: Value, shape: &[Dim]) -> Value {
        let loops: Vec<&Dim> = shape.iter().filter(|dim| !dim.is(1)).collect();
        let untiled = &loops[..loops.len().saturating_sub(3)];
        let size = untiled.iter().try_fold(1_i64, |size, dim| Some(size.saturating_mul(dim.as_constant()?)));
        if size.is_some_and(|size| size <= 8) { y } else { self.b.barrier(y) }
    }

    /// Reshapes a result of a reduction. The compiler moves the change of shape in front of the reduction, whose loops are those of the new
    /// shape then.
    pub(crate) fn reshape_separated(&mut self, y: &Tensor, shape: &[Dim]) -> Result<Tensor> {
        let value = self.value(y)?;
        let separated = self.separated(value, shape);
        self.reshape(&Tensor { data: Data::Value(separated), ..y.clone() }, shape)
    }

    /// Converts floats narrower than 32 bits to those that products are computed with.
    fn computed(&mut self, x: &Tensor) -> Result<Tensor> {
        self.cast(x, x.ty.computed())
    }

    /// A tensor of zeros that sums are added to.
    fn zeros(&mut self, ty: DataType, shape: &[Dim]) -> Result<Value> {
        let value = self.scalar(&zero(ty), ty)?;
        let extents = self.extents(shape);
        Ok(self.b.fill(value, &extents))
    }

    /// Convolves `x` of shape `[N, group * C, ..]`, which is padded, with `w` of shape `[M, C, ..]`. The result has shape `[N, M, ..]`
    /// with the extents `outputs`, and the type of the sums.
    pub(crate) fn convolve(
        &mut self,
        x: &Tensor,
        w: &Tensor,
        window: &Window,
        group: i64,
        outputs: &[Dim],
        sum: DataType,
    ) -> Result<Tensor> {
        let spatial = outputs.len();
        if x.rank() != spatial + 2 || w.rank() != spatial + 2 {
            return invalid(format!("a convolution of tensors of ranks {} and {}", x.rank(), w.rank()));
        }
        let groups = Dim::constant(group.max(1));
        let channels = w.shape[1].times(&groups);
        let x = self.refined(x, 1, &channels, "the channels of a convolution")?;
        let (x, w) = (self.computed(&x)?, &self.computed(w)?);
        let Some(per_group) = w.shape[0].exact_quotient(&groups) else {
            return invalid(format!("{} output channels are not a multiple of {group} groups", self.text(&w.shape[0])));
        };
        let mut shape = vec![x.shape[0].clone(), w.shape[0].clone()];
        shape.extend_from_slice(outputs);
        let is_kernel = has_kernel([x.ty, w.ty], sum);
        if group <= 1 {
            let kernel = match spatial {
                1 => Some(Kernel::Conv1dNcwFcw),
                2 => Some(Kernel::Conv2dNchwFchw),
                3 => Some(Kernel::Conv3dNcdhwFcdhw),
                _ => None,
            };
            return match kernel.filter(|_| is_kernel) {
                Some(kernel) => self.window_kernel(kernel, [&x, w], window, &shape, sum),
                None => self.window_loops([&x, w], window, false, &shape, sum),
            };
        }
        if w.shape[1].is(1) && per_group.is(1) && is_kernel && spatial <= 2 {
            let mut weights = w.shape.clone();
            weights.remove(1);
            let w = self.reshape(w, &weights)?;
            let kernel = if spatial == 1 { Kernel::DepthwiseConv1dNcwCw } else { Kernel::DepthwiseConv2dNchwChw };
            return self.window_kernel(kernel, [&x, &w], window, &shape, sum);
        }
        let split = |first: &[Dim], rest: &[Dim]| [first, rest].concat();
        let x = self.reshape(&x, &split(&[x.shape[0].clone(), groups.clone(), w.shape[1].clone()], &x.shape[2..]))?;
        let w = self.reshape(w, &split(&[groups.clone(), per_group.clone()], &w.shape[1..]))?;
        let grouped = split(&[shape[0].clone(), groups, per_group], outputs);
        let y = if spatial == 2 && is_kernel {
            self.window_kernel(Kernel::Conv2dNgchwGfchw, [&x, &w], window, &grouped, sum)?
        } else {
            self.window_loops([&x, &w], window, true, &grouped, sum)?
        };
        self.reshape(&y, &shape)
    }

    fn window_kernel(
        &mut self,
        kernel: Kernel,
        operands: [&Tensor; 2],
        window: &Window,
        shape: &[Dim],
        sum: DataType,
    ) -> Result<Tensor> {
        self.check_shape(sum, shape)?;
        let values = [self.value(operands[0])?, self.value(operands[1])?];
        let filled = self.zeros(sum, shape)?;
        let y = self.b.kernel(kernel, &values, filled, Some(window));
        let y = self.separated(y, shape);
        self.tensor(y, sum, shape.to_vec())
    }

    /// A convolution as loops over `[N, F, ..]`, or over `[N, G, F, ..]`, then over channels and the window.
    fn window_loops(
        &mut self,
        operands: [&Tensor; 2],
        window: &Window,
        is_grouped: bool,
        shape: &[Dim],
        sum: DataType,
    ) -> Result<Tensor> {
        let outer = if is_grouped { 3 } else { 2 };
        let (channel, spatial) = (shape.len(), shape.len() - outer);
        let loops = shape.len() + 1 + spatial;
        let dimension = Expression::dimension;
        let mut input = vec![dimension(0)];
        let mut weights = Vec::new();
        if is_grouped {
            input.push(dimension(1));
            weights.push(dimension(1));
        }
        input.push(dimension(channel));
        weights.extend([dimension(outer - 1), dimension(channel)]);
        for index in 0..spatial {
            let (output, tap) = (outer + index, channel + 1 + index);
            input.push(tap_position(window, index, output, tap));
            weights.push(dimension(tap));
        }
        let maps = [Map::new(loops, input), Map::new(loops, weights)];
        self.contract_mapped(operands, maps, shape, sum)
    }
}

/// Returns the position along an axis that a window reads: loop dimension `output` times the stride and `tap` times the dilation.
pub(super) fn tap_position(window: &Window, axis: usize, output: usize, tap: usize) -> Expression {
    let stride = window.strides.get(axis).copied().unwrap_or(1);
    let dilation = window.dilations.get(axis).copied().unwrap_or(1);
    Expression::dimension(output).times(stride).plus(tap, dilation)
}

/// Returns true if shapes are equal, but for extents of 1 in front of the shorter one.
fn is_same(shape: &[Dim], joined: &[Dim]) -> bool {
    let skipped = joined.len() - shape.len().min(joined.len());
    joined[..skipped].iter().all(|dim| dim.is(1)) && shape == &joined[skipped..]
}

/// The element type of an operand that only has a shape.
pub(super) const SHAPE_ONLY: Element = Element::F32;
