//! Keys that stand for several parameters.

use super::*;

/// A file of the bytes 0 to 255 with `x.0.a`, `x.0.b`, `x.1.a` and `x.1.b` one behind the other, of 64 bytes each, and a pattern.
fn index() -> ParameterIndex {
    let file = ParameterFile::from_contents("file", Arc::new(Contents::from_vec((0..=255).collect())));
    let mut index = ParameterIndex::new();
    for (key, offset) in ["x.0.a", "x.0.b", "x.1.a", "x.1.b"].into_iter().zip((0..).step_by(64)) {
        index.add(ParameterEntry::in_file(key, &file, offset, 64).unwrap()).unwrap();
    }
    index.add(ParameterEntry::splat("ones", Splat::new(&[1, 2], 4).unwrap())).unwrap();
    index.add(ParameterEntry::in_file("{x", &file, 7, 1).unwrap()).unwrap();
    index
}

#[test]
fn adjacent_parameters_are_one_range() {
    let index = index();
    for (key, first, length) in
        [("x.{0,1}.{a,b}", 0, 256), ("x.0.{a,b}", 0, 128), ("x.{0}.b", 64, 64), ("x.{0.b,1.a}", 64, 128), ("{x", 7, 1)]
    {
        let entry = index.find(key).unwrap();
        let ParameterStorage::File { offset, .. } = entry.storage() else { panic!("{key}: {entry:?}") };
        assert_eq!((*offset, entry.length(), entry.key()), (first, length, key));
        assert_eq!(entry.read().unwrap(), (first..first + length).map(|byte| byte as u8).collect::<Vec<_>>());
    }
}

#[test]
fn other_parameters_are_copied_one_behind_the_other() {
    let index = index();
    let entry = index.find("x.{1,0}.a").unwrap();
    assert!(matches!(entry.storage(), ParameterStorage::Joined(_)) && entry.length() == 128);
    let expected: Vec<u8> = (128..192).chain(0..64).collect();
    assert_eq!(entry.read().unwrap(), expected);
    // A range over the border of two parts.
    let device = Device::create("local-sync").unwrap();
    let provider = ScopedIndex::new("", index);
    let loaded = provider.load(transfer(&device, &[span("x.{1,0}.a", 60, 0, 8)]), BufferParameters::DEVICE).unwrap();
    assert_eq!(loaded[0].to_vec().unwrap(), expected[60..68]);
    let target = device.allocator().allocate(BufferParameters::DEVICE, 12).unwrap();
    target.fill(0, 12, 9, 1).unwrap();
    let spans = [span("{x.1.b,ones}", 62, 1, 5), span("{ones,x.0.a}", 1, 8, 4)];
    provider.gather(transfer(&device, &spans), &target).unwrap();
    assert_eq!(target.to_vec().unwrap(), [9, 254, 255, 1, 2, 1, 9, 9, 2, 1, 2, 0]);
    // They cannot be written, and are parameters of an archive.
    let error = provider.scatter(transfer(&device, &[span("x.{1,0}.a", 0, 0, 8)]), &target).unwrap_err();
    assert_eq!(error.code(), StatusCode::PermissionDenied);
    let mut archive = ParameterIndex::new();
    archive.add(provider.index().find("{ones,x.1.a,x.0.a}").unwrap().renamed("all")).unwrap();
    let mut written = Vec::new();
    ArchiveWriter::new(&archive).write(&mut written).unwrap();
    let read = index_of(&written, ArchiveFormat::Irpa).unwrap();
    assert_eq!(read.get("all").unwrap().read().unwrap(), [&[1, 2, 1, 2], &expected[..]].concat());
}

#[test]
fn keys_without_all_parts_are_not_found() {
    let index = index();
    for (key, words) in [
        ("x.{0,2}.a", "do not include 'x.2.a', which is a part of it"),
        ("x.{}.a", "do not include 'x..a'"),
        ("x.0.a}", "do not include this key"),
        ("x.}{0.a", "do not include this key"),
        ("x.{{0}}.a", "do not include this key"),
        ("x.{0.a", "do not include this key"),
        ("y", "do not include this key"),
        // More parts than parameters.
        ("x.0.{a,a,a,a,a,a,a}", "the scope's 6 parameters do not include this key"),
        (&"{a,b}".repeat(100), "do not include this key"),
    ] {
        let error = index.find(key).unwrap_err();
        assert_eq!(error.code(), StatusCode::NotFound, "{key}");
        assert!(error.to_string().contains(words), "{key}: {error}");
    }
    let mut index = index;
    index.add(ParameterEntry::unreadable("gone", Error::unimplemented("why"))).unwrap();
    assert!(index.find("{ones,gone}").unwrap_err().to_string().contains("why"));
}
