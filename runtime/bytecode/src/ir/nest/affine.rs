//! Affine forms: how an integer depends on the iterations of the loops around it.

use alloc::vec::Vec;

use smallvec::{SmallVec, smallvec};

use super::super::value::Value;

/// Forms of more terms than this are given up.
const MAX_TERMS: usize = 24;

/// A product of a number, loop-invariant values, and at most one iteration index.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Term {
    /// The number.
    pub coefficient: i64,
    /// The values, ascending; `i32` ones stand for signed numbers.
    pub factors: SmallVec<[Value; 2]>,
    /// The loop whose iteration index, from zero, is a factor: an index into [`Nest::loops`](super::Nest::loops).
    pub iteration: Option<usize>,
}

/// A sum of products that is congruent to an integer of the program: modulo 2^64 to an `i64`, modulo 2^32 to an `i32`.
///
/// Arithmetic that wraps keeps the congruence. So a form's exact value is the integer itself wherever it is in the range of
/// the integer's type, and may be computed with wrapping arithmetic of 64 bits up to the last addition of a term with an iteration index.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Affine {
    /// Ordered, without duplicates but for coefficients, none of which is zero.
    terms: Vec<Term>,
}

impl Affine {
    /// A number.
    #[must_use]
    pub fn constant(number: i64) -> Affine {
        Affine::term(number, SmallVec::new(), None)
    }

    /// A loop-invariant value.
    #[must_use]
    pub fn invariant(value: Value) -> Affine {
        Affine::term(1, smallvec![value], None)
    }

    /// The index of a loop's current iteration, from zero.
    #[must_use]
    pub fn iteration(of: usize) -> Affine {
        Affine::term(1, SmallVec::new(), Some(of))
    }

    fn term(coefficient: i64, factors: SmallVec<[Value; 2]>, iteration: Option<usize>) -> Affine {
        let terms = if coefficient == 0 { Vec::new() } else { alloc::vec![Term { coefficient, factors, iteration }] };
        Affine { terms }
    }

    /// All terms.
    #[must_use]
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// The terms without an iteration index: the value in the first iteration of all loops.
    pub fn base(&self) -> impl Iterator<Item = &Term> + Clone {
        self.terms.iter().filter(|term| term.iteration.is_none())
    }

    /// The terms with the iteration index of a loop: how much each iteration adds.
    pub fn stride(&self, of: usize) -> impl Iterator<Item = &Term> + Clone {
        self.terms.iter().filter(move |term| term.iteration == Some(of))
    }

    /// Whether an iteration of a loop changes it.
    #[must_use]
    pub fn moves_along(&self, at: usize) -> bool {
        self.stride(at).next().is_some()
    }

    /// The loops whose iteration indices occur in the form, ascending.
    #[must_use]
    pub fn loops(&self) -> Vec<usize> {
        let mut loops: Vec<usize> = self.terms.iter().filter_map(|term| term.iteration).collect();
        loops.sort_unstable();
        loops.dedup();
        loops
    }

    /// Whether it is the same in all iterations.
    #[must_use]
    pub fn is_invariant(&self) -> bool {
        self.terms.iter().all(|term| term.iteration.is_none())
    }

    /// The number, if it is a constant.
    #[must_use]
    pub fn as_constant(&self) -> Option<i64> {
        number(self.terms.iter()).filter(|_| self.is_invariant())
    }

    /// The value in the first iteration of all loops, if that is a constant.
    #[must_use]
    pub fn as_constant_base(&self) -> Option<i64> {
        number(self.base())
    }

    /// The amount by which each iteration of a loop changes it, if that is a constant.
    #[must_use]
    pub fn constant_stride(&self, of: usize) -> Option<i64> {
        number(self.stride(of))
    }

    /// Puts a form in the place of a value; None where that is no affine form or has too many terms.
    pub(super) fn without(&self, value: Value) -> Option<Affine> {
        let mut rest = self.clone();
        let one = Affine::invariant(value);
        let position = rest.terms.iter().position(|term| *term == one.terms[0])?;
        rest.terms.remove(position);
        rest.terms.iter().all(|term| !term.factors.contains(&value)).then_some(rest)
    }

    /// The sum; None where it has too many terms. So do the others.
    #[must_use]
    pub fn add(&self, other: &Affine) -> Option<Affine> {
        let terms = self.terms.iter().chain(&other.terms).cloned();
        Affine::sum(terms.collect())
    }

    /// The difference.
    #[must_use]
    pub fn sub(&self, other: &Affine) -> Option<Affine> {
        self.add(&other.scale(-1)?)
    }

    /// The product with a number.
    #[must_use]
    pub fn scale(&self, number: i64) -> Option<Affine> {
        let scaled = |term: &Term| Term { coefficient: term.coefficient.wrapping_mul(number), ..term.clone() };
        Affine::sum(self.terms.iter().map(scaled).collect())
    }

    /// The product; None also where it has a product of iteration indices.
    #[must_use]
    pub fn mul(&self, other: &Affine) -> Option<Affine> {
        if self.terms.len() * other.terms.len() > MAX_TERMS * 2 {
            return None;
        }
        let mut terms = Vec::new();
        for left in &self.terms {
            for right in &other.terms {
                if left.iteration.is_some() && right.iteration.is_some() {
                    return None;
                }
                let mut factors: SmallVec<[Value; 2]> = left.factors.iter().chain(&right.factors).copied().collect();
                if factors.len() > 4 {
                    return None;
                }
                factors.sort_unstable();
                let coefficient = left.coefficient.wrapping_mul(right.coefficient);
                terms.push(Term { coefficient, factors, iteration: left.iteration.or(right.iteration) });
            }
        }
        Affine::sum(terms)
    }

    fn sum(mut terms: Vec<Term>) -> Option<Affine> {
        terms.sort_by(|left, right| (left.iteration, &left.factors).cmp(&(right.iteration, &right.factors)));
        let mut sum: Vec<Term> = Vec::with_capacity(terms.len());
        for term in terms {
            match sum.last_mut() {
                Some(last) if last.iteration == term.iteration && last.factors == term.factors => {
                    last.coefficient = last.coefficient.wrapping_add(term.coefficient);
                }
                _ => sum.push(term),
            }
        }
        sum.retain(|term| term.coefficient != 0);
        (sum.len() <= MAX_TERMS).then_some(Affine { terms: sum })
    }
}

/// The sum of coefficients of terms that have no values in them.
fn number<'a>(terms: impl Iterator<Item = &'a Term>) -> Option<i64> {
    let mut sum = 0i64;
    for term in terms {
        if !term.factors.is_empty() {
            return None;
        }
        sum = sum.wrapping_add(term.coefficient);
    }
    Some(sum)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn terms_that_differ_in_coefficients_become_one() {
        let (v, k) = (Affine::invariant(Value(3)), Affine::iteration(1));
        let sum = k.scale(4).unwrap().add(&v).unwrap().add(&k).unwrap().sub(&v).unwrap();
        assert_eq!(sum, k.scale(5).unwrap());
        assert_eq!((sum.constant_stride(1), sum.constant_stride(0), sum.as_constant()), (Some(5), Some(0), None));
        assert_eq!(sum.sub(&sum).unwrap().as_constant(), Some(0));
    }

    #[test]
    fn turns_are_multiplied_by_values_and_not_by_turns() {
        let (v, w, k) = (Affine::invariant(Value(3)), Affine::invariant(Value(1)), Affine::iteration(0));
        let product = k.add(&Affine::constant(2)).unwrap().mul(&v).unwrap().mul(&w).unwrap();
        assert_eq!(product.loops(), [0]);
        assert_eq!(product.stride(0).next().unwrap().factors[..], [Value(1), Value(3)]);
        assert_eq!(product.base().next().unwrap().coefficient, 2);
        assert!(product.constant_stride(0).is_none() && product.mul(&k).is_none());
    }

    #[test]
    fn forms_stay_small() {
        let mut sum = Affine::default();
        for value in 0..MAX_TERMS as u32 {
            sum = sum.add(&Affine::invariant(Value(value))).unwrap();
        }
        assert!(sum.add(&Affine::iteration(0)).is_none());
        assert!(sum.mul(&sum).is_none());
    }

    #[test]
    fn coefficients_wrap() {
        let large = Affine::iteration(0).scale(i64::MAX).unwrap();
        assert_eq!(large.add(&large).unwrap().constant_stride(0), Some(-2));
    }
}
