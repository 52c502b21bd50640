/// The kernels: the ordinal of the export, the function, and a bit set of the bindings that it only reads.
pub static KERNELS: &[(u32, support::Kernel, u64)] = &[
    (0, support::multiversioned_kernel::<6, Kernel0>, 3),
];
/// [`simple_mul_dispatch_0_elementwise_4_f32`].
struct Kernel0;
impl support::MultiversionedKernel for Kernel0 {
    #[inline(always)]
    fn run<const LANES: usize>(
        _state: &State,
        _stack: &mut Stack,
        workgroups: &mut support::Workgroups<'_>,
    ) -> Result<()> {
        workgroups
            .run(
                #[inline(always)]
                |
                    local_memory,
                    constants,
                    bindings,
                    [workgroup_x,
                    workgroup_y,
                    workgroup_z,
                    size_x,
                    size_y,
                    size_z,
                    count_x,
                    count_y,
                    count_z,
                    ]|
                simple_mul_dispatch_0_elementwise_4_f32::<
                    LANES,
                >(
                    local_memory,
                    constants,
                    bindings,
                    workgroup_x,
                    workgroup_y,
                    workgroup_z,
                    size_x,
                    size_y,
                    size_z,
                    count_x,
                    count_y,
                    count_z,
                ),
            )
    }
}

/// `@simple_mul_dispatch_0_elementwise_4_f32`
#[inline(always)]
pub fn simple_mul_dispatch_0_elementwise_4_f32<const LANES: usize>(
    local_memory: &Ref,
    constants: &Ref,
    bindings: &Ref,
    _workgroup_x: i32,
    _workgroup_y: i32,
    _workgroup_z: i32,
    _size_x: i32,
    _size_y: i32,
    _size_z: i32,
    _count_x: i32,
    _count_y: i32,
    _count_z: i32,
) -> Result<()> {
    const HERE: Here = Here::new(&MODULE, 0);
    let element_20 = support::list_get_ref(
            bindings,
            0,
            ValueType::Ref(support::Buffer::TYPE),
            false,
        )
        .at(HERE, 0x32)?;
    let element_21 = support::list_get_ref(
            bindings,
            1,
            ValueType::Ref(support::Buffer::TYPE),
            false,
        )
        .at(HERE, 0x3d)?;
    let element_22 = support::list_get_ref(
            bindings,
            2,
            ValueType::Ref(support::Buffer::TYPE),
            false,
        )
        .at(HERE, 0x48)?;
    let mut v13: i64 = 0;
    'nest0: {
        let Some(count0) = support::trip_count::<i64>(0, 1, support::Relation::Less, 4)
        else {
            break 'nest0;
        };
        let Some(grid0) = support::elements_of!(
            element_20, grid, f32, 1, 0, [(count0, 1)]
        ) else {
            break 'nest0;
        };
        let Some(grid1) = support::elements_of!(
            element_21, grid, f32, 1, 0, [(count0, 1)]
        ) else {
            break 'nest0;
        };
        let Some(grid2) = support::elements_of!(
            element_22, grid_mut, f32, 1, 0, [(count0, 1)]
        ) else {
            break 'nest0;
        };
        for i0 in 0..count0 {
            let v24 = grid0.get([i0]);
            let v25 = grid1.get([i0]);
            let v26 = semantics::mul_f32(v24, v25);
            grid2.set([i0], v26);
        }
        support::settle_memory();
        v13 = count0 as i64;
    }
    while semantics::cmp_lt_i64_s(v13, 4) != 0 {
        let v24 = support::buffer_load_f32(&element_20, v13).at(HERE, 0x79)?;
        let v25 = support::buffer_load_f32(&element_21, v13).at(HERE, 0x81)?;
        let v26 = semantics::mul_f32(v24, v25);
        support::buffer_store_f32(&element_22, v13, v26).at(HERE, 0x91)?;
        let v27 = semantics::add_i64(v13, 1);
        v13 = v27;
    }
    drop(element_20);
    drop(element_21);
    drop(element_22);
    Ok(())
}
