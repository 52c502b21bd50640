//! A translated program for pages and other JavaScript: the functions that its WebAssembly exports. `incarnate web` writes the script
//! that calls them.
//!
//! A tensor is a number to the script, which reads and writes its elements in the program's memory. Arguments and results
//! of a call are in [`incarnate_slots`]: a tensor's number, or the bits of a number.
#![allow(unsafe_code, reason = "the names of exported functions")]

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use std::cell::RefCell;

use crate::hal::{BufferParameters, BufferView, ElementType, EncodingType};
use crate::session::{FromValue, Function, Session};
use crate::vm::{Ref, Value};
use crate::{Error, Result};
use incarnate_bytecode::ConventionItem;

/// Exports the program of a translated module, by its path.
#[macro_export]
macro_rules! web_program {
    ($module:path) => {
        /// Loads the module. Returns zero, or one after an error.
        #[unsafe(no_mangle)]
        pub extern "C" fn incarnate_load() -> u32 {
            use $module as program;
            $crate::web::load(|| {
                // With this name alone, no other device is linked.
                let device = $crate::hal::Device::create("local-sync")?;
                Ok(program::Module::load(&device)?.session().clone())
            })
        }
    };
}

#[derive(Debug, Default)]
struct State {
    functions: Vec<Function>,
    session: Option<Session>,
    /// By number less one.
    tensors: Vec<Option<Arc<BufferView>>>,
    slots: Vec<u64>,
    /// Name of the status and message, one after the other on lines of their own.
    error: String,
}

std::thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

/// Calls something with the state, and keeps its error for [`incarnate_error`].
fn with<R>(failed: R, body: impl FnOnce(&mut State) -> Result<R>) -> R {
    STATE.with_borrow_mut(|state| match body(state) {
        Ok(result) => result,
        Err(error) => {
            state.error = alloc::format!("{}\n{error}", error.code().name());
            failed
        }
    })
}

/// What [`web_program`] exports.
pub fn load(create: impl FnOnce() -> Result<Session>) -> u32 {
    with(1, |state| {
        *state = State { session: Some(create()?), ..State::default() };
        Ok(0)
    })
}

/// Returns the number of a function, whose name the caller has written to the slots as bytes; -1 after an error.
#[unsafe(no_mangle)]
pub extern "C" fn incarnate_function(length: usize) -> i32 {
    with(-1, |state| {
        let bytes: Vec<u8> = state.slots.iter().flat_map(|slot| slot.to_le_bytes()).take(length).collect();
        let name = String::from_utf8_lossy(&bytes);
        let session = state.session.as_ref().ok_or_else(|| Error::failed_precondition("the program is not loaded"))?;
        state.functions.push(session.function(&name)?);
        Ok(state.functions.len() as i32 - 1)
    })
}

/// Returns the address of so many slots of eight bytes, which stay until the next call of this function.
#[unsafe(no_mangle)]
pub extern "C" fn incarnate_slots(count: usize) -> usize {
    with(0, |state| {
        state.slots.resize(count.max(1), 0);
        Ok(state.slots.as_ptr().addr())
    })
}

/// Returns the number of a new tensor of the element type, whose shape is in the slots; 0 after an error. Its elements are zero.
#[unsafe(no_mangle)]
pub extern "C" fn incarnate_tensor(element_type: u32, rank: usize) -> u32 {
    with(0, |state| {
        let (element, shape) = (ElementType::from_raw(element_type), state.slots.get(..rank).unwrap_or_default());
        let elements = shape.iter().try_fold(1u64, |count, extent| count.checked_mul(*extent));
        let length = elements.and_then(|elements| element.packed_byte_count(elements));
        let length = length.ok_or_else(|| Error::out_of_range("the tensor is larger than the memory"))?;
        let session = state.session.as_ref().ok_or_else(|| Error::failed_precondition("the program is not loaded"))?;
        let buffer = session.allocator().allocate(BufferParameters::DEVICE, length)?;
        if length > 0 {
            buffer.fill(0, length, 0, 1)?;
        }
        let view = BufferView::new(buffer, shape, element, EncodingType::DENSE_ROW_MAJOR)?;
        Ok(state.add(Arc::new(view)))
    })
}

/// Writes what the script needs of a tensor to the slots: the address of its elements, their length in bytes, the element type, the rank, and
/// the extents. Returns the number of slots; 0 for a tensor that does not exist.
#[unsafe(no_mangle)]
pub extern "C" fn incarnate_describe(tensor: u32) -> usize {
    with(0, |state| {
        let view = Arc::clone(state.tensor(u64::from(tensor))?);
        view.buffer().mark_written();
        let address = view.buffer().fixed_address().map_or(0, |address| address.0.addr());
        let facts =
            [address as u64, view.byte_length(), u64::from(view.element_type().raw()), view.shape().len() as u64];
        state.slots.clear();
        state.slots.extend(facts.into_iter().chain(view.shape().iter().copied()));
        Ok(state.slots.len())
    })
}

/// Forgets a tensor.
#[unsafe(no_mangle)]
pub extern "C" fn incarnate_free(tensor: u32) {
    STATE.with_borrow_mut(|state| {
        if let Some(slot) = (tensor as usize).checked_sub(1).and_then(|index| state.tensors.get_mut(index)) {
            *slot = None;
        }
    });
}

/// Calls a function with the arguments in the slots, and writes its results there. Returns their number; -1 after an error.
#[unsafe(no_mangle)]
pub extern "C" fn incarnate_call(function: usize) -> i32 {
    with(-1, |state| {
        let missing = || Error::not_found("there is no function of this number");
        let function = state.functions.get(function).ok_or_else(missing)?.clone();
        let given = state.slots.iter().zip(function.arguments());
        let arguments = given.map(|(slot, item)| state.argument(*slot, *item)).collect::<Result<Vec<Value>>>()?;
        let results: Vec<Value> = function.call(&arguments[..])?;
        let slots = results.into_iter().map(|value| state.result(value)).collect::<Result<Vec<u64>>>()?;
        state.slots = slots;
        Ok(state.slots.len() as i32)
    })
}

/// Writes the address and the length of the last error's text to two slots, whose address is returned: the name of the status, and on the next
/// lines the message.
#[unsafe(no_mangle)]
pub extern "C" fn incarnate_error() -> usize {
    STATE.with_borrow_mut(|state| {
        state.slots = alloc::vec![state.error.as_ptr().addr() as u64, state.error.len() as u64];
        state.slots.as_ptr().addr()
    })
}

impl State {
    /// Keeps a tensor; returns its number.
    fn add(&mut self, view: Arc<BufferView>) -> u32 {
        let free = self.tensors.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.tensors.push(None);
            self.tensors.len() - 1
        });
        self.tensors[index] = Some(view);
        index as u32 + 1
    }

    fn tensor(&self, number: u64) -> Result<&Arc<BufferView>> {
        let index = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
        let view = index.and_then(|index| self.tensors.get(index)?.as_ref());
        view.ok_or_else(|| Error::invalid_argument("an argument is a tensor that was freed"))
    }

    fn argument(&self, slot: u64, item: ConventionItem) -> Result<Value> {
        Ok(match item {
            ConventionItem::I32 => Value::I32(slot as i32),
            ConventionItem::I64 => Value::I64(slot as i64),
            ConventionItem::F32 => Value::F32(f32::from_bits(slot as u32)),
            ConventionItem::F64 => Value::F64(f64::from_bits(slot)),
            _ => Value::Ref(Ref::from(Arc::clone(self.tensor(slot)?))),
        })
    }

    fn result(&mut self, value: Value) -> Result<u64> {
        Ok(match value {
            Value::None => 0,
            Value::I32(number) => u64::from(number as u32),
            Value::I64(number) => number as u64,
            Value::F32(number) => u64::from(number.to_bits()),
            Value::F64(number) => number.to_bits(),
            Value::Ref(_) => {
                let view = self.in_place(<Arc<BufferView> as FromValue>::from_value(value)?)?;
                u64::from(self.add(view))
            }
        })
    }

    /// The tensor, or a copy of it where its memory may move.
    fn in_place(&self, view: Arc<BufferView>) -> Result<Arc<BufferView>> {
        let (length, session) = (view.byte_length(), self.session.as_ref());
        let Some(session) = session.filter(|_| view.buffer().fixed_address().is_none() && length > 0) else {
            return Ok(view);
        };
        let buffer = session.allocator().allocate(BufferParameters::DEVICE, length)?;
        buffer.copy_from(0, view.buffer(), 0, length)?;
        Ok(Arc::new(BufferView::new(buffer, view.shape(), view.element_type(), view.encoding_type())?))
    }
}
