//! Tests of every function against an elementwise definition, over strided and odd shapes.
#![allow(clippy::unwrap_used, reason = "tests")]

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::StatusCode;
use crate::vm::{Buffer, Context, Limits, Module, Program, Ref, Scalar, Value, semantics};

/// A program that consists of the module, and a random number generator.
struct Guest {
    context: Arc<Context>,
    state: u64,
}

impl Guest {
    fn new() -> Guest {
        let modules: Vec<Arc<dyn Module>> = vec![Arc::new(module())];
        let context = Context::new(Program::link(modules).unwrap(), Limits::default()).unwrap();
        Guest { context, state: 0x9E37_79B9_7F4A_7C15 }
    }

    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    /// Creates a buffer of elements, which a function computes from random numbers.
    fn buffer<T: Scalar>(&mut self, length: usize, mut element: impl FnMut(u64) -> T) -> Arc<Buffer> {
        let buffer = Buffer::zeroed((length * size_of::<T>()) as u64, 0, None).unwrap();
        for index in 0..length as u64 {
            let number = self.next();
            buffer.store(index, element(number)).unwrap();
        }
        buffer
    }

    fn call(&self, name: &str, arguments: Vec<Value>) -> crate::Result<Vec<Value>> {
        self.context.function(&alloc::format!("{NAME}.{name}")).unwrap().call(&arguments)
    }
}

fn r(buffer: &Arc<Buffer>) -> Value {
    Value::Ref(Ref::from(buffer.clone()))
}

fn words(numbers: &[u64]) -> impl Iterator<Item = Value> {
    numbers.iter().map(|number| Value::I64(*number as i64))
}

fn operand(buffer: &Arc<Buffer>, offset: u64, strides: [u64; 2]) -> Vec<Value> {
    [r(buffer)].into_iter().chain(words(&[offset, strides[0], strides[1]])).collect()
}

fn all<T: Scalar>(buffer: &Buffer) -> Vec<T> {
    (0..buffer.length() / size_of::<T>() as u64).map(|index| buffer.load(index).unwrap()).collect()
}

/// Sizes, and offset and strides of two sources and a target.
type Shape = ([u64; 2], [(u64, [u64; 2]); 3]);

const SHAPES: [Shape; 9] = [
    ([1, 1], [(0, [1, 1]), (0, [1, 1]), (0, [1, 1])]),
    ([3, 7], [(0, [7, 1]), (0, [7, 1]), (0, [7, 1])]),
    ([5, 300], [(3, [301, 1]), (0, [0, 1]), (2, [310, 1])]),
    ([4, 259], [(0, [259, 1]), (5, [1, 0]), (0, [259, 1])]),
    ([6, 5], [(1, [1, 6]), (0, [5, 1]), (4, [1, 9])]),
    ([1000, 1], [(0, [1, 1]), (0, [0, 0]), (1, [2, 7])]),
    ([3, 4], [(0, [10, 2]), (7, [4, 1]), (0, [9, 2])]),
    ([2, 513], [(0, [0, 1]), (0, [513, 1]), (0, [513, 1])]),
    ([0, 5], [(9999, [5, 1]), (0, [5, 1]), (0, [5, 1])]),
];

/// Computes the target by the elementwise definition; elements outside the region stay.
fn expected<T: Scalar>(
    (sizes, [left, right, target]): Shape,
    sources: [&Buffer; 2],
    before: &[T],
    function: impl Fn(T, T) -> T,
) -> Vec<T> {
    let mut elements = before.to_vec();
    let index = |(offset, strides): (u64, [u64; 2]), row, column| offset + row * strides[0] + column * strides[1];
    for row in 0..sizes[0] {
        for column in 0..sizes[1] {
            let operands = [sources[0].load(index(left, row, column)), sources[1].load(index(right, row, column))];
            let [left, right] = operands.map(|element| element.unwrap());
            elements[index(target, row, column) as usize] = function(left, right);
        }
    }
    elements
}

/// Compares bits, so that NaNs compare equal.
fn bits<T: Scalar>(elements: &[T]) -> Vec<u8> {
    let buffer = Buffer::zeroed(size_of_val(elements) as u64, 0, None).unwrap();
    buffer.store_slice(0, elements).unwrap();
    buffer.to_vec().unwrap()
}

fn check<T: Scalar>(
    guest: &mut Guest,
    name: &str,
    operands: usize,
    element: impl Fn(u64) -> T + Copy,
    function: impl Fn(T, T) -> T + Copy,
) {
    for shape in SHAPES {
        let (sizes, [left, right, target]) = shape;
        let (a, b) = (guest.buffer(2000, element), guest.buffer(2100, element));
        let out = guest.buffer(2500, element);
        let wanted = expected(shape, [&a, &b], &all::<T>(&out), function);
        let mut arguments = operand(&a, left.0, left.1);
        if operands == 2 {
            arguments.extend(operand(&b, right.0, right.1));
        }
        arguments.extend(operand(&out, target.0, target.1));
        arguments.extend(words(&sizes));
        guest.call(name, arguments).unwrap();
        assert_eq!(bits(&all::<T>(&out)), bits(&wanted), "{name} {shape:?}");
    }
}

fn float(number: u64) -> f32 {
    // Some five hundred numbers around zero, and some NaNs.
    if number.is_multiple_of(97) { f32::NAN } else { (number % 1000) as f32 / 8.0 - 60.0 }
}

#[test]
fn unary_functions_are_those_of_one_element() {
    let guest = &mut Guest::new();
    check(guest, "abs.2d.f32", 1, float, |a, _| a.abs());
    check(guest, "ceil.2d.f32", 1, float, |a, _| a.ceil());
    check(guest, "floor.2d.f32", 1, float, |a, _| a.floor());
    check(guest, "neg.2d.f32", 1, float, |a, _| -a);
    check(guest, "exp.2d.f32", 1, float, |a, _| semantics::exp_f32(a));
    check(guest, "log.2d.f32", 1, |number| (number % 999 + 1) as f32, |a, _| a.ln());
    check(guest, "rsqrt.2d.f32", 1, |number| (number % 999 + 1) as f32, |a, _| 1.0 / a.sqrt());
    check(guest, "ctlz.2d.i32", 1, |number| (number >> (number % 40)) as i32, |a, _| a.leading_zeros() as i32);
    check(guest, "copy.2d.x8", 1, |number| number as u8, |a, _| a);
    check(guest, "copy.2d.x16", 1, |number| number as u16, |a, _| a);
    check(guest, "copy.2d.x32", 1, |number| number as u32, |a, _| a);
    check(guest, "copy.2d.x64", 1, |number| number, |a, _| a);
}

#[test]
fn binary_functions_are_those_of_one_element() {
    let guest = &mut Guest::new();
    check(guest, "add.2d.f32", 2, float, |a, b| a + b);
    check(guest, "sub.2d.f32", 2, float, |a, b| a - b);
    check(guest, "mul.2d.f32", 2, float, |a, b| a * b);
    check(guest, "div.2d.f32", 2, float, |a, b| a / b);
    let integer = |number: u64| number as i32;
    check(guest, "add.2d.i32", 2, integer, i32::wrapping_add);
    check(guest, "sub.2d.i32", 2, integer, i32::wrapping_sub);
    check(guest, "mul.2d.i32", 2, integer, i32::wrapping_mul);
    check(guest, "and.2d.i32", 2, integer, |a, b| a & b);
    check(guest, "or.2d.i32", 2, integer, |a, b| a | b);
    check(guest, "xor.2d.i32", 2, integer, |a, b| a ^ b);
    let amount = |number: u64| (number % 32) as i32;
    check(guest, "shl.2d.i32", 2, amount, |a, b| a << b);
    check(guest, "shrs.2d.i32", 2, amount, |a, b| a >> b);
    check(guest, "shru.2d.i32", 2, amount, |a, b| (a as u32 >> b) as i32);
    let divisor = |number: u64| (number as i32) | 1;
    check(guest, "divs.2d.i32", 2, divisor, i32::wrapping_div);
    check(guest, "divu.2d.i32", 2, divisor, |a, b| (a as u32 / b as u32) as i32);
}

#[test]
fn functions_work_in_place() {
    let guest = &mut Guest::new();
    let buffer = guest.buffer(700, float);
    let before = all::<f32>(&buffer);
    let twice = [operand(&buffer, 0, [700, 1]), operand(&buffer, 0, [700, 1]), operand(&buffer, 0, [700, 1])];
    guest.call("add.2d.f32", twice.into_iter().flatten().chain(words(&[1, 700])).collect()).unwrap();
    let wanted: Vec<f32> = before.iter().map(|element| element + element).collect();
    assert_eq!(bits(&all::<f32>(&buffer)), bits(&wanted));
}

#[test]
fn fills_write_rows_and_nothing_else() {
    let guest = &mut Guest::new();
    for (offset, stride, sizes) in [(0, 300, [2, 300]), (5, 11, [7, 3]), (1, 0, [3, 4]), (3, 9, [0, 9])] {
        let buffer = guest.buffer(600, |number| number as u32);
        let mut wanted = all::<u32>(&buffer);
        for row in 0..sizes[0] {
            for column in 0..sizes[1] {
                wanted[(offset + row * stride + column) as usize] = 77;
            }
        }
        let numbers = [offset, stride, sizes[0], sizes[1]];
        let arguments = [Value::I32(77), r(&buffer)].into_iter().chain(words(&numbers)).collect();
        guest.call("fill.2d.x32", arguments).unwrap();
        assert_eq!(all::<u32>(&buffer), wanted);
    }
}

/// Numbers of tiles, tile sizes, and the padding of rows.
const PRODUCTS: [([u64; 3], [u64; 3], u64); 9] = [
    ([1, 1, 1], [1, 1, 1], 0),
    ([3, 2, 5], [8, 8, 1], 3),
    ([2, 3, 7], [8, 4, 1], 0),
    ([2, 2, 600], [16, 16, 1], 0),
    ([2, 3, 9], [8, 8, 2], 1),
    ([1, 2, 4], [3, 5, 7], 2),
    ([2, 2, 3], [8, 8, 4], 0),
    ([2, 1, 0], [4, 4, 2], 1),
    ([0, 2, 3], [4, 4, 1], 0),
];

fn check_product<A: Scalar, C: Scalar + Default>(
    guest: &mut Guest,
    flags: u32,
    left: impl Fn(u64) -> A + Copy,
    sum: impl Fn(u64) -> C + Copy,
    step: impl Fn(A, A, C) -> C,
) {
    for (([m, n, k], [m0, n0, k0], more), accumulate) in
        PRODUCTS.iter().copied().flat_map(|product| [(product, false), (product, true)])
    {
        let strides = [k * m0 * k0 + more, k * n0 * k0 + more, n * m0 * n0 + more];
        let length = |rows: u64, stride: u64| (rows * stride + 5) as usize;
        let (a, b) = (guest.buffer(length(m, strides[0]), left), guest.buffer(length(n, strides[1]), left));
        let out = guest.buffer(length(m, strides[2]), sum);
        let mut wanted = all::<C>(&out);
        for (i, j, row, column) in (0..m).flat_map(move |i| {
            (0..n).flat_map(move |j| (0..m0).flat_map(move |row| (0..n0).map(move |column| (i, j, row, column))))
        }) {
            let element = &mut wanted[(2 + i * strides[2] + (j * m0 + row) * n0 + column) as usize];
            let mut sum = if accumulate { *element } else { C::default() };
            for (step_k, inner) in (0..k).flat_map(|step_k| (0..k0).map(move |inner| (step_k, inner))) {
                let left = a.load(1 + i * strides[0] + (step_k * m0 + row) * k0 + inner).unwrap();
                let right = b.load(3 + j * strides[1] + (step_k * n0 + column) * k0 + inner).unwrap();
                sum = step(left, right, sum);
            }
            *element = sum;
        }
        let mut arguments = vec![r(&a)];
        arguments.extend(words(&[1, strides[0]]));
        arguments.push(r(&b));
        arguments.extend(words(&[3, strides[1]]));
        arguments.push(r(&out));
        arguments.extend(words(&[2, strides[2], m, n, k]));
        let flags = flags | if accumulate { 0x100 } else { 0 };
        arguments.extend([m0 as u32, n0 as u32, k0 as u32, flags].map(|number| Value::I32(number as i32)));
        guest.call("mmt4d", arguments).unwrap();
        assert_eq!(bits(&all::<C>(&out)), bits(&wanted), "{m} {n} {k} {m0} {n0} {k0} {accumulate}");
    }
}

#[test]
fn products_of_tiles_are_those_of_one_element() {
    let guest = &mut Guest::new();
    let number = |number: u64| (number % 64) as f32 / 4.0 - 8.0;
    check_product::<f32, f32>(guest, 1, number, number, |left, right, sum| sum + left * right);
    let step = |left: i8, right: i8, sum: i32| sum.wrapping_add(i32::from(left) * i32::from(right));
    check_product::<i8, i32>(guest, 2, |number| number as i8, |number| number as i32, step);
}

/// Sizes of a matrix, of its outer tiles, and of a tile.
const PACKINGS: [([u64; 2], [u64; 2], [u64; 2]); 5] = [
    ([1, 1], [1, 1], [1, 1]),
    ([5, 7], [3, 2], [2, 4]),
    ([16, 16], [2, 2], [8, 8]),
    ([3, 10], [1, 3], [8, 4]),
    ([4, 4], [3, 3], [2, 2]),
];

/// Returns the index of an element of a packed matrix whose outer rows are padded.
fn packed_index([row, column]: [u64; 2], outer: [u64; 2], tile: [u64; 2], flags: u32) -> u64 {
    let (place, within) = ([row / tile[0], column / tile[1]], [row % tile[0], column % tile[1]]);
    let length = tile[0] * tile[1];
    let outer_index = if flags & 0x200 == 0 {
        place[0] * (outer[1] * length + 3) + place[1] * length
    } else {
        place[1] * (outer[0] * length + 3) + place[0] * length
    };
    outer_index + if flags & 0x100 == 0 { within[0] * tile[1] + within[1] } else { within[1] * tile[0] + within[0] }
}

fn check_packing<T: Scalar + PartialEq + core::fmt::Debug>(
    guest: &mut Guest,
    types: u32,
    element: impl Fn(u64) -> T + Copy,
    unpacks: bool,
) {
    for ((sizes, outer, tile), transposed) in
        PACKINGS.iter().flat_map(|packing| [0, 0x100, 0x200, 0x300].map(move |flags| (*packing, flags)))
    {
        let flags = types | transposed;
        let reversed = |pair: [u64; 2], flag| if transposed & flag == 0 { pair } else { [pair[1], pair[0]] };
        let (memory_outer, memory_tile) = (reversed(outer, 0x200), reversed(tile, 0x100));
        let row_stride = memory_outer[1] * tile[0] * tile[1] + 3;
        let padding = element(12345);
        let strides = [sizes[1] * 2 + 1, 2];
        let matrix = guest.buffer((sizes[0] * strides[0]) as usize, element);
        let packed = guest.buffer((memory_outer[0] * row_stride) as usize, element);
        let mut wanted = all::<T>(&packed);
        for row in 0..outer[0] * tile[0] {
            for column in 0..outer[1] * tile[1] {
                let inside = row < sizes[0] && column < sizes[1];
                let source = row * strides[0] + column * strides[1];
                wanted[packed_index([row, column], outer, tile, flags) as usize] =
                    if inside { matrix.load(source).unwrap() } else { padding };
            }
        }
        let tiles = [memory_outer, memory_tile].concat();
        let mut arguments = operand(&matrix, 0, strides);
        arguments.extend(operand(&packed, 0, [row_stride, 0]));
        arguments.extend(words(&sizes).chain(words(&tiles)));
        let padding_bits = bits(&[padding]).iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
        arguments.extend([Value::I64(padding_bits as i64), Value::I32(flags as i32)]);
        guest.call("pack", arguments).unwrap();
        assert_eq!(all::<T>(&packed), wanted, "{sizes:?} {outer:?} {tile:?} {flags:#x}");
        if !unpacks {
            continue;
        }
        let back = guest.buffer((sizes[0] * strides[0]) as usize, element);
        let mut wanted = all::<T>(&back);
        for row in 0..sizes[0].min(outer[0] * tile[0]) {
            for column in 0..sizes[1].min(outer[1] * tile[1]) {
                let index = (row * strides[0] + column * strides[1]) as usize;
                wanted[index] = matrix.load(index as u64).unwrap();
            }
        }
        let mut arguments = operand(&packed, 0, [row_stride, 0]);
        arguments.extend(operand(&back, 0, strides));
        arguments.extend(words(&tiles).chain(words(&sizes)));
        arguments.push(Value::I32(flags as i32));
        guest.call("unpack", arguments).unwrap();
        assert_eq!(all::<T>(&back), wanted, "{sizes:?} {outer:?} {tile:?} {flags:#x}");
    }
}

#[test]
fn packed_matrices_hold_every_element_once() {
    let guest = &mut Guest::new();
    check_packing::<u32>(guest, 1, |number| number as u32, true);
    check_packing::<u32>(guest, 3, |number| number as u32, true);
    check_packing::<u8>(guest, 2, |number| number as u8, false);
}

#[test]
fn tiles_of_a_product_fit_each_other() {
    let guest = Guest::new();
    for operation in [0x100, 0x200] {
        let sizes = |operand: i32| {
            let arguments = words(&[100, 100]).chain([Value::I32(operation | operand)]).collect();
            match guest.call("query_tile_sizes.2d", arguments).unwrap().as_slice() {
                [Value::I64(rows), Value::I64(columns)] => [*rows, *columns],
                other => unreachable!("{other:?}"),
            }
        };
        let (left, right, result) = (sizes(1), sizes(2), sizes(3));
        assert_eq!((left[1], [left[0], right[0]]), (right[1], result));
        assert!(result.iter().chain(&left).all(|size| *size > 0));
    }
    let code = |flags| {
        let error = guest.call("query_tile_sizes.2d", words(&[1, 1]).chain([Value::I32(flags)]).collect());
        error.unwrap_err().code()
    };
    assert_eq!((code(0x104), code(0x901)), (StatusCode::InvalidArgument, StatusCode::InvalidArgument));
}

#[test]
fn ranges_beyond_a_buffer_are_rejected() {
    let guest = &mut Guest::new();
    let source = guest.buffer(100, |number| number as u32);
    let target = guest.buffer(100, |number| number as u32);
    let before = target.to_vec().unwrap();
    let copy = |from: (u64, [u64; 2]), to: (u64, [u64; 2]), sizes: [u64; 2]| {
        let operands = [operand(&source, from.0, from.1), operand(&target, to.0, to.1)].concat();
        guest.call("copy.2d.x32", operands.into_iter().chain(words(&sizes)).collect()).unwrap_err().code()
    };
    let dense = (0, [10, 1]);
    for bad in [(1, [10, 1]), (0, [11, 1]), (0, [10, 2]), (u64::MAX, [10, 1]), (1 << 62, [10, 1])] {
        assert_eq!(copy(bad, dense, [10, 10]), StatusCode::OutOfRange, "{bad:?}");
        assert_eq!(copy(dense, bad, [10, 10]), StatusCode::OutOfRange, "{bad:?}");
    }
    for bad in [(0, [u64::MAX, 1]), (0, [1, 1 << 32])] {
        assert_eq!(copy(bad, dense, [10, 10]), StatusCode::InvalidArgument, "{bad:?}");
    }
    assert_eq!(copy(dense, dense, [1 << 33, 1]), StatusCode::InvalidArgument);
    assert_eq!(copy((0, [0xFFFF_FFFF, 0xFFFF_FFFF]), dense, [0xFFFF_FFFF; 2]), StatusCode::OutOfRange);
    assert_eq!(target.to_vec().unwrap(), before);
    let contents = Arc::new(crate::bytecode::Contents::from_vec(vec![0; 64]));
    let constant = Buffer::of_contents(contents, 0..64).unwrap();
    let operands = [operand(&source, 0, [4, 1]), operand(&constant, 0, [4, 1])].concat();
    let written = guest.call("copy.2d.x32", operands.into_iter().chain(words(&[4, 4])).collect());
    assert_eq!(written.unwrap_err().code(), StatusCode::PermissionDenied);
    let zero = Buffer::zeroed(16, 0, None).unwrap();
    let operands = [operand(&source, 0, [4, 1]), operand(&zero, 0, [4, 1]), operand(&target, 0, [4, 1])].concat();
    let divided = guest.call("divs.2d.i32", operands.into_iter().chain(words(&[1, 4])).collect());
    assert_eq!(divided.unwrap_err().code(), StatusCode::InvalidArgument);
}

#[test]
fn absurd_tiles_take_no_memory() {
    let guest = &mut Guest::new();
    let buffer = guest.buffer(64, |number| number as u32);
    let product = |numbers: [u64; 3], tile: [u32; 3]| {
        let mut arguments = Vec::new();
        for _ in 0..3 {
            arguments.push(r(&buffer));
            arguments.extend(words(&[0, 1]));
        }
        arguments.extend(words(&numbers));
        arguments.extend(tile.map(|size| Value::I32(size as i32)));
        arguments.push(Value::I32(1));
        guest.call("mmt4d", arguments)
    };
    assert!(product([1, 1, 1], [u32::MAX, u32::MAX, 1]).is_err());
    assert!(product([1, 1, 0], [u32::MAX, 1, u32::MAX]).is_err());
    assert!(product([u64::MAX, 1, 1], [1, 1, 1]).is_err());
    assert!(product([1, 1, u64::MAX], [2, 2, 2]).is_err());
    assert!(product([1, 1, 1], [0, 0, 0]).is_ok());
}
