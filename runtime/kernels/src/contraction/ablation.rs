//! Special forms that can be switched off, to measure what each is worth: `benches/ablation`.

macro_rules! forms {
    ($(#[doc = $text:literal] $name:ident,)*) => {
        /// A form of plans, micro-tiles or copies without which contractions are correct, and take more time.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(dead_code, reason = "some forms exist on some targets only")]
        pub(super) enum Form {
            $(#[doc = $text] $name,)*
        }

        #[cfg(ablation)]
        const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}
forms! {
    /// One row with many columns: eight rows of a matrix are added to sums in memory.
    Gaxpy,
    /// Vectors of every second element, for rows with a B of their own.
    EvenColumns,
    /// Lines that overlapping windows share are loaded once.
    Windows,
    /// B is transposed in registers.
    Transposed,
    /// Vectors across a batch dimension.
    Across,
    /// Panels across the ends of the innermost loop of N.
    CrossingPanels,
    /// Tiles run for several iterations of the batch.
    Repeats,
    /// Strips wider than usual, for few rows.
    WideStrips,
    /// Products of narrow integers by an instruction that adds several.
    NarrowGroups,
    /// Prepacked constants.
    Layouts,
    /// Prepacked constants in panels, not in lines of all columns.
    LayoutPanels,
    /// Prepacked constants that are by rows already.
    LayoutsByRows,
    /// Panels of constants interleaved from four streams.
    Streams,
    /// The next panel of a constant is fetched.
    FetchPanel,
    /// The next rows of A are fetched.
    FetchRows,
    /// Four products at once, without a list of offsets.
    Regular,
    /// Outputs of zeros are not loaded.
    Zeros,
    /// The planner counts loads from competing lines of the cache.
    CompetingLoads,
    /// Lists of offsets are kept for the next contraction of the same plan.
    KeptLists,
}

#[cfg(not(ablation))]
impl Form {
    /// Returns true.
    #[inline(always)]
    pub(super) const fn is_used(self) -> bool {
        true
    }
}

#[cfg(ablation)]
impl Form {
    /// Returns false for the form that the variable INCARNATE_WITHOUT names.
    #[inline(always)]
    pub(super) fn is_used(self) -> bool {
        use std::sync::OnceLock;
        static WITHOUT: OnceLock<usize> = OnceLock::new();
        let position = || {
            let without = std::env::var("INCARNATE_WITHOUT").unwrap_or_default();
            NAMES.iter().position(|name| *name == without).unwrap_or(NAMES.len())
        };
        *WITHOUT.get_or_init(position) != self as usize
    }
}
