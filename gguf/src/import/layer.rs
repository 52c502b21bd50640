//! A layer: attention and a feed-forward network, each of which adds to the vectors of the tokens.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Extent, Value};

use super::attention::{Attended, Cache, Place, attend};
use super::batch::Batch;
use super::config::Config;
use super::feed_forward::FeedForward;
use super::norm::rms_norm;
use super::product::Rows;
use super::projection::{Projection, columns};
use super::rotary::Angles;
use super::weight::{Parameters, Vector};

/// The weights of a layer.
#[derive(Clone, Debug)]
pub(super) struct Layer {
    index: i64,
    /// Whether it has a sliding window.
    is_local: bool,
    attention_norm: Option<Vector>,
    heads: Heads,
    query_norm: Option<Vector>,
    key_norm: Option<Vector>,
    output: Projection,
    /// Normalises what attention adds.
    attention_post_norm: Option<Vector>,
    feed_forward_norm: Option<Vector>,
    feed_forward: FeedForward,
    /// Normalises what the feed-forward network adds.
    feed_forward_post_norm: Option<Vector>,
}

/// The projections to queries, keys and values.
#[derive(Clone, Debug)]
enum Heads {
    Separate(Box<[Projection; 3]>),
    /// One whose rows are those of the three, in this order.
    Joined(Projection),
}

/// Where the rows of a call are in the cache.
#[derive(Clone, Debug)]
pub(super) enum Places {
    /// One behind the other, in one slot.
    Adjacent(Place),
    /// Each in a slot of its own.
    Batch(Batch),
}

/// Values of a call that all layers share.
#[derive(Clone, Debug)]
pub(super) struct Call<'a> {
    pub(super) config: &'a Config,
    pub(super) cache: &'a Cache,
    pub(super) rows: Rows,
    pub(super) places: Places,
    pub(super) angles: Angles,
    /// The angles of layers with a sliding window.
    pub(super) local_angles: Angles,
}

impl Heads {
    fn declare(b: &mut Builder, of: &mut Parameters<'_>, name: &str) -> Result<Heads> {
        let width = of.config.width;
        let part = |part: &str| format!("{name}.attn_{part}");
        let [queries, keys] = Heads::lengths(of.config);
        if of.has(&part("qkv.weight")) {
            let joined = Projection::declare(b, of, &part("qkv"), [queries + 2 * keys, width])?;
            return Ok(Heads::Joined(joined));
        }
        let query = Projection::declare(b, of, &part("q"), [queries, width])?;
        let key = Projection::declare(b, of, &part("k"), [keys, width])?;
        let value = Projection::declare(b, of, &part("v"), [keys, width])?;
        Ok(Heads::Separate(Box::new([query, key, value])))
    }

    /// The lengths of all queries of a token, and of its keys.
    fn lengths(config: &Config) -> [i64; 2] {
        [config.heads, config.key_heads].map(|heads| heads * config.head_size)
    }

    fn open(&mut self, b: &mut Builder) {
        match self {
            Heads::Separate(projections) => projections.iter_mut().for_each(|projection| projection.open(b)),
            Heads::Joined(projection) => projection.open(b),
        }
    }
}

impl Layer {
    /// Declares the weights.
    pub(super) fn declare(b: &mut Builder, of: &mut Parameters<'_>, index: i64) -> Result<Layer> {
        let config = of.config;
        let name = format!("blk.{index}");
        let part = |part: &str| format!("{name}.{part}");
        let (width, size) = (config.width, config.head_size);
        for required in config.architecture.required {
            of.require(&part(&format!("{required}.weight")))?;
        }
        let before = |b: &mut Builder, of: &mut Parameters<'_>, name: &str| match config.architecture.normalises_results
        {
            true => Ok(None),
            false => Vector::declare(b, of, &part(name), width).map(Some),
        };
        let normalised = |heads: i64| if config.architecture.normalises_all_heads { heads * size } else { size };
        Ok(Layer {
            index,
            is_local: config.window_of(index).is_some(),
            attention_norm: before(b, of, "attn_norm.weight")?,
            heads: Heads::declare(b, of, &name)?,
            query_norm: Vector::optional(b, of, &part("attn_q_norm.weight"), normalised(config.heads))?,
            key_norm: Vector::optional(b, of, &part("attn_k_norm.weight"), normalised(config.key_heads))?,
            output: Projection::declare(b, of, &part("attn_output"), [width, config.heads * size])?,
            attention_post_norm: Vector::optional(b, of, &part("post_attention_norm.weight"), width)?,
            feed_forward_norm: before(b, of, "ffn_norm.weight")?,
            feed_forward: FeedForward::declare(b, of, &name)?,
            feed_forward_post_norm: Vector::optional(b, of, &part("post_ffw_norm.weight"), width)?,
        })
    }

    /// The layer with all matrices opened, see [`super::weight::Weight::open`].
    pub(super) fn opened(&self, b: &mut Builder) -> Layer {
        let mut layer = self.clone();
        layer.heads.open(b);
        layer.output.open(b);
        layer.feed_forward.open(b);
        layer
    }

    /// Computes the next vectors of the tokens, `[rows, width]`. `layer` is the index of the layer, of type `index`.
    pub(super) fn apply(&self, b: &mut Builder, call: &Call<'_>, layer: Value, x: Value) -> Value {
        let (config, rows) = (call.config, call.rows);
        b.set_location(Some(&format!("blk.{}", self.index)));
        let before = |b: &mut Builder, x: Value, norm: &Option<Vector>| {
            norm.as_ref().map_or(x, |norm| rms_norm(b, config, x, norm, config.width))
        };
        let normalised = before(b, x, &self.attention_norm);
        let heads = self.queries(b, call, normalised);
        let keys = Attended { cache: call.cache, layer, is_local: self.is_local };
        let attended = match &call.places {
            Places::Adjacent(place) => attend(b, config, place, heads, &keys),
            Places::Batch(batch) => batch.attend(b, config, heads, &keys),
        };
        let x = self.output.add_to(b, config, (rows, self.attention_post_norm.as_ref()), attended, x);
        let normalised = before(b, x, &self.feed_forward_norm);
        self.feed_forward.add_to(b, config, (rows, self.feed_forward_post_norm.as_ref()), normalised, x)
    }

    /// Computes queries, keys and values: `[rows, heads, size]` each.
    fn queries(&self, b: &mut Builder, call: &Call<'_>, x: Value) -> [Value; 3] {
        let (config, rows) = (call.config, call.rows);
        let angles = if self.is_local { &call.local_angles } else { &call.angles };
        let [queries, keys] = Heads::lengths(config);
        let joined = match &self.heads {
            Heads::Separate(_) => None,
            Heads::Joined(projection) => Some(projection.apply(b, rows, x)),
        };
        let part = |b: &mut Builder, index: usize| match (&self.heads, joined) {
            (Heads::Separate(projections), _) => projections[index].apply(b, rows, x),
            (_, joined) => {
                let (first, count) = [(0, queries), (queries, keys), (queries + keys, keys)][index];
                columns(b, rows, joined.unwrap_or(x), first, count)
            }
        };
        let rotate = |b: &mut Builder, x: Value, heads: i64| match config.is_rotated(self.index) {
            true => angles.rotate(b, x, heads, config.head_size),
            false => x,
        };
        let query = part(b, 0);
        let query = heads(b, call, query, config.heads, self.query_norm.as_ref());
        let query = rotate(b, query, config.heads);
        let key = part(b, 1);
        let key = heads(b, call, key, config.key_heads, self.key_norm.as_ref());
        let key = rotate(b, key, config.key_heads);
        let value = part(b, 2);
        let value = heads(b, call, value, config.key_heads, None);
        [query, key, value]
    }
}

/// Splits vectors into heads, and normalises those.
fn heads(b: &mut Builder, call: &Call<'_>, x: Value, heads: i64, norm: Option<&Vector>) -> Value {
    let size = call.config.head_size;
    let extents = [call.rows.extent(), Extent::Constant(heads), Extent::Constant(size)];
    let normalised =
        |b: &mut Builder, x: Value, size: i64| norm.map_or(x, |norm| rms_norm(b, call.config, x, norm, size));
    let split = |b: &mut Builder, x: Value| b.expand_shape(x, &[vec![0], vec![1, 2]], &extents);
    match call.config.architecture.normalises_all_heads {
        true => {
            let x = normalised(b, x, heads * size);
            split(b, x)
        }
        false => {
            let x = split(b, x);
            normalised(b, x, size)
        }
    }
}
