//! Module files: archive framing, the instruction table, decoder, verifier, and the text form. Data in, data out.
#![forbid(unsafe_code)]

mod archive;
mod assembler;
mod bmod;
mod calling_convention;
mod contents;
mod declaration;
mod disassembler;
mod instruction;
pub mod isa;
mod module;
pub(crate) mod read;
mod text;
mod verifier;
mod writer;

pub use archive::{Archive, FILE_IDENTIFIER};
pub use assembler::assemble;
pub use calling_convention::{CallingConvention, ConventionItem};
pub use contents::{AlignedBytes, Contents, SEGMENT_ALIGNMENT};
pub use declaration::{
    COARSE_FENCES, DECLARATION, Declaration, DeclaredTensor, DeclaredValue, INVOCATION_MODEL, split_tensor_type,
};
pub use disassembler::{disassemble, disassemble_function};
pub use instruction::{
    AnyRegister, BlockOffset, Body, Cases, FunctionOrdinal, Instruction, Instructions, RefRegister, Register,
    RegisterList, RemapList, SegmentSizes, TypeId,
};
pub use module::{
    DebugDatabase, Dependency, Export, FunctionView, Import, Module, Requirements, TypeDef, TypeKind, VerifiedModule,
};
