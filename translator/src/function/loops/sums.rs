//! The sums of products that strips compute between loops over lanes.

use std::collections::{BTreeMap, BTreeSet};

use incarnate_bytecode::ir::Value;
use proc_macro2::{Ident, TokenStream};
use quote::format_ident;

/// How the factors of a sum of products are stored.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// Two of 16 bits.
    Pairs,
    /// Four of 8 bits, of which the left ones have no sign.
    Quads,
    /// Four of 8 bits with a sign.
    SignedQuads,
}

/// The factors of a sum of products.
pub(super) struct Factors {
    pub(super) form: Form,
    pub(super) left: Vec<Value>,
    pub(super) right: Vec<Value>,
}

impl Factors {
    /// The factors of products.
    pub(super) fn of(form: Form, products: impl Iterator<Item = (Value, Value)>) -> Factors {
        let (left, right) = products.unzip();
        Factors { form, left, right }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = Value> {
        self.left.iter().chain(&self.right).copied()
    }
}

/// The sums of products of a strip, and what is computed before and after them.
#[derive(Default)]
pub(super) struct Sums {
    pub(super) all: BTreeMap<Value, Factors>,
    /// What the factors are computed from, and they themselves.
    pub(super) before: BTreeSet<Value>,
    /// What is stored, and what that is computed from, as far as it is computed from sums.
    pub(super) after: BTreeSet<Value>,
}

impl Sums {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether an instruction with these results runs before the sums are computed.
    pub(super) fn runs_before(&self, results: &[Value]) -> bool {
        results.iter().any(|result| self.before.contains(result))
    }

    /// Whether an instruction with these results runs in the loop that stores: all do where there are no such sums.
    pub(super) fn runs_after(&self, results: &[Value]) -> bool {
        self.is_empty() || results.iter().any(|result| self.after.contains(result))
    }

    /// Whether an instruction computes a sum.
    pub(super) fn is_sum(&self, result: Value) -> bool {
        self.all.contains_key(&result)
    }
}

/// The array of the sums of the lanes, of which the name of a lane's sum is given.
pub(super) fn sums_of_lanes(sum: &TokenStream) -> Ident {
    format_ident!("sums_{}", sum.to_string())
}
