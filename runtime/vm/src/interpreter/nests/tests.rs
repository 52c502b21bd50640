#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::BytecodeModule;
use super::super::tests::{outcome, verified};
use super::folding::MOST_FOLDED;
use crate::testing::Random;

/// Runs `@f` with and without nests; returns the outcome, and the number of nests.
fn both(text: &str) -> (String, usize) {
    let verified = verified(text);
    let optimized = BytecodeModule::with_short_nests(verified.clone()).unwrap();
    let plain = BytecodeModule::without_optimization(verified).unwrap();
    let expected = outcome(plain, &[], u64::MAX);
    assert_eq!(outcome(optimized.clone(), &[], u64::MAX), expected, "{text}");
    (expected, optimized.code(0).unwrap().nests.len())
}

/// Bytes of the buffer that is read and written.
const BYTES: usize = 40_000;

/// A loop: its registers, its trip count, and the strides of what is loaded and stored.
#[derive(Debug)]
struct Loop {
    count: u64,
    loaded: u64,
    stored: u64,
}

/// Emits the loops around `body`, and in front of it the indices: of the load in 50:51, of the store in 52:53.
fn nested(loops: &[Loop], body: &str) -> String {
    let mut text = String::new();
    let count = loops.len();
    let counter = |at: usize| format!("%i{}:{}", 60 + 2 * at, 61 + 2 * at);
    for (at, each) in loops.iter().enumerate() {
        text += &format!("  {} = vm.const.i64.zero\n  vm.br ^bb{}()\n", counter(at), 10 + at);
        text += &format!("^bb{}:\n  %i0:1 = vm.const.i64 {}\n", 10 + at, each.count);
        text += &format!("  %i2 = vm.cmp.lt.i64.s {}, %i0:1\n", counter(at));
        text += &format!("  vm.cond_br %i2, ^bb{}(), ^bb{}()\n^bb{}:\n", 20 + at, 30 + at, 20 + at);
    }
    text += "  %i50:51 = vm.const.i64 5000\n  %i52:53 = vm.const.i64.zero\n";
    for (at, each) in loops.iter().enumerate() {
        for (index, stride) in [("%i50:51", each.loaded), ("%i52:53", each.stored)] {
            text += &format!("  %i4:5 = vm.const.i64 {stride}\n");
            text += &format!("  {index} = vm.fma.i64 {}, %i4:5, {index}\n", counter(at));
        }
    }
    text += body;
    for at in (0..count).rev() {
        text += &format!("  %i0:1 = vm.const.i64 1\n  {} = vm.add.i64 {}, %i0:1\n", counter(at), counter(at));
        text += &format!("  vm.br ^bb{}()\n^bb{}:\n", 10 + at, 30 + at);
    }
    text
}

/// A function that fills a buffer, runs loops, and returns a number that depends on all elements and their order.
fn function(loops: &[Loop], body: &str) -> String {
    let fill = "  %i6 = vm.trunc.i64.i32 %i60:61\n  %i7 = vm.const.i32 -1640531527\n  %i6 = vm.mul.i32 %i6, %i7\n  \
        %i7 = vm.const.i32 9\n  %i6 = vm.shr.i32.u %i6, %i7\n  vm.buffer.store.i32 %i6, %r0, %i60:61\n";
    let all = [Loop { count: BYTES as u64 / 4, loaded: 0, stored: 0 }];
    let digest =
        "  %i6 = vm.buffer.load.i32 %r0, %i60:61\n  %i7 = vm.const.i32 31\n  %i20 = vm.fma.i32 %i20, %i7, %i6\n";
    // Labels differ from one nest to the next.
    let renamed = |text: String, by: usize| {
        (10..40).rev().fold(text, |text, label| text.replace(&format!("^bb{label}("), &format!("^bb{}(", label + by)))
    };
    let labelled = |text: String, by: usize| {
        let text = renamed(text, by);
        (10..40).rev().fold(text, |text, label| text.replace(&format!("^bb{label}:"), &format!("^bb{}:", label + by)))
    };
    format!(
        "vm.module @m\nvm.type i32\nvm.type i64\nvm.type !vm.buffer\nvm.export @f\nvm.func @f() -> (i32) {{\n^bb0:\n  \
        %i8:9 = vm.const.i64 {BYTES}\n  %i6 = vm.const.i32 16\n  %r0 = vm.buffer.alloc %i8:9, %i6\n  \
        %i20 = vm.const.i32.zero\n{}{}{}  vm.return %i20\n}}\n",
        nested(&all, fill),
        labelled(nested(loops, body), 100),
        labelled(nested(&all, digest), 200)
    )
}

/// Loads an element, and what is stored; `%i12` is to be stored.
const ELEMENTS: &str = "  %i10 = vm.buffer.load.i32 %r0, %i50:51\n  %i11 = vm.buffer.load.i32 %r0, %i52:53\n";
const STORE: &str = "  vm.buffer.store.i32 %i12, %r0, %i52:53\n";

#[test]
fn rows_share_strips_and_sums_stay_in_them() {
    let mut random = Random(0x6A09_E667_F3BC_C908);
    let counts = [1, 2, 3, 5, 7, 16, 31];
    for round in 0..60 {
        // Stored elements are distinct: each loop goes as far as all within it, and sometimes further.
        let (mut loops, mut reach) = (Vec::new(), 1);
        while loops.len() < 3 && reach < 120 {
            let count = counts[random.below(counts.len() as u64) as usize];
            let loaded = [0, 1, 2, reach, reach + 3][random.below(5) as usize];
            loops.insert(0, Loop { count, loaded, stored: reach });
            reach = reach * count + random.below(2);
        }
        // Loops that sum, within the others or around them.
        for _ in 0..random.below(3) {
            let at = random.below(loops.len() as u64 + 1) as usize;
            loops.insert(at, Loop { count: 1 + random.below(4), loaded: random.below(20), stored: 0 });
        }
        let operation = ["add.i32", "mul.i32", "xor.i32", "max.i32.s"][random.below(4) as usize];
        let body = match round % 3 {
            0 => format!("{ELEMENTS}  %i12 = vm.{operation} %i11, %i10\n{STORE}"),
            1 => format!("{ELEMENTS}  %i12 = vm.fma.i32 %i10, %i11, %i11\n  %i12 = vm.{operation} %i12, %i10\n{STORE}"),
            _ => {
                format!("  %i10 = vm.trunc.i64.i32 %i50:51\n  %i12 = vm.{operation} %i10, %i10\n{STORE}")
            }
        };
        let (outcome, nests) = both(&function(&loops, &body));
        assert!(outcome.starts_with("[I32(") && nests >= 2, "{outcome} {nests} {loops:?}\n{body}");
    }
}

#[test]
fn sums_that_other_loads_see_are_in_memory() {
    // What is loaded is what is stored, in the same iteration or in others.
    for distance in [5000, 4999, 4960] {
        let loops = [Loop { count: 40, loaded: 1, stored: 1 }, Loop { count: 3, loaded: 0, stored: 0 }];
        let body = format!(
            "  %i4:5 = vm.const.i64 {distance}\n  %i50:51 = vm.sub.i64 %i50:51, %i4:5\n{ELEMENTS}  \
            %i12 = vm.add.i32 %i11, %i10\n{STORE}"
        );
        let (outcome, _) = both(&function(&loops, &body));
        assert!(outcome.starts_with("[I32("), "{outcome}");
    }
}

/// Loops over elements that change the number in `%i20`, or the first element.
#[test]
fn numbers_are_folded_in_the_order_of_the_bytecode() {
    let element = "  %i10 = vm.buffer.load.i32 %r0, %i50:51\n";
    let float = "  %i10 = vm.buffer.load.i32 %r0, %i50:51\n  %i10 = vm.cast.si32.f32 %i10\n";
    let first = "  %i11 = vm.buffer.load.i32 %r0, %i52:53\n";
    let folds = [
        format!("{element}  %i20 = vm.add.i32 %i20, %i10\n"),
        format!("{element}  %i20 = vm.mul.i32 %i10, %i20\n"),
        format!("{element}  %i20 = vm.xor.i32 %i20, %i10\n"),
        format!("{element}  %i20 = vm.max.i32.s %i20, %i10\n"),
        format!("{element}  %i20 = vm.min.i32.u %i10, %i20\n"),
        format!("{element}  %i20 = vm.fma.i32 %i10, %i10, %i20\n"),
        format!("{float}  %i20 = vm.add.f32 %i20, %i10\n"),
        format!("{float}  %i20 = vm.add.f32 %i10, %i20\n"),
        format!("{float}  %i20 = vm.max.f32 %i20, %i10\n"),
        format!("{float}  %i20 = vm.fma.f32 %i10, %i10, %i20\n"),
        format!(
            "{element}  %i20 = vm.add.i32 %i20, %i10\n  %i20 = vm.add.i32 %i10, %i20\n  %i20 = vm.add.i32 %i20, %i10\n"
        ),
        // Two numbers, and elements that are stored.
        format!("{element}  %i20 = vm.add.i32 %i20, %i10\n  %i21 = vm.xor.i32 %i21, %i10\n"),
        format!("{element}  %i20 = vm.add.i32 %i20, %i10\n  vm.buffer.store.i32 %i10, %r0, %i60:61\n"),
        // One element in memory.
        format!("{element}{first}  %i12 = vm.add.i32 %i11, %i10\n{STORE}"),
        format!("{float}{first}  %i12 = vm.add.f32 %i10, %i11\n{STORE}"),
    ];
    let others = [
        format!("{float}  %i20 = vm.add.f32 %i20, %i10\n  %i20 = vm.add.f32 %i20, %i10\n"),
        format!("{element}  %i20 = vm.fma.i32 %i20, %i20, %i10\n"),
        format!("{element}  %i20 = vm.add.i32 %i20, %i10\n  vm.buffer.store.i32 %i20, %r0, %i60:61\n"),
        format!("{first}  vm.buffer.store.i32 %i11, %r0, %i52:53\n"),
    ];
    for (bodies, expected) in [(&folds[..], 2), (&others[..], 1)] {
        for (body, count) in bodies.iter().flat_map(|body| [1, 255, 600].map(|count| (body, count))) {
            let (outcome, nests) = both(&function(&[Loop { count, loaded: 1, stored: 0 }], body));
            assert!(outcome.starts_with("[I32(") && nests == expected, "{outcome} {nests}\n{body}");
        }
    }
}

/// More numbers than that many are left to the instructions.
#[test]
fn a_nest_folds_a_limited_count_of_numbers() {
    for (count, expected) in [(MOST_FOLDED, 2), (MOST_FOLDED + 1, 1)] {
        let numbers = || (100..100 + count).map(|register| format!("%i{register}"));
        let sums: String = numbers().map(|number| format!("  {number} = vm.add.i32 {number}, %i10\n")).collect();
        let all: String = numbers().map(|number| format!("  %i20 = vm.xor.i32 %i20, {number}\n")).collect();
        let body = format!("  %i10 = vm.buffer.load.i32 %r0, %i50:51\n{sums}");
        let text = function(&[Loop { count: 300, loaded: 1, stored: 0 }], &body);
        let (outcome, nests) = both(&text.replace("  vm.return %i20\n", &format!("{all}  vm.return %i20\n")));
        assert!(outcome.starts_with("[I32(") && nests == expected, "{outcome} {nests} {count}");
    }
}

/// Where the element that others are folded into is among those, iterations depend on each other.
#[test]
fn elements_that_are_folded_into_themselves_are_left_to_the_instructions() {
    let body = String::from("  %i4:5 = vm.const.i64 4999\n  %i50:51 = vm.sub.i64 %i50:51, %i4:5\n") + ELEMENTS;
    let body = body + "  %i12 = vm.add.i32 %i11, %i10\n" + STORE;
    for first in [0, 1, 2, 300] {
        let body = body.replace("4999", &format!("{}", 5000 - first)).replace("%i52:53", "%i54:55");
        let body = format!("  %i54:55 = vm.const.i64 2\n{body}");
        let (outcome, nests) = both(&function(&[Loop { count: 500, loaded: 1, stored: 0 }], &body));
        assert!(outcome.starts_with("[I32(") && nests == 2, "{outcome} {nests}");
    }
}

/// An innermost loop of one iteration, around which the elements that it folds into move, or those that it stores do not.
#[test]
fn loops_of_one_iteration_keep_the_order_of_those_around_them() {
    let sum = format!("{ELEMENTS}  %i12 = vm.add.i32 %i11, %i10\n{STORE}");
    let again = "  %i4:5 = vm.const.i64 2000\n  %i56:57 = vm.add.i64 %i50:51, %i4:5\n  \
        vm.buffer.store.i32 %i10, %r0, %i56:57\n";
    let of = |around: Loop, innermost: Loop, body: &str| both(&function(&[around, innermost], body));
    for (around, stored, body) in [(2, 0, sum.clone()), (0, 1, sum.clone() + again), (0, 2, sum.clone())] {
        for count in [1, 2, 300] {
            let loops =
                [(count, 1, around), (1, 300, stored)].map(|(count, loaded, stored)| Loop { count, loaded, stored });
            let [around, innermost] = loops;
            let (outcome, nests) = of(around, innermost, &body);
            assert!(outcome.starts_with("[I32(") && nests >= 2, "{outcome} {nests} {count}\n{body}");
        }
    }
}

#[test]
fn loops_that_only_count_take_their_iterations_at_once() {
    let text = "vm.module @m\nvm.type i32\nvm.export @f\nvm.func @f() -> (i32) {\n^bb0:\n  %i0 = vm.const.i32.zero\n  \
        %i1 = vm.const.i32 1\n  %i2 = vm.const.i32 100000\n  vm.br ^bb1()\n^bb1:\n  %i0 = vm.add.i32 %i0, %i1\n  \
        %i3 = vm.cmp.lt.i32.s %i0, %i2\n  vm.cond_br %i3, ^bb1(), ^bb2()\n^bb2:\n  vm.return %i0\n}\n";
    assert_eq!(both(text), ("[I32(100000)]".into(), 1));
}

#[test]
fn short_loops_are_left_to_the_instructions() {
    let nests = |count| {
        let loops = [Loop { count, loaded: 1, stored: 0 }];
        let text = function(&loops, "  %i10 = vm.buffer.load.i32 %r0, %i50:51\n  %i20 = vm.add.i32 %i20, %i10\n");
        let module = BytecodeModule::new(verified(&text)).unwrap();
        assert_eq!(outcome(module.clone(), &[], u64::MAX), both(&text).0);
        module.code(0).unwrap().nests.len()
    };
    // The other nest fills the buffer.
    assert_eq!([nests(4), nests(400)], [1, 2]);
}

/// A gather in a strip that has stored before: where its index is out of range, the instructions run again from the first iteration.
#[test]
fn stores_before_gathers_are_left_to_the_instructions() {
    let body = "  %i10 = vm.buffer.load.i32 %r0, %i50:51\n  vm.buffer.store.i32 %i10, %r0, %i52:53\n  \
        %i4:5 = vm.const.i64 1\n  %i54:55 = vm.xor.i64 %i60:61, %i4:5\n  %i54:55 = vm.add.i64 %i54:55, %i54:55\n  \
        %i11 = vm.buffer.load.i32 %r0, %i54:55\n  %i4:5 = vm.const.i64 7000\n  %i56:57 = vm.add.i64 %i52:53, %i4:5\n  \
        vm.buffer.store.i32 %i11, %r0, %i56:57\n";
    let (outcome, nests) = both(&function(&[Loop { count: 300, loaded: 2, stored: 2 }], body));
    assert!(outcome.starts_with("[I32(") && nests == 1, "{outcome} {nests}");
}
