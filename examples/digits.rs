//! A classifier of handwritten digits, as a part of this program: `cargo run --release --example digits`.
//!
//! The model is a module of the IREE compiler, trained on images of 8 x 8 pixels. The macro translates it to Rust while this
//! program is compiled, as the module `digits`. `examples/build-script` does the same in a build script.

use incarnate::{Device, Error, Result};

incarnate::include_module!(digits = "tests/models/digits/llvm-cpu.vmfb");

/// Images that the model has not seen.
const IMAGES: &[u8] = include_bytes!("../tests/models/digits/test_images.in0.npy");
/// What they show.
const LABELS: &[u8] = include_bytes!("../tests/models/digits/labels.npy");

fn main() -> Result<()> {
    let images: Vec<f32> = array(IMAGES, f32::from_le_bytes)?;
    let labels: Vec<i32> = array(LABELS, i32::from_le_bytes)?;
    let model = digits::Module::load(&Device::create("local-sync")?)?;
    let (_, found) = model.classify(&images)?;
    let found = found.to_vec()?;
    for (index, image) in images.chunks_exact(64).enumerate().take(3) {
        show(image);
        println!("image {index}: a {}, found {}\n", labels[index], found[index]);
    }
    let right = found.iter().zip(&labels).filter(|(found, label)| found == label).count();
    println!("{right} of {} images are classified right", labels.len());
    Ok(())
}

/// Prints an image of 8 x 8 pixels, from 0 to 16.
fn show(image: &[f32]) {
    for row in image.chunks_exact(8) {
        let shade = |pixel: &f32| [' ', '.', '+', '#', '@'][(*pixel as usize / 4).min(4)];
        println!("{}", row.iter().flat_map(|pixel| [shade(pixel); 2]).collect::<String>());
    }
}

/// The elements of a `.npy` file, which stand behind its header.
fn array<T>(file: &[u8], element: fn([u8; 4]) -> T) -> Result<Vec<T>> {
    let wrong = || Error::invalid_argument("this is no .npy file of version 1");
    let length = file.get(8..10).and_then(|length| length.try_into().ok()).map(u16::from_le_bytes).ok_or_else(wrong)?;
    let elements = file.get(10 + usize::from(length)..).ok_or_else(wrong)?;
    Ok(elements.as_chunks().0.iter().copied().map(element).collect())
}
