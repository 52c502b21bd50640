//! The rate of contractions, in 10^9 operations a second, on each level of this processor, beside the rate of its arithmetic:
//!
//!     cargo bench -p incarnate-benches --bench kernels [-- NAME]
#![allow(unsafe_code, reason = "kernels take addresses")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use incarnate_kernels::contraction::{
    FmaF32, FmaF32AnyOrder, Loop, Machine, MulAddF32, MulAddF32AnyOrder, Operand, Operation, contract, contract_at_most,
};
use incarnate_kernels::peak;

const fn each(count: usize, output: i64, left: i64, right: i64) -> Loop {
    Loop { count, output, left, right }
}

/// A product of `m` x `k` and `k` x `n`.
fn product(m: usize, k: usize, n: usize) -> Vec<Loop> {
    vec![each(m, n as i64, k as i64, 0), each(k, 0, 1, n as i64), each(n, 1, 0, 1)]
}

/// A matrix stored by columns, times a vector.
fn matrix_vector(n: usize, k: usize) -> Vec<Loop> {
    vec![each(n, 1, k as i64, 0), each(k, 0, 1, 1)]
}

/// A convolution of `inputs` maps to `channels` maps of `side` x `side`.
fn convolution(inputs: usize, channels: usize, side: usize, taps: usize, stride: usize) -> Vec<Loop> {
    let source = ((side - 1) * stride + taps) as i64;
    let (s, t) = (side as i64, taps as i64);
    vec![
        each(channels, s * s, inputs as i64 * t * t, 0),
        each(side, s, 0, source * stride as i64),
        each(side, 1, 0, stride as i64),
        each(inputs, 0, t * t, source * source),
        each(taps, 0, t, source),
        each(taps, 0, 1, 1),
    ]
}

/// The same with the filter in another layout, whose output channels are adjacent.
fn with_channels_adjacent(mut loops: Vec<Loop>) -> Vec<Loop> {
    let channels = loops[0].count as i64;
    loops.iter_mut().for_each(|each| each.left *= channels);
    loops[0].left = 1;
    loops
}

/// A convolution of each of some maps.
fn depthwise(channels: usize, side: usize, taps: usize, stride: usize) -> Vec<Loop> {
    let source = ((side - 1) * stride + taps) as i64;
    let (s, t) = (side as i64, taps as i64);
    vec![
        each(channels, s * s, t * t, source * source),
        each(side, s, 0, source * stride as i64),
        each(side, 1, 0, stride as i64),
        each(taps, 0, t, source),
        each(taps, 0, 1, 1),
    ]
}

/// The same, with adjacent elements of all maps.
fn depthwise_channels_last(channels: usize, side: usize, taps: usize, stride: usize) -> Vec<Loop> {
    let (source, c) = (((side - 1) * stride + taps) as i64, channels as i64);
    vec![
        each(side, side as i64 * c, 0, source * c * stride as i64),
        each(side, c, 0, c * stride as i64),
        each(channels, 1, 1, 1),
        each(taps, 0, taps as i64 * c, source * c),
        each(taps, 0, c, c),
    ]
}

fn length(loops: &[Loop], stride: impl Fn(&Loop) -> i64) -> usize {
    loops.iter().map(|each| stride(each) as usize * (each.count - 1)).sum::<usize>() + 1
}

/// Returns the least of the times that calls return, in seconds: of as many as there are in a fifth of a second.
fn least(mut call: impl FnMut() -> Duration) -> f64 {
    let (mut best, end) = (Duration::MAX, Instant::now() + Duration::from_millis(200));
    while Instant::now() < end {
        best = best.min(call());
    }
    best.as_secs_f64()
}

/// Returns the least time of a call, in seconds. None if the processor lacks the machine's level.
fn time<O: Operation<Number = f32>>(machine: &Machine, loops: &[Loop]) -> Option<f64> {
    let numbers = |count: usize| (0..count).map(|number| (number % 17) as f32 * 0.125).collect::<Vec<f32>>();
    let mut output = numbers(length(loops, |each| each.output));
    let (left, right) = (numbers(length(loops, |each| each.left)), numbers(length(loops, |each| each.right)));
    let mut call = || {
        // The sums would grow beyond what a float holds.
        output.fill(0.0);
        let start = Instant::now();
        // SAFETY: the vectors contain the elements of all iterations, and those of the output are distinct.
        let level = unsafe {
            let (left, right) = (Operand::Memory(left.as_ptr()), Operand::Memory(right.as_ptr()));
            contract_at_most::<O>(machine, output.as_mut_ptr(), left, right, loops)
        };
        let time = start.elapsed();
        black_box(&output);
        (level, time)
    };
    let (level, _) = call();
    (level == machine.name).then(|| least(|| call().1))
}

/// Prints the rate of a matrix in tiles of 64 columns times some vectors, by columns and in the layout that constants have.
fn print_tiles(sums: usize, tiles: usize, vectors: usize) {
    let (length, right) = (64 * sums * tiles, vec![0.125f32; sums * vectors]);
    let mut elements = vec![0.5f32; length + 16];
    // Constants and layouts begin at a line of the cache.
    let first = elements.as_ptr().align_offset(64);
    let elements = &mut elements[first..first + length];
    let mut output = vec![0f32; 64 * vectors];
    let (k, n) = (sums as i64, vectors as i64);
    let [stored, layout] = [
        ([each(64, n, k, 0), each(vectors, 1, 0, 1), each(sums, 0, 1, n)], Operand::Memory as fn(_) -> _),
        ([each(64, n, 1, 0), each(vectors, 1, 0, 1), each(sums, 0, 64, n)], Operand::Layout),
    ]
    .map(|(loops, operand)| {
        let best = least(|| {
            output.fill(0.0);
            let start = Instant::now();
            for tile in elements.chunks_exact(64 * sums) {
                // SAFETY: a tile contains the elements of all iterations, and those of the output are distinct.
                unsafe {
                    let (left, right) = (operand(tile.as_ptr()), Operand::Memory(right.as_ptr()));
                    contract::<FmaF32>(output.as_mut_ptr(), left, right, &loops);
                }
            }
            let time = start.elapsed();
            black_box(&output);
            time
        });
        2.0 * (length * vectors) as f64 / best / 1e9
    });
    let name = format!("layout: sums of {sums}, {:.1} MB, times {vectors}", length as f64 * 4e-6);
    println!("{name:38} {stored:>10.1} {layout:>10.1}");
}

/// The contractions of known nets, and smaller ones.
fn shapes() -> Vec<(&'static str, Vec<Loop>)> {
    vec![
        ("stem 3x3 stride 2, 3 -> 64, 112", convolution(3, 64, 112, 3, 2)),
        ("stem 7x7 stride 2, 3 -> 64, 112", convolution(3, 64, 112, 7, 2)),
        ("3x3, 16 -> 64, 55", convolution(16, 64, 55, 3, 1)),
        ("3x3, 64 -> 256, 13", convolution(64, 256, 13, 3, 1)),
        ("3x3, 64 -> 64, 56", convolution(64, 64, 56, 3, 1)),
        ("3x3, 256 -> 256, 14", convolution(256, 256, 14, 3, 1)),
        ("3x3, 64 -> 64, 7", convolution(64, 64, 7, 3, 1)),
        ("3x3, 32 -> 64, 15", convolution(32, 64, 15, 3, 1)),
        ("product 64 x 512 x 49", product(64, 512, 49)),
        ("product 1000 x 512 x 169", product(1000, 512, 169)),
        ("product 64 x 16 x 3025", product(64, 16, 3025)),
        ("product 16 x 64 x 3025", product(16, 64, 3025)),
        ("product 512 x 256 x 196", product(512, 256, 196)),
        ("product 64 x 1024 x 256", product(64, 1024, 256)),
        ("product 64 x 256 x 1024", product(64, 256, 1024)),
        ("product 16 x 16 x 16", product(16, 16, 16)),
        ("small: product 64 x 96 x 16", product(64, 96, 16)),
        ("small: product 96 x 576 x 16", product(96, 576, 16)),
        ("small: product 40 x 240 x 64", product(40, 240, 64)),
        ("small: product 72 x 16 x 1024", product(72, 16, 1024)),
        ("small: stem 3x3 stride 2, 3 -> 16, 64", convolution(3, 16, 64, 3, 2)),
        ("layout: 3x3, 64 -> 64, 7", with_channels_adjacent(convolution(64, 64, 7, 3, 1))),
        ("layout: 3x3, 64 -> 64, 15", with_channels_adjacent(convolution(64, 64, 15, 3, 1))),
        ("layout: 1x1, 512 -> 64, 7", with_channels_adjacent(convolution(512, 64, 7, 1, 1))),
        ("3x3, 64 -> 64, 15", convolution(64, 64, 15, 3, 1)),
        ("1x1, 512 -> 64, 7", convolution(512, 64, 7, 1, 1)),
        ("vector 1 x 784 x 512", product(1, 784, 512)),
        ("matrix by columns, 512 x 784", matrix_vector(512, 784)),
        ("matrix by columns, 64 x 128", matrix_vector(64, 128)),
        ("matrix by columns, 512 x 128", matrix_vector(512, 128)),
        ("matrix by columns, 1000 x 1024", matrix_vector(1000, 1024)),
        ("matrix by columns, 4096 x 4096", matrix_vector(4096, 4096)),
        ("any order, by columns, 512 x 784", matrix_vector(512, 784)),
        ("any order, by columns, 64 x 128", matrix_vector(64, 128)),
        ("any order, by columns, 512 x 128", matrix_vector(512, 128)),
        ("any order, by columns, 1000 x 1024", matrix_vector(1000, 1024)),
        ("depthwise 3x3, 64 at 56", depthwise(64, 56, 3, 1)),
        ("depthwise 3x3 stride 2, 64 at 28", depthwise(64, 28, 3, 2)),
        ("depthwise 5x5 stride 2, 240 at 14", depthwise(240, 14, 5, 2)),
        ("depthwise 5x5 stride 2, 576 at 7", depthwise(576, 7, 5, 2)),
        ("depthwise 3x3, 256 at 14", depthwise(256, 14, 3, 1)),
        ("depthwise 5x5, 256 at 14", depthwise(256, 14, 5, 1)),
        ("depthwise 3x3, 512 at 7", depthwise(512, 7, 3, 1)),
        ("depthwise 5x5, 512 at 7", depthwise(512, 7, 5, 1)),
        ("depthwise 3x3, channels last, 64 at 56", depthwise_channels_last(64, 56, 3, 1)),
        ("depthwise 5x5, 576 at 4", depthwise(576, 4, 5, 1)),
        ("small: depthwise 5x5, 64 at 4", depthwise(64, 4, 5, 1)),
        ("small: depthwise 5x5, 64 at 8", depthwise(64, 8, 5, 1)),
        ("small: depthwise 3x3 stride 2, 16 at 32", depthwise(16, 32, 3, 2)),
    ]
}

/// Prints the rates of a contraction on each level.
fn print_rates(name: &str, loops: &[Loop]) {
    let operations = 2.0 * loops.iter().map(|each| each.count as f64).product::<f64>();
    let times = match name.contains("any order") {
        false => [
            time::<FmaF32>(&Machine::X86_64_V4, loops),
            time::<FmaF32>(&Machine::X86_64_V3, loops),
            time::<MulAddF32>(&Machine::PORTABLE, loops),
        ],
        true => [
            time::<FmaF32AnyOrder>(&Machine::X86_64_V4, loops),
            time::<FmaF32AnyOrder>(&Machine::X86_64_V3, loops),
            time::<MulAddF32AnyOrder>(&Machine::PORTABLE, loops),
        ],
    };
    let rate = |seconds: Option<f64>| seconds.map_or(f64::NAN, |seconds| operations / seconds / 1e9);
    let [v4, v3, portable] = times.map(rate);
    let microseconds = times[0].map_or(f64::NAN, |seconds| seconds * 1e6);
    println!("{name:38} {v4:>10.1} {microseconds:>10.1} {v3:>10.1} {portable:>10.1}");
    // Vectors of half the length, and twice the instructions for each product: a quarter of the rate.
    if portable < v3 / 8.0 {
        println!("    WARNING: arrays run at less than half of what their vectors allow");
    }
}

fn main() {
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let start = Instant::now();
    let operations = peak::multiply_and_add(10_000_000);
    println!("{:38} {:>8.1} GFLOP/s", "arithmetic alone", operations as f64 / start.elapsed().as_secs_f64() / 1e9);
    // Without an instruction that rounds once, arrays are timed by the operation that rounds twice.
    println!("{:38} {:>10} {:>10} {:>10} {:>10}", "", "x86-64-v4", "us", "x86-64-v3", "portable*");
    for (name, loops) in shapes() {
        if wanted.as_ref().is_some_and(|wanted| !name.contains(wanted.as_str())) {
            continue;
        }
        print_rates(name, &loops);
    }
    println!("* sum + left * right, both rounded");
    if wanted.is_none_or(|wanted| "layout".contains(wanted.as_str())) {
        println!("\n{:38} {:>10} {:>10}", "matrices times vectors", "by columns", "layout");
        for (sums, tiles, vectors) in [
            (128, 8, 1),
            (256, 64, 1),
            (1024, 16, 1),
            (256, 300, 1),
            (1280, 100, 1),
            (192, 1, 16),
            (192, 600, 16),
            (112, 900, 64),
            (512, 256, 49),
        ] {
            print_tiles(sums, tiles, vectors);
        }
    }
}
