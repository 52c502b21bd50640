//! The `hal_loader` module: executables of programs that dispatch workgroups themselves, on the calling thread.
//!
//! Modules compiled with `--iree-execution-model=inline-dynamic` import it beside `hal_inline`, which provides buffers.

mod functions;

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::bytecode::{for_each_hal_loader_function, imports};
use crate::hal::local::library::ImportRegistry;
use crate::hal::local::loaders::Loader;
use crate::hal::local::{ExecutableLoader, Loaders};
use crate::vm::{DirectModule, ModuleState, NativeModule, direct_table, native_table};

/// The name that programs import the module by.
pub const NAME: &str = "hal_loader";

/// The versions that are there, for messages.
const VERSIONS: &str = "versions 0.0 and 0.1, for modules of compilers 3.0 to 3.13";

/// The newest version, which modules declare as their minimum.
pub const VERSION: u32 = 1;

/// Options of the module.
#[derive(Clone, Debug)]
pub struct HalLoaderOptions {
    /// The executable loaders if `device` is None.
    pub loaders: Loaders,
    /// The loaders of the device whose memory the program uses, if the device has its own.
    pub device: Option<Vec<Arc<dyn ExecutableLoader>>>,
    /// The functions that machine-code executables may import.
    pub imports: ImportRegistry,
}

impl Default for HalLoaderOptions {
    /// Every loader of this build.
    fn default() -> HalLoaderOptions {
        HalLoaderOptions { loaders: Loaders::all(), device: None, imports: ImportRegistry::default() }
    }
}

/// The module's state within a context.
#[derive(Clone, Debug)]
pub struct HalLoaderState {
    device: Option<Arc<[Arc<dyn ExecutableLoader>]>>,
    imports: ImportRegistry,
    /// The executable loaders of the importing program.
    loaders: Arc<Loaders>,
}

impl ModuleState for HalLoaderState {}

impl HalLoaderState {
    fn new(options: HalLoaderOptions) -> HalLoaderState {
        HalLoaderState {
            device: options.device.map(Arc::from),
            imports: options.imports,
            loaders: Arc::new(options.loaders),
        }
    }

    /// Returns the state for a program with its own loaders; see [`Loaders::of_program`].
    pub(crate) fn for_program(&self, program: Option<Arc<dyn ExecutableLoader>>, loaders: &[Loader]) -> HalLoaderState {
        HalLoaderState { loaders: Arc::new(self.loaders.of_program(program, loaders)), ..self.clone() }
    }
}

/// Creates the module in all its versions.
#[must_use]
pub fn module(options: HalLoaderOptions) -> NativeModule<HalLoaderState> {
    NativeModule::of_state(
        NAME,
        VERSION,
        HalLoaderState::new(options),
        for_each_hal_loader_function!(native_table HalLoaderState),
    )
    .with_older_forms(imports::older::HAL_LOADER)
    .with_versions(VERSIONS)
}

/// Creates the module without packed calls, for sessions that contain only translated modules.
#[must_use]
pub fn direct_module(options: HalLoaderOptions) -> DirectModule<HalLoaderState> {
    DirectModule::new(NAME, VERSION, HalLoaderState::new(options), for_each_hal_loader_function!(direct_table))
        .with_versions(VERSIONS)
}
