use alloc::vec::Vec;

use super::older::Source;
use super::*;
use crate::ConventionItem;

#[test]
fn imports_are_found_by_name_and_convention() {
    let found = |name, convention| find(name, convention).map(|(row, edits)| (row.state, row.method, edits.len()));
    assert_eq!(found("hal.buffer.length", "0r_I"), Some(("HalState", "buffer_length", 0)));
    assert_eq!(found("hal.buffer.length", "0r_i"), None);
    assert_eq!(found("hal.buffer.size", "0r_I"), None);
    assert_eq!(found("lah.buffer.length", "0r_I"), None);
    assert_eq!(find("hal.fence.await", "0iICrD_i").and_then(|(row, _)| row.resume), Some("fence_await_resume"));
    // The calling convention distinguishes the versions of a function.
    for (convention, edits) in [("0riirIrIII_v", 0), ("0riirIrII_v", 1)] {
        let expected = Some(("HalState", "command_buffer_copy_buffer", edits));
        assert_eq!(found("hal.command_buffer.copy_buffer", convention), expected);
    }
    for (convention, method) in [("0rIrrrI_v", "queue_execute"), ("0rIrrCrD_v", "queue_execute_list")] {
        assert_eq!(found("hal.device.queue.execute", convention), Some(("HalState", method, 0)));
    }
}

#[test]
fn functions_are_sorted_and_differ_in_name_or_convention() {
    for module in MODULES {
        assert!(module.functions.is_sorted_by_key(|row| row.name), "@{}", module.name);
        assert!(module.older.is_sorted_by_key(|form| form.name), "@{}", module.name);
        let newest = module.functions.iter().map(|row| (row.name, row.convention));
        let mut all: Vec<_> = newest.chain(module.older.iter().map(|form| (form.name, form.convention))).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "@{}: two functions of one name and convention", module.name);
    }
}

#[test]
fn edits_of_older_forms_yield_the_newest_conventions() {
    for module in MODULES {
        for form in module.older {
            let newest = CallingConvention::parse(module.named(form.name).next().unwrap().convention).unwrap();
            let older = CallingConvention::parse(form.convention).unwrap();
            assert!(form.edits.is_sorted_by(|a, b| a.position < b.position), "{form:?}");
            let mut arguments: Vec<ConventionItem> = older.arguments().collect();
            for edit in form.edits {
                match edit.source {
                    Source::Constant(_) => arguments.insert(edit.position, ConventionItem::I64),
                    Source::Extended => {
                        let argument = arguments.get_mut(edit.position).unwrap();
                        assert_eq!(core::mem::replace(argument, ConventionItem::I64), ConventionItem::I32, "{form:?}");
                    }
                }
                assert!(!arguments[..edit.position].contains(&ConventionItem::SpanStart), "{form:?}");
            }
            assert_eq!(arguments, newest.arguments().collect::<Vec<_>>(), "{form:?}");
            assert!(older.results().eq(newest.results()), "{form:?}");
        }
    }
}

#[test]
fn costs_name_arguments_of_their_kind() {
    for row in MODULES.iter().flat_map(|module| module.functions) {
        // The first item of each argument; a span is one argument.
        let mut depth = 0;
        let convention = CallingConvention::parse(row.convention).unwrap();
        let kinds = convention.arguments().filter(|item| {
            let is_top = depth == 0;
            depth += i32::from(*item == ConventionItem::SpanStart) - i32::from(*item == ConventionItem::SpanEnd);
            is_top
        });
        let kinds: Vec<ConventionItem> = kinds.collect();
        let is_value = |index: &u8| matches!(kinds[usize::from(*index)], ConventionItem::I32 | ConventionItem::I64);
        let is_object =
            |index: &u8| matches!(kinds[usize::from(*index)], ConventionItem::Ref | ConventionItem::SpanStart);
        for term in row.cost.0 {
            let is_right = match term {
                Term::Bytes(count) => is_value(count),
                Term::BytesOf(count, of) => is_value(count) && is_object(of),
                Term::Whole(object) | Term::Compiled(object) => is_object(object),
                Term::Elements(sizes) => sizes.iter().all(is_value),
            };
            assert!(is_right, "{}.{}: {term:?} of {}", row.module, row.name, row.convention);
        }
    }
}
