//! Multiplies two tensors on a device, by the kernel that the module carries.

incarnate::include_module!(model = "../../../tests/models/simple_mul/llvm-cpu.vmfb");

fn main() -> incarnate::Result<()> {
    let model = model::Module::load(&incarnate::Device::create("local-sync")?)?;
    println!("{:?}", model.simple_mul([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0])?.to_vec()?);
    Ok(())
}
