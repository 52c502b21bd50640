use ::incarnate::runtime::support::{
    Arc, Device, Instance, IntoInput, Result, Session, SessionBuilder, Tensor,
    TranslatedModule, natives,
};

#[rustfmt::skip]
/// The module `@module` with its state. Clones share the state.
#[derive(Clone, Debug)]
#[allow(unreachable_pub, reason = "the enclosing module may be private")]
pub struct Module {
    instance: Instance,
}

#[rustfmt::skip]
#[allow(
    dead_code,
    unreachable_pub,
    clippy::inherent_to_string,
    clippy::len_without_is_empty,
    clippy::new_ret_no_self,
    clippy::should_implement_trait,
    clippy::too_many_arguments,
    clippy::type_complexity,
    clippy::wrong_self_convention,
    reason = "names and signatures are the module's, and programs use parts of them"
)]
impl Module {
    /// Creates the module's state on a device and runs its initialisers.
    ///
    /// # Errors
    /// Errors of linking the module and of its initialisers.
    pub fn load(device: &Arc<Device>) -> Result<Module> {
        let builder = SessionBuilder::with_natives(&[natives::direct::HAL_INLINE]);
        Module::load_with(builder.shared_device(device.clone()))
    }

    /// Adds the module to a session after the modules of the builder, and builds it.
    ///
    /// # Errors
    /// Those of [`Module::load`].
    pub fn load_with(builder: SessionBuilder) -> Result<Module> {
        Ok(Module {
            instance: Instance::new(builder, &translated::MODULE)?,
        })
    }

    /// Returns the session.
    #[must_use]
    pub fn session(&self) -> &Session {
        self.instance.session()
    }

    /// `sync func @statistics(%input0: tensor<6x5xf32>) -> (%output0: tensor<f32>, %output1: tensor<6xf32>, %output2: tensor<6xi32>, %output3: i32, %output4: tensor<6x5xf32>)`
    ///
    /// Inputs:
    ///
    /// - `input0`: `tensor<6x5xf32>`
    ///
    /// Outputs:
    ///
    /// - `output0`: `tensor<f32>`
    /// - `output1`: `tensor<6xf32>`
    /// - `output2`: `tensor<6xi32>`
    /// - `output3`: `i32`
    /// - `output4`: `tensor<6x5xf32>`
    ///
    /// ```ignore
    /// let module = Module::load(&incarnate::Device::create("local-task")?)?;
    /// let input0 = vec![0.0f32; 6 * 5];
    /// let (output0, output1, output2, output3, output4) = module.statistics(&input0)?;
    /// ```
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a tensor of another shape; the errors of the function.
    pub fn statistics<'a>(
        &self,
        input0: impl IntoInput<'a, f32>,
    ) -> Result<(Tensor<f32>, Tensor<f32>, Tensor<i32>, i32, Tensor<f32>)> {
        self.instance
            .with_borrowed_inputs(|instance| {
                let input0 = instance
                    .finish(0, instance.input("input0", input0, &[Some(6), Some(5)]))?;
                let (output0, output1, output2, output3, output4) = instance
                    .call(
                        0,
                        |state, stack| translated::statistics(state, stack, &input0),
                    )?;
                Ok((
                    instance.finish(0, instance.output("output0", output0, &[]))?,
                    instance.finish(0, instance.output("output1", output1, &[Some(6)]))?,
                    instance.finish(0, instance.output("output2", output2, &[Some(6)]))?,
                    output3,
                    instance
                        .finish(
                            0,
                            instance.output("output4", output4, &[Some(6), Some(5)]),
                        )?,
                ))
            })
    }

    /// `sync func @nothing() -> ()`
    ///
    /// ```ignore
    /// let module = Module::load(&incarnate::Device::create("local-task")?)?;
    /// module.nothing()?;
    /// ```
    ///
    /// # Errors
    /// The errors of the function.
    #[inline]
    pub fn nothing(&self) -> Result<()> {
        let instance = &self.instance;
        instance.finish(1, translated::nothing())
    }

    /// `sync func @echo(%input0: tensor<3xf32>) -> (%output0: tensor<3xf32>, %output1: tensor<3xf32>)`
    ///
    /// Inputs:
    ///
    /// - `input0`: `tensor<3xf32>`
    ///
    /// Outputs:
    ///
    /// - `output0`: `tensor<3xf32>`
    /// - `output1`: `tensor<3xf32>`
    ///
    /// ```ignore
    /// let module = Module::load(&incarnate::Device::create("local-task")?)?;
    /// let input0 = vec![0.0f32; 3];
    /// let (output0, output1) = module.echo(&input0)?;
    /// ```
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a tensor of another shape; the errors of the function.
    #[inline]
    pub fn echo<'a>(
        &self,
        input0: impl IntoInput<'a, f32>,
    ) -> Result<(Tensor<f32>, Tensor<f32>)> {
        self.instance
            .with_borrowed_inputs(|instance| {
                let input0 = instance
                    .finish(2, instance.input("input0", input0, &[Some(3)]))?;
                let (output0, output1) = instance
                    .finish(2, translated::echo(input0.into_owned()))?;
                Ok((
                    instance.finish(2, instance.output("output0", output0, &[Some(3)]))?,
                    instance.finish(2, instance.output("output1", output1, &[Some(3)]))?,
                ))
            })
    }
}

#[rustfmt::skip]
/// Returns the module `@module` for `SessionBuilder::module`.
#[allow(dead_code, unreachable_pub, reason = "programs use parts of it")]
#[must_use]
pub fn module() -> Arc<TranslatedModule> {
    TranslatedModule::new(&translated::MODULE)
}
