//! Elementwise functions, copies and fills. Their arithmetic is that of instructions, `vm::semantics`.

use alloc::sync::Arc;

use super::VmvxState;
use super::region::{CHUNK, Region, for_each_run, lengthen_rows};
use crate::Result;
use crate::vm::{Buffer, Caller, Scalar, Stack, semantics};

/// A buffer, the index of its first element, and its strides of rows and columns, in elements.
type Operand<'a> = (&'a Buffer, u64, [u64; 2]);

fn region<'a, T: Scalar>((buffer, offset, strides): Operand<'a>, sizes: [u64; 2]) -> Result<Region<'a>> {
    Region::new::<T>(buffer, offset, strides, sizes)
}

/// Applies a function to each element.
#[inline(always)]
fn unary<T: Scalar + Default>(
    stack: &Stack,
    source: Operand<'_>,
    target: Operand<'_>,
    sizes: [u64; 2],
    function: impl Fn(T) -> T,
) -> Result<()> {
    let (mut source, mut target) = (region::<T>(source, sizes)?, region::<T>(target, sizes)?);
    let sizes = lengthen_rows(sizes, &mut [&mut target, &mut source]);
    let mut elements = [T::default(); CHUNK];
    for_each_run(stack, sizes, |row, column, length| {
        let elements = &mut elements[..length];
        source.load(row, column, elements)?;
        elements.iter_mut().for_each(|element| *element = function(*element));
        target.store(row, column, elements)
    })
}

/// Applies a function to each pair of elements.
#[inline(always)]
fn binary<T: Scalar + Default>(
    stack: &Stack,
    left: Operand<'_>,
    right: Operand<'_>,
    target: Operand<'_>,
    sizes: [u64; 2],
    function: impl Fn(T, T) -> Result<T>,
) -> Result<()> {
    let (mut left, mut right) = (region::<T>(left, sizes)?, region::<T>(right, sizes)?);
    let mut target = region::<T>(target, sizes)?;
    let sizes = lengthen_rows(sizes, &mut [&mut target, &mut left, &mut right]);
    let (mut lefts, mut rights) = ([T::default(); CHUNK], [T::default(); CHUNK]);
    for_each_run(stack, sizes, |row, column, length| {
        let (lefts, rights) = (&mut lefts[..length], &mut rights[..length]);
        left.load(row, column, lefts)?;
        right.load(row, column, rights)?;
        for (left, right) in lefts.iter_mut().zip(rights) {
            *left = function(*left, *right)?;
        }
        target.store(row, column, lefts)
    })
}

macro_rules! unary_functions {
    ($($name:ident: $type:ty => $function:expr;)*) => {
        #[allow(clippy::too_many_arguments, missing_docs, reason = "the imports, as programs declare them")]
        impl VmvxState {
            $(pub fn $name(
                &self,
                caller: &mut Caller<'_>,
                source: &Buffer,
                source_offset: u64,
                source_stride0: u64,
                source_stride1: u64,
                target: Arc<Buffer>,
                target_offset: u64,
                target_stride0: u64,
                target_stride1: u64,
                size0: u64,
                size1: u64,
            ) -> Result<()> {
                let source = (source, source_offset, [source_stride0, source_stride1]);
                let target = (&*target, target_offset, [target_stride0, target_stride1]);
                unary::<$type>(caller.stack, source, target, [size0, size1], $function)
            })*
        }
    };
}
unary_functions! {
    abs_2d_f32: f32 => semantics::abs_f32;
    ceil_2d_f32: f32 => semantics::ceil_f32;
    ctlz_2d_i32: i32 => semantics::ctlz_i32;
    copy_2d_x8: u8 => |element| element;
    copy_2d_x16: u16 => |element| element;
    copy_2d_x32: u32 => |element| element;
    copy_2d_x64: u64 => |element| element;
    exp_2d_f32: f32 => semantics::exp_f32;
    floor_2d_f32: f32 => semantics::floor_f32;
    log_2d_f32: f32 => semantics::log_f32;
    neg_2d_f32: f32 => semantics::neg_f32;
    rsqrt_2d_f32: f32 => semantics::rsqrt_f32;
}

macro_rules! binary_functions {
    ($($name:ident: $type:ty => $function:expr;)*) => {
        #[allow(clippy::too_many_arguments, missing_docs, reason = "the imports, as programs declare them")]
        impl VmvxState {
            $(pub fn $name(
                &self,
                caller: &mut Caller<'_>,
                left: &Buffer,
                left_offset: u64,
                left_stride0: u64,
                left_stride1: u64,
                right: Arc<Buffer>,
                right_offset: u64,
                right_stride0: u64,
                right_stride1: u64,
                target: Arc<Buffer>,
                target_offset: u64,
                target_stride0: u64,
                target_stride1: u64,
                size0: u64,
                size1: u64,
            ) -> Result<()> {
                let left = (left, left_offset, [left_stride0, left_stride1]);
                let right = (&*right, right_offset, [right_stride0, right_stride1]);
                let target = (&*target, target_offset, [target_stride0, target_stride1]);
                binary::<$type>(caller.stack, left, right, target, [size0, size1], $function)
            })*
        }
    };
}
binary_functions! {
    add_2d_f32: f32 => |left, right| Ok(semantics::add_f32(left, right));
    add_2d_i32: i32 => |left, right| Ok(semantics::add_i32(left, right));
    and_2d_i32: i32 => |left, right| Ok(semantics::and_i32(left, right));
    div_2d_f32: f32 => |left, right| Ok(semantics::div_f32(left, right));
    divs_2d_i32: i32 => semantics::div_i32_s;
    divu_2d_i32: i32 => semantics::div_i32_u;
    mul_2d_f32: f32 => |left, right| Ok(semantics::mul_f32(left, right));
    mul_2d_i32: i32 => |left, right| Ok(semantics::mul_i32(left, right));
    or_2d_i32: i32 => |left, right| Ok(semantics::or_i32(left, right));
    shl_2d_i32: i32 => |left, right| Ok(semantics::shl_i32(left, right));
    shrs_2d_i32: i32 => |left, right| Ok(semantics::shr_i32_s(left, right));
    shru_2d_i32: i32 => |left, right| Ok(semantics::shr_i32_u(left, right));
    sub_2d_f32: f32 => |left, right| Ok(semantics::sub_f32(left, right));
    sub_2d_i32: i32 => |left, right| Ok(semantics::sub_i32(left, right));
    xor_2d_i32: i32 => |left, right| Ok(semantics::xor_i32(left, right));
}

#[allow(clippy::too_many_arguments, missing_docs, reason = "the imports, as programs declare them")]
impl VmvxState {
    pub fn fill_2d_x32(
        &self,
        caller: &mut Caller<'_>,
        value: u32,
        target: Arc<Buffer>,
        offset: u64,
        row_stride: u64,
        size0: u64,
        size1: u64,
    ) -> Result<()> {
        let mut target = Region::new::<u32>(&target, offset, [row_stride, 1], [size0, size1])?;
        let sizes = lengthen_rows([size0, size1], &mut [&mut target]);
        let elements = [value; CHUNK];
        for_each_run(caller.stack, sizes, |row, column, length| target.store(row, column, &elements[..length]))
    }
}
