//! Instructions: most are `results = vm.mnemonic operands` in the order of their fields; some formats have a syntax of their
//! own.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::super::calling_convention::{CallingConvention, ConventionItem};
use super::super::fields::FieldKind;
use super::super::instruction::{Body, Instruction};
use super::super::isa::{Bank, for_each_format};
use super::super::operand::{
    AnyRegister, BlockOffset, FunctionOrdinal, RefRegister, Register, RegisterList, RemapList, SegmentSizes, TypeId,
};
use super::super::quoting::quoted;
use super::functions::Blocks;
use super::{Printer, names::Names};

/// A field's text, by its kind; types are appended to the operand in front of them.
macro_rules! field_text {
    ($printer:ident $banks:ident $operands:ident type_id $value:expr) => {
        if let Some(last) = $operands.last_mut() {
            last.push_str(&format!(" : {}", $printer.names.type_text($value.0)));
        }
    };
    ($printer:ident $banks:ident $operands:ident imm_v $value:expr) => {
        $operands.push(immediate($value, $banks))
    };
    ($printer:ident $banks:ident $operands:ident global $value:expr) => {
        $operands.push(format!(".rwdata[{}]", $value))
    };
    ($printer:ident $banks:ident $operands:ident global_ref $value:expr) => {
        $operands.push(format!(".refs[{}]", $value))
    };
    ($printer:ident $banks:ident $operands:ident rodata $value:expr) => {
        $operands.push($value.to_string())
    };
    ($printer:ident $banks:ident $operands:ident function $value:expr) => {
        $operands.push($printer.callee($value))
    };
    ($printer:ident $banks:ident $operands:ident import $value:expr) => {
        $operands.push($printer.names.import($value))
    };
    ($printer:ident $banks:ident $operands:ident string $value:expr) => {
        $operands.push(quoted($value))
    };
    ($printer:ident $banks:ident $operands:ident target $value:expr) => {
        let _ = $value;
    };
    ($printer:ident $banks:ident $operands:ident remap $value:expr) => {
        let _ = $value;
    };
    ($printer:ident $banks:ident $operands:ident segments $value:expr) => {
        let _ = $value;
    };
    ($printer:ident $banks:ident $operands:ident cases $value:expr) => {
        let _ = $value;
    };
    // A move bit means nothing here; older compilers set it all the same.
    ($printer:ident $banks:ident $operands:ident in_ref $value:expr) => {
        $operands.push(format!("%r{}", $value.index()))
    };
    ($printer:ident $banks:ident $operands:ident in_ref_move $value:expr) => {
        $operands.push(reference($value))
    };
    ($printer:ident $banks:ident $operands:ident out_ref $value:expr) => {
        $operands.push(reference($value))
    };
    ($printer:ident $banks:ident $operands:ident list_ref $value:expr) => {
        $operands.extend($value.iter().map(any))
    };
    ($printer:ident $banks:ident $operands:ident list_any $value:expr) => {
        $operands.extend($value.iter().map(any))
    };
    ($printer:ident $banks:ident $operands:ident results $value:expr) => {
        $operands.extend($value.iter().map(any))
    };
    ($printer:ident $banks:ident $operands:ident list_v $value:expr) => {
        $operands.extend($value.iter().map(|register| value(Register(register.0), FieldKind::list_v, $banks)))
    };
    ($printer:ident $banks:ident $operands:ident $kind:ident $value:expr) => {
        $operands.push(value($value, FieldKind::$kind, $banks))
    };
}

macro_rules! define_generic {
    ($($variant:ident = $row:ident { $($field:ident: $kind:ident),* $(,)? })*) => {
        impl Printer<'_> {
            /// Results and operands of a format without a syntax of its own.
            fn generic(&self, body: &Body<'_>, banks: &[Bank]) -> (Vec<String>, Vec<String>) {
                let (mut results, mut operands): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
                match *body {
                    $(Body::$variant { $($field),* } => {
                        $({
                            let side = if FieldKind::$kind.is_result() { &mut results } else { &mut operands };
                            field_text!(self banks side $kind $field);
                            let _ = (banks, side);
                        })*
                    })*
                }
                (results, operands)
            }
        }
    };
}
for_each_format!(define_generic);

impl Printer<'_> {
    /// Appends an instruction, without indentation and line end.
    /// `convention` is that of the function that the instruction is in.
    pub(super) fn instruction(
        &mut self,
        instruction: &Instruction<'_>,
        blocks: &Blocks,
        convention: CallingConvention<'_>,
    ) {
        let info = instruction.opcode.info();
        let (results, operands) = match self.special(&instruction.body, info.banks, blocks, convention) {
            Some(texts) => texts,
            None => {
                let (results, operands) = self.generic(&instruction.body, info.banks);
                (results.join(", "), operands.join(", "))
            }
        };
        if !results.is_empty() {
            self.text.push_str(&format!("{results} = "));
        }
        self.text.push_str("vm.");
        self.text.push_str(info.mnemonic);
        if !operands.is_empty() {
            self.text.push(' ');
            self.text.push_str(&operands);
        }
        self.comment(&instruction.body, info.banks);
    }

    /// Results and operands of a format with a syntax of its own.
    fn special(
        &self,
        body: &Body<'_>,
        banks: &[Bank],
        blocks: &Blocks,
        convention: CallingConvention<'_>,
    ) -> Option<(String, String)> {
        let v = |register| value(register, FieldKind::in_v, banks);
        let i32 = |register| value(register, FieldKind::in_i32, banks);
        let i64 = |register| value(register, FieldKind::in_i64, banks);
        let type_text = |TypeId(id)| self.names.type_text(id);
        let branch = |dest: BlockOffset, remap| format!("{}({})", blocks.label(dest.0), copies(remap));
        let none = String::new();
        Some(match *body {
            Body::GlobalStore { byte_offset, value } => (none, format!("{}, .rwdata[{byte_offset}]", v(value))),
            Body::GlobalStoreRef { global, type_def, value } => {
                (none, format!("{}, .refs[{global}] : {}", reference(value), type_text(type_def)))
            }
            Body::ListAlloc { element_type, initial_capacity, result } => {
                (reference(result), format!("{} : !vm.list<{}>", i32(initial_capacity), type_text(element_type)))
            }
            Body::Select { condition, true_value, false_value, result } => {
                (v(result), format!("{} ? {} : {}", i32(condition), v(true_value), v(false_value)))
            }
            Body::SelectRef { condition, type_def, true_value, false_value, result } => {
                let (yes, no, kind) = (reference(true_value), reference(false_value), type_text(type_def));
                (reference(result), format!("{} ? {yes} : {no} -> {kind}", i32(condition)))
            }
            Body::Switch { index, default_value, values, result } => {
                let list: Vec<String> = values.iter().map(|register| v(Register(register.0))).collect();
                (v(result), format!("{}[{}] else {}", i32(index), list.join(", "), v(default_value)))
            }
            Body::SwitchRef { index, type_def, default_value, values, result } => {
                let (other, kind) = (reference(default_value), type_text(type_def));
                (reference(result), format!("{}[{}] else {other} -> {kind}", i32(index), list(values)))
            }
            Body::BufferStore { target_buffer, target_offset, value } => {
                (none, format!("{}, {}, {}", v(value), reference(target_buffer), i64(target_offset)))
            }
            Body::CastAnyRef { operand, result_type, result } => {
                (reference(result), format!("{} : !vm.ref<?> -> {}", reference(operand), type_text(result_type)))
            }
            Body::Branch { dest, operands } => (none, branch(dest, operands)),
            Body::CondBranch { condition, true_dest, true_operands, false_dest, false_operands } => {
                let (yes, no) = (branch(true_dest, true_operands), branch(false_dest, false_operands));
                (none, format!("{}, {yes}, {no}", i32(condition)))
            }
            Body::CondBreak { condition, dest, operands } => {
                (none, format!("{}, {}", i32(condition), branch(dest, operands)))
            }
            Body::BranchTable { index, default_dest, default_operands, cases } => {
                let mut text = format!("{} {{ default: {}", i32(index), branch(default_dest, default_operands));
                for (case, (dest, operands)) in cases.iter().enumerate() {
                    text.push_str(&format!(", {case}: {}", branch(dest, operands)));
                }
                text.push_str(" }");
                (none, text)
            }
            Body::Return { operands } => (none, values(operands, convention.results())),
            _ => return self.call(body, blocks),
        })
    }

    /// Results and operands of a call; `None` of anything else.
    fn call(&self, body: &Body<'_>, blocks: &Blocks) -> Option<(String, String)> {
        let none = String::new();
        Some(match *body {
            Body::Call { callee, operands, results } => {
                let convention = self.convention(callee);
                let results = values(results, convention.results());
                (results, format!("{}({})", self.callee(callee), values(operands, convention.arguments())))
            }
            Body::CallVariadic { callee, segment_sizes, operands, results } => {
                let operands = variadic(operands, self.convention(callee), segment_sizes);
                let results = values(results, self.convention(callee).results());
                (results, format!("{} {}({operands})", self.callee(callee), segments(segment_sizes)))
            }
            Body::CallYieldable { callee, operands, resume, results } => {
                let convention = self.convention(callee);
                let (operands, results) =
                    (values(operands, convention.arguments()), values(results, convention.results()));
                (none, format!("{}({operands}) -> {}({results})", self.callee(callee), blocks.label(resume.0)))
            }
            Body::CallVariadicYieldable { callee, segment_sizes, operands, resume, results } => {
                let operands = variadic(operands, self.convention(callee), segment_sizes);
                let results = values(results, self.convention(callee).results());
                let (callee, sizes) = (self.callee(callee), segments(segment_sizes));
                (none, format!("{callee} {sizes}({operands}) -> {}({results})", blocks.label(resume.0)))
            }
            _ => return None,
        })
    }

    /// What helps a reader: constants in hexadecimal, lengths of constants.
    fn comment(&mut self, body: &Body<'_>, banks: &[Bank]) {
        match *body {
            Body::Constant { value, .. } => match banks.first() {
                Some(Bank::i32) => self.text.push_str(&format!("  // 0x{value:08X}")),
                Some(Bank::i64) => self.text.push_str(&format!("  // 0x{value:016X}")),
                _ => {}
            },
            Body::ConstRefRodata { rodata, .. } => {
                let length = self.module.rodata_length(rodata).unwrap_or(0);
                self.text.push_str(&format!("  // {length}b"));
            }
            _ => {}
        }
    }

    fn convention(&self, callee: FunctionOrdinal) -> CallingConvention<'_> {
        match callee.import() {
            Some(import) => self.module.import(import).map(|import| import.calling_convention),
            None => self.module.function(callee.0).map(|function| function.convention),
        }
        .unwrap_or_default()
    }

    fn callee(&self, callee: FunctionOrdinal) -> String {
        let names: &Names<'_> = &self.names;
        match callee.import() {
            Some(import) => names.import(import),
            None => names.callee(callee.0),
        }
    }
}

fn value(register: Register, kind: FieldKind, banks: &[Bank]) -> String {
    let index = register.0;
    match kind.is_pair(banks) {
        true => format!("%i{index}:{}", u32::from(index) + 1),
        false => format!("%i{index}"),
    }
}

fn reference(register: RefRegister) -> String {
    format!("%{}{}", if register.is_move() { 'R' } else { 'r' }, register.index())
}

fn any(register: AnyRegister) -> String {
    match register.is_ref() {
        true => reference(RefRegister(register.0)),
        false => format!("%i{}", register.0),
    }
}

fn list(registers: RegisterList<'_>) -> String {
    let texts: Vec<String> = registers.iter().map(any).collect();
    texts.join(", ")
}

/// Registers of a call or a return; 64-bit values, of which the list names the lower register, as pairs.
fn values(registers: RegisterList<'_>, mut items: impl Iterator<Item = ConventionItem>) -> String {
    let texts = registers.iter().map(|register| match items.next() {
        Some(ConventionItem::I64 | ConventionItem::F64) if !register.is_ref() => {
            format!("%i{}:{}", register.0, u32::from(register.0) + 1)
        }
        _ => any(register),
    });
    let texts: Vec<String> = texts.collect();
    texts.join(", ")
}

/// The same, of a variadic call.
fn variadic(registers: RegisterList<'_>, convention: CallingConvention<'_>, sizes: SegmentSizes<'_>) -> String {
    let (mut items, mut sizes, mut list) = (convention.arguments(), sizes.iter(), Vec::new());
    while let Some(item) = items.next() {
        let size = sizes.next().unwrap_or_default();
        if item != ConventionItem::SpanStart {
            list.push(item);
            continue;
        }
        let span: Vec<ConventionItem> = items.by_ref().take_while(|&item| item != ConventionItem::SpanEnd).collect();
        for _ in 0..size {
            if list.len() < registers.len() {
                list.extend_from_slice(&span);
            }
        }
    }
    values(registers, list.into_iter())
}

fn segments(sizes: SegmentSizes<'_>) -> String {
    let texts: Vec<String> = sizes.iter().map(|size| size.to_string()).collect();
    format!("segments[{}]", texts.join(", "))
}

fn copies(remap: RemapList<'_>) -> String {
    let texts: Vec<String> = remap.iter().map(|(source, target)| format!("{}->{}", any(source), any(target))).collect();
    texts.join(", ")
}

/// A constant, such that it is read back bit by bit.
fn immediate(bits: u64, banks: &[Bank]) -> String {
    match banks.first() {
        Some(Bank::i64) => (bits as i64).to_string(),
        Some(Bank::f32) => {
            float(bits as u32 as u64, 8, 23, f32::from_bits(bits as u32).into(), |value| decimal(value as f32, value))
        }
        Some(Bank::f64) => float(bits, 11, 52, f64::from_bits(bits), |value| decimal(value, value)),
        _ => (bits as u32 as i32).to_string(),
    }
}

/// The shortest decimal that is read back as the same number, with an exponent where that is shorter.
fn decimal(value: impl core::fmt::Display + core::fmt::LowerExp, magnitude: f64) -> String {
    let magnitude = magnitude.abs();
    match magnitude == 0.0 || (1e-4..1e9).contains(&magnitude) {
        true => format!("{value}"),
        false => format!("{value:e}"),
    }
}

/// Numbers in decimal; denormal ones and NaNs such that C's `strtod` reads them exactly.
fn float(bits: u64, exponent_bits: u32, fraction_bits: u32, value: f64, decimal: impl Fn(f64) -> String) -> String {
    let fraction = bits & ((1 << fraction_bits) - 1);
    let sign = if bits >> (exponent_bits + fraction_bits) & 1 != 0 { "-" } else { "" };
    if value.is_nan() {
        let quiet = 1 << (fraction_bits - 1);
        return match fraction {
            _ if fraction == quiet => format!("{sign}nan"),
            _ if fraction & quiet != 0 => format!("{sign}nan(0x{:x})", fraction & !quiet),
            _ => format!("{sign}snan(0x{fraction:x})"),
        };
    }
    if value.is_infinite() {
        return format!("{sign}inf");
    }
    let is_denormal = bits >> fraction_bits & ((1 << exponent_bits) - 1) == 0 && fraction != 0;
    if is_denormal {
        let exponent = 1 - ((1i64 << (exponent_bits - 1)) - 1) - i64::from(fraction_bits);
        return format!("{sign}0x{fraction:x}p{exponent}");
    }
    decimal(value)
}
