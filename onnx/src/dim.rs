//! Extents that are known when the model is imported, or expressions of those that are known when it runs.

use core::cmp::Ordering;
use core::fmt;
use std::rc::Rc;

/// An extent, or an element of a small tensor of integers: a polynomial of atoms with integer coefficients. Two expressions that are
/// equal as polynomials are equal.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dim(Rc<Terms>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Terms {
    /// The nesting of atoms.
    depth: u32,
    /// Products of sorted atoms with their coefficients, which are not 0, sorted by the products.
    terms: Vec<(Vec<Atom>, i64)>,
}

/// A factor of a term.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Atom {
    /// An extent, which is not negative, by its number among the symbols of the import.
    Symbol(u32),
    /// An integer of any sign, by its number among the symbols of the import.
    Integer(u32),
    /// A binary operation that is no polynomial.
    Operation(Operation, Dim, Dim),
}

/// Operations on integers that are no polynomials, and products of long polynomials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Operation {
    /// Rounded down.
    FloorDiv,
    Min,
    Max,
    /// A product that is not expanded.
    Product,
    /// The exact quotient by a positive constant, which only elements of floats have.
    Ratio,
}

/// The most terms of a product that is expanded.
const TERMS: usize = 16;

impl Dim {
    /// A constant.
    #[must_use]
    pub fn constant(value: i64) -> Dim {
        Dim::of(if value == 0 { Vec::new() } else { vec![(Vec::new(), value)] })
    }

    pub(crate) fn symbol(number: u32) -> Dim {
        Dim::of(vec![(vec![Atom::Symbol(number)], 1)])
    }

    /// An integer that may be negative.
    pub(crate) fn integer(number: u32) -> Dim {
        Dim::of(vec![(vec![Atom::Integer(number)], 1)])
    }

    /// Returns true if no term can be negative. False says nothing.
    pub(crate) fn is_nonnegative(&self) -> bool {
        self.lower_bound().is_some_and(|bound| bound >= 0)
    }

    fn atom(atom: Atom) -> Dim {
        Dim::of(vec![(vec![atom], 1)])
    }

    fn of(terms: Vec<(Vec<Atom>, i64)>) -> Dim {
        let atoms = terms.iter().flat_map(|term| &term.0);
        let depth = atoms.map(|atom| match atom {
            Atom::Symbol(_) | Atom::Integer(_) => 0,
            Atom::Operation(_, a, b) => 1 + a.depth().max(b.depth()),
        });
        Dim(Rc::new(Terms { depth: depth.max().unwrap_or(0), terms }))
    }

    /// Returns the nesting of operations that are no polynomials.
    pub(crate) fn depth(&self) -> u32 {
        self.0.depth
    }

    /// Returns true if all symbols have numbers below a limit.
    pub(crate) fn is_below(&self, limit: u32) -> bool {
        self.terms().iter().flat_map(|term| &term.0).all(|atom| match atom {
            Atom::Symbol(number) | Atom::Integer(number) => *number < limit,
            Atom::Operation(_, a, b) => a.is_below(limit) && b.is_below(limit),
        })
    }

    /// Returns the products with their coefficients.
    pub(crate) fn terms(&self) -> &[(Vec<Atom>, i64)] {
        &self.0.terms
    }

    /// Returns the value if it is known.
    #[must_use]
    pub fn as_constant(&self) -> Option<i64> {
        match self.terms() {
            [] => Some(0),
            [(atoms, value)] if atoms.is_empty() => Some(*value),
            _ => None,
        }
    }

    /// Returns true for the constant.
    #[must_use]
    pub fn is(&self, value: i64) -> bool {
        self.as_constant() == Some(value)
    }

    /// Collects equal products. Coefficients that overflow saturate: such extents are refused where they are used.
    fn collected(mut terms: Vec<(Vec<Atom>, i64)>) -> Dim {
        terms.sort_by(|a, b| a.0.cmp(&b.0));
        let mut collected: Vec<(Vec<Atom>, i64)> = Vec::with_capacity(terms.len());
        for (atoms, coefficient) in terms {
            match collected.last_mut() {
                Some(last) if last.0 == atoms => last.1 = last.1.saturating_add(coefficient),
                _ => collected.push((atoms, coefficient)),
            }
        }
        collected.retain(|term| term.1 != 0);
        Dim::of(collected)
    }

    /// The sum.
    #[must_use]
    pub fn plus(&self, other: &Dim) -> Dim {
        Dim::collected(self.terms().iter().chain(other.terms()).cloned().collect())
    }

    /// The difference.
    #[must_use]
    pub fn minus(&self, other: &Dim) -> Dim {
        self.plus(&other.times(&Dim::constant(-1)))
    }

    /// The product.
    #[must_use]
    pub fn times(&self, other: &Dim) -> Dim {
        if self.terms().len() > 1 && other.terms().len() > 1 && self.terms().len() * other.terms().len() > TERMS {
            let (a, b) = if self <= other { (self, other) } else { (other, self) };
            return Dim::atom(Atom::Operation(Operation::Product, a.clone(), b.clone()));
        }
        let mut terms = Vec::new();
        for (left, x) in self.terms() {
            for (right, y) in other.terms() {
                let mut atoms: Vec<Atom> = left.iter().chain(right).cloned().collect();
                atoms.sort();
                terms.push((atoms, x.saturating_mul(*y)));
            }
        }
        Dim::collected(terms)
    }

    /// The quotient, rounded down, by a divisor that is positive; 0 by 0.
    #[must_use]
    pub fn floor_div(&self, divisor: &Dim) -> Dim {
        match (self.as_constant(), divisor.as_constant()) {
            (_, Some(1)) => return self.clone(),
            (Some(value), Some(divisor)) => {
                return Dim::constant(if divisor == 0 { 0 } else { value.wrapping_div_euclid(divisor) });
            }
            _ => {}
        }
        if let Some(exact) = self.exact_quotient(divisor) {
            return exact;
        }
        let (whole, rest) = match divisor.as_constant() {
            Some(number) if number > 1 => self.multiples(number),
            _ => (Dim::constant(0), self.clone()),
        };
        if rest.as_constant().is_some() && divisor.as_constant().is_some() {
            // Less than the divisor, which is a constant.
            return whole;
        }
        whole.plus(&Dim::atom(Atom::Operation(Operation::FloorDiv, rest, divisor.clone())))
    }

    /// Splits into a multiple of a number, which is returned as the quotient, and the rest: so that `(n - 1) / 2 + 1` and `(n + 1) / 2`
    /// are equal. The constant of the rest is not negative and less than the number.
    fn multiples(&self, number: i64) -> (Dim, Dim) {
        let (mut whole, mut rest) = (Vec::new(), Vec::new());
        for (atoms, coefficient) in self.terms() {
            let left = if atoms.is_empty() { coefficient.rem_euclid(number) } else { coefficient % number };
            let left = if left != 0 && !atoms.is_empty() { *coefficient } else { left };
            whole.push((atoms.clone(), (coefficient.saturating_sub(left)) / number));
            rest.push((atoms.clone(), left));
        }
        (Dim::collected(whole), Dim::collected(rest))
    }

    /// The quotient, rounded up.
    #[must_use]
    pub fn ceil_div(&self, divisor: &Dim) -> Dim {
        self.plus(divisor).minus(&Dim::constant(1)).floor_div(divisor)
    }

    /// The rest of the division that rounds down.
    #[must_use]
    pub fn modulo(&self, divisor: &Dim) -> Dim {
        self.minus(&self.floor_div(divisor).times(divisor))
    }

    /// The quotient if every term is a multiple of a divisor of one term.
    #[must_use]
    pub fn exact_quotient(&self, divisor: &Dim) -> Option<Dim> {
        if self == divisor && !self.is(0) {
            return Some(Dim::constant(1));
        }
        let [(atoms, coefficient)] = divisor.terms() else { return None };
        let mut terms = Vec::with_capacity(self.terms().len());
        for (product, value) in self.terms() {
            let mut left = product.clone();
            for atom in atoms {
                let position = left.iter().position(|other| other == atom)?;
                left.remove(position);
            }
            if value.checked_rem(*coefficient)? != 0 {
                return None;
            }
            terms.push((left, value / coefficient));
        }
        Some(Dim::collected(terms))
    }

    /// The lesser.
    #[must_use]
    pub fn at_most(&self, other: &Dim) -> Dim {
        self.extreme(other, Operation::Min, Ordering::Less)
    }

    /// The greater.
    #[must_use]
    pub fn at_least(&self, other: &Dim) -> Dim {
        self.extreme(other, Operation::Max, Ordering::Greater)
    }

    fn extreme(&self, other: &Dim, operation: Operation, wanted: Ordering) -> Dim {
        let difference = self.minus(other);
        match difference.as_constant() {
            Some(0) => self.clone(),
            Some(difference) if difference.cmp(&0) == wanted => self.clone(),
            Some(_) => other.clone(),
            None => {
                let (greater, less) = match (self.is_not_less(other), other.is_not_less(self)) {
                    (true, _) => (self, other),
                    (_, true) => (other, self),
                    _ => {
                        let (a, b) = if self <= other { (self, other) } else { (other, self) };
                        return Dim::atom(Atom::Operation(operation, a.clone(), b.clone()));
                    }
                };
                if wanted == Ordering::Greater { greater.clone() } else { less.clone() }
            }
        }
    }

    /// Returns true if the value cannot be below another's. False says nothing.
    fn is_not_less(&self, other: &Dim) -> bool {
        if self.minus(other).is_nonnegative() {
            return true;
        }
        let is_at_least = |a: &Dim, b: &Dim| a.minus(b).is_nonnegative();
        let of_other = match other.as_operation() {
            Some((Operation::Max, a, b)) => is_at_least(self, a) && is_at_least(self, b),
            Some((Operation::Min, a, b)) => is_at_least(self, a) || is_at_least(self, b),
            _ => false,
        };
        of_other
            || match self.as_operation() {
                Some((Operation::Max, a, b)) => is_at_least(a, other) || is_at_least(b, other),
                Some((Operation::Min, a, b)) => is_at_least(a, other) && is_at_least(b, other),
                _ => false,
            }
    }

    /// Returns the operation if the expression is nothing else.
    fn as_operation(&self) -> Option<(Operation, &Dim, &Dim)> {
        match self.terms() {
            [(atoms, 1)] => match &**atoms {
                [Atom::Operation(operation, a, b)] => Some((*operation, a, b)),
                _ => None,
            },
            _ => None,
        }
    }

    /// The exact quotient by a constant other than 0, as an element of floats.
    #[must_use]
    pub(crate) fn ratio(&self, divisor: i64) -> Option<Dim> {
        let negative = Dim::constant(-1);
        let (numerator, divisor) =
            if divisor < 0 { (self.times(&negative), divisor.checked_neg()?) } else { (self.clone(), divisor) };
        let common = numerator.terms().iter().fold(divisor, |common, term| gcd(common, term.1));
        let numerator = numerator.exact_quotient(&Dim::constant(common))?;
        let divisor = divisor.checked_div(common)?;
        if divisor == 1 {
            return Some(numerator);
        }
        Some(Dim::atom(Atom::Operation(Operation::Ratio, numerator, Dim::constant(divisor))))
    }

    /// Returns an element of floats as the quotient of an expression and a positive constant.
    #[must_use]
    pub(crate) fn as_ratio(&self) -> (Dim, i64) {
        if let [(atoms, 1)] = self.terms()
            && let [Atom::Operation(Operation::Ratio, numerator, divisor)] = &**atoms
        {
            return (numerator.clone(), divisor.as_constant().unwrap_or(1));
        }
        (self.clone(), 1)
    }

    /// Returns a number that the value is not below, if one is known. Symbols are not negative.
    #[must_use]
    pub(crate) fn lower_bound(&self) -> Option<i64> {
        self.terms().iter().try_fold(0_i64, |sum, (atoms, coefficient)| {
            let mut bound = *coefficient;
            if bound < 0 && !atoms.is_empty() {
                return None;
            }
            match &**atoms {
                // A single atom may be bounded by a negative number.
                [only] => bound = bound.checked_mul(only.lower_bound()?)?,
                several => {
                    for atom in several {
                        bound = bound.checked_mul(atom.lower_bound().filter(|bound| *bound >= 0)?)?;
                    }
                }
            }
            sum.checked_add(bound)
        })
    }

    /// The product of several.
    #[must_use]
    pub fn product<'a>(dims: impl IntoIterator<Item = &'a Dim>) -> Dim {
        dims.into_iter().fold(Dim::constant(1), |product, dim| product.times(dim))
    }

    /// The sum of several.
    #[must_use]
    pub fn sum<'a>(dims: impl IntoIterator<Item = &'a Dim>) -> Dim {
        dims.into_iter().fold(Dim::constant(0), |sum, dim| sum.plus(dim))
    }

    /// Writes the expression with the names of symbols.
    pub(crate) fn text(&self, name: &dyn Fn(u32) -> String) -> String {
        let terms: Vec<String> = self
            .terms()
            .iter()
            .rev()
            .map(|(atoms, coefficient)| {
                let atoms: Vec<String> = atoms.iter().map(|atom| atom.text(name)).collect();
                match (*coefficient, atoms.join("*")) {
                    (value, product) if product.is_empty() => value.to_string(),
                    (1, product) => product,
                    (-1, product) => format!("-{product}"),
                    (value, product) => format!("{value}*{product}"),
                }
            })
            .collect();
        if terms.is_empty() { "0".to_owned() } else { terms.join("+").replace("+-", "-") }
    }
}

/// The greatest common divisor; that of 0 and 0 is 1.
fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i64::try_from(a.max(1)).unwrap_or(1)
}

impl Atom {
    fn lower_bound(&self) -> Option<i64> {
        match self {
            Atom::Symbol(_) => Some(0),
            Atom::Integer(_) => None,
            Atom::Operation(operation, a, b) => {
                let (x, y) = (a.lower_bound(), b.lower_bound());
                match operation {
                    Operation::Min => Some(x?.min(y?)),
                    Operation::Max => x.max(y),
                    Operation::FloorDiv => match b.as_constant() {
                        Some(divisor) if divisor > 0 => Some(x?.div_euclid(divisor)),
                        _ => (x? >= 0 && y? >= 0).then_some(0),
                    },
                    Operation::Product => (x? >= 0 && y? >= 0).then_some(0),
                    Operation::Ratio => (x? >= 0).then_some(0),
                }
            }
        }
    }

    fn text(&self, name: &dyn Fn(u32) -> String) -> String {
        match self {
            Atom::Symbol(number) | Atom::Integer(number) => name(*number),
            Atom::Operation(operation, a, b) => {
                let (a, b) = (a.text(name), b.text(name));
                match operation {
                    Operation::FloorDiv => format!("floor({a}/({b}))"),
                    Operation::Min => format!("min({a},{b})"),
                    Operation::Max => format!("max({a},{b})"),
                    Operation::Product => format!("({a})*({b})"),
                    Operation::Ratio => format!("({a})/{b}"),
                }
            }
        }
    }
}

impl From<i64> for Dim {
    fn from(value: i64) -> Dim {
        Dim::constant(value)
    }
}

impl fmt::Debug for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(&|number| format!("s{number}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn n() -> Dim {
        Dim::symbol(0)
    }

    #[test]
    fn equal_polynomials_are_equal() {
        let m = Dim::symbol(1);
        let sum = n().plus(&m).times(&n().minus(&m));
        assert_eq!(sum, n().times(&n()).minus(&m.times(&m)));
        assert_eq!(n().minus(&n()).as_constant(), Some(0));
        assert_eq!(format!("{:?}", n().times(&Dim::constant(2)).plus(&Dim::constant(3))), "2*s0+3");
    }

    #[test]
    fn quotients_cancel() {
        let four = Dim::constant(4);
        assert_eq!(n().times(&four).floor_div(&four), n());
        assert_eq!(n().times(&four).floor_div(&n()), four);
        assert_eq!(Dim::constant(-7).floor_div(&Dim::constant(2)).as_constant(), Some(-4));
        assert_eq!(Dim::constant(7).ceil_div(&Dim::constant(2)).as_constant(), Some(4));
        assert_eq!(n().plus(&Dim::constant(1)).floor_div(&Dim::constant(2)).as_constant(), None);
        assert_eq!(n().times(&four).modulo(&four).as_constant(), Some(0));
        let (one, two) = (Dim::constant(1), Dim::constant(2));
        assert_eq!(n().minus(&one).floor_div(&two).plus(&one), n().plus(&one).floor_div(&two));
        assert_eq!(
            n().times(&four).plus(&Dim::symbol(1)).floor_div(&two),
            n().times(&two).plus(&Dim::symbol(1).floor_div(&two))
        );
    }

    #[test]
    fn ratios_are_reduced() {
        let half = n().ratio(2).unwrap_or_else(n);
        assert_eq!(half.as_ratio(), (n(), 2));
        assert_eq!(n().times(&Dim::constant(6)).ratio(-2), Some(n().times(&Dim::constant(-3))));
        assert_eq!(
            n().times(&Dim::constant(6)).ratio(4).map(|ratio| ratio.as_ratio()),
            Some((n().times(&Dim::constant(3)), 2))
        );
    }

    #[test]
    fn lower_bounds_assume_symbols_that_are_not_negative() {
        let less = n().minus(&Dim::constant(2));
        assert_eq!(n().lower_bound(), Some(0));
        assert_eq!(less.lower_bound(), Some(-2));
        assert_eq!(Dim::constant(3).minus(&n()).lower_bound(), None);
        assert_eq!(less.floor_div(&Dim::constant(2)).plus(&Dim::constant(1)).lower_bound(), Some(0));
        assert_eq!(less.at_least(&Dim::constant(0)).lower_bound(), Some(0));
    }

    #[test]
    fn extremes_of_a_constant_distance_are_decided() {
        let next = n().plus(&Dim::constant(1));
        assert_eq!(n().at_least(&next), next);
        assert_eq!(n().at_most(&next), n());
        assert_eq!(n().at_least(&Dim::symbol(1)), Dim::symbol(1).at_least(&n()));
    }

    #[test]
    fn extremes_use_that_extents_are_not_negative() {
        let (zero, m, i) = (Dim::constant(0), Dim::symbol(1), Dim::integer(2));
        assert_eq!(n().at_least(&zero), n());
        assert_eq!(n().plus(&m).at_most(&n()), n());
        assert_eq!(n().at_least(&n().plus(&m)), n().plus(&m));
        assert!(!i.is_nonnegative() && !n().minus(&m).is_nonnegative());
        assert!(i.at_least(&zero).is_nonnegative() && !i.at_most(&n()).is_nonnegative());
        assert_ne!(i.at_least(&zero), i);
    }
}
