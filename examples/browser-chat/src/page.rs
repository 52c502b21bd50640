//! The exports of the WebAssembly program, which `worker.js` calls.
//!
//! The worker writes a file or a question to [`input`], and reads a text or the message of an error at [`output`].
#![allow(unsafe_code, reason = "the names of exported and imported functions, and the memory that getrandom passes")]

use std::cell::RefCell;
use std::time::{Duration, UNIX_EPOCH};

use incarnate::runtime::bytecode::Contents;
use incarnate::runtime::vm::clock;
use incarnate::{Error, Result};
use incarnate_text::{Finish, SamplerOptions};

use crate::Chat;

/// Returned by exports after an error, whose message is the output.
const FAILED: i32 = -1;
/// Alignment in bytes of the input: weights with it are used in place.
const ALIGNMENT: usize = incarnate::runtime::hal::MINIMUM_ALIGNMENT;

#[link(wasm_import_module = "page")]
unsafe extern "C" {
    /// Milliseconds since 1970.
    safe fn now() -> f64;
    /// 32 random bits.
    safe fn random() -> u32;
}

#[derive(Debug, Default)]
struct State {
    input: Input,
    chat: Option<Chat>,
    output: String,
    /// The number of tokens of the answer.
    written: usize,
}

/// The bytes that the worker writes.
#[derive(Debug, Default)]
struct Input {
    storage: Vec<u8>,
    /// The index of the first byte, whose address is a multiple of [`ALIGNMENT`].
    start: usize,
}

impl AsRef<[u8]> for Input {
    fn as_ref(&self) -> &[u8] {
        self.storage.get(self.start..).unwrap_or_default()
    }
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

impl State {
    fn chat(&mut self) -> Result<&mut Chat> {
        self.chat.as_mut().ok_or_else(|| Error::failed_precondition("no model is loaded"))
    }
}

/// Calls a function with the state and an empty output. After an error, the output is its message.
fn with_state(function: impl FnOnce(&mut State) -> Result<i32>) -> i32 {
    STATE.with_borrow_mut(|state| {
        state.output.clear();
        function(state).unwrap_or_else(|error| {
            state.output = error.to_string();
            FAILED
        })
    })
}

fn since_epoch() -> Duration {
    Duration::from_secs_f64(now().max(0.0) / 1000.0)
}

/// Creates an input of `length` bytes. Returns its address, or 0 if there is no memory.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn input(length: usize) -> usize {
    STATE.with_borrow_mut(|state| {
        state.input = Input::default();
        let mut storage: Vec<u8> = Vec::new();
        let size = length.saturating_add(ALIGNMENT - 1);
        if storage.try_reserve_exact(size).is_err() {
            return 0;
        }
        let address = storage.as_ptr().expose_provenance();
        let start = address.next_multiple_of(ALIGNMENT) - address;
        storage.resize(start + length, 0);
        state.input = Input { storage, start };
        address + start
    })
}

/// Loads the model from the input, a GGUF file. Returns 0, or [`FAILED`].
#[unsafe(no_mangle)]
pub(crate) extern "C" fn load() -> i32 {
    clock::set(since_epoch);
    with_state(|state| {
        let file = Contents::external(core::mem::take(&mut state.input));
        state.chat = Some(Chat::load(file, || UNIX_EPOCH + since_epoch())?);
        Ok(0)
    })
}

/// Begins the answer to the input, a question in UTF-8. Returns 0, or [`FAILED`].
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ask(temperature: f32, limit: usize, seed: u32) -> i32 {
    with_state(|state| {
        let input = core::mem::take(&mut state.input);
        let question = String::from_utf8_lossy(input.as_ref());
        let options = SamplerOptions { temperature, seed: seed.into(), ..SamplerOptions::default() };
        state.chat()?.ask(&question, options, limit)?;
        Ok(0)
    })
}

/// Reads a part of the question, or generates a token, whose text is the output. Returns 0 if the answer goes on, 1 at its end, 2 if it has as many
/// tokens as were allowed, 3 if the context is full, or [`FAILED`].
#[unsafe(no_mangle)]
pub(crate) extern "C" fn advance() -> i32 {
    with_state(|state| {
        let part = state.chat()?.advance()?;
        (state.output, state.written) = (part.text, part.written);
        Ok(match part.finish {
            None => 0,
            Some(Finish::End | Finish::Stop | Finish::Interrupted) => 1,
            Some(Finish::Length) => 2,
            Some(Finish::Context) => 3,
        })
    })
}

/// Returns the number of tokens of the answer so far.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn written() -> usize {
    STATE.with_borrow(|state| state.written)
}

/// Ends the answer. Returns 0, or [`FAILED`].
#[unsafe(no_mangle)]
pub(crate) extern "C" fn stop() -> i32 {
    with_state(|state| state.chat().map(Chat::stop).map(|()| 0))
}

/// Begins another conversation. Returns 0, or [`FAILED`].
#[unsafe(no_mangle)]
pub(crate) extern "C" fn forget() -> i32 {
    with_state(|state| state.chat().map(Chat::forget).map(|()| 0))
}

/// Returns the address of the output, which stays until the next call of another function.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn output() -> usize {
    STATE.with_borrow(|state| state.output.as_ptr().expose_provenance())
}

/// Returns the number of bytes of the output.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn output_length() -> usize {
    STATE.with_borrow(|state| state.output.len())
}

/// The source of random bytes of the crate getrandom.
#[unsafe(no_mangle)]
unsafe extern "Rust" fn __getrandom_v03_custom(
    target: *mut u8,
    length: usize,
) -> core::result::Result<(), getrandom::Error> {
    for index in 0..length {
        // SAFETY: getrandom passes memory of `length` bytes that nothing else uses.
        unsafe { target.add(index).write(random() as u8) };
    }
    Ok(())
}
