//! The evaluator as a module of the VM: calls and their buffers.

use super::*;

/// Converts the values of a call buffer to slots.
pub(super) fn slots(values: Vec<VmValue>) -> Vec<Slot> {
    let slot = |value| match value {
        VmValue::I32(v) => Slot::Word(u64::from(v as u32)),
        VmValue::I64(v) => Slot::Word(v as u64),
        VmValue::F32(v) => Slot::Word(u64::from(v.to_bits())),
        VmValue::F64(v) => Slot::Word(v.to_bits()),
        VmValue::Ref(v) => Slot::Ref(v),
        VmValue::None => panic!("no value"),
    };
    values.into_iter().map(slot).collect()
}

/// Writes arguments into a call buffer, with counts before the elements of spans.
pub(super) fn pack(
    items: &[ConventionItem],
    segments: &mut dyn Iterator<Item = u16>,
    arguments: &mut dyn Iterator<Item = Slot>,
    top_level: bool,
    buffer: &mut CallBuffer,
) {
    let mut index = 0;
    while let Some(item) = items.get(index) {
        index += 1;
        let segment = if top_level || *item == ConventionItem::SpanStart { segments.next() } else { None };
        if *item != ConventionItem::SpanStart {
            match arguments.next().unwrap() {
                Slot::Word(word) => buffer.push_word(word),
                Slot::Ref(reference) => buffer.push_ref(reference),
                Slot::Empty => panic!("no argument"),
            }
            continue;
        }
        let mut depth = 1;
        let length = items[index..].iter().position(|item| {
            depth += i32::from(*item == ConventionItem::SpanStart) - i32::from(*item == ConventionItem::SpanEnd);
            depth == 0
        });
        let end = index + length.unwrap();
        let count = segment.unwrap();
        assert_ne!(count, SEGMENT_NOT_VARIADIC);
        buffer.push_word(count.into());
        for _ in 0..count {
            pack(&items[index..end], segments, arguments, false, buffer);
        }
        index = end + 1;
    }
}

impl IrModule {
    fn drive(&self, mut machine: Machine<'_>, buffer: &mut CallBuffer) -> Result<Completion> {
        match machine.run()? {
            Outcome::Done(results) => {
                buffer.clear();
                for slot in results {
                    match slot {
                        Slot::Word(word) => buffer.push_word(word),
                        Slot::Ref(reference) => buffer.push_ref(reference),
                        Slot::Empty => panic!("no result"),
                    }
                }
                Ok(Completion::Done)
            }
            Outcome::Yielded { import } => {
                machine.stack.suspend(Box::new(Suspended { frames: machine.frames, import }));
                Ok(Completion::Yielded)
            }
        }
    }
}

impl Module for IrModule {
    fn name(&self) -> &str {
        self.verified.name()
    }

    fn signature(&self) -> ModuleSignature {
        ModuleSignature {
            version: self.verified.version(),
            attribute_count: 0,
            import_count: self.verified.import_count() as usize,
            export_count: self.exports.len(),
            internal_count: self.functions.len(),
        }
    }

    fn dependency(&self, index: usize) -> Option<Dependency<'_>> {
        self.verified.dependencies().nth(index)
    }

    fn lookup(&self, linkage: Linkage, name: &str) -> Option<u32> {
        let position = match linkage {
            Linkage::Export => self.exports.iter().position(|export| export.0 == name),
            Linkage::Import => self.verified.imports().position(|import| import.full_name == name),
            Linkage::Internal => None,
        };
        position.map(|position| position as u32)
    }

    fn function(&self, linkage: Linkage, ordinal: u32) -> Option<FunctionInfo<'_>> {
        match linkage {
            Linkage::Export => {
                let (name, function) = self.exports.get(ordinal as usize)?;
                let calling_convention = self.verified.function(*function)?.calling_convention.unwrap_or_default();
                Some(FunctionInfo { name, calling_convention, optional: false })
            }
            Linkage::Import => {
                let import = self.verified.import(ordinal)?;
                let (name, calling_convention) = (import.full_name, import.calling_convention_text);
                Some(FunctionInfo { name, calling_convention, optional: import.optional })
            }
            Linkage::Internal => None,
        }
    }

    fn allocate_state(&self, _: &Limits) -> Result<Box<dyn ModuleState>> {
        Ok(Box::new(State {
            words: Mutex::new(vec![0; self.verified.global_bytes().div_ceil(4) as usize]),
            refs: Mutex::new(vec![Ref::Null; self.verified.global_ref_count() as usize]),
            imports: vec![None; self.verified.import_count() as usize],
        }))
    }

    fn resolve_import(&self, state: &mut dyn ModuleState, import: u32, target: BoundFunction) -> Result<()> {
        state.downcast_mut::<State>()?.imports[import as usize] = Some(target);
        Ok(())
    }

    fn begin_call(
        &self,
        state: &Arc<dyn ModuleState>,
        export: u32,
        stack: &mut Stack,
        buffer: &mut CallBuffer,
    ) -> Result<Completion> {
        let function = self.exports[export as usize].1;
        let convention = self.verified.function(function).unwrap().convention;
        let arguments = slots(buffer.drain(&convention.arguments().collect::<Vec<_>>())?);
        let mut machine = Machine {
            module: self,
            state: state.downcast()?,
            stack,
            frames: Vec::new(),
            gathers: Vec::new(),
            missed: false,
        };
        machine.open(function, arguments)?;
        self.drive(machine, buffer)
    }

    fn resume_call(
        &self,
        state: &Arc<dyn ModuleState>,
        _: u32,
        stack: &mut Stack,
        buffer: &mut CallBuffer,
    ) -> Result<Completion> {
        let Suspended { frames, import } = *stack.take_suspended()?;
        let mut machine =
            Machine { module: self, state: state.downcast()?, stack, frames, gathers: Vec::new(), missed: false };
        if import && machine.resume()? == Completion::Yielded {
            machine.stack.suspend(Box::new(Suspended { frames: machine.frames, import }));
            return Ok(Completion::Yielded);
        }
        self.drive(machine, buffer)
    }
}
