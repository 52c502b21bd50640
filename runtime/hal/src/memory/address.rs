//! Addresses of memory that kernels work on.
#![allow(unsafe_code, reason = "shares addresses between threads")]

/// A region of memory that a dispatch works on. The dispatch's caller keeps it alive and mapped while workgroups run.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct BindingPointer(pub *mut u8);

// SAFETY: a binding pointer is an address. What is reached through it is shared between workgroups by the contract of
// `LocalExecutable::dispatch`, whose caller keeps the memory alive; see "VMVX kernels" in docs/memory.md.
unsafe impl Send for BindingPointer {}
// SAFETY: as above.
unsafe impl Sync for BindingPointer {}
