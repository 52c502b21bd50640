/// `@bias`
pub fn bias(input0: &Ref, input1: &Ref, input2: &Ref) -> Result<()> {
    const HERE: Here = Here::new(&MODULE, 0);
    let mut v4: i64 = 0;
    'nest0: {
        let count0: usize = 63;
        let count1: usize = 64;
        let count2: usize = 64;
        let Some(grid0) = support::elements_of!(
            input0, grid, f32, 3, 0, [(count0, 4096), (count1, 64), (count2, 1)]
        ) else {
            break 'nest0;
        };
        let Some(grid1) = support::elements_of!(input1, grid, f32, 1, 0, [(count0, 1)])
        else {
            break 'nest0;
        };
        let Some(grid2) = support::elements_of!(
            input2, grid_mut, f32, 3, 0, [(count0, 4224), (count1, 66), (count2, 1)]
        ) else {
            break 'nest0;
        };
        if !(support::is_injective(&[(count0, 4224), (count1, 66), (count2, 1)])
            && (grid2.is_disjoint(&grid0) || grid2.is_same(&grid0))
            && grid2.is_disjoint(&grid1))
        {
            break 'nest0;
        }
        struct Iterations<'a>(
            &'a support::Grid<'a, f32, 3>,
            &'a support::Grid<'a, f32, 1>,
            &'a support::GridMut<'a, f32, 3>,
            [(usize, usize); 2],
        );
        impl support::Multiversion for Iterations<'_> {
            type Output = ();
            #[inline(always)]
            fn run<const LANES: usize>(self, _: impl support::IntegerProducts) {
                let Iterations(
                    grid0,
                    grid1,
                    grid2,
                    [(first0, count0),
                    (first1, count1),
                    ],
                ) = self;
                let count2: usize = 64;
                let grid0 = grid0
                    .subgrid(
                        [first0, first1, 0],
                        [(count0, 4096), (count1, 64), (count2, 1)],
                    );
                let grid1 = grid1.subgrid([first0], [(count0, 1)]);
                let grid2 = grid2
                    .subgrid(
                        [first0, first1, 0],
                        [(count0, 4224), (count1, 66), (count2, 1)],
                    );
                #[inline(always)]
                fn strip<const STRIPS: usize, const L: usize>(
                    grid0: &support::Grid<'_, f32, 3>,
                    grid1: &support::Grid<'_, f32, 1>,
                    grid2: &support::GridMut<'_, f32, 3>,
                    i0: usize,
                    i1: usize,
                    first: usize,
                    step: usize,
                ) {
                    let grid0 = grid0.part(2, first, L + step * (STRIPS - 1));
                    let grid2 = grid2.part(2, first, L + step * (STRIPS - 1));
                    let mut accumulators2: [[f32; L]; STRIPS] = [[0.0; L]; STRIPS];
                    for (strip, accumulators) in accumulators2.iter_mut().enumerate() {
                        *accumulators = grid2.lanes([i0, i1, strip * step], 2);
                    }
                    #[allow(
                        clippy::needless_range_loop,
                        clippy::unused_enumerate_index,
                        reason = "strips index several arrays"
                    )]
                    for strip in 0..STRIPS {
                        let lanes0: [f32; L] = grid0.lanes([i0, i1, strip * step], 2);
                        let v19 = grid1.get([i0]);
                        for (lane, accumulator) in accumulators2[strip]
                            .iter_mut()
                            .enumerate()
                        {
                            let v18 = lanes0[lane];
                            let v20 = semantics::add_f32(v18, v19);
                            let v25 = *accumulator;
                            let v26 = semantics::sub_f32(v20, v25);
                            *accumulator = v26;
                        }
                    }
                    for (strip, accumulators) in accumulators2.iter().enumerate() {
                        grid2.set_lanes([i0, i1, strip * step], 2, *accumulators);
                    }
                }
                for i0 in 0..count0 {
                    for i1 in 0..count1 {
                        support::strips!(
                            count2, strip(& grid0, & grid1, & grid2, i0, i1), [2 x LANES,
                            1 x LANES, 1 x 16] over 16
                        );
                    }
                }
            }
        }
        support::divide(
            [count0, count1],
            [count2],
            &|loops| {
                support::multiversioned::<
                    6,
                    _,
                >(Iterations(&grid0, &grid1, &grid2, loops))
            },
        );
        support::settle_memory();
        v4 = count0 as i64;
    }
    loop {
        let mut v5: i64 = 0;
        loop {
            let mut v6: i64 = 0;
            loop {
                let v14 = semantics::mul_i64(v4, 4096);
                let v15 = semantics::mul_i64(v5, 64);
                let v16 = semantics::add_i64(v14, v15);
                let v17 = semantics::add_i64(v16, v6);
                let v18 = support::buffer_load_f32(input0, v17).at(HERE, 0x99)?;
                let v19 = support::buffer_load_f32(input1, v4).at(HERE, 0xa1)?;
                let v20 = semantics::add_f32(v18, v19);
                let v21 = semantics::mul_i64(v4, 4224);
                let v22 = semantics::mul_i64(v5, 66);
                let v23 = semantics::add_i64(v21, v22);
                let v24 = semantics::add_i64(v23, v6);
                let v25 = support::buffer_load_f32(input2, v24).at(HERE, 0xcd)?;
                let v26 = semantics::sub_f32(v20, v25);
                support::buffer_store_f32(input2, v24, v26).at(HERE, 0xdd)?;
                let v27 = semantics::add_i64(v6, 1);
                if semantics::cmp_lt_i64_s(v27, 64) == 0 {
                    break;
                }
                v6 = v27;
            }
            let v29 = semantics::add_i64(v5, 1);
            if semantics::cmp_lt_i64_s(v29, 64) == 0 {
                break;
            }
            v5 = v29;
        }
        let v31 = semantics::add_i64(v4, 1);
        if semantics::cmp_lt_i64_s(v31, 64) == 0 {
            break;
        }
        v4 = v31;
    }
    Ok(())
}
