//! Files, whole and damaged.

use std::sync::Arc;

use incarnate_bytecode::{Contents, Result};

use crate::{ElementType, GgufFile, SafetensorsFile, Value};

/// A metadata value: key, kind, bytes.
pub(crate) type Row<'a> = (&'a str, u32, Vec<u8>);

pub(crate) fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

/// The header of a file, with tensors: names, shapes with the rows last, numbers of types. All of them begin at the first byte of the data.
pub(crate) fn header(metadata: &[Row<'_>], tensors: &[(String, Vec<u64>, u32)]) -> Vec<u8> {
    let counts = [tensors.len() as u64, metadata.len() as u64].map(u64::to_le_bytes);
    let mut bytes = [&b"GGUF\x03\0\0\0"[..], &counts.concat()].concat();
    for (key, kind, value) in metadata {
        bytes.extend([text(key), kind.to_le_bytes().to_vec(), value.clone()].concat());
    }
    for (name, shape, number) in tensors {
        bytes.extend([text(name), (shape.len() as u32).to_le_bytes().to_vec()].concat());
        shape.iter().rev().for_each(|extent| bytes.extend(extent.to_le_bytes()));
        bytes.extend([&number.to_le_bytes()[..], &0u64.to_le_bytes()].concat());
    }
    bytes
}

/// A file with metadata and one tensor `t` of 64 elements of Q4_1.
fn file(metadata: &[Row<'_>]) -> Vec<u8> {
    let mut bytes = header(metadata, &[("t".to_owned(), vec![2, 32], 3)]);
    bytes.resize(bytes.len().next_multiple_of(32) + 40, 7);
    bytes
}

pub(crate) fn read(bytes: Vec<u8>) -> Result<GgufFile> {
    GgufFile::read(Arc::new(Contents::from_vec(bytes)))
}

fn array(kind: u32, elements: &[Vec<u8>]) -> Vec<u8> {
    [kind.to_le_bytes().to_vec(), (elements.len() as u64).to_le_bytes().to_vec(), elements.concat()].concat()
}

fn example() -> Vec<u8> {
    file(&[
        ("minus", 1, vec![0xFE]),
        ("count", 4, 77u32.to_le_bytes().to_vec()),
        ("wide", 11, (-5i64).to_le_bytes().to_vec()),
        ("half", 6, 0.5f32.to_le_bytes().to_vec()),
        ("yes", 7, vec![1]),
        ("name", 8, text("a model")),
        ("words", 9, array(8, &[text("one"), text("")])),
        ("nested", 9, array(9, &[array(2, &[vec![1, 1]]), array(2, &[])])),
    ])
}

#[test]
fn values_and_tensors_are_those_of_the_file() {
    let file = read(example()).unwrap();
    assert_eq!(file.value("minus"), Some(&Value::Integer(-2)));
    assert_eq!((file.count("count"), file.number("count"), file.count("minus")), (Some(77), Some(77.0), None));
    assert_eq!((file.number("wide"), file.number("half"), file.flag("yes")), (Some(-5.0), Some(0.5), Some(true)));
    assert_eq!((file.text("name"), file.text("count"), file.value("none")), (Some("a model"), None, None));
    let words = file.elements("words").unwrap();
    assert_eq!(words, [Value::String("one".into()), Value::String(String::new())]);
    let nested = file.elements("nested").unwrap();
    assert!(
        matches!(&nested[..], [Value::Array(first), Value::Array(second)] if first.count() == 1 && second.count() == 0)
    );
    assert!(file.elements("count").unwrap_err().to_string().contains("no array 'count'"));
    let [tensor] = file.tensors() else { panic!("{:?}", file.tensors()) };
    assert_eq!((tensor.name.as_str(), tensor.element_type, &*tensor.shape), ("t", ElementType::Q4_1, &[2, 32][..]));
    assert_eq!((tensor.offset + 40, tensor.length), (file.contents().length() as u64, Some(40)));
}

#[test]
fn other_files_are_named_as_what_they_are() {
    let error_of = |bytes: &[u8]| read(bytes.to_vec()).unwrap_err().to_string();
    assert!(error_of(b"<html>").contains("this is not GGUF but HTML"));
    assert!(error_of(b"version https://git-lfs.github.com/spec/v1\n").contains("not GGUF but a pointer of Git LFS"));
    assert!(error_of(b"\xfe\x37\xff\xff\xff").contains("instead of 'GGUF'"));
    let error_of = |bytes: &[u8]| SafetensorsFile::read(&Contents::from_vec(bytes.to_vec())).unwrap_err().to_string();
    assert!(error_of(b"version https://git-lfs.github.com/spec/v1\n").contains("not safetensors but a pointer of Git"));
    assert!(error_of(&[&b"GGUF\x03\0\0\0"[..], &[0; 16]].concat()).contains("not safetensors but an archive of"));
    assert!(error_of(&[&b"\x09\0\0\0\0\0\0\0"[..], b"{\"a\": 1}}"].concat()).contains("the header: "));
}

#[test]
fn damaged_files_are_errors_and_never_panics() {
    let whole = example();
    for length in 0..whole.len() - 40 - 31 {
        let error = read(whole[..length].to_vec()).unwrap_err().to_string();
        assert!(error.contains("ends at byte") || error.contains("exceed the file"), "{length}: {error}");
    }
    for position in 0..whole.len() {
        for value in [0, 1, 0x7F, 0xFF] {
            let mut bytes = whole.clone();
            bytes[position] = value;
            // Most are other files, which are right.
            let _ = read(bytes).map(|file| (file.elements("words"), file.elements("nested")));
        }
    }
}

#[test]
fn names_are_shown_in_a_line() {
    let long = "n\n".repeat(1000);
    let error = read(file(&[(&long, 13, vec![])])).unwrap_err().to_string();
    assert!(error.len() < 1000 && error.contains("n\\nn\\n") && error.contains("unknown kind 13"), "{error}");
}
