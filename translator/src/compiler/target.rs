//! What a model is compiled for.

use core::fmt;
use core::str::FromStr;

use incarnate_bytecode::{Error, Result};

/// Where the kernels of a compiled model run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Machine code for this host's processor and its features: the fastest, and for processors with the same features only.
    Native,
    /// Portable bytecode (VMVX), for every machine: slow where it is interpreted, as fast as machine code where it is
    /// translated.
    Portable,
    /// Both in one file: a program takes the machine code if it is built to prefer it, or else the bytecode.
    Both,
    /// Machine code for a target triple of LLVM, and for a CPU by its name: `generic` if none is given.
    Triple(String, Option<String>),
}

/// Computes with f64 where the model says f64; by default the compiler takes f32 there.
const KEEP_F64: &str = "--iree-input-demote-f64-to-f32=false";
/// The compiler's default.
const F32_FOR_F64: &str = "--iree-input-demote-f64-to-f32=true";

/// Whether a compilation failed because portable kernels cannot narrow f64 to f32, of compilers up to 3.13. PyTorch's models need
/// that for scalars alone, such as the epsilon of a normalisation.
pub(super) fn lacks_narrowing(messages: &[u8]) -> bool {
    let needle = b"failed to legalize operation 'arith.truncf'";
    messages.windows(needle.len()).any(|window| window == needle)
}

/// Returns a flag of [`Target::flags`] for a model whose f64 numbers are to be f32.
pub(super) fn with_f32_for_f64(flag: &str) -> String {
    if flag == KEEP_F64 { F32_FOR_F64.to_owned() } else { flag.to_owned() }
}

impl Target {
    /// Returns the compiler's flags.
    #[must_use]
    pub fn flags(&self) -> Vec<String> {
        const VMVX: &str = "--iree-hal-local-target-device-backends=vmvx";
        const LLVM_CPU: &str = "--iree-hal-local-target-device-backends=llvm-cpu";
        const HOST: &str = "--iree-llvmcpu-target-cpu=host";
        let kernels = match self {
            Target::Native => vec![LLVM_CPU.to_owned(), HOST.to_owned()],
            Target::Portable => vec![VMVX.to_owned()],
            Target::Both => vec![LLVM_CPU.to_owned(), HOST.to_owned(), VMVX.to_owned()],
            Target::Triple(triple, cpu) => vec![
                LLVM_CPU.to_owned(),
                format!("--iree-llvmcpu-target-triple={triple}"),
                format!("--iree-llvmcpu-target-cpu={}", cpu.as_deref().unwrap_or("generic")),
            ],
        };
        let common = ["--iree-hal-target-device=local", KEEP_F64];
        common.map(str::to_owned).into_iter().chain(kernels).collect()
    }
}

impl FromStr for Target {
    type Err = Error;

    fn from_str(text: &str) -> Result<Target> {
        let (triple, cpu) = match text.split_once(':') {
            Some((triple, cpu)) => (triple, Some(cpu.to_owned())),
            None => (text, None),
        };
        Ok(match (triple, cpu) {
            ("native", None) => Target::Native,
            ("portable", None) => Target::Portable,
            ("both", None) => Target::Both,
            (triple, cpu) if triple.contains('-') && cpu.as_deref() != Some("") => {
                Target::Triple(triple.to_owned(), cpu)
            }
            _ => {
                let known = "native, portable, both, or TRIPLE[:CPU] such as aarch64-unknown-linux-gnu:cortex-a72";
                return Err(Error::invalid_argument(format!("unknown target `{text}`: {known}")));
            }
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Native => f.write_str("native"),
            Target::Portable => f.write_str("portable"),
            Target::Both => f.write_str("both"),
            Target::Triple(triple, None) => f.write_str(triple),
            Target::Triple(triple, Some(cpu)) => write!(f, "{triple}:{cpu}"),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn targets_are_parsed_as_they_are_displayed() {
        for text in ["native", "portable", "both", "aarch64-unknown-linux-gnu", "x86_64-unknown-linux-gnu:znver4"] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
        for text in ["", "host", "native:znver4", "a-b:", "x86_64"] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
        assert!(Target::Triple("a-b".into(), None).flags().contains(&"--iree-llvmcpu-target-cpu=generic".to_owned()));
    }
}
