//! Tiles of contractions, on the level x86-64-v3.

use incarnate_kernels::contraction::{
    FmaF32, FmaF32AnyOrder, Gather, Loop, Machine, MulAddF32, MulAddI32, Narrow, Operand, contract_at_most,
};

use crate::Operation;

const fn each(count: usize, output: i64, left: i64, right: i64) -> Loop {
    Loop { count, output, left, right }
}

/// A product of 8 x 64 and 64 x 32 numbers.
const PRODUCT: [Loop; 3] = [each(8, 32, 64, 0), each(64, 0, 1, 32), each(32, 1, 0, 1)];
/// The same with a first operand that is stored by columns.
const TRANSPOSED: [Loop; 3] = [each(8, 32, 1, 0), each(64, 0, 8, 32), each(32, 1, 0, 1)];
/// A matrix of 64 x 64 numbers, times a vector.
const VECTOR: [Loop; 2] = [each(64, 1, 64, 0), each(64, 0, 1, 1)];
/// A convolution of 3 x 3 elements of each of 8 maps of 8 x 8.
const DEPTHWISE: [Loop; 5] =
    [each(8, 64, 9, 100), each(8, 8, 0, 10), each(8, 1, 0, 1), each(3, 0, 3, 10), each(3, 0, 1, 1)];

/// More elements than any operand has.
const ELEMENTS: usize = 4096;

macro_rules! operations {
    ($($name:ident: $operation:ident, $number:ident, $loops:ident;)*) => {
        $(pub(crate) fn $name() -> Operation {
            let numbers = || (0..ELEMENTS).map(|index| (index % 17) as $number).collect::<Vec<$number>>();
            let (mut output, left, right) = (numbers(), numbers(), numbers());
            Box::new(move || {
                let (left, right) = (Operand::Memory(left.as_ptr()), Operand::Memory(right.as_ptr()));
                // SAFETY: the vectors have the elements of all iterations, and iterations that differ in a loop which moves the output
                // have different elements of it.
                unsafe {
                    contract_at_most::<$operation>(&Machine::X86_64_V3, output.as_mut_ptr(), left, right, &$loops);
                }
            })
        })*
    };
}

operations! {
    product_fma_f32: FmaF32, f32, PRODUCT;
    product_mul_add_f32: MulAddF32, f32, PRODUCT;
    product_mul_add_i32: MulAddI32, i32, PRODUCT;
    product_fma_f32_any_order: FmaF32AnyOrder, f32, PRODUCT;
    transposed_fma_f32: FmaF32, f32, TRANSPOSED;
    vector_fma_f32: FmaF32, f32, VECTOR;
    vector_fma_f32_any_order: FmaF32AnyOrder, f32, VECTOR;
    depthwise_fma_f32: FmaF32, f32, DEPTHWISE;
}

/// Bytes, extended to 32 bits.
struct Bytes(Vec<u8>);

impl Gather<i32> for Bytes {
    fn zero(&self) -> i32 {
        0
    }

    fn narrow(&self) -> Option<(Narrow, *const u8)> {
        Some((Narrow::U8, self.0.as_ptr()))
    }

    unsafe fn gather(&self, first: i64, stride: i64, into: &mut [i32]) {
        for (at, number) in (0..).zip(into) {
            *number = i32::from(self.0[(first + stride * at) as usize]);
        }
    }
}

pub(crate) fn product_u8() -> Operation {
    let bytes = || Bytes((0..ELEMENTS).map(|index| (index % 17) as u8).collect());
    let (mut output, left, right) = (vec![0; ELEMENTS], bytes(), bytes());
    Box::new(move || {
        let (left, right) = (Operand::Computed(&left, 0), Operand::Computed(&right, 0));
        // SAFETY: as above.
        unsafe {
            contract_at_most::<MulAddI32>(&Machine::X86_64_V3, output.as_mut_ptr(), left, right, &PRODUCT);
        }
    })
}
