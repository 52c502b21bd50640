//! Emission of trip counts, and of the affine forms of indices and bounds.

use incarnate_bytecode::ir::Type;
use incarnate_bytecode::ir::nest::{Affine, Counted, Term};
use incarnate_bytecode::trip_count::Relation;
use proc_macro2::{Literal, TokenStream};
use quote::quote;

use super::super::shared;
use super::writer::{Parameters, Writer, count};

/// The least trip count for which code for any trip count is as fast as that for a constant one: vectorised loops of 4 vectors of 16
/// elements then spend three quarters of their iterations in vectors, and more.
const LONG_LOOP: u64 = 256;

impl Writer<'_, '_, '_> {
    /// The trip count of a loop, as an option.
    pub(super) fn trip_count(&self, counted: &Counted) -> TokenStream {
        let test = &counted.test;
        let (first, bound) = (self.form(test.first.base()), self.form(test.bound.base()));
        let as_type = |form: TokenStream, of: &Affine| match (test.ty, test.signed, of.as_constant()) {
            (Type::i64, true, Some(_)) => quote!(#form),
            (Type::i64, true, None) => form,
            (Type::i64, false, Some(number)) => unsigned(number as u64),
            (Type::i64, false, None) => quote!(#form as u64),
            (_, true, Some(number)) => integer(i64::from(number as i32)),
            (_, false, Some(number)) => unsigned(u64::from(number as u32)),
            // A form that is a single value of 32 bits needs no conversion.
            (_, signed, None) => {
                let narrow = self.narrow(of).unwrap_or_else(|| quote!(#form as i32));
                if signed { narrow } else { quote!(#narrow as u32) }
            }
        };
        let ty = match (test.ty, test.signed) {
            (Type::i64, true) => quote!(i64),
            (Type::i64, false) => quote!(u64),
            (_, true) => quote!(i32),
            (_, false) => quote!(u32),
        };
        let (first, bound) = (as_type(first, &test.first), as_type(bound, &test.bound));
        let (step, relation) = (integer(test.step), relation(test.relation));
        let count = quote!(support::trip_count::<#ty>(#first, #step, support::Relation::#relation, #bound));
        if counted.tested_last { quote!(#count.and_then(|count| count.checked_add(1))) } else { count }
    }

    /// The name of a form that is a single value of 32 bits.
    fn narrow(&self, form: &Affine) -> Option<TokenStream> {
        let [Term { coefficient: 1, factors, iteration: None }] = form.terms() else { return None };
        let [value] = factors[..] else { return None };
        (self.emitter.body.function.ty(value) == Type::i32).then(|| self.emitter.name(value))
    }

    /// The trip count of a loop and of those that are merged with it, unless it may become a parameter.
    pub(super) fn literal_count(&self, at: usize) -> Option<u64> {
        self.scheduled.trip_count(at).filter(|known| !self.is_parameter(at, *known >= LONG_LOOP))
    }

    /// The base of a form, and the trip count and stride of each loop that it depends on.
    pub(super) fn extent(&self, form: &Affine) -> (TokenStream, TokenStream) {
        let loops = self.loops_of(form);
        (self.form(form.base()), quote!([#(#loops),*]))
    }

    /// The trip count and stride of each loop that a form depends on.
    pub(super) fn loops_of(&self, form: &Affine) -> Vec<TokenStream> {
        let loops = self.scheduled.axes(form).into_iter().map(|at| {
            let (count, stride) = (count(at), self.stride(form, at));
            quote!((#count, #stride))
        });
        loops.collect()
    }

    /// Whether a constant of a loop may become a parameter; `is_long` says that this is so for an innermost loop, too.
    pub(super) fn is_parameter(&self, at: usize, is_long: bool) -> bool {
        let is_around = || self.nest.loops.iter().any(|counted| counted.parent == Some(at));
        match self.parameters {
            Parameters::None => false,
            Parameters::Outer => is_long || is_around(),
            Parameters::All => true,
        }
    }

    /// The stride of a form along a loop.
    pub(super) fn stride(&self, form: &Affine, at: usize) -> TokenStream {
        self.sum(form.stride(at), self.is_parameter(at, false))
    }

    /// The sum of terms without their loop indices, as an `i64`.
    pub(super) fn form<'t>(&self, terms: impl Iterator<Item = &'t Term>) -> TokenStream {
        self.sum(terms, self.emitter.shared.is_some())
    }

    /// The same; constants may become parameters where `is_shared`.
    fn sum<'t>(&self, terms: impl Iterator<Item = &'t Term>, is_shared: bool) -> TokenStream {
        let product = |term: &Term| {
            let factors = term.factors.iter().map(|value| {
                let name = self.emitter.name(*value);
                if self.emitter.body.function.ty(*value) == Type::i32 { quote!(i64::from(#name)) } else { name }
            });
            let product = factors.reduce(|product, factor| quote!(#product.wrapping_mul(#factor)));
            let shared = is_shared.then(|| shared::number(Type::i64, term.coefficient as u64));
            let coefficient = shared.flatten().unwrap_or_else(|| integer(term.coefficient));
            match product {
                None => coefficient,
                Some(product) if term.coefficient == 1 => product,
                Some(product) => quote!(#product.wrapping_mul(#coefficient)),
            }
        };
        // Constants come last, because methods are called on names.
        let mut terms: Vec<&Term> = terms.collect();
        terms.sort_by_key(|term| term.factors.is_empty());
        let sum = terms.into_iter().map(product).reduce(|sum, term| quote!(#sum.wrapping_add(#term)));
        sum.unwrap_or_else(|| integer(0))
    }
}

fn relation(relation: Relation) -> TokenStream {
    match relation {
        Relation::Less => quote!(Less),
        Relation::LessOrEqual => quote!(LessOrEqual),
        Relation::Greater => quote!(Greater),
        Relation::GreaterOrEqual => quote!(GreaterOrEqual),
        Relation::NotEqual => quote!(NotEqual),
    }
}

/// A number in a context that determines its type.
pub(super) fn integer(number: i64) -> TokenStream {
    let digits = unsigned(number.unsigned_abs());
    if number < 0 { quote!(-#digits) } else { digits }
}

pub(super) fn unsigned(number: u64) -> TokenStream {
    let digits = Literal::u64_unsuffixed(number);
    quote!(#digits)
}
