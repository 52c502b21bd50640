//! Support vector machines.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Element, FloatPredicate, Map, Type, Value};

use super::super::Row;
use super::super::attention_core::contraction;
use super::super::nests::Reduction;
use super::super::tables::table;
use super::linear::products;
use super::scores::{Labels, Transform, greatest_class, logistic};
use super::{doubles, float_rows, length, ml};
use crate::context::Context;
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::node::{Node, Outputs, invalid, one, unsupported};
use crate::tensor::{Item, Tensor};

pub(super) const ROWS: &[Row] = &[ml("SVMClassifier", 1, classifier), ml("SVMRegressor", 1, regressor)];

/// How a row of features and a support vector become a number.
#[derive(Clone, Copy, Debug)]
enum Kernel {
    Linear,
    Poly { gamma: f64, offset: f64, degree: f64 },
    Rbf { gamma: f64 },
    Sigmoid { gamma: f64, offset: f64 },
}

impl Kernel {
    fn of(node: &Node<'_>) -> Result<Kernel> {
        let parameters = doubles(node.floats("kernel_params").unwrap_or_default());
        let [gamma, offset, degree] = [0, 1, 2].map(|index| parameters.get(index).copied().unwrap_or(0.0));
        Ok(match node.text_or("kernel_type", "LINEAR")? {
            "LINEAR" => Kernel::Linear,
            "POLY" => Kernel::Poly { gamma, offset, degree },
            "RBF" => Kernel::Rbf { gamma },
            "SIGMOID" => Kernel::Sigmoid { gamma, offset },
            other => return invalid(format!("the attribute `kernel_type` is {other}")),
        })
    }

    /// Computes the kernel of a product, or of a squared distance.
    fn finish(self, b: &mut Builder, x: Value) -> Value {
        let element = b.element_of(x);
        let affine = |b: &mut Builder, gamma: f64, offset: f64| {
            let (gamma, offset) = (b.float(gamma, element), b.float(offset, element));
            let product = b.mulf(x, gamma);
            b.addf(product, offset)
        };
        match self {
            Kernel::Linear => x,
            Kernel::Rbf { gamma } => {
                let gamma = b.float(-gamma, element);
                let product = b.mulf(x, gamma);
                b.exp(product)
            }
            Kernel::Sigmoid { gamma, offset } => {
                let sum = affine(b, gamma, offset);
                b.tanh(sum)
            }
            Kernel::Poly { gamma, offset, degree } => {
                let sum = affine(b, gamma, offset);
                power(b, sum, degree)
            }
        }
    }

    /// Computes the kernels of rows and vectors: `[rows, vectors]`.
    fn lower(self, cx: &mut Context, x: &Tensor, vectors: &Tensor) -> Result<Tensor> {
        let ([rows, features], [count, width]) = (&*x.shape, &*vectors.shape) else {
            return invalid("rows of features are expected");
        };
        cx.require_equal(features, width, "the number of features")?;
        // Loops: row, vector, feature.
        let maps = [Map::of(3, &[0, 2]), Map::of(3, &[1, 2]), Map::of(3, &[0, 1])];
        let shape = [rows.clone(), count.clone()];
        let sums = if matches!(self, Kernel::Rbf { .. }) {
            let mut reduction = Reduction::along(&[rows.clone(), count.clone(), width.clone()], &[2]);
            reduction.output = maps[2].clone();
            let operands = [(x, maps[0].clone()), (vectors, maps[1].clone())];
            reduction.sum(cx, &operands, DataType::F32, |b, x| {
                let difference = b.subf(x[0], x[1]);
                b.mulf(difference, difference)
            })?
        } else {
            contraction(cx, x, vectors, &maps, &shape, DataType::F32)?
        };
        cx.map(&[&sums], DataType::F32, |b, x| self.finish(b, x[0]))
    }
}

/// A power: a product for small natural exponents.
fn power(b: &mut Builder, x: Value, degree: f64) -> Value {
    let element = b.element_of(x);
    if degree.fract() == 0.0 && (0.0..=8.0).contains(&degree) {
        let mut product = b.float(1.0, element);
        for _ in 0..degree as i64 {
            product = b.mulf(product, x);
        }
        return product;
    }
    let degree = b.float(degree, element);
    b.powf(x, degree)
}

/// Returns the support vectors: `[count, features]`.
fn vectors(node: &Node<'_>, count: i64) -> Result<Tensor> {
    let list = node.floats("support_vectors").unwrap_or_default();
    let width = if count > 0 { length(list) / count } else { 0 };
    if width == 0 || width.saturating_mul(count) != length(list) {
        return invalid(format!("{} elements are not {count} support vectors", list.len()));
    }
    Ok(table(&format!("{}.vectors", node.name), &doubles(list), &[count, width], DataType::F32))
}

fn regressor(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let x = float_rows(cx, node.input(0)?, false)?;
    let coefficients = node.floats("coefficients").unwrap_or_default();
    let rho = node.floats("rho").and_then(|rho| rho.get(..1)).unwrap_or_default();
    let count = node.int_or("n_supports", 0);
    let scores = if count > 0 {
        let kernels = Kernel::of(node)?.lower(cx, &x, &vectors(node, count)?)?;
        products(cx, &node.name, &kernels, coefficients, rho, 1)?
    } else {
        products(cx, &node.name, &x, coefficients, rho, 1)?
    };
    if !node.flag("one_class") {
        return one(scores);
    }
    one(cx.map(&[&scores], DataType::F32, |b, x| {
        let (zero, inside, outside) = (b.float(0.0, Element::F32), b.float(1.0, Element::F32), b.float(-1.0, Element::F32));
        let is_inside = b.cmpf(FloatPredicate::OrderedGreater, x[0], zero);
        b.select(is_inside, inside, outside)
    })?)
}

/// The pairs of classes, each with its number.
fn pairs(classes: usize) -> Vec<(usize, usize)> {
    (0..classes).flat_map(|first| (first + 1..classes).map(move |second| (first, second))).collect()
}

/// The coefficients of the support vectors for each pair of classes: `[pairs, vectors]`.
fn pair_coefficients(node: &Node<'_>, per_class: &[i64], count: usize) -> Result<Vec<f32>> {
    let list = node.floats("coefficients").unwrap_or_default();
    if list.len() < per_class.len().saturating_sub(1).saturating_mul(count) {
        return invalid(format!("{} coefficients for {count} support vectors of {} classes", list.len(), per_class.len()));
    }
    let mut owners = Vec::with_capacity(count);
    for (class, own) in per_class.iter().enumerate() {
        owners.extend((0..*own).map(|_| class));
    }
    let mut result = Vec::new();
    for (first, second) in pairs(per_class.len()) {
        for (index, owner) in owners.iter().enumerate() {
            let row = match *owner {
                owner if owner == first => Some(second - 1),
                owner if owner == second => Some(first),
                _ => None,
            };
            result.push(row.and_then(|row| list.get(row * count + index)).copied().unwrap_or(0.0));
        }
    }
    Ok(result)
}

fn classifier(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let transform = Transform::of(node)?;
    let labels = Labels::of(node, "classlabels_ints");
    let x = float_rows(cx, node.input(0)?, false)?;
    let rho = node.floats("rho").unwrap_or_default();
    let per_class = node.ints("vectors_per_class").unwrap_or_default();
    if per_class.iter().any(|count| *count < 0 || *count > 1 << 32) {
        return invalid("the attribute `vectors_per_class` has a negative or a large element");
    }
    let count: i64 = per_class.iter().sum();
    if count == 0 {
        let coefficients = node.floats("coefficients").unwrap_or_default();
        let scores = products(cx, &node.name, &x, coefficients, rho.get(..1).unwrap_or_default(), labels.count())?;
        let winner = greatest_class(cx, &scores)?;
        return Ok(vec![labels.at(cx, &winner)?, Item::Tensor(transform.apply_to_targets(cx, &scores)?)]);
    }
    let classes = length(per_class);
    if classes != labels.count() || classes < 2 {
        return invalid(format!("there are {} labels of {classes} classes", labels.count()));
    }
    let kernels = Kernel::of(node)?.lower(cx, &x, &vectors(node, count)?)?;
    let coefficients = pair_coefficients(node, per_class, usize::try_from(count).unwrap_or(usize::MAX))?;
    let pair_count = classes * (classes - 1) / 2;
    let Some(rho) = usize::try_from(pair_count).ok().and_then(|count| rho.get(..count)) else {
        return invalid(format!("the attribute `rho` has not {pair_count} elements"));
    };
    let decisions = products(cx, &node.name, &kernels, &coefficients, rho, pair_count)?;
    let votes = votes(cx, &node.name, &decisions, per_class.len())?;
    let winner = greatest_class(cx, &votes)?;
    let label = labels.at(cx, &winner)?;
    let (slopes, offsets) = (node.floats("prob_a").unwrap_or_default(), node.floats("prob_b").unwrap_or_default());
    let scores = if !slopes.is_empty() {
        let ratios = ratios(cx, &node.name, &decisions, slopes, offsets)?;
        let probabilities = probabilities(cx, &ratios, per_class.len())?;
        transform.apply(cx, &probabilities)?
    } else if classes == 2 {
        // Only scores that are transformed count as probabilities.
        transform.both(cx, &decisions, transform != Transform::None)?
    } else {
        transform.apply(cx, &decisions)?
    };
    Ok(vec![label, Item::Tensor(scores)])
}

/// Counts the decisions for each class: `[rows, classes]`.
fn votes(cx: &mut Context, name: &str, decisions: &Tensor, classes: usize) -> Result<Tensor> {
    let pairs = pairs(classes);
    let side = |own: usize| -> Vec<f64> {
        let for_class = |pair: &(usize, usize)| if pair.0 == own { 1.0 } else if pair.1 == own { -1.0 } else { 0.0 };
        pairs.iter().map(for_class).collect()
    };
    let sides: Vec<f64> = (0..classes).flat_map(side).collect();
    let shape = [i64::try_from(classes).unwrap_or(0), length(&pairs)];
    let sides = table(&format!("{name}.sides"), &sides, &shape, DataType::F32);
    let rows = decisions.shape.first().cloned().unwrap_or_else(|| Dim::constant(1));
    let mut reduction = Reduction::along(&[rows, Dim::constant(shape[0]), Dim::constant(shape[1])], &[2]);
    reduction.output = Map::of(3, &[0, 1]);
    let operands = [(decisions, Map::of(3, &[0, 2])), (&sides, Map::of(3, &[1, 2]))];
    reduction.sum(cx, &operands, DataType::F32, |b, x| {
        let (zero, one) = (b.float(0.0, Element::F32), b.float(1.0, Element::F32));
        let is_first = b.cmpf(FloatPredicate::OrderedGreater, x[0], zero);
        let is_for_first = b.cmpf(FloatPredicate::OrderedGreater, x[1], zero);
        let is_for_second = b.cmpf(FloatPredicate::OrderedLess, x[1], zero);
        let first = b.select(is_for_first, one, zero);
        let second = b.select(is_for_second, one, zero);
        b.select(is_first, first, second)
    })
}

/// The probability of the first class of each pair against the second.
fn ratios(cx: &mut Context, name: &str, decisions: &Tensor, slopes: &[f32], offsets: &[f32]) -> Result<Tensor> {
    let count = decisions.shape.get(1).and_then(Dim::as_constant).and_then(|count| usize::try_from(count).ok());
    let (Some(slopes), Some(offsets)) = (count.and_then(|count| slopes.get(..count)), count.and_then(|count| offsets.get(..count))) else {
        return invalid("the attributes `prob_a` and `prob_b` have fewer elements than there are pairs of classes");
    };
    let slopes = table(&format!("{name}.prob_a"), &doubles(slopes), &[length(slopes)], DataType::F32);
    let offsets = table(&format!("{name}.prob_b"), &doubles(offsets), &[length(offsets)], DataType::F32);
    cx.map(&[decisions, &slopes, &offsets], DataType::F32, |b, x| {
        let product = b.mulf(x[0], x[1]);
        let sum = b.addf(product, x[2]);
        let (value, one) = (logistic(b, sum), b.float(1.0, Element::F32));
        let ratio = b.subf(one, value);
        let (least, most) = (b.float(1e-7, Element::F32), b.float(1.0 - 1e-7, Element::F32));
        let low = b.maximumf(ratio, least);
        b.minimumf(low, most)
    })
}

/// The most classes whose probabilities are computed: a loop nest has a value for each pair.
const MOST_CLASSES: usize = 32;

/// Couples the probabilities of pairs by the iteration of Wu, Lin and Weng (2004), as libsvm does: `[rows, classes]`.
fn probabilities(cx: &mut Context, ratios: &Tensor, classes: usize) -> Result<Tensor> {
    if classes > MOST_CLASSES {
        return unsupported(format!("probabilities of {classes} classes: at most {MOST_CLASSES} are"));
    }
    let rows = ratios.shape.first().cloned().unwrap_or_else(|| Dim::constant(1));
    let source = cx.value(ratios)?;
    let mut columns = Vec::new();
    for class in 0..classes {
        let coupling = Coupling { source, classes, class };
        let shape = [rows.clone(), Dim::constant(1)];
        columns.push(cx.generate(&shape, DataType::F32, |b, at| coupling.lower(b, at))?);
    }
    let references: Vec<&Tensor> = columns.iter().collect();
    cx.concat(&references, 1)
}

/// The probability of a class for one row.
struct Coupling {
    source: Value,
    classes: usize,
    class: usize,
}

impl Coupling {
    fn lower(&self, b: &mut Builder, at: &[Value]) -> Value {
        let row = at.first().copied().unwrap_or_else(|| b.index(0));
        let (zero, one) = (b.float(0.0, Element::F32), b.float(1.0, Element::F32));
        let mut ratio = vec![vec![zero; self.classes]; self.classes];
        for (number, (i, j)) in (0..).zip(pairs(self.classes)) {
            let column = b.index(number);
            let value = b.extract(self.source, &[row, column]);
            let rest = b.subf(one, value);
            ratio[i][j] = value;
            ratio[j][i] = rest;
        }
        let mut matrix = ratio.clone();
        for i in 0..self.classes {
            let mut diagonal = zero;
            for j in (0..self.classes).filter(|j| *j != i) {
                let square = b.mulf(ratio[j][i], ratio[j][i]);
                diagonal = b.addf(diagonal, square);
                let product = b.mulf(ratio[j][i], ratio[i][j]);
                matrix[i][j] = b.negf(product);
            }
            matrix[i][i] = diagonal;
        }
        self.iterate(b, &matrix)
    }

    fn iterate(&self, b: &mut Builder, matrix: &[Vec<Value>]) -> Value {
        let equal = b.float(1.0 / self.classes as f64, Element::F32);
        let initial: Vec<Value> = vec![equal; self.classes];
        let carried: Vec<Value> = (0..self.classes).map(|_| b.argument(Type::Scalar(Element::F32))).collect();
        let induction = b.argument(Type::Scalar(Element::Index));
        let bounds = (b.index(0), b.index(100), b.index(1));
        b.open_region();
        let next = self.round(b, matrix, &carried);
        let body = b.close_region();
        let results = b.scf_for(bounds, induction, &carried, &initial, (body, next));
        results.get(self.class).copied().unwrap_or(equal)
    }

    /// Returns the next estimates, or the same where they are exact enough.
    fn round(&self, b: &mut Builder, matrix: &[Vec<Value>], p: &[Value]) -> Vec<Value> {
        let (zero, one, two) = (b.float(0.0, Element::F32), b.float(1.0, Element::F32), b.float(2.0, Element::F32));
        let mut products: Vec<Value> = Vec::new();
        let mut total = zero;
        for (row, own) in matrix.iter().zip(p) {
            let mut sum = zero;
            for (factor, p) in row.iter().zip(p) {
                let product = b.mulf(*factor, *p);
                sum = b.addf(sum, product);
            }
            let weighted = b.mulf(*own, sum);
            total = b.addf(total, weighted);
            products.push(sum);
        }
        let mut error = zero;
        for product in &products {
            let difference = b.subf(*product, total);
            let magnitude = b.absf(difference);
            error = b.maximumf(error, magnitude);
        }
        let limit = b.float(0.005 / self.classes as f64, Element::F32);
        let is_exact = b.cmpf(FloatPredicate::OrderedLess, error, limit);
        let mut next = p.to_vec();
        for (i, row) in matrix.iter().enumerate() {
            let diagonal = row[i];
            let difference = b.subf(total, products[i]);
            let step = b.divf(difference, diagonal);
            next[i] = b.addf(next[i], step);
            let (scaled, doubled) = (b.mulf(step, diagonal), b.mulf(two, products[i]));
            let sum = b.addf(scaled, doubled);
            let change = b.mulf(step, sum);
            let raised = b.addf(total, change);
            let norm = b.addf(one, step);
            let once = b.divf(raised, norm);
            total = b.divf(once, norm);
            for (j, factor) in row.iter().enumerate() {
                let product = b.mulf(step, *factor);
                let sum = b.addf(products[j], product);
                products[j] = b.divf(sum, norm);
                next[j] = b.divf(next[j], norm);
            }
        }
        next.iter().zip(p).map(|(new, old)| b.select(is_exact, *old, *new)).collect()
    }
}
