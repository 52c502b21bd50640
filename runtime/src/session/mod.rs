//! The friendly face: instances, sessions, functions, tensors.
