//! One step of a recurrent operator.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Element, Expression, IntPredicate, Iterator, Map, Value};

use super::activation::{Activation, activations};
use super::{Kind, dispatch, multiplied, quantized, start};
use crate::context::Context;
use crate::dim::Dim;
use crate::node::{Node, invalid};
use crate::tensor::Tensor;

/// A cell of one direction.
pub(super) struct Cell {
    kind: Kind,
    activations: Vec<Activation>,
    /// The bound of what activations take.
    clip: Option<f64>,
    /// Whether the input gate of an `LSTM` is the rest of the forget gate.
    is_coupled: bool,
    /// Whether a `GRU` resets the product with the state in place of the state.
    is_linear_first: bool,
    /// The weights of the state for each group of gates: [H,N].
    pub(super) weights: Vec<Tensor>,
    /// The weights of the peepholes: [3,H].
    pub(super) peepholes: Option<Tensor>,
    /// The bias of the state that a `GRU` resets: [H].
    hidden_bias: Option<Tensor>,
    /// The steps are one dispatch.
    pub(super) is_in_dispatch: bool,
    /// The scale of the weights of the state of a quantised operator: [1,1] or [1,G*H].
    pub(super) scale: Option<Tensor>,
}

/// Which sequences have ended: those whose lengths are not greater than the position.
#[derive(Clone, Copy)]
pub(super) struct Mask {
    /// [B].
    pub(super) lengths: Value,
    pub(super) position: Value,
}

/// An operand of the loop nest over the elements of the state, and how it is read. Of one sequence in a dispatch, nothing has the dimension B.
enum Operand {
    /// [B,H].
    Own(Value),
    /// A gate of [B,G,H].
    Gate(Value, i64),
    /// A row of [3,H].
    Row(Value, i64),
    /// [H].
    Vector(Value),
    /// [B].
    Sequence(Value),
}

impl Operand {
    /// Returns the value and the positions that are read, in a nest over the dimensions of a state.
    fn parts(&self, rank: usize) -> (Value, Map) {
        let batch: Vec<Expression> = (1..rank).map(|_| Expression::dimension(0)).collect();
        let element = Expression::dimension(rank.saturating_sub(1));
        let (value, results) = match self {
            Operand::Own(value) => (*value, [batch, vec![element]].concat()),
            Operand::Gate(value, index) => (*value, [batch, vec![Expression::constant(*index), element]].concat()),
            Operand::Row(value, index) => (*value, vec![Expression::constant(*index), element]),
            Operand::Vector(value) => (*value, vec![element]),
            Operand::Sequence(value) => (*value, batch),
        };
        (value, Map::new(rank, results))
    }
}

impl Cell {
    pub(super) fn new(node: &Node<'_>, kind: Kind, direction: usize) -> Result<Cell> {
        Ok(Cell {
            kind,
            activations: activations(node, kind.activations(), direction)?,
            clip: node.float("clip").filter(|clip| *clip > 0.0),
            is_coupled: node.flag("input_forget"),
            is_linear_first: node.flag("linear_before_reset"),
            weights: Vec::new(),
            peepholes: None,
            hidden_bias: None,
            is_in_dispatch: false,
            scale: None,
        })
    }

    /// Calls a function for each tensor that steps read.
    pub(super) fn for_each_tensor(&mut self, mut call: impl FnMut(&mut Tensor) -> Result<()>) -> Result<()> {
        self.weights.iter_mut().chain(&mut self.peepholes).chain(&mut self.hidden_bias).try_for_each(&mut call)
    }

    /// Returns the numbers of gates whose products are computed together.
    pub(super) fn groups(&self) -> &'static [i64] {
        match self.kind {
            Kind::Rnn => &[1],
            Kind::Lstm => &[4],
            Kind::Gru if self.is_linear_first => &[3],
            Kind::Gru => &[2, 1],
        }
    }

    /// Returns the bias of gates that is added to the products of the inputs, of the biases [2,N] of the inputs and the state.
    pub(super) fn input_bias(&self, cx: &mut Context, bias: &Tensor, _first: i64) -> Result<Tensor> {
        let (zero, one) = (Dim::constant(0), Dim::constant(1));
        let input = cx.slice_axis(bias, 0, &zero, &one)?;
        let state = cx.slice_axis(bias, 0, &one, &one)?;
        let (input, mut state) = (cx.squeeze(&input, &[0])?, cx.squeeze(&state, &[0])?);
        if self.kind == Kind::Gru && self.is_linear_first {
            // The bias of the state's product for the last gate is added before it is reset.
            let width = state.shape.first().cloned().unwrap_or_else(|| zero.clone());
            let third = width.floor_div(&Dim::constant(3));
            let kept = cx.slice_axis(&state, 0, &zero, &width.minus(&third))?;
            let none = start(cx, None, &[third], state.ty)?;
            state = cx.concat(&[&kept, &none], 0)?;
        }
        cx.map(&[&input, &state], bias.ty, |b, x| b.addf(x[0], x[1]))
    }

    /// Keeps the bias of a product that a `GRU` resets, of the biases [2,3*H].
    pub(super) fn set_hidden_bias(&mut self, cx: &mut Context, bias: &Tensor, hidden: &Dim) -> Result<()> {
        if self.kind == Kind::Gru && self.is_linear_first {
            let (one, two) = (Dim::constant(1), Dim::constant(2));
            let row = cx.slice_axis(bias, 0, &one, &one)?;
            let row = cx.squeeze(&row, &[0])?;
            self.hidden_bias = Some(cx.slice_axis(&row, 0, &hidden.times(&two), hidden)?);
        }
        Ok(())
    }

    /// Computes the next states, and the output: a state, or 0 where the sequence has ended.
    pub(super) fn step(
        &self,
        cx: &mut Context,
        products: &[Tensor],
        states: &[Tensor],
        mask: Option<Mask>,
    ) -> Result<(Vec<Tensor>, Tensor)> {
        match (self.kind, products, states) {
            (Kind::Rnn, [product], [h]) => self.rnn(cx, product, h, mask),
            (Kind::Gru, [product], [h]) => self.gru_linear_first(cx, product, h, mask),
            (Kind::Gru, [product, last], [h]) => self.gru(cx, (product, last), h, mask),
            (Kind::Lstm, [product], [h, c]) => self.lstm(cx, product, (h, c), mask),
            _ => invalid("a recurrent operator has other inputs than it takes"),
        }
    }

    /// The product of the state with the weights of a group, added to that of the inputs: [B,G,H].
    fn gates(&self, cx: &mut Context, h: &Tensor, group: usize, product: &Tensor) -> Result<Value> {
        let Some(r) = self.weights.get(group) else { return invalid("a group of gates has no weights") };
        let sum = match (&self.scale, self.is_in_dispatch) {
            (Some(scale), _) => quantized::product(cx, h, (r, scale), Some(product), true)?,
            (None, true) => dispatch::multiplied(cx, h, r, product, group == 0)?,
            (None, false) => added(cx, h, r, product)?,
        };
        self.split(cx, &sum, h)
    }

    /// Splits the last dimension into those of gates and of elements.
    fn split(&self, cx: &mut Context, sum: &Tensor, h: &Tensor) -> Result<Value> {
        let (Some(hidden), Some((width, batch))) = (h.shape.last(), sum.shape.split_last()) else {
            return invalid("a state has no dimension");
        };
        let gates = [width.floor_div(hidden), hidden.clone()];
        let split = cx.reshape(sum, &[batch, &gates].concat())?;
        cx.value(&split)
    }

    /// Computes the elements of new states. The body returns them, that which is the output first. Where a sequence has ended, states stay,
    /// and the output is 0.
    fn elements(
        &self,
        cx: &mut Context,
        states: &[&Tensor],
        operands: &[Operand],
        mask: Option<Mask>,
        body: impl FnOnce(&mut Builder, &[Value]) -> Vec<Value>,
    ) -> Result<(Vec<Tensor>, Tensor)> {
        let Some(first) = states.first() else { return invalid("there is no state") };
        let (ty, shape, rank) = (first.ty, first.shape.clone(), first.rank());
        let mut parts: Vec<(Value, Map)> = operands.iter().map(|operand| operand.parts(rank)).collect();
        if let Some(mask) = mask {
            for state in states {
                parts.push(Operand::Own(cx.value(state)?).parts(rank));
            }
            parts.push(Operand::Sequence(mask.lengths).parts(rank));
        }
        let count = states.len() + usize::from(mask.is_some());
        let extents = cx.extents(&shape);
        let outputs: Vec<Value> = (0..count).map(|_| cx.b.empty(&extents, ty.element())).collect();
        let (inputs, mut maps): (Vec<Value>, Vec<Map>) = parts.into_iter().unzip();
        maps.extend(vec![Map::identity(rank); count]);
        let own = operands.len();
        let results = cx.b.generic(&inputs, &outputs, &maps, &vec![Iterator::Parallel; rank], |b, arguments| {
            let mut next = body(b, arguments.get(..own).unwrap_or_default());
            if let Some(mask) = mask
                && let Some(length) = arguments.get(own + states.len())
            {
                let length = index(b, *length);
                let goes_on = b.cmpi(IntPredicate::SignedLess, mask.position, length);
                let old = arguments.get(own..own + states.len()).unwrap_or_default();
                let zero = b.float(0.0, ty.element());
                let output = next.first().map(|output| b.select(goes_on, *output, zero));
                next = next.iter().zip(old).map(|(next, old)| b.select(goes_on, *next, *old)).collect();
                next.extend(output);
            }
            next
        });
        let mut tensors = Vec::new();
        for value in results {
            tensors.push(cx.tensor(value, ty, shape.clone())?);
        }
        let output = match mask {
            Some(_) => tensors.pop(),
            None => tensors.first().cloned(),
        };
        match output {
            Some(output) => Ok((tensors, output)),
            None => invalid("there is no state"),
        }
    }

    fn activation(&self, b: &mut Builder, index: usize, x: Value) -> Value {
        let x = self.clipped(b, x);
        self.activations.get(index).map_or(x, |activation| activation.emit(b, x))
    }

    fn clipped(&self, b: &mut Builder, x: Value) -> Value {
        let Some(clip) = self.clip else { return x };
        let element = b.element_of(x);
        let (low, high) = (b.float(-clip, element), b.float(clip, element));
        let bounded = b.maximumf(x, low);
        b.minimumf(bounded, high)
    }

    fn rnn(&self, cx: &mut Context, product: &Tensor, h: &Tensor, mask: Option<Mask>) -> Result<(Vec<Tensor>, Tensor)> {
        let gates = self.gates(cx, h, 0, product)?;
        self.elements(cx, &[h], &[Operand::Gate(gates, 0)], mask, |b, x| vec![self.activation(b, 0, x[0])])
    }

    /// The gates z, r and h, where the state is reset before its product.
    fn gru(
        &self,
        cx: &mut Context,
        (product, last): (&Tensor, &Tensor),
        h: &Tensor,
        mask: Option<Mask>,
    ) -> Result<(Vec<Tensor>, Tensor)> {
        let gates = self.gates(cx, h, 0, product)?;
        let state = cx.value(h)?;
        let operands = [Operand::Gate(gates, 1), Operand::Own(state)];
        let (_, reset) = self.elements(cx, &[h], &operands, None, |b, x| {
            let reset = self.activation(b, 0, x[0]);
            vec![b.mulf(reset, x[1])]
        })?;
        let hidden = self.gates(cx, &reset, 1, last)?;
        let operands = [Operand::Gate(gates, 0), Operand::Gate(hidden, 0), Operand::Own(state)];
        self.elements(cx, &[h], &operands, mask, |b, x| {
            let (z, hidden) = (self.activation(b, 0, x[0]), self.activation(b, 1, x[1]));
            vec![mixed(b, z, hidden, x[2])]
        })
    }

    /// The gates z, r and h, where the product of the state is reset.
    fn gru_linear_first(
        &self,
        cx: &mut Context,
        product: &Tensor,
        h: &Tensor,
        mask: Option<Mask>,
    ) -> Result<(Vec<Tensor>, Tensor)> {
        let zeros = start(cx, None, &product.shape.clone(), product.ty)?;
        let own = self.gates(cx, h, 0, &zeros)?;
        let inputs = self.split(cx, product, h)?;
        let state = cx.value(h)?;
        let mut operands = vec![Operand::Own(state)];
        for index in 0..3 {
            operands.extend([Operand::Gate(inputs, index), Operand::Gate(own, index)]);
        }
        if let Some(bias) = &self.hidden_bias {
            operands.push(Operand::Vector(cx.value(bias)?));
        }
        self.elements(cx, &[h], &operands, mask, |b, x| {
            let (z, r) = (b.addf(x[1], x[2]), b.addf(x[3], x[4]));
            let (z, r) = (self.activation(b, 0, z), self.activation(b, 0, r));
            let hidden = match x.get(7) {
                Some(bias) => b.addf(x[6], *bias),
                None => x[6],
            };
            let reset = b.mulf(r, hidden);
            let sum = b.addf(x[5], reset);
            let hidden = self.activation(b, 1, sum);
            vec![mixed(b, z, hidden, x[0])]
        })
    }

    /// The gates i, o, f and c.
    fn lstm(
        &self,
        cx: &mut Context,
        product: &Tensor,
        (h, c): (&Tensor, &Tensor),
        mask: Option<Mask>,
    ) -> Result<(Vec<Tensor>, Tensor)> {
        let gates = self.gates(cx, h, 0, product)?;
        let mut operands: Vec<Operand> = (0..4).map(|index| Operand::Gate(gates, index)).collect();
        operands.push(Operand::Own(cx.value(c)?));
        if let Some(peepholes) = &self.peepholes {
            let weights = cx.value(peepholes)?;
            operands.extend((0..3).map(|index| Operand::Row(weights, index)));
        }
        self.elements(cx, &[h, c], &operands, mask, |b, x| {
            // Of each gate, a sum with a multiple of the cell.
            let peep = |b: &mut Builder, sum: Value, weight: usize, cell: Value| match x.get(5 + weight) {
                Some(weight) => {
                    let product = b.mulf(*weight, cell);
                    b.addf(sum, product)
                }
                None => sum,
            };
            let cell = x[4];
            let input = peep(b, x[0], 0, cell);
            let input = self.activation(b, 0, input);
            let forget = if self.is_coupled {
                let one = b.float(1.0, b.element_of(input));
                b.subf(one, input)
            } else {
                let forget = peep(b, x[2], 2, cell);
                self.activation(b, 0, forget)
            };
            let candidate = self.activation(b, 1, x[3]);
            let (kept, added) = (b.mulf(forget, cell), b.mulf(input, candidate));
            let next = b.addf(kept, added);
            let output = peep(b, x[1], 1, next);
            let output = self.activation(b, 0, output);
            let shown = self.activations.get(2).map_or(next, |activation| activation.emit(b, next));
            vec![b.mulf(output, shown), next]
        })
    }
}

/// `(1 - z) * hidden + z * state`.
fn mixed(b: &mut Builder, z: Value, hidden: Value, state: Value) -> Value {
    let one = b.float(1.0, b.element_of(z));
    let rest = b.subf(one, z);
    let (new, old) = (b.mulf(rest, hidden), b.mulf(z, state));
    b.addf(new, old)
}

/// Converts an integer to a position.
fn index(b: &mut Builder, x: Value) -> Value {
    if b.element_of(x) == Element::Index { x } else { b.index_cast(x, Element::Index) }
}

/// The product of the state with weights, added to that of the inputs.
fn added(cx: &mut Context, h: &Tensor, r: &Tensor, product: &Tensor) -> Result<Tensor> {
    if product.static_shape().is_some() {
        return multiplied(cx, h, r, product);
    }
    // Where the batch is open, a kernel of VMVX has no buffer for sums that begin with a part of a tensor which it must not change.
    let zeros = start(cx, None, &product.shape, product.ty)?;
    let own = multiplied(cx, h, r, &zeros)?;
    cx.map(&[&own, product], product.ty, |b, x| b.addf(x[0], x[1]))
}
