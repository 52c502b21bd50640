//! What stands for the first generation of the format in a build without the feature `bmod`: its files are refused.

use super::contents::Contents;
use crate::{Error, Result};

/// A module of the first generation, of which there is none.
#[derive(Debug)]
pub(super) enum Origin {}

/// Fails with `UNIMPLEMENTED`.
pub(super) fn open(_: &[u8]) -> Result<(Contents, Origin)> {
    Err(Error::unimplemented("the file is of the first generation (BMOD), which the feature `bmod` reads"))
}

impl Origin {
    pub(super) fn offset(&self, _: u32, _: u32) -> Option<u32> {
        match *self {}
    }

    pub(super) fn function_name(&self, _: u32) -> Option<&str> {
        match *self {}
    }

    #[cfg(feature = "text")]
    pub(super) fn text(&self) -> alloc::string::String {
        match *self {}
    }

    #[cfg(feature = "text")]
    pub(super) fn printer(&self) -> Printer<'_> {
        match *self {}
    }
}

/// Prints a module of the first generation, of which there is none.
#[cfg(feature = "text")]
pub(super) struct Printer<'a>(core::convert::Infallible, core::marker::PhantomData<&'a ()>);

#[cfg(feature = "text")]
impl Printer<'_> {
    pub(super) fn function_text(&mut self, _: u32) -> Option<alloc::string::String> {
        match self.0 {}
    }
}
