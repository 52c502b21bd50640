//! A page with a timeline of all threads that needs nothing but itself.

use incarnate_runtime::profile::Recording;

use super::table::table;
use super::trace;
use crate::tooling::json::in_script;
use crate::tooling::xml::escape;

/// The page. Names in it are those of a module, which may be anyone's.
pub(super) fn page(recording: &Recording, threads: usize) -> String {
    // The template is cut before anything is put in: what is put in may look like a mark.
    let (before, rest) = TEMPLATE.split_once("%TABLE%").unwrap_or((TEMPLATE, ""));
    let (between, after) = rest.split_once("%DATA%").unwrap_or((rest, ""));
    let (table, data) = (escape(&table(recording, threads)), in_script(&trace::json(recording)));
    [before, &table, between, &data, after].concat()
}

const TEMPLATE: &str = include_str!("timeline.html");

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::tests::recording;

    #[test]
    fn the_page_holds_everything_and_names_cannot_leave_the_data() {
        let mut recording = recording();
        recording.lanes[0].events[0].name = Arc::from("</script><script>alert(1)");
        let page = super::page(&recording, 2);
        assert_eq!(page.matches("</script>").count(), 1);
        assert!(page.contains("\\u003c/script>\\u003cscript>alert(1)"));
        assert!(page.contains("task-worker-0") && page.contains("<canvas") && !page.contains("%DATA%"));
        assert!(!page.contains("http"));
    }

    #[test]
    fn names_that_look_like_marks_of_the_template_are_names() {
        let mut recording = recording();
        recording.lanes[0].events[0].name = Arc::from("%DATA%<b>%TABLE%");
        let page = super::page(&recording, 2);
        assert!(!page.contains("<b>") && page.contains("%DATA%&lt;b&gt;%TABLE%"));
        assert_eq!(page.matches("traceEvents\":").count(), 1);
    }
}
