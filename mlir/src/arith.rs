//! Arithmetic of scalars, which the bodies of `linalg.generic` and functions contain.

use crate::builder::{Builder, Value};
use crate::types::{Element, Type};

/// What an operation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Float,
    Int,
}

impl Class {
    fn has(self, element: Element) -> bool {
        element.is_float() == (self == Class::Float)
    }
}

macro_rules! operations {
    (unary { $($unary:ident $unary_name:literal $unary_class:ident,)* } binary { $($binary:ident $binary_name:literal $binary_class:ident,)* }) => {
        impl Builder {
            $(
                #[doc = concat!("`", $unary_name, "`.")]
                pub fn $unary(&mut self, x: Value) -> Value {
                    self.arithmetic($unary_name, Class::$unary_class, &[x])
                }
            )*
            $(
                #[doc = concat!("`", $binary_name, "`.")]
                pub fn $binary(&mut self, x: Value, y: Value) -> Value {
                    self.arithmetic($binary_name, Class::$binary_class, &[x, y])
                }
            )*
        }
    };
}

operations! {
    unary {
        negf "arith.negf" Float,
        absf "math.absf" Float,
        absi "math.absi" Int,
        ceil "math.ceil" Float,
        floor "math.floor" Float,
        roundeven "math.roundeven" Float,
        exp "math.exp" Float,
        exp2 "math.exp2" Float,
        expm1 "math.expm1" Float,
        log "math.log" Float,
        log2 "math.log2" Float,
        log1p "math.log1p" Float,
        sqrt "math.sqrt" Float,
        rsqrt "math.rsqrt" Float,
        sin "math.sin" Float,
        cos "math.cos" Float,
        tan "math.tan" Float,
        atan "math.atan" Float,
        tanh "math.tanh" Float,
        erf "math.erf" Float,
        ctpop "math.ctpop" Int,
        ctlz "math.ctlz" Int,
        cttz "math.cttz" Int,
    }
    binary {
        addf "arith.addf" Float,
        subf "arith.subf" Float,
        mulf "arith.mulf" Float,
        divf "arith.divf" Float,
        remf "arith.remf" Float,
        maximumf "arith.maximumf" Float,
        minimumf "arith.minimumf" Float,
        powf "math.powf" Float,
        atan2 "math.atan2" Float,
        addi "arith.addi" Int,
        subi "arith.subi" Int,
        muli "arith.muli" Int,
        divsi "arith.divsi" Int,
        divui "arith.divui" Int,
        remsi "arith.remsi" Int,
        remui "arith.remui" Int,
        floordivsi "arith.floordivsi" Int,
        ceildivsi "arith.ceildivsi" Int,
        maxsi "arith.maxsi" Int,
        maxui "arith.maxui" Int,
        minsi "arith.minsi" Int,
        minui "arith.minui" Int,
        andi "arith.andi" Int,
        ori "arith.ori" Int,
        xori "arith.xori" Int,
        shli "arith.shli" Int,
        shrsi "arith.shrsi" Int,
        shrui "arith.shrui" Int,
    }
}

macro_rules! predicates {
    ($(#[$doc:meta])* $ty:ident: $($name:ident $text:literal,)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $ty {
            $(#[doc = concat!("`", $text, "`.")] $name,)*
        }

        impl $ty {
            fn text(self) -> &'static str {
                match self {
                    $($ty::$name => $text,)*
                }
            }
        }
    };
}

predicates! {
    /// Comparisons of floats: ordered ones are false if an operand is NaN, unordered ones are true.
    FloatPredicate:
        OrderedEqual "oeq",
        OrderedGreater "ogt",
        OrderedGreaterEqual "oge",
        OrderedLess "olt",
        OrderedLessEqual "ole",
        UnorderedNotEqual "une",
        UnorderedGreater "ugt",
        UnorderedLess "ult",
        Unordered "uno",
        Ordered "ord",
}

predicates! {
    /// Comparisons of integers.
    IntPredicate:
        Equal "eq",
        NotEqual "ne",
        SignedLess "slt",
        SignedLessEqual "sle",
        SignedGreater "sgt",
        SignedGreaterEqual "sge",
        UnsignedLess "ult",
        UnsignedLessEqual "ule",
        UnsignedGreater "ugt",
        UnsignedGreaterEqual "uge",
}

macro_rules! conversions {
    ($($method:ident $name:literal $takes:expr;)*) => {
        impl Builder {
            $(
                #[doc = concat!("`", $name, "`.")]
                pub fn $method(&mut self, x: Value, to: Element) -> Value {
                    self.conversion($name, x, to, $takes)
                }
            )*
        }
    };
}

conversions! {
    extf "arith.extf" |from, to| from.is_float() && to.is_float() && from.bits() < to.bits();
    truncf "arith.truncf" |from, to| from.is_float() && to.is_float() && from.bits() > to.bits();
    extsi "arith.extsi" |from, to| is_int(from) && is_int(to) && from.bits() < to.bits();
    extui "arith.extui" |from, to| is_int(from) && is_int(to) && from.bits() < to.bits();
    trunci "arith.trunci" |from, to| is_int(from) && is_int(to) && from.bits() > to.bits();
    sitofp "arith.sitofp" |from, to| is_int(from) && to.is_float();
    uitofp "arith.uitofp" |from, to| is_int(from) && to.is_float();
    fptosi "arith.fptosi" |from, to| from.is_float() && is_int(to);
    fptoui "arith.fptoui" |from, to| from.is_float() && is_int(to);
    index_cast "arith.index_cast" |from, to| is_int(from) && to == Element::Index || from == Element::Index && is_int(to);
    index_castui "arith.index_castui" |from, to| is_int(from) && to == Element::Index || from == Element::Index && is_int(to);
    bitcast "arith.bitcast" |from, to| from.bits() == to.bits() && from != Element::Index && to != Element::Index;
}

fn is_int(element: Element) -> bool {
    matches!(element, Element::Int(_))
}

impl Builder {
    /// An operation whose operands and result have one type, which is that of a scalar, or of a tensor where the dialect allows it.
    fn arithmetic(&mut self, name: &str, class: Class, operands: &[Value]) -> Value {
        let ty = operands.first().map_or(Type::Scalar(Element::Index), |first| self.type_of(*first).clone());
        if operands.iter().any(|operand| *self.type_of(*operand) != ty) || !class.has(ty.element()) {
            self.fail(format!("{name} of {}", self.types_of(operands)));
        }
        let text = format!("{name} {} : {ty}", crate::builder::list(operands));
        self.operation(ty, &text)
    }

    fn conversion(&mut self, name: &str, x: Value, to: Element, takes: fn(Element, Element) -> bool) -> Value {
        let from = self.type_of(x).clone();
        if !takes(from.element(), to) {
            self.fail(format!("{name} of {from} to {to}"));
        }
        let ty = from.with_element(to);
        let text = format!("{name} {x} : {from} to {ty}");
        self.operation(ty, &text)
    }

    /// `arith.cmpf`. On VMVX, `oge` and `ord` are true for NaN: they are said by other predicates.
    pub fn cmpf(&mut self, predicate: FloatPredicate, x: Value, y: Value) -> Value {
        match predicate {
            FloatPredicate::OrderedGreaterEqual => self.cmpf(FloatPredicate::OrderedLessEqual, y, x),
            FloatPredicate::Ordered => {
                let unordered = self.cmpf(FloatPredicate::Unordered, x, y);
                let one = self.int(1, Element::I1);
                self.xori(unordered, one)
            }
            _ => self.comparison("arith.cmpf", Class::Float, predicate.text(), x, y),
        }
    }

    /// `arith.cmpi`.
    pub fn cmpi(&mut self, predicate: IntPredicate, x: Value, y: Value) -> Value {
        self.comparison("arith.cmpi", Class::Int, predicate.text(), x, y)
    }

    fn comparison(&mut self, name: &str, class: Class, predicate: &str, x: Value, y: Value) -> Value {
        let ty = self.type_of(x).clone();
        if ty != *self.type_of(y) || !class.has(ty.element()) {
            self.fail(format!("{name} of {}", self.types_of(&[x, y])));
        }
        self.operation(ty.with_element(Element::I1), &format!("{name} {predicate}, {x}, {y} : {ty}"))
    }

    /// `arith.select`: `x` where the condition is true, else `y`.
    pub fn select(&mut self, condition: Value, x: Value, y: Value) -> Value {
        let ty = self.type_of(x).clone();
        if ty != *self.type_of(y) || *self.type_of(condition) != Type::Scalar(Element::I1) {
            self.fail(format!("arith.select of {}", self.types_of(&[condition, x, y])));
        }
        self.operation(ty.clone(), &format!("arith.select {condition}, {x}, {y} : {ty}"))
    }

    /// `math.fma`: `x * y + z`, rounded once.
    pub fn fma(&mut self, x: Value, y: Value, z: Value) -> Value {
        self.arithmetic("math.fma", Class::Float, &[x, y, z])
    }
}
