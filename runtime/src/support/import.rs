//! Imports, by packed calls.

use crate::Result;
use crate::vm::failure::{unexpected_yield, unresolved};
use crate::vm::{Argument, BoundFunction, CallBuffer, Completion, Stack, Step};

use super::call::Pack;
use super::state::State;

/// An imported function.
#[derive(Clone, Copy, Debug)]
pub struct Import<'a> {
    state: &'a State,
    ordinal: u32,
}

impl State {
    /// Returns the import with the given ordinal.
    #[inline(always)]
    #[must_use]
    pub fn import(&self, ordinal: u32) -> Import<'_> {
        Import { state: self, ordinal }
    }
}

impl<'a> Import<'a> {
    /// Returns 1 if the import is resolved, otherwise 0.
    #[inline]
    #[must_use]
    pub fn is_resolved(self) -> i32 {
        i32::from(self.state.core.import(self.ordinal).is_some())
    }

    #[inline]
    fn target(self) -> Result<&'a BoundFunction> {
        self.state.core.import(self.ordinal).ok_or_else(|| {
            let import = self.state.description.imports.get(self.ordinal as usize);
            unresolved(import.map_or("?", |import| import.name))
        })
    }

    /// Calls it.
    ///
    /// # Errors
    /// The errors of the function; FAILED_PRECONDITION if it yields; NOT_FOUND if it is not resolved.
    #[inline]
    pub fn call<R: Argument>(self, stack: &mut Stack, arguments: impl Pack) -> Result<R> {
        match self.call_yieldable(stack, arguments)? {
            Step::Done(results) => Ok(results),
            Step::Yielded => Err(unexpected_yield()),
        }
    }

    /// Calls it; it may yield.
    ///
    /// # Errors
    /// As above.
    #[inline]
    pub fn call_yieldable<R: Argument>(self, stack: &mut Stack, arguments: impl Pack) -> Result<Step<R>> {
        let target = self.target()?;
        let mut buffer = stack.take_buffer();
        arguments.pack(&mut buffer);
        stack.enter()?;
        let completion = target.module.begin_call(&target.state, target.export, stack, &mut buffer);
        finish(stack, completion, buffer)
    }

    /// Resumes a call that yielded.
    ///
    /// # Errors
    /// As above.
    pub fn resume<R: Argument>(self, stack: &mut Stack) -> Result<Step<R>> {
        let target = self.target()?;
        let mut buffer = stack.take_buffer();
        stack.enter()?;
        let completion = target.module.resume_call(&target.state, target.export, stack, &mut buffer);
        finish(stack, completion, buffer)
    }
}

#[inline]
fn finish<R: Argument>(
    stack: &mut Stack,
    completion: Result<Completion>,
    mut buffer: alloc::boxed::Box<CallBuffer>,
) -> Result<Step<R>> {
    stack.leave();
    let step = match completion? {
        Completion::Done => Step::Done(R::read(&mut buffer.reader())?),
        Completion::Yielded => Step::Yielded,
    };
    stack.give_buffer(buffer);
    Ok(step)
}
