//! Stop texts: texts that end an answer, found while it is written.

/// Ends a text before the first stop text in it, wherever the pieces of the text are divided.
///
/// Text that could be the start of a stop text is held back until it is known whether it is one.
///
/// ```
/// use incarnate_text::StopTexts;
///
/// let mut stop = StopTexts::new(["\nUser:"]);
/// assert_eq!(stop.push("Fine.\nUs"), "Fine.");
/// assert_eq!(stop.push("ually.\nUser: And"), "\nUsually.");
/// assert_eq!(stop.stopped_by(), Some("\nUser:"));
/// ```
#[derive(Clone, Debug)]
pub struct StopTexts {
    texts: Vec<StopText>,
    /// Text that may be the start of a stop text.
    held: String,
    stopped_by: Option<usize>,
}

/// A stop text, searched with the algorithm of Knuth, Morris and Pratt.
#[derive(Clone, Debug)]
struct StopText {
    text: String,
    /// For each prefix its longest border: the longest shorter prefix that is also a suffix of it, in bytes.
    borders: Vec<usize>,
    /// The longest prefix that the text read so far ends with, in bytes.
    matched: usize,
}

impl StopText {
    fn new(text: String) -> StopText {
        let mut stop = StopText { text, borders: vec![0], matched: 0 };
        for index in 1..stop.text.len() {
            let byte = stop.text.as_bytes().get(index).copied().unwrap_or_default();
            stop.advance(byte);
            stop.borders.push(stop.matched);
        }
        stop.matched = 0;
        stop
    }

    /// Reads a byte. Returns whether the text ends with the stop text.
    fn advance(&mut self, byte: u8) -> bool {
        while self.text.as_bytes().get(self.matched) != Some(&byte) {
            let Some(shorter) = self.matched.checked_sub(1) else { return false };
            self.matched = self.borders.get(shorter).copied().unwrap_or_default();
        }
        self.matched += 1;
        self.matched == self.text.len()
    }
}

impl StopTexts {
    /// Returns a filter for a text. Empty stop texts are ignored.
    pub fn new<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> StopTexts {
        let texts = texts.into_iter().map(Into::into).filter(|text: &String| !text.is_empty());
        StopTexts { texts: texts.map(StopText::new).collect(), held: String::new(), stopped_by: None }
    }

    /// Adds a piece of the text and returns what precedes any stop text. Behind a stop text it returns nothing.
    pub fn push(&mut self, text: &str) -> String {
        if self.stopped_by.is_some() {
            return String::new();
        }
        let start = self.held.len();
        self.held.push_str(text);
        for (index, byte) in text.bytes().enumerate() {
            // The longest one that ends here begins first.
            let mut found: Option<(usize, usize)> = None;
            for (number, stop) in self.texts.iter_mut().enumerate() {
                if stop.advance(byte) {
                    found = found.max(Some((stop.text.len(), number)));
                }
            }
            if let Some((length, number)) = found {
                self.stopped_by = Some(number);
                self.held.truncate((start + index + 1).saturating_sub(length));
                return core::mem::take(&mut self.held);
            }
        }
        let kept = self.texts.iter().map(|stop| stop.matched).max().unwrap_or_default();
        let rest = self.held.split_off(self.held.len().saturating_sub(kept));
        core::mem::replace(&mut self.held, rest)
    }

    /// Ends the text and returns what was held back.
    pub fn finish(&mut self) -> String {
        self.texts.iter_mut().for_each(|stop| stop.matched = 0);
        core::mem::take(&mut self.held)
    }

    /// Returns the stop text that ended the text.
    #[must_use]
    pub fn stopped_by(&self) -> Option<&str> {
        self.texts.get(self.stopped_by?).map(|stop| stop.text.as_str())
    }
}
