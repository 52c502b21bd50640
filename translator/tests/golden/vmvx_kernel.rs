/// The exports that are kernels.
pub static KERNELS: &[support::ExportedKernel] = &[
    support::ExportedKernel {
        export: 0,
        function: |_state, _stack, workgroups| {
            let local_memory = &workgroups.local_memory();
            let constants = &workgroups.constants();
            let binding_0 = &workgroups.binding(0)?;
            let binding_1 = &workgroups.binding(1)?;
            let binding_2 = &workgroups.binding(2)?;
            workgroups
                .run(
                    &mut |
                        [workgroup_x,
                        workgroup_y,
                        workgroup_z,
                        size_x,
                        size_y,
                        size_z,
                        count_x,
                        count_y,
                        count_z,
                        ],
                        _workgroups|
                    simple_mul_dispatch_0_elementwise_4_f32(
                        local_memory,
                        constants,
                        binding_0,
                        binding_1,
                        binding_2,
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
        },
        takes_references: false,
        read_only_bindings: 3,
        coarsening: support::Coarsening::NONE,
    },
];

/// `@simple_mul_dispatch_0_elementwise_4_f32`
pub fn simple_mul_dispatch_0_elementwise_4_f32(
    local_memory: &support::Memory<'_>,
    constants: &support::Memory<'_>,
    binding_0: &support::Memory<'_>,
    binding_1: &support::Memory<'_>,
    binding_2: &support::Memory<'_>,
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
    nests::nest_0(HERE, 0x61, binding_0, binding_1, binding_2)?;
    Ok(())
}


Nests of kernels.
nests {
#[allow(unused_imports, reason = "not every module uses all of them")]
use ::incarnate::runtime::support::{
    self, At, Here, LANES, Ref, Result, Stack, State, Step, ValueType, abi, semantics,
};

/// A nest of `simple_mul_dispatch_0_elementwise_4_f32`.
#[inline(never)]
pub fn nest_0(
    here: Here,
    at: u32,
    r3: &support::Memory<'_>,
    r5: &support::Memory<'_>,
    r8: &support::Memory<'_>,
) -> Result<()> {
    let mut v1: i64 = 0;
    'l0: {
        let count0: usize = 4;
        let Some(grid0) = support::elements_of!(r3, grid, f32, 1, 0, [(count0, 1)]) else {
            break 'l0;
        };
        let Some(grid1) = support::elements_of!(r5, grid, f32, 1, 0, [(count0, 1)]) else {
            break 'l0;
        };
        let Some(grid2) = support::elements_of!(r8, grid_mut, f32, 1, 0, [(count0, 1)])
        else {
            break 'l0;
        };
        for i0 in 0..count0 {
            let v4 = grid0.get([i0]);
            let v6 = grid1.get([i0]);
            let v7 = semantics::mul_f32(v4, v6);
            grid2.set([i0], v7);
        }
        support::settle_memory();
        v1 = count0 as i64;
    }
    while semantics::cmp_lt_i64_s(v1, 4) != 0 {
        let v4 = support::buffer_load_f32(r3, v1).at(here, at.wrapping_add(0x18))?;
        let v6 = support::buffer_load_f32(r5, v1).at(here, at.wrapping_add(0x20))?;
        let v7 = semantics::mul_f32(v4, v6);
        support::buffer_store_f32(r8, v1, v7).at(here, at.wrapping_add(0x30))?;
        let v10 = semantics::add_i64(v1, 1);
        v1 = v10;
    }
    Ok(())
}
