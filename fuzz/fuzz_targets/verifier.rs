//! Any bytes are verified or rejected; verified modules can be walked like a runtime does.
#![no_main]

use std::sync::Arc;

use incarnate_runtime::bytecode::{AnyRegister, Body, Contents, VerifiedModule, disassemble};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(module) = VerifiedModule::load(Arc::new(Contents::copy_from(data))) else { return };
    for ordinal in 0..module.function_count() {
        let function = module.function(ordinal).expect("a function of each ordinal");
        let in_range = |register: AnyRegister| match register.is_ref() {
            true => register.index() < function.ref_register_count,
            false => register.index() < function.i32_register_count,
        };
        let mut end = 0;
        for instruction in module.instructions(ordinal) {
            end = instruction.end();
            match instruction.body {
                Body::Binary { left, right, result } => {
                    for register in [left, right, result] {
                        assert!(register.index() < function.i32_register_count);
                    }
                }
                Body::Branch { dest, operands } => {
                    assert_eq!(function.bytecode.get(dest.0 as usize), Some(&0x79));
                    assert!(operands.iter().all(|(source, target)| in_range(source) && in_range(target)));
                }
                Body::Call { callee, operands, results } => {
                    assert!(callee.import().map_or(callee.0 < module.function_count(), |o| o < module.import_count()));
                    assert!(operands.iter().chain(results.iter()).all(in_range));
                }
                Body::Return { operands } => assert!(operands.iter().all(in_range)),
                _ => {}
            }
            let _ = module.source_location(ordinal, instruction.offset);
        }
        assert_eq!(end as usize, function.bytecode.len());
        let _ = module.location(ordinal, 0);
    }
    let _ = disassemble(&module);
});
