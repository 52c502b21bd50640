//! What the kernels of a module are compiled for, as far as the module records it.
//!
//! No field of a module has the targets, nor do executables. A program that finds no device fails with a message that the compiler
//! wrote, which contains the attribute of each target:
//! `#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {cpu = "znver4", cpu_features = "+avx,+avx2", ...}>`. Programs that
//! load executables themselves (`--iree-execution-model=inline-dynamic`) record nothing.

use alloc::vec::Vec;
use core::fmt;

use super::{Body, Module};

/// The start of a target's attribute.
const ATTRIBUTE: &str = "#hal.executable.target<\"";

/// The largest number of targets that are read.
const MAX_TARGETS: usize = 64;

/// A target that executables are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecutableTarget<'a> {
    /// The compiler's backend, such as `llvm-cpu`.
    pub backend: &'a str,
    /// The format of the executables, such as `embedded-elf-x86_64`.
    pub format: &'a str,
    /// The processor, such as `znver4` or `sm_80`; may be empty.
    pub cpu: &'a str,
    /// Names of LLVM's target features, each behind `+` or `-`, separated by commas; later ones override earlier ones.
    pub features: &'a str,
}

impl<'a> ExecutableTarget<'a> {
    /// Returns the targets in a message of the compiler.
    #[must_use]
    pub fn in_message(message: &'a str) -> Vec<ExecutableTarget<'a>> {
        let target = |attribute: &'a str| {
            let mut strings = attribute.split('"');
            let (backend, format) = (strings.next()?, strings.nth(1)?);
            let cpu = value(attribute, "arch = \"").or(value(attribute, "cpu = \""));
            let features = value(attribute, "cpu_features = \"").unwrap_or_default();
            Some(ExecutableTarget { backend, format, cpu: cpu.unwrap_or_default(), features })
        };
        message.split(ATTRIBUTE).skip(1).take(MAX_TARGETS).filter_map(target).collect()
    }

    /// Whether executables for this target may use the feature of the given name.
    #[must_use]
    pub fn uses(&self, feature: &str) -> bool {
        let mentions = |row: &&str| row.get(1..) == Some(feature);
        self.features.split(',').rfind(mentions).is_some_and(|row| row.starts_with('+'))
    }
}

impl fmt::Display for ExecutableTarget<'_> {
    /// Writes the format and, if it is known, the processor.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.format)?;
        if self.cpu.is_empty() { Ok(()) } else { write!(f, ", {}", self.cpu) }
    }
}

/// Returns the text between a key and the next quotation mark.
fn value<'a>(attribute: &'a str, key: &str) -> Option<&'a str> {
    attribute.split_once(key)?.1.split('"').next()
}

impl Module {
    /// Returns the targets of the module's executables that its functions name when they fail.
    #[must_use]
    pub fn executable_targets(&self) -> Vec<ExecutableTarget<'_>> {
        let named = (0..self.function_count()).filter(|ordinal| self.names_a_target(*ordinal));
        let messages = named.flat_map(|ordinal| self.instructions(ordinal)).filter_map(|at| match at.body {
            Body::Fail { message, .. } => core::str::from_utf8(message).ok(),
            _ => None,
        });
        messages.flat_map(ExecutableTarget::in_message).take(MAX_TARGETS).collect()
    }

    /// Whether the bytes of a function contain a target's attribute, so that few functions are decoded.
    fn names_a_target(&self, ordinal: u32) -> bool {
        let mut rest = self.function(ordinal).map_or(&[][..], |function| function.bytecode);
        while let Some(start) = rest.iter().position(|byte| *byte == b'#') {
            rest = rest.get(start..).unwrap_or_default();
            if rest.starts_with(ATTRIBUTE.as_bytes()) {
                return true;
            }
            rest = rest.get(1..).unwrap_or_default();
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_have_format_processor_and_features() {
        let message = "HAL device `__device_0` not found or unavailable: #hal.device.target<\"local\", \
                       [#hal.executable.target<\"vmvx\", \"vmvx-bytecode-fb\", {ukernels = \"none\"}>, \
                       #hal.executable.target<\"llvm-cpu\", \"embedded-elf-x86_64\", {cpu = \"znver4\", cpu_features = \
                       \"+avx,+sse4a,+fma4,-sse4a,-fma4,+fma4\", native_vector_size = 64 : i64}>]>";
        let targets = ExecutableTarget::in_message(message);
        assert_eq!(targets.len(), 2);
        assert_eq!((targets[0].format, targets[0].cpu, targets[0].features), ("vmvx-bytecode-fb", "", ""));
        assert_eq!((targets[1].backend, targets[1].format), ("llvm-cpu", "embedded-elf-x86_64"));
        assert_eq!(targets[1].cpu, "znver4");
        let uses = ["avx", "sse4a", "fma4", "av", "avx2", ""].map(|feature| targets[1].uses(feature));
        assert_eq!(uses, [true, false, true, false, false, false]);
        assert_eq!(ExecutableTarget::in_message("#hal.executable.target<\"a"), []);
    }
}
