//! Inlined fast paths of functions on buffer views, which programs call for each argument and result. Other cases call the
//! native function.

use alloc::sync::Arc;

use super::call::PassedNumbers;
use crate::Result;
use crate::hal::{Buffer, BufferView, ElementType, EncodingType};
use crate::vm::{self, BorrowedRef, CallCost, DirectMethod, Native, PassBorrowed, Ref, Stack};

/// Calls `buffer_view.assert`. The fast path is a view of the expected type and shape.
///
/// # Errors
/// Those of [`Native::call`].
#[inline(always)]
pub fn buffer_view_assert<S, C, F, A, V, M, D>(
    native: Native<'_, S, C>,
    name: &'static str,
    method: F,
    stack: &mut Stack,
    passed: (V, M, i32, i32, D),
) -> Result<()>
where
    C: CallCost,
    F: DirectMethod<S, A, (V, M, i32, i32, D), Value = ()>,
    V: PassBorrowed<BufferView>,
    M: PassBorrowed<vm::Buffer>,
    D: PassedNumbers<u64>,
{
    let (view, message, element_type, encoding_type, shape) = &passed;
    if native.is_present()
        && message.pass_borrowed().is_ok()
        && let Ok(view) = view.pass_borrowed()
        && shape.with(|shape| {
            let encoding_type = EncodingType::from_raw(*encoding_type as u32);
            view.is(ElementType::from_raw(*element_type as u32), encoding_type, shape)
        })
    {
        return native.charge_dimensions(name, stack, D::COUNT);
    }
    native.call(name, method, stack, passed)
}

/// Calls `buffer_view.create`. The fast path is a view of the whole buffer.
///
/// # Errors
/// Those of [`Native::call`].
#[inline(always)]
pub fn buffer_view_create<S, C, F, A, B, D>(
    native: Native<'_, S, C>,
    name: &'static str,
    method: F,
    stack: &mut Stack,
    passed: (B, i64, i64, i32, i32, D),
) -> Result<Ref>
where
    C: CallCost,
    F: DirectMethod<S, A, (B, i64, i64, i32, i32, D), Value = Ref>,
    B: vm::Pass<Arc<Buffer>> + PassBorrowed<Buffer>,
    D: PassedNumbers<u64>,
{
    let (buffer, offset, length, element_type, encoding_type, shape) = passed;
    let is_whole = offset == 0 && buffer.pass_borrowed().is_ok_and(|buffer| buffer.byte_length() == length as u64);
    if !native.is_present() || !is_whole {
        return native.call(name, method, stack, (buffer, offset, length, element_type, encoding_type, shape));
    }
    native.charge_dimensions(name, stack, D::COUNT)?;
    let view = buffer.pass().and_then(|buffer| {
        let encoding_type = EncodingType::from_raw(encoding_type as u32);
        let (element_type, ledger) = (ElementType::from_raw(element_type as u32), &stack.limits().ledger);
        shape.with(|shape| BufferView::shared(buffer, shape, element_type, encoding_type, ledger))
    });
    match view {
        Ok(view) => Ok(Ref::from(view)),
        Err(error) => Err(native.failed(name, error)),
    }
}

/// Calls `buffer_view.buffer` and borrows the buffer from the view.
///
/// # Errors
/// Those of [`Native::call`].
#[inline(always)]
pub fn view_buffer<'a, S, C: CallCost>(
    native: Native<'_, S, C>,
    name: &'static str,
    view: &'a Ref,
) -> Result<BorrowedRef<'a>> {
    let view = native.found(name, view.get::<BufferView>())?;
    Ok(BorrowedRef::object(view.buffer()))
}

/// Calls `buffer.storage` and borrows the storage from the buffer.
///
/// # Errors
/// Those of [`Native::call`].
#[inline(always)]
pub fn buffer_storage<'a, S, C: CallCost>(
    native: Native<'_, S, C>,
    name: &'static str,
    buffer: &'a Ref,
) -> Result<BorrowedRef<'a>> {
    let buffer = native.found(name, buffer.get::<Buffer>())?;
    Ok(BorrowedRef::buffer(native.found(name, buffer.vm_buffer())?))
}
