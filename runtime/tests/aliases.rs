//! Memory that changes while it is used: views of mutable memory, owners that return other bytes each time, module files.
//! Safe code alone, so that nothing here may be undefined behaviour.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use incarnate_runtime::bytecode::{Contents, VerifiedModule, assemble};
use incarnate_runtime::hal::{Allocator, Buffer, BufferParameters, BufferUsage, Device, MemoryType};
use incarnate_runtime::mapping::MappedFile;
use incarnate_runtime::session::{Session, Tensor};
use incarnate_runtime::vm;
use incarnate_runtime::vm::{BytecodeModule, Context, Limits, Program, Value};

const IMMUTABLE: BufferParameters = BufferParameters {
    memory_type: MemoryType::HOST_LOCAL,
    usage: BufferUsage::TRANSFER.union(BufferUsage::SHARING_IMMUTABLE),
};

fn read_only_view(memory: &Arc<vm::Buffer>) -> Arc<Buffer> {
    Allocator::new().import_vm_buffer(memory, 0, memory.length(), IMMUTABLE).unwrap()
}

#[test]
fn read_only_views_of_mutable_memory_lend_no_slice() {
    let memory = vm::Buffer::zeroed(4096, 64, None).unwrap();
    let view = read_only_view(&memory);
    let alias = view.vm_buffer().unwrap();
    assert!(!alias.is_mutable());
    assert!(alias.as_bytes().is_none());
    // Nor does the storage of a part, or a view of a view.
    let part = view.subspan(64, 128).unwrap();
    assert!(part.vm_buffer().unwrap().as_bytes().is_none());
    assert!(read_only_view(alias).vm_buffer().unwrap().as_bytes().is_none());
    // The view is in place all the same.
    memory.store::<u8>(0, 42).unwrap();
    assert_eq!(alias.load::<u8>(0).unwrap(), 42);
}

#[test]
fn texts_of_views_are_copies() {
    let memory = vm::Buffer::zeroed(64, 64, None).unwrap();
    let view = read_only_view(&memory);
    let alias = view.vm_buffer().unwrap();
    let text = alias.text().unwrap();
    memory.store::<u8>(0, 0xFF).unwrap();
    assert_eq!(*text, "\0".repeat(64));
    assert!(alias.text().is_err());
}

#[test]
fn threads_may_read_a_view_while_another_writes() {
    let memory = vm::Buffer::zeroed(4096, 64, None).unwrap();
    let view = read_only_view(&memory);
    let rounds = if cfg!(miri) { 3 } else { 300 };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..rounds {
                memory.fill::<u8>(0, 4096, round as u8).unwrap();
                memory.write(1000, &[round as u8; 96]).unwrap();
            }
        });
        for _ in 0..rounds {
            let mut bytes = [0; 96];
            view.read(1000, &mut bytes).unwrap();
            assert_eq!(view.vm_buffer().unwrap().to_vec().unwrap().len(), 4096);
            assert!(vm::Buffer::equal(&memory, 0, &memory, 0, 0).unwrap());
        }
    });
}

/// Returns each of its parts, one after the other.
struct Alternating<T> {
    parts: Vec<Vec<T>>,
    calls: AtomicUsize,
}

impl<T> Alternating<T> {
    fn new(parts: Vec<Vec<T>>, first: usize) -> Alternating<T> {
        Alternating { parts, calls: first.into() }
    }
}

impl<T> AsRef<[T]> for Alternating<T> {
    fn as_ref(&self) -> &[T] {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        &self.parts[call % self.parts.len()]
    }
}

const MODULE: &str = "
    vm.module @m version 0
    vm.rodata[0] = 0102030405060708
    vm.export @f
    vm.func @f(%i0: i32) -> (i32) {
    ^bb0:
      %i1 = vm.const.i32 1
      %i0 = vm.add.i32 %i0, %i1
      vm.return %i0
    }
    vm.export @g
    vm.func @g(%i0: i32) -> (i32) {
    ^bb0:
      %i1 = vm.const.i32 3
      %i0 = vm.mul.i32 %i0, %i1
      vm.return %i0
    }
";

#[test]
fn an_owner_that_lends_other_bytes_each_time_changes_no_verified_code() {
    let valid = assemble(MODULE).unwrap();
    // As long as the module, so that every range of it exists.
    let other = vec![0xFF; valid.len()];
    let mut loaded = 0;
    for first in 0..6 {
        let parts = vec![valid.clone(), valid.clone(), other.clone()];
        let contents = Contents::external(Alternating::new(parts, first));
        let Ok(verified) = VerifiedModule::load(Arc::new(contents)) else { continue };
        loaded += 1;
        let program = Program::link(vec![BytecodeModule::new(verified).unwrap()]).unwrap();
        let context = Context::new(program, Limits::default()).unwrap();
        for _ in 0..3 {
            let results = context.function("g").unwrap().call(&[Value::I32(14)]).unwrap();
            assert!(matches!(results[..], [Value::I32(42)]));
        }
    }
    assert!(loaded > 0);
}

#[test]
fn an_owner_that_lends_other_elements_each_time_is_borrowed_once() {
    let device = Device::create("local-sync").unwrap();
    for first in 0..4 {
        let parts = vec![vec![1.0f32; 64], vec![2.0; 3], vec![], vec![3.0; 6400]];
        let Ok(tensor) = Tensor::of_owner(&device, &[64], Arc::new(Alternating::new(parts, first))) else { continue };
        let elements = tensor.to_vec().unwrap();
        assert!(elements.iter().all(|element| *element == elements[0]), "{elements:?}");
    }
}

/// A file that is removed at the end of a test.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str, bytes: &[u8]) -> Temporary {
        let file = tempfile::Builder::new().prefix(name).suffix(".vmfb").tempfile().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let (_, path) = file.keep().unwrap();
        Temporary(path)
    }

    /// Replaces the bytes of the file, not the file.
    fn overwrite(&self, bytes: &[u8]) {
        use std::io::Write;
        std::fs::File::options().write(true).open(&self.0).unwrap().write_all(bytes).unwrap();
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        _ = std::fs::remove_file(&self.0);
    }
}

#[test]
#[cfg_attr(miri, ignore = "maps a file")]
fn a_module_file_may_change_after_it_was_verified() {
    let bytes = assemble(MODULE).unwrap();
    let file = Temporary::new("overwritten", &bytes);
    let session = Session::builder().module_file(&file.0).build().unwrap();
    // Functions are lowered at their first call.
    assert_eq!(session.function("f").unwrap().call::<i32>((41,)).unwrap(), 42);
    file.overwrite(&vec![0xFF; bytes.len()]);
    assert_eq!(session.function("g").unwrap().call::<i32>((14,)).unwrap(), 42);
    assert_eq!(session.functions().unwrap().len(), 2);
}

#[test]
#[cfg(unix)]
#[cfg_attr(miri, ignore = "maps a file")]
fn code_does_not_need_its_file_any_more() {
    let file = Temporary::new("truncated", &assemble(MODULE).unwrap());
    let session = Session::builder().module_file(&file.0).build().unwrap();
    std::fs::File::options().write(true).open(&file.0).unwrap().set_len(0).unwrap();
    assert_eq!(session.function("g").unwrap().call::<i32>((14,)).unwrap(), 42);
}

#[test]
#[cfg_attr(miri, ignore = "maps a file")]
fn mapped_files_lend_no_slice() {
    let file = Temporary::new("mapped", &[7; 300]);
    let contents = Arc::new(MappedFile::contents(&file.0).unwrap());
    assert!(contents.as_bytes().is_none());
    let constant = vm::Buffer::of_contents(Arc::clone(&contents), 64..164).unwrap();
    assert!(constant.as_bytes().is_none() && constant.holds(&[7; 100]));
    assert!(vm::Buffer::of_contents(contents, 250..301).is_err());
    file.overwrite(&[9; 300]);
    assert_eq!(constant.to_vec().unwrap().len(), 100);
}

/// A chain that owned its last link would need a stack of some hundred megabytes.
#[test]
fn owners_are_not_deeper_for_chains() {
    let length = if cfg!(miri) { 200 } else { 2_000_000 };
    let allocator = Allocator::new();
    let parameters = BufferParameters { usage: BufferUsage::TRANSFER, ..IMMUTABLE };
    let mut memory = vm::Buffer::zeroed(length + 64, 64, None).unwrap();
    for shorter in 1..length {
        let buffer = allocator.import_vm_buffer(&memory, 0, length + 64 - shorter, parameters).unwrap();
        memory = Arc::clone(buffer.vm_buffer().unwrap());
    }
    assert_eq!((memory.length(), memory.load::<u8>(0).unwrap()), (65, 0));
    drop(memory);
    let mut span = allocator.allocate(BufferParameters::DEVICE, length + 64).unwrap();
    for shorter in 1..length {
        span = span.subspan(0, length + 64 - shorter).unwrap();
        _ = span.vm_buffer().unwrap();
    }
    assert_eq!(span.allocation_length(), length + 64);
}
