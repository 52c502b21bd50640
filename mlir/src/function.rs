//! Functions and globals.

use core::fmt::Write as _;

use crate::builder::{Builder, Region, Value, list};
use crate::quoting::{string, symbol};
use crate::types::Type;

/// A function whose body is open.
#[derive(Debug)]
#[must_use]
pub struct Function {
    name: String,
    is_private: bool,
    /// The arguments.
    pub arguments: Vec<Value>,
}

impl Builder {
    /// Opens a public function: operations go to its body until [`Builder::end_function`].
    pub fn function(&mut self, name: &str, arguments: &[Type]) -> Function {
        if self.depth() != 0 {
            self.fail(format!("the function {name} stands within a region"));
        }
        self.open_region();
        let arguments = arguments.iter().map(|ty| self.argument(ty.clone())).collect();
        Function { name: name.to_owned(), is_private: false, arguments }
    }

    /// Opens a function that other functions of the module call.
    pub fn private_function(&mut self, name: &str, arguments: &[Type]) -> Function {
        Function { is_private: true, ..self.function(name, arguments) }
    }

    /// `func.call` of a function of the module, whose results have the types.
    pub fn call(&mut self, name: &str, arguments: &[Value], results: &[Type]) -> Vec<Value> {
        let values: Vec<Value> = results.iter().map(|ty| self.argument(ty.clone())).collect();
        let equals = if values.is_empty() { String::new() } else { format!("{} = ", list(&values)) };
        let types = format!("({}) -> ({})", self.types_of(arguments), list(results));
        self.line(&format!("{equals}func.call {}({}) : {types}", symbol(name), list(arguments)));
        values
    }

    /// Returns values, and ends the function. `encodings` are the types that results have outside of the module, where they differ, such
    /// as `tensor<4xui8>`; `reflection` has names and texts of `iree.reflection`.
    pub fn end_function(
        &mut self,
        function: Function,
        results: &[Value],
        encodings: &[Option<String>],
        reflection: &[(&str, String)],
    ) {
        let typed = self.typed(results);
        self.set_location(None);
        self.line(&if typed.is_empty() { "return".to_owned() } else { format!("return {typed}") });
        let body = self.close_region();
        let arguments: Vec<String> =
            function.arguments.iter().map(|value| format!("{value}: {}", self.type_of(*value))).collect();
        let encodings = encodings.iter().map(Option::as_deref).chain(core::iter::repeat(None));
        let results: Vec<String> = results
            .iter()
            .zip(encodings)
            .map(|(value, encoding)| match encoding {
                Some(encoding) => format!("{} {{iree.abi.encoding = {encoding}}}", self.type_of(*value)),
                None => self.type_of(*value).to_string(),
            })
            .collect();
        let results = if results.is_empty() { String::new() } else { format!(" -> ({})", list(&results)) };
        let attributes: Vec<String> =
            reflection.iter().map(|(name, text)| format!("{name} = {}", string(text))).collect();
        let attributes = match &*attributes {
            [] => String::new(),
            _ => format!(" attributes {{iree.reflection = {{{}}}}}", attributes.join(", ")),
        };
        let name = symbol(&function.name);
        let visibility = if function.is_private { "private " } else { "" };
        let _ = write!(
            self.functions,
            "  func.func {visibility}{name}({}){results}{attributes} {{\n{}  }}\n",
            list(&arguments),
            body.text
        );
    }

    /// Declares a global whose value is a parameter of the program, by scope and key.
    pub fn parameter(&mut self, name: &str, scope: &str, key: &str, ty: &Type) {
        let symbol = symbol(name);
        let _ = writeln!(
            self.globals,
            "  util.global private {symbol} = #flow.parameter.named<{}::{}> : {ty}",
            string(scope),
            string(key)
        );
    }

    /// Declares a global, and the initializer that computes its value when the module is loaded.
    pub fn computed_global(&mut self, name: &str, mut region: (Region, Value)) {
        let (symbol, value) = (symbol(name), region.1);
        let ty = self.type_of(value).clone();
        self.append_to(&mut region.0, |b| {
            b.line(&format!("util.global.store {value}, {symbol} : {ty}"));
            b.line("util.return");
        });
        let text = format!("  util.global private {symbol} : {ty}\n  util.initializer {{\n{}  }}\n", region.0.text);
        self.globals.push_str(&text);
    }

    /// Declares a global that functions write, whose elements have no value until then.
    pub fn mutable_global(&mut self, name: &str, ty: &Type) {
        if ty.extents().is_none_or(|extents| extents.contains(&None)) {
            self.fail(format!("a mutable global of type {ty}"));
        }
        let (symbol, value) = (symbol(name), self.argument(ty.clone()));
        let _ = write!(
            self.globals,
            "  util.global private mutable {symbol} : {ty}\n  util.initializer {{\n    {value} = tensor.empty() : {ty}\n    \
             util.global.store {value}, {symbol} : {ty}\n    util.return\n  }}\n"
        );
    }

    /// Writes a global.
    pub fn store_global(&mut self, name: &str, value: Value) {
        self.line(&format!("util.global.store {value}, {} : {}", symbol(name), self.type_of(value)));
    }

    /// Reads a global.
    pub fn load_global(&mut self, name: &str, ty: &Type) -> Value {
        self.operation(ty.clone(), &format!("util.global.load {} : {ty}", symbol(name)))
    }

    /// `cf.assert`: the call fails with the message where the condition is false.
    pub fn assert(&mut self, condition: Value, message: &str) {
        if *self.type_of(condition) != Type::Scalar(crate::types::Element::I1) {
            self.fail(format!("cf.assert of {}", self.type_of(condition)));
        }
        self.line(&format!("cf.assert {condition}, {}", string(message)));
    }
}
