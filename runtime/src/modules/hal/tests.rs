#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use std::sync::Mutex;

use super::*;
use crate::StatusCode;
use crate::bytecode::{CallingConvention, Contents, VerifiedModule, assemble};
use crate::hal::{Buffer, BufferParameters, BufferUsage, DeviceOptions, DriverRegistry, Fence};
use crate::vm::Buffer as VmBuffer;
use crate::vm::{
    BytecodeModule, CallBuffer, Completion, Limits, Linkage, Module, ModuleState, Program, Ref, Stack, TypedRefObject,
    Value,
};

/// Names and calling conventions of `hal.imports.mlir` of compiler 3.13.
const IMPORTS: [(&str, &str); 58] = [
    ("allocator.allocate", "0rIiiI_r"),
    ("allocator.import", "0riIiirII_r"),
    ("allocator.select", "0iiICrID_rI"),
    ("buffer.allocation.discard", "0r_i"),
    ("buffer.allocation.is_terminal", "0r_i"),
    ("buffer.allocation.preserve", "0r_v"),
    ("buffer.assert", "0rrrIii_v"),
    ("buffer.length", "0r_I"),
    ("buffer.load", "0rIi_i"),
    ("buffer.store", "0irIi_v"),
    ("buffer.subspan", "0rII_r"),
    ("buffer_view.assert", "0rriiCID_v"),
    ("buffer_view.buffer", "0r_r"),
    ("buffer_view.create", "0rIIiiCID_r"),
    ("buffer_view.dim", "0ri_I"),
    ("buffer_view.element_type", "0r_i"),
    ("buffer_view.encoding_type", "0r_i"),
    ("buffer_view.rank", "0r_i"),
    ("buffer_view.trace", "0rCrD_v"),
    ("channel.create", "0rIIrrii_r"),
    ("channel.rank_and_count", "0r_ii"),
    ("channel.split", "0riiI_r"),
    ("command_buffer.advise_buffer", "0rrIIIi_v"),
    ("command_buffer.begin_debug_group", "0rr_v"),
    ("command_buffer.collective", "0rriiiirrIIIII_v"),
    ("command_buffer.copy_buffer", "0riirIrIII_v"),
    ("command_buffer.create", "0riiIi_r"),
    ("command_buffer.dispatch", "0rrIiiiICiDCiirIID_v"),
    ("command_buffer.dispatch.indirect", "0rrIirIICiDCiirIID_v"),
    ("command_buffer.end_debug_group", "0r_v"),
    ("command_buffer.execution_barrier", "0riiI_v"),
    ("command_buffer.fill_buffer", "0rrIIiIiI_v"),
    ("command_buffer.finalize", "0r_v"),
    ("command_buffer.update_buffer", "0rrIrIIiI_v"),
    ("device.allocator", "0r_r"),
    ("device.query.i64", "0rrr_iI"),
    ("device.queue.alloca", "0rIrrIiiII_r"),
    ("device.queue.barrier", "0rIrrI_v"),
    ("device.queue.copy", "0rIrrrIrIII_v"),
    ("device.queue.dealloca", "0rIrrrI_v"),
    ("device.queue.execute", "0rIrrrI_v"),
    ("device.queue.execute.indirect", "0rIrrrICrIID_v"),
    ("device.queue.fill", "0rIrrrIIIiI_v"),
    ("device.queue.flush", "0rI_v"),
    ("device.queue.read", "0rIrrrIrIII_v"),
    ("device.queue.update", "0rIrrrIrIII_v"),
    ("device.queue.write", "0rIrrrIrIII_v"),
    ("devices.count", "0v_i"),
    ("devices.get", "0i_r"),
    ("ex.file.from_memory", "0rIirIIi_r"),
    ("executable.create", "0rIrrr_r"),
    ("executable.lookup.function", "0rr_I"),
    ("fence.await", "0iICrD_i"),
    ("fence.create", "0rI_r"),
    ("fence.fail", "0ri_v"),
    ("fence.join", "0ICrD_r"),
    ("fence.query", "0r_i"),
    ("fence.signal", "0r_v"),
];

/// A program that calls the module.
struct Guest {
    module: NativeModule<HalState>,
    state: Arc<dyn ModuleState>,
    stack: Stack,
    device: Arc<Device>,
}

impl Guest {
    fn new(trace_sink: TraceSink) -> Guest {
        let device = DriverRegistry::default().create_device("local-sync", DeviceOptions::default()).unwrap();
        let module = module(HalOptions { devices: vec![Arc::clone(&device)], trace_sink, ..HalOptions::default() });
        let limits = Limits::default();
        let state = Arc::from(module.allocate_state(&limits).unwrap());
        Guest { module, state, stack: Stack::new(limits), device }
    }

    fn begin(&mut self, name: &str, arguments: Vec<Value>, buffer: &mut CallBuffer) -> Result<Completion> {
        let export = self.module.lookup(Linkage::Export, name).unwrap();
        arguments.into_iter().for_each(|value| buffer.push(value));
        self.module.begin_call(&self.state, export, &mut self.stack, buffer)
    }

    /// Calls a function to its end; returns its results, words and references.
    fn call(&mut self, name: &str, arguments: Vec<Value>) -> Result<(Vec<u64>, Vec<Ref>)> {
        let mut buffer = CallBuffer::new();
        assert_eq!(self.begin(name, arguments, &mut buffer)?, Completion::Done);
        Ok((buffer.words().to_vec(), buffer.refs().to_vec()))
    }

    fn word(&mut self, name: &str, arguments: Vec<Value>) -> u64 {
        self.call(name, arguments).unwrap().0[0]
    }

    fn reference(&mut self, name: &str, arguments: Vec<Value>) -> Ref {
        self.call(name, arguments).unwrap().1.remove(0)
    }

    fn code(&mut self, name: &str, arguments: Vec<Value>) -> StatusCode {
        self.call(name, arguments).unwrap_err().code()
    }

    fn buffer(&self, bytes: &[u8]) -> Ref {
        let buffer = self.device.allocator().allocate(BufferParameters::DEVICE, bytes.len() as u64).unwrap();
        buffer.write(0, bytes).unwrap();
        buffer.into()
    }
}

fn i32(value: i32) -> Value {
    Value::I32(value)
}

fn i64(value: i64) -> Value {
    Value::I64(value)
}

fn r(reference: &Ref) -> Value {
    Value::Ref(reference.clone())
}

fn null() -> Value {
    Value::Ref(Ref::Null)
}

fn text(text: &str) -> Value {
    Value::Ref(VmBuffer::copy_of(text.as_bytes()).unwrap().into())
}

/// The element count of a span is passed as a word.
fn span(count: i64) -> Value {
    i64(count)
}

#[test]
fn functions_have_the_calling_conventions_that_compilers_import() {
    let module = module(HalOptions::default());
    assert_eq!(module.signature().version, 7);
    // Beside the older forms, `device.queue.execute` of 0.5 has a method of its own.
    assert_eq!(module.signature().export_count, IMPORTS.len() + imports::older::HAL.len() + 1);
    for (name, convention) in IMPORTS {
        let ordinal = module.lookup(Linkage::Export, name).unwrap_or_else(|| panic!("no {name}"));
        assert_eq!(module.function(Linkage::Export, ordinal).unwrap().calling_convention, convention, "{name}");
        let convention = CallingConvention::parse(convention).unwrap();
        assert_eq!(module.lookup_as(name, &convention), Some(ordinal), "{name}");
    }
}

/// Links a module with one import.
fn link(import: &str, convention: &str) -> Result<Arc<Program>> {
    let text = alloc::format!("vm.module @m\nvm.import @hal.{import} cconv \"{convention}\"\n");
    let contents = Contents::from_vec(assemble(&text).unwrap());
    let importer = BytecodeModule::new(VerifiedModule::load(Arc::new(contents)).unwrap())?;
    Program::link(vec![Arc::new(module(HalOptions::default())), importer])
}

#[test]
fn every_version_is_linked_and_others_name_the_compilers() {
    for (import, convention) in
        [("fence.create", "0rI_r"), ("fence.create", "0ri_r"), ("command_buffer.dispatch", "0rriiiiICiDCiirIID_v")]
    {
        link(import, convention).unwrap();
    }
    for (import, convention, code) in
        [("fence.create", "0r_r", StatusCode::Incompatible), ("ex.shared_device", "0v_r", StatusCode::NotFound)]
    {
        let error = link(import, convention).unwrap_err();
        assert_eq!(error.code(), code);
        assert!(error.to_string().contains("versions 0.5 to 0.7, for modules of compilers 3.0 to 3.13"), "{error}");
    }
}

/// The calls of a 4xf32 multiply that iree-compile 3.13.0 emits, initialiser and body.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
#[test]
fn a_compiled_multiply_runs() {
    use crate::hal::{BufferView, ElementType, EncodingType};

    let floats = |values: [f32; 4]| values.map(f32::to_le_bytes).concat();
    let mut guest = Guest::new(TraceSink::default());
    assert_eq!(guest.word("devices.count", vec![]), 1);
    assert!(guest.reference("devices.get", vec![i32(1)]).is_null());
    let device = guest.reference("devices.get", vec![i32(0)]);
    let answer = guest.call("device.query.i64", vec![r(&device), text("hal.device.id"), text("local*")]).unwrap().0;
    assert_eq!(answer, [1, 1]);
    #[cfg(target_arch = "x86_64")]
    let (format, elf) = ("embedded-elf-x86_64", include_bytes!("../../../tests/fixtures/elf/simple_mul_x86_64.so"));
    #[cfg(target_arch = "aarch64")]
    let (format, elf) = ("embedded-elf-arm_64", include_bytes!("../../../tests/fixtures/elf/simple_mul_arm_64.so"));
    #[cfg(target_arch = "riscv64")]
    let (format, elf) = ("embedded-elf-riscv_64", include_bytes!("../../../tests/fixtures/elf/simple_mul_riscv_64.so"));
    let format = || text(format);
    let answer = guest.call("device.query.i64", vec![r(&device), text("hal.executable.format"), format()]).unwrap().0;
    assert_eq!(answer, [1, 1]);
    let data = VmBuffer::copy_of(elf).unwrap().into();
    let executable = guest.reference("executable.create", vec![r(&device), i64(-1), format(), r(&data), null()]);
    let name = executable.get::<crate::hal::Executable>().unwrap().functions()[0].name.clone();
    let function = guest.word("executable.lookup.function", vec![r(&executable), text(&name)]);
    let commands = guest.reference("command_buffer.create", vec![r(&device), i32(0), i32(3), i64(-1), i32(3)]);
    let mut dispatch = vec![r(&commands), r(&executable), i64(function as i64), i32(1), i32(1), i32(1), i64(0)];
    dispatch.extend([span(0), span(3)]);
    for slot in 0..3 {
        dispatch.extend([i32(0), i32(slot), null(), i64(0), i64(16)]);
    }
    guest.call("command_buffer.dispatch", dispatch).unwrap();
    guest.call("command_buffer.execution_barrier", vec![r(&commands), i32(28), i32(13), i64(0)]).unwrap();
    guest.call("command_buffer.finalize", vec![r(&commands)]).unwrap();

    let inputs: Vec<Ref> = [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]
        .map(|values: [f32; 4]| {
            let buffer = guest.buffer(&floats(values)).to::<Buffer>().unwrap();
            let view = BufferView::new(buffer, &[4], ElementType::FLOAT_32, EncodingType::DENSE_ROW_MAJOR).unwrap();
            Ref::from(Arc::new(view))
        })
        .into();
    let allocator = guest.reference("device.allocator", vec![r(&device)]);
    let mut buffers = Vec::new();
    for view in &inputs {
        let expected = vec![r(view), text("input"), i32(0x2100_0020), i32(1), span(1), i64(4)];
        guest.call("buffer_view.assert", expected).unwrap();
        let buffer = guest.reference("buffer_view.buffer", vec![r(view)]);
        let expected = vec![r(&buffer), text("tensor"), r(&allocator), i64(16), i32(16), i32(3075)];
        guest.call("buffer.assert", expected).unwrap();
        buffers.push(buffer);
    }
    let ready = guest.reference("fence.create", vec![r(&device), i64(0)]);
    let alloca = vec![r(&device), i64(-1), null(), r(&ready), i64(0), i32(48), i32(3075), i64(16), i64(0)];
    buffers.push(guest.reference("device.queue.alloca", alloca));
    let done = guest.reference("fence.create", vec![r(&device), i64(0)]);
    let mut execute = vec![r(&device), i64(-1), r(&ready), r(&done), r(&commands), i64(0), span(3)];
    for buffer in &buffers {
        execute.extend([r(buffer), i64(0), i64(16)]);
    }
    guest.call("device.queue.execute.indirect", execute).unwrap();
    assert_eq!(guest.word("fence.await", vec![i32(-1), i64(0), span(1), r(&done)]), 0);
    let create = vec![r(&buffers[2]), i64(0), i64(16), i32(0x2100_0020), i32(1), span(1), i64(4)];
    let output = guest.reference("buffer_view.create", create).to::<BufferView>().unwrap();
    assert_eq!(output.buffer().to_vec().unwrap(), floats([5.0, 12.0, 21.0, 32.0]));
}

#[test]
fn transfers_and_scalars_reach_buffers() {
    let mut guest = Guest::new(TraceSink::default());
    let device: Ref = Arc::clone(&guest.device).into();
    let (a, b) = (guest.buffer(&[0; 16]), guest.buffer(&[0; 16]));
    let fence_of = |queue: &Ref| vec![r(queue), i64(-1), null(), null()];
    let mut with = |name: &str, rest: Vec<Value>| {
        let mut arguments = fence_of(&device);
        arguments.extend(rest);
        guest.call(name, arguments)
    };
    with("device.queue.fill", vec![r(&a), i64(0), i64(16), i64(0x0201), i32(2), i64(0)]).unwrap();
    let source = VmBuffer::copy_of(&[9, 8, 7, 6]).unwrap().into();
    with("device.queue.update", vec![r(&source), i64(1), r(&a), i64(4), i64(2), i64(0)]).unwrap();
    let beyond = with("device.queue.update", vec![r(&source), i64(1), r(&a), i64(4), i64(4), i64(0)]);
    assert_eq!(beyond.unwrap_err().code(), StatusCode::OutOfRange);
    with("device.queue.copy", vec![r(&a), i64(2), r(&b), i64(0), i64(6), i64(0)]).unwrap();
    with("device.queue.barrier", vec![i64(0)]).unwrap();
    with("device.queue.dealloca", vec![r(&a), i64(0)]).unwrap();
    let file = vec![r(&device), i64(-1), i32(1), r(&source), i64(1), i64(3), i32(0)];
    let file = guest.reference("ex.file.from_memory", file);
    let mut read = fence_of(&device);
    read.extend([r(&file), i64(1), r(&b), i64(8), i64(2), i64(0)]);
    guest.call("device.queue.read", read).unwrap();
    let mut write = fence_of(&device);
    write.extend([r(&b), i64(0), r(&file), i64(0), i64(1), i64(0)]);
    assert_eq!(guest.code("device.queue.write", write), StatusCode::PermissionDenied);
    assert_eq!(b.to::<Buffer>().unwrap().to_vec().unwrap()[..10], [1, 2, 8, 7, 1, 2, 0, 0, 7, 6]);
    assert_eq!(guest.word("buffer.load", vec![r(&b), i64(2), i32(2)]), 0x0708);
    guest.call("buffer.store", vec![i32(-2), r(&b), i64(0), i32(1)]).unwrap();
    assert_eq!(guest.word("buffer.load", vec![r(&b), i64(0), i32(1)]), 0xFE);
    assert_eq!(guest.code("buffer.load", vec![r(&b), i64(0), i32(5)]), StatusCode::InvalidArgument);
    assert_eq!(guest.code("buffer.load", vec![r(&b), i64(-1), i32(4)]), StatusCode::OutOfRange);
    assert_eq!(guest.code("buffer.load", vec![null(), i64(0), i32(4)]), StatusCode::InvalidArgument);
    let span_of_b = guest.reference("buffer.subspan", vec![r(&b), i64(4), i64(-1)]);
    assert_eq!(guest.word("buffer.length", vec![r(&span_of_b)]), 12);
}

#[test]
fn commands_are_recorded_with_slots_and_buffers() {
    let mut guest = Guest::new(TraceSink::default());
    let device: Ref = Arc::clone(&guest.device).into();
    let commands = guest.reference("command_buffer.create", vec![r(&device), i32(0), i32(1), i64(-1), i32(2)]);
    let (a, b) = (guest.buffer(&[0; 8]), guest.buffer(&[0; 8]));
    guest.call("command_buffer.begin_debug_group", vec![r(&commands), text("all")]).unwrap();
    let fill = vec![r(&commands), null(), i64(0), i64(4), i32(0), i64(5), i32(1), i64(0)];
    guest.call("command_buffer.fill_buffer", fill).unwrap();
    let source = VmBuffer::copy_of(&[1, 2, 3]).unwrap().into();
    let update = vec![r(&commands), r(&source), i64(1), r(&a), i64(6), i64(2), i32(0), i64(0)];
    guest.call("command_buffer.update_buffer", update).unwrap();
    let copy = vec![r(&commands), i32(0), i32(1), null(), i64(2), null(), i64(0), i64(6), i64(0)];
    guest.call("command_buffer.copy_buffer", copy).unwrap();
    let advise = vec![r(&commands), r(&a), i64(0), i64(0), i64(0), i32(0)];
    guest.call("command_buffer.advise_buffer", advise).unwrap();
    guest.call("command_buffer.end_debug_group", vec![r(&commands)]).unwrap();
    guest.call("command_buffer.finalize", vec![r(&commands)]).unwrap();
    let table = vec![r(&a), i64(0), i64(8), r(&b), i64(0), i64(8)];
    let mut execute = vec![r(&device), i64(-1), null(), null(), r(&commands), i64(0), span(2)];
    execute.extend(table);
    guest.call("device.queue.execute.indirect", execute).unwrap();
    assert_eq!(b.to::<Buffer>().unwrap().to_vec().unwrap(), [5, 5, 0, 0, 2, 3, 0, 0]);
    let direct = vec![r(&device), i64(-1), null(), null(), r(&commands), i64(0)];
    assert_eq!(guest.code("device.queue.execute", direct), StatusCode::InvalidArgument);
    guest.call("device.queue.flush", vec![r(&device), i64(-1)]).unwrap();
}

#[test]
fn constants_are_imported_in_place_or_refused() {
    let mut guest = Guest::new(TraceSink::default());
    let allocator: Ref = Arc::clone(guest.device.allocator()).into();
    let immutable = (BufferUsage::DISPATCH_STORAGE_READ | BufferUsage::SHARING_IMMUTABLE).bits() as i32;
    let source = VmBuffer::zeroed(256, 64, None).unwrap();
    let object: Ref = Arc::clone(&source).into();
    let import = |attempt, usage, offset, length| {
        vec![r(&allocator), i32(attempt), i64(-1), i32(48), i32(usage), r(&object), i64(offset), i64(length)]
    };
    let buffer = guest.reference("allocator.import", import(0, immutable, 64, -1)).to::<Buffer>().unwrap();
    assert_eq!(buffer.pin(crate::hal::backend::Access::Read).unwrap().address().0, source.as_ptr().wrapping_add(64));
    assert_eq!(buffer.byte_length(), 192);
    assert_eq!(buffer.write(0, &[1]).unwrap_err().code(), StatusCode::PermissionDenied);
    // A mutable source is writable through a buffer that is not immutable.
    let shared = guest.reference("allocator.import", import(0, 3075, 0, 16)).to::<Buffer>().unwrap();
    shared.write(3, &[7]).unwrap();
    assert_eq!(source.load::<u8>(3).unwrap(), 7);
    assert!(guest.reference("allocator.import", import(1, immutable, 8, 16)).is_null());
    assert_eq!(guest.code("allocator.import", import(0, immutable, 8, 16)), StatusCode::OutOfRange);
    assert_eq!(guest.code("allocator.import", import(0, immutable, 0, 257)), StatusCode::OutOfRange);
    let allocate = vec![r(&allocator), i64(-1), i32(48), i32(3075), i64(100)];
    assert_eq!(guest.reference("allocator.allocate", allocate).to::<Buffer>().unwrap().byte_length(), 100);
    let allocate = vec![r(&allocator), i64(-1), i32(48), i32(3075), i64(-1)];
    assert_eq!(guest.code("allocator.allocate", allocate), StatusCode::ResourceExhausted);
    let device: Ref = Arc::clone(&guest.device).into();
    let select = vec![i32(48), i32(3075), i64(0), span(1), r(&device), i64(5)];
    let (words, refs) = guest.call("allocator.select", select).unwrap();
    assert!(words == [5] && refs[0].same(&device));
    let nothing = vec![i32(48), i32(3075), i64(0), span(0)];
    assert_eq!(guest.code("allocator.select", nothing), StatusCode::InvalidArgument);
}

#[test]
fn views_are_queried_and_traced() {
    let traced = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&traced);
    let mut guest = Guest::new(TraceSink::new(move |key, views| {
        sink.lock().unwrap().push((key.to_string(), views.len()));
        Ok(())
    }));
    let buffer = guest.buffer(&[0; 32]);
    let create = vec![r(&buffer), i64(8), i64(24), i32(0x2100_0020), i32(1), span(2), i64(2), i64(3)];
    let view = guest.reference("buffer_view.create", create);
    assert_eq!(guest.word("buffer_view.rank", vec![r(&view)]), 2);
    assert_eq!(guest.word("buffer_view.dim", vec![r(&view), i32(1)]), 3);
    assert_eq!(guest.code("buffer_view.dim", vec![r(&view), i32(2)]), StatusCode::OutOfRange);
    assert_eq!(guest.word("buffer_view.element_type", vec![r(&view)]), 0x2100_0020);
    assert_eq!(guest.word("buffer_view.encoding_type", vec![r(&view)]), 1);
    guest.call("buffer_view.trace", vec![text("after the layer"), span(2), r(&view), r(&view)]).unwrap();
    assert_eq!(*traced.lock().unwrap(), [("after the layer".to_string(), 2)]);
    let wrong = vec![r(&view), text("input0"), i32(0x2100_0020), i32(1), span(1), i64(6)];
    let error = guest.call("buffer_view.assert", wrong).unwrap_err().to_string();
    assert!(error.contains("input0") && error.contains("2x3"), "{error}");
    let wrong = vec![r(&buffer), text("weights"), Value::Ref(Arc::clone(guest.device.allocator()).into())];
    let wrong = wrong.into_iter().chain([i64(33), i32(16), i32(0)]).collect();
    let error = guest.call("buffer.assert", wrong).unwrap_err().to_string();
    assert!(error.contains("weights") && error.contains("33"), "{error}");
    guest.call("buffer.allocation.preserve", vec![r(&buffer)]).unwrap();
    assert_eq!(guest.word("buffer.allocation.is_terminal", vec![r(&buffer)]), 0);
    assert_eq!(guest.word("buffer.allocation.discard", vec![r(&buffer)]), 0);
    assert_eq!(guest.word("buffer.allocation.discard", vec![r(&buffer)]), 1);
}

#[test]
fn fences_are_joined_queried_and_failed() {
    let mut guest = Guest::new(TraceSink::default());
    let device: Ref = Arc::clone(&guest.device).into();
    let [a, b] = [0, 1].map(|_| guest.reference("fence.create", vec![r(&device), i64(0)]));
    let joined = guest.reference("fence.join", vec![i64(0), span(3), r(&a), null(), r(&b)]);
    assert!(guest.reference("fence.join", vec![i64(0), span(1), null()]).is_null());
    let reached = guest.reference("fence.create", vec![r(&device), i64(0)]);
    guest.call("fence.signal", vec![r(&reached)]).unwrap();
    let all_reached = guest.reference("fence.join", vec![i64(0), span(2), r(&reached), r(&reached)]);
    assert_eq!((all_reached.is_null(), guest.word("fence.query", vec![r(&all_reached)])), (true, 0));
    assert_eq!(guest.word("fence.query", vec![r(&joined)]), StatusCode::Deferred as u64);
    guest.call("fence.signal", vec![r(&a)]).unwrap();
    let await_joined = || vec![i32(0), i64(0), span(1), r(&joined)];
    assert_eq!(guest.word("fence.await", await_joined()), StatusCode::DeadlineExceeded as u64);
    guest.call("fence.fail", vec![r(&b), i32(StatusCode::DataLoss as i32)]).unwrap();
    assert_eq!(guest.word("fence.query", vec![r(&joined)]), StatusCode::DataLoss as u64);
    assert_eq!(guest.code("fence.await", await_joined()), StatusCode::DataLoss);
    assert_eq!(guest.word("fence.await", vec![i32(0), i64(0), span(2), r(&a), null()]), 0);
}

#[test]
fn an_invocation_is_suspended_until_its_fences_are_reached() {
    let mut guest = Guest::new(TraceSink::default());
    for timeout in [-1, 60_000] {
        let fences = [Arc::new(Fence::new()), Arc::new(Fence::new())];
        let mut buffer = CallBuffer::new();
        let mut arguments = vec![i32(timeout), i64(0), span(2)];
        arguments.extend(fences.iter().map(|fence| Value::Ref(Arc::clone(fence).into())));
        assert_eq!(guest.begin("fence.await", arguments, &mut buffer).unwrap(), Completion::Yielded);
        let export = guest.module.lookup(Linkage::Export, "fence.await").unwrap();
        // Resumed too early, it yields again.
        fences[0].signal().unwrap();
        buffer.clear();
        let early = guest.module.resume_call(&guest.state, export, &mut guest.stack, &mut buffer).unwrap();
        assert_eq!(early, Completion::Yielded);
        let wait = guest.stack.take_wait().unwrap();
        assert!(!wait.poll_ready(core::task::Waker::noop()));
        std::thread::scope(|scope| {
            scope.spawn(|| fences[1].signal().unwrap());
            wait.block(None, &|| false).unwrap();
        });
        assert!(wait.poll_ready(core::task::Waker::noop()));
        let done = guest.module.resume_call(&guest.state, export, &mut guest.stack, &mut buffer).unwrap();
        assert_eq!((done, buffer.words()), (Completion::Done, &[0][..]));
    }
}

#[test]
fn a_suspended_wait_ends_at_its_deadline() {
    let mut guest = Guest::new(TraceSink::default());
    let mut buffer = CallBuffer::new();
    let arguments = vec![i32(20), i64(0), span(1), Value::Ref(Arc::new(Fence::new()).into())];
    assert_eq!(guest.begin("fence.await", arguments, &mut buffer).unwrap(), Completion::Yielded);
    let wait = guest.stack.take_wait().unwrap();
    let end = wait.end().unwrap();
    std::thread::sleep(end.saturating_duration_since(std::time::Instant::now()));
    assert!(wait.poll_ready(core::task::Waker::noop()));
    let export = guest.module.lookup(Linkage::Export, "fence.await").unwrap();
    buffer.clear();
    let done = guest.module.resume_call(&guest.state, export, &mut guest.stack, &mut buffer).unwrap();
    assert_eq!((done, buffer.words()), (Completion::Done, &[StatusCode::DeadlineExceeded as u64][..]));
}

#[test]
fn unsupported_operations_are_named() {
    let mut guest = Guest::new(TraceSink::default());
    let device: Ref = Arc::clone(&guest.device).into();
    let create = vec![r(&device), i64(-1), i64(0), null(), null(), i32(0), i32(1)];
    let error = guest.call("channel.create", create).unwrap_err();
    assert_eq!(error.code(), StatusCode::Unimplemented);
    assert!(error.to_string().contains("collective channel"), "{error}");
    assert_eq!(guest.code("channel.rank_and_count", vec![null()]), StatusCode::InvalidArgument);
    let commands = guest.reference("command_buffer.create", vec![r(&device), i32(0), i32(3), i64(-1), i32(0)]);
    let mut collective = vec![r(&commands), null(), i32(0), i32(0), i32(0), i32(0), null(), null()];
    collective.extend([0; 5].map(i64));
    assert_eq!(guest.code("command_buffer.collective", collective), StatusCode::Unimplemented);
    let alloca = vec![r(&device), i64(-1), null(), null(), i64(3), i32(48), i32(3075), i64(16), i64(0)];
    assert_eq!(guest.code("device.queue.alloca", alloca), StatusCode::Unimplemented);
    let answer = guest.call("device.query.i64", vec![r(&device), text("hal.device"), text("colour")]).unwrap().0;
    assert_eq!(answer, [0, 0]);
    assert_eq!(crate::hal::Channel::TYPE.name(), "hal.channel");
}

#[test]
fn contexts_are_forked_and_memory_is_trimmed() {
    let guest = Guest::new(TraceSink::default());
    drop(guest.buffer(&[0; 100]));
    assert!(guest.device.allocator().statistics().cached > 0);
    guest.module.notify(&*guest.state, Signal::LowMemory).unwrap();
    assert_eq!(guest.device.allocator().statistics().cached, 0);
    let fork = guest.module.fork_state(&*guest.state).unwrap();
    assert!(fork.downcast::<HalState>().is_ok());
}
