//! Compares the tables of functions with the methods.
#![cfg(feature = "std")]
#![allow(clippy::unwrap_used, reason = "tests")]

use alloc::string::String;
use alloc::vec::Vec;

use super::{check, hal, hal_inline, hal_loader, io_parameters, vmvx};
use crate::bytecode::imports::MODULES;
use crate::bytecode::{
    CallingConvention, for_each_check_function, for_each_hal_function, for_each_hal_inline_function,
    for_each_hal_loader_function, for_each_io_parameters_function, for_each_vmvx_function,
};
use crate::support::cost;
use crate::vm::{CallCost, Linkage, Module, NativeMethod};

/// The calling conventions of the methods' signatures, in the order of the rows.
macro_rules! derived {
    ($state:path; $(($name:literal, $method:ident $(resume $resume:ident)? $(@ $form:ident)? $(borrows $borrows:ident $(of $alone:ident)?)? $(fences $fences:ident)?, $convention:literal, $cost:tt))*) => {{
        use $state as State;
        [$(NativeMethod::convention(&State::$method)),*].into()
    }};
}

#[test]
fn conventions_are_those_of_the_methods() {
    let derived: [Vec<String>; 6] = [
        for_each_check_function!(derived check::CheckState;),
        for_each_hal_function!(derived hal::HalState;),
        for_each_hal_inline_function!(derived hal_inline::HalInlineState;),
        for_each_hal_loader_function!(derived hal_loader::HalLoaderState;),
        for_each_io_parameters_function!(derived io_parameters::IoParametersState;),
        for_each_vmvx_function!(derived vmvx::VmvxState;),
    ];
    assert_eq!(derived.len(), MODULES.len());
    for (derived, module) in derived.iter().zip(MODULES) {
        assert_eq!(derived.len(), module.functions.len(), "{}", module.name);
        for (derived, row) in derived.iter().zip(module.functions) {
            assert_eq!(derived, row.convention, "{}.{}", module.name, row.name);
        }
    }
}

/// A term of a cost as the type that translated code names.
macro_rules! term {
    ($term:ident (&[$($size:literal),*])) => { cost::$term<$($size),*> };
    ($term:ident ($($argument:literal),*)) => { cost::$term<$($argument),*> };
}

/// The numbers of terms of the costs, as types, in the order of the rows.
macro_rules! costs {
    ($(($name:literal, $method:ident $(resume $resume:ident)? $(@ $form:ident)? $(borrows $borrows:ident $(of $alone:ident)?)? $(fences $fences:ident)?, $convention:literal, [$($term:ident $arguments:tt),*]))*) => {
        [$(<($(term!($term $arguments),)*) as CallCost>::COST.map_or(0, |cost| cost.0.len())),*].into()
    };
}

#[test]
fn translated_code_can_name_every_cost() {
    let costs: [Vec<usize>; 6] = [
        for_each_check_function!(costs),
        for_each_hal_function!(costs),
        for_each_hal_inline_function!(costs),
        for_each_hal_loader_function!(costs),
        for_each_io_parameters_function!(costs),
        for_each_vmvx_function!(costs),
    ];
    for (costs, module) in costs.iter().zip(MODULES) {
        let terms = module.functions.iter().map(|row| row.cost.0.len());
        assert!(costs.iter().copied().eq(terms), "{}", module.name);
    }
}

#[test]
fn functions_and_older_forms_are_found_by_their_conventions() {
    let modules: [&dyn Module; 6] = [
        &check::module(),
        &hal::module(hal::HalOptions::default()),
        &hal_inline::module(hal_inline::HalInlineOptions::default()),
        &hal_loader::module(hal_loader::HalLoaderOptions::default()),
        &io_parameters::module(io_parameters::IoParametersOptions::default()),
        &vmvx::module(),
    ];
    for (module, row) in modules.into_iter().zip(MODULES) {
        assert_eq!(module.name(), row.name);
        let newest = row.functions.iter().map(|row| (row.name, row.convention));
        let all: Vec<_> = newest.chain(row.older.iter().map(|form| (form.name, form.convention))).collect();
        assert_eq!(module.signature().export_count, all.len(), "{}", row.name);
        for (name, convention) in all {
            let found = module
                .lookup_as(name, &CallingConvention::parse(convention).unwrap())
                .and_then(|ordinal| module.function(Linkage::Export, ordinal))
                .map(|info| (info.name, info.calling_convention));
            assert_eq!(found, Some((name, convention)), "{}", row.name);
        }
    }
}
