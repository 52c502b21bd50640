//! What direct calls of native functions cost, as types: the terms of a call's cost are then constants in the code of the call,
//! which looks at the operands that they name and at no others.

use incarnate_bytecode::imports::{Cost, Term};

/// What a direct call is charged before it runs: a tuple of [`CostTerm`]s, or [`Free`].
pub trait CallCost {
    /// The cost besides the step of the call itself; `None` for a call that is not charged.
    const COST: Option<Cost>;
}

/// Calls of trusted code, which are not charged.
#[derive(Debug)]
pub enum Free {}

impl CallCost for Free {
    const COST: Option<Cost> = None;
}

/// A [`Term`] as a type.
pub trait CostTerm {
    /// The term.
    const TERM: Term;
}

/// See [`Term::Bytes`].
#[derive(Debug)]
pub enum Bytes<const COUNT: u8> {}

impl<const COUNT: u8> CostTerm for Bytes<COUNT> {
    const TERM: Term = Term::Bytes(COUNT);
}

/// See [`Term::BytesOf`].
#[derive(Debug)]
pub enum BytesOf<const COUNT: u8, const OBJECT: u8> {}

impl<const COUNT: u8, const OBJECT: u8> CostTerm for BytesOf<COUNT, OBJECT> {
    const TERM: Term = Term::BytesOf(COUNT, OBJECT);
}

/// See [`Term::Whole`].
#[derive(Debug)]
pub enum Whole<const OBJECT: u8> {}

impl<const OBJECT: u8> CostTerm for Whole<OBJECT> {
    const TERM: Term = Term::Whole(OBJECT);
}

/// See [`Term::Compiled`].
#[derive(Debug)]
pub enum Compiled<const OBJECT: u8> {}

impl<const OBJECT: u8> CostTerm for Compiled<OBJECT> {
    const TERM: Term = Term::Compiled(OBJECT);
}

/// The argument of an [`Elements`] with fewer sizes: one that no function has, and which counts as 1.
const NO_SIZE: u8 = u8::MAX;

/// See [`Term::Elements`].
#[derive(Debug)]
pub enum Elements<
    const A: u8,
    const B: u8,
    const C: u8 = NO_SIZE,
    const D: u8 = NO_SIZE,
    const E: u8 = NO_SIZE,
    const F: u8 = NO_SIZE,
> {}

impl<const A: u8, const B: u8, const C: u8, const D: u8, const E: u8, const F: u8> CostTerm
    for Elements<A, B, C, D, E, F>
{
    const TERM: Term = Term::Elements(&[A, B, C, D, E, F]);
}

macro_rules! tuples {
    ($($term:ident)*) => {
        impl<$($term: CostTerm),*> CallCost for ($($term,)*) {
            const COST: Option<Cost> = Some(Cost(&[$($term::TERM),*]));
        }
        tuples!(@shorter $($term)*);
    };
    (@shorter) => {};
    (@shorter $first:ident $($rest:ident)*) => { tuples!($($rest)*); };
}
tuples!(A B C D E F);
