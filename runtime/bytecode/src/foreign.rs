//! Files that are given where a module is wanted, by their first bytes.

/// The start of a file, what it is, and what would help.
const KNOWN: &[(&[u8], &str)] = &[
    (b"\x7fELF", "an ELF file, machine code"),
    (b"MZ", "a Windows program or library"),
    (b"\xcf\xfa\xed\xfe", "a Mach-O file, machine code"),
    (b"ML\xefR", "MLIR bytecode, which `incarnate compile` makes a module of"),
    (b"module", "MLIR text, which `incarnate compile` makes a module of"),
    (b"func.func", "MLIR text, which `incarnate compile` makes a module of"),
    (b"#map", "MLIR text, which `incarnate compile` makes a module of"),
    (b"vm.module", "the text of a module, which `incarnate assemble` makes a module of"),
    (b"\x93NUMPY", "a NumPy array, which --input=@FILE passes"),
    (b"GGUF", "an archive of parameters (GGUF), which --parameters= passes"),
    (b"IRPA", "an archive of parameters (IRPA), which --parameters= passes"),
    (b"version https://git-lfs", "a pointer of Git LFS: `git lfs pull` gets the file"),
    (b"<", "HTML or XML: was a download answered by an error page?"),
    (b"{", "JSON"),
    (b"\x1f\x8b", "a file compressed by gzip"),
    (b"\x89PNG", "a picture (PNG)"),
    (b"\xff\xd8\xff", "a picture (JPEG)"),
];

/// Bytes of a safetensors file before its header, a JSON object: the header's length.
const SAFETENSORS_LENGTH: usize = 8;

/// Names a file that is not a module; `None` for unknown ones. It is asked about files that were refused: a module can begin with
/// any of these bytes.
pub(crate) fn kind_of(start: &[u8]) -> Option<&'static str> {
    if start.is_empty() {
        return Some("an empty file");
    }
    if start.get(SAFETENSORS_LENGTH..).is_some_and(|header| header.starts_with(b"{\"")) {
        return Some("an archive of parameters (safetensors), which --parameters= passes");
    }
    if is_onnx(start) {
        return Some("an ONNX model, which `incarnate compile` makes a module of");
    }
    KNOWN.iter().find(|(bytes, _)| start.starts_with(bytes)).map(|(_, kind)| *kind)
}

/// A protocol buffer whose first field is number 1, a small integer (`ir_version`), and whose second one is another field of
/// ONNX's `ModelProto`.
fn is_onnx(start: &[u8]) -> bool {
    const MODEL_FIELDS: [u8; 7] = [0x12, 0x1a, 0x22, 0x28, 0x32, 0x3a, 0x42];
    matches!(start, [0x08, 1..=31, tag, ..] if MODEL_FIELDS.contains(tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_by_their_start() {
        let named = |start: &[u8], name: &str| kind_of(start).is_some_and(|kind| kind.contains(name));
        assert!(named(b"", "empty") && named(b"\x7fELF\x02\x01", "ELF") && named(b"<!DOCTYPE html>", "download"));
        assert!(named(b"\x58\0\0\0\0\0\0\0{\"a\":", "safetensors") && named(&[8, 9, 0x12, 7, b'p'], "ONNX"));
        assert_eq!(kind_of(b"\x10\0\0\0IREE"), None);
    }
}
