//! Modules that programs cannot run: those with executables only for a GPU, or for another processor or system.

use std::collections::BTreeSet;

use incarnate_bytecode::executable_format::{LOADERS, STATIC, VMVX, architecture_of};
use incarnate_bytecode::gpu_executable::is_vulkan;
use incarnate_bytecode::{Error, Result, VerifiedModule};
use proc_macro2::TokenStream;
use quote::quote;

use crate::options::{Constants, Options, Target};

/// What helps.
const HELP: &str = "`incarnate compile` compiles the model for this machine, and with --target=portable for every one";

/// The systems that load libraries of a format: its prefix, and the configuration of the program.
const SYSTEMS: &[(&str, &str)] = &[
    ("system-elf-", "all(unix, not(target_vendor = \"apple\"))"),
    ("system-dylib-", "target_vendor = \"apple\""),
    ("system-dll-", "windows"),
];

/// Checks that some of the formats of a module's executables, none of which is translated, can be loaded by a program for
/// `target`. Returns an item that stops the compilation of programs for other targets.
///
/// # Errors
/// INCOMPATIBLE if no format can be loaded.
pub(crate) fn check(
    module: &VerifiedModule,
    formats: &BTreeSet<String>,
    target: &Target,
) -> Result<Option<TokenStream>> {
    if formats.is_empty() {
        return Ok(None);
    }
    let known = |format: &&String| {
        *format == STATIC || is_vulkan(format) || LOADERS.iter().any(|loader| format.starts_with(loader.1))
    };
    let loadable: Vec<&String> = formats.iter().filter(known).collect();
    if loadable.is_empty() {
        let wanted = wanted(module, formats);
        return Err(Error::incompatible(format!(
            "the module is compiled for {wanted}; programs have local-sync and local-task, for machine code and {VMVX}, and vulkan: {HELP}"
        )));
    }
    let conditions = loadable.iter().map(|format| condition(format)).collect::<Option<Vec<_>>>();
    let Some(conditions) = conditions else { return Ok(None) };
    let wanted = wanted(module, formats);
    if target.is_certain && !loadable.iter().any(|format| is_vulkan(format) || target.is_of_format(format)) {
        let architecture = &target.architecture;
        return Err(Error::incompatible(format!(
            "the module is compiled for {wanted}; the program is compiled for {architecture}: {HELP}"
        )));
    }
    let message = format!("the module is compiled for {wanted}; this program is compiled for another target: {HELP}");
    Ok(Some(quote! {
        #[cfg(not(any(#(#conditions),*)))]
        compile_error!(#message);
    }))
}

/// Checks that a program without `std` can run a module.
///
/// # Errors
/// INCOMPATIBLE if the module needs a device; INVALID_ARGUMENT for constants in a file.
pub(crate) fn check_no_std(module: &VerifiedModule, options: &Options) -> Result<()> {
    if let Some(import) = module.imports().map(|import| import.full_name).find(|name| !name.starts_with("hal_inline."))
    {
        return Err(Error::incompatible(format!(
            "the module imports @{import}, and a program without `std` has hal_inline alone: compile the model with \
             --iree-execution-model=inline-static and --iree-hal-local-target-device-backends=vmvx-inline"
        )));
    }
    if !options.static_libraries.is_empty() {
        return Err(Error::invalid_argument("a program without `std` has no loader for static libraries of kernels"));
    }
    match options.constants {
        Constants::Loaded(_) => {
            Err(Error::invalid_argument("a program without `std` cannot load constants from a file"))
        }
        Constants::Included | Constants::ModuleFile(_) => Ok(()),
    }
}

/// The configuration of programs that run machine code of a format; `None` for formats that every program runs.
fn condition(format: &str) -> Option<TokenStream> {
    let architecture = architecture_of(format)?;
    let system = SYSTEMS.iter().find(|system| format.starts_with(system.0));
    let system = system.and_then(|system| system.1.parse::<TokenStream>().ok());
    Some(match system {
        None => quote!(target_arch = #architecture),
        Some(system) => quote!(all(target_arch = #architecture, #system)),
    })
}

/// What executables are compiled for: their targets, or their formats where the module does not record targets.
fn wanted(module: &VerifiedModule, formats: &BTreeSet<String>) -> String {
    let recorded = module.executable_targets();
    let text = |format: &String| {
        let target = recorded.iter().find(|target| target.format == format.as_str());
        target.map_or_else(|| format.clone(), ToString::to_string)
    };
    crate::names::line(&formats.iter().map(text).collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use incarnate_bytecode::Contents;

    use super::*;

    #[test]
    fn programs_of_other_targets_do_not_compile() {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/models/simple_mul/llvm-cpu.vmfb");
        let contents = Arc::new(Contents::from_vec(std::fs::read(path).unwrap()));
        let module = VerifiedModule::load(contents).unwrap();
        let checked = |formats: &[&str], architecture: &str, is_certain: bool| {
            let formats = formats.iter().map(|format| (*format).to_owned()).collect();
            let target = Target { architecture: architecture.to_owned(), is_certain };
            let item = check(&module, &formats, &target).map_err(|error| error.message().to_owned());
            item.map(|item| item.map(|item| item.to_string()))
        };
        let item = checked(&["embedded-elf-x86_64", "system-dll-arm_64"], "riscv64", false).unwrap().unwrap();
        assert!(item.contains("target_arch = \"x86_64\" , all (target_arch = \"aarch64\" , windows)"), "{item}");
        assert!(item.contains("compiled for embedded-elf-x86_64, generic; system-dll-arm_64; this program"), "{item}");
        assert!(checked(&["embedded-elf-x86_64"], "x86_64", true).unwrap().is_some());
        let error = checked(&["embedded-elf-x86_64"], "aarch64", true).unwrap_err();
        assert!(error.contains("embedded-elf-x86_64, generic; the program is compiled for aarch64"), "{error}");
        let error = checked(&["cuda-nvptx-fb"], "x86_64", false).unwrap_err();
        assert!(error.contains("compiled for cuda-nvptx-fb; programs have local-sync"), "{error}");
        for formats in [&["static"][..], &[VMVX, "cuda-nvptx-fb"], &["vulkan-spirv-fb"], &[]] {
            assert_eq!(checked(formats, "x86_64", true).unwrap(), None);
        }
    }
}
