incarnate::include_module!(digits = "digits.vmfb", optimize);

fn main() {}
