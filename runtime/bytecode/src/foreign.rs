//! Files that are given where a module or a model is wanted, by their first bytes.

use core::fmt;

use crate::archive::{FILE_IDENTIFIER, IDENTIFIER_OFFSET, SIZE_PREFIX_LENGTH};
use crate::{Contents, Result};

/// What a file is, by its first bytes. Its text says so, and what helps where a module or a model is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileKind(&'static str);

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl FileKind {
    /// A module.
    pub const MODULE: FileKind = FileKind("a module, which is compiled already");
    /// A model of ONNX.
    pub const ONNX: FileKind = FileKind("an ONNX model, which `incarnate compile` makes a module of");
    /// A file of GGUF, with or without a language model.
    pub const GGUF: FileKind = FileKind("an archive of parameters (GGUF), which --parameters= passes");
    /// Weights as safetensors.
    pub const SAFETENSORS: FileKind = FileKind(
        "an archive of parameters (safetensors), which --parameters= passes; a language model is the folder with config.json",
    );
    /// A model in MLIR, as text.
    pub const MLIR: FileKind = FileKind("MLIR text, which `incarnate compile` makes a module of");
    /// A model in MLIR, as bytecode.
    pub const MLIR_BYTECODE: FileKind = FileKind("MLIR bytecode, which `incarnate compile` makes a module of");
    /// The text of a module.
    const ASSEMBLY: FileKind = FileKind("the text of a module, which `incarnate assemble` makes a module of");
    /// Any other text.
    const TEXT: FileKind = FileKind("a text file");
    const PICKLE: FileKind = FileKind(
        "a Python pickle, such as PyTorch writes: export the model to ONNX, or save a language model as safetensors",
    );
    const ZIP: FileKind = FileKind(
        "a ZIP archive, such as PyTorch (.pt) and NumPy (.npz) write: export a model to ONNX, or save a language model as \
         safetensors",
    );
    const OLD_GGML: FileKind =
        FileKind("a model of ggml from before GGUF: download the model as GGUF, or convert the original again");
    const TENSORFLOW_LITE: FileKind =
        FileKind("a TensorFlow Lite model: `iree-import-tflite` makes MLIR of it, which `incarnate compile` takes");

    /// Names a file; `None` for unknown ones.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED without memory; errors of reading.
    pub fn of(contents: &Contents) -> Result<Option<FileKind>> {
        Ok(FileKind::of_start(&contents.bytes(0..contents.length().min(FileKind::START))?))
    }

    /// Returns whether a file is a text of which no more is known than that MLIR or a module may be in it.
    #[must_use]
    pub fn is_plain_text(self) -> bool {
        [FileKind::MLIR, FileKind::ASSEMBLY, FileKind::TEXT].contains(&self)
    }
}

/// The start of a file, and what it is.
const KNOWN: &[(&[u8], FileKind)] = &[
    (b"\x7fELF", FileKind("an ELF file, machine code")),
    (b"MZ", FileKind("a Windows program or library")),
    (b"\xcf\xfa\xed\xfe", FileKind("a Mach-O file, machine code")),
    (b"\0asm", FileKind("a WebAssembly module")),
    (b"\x03\x02\x23\x07", FileKind("SPIR-V, code for a GPU")),
    (b"BC\xc0\xde", FileKind("LLVM bitcode")),
    (b"!<arch>\n", FileKind("an archive of object files")),
    (b"ML\xefR", FileKind::MLIR_BYTECODE),
    (b"\x93NUMPY", FileKind("a NumPy array, which --input=@FILE passes")),
    (b"GGUF", FileKind::GGUF),
    // `ggml`, `ggmf`, `ggjt` and `ggla` as little-endian numbers. Source: llama.cpp's `llama.h` of early 2023.
    (b"lmgg", FileKind::OLD_GGML),
    (b"fmgg", FileKind::OLD_GGML),
    (b"tjgg", FileKind::OLD_GGML),
    (b"algg", FileKind::OLD_GGML),
    (b"IRPA", FileKind("an archive of parameters (IRPA), which --parameters= passes")),
    (b"\x89HDF\r\n\x1a\n", FileKind("an HDF5 file, such as Keras writes: export the model to ONNX")),
    (b"\x80\x02", FileKind::PICKLE),
    (b"\x80\x03", FileKind::PICKLE),
    (b"\x80\x04", FileKind::PICKLE),
    (b"\x80\x05", FileKind::PICKLE),
    (b"PK\x03\x04", FileKind::ZIP),
    (b"version https://git-lfs", FileKind("a pointer of Git LFS: `git lfs pull` gets the file")),
    (b"#!", FileKind("a script")),
    (b"<", FileKind("HTML or XML: was a download answered by an error page?")),
    (b"{", FileKind("JSON: a language model is the folder with config.json")),
    (b"\x1f\x8b", FileKind("a file compressed by gzip")),
    (b"\x28\xb5\x2f\xfd", FileKind("a file compressed by Zstandard")),
    (b"BZh", FileKind("a file compressed by bzip2")),
    (b"\xfd7zXZ\0", FileKind("a file compressed by xz")),
    (b"\x89PNG", FileKind("a picture (PNG)")),
    (b"\xff\xd8\xff", FileKind("a picture (JPEG)")),
];

/// What the first word of a text says, behind comments.
const WORDS: &[(&str, FileKind)] = &[
    ("vm.module", FileKind::ASSEMBLY),
    ("module", FileKind::MLIR),
    ("builtin.module", FileKind::MLIR),
    ("func.func", FileKind::MLIR),
    ("util.func", FileKind::MLIR),
    ("#map", FileKind::MLIR),
    ("#loc", FileKind::MLIR),
];

/// The upper half of the length at the start of a safetensors file, and the header behind it, a JSON object. A text has no zeros there.
const SAFETENSORS: (usize, &[u8]) = (4, b"\0\0\0\0{");
/// The position and the text of TensorFlow Lite's identifier.
const TENSORFLOW_LITE: (usize, &[u8]) = (4, b"TFL3");
/// The position and the text of the identifier of IREE's first format.
const BMOD: (usize, &[u8]) = (4, b"BMOD");
/// The position and the text of the identifier of archives of tar.
const TAR: (usize, &[u8]) = (257, b"ustar");

/// The position and the text of the identifier of modules.
const MODULE: (usize, &[u8]) = (SIZE_PREFIX_LENGTH + IDENTIFIER_OFFSET, FILE_IDENTIFIER);
/// The position of the name of the first entry of a ZIP archive, and the name that the compiler gives a module.
const MODULE_IN_ZIP: (usize, &[u8]) = (30, b"module.fb");

impl FileKind {
    /// The bytes at the start of a file that [`FileKind::of_start`] looks at.
    pub const START: usize = 4096;

    /// As [`FileKind::of`], by the first bytes of a file.
    #[must_use]
    pub fn of_start(start: &[u8]) -> Option<FileKind> {
        let has = |(at, text): (usize, &[u8])| start.get(at..).is_some_and(|rest| rest.starts_with(text));
        if start.is_empty() {
            return Some(FileKind("an empty file"));
        }
        if start.iter().all(|byte| *byte == 0) {
            return Some(FileKind("a file of zeros: was a download cut off?"));
        }
        if has(SAFETENSORS) {
            return Some(FileKind::SAFETENSORS);
        }
        if has(TENSORFLOW_LITE) {
            return Some(FileKind::TENSORFLOW_LITE);
        }
        if has(BMOD) {
            return Some(FileKind("a module of early 2020 (BMOD): `incarnate convert FILE -o OUT` converts it"));
        }
        if has(MODULE) || has(MODULE_IN_ZIP) {
            return Some(FileKind::MODULE);
        }
        let known = KNOWN.iter().find(|(bytes, _)| start.starts_with(bytes)).map(|(_, kind)| *kind);
        let tar = || has(TAR).then_some(FileKind("an archive of tar"));
        known.or_else(tar).or_else(|| model_kind(start)).or_else(|| text_kind(start))
    }
}

/// Names a protocol buffer whose first field is number 1, a small integer, and whose second one is another field of ONNX's
/// `ModelProto`: `ir_version` is 3 or more. In a SavedModel, it is the version of the schema, 1.
fn model_kind(start: &[u8]) -> Option<FileKind> {
    const MODEL_FIELDS: [u8; 7] = [0x12, 0x1a, 0x22, 0x28, 0x32, 0x3a, 0x42];
    match start {
        [0x08, 1, 0x12, ..] => Some(FileKind("a TensorFlow SavedModel: export it to ONNX or StableHLO")),
        [0x08, 2..=31, tag, ..] if MODEL_FIELDS.contains(tag) => Some(FileKind::ONNX),
        _ => None,
    }
}

/// Names a text by its first word behind comments.
fn text_kind(start: &[u8]) -> Option<FileKind> {
    let text = match core::str::from_utf8(start) {
        Ok(text) => text,
        // The last character may be cut off.
        Err(error) if error.error_len().is_none() => core::str::from_utf8(start.get(..error.valid_up_to())?).ok()?,
        Err(_) => return None,
    };
    if text.contains('\0') {
        return None;
    }
    let code = text.lines().map(str::trim_start).find(|line| !line.is_empty() && !line.starts_with("//"));
    let code = code.unwrap_or_default();
    let row = WORDS.iter().find(|row| code.starts_with(row.0));
    Some(row.map_or(FileKind::TEXT, |row| row.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_by_their_start() {
        let named = |start: &[u8], name: &str| FileKind::of_start(start).is_some_and(|kind| kind.0.contains(name));
        assert!(named(b"", "empty") && named(b"\x7fELF\x02\x01", "ELF") && named(b"<!DOCTYPE html>", "download"));
        assert!(named(b"\x58\0\0\0\0\0\0\0{\"a\":", "safetensors") && named(&[8, 9, 0x12, 7, b'p'], "ONNX"));
        assert!(named(b"// A model.\n\n  func.func @f()", "MLIR text") && named(b"module @m {", "MLIR text"));
        assert!(named(b"\nmodule {\n}", "MLIR text") && named(b"#attr = {", "a text file"));
        assert!(named(b"// x\nvm.module @m {", "assemble") && named(b"Hello \xc3", "a text file"));
        assert!(named(&[0; 30], "zeros") && named(b"\x1c\0\0\0TFL3", "TensorFlow Lite"));
        assert!(named(b"\x18\0\0\0BMOD", "incarnate convert"));
        assert!(named(&[8, 1, 0x12, 7], "SavedModel") && named(b"PK\x03\x04\x14\0", "ZIP"));
        assert!(named(b"tjgg\x03\0\0\0", "before GGUF") && named(b"GGUF\x03", "GGUF"));
        assert!(named(b"\x10\0\0\0\x08\0\0\0IREE", "a module"));
        assert_eq!(FileKind::of_start(b"\x10\0\0\0IREE\0"), None);
    }
}
