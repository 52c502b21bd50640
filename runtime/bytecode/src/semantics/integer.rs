//! Integers: arithmetic wraps, shift amounts are taken modulo the width, division by zero is an error.

use crate::{Error, Result};

#[cold]
fn division_by_zero() -> Error {
    Error::invalid_argument("integer division by zero")
}

macro_rules! integers {
    ($($signed:ident $unsigned:ident [$($name:ident)*];)*) => { $(integers!(@one $signed $unsigned $($name)*);)* };
    (@one $signed:ident $unsigned:ident
        $add:ident $sub:ident $mul:ident $div_s:ident $div_u:ident $rem_s:ident $rem_u:ident $fma:ident $abs:ident
        $min_s:ident $min_u:ident $max_s:ident $max_u:ident $not:ident $and:ident $or:ident $xor:ident $ctlz:ident
        $shl:ident $shr_s:ident $shr_u:ident $select:ident
        $cmp_eq:ident $cmp_ne:ident $cmp_lt_s:ident $cmp_lt_u:ident $cmp_nz:ident) => {
        /// Wrapping sum.
        #[inline(always)]
        #[must_use]
        pub const fn $add(left: $signed, right: $signed) -> $signed {
            left.wrapping_add(right)
        }
        /// Wrapping difference.
        #[inline(always)]
        #[must_use]
        pub const fn $sub(left: $signed, right: $signed) -> $signed {
            left.wrapping_sub(right)
        }
        /// Wrapping product.
        #[inline(always)]
        #[must_use]
        pub const fn $mul(left: $signed, right: $signed) -> $signed {
            left.wrapping_mul(right)
        }
        /// Signed quotient; the least value divided by -1 wraps.
        ///
        /// # Errors
        /// INVALID_ARGUMENT where the divisor is zero.
        #[inline(always)]
        pub fn $div_s(left: $signed, right: $signed) -> Result<$signed> {
            if right == 0 { Err(division_by_zero()) } else { Ok(left.wrapping_div(right)) }
        }
        /// Unsigned quotient.
        ///
        /// # Errors
        /// INVALID_ARGUMENT where the divisor is zero.
        #[inline(always)]
        pub fn $div_u(left: $signed, right: $signed) -> Result<$signed> {
            (left as $unsigned).checked_div(right as $unsigned).map(|v| v as $signed).ok_or_else(division_by_zero)
        }
        /// Signed remainder, with the sign of the dividend.
        ///
        /// # Errors
        /// INVALID_ARGUMENT where the divisor is zero.
        #[inline(always)]
        pub fn $rem_s(left: $signed, right: $signed) -> Result<$signed> {
            if right == 0 { Err(division_by_zero()) } else { Ok(left.wrapping_rem(right)) }
        }
        /// Unsigned remainder.
        ///
        /// # Errors
        /// INVALID_ARGUMENT where the divisor is zero.
        #[inline(always)]
        pub fn $rem_u(left: $signed, right: $signed) -> Result<$signed> {
            (left as $unsigned).checked_rem(right as $unsigned).map(|v| v as $signed).ok_or_else(division_by_zero)
        }
        /// Wrapping `first * second + third`.
        #[inline(always)]
        #[must_use]
        pub const fn $fma(first: $signed, second: $signed, third: $signed) -> $signed {
            first.wrapping_mul(second).wrapping_add(third)
        }
        /// Wrapping absolute value.
        #[inline(always)]
        #[must_use]
        pub const fn $abs(operand: $signed) -> $signed {
            operand.wrapping_abs()
        }
        /// Signed minimum.
        #[inline(always)]
        #[must_use]
        pub const fn $min_s(left: $signed, right: $signed) -> $signed {
            if right < left { right } else { left }
        }
        /// Unsigned minimum.
        #[inline(always)]
        #[must_use]
        pub const fn $min_u(left: $signed, right: $signed) -> $signed {
            if (right as $unsigned) < (left as $unsigned) { right } else { left }
        }
        /// Signed maximum.
        #[inline(always)]
        #[must_use]
        pub const fn $max_s(left: $signed, right: $signed) -> $signed {
            if left < right { right } else { left }
        }
        /// Unsigned maximum.
        #[inline(always)]
        #[must_use]
        pub const fn $max_u(left: $signed, right: $signed) -> $signed {
            if (left as $unsigned) < (right as $unsigned) { right } else { left }
        }
        /// Bitwise complement.
        #[inline(always)]
        #[must_use]
        pub const fn $not(operand: $signed) -> $signed {
            !operand
        }
        /// Bitwise and.
        #[inline(always)]
        #[must_use]
        pub const fn $and(left: $signed, right: $signed) -> $signed {
            left & right
        }
        /// Bitwise or.
        #[inline(always)]
        #[must_use]
        pub const fn $or(left: $signed, right: $signed) -> $signed {
            left | right
        }
        /// Bitwise exclusive or.
        #[inline(always)]
        #[must_use]
        pub const fn $xor(left: $signed, right: $signed) -> $signed {
            left ^ right
        }
        /// Number of leading zeros; the width for zero.
        #[inline(always)]
        #[must_use]
        pub const fn $ctlz(operand: $signed) -> $signed {
            operand.leading_zeros() as $signed
        }
        /// Shift to the left.
        #[inline(always)]
        #[must_use]
        pub const fn $shl(operand: $signed, amount: i32) -> $signed {
            operand.wrapping_shl(amount as u32)
        }
        /// Arithmetic shift to the right.
        #[inline(always)]
        #[must_use]
        pub const fn $shr_s(operand: $signed, amount: i32) -> $signed {
            operand.wrapping_shr(amount as u32)
        }
        /// Logical shift to the right.
        #[inline(always)]
        #[must_use]
        pub const fn $shr_u(operand: $signed, amount: i32) -> $signed {
            (operand as $unsigned).wrapping_shr(amount as u32) as $signed
        }
        /// The first value where the condition is not zero, else the second.
        #[inline(always)]
        #[must_use]
        pub const fn $select(condition: i32, true_value: $signed, false_value: $signed) -> $signed {
            if condition != 0 { true_value } else { false_value }
        }
        /// Equal.
        #[inline(always)]
        #[must_use]
        pub const fn $cmp_eq(left: $signed, right: $signed) -> i32 {
            (left == right) as i32
        }
        /// Not equal.
        #[inline(always)]
        #[must_use]
        pub const fn $cmp_ne(left: $signed, right: $signed) -> i32 {
            (left != right) as i32
        }
        /// Signed less than.
        #[inline(always)]
        #[must_use]
        pub const fn $cmp_lt_s(left: $signed, right: $signed) -> i32 {
            (left < right) as i32
        }
        /// Unsigned less than.
        #[inline(always)]
        #[must_use]
        pub const fn $cmp_lt_u(left: $signed, right: $signed) -> i32 {
            ((left as $unsigned) < (right as $unsigned)) as i32
        }
        /// Not zero.
        #[inline(always)]
        #[must_use]
        pub const fn $cmp_nz(operand: $signed) -> i32 {
            (operand != 0) as i32
        }
    };
}

integers! {
    i32 u32 [add_i32 sub_i32 mul_i32 div_i32_s div_i32_u rem_i32_s rem_i32_u fma_i32 abs_i32
        min_i32_s min_i32_u max_i32_s max_i32_u not_i32 and_i32 or_i32 xor_i32 ctlz_i32
        shl_i32 shr_i32_s shr_i32_u select_i32 cmp_eq_i32 cmp_ne_i32 cmp_lt_i32_s cmp_lt_i32_u cmp_nz_i32];
    i64 u64 [add_i64 sub_i64 mul_i64 div_i64_s div_i64_u rem_i64_s rem_i64_u fma_i64 abs_i64
        min_i64_s min_i64_u max_i64_s max_i64_u not_i64 and_i64 or_i64 xor_i64 ctlz_i64
        shl_i64 shr_i64_s shr_i64_u select_i64 cmp_eq_i64 cmp_ne_i64 cmp_lt_i64_s cmp_lt_i64_u cmp_nz_i64];
}

macro_rules! via {
    ($name:ident: $from:ident => $($through:ident)=>* ) => {
        /// The conversion that the name says.
        #[inline(always)]
        #[must_use]
        pub const fn $name(operand: $from) -> via!(@last $($through)*) {
            operand $(as $through)*
        }
    };
    (@last $last:ident) => { $last };
    (@last $first:ident $($rest:ident)+) => { via!(@last $($rest)+) };
}
via!(trunc_i32_i8: i32 => u8 => i32);
via!(trunc_i32_i16: i32 => u16 => i32);
via!(trunc_i64_i32: i64 => i32);
via!(ext_i8_i32_s: i32 => i8 => i32);
via!(ext_i8_i32_u: i32 => u8 => i32);
via!(ext_i16_i32_s: i32 => i16 => i32);
via!(ext_i16_i32_u: i32 => u16 => i32);
via!(ext_i32_i64_s: i32 => i64);
via!(ext_i32_i64_u: i32 => u32 => i64);

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn corner_cases_have_a_value_or_an_error() {
        assert_eq!(div_i32_s(i32::MIN, -1).unwrap(), i32::MIN);
        assert_eq!(rem_i32_s(i32::MIN, -1).unwrap(), 0);
        assert!(div_i64_u(1, 0).is_err());
        assert_eq!(abs_i32(i32::MIN), i32::MIN);
        assert_eq!(shl_i32(1, 33), 2);
        assert_eq!(shr_i64_u(-1, 63), 1);
        assert_eq!(shr_i64_s(-2, 65), -1);
        assert_eq!(ctlz_i64(0), 64);
        assert_eq!(ext_i8_i32_s(0x1FF), -1);
        assert_eq!(trunc_i32_i8(-1), 255);
        assert_eq!(ext_i32_i64_u(-1), 0xFFFF_FFFF);
        assert_eq!(min_i32_u(-1, 1), 1);
    }
}
