//! The destinations of results, `--output`: `-` prints a result, `@FILE` writes it, `+FILE` appends it, an empty text ignores it.

use std::path::PathBuf;

use incarnate_runtime::bytecode::find_value;
use incarnate_runtime::session::ValueInfo;
use incarnate_runtime::{Error, Result, ResultExt};

use super::spec::{Slot, split_exact_name};

/// What becomes of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// It is ignored.
    Nowhere,
    /// It is printed.
    Console,
    /// It is a file: an array if the name ends in `.npy`, else raw bytes.
    File { path: PathBuf, append: bool },
}

/// Returns the destination of each result: of all in order, or by names, `NAME=SPEC`, where a result that is not named is ignored.
///
/// # Errors
/// INVALID_ARGUMENT if their number differs from that of the results, for another form, and for names that no result has or that
/// stand twice.
pub(crate) fn parse_destinations(slots: &[Slot], specs: &[String]) -> Result<Vec<Destination>> {
    let infos: Vec<ValueInfo> = slots.iter().filter_map(|slot| slot.info.clone()).collect();
    let names = specs.iter().map(|spec| named(&infos, spec).context(|| format!("--output={spec}")));
    let names: Vec<Option<(usize, &str)>> = names.collect::<Result<_>>()?;
    if names.iter().all(Option::is_none) {
        if specs.len() != slots.len() {
            return Err(Error::invalid_argument(format!(
                "--output stands {} times, but the function returns {} values: one for each, or --output=NAME=SPEC",
                specs.len(),
                slots.len()
            )));
        }
        return specs.iter().map(|spec| parse(spec)).collect();
    }
    let mut destinations = vec![None; slots.len()];
    for (spec, name) in specs.iter().zip(names) {
        let place = || format!("--output={spec}");
        let Some((index, text)) = name else {
            return Err(Error::invalid_argument("it has no name, and another one has")).context(place);
        };
        let destination = destinations.get_mut(index).ok_or_else(|| Error::internal("a result without a slot"))?;
        if destination.replace(parse(text)?).is_some() {
            return Err(Error::invalid_argument("this result has a destination already")).context(place);
        }
    }
    Ok(destinations.into_iter().map(|destination| destination.unwrap_or(Destination::Nowhere)).collect())
}

/// Splits `NAME=SPEC` into the position of the result and the spec; `None` for a spec without a name.
fn named<'t>(infos: &[ValueInfo], spec: &'t str) -> Result<Option<(usize, &'t str)>> {
    if let Some(exact) = split_exact_name(infos, spec) {
        return Ok(Some(exact));
    }
    match spec.split_once('=').filter(|_| !infos.is_empty() && !spec.starts_with(['-', '@', '+'])) {
        Some((name, text)) => Ok(Some((find_value(infos, name)?, text))),
        None => Ok(None),
    }
}

fn parse(text: &str) -> Result<Destination> {
    match text.strip_prefix(['@', '+']) {
        _ if text.is_empty() => Ok(Destination::Nowhere),
        _ if text == "-" => Ok(Destination::Console),
        Some(path) => Ok(Destination::File { path: PathBuf::from(path), append: text.starts_with('+') }),
        None => Err(Error::invalid_argument(format!(
            "--output={text} is none of '', '-', '@FILE', '+FILE', or these behind NAME="
        ))),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use incarnate_runtime::bytecode::ConventionItem;
    use incarnate_runtime::session::Signature;

    use super::*;

    fn destinations(specs: &[&str]) -> Result<Vec<Destination>> {
        let text = "sync func @f() -> (%label: tensor<i32>, %scores: tensor<3xf32>)";
        let items = [ConventionItem::Ref, ConventionItem::Ref];
        let slots = Slot::all(&items, Signature::new(Some(text), &[], &items).outputs).unwrap();
        parse_destinations(&slots, &specs.iter().map(|spec| (*spec).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn results_have_destinations_in_order_or_by_name() {
        let file = |append| Destination::File { path: PathBuf::from("a=b.npy"), append };
        assert_eq!(destinations(&["-", ""]).unwrap(), [Destination::Console, Destination::Nowhere]);
        assert_eq!(destinations(&["@a=b.npy", "+a=b.npy"]).unwrap(), [file(false), file(true)]);
        assert_eq!(destinations(&["scores=@a=b.npy"]).unwrap(), [Destination::Nowhere, file(false)]);
        assert_eq!(destinations(&["scores=", "label=-"]).unwrap(), [Destination::Console, Destination::Nowhere]);
    }

    #[test]
    fn destinations_of_another_form_are_refused() {
        for (specs, reason) in [
            (&["-"][..], "returns 2 values"),
            (&["x.bin", "-"], "none of"),
            (&["other=-"], "other"),
            (&["label=-", "label=-"], "already"),
            (&["label=-", "-"], "no name"),
            (&["label=x.bin"], "none of"),
        ] {
            let error = destinations(specs).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
