/// `@simple_mul`
pub fn simple_mul(
    state: &State,
    stack: &mut Stack,
    input0: &Ref,
    input1: &Ref,
) -> Result<Step<Ref>> {
    simple_mul_run(state, stack, None, input0, input1)
}

/// Resumes [`simple_mul`].
pub fn simple_mul_resume(state: &State, stack: &mut Stack) -> Result<Step<Ref>> {
    let resumed = stack.take_suspended()?;
    simple_mul_run(state, stack, Some(resumed), &Ref::Null, &Ref::Null)
}

/// The body of [`simple_mul`], which starts or resumes.
#[allow(
    unused_mut,
    unused_assignments,
    unused_variables,
    reason = "not every path uses all variables"
)]
pub fn simple_mul_run(
    state: &State,
    stack: &mut Stack,
    resumed: Option<support::Box<Suspended1>>,
    mut input0: &Ref,
    mut input1: &Ref,
) -> Result<Step<Ref>> {
    const HERE: Here = Here::new(&MODULE, 1);
    let mut buffer_22: Ref = Ref::Null;
    let mut await_24: i32 = 0;
    match resumed.map(|saved| *saved) {
        None => {
            let global_13 = state.load_ref(0, TYPE_HAL_DEVICE).at(HERE, 0x52)?;
            let global_14 = state.load_ref(2, TYPE_HAL_COMMAND_BUFFER).at(HERE, 0x5d)?;
            support::buffer_view_assert(
                    state.hal(),
                    "buffer_view.assert",
                    support::HalState::buffer_view_assert,
                    stack,
                    (
                        input0,
                        state.rodata(6),
                        abi::element_type::FLOAT_32,
                        abi::encoding_type::DENSE_ROW_MAJOR,
                        [4i64],
                    ),
                )
                .at(HERE, 0x6f)?;
            let buffer_16 = &*support::view_buffer(
                    state.hal(),
                    "buffer_view.buffer",
                    input0,
                )
                .at(HERE, 0x8e)?;
            let allocator_17 = state
                .hal()
                .call(
                    "device.allocator",
                    support::HalState::device_allocator,
                    stack,
                    (&global_13,),
                )
                .at(HERE, 0x9c)?;
            state
                .hal()
                .call(
                    "buffer.assert",
                    support::HalState::buffer_assert,
                    stack,
                    (
                        buffer_16,
                        state.rodata(7),
                        &allocator_17,
                        16i64,
                        abi::memory_type::DEVICE_VISIBLE,
                        abi::buffer_usage::TRANSFER | abi::buffer_usage::DISPATCH_STORAGE,
                    ),
                )
                .at(HERE, 0xb1)?;
            support::buffer_view_assert(
                    state.hal(),
                    "buffer_view.assert",
                    support::HalState::buffer_view_assert,
                    stack,
                    (
                        input1,
                        state.rodata(8),
                        abi::element_type::FLOAT_32,
                        abi::encoding_type::DENSE_ROW_MAJOR,
                        [4i64],
                    ),
                )
                .at(HERE, 0xcd)?;
            let buffer_20 = &*support::view_buffer(
                    state.hal(),
                    "buffer_view.buffer",
                    input1,
                )
                .at(HERE, 0xec)?;
            state
                .hal()
                .call(
                    "buffer.assert",
                    support::HalState::buffer_assert,
                    stack,
                    (
                        buffer_20,
                        state.rodata(7),
                        allocator_17,
                        16i64,
                        abi::memory_type::DEVICE_VISIBLE,
                        abi::buffer_usage::TRANSFER | abi::buffer_usage::DISPATCH_STORAGE,
                    ),
                )
                .at(HERE, 0xfa)?;
            let (buffer_22_next, fence_21) = support::signalled_with(|signal| {
                    state
                        .hal()
                        .call(
                            "device.queue.alloca",
                            support::HalState::queue_alloca,
                            stack,
                            (
                                &global_13,
                                -1i64,
                                &Ref::Null,
                                signal,
                                0i64,
                                abi::memory_type::DEVICE_LOCAL,
                                abi::buffer_usage::TRANSFER
                                    | abi::buffer_usage::DISPATCH_STORAGE,
                                16i64,
                                0i64,
                            ),
                        )
                })
                .at(HERE, 0x120)?;
            buffer_22 = buffer_22_next;
            let fence_23 = support::signalled(|signal| support::queue_execute_indirect(
                    state.hal(),
                    "device.queue.execute.indirect",
                    support::HalState::queue_execute_indirect,
                    stack,
                    (
                        global_13,
                        -1i64,
                        fence_21,
                        signal,
                        global_14,
                        0i64,
                        [
                            (buffer_16, 0i64, 16i64),
                            (buffer_20, 0i64, 16i64),
                            (&buffer_22, 0i64, 16i64),
                        ],
                    ),
                ))
                .at(HERE, 0x14e)?;
            await_24 = match support::fence_await(
                    state.hal(),
                    "fence.await",
                    support::HalState::fence_await,
                    stack,
                    (-1i32, 0i64, [fence_23]),
                )
                .at(HERE, 0x186)?
            {
                Step::Done(results) => results,
                Step::Yielded => {
                    stack
                        .suspend(
                            support::Box::new(
                                Suspended1::At0((::core::mem::take(&mut buffer_22),)),
                            ),
                        );
                    return Ok(Step::Yielded);
                }
            };
        }
        Some(Suspended1::At0(saved)) => {
            (buffer_22,) = saved;
            await_24 = match state
                .hal()
                .resume("fence.await", support::HalState::fence_await_resume, stack)
                .at(HERE, 0x186)?
            {
                Step::Done(results) => results,
                Step::Yielded => {
                    stack
                        .suspend(
                            support::Box::new(
                                Suspended1::At0((::core::mem::take(&mut buffer_22),)),
                            ),
                        );
                    return Ok(Step::Yielded);
                }
            };
        }
    }
    if await_24 != 0 {
        buffer_22 = Ref::Null;
        support::fail(await_24, "failed to wait on timepoint").at(HERE, 0x1e6)?;
        return Err(support::fell_through()).at(HERE, 0x1e6);
    }
    let view_25 = support::buffer_view_create(
            state.hal(),
            "buffer_view.create",
            support::HalState::buffer_view_create,
            stack,
            (
                ::core::mem::take(&mut buffer_22),
                0i64,
                16i64,
                abi::element_type::FLOAT_32,
                abi::encoding_type::DENSE_ROW_MAJOR,
                [4i64],
            ),
        )
        .at(HERE, 0x1b5)?;
    Ok(Step::Done(view_25))
}
