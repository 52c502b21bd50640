/// `@sums`
pub fn sums(
    stack: &mut Stack,
    input0: &Ref,
    input1: &Ref,
    input2: i64,
    input3: i64,
    input4: i64,
) -> Result<()> {
    struct Body<'a>(&'a mut Stack, &'a Ref, &'a Ref, i64, i64, i64);
    impl support::Multiversion for Body<'_> {
        type Output = Result<()>;
        #[inline(always)]
        fn run<const LANES: usize>(self) -> Result<()> {
            let Body(stack, input0, input1, input2, input3, input4) = self;
            const HERE: Here = Here::new(&MODULE, 0);
            let buffer_13 = support::accumulator!(stack, 4096, 16).at(HERE, 0x21)?;
            let mut v6: i64 = 0;
            'run0: {
                'nest0: {
                    let Some(count0) = support::trip_count::<
                        i64,
                    >(0, 1, support::Relation::Less, input2) else {
                        break 'nest0;
                    };
                    let Some(count1) = support::trip_count::<
                        i64,
                    >(0, 1, support::Relation::Less, input3) else {
                        break 'nest0;
                    };
                    if !support::contract!(
                        MulAddF32, (buffer_13, 0, of_zeros), one, (input0, 0), [(count0,
                        input4, 0, input3), (count1, 0, 0, 1)]
                    ) {
                        break 'nest0;
                    }
                    support::settle_memory();
                    v6 = count0 as i64;
                    break 'run0;
                }
                support::buffer_clear(&buffer_13).at(HERE, 0x39)?
            }
            while semantics::cmp_lt_i64_s(v6, input2) != 0 {
                let mut v8: i64 = 0;
                while semantics::cmp_lt_i64_s(v8, input3) != 0 {
                    let v22 = semantics::fma_i64(v6, input3, v8);
                    let v23 = support::buffer_load_f32(input0, v22).at(HERE, 0x82)?;
                    let v24 = semantics::mul_i64(v6, input4);
                    let v25 = support::buffer_load_f32(&buffer_13, v24).at(HERE, 0x91)?;
                    let v26 = semantics::add_f32(v25, v23);
                    support::buffer_store_f32(&buffer_13, v24, v26).at(HERE, 0xa1)?;
                    let v27 = semantics::add_i64(v8, 1);
                    v8 = v27;
                }
                let v21 = semantics::add_i64(v6, 1);
                v6 = v21;
            }
