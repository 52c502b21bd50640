//! Replays the corpus: cases that found something once, and cases that reach what few others do.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;

use incarnate_module_fuzz::plan::Plan;
use incarnate_module_fuzz::{case, sessions};

#[test]
fn the_corpus_has_no_findings() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut cases = 0;
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let device = Plan::parse(&text).device;
        for other in sessions::DEVICES {
            let text = text.replace(&format!("// device {device}\n"), &format!("// device {other}\n"));
            let outcome = case::run(&text, None);
            assert!(outcome.findings.is_empty(), "{} on {other}: {:?}", path.display(), outcome.findings);
            assert!(outcome.counts().0 > 0, "{}: no call returns", path.display());
        }
        cases += 1;
    }
    assert!(cases > 0);
}
