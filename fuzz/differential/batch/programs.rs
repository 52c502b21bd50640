//! Compares translated programs with the interpreter. The programs are those of the last batch.

include!(env!("INCARNATE_BATCH_SOURCE"));
