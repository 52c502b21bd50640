//! Incarnate.
