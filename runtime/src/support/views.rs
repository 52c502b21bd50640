//! Inlined fast paths of functions on buffer views, which programs call for each argument and result. Other cases call the
//! native function.

use alloc::sync::Arc;

use crate::Result;
use crate::hal::{Buffer, BufferView, ElementType, EncodingType};
use crate::vm::{self, DirectMethod, Lend, LentRef, Native, NoElements, Ref, Stack};

/// The dimensions that a call passes: an array, or [`NoElements`].
pub trait Dimensions: Copy {
    /// Calls `f` with the dimensions.
    fn with<R>(self, f: impl FnOnce(&[u64]) -> R) -> R;
}

impl<const N: usize> Dimensions for [i64; N] {
    #[inline(always)]
    fn with<R>(self, f: impl FnOnce(&[u64]) -> R) -> R {
        f(&self.map(|dimension| dimension as u64))
    }
}

impl Dimensions for NoElements {
    #[inline(always)]
    fn with<R>(self, f: impl FnOnce(&[u64]) -> R) -> R {
        f(&[])
    }
}

/// Calls `buffer_view.assert`. The fast path is a view of the expected type and shape.
///
/// # Errors
/// Those of [`Native::call`].
#[inline(always)]
pub fn buffer_view_assert<S, F, A, V, M, D>(
    native: Native<'_, S>,
    name: &'static str,
    method: F,
    stack: &mut Stack,
    passed: (V, M, i32, i32, D),
) -> Result<()>
where
    F: DirectMethod<S, A, (V, M, i32, i32, D), Value = ()>,
    V: Lend<BufferView>,
    M: Lend<vm::Buffer>,
    D: Dimensions,
{
    let (view, message, element_type, encoding_type, shape) = &passed;
    if native.is_there()
        && message.lend().is_ok()
        && let Ok(view) = view.lend()
        && shape.with(|shape| {
            let encoding_type = EncodingType::from_raw(*encoding_type as u32);
            view.is(ElementType::from_raw(*element_type as u32), encoding_type, shape)
        })
    {
        return Ok(());
    }
    native.call(name, method, stack, passed)
}

/// Calls `buffer_view.create`. The fast path is a view of the whole buffer.
///
/// # Errors
/// Those of [`Native::call`].
#[inline(always)]
pub fn buffer_view_create<S, F, A, B, D>(
    native: Native<'_, S>,
    name: &'static str,
    method: F,
    stack: &mut Stack,
    passed: (B, i64, i64, i32, i32, D),
) -> Result<Ref>
where
    F: DirectMethod<S, A, (B, i64, i64, i32, i32, D), Value = Ref>,
    B: vm::Pass<Arc<Buffer>> + Lend<Buffer>,
    D: Dimensions,
{
    let (buffer, offset, length, element_type, encoding_type, shape) = passed;
    let is_whole = offset == 0 && buffer.lend().is_ok_and(|buffer| buffer.byte_length() == length as u64);
    if !native.is_there() || !is_whole {
        return native.call(name, method, stack, (buffer, offset, length, element_type, encoding_type, shape));
    }
    let view = buffer.pass().and_then(|buffer| {
        let encoding_type = EncodingType::from_raw(encoding_type as u32);
        shape.with(|shape| BufferView::shared(buffer, shape, ElementType::from_raw(element_type as u32), encoding_type))
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
pub fn view_buffer<'a, S>(native: Native<'_, S>, name: &'static str, view: &'a Ref) -> Result<LentRef<'a>> {
    let view = native.look(name, view.get::<BufferView>())?;
    Ok(LentRef::object(view.buffer()))
}

/// Calls `buffer.storage` and borrows the storage from the buffer.
///
/// # Errors
/// Those of [`Native::call`].
#[inline(always)]
pub fn buffer_storage<'a, S>(native: Native<'_, S>, name: &'static str, buffer: &'a Ref) -> Result<LentRef<'a>> {
    let buffer = native.look(name, buffer.get::<Buffer>())?;
    Ok(LentRef::buffer(native.look(name, buffer.vm_buffer())?))
}
