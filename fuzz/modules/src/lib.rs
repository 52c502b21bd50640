//! Random modules that verify, and that call native functions with hostile operands in hostile orders.
//!
//! A case is the text of a module, with a plan in its first lines: the device, the calls of its exports, and their threads.
//! `signatures` learns which objects the functions of the import tables take, by calling them. `generator` writes cases,
//! `case` runs one in this process under limits, and `supervisor` runs many in processes that may crash or hang.
//! `mutation` changes modules of the repository, and `mutated` runs such mutants through the command line.
//! `translated` compiles the cases of a batch and runs them in both modes.
#![forbid(unsafe_code)]

pub mod case;
pub mod executable;
pub mod generator;
pub mod kernel;
#[cfg(feature = "cli")]
pub mod mutated;
pub mod mutation;
pub mod plan;
pub mod process;
pub mod sessions;
pub mod signatures;
pub mod supervisor;
pub mod text;
pub mod translated;
