//! What functions need to be called, found over the call graph.

use incarnate_runtime::bytecode::VerifiedModule;
use incarnate_runtime::ir::{Callee, Function, Op, Terminator, ownership};
use incarnate_runtime::vm::semantics;
use incarnate_runtime::{Error, Result};
use quote::format_ident;

use super::{Analysis, FunctionFacts, FunctionName};

/// Makes the IR of all functions and what is known of each.
pub(super) fn analyze(module: &VerifiedModule, names: Vec<FunctionName>) -> Result<Analysis<'_>> {
    if names.len() != module.function_count() as usize {
        return Err(Error::internal("as many names as functions"));
    }
    let bodies = (0..module.function_count())
        .map(|ordinal| {
            let mut function = Function::unsimplified(module, ordinal)?;
            function.simplify(Some(semantics::fold));
            ownership(&mut function);
            Ok(function)
        })
        .collect::<Result<Vec<_>>>()?;
    let functions = names.into_iter().zip(&bodies).map(|(name, body)| facts(name, body)).collect();
    Ok(Analysis { module, functions, bodies })
}

fn facts(name: FunctionName, body: &Function) -> FunctionFacts {
    let suspends =
        |terminator: &Terminator| matches!(terminator, Terminator::Yield(_) | Terminator::CallYieldable { .. });
    let yields = body.blocks.iter().any(|block| suspends(&block.terminator));
    let imports = body
        .blocks
        .iter()
        .flat_map(|block| &block.instructions)
        .any(|inst| matches!(&inst.op, Op::Call(call) if matches!(call.callee, Callee::Import(_))));
    FunctionFacts {
        resume: yields.then(|| format_ident!("{}__resume", name.ident)),
        ident: name.ident,
        docs: name.docs,
        arguments: body.arguments().iter().map(|value| body.ty(*value)).collect(),
        results: body.results.clone(),
        needs_state: true,
        needs_stack: yields || imports,
    }
}
