//! Code shared by the command line and the programs that it builds: values as text and in files, expected results.

pub(crate) mod atomic_file;
pub(crate) mod declaration;
pub(crate) mod destination;
pub(crate) mod expected;
pub(crate) mod output;
pub(crate) mod results;
pub(crate) mod spec;

pub(crate) use incarnate_runtime::hal::format::HostTensor;

/// A primitive VM value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Primitive {
    I32(i32),
    I64(i64),
    F32(f32),
    F64(f64),
}

/// An argument or an expected result of a function, on the host.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum HostValue {
    /// No object.
    Null,
    /// A number.
    Primitive(Primitive),
    /// A `!hal.buffer_view`.
    Tensor(HostTensor),
    /// A `!hal.buffer`: contents without shape and type.
    Storage(HostTensor),
}
