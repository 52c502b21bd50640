//! `incarnate translate`: the Rust source of a module.

use std::io::Write;
use std::path::Path;

use incarnate_runtime::{Error, Result, ResultExt};
use incarnate_translator::{Config, Written};

use super::Verdict;
use super::arguments::{StaticLibraryFile, TranslateArguments};
use super::console::Console;

pub(super) fn translate(arguments: &TranslateArguments, out: &mut Console) -> Result<Verdict> {
    let target = &arguments.output;
    let wrong =
        || Error::invalid_argument(format!("'{}' is not a Rust file: its name must end with .rs", target.display()));
    let stem = target.file_stem().filter(|_| target.extension().is_some_and(|extension| extension == "rs"));
    let stem = stem.and_then(|stem| stem.to_str()).ok_or_else(wrong)?;
    let directory = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut config = Config::new()
        .out_dir(directory)
        .module_name(stem)
        .prefer(arguments.prefer)
        .target_features(&arguments.target_features.0);
    config = config.untrusted(arguments.untrusted);
    if let Some(path) = &arguments.crate_path {
        config = config.crate_path(path);
    }
    if let Some(path) = &arguments.load_constants_from {
        config = config.load_constants_from(path);
    }
    let config = StaticLibraryFile::add_to(&arguments.static_library, config);
    let Written { files, executables, loops, static_libraries, .. } = config.compile(&arguments.file)?;
    for (path, length) in files {
        writeln!(out, "{} ({length} bytes)", path.display()).context(|| "writing to standard output")?;
    }
    for name in static_libraries {
        let folder = directory.display();
        writeln!(out, "{name}: an archive of kernels, to be linked by rustc -L native={folder} -l static={name}")
            .context(|| "writing to standard output")?;
    }
    for line in executables {
        writeln!(out, "{line}").context(|| "writing to standard output")?;
    }
    for found in loops {
        writeln!(out, "{found}").context(|| "writing to standard output")?;
    }
    Ok(Verdict::Success)
}
