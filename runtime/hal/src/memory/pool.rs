//! A caching pool of device memory: what a program frees, its next call gets back, without a system call.

use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::Ordering;

use crate::vm::{self, AtomicU64, Block, BlockPool, Chunk, Ledger, Lock, SoleBuffer, TryLock};
use crate::{Error, Result};

/// Alignment in bytes of small blocks: a cache line, and the widest vector.
pub const MINIMUM_ALIGNMENT: usize = 64;
/// Capacity in bytes from which blocks come from chunks.
const CHUNKED_FROM: usize = 64 * 1024;
const PAGE: usize = 4096;

/// Blocks of a chunk begin at different offsets in their first page: kernels that walk several buffers in step would
/// otherwise touch addresses that agree in their low 12 bits, which processors take for dependences and cache sets for one.
const COLORS: usize = 8;
/// Bytes from one color to the next: a multiple of the alignment that is no power of two.
const COLOR_STEP: usize = 576;
/// Bytes that may always be cached, whatever the peak was.
const CACHE_FLOOR: usize = 64 << 20;
/// How many larger size classes are searched before the system is asked.
const LARGER_CLASSES: usize = 2;
/// Small blocks that are at hand without the lock.
const RECENT: usize = 4;

/// What an allocator has allocated, in bytes of the requested sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocatorStatistics {
    /// Bytes that are allocated now.
    pub live: u64,
    /// The most that were allocated at once.
    pub peak: u64,
    /// Bytes allocated in all.
    pub allocated: u64,
    /// Bytes freed in all.
    pub freed: u64,
    /// Bytes that the pool keeps for reuse, in sizes of its classes.
    pub cached: u64,
    /// How often the system was asked for memory.
    pub system_allocations: u64,
}

/// Blocks by size class. A lock is held for a push or a pop; the system is asked outside of it.
///
/// The small blocks that were freed last are kept separately, behind a lock that is tried and never waited for: to a program that frees
/// and allocates the same in turn, each costs one read-modify-write. Each of the two parts counts what goes through it, and
/// reads what the other one has counted where it needs all that is live: exact if one thread allocates, and otherwise off by one
/// small block that is under way. A pool whose limit is not many times what may be recent does without.
pub(super) struct Pool {
    recent: TryLock<Recent>,
    state: Lock<State>,
    /// `live` of the two, for the other one.
    recent_live: AtomicU64,
    state_live: AtomicU64,
    limit: u64,
    /// Bytes that a block is charged besides its own: those of the objects around it.
    overhead: u64,
}

/// Small blocks, each with its class.
#[derive(Debug, Default)]
struct Recent {
    blocks: [Option<(usize, SoleBuffer)>; RECENT],
    /// Which block the next one replaces.
    next: usize,
    /// `live` modulo the width, as more may be freed than was allocated here; `peak` is that of both parts.
    statistics: AllocatorStatistics,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool(at most {} bytes)", self.limit)
    }
}

#[derive(Debug, Default)]
struct State {
    /// Free blocks of each class, the last freed (and warmest) at the end. Each is a byte buffer of programs already, which the
    /// next allocation takes over.
    classes: Vec<Vec<SoleBuffer>>,
    statistics: AllocatorStatistics,
    /// The chunk that large blocks are taken from, and how many of its bytes are.
    chunk: Option<(Arc<Chunk>, usize)>,
}

/// The class of a size, and the capacity of its blocks: multiples of 64 up to 256, then four to each power of two, so that
/// at most a fifth of a block is wasted.
fn class_of(size: usize) -> Option<(usize, usize)> {
    if size <= 256 {
        let steps = size.max(1).div_ceil(64);
        return Some((steps - 1, steps * 64));
    }
    // `size` is in (2^(bits-1), 2^bits], `bits` at least 9.
    let bits = (usize::BITS - (size - 1).leading_zeros()) as usize;
    let step = 1usize << (bits - 3);
    let steps = size.div_ceil(step);
    Some((4 + (bits - 9) * 4 + (steps - 5), steps.checked_mul(step)?))
}

impl Pool {
    /// Creates a pool of which at most `limit` bytes are in use at once, and which charges `overhead` bytes more for each block.
    pub(super) fn new(limit: u64, overhead: u64) -> Arc<Pool> {
        Arc::new(Pool {
            recent: TryLock::default(),
            state: Lock::default(),
            recent_live: AtomicU64::new(0),
            state_live: AtomicU64::new(0),
            limit,
            overhead,
        })
    }

    /// True where there is a bound to what may be in use.
    #[inline]
    pub(super) fn is_limited(&self) -> bool {
        self.limit != u64::MAX
    }

    /// Whether the recent blocks, which no ledger counts, are at most one part in 64 of the limit.
    #[inline]
    fn has_recent(&self) -> bool {
        self.limit >= (64 * RECENT * CHUNKED_FROM) as u64
    }

    /// A block of the class that was just freed.
    #[inline]
    fn take_recent(&self, class: usize, length: u64) -> Option<SoleBuffer> {
        let taken = self.recent.with(|recent| {
            let live = recent.statistics.live.wrapping_add(length);
            let all_live = both_live(live, &self.state_live);
            if all_live > self.limit {
                return None;
            }
            let is_of_class =
                |block: &&mut Option<(usize, SoleBuffer)>| block.as_ref().is_some_and(|(other, _)| *other == class);
            let (_, block) = recent.blocks.iter_mut().find(is_of_class)?.take()?;
            let statistics = &mut recent.statistics;
            statistics.live = live;
            statistics.allocated = statistics.allocated.wrapping_add(length);
            statistics.peak = statistics.peak.max(all_live);
            self.recent_live.store(statistics.live, Ordering::Relaxed);
            Some(block)
        });
        taken.ok().flatten()
    }

    /// Keeps a small block at hand, in place of another one if there are enough. Gives what is not kept, and whether that was
    /// counted.
    #[inline]
    fn put_recent(&self, block: SoleBuffer) -> Option<(SoleBuffer, bool)> {
        let (length, capacity) = (block.length(), block.capacity());
        let class = match class_of(capacity) {
            Some((class, _)) if capacity < CHUNKED_FROM && self.has_recent() => class,
            _ => return Some((block, false)),
        };
        let mut block = Some((class, block));
        let replaced = self.recent.with(|recent| {
            let statistics = &mut recent.statistics;
            statistics.live = statistics.live.wrapping_sub(length);
            statistics.freed = statistics.freed.wrapping_add(length);
            self.recent_live.store(statistics.live, Ordering::Relaxed);
            let mut blocks = recent.blocks.iter_mut();
            match blocks.find(|slot| slot.is_none()) {
                Some(slot) => {
                    *slot = block.take();
                    None
                }
                None => {
                    recent.next = (recent.next + 1) % RECENT;
                    core::mem::replace(recent.blocks.get_mut(recent.next)?, block.take())
                }
            }
        });
        match replaced {
            Ok(replaced) => replaced.map(|(_, block)| (block, true)),
            Err(_) => block.map(|(_, block)| (block, false)),
        }
    }

    /// A byte buffer of `length` bytes, at least 1. Its block is charged until it returns.
    #[inline(always)]
    pub(super) fn allocate(self: &Arc<Pool>, length: u64, ledger: &Ledger) -> Result<Arc<vm::Buffer>> {
        let size = usize::try_from(length).ok().filter(|size| isize::try_from(*size).is_ok());
        let (Some(size), Some((class, capacity))) = (size, size.and_then(class_of)) else {
            return Err(too_large(length, self.limit));
        };
        let charge = ledger.charge(capacity as u64 + self.overhead)?;
        let block = match self.take_recent(class, length) {
            Some(block) => block,
            None => self.take(class, capacity, size)?,
        };
        block.hand_out(size, Arc::clone(self) as _, charge)
    }

    /// A block that is none of the recent ones.
    #[inline(never)]
    fn take(&self, class: usize, capacity: usize, size: usize) -> Result<SoleBuffer> {
        let length = size as u64;
        let cached = {
            let mut state = self.state.lock();
            // Each is a number of bytes that can be addressed; all that were ever allocated may wrap.
            let statistics = &mut state.statistics;
            let live = statistics.live.wrapping_add(length);
            let all_live = both_live(live, &self.recent_live);
            if length.max(all_live) > self.limit {
                return Err(too_large(length, self.limit.saturating_sub(all_live.saturating_sub(length))));
            }
            statistics.live = live;
            statistics.peak = statistics.peak.max(all_live);
            statistics.allocated = statistics.allocated.wrapping_add(length);
            self.state_live.store(live, Ordering::Relaxed);
            state.take(class, capacity, self.is_limited())
        };
        match cached {
            Some(block) => Ok(block),
            None => Ok(SoleBuffer::of_block(self.allocate_from_system(capacity, size)?)),
        }
    }

    #[cold]
    fn allocate_from_system(&self, capacity: usize, length: usize) -> Result<Block> {
        let obtain = || match self.carve(capacity) {
            Some(block) => Some(block),
            None => Block::allocate(capacity, MINIMUM_ALIGNMENT),
        };
        let block = obtain().or_else(|| {
            // What is cached may be what is missing.
            self.trim();
            obtain()
        });
        let mut state = self.state.lock();
        state.statistics.system_allocations += 1;
        block.ok_or_else(|| {
            state.statistics.live = state.statistics.live.wrapping_sub(length as u64);
            self.state_live.store(state.statistics.live, Ordering::Relaxed);
            Error::resource_exhausted(format!("the system has no {length} bytes of memory for a buffer"))
        })
    }

    /// A block of the current chunk, or of a new one where that is used up; `None` for small blocks.
    fn carve(&self, capacity: usize) -> Option<Block> {
        if capacity < CHUNKED_FROM {
            return None;
        }
        let mut state = self.state.lock();
        let color = state.statistics.system_allocations as usize % COLORS * COLOR_STEP;
        if let Some((chunk, used)) = &mut state.chunk {
            let offset = used.checked_next_multiple_of(PAGE)?.checked_add(color)?;
            if let Some(block) = Block::of_chunk(Arc::clone(chunk), offset, capacity) {
                *used = offset + capacity;
                return Some(block);
            }
        }
        let chunk = Chunk::map(capacity.checked_add(color)?)?;
        let block = Block::of_chunk(Arc::clone(&chunk), color, capacity)?;
        let used = color + capacity;
        let left = |chunk: &Chunk, used: usize| chunk.length() - used;
        // The chunk with more space left serves the next blocks.
        if state.chunk.as_ref().is_none_or(|(old, old_used)| left(old, *old_used) < left(&chunk, used)) {
            state.chunk = Some((chunk, used));
        }
        Some(block)
    }

    /// Returns everything that is cached to the system.
    pub(super) fn trim(&self) {
        let recent = self.recent.wait_with(|recent| core::mem::take(&mut recent.blocks));
        let classes = {
            let mut state = self.state.lock();
            state.statistics.cached = 0;
            (core::mem::take(&mut state.classes), state.chunk.take())
        };
        drop((recent, classes));
    }

    pub(super) fn statistics(&self) -> AllocatorStatistics {
        let (recent, cached) = self.recent.wait_with(|recent| {
            let blocks = recent.blocks.iter().flatten();
            (recent.statistics, blocks.map(|(_, block)| block.capacity() as u64).sum::<u64>())
        });
        let state = self.state.lock().statistics;
        AllocatorStatistics {
            live: state.live.wrapping_add(recent.live),
            peak: state.peak.max(recent.peak),
            allocated: state.allocated.wrapping_add(recent.allocated),
            freed: state.freed.wrapping_add(recent.freed),
            cached: state.cached.wrapping_add(cached),
            system_allocations: state.system_allocations,
        }
    }
}

/// Bytes that are live, by one part's count and what the other part says of its own.
fn both_live(own: u64, other: &AtomicU64) -> u64 {
    let live = own.wrapping_add(other.load(Ordering::Relaxed));
    // What the other part is about to say may be missing.
    if live > u64::MAX / 2 { 0 } else { live }
}

impl BlockPool for Pool {
    #[inline]
    fn give_back(&self, block: SoleBuffer) {
        if let Some((block, is_counted)) = self.put_recent(block) {
            self.put(block, is_counted);
        }
    }
}

impl Pool {
    /// Takes a block that is none of the recent ones.
    #[inline(never)]
    fn put(&self, block: SoleBuffer, is_counted: bool) {
        let length = if is_counted { 0 } else { block.length() };
        let refused = {
            let mut state = self.state.lock();
            state.statistics.live = state.statistics.live.wrapping_sub(length);
            state.statistics.freed = state.statistics.freed.wrapping_add(length);
            self.state_live.store(state.statistics.live, Ordering::Relaxed);
            state.put(block, self.limit)
        };
        // Returned to the system outside of the lock.
        drop(refused);
    }
}

impl State {
    fn take(&mut self, class: usize, capacity: usize, is_limited: bool) -> Option<SoleBuffer> {
        if let Some(block) = self.classes.get_mut(class).and_then(Vec::pop) {
            self.statistics.cached = self.statistics.cached.wrapping_sub(block.capacity() as u64);
            return Some(block);
        }
        // Small blocks are cheap to obtain; larger ones may serve for what is a little smaller, unless each byte counts.
        let last = if capacity < CHUNKED_FROM || is_limited { class } else { class + LARGER_CLASSES };
        let end = last.min(self.classes.len().checked_sub(1)?);
        let free = self.classes.get_mut(class..=end)?;
        let block = free.iter_mut().find_map(Vec::pop)?;
        self.statistics.cached = self.statistics.cached.saturating_sub(block.capacity() as u64);
        Some(block)
    }

    /// Keeps the block, or gives it back where enough is kept: twice what was ever in use at once, so that a program in
    /// steady state never loses a block to the system. A pool with a limit keeps at most a quarter of it, as no ledger counts
    /// what is kept.
    fn put(&mut self, block: SoleBuffer, limit: u64) -> Option<SoleBuffer> {
        let capacity = block.capacity();
        let bound = self.statistics.peak.saturating_mul(2).max(CACHE_FLOOR as u64).min(limit / 4);
        let cached = self.statistics.cached.wrapping_add(capacity as u64);
        let Some((class, _)) = class_of(capacity).filter(|_| cached <= bound) else {
            return Some(block);
        };
        if self.classes.len() <= class {
            #[expect(clippy::disallowed_methods, reason = "`class_of` returns a small number")]
            self.classes.resize_with(class + 1, Vec::new);
        }
        match self.classes.get_mut(class) {
            Some(free) => free.push(block),
            None => return Some(block),
        }
        self.statistics.cached = cached;
        None
    }
}

#[cold]
fn too_large(length: u64, available: u64) -> Error {
    Error::resource_exhausted(format!("buffer of {length} bytes exceeds the {available} bytes that may be allocated"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::memory::storage::Storage;

    #[test]
    fn classes_hold_their_sizes_and_waste_little() {
        let mut last = (0, 0);
        for size in (1..70_000).chain([1 << 20, (1 << 20) + 1, (1 << 40) - 1, 1 << 40]) {
            let (class, capacity) = class_of(size).unwrap();
            assert!(capacity >= size && capacity % 64 == 0, "{size}: {capacity}");
            assert!(size <= 256 || capacity - size <= capacity / 5, "{size}: {capacity}");
            assert!(class == last.0 && capacity == last.1 || class > last.0 && capacity > last.1 || last.1 == 0);
            // A block of the class is found again under the same class.
            assert_eq!(class_of(capacity), Some((class, capacity)));
            last = (class, capacity);
        }
    }

    #[test]
    fn freed_memory_is_reused_and_trimmed() {
        let pool = Pool::new(u64::MAX, 0);
        let first = Storage::allocate(&pool, 1000, Ledger::HOST).unwrap();
        let address = first.base().0;
        drop(first);
        assert!(pool.statistics().cached >= 1000);
        let second = Storage::allocate(&pool, 990, Ledger::HOST).unwrap();
        assert_eq!(second.base().0, address);
        assert_eq!(pool.statistics().system_allocations, 1);
        drop(second);
        pool.trim();
        let statistics = pool.statistics();
        assert_eq!((statistics.live, statistics.cached, statistics.peak), (0, 0, 1000));
        assert_eq!((statistics.allocated, statistics.freed), (1990, 1990));
    }

    #[test]
    fn blocks_of_all_sizes_are_found_again_and_counted() {
        let pool = Pool::new(u64::MAX, 0);
        // More small sizes than there are recent blocks, and a large one.
        let sizes = [16u64, 100, 200, 300, 400, 500, 600, 100_000];
        let all: u64 = sizes.iter().sum();
        for round in 1..=3 {
            let held: Vec<_> =
                sizes.iter().map(|size| Storage::allocate(&pool, *size, Ledger::HOST).unwrap()).collect();
            for (index, storage) in held.iter().enumerate() {
                storage.fill(0, storage.length(), index as u64, 1).unwrap();
            }
            for (index, storage) in held.iter().enumerate() {
                let mut bytes = vec![0xFF; storage.length()];
                storage.read(0, &mut bytes).unwrap();
                assert!(bytes.iter().all(|byte| usize::from(*byte) == index), "two buffers have the same block");
            }
            let statistics = pool.statistics();
            assert_eq!((statistics.live, statistics.peak, statistics.allocated), (all, all, round * all));
            drop(held);
            let statistics = pool.statistics();
            assert_eq!((statistics.live, statistics.freed), (0, round * all));
            assert!(statistics.cached >= all);
            assert_eq!(statistics.system_allocations, sizes.len() as u64);
        }
        pool.trim();
        assert_eq!(pool.statistics().cached, 0);
    }

    #[test]
    fn blocks_are_aligned_and_large_ones_of_a_chunk_differ_in_their_low_bits() {
        let pool = Pool::new(u64::MAX, 0);
        for length in [1u64, 65, 4000, 70_000, 3 << 20] {
            let storage = Storage::allocate(&pool, length, Ledger::HOST).unwrap();
            assert_eq!(storage.base().0.addr() % MINIMUM_ALIGNMENT, 0, "{length}");
            assert_eq!(storage.length() as u64, length);
        }
        let held: Vec<_> = (0..COLORS).map(|_| Storage::allocate(&pool, 100_000, Ledger::HOST).unwrap()).collect();
        let mut ranges: Vec<_> = held.iter().map(|storage| storage.base().0.addr()).collect();
        ranges.sort_unstable();
        assert!(ranges.windows(2).all(|pair| pair[0] + 100_000 <= pair[1]), "blocks overlap: {ranges:x?}");
        let mut low: Vec<_> = ranges.iter().map(|start| start % PAGE).collect();
        low.sort_unstable();
        low.dedup();
        assert!(low.len() >= COLORS - 1, "{low:?}");
        for storage in &held {
            storage.fill(0, 100_000, 0xAB, 1).unwrap();
        }
    }

    #[test]
    fn the_limit_is_kept_and_absurd_sizes_are_refused() {
        let pool = Pool::new(4096, 0);
        let held = Storage::allocate(&pool, 4000, Ledger::HOST).unwrap();
        let error = Storage::allocate(&pool, 100, Ledger::HOST).unwrap_err();
        assert_eq!(error.code(), crate::StatusCode::ResourceExhausted);
        drop(held);
        assert!(Storage::allocate(&pool, 100, Ledger::HOST).is_ok());
        assert!(Storage::allocate(&Pool::new(u64::MAX, 0), u64::MAX, Ledger::HOST).is_err());
        assert!(Storage::allocate(&Pool::new(u64::MAX, 0), 1 << 62, Ledger::HOST).is_err());
    }

    #[test]
    fn blocks_in_use_are_charged_and_a_limited_pool_keeps_few() {
        let (pool, ledger) = (Pool::new(1 << 20, 0), Ledger::new(1 << 20, 10));
        let held = Storage::allocate(&pool, 100_000, &ledger).unwrap();
        assert!(ledger.bytes() >= 100_000 && ledger.objects() == 1);
        assert!(Storage::allocate(&pool, 1 << 20, &ledger).is_err());
        // A program's share of the bytes outlives the storage.
        let shared = Arc::clone(held.vm_buffer().unwrap());
        drop(held);
        assert!(ledger.bytes() >= 100_000);
        drop(shared);
        assert_eq!((ledger.bytes(), ledger.objects()), (0, 0));
        for size in (10_000..100_000).step_by(5000) {
            drop(Storage::allocate(&pool, size, &ledger).unwrap());
        }
        let cached = pool.statistics().cached;
        assert!(cached > 0 && cached <= 1 << 18, "{cached}");
        assert_eq!(ledger.bytes(), 0);
    }

    #[test]
    fn recent_blocks_count_against_the_limit() {
        let limit = 32 << 20;
        let pool = Pool::new(limit, 0);
        let allocate = |length: u64| Storage::allocate(&pool, length, Ledger::HOST);
        drop(allocate(60_000).unwrap());
        let most = allocate(limit - 60_000).unwrap();
        // The recent block is at hand, and is all that is left.
        let last = allocate(60_000).unwrap();
        assert_eq!(pool.statistics().live, limit);
        assert!(allocate(1).is_err() && allocate(60_000).is_err());
        drop(last);
        assert!(allocate(60_001).is_err() && allocate(60_000).is_ok());
        drop(most);
        assert_eq!(pool.statistics().live, 0);
    }

    #[test]
    fn many_threads_share_a_pool() {
        let pool = Pool::new(u64::MAX, 0);
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let pool = &pool;
                scope.spawn(move || {
                    for round in 0..200u64 {
                        let storage = Storage::allocate(pool, 64 + round % 7 * 100, Ledger::HOST).unwrap();
                        storage.fill(0, storage.length(), u64::from(thread), 1).unwrap();
                        let mut bytes = vec![0; storage.length()];
                        storage.read(0, &mut bytes).unwrap();
                        assert!(bytes.iter().all(|byte| *byte == thread));
                    }
                });
            }
        });
        assert_eq!(pool.statistics().live, 0);
    }
}
