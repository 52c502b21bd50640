//! The measured functions of tests/models/vm in handwritten Rust, as a baseline of translated code.
//!
//! Calls of the module stay calls: the internal one is not inlined; the imported one goes through an opaque function
//! pointer, because the importer of a module is known only at run time.

use std::hint::black_box;

/// The function `native_import_module.add_1`.
fn add_1(value: i32) -> i32 {
    value.wrapping_add(1)
}

#[inline(never)]
fn identity(value: i32) -> i32 {
    black_box(value)
}

#[inline(never)]
fn empty() {
    black_box(());
}

fn call_internal(value: i32) -> i32 {
    (0..20).fold(value, |value, _| identity(value))
}

fn call_imported(value: i32) -> i32 {
    let imported: fn(i32) -> i32 = black_box(add_1);
    (0..20).fold(value, |value, _| imported(value))
}

/// The optimiser may find the closed form, as it may in translated code.
fn loop_sum(count: i32) -> i32 {
    let mut i = 0;
    loop {
        i += 1;
        if i >= count {
            return i;
        }
    }
}

fn ones(count: i32) -> Vec<i32> {
    let mut numbers = vec![0; count as usize];
    numbers.fill(1);
    // The module's buffer is visible to others, so the sum of its elements is not a constant.
    black_box(numbers)
}

fn buffer_reduce(count: i32) -> i32 {
    ones(count).iter().fold(0, |sum, number| i32::wrapping_add(sum, *number))
}

fn multiply_add_modulo(count: i32) -> i32 {
    (0..count).fold(1, |x: i32, i| ((x.wrapping_mul(1103).wrapping_add(i) as u32) % 65521) as i32)
}

fn collatz(count: i32) -> i32 {
    let mut total = 0;
    for number in 1..=count {
        let mut n = number as u64;
        while n != 1 {
            n = if n & 1 == 1 { n.wrapping_mul(3).wrapping_add(1) } else { n >> 1 };
            total += 1;
        }
    }
    total
}

fn fused_multiply_add(count: i32) -> i32 {
    let mut numbers = black_box(vec![1.0f32; count as usize]);
    for x in &mut numbers {
        *x = x.mul_add(2.0, 0.5);
    }
    let numbers = black_box(numbers);
    (numbers.last().copied().unwrap_or_default() * 4.0) as i32
}

/// Returns the handwritten form of an export of tests/models/vm; functions without an argument ignore the number.
pub(crate) fn function(name: &str) -> Option<fn(i32) -> i32> {
    Some(match name {
        "empty" => |_| {
            empty();
            0
        },
        "call_internal" => call_internal,
        "call_imported" => call_imported,
        "loop_sum" => loop_sum,
        // The compiler unrolls the loop: both functions have one form.
        "buffer_reduce" | "buffer_reduce_unrolled" => buffer_reduce,
        "multiply_add_modulo" => multiply_add_modulo,
        "collatz" => collatz,
        "fused_multiply_add" => fused_multiply_add,
        _ => return None,
    })
}
