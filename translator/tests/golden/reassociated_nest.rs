'nest0: {
    let count0: usize = 7;
    let count1: usize = 100;
    let Some(grid0) = support::elements_of!(
        input0, grid, f32, 2, 0, [(count0, 100), (count1, 1)]
    ) else {
        break 'nest0;
    };
    let Some(grid1) = support::elements_of!(
        input1, grid_mut, f32, 1, 0, [(count0, 1)]
    ) else {
        break 'nest0;
    };
    if !(support::is_injective(&[(count0, 1)]) && grid1.is_disjoint(&grid0)
        && count1 != 0)
    {
        break 'nest0;
    }
    #[inline(always)]
    fn strip<const STRIPS: usize, const L: usize>(
        grid0: &support::Grid<'_, f32, 2>,
        i0: usize,
        mut accumulators1: [[f32; L]; STRIPS],
        first: usize,
    ) -> [[f32; L]; STRIPS] {
        let step = L;
        let grid0 = grid0.part(1, first, L + step * (STRIPS - 1));
        #[allow(
            clippy::needless_range_loop,
            clippy::unused_enumerate_index,
            reason = "strips index several arrays"
        )]
        for strip in 0..STRIPS {
            let lanes0: [f32; L] = grid0.lanes([i0, strip * step], 1);
            for (lane, accumulator) in accumulators1[strip]
                .iter_mut()
                .enumerate()
            {
                let v12 = lanes0[lane];
                let v13 = semantics::exp_f32(v12);
                let v14 = *accumulator;
                let v15 = semantics::add_f32(v14, v13);
                *accumulator = v15;
            }
        }
        accumulators1
    }
    for i0 in 0..count0 {
        let mut accumulators1 = [[0.0; support::PARTIAL]];
        support::partial_results!(count1, accumulators1, strip(& grid0, i0));
        let combined = |result: f32, number: f32| semantics::add_f32(
            result,
            number,
        );
        let number = support::combine(accumulators1[0], combined);
        grid1.set([i0], combined(grid1.get([i0]), number));
    }
    support::settle_memory();
    v3 = count0 as i64;
}
