//! Sessions after hostile modules: a call that fails leaves its session usable, on both devices.
#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};

use incarnate_runtime::bytecode::assemble;
use incarnate_runtime::session::{Session, Tensor};
use incarnate_runtime::vm::Limits;

/// Calls of each function, so that what a failure leaves behind meets the next one.
const ROUNDS: usize = 3;

/// A function that is added to each hostile module: the sum of the numbers up to its argument.
const SUM: &str = "
vm.export @sum
vm.func @sum(%i0: i32) -> (i32) {
^bb0:
  %i1 = vm.const.i32.zero
  %i2 = vm.const.i32 1
  vm.br ^bb1()
^bb1:
  %i1 = vm.add.i32 %i1, %i0
  %i0 = vm.sub.i32 %i0, %i2
  vm.cond_br %i0, ^bb1(), ^bb2()
^bb2:
  vm.return %i1
}
";

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The names and the texts of the modules of tests/hostile that export `f`.
fn sources() -> Vec<(String, String)> {
    let entries = fs::read_dir(folder("hostile")).expect("the hostile modules");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let text = |path: PathBuf| {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        (name, fs::read_to_string(path).expect("a source"))
    };
    let mut sources: Vec<_> = paths.map(text).filter(|(_, text)| text.contains("\nvm.export @f\n")).collect();
    assert!(sources.len() >= 30, "{}", sources.len());
    sources.sort();
    sources
}

/// A session of a hostile module with [`SUM`], and of a model that multiplies two vectors on the device.
fn session(text: &str, device: &str) -> Session {
    Session::builder()
        .device(device)
        .untrusted()
        .limits(Limits { fuel: Some(100_000), ..Limits::portable() })
        .module_bytes(assemble(&format!("{text}{SUM}")).expect("sound assembly"))
        .module_file(folder("models/simple_mul/vmvx.vmfb"))
        .build()
        .expect("a session")
}

/// Calls the hostile function; one whose source says `// expect: CODE` must fail with it.
fn call_hostile(session: &Session, name: &str, text: &str) {
    // Asynchronous functions get their fences.
    let called = session.function("m.f").expect("the function").call::<()>(());
    if let Some(code) = text.lines().find_map(|line| line.strip_prefix("// expect: ")) {
        let error = called.err().unwrap_or_else(|| panic!("{name} succeeds"));
        assert_eq!(error.code().to_string(), code, "{name}: {error}");
    }
}

fn assert_usable(session: &Session, name: &str) {
    let sum = session.function("m.sum").expect("the function");
    assert_eq!(sum.call::<i32>((100,)).unwrap_or_else(|error| panic!("after {name}: {error}")), 5050, "after {name}");
    let tensor = |values: [f32; 4]| Tensor::new(session, &[4], &values).expect("a tensor");
    let product = session.function("module.simple_mul").expect("the function");
    let product: Tensor<f32> = product
        .call((tensor([1.0, 2.0, 3.0, 4.0]), tensor([2.0; 4])))
        .unwrap_or_else(|error| panic!("after {name}: {error}"));
    assert_eq!(product.to_vec().expect("the elements"), [2.0, 4.0, 6.0, 8.0], "after {name}");
}

#[test]
fn sessions_stay_usable_after_hostile_calls() {
    for (name, text) in sources() {
        for device in ["local-sync", "local-task"] {
            let session = session(&text, device);
            for _ in 0..ROUNDS {
                call_hostile(&session, &name, &text);
                assert_usable(&session, &name);
            }
        }
    }
}
