//! Operations as expressions and statements.

use incarnate_bytecode::ir::{Block, Global, Inst, Op, Operand, Type, Value, semantics};
use incarnate_bytecode::isa::Opcode;
use incarnate_bytecode::{Error, Result};
use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};

use super::emitter::Emitter;
use super::shared;
use super::values::{hexadecimal, literal, type_of};

impl Emitter<'_, '_> {
    /// A number in a context that determines its type.
    pub(super) fn number(&self, value: Value) -> TokenStream {
        match self.body.function.constant_bits(value) {
            Some(bits) => {
                let ty = self.body.function.ty(value);
                let shared = self.shared.and_then(|_| shared::number(ty, bits));
                shared.unwrap_or_else(|| literal(ty, bits, false))
            }
            None => self.name(value),
        }
    }

    /// A number that is a literal where it is constant, in shared functions too.
    fn literal_or_name(&self, value: Value) -> TokenStream {
        match self.body.function.constant_bits(value) {
            Some(bits) => literal(self.body.function.ty(value), bits, false),
            None => self.name(value),
        }
    }

    /// A number in a context that does not determine its type: a literal has a suffix.
    pub(super) fn typed(&self, value: Value) -> TokenStream {
        match self.body.function.constant_bits(value) {
            Some(bits) => literal(self.body.function.ty(value), bits, true),
            None => self.name(value),
        }
    }

    /// A value that is read: references are borrowed.
    pub(super) fn read(&self, value: Value) -> TokenStream {
        match (self.body.function.ty(value), self.body.function.constant_bits(value)) {
            (Type::Ref, Some(_)) => quote!(&Ref::Null),
            (Type::Ref, None) => {
                let name = self.name(value);
                if self.is_borrowed(value) { name } else { quote!(&#name) }
            }
            _ => self.number(value),
        }
    }

    /// A value whose ownership is transferred.
    pub(super) fn take(&self, operand: &Operand) -> TokenStream {
        let value = operand.value;
        if self.body.function.ty(value) != Type::Ref {
            return self.number(value);
        }
        if self.body.function.constant_bits(value).is_some() {
            return quote!(Ref::Null);
        }
        let name = self.name(value);
        match operand.moved && !self.is_borrowed(value) {
            true => self.moved(value),
            false => quote!(#name.clone()),
        }
    }

    /// A reference that is moved.
    pub(super) fn moved(&self, value: Value) -> TokenStream {
        let name = self.name(value);
        if self.is_taken_from(value) { quote!(::core::mem::take(&mut #name)) } else { name }
    }

    /// A fallible call, whose error gets the location of the instruction.
    pub(super) fn fallible(&self, call: TokenStream, offset: u32) -> TokenStream {
        if let Some(base) = self.shared {
            let location = shared::location(offset, base);
            return quote!(#call.at(#location)?);
        }
        self.uses_location.set(true);
        let offset = hexadecimal(offset.into());
        quote!(#call.at(HERE, #offset)?)
    }

    /// The bytecode offset of a block's first instruction; 0 for a node that is no block, such as a loop header that
    /// dispatches to several blocks.
    pub(super) fn offset_of(&self, block: Block) -> u32 {
        self.body
            .function
            .blocks
            .get(block.0 as usize)
            .map_or(0, |data| data.instructions.first().map_or(data.offset, |inst| inst.offset))
    }

    /// An instruction as a statement; empty if it has no effect.
    pub(super) fn instruction(&self, block: Block, position: u32) -> Result<TokenStream> {
        let inst = self.body.inst(block, position);
        match &inst.op {
            Op::Drop { value } => return Ok(self.drop(*value)),
            Op::Call(call) => return self.call(call, inst),
            Op::Trace { print, name, operands } => return Ok(self.trace(*print, name, operands)),
            _ => {}
        }
        let unused = inst.results.iter().all(|value| self.is_unused(*value));
        if unused && inst.op.is_pure() {
            return Ok(TokenStream::new());
        }
        let (metered, expression) = (self.meter_bulk_work(&inst.op, inst.offset), self.expression(inst)?);
        let statement = self.bind(&inst.results, expression);
        Ok(quote!(#metered #statement))
    }

    /// Drops a reference.
    pub(super) fn drop(&self, value: Value) -> TokenStream {
        if self.is_borrowed(value) {
            return TokenStream::new();
        }
        let name = self.name(value);
        if self.is_taken_from(value) { quote!(#name = Ref::Null;) } else { quote!(drop(#name);) }
    }

    fn trace(&self, print: bool, name: &[u8], operands: &[Value]) -> TokenStream {
        let function = if print { format_ident!("print") } else { format_ident!("trace") };
        let name = String::from_utf8_lossy(name);
        let operands = operands.iter().map(|value| {
            let read = self.read(*value);
            match self.body.function.ty(*value) {
                Type::Ref => quote!(support::Traced::Ref(#read)),
                _ => quote!(support::Traced::Word(#read)),
            }
        });
        quote!(support::#function(&MODULE, #name, [#(#operands),*]);)
    }

    /// The condition that a pure instruction computes.
    pub(super) fn test(&self, inst: &Inst, negated: bool) -> Result<TokenStream> {
        Ok(match &inst.op {
            Op::IsNonNull { operand } => {
                let name = self.receiver(*operand);
                if negated { quote!(#name.is_null()) } else { quote!(!#name.is_null()) }
            }
            Op::CompareRef { negated: inverse, left, right } => {
                let (left, right) = (self.receiver(*left), self.read(*right));
                if negated ^ inverse { quote!(!#left.same(#right)) } else { quote!(#left.same(#right)) }
            }
            _ => {
                let expression = self.expression(inst)?;
                if negated { quote!(#expression == 0) } else { quote!(#expression != 0) }
            }
        })
    }

    /// A reference as the receiver of a method call.
    fn receiver(&self, value: Value) -> TokenStream {
        match self.body.function.constant_bits(value) {
            Some(_) => quote!(Ref::Null),
            None => self.name(value),
        }
    }

    /// The value of a division whose divisor is not zero where it runs.
    pub(super) fn quotient(&self, opcode: Opcode, operands: &[Value]) -> Result<TokenStream> {
        let meaning = semantics(opcode).ok_or_else(|| Error::internal("an instruction without semantics"))?;
        let function = format_ident!("{}", meaning.function);
        // A division by a literal is faster than one by a parameter.
        let mut read: Vec<TokenStream> = operands.iter().map(|value| self.literal_or_name(*value)).collect();
        // The select lets rustc see that the divisor is not zero.
        if let (&[_, divisor], [_, last]) = (operands, &mut read[..])
            && self.body.function.constant_bits(divisor).is_none()
        {
            *last = match self.body.function.ty(divisor) {
                Type::i64 => quote!(semantics::select_i64(semantics::cmp_nz_i64(#last), #last, 1)),
                _ => quote!(semantics::select_i32(#last, #last, 1)),
            };
        }
        Ok(quote!(semantics::#function(#(#read),*).unwrap_or_default()))
    }

    /// The value of an instruction with at most one result.
    pub(super) fn expression(&self, inst: &Inst) -> Result<TokenStream> {
        let at = |call: TokenStream| self.fallible(call, inst.offset);
        let read = |value: &Value| self.read(*value);
        Ok(match &inst.op {
            Op::Eval { opcode, operands } => {
                let meaning = semantics(*opcode).ok_or_else(|| Error::internal("an instruction without semantics"))?;
                let function = format_ident!("{}", meaning.function);
                if !meaning.fails {
                    let read = operands.iter().map(read);
                    return Ok(quote!(semantics::#function(#(#read),*)));
                }
                if self.body.function.is_arithmetic(&inst.op, &self.body.positions) {
                    return self.quotient(*opcode, operands);
                }
                let read = operands.iter().map(|value| self.literal_or_name(*value));
                at(quote!(semantics::#function(#(#read),*)))
            }
            Op::Bitcast { operand } => self.bitcast(*operand, inst)?,
            Op::Low { operand } => {
                let operand = read(operand);
                quote!(support::low(#operand))
            }
            Op::High { operand } => {
                let operand = read(operand);
                quote!(support::high(#operand))
            }
            Op::Pair { low, high } => {
                let (low, high) = (read(low), read(high));
                quote!(support::pair(#low, #high))
            }
            Op::Switch { index, default, values } => {
                let (index, default) = (read(index), read(default));
                let ty = inst.results.first().map(|value| type_of(self.body.function.ty(*value)));
                let (values, count) = (values.iter().map(read), Literal::usize_unsuffixed(values.len()));
                quote!(support::switch::<#ty, #count>(#index, #default, [#(#values),*]))
            }
            Op::GlobalLoad { .. } | Op::GlobalStore { .. } | Op::GlobalLoadRef { .. } | Op::GlobalStoreRef { .. } => {
                at(self.global(inst)?)
            }
            Op::Rodata { rodata } => {
                let ordinal = Literal::u32_unsuffixed(*rodata);
                quote!(state.rodata(#ordinal))
            }
            Op::CheckRef { .. }
            | Op::SelectRef { .. }
            | Op::SwitchRef { .. }
            | Op::CompareRef { .. }
            | Op::IsNonNull { .. } => self.reference(inst)?,
            Op::ImportResolved { import } => {
                let import = Literal::u32_unsuffixed(*import);
                quote!(state.import(#import).is_resolved())
            }
            Op::ListAlloc { .. }
            | Op::ListReserve { .. }
            | Op::ListSize { .. }
            | Op::ListResize { .. }
            | Op::ListGet { .. }
            | Op::ListSet { .. }
            | Op::ListGetRef { .. }
            | Op::ListSetRef { .. } => at(self.list(inst)?),
            _ => at(self.buffer(inst)?),
        })
    }

    /// Type checks of references and selections between them.
    fn reference(&self, inst: &Inst) -> Result<TokenStream> {
        let at = |call: TokenStream| self.fallible(call, inst.offset);
        let read = |value: &Value| self.read(*value);
        Ok(match &inst.op {
            Op::CheckRef { type_def, value } => {
                let (value, ty) = (read(value), self.analysis.types.of(*type_def));
                at(quote!(support::check_ref(#value, #ty)))
            }
            Op::SelectRef { condition, type_def, true_value, false_value } => {
                let (condition, ty) = (read(condition), self.analysis.types.of(*type_def));
                let (first, second) = (self.take(true_value), self.take(false_value));
                at(quote!(support::checked_ref(support::select_ref(#condition, #first, #second), #ty)))
            }
            Op::SwitchRef { index, type_def, default, values } => {
                let (index, default) = (read(index), self.take(default));
                let values = values.iter().map(|operand| self.take(operand));
                let chosen = quote!(support::switch_ref(#index, #default, [#(#values),*]));
                match type_def {
                    Some(type_def) => {
                        let ty = self.analysis.types.of(*type_def);
                        at(quote!(support::checked_ref(#chosen, #ty)))
                    }
                    None => chosen,
                }
            }
            Op::CompareRef { negated, left, right } => {
                let (left, right) = (read(left), read(right));
                let function = if *negated { format_ident!("cmp_ne_ref") } else { format_ident!("cmp_eq_ref") };
                quote!(support::#function(#left, #right))
            }
            Op::IsNonNull { operand } => {
                let operand = read(operand);
                quote!(support::cmp_nz_ref(#operand))
            }
            op => return Err(Error::internal(format!("{op:?} is not an operation on references"))),
        })
    }

    fn bitcast(&self, operand: Value, inst: &Inst) -> Result<TokenStream> {
        let value = self.typed(operand);
        let to = inst.results.first().map(|value| self.body.function.ty(*value));
        Ok(match (self.body.function.ty(operand), to) {
            (Type::i32, Some(Type::f32)) => quote!(f32::from_bits(#value as u32)),
            (Type::i64, Some(Type::f64)) => quote!(f64::from_bits(#value as u64)),
            (Type::f32, Some(Type::i32)) => quote!(#value.to_bits() as i32),
            (Type::f64, Some(Type::i64)) => quote!(#value.to_bits() as i64),
            _ => return Err(Error::internal("bits read as a type of another width")),
        })
    }

    fn global(&self, inst: &Inst) -> Result<TokenStream> {
        let slot = |global: &Global| match global {
            Global::Direct(slot) => {
                let slot = Literal::u32_unsuffixed(*slot);
                quote!(#slot)
            }
            Global::Indirect(value) => {
                let value = self.typed(*value);
                quote!(#value as u32)
            }
        };
        Ok(match &inst.op {
            Op::GlobalLoad { global } => {
                let ty = inst.results.first().map_or(Type::i32, |value| self.body.function.ty(*value));
                let (slot, function) = (slot(global), format_ident!("load_{}", ty.to_string()));
                quote!(state.#function(#slot))
            }
            Op::GlobalStore { global, value } => {
                let (slot, ty) = (slot(global), self.body.function.ty(*value));
                let (value, function) = (self.read(*value), format_ident!("store_{}", ty.to_string()));
                quote!(state.#function(#slot, #value))
            }
            Op::GlobalLoadRef { global, type_def, take } => {
                let (slot, ty) = (slot(global), self.analysis.types.of(*type_def));
                let function = if *take { format_ident!("take_ref") } else { format_ident!("load_ref") };
                quote!(state.#function(#slot, #ty))
            }
            Op::GlobalStoreRef { global, type_def, value } => {
                let (slot, ty) = (slot(global), self.analysis.types.of(*type_def));
                let value = self.take(value);
                quote!(state.store_ref(#slot, #ty, #value))
            }
            _ => return Err(Error::internal("not a global")),
        })
    }

    /// Operations on lists; all are fallible.
    fn list(&self, inst: &Inst) -> Result<TokenStream> {
        let read = |value: &Value| self.read(*value);
        Ok(match &inst.op {
            Op::ListAlloc { element_type, capacity } => {
                let (ty, capacity) = (self.analysis.types.of_elements(*element_type), read(capacity));
                quote!(support::list_alloc(stack, #ty, #capacity))
            }
            Op::ListReserve { list, capacity } => {
                let (list, capacity) = (read(list), read(capacity));
                quote!(support::list_reserve(stack, #list, #capacity))
            }
            Op::ListSize { list } => {
                let list = read(list);
                quote!(support::list_size(#list))
            }
            Op::ListResize { list, size } => {
                let (list, size) = (read(list), read(size));
                quote!(support::list_resize(stack, #list, #size))
            }
            Op::ListGet { list, index } => {
                let ty = inst.results.first().map_or(Type::i32, |value| self.body.function.ty(*value));
                let (list, index, function) = (read(list), read(index), format_ident!("list_get_{}", ty.to_string()));
                quote!(support::#function(#list, #index))
            }
            Op::ListSet { list, index, value } => {
                let function = format_ident!("list_set_{}", self.body.function.ty(*value).to_string());
                let (list, index, value) = (read(list), read(index), read(value));
                quote!(support::#function(#list, #index, #value))
            }
            Op::ListGetRef { list, index, type_def, take } => {
                let (list, index, ty) = (read(list), read(index), self.analysis.types.of(*type_def));
                quote!(support::list_get_ref(#list, #index, #ty, #take))
            }
            Op::ListSetRef { list, index, value } => {
                let (list, index, value) = (read(list), read(index), self.take(value));
                quote!(support::list_set_ref(#list, #index, #value))
            }
            op => return Err(Error::internal(format!("{op:?} is not an operation on lists"))),
        })
    }

    /// Operations on buffers; all are fallible.
    fn buffer(&self, inst: &Inst) -> Result<TokenStream> {
        let read = |value: &Value| self.read(*value);
        Ok(match &inst.op {
            Op::BufferLoad { opcode, buffer, offset } => {
                let (function, buffer, offset) = (function_of(*opcode), read(buffer), read(offset));
                quote!(support::#function(#buffer, #offset))
            }
            Op::BufferStore { opcode, buffer, offset, value } => {
                let (function, buffer, offset, value) = (function_of(*opcode), read(buffer), read(offset), read(value));
                quote!(support::#function(#buffer, #offset, #value))
            }
            Op::BufferFill { opcode, buffer, offset, length, value } => {
                let (function, buffer, offset) = (function_of(*opcode), read(buffer), read(offset));
                let (length, value) = (read(length), read(value));
                quote!(support::#function(#buffer, #offset, #length, #value))
            }
            Op::BufferAlloc { length, alignment } => {
                let (length, alignment) = (read(length), read(alignment));
                let is_accumulator = inst.results.iter().any(|buffer| self.body.accumulators.contains(*buffer));
                match is_accumulator {
                    true => quote!(support::accumulator!(stack, #length, #alignment)),
                    false => quote!(support::buffer_alloc(stack, #length, #alignment)),
                }
            }
            Op::BufferClone { buffer, offset, length, alignment } => {
                let (buffer, offset) = (read(buffer), read(offset));
                let (length, alignment) = (read(length), read(alignment));
                quote!(support::buffer_clone(stack, #buffer, #offset, #length, #alignment))
            }
            Op::BufferLength { buffer } => {
                let buffer = read(buffer);
                quote!(support::buffer_length(#buffer))
            }
            Op::BufferCopy { source: a, source_offset: b, target: c, target_offset: d, length: e } => {
                let operands = [a, b, c, d, e].into_iter().map(read);
                quote!(support::buffer_copy(#(#operands),*))
            }
            Op::BufferCompare { left: a, left_offset: b, right: c, right_offset: d, length: e } => {
                let operands = [a, b, c, d, e].into_iter().map(read);
                quote!(support::buffer_compare(#(#operands),*))
            }
            Op::BufferHash { buffer, offset, length } => {
                let (buffer, offset, length) = (read(buffer), read(offset), read(length));
                quote!(support::buffer_hash(#buffer, #offset, #length))
            }
            op => return Err(Error::internal(format!("{op:?} is not an operation on buffers"))),
        })
    }
}

/// The function of an instruction: its mnemonic with `_` for `.`.
fn function_of(opcode: Opcode) -> proc_macro2::Ident {
    format_ident!("{}", opcode.info().mnemonic.replace('.', "_"))
}
