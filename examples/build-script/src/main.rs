//! The classifier of `examples/digits.rs`, translated in a build script: `cargo run --release -p incarnate-example-build-script`.

use incarnate::{Device, Result};

/// The output of the build script.
mod digits {
    include!(concat!(env!("OUT_DIR"), "/digits.rs"));
}

/// Images in a call.
const IMAGES: usize = 360;
/// Pixels of an image: 8 rows of 8.
const PIXELS: usize = 64;
/// Brightness of a white pixel.
const WHITE: f32 = 16.0;

fn main() -> Result<()> {
    let model = digits::Module::load(&Device::create("local-sync")?)?;
    // A one: a bright column. The other images are black.
    let mut pixels = vec![0.0; IMAGES * PIXELS];
    for row in 0..8 {
        pixels[row * 8 + 3] = WHITE;
        pixels[row * 8 + 4] = WHITE;
    }
    let (scores, digits) = model.classify(&pixels)?;
    println!("scores of the first: {:?}", &scores.to_vec()?[..10]);
    println!("it looks like a {}", digits.to_vec()?[0]);
    Ok(())
}
