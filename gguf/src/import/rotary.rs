//! Rotary embeddings: pairs of a head's elements are rotated by angles that grow with the position.

use incarnate_mlir::{Builder, Element, Extent, IntPredicate, Iterator, Map, Value};

use super::architecture::Pairs;
use super::frequencies::Frequencies;
use super::product::Rows;
use super::weight::Vector;

/// The positions of a call's tokens.
#[derive(Clone, Copy, Debug)]
pub(super) enum Positions {
    /// Those from one on, of type `index`.
    From(Value),
    /// Those of a tensor `[rows] i32`.
    Each(Value),
}

/// The cosines and sines of a call: `[rows, pairs]`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Angles {
    cosines: Value,
    sines: Value,
    rows: Rows,
    pairs: Pairs,
    /// The elements of a head that are rotated: the first ones.
    rotated: i64,
}

impl Angles {
    /// Computes the angles of positions. Frequencies are divided by `divisors`, if there are any.
    pub(super) fn new(
        b: &mut Builder,
        (frequencies, pairs): (&Frequencies, Pairs),
        (rows, positions): (Rows, Positions),
        divisors: Option<&Vector>,
    ) -> Angles {
        let (rotated, magnitude, kind) = (frequencies.rotated, frequencies.magnitude, pairs);
        let pairs = rotated / 2;
        let bits: Vec<u64> = (0..pairs).map(|pair| u64::from(frequencies.of_pair(pair).to_bits())).collect();
        let mut inputs = vec![b.dense(&bits, &[u64::try_from(pairs).unwrap_or(0)], Element::F32)];
        let divisors = divisors.map(|divisors| divisors.load(b));
        inputs.extend(divisors);
        let each = match positions {
            Positions::From(_) => None,
            Positions::Each(positions) => Some(positions),
        };
        inputs.extend(each);
        let extents = [rows.extent(), Extent::Constant(pairs)];
        let outputs = [b.empty(&extents, Element::F32), b.empty(&extents, Element::F32)];
        let mut maps = vec![Map::of(2, &[1]); 1 + usize::from(divisors.is_some())];
        maps.extend(each.map(|_| Map::of(2, &[0])));
        maps.extend([Map::identity(2), Map::identity(2)]);
        let results = b.generic(&inputs, &outputs, &maps, &[Iterator::Parallel; 2], |b, x| {
            let position = match positions {
                Positions::From(first) => {
                    let row = b.iteration(0);
                    let position = b.addi(first, row);
                    b.index_cast(position, Element::I32)
                }
                Positions::Each(_) => x[inputs.len() - 1],
            };
            let position = b.sitofp(position, Element::F32);
            let frequency = if divisors.is_some() { b.divf(x[0], x[1]) } else { x[0] };
            let angle = b.mulf(position, frequency);
            let results = [b.cos(angle), b.sin(angle)];
            if magnitude == 1.0 {
                return results.to_vec();
            }
            let magnitude = b.float(magnitude, Element::F32);
            results.map(|result| b.mulf(result, magnitude)).to_vec()
        });
        let [cosines, sines] = [0, 1].map(|index| results.get(index).copied().unwrap_or(inputs[0]));
        Angles { cosines, sines, rows, pairs: kind, rotated }
    }

    /// Rotates the pairs of heads `[rows, heads, size]`.
    pub(super) fn rotate(&self, b: &mut Builder, x: Value, heads: i64, size: i64) -> Value {
        if self.rotated == size {
            return self.rotate_all(b, x, heads, size);
        }
        let (zeros, ones) = ([Extent::Constant(0); 3], [Extent::Constant(1); 3]);
        let sizes = [self.rows.extent(), Extent::Constant(heads), Extent::Constant(self.rotated)];
        let part = b.extract_slice(x, &zeros, &sizes, &ones, &[]);
        let part = self.rotate_all(b, part, heads, self.rotated);
        b.insert_slice(part, x, &zeros, &sizes, &ones, &[])
    }

    fn rotate_all(&self, b: &mut Builder, x: Value, heads: i64, size: i64) -> Value {
        let (row, head) = (self.rows.extent(), Extent::Constant(heads));
        let (two, half) = (Extent::Constant(2), Extent::Constant(size / 2));
        let (extents, element, pair) = match self.pairs {
            Pairs::Adjacent => ([row, head, half, two], 3, 2),
            Pairs::Halves => ([row, head, two, half], 2, 3),
        };
        let x = b.expand_shape(x, &[vec![0], vec![1], vec![2, 3]], &extents);
        let empty = b.empty(&extents, Element::F32);
        let maps = [Map::identity(4), Map::of(4, &[0, pair]), Map::of(4, &[0, pair]), Map::identity(4)];
        let inputs = [x, self.cosines, self.sines];
        let rotated = b.generic_single(&inputs, empty, &maps, &[Iterator::Parallel; 4], |b, values| {
            let at = [0, 1, 2, 3].map(|dimension| b.iteration(dimension));
            let (zero, one) = (b.index(0), b.index(1));
            let mut partner = at;
            partner[element] = b.subi(one, at[element]);
            let partner = b.extract(x, &partner);
            let is_first = b.cmpi(IntPredicate::Equal, at[element], zero);
            let negative = b.negf(values[2]);
            let sine = b.select(is_first, negative, values[2]);
            let (own, other) = (b.mulf(values[0], values[1]), b.mulf(partner, sine));
            b.addf(own, other)
        });
        b.collapse_shape(rotated, &[vec![0], vec![1], vec![2, 3]])
    }
}
