//! The signature of kernels, which VMVX executables export.

use incarnate_bytecode::ir::{Function, KernelArguments, Type, read_only_bindings};
use incarnate_bytecode::{TypeId, TypeKind, VerifiedModule};

/// The names of a kernel's arguments: local memory, constants and bindings; then position, size and count of workgroups.
pub(crate) const ARGUMENT_NAMES: [&str; 12] = [
    "local_memory",
    "constants",
    "bindings",
    "workgroup_x",
    "workgroup_y",
    "workgroup_z",
    "size_x",
    "size_y",
    "size_z",
    "count_x",
    "count_y",
    "count_z",
];
/// The name of the argument that a coarsened kernel has behind these.
pub(crate) const WORKGROUPS: &str = "workgroups";
/// The number of references; they come first.
pub(crate) const REFERENCES: usize = 3;
/// The index of the list of bindings.
const BINDINGS: usize = 2;
/// What coarsening must know: kernels run several workgroups along x, which the numbers of workgroups count fastest.
const COARSENED_ALONG: KernelArguments = KernelArguments { constants: 1, bindings: BINDINGS, position: 3 };

/// How a kernel is called. Its arguments in Rust are those of the bytecode, with the bindings that it takes from the list in place of the
/// list, where those are passed, and the number of workgroups where a call may run more than one.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    /// The most workgroups that a call runs.
    pub(crate) coarsening: u32,
    /// Positions below this may share calls.
    pub(crate) alike: u32,
    /// The ordinals of the bindings that are passed; None for a kernel that needs the list.
    pub(crate) bindings: Option<Vec<u32>>,
    /// It takes local memory, constants and bindings as references to buffers: it does more with one than to access its memory.
    pub(crate) takes_references: bool,
    /// A bit set of the bindings that it only reads.
    pub(crate) only_read: u64,
}

impl Kernel {
    /// Makes a kernel of an exported function, if it has the signature of one. `may_change` allows to change it: to pass its bindings, and
    /// to coarsen it if sums stay in order, as their order depends on the loops otherwise.
    pub(crate) fn prepare(
        module: &VerifiedModule,
        body: &mut Function,
        may_change: bool,
        reassociate: bool,
    ) -> Option<Kernel> {
        let arguments: Vec<Type> = body.arguments().iter().map(|value| body.ty(*value)).collect();
        is_kernel(&arguments, &body.results).then_some(())?;
        let mut kernel = Kernel {
            coarsening: 1,
            alike: u32::MAX,
            bindings: None,
            takes_references: true,
            only_read: read_only_bindings(body, BINDINGS),
        };
        if !may_change {
            return Some(kernel);
        }
        if !reassociate && let Some(coarsened) = body.coarsened(&COARSENED_ALONG) {
            (*body, kernel.coarsening, kernel.alike) = (coarsened.function, coarsened.coarsening, coarsened.alike);
        }
        let mut attributes = module.function_attributes(body.ordinal);
        // That many bindings a dispatch passes.
        let count = attributes.find(|(key, _)| *key == "binding_count").and_then(|(_, value)| value.parse().ok());
        let is_buffer = |id: TypeId| {
            module.types().get(id.0 as usize).is_some_and(|ty| matches!(ty.kind(), TypeKind::Ref("vm.buffer")))
        };
        kernel.bindings = body.pass_bindings(BINDINGS, count.unwrap_or(0), is_buffer);
        kernel.takes_references = kernel.bindings.is_none() || !body.only_accesses_memory_of_arguments();
        Some(kernel)
    }

    /// The names of all arguments.
    pub(crate) fn argument_names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for (position, name) in ARGUMENT_NAMES.into_iter().enumerate() {
            match &self.bindings {
                Some(ordinals) if position == BINDINGS => names.extend(ordinals.iter().map(binding_name)),
                _ => names.push(name.into()),
            }
        }
        names.extend((self.coarsening > 1).then(|| WORKGROUPS.into()));
        names
    }
}

/// The prefix of the names of bindings.
const BINDING: &str = "binding_";

pub(crate) fn binding_name(ordinal: &u32) -> String {
    format!("{BINDING}{ordinal}")
}

/// Whether a variable of the closures that call kernels has a name, which no function may have then.
pub(crate) fn is_variable(name: &str) -> bool {
    ARGUMENT_NAMES.contains(&name) || [WORKGROUPS, "list"].contains(&name) || name.starts_with(BINDING)
}

/// Whether a signature is that of a kernel.
fn is_kernel(arguments: &[Type], results: &[Type]) -> bool {
    let ty = |index: usize| if index < REFERENCES { Type::Ref } else { Type::i32 };
    results.is_empty()
        && arguments.len() == ARGUMENT_NAMES.len()
        && arguments.iter().enumerate().all(|(index, argument)| *argument == ty(index))
}
