//! Devices that run on the host's processors, and the executable loaders that they share.

mod executable;

pub use executable::{
    BindingPointer, DispatchArguments, ExecutableLoader, ExecutableParameters, FunctionInfo, LocalExecutable, Worker,
};
