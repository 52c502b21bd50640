//! What needs threads, where there are none.

use incarnate_bytecode::StatusCode;

use super::byte_level;
use crate::ConstraintCompiler;

#[test]
fn constraints_are_refused() {
    let tokenizer = byte_level("smollm").tokenizer().unwrap();
    let error = ConstraintCompiler::new(&tokenizer).unwrap_err();
    assert_eq!(error.code(), StatusCode::Unimplemented);
    assert!(error.to_string().contains("threads"), "{error}");
}
