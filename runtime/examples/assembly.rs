//! Converts module files to assembly text and back: `assembly dump FILE [OUT]`, `assembly assemble FILE OUT`, `assembly
//! check FILE...`, `assembly same-bytecode FILE FILE`.
//!
//! `check` proves for each file that its text assembles into a module with the same contents.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use incarnate_runtime::bytecode::{Contents, Module, VerifiedModule, assemble, disassemble};
use incarnate_runtime::mapping::MappedFile;
use incarnate_runtime::{Error, Result, ResultExt};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments.as_slice() {
        ["dump", file] => load(file).map(|module| print!("{}", disassemble(&module))),
        ["dump", file, out] => load(file).and_then(|module| Ok(std::fs::write(out, disassemble(&module))?)),
        ["assemble", file, out] => assemble_file(file, out),
        ["check", files @ ..] => check_all(files),
        ["same-bytecode", left, right] => same_bytecode(left, right),
        _ => Err(Error::invalid_argument("usage: assembly dump|assemble|check FILE...")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn load(path: &str) -> Result<Arc<VerifiedModule>> {
    VerifiedModule::load(Arc::new(MappedFile::contents(Path::new(path))?)).context(|| path.to_string())
}

fn assemble_file(file: &str, out: &str) -> Result<()> {
    let source = std::fs::read_to_string(file).context(|| file.to_string())?;
    Ok(std::fs::write(out, assemble(&source).context(|| file.to_string())?)?)
}

fn check_all(files: &[&str]) -> Result<()> {
    for file in files {
        let module = load(file)?;
        let text = disassemble(&module);
        let bytes = assemble(&text).context(|| format!("{file}: its text"))?;
        let again = VerifiedModule::load(Arc::new(Contents::from_vec(bytes))).context(|| format!("{file}: again"))?;
        compare(&module, &again).context(|| file.to_string())?;
        println!("{file}: the same");
    }
    Ok(())
}

fn same_bytecode(left: &str, right: &str) -> Result<()> {
    let (left, right) = (load(left)?, load(right)?);
    let count = left.function_count();
    let bytecode = |module: &Module, ordinal| module.function(ordinal).map(|function| function.bytecode.to_vec());
    match (0..count).find(|&ordinal| bytecode(&left, ordinal) != bytecode(&right, ordinal)) {
        None if count == right.function_count() => Ok(()),
        different => Err(Error::data_loss(format!("functions differ: {different:?} of {count}"))),
    }
}

fn compare(left: &Module, right: &Module) -> Result<()> {
    let same = |what: &str, same: bool| match same {
        true => Ok(()),
        false => Err(Error::data_loss(format!("{what} differ"))),
    };
    same("names", left.name() == right.name() && left.version() == right.version())?;
    same("requirements", left.requirements() == right.requirements())?;
    same("attributes", left.attributes().eq(right.attributes()))?;
    same("types", left.types() == right.types())?;
    same("dependencies", left.dependencies().eq(right.dependencies()))?;
    same("imports", left.imports().eq(right.imports()))?;
    same("exports", left.exports().eq(right.exports()))?;
    same("global bytes", left.global_bytes() == right.global_bytes())?;
    same("global references", left.global_ref_count() == right.global_ref_count())?;
    same("numbers of constants", left.rodata_count() == right.rodata_count())?;
    same("constants", (0..left.rodata_count()).all(|index| left.rodata_bytes(index) == right.rodata_bytes(index)))?;
    same("numbers of functions", left.function_count() == right.function_count())?;
    for ordinal in 0..left.function_count() {
        let (Some(a), Some(b)) = (left.function(ordinal), right.function(ordinal)) else { continue };
        let what = |what: &str| format!("{what} of function {ordinal}");
        same(&what("bytecode"), a.bytecode == b.bytecode)?;
        same(&what("register counts"), a.i32_register_count == b.i32_register_count)?;
        same(&what("register counts"), a.ref_register_count == b.ref_register_count)?;
        same(&what("block counts"), a.block_count == b.block_count)?;
        same(&what("requirements"), a.requirements == b.requirements)?;
        same(&what("calling conventions"), a.calling_convention == b.calling_convention)?;
        same(&what("attributes"), left.function_attributes(ordinal).eq(right.function_attributes(ordinal)))?;
    }
    Ok(())
}
