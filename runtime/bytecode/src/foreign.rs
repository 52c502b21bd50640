//! Files that are given where a module is wanted, by their first bytes.

/// The start of a file, what it is, and what would help.
const KNOWN: &[(&[u8], &str)] = &[
    (b"\x7fELF", "an ELF file, machine code"),
    (b"MZ", "a Windows program or library"),
    (b"\xcf\xfa\xed\xfe", "a Mach-O file, machine code"),
    (b"\0asm", "a WebAssembly module"),
    (b"\x03\x02\x23\x07", "SPIR-V, code for a GPU"),
    (b"BC\xc0\xde", "LLVM bitcode"),
    (b"!<arch>\n", "an archive of object files"),
    (b"ML\xefR", MLIR_BYTECODE),
    (b"\x93NUMPY", "a NumPy array, which --input=@FILE passes"),
    (b"GGUF", "an archive of parameters (GGUF), which --parameters= passes"),
    (b"IRPA", "an archive of parameters (IRPA), which --parameters= passes"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file, such as Keras writes: export the model to ONNX"),
    (b"\x80\x02", PICKLE),
    (b"\x80\x03", PICKLE),
    (b"\x80\x04", PICKLE),
    (b"\x80\x05", PICKLE),
    (b"PK\x03\x04", "a ZIP archive, such as PyTorch (.pt) and NumPy (.npz) write: export a model to ONNX"),
    (b"version https://git-lfs", "a pointer of Git LFS: `git lfs pull` gets the file"),
    (b"#!", "a script"),
    (b"<", "HTML or XML: was a download answered by an error page?"),
    (b"{", "JSON"),
    (b"\x1f\x8b", "a file compressed by gzip"),
    (b"\x28\xb5\x2f\xfd", "a file compressed by Zstandard"),
    (b"BZh", "a file compressed by bzip2"),
    (b"\xfd7zXZ\0", "a file compressed by xz"),
    (b"\x89PNG", "a picture (PNG)"),
    (b"\xff\xd8\xff", "a picture (JPEG)"),
];

const MLIR_BYTECODE: &str = "MLIR bytecode, which `incarnate compile` makes a module of";
const MLIR_TEXT: &str = "MLIR text, which `incarnate compile` makes a module of";
const PICKLE: &str = "a Python pickle, such as PyTorch writes: export the model to ONNX";

/// What the first word of a text says, behind comments.
const WORDS: &[(&str, &str)] = &[
    ("vm.module", "the text of a module, which `incarnate assemble` makes a module of"),
    ("module", MLIR_TEXT),
    ("builtin.module", MLIR_TEXT),
    ("func.func", MLIR_TEXT),
    ("util.func", MLIR_TEXT),
    ("#map", MLIR_TEXT),
    ("#loc", MLIR_TEXT),
];

/// The upper half of the length at the start of a safetensors file, and the header behind it, a JSON object. A text has no zeros there.
const SAFETENSORS: (usize, &[u8]) = (4, b"\0\0\0\0{");
/// The position and the text of TensorFlow Lite's identifier.
const TENSORFLOW_LITE: (usize, &[u8]) = (4, b"TFL3");
/// The position and the text of the identifier of IREE's first format.
const BMOD: (usize, &[u8]) = (4, b"BMOD");
/// The position and the text of the identifier of archives of tar.
const TAR: (usize, &[u8]) = (257, b"ustar");

/// The position of the name of the first entry of a ZIP archive, and the name that the compiler gives a module.
const ZIP_NAME: usize = 30;
const MODULE_NAME: &[u8] = b"module.fb";

/// The bytes at the start of a file that [`kind_of`] looks at.
pub const START: usize = 4096;

/// Names a file that is not a module; `None` for unknown ones. It is asked about files that were refused: a module can begin with
/// any of these bytes.
#[must_use]
pub fn kind_of(start: &[u8]) -> Option<&'static str> {
    let has = |(at, text): (usize, &[u8])| start.get(at..).is_some_and(|rest| rest.starts_with(text));
    if start.is_empty() {
        return Some("an empty file");
    }
    if start.iter().all(|byte| *byte == 0) {
        return Some("a file of zeros: was a download cut off?");
    }
    if has(SAFETENSORS) {
        return Some("an archive of parameters (safetensors), which --parameters= passes");
    }
    if has(TENSORFLOW_LITE) {
        return Some("a TensorFlow Lite model: `iree-import-tflite` makes MLIR of it, which `incarnate compile` takes");
    }
    if has(BMOD) {
        return Some("a module of early 2020 (BMOD): `incarnate convert FILE -o OUT` converts it");
    }
    if has(TAR) {
        return Some("an archive of tar");
    }
    if start.get(ZIP_NAME..).is_some_and(|name| name.starts_with(MODULE_NAME)) {
        return None;
    }
    let known = KNOWN.iter().find(|(bytes, _)| start.starts_with(bytes)).map(|(_, kind)| *kind);
    known.or_else(|| model_kind(start)).or_else(|| text_kind(start))
}

/// Names a protocol buffer whose first field is number 1, a small integer, and whose second one is another field of ONNX's
/// `ModelProto`: `ir_version` is 3 or more. In a SavedModel, it is the version of the schema, 1.
fn model_kind(start: &[u8]) -> Option<&'static str> {
    const MODEL_FIELDS: [u8; 7] = [0x12, 0x1a, 0x22, 0x28, 0x32, 0x3a, 0x42];
    match start {
        [0x08, 1, 0x12, ..] => Some("a TensorFlow SavedModel: export it to ONNX or StableHLO"),
        [0x08, 2..=31, tag, ..] if MODEL_FIELDS.contains(tag) => {
            Some("an ONNX model, which `incarnate compile` makes a module of")
        }
        _ => None,
    }
}

/// Names a text by its first word behind comments.
fn text_kind(start: &[u8]) -> Option<&'static str> {
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
    Some(row.map_or("a text file", |row| row.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_by_their_start() {
        let named = |start: &[u8], name: &str| kind_of(start).is_some_and(|kind| kind.contains(name));
        assert!(named(b"", "empty") && named(b"\x7fELF\x02\x01", "ELF") && named(b"<!DOCTYPE html>", "download"));
        assert!(named(b"\x58\0\0\0\0\0\0\0{\"a\":", "safetensors") && named(&[8, 9, 0x12, 7, b'p'], "ONNX"));
        assert!(named(b"// A model.\n\n  func.func @f()", "MLIR text") && named(b"module @m {", "MLIR text"));
        assert!(named(b"\nmodule {\n}", "MLIR text") && named(b"#attr = {", "a text file"));
        assert!(named(b"// x\nvm.module @m {", "assemble") && named(b"Hello \xc3", "a text file"));
        assert!(named(&[0; 30], "zeros") && named(b"\x1c\0\0\0TFL3", "TensorFlow Lite"));
        assert!(named(b"\x18\0\0\0BMOD", "incarnate convert"));
        assert!(named(&[8, 1, 0x12, 7], "SavedModel") && named(b"PK\x03\x04\x14\0", "ZIP"));
        assert_eq!(kind_of(b"\x10\0\0\0IREE\0"), None);
    }
}
