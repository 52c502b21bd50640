//! Loops that sum products, against the plain code.

use super::*;

/// A loop that adds products: 0:1 (counter), 2:3 (step), 4:5 (limit), 6:7 (offset), 8 and 9 (factors), 10 (sum). Factors
/// often lie in the buffer that the sum is stored to.
fn contraction(random: &mut Random) -> String {
    let mut text = String::from(
        "vm.module @m\nvm.type i32\nvm.type i64\nvm.type !vm.buffer\n\
        vm.rodata[0] = 000000400000803F03000000FF00004000004040020000000000003F05000000\nvm.export @f\n\
        vm.func @f() -> (i32, i32, i32, i32, i32, i32, i32, i32, i32, i32, i32, i64) {\n^bb0:\n  \
        %r0 = vm.const.ref.rodata 0\n  %i10:11 = vm.const.i64 0\n  %i12:13 = vm.const.i64 32\n  \
        %r1 = vm.buffer.clone %r0, %i10:11, %i12:13, %i10\n  %r2 = vm.const.ref.rodata 0\n",
    );
    for (register, limit) in [(0, 2), (2, 3), (4, 9), (6, 4)] {
        text += &format!("  %i{register}:{} = vm.const.i64 {}\n", register + 1, random.below(limit));
    }
    text += "  %i8 = vm.const.i32 3\n  %i9 = vm.const.i32 1\n";
    let rotated = random.below(2) == 0;
    let test = format!("  %i11 = vm.cmp.lt.i64.s {}, {}\n", random.pair(0), random.pair(4));
    text += "  vm.br ^bb1()\n^bb1:\n";
    if rotated {
        text += &format!("{test}  vm.cond_br %i11, ^bb2(), ^bb3()\n^bb2:\n");
    }
    let load = random.pick(&["i32", "i32", "i8.s", "i8.u"]);
    for (factor, index) in [(8, 12), (9, 14)] {
        let target = format!("%i{index}:{}", index + 1);
        let (counter, fixed, offset) = (random.pair(0), random.pair(2), random.pair(6));
        let found = match random.below(5) {
            0 => counter,
            1 => offset,
            form => {
                text += &match form {
                    2 => format!("  {target} = vm.add.i64 {offset}, {counter}\n"),
                    3 => format!("  {target} = vm.mul.i64 {counter}, {fixed}\n"),
                    _ => format!("  {target} = vm.fma.i64 {counter}, {fixed}, {offset}\n"),
                };
                target
            }
        };
        let buffer = random.pick(&["%r0", "%r1"]);
        text += &format!("  {} = vm.buffer.load.{load} {buffer}, {found}\n", random.word(factor));
    }
    let (in_buffer, at) = (random.below(3) != 0, random.pick(&["%i6:7", "%i6:7", "%i0:1", "%i12:13"]));
    let target = random.pick(&["%r1", "%r1", "%r1", "%r1", "%r2"]);
    if in_buffer {
        text += &format!("  %i10 = vm.buffer.load.i32 {target}, {at}\n");
    }
    let operation = if load == "i32" { random.pick(&["fma.i32", "fma.f32"]) } else { "fma.i32" };
    text += &format!("  %i10 = vm.{operation} {}, {}, {}\n", random.word(8), random.word(9), random.word(10));
    if in_buffer {
        // Now and then the sum goes elsewhere than it came from.
        let (target, at) = match random.below(8) {
            0 => ("%r1", at),
            1 => (target, "%i6:7"),
            _ => (target, at),
        };
        text += &format!("  vm.buffer.store.i32 %i10, {target}, {at}\n");
    }
    text += &format!("  {} = vm.add.i64 {}, {}\n", random.pair(0), random.pair(0), random.pair(2));
    text += &if rotated { "  vm.br ^bb1()\n".into() } else { format!("{test}  vm.cond_br %i11, ^bb1(), ^bb3()\n") };
    text + "^bb3:\n  %i12:13 = vm.const.i64 0\n  %i14:15 = vm.const.i64 32\n  \
        %i12:13 = vm.buffer.hash %r1, %i12:13, %i14:15\n  \
        vm.return %i0, %i1, %i2, %i3, %i4, %i5, %i6, %i7, %i8, %i9, %i10, %i12:13\n}\n"
}

#[test]
fn contractions_over_any_registers_and_buffers_are_those_of_the_plain_code() {
    let mut random = Random(3);
    let (mut separate, mut ended) = (0, 0);
    for _ in 0..2000 {
        let (outcome, loops) = both(&contraction(&mut random), &[]);
        separate += loops;
        ended += usize::from(loops == 1 && outcome.starts_with('['));
    }
    assert!(separate > 300 && ended > 150, "{separate} loops were run separately, {ended} of them to their end");
}

/// Contractions whose indices are sums of several values, and those of bytes that are widened after they are loaded.
#[test]
fn contractions_of_convolutions_and_bytes_are_nests() {
    for body in [
        "  %i30:31 = vm.add.i64 %i10:11, %i40:41\n  %i30:31 = vm.add.i64 %i30:31, %i42:43\n  \
         %i20 = vm.buffer.load.f32 %r0, %i30:31\n  %i30:31 = vm.fma.i64 %i10:11, %i42:43, %i14:15\n  \
         %i30:31 = vm.add.i64 %i30:31, %i40:41\n  %i21 = vm.buffer.load.f32 %r0, %i30:31\n  \
         %i22 = vm.buffer.load.f32 %r0, %i40:41\n  %i22 = vm.fma.f32 %i20, %i21, %i22\n  \
         vm.buffer.store.f32 %i22, %r0, %i40:41\n",
        "  %i30:31 = vm.add.i64 %i40:41, %i10:11\n  %i30:31 = vm.mul.i64 %i30:31, %i42:43\n  \
         %i20 = vm.buffer.load.i8.s %r0, %i30:31\n  %i21 = vm.buffer.load.i8.s %r0, %i10:11\n  \
         %i22 = vm.buffer.load.i32 %r0, %i40:41\n  %i20 = vm.ext.i8.i32.s %i20\n  %i21 = vm.ext.i8.i32.s %i21\n  \
         %i22 = vm.fma.i32 %i20, %i21, %i22\n  vm.buffer.store.i32 %i22, %r0, %i40:41\n",
    ] {
        for (count, argument) in
            [1, 3, 60, 120].into_iter().flat_map(|count| [0, 5, 299].map(move |argument| (count, argument)))
        {
            let (outcome, loops) = both(&over_elements(body), &[count, argument]);
            assert!(loops >= 1 && (outcome.contains("I32(") || outcome.contains("OUT_OF_RANGE")), "{outcome}\n{body}");
        }
    }
}

/// A nest that is refused is not tried again from its second iteration on, wherever its blocks lie: then the accumulators are no zeros.
#[test]
fn nests_begin_with_the_first_iteration() {
    // `out[i + 2 j] += x[4 i + k] * y[2 k + j]` for i below 3, j below 2 and k below 4: two iterations have the same element, until i is 1.
    let blocks = [
        "^latch:\n  %i10:11 = vm.add.i64 %i10:11, %i4:5\n  vm.br ^i()\n",
        "^i:\n  %i30 = vm.cmp.lt.i64.s %i10:11, %i20:21\n  vm.cond_br %i30, ^body(), ^exit()\n",
        "^body:\n  %i12:13 = vm.const.i64.zero\n  vm.br ^j()\n\
         ^j:\n  %i30 = vm.cmp.lt.i64.s %i12:13, %i22:23\n  vm.cond_br %i30, ^row(), ^latch()\n\
         ^row:\n  %i14:15 = vm.const.i64.zero\n  vm.br ^k()\n\
         ^k:\n  %i30 = vm.cmp.lt.i64.s %i14:15, %i24:25\n  vm.cond_br %i30, ^product(), ^next()\n\
         ^product:\n  %i40:41 = vm.fma.i64 %i10:11, %i24:25, %i14:15\n  %i31 = vm.buffer.load.i32 %r0, %i40:41\n  \
         %i40:41 = vm.fma.i64 %i14:15, %i22:23, %i12:13\n  %i32 = vm.buffer.load.i32 %r0, %i40:41\n  \
         %i40:41 = vm.fma.i64 %i12:13, %i22:23, %i10:11\n  %i33 = vm.buffer.load.i32 %r1, %i40:41\n  \
         %i33 = vm.fma.i32 %i31, %i32, %i33\n  vm.buffer.store.i32 %i33, %r1, %i40:41\n  \
         %i14:15 = vm.add.i64 %i14:15, %i4:5\n  vm.br ^k()\n\
         ^next:\n  %i12:13 = vm.add.i64 %i12:13, %i4:5\n  vm.br ^j()\n",
        "^exit:\n  %i40:41 = vm.const.i64.zero\n  %i42:43 = vm.const.i64 20\n  \
         %i44:45 = vm.buffer.hash %r1, %i40:41, %i42:43\n  %i30 = vm.trunc.i64.i32 %i44:45\n  vm.return %i30\n",
    ];
    let text = |order: [usize; 4]| {
        let body: String = order.iter().map(|at| blocks[*at]).collect();
        format!(
            "vm.module @m\nvm.type i32\nvm.type !vm.buffer\n\
             vm.rodata[0] = 010000000200000003000000040000000500000006000000070000000800000009000000020000000300000005000000\n\
             vm.export @f\nvm.func @f(%i0: i32) -> (i32) {{\n\
             ^bb0:\n  %r0 = vm.const.ref.rodata 0\n  %i2:3 = vm.const.i64 20\n  %i1 = vm.const.i32 16\n  \
             %r1 = vm.buffer.alloc %i2:3, %i1\n  %i4:5 = vm.const.i64 1\n  %i10:11 = vm.ext.i32.i64.s %i0\n  \
             %i20:21 = vm.const.i64 3\n  %i22:23 = vm.const.i64 2\n  %i24:25 = vm.const.i64 4\n  vm.br ^i()\n{body}}}\n"
        )
    };
    for order in [[1, 2, 0, 3], [0, 1, 2, 3], [2, 0, 1, 3]] {
        for first in [0, 1, 2] {
            let (outcome, nests) = both(&text(order), &[first]);
            assert!(nests == 1 && outcome.starts_with("[I32("), "{order:?} {first} {outcome} {nests}");
        }
    }
}
