//! The native module `yieldable_test`, which IREE's tests of yielding calls import.

use incarnate_runtime::vm::{Caller, ModuleState, NativeModule, Outcome, Span};
use incarnate_runtime::{Result, native_functions};

/// Name that programs import the module by.
pub(super) const NAME: &str = "yieldable_test";

/// Creates the module: functions that yield a given number of times and then return a sum with that number.
pub(super) fn module() -> NativeModule<YieldableTest> {
    NativeModule::new(
        NAME,
        0,
        || Ok(YieldableTest),
        native_functions! {
            "yield_n" => YieldableTest::yield_n, resume YieldableTest::resume,
            "yield_variadic_sum" => YieldableTest::yield_variadic_sum, resume YieldableTest::resume,
        },
    )
}

/// State of the module: none, because a suspended call owns its state.
#[derive(Debug)]
pub(super) struct YieldableTest;

impl ModuleState for YieldableTest {}

/// A suspended call.
#[derive(Clone, Copy, Debug)]
struct Suspended {
    sum: i32,
    yields_left: i32,
}

impl Suspended {
    /// Yields once more, or returns if no yields are left.
    fn step(self) -> Outcome<i32> {
        if self.yields_left <= 0 {
            return Outcome::Done(self.sum);
        }
        Outcome::Yield(Box::new(Suspended { sum: self.sum.wrapping_add(1), yields_left: self.yields_left - 1 }))
    }
}

impl YieldableTest {
    fn yield_n(&self, _: &mut Caller<'_>, value: i32, count: i32) -> Result<Outcome<i32>> {
        Ok(Suspended { sum: value, yields_left: count }.step())
    }

    fn yield_variadic_sum(&self, _: &mut Caller<'_>, values: Span<i32>, count: i32) -> Result<Outcome<i32>> {
        let sum = values.iter().fold(0i32, |sum, value| sum.wrapping_add(*value));
        Ok(Suspended { sum, yields_left: count }.step())
    }

    #[allow(clippy::boxed_local, reason = "suspended calls keep their state in a box")]
    fn resume(&self, _: &mut Caller<'_>, suspended: Box<Suspended>) -> Result<Outcome<i32>> {
        Ok(suspended.step())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use incarnate_runtime::vm::{Linkage, Module};

    #[test]
    fn conventions_are_those_that_the_tests_import() {
        let module = module();
        let conventions = (0..2).filter_map(|ordinal| module.function(Linkage::Export, ordinal));
        let conventions: Vec<_> = conventions.map(|function| (function.name, function.calling_convention)).collect();
        assert_eq!(conventions, [("yield_n", "0ii_i"), ("yield_variadic_sum", "0CiDi_i")]);
    }

    #[test]
    fn a_call_yields_the_requested_number_of_times() {
        let mut outcome = Suspended { sum: 10, yields_left: 3 }.step();
        let mut yields = 0;
        while let Outcome::Yield(suspended) = outcome {
            yields += 1;
            outcome = suspended.downcast::<Suspended>().map(|suspended| suspended.step()).unwrap_or(Outcome::Done(-1));
        }
        assert!(matches!(outcome, Outcome::Done(13)) && yields == 3);
    }
}
