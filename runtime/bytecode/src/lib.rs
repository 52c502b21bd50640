//! Module files of the IREE compiler: archive framing, the instruction table, decoder, verifier and text forms; the meaning
//! of instructions; a typed IR and its analyses. Data in, data out: nothing here runs a module.
//!
//! | module | contents |
//! |---|---|
//! | the root | [`Archive`], [`Module`], [`VerifiedModule`], [`assemble`], [`disassemble`] |
//! | [`isa`] | the instruction table, from which decoder, verifier, text forms and interpreter are derived |
//! | [`semantics`] | the arithmetic instructions as pure functions |
//! | [`ir`] | functions as typed values and basic blocks; analyses of them |
//! | [`trip_count`] | how often counted loops run |
//! | [`index_map`] | maps and sets whose keys are numbers |
//! | [`imports`], [`abi`] | the functions of the runtime's native modules, and the names of their flags |
//! | [`gpu_executable`] | executables for Vulkan, CUDA and HIP |
//! | [`executable_format`], [`target_features`] | formats of kernels, and the levels that translated ones are compiled for |
//!
//! The crate works on `core` and `alloc`. Its features, all on by default:
//!
//! | feature | adds |
//! |---|---|
//! | `std` | reading of files, and the floating-point functions of the standard library |
//! | `text` | [`assemble`] and [`disassemble`] |
//! | `ir` | [`ir`] |
//!
//! ```
//! use std::sync::Arc;
//! use incarnate_bytecode::{Contents, VerifiedModule, assemble, disassemble, ir};
//!
//! let bytes = assemble(
//!     "vm.module @example
//!      vm.type i32
//!      vm.export @double
//!      vm.func @double(%i0: i32) -> (i32) {
//!      ^bb0:
//!        %i0 = vm.add.i32 %i0, %i0
//!        vm.return %i0
//!      }",
//! )?;
//! let module = VerifiedModule::load(Arc::new(Contents::from_vec(bytes)))?;
//! assert!(disassemble(&module).contains("vm.add.i32"));
//! println!("{}", ir::Function::new(&module, 0)?);
//! # Ok::<(), incarnate_bytecode::Error>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod abi;
mod archive;
#[cfg(feature = "text")]
mod assembler;
mod budget;
mod calling_convention;
mod contents;
mod declaration;
mod declared_name;
#[cfg(feature = "text")]
mod disassembler;
mod element_type;
mod escaped;
pub mod executable_format;
#[cfg(feature = "text")]
mod fields;
mod foreign;
pub mod gpu_executable;
pub mod imports;
pub mod index_map;
mod instruction;
#[cfg(feature = "ir")]
pub mod ir;
pub mod isa;
mod module;
mod operand;
#[cfg(feature = "text")]
mod quoting;
#[doc(hidden)]
pub mod read;
mod recovery;
pub mod semantics;
mod signature;
mod status;
pub mod target_features;
mod targets;
pub mod trip_count;
mod value_names;
mod verified;
mod verifier;
#[cfg(feature = "text")]
#[doc(hidden)]
pub mod writer;

pub use archive::{Archive, FILE_IDENTIFIER};
#[cfg(feature = "text")]
pub use assembler::assemble;
pub use budget::Budget;
pub use calling_convention::{CallingConvention, ConventionItem};
pub use contents::{AlignedBytes, Contents, ContentsOwner, MappedContents, SEGMENT_ALIGNMENT};
#[cfg(feature = "std")]
pub use contents::{open_regular_file, read_regular_file};
pub use declaration::{
    COARSE_FENCES, DECLARATION, Declaration, DeclaredTensor, DeclaredValue, INVOCATION_MODEL, declaration_of,
    has_coarse_fences, split_tensor_type,
};
pub use declared_name::QuotedName;
#[cfg(feature = "text")]
pub use disassembler::{Disassembler, disassemble, disassemble_function};
pub use element_type::{ElementType, EncodingType, NumericalType};
pub use escaped::{Escaped, EscapedLines, acts, shown};
pub use foreign::FileKind;
pub use instruction::{Body, Instruction, Instructions};
pub use module::{DebugDatabase, Dependency, Export, FunctionView, Import, Module, Requirements, TypeDef, TypeKind};
pub use operand::{
    AnyRegister, BlockOffset, Cases, FunctionOrdinal, RefRegister, Register, RegisterList, RemapList, SegmentSizes,
    TypeId,
};
pub use recovery::recovered_declarations;
pub use signature::{Signature, ValueInfo, ValueType, wrong_argument_count};
pub use status::{Error, Location, Result, ResultExt, StatusCode};
pub use targets::ExecutableTarget;
pub use value_names::{find_value, identifier_of, identifiers};
pub use verified::VerifiedModule;
