//! Loads a model and classifies images of handwritten digits with it:
//!
//!     cargo run --release --example run_model
//!
//! The model is tests/models/digits: 64 pixels in, 10 scores and the most likely digit out, 360 images at a time.

use std::time::Instant;

use incarnate::{Result, Session, Tensor};

/// Images in a call.
const IMAGES: usize = 360;
/// Pixels of an image: 8 rows of 8.
const PIXELS: usize = 64;
/// Brightness of a white pixel.
const WHITE: f32 = 16.0;

fn main() -> Result<()> {
    let session = Session::load("local-sync", "tests/models/digits/vmvx.vmfb")?;
    for function in session.functions()? {
        println!("{}", function.declaration().unwrap_or(function.name()));
    }

    // A one: a bright column. The other images are black.
    let mut pixels = vec![0.0f32; IMAGES * PIXELS];
    for row in 0..8 {
        pixels[row * 8 + 3] = WHITE;
        pixels[row * 8 + 4] = WHITE;
    }
    let images = Tensor::new(&session, &[IMAGES as u64, PIXELS as u64], &pixels)?;
    let classify = session.function("classify")?;

    let start = Instant::now();
    let (scores, digits): (Tensor<f32>, Tensor<i32>) = classify.call((&images,))?;
    println!("{IMAGES} images in {:?}", start.elapsed());
    println!("scores of the first: {:?}", &scores.to_vec()?[..10]);
    println!("it looks like a {}", digits.to_vec()?[0]);
    Ok(())
}
