//! A classifier of handwritten digits, as a part of this program: `cargo run --release --example digits`.
//!
//! The model is a module of the IREE compiler, trained on images of 8 x 8 pixels. The macro translates it to Rust while this
//! program is compiled, as the module `digits`. `examples/build-script` does the same in a build script.

use incarnate::runtime::hal::format::HostTensor;
use incarnate::{Device, Result};

incarnate::include_module!(digits = "tests/models/digits/vmvx.vmfb");

/// Images that were not used for training.
const IMAGES: &[u8] = include_bytes!("../tests/models/digits/test_images.in0.npy");
/// The digits that they show.
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

/// Returns the elements of a `.npy` file.
fn array<T>(mut file: &[u8], element: fn([u8; 4]) -> T) -> Result<Vec<T>> {
    let array = HostTensor::read_npy(&mut file)?;
    Ok(array.bytes.as_chunks().0.iter().copied().map(element).collect())
}
