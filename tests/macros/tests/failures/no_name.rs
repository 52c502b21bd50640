incarnate::include_module!(digits: "digits.vmfb");

fn main() {}
