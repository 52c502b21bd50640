#![allow(clippy::unwrap_used, reason = "tests")]
use alloc::string::ToString;
use alloc::vec;

use super::*;
use crate::StatusCode;

/// A compute shader without instructions in its function, as an assembler writes it.
fn shader() -> Vec<u32> {
    let name = u32::from_le_bytes(*b"main");
    let mut words = vec![0x0723_0203, 0x0001_0300, 0, 8, 0];
    // OpCapability Shader; OpMemoryModel Logical GLSL450; OpEntryPoint GLCompute %4 "main"; OpExecutionMode %4 LocalSize 8 4 1.
    words.extend([2 << 16 | 17, 1, 3 << 16 | 14, 0, 1, 5 << 16 | 15, 5, 4, name, 0, 6 << 16 | 16, 4, 17, 8, 4, 1]);
    words
}

#[test]
fn shaders_are_analysed() {
    let analysis = spirv::Analysis::of(&shader()).unwrap();
    assert_eq!((analysis.version, &analysis.capabilities[..]), ((1, 3), &[1][..]));
    let entry_point = analysis.entry_point("main").unwrap();
    assert_eq!((entry_point.id, entry_point.workgroup_size), (4, [8, 4, 1]));
    assert!(analysis.entry_point("other").is_none());
    assert_eq!(spirv::capability_name(5347), Some("PhysicalStorageBufferAddresses"));
}

#[test]
fn malformed_shaders_are_refused_in_one_line() {
    let changed = |index: usize, word: u32| {
        let mut words = shader();
        words[index] = word;
        words
    };
    let newer = spirv::Analysis::of(&changed(1, 0x0001_0700)).unwrap_err();
    assert_eq!(newer.code(), StatusCode::Incompatible);
    for (words, part) in [
        (vec![], "shorter"),
        (shader()[..4].to_vec(), "shorter"),
        (changed(0, 0x0302_2307), "other byte order"),
        (changed(0, 7), "not SPIR-V"),
        (changed(3, 0), "bound of 0"),
        (changed(3, u32::MAX), "bound of"),
        (changed(4, 1), "schema 1"),
        (changed(5, 0), "0 words long"),
        (changed(15, 7 << 16 | 16), "7 words long, and 6 are left"),
        (changed(13, 0xFFFF_FFFF), "no end"),
        (changed(13, 0xFF), "no end"),
    ] {
        // A name whose last word has no NUL ends with its instruction.
        let words = if part == "no end" { changed_name(words) } else { words };
        let error = spirv::Analysis::of(&words).unwrap_err();
        assert!(error.to_string().contains(part) && !error.to_string().contains('\n'), "{error}: {part}");
    }
}

fn changed_name(mut words: Vec<u32>) -> Vec<u32> {
    words[13] = u32::from_le_bytes(*b"abcd");
    words[14] = u32::from_le_bytes(*b"efgh");
    words
}

#[test]
fn headers_are_checked() {
    let header = |identifier: &[u8; 4], version: u32, length: u64| {
        let mut bytes = identifier.to_vec();
        bytes.extend(version.to_le_bytes());
        bytes.extend(length.to_le_bytes());
        bytes.resize(HEADER + 16, 0);
        bytes
    };
    let filled = |identifier: &[u8; 4]| {
        let mut bytes = header(identifier, 0, 16);
        bytes[HEADER..].fill(0xFF);
        bytes
    };
    let read = |bytes: &[u8]| VulkanExecutable::read(bytes).unwrap_err();
    assert_eq!(read(&header(b"VKE1", 1, 16)).code(), StatusCode::Incompatible);
    for (bytes, part) in [
        (header(b"CDA1", 0, 16), "does not begin with VKE1"),
        (header(b"VKE1", 0, 17), "more bytes than the 16"),
        (header(b"VKE1", 0, 0), "or none"),
        (header(b"VKE1", 0, u64::MAX), "more bytes"),
        (header(b"VKE1", 0, 16), "no pipelines"),
        (filled(b"VKE1"), "damaged"),
        (header(b"VKE1", 0, 16)[..11].to_vec(), "ends in its header"),
        (vec![], "does not begin"),
    ] {
        let error = read(&bytes);
        assert!(error.to_string().contains(part) && !error.to_string().contains('\n'), "{error}: {part}");
    }
    for identifier in [b"CDA1", b"HIP1"] {
        assert!(KernelExecutable::read(&filled(identifier)).unwrap_err().to_string().contains("damaged"));
        assert!(KernelExecutable::read(&header(identifier, 0, 16)).unwrap().kernels.is_empty());
    }
    assert_eq!(foreign_device("cuda-nvptx-fb"), Some("CUDA, for GPUs of NVIDIA"));
    assert!(foreign_device("vulkan-spirv-fb").is_none() && is_vulkan("vulkan-spirv-fb") && !is_vulkan("vulkan-other"));
}
