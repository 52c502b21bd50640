//! Values given on the command line: `4xf32=1 2 3 4`, `5`, `@file.npy`, `4xf32=@file.bin`, `(null)`.
//!
//! The notation is that of IREE's `iree/tooling/function_io.c`.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};

use incarnate_runtime::bytecode::{ConventionItem, find_value};
use incarnate_runtime::hal::ElementType;
use incarnate_runtime::hal::format::{TensorType, parse_elements, parse_float, parse_integer, parse_single};
use incarnate_runtime::session::ValueInfo;
use incarnate_runtime::{Error, Result, ResultExt, StatusCode};

use super::declaration::DeclaredTensor;
use super::{HostTensor, HostValue, Primitive};

/// A slot for a value: an argument or a result of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// The name and the type, if the signature is known.
    pub(crate) info: Option<ValueInfo>,
    /// The type in the calling convention.
    pub(crate) kind: ConventionItem,
    /// The type of the tensor, if the model declares one.
    pub(crate) declared: Option<DeclaredTensor>,
}

impl Slot {
    /// Returns the slots of one side of a calling convention, with that side of the signature.
    ///
    /// # Errors
    /// UNIMPLEMENTED for spans, which exported functions do not have.
    pub(crate) fn all(kinds: &[ConventionItem], values: Vec<ValueInfo>) -> Result<Vec<Slot>> {
        if kinds.iter().any(|kind| matches!(kind, ConventionItem::SpanStart | ConventionItem::SpanEnd)) {
            return Err(Error::unimplemented("variadic functions cannot be called by text"));
        }
        let values = values.into_iter().map(Some).chain(std::iter::repeat(None));
        let slot = |(kind, info): (&ConventionItem, Option<ValueInfo>)| Slot {
            kind: *kind,
            declared: info.as_ref().and_then(DeclaredTensor::of),
            info,
        };
        Ok(kinds.iter().zip(values).map(slot).collect())
    }

    /// Returns the element type of a one-element tensor that can replace the number; None for references.
    fn element(&self) -> Option<ElementType> {
        match self.kind {
            ConventionItem::I32 => Some(ElementType::INT_32),
            ConventionItem::I64 => Some(ElementType::INT_64),
            ConventionItem::F32 => Some(ElementType::FLOAT_32),
            ConventionItem::F64 => Some(ElementType::FLOAT_64),
            ConventionItem::Ref | ConventionItem::SpanStart | ConventionItem::SpanEnd => None,
        }
    }
}

/// A parsed value, or a result to ignore.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SpecValue {
    /// `(ignored)`, and `(null)` among expected results: any result matches.
    Ignored,
    /// A value.
    Value(HostValue),
}

/// Files that specs read from. Files keep their positions, so that `+` continues after the last value.
#[derive(Debug, Default)]
struct Files {
    open: HashMap<String, BufReader<File>>,
}

impl Files {
    /// Opens the file at `path`, at its beginning unless `continued`.
    fn get(&mut self, path: &str, continued: bool) -> Result<&mut BufReader<File>> {
        let entry = self.open.entry(path.to_owned());
        let reader = match entry {
            std::collections::hash_map::Entry::Occupied(entry) => {
                let reader = entry.into_mut();
                if !continued {
                    reader.seek(SeekFrom::Start(0)).context(|| format!("rewinding '{path}'"))?;
                }
                reader
            }
            std::collections::hash_map::Entry::Vacant(entry) => {
                let file = File::open(path).context(|| format!("opening '{path}'"))?;
                entry.insert(BufReader::new(file))
            }
        };
        Ok(reader)
    }
}

/// Parses the values of `specs` for the given slots: those without a name in order, and then those with one, `NAME=VALUE`. A file
/// with several arrays (`*file.npy`) fills several slots. The caller checks the number of values.
///
/// # Errors
/// Errors of parsing, with the spec's text in the message.
pub(crate) fn parse_specs(slots: &[Slot], specs: &[String]) -> Result<Vec<SpecValue>> {
    let infos: Option<Vec<ValueInfo>> = slots.iter().map(|slot| slot.info.clone()).collect();
    let infos = infos.unwrap_or_default();
    let mut files = Files::default();
    let mut values = Vec::with_capacity(specs.len());
    let mut named: BTreeMap<usize, SpecValue> = BTreeMap::new();
    for spec in specs {
        let text = spec.trim();
        let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
        let mut parse = || match named_value(&infos, text)? {
            Some((index, text)) => {
                let slot = slots.get(index..=index).unwrap_or_default();
                let mut value = Vec::with_capacity(1);
                parse_spec(slot, text.trim(), &mut files, &mut value)?;
                let value =
                    value.pop().ok_or_else(|| Error::invalid_argument("the file has no array, or no further one"))?;
                let is_new = index >= values.len() && named.insert(index, value).is_none();
                if is_new { Ok(()) } else { Err(Error::invalid_argument("this name has a value already")) }
            }
            None if !named.is_empty() => Err(Error::invalid_argument("it has no name and follows values with names")),
            None => parse_spec(slots, text, &mut files, &mut values),
        };
        parse().context(|| format!("in '{}'", abbreviated(spec)))?;
    }
    while let Some(last) = named.last_key_value().map(|row| *row.0) {
        if let Some(value) = named.remove(&values.len()) {
            values.push(value);
            continue;
        }
        let (last, missing) = (infos.get(last), infos.get(values.len()));
        let name = |info: Option<&ValueInfo>| info.map_or_else(String::new, |info| format!("`{}`", info.name()));
        return Err(Error::invalid_argument(format!("{} has a value and {} has none", name(last), name(missing))));
    }
    Ok(values)
}

/// Splits `NAME=VALUE` into the position of the value and its text; `None` for a value without a name. A type before `=` is no name.
fn named_value<'t>(infos: &[ValueInfo], text: &'t str) -> Result<Option<(usize, &'t str)>> {
    let Some((before, rest)) = text.split_once('=').filter(|_| !infos.is_empty()) else { return Ok(None) };
    if before.trim().parse::<TensorType>().is_ok() {
        return Ok(None);
    }
    if let Some(exact) = split_exact_name(infos, text) {
        return Ok(Some(exact));
    }
    if text.starts_with(['@', '+', '*', '&', '(']) {
        return Ok(None);
    }
    match find_value(infos, before.trim()) {
        Ok(index) => Ok(Some((index, rest))),
        Err(error) if error.code() == StatusCode::NotFound => Err(Error::invalid_argument(format!(
            "`{}` is neither a type such as 4x2xf32 nor a name: {}",
            before.trim(),
            error.message()
        ))),
        Err(error) => Err(error),
    }
}

/// Splits `NAME=TEXT` at a name that a value has: its position, and the text. A name may contain `=`, and begin with that of another value.
pub(crate) fn split_exact_name<'t>(infos: &[ValueInfo], spec: &'t str) -> Option<(usize, &'t str)> {
    let exact = infos.iter().enumerate().filter_map(|(index, info)| {
        let text = spec.strip_prefix(info.name())?.trim_start().strip_prefix('=')?;
        Some((info.name().len(), index, text))
    });
    exact.max_by_key(|row| row.0).map(|(_, index, text)| (index, text))
}

/// Returns the beginning of a spec, which may have megabytes.
fn abbreviated(spec: &str) -> String {
    const SHOWN: usize = 80;
    match spec.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &spec[..end]),
        None => spec.to_owned(),
    }
}

fn parse_spec(slots: &[Slot], text: &str, files: &mut Files, values: &mut Vec<SpecValue>) -> Result<()> {
    let next = |values: &Vec<SpecValue>| {
        slots
            .get(values.len())
            .ok_or_else(|| Error::invalid_argument(format!("the function takes only {} of these values", slots.len())))
    };
    if text.is_empty() {
        return Err(Error::invalid_argument("the value is empty"));
    }
    if let Some(path) = text.strip_prefix('*') {
        require_npy(path)?;
        let reader = files.get(path, true)?;
        while !reader.fill_buf().context(|| format!("reading '{path}'"))?.is_empty() {
            let slot = next(values)?;
            let array = HostTensor::read_npy(reader)?;
            values.push(SpecValue::Value(fit(slot, array)?));
        }
        return Ok(());
    }
    let slot = next(values)?;
    let value = match text {
        "(ignored)" => SpecValue::Ignored,
        "(null)" => SpecValue::Value(null(slot.kind)),
        _ => SpecValue::Value(parse_value(slot, text, files)?),
    };
    values.push(value);
    Ok(())
}

fn require_npy(path: &str) -> Result<()> {
    if path.ends_with(".npy") {
        return Ok(());
    }
    Err(Error::unimplemented(format!(
        "'{path}' has no shape and type, as .npy files do: write SHAPExTYPE=@{path} for raw bytes"
    )))
}

/// Returns the default value: zero, or null.
fn null(kind: ConventionItem) -> HostValue {
    match kind {
        ConventionItem::I32 => HostValue::Primitive(Primitive::I32(0)),
        ConventionItem::I64 => HostValue::Primitive(Primitive::I64(0)),
        ConventionItem::F32 => HostValue::Primitive(Primitive::F32(0.0)),
        ConventionItem::F64 => HostValue::Primitive(Primitive::F64(0.0)),
        ConventionItem::Ref | ConventionItem::SpanStart | ConventionItem::SpanEnd => HostValue::Null,
    }
}

fn parse_value(slot: &Slot, text: &str, files: &mut Files) -> Result<HostValue> {
    let kind = slot.kind;
    if let Some(path) = text.strip_prefix(['@', '+']) {
        require_npy(path)?;
        return fit(slot, HostTensor::read_npy(files.get(path, text.starts_with('+'))?)?);
    }
    if let Some(text) = text.strip_prefix('&') {
        return match kind {
            ConventionItem::Ref => Ok(HostValue::Storage(parse_tensor(text, files)?)),
            _ => Err(Error::invalid_argument("the function takes a number here, not storage")),
        };
    }
    if let (Some(element), false) = (slot.element(), text.contains('=')) {
        return parse_primitive(kind, text)
            .map(HostValue::Primitive)
            .ok_or_else(|| Error::invalid_argument(format!("'{text}' is not a value of {element}")));
    }
    if kind == ConventionItem::Ref && !text.contains('=') && text.parse::<TensorType>().is_err() {
        // Elements without a type are enough if the model declares it.
        if let Some(tensor) = slot.declared.as_ref().and_then(DeclaredTensor::fixed) {
            return parse_contents(tensor, text).map(HostValue::Tensor);
        }
        return Err(Error::invalid_argument(format!(
            "'{text}' is not a tensor, which needs at least a shape and a type, such as 4x2xf32=..."
        )));
    }
    fit(slot, parse_tensor(text, files)?)
}

fn parse_primitive(kind: ConventionItem, text: &str) -> Option<Primitive> {
    match kind {
        ConventionItem::I32 if text == "true" => Some(Primitive::I32(1)),
        ConventionItem::I32 if text == "false" => Some(Primitive::I32(0)),
        // A number outside the signed range may be an unsigned one.
        ConventionItem::I32 => {
            let value = parse_integer(text)?;
            i32::try_from(value).ok().or_else(|| u32::try_from(value).ok().map(u32::cast_signed)).map(Primitive::I32)
        }
        ConventionItem::I64 => {
            let value = parse_integer(text)?;
            i64::try_from(value).ok().or_else(|| u64::try_from(value).ok().map(u64::cast_signed)).map(Primitive::I64)
        }
        ConventionItem::F32 => parse_single(text).map(Primitive::F32),
        ConventionItem::F64 => parse_float(text).map(Primitive::F64),
        ConventionItem::Ref | ConventionItem::SpanStart | ConventionItem::SpanEnd => None,
    }
}

/// Converts a tensor to the slot's kind: a tensor, or a number from its only element.
fn fit(slot: &Slot, mut array: HostTensor) -> Result<HostValue> {
    let kind = slot.kind;
    let Some(wanted) = slot.element() else {
        // Files cannot name some types; opaque bytes take the declared type.
        if let Some(declared) = &slot.declared
            && array.tensor.element.is_opaque()
            && array.tensor.element.bit_count() == declared.element.bit_count()
        {
            array.tensor.element = declared.element;
        }
        return Ok(HostValue::Tensor(array));
    };
    let element = array.tensor.element;
    let same = element.is_integer() == wanted.is_integer() && element.is_float() == wanted.is_float();
    // Functions take narrow integers as 32 bits; a narrow float would need a conversion.
    let fits = element.bit_count() == wanted.bit_count()
        || wanted == ElementType::INT_32 && element.is_integer() && element.bit_count() < 32;
    if !same || !fits || !array.tensor.shape.is_empty() {
        return Err(Error::invalid_argument(format!("the function takes one {wanted}, not {}", array.tensor)));
    }
    let mut text = String::new();
    let element = if element.is_boolean() { ElementType::UINT_8 } else { element };
    incarnate_runtime::hal::format::format_elements(&mut text, &[], element, &array.bytes, 1)?;
    // Text keeps all bits of integers, but not of floats.
    let primitive = match (kind, array.bytes.as_slice()) {
        (ConventionItem::F32, &[a, b, c, d]) => Some(Primitive::F32(f32::from_le_bytes([a, b, c, d]))),
        (ConventionItem::F64, &[a, b, c, d, e, f, g, h]) => {
            Some(Primitive::F64(f64::from_le_bytes([a, b, c, d, e, f, g, h])))
        }
        _ => parse_primitive(kind, &text),
    };
    primitive
        .map(HostValue::Primitive)
        .ok_or_else(|| Error::internal(format!("{} does not become a number", array.tensor)))
}

fn parse_tensor(text: &str, files: &mut Files) -> Result<HostTensor> {
    let (tensor, contents) = text.split_once('=').unwrap_or((text, ""));
    let tensor: TensorType = tensor.trim().parse()?;
    let length = tensor.byte_length()?;
    if let Some(path) = contents.strip_prefix(['@', '+']) {
        let mut bytes = Vec::new();
        let reader = files.get(path, contents.starts_with('+'))?;
        reader.take(length).read_to_end(&mut bytes).context(|| format!("reading '{path}'"))?;
        if bytes.len() as u64 != length {
            return Err(Error::out_of_range(format!("{tensor} is {length} bytes, but '{path}' has {}", bytes.len())));
        }
        return Ok(HostTensor { tensor, bytes });
    }
    parse_contents(tensor, contents)
}

fn parse_contents(tensor: TensorType, contents: &str) -> Result<HostTensor> {
    let length = tensor.byte_length()?;
    let mut bytes = zeros(length)
        .ok_or_else(|| Error::resource_exhausted(format!("no memory for the {length} bytes of {tensor}")))?;
    parse_elements(contents, tensor.element, &mut bytes)?;
    Ok(HostTensor { tensor, bytes })
}

/// Allocates zeroed memory; `None` if it is short.
fn zeros(length: u64) -> Option<Vec<u8>> {
    let length = usize::try_from(length).ok()?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).ok()?;
    bytes.resize(length, 0);
    Some(bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use incarnate_runtime::session::Signature;

    fn slots(letters: &str) -> Result<Vec<Slot>> {
        let items: Vec<ConventionItem> = letters.bytes().filter_map(ConventionItem::from_letter).collect();
        Slot::all(&items, Vec::new())
    }

    fn parse(kinds: &str, specs: &[&str]) -> Result<Vec<SpecValue>> {
        let specs: Vec<String> = specs.iter().map(ToString::to_string).collect();
        parse_specs(&slots(kinds)?, &specs)
    }

    fn tensors(kinds: &str, specs: &[&str]) -> Vec<(String, Vec<u8>)> {
        let values = parse(kinds, specs).unwrap().into_iter();
        values
            .map(|value| match value {
                SpecValue::Value(HostValue::Tensor(array)) => (array.tensor.to_string(), array.bytes),
                other => (format!("{other:?}"), Vec::new()),
            })
            .collect()
    }

    #[test]
    fn primitives_take_numbers() {
        let values = parse("iIfFv", &["5", "-0x10", "nan", "1e-7"]).unwrap();
        assert_eq!(values[0], SpecValue::Value(HostValue::Primitive(Primitive::I32(5))));
        assert_eq!(values[1], SpecValue::Value(HostValue::Primitive(Primitive::I64(-16))));
        assert!(matches!(values[2], SpecValue::Value(HostValue::Primitive(Primitive::F32(value))) if value.is_nan()));
        assert_eq!(values[3], SpecValue::Value(HostValue::Primitive(Primitive::F64(1e-7))));
        for (text, number) in [("true", 1), ("false", 0)] {
            let expected = SpecValue::Value(HostValue::Primitive(Primitive::I32(number)));
            assert_eq!(parse("i", &[text]).unwrap(), [expected]);
            assert!(parse("I", &[text]).is_err());
        }
        let typed = parse("iiif", &["i32=5", "i8=-3", "i1=1", "f32=2.1"]).unwrap();
        let expected = [Primitive::I32(5), Primitive::I32(-3), Primitive::I32(1), Primitive::F32(2.1)];
        assert_eq!(typed, expected.map(|value| SpecValue::Value(HostValue::Primitive(value))));
    }

    #[test]
    fn tensors_take_elements() {
        assert_eq!(
            tensors("rrr", &["4xi8=1,2,3,4", " \"2x2xi8=[1 2][3 4]\" ", "f32"]),
            [
                ("4xi8".to_owned(), vec![1, 2, 3, 4]),
                ("2x2xi8".to_owned(), vec![1, 2, 3, 4]),
                ("f32".to_owned(), vec![0; 4])
            ]
        );
        assert_eq!(
            parse("rr", &["(null)", "(ignored)"]).unwrap(),
            [SpecValue::Value(HostValue::Null), SpecValue::Ignored]
        );
        let storage = parse("r", &["&2xi8=7"]).unwrap();
        assert!(matches!(&storage[0], SpecValue::Value(HostValue::Storage(array)) if array.bytes == [7, 7]));
    }

    #[test]
    fn declared_tensors_need_no_type() {
        let text = "sync func @f(%a: tensor<2xi8>, %b: tensor<?xi8>, %c: tensor<f32>)";
        let inputs = Signature::new(Some(text), &[ConventionItem::Ref; 3], &[]).inputs;
        let slots = Slot::all(&[ConventionItem::Ref; 3], inputs).unwrap();
        let parse = |specs: [&str; 3]| parse_specs(&slots, &specs.map(str::to_owned));
        let values = parse(["1 -1", "3xi8=7", "0x10"]).unwrap();
        let bytes = values.iter().map(|value| match value {
            SpecValue::Value(HostValue::Tensor(array)) => array.bytes.clone(),
            other => unreachable!("{other:?}"),
        });
        assert_eq!(bytes.collect::<Vec<_>>(), [vec![1, 255], vec![7, 7, 7], 16f32.to_le_bytes().to_vec()]);
        assert!(parse(["1 2 3", "3xi8=7", "1"]).is_err());
        assert!(parse(["1 2", "7", "1"]).is_err());
    }

    #[test]
    fn values_have_the_names_of_the_model() {
        let text =
            "sync func @f(%a.b: tensor<i8>, %a_b: tensor<i8>, %c.d: tensor<i8>, %\"c/d\": tensor<i8>, %\"in:0\": i32)";
        let items = [[ConventionItem::Ref; 4].as_slice(), &[ConventionItem::I32]].concat();
        let slots = Slot::all(&items, Signature::new(Some(text), &items, &[]).inputs).unwrap();
        let parse = |specs: &[&str]| parse_specs(&slots, &specs.iter().map(ToString::to_string).collect::<Vec<_>>());
        let bytes = |specs: &[&str]| -> Vec<u8> {
            let byte = |value: &SpecValue| match value {
                SpecValue::Value(HostValue::Tensor(array)) => array.bytes[0],
                SpecValue::Value(HostValue::Primitive(Primitive::I32(value))) => *value as u8,
                other => unreachable!("{other:?}"),
            };
            parse(specs).unwrap().iter().map(byte).collect()
        };
        for specs in [
            &["a_b=2", "a.b=1", "in_0=5", "c/d=i8=4", "c.d=3"][..],
            &["1", "i8=2", "in:0=5", "c.d = 3", "c/d=4"],
            &["1", "2", "3", "4", "5"],
        ] {
            assert_eq!(bytes(specs), [1, 2, 3, 4, 5], "{specs:?}");
        }
        let folder = tempfile::tempdir().unwrap();
        let array = folder.path().join("array.npy").display().to_string();
        let mut file = Vec::new();
        HostTensor { tensor: "i8".parse().unwrap(), bytes: vec![7] }.write_npy(&mut file).unwrap();
        std::fs::write(&array, file).unwrap();
        let (first, second) = (format!("*{array}"), format!("a_b=*{array}"));
        for (specs, why) in [
            (&[first.as_str(), second.as_str()][..], "a_b=*"),
            (&[&first, &second], "the file has no array, or no further one"),
            (&["c_d=1"], "`c_d` may be any of `c.d`, `c/d`"),
            (&["e=1"], "`e` is neither a type such as 4x2xf32 nor a name: nothing is named `e`; the names are `a.b`"),
            (&["a.b=1", "a.b=1"], "has a value already"),
            (&["1", "a.b=1"], "has a value already"),
            (&["a_b=1", "2"], "it has no name"),
            (&["a_b=1"], "`a_b` has a value and `a.b` has none"),
            (&["a.b="], "the value is empty"),
        ] {
            let error = parse(specs).unwrap_err().to_string();
            assert!(error.contains(why), "{specs:?}: {error}");
        }
    }

    #[test]
    fn files_continue_after_the_last_value() {
        let directory = tempfile::tempdir().unwrap();
        let raw = directory.path().join("raw.bin").display().to_string();
        std::fs::write(&raw, [1, 2, 3, 4, 5, 6]).unwrap();
        let (from, on) = (format!("2xi8=@{raw}"), format!("i8=+{raw}"));
        let read = tensors("rrrr", &[&from, &on, &on, &from]);
        assert_eq!(
            read.iter().map(|(_, bytes)| bytes.as_slice()).collect::<Vec<_>>(),
            [&[1, 2][..], &[3], &[4], &[1, 2]]
        );
        let arrays = directory.path().join("arrays.npy").display().to_string();
        let mut file = Vec::new();
        for value in 1..=3 {
            let tensor = "si8".parse().unwrap();
            HostTensor { tensor, bytes: vec![value] }.write_npy(&mut file).unwrap();
        }
        std::fs::write(&arrays, file).unwrap();
        let read = tensors("rrr", &[&format!("@{arrays}"), &format!("*{arrays}")]);
        assert_eq!(read.iter().map(|(_, bytes)| bytes.as_slice()).collect::<Vec<_>>(), [&[1][..], &[2], &[3]]);
        assert_eq!(
            parse("i", &[&format!("@{arrays}")]).unwrap(),
            [SpecValue::Value(HostValue::Primitive(Primitive::I32(1)))]
        );
        assert!(parse("r", &[&format!("@{raw}")]).is_err());
        assert!(parse("r", &[&format!("7xi8=@{raw}")]).is_err());
        assert!(parse("rr", &[&format!("*{arrays}")]).is_err());
    }

    #[test]
    fn wrong_values_are_errors_that_name_them() {
        for (kinds, spec) in [
            ("r", ""),
            ("r", "5"),
            ("r", "4xq32=1"),
            ("r", "@missing.npy"),
            ("r", "9223372036854775807xi8=1"),
            ("v", "5"),
            ("i", "1.5"),
            ("i", "4294967296"),
            ("i", "f32=1"),
            ("i", "2xi32=1 2"),
            ("f", "f64=1"),
            ("i", "&i32=1"),
        ] {
            let error = parse(kinds, &[spec]).unwrap_err();
            assert!(error.to_string().starts_with(&format!("in '{spec}'")), "{error}");
        }
        assert!(slots("CrD").is_err());
    }

    #[test]
    fn no_text_panics() {
        const PIECES: [&str; 24] = [
            "4",
            "x",
            "f32",
            "=",
            "1",
            "-",
            "i4",
            "[",
            "]",
            " ",
            "0x",
            "p",
            ".",
            "e9",
            "nan",
            "@",
            "+",
            "*",
            "&",
            "(null)",
            "i1",
            "é",
            "99999999999999999999",
            "bf16",
        ];
        let mut seed = 0x9E37_79B9_7F4A_7C15u64;
        let mut random = |limit: usize| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed % limit as u64) as usize
        };
        let mut sound = 0;
        for _ in 0..50_000 {
            let text: String = (0..1 + random(7)).map(|_| PIECES[random(PIECES.len())]).collect();
            let kinds = ["r", "i", "I", "f", "F"][random(5)];
            sound += usize::from(parse(kinds, &[&text]).is_ok());
        }
        assert!(sound > 500, "{sound} texts were values");
    }
}
