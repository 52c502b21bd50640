/// `@fail`
pub fn fail(input0: i32) -> Result<()> {
    const HERE: Here = Here::new(&MODULE, 0);
    if input0 != 0 {
        support::fail(input0, "as told").at(HERE, 0x15)?;
        return Err(support::fell_through()).at(HERE, 0x15);
    }
    Ok(())
}

/// `@load`
pub fn load(state: &State, input0: i64) -> Result<i32> {
    const HERE: Here = Here::new(&MODULE, 1);
    let constant_2 = state.rodata(0);
    let v3 = support::buffer_load_i8_u(constant_2, input0).at(HERE, 0x8)?;
    Ok(v3)
}

/// `@store_to_constant`
pub fn store_to_constant(state: &State, input0: i64) -> Result<()> {
    const HERE: Here = Here::new(&MODULE, 2);
    let constant_3 = state.rodata(0);
    support::buffer_store_i8(constant_3, input0, 0).at(HERE, 0xb)?;
    Ok(())
}

/// `@load_null`
pub fn load_null(input0: i64) -> Result<i32> {
    const HERE: Here = Here::new(&MODULE, 3);
    let v2 = support::buffer_load_i8_u(&Ref::Null, input0).at(HERE, 0x4)?;
    Ok(v2)
}

/// `@list_element`
pub fn list_element(stack: &mut Stack, input0: i32, input1: i32) -> Result<i32> {
    const HERE: Here = Here::new(&MODULE, 4);
    // model.mlir:36:13
    let list_4 = support::list_alloc(stack, ValueType::I32, input0).at(HERE, 0x8)?;
    // model.mlir:37:5
    support::list_resize(stack, &list_4, input0).at(HERE, 0x11)?;
    // model.mlir:39:5
    support::list_set_i32(&list_4, input1, 7).at(HERE, 0x16)?;
    // model.mlir:40:16
    let element_5 = support::list_get_i32(&list_4, input1).at(HERE, 0x1d)?;
    drop(list_4);
    Ok(element_5)
}
