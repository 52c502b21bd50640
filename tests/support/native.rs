//! Files with machine code, and the platform that tests run on.

use std::path::{Path, PathBuf};

/// Whether the tests are static programs, which load no libraries of the system.
const IS_STATIC: bool = cfg!(all(target_env = "musl", target_feature = "crt-static"));

/// Returns the name of the file with machine code for this platform, from that of the file for x86-64 beside it.
#[must_use]
pub(crate) fn native(file: &str) -> String {
    match file.rsplit_once('.') {
        // The one kind of machine code that depends on the system.
        Some((stem, extension)) if cfg!(windows) && stem.ends_with("system-library") => {
            format!("{stem}_dll.{extension}")
        }
        Some((stem, extension)) if cfg!(target_arch = "aarch64") => format!("{stem}_arm_64.{extension}"),
        _ => file.to_owned(),
    }
}

/// Returns the file for this platform beside one with machine code for x86-64, if there is one, or else that file.
#[must_use]
pub(crate) fn native_file(folder: &Path, file: &str) -> PathBuf {
    let of_host = folder.join(native(file));
    if of_host.is_file() { of_host } else { folder.join(file) }
}

/// Returns the formats of a module's machine code if it has kernels for other platforms only, than the one whose architecture and system
/// libraries formats name so.
#[must_use]
pub(crate) fn foreign_formats(module: &[u8], architecture: &str, system_prefix: &str) -> Option<String> {
    let formats: Vec<&str> = ["embedded-elf-", "system-elf-", "system-dll-", "system-dylib-"]
        .iter()
        .flat_map(|prefix| names(module, prefix))
        .collect();
    let is_native = |format: &&str| {
        let of_platform = format.starts_with("embedded-elf-") || !IS_STATIC && format.starts_with(system_prefix);
        of_platform && !architecture.is_empty() && format.ends_with(architecture)
    };
    let is_foreign =
        !formats.is_empty() && !formats.iter().any(is_native) && names(module, "vmvx-bytecode-fb").next().is_none();
    is_foreign.then(|| formats.join(", "))
}

/// Returns true for a plugin that is loaded on other systems, or by other programs, only: embedded ELF plugins have their calling
/// convention, too.
#[must_use]
pub(crate) fn is_foreign_plugin(plugin: &Path) -> bool {
    let is_of_linux = plugin.extension().is_some_and(|extension| extension == "so");
    cfg!(windows) || (cfg!(target_vendor = "apple") || IS_STATIC) && is_of_linux
}

/// Returns the names in a file that begin with a prefix.
fn names<'a>(file: &'a [u8], prefix: &'a str) -> impl Iterator<Item = &'a str> {
    let starts = file.windows(prefix.len()).enumerate().filter(move |(_, window)| *window == prefix.as_bytes());
    starts.filter_map(move |(start, _)| {
        let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-".contains(byte);
        let length = file[start..].iter().take_while(|byte| is_of_name(byte)).count();
        core::str::from_utf8(&file[start..start + length]).ok()
    })
}
