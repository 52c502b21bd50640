//! Selection of tokens.

use crate::{Sampler, SamplerOptions};

/// Options that change no logit and keep all tokens.
fn plain() -> SamplerOptions {
    SamplerOptions { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, ..SamplerOptions::default() }
}

/// How often each of the tokens is selected in 10,000 draws.
fn counts(options: SamplerOptions, logits: &[f32]) -> Vec<usize> {
    let mut sampler = Sampler::new(options);
    let mut counts = vec![0; logits.len()];
    for _ in 0..10_000 {
        counts[sampler.sample(&mut logits.to_vec(), &[]) as usize] += 1;
    }
    counts
}

/// Logits of the probabilities 1/10, 2/10, 3/10 and 4/10.
fn tenths() -> [f32; 4] {
    [1.0, 2.0, 3.0, 4.0].map(f32::ln)
}

fn assert_near(counts: &[usize], expected: &[f64]) {
    let total: f64 = expected.iter().sum();
    for (count, expected) in counts.iter().zip(expected) {
        let expected = expected / total * 10_000.0;
        assert!((*count as f64 - expected).abs() <= 4.0 * expected.sqrt(), "{counts:?} instead of {expected}");
    }
}

#[test]
fn no_temperature_selects_the_first_greatest_logit() {
    for temperature in [0.0, -1.0, f32::NAN] {
        let mut sampler = Sampler::new(SamplerOptions { temperature, ..plain() });
        assert_eq!(sampler.sample(&mut [1.0, 3.0, 3.0, 2.0], &[]), 1);
        assert_eq!(sampler.sample(&mut [f32::NAN, -3.0, f32::NEG_INFINITY], &[]), 1);
        assert_eq!(sampler.sample(&mut [f32::NAN, f32::INFINITY, f32::INFINITY], &[]), 1);
        assert_eq!(sampler.sample(&mut [f32::NAN; 3], &[]), 0);
        assert_eq!(sampler.sample(&mut [], &[]), 0);
    }
}

#[test]
fn draws_have_the_probabilities_of_the_logits() {
    assert_near(&counts(plain(), &tenths()), &[1.0, 2.0, 3.0, 4.0]);
    assert_near(&counts(SamplerOptions { temperature: 0.5, ..plain() }, &tenths()), &[1.0, 4.0, 9.0, 16.0]);
    assert_near(&counts(SamplerOptions { temperature: 2.0, ..plain() }, &[0.0, 9.0f32.ln()]), &[1.0, 3.0]);
    assert_near(&counts(plain(), &[0.0, f32::NAN, f32::NEG_INFINITY, 0.0]), &[1.0, 0.0, 0.0, 1.0]);
    assert_near(&counts(plain(), &[f32::INFINITY, 3e38, f32::INFINITY]), &[1.0, 0.0, 1.0]);
    assert_near(&counts(plain(), &[f32::NAN; 2]), &[1.0, 1.0]);
}

#[test]
fn filters_keep_the_likely_tokens() {
    assert_near(&counts(SamplerOptions { top_k: 2, ..plain() }, &tenths()), &[0.0, 0.0, 3.0, 4.0]);
    assert_near(&counts(SamplerOptions { top_k: 9, ..plain() }, &tenths()), &[1.0, 2.0, 3.0, 4.0]);
    assert_near(&counts(SamplerOptions { top_p: 0.69, ..plain() }, &tenths()), &[0.0, 0.0, 3.0, 4.0]);
    assert_near(&counts(SamplerOptions { top_p: 0.71, ..plain() }, &tenths()), &[0.0, 2.0, 3.0, 4.0]);
    assert_near(&counts(SamplerOptions { top_p: 0.0, ..plain() }, &tenths()), &[0.0, 0.0, 0.0, 1.0]);
    assert_near(&counts(SamplerOptions { min_p: 0.49, ..plain() }, &tenths()), &[0.0, 2.0, 3.0, 4.0]);
    assert_near(&counts(SamplerOptions { min_p: 0.51, ..plain() }, &tenths()), &[0.0, 0.0, 3.0, 4.0]);
    assert_near(&counts(SamplerOptions { min_p: 7.0, ..plain() }, &tenths()), &[0.0, 0.0, 0.0, 1.0]);
    // The sums of top-p are those of the tokens that top-k keeps, and the temperature comes last.
    let both = SamplerOptions { top_k: 3, top_p: 0.75, temperature: 0.5, ..plain() };
    assert_near(&counts(both, &tenths()), &[0.0, 0.0, 9.0, 16.0]);
    // Of equal logits the first tokens are kept.
    assert_near(&counts(SamplerOptions { top_k: 2, ..plain() }, &[1.0; 4]), &[1.0, 1.0, 0.0, 0.0]);
}

#[test]
fn recent_tokens_are_penalised_once() {
    let options = SamplerOptions { repetition_penalty: 2.0, repetition_window: 3, ..plain() };
    let mut logits = [4.0, -4.0, 4.0, 0.0, 4.0];
    Sampler::new(options).sample(&mut logits, &[4, 0, 0, 1]);
    assert_eq!(logits, [2.0, -8.0, 4.0, 0.0, 4.0]);
    for penalty in [1.0, f32::NAN, 0.0, -1.0, f32::INFINITY] {
        let mut logits = [4.0, -4.0];
        Sampler::new(SamplerOptions { repetition_penalty: penalty, ..options }).sample(&mut logits, &[0, 1, u32::MAX]);
        assert_eq!(logits, [4.0, -4.0]);
    }
}

#[test]
fn equal_seeds_select_equal_tokens() {
    let logits: Vec<f32> = (0..1000).map(|token| (token % 37) as f32 / 10.0).collect();
    let draw = |seed| {
        let mut sampler = Sampler::new(SamplerOptions { seed, ..SamplerOptions::default() });
        (0..50).map(|_| sampler.sample(&mut logits.clone(), &[])).collect::<Vec<u32>>()
    };
    assert_eq!(draw(3), draw(3));
    assert_ne!(draw(3), draw(4));
    assert!(draw(0).iter().all(|token| *token < 1000));
}
