//! A page with a timeline of all threads that needs nothing but itself.

use incarnate_runtime::profile::Recording;

use super::table::table;
use super::trace;

/// The page. `</` in the data is written so that no name can end the script.
pub(super) fn page(recording: &Recording, threads: usize) -> String {
    let data = trace::json(recording).replace("</", "<\\/");
    let table = table(recording, threads).replace('&', "&amp;").replace('<', "&lt;");
    TEMPLATE.replacen("%TABLE%", &table, 1).replacen("%DATA%", &data, 1)
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
        assert!(page.contains("task-worker-0") && page.contains("<canvas") && !page.contains("%DATA%"));
        assert!(!page.contains("http"));
    }
}
