//! Affine maps of loop dimensions, which say what a `linalg.generic` accesses.

use core::fmt;

/// A sum of multiples of loop dimensions and a constant, such as `d1 * 2 + d3 + 1`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expression {
    terms: Vec<(usize, i64)>,
    constant: i64,
}

impl Expression {
    /// The loop dimension of an index.
    #[must_use]
    pub fn dimension(index: usize) -> Expression {
        Expression { terms: vec![(index, 1)], constant: 0 }
    }

    /// A constant.
    #[must_use]
    pub fn constant(value: i64) -> Expression {
        Expression { terms: Vec::new(), constant: value }
    }

    /// Adds a multiple of a loop dimension.
    #[must_use]
    pub fn plus(mut self, index: usize, factor: i64) -> Expression {
        self.terms.push((index, factor));
        self
    }

    /// Multiplies all terms and the constant.
    #[must_use]
    pub fn times(mut self, factor: i64) -> Expression {
        self.terms.iter_mut().for_each(|term| term.1 = term.1.wrapping_mul(factor));
        self.constant = self.constant.wrapping_mul(factor);
        self
    }

    fn greatest_dimension(&self) -> Option<usize> {
        self.terms.iter().map(|term| term.0).max()
    }

    /// Returns the loop dimension if the expression is nothing else.
    #[must_use]
    pub fn as_dimension(&self) -> Option<usize> {
        match (&*self.terms, self.constant) {
            ([(index, 1)], 0) => Some(*index),
            _ => None,
        }
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut is_first = true;
        for (index, factor) in self.terms.iter().filter(|term| term.1 != 0) {
            if !core::mem::take(&mut is_first) {
                f.write_str(" + ")?;
            }
            write!(f, "d{index}")?;
            if *factor != 1 {
                write!(f, " * {factor}")?;
            }
        }
        match (is_first, self.constant) {
            (true, constant) => write!(f, "{constant}"),
            (false, 0) => Ok(()),
            (false, constant) => write!(f, " + {constant}"),
        }
    }
}

/// Maps loop dimensions to the position of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    dimensions: usize,
    results: Vec<Expression>,
}

impl Map {
    /// Creates a map of a number of loop dimensions.
    #[must_use]
    pub fn new(dimensions: usize, results: Vec<Expression>) -> Map {
        Map { dimensions, results }
    }

    /// The map of each dimension to itself.
    #[must_use]
    pub fn identity(rank: usize) -> Map {
        Map::of(rank, &(0..rank).collect::<Vec<_>>())
    }

    /// The map to some of the dimensions, in this order.
    #[must_use]
    pub fn of(dimensions: usize, results: &[usize]) -> Map {
        Map::new(dimensions, results.iter().map(|index| Expression::dimension(*index)).collect())
    }

    /// Returns the expressions.
    #[must_use]
    pub fn results(&self) -> &[Expression] {
        &self.results
    }

    /// Returns the number of loop dimensions.
    #[must_use]
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Returns true if all expressions name dimensions that the map has.
    pub(crate) fn is_valid(&self) -> bool {
        self.results.iter().all(|each| each.greatest_dimension().is_none_or(|index| index < self.dimensions))
    }
}

impl fmt::Display for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("affine_map<(")?;
        for index in 0..self.dimensions {
            write!(f, "{}d{index}", if index == 0 { "" } else { ", " })?;
        }
        f.write_str(") -> (")?;
        for (index, result) in self.results.iter().enumerate() {
            write!(f, "{}{result}", if index == 0 { "" } else { ", " })?;
        }
        f.write_str(")>")
    }
}
