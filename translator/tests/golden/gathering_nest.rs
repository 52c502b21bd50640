/// `@nearest`
pub fn nearest(input0: &Ref, input1: &Ref) -> Result<()> {
    struct Body<'a>(&'a Ref, &'a Ref);
    impl support::Multiversion for Body<'_> {
        type Output = Result<()>;
        #[inline(always)]
        fn run<const LANES: usize>(
            self,
            _: impl support::IntegerProducts,
        ) -> Result<()> {
            let Body(input0, input1) = self;
            const HERE: Here = Here::new(&MODULE, 0);
            let mut v3: i64 = 0;
            'nest0: {
                let count0: usize = 575;
                let Some(grid0) = support::elements_of!(
                    input1, grid_mut, f32, 1, 0, [(count0, 1)]
                ) else {
                    break 'nest0;
                };
                let Some(gather0) = support::gather_of!(input0, f32) else {
                    break 'nest0;
                };
                let gather0 = gather0.except(&grid0);
                if !support::is_within(0, &[(count0, 1)], 0, i64::MAX) {
                    break 'nest0;
                }
                if !(support::is_injective(&[(count0, 1)])) {
                    break 'nest0;
                }
                let mut misses = support::Misses::default();
                #[inline(always)]
                fn strip<const STRIPS: usize, const L: usize>(
                    grid0: &support::GridMut<'_, f32, 1>,
                    gather0: &support::Gather<'_, f32>,
                    all_misses: &mut support::Misses,
                    first: usize,
                    step: usize,
                ) {
                    if all_misses.any() {
                        return;
                    }
                    let mut misses = support::Misses::default();
                    let grid0 = grid0.part(0, first, L + step * (STRIPS - 1));
                    let mut accumulators0: [[f32; L]; STRIPS] = [[0.0; L]; STRIPS];
                    for (strip, accumulators) in accumulators0.iter_mut().enumerate() {
                        *accumulators = grid0.lanes([strip * step], 0);
                    }
                    #[allow(
                        clippy::needless_range_loop,
                        clippy::unused_enumerate_index,
                        reason = "strips index several arrays"
                    )]
                    for strip in 0..STRIPS {
                        let division0 = support::Division::<24, 574>::new(0);
                        let start = (first + strip * step) as i64;
                        if division0.is_row(start, L) {
                            let division0 = division0.row(start);
                            for (lane, accumulator) in accumulators0[strip]
                                .iter_mut()
                                .enumerate()
                            {
                                let i0 = first + strip * step + lane;
                                let v3 = i0 as i64;
                                let v11 = division0.quotient(i0 as i64);
                                let v12 = division0.rest(i0 as i64);
                                let v13 = semantics::cast_si64_f32(v11);
                                let v14 = semantics::mul_f32(v13, 0.5);
                                let v15 = semantics::floor_f32(v14);
                                let v16 = semantics::cast_f32_si64(v15);
                                let v17 = semantics::cast_si64_f32(v12);
                                let v18 = semantics::mul_f32(v17, 0.5);
                                let v19 = semantics::floor_f32(v18);
                                let v20 = semantics::cast_f32_si64(v19);
                                let v21 = semantics::fma_i64(v16, 12, v20);
                                let v22 = gather0.get(v21, &mut misses);
                                *accumulator = v22;
                            }
                        } else {
                            for (lane, accumulator) in accumulators0[strip]
                                .iter_mut()
                                .enumerate()
                            {
                                let i0 = first + strip * step + lane;
                                let v3 = i0 as i64;
                                let v11 = division0.quotient(i0 as i64);
                                let v12 = division0.rest(i0 as i64);
                                let v13 = semantics::cast_si64_f32(v11);
                                let v14 = semantics::mul_f32(v13, 0.5);
                                let v15 = semantics::floor_f32(v14);
                                let v16 = semantics::cast_f32_si64(v15);
                                let v17 = semantics::cast_si64_f32(v12);
                                let v18 = semantics::mul_f32(v17, 0.5);
                                let v19 = semantics::floor_f32(v18);
                                let v20 = semantics::cast_f32_si64(v19);
                                let v21 = semantics::fma_i64(v16, 12, v20);
                                let v22 = gather0.get(v21, &mut misses);
                                *accumulator = v22;
                            }
                        }
                    }
                    if misses.any() {
                        *all_misses = misses;
                        return;
                    }
                    for (strip, accumulators) in accumulators0.iter().enumerate() {
                        grid0.set_lanes([strip * step], 0, *accumulators);
                    }
                }
                support::strips!(
                    count0, strip(& grid0, & gather0, & mut misses), [1 x LANES, 1 x 16,
                    1 x 8, 1 x 4, 1 x 1]
                );
                if misses.any() {
                    break 'nest0;
                }
                support::settle_memory();
                v3 = count0 as i64;
            }
            loop {
                let v11 = semantics::div_i64_s(v3, 24).unwrap_or_default();
                let v12 = semantics::rem_i64_s(v3, 24).unwrap_or_default();
                let v13 = semantics::cast_si64_f32(v11);
                let v14 = semantics::mul_f32(v13, 0.5);
                let v15 = semantics::floor_f32(v14);
                let v16 = semantics::cast_f32_si64(v15);
                let v17 = semantics::cast_si64_f32(v12);
                let v18 = semantics::mul_f32(v17, 0.5);
                let v19 = semantics::floor_f32(v18);
                let v20 = semantics::cast_f32_si64(v19);
                let v21 = semantics::fma_i64(v16, 12, v20);
                let v22 = support::buffer_load_f32(input0, v21).at(HERE, 0x8c)?;
                support::buffer_store_f32(input1, v3, v22).at(HERE, 0x94)?;
                let v23 = semantics::add_i64(v3, 1);
                if semantics::cmp_lt_i64_s(v23, 576) == 0 {
                    break;
                }
                v3 = v23;
            }
            Ok(())
        }
    }
    support::multiversioned::<6, _>(Body(input0, input1))
}
