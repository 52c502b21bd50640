/// `@matvec`
pub fn matvec(
    stack: &mut Stack,
    input0: &Ref,
    input1: &Ref,
    input2: &Ref,
) -> Result<()> {
    const HERE: Here = Here::new(&MODULE, 0);
    stack.spend_fuel().at(HERE, 0x0)?;
    let mut v4: i64 = 0;
    'nest0: {
        let count0: usize = 7;
        let count1: usize = 16;
        if !support::contract!(
            MulAddF32, (input2, 0), (input0, 0), (input1, 0), [(count0, 1, 16, 0),
            (count1, 0, 1, 1)], stack.take_steps(count0.saturating_mul(count1
            .saturating_add(1)), 1)
        ) {
            break 'nest0;
        }
        support::settle_memory();
        v4 = count0 as i64;
    }
    {
        let mut fuel = stack.iterations();
        loop {
            fuel.spend().at(HERE, 0x30)?;
            let mut v5: i64 = 0;
            loop {
                fuel.spend().at(HERE, 0x39)?;
                let v11 = semantics::mul_i64(v4, 16);
                let v12 = semantics::add_i64(v11, v5);
                let v13 = support::buffer_load_f32(input0, v12).at(HERE, 0x47)?;
                let v14 = support::buffer_load_f32(input1, v5).at(HERE, 0x4f)?;
                let v15 = support::buffer_load_f32(input2, v4).at(HERE, 0x57)?;
                let v16 = semantics::mul_f32(v13, v14);
                let v17 = semantics::add_f32(v15, v16);
                support::buffer_store_f32(input2, v4, v17).at(HERE, 0x6f)?;
                let v18 = semantics::add_i64(v5, 1);
                if semantics::cmp_lt_i64_s(v18, 16) == 0 {
                    break;
                }
                v5 = v18;
            }
            let v20 = semantics::add_i64(v4, 1);
            if semantics::cmp_lt_i64_s(v20, 8) == 0 {
                break;
            }
            v4 = v20;
        }
    }
    Ok(())
}
