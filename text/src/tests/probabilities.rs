//! Logarithms of probabilities.

use crate::{LogProbabilities, LogProbability};

fn values(list: &[LogProbability]) -> Vec<(u32, f32)> {
    list.iter().map(|one| (one.token, one.value.exp())).collect()
}

#[test]
fn probabilities_are_those_of_the_logits() {
    let logits = [1.0f32, 4.0, 3.0, 2.0].map(|tenths| tenths.ln() + 100.0);
    let probabilities = LogProbabilities::of(&logits, 3, 2);
    assert!((probabilities.drawn.value - 0.2f32.ln()).abs() < 1e-4);
    let [(first, four), (second, three)] = values(&probabilities.likeliest)[..] else { unreachable!() };
    assert_eq!((first, second), (1, 2));
    assert!((four - 0.4).abs() < 1e-4 && (three - 0.3).abs() < 1e-4);
    assert_eq!(LogProbabilities::of(&logits, 3, 9).likeliest.len(), 4);
    assert!(LogProbabilities::of(&logits, 3, 0).likeliest.is_empty());
    let equal = LogProbabilities::of(&[1.0; 4], 0, 2).likeliest;
    assert_eq!(equal.iter().map(|one| one.token).collect::<Vec<u32>>(), [0, 1]);
}

#[test]
fn what_is_no_number_is_improbable() {
    let least = LogProbability::LEAST;
    let probabilities = LogProbabilities::of(&[f32::NAN, 0.0, f32::NEG_INFINITY], 0, 3);
    let list: Vec<(u32, f32)> = probabilities.likeliest.iter().map(|one| (one.token, one.value)).collect();
    assert_eq!((probabilities.drawn.value, list), (least, vec![(1, 0.0), (2, least)]));
    let infinite = LogProbabilities::of(&[f32::INFINITY, 1.0], 0, 2);
    assert_eq!((infinite.drawn.value, infinite.likeliest[1].value), (0.0, least));
    for (logits, token) in [(&[][..], 0), (&[f32::NAN][..], 0), (&[1.0][..], 7)] {
        assert_eq!(LogProbabilities::of(logits, token, 0).drawn.value, least);
    }
}
