//! How a shape becomes another: groups of adjacent dimensions with the same number of elements.

use core::ops::Range;

use crate::dim::Dim;

/// Adjacent dimensions of a tensor, and those that they become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) from: Range<usize>,
    pub(crate) to: Range<usize>,
}

/// Finds the smallest groups, in order. Each has dimensions on both sides, unless a side has none at all.
pub(crate) fn groups(from: &[Dim], to: &[Dim]) -> Vec<Group> {
    if from.is_empty() || to.is_empty() {
        return vec![Group { from: 0..from.len(), to: 0..to.len() }];
    }
    let mut groups: Vec<Group> = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < from.len() && j < to.len() {
        let (mut end, mut stop) = (from.len(), to.len());
        // The pair of ends with the fewest dimensions; extents of 1 join the group behind them.
        'search: for total in 2..=(from.len() - i) + (to.len() - j) {
            for taken in 1..total {
                let (e, s) = (i + taken, j + total - taken);
                if e <= from.len() && s <= to.len() && product(from, i..e) == product(to, j..s) {
                    (end, stop) = (e, s);
                    break 'search;
                }
            }
        }
        groups.push(Group { from: i..end, to: j..stop });
        (i, j) = (end, stop);
    }
    // What is left has extents of 1.
    if let Some(last) = groups.last_mut() {
        last.from.end = from.len();
        last.to.end = to.len();
    }
    groups
}

fn product(dims: &[Dim], range: Range<usize>) -> Dim {
    Dim::product(dims.get(range).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(from: &[i64], to: &[i64]) -> Vec<(usize, usize)> {
        let dims = |extents: &[i64]| -> Vec<Dim> { extents.iter().copied().map(Dim::constant).collect() };
        groups(&dims(from), &dims(to)).iter().map(|group| (group.from.end, group.to.end)).collect()
    }

    #[test]
    fn groups_are_the_smallest() {
        assert_eq!(ends(&[2, 3, 4], &[6, 4]), [(2, 1), (3, 2)]);
        assert_eq!(ends(&[2, 12], &[2, 3, 4]), [(1, 1), (2, 3)]);
        assert_eq!(ends(&[4, 6], &[3, 8]), [(2, 2)]);
        assert_eq!(ends(&[2, 3], &[1, 2, 3, 1]), [(1, 2), (2, 4)]);
        assert_eq!(ends(&[1, 1, 5], &[5]), [(3, 1)]);
        assert_eq!(ends(&[5], &[]), [(1, 0)]);
        let n = Dim::symbol(0);
        let four = Dim::constant(4);
        let found = groups(&[n.clone(), four.clone()], &[n.times(&Dim::constant(2)), Dim::constant(2)]);
        assert_eq!(found, [Group { from: 0..2, to: 0..2 }]);
    }
}
