//! A few random programs, interpreted and translated, agree: `incarnate-differential run` compares many. Neither is optimised, which could
//! give NaNs other bits.
#![allow(clippy::expect_used, reason = "tests")]

use std::path::Path;

use incarnate_differential::batch::Workshop;

#[test]
fn random_programs_agree() {
    let workshop = Workshop { folder: Path::new(env!("CARGO_TARGET_TMPDIR")).join("differential"), opt_level: 0 };
    let report = workshop.batch(1..=12).expect("a batch");
    assert!(report.wrong.is_empty(), "{:?}", report.wrong);
    assert!(report.compared >= 8 && report.returned > 0, "{report:?}");
}
