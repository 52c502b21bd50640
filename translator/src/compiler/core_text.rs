//! Changes of a model between two phases of the compiler: behind the conversion of the input to core dialects, whose text is changed line by
//! line, and before all that follows.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use super::globals::{Copies, MutableGlobals, text_of};
use super::{casts, globals};

/// The phase behind which the text is changed.
pub(super) const PHASE: &str = "input";

/// Which changes a model may need.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    cuts: bool,
    copies: bool,
}

/// How many changes there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    /// [Conversions that cut](casts).
    pub(super) cuts: usize,
    /// [Copies for globals](globals).
    pub(super) copies: usize,
}

impl Wanted {
    /// Returns which changes a model may need, for a compilation; `None` where there are none.
    pub(super) fn of(model: &Path, arguments: &[String]) -> Option<Wanted> {
        let wanted = Wanted {
            cuts: casts::rounds(arguments) && casts::may_convert(model).unwrap_or(false),
            copies: globals::may_store(model).unwrap_or(false),
        };
        (wanted.cuts || wanted.copies).then_some(wanted)
    }

    /// Copies text of core dialects with the changes.
    ///
    /// # Errors
    /// Errors of reading and writing.
    pub(super) fn write(self, from: &Path, to: &Path) -> io::Result<Changes> {
        let mut copies = if self.copies { Some(Copies::new(MutableGlobals::of(from)?)) } else { None };
        let mut reader = BufReader::with_capacity(1 << 16, File::open(from)?);
        let mut writer = BufWriter::new(File::create(to)?);
        let (mut line, mut cuts) = (Vec::new(), 0);
        loop {
            line.clear();
            if reader.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            let text = text_of(&line);
            let is_written = self.cuts && casts::write(text, &mut cuts, &mut writer)?
                || match &mut copies {
                    Some(copies) => copies.write(text, &mut writer)?,
                    None => false,
                };
            if !is_written {
                writer.write_all(&line)?;
            }
        }
        writer.flush()?;
        Ok(Changes { cuts, copies: copies.map_or(0, |copies| copies.count) })
    }
}
