//! What the macro says where something is wrong: the error points at the call's own words.

#[test]
#[ignore = "compiles the library anew, for a minute: .ci/full features"]
fn failures_point_at_what_is_wrong() {
    trybuild::TestCases::new().compile_fail("tests/failures/*.rs");
}
