//! Instructions: a line is cut into the texts of its format's fields, which are then encoded by their kinds.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use super::super::fields::{FieldKind, fields};
use super::super::isa::{Format, InstructionInfo, OpcodeSet, PREFIX_EXT_F32, PREFIX_EXT_F64};
use super::span::Span;
use super::{Assembler, OpenFunction};
use crate::Result;

impl<'a> Assembler<'a> {
    pub(super) fn instruction(&mut self, function: &mut OpenFunction<'a>, line: Span<'a>) -> Result<()> {
        let (results, text) = match line.text.starts_with('%') {
            true => line.split("=").ok_or_else(|| line.error("expected `=` behind the results"))?,
            false => (Span { text: "", ..line }, line),
        };
        let (mnemonic, operands) = text.word();
        let name = mnemonic.text.strip_prefix("vm.").unwrap_or(mnemonic.text);
        let Some(&info) = self.mnemonics.get(name) else {
            return Err(mnemonic.error(format!("`{}` is no instruction", mnemonic.text)));
        };
        let prefix = match info.set {
            OpcodeSet::Core => None,
            OpcodeSet::ExtF32 => Some(PREFIX_EXT_F32),
            OpcodeSet::ExtF64 => Some(PREFIX_EXT_F64),
        };
        function.source.bytecode.extend(prefix);
        function.source.bytecode.push(info.byte);
        let texts = cut(info, results, operands)?;
        for (&kind, text) in fields(info.format).iter().zip(texts) {
            self.field(function, info.banks, kind, text)?;
        }
        Ok(())
    }
}

/// The texts of an instruction's fields, in the order of its format.
fn cut<'a>(info: &InstructionInfo, results: Span<'a>, operands: Span<'a>) -> Result<Vec<Span<'a>>> {
    let none = || -> Result<()> {
        match results.is_empty() {
            true => Ok(()),
            false => Err(results.error(format!("`vm.{}` has no result", info.mnemonic))),
        }
    };
    Ok(match info.format {
        Format::GlobalStore => {
            none()?;
            let [value, global] = comma_separated(operands)?;
            vec![global, value]
        }
        Format::GlobalStoreRef => {
            none()?;
            let [value, global] = comma_separated(operands)?;
            let (global, type_def) = typed(global)?;
            vec![global, type_def, value]
        }
        Format::BufferStore => {
            none()?;
            let [value, buffer, offset] = comma_separated(operands)?;
            vec![buffer, offset, value]
        }
        Format::ListAlloc => {
            let (capacity, list) = typed(operands)?;
            let Some(element) = list.text.strip_prefix("!vm.list<").and_then(|text| text.strip_suffix('>')) else {
                return Err(list.error("expected `!vm.list<T>`"));
            };
            let element = Span { text: element, column: list.column + "!vm.list<".len(), ..list }.trim();
            vec![element, capacity, results]
        }
        Format::Select => {
            let (condition, values) = divided(operands, "?")?;
            let (yes, no) = divided(values, " : ")?;
            vec![condition, yes, no, results]
        }
        Format::SelectRef => {
            let (condition, values) = divided(operands, "?")?;
            let (yes, rest) = divided(values, " : ")?;
            let (no, type_def) = divided(rest, "->")?;
            vec![condition, type_def, yes, no, results]
        }
        Format::Switch | Format::SwitchRef => cut_switch(info, results, operands)?,
        Format::CastAnyRef => {
            let (operand, type_def) = divided(operands, "->")?;
            vec![typed(operand)?.0, type_def, results]
        }
        Format::BranchTable => {
            none()?;
            cut_branch_table(operands)?
        }
        Format::Call | Format::CallVariadic | Format::CallYieldable | Format::CallVariadicYieldable => {
            cut_call(info, results, operands)?
        }
        _ => cut_generic(info, results, operands)?,
    })
}

fn divided<'a>(text: Span<'a>, separator: &str) -> Result<(Span<'a>, Span<'a>)> {
    text.split(separator).ok_or_else(|| text.error(format!("expected `{}`", separator.trim())))
}

/// An operand and the type behind its ` : `.
fn typed(text: Span<'_>) -> Result<(Span<'_>, Span<'_>)> {
    text.split(" : ").ok_or_else(|| text.error("expected ` : ` and a type"))
}

fn comma_separated<const N: usize>(text: Span<'_>) -> Result<[Span<'_>; N]> {
    let items = text.items();
    let count = items.len();
    items.try_into().map_err(|_| text.error(format!("expected {N} operands, found {count}")))
}

/// `index[values] else default`, and `-> T` behind it for references.
fn cut_switch<'a>(info: &InstructionInfo, results: Span<'a>, operands: Span<'a>) -> Result<Vec<Span<'a>>> {
    let Some(open) = operands.text.find('[') else {
        return Err(operands.error("expected `[`"));
    };
    let index = Span { text: &operands.text[..open], ..operands }.trim();
    let list = Span { text: &operands.text[open..], column: operands.column + open, ..operands };
    let (values, rest) = list.bracketed('[', ']')?;
    let default = rest.expect_prefix("else")?;
    if info.format == Format::Switch {
        return Ok(vec![index, default, values, results]);
    }
    let (default, type_def) = divided(default, "->")?;
    Ok(vec![index, type_def, default, values, results])
}

/// `index { default: ^bb(copies), 0: ^bb(copies), ... }`; the cases stay together.
fn cut_branch_table(operands: Span<'_>) -> Result<Vec<Span<'_>>> {
    let Some(open) = operands.text.find('{') else {
        return Err(operands.error("expected `{`"));
    };
    let index = Span { text: &operands.text[..open], ..operands }.trim();
    let body = Span { text: &operands.text[open..], column: operands.column + open, ..operands };
    let (body, end) = body.bracketed('{', '}')?;
    end.expect_end()?;
    let body = body.expect_prefix("default:")?;
    let empty = Span { text: "", ..body };
    let (default, cases) = body.split(",").unwrap_or((body, empty));
    let (target, copies) = branch(default)?;
    Ok(vec![index, target, copies, cases])
}

/// The label, without its `^`, and the copies of a branch target.
pub(super) fn branch(text: Span<'_>) -> Result<(Span<'_>, Span<'_>)> {
    let Some(rest) = text.strip_prefix("^") else {
        return Err(text.error("expected a label, which begins with `^`"));
    };
    let (label, rest) = rest.name();
    if rest.is_empty() {
        return Ok((label, rest));
    }
    let (copies, end) = rest.bracketed('(', ')')?;
    end.expect_end()?;
    Ok((label, copies))
}

/// `@callee [segments[...]](operands) [-> ^bb(results)]`
fn cut_call<'a>(info: &InstructionInfo, results: Span<'a>, operands: Span<'a>) -> Result<Vec<Span<'a>>> {
    let is_variadic = matches!(info.format, Format::CallVariadic | Format::CallVariadicYieldable);
    let is_yieldable = matches!(info.format, Format::CallYieldable | Format::CallVariadicYieldable);
    let (_, mut rest) = operands.symbol()?;
    if let Some(ordinal) = rest.strip_prefix(":") {
        rest = ordinal.name().1;
    }
    let callee = Span { text: &operands.text[..rest.column - operands.column], ..operands }.trim();
    let mut texts = vec![callee];
    if is_variadic {
        let list = rest.expect_prefix("segments")?;
        let (sizes, behind) = list.bracketed('[', ']')?;
        texts.push(sizes);
        rest = behind;
    }
    let (arguments, rest) = rest.bracketed('(', ')')?;
    texts.push(arguments);
    if !is_yieldable {
        rest.expect_end()?;
        texts.push(results);
        return Ok(texts);
    }
    if !results.is_empty() {
        return Err(results.error("results of a yieldable call stand behind its label"));
    }
    let (label, results) = branch(rest.expect_prefix("->")?)?;
    texts.extend([label, results]);
    Ok(texts)
}

/// Results to the left of `=`, operands in the order of their fields, types behind the operand in front of theirs.
fn cut_generic<'a>(info: &InstructionInfo, results: Span<'a>, operands: Span<'a>) -> Result<Vec<Span<'a>>> {
    let kinds = fields(info.format);
    let mut texts = Vec::with_capacity(kinds.len());
    let mut rest = operands;
    let mut pending = Span { text: "", ..operands };
    for (index, &kind) in kinds.iter().enumerate() {
        if kind.is_result() {
            texts.push(results);
            continue;
        }
        match kind {
            FieldKind::type_id | FieldKind::remap => texts.push(pending),
            FieldKind::list_any | FieldKind::list_ref => {
                texts.push(rest);
                rest = Span { text: "", ..rest };
            }
            _ => {
                if rest.is_empty() {
                    return Err(rest.error(format!("`vm.{}` has too few operands", info.mnemonic)));
                }
                let (mut operand, behind) = rest.split(",").unwrap_or((rest, Span { text: "", ..rest }));
                rest = behind;
                if kind == FieldKind::target {
                    (operand, pending) = branch(operand)?;
                } else if kinds.get(index + 1) == Some(&FieldKind::type_id) {
                    (operand, pending) = typed(operand)?;
                }
                texts.push(operand);
            }
        }
    }
    rest.expect_end()?;
    if !results.is_empty() && !kinds.iter().any(|kind| kind.is_result()) {
        return Err(results.error(format!("`vm.{}` has no result", info.mnemonic)));
    }
    Ok(texts)
}
