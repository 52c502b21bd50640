//! Maps and sets whose keys are numbers: values, blocks, functions.
//!
//! All of them use one tree, which leads from numbers to positions of a list: a program compiles the tree once, and not for each type
//! of keys and entries.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::ops::Index;

/// A type whose values are numbers of 32 bits.
pub trait Key: Copy {
    /// Returns the number.
    fn number(self) -> u32;

    /// Returns the key of a number that [`Key::number`] returned.
    fn of_number(number: u32) -> Self;
}

impl Key for u32 {
    fn number(self) -> u32 {
        self
    }

    fn of_number(number: u32) -> u32 {
        number
    }
}

impl Key for u16 {
    fn number(self) -> u32 {
        self.into()
    }

    fn of_number(number: u32) -> u16 {
        number as u16
    }
}

/// A map whose keys are numbers, in their order. Entries stay until all are removed.
#[derive(Clone, Debug)]
pub struct IndexMap<K, V> {
    positions: BTreeMap<u32, usize>,
    entries: Vec<V>,
    key: PhantomData<K>,
}

/// A set of numbers, in their order.
pub type IndexSet<K> = IndexMap<K, ()>;

impl<K, V> Default for IndexMap<K, V> {
    fn default() -> IndexMap<K, V> {
        IndexMap { positions: BTreeMap::new(), entries: Vec::new(), key: PhantomData }
    }
}

impl<K: Key, V> IndexMap<K, V> {
    /// Returns true if there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if a key has an entry.
    #[must_use]
    pub fn contains(&self, key: K) -> bool {
        find(&self.positions, key.number()).is_some()
    }

    /// Returns the entry of a key.
    #[must_use]
    pub fn get(&self, key: K) -> Option<&V> {
        find(&self.positions, key.number()).map(|position| &self.entries[position])
    }

    /// Sets the entry of a key. Returns true if there was none.
    pub fn insert(&mut self, key: K, entry: V) -> bool {
        let position = position_of(&mut self.positions, key.number(), self.entries.len());
        let is_new = position == self.entries.len();
        if is_new {
            self.entries.push(entry);
        } else {
            self.entries[position] = entry;
        }
        is_new
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.positions.clear();
        self.entries.clear();
    }

    /// Returns the keys, ascending.
    pub fn keys(&self) -> impl Iterator<Item = K> {
        self.positions.keys().map(|number| K::of_number(*number))
    }

    /// Returns the entries, the oldest first.
    #[must_use]
    pub fn values(&self) -> &[V] {
        &self.entries
    }

    /// Returns the entries, the oldest first.
    pub fn values_mut(&mut self) -> &mut [V] {
        &mut self.entries
    }

    /// Returns the keys, ascending, and their entries.
    pub fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.positions.iter().map(|(number, position)| (K::of_number(*number), &self.entries[*position]))
    }
}

impl<K: Key, V> Index<K> for IndexMap<K, V> {
    type Output = V;

    /// Returns the entry of a key.
    ///
    /// # Panics
    /// Where the key has none.
    fn index(&self, key: K) -> &V {
        &self.entries[find(&self.positions, key.number()).unwrap_or(usize::MAX)]
    }
}

impl<K: Key> Extend<K> for IndexSet<K> {
    fn extend<T: IntoIterator<Item = K>>(&mut self, keys: T) {
        for key in keys {
            self.insert(key, ());
        }
    }
}

impl<K: Key> FromIterator<K> for IndexSet<K> {
    fn from_iter<T: IntoIterator<Item = K>>(keys: T) -> IndexSet<K> {
        let mut set = IndexSet::default();
        set.extend(keys);
        set
    }
}

fn find(positions: &BTreeMap<u32, usize>, number: u32) -> Option<usize> {
    positions.get(&number).copied()
}

/// Returns the position of a number, which is `next` if it has none yet.
fn position_of(positions: &mut BTreeMap<u32, usize>, number: u32, next: usize) -> usize {
    *positions.entry(number).or_insert(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn entries_are_found_and_replaced() {
        let mut map = IndexMap::<u32, &str>::default();
        assert!(map.insert(7, "seven") && map.insert(3, "three") && !map.insert(7, "VII"));
        assert_eq!((map.get(7), map.get(3), map.get(4)), (Some(&"VII"), Some(&"three"), None));
        assert_eq!(map.keys().collect::<Vec<u32>>(), [3, 7]);
        assert_eq!(map.iter().collect::<Vec<_>>(), [(3, &"three"), (7, &"VII")]);
        assert_eq!((map.values(), map.len()), (&["VII", "three"][..], 2));
        map.values_mut()[0] = "7";
        assert_eq!(map.get(7), Some(&"7"));
        map.clear();
        assert!(map.is_empty() && !map.contains(7));
    }

    #[test]
    fn sets_contain_each_number_once() {
        let set: IndexSet<u32> = vec![5, 1, 5, 9].into_iter().collect();
        assert_eq!(set.keys().collect::<Vec<u32>>(), [1, 5, 9]);
        assert!(set.contains(1) && !set.contains(2));
    }
}
