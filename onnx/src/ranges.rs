//! Ranges of integers that are computed when the module runs, and checks that positions are within an extent.
//!
//! Loop nests clamp positions, so that no call reads or writes memory of others. A position out of range is an error of the call, unless
//! the range of the positions is known to be within the extent. The error is found by a reduction of the positions to a flag, and
//! flags are read at the end of the function, or of the region that they are in: a call waits for them once.

use std::collections::{HashMap, HashSet};

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Element, IntPredicate, Iterator, Map, Value};

use crate::context::Context;
use crate::data_type::{DataType, Kind};
use crate::dim::Dim;
use crate::elements::decode;
use crate::node::{Node, invalid, unsupported};
use crate::tensor::{Data, Item, Scalar, Tensor};

/// The most elements of a constant that are decoded at once.
const CHUNK: usize = 1 << 12;
/// The most distinct expressions among known positions that are compared one by one.
const EXPRESSIONS: usize = 16;

/// What is known of the elements of a tensor of integers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Range {
    /// No element is less.
    low: Option<Dim>,
    /// Each element is less.
    end: Option<Dim>,
    /// Whether the least and the greatest element are the ends of the range, if there are elements.
    is_tight: bool,
}

impl Range {
    /// The positions of an extent.
    fn of_extent(extent: &Dim) -> Range {
        Range { low: Some(Dim::constant(0)), end: Some(extent.clone()), is_tight: false }
    }

    fn is_unknown(&self) -> bool {
        self.low.is_none() && self.end.is_none()
    }

    /// The range of elements of either.
    fn joined(&self, other: &Range) -> Range {
        let both = |a: &Option<Dim>, b: &Option<Dim>| a.clone().zip(b.clone());
        Range {
            low: both(&self.low, &other.low).map(|(a, b)| a.at_most(&b)),
            end: both(&self.end, &other.end).map(|(a, b)| a.at_least(&b)),
            is_tight: false,
        }
    }

    /// The range of sums with a number.
    fn plus(&self, number: &Dim) -> Range {
        let moved = |dim: &Option<Dim>| dim.as_ref().map(|dim| dim.plus(number));
        Range { low: moved(&self.low), end: moved(&self.end), is_tight: self.is_tight }
    }

    fn loose(self) -> Range {
        Range { is_tight: false, ..self }
    }

    /// The range of the lesser of elements of both.
    fn lesser(&self, other: &Range) -> Range {
        let low = self.low.clone().zip(other.low.clone()).map(|(a, b)| a.at_most(&b));
        let end = match (&self.end, &other.end) {
            (Some(a), Some(b)) => Some(a.at_most(b)),
            (a, b) => a.clone().or(b.clone()),
        };
        Range { low, end, is_tight: false }
    }

    /// The range of the greater of elements of both.
    fn greater(&self, other: &Range) -> Range {
        let end = self.end.clone().zip(other.end.clone()).map(|(a, b)| a.at_least(&b));
        let low = match (&self.low, &other.low) {
            (Some(a), Some(b)) => Some(a.at_least(b)),
            (a, b) => a.clone().or(b.clone()),
        };
        Range { low, end, is_tight: false }
    }
}

/// What positions are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Accepted {
    /// From 0 to below the extent.
    Start,
    /// Also negative ones, which count from the end.
    BothEnds,
    /// As [`Accepted::Start`], and one number that stands for no position.
    StartOr(i64),
}

impl Accepted {
    /// Returns the least position.
    fn low(self, extent: &Dim) -> Dim {
        match self {
            Accepted::BothEnds => extent.times(&Dim::constant(-1)),
            Accepted::Start | Accepted::StartOr(_) => Dim::constant(0),
        }
    }

    fn is_exception(self, position: i64) -> bool {
        matches!(self, Accepted::StartOr(exception) if exception == position)
    }

    fn contains(self, position: i64, extent: i64) -> bool {
        let low = if self == Accepted::BothEnds { extent.saturating_neg() } else { 0 };
        (low..extent).contains(&position) || self.is_exception(position)
    }

    /// Emits whether a position is not accepted.
    fn is_outside(self, b: &mut Builder, position: Value, extent: Value) -> Value {
        let (moved, end) = match self {
            Accepted::BothEnds => (b.addi(position, extent), b.addi(extent, extent)),
            Accepted::Start | Accepted::StartOr(_) => (position, extent),
        };
        let is_outside = b.cmpi(IntPredicate::UnsignedGreaterEqual, moved, end);
        let Accepted::StartOr(exception) = self else { return is_outside };
        let exception = b.int(exception, Element::I64);
        let counts = b.cmpi(IntPredicate::NotEqual, position, exception);
        b.andi(is_outside, counts)
    }
}

/// A check whose result is known when the module runs.
#[derive(Debug)]
struct Check {
    /// A tensor without dimensions, of `i32`: 1 for a failure, else 0.
    flag: Value,
    message: String,
}

/// What a check is of: the positions, the extents, and what is accepted.
type CheckKey = (Value, Vec<Dim>, Accepted);

/// What is known of integers in a region.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    ranges: HashMap<Value, Range>,
    /// Checks that need not be emitted again.
    checked: HashSet<CheckKey>,
    /// Checks whose assertions are emitted at the end of the region.
    checks: Vec<Check>,
}

impl Facts {
    /// Adds those of a region that is part of this one.
    pub(crate) fn extend(&mut self, other: Facts) {
        self.ranges.extend(other.ranges);
        self.checked.extend(other.checked);
        self.checks.extend(other.checks);
    }
}

impl Context {
    fn known_range(&self, value: Value) -> Option<Range> {
        self.facts().find_map(|facts| facts.ranges.get(&value)).cloned()
    }

    /// Emits the assertions of the checks in the innermost region.
    pub(crate) fn assert_checks(&mut self) {
        let checks = core::mem::take(&mut self.own_facts().checks);
        let flags: Vec<Value> = checks.iter().map(|check| self.b.extract(check.flag, &[])).collect();
        for (flag, check) in flags.into_iter().zip(checks) {
            let zero = self.b.int(0, Element::I32);
            let fits = self.b.cmpi(IntPredicate::Equal, flag, zero);
            self.b.assert(fits, &check.message);
        }
    }

    /// Returns what is known of the elements of a tensor of integers.
    pub(crate) fn range(&self, tensor: &Tensor) -> Result<Range> {
        let (least, greatest) = match &tensor.data {
            _ if tensor.ty.is_float() => return Ok(Range::default()),
            Data::Value(value) => {
                let known = self.known_range(*value);
                let is_unsigned = tensor.ty.is_unsigned() && tensor.ty.bits() < 64;
                return Ok(known.unwrap_or_else(|| match tensor.ty.range().filter(|_| is_unsigned) {
                    Some((_, greatest)) => {
                        Range::of_extent(&Dim::constant(i64::try_from(greatest + 1).unwrap_or(i64::MAX)))
                    }
                    None => Range::default(),
                }));
            }
            Data::Elements(elements) => {
                let dims: Option<Vec<&Dim>> = elements.iter().map(Scalar::as_int).collect();
                let Some([first, rest @ ..]) = dims.as_deref() else { return Ok(Range::default()) };
                let (mut least, mut greatest) = ((*first).clone(), (*first).clone());
                for dim in rest.iter().copied().filter(|dim| *dim != *first) {
                    (least, greatest) = (least.at_most(dim), greatest.at_least(dim));
                }
                (least, greatest)
            }
            Data::Constant(constant) => {
                let Some(count) = tensor.count().as_constant().and_then(|count| usize::try_from(count).ok()) else {
                    return Ok(Range::default());
                };
                let Some((least, greatest)) = extremes(&constant.bytes()?, tensor.ty, count) else {
                    return Ok(Range::default());
                };
                (Dim::constant(least), Dim::constant(greatest))
            }
        };
        Ok(Range { low: Some(least), end: Some(greatest.plus(&Dim::constant(1))), is_tight: true })
    }

    /// Requires that positions are within an extent: an error now if some are known not to be, or one of the call.
    pub(crate) fn require_positions(
        &mut self,
        positions: &Tensor,
        extent: &Dim,
        accepted: Accepted,
        what: &str,
    ) -> Result<()> {
        self.require_tuples(positions, std::slice::from_ref(extent), accepted, what)
    }

    /// [`Context::require_positions`] for positions whose last dimension has one for each of several extents.
    pub(crate) fn require_tuples(
        &mut self,
        positions: &Tensor,
        extents: &[Dim],
        accepted: Accepted,
        what: &str,
    ) -> Result<()> {
        if !positions.ty.is_int() {
            return unsupported(format!("positions of type {} are not supported", positions.ty.name()));
        }
        if positions.count().is(0) || extents.is_empty() {
            return Ok(());
        }
        let is_unsigned = positions.ty.is_unsigned() && accepted == Accepted::BothEnds;
        let accepted = if is_unsigned { Accepted::Start } else { accepted };
        if let Some(elements) = self.elements(positions)? {
            let mut unknown: Vec<(&Dim, &Dim)> = Vec::new();
            for (element, extent) in elements.iter().zip(extents.iter().cycle()) {
                let Some(position) = element.as_int() else { continue };
                match (position.as_constant(), extent.as_constant()) {
                    (Some(position), Some(extent)) if !accepted.contains(position, extent) => {
                        let range = self.accepted_text(&Dim::constant(extent), accepted);
                        return invalid(format!(
                            "{what} contains {position}, which is out of range; valid elements are {range}"
                        ));
                    }
                    (Some(_), Some(_)) => {}
                    (Some(position), None) if accepted.is_exception(position) => {}
                    _ if unknown.contains(&(position, extent)) => {}
                    _ => unknown.push((position, extent)),
                }
            }
            if unknown.len() <= EXPRESSIONS {
                for (position, extent) in unknown {
                    let end = position.plus(&Dim::constant(1));
                    self.require_range(position, &end, extent, accepted, (&positions.count(), what));
                }
                return Ok(());
            }
        }
        let range = self.range(positions)?;
        if let Range { low: Some(low), end: Some(end), is_tight } = &range {
            let fits =
                |extent: &Dim| low.minus(&accepted.low(extent)).is_nonnegative() && extent.minus(end).is_nonnegative();
            if extents.iter().all(fits) {
                return Ok(());
            }
            if let ([extent], true) = (extents, *is_tight && !matches!(accepted, Accepted::StartOr(_))) {
                if let (Some(low), Some(end), Some(extent)) =
                    (low.as_constant(), end.as_constant(), extent.as_constant())
                {
                    let outside =
                        [low, end.saturating_sub(1)].into_iter().find(|each| !accepted.contains(*each, extent));
                    let Some(outside) = outside else { return Ok(()) };
                    let range = self.accepted_text(&Dim::constant(extent), accepted);
                    return invalid(format!(
                        "{what} contains {outside}, which is out of range; valid elements are {range}"
                    ));
                }
                self.require_range(low, end, extent, accepted, (&positions.count(), what));
                return Ok(());
            }
        }
        self.check_when_run(positions, extents, accepted, what)
    }

    /// Requires that an extent contains a range of positions, whose ends are among them unless there are none.
    fn require_range(&mut self, low: &Dim, end: &Dim, extent: &Dim, accepted: Accepted, (count, what): (&Dim, &str)) {
        let least = accepted.low(extent);
        let mut conditions = Vec::new();
        for (less, greater) in [(&least, low), (end, extent)] {
            if !greater.minus(less).is_nonnegative() {
                let (less, greater) = (self.index(less), self.index(greater));
                conditions.push(self.b.cmpi(IntPredicate::SignedLessEqual, less, greater));
            }
        }
        let Some(fits) = conditions.into_iter().reduce(|a, b| self.b.andi(a, b)) else { return };
        let fits = if count.minus(&Dim::constant(1)).is_nonnegative() {
            fits
        } else {
            let (count, zero) = (self.index(count), self.b.index(0));
            let is_empty = self.b.cmpi(IntPredicate::Equal, count, zero);
            self.b.ori(fits, is_empty)
        };
        let message = self.message(std::slice::from_ref(extent), accepted, what);
        self.assert(fits, &message);
    }

    /// Requires that a count is at most an extent: an error now if it is known to be greater, or one of the call.
    pub(crate) fn require_at_most(&mut self, count: &Dim, extent: &Dim, what: &str) -> Result<()> {
        let difference = extent.minus(count);
        if difference.is_nonnegative() {
            return Ok(());
        }
        let message = format!("{what}: {} is more than {}", self.text(count), self.text(extent));
        if difference.as_constant().is_some() {
            return invalid(message);
        }
        let (count, extent) = (self.index(count), self.index(extent));
        let fits = self.b.cmpi(IntPredicate::SignedLessEqual, count, extent);
        self.assert(fits, &message);
        Ok(())
    }

    /// Emits a reduction of positions to a flag.
    fn check_when_run(&mut self, positions: &Tensor, extents: &[Dim], accepted: Accepted, what: &str) -> Result<()> {
        let value = self.value(positions)?;
        let key = (value, extents.to_vec(), accepted);
        if self.facts().any(|facts| facts.checked.contains(&key)) {
            return Ok(());
        }
        self.own_facts().checked.insert(key);
        let limits: Vec<Value> = extents
            .iter()
            .map(|extent| {
                let extent = self.index(extent);
                self.b.index_cast(extent, Element::I64)
            })
            .collect();
        let (rank, ty) = (positions.rank(), positions.ty);
        let none = self.b.int(0, Element::I32);
        let filled = self.b.fill(none, &[]);
        let maps = [Map::identity(rank), Map::of(rank, &[])];
        let iterators = vec![Iterator::Reduction; rank];
        let flag = self.b.generic_single(&[value], filled, &maps, &iterators, |b, x| {
            let position =
                crate::convert::converted(b, x[0], ty, if ty.is_unsigned() { DataType::U64 } else { DataType::I64 });
            let extent = limit(b, &limits, rank);
            let is_outside = accepted.is_outside(b, position, extent);
            let is_outside = b.extui(is_outside, Element::I32);
            b.ori(x[1], is_outside)
        });
        let message = format!("{}: {}", self.node, self.message(extents, accepted, what));
        self.own_facts().checks.push(Check { flag, message });
        Ok(())
    }

    fn message(&self, extents: &[Dim], accepted: Accepted, what: &str) -> String {
        let ranges: Vec<String> = extents.iter().map(|extent| self.accepted_text(extent, accepted)).collect();
        let valid = match &*ranges {
            [only] => format!("elements are {only}"),
            several => format!("tuples are ({})", several.join(", ")),
        };
        format!("an element of {what} is out of range; valid {valid}")
    }

    /// Names the accepted positions.
    fn accepted_text(&self, extent: &Dim, accepted: Accepted) -> String {
        let last = self.text(&extent.minus(&Dim::constant(1)));
        let range = format!("{} to {last}", self.text(&accepted.low(extent)));
        match accepted {
            Accepted::StartOr(exception) => format!("{range} and {exception}"),
            _ => range,
        }
    }

    /// Keeps what is known of the outputs of a node.
    pub(crate) fn note_ranges(&mut self, node: &Node<'_>, outputs: &[Item]) -> Result<()> {
        for (index, item) in outputs.iter().enumerate() {
            let Item::Tensor(tensor) = item else { continue };
            let Data::Value(value) = tensor.data else { continue };
            if !matches!(tensor.ty, DataType::I32 | DataType::I64) || self.known_range(value).is_some() {
                continue;
            }
            let range = self.output_range(node, index, tensor)?;
            if !range.is_unknown() {
                self.own_facts().ranges.insert(value, range);
            }
        }
        Ok(())
    }

    /// Returns what is known of an output of a node.
    fn output_range(&self, node: &Node<'_>, index: usize, output: &Tensor) -> Result<Range> {
        if !node.proto.domain.is_empty() && node.proto.domain != "ai.onnx" {
            return Ok(Range::default());
        }
        let of = |index: usize| match node.optional(index)? {
            Some(tensor) => self.range(tensor),
            None => Ok(Range::default()),
        };
        let axis_extent = |default: i64| -> Result<Range> {
            let x = node.input(0)?;
            let axis = node.axis("axis", default, x.rank())?;
            Ok(x.shape.get(axis).map(Range::of_extent).unwrap_or_default())
        };
        match (&*node.proto.op_type, index) {
            ("Identity" | "Reshape" | "Transpose" | "Squeeze" | "Unsqueeze" | "Flatten" | "Expand", 0) => of(0),
            ("Slice" | "Gather" | "GatherElements" | "GatherND" | "Tile" | "Compress" | "Unique", 0) | ("Split", _) => {
                of(0).map(Range::loose)
            }
            ("Cast", 0) => self.cast_range(node.input(0)?, output.ty),
            ("ArgMax" | "ArgMin", 0) => axis_extent(0),
            ("TopK", 1) => axis_extent(-1),
            ("NonZero", 0) => Ok(match &*node.input(0)?.shape {
                [first, rest @ ..] if rest.iter().all(|extent| extent == first) => Range::of_extent(first),
                _ => Range::default(),
            }),
            ("Multinomial", 0) => Ok(node.input(0)?.shape.get(1).map(Range::of_extent).unwrap_or_default()),
            ("Range", 0) => {
                let [start, limit, step] = [of(0)?, of(1)?, of(2)?];
                let one = Dim::constant(1);
                let is_step = step.low.as_ref() == Some(&one) && step.is_tight;
                let end = limit.end.map(|end| end.minus(&one)).filter(|_| limit.is_tight);
                Ok(if is_step && start.is_tight { Range { end, ..start } } else { Range::default() })
            }
            ("Add", 0) => {
                let (a, b) = (of(0)?, of(1)?);
                Ok(match (single(&a), single(&b)) {
                    (_, Some(number)) => a.plus(&number),
                    (Some(number), None) => b.plus(&number),
                    (None, None) => Range::default(),
                })
            }
            ("Sub", 0) => Ok(match single(&of(1)?) {
                Some(number) => of(0)?.plus(&number.times(&Dim::constant(-1))),
                None => Range::default(),
            }),
            ("Min", 0) => joined(node, of, Range::lesser),
            ("Max", 0) => joined(node, of, Range::greater),
            ("Concat", 0) => joined(node, of, Range::joined),
            ("Where", 0) => Ok(of(1)?.joined(&of(2)?)),
            ("Clip", 0) => {
                let (range, least, greatest) = (of(0)?, single(&of(1)?), single(&of(2)?));
                // The upper bound holds where it is less than the lower one.
                let low = match (least, &greatest) {
                    (Some(least), Some(greatest)) => Some(least.at_most(greatest)),
                    (least, None) => least.or(range.low),
                    (None, Some(_)) => None,
                };
                let end = greatest.map(|greatest| greatest.plus(&Dim::constant(1))).or(range.end);
                Ok(Range { low, end, is_tight: false })
            }
            ("Mod", 0) if !node.flag("fmod") => Ok(match single(&of(1)?).and_then(|divisor| divisor.as_constant()) {
                Some(divisor) if divisor > 0 => Range::of_extent(&Dim::constant(divisor)),
                _ => Range::default(),
            }),
            _ => Ok(Range::default()),
        }
    }

    /// Returns the range of integers as others.
    fn cast_range(&self, input: &Tensor, ty: DataType) -> Result<Range> {
        if input.ty.kind() == Kind::Bool {
            return Ok(Range::of_extent(&Dim::constant(2)));
        }
        let range = self.range(input)?;
        let fits = |dim: &Option<Dim>| match (dim.as_ref().and_then(Dim::as_constant), ty.range()) {
            // Extents are less than the number of bytes of a machine, and those that are positions are of tensors in it.
            (None, _) => matches!(ty, DataType::I32 | DataType::I64),
            (Some(value), Some((least, greatest))) => (least..=greatest).contains(&i128::from(value)),
            (Some(_), None) => false,
        };
        Ok(if ty.is_int() && fits(&range.low) && fits(&range.end) { range } else { Range::default() })
    }
}

/// Joins the ranges of all inputs.
fn joined(
    node: &Node<'_>,
    of: impl Fn(usize) -> Result<Range>,
    join: impl Fn(&Range, &Range) -> Range,
) -> Result<Range> {
    let mut range = of(0)?;
    for index in 1..node.inputs.len() {
        range = join(&range, &of(index)?);
    }
    Ok(range.loose())
}

/// Returns the only number of a range.
fn single(range: &Range) -> Option<Dim> {
    let (low, end) = (range.low.as_ref()?, range.end.as_ref()?);
    (end.minus(low).is(1)).then(|| low.clone())
}

/// Emits the extent of the position in the last dimension.
fn limit(b: &mut Builder, limits: &[Value], rank: usize) -> Value {
    let Some((first, rest)) = limits.split_first() else { return b.int(0, Element::I64) };
    let mut extent = *first;
    if !rest.is_empty() {
        let column = b.iteration(rank.saturating_sub(1));
        for (index, other) in (1_i64..).zip(rest) {
            let index = b.index(index);
            let is_own = b.cmpi(IntPredicate::Equal, column, index);
            extent = b.select(is_own, *other, extent);
        }
    }
    extent
}

/// Returns the least and the greatest of the elements of a constant of integers.
fn extremes(bytes: &[u8], ty: DataType, count: usize) -> Option<(i64, i64)> {
    let width = usize::try_from(ty.stored_bytes(1)).ok().filter(|_| !ty.is_packed())?;
    let mut extremes = None;
    for chunk in bytes.get(..width.checked_mul(count)?)?.chunks(CHUNK.checked_mul(width)?) {
        for element in decode(chunk, ty, chunk.len().checked_div(width)?)? {
            let number = element.as_int()?.as_constant()?;
            let (least, greatest) = extremes.unwrap_or((number, number));
            extremes = Some((number.min(least), number.max(greatest)));
        }
    }
    extremes
}
