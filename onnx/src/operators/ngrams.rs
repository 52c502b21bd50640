//! `TfIdfVectorizer` of integers: how often n-grams occur.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Element, IntPredicate, Iterator, Map, Value};

use super::contraction::SHAPE_ONLY;
use super::{Row, onnx};
use crate::context::Context;
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::kit::wrong_type;
use crate::node::{Node, Outputs, invalid, one, unsupported};
use crate::tensor::{Scalar, Tensor};

pub(super) const ROWS: &[Row] = &[onnx("TfIdfVectorizer", 9, vectorize)];

/// The n-grams of each column of the result.
struct Pool {
    columns: Vec<Vec<Vec<i64>>>,
    longest: usize,
}

impl Pool {
    /// Reads the n-grams of the requested lengths. `ngram_counts` has the position in the pool at which those of each length begin.
    fn of(node: &Node<'_>) -> Result<Pool> {
        if node.attribute("pool_strings").is_some_and(|pool| !pool.strings.is_empty()) {
            return unsupported("n-grams of strings");
        }
        let pool = node.ints("pool_int64s").unwrap_or_default();
        let starts = node.ints("ngram_counts").unwrap_or_default();
        let indexes = node.ints("ngram_indexes").unwrap_or_default();
        let lengths = node.int_or("min_gram_length", 1)..=node.int_or("max_gram_length", 1);
        let count = indexes.iter().max().map_or(0, |last| last.saturating_add(1));
        let Some(count) = usize::try_from(count).ok().filter(|count| *count <= 1 << 20) else {
            return invalid("`ngram_indexes` are not positions of a result");
        };
        let mut columns = vec![Vec::new(); count];
        let mut grams = indexes.iter();
        let bound = |start: &i64| usize::try_from(*start).unwrap_or(usize::MAX).min(pool.len());
        for (index, start) in starts.iter().enumerate() {
            let end = starts.get(index + 1).map_or(pool.len(), bound);
            let of_length = pool.get(bound(start)..end).unwrap_or_default();
            for gram in of_length.chunks_exact(index + 1) {
                let column = grams.next().and_then(|column| columns.get_mut(usize::try_from(*column).ok()?));
                let Some(column) = column else { return invalid("`ngram_indexes` are fewer than the n-grams") };
                if i64::try_from(gram.len()).is_ok_and(|length| lengths.contains(&length)) {
                    column.push(gram.to_vec());
                }
            }
        }
        let longest = columns.iter().flatten().map(Vec::len).max().unwrap_or(0);
        Ok(Pool { columns, longest })
    }

    /// Returns the most n-grams of a column.
    fn depth(&self) -> usize {
        self.columns.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// Returns lengths `[columns, depth]`, 0 where there is no n-gram, and tokens `[columns, depth, longest]`.
    fn tables(&self) -> [Tensor; 2] {
        let (depth, longest) = (self.depth(), self.longest);
        let (mut lengths, mut tokens) = (Vec::new(), Vec::new());
        for column in &self.columns {
            for index in 0..depth {
                let gram = column.get(index).map(Vec::as_slice).unwrap_or_default();
                lengths.push(i64::try_from(gram.len()).unwrap_or(0));
                tokens.extend((0..longest).map(|token| gram.get(token).copied().unwrap_or(0)));
            }
        }
        let table = |extents: &[usize], values: Vec<i64>| {
            let shape =
                extents.iter().map(|extent| Dim::constant(i64::try_from(*extent).unwrap_or(i64::MAX))).collect();
            let elements = values.into_iter().map(|value| Scalar::Int(Dim::constant(value))).collect();
            Tensor::of_elements(DataType::I64, shape, elements)
        };
        [table(&[self.columns.len(), depth], lengths), table(&[self.columns.len(), depth, longest], tokens)]
    }
}

fn vectorize(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let x = node.input(0)?;
    if !x.ty.is_int() {
        return wrong_type(x.ty);
    }
    let pool = Pool::of(node)?;
    let (Some(columns), Some(length), 1..=2) =
        (i64::try_from(pool.columns.len()).ok(), x.shape.last().cloned(), x.rank())
    else {
        return invalid("one or two dimensions are expected");
    };
    let rows = if x.rank() == 2 { x.shape[0].clone() } else { Dim::constant(1) };
    let x = cx.reshape(x, &[rows.clone(), length])?;
    let x = cx.cast(&x, DataType::I64)?;
    let columns = Dim::constant(columns);
    let skips = node.int_or("max_skip_count", 0).saturating_add(1);
    let counts = counted(cx, &x, &pool, skips, &[rows.clone(), columns.clone()])?;
    let weighted = match (node.text_or("mode", "TF")?, node.floats("weights").filter(|weights| !weights.is_empty())) {
        ("TF", _) | ("TFIDF", None) => counts,
        (mode, weights) => {
            let ones = vec![1.0; pool.columns.len()];
            let weights = weights.unwrap_or(&ones);
            let elements = weights.iter().map(|weight| Scalar::Float(f64::from(*weight))).collect();
            let weights = Tensor::of_elements(DataType::F32, vec![columns.clone()], elements);
            let is_capped = mode == "IDF";
            cx.map(&[&counts, &weights], DataType::F32, |b, x| {
                let one = b.float(1.0, Element::F32);
                let count = if is_capped { b.minimumf(x[0], one) } else { x[0] };
                b.mulf(count, x[1])
            })?
        }
    };
    one(if node.input(0)?.rank() == 1 { cx.reshape(&weighted, &[columns])? } else { weighted })
}

/// Counts the n-grams of each column: a sum over those of the column, the positions of a row, and the distances of tokens.
fn counted(cx: &mut Context, x: &Tensor, pool: &Pool, skips: i64, shape: &[Dim]) -> Result<Tensor> {
    let [lengths, tokens] = pool.tables().map(|table| cx.value(&table));
    let (lengths, tokens, row) = (lengths?, tokens?, cx.value(x)?);
    let length = cx.index(&x.shape[1]);
    let reduced = [Dim::constant(i64::try_from(pool.depth()).unwrap_or(0)), x.shape[1].clone(), Dim::constant(skips)];
    let reduced = cx.extents(&reduced);
    let shaped = cx.b.empty(&reduced, SHAPE_ONLY);
    let zero = cx.b.float(0.0, Element::F32);
    let extents = cx.extents(shape);
    let filled = cx.b.fill(zero, &extents);
    let maps = [Map::of(5, &[2, 3, 4]), Map::of(5, &[0, 1])];
    let iterators: Vec<Iterator> =
        (0..5).map(|index| if index < 2 { Iterator::Parallel } else { Iterator::Reduction }).collect();
    let longest = pool.longest;
    let result = cx.b.generic_single(&[shaped], filled, &maps, &iterators, |b, x| {
        let at: Vec<Value> = (0..5).map(|dimension| b.iteration(dimension)).collect();
        let is_found = found(b, [row, lengths, tokens], length, longest, &at);
        let (one, zero) = (b.float(1.0, Element::F32), b.float(0.0, Element::F32));
        let found = b.select(is_found, one, zero);
        b.addf(x[1], found)
    });
    cx.tensor(result, DataType::F32, shape.to_vec())
}

/// Returns whether the n-gram `at[2]` of the column `at[1]` begins at position `at[3]` of the row, its tokens `at[4] + 1` positions apart. Positions
/// behind the row are read as its last.
fn found(b: &mut Builder, tensors: [Value; 3], length: Value, longest: usize, at: &[Value]) -> Value {
    let [row, lengths, tokens] = tensors;
    let (zero, one) = (b.index(0), b.index(1));
    let count = b.extract(lengths, &[at[1], at[2]]);
    let count = b.index_cast(count, Element::Index);
    let distance = b.addi(at[4], one);
    let last = b.subi(length, one);
    // There is an n-gram, and that of one token has no distances.
    let is_there = b.cmpi(IntPredicate::SignedGreater, count, zero);
    let is_long = b.cmpi(IntPredicate::SignedGreater, count, one);
    let is_next = b.cmpi(IntPredicate::Equal, at[4], zero);
    let counts = b.ori(is_long, is_next);
    let mut is_found = b.andi(is_there, counts);
    for index in 0..longest {
        let token = b.index(i64::try_from(index).unwrap_or(i64::MAX));
        let offset = b.muli(token, distance);
        let position = b.addi(at[3], offset);
        let is_within = b.cmpi(IntPredicate::SignedLess, position, length);
        let clamped = b.minsi(position, last);
        let (read, wanted) = (b.extract(row, &[at[0], clamped]), b.extract(tokens, &[at[1], at[2], token]));
        let is_equal = b.cmpi(IntPredicate::Equal, read, wanted);
        let fits = b.andi(is_within, is_equal);
        let is_behind = b.cmpi(IntPredicate::SignedGreaterEqual, token, count);
        let fits = b.ori(fits, is_behind);
        is_found = b.andi(is_found, fits);
    }
    is_found
}
