//! `!vm.list`: a growable sequence of primitives, of references, or of any values.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::cycles::{Node, break_cycles};
use super::ledger::{Charge, Ledger};
use super::ref_type::RefType;
use super::reference::{Ref, Value};
use super::sync::Lock;
use super::value_type::ValueType;
use crate::{Error, Result};

/// What an element of a list counts as, in bytes.
pub(super) const LIST_ELEMENT_BYTES: u64 = 16;

/// A list; its element type is fixed at creation.
pub struct List {
    element_type: ValueType,
    inner: Lock<Inner>,
}

struct Inner {
    elements: Elements,
    charge: Charge,
    /// The list whose drop drops this one; see [`drop_nested`].
    parent: Option<Arc<List>>,
}

/// The elements, stored by type. 8- and 16-bit integers are stored as 32-bit ones and narrowed when set.
enum Elements {
    I32(Vec<i32>),
    I64(Vec<i64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Refs(Vec<Ref>),
    Any(Vec<Value>),
}

macro_rules! each_kind {
    ($elements:expr, $vec:ident => $body:expr) => {
        match $elements {
            Elements::I32($vec) => $body,
            Elements::I64($vec) => $body,
            Elements::F32($vec) => $body,
            Elements::F64($vec) => $body,
            Elements::Refs($vec) => $body,
            Elements::Any($vec) => $body,
        }
    };
}

impl Elements {
    fn len(&self) -> usize {
        each_kind!(self, vec => vec.len())
    }

    fn capacity(&self) -> usize {
        each_kind!(self, vec => vec.capacity())
    }

    fn element_size(&self) -> usize {
        fn size<T>(_: &Vec<T>) -> usize {
            size_of::<T>()
        }
        each_kind!(self, vec => size(vec))
    }

    fn reserve(&mut self, capacity: usize) -> Result<()> {
        each_kind!(self, vec => vec.try_reserve_exact(capacity.saturating_sub(vec.len())))
            .map_err(|_| Error::resource_exhausted(alloc::format!("no memory for a list of {capacity} elements")))
    }

    #[expect(clippy::disallowed_methods, reason = "`List::resize` reserves the memory")]
    fn resize(&mut self, length: usize) {
        each_kind!(self, vec => vec.resize(length, Default::default()));
    }
}

impl List {
    /// The type's name in modules.
    pub const TYPE: RefType = RefType::LIST;

    /// An empty list with capacity for `capacity` elements.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED where memory or the ledger is used up.
    pub fn new(element_type: ValueType, capacity: u32, ledger: Option<&Ledger>) -> Result<Arc<List>> {
        let elements = match element_type {
            ValueType::I8 | ValueType::I16 | ValueType::I32 => Elements::I32(Vec::new()),
            ValueType::I64 => Elements::I64(Vec::new()),
            ValueType::F32 => Elements::F32(Vec::new()),
            ValueType::F64 => Elements::F64(Vec::new()),
            ValueType::Ref(_) | ValueType::AnyRef => Elements::Refs(Vec::new()),
            ValueType::Any => Elements::Any(Vec::new()),
        };
        let charge = ledger.map_or(Ok(Charge::none()), |ledger| ledger.charge(0))?;
        let list = List { element_type, inner: Lock::new(Inner { elements, charge, parent: None }) };
        list.reserve(capacity)?;
        let list = Arc::new(list);
        if let Some(ledger) = ledger.filter(|_| list.can_hold_lists()) {
            ledger.remember(|| Arc::downgrade(&list) as _, break_cycles::<List>)?;
        }
        Ok(list)
    }

    fn can_hold_lists(&self) -> bool {
        match self.element_type {
            ValueType::Any | ValueType::AnyRef => true,
            element_type => element_type == ValueType::Ref(List::TYPE),
        }
    }

    /// What the list holds.
    #[must_use]
    pub fn element_type(&self) -> ValueType {
        self.element_type
    }

    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.lock().elements.len()
    }

    /// True where the list has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of its elements.
    pub(crate) fn extent(&self) -> u64 {
        (self.len() as u64).saturating_mul(LIST_ELEMENT_BYTES)
    }

    /// Reserves capacity for `capacity` elements in total.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED where memory or the ledger is used up.
    pub fn reserve(&self, capacity: u32) -> Result<()> {
        self.inner.lock().reserve(capacity as usize, None)
    }

    /// Reserves capacity for a program. A list of the host program that grows is charged to the program's ledger from then on.
    ///
    /// # Errors
    /// Those of [`List::reserve`].
    pub fn reserve_for(&self, ledger: &Ledger, capacity: u32) -> Result<()> {
        self.inner.lock().reserve(capacity as usize, Some(ledger))
    }

    /// Changes the number of elements; new ones are zero, null or nothing.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED where memory or the ledger is used up.
    pub fn resize(&self, length: u32) -> Result<()> {
        self.inner.lock().resize(length as usize, None)
    }

    /// Changes the number of elements for a program. A list of the host program that grows is charged to the program's ledger
    /// from then on.
    ///
    /// # Errors
    /// Those of [`List::resize`].
    pub fn resize_for(&self, ledger: &Ledger, length: u32) -> Result<()> {
        self.inner.lock().resize(length as usize, Some(ledger))
    }

    /// The element at `index`.
    ///
    /// # Errors
    /// OUT_OF_RANGE.
    pub fn get(&self, index: u32) -> Result<Value> {
        let inner = self.inner.lock();
        let at = index as usize;
        let value = match &inner.elements {
            Elements::I32(vec) => vec.get(at).copied().map(Value::I32),
            Elements::I64(vec) => vec.get(at).copied().map(Value::I64),
            Elements::F32(vec) => vec.get(at).copied().map(Value::F32),
            Elements::F64(vec) => vec.get(at).copied().map(Value::F64),
            Elements::Refs(vec) => vec.get(at).cloned().map(Value::Ref),
            Elements::Any(vec) => vec.get(at).cloned(),
        };
        value.ok_or_else(|| out_of_range(index, inner.elements.len()))
    }

    /// The reference at `index`, or null where it is of another type than expected; taken out of the list where `take` is
    /// set.
    ///
    /// # Errors
    /// OUT_OF_RANGE; INVALID_ARGUMENT where the element is a primitive.
    pub fn get_ref(&self, index: u32, expected: ValueType, take: bool) -> Result<Ref> {
        let mut inner = self.inner.lock();
        let (at, length) = (index as usize, inner.elements.len());
        let mut null = Ref::Null;
        let slot = match &mut inner.elements {
            Elements::Refs(vec) => vec.get_mut(at),
            Elements::Any(vec) => match vec.get_mut(at) {
                Some(Value::Ref(reference)) => Some(reference),
                Some(Value::None) => Some(&mut null),
                Some(_) => return Err(Error::invalid_argument(alloc::format!("list element {index} is no reference"))),
                None => None,
            },
            _ => {
                return Err(Error::invalid_argument(alloc::format!("list of {} has no references", self.element_type)));
            }
        };
        let slot = slot.ok_or_else(|| out_of_range(index, length))?;
        let found = if take { core::mem::take(slot) } else { slot.clone() };
        drop(inner);
        Ok(if check_ref(&found, expected).is_ok() { found } else { Ref::Null })
    }

    /// Replaces the element at `index`; primitives are converted to the element type.
    ///
    /// # Errors
    /// OUT_OF_RANGE; INVALID_ARGUMENT where a reference meets a list of primitives or of another type, or a primitive a
    /// list of references.
    pub fn set(&self, index: u32, value: Value) -> Result<()> {
        let mut inner = self.inner.lock();
        let (at, length) = (index as usize, inner.elements.len());
        if at >= length {
            return Err(out_of_range(index, length));
        }
        let mismatch =
            || Error::invalid_argument(alloc::format!("a list of {} cannot hold the value", self.element_type));
        // What is replaced may own a list that leads back here, so it is dropped after the lock.
        let mut replaced = Value::None;
        match (&mut inner.elements, value) {
            (Elements::Any(vec), value) => replaced = core::mem::replace(&mut vec[at], value),
            (Elements::Refs(vec), Value::Ref(reference)) => {
                check_ref(&reference, self.element_type)?;
                replaced = Value::Ref(core::mem::replace(&mut vec[at], reference));
            }
            (Elements::I32(vec), value) => {
                let wide = value.to_i32().ok_or_else(mismatch)?;
                vec[at] = match self.element_type {
                    ValueType::I8 => i32::from(wide as i8),
                    ValueType::I16 => i32::from(wide as i16),
                    _ => wide,
                };
            }
            (Elements::I64(vec), value) => vec[at] = value.to_i64().ok_or_else(mismatch)?,
            (Elements::F32(vec), value) => vec[at] = value.to_f32().ok_or_else(mismatch)?,
            (Elements::F64(vec), value) => vec[at] = value.to_f64().ok_or_else(mismatch)?,
            (Elements::Refs(_), _) => return Err(mismatch()),
        }
        drop(inner);
        drop(replaced);
        Ok(())
    }

    /// Appends an element.
    ///
    /// # Errors
    /// Those of [`List::resize`] and [`List::set`].
    pub fn push(&self, value: Value) -> Result<()> {
        let length = self.len() as u32;
        self.resize(length + 1)?;
        self.set(length, value)
    }
}

impl Node for List {
    fn next(&self, from: usize) -> Option<(usize, Arc<List>)> {
        let inner = self.inner.lock();
        let as_list = |reference: &Ref| if let Ref::List(list) = reference { Some(Arc::clone(list)) } else { None };
        let as_value_list = |value: &Value| if let Value::Ref(reference) = value { as_list(reference) } else { None };
        match &inner.elements {
            Elements::Refs(vec) => first(vec, from, as_list),
            Elements::Any(vec) => first(vec, from, as_value_list),
            _ => None,
        }
    }

    fn set_null(&self, at: usize) {
        let mut inner = self.inner.lock();
        let former = match &mut inner.elements {
            Elements::Refs(vec) => vec.get_mut(at).map(core::mem::take),
            Elements::Any(vec) => match vec.get_mut(at) {
                Some(Value::Ref(reference)) => Some(core::mem::take(reference)),
                _ => None,
            },
            _ => None,
        };
        // It may be the last reference to a list that leads here.
        drop(inner);
        drop(former);
    }
}

/// Returns the index and the result of the first element, from an index, for which the closure returns one.
fn first<T, R>(elements: &[T], from: usize, find: impl Fn(&T) -> Option<R>) -> Option<(usize, R)> {
    elements.iter().enumerate().skip(from).find_map(|(at, element)| Some((at, find(element)?)))
}

impl Inner {
    fn resize(&mut self, length: usize, ledger: Option<&Ledger>) -> Result<()> {
        self.reserve(length, ledger)?;
        self.elements.resize(length);
        Ok(())
    }

    /// Reserves capacity. `ledger` is that of the program that asks for it: what the host did not charge, it may not grow
    /// without a charge.
    fn reserve(&mut self, capacity: usize, ledger: Option<&Ledger>) -> Result<()> {
        let before = self.elements.capacity();
        if capacity <= before {
            return Ok(());
        }
        // Growth by halves, as a program may append one by one.
        let capacity = capacity.max(before + before / 2);
        let bytes = |elements: usize| (elements as u64).saturating_mul(self.elements.element_size() as u64);
        let (before, after) = (bytes(before), bytes(capacity));
        // A list that does not grow is not charged from then on: what is new returns its charge.
        let mut new = ledger.filter(|_| self.charge.is_none()).map(|ledger| ledger.charge(before)).transpose()?;
        let charge = new.as_mut().unwrap_or(&mut self.charge);
        // The elements move: both copies exist for a moment.
        charge.grow(after)?;
        let reserved = self.elements.reserve(capacity);
        charge.shrink(if reserved.is_ok() { before } else { after });
        if let Some(new) = new.filter(|_| reserved.is_ok()) {
            self.charge = new;
        }
        reserved
    }
}

impl Inner {
    /// Removes the last element and returns it; a primitive as null.
    fn pop_reference(&mut self) -> Option<Ref> {
        match &mut self.elements {
            Elements::Refs(vec) => vec.pop(),
            Elements::Any(vec) => {
                vec.pop().map(|value| if let Value::Ref(reference) = value { reference } else { Ref::Null })
            }
            _ => None,
        }
    }
}

impl Drop for List {
    fn drop(&mut self) {
        let inner = self.inner.get_mut();
        if matches!(inner.elements, Elements::Refs(_) | Elements::Any(_)) {
            drop_nested(inner);
        }
    }
}

/// Drops the elements of a list, and those of lists that nothing else refers to, without recursion: programs nest lists
/// as deeply as they like. A nested list keeps the one that it was taken from until its own elements are dropped.
fn drop_nested(outermost: &mut Inner) {
    let mut nested: Option<Arc<List>> = None;
    loop {
        let element = match &nested {
            Some(list) => list.inner.lock().pop_reference(),
            None => outermost.pop_reference(),
        };
        match element {
            // Without other references the list is dropped here; its elements are next.
            Some(Ref::List(list)) if Arc::strong_count(&list) == 1 => {
                list.inner.lock().parent = nested.take();
                nested = Some(list);
            }
            Some(_) => {}
            None => match nested.take() {
                Some(list) => nested = list.inner.lock().parent.take(),
                None => return,
            },
        }
    }
}

/// Checks a reference against the type that a list, a global or a cast asks for; null is of every type.
#[inline]
pub fn check_ref(reference: &Ref, expected: ValueType) -> Result<()> {
    match (expected, reference.ref_type()) {
        (ValueType::AnyRef | ValueType::Any, _) | (_, None) => Ok(()),
        (ValueType::Ref(expected), Some(found)) if expected == found => Ok(()),
        (expected, Some(found)) => Err(mismatch(expected, found)),
    }
}

#[cold]
fn mismatch(expected: ValueType, found: RefType) -> Error {
    Error::invalid_argument(alloc::format!("reference to a !{} where a {expected} is expected", found.name()))
}

#[cold]
fn out_of_range(index: u32, length: usize) -> Error {
    Error::out_of_range(alloc::format!("index {index} of a list of {length} elements"))
}

impl fmt::Debug for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "!vm.list<{}> ({} elements)", self.element_type, self.len())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::StatusCode;

    #[test]
    fn primitives_are_converted_to_the_element_type() {
        let list = List::new(ValueType::I8, 0, None).unwrap();
        list.push(Value::I32(300)).unwrap();
        assert_eq!(list.get(0).unwrap().to_i32(), Some(44));
        assert_eq!(list.get(1).unwrap_err().code(), StatusCode::OutOfRange);
        assert_eq!(list.set(0, Value::Ref(Ref::Null)).unwrap_err().code(), StatusCode::InvalidArgument);
    }

    #[test]
    fn typed_references_are_checked() {
        let list = List::new(ValueType::Ref(List::TYPE), 1, None).unwrap();
        list.push(Value::Ref(Ref::List(List::new(ValueType::Any, 0, None).unwrap()))).unwrap();
        let buffer = super::super::Buffer::zeroed(1, 0, None).unwrap();
        assert_eq!(list.set(0, Value::Ref(buffer.into())).unwrap_err().code(), StatusCode::InvalidArgument);
        assert!(!list.get_ref(0, ValueType::Ref(List::TYPE), true).unwrap().is_null());
    }

    #[test]
    fn huge_lists_end_in_an_error() {
        let ledger = Ledger::new(1 << 20, 10);
        let list = List::new(ValueType::Any, 0, Some(&ledger)).unwrap();
        assert_eq!(list.resize(u32::MAX).unwrap_err().code(), StatusCode::ResourceExhausted);
        assert!(List::new(ValueType::I32, 1 << 10, Some(&ledger)).is_ok());
        assert_eq!((ledger.bytes(), ledger.objects()), (0, 1));
        list.resize(1000).unwrap();
        assert_eq!(ledger.bytes(), 1000 * size_of::<Value>() as u64);
        drop(list);
        assert_eq!((ledger.bytes(), ledger.objects()), (0, 0));
    }

    #[test]
    fn lists_of_the_host_are_charged_to_the_program_that_grows_them() {
        let ledger = Ledger::new(1 << 20, 10);
        let list = List::new(ValueType::I32, 100, None).unwrap();
        list.resize_for(&ledger, 100).unwrap();
        assert_eq!((ledger.bytes(), ledger.objects()), (0, 0));
        for grown in [list.resize_for(&ledger, u32::MAX), list.reserve_for(&ledger, u32::MAX)] {
            assert_eq!(grown.unwrap_err().code(), StatusCode::ResourceExhausted);
        }
        list.resize_for(&ledger, 1000).unwrap();
        assert_eq!((list.len(), ledger.bytes(), ledger.objects()), (1000, 4000, 1));
        drop(list);
        assert_eq!((ledger.bytes(), ledger.objects()), (0, 0));
    }

    #[test]
    fn lists_in_lists_are_dropped_without_recursion() {
        let shared = List::new(ValueType::AnyRef, 0, None).unwrap();
        let ledger = Ledger::new(u64::MAX, u64::MAX);
        for element_type in [ValueType::AnyRef, ValueType::Any] {
            let mut outer = Ref::Null;
            for _ in 0..300_000 {
                let list = List::new(element_type, 3, Some(&ledger)).unwrap();
                list.push(Value::Ref(Ref::List(shared.clone()))).unwrap();
                list.push(Value::Ref(outer)).unwrap();
                list.push(Value::Ref(Ref::List(List::new(element_type, 0, Some(&ledger)).unwrap()))).unwrap();
                outer = Ref::List(list);
            }
            assert_eq!(ledger.objects(), 600_000);
            drop(outer);
            assert_eq!((ledger.objects(), ledger.bytes(), Arc::strong_count(&shared)), (0, 0, 1));
        }
    }
}
