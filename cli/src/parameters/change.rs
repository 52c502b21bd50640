//! Changes of parameters when archives are converted.

use incarnate_runtime::hal::format::{TensorType, parse_elements};
use incarnate_runtime::parameters::{ParameterEntry, Splat};
use incarnate_runtime::{Error, Result, ResultExt};

/// A parameter that a splat replaces.
#[derive(Debug)]
pub(super) struct Replacement<'a> {
    key: &'a str,
    /// The element type and value; zeros if it is None.
    pattern: Option<Vec<u8>>,
    used: bool,
}

impl<'a> Replacement<'a> {
    /// Parses `KEY` or `KEY=TYPE=VALUE`; keys may contain `=`.
    pub(super) fn parse(text: &'a str) -> Result<Replacement<'a>> {
        let parts = text.rsplit_once('=').and_then(|(rest, value)| Some((rest.rsplit_once('=')?, value)));
        let Some(((key, kind), value)) = parts else {
            return Ok(Replacement { key: text, pattern: None, used: false });
        };
        let pattern = pattern(kind, value).context(|| format!("--splat={text}"))?;
        Ok(Replacement { key, pattern: Some(pattern), used: false })
    }
}

/// Parses the bytes of one value: `f32` and `4.5`, or `x32` and its digits.
fn pattern(kind: &str, value: &str) -> Result<Vec<u8>> {
    if let Some(bytes) = kind.strip_prefix('x').and_then(|bits| bits.parse::<usize>().ok()).map(|bits| bits / 8)
        && [1, 2, 4, 8].contains(&bytes)
    {
        let digits = value.strip_prefix("0x").unwrap_or(value);
        let number = u64::from_str_radix(digits, 16).ok().filter(|number| bytes == 8 || number >> (8 * bytes) == 0);
        let number = number.ok_or_else(|| {
            Error::invalid_argument(format!("'{value}' is not a hexadecimal number of {} bits", 8 * bytes))
        })?;
        return Ok(number.to_le_bytes()[..bytes].to_vec());
    }
    let tensor: TensorType = kind.parse()?;
    if !tensor.shape.is_empty() {
        return Err(Error::invalid_argument(format!("{tensor} is more than one value: a splat repeats one")));
    }
    if !tensor.element.is_byte_aligned() {
        return Err(Error::invalid_argument(format!("{tensor} is not a whole number of bytes, as a splat must be")));
    }
    let mut bytes = vec![0; tensor.element.dense_byte_count()];
    parse_elements(value, tensor.element, &mut bytes)?;
    Ok(bytes)
}

/// Parses `4096xf32=4.1`, a splat of the tensor's length.
pub(super) fn splat_of(text: &str) -> Result<Splat> {
    let (tensor, value) = text.split_once('=').unwrap_or((text, "0"));
    let tensor: TensorType = tensor.parse()?;
    let element = TensorType { shape: Vec::new(), element: tensor.element };
    Splat::new(&pattern(&element.to_string(), value)?, tensor.byte_length()?)
}

/// The changes of parameters.
#[derive(Debug)]
pub(super) struct Changes<'a> {
    pub(super) excluded: Vec<&'a str>,
    pub(super) renamed: Vec<(&'a str, &'a str)>,
    pub(super) replaced: Vec<Replacement<'a>>,
    pub(super) strip: bool,
}

impl Changes<'_> {
    /// Returns the changed parameter, unless it is removed. Keys are those before renaming.
    pub(super) fn apply(&mut self, entry: ParameterEntry) -> Result<Option<ParameterEntry>> {
        let key = entry.key().to_owned();
        if self.excluded.contains(&key.as_str()) {
            return Ok(None);
        }
        // Its length, which a splat would have, is not known either.
        entry.check_readable()?;
        let replacement = self.replaced.iter_mut().find(|replacement| replacement.key == key);
        let entry = match replacement {
            Some(replacement) => {
                replacement.used = true;
                let splat = match &replacement.pattern {
                    Some(pattern) => Splat::new(pattern, entry.length()),
                    None => super::zeros(entry.length()),
                };
                let splat = splat.context(|| format!("--splat={key}"))?;
                ParameterEntry::splat(key.clone(), splat).with_metadata(entry.metadata().to_vec())
            }
            None if self.strip => ParameterEntry::splat(key.clone(), super::zeros(entry.length())?)
                .with_metadata(entry.metadata().to_vec()),
            None => entry,
        };
        let renamed = self.renamed.iter().find(|(old, _)| *old == key);
        Ok(Some(match renamed {
            Some((_, new)) => entry.renamed(*new),
            None => entry,
        }))
    }

    /// Fails if a replacement names no parameter, which is likely a typing error.
    pub(super) fn check_all_used(&self) -> Result<()> {
        match self.replaced.iter().find(|replacement| !replacement.used) {
            None => Ok(()),
            Some(replacement) => Err(Error::not_found(format!("--splat={}: no such parameter", replacement.key))),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_one_value() {
        for (kind, value, bytes) in [
            ("f32", "1", &[0, 0, 128, 63][..]),
            ("i8", "-1", &[255]),
            ("x32", "CAFEF00D", &[0x0D, 0xF0, 0xFE, 0xCA]),
            ("x16", "0x12", &[0x12, 0]),
            ("i64", "2", &[2, 0, 0, 0, 0, 0, 0, 0]),
        ] {
            assert_eq!(pattern(kind, value).unwrap(), bytes, "{kind}={value}");
        }
        for (kind, value) in [("x8", "100"), ("x32", "xyz"), ("2xf32", "1"), ("what", "1"), ("f32", "one")] {
            assert!(pattern(kind, value).is_err(), "{kind}={value}");
        }
    }

    #[test]
    fn keys_may_have_equal_signs() {
        let parsed = Replacement::parse("a=b=i8=3").unwrap();
        assert_eq!((parsed.key, parsed.pattern), ("a=b", Some(vec![3])));
        assert_eq!(Replacement::parse("plain").unwrap().key, "plain");
    }

    #[test]
    fn patterns_of_all_elements() {
        assert_eq!(splat_of("4xf32=1").unwrap(), Splat::new(&1f32.to_le_bytes(), 16).unwrap());
        assert_eq!(splat_of("2x3xi8").unwrap(), Splat::new(&[0], 6).unwrap());
        assert!(splat_of("3xi4=1").is_err());
    }
}
