//! Tensors that are computed when a module is loaded.

use incarnate_bytecode::Result;

use crate::context::{Context, Scopes};
use crate::tensor::{Data, Tensor};

impl Context {
    /// Computes a tensor once, when the module is loaded, where its operands are constants; in place where they are not. A loop whose kernels
    /// read it would compute it in each iteration, as IREE's compiler moves conversions of operands into kernels. The module holds the
    /// operands and not the result, which may take more bytes: the compiler does not see that they are constants.
    pub(crate) fn when_loaded(
        &mut self,
        operands: &[&Tensor],
        compute: impl FnOnce(&mut Context, &[&Tensor]) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let name = operands.iter().find_map(|operand| match &operand.data {
            Data::Constant(constant) => Some(constant.name.clone()),
            _ => None,
        });
        let Some(name) = name.filter(|_| operands.iter().all(|operand| !matches!(operand.data, Data::Value(_)))) else {
            return compute(self, operands);
        };
        let (depth, _) = self.depth();
        let outer = self.replace_scopes(Scopes::default());
        self.b.open_region();
        let computed = self.hidden(operands).and_then(|hidden| {
            let result = compute(self, &hidden.iter().collect::<Vec<_>>())?;
            Ok((self.value(&result)?, result))
        });
        self.replace_scopes(outer);
        let (value, result) = match computed {
            Ok(computed) => computed,
            Err(error) => {
                self.b.discard_regions(depth);
                return Err(error);
            }
        };
        let region = self.b.close_region();
        let key = self.unique_key(&name);
        self.b.computed_global(&key, (region, value));
        let loaded = self.b.load_global(&key, &result.mlir_type());
        self.tensor(loaded, result.ty, result.shape)
    }

    /// The operands as values that the compiler does not see through.
    fn hidden(&mut self, operands: &[&Tensor]) -> Result<Vec<Tensor>> {
        let mut hidden = Vec::new();
        for operand in operands {
            let value = self.value(operand)?;
            let value = self.b.opaque(value);
            hidden.push(self.tensor(value, operand.ty, operand.shape.clone())?);
        }
        Ok(hidden)
    }
}
