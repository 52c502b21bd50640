//! All functions of this module behind one: for folding constants, and for tests.

use crate::Result;
use crate::isa::{Opcode, for_each_instruction};

/// A number as the bits that registers hold, the upper half zero for 32-bit ones.
trait Bits {
    fn from_word(bits: u64) -> Self;
    fn into_word(self) -> u64;
}

macro_rules! bits {
    ($($type:ty: $bits:ident => $from:expr, $value:ident => $to:expr;)*) => {
        $(impl Bits for $type {
            #[inline]
            fn from_word($bits: u64) -> $type {
                $from
            }
            #[inline]
            fn into_word(self) -> u64 {
                let $value = self;
                $to
            }
        })*
    };
}
bits! {
    i32: bits => bits as u32 as i32, value => u64::from(value as u32);
    i64: bits => bits as i64, value => value as u64;
    f32: bits => f32::from_bits(bits as u32), value => u64::from(value.to_bits());
    f64: bits => f64::from_bits(bits), value => value.to_bits();
}

/// Evaluates an instruction on the bits of its operands, by its format.
macro_rules! apply {
    ($operands:ident [unary $v:ident] eval $f:ident) => { apply!(@call $operands ($v) $f) };
    ($operands:ident [conversion $v:ident $w:ident] eval $f:ident) => { apply!(@call $operands ($v) $f) };
    ($operands:ident [unary_comparison $v:ident] eval $f:ident) => { apply!(@call $operands ($v) $f) };
    ($operands:ident [binary $v:ident] eval $f:ident) => { apply!(@call $operands ($v $v) $f) };
    ($operands:ident [binary_comparison $v:ident] eval $f:ident) => { apply!(@call $operands ($v $v) $f) };
    ($operands:ident [shift $v:ident] eval $f:ident) => { apply!(@call $operands ($v i32) $f) };
    ($operands:ident [power $v:ident] eval $f:ident) => { apply!(@call $operands ($v i64) $f) };
    ($operands:ident [ternary $v:ident] eval $f:ident) => { apply!(@call $operands ($v $v $v) $f) };
    ($operands:ident [select $v:ident] eval $f:ident) => { apply!(@call $operands (i32 $v $v) $f) };
    ($operands:ident [binary $v:ident] try_eval $f:ident) => {
        match *$operands {
            [a, b] => Some(super::$f(<$v>::from_word(a), <$v>::from_word(b)).map(Bits::into_word)),
            _ => None,
        }
    };
    ($operands:ident [$($format:tt)*] special) => { None };
    (@call $operands:ident ($a:ident) $f:ident) => {
        match *$operands {
            [a] => Some(Ok(super::$f(<$a>::from_word(a)).into_word())),
            _ => None,
        }
    };
    (@call $operands:ident ($a:ident $b:ident) $f:ident) => {
        match *$operands {
            [a, b] => Some(Ok(super::$f(<$a>::from_word(a), <$b>::from_word(b)).into_word())),
            _ => None,
        }
    };
    (@call $operands:ident ($a:ident $b:ident $c:ident) $f:ident) => {
        match *$operands {
            [a, b, c] => Some(Ok(super::$f(<$a>::from_word(a), <$b>::from_word(b), <$c>::from_word(c)).into_word())),
            _ => None,
        }
    };
}

macro_rules! define_evaluate {
    ($(($set:ident, $byte:literal, $name:ident, $mnemonic:literal, $format:tt, $effects:tt, $($semantics:ident)*))*) => {
        /// Evaluates an instruction on the bits of its operands (32-bit numbers in the lower half). None where it is not one
        /// whose meaning is a function of this module, or takes another number of operands.
        #[must_use]
        pub fn evaluate(opcode: Opcode, operands: &[u64]) -> Option<Result<u64>> {
            match opcode {
                $(Opcode::$name => apply!(operands $format $($semantics)*),)*
            }
        }
    };
}
for_each_instruction!(define_evaluate);

/// Functions, but for their type, whose last bits depend on the machine or on how this crate is built, for one type at least:
/// the math library, and whether a sum of products is rounded once.
const INEXACT: &[&str] = &[
    "atan", "atan2", "cos", "sin", "exp", "exp2", "expm1", "log", "log10", "log1p", "log2", "pow", "tanh", "erf", "fma",
];

/// [`evaluate`] where it succeeds and gives the same wherever it runs: what
/// [`ir::Function::simplify`](crate::ir::Function::simplify) folds constants with.
#[must_use]
pub fn fold(opcode: Opcode, operands: &[u64]) -> Option<u64> {
    let function = crate::ir::semantics(opcode)?.function;
    let float = function.strip_suffix("_f32").or(function.strip_suffix("_f64"));
    if float.is_some_and(|stem| INEXACT.contains(&stem)) {
        return None;
    }
    evaluate(opcode, operands)?.ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::isa::OpcodeSet;

    #[test]
    fn instructions_are_computed_by_their_bits() {
        assert_eq!(fold(Opcode::AddI32, &[u64::from(u32::MAX), 2]), Some(1));
        assert_eq!(fold(Opcode::SubF64, &[1.5f64.to_bits(), 1f64.to_bits()]), Some(0.5f64.to_bits()));
        assert_eq!(fold(Opcode::ShlI64, &[1, 40]), Some(1 << 40));
        assert_eq!(fold(Opcode::MulF32, &[2f32.to_bits().into(), 3f32.to_bits().into()]), Some(6f32.to_bits().into()));
        assert_eq!(fold(Opcode::SelectF32, &[0, 7, 9]), Some(9));
        assert_eq!(fold(Opcode::CmpLTI64S, &[-1i64 as u64, 0]), Some(1));
        assert_eq!(fold(Opcode::ExtI32I64S, &[0xFFFF_FFFF]), Some(u64::MAX));
        assert!(evaluate(Opcode::DivI32S, &[1, 0]).unwrap().is_err());
        for opcode in [Opcode::ExpF32, Opcode::TanhF64, Opcode::PowF32, Opcode::FmaF32] {
            assert!(fold(opcode, &[0, 0, 0][..if opcode == Opcode::FmaF32 { 3 } else { 1 }]).is_none());
        }
        // Each name is that of a function.
        for stem in INEXACT {
            let name = alloc::format!("{stem}_f32");
            let named = |opcode| crate::ir::semantics(opcode).is_some_and(|semantics| semantics.function == name);
            let opcodes = [OpcodeSet::Core, OpcodeSet::ExtF32, OpcodeSet::ExtF64].into_iter();
            let all = opcodes.flat_map(|set| (0..=u8::MAX).filter_map(move |byte| Opcode::decode(set, byte)));
            assert_eq!(all.filter(|opcode| named(*opcode)).count(), 1, "{name}");
        }
        assert!(evaluate(Opcode::AddI32, &[1]).is_none());
        assert!(evaluate(Opcode::Call, &[]).is_none());
    }
}
