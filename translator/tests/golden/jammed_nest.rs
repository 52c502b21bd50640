for i2 in 0..count2 {
        #[allow(
            clippy::needless_range_loop,
            clippy::unused_enumerate_index,
            reason = "strips index several arrays"
        )]
        for strip in 0..STRIPS {
            let lanes0: [i8; L] = grid0.lanes([strip * step, i2], 0);
            let mut shared0: [f32; L] = [Default::default(); L];
            for lane in 0..L {
                let v15 = i32::from(lanes0[lane]);
                let v16 = semantics::cast_si32_f32(v15);
                shared0[lane] = v16;
            }
            {
                let i0: usize = 0;
                let lanes1: [f32; L] = grid1
                    .lanes([i0, strip * step, i2], 1);
                for (lane, accumulator) in accumulators2_0[strip]
                    .iter_mut()
                    .enumerate()
                {
                    let v16 = shared0[lane];
                    let v21 = lanes1[lane];
                    let v22 = semantics::mul_f32(v16, v21);
                    let v25 = *accumulator;
                    let v26 = semantics::add_f32(v25, v22);
                    *accumulator = v26;
                }
            }
            {
                let i0: usize = 1;
                let lanes1: [f32; L] = grid1
                    .lanes([i0, strip * step, i2], 1);
                for (lane, accumulator) in accumulators2_1[strip]
                    .iter_mut()
                    .enumerate()
                {
                    let v16 = shared0[lane];
                    let v21 = lanes1[lane];
                    let v22 = semantics::mul_f32(v16, v21);
                    let v25 = *accumulator;
                    let v26 = semantics::add_f32(v25, v22);
                    *accumulator = v26;
                }
            }
            {
                let i0: usize = 2;
                let lanes1: [f32; L] = grid1
                    .lanes([i0, strip * step, i2], 1);
                for (lane, accumulator) in accumulators2_2[strip]
                    .iter_mut()
                    .enumerate()
                {
                    let v16 = shared0[lane];
                    let v21 = lanes1[lane];
                    let v22 = semantics::mul_f32(v16, v21);
                    let v25 = *accumulator;
                    let v26 = semantics::add_f32(v25, v22);
                    *accumulator = v26;
                }
            }
        }
    }
    let i0: usize = 0;
    for (strip, accumulators) in accumulators2_0.iter().enumerate() {
        grid2.set_lanes([i0, strip * step], 1, *accumulators);
    }
    let i0: usize = 1;
    for (strip, accumulators) in accumulators2_1.iter().enumerate() {
        grid2.set_lanes([i0, strip * step], 1, *accumulators);
    }
    let i0: usize = 2;
    for (strip, accumulators) in accumulators2_2.iter().enumerate() {
        grid2.set_lanes([i0, strip * step], 1, *accumulators);
    }
}
support::strips!(
    count1, strip(& grid0, & grid1, & grid2, count2), [1 x LANES, 1 x 16]
    over 16
);


:multiversioned::<6, _>(Iterations(&grid0, &grid1, &grid2));
:settle_memory();
nt0 as i64;


v5: i64 = 0;

mut v6: i64 = 0;
 {
let v13 = semantics::mul_i64(v6, 16);
let v14 = semantics::add_i64(v13, v5);
let v15 = support::buffer_load_i8_s(input1, v14).at(HERE, 0x5f)?;
let v16 = semantics::cast_si32_f32(v15);
let v17 = semantics::mul_i64(v4, 32);
let v18 = semantics::add_i64(v17, v6);
let v19 = semantics::mul_i64(v18, 16);
let v20 = semantics::add_i64(v19, v5);
let v21 = support::buffer_load_f32(input2, v20).at(HERE, 0x88)?;
let v22 = semantics::mul_f32(v16, v21);
let v23 = semantics::mul_i64(v4, 16);
let v24 = semantics::add_i64(v23, v5);
let v25 = support::buffer_load_f32(input0, v24).at(HERE, 0xa6)?;
let v26 = semantics::add_f32(v25, v22);
support::buffer_store_f32(input0, v24, v26).at(HERE, 0xb6)?;
let v27 = semantics::add_i64(v6, 1);
if semantics::cmp_lt_i64_s(v27, 32) == 0 {
    break;
}
v6 = v27;

v29 = semantics::add_i64(v5, 1);
emantics::cmp_lt_i64_s(v29, 16) == 0 {
break;

 v29;

= semantics::add_i64(v4, 1);
tics::cmp_lt_i64_s(v31, 4) == 0 {
k;

;




