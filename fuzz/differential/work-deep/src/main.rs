#![forbid(unsafe_code)]
mod runaway;
mod two_in_turns;
mod suspending;
mod large_frames;
mod chain_of_1000;
mod chain_of_3000;
mod deep_enough;

fn main() {
    incarnate_differential::deep::check(&[("runaway", || runaway::module()), ("two_in_turns", || two_in_turns::module()), ("suspending", || suspending::module()), ("large_frames", || large_frames::module()), ("chain_of_1000", || chain_of_1000::module()), ("chain_of_3000", || chain_of_3000::module()), ("deep_enough", || deep_enough::module()), ]);
}
