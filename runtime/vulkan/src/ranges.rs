//! Free ranges of a block of memory.

use std::collections::BTreeMap;

/// The free ranges of a block: neighbours are joined.
#[derive(Debug)]
pub(crate) struct Ranges {
    /// Lengths by offset.
    free: BTreeMap<u64, u64>,
    size: u64,
}

impl Ranges {
    /// All of a block.
    pub(crate) fn all(size: u64) -> Ranges {
        Ranges { free: BTreeMap::from([(0, size)]), size }
    }

    /// Takes the first range that is long enough, and returns its offset.
    pub(crate) fn take(&mut self, length: u64) -> Option<u64> {
        let (&offset, &found) = self.free.iter().find(|(_, found)| **found >= length)?;
        self.free.remove(&offset);
        if found > length {
            self.free.insert(offset + length, found - length);
        }
        Some(offset)
    }

    /// Returns a range that was taken.
    pub(crate) fn put(&mut self, offset: u64, length: u64) {
        let (mut start, mut end) = (offset, offset + length);
        if let Some((&before, &found)) = self.free.range(..offset).next_back()
            && before + found == offset
        {
            self.free.remove(&before);
            start = before;
        }
        if let Some(found) = self.free.remove(&end) {
            end += found;
        }
        self.free.insert(start, end - start);
    }

    /// Returns true if no range is taken.
    pub(crate) fn is_unused(&self) -> bool {
        self.free.get(&0) == Some(&self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_disjoint_and_join_again() {
        let mut ranges = Ranges::all(1024);
        let mut taken = Vec::new();
        let mut state = 1u64;
        for _ in 0..10_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let length = 64 * (1 + (state >> 33) % 4);
            if state >> 63 == 0 || taken.len() > 12 {
                if !taken.is_empty() {
                    let (offset, length) = taken.swap_remove((state >> 40) as usize % taken.len());
                    ranges.put(offset, length);
                }
            } else if let Some(offset) = ranges.take(length) {
                let overlaps = |&(other, size): &(u64, u64)| offset < other + size && other < offset + length;
                assert!(offset + length <= 1024 && !taken.iter().any(overlaps));
                taken.push((offset, length));
            }
        }
        taken.into_iter().for_each(|(offset, length)| ranges.put(offset, length));
        assert!(ranges.is_unused());
        assert_eq!(ranges.take(1024), Some(0));
        assert!(!ranges.is_unused() && ranges.take(64).is_none());
    }
}
