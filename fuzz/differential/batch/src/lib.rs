//! The programs are in `programs.rs`: this package has no library.
