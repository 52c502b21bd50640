//! Devices that run on the host's processors, and the executable loaders that they share.

mod executable;
#[allow(unsafe_code, reason = "calls kernels through the executable library ABI; see the module's documentation")]
pub mod library;
#[allow(unsafe_code, reason = "maps machine code into memory and runs its initialisers")]
pub mod loaders;

pub use executable::{
    BindingPointer, DispatchArguments, ExecutableLoader, ExecutableParameters, FunctionInfo, LocalExecutable, Worker,
};
