//! Recurrent operators: `RNN`, `GRU`, `LSTM`, and the quantised `LSTM`.

mod activation;
mod cell;
mod dispatch;
mod quantized;

use incarnate_bytecode::Result;
use incarnate_mlir::{Element, Extent, IntPredicate, Kernel, Type, Value};

use self::cell::{Cell, Mask};
use super::{Lowering, Row, onnx};
use crate::context::Context;
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::node::{Node, Outputs, invalid, unsupported};
use crate::ranges::Accepted;
use crate::tensor::{Data, Item, Tensor};

pub(super) const ROWS: &[Row] = &[
    onnx("RNN", 1, |cx, node| recurrent(cx, node, Kind::Rnn)),
    onnx("GRU", 1, |cx, node| recurrent(cx, node, Kind::Gru)),
    onnx("LSTM", 1, |cx, node| recurrent(cx, node, Kind::Lstm)),
    Row { domain: "com.microsoft", name: "DynamicQuantizeLSTM", since: 1, lower: Lowering::Plain(quantized::lstm) },
];

/// Which cell is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Rnn,
    Gru,
    Lstm,
}

impl Kind {
    /// The number of gates, whose weights stand behind one another.
    fn gates(self) -> i64 {
        match self {
            Kind::Rnn => 1,
            Kind::Gru => 3,
            Kind::Lstm => 4,
        }
    }

    /// The number of states.
    fn states(self) -> usize {
        if self == Kind::Lstm { 2 } else { 1 }
    }

    /// The names of the activations that are the default.
    fn activations(self) -> &'static [&'static str] {
        match self {
            Kind::Rnn => &["Tanh"],
            Kind::Gru => &["Sigmoid", "Tanh"],
            Kind::Lstm => &["Sigmoid", "Tanh", "Tanh"],
        }
    }
}

/// The inputs of a recurrent operator, whose floats are of a type that is computed with. S is the number of steps, B that of sequences, I
/// that of the elements of an input, H that of the elements of a state, G that of gates, and D that of directions.
struct Recurrence {
    kind: Kind,
    /// The inputs: [S,B,I].
    x: Tensor,
    /// The weights of the inputs, transposed: [D,I,G*H].
    w: Tensor,
    /// The weights of the state, transposed: [D,H,G*H].
    r: Tensor,
    /// The biases: [D,2*G*H].
    bias: Option<Tensor>,
    /// The lengths of the sequences: [B].
    lengths: Option<Tensor>,
    /// The first states: [D,B,H] each.
    initial: Vec<Option<Tensor>>,
    /// The weights of the peepholes: [D,3*H].
    peepholes: Option<Tensor>,
    /// The scales of the weights of the inputs and of the state, [D,1,1] or [D,1,G*H] each, of a quantised operator. The other factors of
    /// its products are rounded to 8 bits.
    scales: Option<[Tensor; 2]>,
}

/// What one direction takes.
struct Direction {
    /// The products of the inputs and the biases: [S,B,G*H], or those of groups of gates.
    products: Vec<Tensor>,
    cell: Cell,
    is_reverse: bool,
    index: usize,
}

fn recurrent(cx: &mut Context, node: &Node<'_>, kind: Kind) -> Result<Outputs> {
    let is_batch_first = node.flag("layout");
    let ty = node.input(0)?.ty;
    if !ty.is_float() {
        return crate::kit::wrong_type(ty);
    }
    let computed = ty.computed();
    let mut input = |index: usize| match node.optional(index)? {
        Some(tensor) => cx.cast(tensor, computed).map(Some),
        None => Ok(None),
    };
    let (Some(x), Some(w), Some(r)) = (input(0)?, input(1)?, input(2)?) else {
        return invalid("one of the inputs X, W and R is not there");
    };
    let bias = input(3)?;
    let mut initial = vec![input(5)?];
    let mut peepholes = None;
    if kind == Kind::Lstm {
        initial.push(input(6)?);
        peepholes = input(7)?;
    }
    for (tensor, name) in [(&x, "X"), (&w, "W"), (&r, "R")] {
        check_rank(tensor, 3, name)?;
    }
    let recurrence = Recurrence {
        kind,
        x: batch_second(cx, x, is_batch_first)?,
        w: cx.transpose(&w, &[0, 2, 1])?,
        r: cx.transpose(&r, &[0, 2, 1])?,
        bias,
        lengths: node.optional(4)?.cloned(),
        initial: initial
            .into_iter()
            .map(|state| state.map(|state| batch_second(cx, state, is_batch_first)).transpose())
            .collect::<Result<_>>()?,
        peepholes,
        scales: None,
    };
    recurrence.run(cx, node, ty)
}

/// Swaps the first two dimensions where the first is that of the batch.
fn batch_second(cx: &mut Context, tensor: Tensor, is_batch_first: bool) -> Result<Tensor> {
    match tensor.rank() {
        _ if !is_batch_first => Ok(tensor),
        3 => cx.transpose(&tensor, &[1, 0, 2]),
        rank => invalid(format!("an input has the rank {rank}, and 3 is expected")),
    }
}

fn check_rank(tensor: &Tensor, rank: usize, name: &str) -> Result<()> {
    if tensor.rank() == rank {
        Ok(())
    } else {
        invalid(format!("{name} has the rank {}, and {rank} is expected", tensor.rank()))
    }
}

impl Recurrence {
    /// Returns S, B, H and G*H.
    fn extents(&self, cx: &Context, node: &Node<'_>) -> Result<[Dim; 4]> {
        let [steps, batch, _] = &*self.x.shape else { return invalid("X has not the rank 3") };
        let [_, hidden, gates] = &*self.r.shape else { return invalid("R has not the rank 3") };
        let hidden = match node.int("hidden_size") {
            Some(size) => Dim::constant(size),
            None => hidden.clone(),
        };
        if hidden.as_constant().is_none_or(|hidden| hidden <= 0) {
            return unsupported(format!("the number of elements of a state is {}: it must be known", cx.text(&hidden)));
        }
        let expected = hidden.times(&Dim::constant(self.kind.gates()));
        if *gates != expected && gates.as_constant().is_some() {
            return invalid(format!("R has {} rows, and {} are expected", cx.text(gates), cx.text(&expected)));
        }
        Ok([steps.clone(), batch.clone(), hidden, expected])
    }

    /// Runs all directions, and returns the outputs in type `ty`.
    fn run(&self, cx: &mut Context, node: &Node<'_>, ty: DataType) -> Result<Outputs> {
        let [steps, batch, hidden, _] = self.extents(cx, node)?;
        let is_batch_first = node.flag("layout");
        let reverse = match node.text_or("direction", "forward")? {
            "forward" => &[false][..],
            "reverse" => &[true],
            "bidirectional" => &[false, true],
            other => return invalid(format!("the direction `{other}` is none")),
        };
        let count = i64::try_from(reverse.len()).unwrap_or(1);
        self.check(cx, &Dim::constant(count), &batch)?;
        let shape = [steps, Dim::constant(count), batch, hidden];
        let mut sequence = None;
        if node.has_output(0) {
            let extents = cx.extents(&shape);
            sequence = Some(cx.b.empty(&extents, self.x.ty.element()));
        }
        let mut last: Vec<Vec<Tensor>> = vec![Vec::new(); self.kind.states()];
        for (index, is_reverse) in reverse.iter().enumerate() {
            let mut direction = self.direction(cx, node, index, *is_reverse)?;
            let (next, states) = self.repeat(cx, &mut direction, &shape, sequence)?;
            sequence = next;
            for (list, state) in last.iter_mut().zip(states) {
                list.push(cx.unsqueeze(&state, &[0])?);
            }
        }
        let mut outputs = vec![Item::Nothing];
        if let (Some(value), Some(slot)) = (sequence, outputs.first_mut()) {
            let whole = cx.tensor(value, self.x.ty, shape.to_vec())?;
            let whole = if is_batch_first { cx.transpose(&whole, &[2, 0, 1, 3])? } else { whole };
            *slot = Item::Tensor(cx.cast(&whole, ty)?);
        }
        for (index, list) in last.iter().enumerate() {
            if !node.has_output(index + 1) {
                outputs.push(Item::Nothing);
                continue;
            }
            let parts: Vec<&Tensor> = list.iter().collect();
            let joined = cx.concat(&parts, 0)?;
            let joined = batch_second(cx, joined, is_batch_first)?;
            outputs.push(Item::Tensor(cx.cast(&joined, ty)?));
        }
        Ok(outputs)
    }

    /// Checks the extents of inputs that kernels read.
    fn check(&self, cx: &mut Context, directions: &Dim, batch: &Dim) -> Result<()> {
        let [steps, _, size] = &*self.x.shape else { return invalid("X has not the rank 3") };
        let (_, size) = (steps.clone(), size.clone());
        for (tensor, name) in [(&self.w, "W"), (&self.r, "R")] {
            if let Some(first) = tensor.shape.first() {
                cx.require_equal(first, directions, &format!("the number of directions of {name}"))?;
            }
        }
        if let Some(rows) = self.w.shape.get(1) {
            cx.require_equal(rows, &size, "the number of elements of an input")?;
        }
        if let (Some(w), Some(r)) = (self.w.shape.get(2), self.r.shape.get(2)) {
            cx.require_equal(w, r, "the numbers of rows of W and R")?;
        }
        if let Some(lengths) = &self.lengths {
            check_rank(lengths, 1, "sequence_lens")?;
            if let Some(count) = lengths.shape.first() {
                cx.require_equal(count, batch, "the number of lengths")?;
            }
        }
        for state in self.initial.iter().flatten() {
            check_rank(state, 3, "the first state")?;
            if let (Some(first), Some(second)) = (state.shape.first(), state.shape.get(1)) {
                cx.require_equal(first, directions, "the number of directions of the first state")?;
                cx.require_equal(second, batch, "the number of first states")?;
            }
        }
        Ok(())
    }

    /// Returns a direction's part of an input: the dimensions behind the first, of the given extents.
    fn part(&self, cx: &mut Context, tensor: &Tensor, index: usize, shape: &[Dim]) -> Result<Tensor> {
        let position = Dim::constant(i64::try_from(index).unwrap_or(0));
        let part = cx.slice_axis(tensor, 0, &position, &Dim::constant(1))?;
        let part = cx.squeeze(&part, &[0])?;
        cx.reshape(&part, shape)
    }

    fn direction(&self, cx: &mut Context, node: &Node<'_>, index: usize, is_reverse: bool) -> Result<Direction> {
        let [_, _, hidden, gates] = self.extents(cx, node)?;
        let size = self.w.shape.get(1).cloned().unwrap_or_else(|| Dim::constant(0));
        let w = self.part(cx, &self.w, index, &[size, gates.clone()])?;
        let r = self.part(cx, &self.r, index, &[hidden.clone(), gates.clone()])?;
        let two = Dim::constant(2);
        let bias = match &self.bias {
            Some(bias) => Some(self.part(cx, bias, index, &[two, gates.clone()])?),
            None => None,
        };
        let peepholes = match &self.peepholes {
            Some(weights) => Some(self.part(cx, weights, index, &[Dim::constant(3), hidden.clone()])?),
            None => None,
        };
        let mut cell = Cell::new(node, self.kind, index)?;
        cell.peepholes = peepholes;
        let scales = match &self.scales {
            Some(scales) => Some([self.scale(cx, &scales[0], index)?, self.scale(cx, &scales[1], index)?]),
            None => None,
        };
        let groups = cell.groups();
        let mut products = Vec::new();
        let mut first = 0;
        for group in groups.iter().copied() {
            let (start, width) = (hidden.times(&Dim::constant(first)), hidden.times(&Dim::constant(group)));
            let own = bias.as_ref().map(|bias| cx.slice_axis(bias, 1, &start, &width)).transpose()?;
            let sum = own.map(|own| cell.input_bias(cx, &own, first)).transpose()?;
            let w = cx.slice_axis(&w, 1, &start, &width)?;
            let scale = scales.as_ref().map(|scales| &scales[0]);
            products.push(self.product(cx, (&w, scale), sum.as_ref(), &width)?);
            let r = cx.slice_axis(&r, 1, &start, &width)?;
            cell.weights.push(r);
            first += group;
        }
        if let Some(bias) = &bias {
            cell.set_hidden_bias(cx, bias, &hidden)?;
        }
        cell.scale = scales.map(|[_, scale]| scale);
        Ok(Direction { products, cell, is_reverse, index })
    }

    /// Returns a direction's part of a scale: [1,1] or [1,G*H].
    fn scale(&self, cx: &mut Context, scale: &Tensor, index: usize) -> Result<Tensor> {
        let shape = scale.shape.get(1..).unwrap_or_default().to_vec();
        self.part(cx, scale, index, &shape)
    }

    /// The products of all inputs with weights [I,N], which may have a scale, and a bias [N]: [S,B,N].
    fn product(
        &self,
        cx: &mut Context,
        (w, scale): (&Tensor, Option<&Tensor>),
        bias: Option<&Tensor>,
        width: &Dim,
    ) -> Result<Tensor> {
        let [steps, batch, size] = &*self.x.shape else { return invalid("X has not the rank 3") };
        let rows = steps.times(batch);
        let x = cx.reshape(&self.x, &[rows.clone(), size.clone()])?;
        let product = match scale {
            Some(scale) => quantized::product(cx, &x, (w, scale), bias, false)?,
            None => {
                let sum = start(cx, bias, &[rows, width.clone()], self.x.ty)?;
                multiplied(cx, &x, w, &sum)?
            }
        };
        cx.reshape(&product, &[steps.clone(), batch.clone(), width.clone()])
    }

    /// Repeats the cell for each step. Returns the outputs of all steps, if they are wanted, and the last states.
    fn repeat(
        &self,
        cx: &mut Context,
        direction: &mut Direction,
        shape: &[Dim; 4],
        sequence: Option<Value>,
    ) -> Result<(Option<Value>, Vec<Tensor>)> {
        let [steps, _, batch, hidden] = shape;
        let own = [batch.clone(), hidden.clone()];
        let lengths = self.lengths(cx, steps)?;
        if lengths.is_none() && self.is_one_dispatch(cx, shape) {
            return self.repeat_in_dispatch(cx, direction, shape, sequence);
        }
        let states = self.first_states(cx, direction, &own, lengths.as_ref())?;
        let last = steps.minus(&Dim::constant(1));
        let position = |iteration: &Dim| if direction.is_reverse { last.minus(iteration) } else { iteration.clone() };
        let step = |cx: &mut Context, iteration: &Dim, values: &[Value]| {
            let position = position(iteration);
            let mut products = Vec::new();
            for product in &direction.products {
                let row = cx.slice_axis(product, 0, &position, &Dim::constant(1))?;
                products.push(cx.squeeze(&row, &[0])?);
            }
            let mask = match &lengths {
                Some(lengths) => Some(Mask { lengths: cx.value(lengths)?, position: cx.index(&position) }),
                None => None,
            };
            direction.cell.step(cx, &products, &with_values(&states, values), mask)
        };
        let row = |iteration: &Dim| [position(iteration), Dim::constant(i64::try_from(direction.index).unwrap_or(0))];
        // One step, whose output goes to those of all steps.
        let mut single = |cx: &mut Context, iteration: &Dim, values: &[Value]| {
            let (next, output) = step(cx, iteration, values)?;
            let mut results: Vec<Value> = next.iter().map(|state| cx.value(state)).collect::<Result<_>>()?;
            if let Some(sequence) = values.get(next.len()) {
                results.push(put(cx, &output, *sequence, &row(iteration))?);
            }
            Ok(results)
        };
        let mut values: Vec<Value> = states.iter().map(|state| cx.value(state)).collect::<Result<_>>()?;
        values.extend(sequence);
        let first = Dim::constant(0);
        if steps.is(1) {
            values = single(cx, &first, &values)?;
        } else {
            values = repeated(cx, &first, steps, values, &mut single)?;
        }
        Ok((values.get(states.len()).copied(), with_values(&states, &values)))
    }

    /// Returns the states [B,H] before the first step.
    fn first_states(
        &self,
        cx: &mut Context,
        direction: &Direction,
        own: &[Dim],
        lengths: Option<&Tensor>,
    ) -> Result<Vec<Tensor>> {
        let mut states = Vec::new();
        for initial in &self.initial {
            states.push(match (initial, lengths) {
                (Some(initial), None) => self.part(cx, initial, direction.index, own)?,
                (Some(initial), Some(lengths)) => {
                    // As ONNX Runtime has it, the last state of a sequence of no steps is 0.
                    let initial = self.part(cx, initial, direction.index, own)?;
                    let lengths = cx.unsqueeze(lengths, &[1])?;
                    cx.map(&[&initial, &lengths], initial.ty, |b, x| {
                        let (zero, none) = (b.int(0, b.element_of(x[1])), b.float(0.0, b.element_of(x[0])));
                        let has_steps = b.cmpi(IntPredicate::SignedGreater, x[1], zero);
                        b.select(has_steps, x[0], none)
                    })?
                }
                (None, _) => start(cx, None, own, self.x.ty)?,
            });
        }
        Ok(states)
    }

    /// Returns the lengths of the sequences, unless all are known to have all steps.
    fn lengths(&self, cx: &mut Context, steps: &Dim) -> Result<Option<Tensor>> {
        let Some(lengths) = &self.lengths else { return Ok(None) };
        let known = cx.elements(lengths)?;
        let is_whole = known.is_some_and(|known| known.iter().all(|length| length.as_int() == Some(steps)));
        cx.require_positions(lengths, &steps.plus(&Dim::constant(1)), Accepted::Start, "`sequence_lens`")?;
        Ok((!is_whole).then(|| lengths.clone()))
    }
}

/// States with other values.
fn with_values(states: &[Tensor], values: &[Value]) -> Vec<Tensor> {
    states.iter().zip(values).map(|(state, value)| Tensor { data: Data::Value(*value), ..state.clone() }).collect()
}

/// The body of a loop: gets the iteration and the carried values, and returns their next ones.
type Body<'b> = &'b mut dyn FnMut(&mut Context, &Dim, &[Value]) -> Result<Vec<Value>>;

/// Emits `scf.for` from a first iteration to a last one, which is excluded.
fn repeated(cx: &mut Context, first: &Dim, end: &Dim, initial: Vec<Value>, body: Body<'_>) -> Result<Vec<Value>> {
    let bounds = (cx.index(first), cx.index(end), cx.b.index(1));
    let arguments: Vec<Value> = initial
        .iter()
        .map(|value| {
            let ty = cx.b.type_of(*value).clone();
            cx.b.argument(ty)
        })
        .collect();
    let induction = cx.b.argument(Type::Scalar(Element::Index));
    let iteration = cx.symbol("step", induction);
    cx.open_region();
    let next = body(cx, &iteration, &arguments)?;
    let region = cx.close_region();
    Ok(cx.b.scf_for(bounds, induction, &arguments, &initial, (region, next)))
}

/// Puts a tensor into another one at positions of its first dimensions.
fn put(cx: &mut Context, output: &Tensor, into: Value, position: &[Dim]) -> Result<Value> {
    let value = cx.value(output)?;
    let (zero, one) = (Extent::Constant(0), Extent::Constant(1));
    let offsets = [&*cx.extents(position), &vec![zero; output.rank()]].concat();
    let sizes = [&*vec![one; position.len()], &*cx.extents(&output.shape)].concat();
    let dropped: Vec<usize> = (0..position.len()).collect();
    let strides = vec![one; offsets.len()];
    Ok(cx.b.insert_slice(value, into, &offsets, &sizes, &strides, &dropped))
}

/// A tensor of zeros, or of rows that are a bias.
fn start(cx: &mut Context, bias: Option<&Tensor>, shape: &[Dim], ty: DataType) -> Result<Tensor> {
    match bias {
        Some(bias) => cx.broadcast_to(bias, shape),
        None => {
            let extents = cx.extents(shape);
            let zero = cx.b.float(0.0, ty.element());
            let filled = cx.b.fill(zero, &extents);
            cx.tensor(filled, ty, shape.to_vec())
        }
    }
}

/// The product of two matrices, added to a third.
fn multiplied(cx: &mut Context, x: &Tensor, y: &Tensor, sum: &Tensor) -> Result<Tensor> {
    let operands = [cx.value(x)?, cx.value(y)?];
    let value = cx.value(sum)?;
    let product = cx.b.kernel(Kernel::Matmul, &operands, value, None);
    cx.tensor(product, sum.ty, sum.shape.clone())
}
