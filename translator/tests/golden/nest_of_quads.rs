/// `@signed_quads`
pub fn signed_quads(input0: &Ref, input1: &Ref, input2: &Ref) -> Result<()> {
    const HERE: Here = Here::new(&MODULE, 3);
    let mut v4: i64 = 0;
    'nest0: {
        let count0: usize = 31;
        let count1: usize = 8;
        let count2: usize = 6;
        let Some(grid0) = support::elements_of!(
            input1, grid, u8, 4, 0, [(count0, 192), (count1, 4), (count2, 32), (4, 1)]
        ) else {
            break 'nest0;
        };
        let Some(grid1) = support::elements_of!(
            input2, grid, i8, 3, 0, [(count1, 4), (count2, 32), (4, 1)]
        ) else {
            break 'nest0;
        };
        let Some(grid8) = support::elements_of!(
            input0, grid_mut, i32, 2, 0, [(count0, 8), (count1, 1)]
        ) else {
            break 'nest0;
        };
        if !(support::is_injective(&[(count0, 8), (count1, 1)])
            && grid8.is_disjoint(&grid0) && grid8.is_disjoint(&grid1) && count2 != 0)
        {
            break 'nest0;
        }
        struct Iterations<'a>(
            &'a support::Grid<'a, u8, 4>,
            &'a support::Grid<'a, i8, 3>,
            &'a support::GridMut<'a, i32, 2>,
        );
        impl support::Multiversion for Iterations<'_> {
            type Output = ();
            #[inline(always)]
            fn run<const LANES: usize>(self, products: impl support::IntegerProducts) {
                let Iterations(grid0, grid1, grid8) = self;
                let count0: usize = 31;
                let count2: usize = 6;
                let count1: usize = 8;
                let grid0 = grid0
                    .subgrid(
                        [0, 0, 0, 0],
                        [(count0, 192), (count1, 4), (count2, 32), (4, 1)],
                    );
                let grid1 = grid1
                    .subgrid([0, 0, 0], [(count1, 4), (count2, 32), (4, 1)]);
                let grid8 = grid8.subgrid([0, 0], [(count0, 8), (count1, 1)]);
                #[inline(always)]
                fn strip<const STRIPS: usize, const L: usize>(
                    grid0: &support::Grid<'_, u8, 4>,
                    grid1: &support::Grid<'_, i8, 3>,
                    grid8: &support::GridMut<'_, i32, 2>,
                    count2: usize,
                    i0: usize,
                    products: impl support::IntegerProducts,
                    first: usize,
                    step: usize,
                ) {
                    let grid0 = grid0.part(1, first, L + step * (STRIPS - 1));
                    let grid1 = grid1.part(0, first, L + step * (STRIPS - 1));
                    let grid8 = grid8.part(1, first, L + step * (STRIPS - 1));
                    let mut accumulators8: [[i32; L]; STRIPS] = [[0; L]; STRIPS];
                    for (strip, accumulators) in accumulators8.iter_mut().enumerate() {
                        *accumulators = grid8.lanes([i0, strip * step], 1);
                    }
                    for i2 in 0..count2 {
                        support::keep_iteration_order();
                        #[allow(
                            clippy::needless_range_loop,
                            clippy::unused_enumerate_index,
                            reason = "strips index several arrays"
                        )]
                        for strip in 0..STRIPS {
                            let lanes0: [[u8; 4]; L] = grid0
                                .tuples([i0, strip * step, i2, 0], 1);
                            let lanes1: [[i8; 4]; L] = grid1
                                .tuples([strip * step, i2, 0], 0);
                            let mut left0: [[i8; 4]; L] = [[0; 4]; L];
                            let mut right0: [[i8; 4]; L] = [[0; 4]; L];
                            for lane in 0..L {
                                let v22 = i16::from(lanes0[lane][0]);
                                let v23 = v22 & 63i16;
                                let v24 = i16::wrapping_sub(v23, 32i16);
                                let v25 = i16::from(lanes1[lane][0]);
                                let v28 = i16::from(lanes0[lane][1]);
                                let v29 = v28 & 63i16;
                                let v30 = i16::wrapping_sub(v29, 32i16);
                                let v31 = i16::from(lanes1[lane][1]);
                                let v34 = i16::from(lanes0[lane][2]);
                                let v35 = v34 & 63i16;
                                let v36 = i16::wrapping_sub(v35, 32i16);
                                let v37 = i16::from(lanes1[lane][2]);
                                let v40 = i16::from(lanes0[lane][3]);
                                let v41 = v40 & 63i16;
                                let v42 = i16::wrapping_sub(v41, 32i16);
                                let v43 = i16::from(lanes1[lane][3]);
                                left0[lane][0] = v25 as i8;
                                left0[lane][1] = v31 as i8;
                                left0[lane][2] = v37 as i8;
                                left0[lane][3] = v43 as i8;
                                right0[lane][0] = v24 as i8;
                                right0[lane][1] = v30 as i8;
                                right0[lane][2] = v36 as i8;
                                right0[lane][3] = v42 as i8;
                            }
                            let sums_v47 = products
                                .multiply_signed_quads(&left0, &right0);
                            for (lane, accumulator) in accumulators8[strip]
                                .iter_mut()
                                .enumerate()
                            {
                                let v47 = sums_v47[lane];
                                let v50 = *accumulator;
                                let v51 = semantics::add_i32(v50, v47);
                                *accumulator = v51;
                            }
                        }
                    }
                    for (strip, accumulators) in accumulators8.iter().enumerate() {
                        grid8.set_lanes([i0, strip * step], 1, *accumulators);
                    }
                }
                for i0 in 0..count0 {
                    support::strips!(
                        count1, strip(& grid0, & grid1, & grid8, count2, i0, products),
                        [1 x 8]
                    );
                }
            }
        }
        support::multiversioned::<6, _>(Iterations(&grid0, &grid1, &grid8));
