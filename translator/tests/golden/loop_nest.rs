/// `@matvec`
///
/// # Errors
/// The errors of the function.
#[inline]
pub fn matvec(&self, input0: Ref, input1: Ref, input2: Ref) -> Result<()> {
    let instance = &self.instance;
    instance.finish(0, translated::matvec(&input0, &input1, &input2))
}
