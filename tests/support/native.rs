//! Files with machine code, and the architecture that tests run on.

/// Returns the name of the file with machine code for this architecture, from that of the file for x86-64 beside it.
#[must_use]
pub(crate) fn native(file: &str) -> String {
    match file.rsplit_once('.') {
        Some((stem, extension)) if cfg!(target_arch = "aarch64") => format!("{stem}_arm_64.{extension}"),
        _ => file.to_owned(),
    }
}

/// Returns the formats of a module's machine code if it has kernels for other architectures only, than the one that formats name so.
#[must_use]
pub(crate) fn foreign_formats(module: &[u8], architecture: &str) -> Option<String> {
    let formats: Vec<&str> = ["embedded-elf-", "system-elf-"].iter().flat_map(|prefix| names(module, prefix)).collect();
    let is_foreign = !formats.is_empty()
        && !formats.iter().any(|format| !architecture.is_empty() && format.ends_with(architecture))
        && names(module, "vmvx-bytecode-fb").next().is_none();
    is_foreign.then(|| formats.join(", "))
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
