//! What the functions of an imported module state in attributes.

/// The attribute of the number of positions of a slot.
pub const CONTEXT: &str = "incarnate.context";
/// The attribute of the number of slots.
pub const SLOTS: &str = "incarnate.slots";
/// The attribute of the number of tokens of a batch, of the function `decode_batch`.
pub const BATCH: &str = "incarnate.batch";
/// The attribute of the [`Pooling`] of the function `embed`: [its text](Pooling::text).
pub const POOLING: &str = "incarnate.pooling";

/// How the vectors of a text's tokens become one, the embedding of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// Their mean. Functions return their sum, which has the same direction.
    Mean,
    /// That of the last token.
    Last,
}

impl Pooling {
    const ALL: [Pooling; 2] = [Pooling::Mean, Pooling::Last];

    /// Returns the value of a text; `None` for an unknown one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Pooling> {
        Pooling::ALL.into_iter().find(|pooling| pooling.text() == text)
    }

    /// Returns the text of the value.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Pooling::Mean => "mean",
            Pooling::Last => "last",
        }
    }
}
