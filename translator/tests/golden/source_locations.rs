/// `@fail`
///
/// # Errors
/// The errors of the function.
#[inline]
pub fn fail(&self, input0: i32) -> Result<()> {
    let instance = &self.instance;
    instance.finish(0, translated::fail(input0))
}

/// `@load`
///
/// # Errors
/// The errors of the function.
#[inline]
pub fn load_2(&self, input0: i64) -> Result<i32> {
    let instance = &self.instance;
    let state = instance.state();
    instance.finish(1, translated::load(state, input0))
}

/// `@store_to_constant`
///
/// # Errors
/// The errors of the function.
#[inline]
pub fn store_to_constant(&self, input0: i64) -> Result<()> {
    let instance = &self.instance;
    let state = instance.state();
    instance.finish(2, translated::store_to_constant(state, input0))
}

/// `@load_null`
///
/// # Errors
/// The errors of the function.
#[inline]
pub fn load_null(&self, input0: i64) -> Result<i32> {
    let instance = &self.instance;
    instance.finish(3, translated::load_null(input0))
}

/// `@list_element`
///
/// # Errors
/// The errors of the function.
pub fn list_element(&self, input0: i32, input1: i32) -> Result<i32> {
    let instance = &self.instance;
    instance.call(4, |_state, stack| translated::list_element(stack, input0, input1))
}
