//! The functions of a module.

use std::borrow::Cow;

use incarnate_bytecode::{DECLARATION, Result};
use incarnate_mlir::{Builder, Element, Extent, IntPredicate, Type, Value};

use super::attention::{Cache, Local, Place};
use super::batch::{Batch, opaque_indices};
use super::checkpoint::Checkpoint;
use super::config::Config;
use super::layer::{Call, Layer, Places};
use super::norm::{rms_norm, scaled, soft_capped, sum_of_rows};
use super::product::{Rows, embedding, product, product_of_one};
use super::rotary::{Angles, Positions};
use super::weight::{Parameters, Vector, Weight};
use crate::attributes::{self, Pooling};

/// A model whose parameters are declared.
struct Model<'a> {
    config: &'a Config,
    embedding: Weight,
    rotary_divisors: Option<Vector>,
    cache: Cache,
    layers: Vec<Layer>,
    norm: Vector,
    /// The weight of the logits, unless it is the embedding.
    output: Option<Weight>,
}

/// Builds the module of a model.
pub(super) fn import(checkpoint: &Checkpoint, config: &Config) -> Result<Builder> {
    let mut b = Builder::new();
    let shape = [config.vocabulary, config.width];
    let mut parameters = Parameters::new(checkpoint, config);
    let of = &mut parameters;
    let output = of.has("output.weight").then(|| Weight::declare(&mut b, of, "output.weight", shape));
    let model = Model {
        config,
        embedding: Weight::declare(&mut b, of, "token_embd.weight", shape)?,
        rotary_divisors: rotary_divisors(&mut b, of)?,
        cache: Cache::declare(&mut b, config),
        layers: (0..config.layers).map(|index| Layer::declare(&mut b, of, index)).collect::<Result<_>>()?,
        norm: Vector::declare(&mut b, of, "output_norm.weight", config.width)?,
        output: output.transpose()?,
    };
    parameters.check()?;
    let batch = (config.batch() > 1).then_some(Kind::DecodeBatch);
    let embed = config.pooling.map(Kind::Embed);
    for kind in [Kind::Prefill, Kind::Decode].into_iter().chain(batch).chain(embed) {
        model.function(&mut b, kind);
    }
    Ok(b)
}

/// The functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Prefill,
    Decode,
    DecodeBatch,
    Embed(Pooling),
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Prefill => "prefill",
            Kind::Decode => "decode",
            Kind::DecodeBatch => "decode_batch",
            Kind::Embed(_) => "embed",
        }
    }

    /// How many positions and slots a function takes.
    fn places(self, config: &Config) -> i64 {
        if self == Kind::DecodeBatch { config.batch() } else { 1 }
    }

    /// The names and types of the arguments and results.
    fn declaration(self, config: &Config) -> String {
        let (name, vocabulary, batch) = (self.name(), config.vocabulary, config.batch());
        let each = |name: &str| (0..batch).map(|at| format!("%{name}_{at}: i32")).collect::<Vec<_>>().join(", ");
        match self {
            Kind::Prefill => format!(
                "sync func @{name}(%tokens: tensor<?xi32>, %position: i32, %slot: i32) -> (%logits: tensor<{vocabulary}xf32>)"
            ),
            Kind::Decode => format!(
                "sync func @{name}(%token: i32, %position: i32, %slot: i32) -> (%logits: tensor<{vocabulary}xf32>)"
            ),
            Kind::DecodeBatch => format!(
                "sync func @{name}(%tokens: tensor<{batch}xi32>, {}, {}) -> (%logits: tensor<{batch}x{vocabulary}xf32>)",
                each("position"),
                each("slot")
            ),
            Kind::Embed(_) => format!(
                "sync func @{name}(%tokens: tensor<?xi32>, %position: i32, %slot: i32) -> (%embedding: tensor<{}xf32>)",
                config.width
            ),
        }
    }
}

/// Declares what frequencies are divided by. Files of LongRoPE have two such vectors: one for the positions that a model was trained with
/// first, one for more.
fn rotary_divisors(b: &mut Builder, of: &mut Parameters<'_>) -> Result<Option<Vector>> {
    const NAMES: [&str; 2] = ["rope_factors_short.weight", "rope_factors_long.weight"];
    let (config, pairs) = (of.config, of.config.frequencies.rotated / 2);
    let name = match NAMES.iter().any(|name| of.has(name)) {
        false => "rope_freqs.weight",
        true => {
            let [short, long] = NAMES;
            let (used, other) = if config.context > config.original_context { (long, short) } else { (short, long) };
            of.require(used)?;
            of.ignore(other);
            used
        }
    };
    Vector::optional(b, of, name, pairs)
}

impl Model<'_> {
    /// Builds a function.
    fn function(&self, b: &mut Builder, kind: Kind) {
        let config = self.config;
        let scalar = Type::Scalar(Element::I32);
        let batch = u64::try_from(config.batch()).ok();
        let tokens = match kind {
            Kind::Prefill | Kind::Embed(_) => Type::tensor(&[None], Element::I32),
            Kind::Decode => scalar.clone(),
            Kind::DecodeBatch => Type::tensor(&[batch], Element::I32),
        };
        let places = usize::try_from(kind.places(config)).unwrap_or(1);
        let mut arguments = vec![tokens];
        arguments.resize(1 + 2 * places, scalar);
        let function = b.function(kind.name(), &arguments);
        let (tokens, numbers) = (function.arguments[0], function.arguments[1..].to_vec());
        let (tokens, rows) = match kind {
            Kind::Prefill | Kind::Embed(_) => (tokens, Rows::Many(b.dim(tokens, 0))),
            Kind::Decode => (b.from_elements(&[tokens], &[1]), Rows::One),
            Kind::DecodeBatch => (tokens, Rows::Few(config.batch())),
        };
        let (positions, slots) = numbers.split_at(places);
        let hidden = self.hidden(b, (tokens, rows), (positions, slots));
        let result = match kind {
            Kind::Prefill | Kind::Decode | Kind::DecodeBatch => self.logits(b, rows, hidden),
            Kind::Embed(pooling) => self.embedding(b, rows, hidden, pooling),
        };
        let mut attributes = vec![
            (DECLARATION, kind.declaration(config)),
            (attributes::CONTEXT, config.context.to_string()),
            (attributes::SLOTS, config.slots.to_string()),
        ];
        match kind {
            Kind::Prefill | Kind::Decode => {}
            Kind::DecodeBatch => attributes.push((attributes::BATCH, config.batch().to_string())),
            Kind::Embed(pooling) => attributes.push((attributes::POOLING, pooling.text().to_owned())),
        }
        b.end_function(function, &[result], &[], &attributes);
    }

    /// Computes the vectors of tokens behind the last layer, `[rows, width]`, and keeps their keys and values.
    fn hidden(
        &self,
        b: &mut Builder,
        (tokens, rows): (Value, Rows),
        (positions, slots): (&[Value], &[Value]),
    ) -> Value {
        let places = self.places(b, rows, (positions, slots));
        let indices = opaque_indices(b, self.layers.len());
        let (positions, places) = match (&places[..], rows) {
            ([place], Rows::Many(count)) if self.config.mixture.is_some() => {
                return self.hidden_of_each(b, (tokens, count), place, &indices);
            }
            ([place], Rows::One | Rows::Many(_)) => (Positions::From(place.first), Places::Adjacent(*place)),
            _ => {
                let positions = b.from_elements(positions, &[positions.len() as u64]);
                (Positions::Each(positions), Places::Batch(Batch::new(b, places)))
            }
        };
        self.hidden_at(b, (tokens, rows), (positions, places), &indices)
    }

    /// The same, token by token: each takes experts of its own, so that tokens share no weights of those. The loop runs on the host.
    fn hidden_of_each(
        &self,
        b: &mut Builder,
        (tokens, count): (Value, Value),
        place: &Place,
        indices: &[Value],
    ) -> Value {
        let extents = [Extent::Value(count), Extent::Constant(self.config.width)];
        let initial = b.empty(&extents, Element::F32);
        b.fold(count, initial, |b, row, carried| {
            let ([first, unit], one) = ([0, 1].map(Extent::Constant), b.index(1));
            let token = b.extract_slice(tokens, &[row.into()], &[unit], &[unit], &[]);
            let position = b.addi(place.first, row);
            let place = self.place(b, (position, place.slot), one);
            let places = (Positions::From(position), Places::Adjacent(place));
            let x = self.hidden_at(b, (token, Rows::One), places, indices);
            b.insert_slice(x, carried, &[row.into(), first], &[unit, extents[1]], &[unit; 2], &[])
        })
    }

    fn hidden_at(
        &self,
        b: &mut Builder,
        (tokens, rows): (Value, Rows),
        places: (Positions, Places),
        indices: &[Value],
    ) -> Value {
        b.set_location(Some("embedding"));
        let mut x = embedding(b, rows, tokens, &self.embedding, self.config.embedding_scale);
        let call = self.call(b, rows, places);
        let layers: Vec<Cow<'_, Layer>> = match rows {
            Rows::One | Rows::Few(_) => self.layers.iter().map(Cow::Borrowed).collect(),
            Rows::Many(_) => self.layers.iter().map(|layer| Cow::Owned(layer.opened(b))).collect(),
        };
        for (layer, index) in layers.iter().zip(indices) {
            x = layer.apply(b, &call, *index, x);
        }
        b.set_location(Some("output"));
        x
    }

    /// The vector of the last token, `[1, width]`, or those of a few.
    fn last(&self, b: &mut Builder, rows: Rows, x: Value) -> Value {
        match rows {
            Rows::One | Rows::Few(_) => x,
            Rows::Many(count) => {
                let one = b.index(1);
                let last = b.subi(count, one);
                let [zero, one, width] = [0, 1, self.config.width].map(Extent::Constant);
                b.extract_slice(x, &[last.into(), zero], &[one, width], &[one, one], &[])
            }
        }
    }

    /// Computes the embedding of the tokens, see [`Pooling`].
    fn embedding(&self, b: &mut Builder, rows: Rows, x: Value, pooling: Pooling) -> Value {
        let config = self.config;
        let pooled = if pooling == Pooling::Last { self.last(b, rows, x) } else { x };
        let normalised = rms_norm(b, config, pooled, &self.norm, config.width);
        match pooling {
            Pooling::Last => b.collapse_shape(normalised, &[vec![0, 1]]),
            Pooling::Mean => sum_of_rows(b, normalised, config.width),
        }
    }

    /// Computes the logits of the token behind the last one, or behind each of a few.
    fn logits(&self, b: &mut Builder, rows: Rows, x: Value) -> Value {
        let config = self.config;
        let last = self.last(b, rows, x);
        let normalised = rms_norm(b, config, last, &self.norm, config.width);
        let output = self.output.as_ref().unwrap_or(&self.embedding);
        let logits = match rows {
            Rows::Few(_) => product(b, rows, normalised, output, None),
            Rows::One | Rows::Many(_) => {
                let normalised = b.collapse_shape(normalised, &[vec![0, 1]]);
                product_of_one(b, normalised, output, None)
            }
        };
        let logits = scaled(b, logits, 1.0 / config.logit_divisor);
        if config.logit_cap == 0.0 {
            return logits;
        }
        b.elementwise(&[logits], Element::F32, |b, x| soft_capped(b, x[0], config.logit_cap))
    }

    /// Computes what all layers share.
    fn call(&self, b: &mut Builder, rows: Rows, (positions, places): (Positions, Places)) -> Call<'_> {
        let config = self.config;
        let mut angles = |frequencies| {
            let pairs = config.architecture.pairs;
            Angles::new(b, (frequencies, pairs), (rows, positions), self.rotary_divisors.as_ref())
        };
        let all = angles(&config.frequencies);
        let differ = config.window.is_some() && config.local_frequencies != config.frequencies;
        let local = if differ { angles(&config.local_frequencies) } else { all };
        Call { config, cache: &self.cache, rows, places, angles: all, local_angles: local }
    }

    /// Finds where the rows of a call are in the cache: all of them, or each of a few.
    fn places(&self, b: &mut Builder, rows: Rows, (positions, slots): (&[Value], &[Value])) -> Vec<Place> {
        let index = |b: &mut Builder, values: &[Value]| -> Vec<Value> {
            values.iter().map(|value| b.index_cast(*value, Element::Index)).collect()
        };
        let (positions, slots) = (index(b, positions), index(b, slots));
        let count = if let Rows::Few(_) = rows { b.index(1) } else { b.index_of(rows.extent()) };
        self.check(b, count, &positions, &slots);
        positions.into_iter().zip(slots).map(|place| self.place(b, place, count)).collect()
    }

    /// Where `count` rows from a position of a slot on are in the cache.
    fn place(&self, b: &mut Builder, (position, slot): (Value, Value), count: Value) -> Place {
        let end = b.addi(position, count);
        let window = self.config.window.as_ref().map(|window| window.size);
        let window = window.filter(|window| *window < self.config.context);
        let local = window.map(|window| Local::new(b, window, [position, end]));
        Place { slot, first: position, end, local }
    }

    /// Checks that `count` rows at each of the positions of slots are in the cache. There is one check for all of a kind: each is an exit of the
    /// function, which releases all weights.
    fn check(&self, b: &mut Builder, count: Value, positions: &[Value], slots: &[Value]) {
        let config = self.config;
        let [zero, context, slot_count] = [0, config.context, config.slots].map(|number| b.index(number));
        let all = |b: &mut Builder, values: &[Value], holds: &dyn Fn(&mut Builder, Value) -> Value, message: &str| {
            let conditions: Vec<Value> = values.iter().map(|value| holds(b, *value)).collect();
            let condition = conditions.into_iter().reduce(|one, other| b.andi(one, other));
            if let Some(condition) = condition {
                b.assert(condition, message);
            }
        };
        let is_slot = |b: &mut Builder, slot: Value| b.cmpi(IntPredicate::UnsignedLess, slot, slot_count);
        all(b, slots, &is_slot, &format!("the slot is not below {}", config.slots));
        let is_position = |b: &mut Builder, at: Value| b.cmpi(IntPredicate::UnsignedLessEqual, at, context);
        all(b, positions, &is_position, &format!("the position is not one of {}", config.context));
        let fits = |b: &mut Builder, at: Value| {
            let left = b.subi(context, at);
            b.cmpi(IntPredicate::UnsignedLessEqual, count, left)
        };
        all(b, positions, &fits, &format!("the tokens do not fit into the context of {} positions", config.context));
        let is_some = b.cmpi(IntPredicate::SignedLess, zero, count);
        b.assert(is_some, "there are no tokens");
    }
}
