//! How an executable finds its loader, for a device or for a program that loads its own.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::library::{ImportRegistry, missing_features};
use super::loaders::Loader;
use super::{ExecutableLoader, ExecutableParameters};
use crate::bytecode::executable_format::{is_machine_code_of_host, is_unverified, untrusted_refusal};
use crate::bytecode::{Contents, ExecutableTarget};
use crate::hal::Executable;
use crate::vm::{Ledger, Limits, array};
use crate::{Error, Result};

/// Where a program's executables may come from.
#[derive(Clone, Debug, Default)]
pub struct Loaders {
    /// Of what is part of the program: asked first, on every device.
    program: Vec<Arc<dyn ExecutableLoader>>,
    /// Asked on devices that have no loaders of their own.
    general: Vec<Arc<dyn ExecutableLoader>>,
    /// What kernels that are bytecode may use up.
    limits: Limits,
    /// Interpreted kernels may compute float reductions in another order.
    reassociate: bool,
    /// Formats whose machine code this processor cannot run, with the reason.
    refused: Vec<(String, String)>,
}

impl Loaders {
    /// Every loader of this build.
    #[must_use]
    pub fn all() -> Loaders {
        Loaders::named(Loader::ALL)
    }

    /// Some of them.
    #[must_use]
    pub fn named(loaders: &[Loader]) -> Loaders {
        let general = loaders.iter().map(|loader| loader.create()).collect();
        Loaders { program: Vec::new(), general, limits: Limits::default(), reassociate: false, refused: Vec::new() }
    }

    /// These, and loaders of what is part of the program.
    #[must_use]
    pub fn with(mut self, program: &[Arc<dyn ExecutableLoader>]) -> Loaders {
        #[expect(clippy::disallowed_methods, reason = "the loaders are those of the host program")]
        self.program.extend_from_slice(program);
        self
    }

    /// These, for a program whose kernels that are bytecode use up at most so much: the memory is of all of them, and of the
    /// program where that has the same budget; the fuel is of each workgroup.
    #[must_use]
    pub fn within(self, limits: Limits) -> Loaders {
        Loaders { limits, ..self }
    }

    /// These, for a program whose interpreted kernels may compute float reductions in another order than that of the bytecode:
    /// see [`BytecodeModule::reassociating`](crate::vm::BytecodeModule::reassociating).
    #[must_use]
    pub fn reassociating(self, reassociate: bool) -> Loaders {
        Loaders { reassociate, ..self }
    }

    /// These, for a program with a module whose machine code is compiled for `targets`: executables of a format are refused if this
    /// processor lacks a feature of each of its targets.
    #[must_use]
    pub fn for_targets(mut self, targets: &[ExecutableTarget<'_>]) -> Loaders {
        let of_host = || targets.iter().filter(|target| is_machine_code_of_host(target.format));
        for target in of_host() {
            let missing = missing_features(target);
            let alternatives = of_host().filter(|other| other.format == target.format);
            let is_refused = |format| self.refused.iter().any(|row| row.0 == format);
            if missing.is_empty() || is_refused(target.format) || alternatives.into_iter().any(is_supported) {
                continue;
            }
            let cpu = if target.cpu.is_empty() { target.format } else { target.cpu };
            let reason =
                format!("machine code for {cpu} needs features that this processor lacks: {}", missing.join(", "));
            self.refused.push((target.format.into(), reason));
        }
        self
    }

    /// Returns why executables of a format are refused.
    #[must_use]
    pub fn refusal(&self, format: &str) -> Option<&str> {
        self.refused.iter().find(|row| row.0 == format).map(|row| row.1.as_str())
    }

    /// These and a program's own: that of the executables which are part of it, and others that it names, behind these
    /// unless they are there.
    #[must_use]
    pub fn of_program(&self, program: Option<Arc<dyn ExecutableLoader>>, loaders: &[Loader]) -> Loaders {
        let mut all = self.clone();
        all.program.extend(program);
        for loader in loaders {
            let made = loader.create();
            if loader.is_of_program {
                all.program.push(made);
            } else if !all.general.iter().any(|other| other.name() == made.name()) {
                all.general.push(made);
            }
        }
        all
    }

    /// Returns whether executables may be code that no verifier checks: see [`Limits::machine_code`].
    #[must_use]
    pub fn permit_machine_code(&self) -> bool {
        self.limits.machine_code
    }

    /// Those that a program asks on a device of loaders of its own or without.
    fn candidates<'a>(
        &'a self,
        device: Option<&'a [Arc<dyn ExecutableLoader>]>,
    ) -> impl Iterator<Item = &'a Arc<dyn ExecutableLoader>> {
        let is_permitted = |loader: &&Arc<dyn ExecutableLoader>| self.limits.machine_code || loader.is_verifying();
        self.program.iter().chain(device.unwrap_or(&self.general)).filter(is_permitted)
    }

    /// Whether one of them can load executables of `format` on this host, and this processor can run them; `device` are a device's
    /// own loaders.
    #[must_use]
    pub fn support(&self, device: Option<&[Arc<dyn ExecutableLoader>]>, format: &str) -> bool {
        self.refusal(format).is_none() && self.candidates(device).any(|loader| loader.supports(format))
    }

    /// Loads an executable of the given format with the first loader that takes it. `device` are a device's own loaders,
    /// `imports` resolves what machine code imports, `contents` is the file that `data` is a part of, if it is. The executable
    /// is charged to the program's ledger before it is loaded, [`Ledger::HOST`] for a host program.
    ///
    /// # Errors
    /// INCOMPATIBLE if this processor lacks a feature; PERMISSION_DENIED for code that no verifier checks, where the limits refuse it;
    /// NOT_FOUND where no loader does; RESOURCE_EXHAUSTED if the ledger is used up; what the loader reports.
    #[allow(clippy::too_many_arguments, reason = "what a device and a program each contribute")]
    pub fn load(
        &self,
        device: Option<&[Arc<dyn ExecutableLoader>]>,
        imports: &ImportRegistry,
        format: &str,
        data: &[u8],
        contents: Option<&Arc<Contents>>,
        constants: &[u32],
        ledger: &Ledger,
    ) -> Result<Arc<Executable>> {
        if let Some(reason) = self.refusal(format) {
            return Err(Error::incompatible(reason.to_owned()));
        }
        let charge = Executable::charge(data.len(), ledger)?;
        let aligned = AlignedBytes::new(data)?;
        let contents = contents.filter(|_| matches!(aligned, AlignedBytes::InPlace(_)));
        let (limits, reassociate) = (&self.limits, self.reassociate);
        let data = aligned.bytes();
        let parameters = ExecutableParameters { format, data, contents, constants, imports, limits, reassociate };
        let Some(code) = self.candidates(device).find_map(|loader| loader.take(&parameters)) else {
            if !self.limits.machine_code && is_unverified(format) {
                return Err(Error::permission_denied(untrusted_refusal(format)));
            }
            let names: Vec<&str> = self.candidates(device).map(|loader| loader.name()).collect();
            return Err(Error::not_found(format!(
                "no loader for this executable of format '{format}'; loaders: {}",
                if names.is_empty() { "none".into() } else { names.join(", ") }
            )));
        };
        let code = code.map_err(|error| error.context(format!("loading an executable of format '{format}'")))?;
        Ok(Arc::new(Executable::charged(code, charge)))
    }
}

fn is_supported(target: &ExecutableTarget<'_>) -> bool {
    missing_features(target).is_empty()
}

/// Bytes at an address that is a multiple of 16, copied only where they are not.
enum AlignedBytes<'a> {
    InPlace(&'a [u8]),
    Copied { storage: Box<[u8]>, start: usize, length: usize },
}

impl<'a> AlignedBytes<'a> {
    const ALIGNMENT: usize = 16;

    fn new(bytes: &'a [u8]) -> Result<AlignedBytes<'a>> {
        if bytes.as_ptr().align_offset(Self::ALIGNMENT) == 0 {
            return Ok(AlignedBytes::InPlace(bytes));
        }
        let length = bytes.len() + Self::ALIGNMENT;
        let mut storage = array::filled(length, 0)?;
        let start = storage.as_ptr().align_offset(Self::ALIGNMENT);
        if let Some(target) = storage.get_mut(start..start + bytes.len()) {
            target.copy_from_slice(bytes);
        }
        Ok(AlignedBytes::Copied { storage: storage.into_boxed_slice(), start, length: bytes.len() })
    }

    fn bytes(&self) -> &[u8] {
        match self {
            AlignedBytes::InPlace(bytes) => bytes,
            AlignedBytes::Copied { storage, start, length } => {
                storage.get(*start..*start + *length).unwrap_or_default()
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn executable_data_is_aligned_before_it_is_loaded() {
        let bytes: Vec<u8> = (0..64).collect();
        for start in 0..16 {
            let aligned = AlignedBytes::new(&bytes[start..start + 40]).unwrap();
            assert_eq!(aligned.bytes(), &bytes[start..start + 40]);
            assert_eq!(aligned.bytes().as_ptr().align_offset(16), 0);
        }
    }
}
