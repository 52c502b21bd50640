#![forbid(unsafe_code)]
mod peer;
mod p9;
mod p50;
mod p63;
mod p94;
mod p102;
mod p133;
mod p187;
mod p101996;

fn main() {
    incarnate_differential::batch::compare(PROGRAMS, || peer::module());
}

static PROGRAMS: &[(u64, incarnate_differential::batch::Make)] = &[
    (9, || p9::module()),
    (50, || p50::module()),
    (63, || p63::module()),
    (94, || p94::module()),
    (102, || p102::module()),
    (133, || p133::module()),
    (187, || p187::module()),
    (101996, || p101996::module()),
];
