//! Tests of valid and invalid archives of all formats, and of providers.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod joined;
mod partial;

use std::path::PathBuf;
use std::sync::Arc;

use super::*;
use crate::bytecode::Contents;
use crate::hal::{BufferParameters, BufferUsage, Device, Fence, Fences, SignalFence};
use crate::{Error, Result, StatusCode};

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/models/parameters").join(name)
}

fn bytes_of(name: &str) -> Vec<u8> {
    std::fs::read(fixture(name)).unwrap()
}

fn index_of(bytes: &[u8], format: ArchiveFormat) -> Result<ParameterIndex> {
    let file = ParameterFile::from_contents("weights.npy", Arc::new(Contents::copy_from(bytes)));
    let mut index = ParameterIndex::new();
    index.add_archive(&file, format)?;
    Ok(index)
}

fn open(name: &str) -> ParameterIndex {
    let mut index = ParameterIndex::new();
    index.add_file(&fixture(name), FileAccess::Map).unwrap();
    index
}

fn span(key: &str, parameter_offset: u64, buffer_offset: u64, length: u64) -> ParameterSpan {
    ParameterSpan { key: key.into(), parameter_offset, buffer_offset, length }
}

/// Archives inside files: name, format, and the bytes that describe the contents.
const ARCHIVES: [(&str, ArchiveFormat, usize); 5] = [
    ("model.irpa", ArchiveFormat::Irpa, 480),
    ("splat.irpa", ArchiveFormat::Irpa, 380),
    ("model.safetensors", ArchiveFormat::Safetensors, 360),
    ("model.gguf", ArchiveFormat::Gguf, 384),
    ("gather.out0.npy", ArchiveFormat::Npy, 128),
];

#[test]
fn all_formats_have_the_same_contents() {
    let irpa = open("model.irpa");
    let keys: Vec<&str> = irpa.entries().iter().map(ParameterEntry::key).collect();
    assert_eq!(keys, ["layer0.weight", "layer0.bias", "layer1.weight", "layer1.bias"]);
    for other in [open("model.safetensors"), open("model.gguf")] {
        assert_eq!(other.entries().len(), keys.len());
        for key in &keys {
            let (entry, expected) = (other.get(key).unwrap(), irpa.get(key).unwrap());
            assert_eq!(entry.read().unwrap(), expected.read().unwrap(), "{key}");
        }
        let facts = TensorFacts { element_type: "F32".into(), shape: vec![8, 16] };
        assert_eq!(other.get("layer0.weight").unwrap().tensor(), Some(&facts));
    }
    let array = index_of(&bytes_of("gather.out0.npy"), ArchiveFormat::Npy).unwrap();
    let floats = [0f32, 1.0, 2.0, 3.0, 12.0, 13.0, 14.0, 15.0].map(f32::to_le_bytes).concat();
    assert_eq!(array.get("weights").unwrap().read().unwrap(), floats);
    let raw = index_of(b"bytes", ArchiveFormat::Raw).unwrap();
    assert_eq!(raw.get("weights").unwrap().read().unwrap(), b"bytes");
}

#[test]
fn formats_are_detected_by_extension_and_by_content() {
    let of = |path: &str, bytes: &[u8]| ArchiveFormat::of(path.as_ref(), bytes);
    assert_eq!(of("a.IRPA", b"").unwrap(), ArchiveFormat::Irpa);
    assert_eq!(of("a.raw", b"GGUF").unwrap(), ArchiveFormat::Raw);
    assert_eq!(of("download", b"GGUF\x03").unwrap(), ArchiveFormat::Gguf);
    assert_eq!(of("a.npz", b"").unwrap(), ArchiveFormat::Npz);
    let error = of("a.pt", b"PK").unwrap_err();
    assert_eq!(error.code(), StatusCode::Unimplemented);
    assert!(error.to_string().contains(".safetensors"), "{error}");
}

#[test]
fn written_archives_are_read_unchanged() {
    // The fixtures have the layout of IREE's tools.
    for name in ["model.irpa", "state.irpa", "splat.irpa"] {
        let mut written = Vec::new();
        ArchiveWriter::new(&open(name)).write(&mut written).unwrap();
        assert!(written == bytes_of(name), "{name}");
    }
    let file = ParameterFile::from_contents("file", Arc::new(Contents::copy_from(&[7; 100])));
    let mut index = ParameterIndex::new();
    index.add(ParameterEntry::in_file("a", &file, 3, 5).unwrap().with_metadata(b"about a".to_vec())).unwrap();
    index.add(ParameterEntry::in_file("", &file, 100, 0).unwrap()).unwrap();
    index.add(ParameterEntry::splat("../../s\u{1b}", Splat::new(&[1; 16], 48).unwrap())).unwrap();
    index.add(ParameterEntry::in_file("b", &file, 0, 100).unwrap()).unwrap();
    let mut written = Vec::new();
    ArchiveWriter::new(&index).with_alignment(256).unwrap().write(&mut written).unwrap();
    let read = index_of(&written, ArchiveFormat::Irpa).unwrap();
    for (entry, expected) in read.entries().iter().zip(index.entries()) {
        assert_eq!((entry.key(), entry.metadata()), (expected.key(), expected.metadata()));
        assert_eq!(entry.read().unwrap(), expected.read().unwrap(), "{}", entry.key());
        if let ParameterStorage::File { offset, .. } = entry.storage() {
            assert!(entry.length() == 0 || offset % 256 == 0, "{offset}");
        }
    }
    assert_eq!(written.len() % 4096, 0);
    assert!(ArchiveWriter::new(&index).with_alignment(3).is_err());
    let duplicate = ParameterEntry::in_file("a", &file, 0, 1).unwrap();
    assert_eq!(index.add(duplicate).unwrap_err().code(), StatusCode::AlreadyExists);
    assert!(ParameterEntry::in_file("c", &file, u64::MAX, 2).is_err());
}

#[test]
fn linked_headers_are_followed() {
    let (first, second) = (bytes_of("state.irpa"), bytes_of("model.irpa"));
    let mut both = first.clone();
    both[16..24].copy_from_slice(&(first.len() as u64).to_le_bytes());
    both.extend(&second);
    let index = index_of(&both, ArchiveFormat::Irpa).unwrap();
    assert_eq!(index.entries().len(), 7);
    assert_eq!(
        index.get("layer1.bias").unwrap().read().unwrap(),
        open("model.irpa").get("layer1.bias").unwrap().read().unwrap()
    );
    // The same table again: the same keys.
    let mut twice = first.clone();
    twice[16..24].copy_from_slice(&(first.len() as u64).to_le_bytes());
    twice.extend(&first);
    assert_eq!(index_of(&twice, ArchiveFormat::Irpa).unwrap_err().code(), StatusCode::AlreadyExists);
}

#[test]
fn truncated_files_are_errors() {
    for (name, format, head) in ARCHIVES {
        let bytes = bytes_of(name);
        for length in 0..head {
            let error = index_of(&bytes[..length], format).map(|_| ()).unwrap_err();
            assert!(!error.message().is_empty(), "{name} {length}");
        }
    }
}

#[test]
fn no_bytes_panic() {
    for (name, format, head) in ARCHIVES {
        let bytes = bytes_of(name);
        for position in 0..head {
            for value in [0, 1, 2, 8, 9, 0x22, 0x2C, 0x5C, 0x7B, 0x7F, 0x80, 0xFF] {
                let mut bad = bytes.clone();
                bad[position] = value;
                let Ok(index) = index_of(&bad, format) else { continue };
                for entry in index.entries() {
                    // Every accepted range lies in the file.
                    if matches!(entry.storage(), ParameterStorage::File { .. }) {
                        assert_eq!(entry.read().unwrap().len() as u64, entry.length());
                    }
                }
            }
        }
    }
}

/// Replacement bytes and their offsets.
type Patches<'a> = &'a [(usize, &'a [u8])];

fn patched(name: &str, patches: Patches<'_>) -> Vec<u8> {
    let mut bytes = bytes_of(name);
    for (position, patch) in patches {
        bytes[*position..position + patch.len()].copy_from_slice(patch);
    }
    bytes
}

fn fails(bytes: &[u8], format: ArchiveFormat, code: StatusCode, words: &str) {
    let error = index_of(bytes, format).map(|_| ()).unwrap_err();
    assert_eq!(error.code(), code, "{error}");
    assert!(error.to_string().contains(words), "'{words}' is not in: {error}");
}

#[test]
fn malformed_irpa_archives_are_rejected() {
    use StatusCode::{InvalidArgument, OutOfRange, Unimplemented};
    const HUGE: [u8; 8] = [0xFF; 8];
    let cases: [(Patches<'_>, StatusCode, &str); 15] = [
        (&[(0, b"IRPB")], InvalidArgument, "header at byte 0: INVALID_ARGUMENT; header begins with"),
        (&[(4, &[1])], Unimplemented, "version 1.0"),
        (&[(8, &[89])], InvalidArgument, "89 bytes"),
        (&[(16, &[1])], InvalidArgument, "lies within this one"),
        (&[(16, &HUGE)], OutOfRange, "the next header at offset"),
        (&[(32, &[5])], OutOfRange, "entry 4 at byte"),
        (&[(32, &HUGE)], OutOfRange, "entry 4 at byte"),
        (&[(48, &HUGE)], OutOfRange, "the table of entries of 18446744073709551615 bytes"),
        (&[(56, &HUGE)], OutOfRange, "the metadata of"),
        (
            &[(80, &[0, 1, 0, 0, 0, 0, 0, 0])],
            OutOfRange,
            "the data of 512 bytes at offset 0 exceeds its segment of 256 bytes",
        ),
        (&[(96, &[10])], OutOfRange, "shorter than the 76 of its kind"),
        (&[(104, &[3])], Unimplemented, "parameter 'layer0.weight' is in another file"),
        (&[(104, &[9])], Unimplemented, "unknown kind 9"),
        (&[(116, &HUGE)], OutOfRange, "the key of 13 bytes at offset"),
        (&[(156, &HUGE)], OutOfRange, "parameter 'layer0.weight': OUT_OF_RANGE; the data of 512 bytes at offset"),
    ];
    for (patches, code, words) in cases {
        fails(&patched("model.irpa", patches), ArchiveFormat::Irpa, code, words);
    }
    let key = bytes_of("model.irpa").windows(6).position(|bytes| bytes == b"layer0").unwrap();
    fails(&patched("model.irpa", &[(key, &[0xFF])]), ArchiveFormat::Irpa, InvalidArgument, "is not UTF-8: '\\xffayer0");
    for (position, patch) in [(180, 3u8), (180, 17), (180, 0), (156, 6)] {
        let bytes = patched("splat.irpa", &[(position, &[patch])]);
        fails(&bytes, ArchiveFormat::Irpa, InvalidArgument, "parameter 'calls'");
    }
    // An erased entry is skipped.
    let erased = index_of(&patched("model.irpa", &[(104, &[0])]), ArchiveFormat::Irpa).unwrap();
    assert_eq!((erased.entries().len(), erased.get("layer0.weight").is_none()), (3, true));
}

fn safetensors(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

#[test]
fn malformed_safetensors_files_are_rejected() {
    use StatusCode::{AlreadyExists, InvalidArgument, OutOfRange, ResourceExhausted};
    let tensor = |shape: &str, begin: u64, end: u64| {
        format!(r#"{{"dtype":"F32","shape":{shape},"data_offsets":[{begin},{end}]}}"#)
    };
    let (a, b) = (tensor("[2]", 0, 8), tensor("[2]", 4, 12));
    let huge = format!("{}", (1u64 << 61) - 1);
    for (header, code, words) in [
        (format!(r#"{{"a":{a},"b":{b}}}"#), InvalidArgument, "tensor 'b' has the bytes from 4 to 12"),
        (format!(r#"{{"a":{a}}}"#), OutOfRange, "the tensors have 8 bytes, and 16 follow the header"),
        (format!(r#"{{"a":{}}}"#, tensor("[5]", 0, 20)), OutOfRange, "the tensors have 20 bytes"),
        (format!(r#"{{"a":{}}}"#, tensor("[3]", 0, 8)), InvalidArgument, "not the length of its shape in F32"),
        (format!(r#"{{"a":{}}}"#, tensor("[2]", 8, 0)), InvalidArgument, "tensor 'a' has the bytes from 8 to 0"),
        (
            format!(r#"{{"a":{}}}"#, tensor("[4611686018427387905]", 0, 4)),
            InvalidArgument,
            "not the length of its shape",
        ),
        (
            format!(r#"{{"a":{a},"b":{},"b":{}}}"#, tensor("[0]", 8, 8), tensor("[2]", 8, 16)),
            AlreadyExists,
            "parameter 'b'",
        ),
        (r#"{"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}}"#.to_owned(), InvalidArgument, "in F4"),
        (format!(r#"{{"a":{}}}"#, tensor("[-1]", 0, 4)), InvalidArgument, "integer `-1`"),
        (r#"{"a":{"dtype":"F32","shape":[1]}}"#.to_owned(), InvalidArgument, "missing field `data_offsets`"),
        (
            r#"{"a":{"dtype":"F3","shape":[4],"data_offsets":[0,15]}}"#.to_owned(),
            OutOfRange,
            "the tensors have 15 bytes",
        ),
        (r#"{"a":{"dtype":"F3","shape":[4],"data_offsets":[16,0]}}"#.to_owned(), InvalidArgument, "tensor 'a'"),
        (r#"{"a":{"dtype":"F3","shape":[4]}}"#.to_owned(), InvalidArgument, "missing field `data_offsets`"),
        (r#"{"a\u001b":1}"#.to_owned(), InvalidArgument, "the header: "),
        ("{}{}".to_owned(), InvalidArgument, "trailing characters"),
        ("[".repeat(50), InvalidArgument, "the header: "),
        (format!(r#"{{"a":{}1{}}}"#, "[".repeat(100_000), "]".repeat(100_000)), InvalidArgument, "invalid type"),
        // Values of another form are refused where they begin: they take no memory.
        (format!(r#"{{"a":[{}]}}"#, vec![r#"{"":0}"#; 1000].join(",")), InvalidArgument, "at line 1 column 6"),
        (
            format!(r#"{{"a":{{"dtype":"{}","shape":0}}}}"#, "x".repeat(100_000)),
            InvalidArgument,
            "invalid type: integer",
        ),
    ] {
        fails(&safetensors(&header, 16), ArchiveFormat::Safetensors, code, words);
    }
    fails(&u64::MAX.to_le_bytes(), ArchiveFormat::Safetensors, ResourceExhausted, "above");
    // Eight tensors that end at the last multiple of eight: the sum of their end and the header's length exceeds 64
    // bits.
    let tensors: Vec<String> = (0..8u64)
        .map(|number| (number, number * ((1 << 61) - 1)))
        .map(|(number, at)| {
            format!(r#""{number}":{{"dtype":"U8","shape":[{huge}],"data_offsets":[{at},{}]}}"#, at + ((1 << 61) - 1))
        })
        .collect();
    let header = format!("{{{}}}", tensors.join(","));
    fails(&safetensors(&header, 16), ArchiveFormat::Safetensors, OutOfRange, "18446744073709551608 bytes");
    // Escapes are part of the key.
    let escaped = r#"{ "a\u002f\"b" : {"dtype":"U8","shape":[3],"data_offsets":[0,3]}, "__metadata__":{"a":"b"}}"#;
    let index = index_of(&safetensors(escaped, 3), ArchiveFormat::Safetensors).unwrap();
    assert_eq!(index.get("a/\"b").unwrap().length(), 3);
}

fn gguf(version: u32, tensors: &[(&str, &[u64], u32, u64)], facts: &[u8], fact_count: u64, data: usize) -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    let mut bytes = b"GGUF".to_vec();
    bytes.extend(version.to_le_bytes());
    bytes.extend((tensors.len() as u64).to_le_bytes());
    bytes.extend(fact_count.to_le_bytes());
    bytes.extend(facts);
    for (key, shape, kind, offset) in tensors {
        bytes.extend(text(key));
        bytes.extend((shape.len() as u32).to_le_bytes());
        shape.iter().for_each(|dim| bytes.extend(dim.to_le_bytes()));
        bytes.extend(kind.to_le_bytes());
        bytes.extend(offset.to_le_bytes());
    }
    bytes.resize(bytes.len().next_multiple_of(32) + data, 0);
    bytes
}

#[test]
fn malformed_gguf_files_are_rejected() {
    use StatusCode::{AlreadyExists, InvalidArgument, OutOfRange, Unimplemented};
    let one = |shape: &[u64], kind, offset| gguf(3, &[("t", shape, kind, offset)], &[], 0, 64);
    for (bytes, code, words) in [
        (gguf(1, &[], &[], 0, 0), Unimplemented, "version 1"),
        (gguf(4, &[], &[], 0, 0), Unimplemented, "version 4"),
        (one(&[17], 0, 0), OutOfRange, "parameter 't' of 68 bytes at offset 64"),
        (one(&[4], 0, u64::MAX), OutOfRange, "parameter 't'"),
        (one(&[u64::MAX, 2], 0, 0), OutOfRange, "exceeds 64 bits"),
        (one(&[u64::MAX], 0, 0), OutOfRange, "exceeds 64 bits"),
        (one(&[33], 2, 0), InvalidArgument, "rows of 33 elements are not a multiple of the 32 in a block of Q4_0"),
        (one(&[1; 17], 0, 0), InvalidArgument, "17 dimensions"),
        (gguf(3, &[("t", &[4], 0, 0), ("u", &[4], 0, 8)], &[], 0, 64), InvalidArgument, "'t' and 'u' overlap"),
        (gguf(3, &[("t", &[0], 0, 0), ("t", &[4], 0, 0)], &[], 0, 64), AlreadyExists, "duplicate parameter 't'"),
        (gguf(3, &[], &[1, 0, 0, 0, 0, 0, 0, 0, b'k', 13, 0, 0, 0], 1, 8), InvalidArgument, "metadata 'k'"),
        (gguf(3, &[], &[1, 0, 0, 0, 0, 0, 0, 0, 0xC0, 4, 0, 0, 0], 1, 8), InvalidArgument, "not UTF-8"),
        (gguf(3, &[], &[], u64::MAX, 0), OutOfRange, "the file ends"),
    ] {
        fails(&bytes, ArchiveFormat::Gguf, code, words);
    }
    let nested: Vec<u8> =
        [&[1, 0, 0, 0, 0, 0, 0, 0, b'k', 9, 0, 0, 0][..], &[9, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0].repeat(9)].concat();
    fails(&gguf(3, &[], &nested, 1, 64), ArchiveFormat::Gguf, InvalidArgument, "nested");
    // Blocks of quantised elements have ggml's length, and shapes list the last dimension first.
    let index = index_of(&gguf(2, &[("q", &[64, 2], 8, 0)], &[], 0, 4 * 34), ArchiveFormat::Gguf).unwrap();
    let entry = index.get("q").unwrap();
    assert_eq!((entry.length(), entry.tensor().unwrap().shape.as_slice()), (4 * 34, &[2, 64][..]));
}

fn transfer<'a>(device: &'a Device, spans: &'a [ParameterSpan]) -> Transfer<'a> {
    Transfer { device, fences: Fences::default(), scope: "scope", spans }
}

#[test]
fn mapped_parameters_are_used_in_place_unchanged() {
    let provider = ScopedIndex::new("scope", open("model.irpa"));
    let device = Device::create("local-sync").unwrap();
    let spans = [span("layer0.weight", 0, 0, 512), span("layer1.bias", 0, 0, 16), span("layer0.bias", 4, 0, 8)];
    let immutable =
        BufferParameters { usage: BufferUsage::TRANSFER | BufferUsage::SHARING_IMMUTABLE, ..BufferParameters::DEVICE };
    for parameters in [BufferParameters::DEVICE, immutable] {
        let buffers = provider.load(transfer(&device, &spans), parameters).unwrap();
        for (buffer, span) in buffers.iter().zip(&spans) {
            let whole = provider.index().get(&span.key).unwrap().read().unwrap();
            let start = span.parameter_offset as usize;
            assert_eq!(buffer.to_vec().unwrap(), whole[start..start + span.length as usize]);
        }
        // Only the unaligned parameter was copied.
        assert_eq!(device.allocator().statistics().live, 8);
        buffers[0].fill(0, 512, 0xFF, 1).unwrap();
        let again = provider.load(transfer(&device, &spans[..1]), parameters).unwrap();
        assert_ne!(again[0].to_vec().unwrap(), buffers[0].to_vec().unwrap());
        drop((buffers, again));
    }
}

#[test]
fn transfers_wait_and_signal() {
    let provider = ScopedIndex::new("scope", open("state.irpa"));
    for uri in ["local-sync", "local-task"] {
        let device = Device::create(uri).unwrap();
        let target = device.allocator().allocate(BufferParameters::DEVICE, 32).unwrap();
        target.fill(0, 32, 0, 1).unwrap();
        let (wait, signal) = (Arc::new(Fence::new()), Arc::new(Fence::new()));
        let spans = [span("a", 0, 0, 16), span("b", 8, 16, 16)];
        let fences = Fences { wait: Some(&wait), signal: SignalFence::Given(signal.clone()), ..Fences::default() };
        provider.gather(Transfer { device: &device, fences, scope: "scope", spans: &spans }, &target).unwrap();
        assert_eq!((signal.query().unwrap(), target.to_vec().unwrap()), (false, vec![0; 32]));
        wait.signal().unwrap();
        signal.wait_unless_abandoned().unwrap();
        let floats = [0f32, 1.0, 2.0, 3.0, 12.0, 13.0, 14.0, 15.0].map(f32::to_le_bytes).concat();
        assert_eq!(target.to_vec().unwrap(), floats);
    }
}

#[test]
fn failures_reach_waiters() {
    let provider = ScopedIndex::new("scope", open("state.irpa"));
    let device = Device::create("local-sync").unwrap();
    let target = device.allocator().allocate(BufferParameters::DEVICE, 16).unwrap();
    for (wrong, code, words) in [
        (span("c", 0, 0, 1), StatusCode::NotFound, "gathering parameter 'c' of scope 'scope'"),
        (span("a", 1, 0, 16), StatusCode::OutOfRange, "exceeds parameter 'a', which has 16 bytes in '"),
        (span("a", u64::MAX, 0, 2), StatusCode::OutOfRange, "parameter 'a'"),
        (span("a", 0, 1, 16), StatusCode::OutOfRange, "parameter 'a'"),
        (span("a", 0, u64::MAX, 16), StatusCode::OutOfRange, "parameter 'a'"),
    ] {
        let signal = Arc::new(Fence::new());
        let spans = [span("a", 0, 0, 16), wrong];
        let fences = Fences { wait: None, signal: SignalFence::Given(signal.clone()), ..Fences::default() };
        let error =
            provider.gather(Transfer { device: &device, fences, scope: "scope", spans: &spans }, &target).unwrap_err();
        assert_eq!((error.code(), signal.query().unwrap_err().code()), (code, code), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    let error = provider.load(transfer(&device, &[span("a", 0, 4, 8)]), BufferParameters::DEVICE).unwrap_err();
    assert_eq!(error.code(), StatusCode::InvalidArgument);
    let error = provider.scatter(transfer(&device, &[span("a", 0, 0, 8)]), &target).unwrap_err();
    assert_eq!(error.code(), StatusCode::PermissionDenied);
}

#[test]
fn files_are_written_only_with_write_access() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.irpa");
    std::fs::copy(fixture("state.irpa"), &path).unwrap();
    let mut index = ParameterIndex::new();
    index.add_file(&path, FileAccess::Write).unwrap();
    let provider = ScopedIndex::new("scope", index);
    let device = Device::create("local-sync").unwrap();
    let source = device.allocator().allocate(BufferParameters::DEVICE, 8).unwrap();
    source.write(0, b"12345678").unwrap();
    let before = provider.load(transfer(&device, &[span("a", 0, 0, 16)]), BufferParameters::DEVICE).unwrap();
    let old = before[0].to_vec().unwrap();
    provider.scatter(transfer(&device, &[span("a", 4, 2, 6)]), &source).unwrap();
    // Buffers that were loaded before are separate copies.
    assert_eq!(before[0].to_vec().unwrap(), old);
    let expected = [&old[..4], b"345678", &old[10..]].concat();
    assert_eq!(provider.index().get("a").unwrap().read().unwrap(), expected);
    let mut again = ParameterIndex::new();
    again.add_file(&path, FileAccess::Read).unwrap();
    assert_eq!(again.get("a").unwrap().read().unwrap(), expected);
}

#[test]
fn parameters_in_a_byte_buffer_are_written_in_place() {
    let buffer = crate::vm::Buffer::copy_of(b"0123456789").unwrap();
    let file = ParameterFile::from_vm_buffer("memory", Arc::clone(&buffer)).unwrap();
    let mut index = ParameterIndex::new();
    index.add(ParameterEntry::in_file("a", &file, 2, 6).unwrap()).unwrap();
    let provider = ScopedIndex::new("scope", index);
    let device = Device::create("local-sync").unwrap();
    let source = device.allocator().allocate(BufferParameters::DEVICE, 8).unwrap();
    source.write(0, b"abcdefgh").unwrap();
    provider.scatter(transfer(&device, &[span("a", 1, 4, 3)]), &source).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), b"012efg6789");
    assert_eq!(provider.index().get("a").unwrap().read().unwrap(), b"2efg67");
    assert_eq!(*file.contents().bytes(0..4).unwrap(), *b"012e");
}

#[test]
fn patterns_begin_where_the_parameter_does() {
    let mut index = ParameterIndex::new();
    let pattern: Vec<u8> = (0..16).collect();
    index.add(ParameterEntry::splat("s", Splat::new(&pattern, 1 << 20).unwrap())).unwrap();
    let provider = ScopedIndex::new("scope", index);
    let device = Device::create("local-sync").unwrap();
    let target = device.allocator().allocate(BufferParameters::DEVICE, 200_003).unwrap();
    provider.gather(transfer(&device, &[span("s", 5, 3, 200_000)]), &target).unwrap();
    let bytes = target.to_vec().unwrap();
    assert!(bytes[3..].iter().zip(5u64..).all(|(byte, at)| u64::from(*byte) == at % 16));
    assert_eq!(provider.index().get("s").unwrap().read().unwrap()[..32], [pattern.clone(), pattern].concat());
    assert!(Splat::new(&[0; 3], 3).is_err() && Splat::new(&[], 0).is_err() && Splat::new(&[0; 32], 32).is_err());
}

/// A provider that computes parameters whose key is a number.
#[derive(Debug)]
struct Computed;

impl ParameterProvider for Computed {
    fn provides(&self, scope: &str) -> bool {
        scope.starts_with("computed")
    }

    fn find(&self, _: &str, key: &str) -> Result<ParameterEntry> {
        let value: u8 = key.parse().map_err(|_| Error::not_found("not a number"))?;
        Ok(ParameterEntry::splat(key, Splat::new(&[value], 8)?))
    }
}

#[test]
fn user_defined_providers_need_only_find() {
    let device = Device::create("local-sync").unwrap();
    let buffers = Computed.load(transfer(&device, &[span("7", 0, 0, 8)]), BufferParameters::DEVICE).unwrap();
    assert_eq!(buffers[0].to_vec().unwrap(), [7; 8]);
    assert!(Computed.provides("computed.now") && !Computed.provides("stored"));
}

#[test]
fn files_that_come_first_take_precedence() {
    let mut index = open("splat.irpa");
    index.add_file(&fixture("state.irpa"), FileAccess::Map).unwrap();
    assert_eq!(index.entries().len(), 3);
    assert!(matches!(index.get("a").unwrap().storage(), ParameterStorage::Splat(_)));
    let error = index.add_file(&fixture("missing.irpa"), FileAccess::Map).unwrap_err();
    assert!(error.code() == StatusCode::NotFound && error.to_string().contains("missing.irpa"), "{error}");
    let error = index.add_file(&fixture("model.mlir"), FileAccess::Map).unwrap_err();
    assert!(error.to_string().contains("model.mlir"), "{error}");
}

#[test]
fn npz_archives_of_numpy_are_read() {
    // numpy.savez of two arrays: a ZIP archive whose members are stored, with lengths of 64 bits in the local headers.
    let member = |name: &str, data: &[u8], offset: usize| {
        let local = [
            &b"PK\x03\x04\x2d\0\0\0\0\0\0\0\x21\0"[..],
            &[0; 4],
            &[0xFF; 8],
            &(name.len() as u16).to_le_bytes(),
            &[20, 0],
        ]
        .concat();
        let length = (data.len() as u64).to_le_bytes();
        let local = [&local, name.as_bytes(), &[1, 0, 16, 0], &length, &length, data].concat();
        let short = (data.len() as u32).to_le_bytes();
        let central = [
            &b"PK\x01\x02\x2d\x03\x2d\0\0\0\0\0\0\0\x21\0"[..],
            &[0; 4],
            &short,
            &short,
            &(name.len() as u16).to_le_bytes(),
        ]
        .concat();
        (local, [&central, &[0; 12][..], &(offset as u32).to_le_bytes(), name.as_bytes()].concat())
    };
    let npy = bytes_of("gather.out0.npy");
    let (first, first_entry) = member("a.npy", &npy, 0);
    let (second, second_entry) = member("b.npy", &npy, first.len());
    let directory = first.len() + second.len();
    let entries = [first_entry, second_entry].concat();
    let end = [
        &b"PK\x05\x06\0\0\0\0\x02\0\x02\0"[..],
        &(entries.len() as u32).to_le_bytes(),
        &(directory as u32).to_le_bytes(),
        &[0; 2],
    ]
    .concat();
    let bytes = [first, second, entries, end].concat();
    let index = index_of(&bytes, ArchiveFormat::Npz).unwrap();
    let expected = index_of(&npy, ArchiveFormat::Npy).unwrap().get("weights").unwrap().read().unwrap();
    for key in ["a", "b"] {
        assert_eq!(index.get(key).unwrap().read().unwrap(), expected, "{key}");
    }
    for position in 0..bytes.len() {
        for value in [0, 1, 0x7F, 0xFF] {
            let mut bad = bytes.clone();
            bad[position] = value;
            let _ = index_of(&bad, ArchiveFormat::Npz);
        }
        assert!(index_of(&bytes[..position], ArchiveFormat::Npz).is_err());
    }
    // One member that is compressed by method 8, or whose elements are objects.
    let mut compressed = bytes.clone();
    compressed[directory + 10] = 8;
    let mut objects = bytes.clone();
    let at = objects.windows(5).position(|part| part == b"'<f4'").unwrap();
    objects[at..at + 5].copy_from_slice(b"'|O8'");
    for (bytes, words) in [(compressed, "compressed"), (objects, "O8")] {
        let index = index_of(&bytes, ArchiveFormat::Npz).unwrap();
        assert_eq!(index.get("b").unwrap().read().unwrap(), expected);
        let error = index.get("a").unwrap().read().unwrap_err();
        assert_eq!(error.code(), StatusCode::Unimplemented);
        assert!(error.to_string().contains("parameter 'a'") && error.to_string().contains(words), "{error}");
    }
}

#[test]
fn headers_are_shown_on_one_line() {
    let mut npy = bytes_of("gather.out0.npy");
    let at = npy.windows(7).position(|part| part == b"fortran").unwrap();
    npy[at..at + 3].copy_from_slice(b"\n\x1B\r");
    let error = index_of(&npy, ArchiveFormat::Npy).unwrap_err().to_string();
    assert!(error.contains("in the .npy header {'descr'") && !error.contains(char::is_control), "{error:?}");
}
