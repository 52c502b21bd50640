//! Comparison of results with the expected ones.
//!
//! The rules and messages are those of IREE's `iree/tooling/comparison.cc` and `buffer_view_matchers.c`.

use std::io::Write;

use incarnate_runtime::hal::format::{Equality, compare_elements, element_types_match, format_view};
use incarnate_runtime::hal::{BufferView, ElementType, EncodingType};
use incarnate_runtime::{Result, ResultExt};

use super::output::{TextTo, print_tensor};
use super::results::{self, ResultValue, type_of, type_of_bytes};
use super::spec::SpecValue;
use super::{HostTensor, HostValue, Primitive};

/// Most elements of a tensor in a message about a difference.
const PRINTED_ELEMENTS: usize = 1024;

/// A difference between a result and its expectation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// One line that describes the difference.
    pub(crate) summary: String,
    /// Both values on further lines; empty if the line contains them.
    pub(crate) details: String,
}

/// Compares results with expected ones and returns all differences.
///
/// # Errors
/// Errors of formatting a tensor.
pub(crate) fn compare_results(
    equality: Equality,
    expected: &[SpecValue],
    results: &[ResultValue],
) -> Result<Vec<Difference>> {
    if expected.len() != results.len() {
        let summary = format!("expected {} results but the function returned {}", expected.len(), results.len());
        return Ok(vec![Difference { summary, details: String::new() }]);
    }
    let mut differences = Vec::new();
    for (index, (expected, actual)) in expected.iter().zip(results).enumerate() {
        let SpecValue::Value(expected) = expected else { continue };
        if let Some(mut difference) = compare_values(equality, expected, actual)? {
            difference.summary.insert_str(0, &format!("result[{index}]: "));
            differences.push(difference);
        }
    }
    Ok(differences)
}

fn compare_values(equality: Equality, expected: &HostValue, actual: &ResultValue) -> Result<Option<Difference>> {
    match (expected, actual) {
        // IREE takes `(null)` for `(ignored)`, and scripts rely on it.
        (HostValue::Null, _) => Ok(None),
        (HostValue::Primitive(expected), ResultValue::Primitive(actual)) => {
            compare_primitives(equality, *expected, *actual)
        }
        (HostValue::Tensor(expected), ResultValue::View(actual)) => compare_tensors(equality, expected, actual),
        (HostValue::Storage(expected), ResultValue::Storage(actual)) => {
            let tensor = type_of_bytes(expected.bytes.len() as u64);
            let expected = HostTensor { tensor, bytes: expected.bytes.clone() };
            let (shape, dense) = ([actual.byte_length()], EncodingType::DENSE_ROW_MAJOR);
            let actual = BufferView::new(actual.clone(), &shape, ElementType::INT_8, dense)?;
            compare_tensors(equality, &expected, &actual)
        }
        _ => {
            let summary = format!(
                "variant types mismatch; expected {} but got {}",
                expected_type_name(expected),
                type_name(actual)
            );
            Ok(Some(Difference { summary, details: String::new() }))
        }
    }
}

fn primitive_name(primitive: Primitive) -> &'static str {
    match primitive {
        Primitive::I32(_) => "i32",
        Primitive::I64(_) => "i64",
        Primitive::F32(_) => "f32",
        Primitive::F64(_) => "f64",
    }
}

fn expected_type_name(value: &HostValue) -> &'static str {
    match value {
        HostValue::Null => "empty",
        HostValue::Primitive(primitive) => primitive_name(*primitive),
        HostValue::Tensor(_) => "hal.buffer_view",
        HostValue::Storage(_) => "hal.buffer",
    }
}

fn type_name(value: &ResultValue) -> &'static str {
    match value {
        ResultValue::Null => "empty",
        ResultValue::Primitive(primitive) => primitive_name(*primitive),
        ResultValue::View(_) => "hal.buffer_view",
        ResultValue::Storage(_) => "hal.buffer",
        ResultValue::Bytes(_) => "vm.buffer",
        ResultValue::List(_) => "vm.list",
        ResultValue::Other(name) => name,
    }
}

/// Compares numbers like elements of their type. IREE cannot compare numbers.
fn compare_primitives(equality: Equality, expected: Primitive, actual: Primitive) -> Result<Option<Difference>> {
    let same = match (expected, actual) {
        (Primitive::F32(expected), Primitive::F32(actual)) => {
            let (expected, actual) = (expected.to_le_bytes(), actual.to_le_bytes());
            compare_elements(equality, ElementType::FLOAT_32, &expected, &actual)?.is_none()
        }
        (Primitive::F64(expected), Primitive::F64(actual)) => {
            let (expected, actual) = (expected.to_le_bytes(), actual.to_le_bytes());
            compare_elements(equality, ElementType::FLOAT_64, &expected, &actual)?.is_none()
        }
        _ => expected == actual,
    };
    // With all digits: rounded numbers may print alike.
    let text = |value: Primitive| match value {
        Primitive::F32(value) => format!("f32={value:?}"),
        Primitive::F64(value) => format!("f64={value:?}"),
        other => other.to_string(),
    };
    let summary = || format!("values differ; expected {} but got {}", text(expected), text(actual));
    Ok((!same).then(|| Difference { summary: summary(), details: String::new() }))
}

fn compare_tensors(equality: Equality, expected: &HostTensor, view: &BufferView) -> Result<Option<Difference>> {
    let actual = type_of(view);
    let types_match = element_types_match(expected.tensor.element, actual.element)
        // Opaque bytes of a file take the result's type.
        || expected.tensor.element.is_opaque() && expected.tensor.element.bit_count() == actual.element.bit_count();
    let equal = format!("expected that the view is equal to contents of a view of {}", expected.tensor);
    let summary = if !types_match || expected.tensor.shape != actual.shape {
        format!("metadata is {actual}; expected that the view matches {}; {equal}", expected.tensor)
    } else {
        match compare_elements(equality, actual.element, &expected.bytes, &results::read(view)?)? {
            None => return Ok(None),
            Some(found) => format!(
                "element at index {} ({}) does not match the expected ({}); {equal}",
                found.index, found.actual, found.expected
            ),
        }
    };
    let mut details = b"  expected:\n".to_vec();
    print_tensor(&mut details, expected, PRINTED_ELEMENTS)?;
    details.extend(b"\n  actual:\n");
    format_view(&mut TextTo(&mut details), view, PRINTED_ELEMENTS)?;
    details.push(b'\n');
    Ok(Some(Difference { summary, details: String::from_utf8_lossy(&details).into_owned() }))
}

/// Prints a comparison in IREE's words.
///
/// # Errors
/// Errors of writing.
pub(crate) fn report(out: &mut dyn Write, differences: &[Difference]) -> Result<()> {
    if differences.is_empty() {
        writeln!(out, "[SUCCESS] all function outputs matched their expected values.")
            .context(|| "printing the comparison")?;
    }
    for difference in differences {
        write!(out, "[FAILED] {}\n{}", difference.summary, difference.details).context(|| "printing the comparison")?;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::super::results::tests::result;
    use super::super::spec::{Slot, parse_specs};
    use super::*;
    use incarnate_runtime::bytecode::ConventionItem;

    fn compare(kind: &str, expected: &str, actual: &str) -> String {
        let items: Vec<ConventionItem> = kind.bytes().filter_map(ConventionItem::from_letter).collect();
        let slots = Slot::all(&items, Vec::new()).unwrap();
        let parse = |text: &str| parse_specs(&slots, &[text.to_owned()]).unwrap();
        let SpecValue::Value(actual) = parse(actual).remove(0) else { unreachable!("a value") };
        let differences = compare_results(Equality::default(), &parse(expected), &[result(&actual)]).unwrap();
        let mut out = Vec::new();
        report(&mut out, &differences).unwrap();
        String::from_utf8(out).unwrap()
    }

    const SUCCESS: &str = "[SUCCESS] all function outputs matched their expected values.\n";

    /// Golden texts: iree-run-module of release 3.13 on a function that returns its argument, `--input=` the second text,
    /// `--expected_output=` the first.
    #[test]
    fn differences_are_described_in_the_words_of_iree() {
        assert_eq!(
            compare("r", "4xf32=1 2 3 5", "4xf32=1 2 3 4"),
            "[FAILED] result[0]: element at index 3 (4) does not match the expected (5); expected that the view is equal \
             to contents of a view of 4xf32\n  expected:\n4xf32=1 2 3 5\n  actual:\n4xf32=1 2 3 4\n"
        );
        assert_eq!(
            compare("r", "4xi32=1 2 3 4", "2x2xi32=1 2 3 4"),
            "[FAILED] result[0]: metadata is 2x2xi32; expected that the view matches 4xi32; expected that the view is \
             equal to contents of a view of 4xi32\n  expected:\n4xi32=1 2 3 4\n  actual:\n2x2xi32=[1 2][3 4]\n"
        );
        assert_eq!(compare("r", "4xf32=1 2 3 4.00001", "4xf32=1 2 3 4"), SUCCESS);
        assert_eq!(compare("r", "(ignored)", "4xf32=1 2 3 4"), SUCCESS);
        assert_eq!(compare("r", "(null)", "4xf32=1 2 3 4"), SUCCESS);
    }

    #[test]
    fn arrays_of_files_match_declared_types() {
        assert_eq!(compare("r", "2xsi32=1 2", "2xi32=1 2"), SUCCESS);
        assert_eq!(compare("r", "2x*16=803F 0040", "2xbf16=1 2"), SUCCESS);
        assert!(
            compare("r", "2x*16=803F 0140", "2xbf16=1 2").starts_with("[FAILED] result[0]: element at index 1 (2)")
        );
        assert!(compare("r", "2xsi32=1 2", "2xf32=1 2").starts_with("[FAILED] result[0]: metadata is 2xf32"));
    }

    #[test]
    fn numbers_are_compared_by_value() {
        assert_eq!(compare("i", "5", "5"), SUCCESS);
        assert_eq!(compare("f", "nan", "nan"), SUCCESS);
        assert_eq!(compare("f", "1.00001", "1"), SUCCESS);
        assert_eq!(
            compare("F", "1.001", "1"),
            "[FAILED] result[0]: values differ; expected f64=1.001 but got f64=1.0\n"
        );
        assert_eq!(compare("i", "5", "6"), "[FAILED] result[0]: values differ; expected i32=5 but got i32=6\n");
        assert_eq!(compare("i", "(ignored)", "6"), SUCCESS);
        assert_eq!(
            compare_results(Equality::Exact, &[], &[ResultValue::Null]).unwrap()[0].summary,
            "expected 0 results but the function returned 1"
        );
    }
}
