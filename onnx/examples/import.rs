//! `import MODEL.onnx FOLDER [--target=portable] [--dim=NAME=N]... [--shape=INPUT=1x3]... [--outputs=A,B]`: writes FOLDER/model.mlir, and FOLDER/model.safetensors if the
//! model has weights.

use std::fs::{self, File};
use std::path::Path;

use incarnate_onnx::{Model, Options, import};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(model), Some(folder)) = (words.next(), words.next()) else {
        return Err("import MODEL.onnx FOLDER".into());
    };
    let mut options = Options::default();
    for word in words {
        let (flag, value) = word.split_once('=').ok_or("--flag=value")?;
        let names = || value.split(',').map(str::to_owned).collect();
        match flag {
            "--dim" => {
                let (name, extent) = value.rsplit_once('=').ok_or("--dim=NAME=N")?;
                options.dims.push((name.to_owned(), extent.parse()?));
            }
            "--shape" => {
                let (name, shape) = value.rsplit_once('=').ok_or("--shape=INPUT=1x3")?;
                options.shapes.push((name.to_owned(), shape.split('x').map(str::parse).collect::<Result<_, _>>()?));
            }
            "--target" => options.is_portable = value == "portable",
            "--inputs" => options.inputs = names(),
            "--outputs" => options.outputs = names(),
            _ => return Err(format!("unknown flag {flag}").into()),
        }
    }
    let imported = import(&Model::open(model)?, &options)?;
    let folder = Path::new(&folder);
    fs::create_dir_all(folder)?;
    fs::write(folder.join("model.mlir"), &imported.mlir)?;
    if imported.has_weights() {
        imported.write_weights(File::create(folder.join("model.safetensors"))?)?;
    }
    Ok(())
}
