//! Archives with parameters that cannot be read beside others that can, and archives of several files.

use tempfile::TempDir;

use super::*;

/// Two tensors of `U8`: the bytes are those of the last argument.
fn shard(keys: [&str; 2], bytes: [u8; 4]) -> Vec<u8> {
    let tensor = |key: &str, begin: u64, end: u64| {
        format!(r#""{key}":{{"dtype":"U8","shape":[2],"data_offsets":[{begin},{end}]}}"#)
    };
    let header = format!("{{{},{}}}", tensor(keys[0], 0, 2), tensor(keys[1], 2, 4));
    let mut file = safetensors(&header, 0);
    file.extend(bytes);
    file
}

/// A folder with two files of tensors and an index.
fn sharded(index: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors.index.json");
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    std::fs::write(folder.path().join("a.safetensors"), shard(["one", "two"], [1, 2, 3, 4])).unwrap();
    std::fs::write(folder.path().join("sub/b.safetensors"), shard(["three", "two"], [5, 6, 7, 8])).unwrap();
    std::fs::write(&path, index).unwrap();
    (folder, path)
}

fn opened(index: &str, access: FileAccess) -> Result<ParameterIndex> {
    let (_folder, path) = sharded(index);
    let mut index = ParameterIndex::new();
    index.add_file(&path, access)?;
    Ok(index)
}

#[test]
fn indices_of_shards_map_their_tensors() {
    let text = r#"{"metadata": {"total_size": 8, "nested": [{}]},
        "weight_map": {"two": "sub/b.safetensors", "one": "a.safetensors", "three": "sub/b.safetensors"}}"#;
    for access in [FileAccess::Map, FileAccess::Read, FileAccess::Write] {
        let index = opened(text, access).unwrap();
        let found: Vec<(&str, Vec<u8>)> =
            index.entries().iter().map(|entry| (entry.key(), entry.read().unwrap())).collect();
        assert_eq!(found, [("two", vec![7, 8]), ("one", vec![1, 2]), ("three", vec![5, 6])]);
    }
    assert!(opened(r#"{"weight_map": {}}"#, FileAccess::Map).unwrap().entries().is_empty());
}

#[test]
fn folders_of_models_stand_for_their_weights() {
    let (folder, _) = sharded(r#"{"weight_map": {"one": "a.safetensors", "three": "sub/b.safetensors"}}"#);
    let added = || {
        let mut index = ParameterIndex::new();
        index.add_file(folder.path(), FileAccess::Map)?;
        Ok::<_, crate::Error>(index.entries().iter().map(|entry| entry.key().to_owned()).collect::<Vec<_>>())
    };
    assert!(added().unwrap_err().to_string().contains("is a folder"));
    std::fs::write(folder.path().join("config.json"), "{}").unwrap();
    assert_eq!(added().unwrap(), ["one", "three"]);
    std::fs::write(folder.path().join("model.safetensors"), shard(["one", "two"], [1, 2, 3, 4])).unwrap();
    assert_eq!(added().unwrap(), ["one", "two"]);
}

#[test]
fn wrong_indices_of_shards_are_errors_that_name_what_is_wrong() {
    use StatusCode::{InvalidArgument, NotFound};
    for (map, code, words) in [
        (r#""one": "gone.safetensors""#, NotFound, "'gone.safetensors' of tensor 'one'"),
        (r#""three": "a.safetensors""#, NotFound, "tensor 'three' is not in 'a.safetensors'"),
        (r#""one": "a.safetensors", "one": "sub/b.safetensors""#, InvalidArgument, "tensor 'one' is listed twice"),
        (r#""one": "../a.safetensors""#, InvalidArgument, "'../a.safetensors' of tensor 'one'"),
        (r#""one": "/etc/a.safetensors""#, InvalidArgument, "in the folder of the index"),
        (r#""one": "sub/../../a.safetensors""#, InvalidArgument, "in the folder of the index"),
        (r#""one": "sub\\b.safetensors""#, InvalidArgument, "in the folder of the index"),
        (r#""one": "C:a.safetensors""#, InvalidArgument, "in the folder of the index"),
        (r#""one": """#, InvalidArgument, "in the folder of the index"),
        (r#""one": "./a.safetensors""#, InvalidArgument, "in the folder of the index"),
        (r#""one": "a.safetensors/""#, InvalidArgument, "in the folder of the index"),
        (r#""three": "sub//b.safetensors""#, InvalidArgument, "in the folder of the index"),
        (
            r#""three": "sub/b.safetensors", "two": "sub/./b.safetensors""#,
            InvalidArgument,
            "in the folder of the index",
        ),
        (r#""one": "model.safetensors.index.json""#, InvalidArgument, "does not end with .safetensors"),
        (r#""one": 1"#, InvalidArgument, "invalid type: integer `1`"),
    ] {
        let error = opened(&format!("{{\"weight_map\": {{{map}}}}}"), FileAccess::Map).unwrap_err();
        assert!(error.code() == code && error.to_string().contains(words), "{map}: {error}");
        assert!(error.to_string().contains("model.safetensors.index.json"), "{error}");
    }
    for (text, words) in [
        ("{}", "the field weight_map is missing"),
        ("[]", "an object with the field weight_map"),
        (r#"{"weight_map": {}, "weight_map": {}}"#, "duplicate field weight_map"),
        (r#"{"weight_map": 1}"#, "an object of the name of a file for each tensor"),
        ("{", "EOF"),
    ] {
        let error = opened(text, FileAccess::Map).unwrap_err();
        assert!(error.code() == InvalidArgument && error.to_string().contains(words), "{text}: {error}");
    }
    // Long names are cut.
    let long = "x".repeat(100_000);
    for map in [format!(r#""{long}": "a.safetensors", "{long}": "a.safetensors""#), format!(r#""{long}": "{long}""#)] {
        let error = opened(&format!("{{\"weight_map\": {{{map}}}}}"), FileAccess::Map).unwrap_err();
        assert!(error.to_string().len() < 2000 && error.to_string().contains("xxx..."), "{error}");
    }
    // Bytes in memory have no folder.
    fails(br#"{"weight_map": {}}"#, ArchiveFormat::SafetensorsIndex, InvalidArgument, "added by its path");
}

#[test]
fn a_gguf_tensor_of_an_unknown_type_leaves_the_others_usable() {
    let bytes = gguf(3, &[("old", &[4], 0, 0), ("new", &[4, 2], 99, 32)], &[], 0, 64);
    let index = index_of(&bytes, ArchiveFormat::Gguf).unwrap();
    assert_eq!(index.get("old").unwrap().read().unwrap(), [0; 16]);
    let new = index.get("new").unwrap();
    let facts = new.tensor().unwrap();
    assert_eq!((facts.element_type.as_str(), facts.shape.as_slice()), ("type 99", &[2, 4][..]));
    let device = Device::create("local-sync").unwrap();
    let provider = ScopedIndex::new("", index.clone());
    let loaded = |key: &str| provider.load(transfer(&device, &[span(key, 0, 0, 4)]), BufferParameters::DEVICE);
    assert!(loaded("old").is_ok());
    let mut written = Vec::new();
    for error in [
        loaded("new").unwrap_err(),
        new.read().unwrap_err(),
        ArchiveWriter::new(&index).write(&mut written).unwrap_err(),
    ] {
        let text = error.to_string();
        assert!(error.code() == StatusCode::Unimplemented && text.contains("parameter 'new'"), "{text}");
        assert!(text.contains("unknown element type 99"), "{text}");
    }
}

#[test]
fn safetensors_of_an_unknown_type_are_bytes() {
    let header = r#"{"new":{"dtype":"F3","shape":[2,4],"data_offsets":[0,3]},
        "old":{"dtype":"U8","shape":[2],"data_offsets":[3,5]},"__metadata__":{"format":"pt"}}"#;
    let mut bytes = safetensors(header, 0);
    bytes.extend([1, 2, 3, 4, 5]);
    let index = index_of(&bytes, ArchiveFormat::Safetensors).unwrap();
    let new = index.get("new").unwrap();
    assert_eq!(new.read().unwrap(), [1, 2, 3]);
    let facts = new.tensor().unwrap();
    assert_eq!((facts.element_type.as_str(), facts.shape.as_slice()), ("F3", &[2, 4][..]));
    assert_eq!(index.get("old").unwrap().read().unwrap(), [4, 5]);
    // What the metadata contains is no description of a tensor.
    let header = r#"{"__metadata__":{"dtype":"float16"},"new":{"dtype":"F3","shape":[2,4],"data_offsets":[0,3]}}"#;
    let index = index_of(&safetensors(header, 3), ArchiveFormat::Safetensors).unwrap();
    assert_eq!((index.entries().len(), index.get("new").unwrap().length()), (1, 3));
}

#[test]
fn tensors_that_are_not_aligned_are_copied() {
    let device = Device::create("local-sync").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let values: Vec<u8> = (0..128).collect();
    let mut copied = 0;
    // The data begins at each of 64 adjacent bytes.
    for spaces in 0..64 {
        let header = format!(r#"{{"a":{{"dtype":"F32","shape":[32],"data_offsets":[0,128]}}}}{}"#, " ".repeat(spaces));
        let mut bytes = safetensors(&header, 0);
        let is_aligned = bytes.len().is_multiple_of(64);
        bytes.extend(&values);
        std::fs::write(&path, bytes).unwrap();
        let mut index = ParameterIndex::new();
        index.add_file(&path, FileAccess::Map).unwrap();
        let loaded = ScopedIndex::new("", index)
            .load(transfer(&device, &[span("a", 0, 0, 128)]), BufferParameters::DEVICE)
            .unwrap();
        assert_eq!(loaded[0].to_vec().unwrap(), values, "{spaces} spaces");
        // As many bytes as the tensor has.
        let live = device.allocator().statistics().live;
        assert_eq!(live, if is_aligned { 0 } else { 128 }, "{spaces} spaces");
        copied += u32::from(!is_aligned);
    }
    assert_eq!(copied, 63);
}
