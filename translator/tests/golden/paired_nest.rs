impl support::Multiversion for Iterations<'_> {
        type Output = ();
        #[inline(always)]
        fn run<const LANES: usize>(self, products: impl support::IntegerProducts) {
            let Iterations(grid0, grid2, grid4) = self;
            let count0: usize = 31;
            let count2: usize = 6;
            let count1: usize = 8;
            let grid0 = grid0
                .subgrid(
                    [0, 0, 0, 0],
                    [(count0, 96), (count1, 2), (count2, 16), (2, 1)],
                );
            let grid2 = grid2
                .subgrid([0, 0, 0], [(count1, 2), (count2, 16), (2, 1)]);
            let grid4 = grid4.subgrid([0, 0], [(count0, 8), (count1, 1)]);
            #[inline(always)]
            fn strip<const STRIPS: usize, const L: usize>(
                grid0: &support::Grid<'_, u8, 4>,
                grid2: &support::Grid<'_, i16, 3>,
                grid4: &support::GridMut<'_, f32, 2>,
                count2: usize,
                i0: usize,
                products: impl support::IntegerProducts,
                first: usize,
                step: usize,
            ) {
                let grid0 = grid0.part(1, first, L + step * (STRIPS - 1));
                let grid2 = grid2.part(0, first, L + step * (STRIPS - 1));
                let grid4 = grid4.part(1, first, L + step * (STRIPS - 1));
                let mut accumulators4: [[f32; L]; STRIPS] = [[0.0; L]; STRIPS];
                for (strip, accumulators) in accumulators4.iter_mut().enumerate() {
                    *accumulators = grid4.lanes([i0, strip * step], 1);
                }
                for i2 in 0..count2 {
                    #[allow(
                        clippy::needless_range_loop,
                        clippy::unused_enumerate_index,
                        reason = "strips index several arrays"
                    )]
                    for strip in 0..STRIPS {
                        let lanes0: [[u8; 2]; L] = grid0
                            .tuples([i0, strip * step, i2, 0], 1);
                        let lanes2: [[i16; 2]; L] = grid2
                            .tuples([strip * step, i2, 0], 0);
                        let mut left0: [[i16; 2]; L] = [[0; 2]; L];
                        let mut right0: [[i16; 2]; L] = [[0; 2]; L];
                        for lane in 0..L {
                            let v22 = i16::from(lanes0[lane][0]);
                            let v23 = v22 & 15i16;
                            let v25 = i16::from(lanes0[lane][1]);
                            let v26 = v25 & 15i16;
                            let v27 = lanes2[lane][0];
                            let v29 = lanes2[lane][1];
                            left0[lane][0] = v23;
                            left0[lane][1] = v26;
                            right0[lane][0] = v27;
                            right0[lane][1] = v29;
                        }
                        let sums_v31 = products.multiply_pairs(&left0, &right0);
                        for (lane, accumulator) in accumulators4[strip]
                            .iter_mut()
                            .enumerate()
                        {
                            let v31 = sums_v31[lane];
                            let v32 = semantics::cast_si32_f32(v31);
                            let v35 = *accumulator;
                            let v36 = semantics::add_f32(v35, v32);
                            *accumulator = v36;
                        }
                    }
                }
                for (strip, accumulators) in accumulators4.iter().enumerate() {
                    grid4.set_lanes([i0, strip * step], 1, *accumulators);
                }
            }
            for i0 in 0..count0 {
                support::strips!(
                    count1, strip(& grid0, & grid2, & grid4, count2, i0, products),
                    [1 x 8] over 8
                );
            }
        }
    }
    support::multiversioned::<6, _>(Iterations(&grid0, &grid2, &grid4));
