//! The arguments of a call: values of the host, written in the form of the VM and checked against the function.

use alloc::format;
use alloc::string::{String, ToString};

use super::element::Element;
use super::function::Function;
use super::input::Input;
use crate::bytecode::{ConventionItem, ValueType, wrong_argument_count};
use crate::hal::{BufferView, ElementType, EncodingType};
use crate::vm::{CallBuffer, Ledger, Ref, Value};
use crate::{Error, Result, ResultExt};

/// Writes arguments into a call buffer, checks them against the calling convention, and creates tensors of elements on the host.
#[derive(Debug)]
pub struct Packer<'a> {
    buffer: &'a mut CallBuffer,
    items: &'a [ConventionItem],
    function: &'a Function,
    index: usize,
    /// The first mismatch.
    error: Option<Error>,
}

impl<'a> Packer<'a> {
    pub(super) fn new(buffer: &'a mut CallBuffer, function: &'a Function) -> Packer<'a> {
        Packer { buffer, items: function.arguments(), function, index: 0, error: None }
    }

    /// Appends the bits of a number, or a tensor of rank 0 where the function takes a tensor.
    #[inline]
    pub(super) fn word<T: Element>(&mut self, item: ConventionItem, word: u64, number: &T) {
        match self.items.get(self.index) {
            Some(wanted) if *wanted == item => self.buffer.push_word(word),
            Some(ConventionItem::Ref) => return self.push_tensor(Input::scalar(number)),
            wanted => self.refuse(&number_text(number), wanted),
        }
        self.index += 1;
    }

    /// Appends a value.
    pub fn push(&mut self, value: Value) {
        match (&value, self.items.get(self.index)) {
            (Value::I32(_), Some(ConventionItem::I32))
            | (Value::I64(_), Some(ConventionItem::I64))
            | (Value::F32(_), Some(ConventionItem::F32))
            | (Value::F64(_), Some(ConventionItem::F64))
            | (Value::Ref(_), Some(ConventionItem::Ref)) => self.buffer.push(value),
            (value, wanted) => self.refuse(&value_text(value), wanted),
        }
        self.index += 1;
    }

    /// Appends a tensor of elements on the host, which are copied to the session's device. Flat elements take the shape that the
    /// function declares.
    pub fn push_tensor<T: Element>(&mut self, input: Input<'_, T>) {
        match self.items.get(self.index) {
            Some(ConventionItem::Ref) if self.error.is_none() => match self.tensor(input) {
                Ok(reference) => self.buffer.push_ref(reference),
                Err(error) => self.error = Some(error),
            },
            Some(ConventionItem::Ref) => {}
            wanted => self.refuse(&format!("a tensor of {}", T::TYPE), wanted),
        }
        self.index += 1;
    }

    fn tensor<T: Element>(&self, input: Input<'_, T>) -> Result<Ref> {
        let inputs = &self.function.cached_signature().inputs;
        let declared = inputs.get(self.index);
        let context = || match declared {
            Some(info) => format!("argument {} (`{}`)", self.index, info.name()),
            None => format!("argument {}", self.index),
        };
        let (element, shape) = match declared.map(|info| info.value_type()) {
            Some(ValueType::Tensor { element, shape }) if T::accepts(*element) => (*element, Some(&shape[..])),
            Some(ValueType::Tensor { element, .. }) => return Err(other_elements(T::TYPE, *element)).context(context),
            Some(declared @ ValueType::Reference(_)) if !declared.is_unknown() => {
                let message = format!("elements of the host are no {declared}");
                return Err(Error::invalid_argument(message)).context(context);
            }
            _ => (T::TYPE, None),
        };
        let own: smallvec::SmallVec<[Option<u64>; 6]>;
        let shape = match shape {
            Some(shape) => shape,
            None => {
                own = input.own_shape().iter().copied().map(Some).collect();
                &own[..]
            }
        };
        let view = input.into_owned_view(&**self.function.allocator(), shape).context(context)?;
        if view.element_type() == element {
            return Ok(Ref::from(view));
        }
        // Integers of the other signedness have the same bits.
        let view = BufferView::shared(
            view.buffer().clone(),
            view.shape(),
            element,
            EncodingType::DENSE_ROW_MAJOR,
            Ledger::HOST,
        );
        Ok(Ref::from(view.context(context)?))
    }

    #[cold]
    fn refuse(&mut self, given: &str, wanted: Option<&ConventionItem>) {
        // `finish` reports the number of arguments if there are more than the function takes.
        let (index, Some(wanted)) = (self.index, wanted) else { return };
        self.error.get_or_insert_with(|| {
            let taken = item_text(*wanted);
            Error::invalid_argument(format!("argument {index} is {given}, but the function takes {taken}"))
        });
    }

    /// # Errors
    /// INVALID_ARGUMENT if an argument has another type, or one is missing.
    #[inline]
    pub(super) fn finish(self) -> Result<()> {
        match self.error {
            Some(error) => Err(error),
            None if self.index == self.items.len() => Ok(()),
            None => Err(wrong_count(self.items.len(), self.index)),
        }
    }
}

#[cold]
fn other_elements(given: ElementType, wanted: ElementType) -> Error {
    Error::invalid_argument(format!("elements of {given} were given, but the function takes {wanted}"))
}

#[cold]
fn wrong_count(taken: usize, given: usize) -> Error {
    let mut why = wrong_argument_count(taken, given);
    if taken == 1 && given > 1 {
        why.push_str(": elements of a tensor are one argument, as in `call((&elements,))`");
    }
    Error::invalid_argument(why)
}

/// Names what a calling convention says of a value.
fn item_text(item: ConventionItem) -> &'static str {
    match item {
        ConventionItem::I32 => "an i32",
        ConventionItem::I64 => "an i64",
        ConventionItem::F32 => "an f32",
        ConventionItem::F64 => "an f64",
        ConventionItem::Ref => "a tensor or another object",
        ConventionItem::SpanStart | ConventionItem::SpanEnd => "values in a span",
    }
}

/// Names a number with its type, such as `the i64 1`.
fn number_text<T: Element>(number: &T) -> String {
    format!("the {} {number:?}", T::TYPE)
}

/// Names a value with its type.
pub(super) fn value_text(value: &Value) -> String {
    match value {
        Value::None => "nothing".to_string(),
        Value::I32(value) => format!("the i32 {value}"),
        Value::I64(value) => format!("the i64 {value}"),
        Value::F32(value) => format!("the f32 {value}"),
        Value::F64(value) => format!("the f64 {value}"),
        Value::Ref(Ref::Null) => "null".to_string(),
        Value::Ref(_) => "a tensor or another object".to_string(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use crate::session::{AlignedVec, Arguments, FromResults, Function, Input, IntoInput, Results, Session, Tensor};
    use crate::{Result, StatusCode};

    fn function(model: &str, name: &str) -> (Session, Function) {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/models");
        let session = Session::load("local-sync", format!("{folder}/{model}.vmfb")).unwrap();
        let function = session.function(name).unwrap();
        (session, function)
    }

    fn refused<R: FromResults>(function: &Function, arguments: impl Arguments, reason: &str) {
        let result: Result<R> = function.call(arguments);
        let error = result.err().unwrap();
        assert_eq!(error.code(), StatusCode::InvalidArgument, "{error}");
        let text = error.to_string();
        assert!(text.starts_with(reason) && text.contains("; calling `sync func @"), "{text}");
    }

    #[test]
    fn elements_are_passed_in_every_form() {
        let (session, multiply) = function("simple_mul/vmvx", "simple_mul");
        let two = [2.0f32; 4];
        let (vector, aligned) = (two.to_vec(), AlignedVec::from(&two[..]));
        let tensor = session.tensor(two).unwrap();
        fn check<A: Arguments>(multiply: &Function, arguments: A) {
            let product: Tensor<f32> = multiply.call(arguments).unwrap();
            assert_eq!(product.to_vec().unwrap(), [4.0; 4]);
        }
        check(&multiply, (two, &two));
        check(&multiply, (&two[..], &vector));
        check(&multiply, (vector.clone(), &aligned));
        check(&multiply, (&tensor, tensor.clone()));
        check(&multiply, (Input::new(&[4], &two), &Input::from_vec(&[4], vector.clone())));
        check(&multiply, [&two[..], &vector]);
        check(&multiply, [two, two]);
        #[cfg(feature = "ndarray")]
        check(&multiply, (ndarray::arr1(&two), ndarray::arr1(&two).view()));
        let future = multiply.call_async::<Tensor<f32>>((two, &vector)).unwrap();
        drop(future);
    }

    #[test]
    fn flat_elements_take_the_declared_shape() {
        let (_session, scale) = function("dynamic/vmvx", "scale_rows");
        let scaled: Tensor<f32> = scale.call((vec![1.0f32; 8], [1.0f32, 2.0, 3.0, 4.0])).unwrap();
        assert_eq!(scaled.shape(), [2, 4]);
        let scaled: Tensor<f32> = scale.call(([[1.0f32; 4]; 3], [1.0f32, 2.0, 3.0, 4.0])).unwrap();
        assert_eq!(scaled.shape(), [3, 4]);
        refused::<Tensor<f32>>(
            &scale,
            (vec![1.0f32; 7], [1.0f32; 4]),
            "argument 0 (`input0`): INVALID_ARGUMENT; 7 elements do not fill a tensor of shape [?, 4]",
        );
        refused::<Tensor<f32>>(
            &scale,
            ([[1.0f32; 4]; 3], [1.0f64; 4]),
            "argument 1 (`input1`): INVALID_ARGUMENT; elements of f64 were given, but the function takes f32",
        );
        refused::<Tensor<f32>>(
            &scale,
            (1.0f32, [1.0f32; 4]),
            "argument 0 (`input0`): INVALID_ARGUMENT; expected a tensor of shape [?, 4], got one of shape []",
        );
        refused::<Tensor<f32>>(
            &scale,
            ([1.0f32; 4],),
            "INVALID_ARGUMENT; the function takes 2 arguments, but 1 was given",
        );
    }

    #[test]
    fn tensors_as_inputs_have_the_declared_shape() {
        let (session, multiply) = function("simple_mul/vmvx", "simple_mul");
        let (pair, four) = (session.tensor([1.0f32, 2.0]).unwrap(), session.tensor([2.0f32; 4]).unwrap());
        let reason = "argument 0 (`input0`): INVALID_ARGUMENT; expected a tensor of shape [4], got one of shape [2]";
        refused::<Tensor<f32>>(&multiply, (IntoInput::<f32>::into_input(&pair), &four), reason);
        refused::<Tensor<f32>>(&multiply, (IntoInput::<f32>::into_input(pair), &four), reason);
        let inputs = (IntoInput::<f32>::into_input(&four), IntoInput::<f32>::into_input(four.clone()));
        let product: Tensor<f32> = multiply.call(inputs).unwrap();
        assert_eq!(product.to_vec().unwrap(), [4.0; 4]);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn elements_may_be_bool_or_of_the_other_signedness() {
        let (session, select) = function("integers/llvm-cpu", "select");
        let mask: Vec<bool> = (0..9).map(|index| index % 2 == 0).collect();
        let (chosen, not): (Tensor<i16>, Tensor<bool>) = select.call((&mask, [1i16; 9], vec![2u16; 9])).unwrap();
        assert_eq!(chosen.to_vec().unwrap(), [1, 2, 1, 2, 1, 2, 1, 2, 1]);
        assert_eq!(not.len(), 9);
        let mut tensor = session.tensor(&mask).unwrap();
        assert_eq!(tensor.to_vec().unwrap(), mask);
        tensor.as_mut_slice().unwrap()[1] = true;
        assert_eq!(tensor.clone().into_elements().unwrap()[..3], [true, true, true]);
        let array: [bool; 9] = tensor.try_into().unwrap();
        assert_eq!(array[7..], [false, true]);
        let nested: [[bool; 2]; 2] = session.tensor([[true, false], [false, true]]).unwrap().try_into().unwrap();
        assert_eq!(nested, [[true, false], [false, true]]);
        #[cfg(feature = "ndarray")]
        assert_eq!(session.tensor(ndarray::arr1(&mask)).unwrap().to_array().unwrap().into_raw_vec_and_offset().0, mask);
        refused::<(Tensor<i16>, Tensor<bool>)>(
            &select,
            ([2u8; 9], [1i16; 9], [2i16; 9]),
            "argument 0 (`input0`): INVALID_ARGUMENT; elements of ui8 were given, but the function takes i1",
        );
    }

    #[test]
    fn numbers_are_not_read_as_bools() {
        let (session, _) = function("simple_mul/vmvx", "simple_mul");
        let numbers = session.tensor([2i8, 4]).unwrap();
        let error = numbers.clone().cast::<bool>().unwrap_err();
        assert_eq!(error.to_string(), "INVALID_ARGUMENT; a tensor of i8 is not one of i1");
        assert_eq!(numbers.cast::<u8>().unwrap().to_vec().unwrap(), [2, 4]);
        assert!(session.tensor([true]).unwrap().cast::<u8>().is_err());
    }

    #[test]
    fn numbers_are_numbers_or_tensors_of_rank_0() {
        let (_session, affine) = function("scalars/vmvx", "affine");
        let (scaled, _): (Tensor<f32>, f32) = affine.call(([1.0f32; 4], 2.0f32, &3)).unwrap();
        assert_eq!(scaled.len(), 4);
        refused::<(Tensor<f32>, f32)>(
            &affine,
            ([1.0f32; 4], 2.0f64, 3),
            "INVALID_ARGUMENT; argument 1 is the f64 2.0, but the function takes an f32",
        );
        refused::<(Tensor<f32>, f32)>(
            &affine,
            ([1.0f32; 4], [2.0f32; 4], 3),
            "INVALID_ARGUMENT; argument 1 is a tensor of f32, but the function takes an f32",
        );
    }

    #[test]
    fn results_are_found_by_name_and_index() {
        let (_session, classify) = function("imported/vmvx", "classify");
        let mut results: Results = classify.call(([[1.0f32; 4]], [[1.0f32, -2.0, 3.0]; 4])).unwrap();
        let names: Vec<String> = results.names().map(str::to_owned).collect();
        assert_eq!((results.len(), names.len(), results.is_empty()), (2, 2, false));
        let by_name: Tensor<f32> = results.get(&names[0]).unwrap();
        let by_index: Tensor<f32> = results.take(0).unwrap();
        assert_eq!(by_name.to_vec().unwrap(), by_index.to_vec().unwrap());
        let again = results.take::<Tensor<f32>>(0).unwrap_err();
        assert_eq!(
            again.to_string(),
            "result `0`: INVALID_ARGUMENT; the result is nothing, not of type !hal.buffer_view"
        );
        let error = results.get::<Tensor<bool>>("nope").unwrap_err();
        assert_eq!(error.code(), StatusCode::NotFound);
        let expected = format!("nothing is named `nope`; the names are `{}`", names.join("`, `"));
        assert_eq!(error.to_string(), format!("result `nope`: NOT_FOUND; {expected}"));
        let positive: Tensor<bool> = results.get("output1").unwrap();
        assert_eq!((positive.shape(), positive.to_vec().unwrap()), (&[1, 3][..], vec![true, false, true]));
        assert_eq!(results.get::<Tensor<bool>>(2).unwrap_err().code(), StatusCode::NotFound);
        assert!(results.get::<Tensor<f64>>(1).unwrap_err().to_string().contains("a tensor of i1 is not one of f64"));
    }
}
