/// The values that [`await_`] saves while it is suspended.
#[allow(clippy::large_enum_variant, reason = "it is boxed")]
pub enum Suspended0 {
    At0((i32,)),
}

/// `@await`
pub fn await_(
    state: &State,
    stack: &mut Stack,
    input0: Ref,
    input1: i32,
) -> Result<Step<i32>> {
    await_run(state, stack, None, input0, input1)
}

/// Resumes [`await_`].
pub fn await_resume(state: &State, stack: &mut Stack) -> Result<Step<i32>> {
    let resumed = stack.take_suspended()?;
    await_run(state, stack, Some(resumed), Ref::Null, 0)
}

/// The body of [`await_`], which starts or resumes.
#[allow(
    unused_mut,
    unused_assignments,
    unused_variables,
    reason = "not every path uses all variables"
)]
pub fn await_run(
    state: &State,
    stack: &mut Stack,
    resumed: Option<support::Box<Suspended0>>,
    mut input0: Ref,
    mut input1: i32,
) -> Result<Step<i32>> {
    const HERE: Here = Here::new(&MODULE, 0);
    let mut await_4: i32 = 0;
    match resumed.map(|saved| *saved) {
        None => {
            await_4 = match support::fence_await(
                    state.hal(),
                    "fence.await",
                    support::HalState::fence_await,
                    stack,
                    (input1, 0i64, [::core::mem::take(&mut input0)]),
                )
                .at(HERE, 0x4)?
            {
                Step::Done(results) => results,
                Step::Yielded => {
                    stack.suspend(support::Box::new(Suspended0::At0((input1,))));
                    return Ok(Step::Yielded);
                }
            };
        }
        Some(Suspended0::At0(saved)) => {
            (input1,) = saved;
            await_4 = match state
                .hal()
                .resume("fence.await", support::HalState::fence_await_resume, stack)
                .at(HERE, 0x4)?
            {
                Step::Done(results) => results,
                Step::Yielded => {
                    stack.suspend(support::Box::new(Suspended0::At0((input1,))));
                    return Ok(Step::Yielded);
                }
            };
        }
    }
    let v5 = semantics::add_i32(await_4, input1);
    Ok(Step::Done(v5))
}
