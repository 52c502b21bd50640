//! Nests whose iterations several threads divide compute the same as on one thread.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use incarnate::Session;
use incarnate::runtime::vm::Buffer;
use incarnate::runtime::vm::parallel::{Divider, with_divider};
use incarnate_translated_tests::dividing::Module;

/// Runs each part on a thread of its own, the last one first, and counts divisions.
#[derive(Debug)]
struct Threads {
    parts: usize,
    divisions: AtomicUsize,
}

impl Divider for Threads {
    fn parts(&self, _: usize, _: u64) -> usize {
        self.parts
    }

    fn divide(&self, parts: usize, _: u64, run: &(dyn Fn(usize) + Sync)) {
        self.divisions.fetch_add(1, Ordering::Relaxed);
        std::thread::scope(|scope| {
            for part in (0..parts).rev() {
                scope.spawn(move || run(part));
            }
        });
    }
}

/// Runs a call with so many parts, and returns the number of divisions.
fn divisions(parts: usize, call: impl Fn()) -> usize {
    let threads = Arc::new(Threads { parts, divisions: AtomicUsize::new(0) });
    with_divider(threads.clone(), call);
    threads.divisions.load(Ordering::Relaxed)
}

/// Runs a call with each of some numbers of parts.
fn divided(call: impl Fn()) {
    for parts in [1, 2, 3, 7, 64] {
        assert_eq!(divisions(parts, &call), usize::from(parts > 1));
    }
}

fn number(at: usize) -> f32 {
    (at.wrapping_mul(2_654_435_769) >> 8 & 0xFFFF) as f32 / 256.0 - 100.0
}

fn buffer(count: usize, number: impl Fn(usize) -> f32) -> Arc<Buffer> {
    Buffer::copy_of(&(0..count).flat_map(|at| number(at).to_le_bytes()).collect::<Vec<u8>>()).unwrap()
}

fn numbers(buffer: &Buffer) -> Vec<f32> {
    buffer.to_vec().unwrap().chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

#[test]
fn elements_are_computed_once() {
    let module = Module::load_with(Session::builder()).unwrap();
    let (maps, biases) = (buffer(64 * 4096, number), buffer(64, |at| at as f32));
    divided(|| {
        let padded = buffer(64 * 4224, |at| at as f32);
        module.bias(&maps, &biases, &padded).unwrap();
        for (at, found) in numbers(&padded).into_iter().enumerate() {
            let (map, row, column) = (at / 4224, at % 4224 / 66, at % 66);
            let is_padding = row >= 64 || column >= 64;
            let computed = || number(map * 4096 + row * 64 + column) + map as f32 - at as f32;
            assert_eq!(found, if is_padding { at as f32 } else { computed() }, "{map} {row} {column}");
        }
    });
}

#[test]
fn reductions_begin_with_what_is_there() {
    let module = Module::load_with(Session::builder()).unwrap();
    let (maps, count) = (buffer(32 * 8192, number), 32 * 4096);
    divided(|| {
        let greatest = buffer(count, |at| if at % 3 == 0 { 50.0 } else { f32::NEG_INFINITY });
        module.pool(&maps, &greatest).unwrap();
        for (at, found) in numbers(&greatest).into_iter().enumerate() {
            let before = if at % 3 == 0 { 50.0 } else { f32::NEG_INFINITY };
            assert_eq!(found, before.max(number(2 * at)).max(number(2 * at + 1)), "{at}");
        }
    });
}

#[test]
fn rows_of_single_elements_are_loops() {
    let module = Module::load_with(Session::builder()).unwrap();
    let (rows, count) = (buffer(4096 * 132, number), 4096 * 32);
    let doubled = buffer(count, |_| -1.0);
    assert_eq!(divisions(3, || module.fourth(&rows, &doubled).unwrap()), 0);
    let expected = |at: usize| 2.0 * number(at / 32 * 132 + at % 32 * 4);
    assert!(numbers(&doubled).into_iter().enumerate().all(|(at, found)| found == expected(at)));
}

#[test]
fn iterations_that_compute_with_indices_are_not_divided() {
    let module = Module::load_with(Session::builder()).unwrap();
    let maps = Buffer::copy_of(&(0..64 * 4096i32).flat_map(i32::to_le_bytes).collect::<Vec<u8>>()).unwrap();
    let numbered = buffer(64 * 4224, |_| 0.0);
    assert_eq!(divisions(3, || module.numbered(&maps, &numbered).unwrap()), 0);
    let found = numbered.to_vec().unwrap();
    for (map, row, column) in [(0, 0, 0), (0, 1, 5), (7, 63, 62), (63, 63, 63), (63, 5, 0)] {
        let at = 4 * (map * 4224 + row * 66 + column);
        let expected = i32::try_from(map * 4096 + row * 64 + column + row).unwrap();
        assert_eq!(found[at..at + 4], expected.to_le_bytes(), "{map} {row} {column}");
    }
}
