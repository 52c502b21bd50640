//! The types of primitives in signatures, for the fast path of calls.

use crate::bytecode::ConventionItem;

/// The types of at most eight primitives, packed into one integer: one comparison checks a call against the signature.
#[derive(Clone, Copy, Debug)]
pub struct Primitives(u64);

impl Primitives {
    /// Stands for other types, and for more than eight values.
    const OTHERS: u64 = 0;

    /// Packs the types of the given values.
    #[inline(always)]
    pub(super) const fn of(items: &[ConventionItem]) -> Primitives {
        if items.len() > 8 {
            return Primitives(Primitives::OTHERS);
        }
        // A type takes fewer than four bits; the leading one encodes the count.
        let (mut all, mut index) = (1, 0);
        while index < items.len() {
            all = match items[index] {
                item @ (ConventionItem::I32 | ConventionItem::I64 | ConventionItem::F32 | ConventionItem::F64) => {
                    all << 4 | item as u64
                }
                ConventionItem::Ref | ConventionItem::SpanStart | ConventionItem::SpanEnd => {
                    return Primitives(Primitives::OTHERS);
                }
            };
            index += 1;
        }
        Primitives(all)
    }

    /// Returns true if the given values are primitives of these types.
    #[inline(always)]
    pub(super) fn are(self, items: &[ConventionItem]) -> bool {
        let wanted = Primitives::of(items).0;
        wanted != Primitives::OTHERS && self.0 == wanted
    }
}
