//! Random loop nests that load at computed indices.

use super::loops::{in_loops, index_of, pair};
use super::random::Random;

/// Returns a module like that of [`program`](super::loops::program) with one nest that stores what it loads at computed indices: quotients and rests of what it counts,
/// rounded numbers, loaded ones. Some are out of range. Buffers may overlap.
pub fn gathers(random: &mut Random) -> String {
    let columns = [1, 3, 4, 7, 8, 15, 16, 17, 24, 31, 32, 33, 56, 63, 64, 70][random.next(16)];
    let counts = [[1, 2, 3, 5][random.next(4)], columns, 1];
    let stored = [columns + 2 * random.next(2), 1, 0];
    let [index, flat, quotient, rest, number] = [80, 82, 84, 86, 88].map(pair);
    let mut body = index_of(30, random.next(3), &stored);
    body.push_str(&index_of(82, random.next(40), &[columns, 1, 0]));
    body.push_str(&format!("  {number} = vm.const.i64 {}\n", [1, 2, 3, 7, 16, 31, 40, 64, 500][random.next(9)]));
    // An invariant that is not known before the call, which may be zero or less.
    body.push_str(&match random.next(6) {
        0 => format!("  {number} = vm.mul.i64 {number}, %i0:1\n"),
        1 => format!("  {number} = vm.add.i64 {number}, %i2:3\n"),
        2 => format!("  {number} = vm.sub.i64 %i2:3, {number}\n"),
        _ => String::new(),
    });
    let sign = ["s", "s", "u"][random.next(3)];
    body.push_str(&format!("  {quotient} = vm.div.i64.{sign} {flat}, {number}\n"));
    body.push_str(&format!("  {rest} = vm.rem.i64.{sign} {flat}, {number}\n"));
    body.push_str(&match random.next(5) {
        // Rows of two quotients.
        0 => format!(
            "  {number} = vm.const.i64 5\n  {index} = vm.rem.i64.s {quotient}, {number}\n  \
             {quotient} = vm.div.i64.s {quotient}, {number}\n  {index} = vm.fma.i64 {index}, {number}, {quotient}\n  \
             {index} = vm.add.i64 {index}, {rest}\n"
        ),
        1 => format!("  {index} = vm.fma.i64 {quotient}, {number}, {rest}\n"),
        // Scaled, as in resized images.
        2 => format!(
            "  %i58 = vm.cast.si64.f32 {rest}\n  %i59 = vm.const.f32 0.375\n  %i58 = vm.mul.f32 %i58, %i59\n  \
             %i58 = vm.floor.f32 %i58\n  {index} = vm.cast.f32.si64 %i58\n  {index} = vm.add.i64 {index}, {quotient}\n"
        ),
        // Loaded, as of a table.
        kind => {
            let loaded = ["vm.buffer.load.i8.u", "vm.buffer.load.i8.s", "vm.buffer.load.i32"][random.next(3)];
            let mask = [63, 63, 255, -1][random.next(4)];
            let by = if kind == 3 { &quotient } else { &flat };
            format!(
                "  %i58 = {loaded} %r2, {by}\n  {index} = vm.ext.i32.i64.s %i58\n  \
                 {number} = vm.const.i64 {mask}\n  {index} = vm.and.i64 {index}, {number}\n"
            )
        }
    });
    let ty = ["f32", "f32", "i32", "i8.s", "i16.u"][random.next(5)];
    let (of, width) = if ty == "f32" { ("f32", "f32") } else { ("i32", ["i32", "i8"][random.next(2)]) };
    body.push_str(&format!("  %i50 = vm.buffer.load.{ty} %r0, {index}\n"));
    if random.next(3) == 0 {
        body.push_str(&format!(
            "  %i51 = vm.buffer.load.{width}{} %r2, {}\n",
            if width == "i8" { ".s" } else { "" },
            pair(30)
        ));
        body.push_str(&format!("  %i50 = vm.add.{of} %i50, %i51\n"));
    }
    body.push_str(&others(random));
    body.push_str(&format!("  vm.buffer.store.{width} %i50, %r1, {}\n", pair(30)));
    if random.next(4) == 0 {
        // A second element, which other iterations store, too, or that of another buffer.
        let by = [0, 1, 100, 400][random.next(4)];
        let buffer = ["%r1", "%r1", "%r2"][random.next(3)];
        body.push_str(&format!("  {rest} = vm.const.i64 {by}\n  {rest} = vm.add.i64 {rest}, {}\n", pair(30)));
        body.push_str(&format!("  %i51 = vm.const.{of} 3\n  vm.buffer.store.{width} %i51, {buffer}, {rest}\n"));
    }
    let order = if random.next(4) == 0 { [1, 0, 2] } else { [0, 1, 2] };
    in_loops(&counts, &order, ["", &body, ""])
}

/// Loads that are not used, rarely: at an index that is computed, or that is such a load.
fn others(random: &mut Random) -> String {
    let [flat, number, index] = [82, 88, 90].map(pair);
    let first = format!(
        "  {number} = vm.const.i64 255\n  {index} = vm.and.i64 {flat}, {number}\n  %i58 = vm.buffer.load.i8.u %r0, {index}\n"
    );
    match random.next(6) {
        0 => first,
        1 => format!("{first}  {index} = vm.ext.i32.i64.u %i58\n  %i59 = vm.buffer.load.i8.u %r2, {index}\n"),
        _ => String::new(),
    }
}
