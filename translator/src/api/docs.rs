//! The documentation of a method: signature, inputs, outputs, an example.

use incarnate_bytecode::{ConventionItem, ValueInfo};

use super::signature::{Kind, Signature, Value};
use crate::names::{code, line};
use crate::options::Options;

/// The most inputs or outputs that are listed; more of them are only in the signature of the method.
const LISTED: usize = 64;

/// Returns the lines of a method's documentation.
pub(super) fn method(signature: &Signature<'_>, options: &Options) -> Vec<String> {
    let call = |values: &[Value]| {
        let shown = values.iter().take(LISTED).map(|value| value.info.to_string()).collect::<Vec<_>>().join(", ");
        if values.len() > LISTED { format!("{shown}, ...") } else { shown }
    };
    let mut docs = match signature.declaration {
        Some(declaration) => vec![code(declaration)],
        None => {
            let (inputs, outputs) = (call(&signature.parameters), call(&signature.results));
            vec![code(&format!("@{}({inputs}) -> ({outputs})", signature.name))]
        }
    };
    docs.push(String::new());
    list(&mut docs, "Inputs", &signature.parameters);
    list(&mut docs, "Outputs", &signature.results);
    docs.push("```ignore".to_owned());
    docs.extend(example(signature, options));
    docs.push("```".to_owned());
    docs.push(String::new());
    docs.push("# Errors".to_owned());
    let tensors = signature.parameters.iter().any(|value| matches!(value.kind, Kind::Tensor(..)));
    docs.push(match tensors {
        true => "INVALID_ARGUMENT for a tensor of another shape; the errors of the function.".to_owned(),
        false => "The errors of the function.".to_owned(),
    });
    docs.iter().map(|text| super::doc(text)).collect()
}

/// Describes an input or an output.
pub(super) fn value(value: &Value) -> String {
    let stored = match value.kind {
        Kind::Storage(_) => ", the memory that a result is stored in",
        _ => "",
    };
    format!("{}{stored}{}", code(&value.info.value_type().to_string()), of_model(&value.info, &value.ident.to_string()))
}

/// Returns the name in the model where the one in Rust is another.
fn of_model(info: &ValueInfo, ident: &str) -> String {
    if info.name() == ident { String::new() } else { format!(", {} in the model", code(info.name())) }
}

fn list(docs: &mut Vec<String>, title: &str, values: &[Value]) {
    if values.is_empty() {
        return;
    }
    docs.extend([format!("{title}:"), String::new()]);
    docs.extend(values.iter().take(LISTED).map(|entry| format!("- `{}`: {}", entry.ident, value(entry))));
    if values.len() > LISTED {
        docs.push(format!("- {} more", values.len() - LISTED));
    }
    docs.push(String::new());
}

/// Returns the lines of an example call.
fn example(signature: &Signature<'_>, options: &Options) -> Vec<String> {
    let path = options.crate_path.to_string().replace(' ', "");
    // `include_module!` names its crate by a word that only macros can use.
    let path = if path == "$crate" { "incarnate" } else { path.trim_start_matches("::") };
    // Where tensors and the types of their elements are.
    let types = if options.no_std { format!("{path}::session") } else { path.to_owned() };
    let runtime = if options.no_std { path.to_owned() } else { format!("{path}::runtime") };
    let mut lines = vec![match options.no_std {
        true => "let module = Module::load()?;".to_owned(),
        false => format!("let module = Module::load(&{path}::Device::create(\"local-task\")?)?;"),
    }];
    let mut arguments = Vec::new();
    for value in &signature.parameters {
        let (prepared, passed) = argument(value, signature, &types, &runtime);
        lines.extend(prepared.map(|text| format!("let {} = {text};", value.ident)));
        arguments.push(passed);
    }
    let results = match (signature.results_type.is_some(), &signature.results[..]) {
        (_, []) => String::new(),
        (true, _) => "let results = ".to_owned(),
        (false, [only]) => format!("let {} = ", only.ident),
        (false, several) if several.len() > LISTED => "let results = ".to_owned(),
        (false, several) => {
            let names: Vec<String> = several.iter().map(|value| value.ident.to_string()).collect();
            format!("let ({}) = ", names.join(", "))
        }
    };
    let awaited = if signature.fences { ".await" } else { "" };
    lines.push(format!("{results}module.{}({}){awaited}?;", signature.method, arguments.join(", ")));
    let field = signature.results_type.as_ref().and_then(|_| signature.results.iter().find(|value| is_tensor(value)));
    if let Some(value) = field {
        lines.push(format!("println!(\"{{:?}}\", results.{}.to_vec()?);", value.ident));
    } else if let [only] = &signature.results[..]
        && is_tensor(only)
    {
        lines.push(format!("println!(\"{{:?}}\", {}.to_vec()?);", only.ident));
    }
    lines.iter().map(|text| line(text)).collect()
}

fn is_tensor(value: &Value) -> bool {
    matches!(value.kind, Kind::Tensor(..) | Kind::Storage(_))
}

/// Returns the value of the variable of an argument, if it has one, and what is passed.
fn argument(value: &Value, signature: &Signature<'_>, path: &str, runtime: &str) -> (Option<String>, String) {
    let ident = &value.ident;
    let on_device = |element: &str, shape: &[Option<u64>]| {
        let dims = dims(shape);
        format!("{path}::Tensor::new(module.session(), &[{}], &{})?", dims.join(", "), elements(element, &dims))
    };
    match &value.kind {
        Kind::Number(ConventionItem::F32 | ConventionItem::F64) => (None, "1.0".to_owned()),
        Kind::Number(_) => (None, "1".to_owned()),
        Kind::Bool => (None, "true".to_owned()),
        Kind::Tensor(element, shape) => {
            let (element, dims) = (zero(&element.rust.to_string(), path), dims(shape));
            let variable = Some(elements(&element, &dims));
            // One open dimension follows from the number of elements.
            if shape.iter().filter(|dim| dim.is_none()).count() < 2 {
                return (variable, format!("&{ident}"));
            }
            (variable, format!("{path}::Input::new(&[{}], &{ident})", dims.join(", ")))
        }
        Kind::Storage(element) => {
            let stored = value.info.stored_output().and_then(|output| signature.results.get(output)?.info.shape());
            (Some(on_device(&zero(&element.rust.to_string(), path), stored.unwrap_or_default())), format!("&{ident}"))
        }
        Kind::View => (Some(on_device("0.0f32", &[Some(1)])), format!("{ident}.view()")),
        Kind::Object(object, _) => match object.example(runtime) {
            Some(new) => (Some(new), format!("&{ident}")),
            None => (Some(on_device("0.0f32", &[Some(1)])), format!("{ident}.view().buffer()")),
        },
        Kind::Reference => (None, format!("{runtime}::vm::Ref::Null")),
    }
}

/// Returns the dimensions of an example, with 1 for those that the call decides.
fn dims(shape: &[Option<u64>]) -> Vec<String> {
    shape.iter().map(|dim| dim.unwrap_or(1).to_string()).collect()
}

/// Returns a vector of the elements of a tensor.
fn elements(element: &str, dims: &[String]) -> String {
    format!("vec![{element}; {}]", if dims.is_empty() { "1".to_owned() } else { dims.join(" * ") })
}

/// Returns an element that is zero.
fn zero(rust: &str, path: &str) -> String {
    match rust {
        "bool" => "false".to_owned(),
        "f32" | "f64" => format!("0.0{rust}"),
        "i8" | "i16" | "i32" | "i64" | "u8" | "u16" | "u32" | "u64" => format!("0{rust}"),
        "[f32 ; 2]" => "[0.0f32; 2]".to_owned(),
        "[f64 ; 2]" => "[0.0f64; 2]".to_owned(),
        other => format!("{path}::runtime::session::{other}::default()"),
    }
}
