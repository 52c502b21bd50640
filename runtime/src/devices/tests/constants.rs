//! Memory with the bytes of a module's constants.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::{Recorder, bound, buffer, command_buffer, device, direct, execute, record_add, slot};
use crate::bytecode::Contents;
use crate::hal::backend::Access;
use crate::hal::local::{FunctionInfo, LocalExecutable};
use crate::hal::*;
use crate::mapping::MappedFile;
use crate::{Result, vm};

const IMMUTABLE: BufferParameters = BufferParameters {
    memory_type: MemoryType::DEVICE_LOCAL,
    usage: BufferUsage::DISPATCH_STORAGE.union(BufferUsage::SHARING_IMMUTABLE),
};

/// Compilers make programs that write to their own constants; those of another session stay as they were.
#[test]
fn constants_that_are_written_are_copies() {
    let bytes: Vec<u8> = (0..200).map(|index| index as u8).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, &bytes).unwrap();
    for contents in [MappedFile::contents(&path).unwrap(), Contents::from_vec(bytes.clone())] {
        let source = vm::Buffer::of_contents(Arc::new(contents), 64..200).unwrap();
        let import = || Allocator::new().import_vm_buffer(&source, 0, WHOLE_BUFFER, IMMUTABLE).unwrap();
        let (first, second) = (import(), import());
        first.write(3, &[0xAA; 4]).unwrap();
        assert_eq!(first.to_vec().unwrap()[..8], [64, 65, 66, 0xAA, 0xAA, 0xAA, 0xAA, 71]);
        assert_eq!(second.to_vec().unwrap(), bytes[64..]);
        assert_eq!(source.to_vec().unwrap(), bytes[64..]);
        // Kernels rely on the alignment.
        assert_eq!(first.pin(Access::Read).unwrap().address().0.align_offset(MINIMUM_ALIGNMENT), 0);
    }
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
}

/// Constants of a file, in memory that is copied, and in memory that is not.
fn sources() -> Vec<Arc<vm::Buffer>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, [1; 256]).unwrap();
    let contents = [
        MappedFile::contents(&path).unwrap(),
        Contents::from_vec(vec![1; 256]),
        Contents::from_vec(vec![1; COPIED_CONSTANTS + 64]),
    ];
    std::fs::remove_file(&path).unwrap();
    let source = |contents: Contents| {
        let length = contents.length();
        vm::Buffer::of_contents(Arc::new(contents), 0..length).unwrap()
    };
    contents.map(source).into()
}

fn import(source: &Arc<vm::Buffer>) -> Arc<Buffer> {
    Allocator::new().import_vm_buffer(source, 64, WHOLE_BUFFER, IMMUTABLE).unwrap()
}

#[test]
fn buffers_have_the_bytes_of_constants_until_something_may_write_there() {
    type Write = fn(&Buffer) -> Result<()>;
    let writes: [(&str, Write); 7] = [
        ("write", |buffer| buffer.write(0, &[0])),
        ("fill", |buffer| buffer.fill(0, 4, 0, 1)),
        ("copy", |buffer| buffer.copy_from(0, buffer, 8, 4)),
        ("byte buffer", |buffer| buffer.vm_buffer().map(|_| ())),
        ("pin for writing", |buffer| buffer.pin(Access::Write).map(|_| ())),
        ("pin for kernels", |buffer| buffer.pin(Access::Kernel).map(|_| ())),
        ("mark", |buffer| {
            buffer.mark_written();
            Ok(())
        }),
    ];
    for (source, (name, write)) in sources().iter().flat_map(|source| writes.map(|write| (source, write))) {
        let constant = import(source);
        let part = constant.subspan(16, 32).unwrap();
        assert!(constant.to_vec().is_ok() && constant.pin(Access::Read).is_ok());
        let described = |buffer: &Buffer| format!("{:?}", buffer.constant_bytes());
        assert_eq!(described(&part), format!("{:?}", vm::ConstantBytes::new(source, 80)));
        assert_eq!(described(&constant), format!("{:?}", vm::ConstantBytes::new(source, 64)));
        // By way of a part, too. What is in place is never written.
        let is_in_place = !part.access().contains(MemoryAccess::WRITE);
        assert!(write(&part).is_ok() || is_in_place, "{name}");
        assert_eq!(constant.constant_bytes().is_some(), is_in_place, "{name}");
        assert_eq!(part.constant_bytes().is_some(), is_in_place, "{name}");
        // The other import has memory of its own.
        assert!(import(source).constant_bytes().is_some());
    }
    assert!(buffer(&device(), &[0; 4]).constant_bytes().is_none());
}

#[test]
fn programs_with_limits_have_no_layouts() {
    for source in sources() {
        let ledger = vm::Ledger::new(1 << 30, 1000);
        let constant = Allocator::new().import_vm_buffer_charged(&source, 0, WHOLE_BUFFER, IMMUTABLE, &ledger).unwrap();
        assert!(constant.constant_bytes().is_none());
    }
}

#[test]
fn kernels_know_the_constants_that_they_only_read() {
    // Only the second binding is known to be read only.
    let info = FunctionInfo { binding_count: 3, read_only_bindings: 0b010, ..FunctionInfo::default() };
    let recorder = Arc::new(Recorder::new(info));
    let executable = Arc::new(Executable::new(Arc::clone(&recorder) as Arc<dyn LocalExecutable>));
    let device = device();
    let recorded = |bindings: [BufferRef; 3], table: &[BufferBinding<'static>]| {
        let commands = command_buffer(&device, table.len() as u32);
        record_add(&commands, &executable, bindings, 1).unwrap();
        commands.finalize().unwrap();
        execute(&device, &commands, table).unwrap();
        let found = std::mem::take(&mut *recorder.constants.lock().unwrap());
        // None at all stands for none of them.
        [0, 1, 2].map(|binding| found.get(binding).copied().flatten())
    };
    let dispatched = |bindings: [&Arc<Buffer>; 3]| recorded(bindings.map(direct), &[]).map(|bytes| bytes.is_some());
    let other = buffer(&device, &[0; 16]);
    for source in sources() {
        let constant = import(&source);
        let is_in_place = !constant.access().contains(MemoryAccess::WRITE);
        assert_eq!(dispatched([&other, &constant, &other]), [false, true, false]);
        // A binding in the table, of a part: 64 bytes in the source, 16 in the import, 8 in the part.
        let part = constant.subspan(16, 32).unwrap();
        let table = BufferBinding { offset: 4, length: 28, ..bound(&part) };
        let [_, bytes, _] = recorded([direct(&other), slot(0, 4, 16), direct(&other)], &[table]);
        assert_eq!(format!("{bytes:?}"), format!("{:?}", vm::ConstantBytes::new(&source, 88)));
        // The third binding may be written. In place, that is refused.
        assert_eq!(dispatched([&other, &constant, &constant]), [false, is_in_place, is_in_place]);
        assert_eq!(dispatched([&other, &constant, &other]), [false, is_in_place, false]);
    }
}
