//! The loops of a contraction, short lists of them, and the walk over their iterations.

/// A loop of a contraction. The element of an operand in an iteration is that of the first iteration plus, for each loop, the
/// index of the iteration times the stride.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loop {
    /// Trip count.
    pub count: usize,
    /// Stride of the output, in elements; zero if the loop sums.
    pub output: i64,
    /// Stride of the left operand, in elements.
    pub left: i64,
    /// Stride of the right operand, in elements.
    pub right: i64,
}

impl Loop {
    /// The same loop with the operands exchanged.
    pub(super) const fn swapped(self) -> Loop {
        Loop { left: self.right, right: self.left, ..self }
    }
}

/// The most loops of a contraction that is planned; those with more run as they stand.
pub(super) const MAX_LOOPS: usize = 16;

/// The most loops of a kind, after those are merged that go on where the next one ends; else a contraction runs as it stands.
const MAX_OF_A_KIND: usize = 8;

/// Up to [`MAX_OF_A_KIND`] loops, the outermost first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Loops {
    loops: [Loop; MAX_OF_A_KIND],
    length: usize,
}

impl Loops {
    pub(super) fn of(only: Loop) -> Loops {
        let mut loops = Loops::default();
        (loops.loops[0], loops.length) = (only, 1);
        loops
    }

    #[inline]
    pub(super) fn as_slice(&self) -> &[Loop] {
        &self.loops[..self.length]
    }

    /// Adds a loop within the others. None where there is no room for it.
    #[must_use]
    pub(super) fn push(&mut self, inner: Loop) -> Option<()> {
        *self.loops.get_mut(self.length)? = inner;
        self.length += 1;
        Some(())
    }

    /// As [`Loops::push`]; the innermost loop becomes longer where the new one goes on with the same strides.
    #[must_use]
    pub(super) fn push_merged(&mut self, inner: Loop) -> Option<()> {
        let goes_on = |outer: &Loop| {
            let span = |stride: i64| stride.wrapping_mul(inner.count as i64);
            (outer.output, outer.left, outer.right) == (span(inner.output), span(inner.left), span(inner.right))
        };
        let last = self.length.checked_sub(1).map(|last| &mut self.loops[last]);
        let merged = last.filter(|outer| goes_on(outer)).and_then(|outer| {
            // Loops that move nothing may have any trip counts.
            outer.count = outer.count.checked_mul(inner.count)?;
            (outer.output, outer.left, outer.right) = (inner.output, inner.left, inner.right);
            Some(())
        });
        merged.or_else(|| self.push(inner))
    }

    /// Takes a loop out.
    pub(super) fn remove(&mut self, at: usize) -> Loop {
        let removed = self.loops[at];
        self.loops.copy_within(at + 1..self.length, at);
        self.length -= 1;
        removed
    }

    /// The same loops with the operands exchanged.
    pub(super) fn swapped(&self) -> Loops {
        let mut swapped = *self;
        swapped.loops.iter_mut().for_each(|each| *each = each.swapped());
        swapped
    }

    /// The product of the trip counts.
    pub(super) fn count(&self) -> usize {
        self.as_slice().iter().fold(1, |count, each| count.saturating_mul(each.count))
    }

    /// The number of adjacent elements that contain those of all iterations.
    pub(super) fn span(&self, stride: impl Fn(&Loop) -> i64) -> usize {
        self.as_slice().iter().fold(1, |span: usize, each| {
            let distance = usize::try_from(stride(each).unsigned_abs()).unwrap_or(usize::MAX);
            span.saturating_add(distance.saturating_mul(each.count.saturating_sub(1)))
        })
    }

    /// Whether all iterations have adjacent elements, one after the other.
    pub(super) fn is_contiguous(&self, stride: impl Fn(&Loop) -> i64) -> bool {
        self.distance(stride) == Some(1)
    }

    /// How far the element of each iteration is from that of the one before, if that is the same for all.
    pub(super) fn distance(&self, stride: impl Fn(&Loop) -> i64) -> Option<i64> {
        let distance = stride(self.as_slice().last()?);
        let mut next = distance;
        for each in self.as_slice().iter().rev() {
            if stride(each) != next {
                return None;
            }
            next = next.saturating_mul(each.count as i64);
        }
        Some(distance)
    }

    /// The outermost loop, or one of a single iteration.
    #[inline]
    pub(super) fn outermost(&self) -> Loop {
        self.as_slice().first().copied().unwrap_or(Loop { count: 1, ..Loop::default() })
    }

    /// The innermost loop, or one of a single iteration.
    #[inline]
    pub(super) fn innermost(&self) -> Loop {
        self.as_slice().last().copied().unwrap_or(Loop { count: 1, ..Loop::default() })
    }
}

/// The loops of a contraction by what they move, each kind in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kinds {
    /// Loops that move the output and both operands.
    pub(super) batch: Loops,
    /// Loops that move the output and the left operand.
    pub(super) rows: Loops,
    /// Loops that move the output and the right operand.
    pub(super) columns: Loops,
    /// Loops that do not move the output.
    pub(super) sums: Loops,
}

impl Kinds {
    /// Loops that go on where the next one of their kind ends are merged with it. None where too many of a kind are left.
    pub(super) fn of(loops: impl Iterator<Item = Loop>) -> Option<Kinds> {
        let mut kinds = Kinds::default();
        for each in loops.filter(|each| each.count != 1) {
            match (each.output != 0, each.left != 0, each.right != 0) {
                (false, ..) => kinds.sums.push_merged(each)?,
                (true, _, false) => kinds.rows.push_merged(each)?,
                (true, false, true) => kinds.columns.push_merged(each)?,
                (true, true, true) => kinds.batch.push_merged(each)?,
            }
        }
        Some(kinds)
    }
}

/// How far an iteration is from the first one, in elements of each operand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Offsets {
    pub(super) output: i64,
    pub(super) left: i64,
    pub(super) right: i64,
}

impl Offsets {
    pub(super) const fn plus(self, other: Offsets) -> Offsets {
        Offsets {
            output: self.output.wrapping_add(other.output),
            left: self.left.wrapping_add(other.left),
            right: self.right.wrapping_add(other.right),
        }
    }

    /// So many iterations of a loop further.
    pub(super) const fn after(self, iterations: usize, of: &Loop) -> Offsets {
        let iterations = iterations as i64;
        self.plus(Offsets {
            output: of.output.wrapping_mul(iterations),
            left: of.left.wrapping_mul(iterations),
            right: of.right.wrapping_mul(iterations),
        })
    }
}

/// The iterations of loops, one after the other: the innermost loop counts first.
#[derive(Clone, Debug)]
pub(super) struct Walk<'a> {
    loops: &'a [Loop],
    indices: [usize; MAX_OF_A_KIND],
    offsets: Offsets,
}

impl<'a> Walk<'a> {
    #[inline]
    pub(super) fn new(loops: &'a Loops) -> Walk<'a> {
        Walk { loops: loops.as_slice(), indices: [0; MAX_OF_A_KIND], offsets: Offsets::default() }
    }

    /// From an iteration on.
    #[inline]
    pub(super) fn at(loops: &'a Loops, mut iteration: usize) -> Walk<'a> {
        let mut walk = Walk::new(loops);
        if iteration == 0 {
            return walk;
        }
        for (at, each) in walk.loops.iter().enumerate().rev() {
            let count = each.count.max(1);
            walk.indices[at] = iteration % count;
            walk.offsets = walk.offsets.after(iteration % count, each);
            iteration /= count;
        }
        walk
    }

    /// The present iteration.
    pub(super) const fn offsets(&self) -> Offsets {
        self.offsets
    }

    /// How many iterations of the innermost loop are left, with the present one.
    #[inline]
    pub(super) fn run(&self) -> usize {
        self.loops.last().map_or(1, |innermost| innermost.count - self.indices[self.loops.len() - 1])
    }

    /// Goes on by at most [`Walk::run`] iterations. After the last iteration it begins anew.
    #[inline]
    pub(super) fn advance(&mut self, iterations: usize) {
        let Some((innermost, outer)) = self.loops.split_last() else { return };
        let at = outer.len();
        self.indices[at] += iterations;
        self.offsets = self.offsets.after(iterations, innermost);
        let mut at = at;
        while self.indices[at] == self.loops[at].count {
            // Back to the first iteration of this loop, and one further in the loop around it.
            self.offsets = subtract(self.offsets, &self.loops[at]);
            self.indices[at] = 0;
            let Some(around) = at.checked_sub(1) else { return };
            at = around;
            self.indices[at] += 1;
            self.offsets = self.offsets.after(1, &self.loops[at]);
        }
    }
}

/// Takes all iterations of a loop back.
#[inline]
fn subtract(offsets: Offsets, of: &Loop) -> Offsets {
    let whole = Offsets::default().after(of.count, of);
    Offsets {
        output: offsets.output.wrapping_sub(whole.output),
        left: offsets.left.wrapping_sub(whole.left),
        right: offsets.right.wrapping_sub(whole.right),
    }
}

/// A loop, for tests.
#[cfg(test)]
pub(super) const fn each(count: usize, output: i64, left: i64, right: i64) -> Loop {
    Loop { count, output, left, right }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn loops_that_go_on_are_merged() {
        let mut loops = Loops::default();
        [each(3, 20, 0, 40), each(4, 5, 0, 10), each(5, 1, 0, 2)]
            .into_iter()
            .for_each(|inner| loops.push_merged(inner).unwrap());
        assert_eq!(loops.as_slice(), [each(60, 1, 0, 2)]);
        loops.push_merged(each(2, 1, 0, 2)).unwrap();
        assert_eq!((loops.as_slice().len(), loops.count()), (2, 120));
        let mut still = Loops::default();
        [each(usize::MAX, 0, 0, 0); 2].into_iter().for_each(|inner| still.push_merged(inner).unwrap());
        assert_eq!((still.as_slice().len(), still.count()), (2, usize::MAX));
        assert_eq!((loops.remove(0), loops.innermost()), (each(60, 1, 0, 2), each(2, 1, 0, 2)));
        let many = |count: usize| Kinds::of((0..count).map(|at| each(2, 1 << (2 * at), 0, 1)));
        assert!(many(MAX_OF_A_KIND).is_some() && many(MAX_OF_A_KIND + 1).is_none());
    }

    #[test]
    fn walks_visit_every_iteration_in_order() {
        let mut loops = Loops::default();
        [each(2, 100, 1, 0), each(3, 10, 0, 7), each(4, 1, 0, 1)]
            .into_iter()
            .for_each(|inner| loops.push(inner).unwrap());
        let mut walk = Walk::new(&loops);
        for round in 0..2 {
            for (i, j, k) in (0..24i64).map(|n| (n / 12, n / 4 % 3, n % 4)) {
                let expected = Offsets { output: 100 * i + 10 * j + k, left: i, right: 7 * j + k };
                assert_eq!((walk.offsets(), walk.run()), (expected, 4 - k as usize), "{round}");
                walk.advance(1);
            }
        }
        walk.advance(4);
        assert_eq!(walk.offsets(), Offsets { output: 10, left: 0, right: 7 });
        let mut walk = Walk::at(&loops, 15);
        assert_eq!((walk.offsets(), walk.run()), (Offsets { output: 103, left: 1, right: 3 }, 1));
        walk.advance(1);
        assert_eq!((walk.offsets(), walk.run()), (Offsets { output: 110, left: 1, right: 7 }, 4));
        let none = Loops::default();
        let mut single = Walk::new(&none);
        assert_eq!((single.run(), single.offsets()), (1, Offsets::default()));
        single.advance(1);
    }
}
