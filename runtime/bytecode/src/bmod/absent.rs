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
    pub(super) fn function_text(&self, _: u32) -> Option<alloc::string::String> {
        match *self {}
    }
}
