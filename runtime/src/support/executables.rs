//! Executables that are part of a program: VMVX modules that are translated with the module that creates them.

use alloc::format;
use core::marker::PhantomData;

use super::description::{Executable, Executables, ExportedKernel};
use super::{Arc, Ref, Stack, State, TranslatedModule};
use crate::hal::executable_format::VMVX;
use crate::hal::local::loaders::{CompiledKernels, VmvxExecutable, Workgroups};
use crate::hal::local::{Coarsening, ExecutableLoader, ExecutableParameters, LocalExecutable};
use crate::vm::ModuleState;
use crate::{Error, Result, processor};

/// Returns a reference to a binding of a dispatch, for kernels that take references.
///
/// # Errors
/// OUT_OF_RANGE if there is none of that number.
pub fn binding(bindings: &[Ref], ordinal: u32) -> Result<&Ref> {
    bindings.get(ordinal as usize).ok_or_else(|| no_binding(ordinal, bindings.len()))
}

#[cold]
fn no_binding(ordinal: u32, count: usize) -> Error {
    Error::out_of_range(format!("binding {ordinal} of a dispatch with {count}"))
}

/// A kernel that is compiled for several sets of target features.
pub trait MultiversionedKernel {
    /// Calls it for a range of workgroups; see [`processor::Multiversion::run`].
    ///
    /// # Errors
    /// The errors of the kernel.
    fn run<const LANES: usize>(state: &State, stack: &mut Stack, workgroups: &mut Workgroups<'_>) -> Result<()>;
}

struct Call<'a, 'w, K> {
    state: &'a State,
    stack: &'a mut Stack,
    workgroups: &'a mut Workgroups<'w>,
    kernel: PhantomData<K>,
}

impl<K: MultiversionedKernel> processor::Multiversion for Call<'_, '_, K> {
    type Output = Result<()>;

    #[inline(always)]
    fn run<const LANES: usize>(self, _: impl processor::IntegerProducts) -> Result<()> {
        K::run::<LANES>(self.state, self.stack, self.workgroups)
    }
}

/// Calls the best variant of a kernel that this processor supports; see [`processor::multiversioned`].
///
/// # Errors
/// The errors of the kernel.
pub fn multiversioned_kernel<const TARGET_FEATURES: u8, K: MultiversionedKernel>(
    state: &State,
    stack: &mut Stack,
    workgroups: &mut Workgroups<'_>,
) -> Result<()> {
    processor::multiversioned::<TARGET_FEATURES, _>(Call { state, stack, workgroups, kernel: PhantomData::<K> })
}

impl Executable {
    fn kernel(&self, export: u32) -> Option<&ExportedKernel> {
        // Most often, all exports are kernels.
        let at = self.kernels.get(export as usize).filter(|kernel| kernel.export == export);
        at.or_else(|| self.kernels.iter().find(|kernel| kernel.export == export))
    }
}

impl CompiledKernels for Executable {
    fn run(
        &self,
        export: u32,
        state: &dyn ModuleState,
        stack: &mut Stack,
        workgroups: &mut Workgroups<'_>,
    ) -> Result<()> {
        let kernel = self.kernel(export).ok_or_else(|| Error::internal("an export that is not a kernel"))?;
        (kernel.function)(state.downcast()?, stack, workgroups)
    }

    fn takes_references(&self, export: u32) -> bool {
        self.kernel(export).is_none_or(|kernel| kernel.takes_references)
    }

    fn read_only_bindings(&self, export: u32) -> u64 {
        self.kernel(export).map_or(0, |kernel| kernel.read_only_bindings)
    }

    fn coarsening(&self, export: u32) -> Coarsening {
        self.kernel(export).map_or(Coarsening::NONE, |kernel| kernel.coarsening)
    }
}

impl Executables {
    /// Creates the set of a program's executables.
    pub const fn new(all: &'static [Executable]) -> Executables {
        Executables { loader: Some(|all, rodata| Arc::new(Loader { all, rodata: rodata.clone() })), all }
    }

    /// Creates their loader.
    pub(super) fn loader(&self, rodata: &Arc<[Ref]>) -> Option<Arc<dyn ExecutableLoader>> {
        self.loader.map(|create| create(self.all, rodata))
    }
}

/// Loads a program's executables, which it finds by the bytes that the program passes.
#[derive(Debug)]
struct Loader {
    all: &'static [Executable],
    rodata: Arc<[Ref]>,
}

impl Loader {
    fn find(&self, data: &[u8]) -> Option<&'static Executable> {
        self.all.iter().find(|executable| {
            let Some(Ref::Buffer(constant)) = self.rodata.get(executable.rodata as usize) else { return false };
            constant.holds(data)
        })
    }
}

impl ExecutableLoader for Loader {
    fn name(&self) -> &'static str {
        "translated"
    }

    fn is_verifying(&self) -> bool {
        true
    }

    fn supports(&self, format: &str) -> bool {
        format == VMVX
    }

    fn take(&self, parameters: &ExecutableParameters<'_>) -> Option<Result<Arc<dyn LocalExecutable>>> {
        let executable = self.supports(parameters.format).then(|| self.find(parameters.data))??;
        let module = TranslatedModule::new(executable.module);
        let executable = VmvxExecutable::compiled(module, executable, parameters.constants, parameters.limits.clone());
        Some(executable.map(|executable| Arc::new(executable) as Arc<dyn LocalExecutable>))
    }

    fn load(&self, parameters: &ExecutableParameters<'_>) -> Result<Arc<dyn LocalExecutable>> {
        self.take(parameters).unwrap_or_else(|| Err(Error::not_found("the program contains no such executable")))
    }
}
