//! The test.
#![no_std]
#![no_main]

#[cfg_attr(target_arch = "arm", cortex_m_rt::entry)]
#[cfg_attr(target_arch = "riscv32", riscv_rt::entry)]
fn main() -> ! {
    bare_metal::exit(Ok::<(), &str>(()))
}
