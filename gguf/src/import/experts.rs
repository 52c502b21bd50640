//! Mixtures of experts: networks of which each token takes the best few. Tokens come one by one ([`Rows::One`]).

use incarnate_bytecode::{Error, Result};
use incarnate_mlir::{Builder, Element, Extent, FloatPredicate, IntPredicate, Iterator, Map, Value};

use super::activation::{gated_element, sigmoid};
use super::config::{Config, Mixture};
use super::feed_forward::Network;
use super::product::{Chosen, Rows, StackedRows, multiply_add, product_of_chosen};
use super::projection::{Projection, add_result};
use super::weight::{Parameters, Vector, Weight};

/// The least sum of the shares of a token's experts, which they are divided by. Source: `build_moe_ffn` of llama.cpp.
const LEAST_SUM: f64 = 6.103_515_625e-5;

/// The weights of experts.
#[derive(Clone, Debug)]
pub(super) struct Experts {
    mixture: Mixture,
    /// Gives each expert its chance.
    router: Projection,
    gate: Stack,
    up: Stack,
    down: Stack,
    /// The position of each expert in the stacks, unless that is its number.
    positions: Option<Vec<u64>>,
    /// A network that all tokens take, with the vector of its gate.
    shared: Option<(Network, Option<Vector>)>,
}

/// Matrices of all experts, which are parts of a weight.
#[derive(Clone, Debug)]
struct Stack {
    weight: Weight,
    rows: StackedRows,
}

impl Stack {
    fn new(weight: Weight, rows: [i64; 3]) -> Stack {
        let [count, first, stride] = rows;
        Stack { weight, rows: StackedRows { count, first, stride } }
    }

    /// Multiplies a vector with the matrix of an expert.
    fn product(
        &self,
        b: &mut Builder,
        x: Value,
        (numbers, at, count): (Value, [Value; 2], i64),
        addend: Option<Value>,
    ) -> Value {
        product_of_chosen(b, x, &self.weight, &Chosen { numbers, at, count, rows: self.rows }, addend)
    }
}

impl Experts {
    /// Declares the weights.
    pub(super) fn declare(b: &mut Builder, of: &mut Parameters<'_>, name: &str, mixture: Mixture) -> Result<Experts> {
        let (width, count) = (of.config.width, mixture.count);
        let part = |part: &str| format!("{name}.ffn_{part}.weight");
        let router = Projection::declare(b, of, &format!("{name}.ffn_gate_inp"), [count, width])?;
        let ([gate, up, down], positions) = Experts::declare_stacks(b, of, name, mixture)?;
        let mut shared = None;
        if of.has(&part("up_shexp")) {
            let network = Network::declare(b, of, (name, "_shexp"), mixture.shared_hidden)?;
            shared = Some((network, Vector::optional(b, of, &part("gate_inp_shexp"), width)?));
        }
        Ok(Experts { mixture, router, gate, up, down, positions, shared })
    }

    /// Declares the gates, `up` and `down`: in a parameter each, the gate with `up` in one, or all in one. Returns the positions of the
    /// experts, too, unless these are their numbers.
    fn declare_stacks(
        b: &mut Builder,
        of: &mut Parameters<'_>,
        name: &str,
        mixture: Mixture,
    ) -> Result<([Stack; 3], Option<Vec<u64>>)> {
        let (width, count, hidden) = (of.config.width, mixture.count, mixture.hidden);
        let part = |part: &str| format!("{name}.ffn_{part}.weight");
        let order = of.expert_order(name);
        let is_sorted = order.is_none_or(|order| (0..).zip(&order.experts).all(|row| row.0 == *row.1));
        let positions = order.filter(|_| !is_sorted);
        let positions = positions.map(|order| order.experts.iter().copied().map(u64::from).collect());
        if let Some(parts) = order.and_then(|order| order.parts) {
            let wide = Weight::declare_stack(b, of, &part("exps"), &[count, 3, hidden, width])?;
            let narrow = wide.with_columns(hidden)?;
            let [gate, up, down] = parts.map(i64::from);
            let [gate, up] = [gate, up].map(|part| Stack::new(wide.clone(), [hidden, part * hidden, 3 * hidden]));
            let down = Stack::new(narrow, [width, down * width, 3 * width]);
            return Ok(([gate, up, down], positions));
        }
        let down = |b: &mut Builder, of: &mut Parameters<'_>| {
            let down = Weight::declare_stack(b, of, &part("down_exps"), &[count, width, hidden])?;
            Ok::<_, Error>(Stack::new(down, [width, 0, width]))
        };
        if of.has(&part("gate_up_exps")) {
            let both = Weight::declare_stack(b, of, &part("gate_up_exps"), &[count, 2 * hidden, width])?;
            let [gate, up] = [0, hidden].map(|first| Stack::new(both.clone(), [hidden, first, 2 * hidden]));
            return Ok(([gate, up, down(b, of)?], positions));
        }
        let gate = Weight::declare_stack(b, of, &part("gate_exps"), &[count, hidden, width])?;
        let up = Weight::declare_stack(b, of, &part("up_exps"), &[count, hidden, width])?;
        let [gate, up] = [gate, up].map(|weight| Stack::new(weight, [hidden, 0, hidden]));
        Ok(([gate, up, down(b, of)?], positions))
    }

    /// Adds the experts' result to vectors, normalised by `norm` if there is one.
    pub(super) fn add_to(
        &self,
        b: &mut Builder,
        config: &Config,
        (rows, norm): (Rows, Option<&Vector>),
        x: Value,
        vectors: Value,
    ) -> Value {
        let (experts, shares) = self.choose(b, rows, x);
        let mut sum = self.result(b, config, (experts, shares), x);
        if let Some((network, gate)) = &self.shared {
            let shared = network.apply(b, config, rows, x);
            let shared = gate.as_ref().map_or(shared, |gate| gate_of_rows(b, rows, (x, gate), shared));
            sum = b.elementwise(&[sum, shared], Element::F32, |b, x| b.addf(x[0], x[1]));
        }
        add_result(b, config, norm, sum, vectors)
    }

    /// Computes the result of the experts `[1, width]`: the sum of theirs, times their shares.
    fn result(&self, b: &mut Builder, config: &Config, (experts, shares): (Value, Value), x: Value) -> Value {
        let row = b.index(0);
        let vector = b.collapse_shape(x, &[vec![0, 1]]);
        let mut sum = None;
        for rank in 0..self.mixture.used {
            // No constant, so that all ranks share their kernels.
            let rank = b.index(rank);
            let at = [row, b.opaque(rank)];
            let chosen = (experts, at, self.mixture.count);
            let gate = self.gate.product(b, vector, chosen, None);
            let up = self.up.product(b, vector, chosen, None);
            // The product is linear, so that a share of the hidden vector gives a share of the result. The dispatch is explicit because
            // IREE's compiler, up to 3.13, computes wrong shares where it fuses their loops with this one.
            let hidden = b.dispatch(&[Extent::Constant(self.mixture.hidden)], |b| {
                let share = b.extract(shares, &at);
                b.elementwise(&[gate, up], Element::F32, |b, x| {
                    let hidden = gated_element(b, config.architecture.activation, x[0], x[1]);
                    b.mulf(hidden, share)
                })
            });
            sum = Some(self.down.product(b, hidden, chosen, sum));
        }
        let extents = [Extent::Constant(1), Extent::Constant(config.width)];
        b.expand_shape(sum.unwrap_or(vector), &[vec![0, 1]], &extents)
    }

    /// Returns the positions of the best experts of each row and their shares, `[rows, used]` each. Of experts with equal chances the first is better.
    fn choose(&self, b: &mut Builder, rows: Rows, x: Value) -> (Value, Value) {
        let logits = self.router.apply(b, rows, x);
        let (row, used) = (rows.extent(), Extent::Constant(self.mixture.used));
        let all = [row, Extent::Constant(self.mixture.count)];
        let chances = b.softmax(logits, 1, &all);
        let (none, zero) = (b.int(0, Element::I32), b.float(0.0, Element::F32));
        let last_sums = [Iterator::Parallel, Iterator::Parallel, Iterator::Reduction];
        // The number of experts that are better. Loops: rows, experts; other experts.
        let initial = b.fill(none, &all);
        let maps = [Map::of(3, &[0, 1]), Map::of(3, &[0, 2]), Map::of(3, &[0, 1])];
        let ranks = b.generic_single(&[chances, chances], initial, &maps, &last_sums, |b, x| {
            let (own, other) = (b.iteration(1), b.iteration(2));
            let is_greater = b.cmpf(FloatPredicate::OrderedGreater, x[1], x[0]);
            let is_equal = b.cmpf(FloatPredicate::OrderedEqual, x[1], x[0]);
            let is_before = b.cmpi(IntPredicate::SignedLess, other, own);
            let is_equal = b.andi(is_equal, is_before);
            let is_better = b.ori(is_greater, is_equal);
            let better = b.extui(is_better, Element::I32);
            b.addi(x[2], better)
        });
        // Loops: rows, ranks; experts.
        let maps = [Map::of(3, &[0, 2]), Map::of(3, &[0, 1])];
        let has_rank = |b: &mut Builder, rank: Value| {
            let expected = b.iteration(1);
            let expected = b.index_cast(expected, Element::I32);
            b.cmpi(IntPredicate::Equal, rank, expected)
        };
        let initial = b.fill(none, &[row, used]);
        let positions = self.positions.as_ref().map(|all| b.dense(all, &[all.len() as u64], Element::I32));
        let inputs: Vec<Value> = [ranks].into_iter().chain(positions).collect();
        let mut maps_of_positions = maps.to_vec();
        if positions.is_some() {
            maps_of_positions.insert(1, Map::of(3, &[2]));
        }
        let experts = b.generic_single(&inputs, initial, &maps_of_positions, &last_sums, |b, x| {
            let is_chosen = has_rank(b, x[0]);
            match (positions, x) {
                (Some(_), [_, position, sum]) => b.select(is_chosen, *position, *sum),
                _ => {
                    let expert = b.iteration(2);
                    let expert = b.index_cast(expert, Element::I32);
                    b.select(is_chosen, expert, x[1])
                }
            }
        });
        let initial = b.fill(zero, &[row, used]);
        let maps = [Map::of(3, &[0, 2]), Map::of(3, &[0, 2]), Map::of(3, &[0, 1])];
        let shares = b.generic_single(&[ranks, chances], initial, &maps, &last_sums, |b, x| {
            let is_chosen = has_rank(b, x[0]);
            b.select(is_chosen, x[1], x[2])
        });
        (experts, self.scale(b, rows, shares))
    }

    /// Divides shares by their sums, where the architecture does, and multiplies them by its factor.
    fn scale(&self, b: &mut Builder, rows: Rows, shares: Value) -> Value {
        let Mixture { is_normalised, scale, .. } = self.mixture;
        let extents = [rows.extent(), Extent::Constant(self.mixture.used)];
        let zero = b.float(0.0, Element::F32);
        let mut inputs = vec![shares];
        if is_normalised {
            let initial = b.fill(zero, &extents[..1]);
            let maps = [Map::identity(2), Map::of(2, &[0])];
            let iterators = [Iterator::Parallel, Iterator::Reduction];
            inputs.push(b.generic_single(&[shares], initial, &maps, &iterators, |b, x| b.addf(x[1], x[0])));
        }
        let empty = b.empty(&extents, Element::F32);
        let mut maps = vec![Map::identity(2); inputs.len() + 1];
        if is_normalised {
            maps[1] = Map::of(2, &[0]);
        }
        b.generic_single(&inputs, empty, &maps, &[Iterator::Parallel; 2], |b, x| {
            let mut share = x[0];
            if is_normalised {
                let least = b.float(LEAST_SUM, Element::F32);
                let sum = b.maximumf(x[1], least);
                share = b.divf(share, sum);
            }
            let scale = b.float(scale, Element::F32);
            b.mulf(share, scale)
        })
    }
}

/// Multiplies rows by the sigmoids of the products of other rows and a vector.
fn gate_of_rows(b: &mut Builder, rows: Rows, (x, gate): (Value, &Vector), gated: Value) -> Value {
    let gate = gate.load(b);
    let zero = b.float(0.0, Element::F32);
    let initial = b.fill(zero, &[rows.extent()]);
    let maps = [Map::identity(2), Map::of(2, &[1]), Map::of(2, &[0])];
    let sums = b.generic_single(&[x, gate], initial, &maps, &[Iterator::Parallel, Iterator::Reduction], multiply_add);
    let extents = b.extents(gated);
    let empty = b.empty(&extents, Element::F32);
    let maps = [Map::identity(2), Map::of(2, &[0]), Map::identity(2)];
    b.generic_single(&[gated, sums], empty, &maps, &[Iterator::Parallel; 2], |b, x| {
        let share = sigmoid(b, x[1]);
        b.mulf(x[0], share)
    })
}
