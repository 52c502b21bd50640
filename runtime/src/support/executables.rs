//! Executables that are part of a program: VMVX modules, translated with the module that creates them.

use core::fmt;
#[cfg(feature = "std")]
pub use with_std::*;

#[cfg(feature = "std")]
use super::{Arc, Ref};
#[cfg(feature = "std")]
use crate::hal::local::ExecutableLoader;
#[cfg(feature = "std")]
use crate::{Error, Result};

/// Makes the loader of executables; given the module's constants.
#[cfg(feature = "std")]
type MakeLoader = fn(&'static [Executable], &Arc<[Ref]>) -> Arc<dyn ExecutableLoader>;

/// The executables of a translated module.
#[derive(Clone, Copy)]
pub struct Executables {
    /// Makes the loader of them. What makes it is linked into programs that have some.
    #[cfg(feature = "std")]
    loader: Option<MakeLoader>,
    #[cfg(feature = "std")]
    all: &'static [Executable],
}

impl fmt::Debug for Executables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Executables")
    }
}

impl Executables {
    /// None.
    #[cfg(feature = "std")]
    pub const NONE: Executables = Executables { loader: None, all: &[] };
    /// None.
    #[cfg(not(feature = "std"))]
    pub const NONE: Executables = Executables {};
}

#[cfg(feature = "std")]
mod with_std {
    use core::marker::PhantomData;

    use super::{Arc, Error, ExecutableLoader, Executables, Ref, Result};
    pub use crate::hal::local::loaders::Workgroups;

    use crate::hal::executable_format::VMVX;
    use crate::hal::local::loaders::{CompiledKernels, VmvxExecutable};
    use crate::hal::local::{ExecutableParameters, LocalExecutable};
    use crate::processor;
    use crate::support::{Description, Stack, State, TranslatedModule};
    use crate::vm::ModuleState;

    /// Calls a kernel for some workgroups.
    pub type Kernel = fn(&State, &mut Stack, &mut Workgroups<'_>) -> Result<()>;

    /// A kernel that comes in versions for processors.
    pub trait VersionedKernel {
        /// Calls it for some workgroups; see [`processor::Code::run`].
        ///
        /// # Errors
        /// What the kernel fails with.
        fn run<const LANES: usize>(state: &State, stack: &mut Stack, workgroups: &mut Workgroups<'_>) -> Result<()>;
    }

    struct Call<'a, 'w, K> {
        state: &'a State,
        stack: &'a mut Stack,
        workgroups: &'a mut Workgroups<'w>,
        kernel: PhantomData<K>,
    }

    impl<K: VersionedKernel> processor::Code for Call<'_, '_, K> {
        type Output = Result<()>;

        #[inline(always)]
        fn run<const LANES: usize>(self) -> Result<()> {
            K::run::<LANES>(self.state, self.stack, self.workgroups)
        }
    }

    /// Calls a kernel in the best version for this processor among those of some levels; see [`processor::versions`].
    ///
    /// # Errors
    /// What the kernel fails with.
    pub fn versions<const LEVELS: u8, K: VersionedKernel>(
        state: &State,
        stack: &mut Stack,
        workgroups: &mut Workgroups<'_>,
    ) -> Result<()> {
        processor::versions::<LEVELS, _>(Call { state, stack, workgroups, kernel: PhantomData::<K> })
    }

    /// An executable that is part of a program.
    #[derive(Debug)]
    pub struct Executable {
        /// The ordinal of the constant that the program creates it of.
        pub rodata: u32,
        /// The module that it is.
        pub module: &'static Description,
        /// The module's exports that are kernels, with their ordinals, and with bits of the bindings that they only read.
        pub kernels: &'static [(u32, Kernel, u64)],
    }

    impl CompiledKernels for Executable {
        fn run(
            &self,
            export: u32,
            state: &dyn ModuleState,
            stack: &mut Stack,
            workgroups: &mut Workgroups<'_>,
        ) -> Result<()> {
            let kernel = self.kernels.iter().find(|kernel| kernel.0 == export);
            let (_, kernel, _) = kernel.ok_or_else(|| Error::internal("an export that is no kernel"))?;
            kernel(state.downcast()?, stack, workgroups)
        }

        fn read_only_bindings(&self, export: u32) -> u64 {
            let kernel = self.kernels.iter().find(|kernel| kernel.0 == export);
            kernel.map_or(0, |kernel| kernel.2)
        }
    }

    impl Executables {
        /// Some of them.
        pub const fn new(all: &'static [Executable]) -> Executables {
            Executables { loader: Some(|all, rodata| Arc::new(Loader { all, rodata: rodata.clone() })), all }
        }

        /// True where some kernel only reads some binding.
        pub(in crate::support) fn only_read_some(&self) -> bool {
            self.all.iter().flat_map(|executable| executable.kernels).any(|kernel| kernel.2 != 0)
        }

        /// The loader of them.
        pub(in crate::support) fn loader(&self, rodata: &Arc<[Ref]>) -> Option<Arc<dyn ExecutableLoader>> {
            self.loader.map(|make| make(self.all, rodata))
        }
    }

    /// Finds a program's executables by the bytes that the program creates them of.
    #[derive(Debug)]
    struct Loader {
        all: &'static [Executable],
        rodata: Arc<[Ref]>,
    }

    impl Loader {
        fn find(&self, data: &[u8]) -> Option<&'static Executable> {
            self.all.iter().find(|executable| {
                let Some(Ref::Buffer(constant)) = self.rodata.get(executable.rodata as usize) else { return false };
                constant.as_bytes().is_some_and(|bytes| core::ptr::eq(bytes, data) || bytes == data)
            })
        }
    }

    impl ExecutableLoader for Loader {
        fn name(&self) -> &'static str {
            "translated"
        }

        fn supports(&self, format: &str) -> bool {
            format == VMVX
        }

        fn take(&self, parameters: &ExecutableParameters<'_>) -> Option<Result<Arc<dyn LocalExecutable>>> {
            let executable = self.supports(parameters.format).then(|| self.find(parameters.data))??;
            let module = TranslatedModule::new(executable.module);
            let executable =
                VmvxExecutable::compiled(module, executable, parameters.constants, parameters.limits.clone());
            Some(executable.map(|executable| Arc::new(executable) as Arc<dyn LocalExecutable>))
        }

        fn load(&self, parameters: &ExecutableParameters<'_>) -> Result<Arc<dyn LocalExecutable>> {
            self.take(parameters).unwrap_or_else(|| Err(Error::not_found("no such executable is part of the program")))
        }
    }
}
