//! Compares the tables of functions with the methods.
#![cfg(feature = "std")]
#![allow(clippy::unwrap_used, reason = "tests")]

use super::{check, hal, hal_inline, hal_loader, io_parameters, vmvx};
use crate::bytecode::CallingConvention;
use crate::bytecode::imports::MODULES;
use crate::vm::{Linkage, Module};

#[test]
fn conventions_are_those_of_the_methods() {
    let modules: [&dyn Module; 6] = [
        &check::module(),
        &hal::module(hal::HalOptions::default()),
        &hal_inline::module(hal_inline::HalInlineOptions::default()),
        &hal_loader::module(hal_loader::HalLoaderOptions::default()),
        &io_parameters::module(io_parameters::IoParametersOptions::default()),
        &vmvx::module(),
    ];
    assert_eq!(modules.len(), MODULES.len());
    for (module, (name, versions)) in modules.into_iter().zip(MODULES) {
        assert_eq!(module.name(), *name);
        for row in versions.iter().copied().flatten() {
            let info = module
                .lookup_as(row.name, &CallingConvention::parse(row.convention).unwrap())
                .and_then(|ordinal| module.function(Linkage::Export, ordinal))
                .map(|info| (info.name, info.calling_convention));
            assert_eq!(info, Some((row.name, row.convention)), "{name}");
        }
        assert_eq!(module.signature().export_count, versions.iter().map(|rows| rows.len()).sum::<usize>(), "{name}");
    }
}
