//! A module of tests with met and unmet expectations.

/// Returns the module's file. `last` names an additional function whose expectation is met.
pub(crate) fn module(last: Option<&str>) -> Vec<u8> {
    let function = |name: &str, body: &str| {
        format!(
            "vm.export @{name}\nvm.func @{name}() -> () {{\n^bb0:\n  %i0 = vm.const.i32 3\n  %i1 = vm.const.i32.zero\n{body}}}\n"
        )
    };
    let [good, bad] = ["%i0", "%i1"].map(|value| format!("  vm.call @check.expect_true({value})\n"));
    let other = "  vm.call @check.expect_false(%i0)\n";
    let end = "  vm.return\n";
    let text = [
        "vm.module @tests version 0\nvm.type i32\n\
         vm.import @check.expect_true cconv \"0i_v\"\nvm.import @check.expect_false cconv \"0i_v\"\n"
            .to_owned(),
        function("met", &format!("{good}{end}")),
        function("unmet", &format!("{bad}{good}{other}{end}")),
        function("unmet_and_fails", &format!("{bad}  vm.fail %i0, \"so\"\n")),
        function("fail_unmet", &format!("{bad}{end}")),
        last.map_or_else(String::new, |name| function(name, &format!("{good}{end}"))),
    ];
    incarnate_runtime::bytecode::assemble(&text.concat()).expect("sound assembly")
}
