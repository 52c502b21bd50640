//! Interpreted models on local-task, called by many threads. Every call has its own input, so that a result of another
//! call's input shows.
//!
//! `.ci/stress` runs it with random delays (`--cfg perturb`). Environment variables set the number of calls
//! (`INCARNATE_STRESS_CALLS`), of threads (`INCARNATE_STRESS_CALLERS`), of workers (`INCARNATE_STRESS_WORKERS`), and
//! select programs by a substring of their names (`INCARNATE_STRESS_PROGRAMS`).
#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../../tests/support/native.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod native;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use incarnate_runtime::Result;
use incarnate_runtime::hal::Device;
use incarnate_runtime::session::{Function, Session, Tensor};

/// The default number of calls.
const CALLS: u64 = 3000;
const CALLERS: u64 = 8;
const WORKERS: u64 = 2;
/// Most wrong results that are printed.
const PRINTED: usize = 20;

/// Calls a function with inputs of a scale and returns all elements of its result.
type Call = fn(&Session, &Function, f32) -> Result<Vec<f32>>;

/// The dependence of the result on the scale.
#[derive(Clone, Copy, PartialEq)]
enum Dependence {
    /// Each element is an exact multiple of the scale.
    Linear,
    /// The same, except for the first element of each row of four, which is constant.
    LinearButFirst,
    /// Local-sync computes the expected result for each call.
    Other,
}

struct Program {
    file: &'static str,
    function: &'static str,
    call: Call,
    dependence: Dependence,
}

/// A program on a device, and its results on local-sync.
struct Subject {
    program: &'static Program,
    session: Session,
    function: Function,
    reference: Session,
    reference_function: Function,
    /// The result for the scale of one.
    unit: Vec<f32>,
}

const fn program(file: &'static str, function: &'static str, call: Call, dependence: Dependence) -> Program {
    Program { file, function, call, dependence }
}

/// Programs with one and with several dispatches, with static and dynamic shapes, in machine code and bytecode.
static PROGRAMS: &[Program] = &[
    program("dynamic/llvm-cpu.vmfb", "scale_rows", scale_rows, Dependence::Linear),
    #[cfg(target_arch = "x86_64")]
    program("dynamic/llvm-cpu-3.0.0.vmfb", "scale_rows", scale_rows, Dependence::Linear),
    program("dynamic/vmvx.vmfb", "scale_rows", scale_rows, Dependence::Linear),
    program("dynamic/llvm-cpu.vmfb", "matmul", matmul, Dependence::Linear),
    program("dynamic/vmvx.vmfb", "matmul", small_matmul, Dependence::Linear),
    program("dynamic/vmvx-microkernels.vmfb", "matmul", small_matmul, Dependence::Linear),
    program("dynamic/llvm-cpu.vmfb", "normalise", normalise, Dependence::LinearButFirst),
    #[cfg(target_arch = "x86_64")]
    program("dynamic/llvm-cpu-3.0.0.vmfb", "normalise", normalise, Dependence::LinearButFirst),
    program("dynamic/vmvx.vmfb", "normalise", normalise, Dependence::LinearButFirst),
    program("mlp/llvm-cpu.vmfb", "mlp", mlp, Dependence::Other),
    program("mlp/vmvx.vmfb", "mlp", mlp, Dependence::Other),
    program("attention/llvm-cpu.vmfb", "attention", attention, Dependence::Other),
    program("convolution/llvm-cpu.vmfb", "convolution", convolution, Dependence::Other),
];

/// Returns the scale of a call, unique among ten million calls: an integer of 18 bits times a power of two, so that
/// products with integers of up to six bits are exact.
/// products with whole numbers of up to six bits are exact.
fn scale(call: u64) -> f32 {
    const MANTISSAS: u64 = 1 << 17;
    let exponent = (call / MANTISSAS % 80) as i32 - 20;
    (MANTISSAS + call % MANTISSAS) as f32 * 2f32.powi(exponent)
}

/// Integers from -7 to 7, without zero.
fn small(index: usize) -> f32 {
    let number = (index * 5 % 14) as f32 - 7.0;
    if number >= 0.0 { number + 1.0 } else { number }
}

fn scale_rows(session: &Session, function: &Function, scale: f32) -> Result<Vec<f32>> {
    const ROWS: usize = 300;
    let elements: Vec<f32> = (0..4 * ROWS).map(|index| small(index) * scale).collect();
    let rows = Tensor::new(session, &[ROWS as u64, 4], &elements)?;
    let factors = Tensor::new(session, &[4], &[1.0f32, -2.0, 3.0, 5.0])?;
    function.call::<Tensor<f32>>((&rows, &factors))?.to_vec()
}

/// Multiplies matrices of `[m, k]` and `[k, n]` elements.
fn product(session: &Session, function: &Function, [m, k, n]: [u64; 3], scale: f32) -> Result<Vec<f32>> {
    let sign = |index: u64| (index * 7 % 11 % 3) as f32 - 1.0;
    let left: Vec<f32> = (0..m * k).map(|index| sign(index) * scale).collect();
    let right: Vec<f32> = (0..k * n).map(sign).collect();
    let left = Tensor::new(session, &[m, k], &left)?;
    let right = Tensor::new(session, &[k, n], &right)?;
    function.call::<Tensor<f32>>((&left, &right))?.to_vec()
}

fn matmul(session: &Session, function: &Function, scale: f32) -> Result<Vec<f32>> {
    product(session, function, [96, 32, 64], scale)
}

/// Smaller inputs for bytecode kernels, which are a hundred times slower.
fn small_matmul(session: &Session, function: &Function, scale: f32) -> Result<Vec<f32>> {
    product(session, function, [33, 4, 17], scale)
}

fn normalise(session: &Session, function: &Function, scale: f32) -> Result<Vec<f32>> {
    const ROWS: usize = 300;
    // The greatest element of a row, by which all are divided.
    let greatest = 2f32.powi(100);
    let element = |index: usize| if index.is_multiple_of(4) { greatest } else { small(index) * scale };
    let elements: Vec<f32> = (0..4 * ROWS).map(element).collect();
    let rows = Tensor::new(session, &[ROWS as u64, 4], &elements)?;
    let (quotients, _): (Tensor<f32>, i64) = function.call((&rows,))?;
    quotients.to_vec()
}

/// Calls a nonlinear function of one tensor.
fn network(session: &Session, function: &Function, shape: &[u64], scale: f32) -> Result<Vec<f32>> {
    let count = shape.iter().product::<u64>() as usize;
    // Between 1/2 and 1, and different from those of the calls before and after.
    let offset = f32::from_bits(scale.to_bits().wrapping_mul(0x9e37_79b1) >> 9 | 0x3f00_0000);
    let elements: Vec<f32> = (0..count).map(|index| small(index) * 0.125 * offset).collect();
    let input = Tensor::new(session, shape, &elements)?;
    function.call::<Tensor<f32>>((&input,))?.to_vec()
}

fn mlp(session: &Session, function: &Function, scale: f32) -> Result<Vec<f32>> {
    network(session, function, &[8, 32], scale)
}

fn attention(session: &Session, function: &Function, scale: f32) -> Result<Vec<f32>> {
    network(session, function, &[12, 32], scale)
}

fn convolution(session: &Session, function: &Function, scale: f32) -> Result<Vec<f32>> {
    network(session, function, &[2, 16, 16, 3], scale)
}

impl Subject {
    fn load(program: &'static Program, device: &Arc<Device>) -> Result<Subject> {
        let path = native::native_file(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models"), program.file);
        let session = Session::builder().shared_device(Arc::clone(device)).module_file(&path).build()?;
        let reference = Session::load("local-sync", &path)?;
        let (function, reference_function) =
            (session.function(program.function)?, reference.function(program.function)?);
        let unit = (program.call)(&reference, &reference_function, 1.0)?;
        Ok(Subject { program, session, function, reference, reference_function, unit })
    }

    fn expected(&self, scale: f32) -> Result<Vec<f32>> {
        match self.program.dependence {
            Dependence::Linear => Ok(self.unit.iter().map(|element| element * scale).collect()),
            Dependence::LinearButFirst => {
                let element = |(index, element): (usize, &f32)| {
                    if index.is_multiple_of(4) { *element } else { element * scale }
                };
                Ok(self.unit.iter().enumerate().map(element).collect())
            }
            Dependence::Other => (self.program.call)(&self.reference, &self.reference_function, scale),
        }
    }

    /// Calls the function once and describes the error in its result, if there is one.
    fn fault(&self, number: u64) -> Option<String> {
        let scale = scale(number);
        let result = (self.program.call)(&self.session, &self.function, scale);
        let expected = self.expected(scale);
        let Program { file, function, .. } = self.program;
        let (result, expected) = match (result, expected) {
            (Ok(result), Ok(expected)) => (result, expected),
            (Err(error), _) | (_, Err(error)) => return Some(format!("call {number}, {file} @{function}: {error}")),
        };
        if result.len() != expected.len() {
            return Some(format!("call {number}, {file} @{function}: {} elements", result.len()));
        }
        let wrong: Vec<usize> = (0..result.len()).filter(|index| result[*index] != expected[*index]).collect();
        let (first, last) = (*wrong.first()?, *wrong.last()?);
        Some(format!(
            "call {number}, {file} @{function}: {} of {} elements are wrong, from {first} to {last}: element {first} is {}, \
             expected {}",
            wrong.len(),
            result.len(),
            result[first],
            expected[first]
        ))
    }
}

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

#[test]
fn every_call_gets_the_result_of_its_own_input() {
    let calls = variable("INCARNATE_STRESS_CALLS", CALLS);
    let callers = variable("INCARNATE_STRESS_CALLERS", CALLERS);
    let workers = variable("INCARNATE_STRESS_WORKERS", WORKERS);
    let wanted = std::env::var("INCARNATE_STRESS_PROGRAMS").unwrap_or_default();
    let registry = incarnate_runtime::hal::DriverRegistry::default();
    let device = registry.create_device(&format!("local-task?workers={workers}"), Default::default()).unwrap();
    let chosen = PROGRAMS.iter().filter(|program| format!("{}@{}", program.file, program.function).contains(&wanted));
    let subjects: Vec<Subject> = chosen.map(|program| Subject::load(program, &device).unwrap()).collect();
    let next = AtomicU64::new(0);
    let faults: Vec<String> = std::thread::scope(|scope| {
        let work = || {
            let numbers = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
            let numbers = numbers.take_while(|number| *number < calls);
            numbers.filter_map(|number| subjects[number as usize % subjects.len()].fault(number)).collect::<Vec<_>>()
        };
        let threads: Vec<_> = (0..callers).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    println!("{} of {calls} calls are wrong", faults.len());
    let printed = faults.iter().take(PRINTED).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(faults.is_empty(), "{} of {calls} calls are wrong:\n{printed}", faults.len());
}

/// The comparison must be able to detect errors.
#[test]
fn results_of_another_input_are_noticed() {
    let device =
        Session::load("local-sync", Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models/mlp/vmvx.vmfb"));
    let device = Arc::clone(&device.unwrap().devices()[0]);
    for program in PROGRAMS {
        let mut subject = Subject::load(program, &device).unwrap();
        assert_eq!(subject.fault(5), None, "{}", program.file);
        if program.dependence != Dependence::Other {
            let last = subject.unit.len() - 1;
            subject.unit[last] += 1.0;
            assert!(subject.fault(5).unwrap().contains("1 of "), "{}", program.file);
        } else {
            let results = [5, 6].map(|call| subject.expected(scale(call)).unwrap());
            assert_ne!(results[0], results[1], "{}", program.file);
        }
    }
}
