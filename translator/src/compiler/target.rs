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
    /// SPIR-V for GPUs with Vulkan, of an architecture by its name in the compiler: a baseline of many if none is given. It computes
    /// with f32 where the model says f64, because few GPUs have arithmetic of f64.
    Vulkan(Option<String>),
}

/// Computes with f64 where the model says f64; by default the compiler takes f32 there.
const KEEP_F64: &str = "--iree-input-demote-f64-to-f32=false";

/// A type of floats for which portable kernels lack operations, in compilers up to 3.13: conversions to a narrower type, and all
/// arithmetic of those of 16 bits. PyTorch's models need f64 for scalars alone, such as the epsilon of a normalisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LackingFloat {
    /// 64 bits.
    F64,
    /// IEEE's 16 bits.
    F16,
    /// The upper half of an `f32`.
    Bf16,
}

impl LackingFloat {
    const ALL: [LackingFloat; 3] = [LackingFloat::F64, LackingFloat::F16, LackingFloat::Bf16];

    /// The name in MLIR.
    const fn name(self) -> &'static str {
        match self {
            LackingFloat::F64 => "f64",
            LackingFloat::F16 => "f16",
            LackingFloat::Bf16 => "bf16",
        }
    }

    /// The flag with which the compiler takes f32 instead.
    const fn flag(self) -> &'static str {
        match self {
            LackingFloat::F64 => "--iree-input-demote-f64-to-f32=true",
            LackingFloat::F16 => "--iree-input-promote-f16-to-f32",
            LackingFloat::Bf16 => "--iree-input-promote-bf16-to-f32",
        }
    }

    /// Returns the type for which a compilation lacked an operation, and with f32 for which it may be tried again with `flags`.
    pub(super) fn of(messages: &[u8], flags: &[String]) -> Option<LackingFloat> {
        let messages = String::from_utf8_lossy(messages);
        // The name of the model's file precedes the message, and may have such words, too.
        let mut lines = messages.lines().filter_map(|line| Some(line.split_once("failed to legalize operation")?.1));
        let is_word =
            |line: &str, name: &str| line.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == name);
        let has = |flag: &str| flags.iter().any(|other| other == flag);
        // The compiler takes f32 for f64 unless it is told to keep that.
        let taken = |float: &LackingFloat| has(float.flag()) || *float == LackingFloat::F64 && !has(KEEP_F64);
        lines.find_map(|line| LackingFloat::ALL.into_iter().find(|float| is_word(line, float.name()) && !taken(float)))
    }

    /// Adds to the flags of [`Target::flags`] that f32 is taken.
    pub(super) fn take_f32(self, flags: &mut Vec<String>) {
        if self == LackingFloat::F64 {
            flags.retain(|flag| flag != KEEP_F64);
        }
        flags.push(self.flag().to_owned());
    }
}

impl fmt::Display for LackingFloat {
    /// Tells a user what the compiled module computes with.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name();
        write!(
            f,
            "the compiler lacks operations on {name} for this target: the module computes with f32 where the model says {name}"
        )
    }
}

impl Target {
    /// Returns the compiler's flags.
    #[must_use]
    pub fn flags(&self) -> Vec<String> {
        const VMVX: &str = "--iree-hal-local-target-device-backends=vmvx";
        const LLVM_CPU: &str = "--iree-hal-local-target-device-backends=llvm-cpu";
        const HOST: &str = "--iree-llvmcpu-target-cpu=host";
        let cpu = |kernels: Vec<String>| {
            let common = ["--iree-hal-target-device=local", KEEP_F64];
            common.map(str::to_owned).into_iter().chain(kernels).collect()
        };
        match self {
            Target::Native => cpu(vec![LLVM_CPU.to_owned(), HOST.to_owned()]),
            Target::Portable => cpu(vec![VMVX.to_owned()]),
            // Linked, the kernels of the first target take the place of the others', and only a model of one kernel has both.
            Target::Both => {
                cpu([LLVM_CPU, HOST, VMVX, "--iree-hal-link-executables=false"].map(str::to_owned).to_vec())
            }
            Target::Triple(triple, name) => cpu(vec![
                LLVM_CPU.to_owned(),
                format!("--iree-llvmcpu-target-triple={triple}"),
                format!("--iree-llvmcpu-target-cpu={}", name.as_deref().unwrap_or("generic")),
            ]),
            Target::Vulkan(architecture) => {
                let architecture = architecture.iter().map(|name| format!("--iree-vulkan-target={name}"));
                ["--iree-hal-target-device=vulkan".to_owned()].into_iter().chain(architecture).collect()
            }
        }
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
            ("vulkan", architecture) if architecture.as_deref() != Some("") => Target::Vulkan(architecture),
            (triple, cpu) if triple.contains('-') && cpu.as_deref() != Some("") => {
                Target::Triple(triple.to_owned(), cpu)
            }
            _ => {
                let known = "native, portable, both, vulkan[:ARCHITECTURE], or TRIPLE[:CPU] such as aarch64-unknown-linux-gnu:cortex-a72";
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
            Target::Vulkan(None) => f.write_str("vulkan"),
            Target::Vulkan(Some(architecture)) => write!(f, "vulkan:{architecture}"),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn targets_are_parsed_as_they_are_displayed() {
        for text in [
            "native",
            "portable",
            "both",
            "aarch64-unknown-linux-gnu",
            "x86_64-unknown-linux-gnu:znver4",
            "vulkan",
            "vulkan:rdna3",
        ] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
        for text in ["", "host", "native:znver4", "a-b:", "x86_64", "vulkan:"] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
        // Linked, a file of both kinds of kernels has the machine code only.
        let both = Target::Both.flags();
        for flag in ["vmvx", "llvm-cpu", "--iree-hal-link-executables=false"] {
            assert!(both.iter().any(|found| found.ends_with(flag)), "{flag}");
        }
        assert!(Target::Triple("a-b".into(), None).flags().contains(&"--iree-llvmcpu-target-cpu=generic".to_owned()));
    }

    #[test]
    fn floats_that_kernels_lack_are_found_in_messages() {
        let truncation =
            b"error: failed to legalize operation 'arith.truncf' that was explicitly marked illegal: (f64) -> f32";
        let half =
            b"a note on f64\nfailed to legalize operation 'arith.truncf': %38 = \"arith.truncf\"(%37) : (f32) -> f16";
        let brain = b"failed to legalize operation 'arith.constant': <{value = 0.000000e+00 : bf16}> : () -> bf16";
        let mut flags = Target::Portable.flags();
        assert_eq!(LackingFloat::of(truncation, &flags), Some(LackingFloat::F64));
        LackingFloat::F64.take_f32(&mut flags);
        assert!(!flags.iter().any(|flag| flag == KEEP_F64));
        assert_eq!(LackingFloat::of(truncation, &Target::Vulkan(None).flags()), None);
        // Once f32 is taken, it is not tried again.
        assert_eq!(LackingFloat::of(truncation, &flags), None);
        assert_eq!(LackingFloat::of(half, &flags), Some(LackingFloat::F16));
        assert_eq!(LackingFloat::of(brain, &flags), Some(LackingFloat::Bf16));
        assert_eq!(LackingFloat::of(b"failed to legalize operation 'torch.operator'", &flags), None);
        let of_file = [b"f16/bf16-f64.mlir:2:8: error: ", &brain[..]].concat();
        assert_eq!(LackingFloat::of(&of_file, &Target::Portable.flags()), Some(LackingFloat::Bf16));
    }
}
