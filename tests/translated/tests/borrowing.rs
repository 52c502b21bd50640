//! Slices as arguments of typed methods: used in place, copied if the program writes to them, and unshared after the
//! call.
#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#![allow(unsafe_code, reason = "promises of what kernels do")]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use incarnate::runtime::hal::InputsOnlyRead;
use incarnate::runtime::session::Input;
use incarnate::{Device, Session, StatusCode, Tensor};
use incarnate_translated_tests::{borrowing_llvm_cpu, borrowing_vmvx, keeping};

/// Elements of a tensor of the models.
const COUNT: usize = 64 * 128;
/// Bytes of that tensor.
const BYTES: u64 = COUNT as u64 * 4;
const DEVICES: [&str; 2] = ["local-sync", "local-task?workers=2"];

/// Elements with the alignment that kernels need.
#[repr(align(64))]
struct Aligned<T>([T; COUNT]);

fn elements(seed: f32) -> Box<Aligned<f32>> {
    let mut elements = Box::new(Aligned([0.0; COUNT]));
    elements.0.iter_mut().zip(0u16..).for_each(|(element, index)| *element = f32::from(index) + seed);
    elements
}

/// Creates an argument of the models' shape.
fn tensor(elements: &Aligned<f32>) -> Input<'_, f32> {
    Input::new(&[64, 128], &elements.0)
}

fn row_of_twos() -> [[f32; 128]; 1] {
    [[2.0; 128]]
}

/// Returns a session builder with the promise that kernels only read arguments.
fn promised(device: &Arc<Device>) -> incarnate::SessionBuilder {
    // SAFETY: the tests call only functions that satisfy the promise.
    let promise = unsafe { InputsOnlyRead::promise() };
    Session::builder().shared_device(device.clone()).borrow_inputs(promise)
}

/// Returns the bytes that a call allocates on a device.
fn allocated<R>(device: &Device, call: impl FnOnce() -> R) -> (R, u64) {
    let before = device.allocator().statistics().allocated;
    let result = call();
    (result, device.allocator().statistics().allocated - before)
}

/// Functions that only read their arguments.
macro_rules! reading {
    ($module:expr, $device:expr, $copied:expr) => {{
        let (module, device, copied) = ($module, $device, $copied);
        for seed in [0.0, 0.5] {
            let (x, y) = (elements(seed), elements(1.0));
            let (scaled, bytes) = allocated(device, || module.scale(tensor(&x)).unwrap());
            assert_eq!((scaled.to_vec().unwrap(), bytes), (x.0.map(|x| x * 2.0).to_vec(), BYTES + copied));
            let (sum, bytes) = allocated(device, || module.add(tensor(&x), tensor(&y)).unwrap());
            let expected: Vec<f32> = x.0.iter().zip(&y.0).map(|(x, y)| x + y).collect();
            assert_eq!((sum.to_vec().unwrap(), bytes), (expected, BYTES + 2 * copied));
            // The same slice twice.
            let (twice, bytes) = allocated(device, || module.add(tensor(&x), tensor(&x)).unwrap());
            assert_eq!((twice.to_vec().unwrap(), bytes), (scaled.to_vec().unwrap(), BYTES + 2 * copied));
            let (row, bytes) = allocated(device, || module.row(tensor(&x), 3).unwrap());
            assert_eq!((row.to_vec().unwrap(), bytes), (x.0[3 * 128..4 * 128].to_vec(), 512 + copied));
            let (checked, bytes) = allocated(device, || module.check(tensor(&x), 2).unwrap());
            assert_eq!((checked.to_vec().unwrap(), bytes), (scaled.to_vec().unwrap(), BYTES + copied));
            // A slice without the alignment that kernels need.
            let shifted: Vec<f32> = [&[0.0; 1], &x.0[..]].concat();
            let at = if shifted.as_ptr().addr() % 64 == 60 { 0 } else { 1 };
            let (other, bytes) =
                allocated(device, || module.scale(Input::new(&[64, 128], &shifted[at..][..COUNT])).unwrap());
            assert_eq!((other.to_vec().unwrap()[1], bytes), (shifted[at + 1] * 2.0, 2 * BYTES));
        }
    }};
}

#[test]
fn slices_are_read_in_place() {
    for device in DEVICES {
        let device = &Device::create(device).unwrap();
        reading!(borrowing_vmvx::Module::load(device).unwrap(), device, 0);
        reading!(borrowing_llvm_cpu::Module::load_with(promised(device)).unwrap(), device, 0);
        // Without the promise machine code may write.
        reading!(borrowing_llvm_cpu::Module::load(device).unwrap(), device, BYTES);
    }
}

/// Functions that write to their arguments.
macro_rules! writing {
    ($module:expr) => {{
        let module = $module;
        let x = elements(0.5);
        let replaced = module.replace(tensor(&x), &row_of_twos(), 5).unwrap().to_vec().unwrap();
        let mut expected = x.0;
        expected[5 * 128..6 * 128].fill(2.0);
        assert_eq!(replaced, expected);
        let numbers = Box::new(Aligned(std::array::from_fn(|index| (index as i32 * 2741) % 8192)));
        let before = numbers.0;
        let sorted = module.sort(Input::new(&[64, 128], &numbers.0)).unwrap();
        let mut expected = before;
        expected.chunks_mut(128).for_each(<[i32]>::sort_unstable);
        assert_eq!(sorted.to_vec().unwrap(), expected);
        let sums = module.accumulate(tensor(&x), &[[0.5; 8]; 64], &[[1.0; 128]; 8]).unwrap();
        assert_eq!(sums.to_vec().unwrap(), x.0.map(|x| x + 4.0));
        assert!(numbers.0 == before && x.0 == elements(0.5).0, "a program wrote to its caller's memory");
    }};
}

#[test]
fn programs_that_write_to_arguments_write_to_copies() {
    for device in DEVICES {
        let device = &Device::create(device).unwrap();
        writing!(borrowing_vmvx::Module::load(device).unwrap());
        writing!(borrowing_llvm_cpu::Module::load(device).unwrap());
    }
}

/// Objects that outlive the call in which a slice was borrowed.
macro_rules! keeping {
    ($module:expr) => {{
        let module = $module;
        let expected = elements(0.5).0;
        let mut x = elements(0.5);
        let mut same: Tensor<f32> = module.same(tensor(&x)).unwrap();
        module.keep(tensor(&x)).unwrap();
        x.0.fill(-1.0);
        drop(x);
        assert_eq!(same.as_slice().unwrap(), expected);
        // The caller owns it like any other result.
        same.write(&[3.0; COUNT]).unwrap();
        assert_eq!(same.to_vec().unwrap(), [3.0; COUNT]);
        assert_eq!(module.scale(&same).unwrap().to_vec().unwrap(), [6.0; COUNT]);
        assert_eq!(module.kept().unwrap().to_vec().unwrap(), expected);
        // A call that fails before it starts.
        let x = elements(0.5);
        let error = module.add(tensor(&x), &[[1.0; 4]; 4]).unwrap_err();
        assert_eq!(error.code(), StatusCode::InvalidArgument);
    }};
}

#[test]
fn results_and_state_outlive_the_slices() {
    for device in DEVICES {
        let device = &Device::create(device).unwrap();
        keeping!(borrowing_vmvx::Module::load(device).unwrap());
        keeping!(borrowing_llvm_cpu::Module::load(device).unwrap());
        keeping!(borrowing_llvm_cpu::Module::load_with(promised(device)).unwrap());
    }
}

/// Calls that fail while their dispatch runs or is pending.
macro_rules! failing {
    ($module:expr) => {{
        let module = $module;
        for round in 0..3 {
            let mut x = elements(0.5);
            let error = module.check(tensor(&x), 2000 + round).unwrap_err();
            assert!(error.to_string().contains("too many rounds"), "{error}");
            x.0.fill(f32::NAN);
            drop(x);
            let x = elements(1.0);
            assert_eq!(module.check(tensor(&x), 1).unwrap().to_vec().unwrap(), x.0);
        }
    }};
}

#[test]
fn dispatches_of_failed_calls_leave_the_slice_alone() {
    for device in DEVICES {
        let device = &Device::create(device).unwrap();
        failing!(borrowing_vmvx::Module::load(device).unwrap());
        failing!(borrowing_llvm_cpu::Module::load_with(promised(device)).unwrap());
    }
}

#[test]
fn a_program_keeps_copies_of_borrowed_arguments() {
    let device = Device::create("local-sync").unwrap();
    let module = keeping::Module::load_with(promised(&device)).unwrap();
    let expected = elements(0.5).0;
    for fails in [false, true] {
        let mut x = elements(0.5);
        if fails {
            assert!(module.keep_and_fail(&x.0).unwrap_err().to_string().contains("as told"));
        } else {
            module.keep_tensor(&x.0).unwrap();
        }
        x.0.fill(-1.0);
        drop(x);
        assert_eq!(module.kept_tensor().unwrap().to_vec().unwrap(), expected);
    }
}

#[test]
fn threads_lend_at_once() {
    for device in DEVICES {
        let device = &Device::create(device).unwrap();
        let module = borrowing_llvm_cpu::Module::load_with(promised(device)).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let module = &module;
                scope.spawn(move || {
                    for round in 0..50u8 {
                        let mut x = elements(f32::from(thread) + f32::from(round) / 2.0);
                        let expected = x.0.map(|x| x * 2.0);
                        let (same, scaled) = (module.same(tensor(&x)).unwrap(), module.scale(tensor(&x)).unwrap());
                        let kept = x.0;
                        x.0.fill(-1.0);
                        drop(x);
                        assert_eq!(scaled.to_vec().unwrap(), expected);
                        assert_eq!(same.to_vec().unwrap(), kept);
                    }
                });
            }
        });
    }
}
