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
        fn run<const LANES: usize>(
            self,
            _: impl support::IntegerProducts,
        ) -> Result<()> {
            let Body(stack, input0, input1, input2, input3, input4) = self;
            const HERE: Here = Here::new(&MODULE, 0);
            let buffer_16 = support::accumulator!(stack, 4096, 16).at(HERE, 0x2c)?;
            let mut v6: i64 = 0;
            'run0: {
                'nest0: {
                    let Some(count0) = support::trip_count::<
                        i64,
                    >(0, 1, support::Relation::Less, input2) else {
                        break 'nest0;
                    };
                    let count1: usize = 2;
                    let Some(count2) = support::trip_count::<
                        i64,
                    >(0, 1, support::Relation::Less, input3) else {
                        break 'nest0;
                    };
                    if !support::contract!(
                        MulAddF32, (buffer_16, 0, of_zeros), one, (input0, 0), [(count0,
                        input4, 0, input3.wrapping_mul(2)), (count1, 1, 0, input3),
                        (count2, 0, 0, 1)]
                    ) {
                        break 'nest0;
                    }
                    support::settle_memory();
                    v6 = count0 as i64;
                    break 'run0;
                }
                support::buffer_clear(&buffer_16).at(HERE, 0x43)?
            }
            while semantics::cmp_lt_i64_s(v6, input2) != 0 {
                let mut v9: i64 = 0;
                while semantics::cmp_lt_i64_s(v9, 2) != 0 {
                    let mut v10: i64 = 0;
                    while semantics::cmp_lt_i64_s(v10, input3) != 0 {
                        let v30 = semantics::fma_i64(v6, 2, v9);
                        let v31 = semantics::fma_i64(v30, input3, v10);
                        let v32 = support::buffer_load_f32(input0, v31).at(HERE, 0xbd)?;
                        let v33 = semantics::fma_i64(v6, input4, v9);
                        let v34 = support::buffer_load_f32(&buffer_16, v33)
                            .at(HERE, 0xce)?;
                        let v35 = semantics::add_f32(v34, v32);
                        support::buffer_store_f32(&buffer_16, v33, v35).at(HERE, 0xde)?;
                        let v36 = semantics::add_i64(v10, 1);
                        v10 = v36;
                    }
                    let v29 = semantics::add_i64(v9, 1);
                    v9 = v29;
                }
                let v27 = semantics::add_i64(v6, 1);
                v6 = v27;
            }
