//! The feed-forward network of a layer.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Value};

use super::activation::gated;
use super::config::Config;
use super::experts::Experts;
use super::product::Rows;
use super::projection::{Projection, columns};
use super::weight::{Parameters, Vector};

/// The feed-forward network of a layer.
#[derive(Clone, Debug)]
pub(super) enum FeedForward {
    One(Box<Network>),
    Mixture(Box<Experts>),
}

impl FeedForward {
    /// Declares the weights of a layer.
    pub(super) fn declare(b: &mut Builder, of: &mut Parameters<'_>, name: &str) -> Result<FeedForward> {
        let config = of.config;
        Ok(match config.mixture {
            None => FeedForward::One(Box::new(Network::declare(b, of, (name, ""), config.hidden)?)),
            Some(mixture) => FeedForward::Mixture(Box::new(Experts::declare(b, of, name, mixture)?)),
        })
    }

    /// See [`super::weight::Weight::open`].
    pub(super) fn open(&mut self, b: &mut Builder) {
        match self {
            FeedForward::One(network) => network.open(b),
            // Tokens come one by one.
            FeedForward::Mixture(_) => {}
        }
    }

    /// Adds the result of `x` to vectors, normalised by `norm` if there is one.
    pub(super) fn add_to(
        &self,
        b: &mut Builder,
        config: &Config,
        norm: (Rows, Option<&Vector>),
        x: Value,
        vectors: Value,
    ) -> Value {
        match self {
            FeedForward::One(network) => network.add_to(b, config, norm, x, vectors),
            FeedForward::Mixture(experts) => experts.add_to(b, config, norm, x, vectors),
        }
    }
}

/// A network of two layers, the first of which has a gate.
#[derive(Clone, Debug)]
pub(super) struct Network {
    hidden: i64,
    /// The gate, unless the first half of the rows of `up` is.
    gate: Option<Projection>,
    up: Projection,
    down: Projection,
}

impl Network {
    /// Declares the weights, whose names are those of the parts behind `name`, with `suffix`.
    pub(super) fn declare(
        b: &mut Builder,
        of: &mut Parameters<'_>,
        (name, suffix): (&str, &str),
        hidden: i64,
    ) -> Result<Network> {
        let part = |part: &str| format!("{name}.ffn_{part}{suffix}");
        let (width, is_joined) = (of.config.width, of.config.architecture.joins_gate);
        let gate = (!is_joined).then(|| Projection::declare(b, of, &part("gate"), [hidden, width])).transpose()?;
        let rows = if is_joined { 2 * hidden } else { hidden };
        let up = Projection::declare(b, of, &part("up"), [rows, width])?;
        let down = Projection::declare(b, of, &part("down"), [width, hidden])?;
        Ok(Network { hidden, gate, up, down })
    }

    /// See [`super::weight::Weight::open`].
    pub(super) fn open(&mut self, b: &mut Builder) {
        for projection in self.gate.iter_mut().chain([&mut self.up, &mut self.down]) {
            projection.open(b);
        }
    }

    /// The vectors `[rows, hidden]` that `down` takes.
    fn hidden(&self, b: &mut Builder, config: &Config, rows: Rows, x: Value) -> Value {
        let (gate, up) = match &self.gate {
            Some(gate) => (gate.apply(b, rows, x), self.up.apply(b, rows, x)),
            None => {
                let both = self.up.apply(b, rows, x);
                (columns(b, rows, both, 0, self.hidden), columns(b, rows, both, self.hidden, self.hidden))
            }
        };
        gated(b, config.architecture.activation, gate, up)
    }

    /// Computes the network's result.
    pub(super) fn apply(&self, b: &mut Builder, config: &Config, rows: Rows, x: Value) -> Value {
        let hidden = self.hidden(b, config, rows, x);
        self.down.apply(b, rows, hidden)
    }

    fn add_to(
        &self,
        b: &mut Builder,
        config: &Config,
        (rows, norm): (Rows, Option<&Vector>),
        x: Value,
        vectors: Value,
    ) -> Value {
        let hidden = self.hidden(b, config, rows, x);
        self.down.add_to(b, config, (rows, norm), hidden, vectors)
    }
}
