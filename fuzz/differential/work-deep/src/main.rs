#![forbid(unsafe_code)]
mod peer;
mod p1028;
mod p1298;
mod p101047;
mod p101996;

fn main() {
    incarnate_differential::batch::compare(PROGRAMS, || peer::module());
}

static PROGRAMS: &[(u64, incarnate_differential::batch::Make)] = &[
    (1028, || p1028::module()),
    (1298, || p1298::module()),
    (101047, || p101047::module()),
    (101996, || p101996::module()),
];
