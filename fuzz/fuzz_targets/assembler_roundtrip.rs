//! The text of any verified module assembles into a module with the same instructions; other text is parsed or
//! rejected.
#![no_main]

use std::sync::Arc;

use incarnate_runtime::bytecode::{Contents, VerifiedModule, assemble, disassemble};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let load = |bytes: &[u8]| VerifiedModule::load(Arc::new(Contents::copy_from(bytes)));
    let module = match load(data) {
        Ok(module) => module,
        Err(_) => {
            let Some(file) = std::str::from_utf8(data).ok().and_then(|text| assemble(text).ok()) else { return };
            let Ok(module) = load(&file) else { return };
            module
        }
    };
    let text = disassemble(&module);
    let again = match assemble(&text) {
        Ok(file) => load(&file).unwrap_or_else(|error| panic!("{error}\n{text}")),
        Err(error) => panic!("{error}\n{text}"),
    };
    assert_eq!(module.function_count(), again.function_count(), "{text}");
    assert_eq!(module.types(), again.types(), "{text}");
    assert!(module.exports().eq(again.exports()), "{text}");
    assert!(module.imports().eq(again.imports()), "{text}");
    for ordinal in 0..module.function_count() {
        // Padding before lists is arbitrary, and import.resolved may lack an ignored bit: so instructions are compared,
        // not bytes.
        assert!(module.instructions(ordinal).eq(again.instructions(ordinal)), "function {ordinal}\n{text}");
    }
    assert_eq!(disassemble(&again).lines().count(), text.lines().count(), "{text}");
});
