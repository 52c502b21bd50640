use super::ensemble::{Ensemble, Growth, Mode, Node};

/// Follows a feature through the tree of the first root.
fn leaf(ensemble: &Ensemble, x: f64) -> i64 {
    let mut node = ensemble.roots[0];
    loop {
        match &ensemble.nodes[node] {
            Node::Leaf(weights) => return weights[0].0,
            Node::Inner { threshold, children: (low, high, missing), .. } => {
                let is_low = if ensemble.is_strict { x < *threshold } else { x <= *threshold };
                node = if x.is_nan() { *missing } else if is_low { *low } else { *high };
            }
        }
    }
}

/// A tree of one comparison: the leaf 1 where it is true, else 0.
fn tree(mode: Mode, others: &[Mode], threshold: f64, tracks_true: bool) -> Ensemble {
    let modes = others.iter().copied().chain([mode]);
    let mut growth = Growth::new(3, modes, false);
    growth.nodes[1] = Node::Leaf(vec![(1, 1.0)]);
    growth.nodes[2] = Node::Leaf(vec![(0, 1.0)]);
    growth.compare(Some(0), 0, (mode, threshold), (1, 2), tracks_true);
    growth.finish(vec![0], 2)
}

#[test]
fn all_modes_are_one_comparison() {
    let holds = |mode, x: f64, threshold: f64| match mode {
        Mode::LessEqual => x <= threshold,
        Mode::Less => x < threshold,
        Mode::GreaterEqual => x >= threshold,
        Mode::Greater => x > threshold,
        Mode::Equal => x == threshold,
        Mode::NotEqual => x != threshold,
    };
    let numbers = [f64::NEG_INFINITY, -1.5, -f64::from(f32::MIN_POSITIVE), 0.0, f64::from(f32::EPSILON), 1.5, f64::INFINITY];
    for mode in [Mode::LessEqual, Mode::Less, Mode::GreaterEqual, Mode::Greater, Mode::Equal, Mode::NotEqual] {
        for others in [&[][..], &[Mode::LessEqual], &[Mode::Less]] {
            for (threshold, x) in numbers.iter().flat_map(|threshold| numbers.map(|x| (*threshold, x))) {
                let found = leaf(&tree(mode, others, threshold, false), x);
                assert_eq!(found, i64::from(holds(mode, x, threshold)), "{x} {mode:?} {threshold} beside {others:?}");
            }
            for tracks_true in [false, true] {
                let expected = tracks_true || mode == Mode::NotEqual;
                assert_eq!(leaf(&tree(mode, others, 1.5, tracks_true), f64::NAN), i64::from(expected), "{mode:?}");
            }
        }
    }
}

#[test]
fn members_of_a_set_are_found() {
    for (numbers, tracks_true) in [(&[][..], false), (&[2.0], false), (&[-1.0, 0.5, 2.0, 7.0, 8.0], true)] {
        let mut growth = Growth::new(3, [Mode::Equal], false);
        growth.nodes[1] = Node::Leaf(vec![(1, 1.0)]);
        growth.nodes[2] = Node::Leaf(vec![(0, 1.0)]);
        growth.member(Some(0), 0, numbers, (1, 2), tracks_true);
        let ensemble = growth.finish(vec![0], 2);
        for x in [-2.0, -1.0, 0.0, 0.5, 1.0, 2.0, 6.5, 7.0, 7.5, 8.0, 9.0] {
            assert_eq!(leaf(&ensemble, x), i64::from(numbers.contains(&x)), "{x} of {numbers:?}");
        }
        assert_eq!(leaf(&ensemble, f64::NAN), i64::from(tracks_true));
    }
}

#[test]
fn a_node_that_follows_itself_is_an_error() {
    let mut growth = Growth::new(2, [Mode::LessEqual], false);
    growth.compare(Some(0), 0, (Mode::LessEqual, 0.0), (1, 1), false);
    growth.compare(Some(1), 0, (Mode::LessEqual, 0.0), (0, 0), false);
    assert!(growth.finish(vec![0], 1).depths().is_err());
    let mut growth = Growth::new(2, [Mode::LessEqual], false);
    growth.compare(Some(0), 0, (Mode::LessEqual, 0.0), (0, 1), false);
    assert!(growth.finish(vec![0], 1).depths().is_err());
    // Two nodes that share a successor are none.
    let mut growth = Growth::new(4, [Mode::LessEqual], false);
    growth.compare(Some(0), 0, (Mode::LessEqual, 0.0), (1, 2), false);
    growth.compare(Some(1), 0, (Mode::LessEqual, 0.0), (2, 3), false);
    growth.compare(Some(2), 0, (Mode::LessEqual, 0.0), (3, 3), false);
    assert_eq!(growth.finish(vec![0], 1).depths().unwrap()[0], 3);
}
