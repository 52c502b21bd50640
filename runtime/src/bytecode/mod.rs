//! Module files: archive framing, the instruction table, decoder, verifier, and the text form. Data in, data out.
#![forbid(unsafe_code)]

pub mod isa;
