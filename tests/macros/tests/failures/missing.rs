incarnate::include_module!(digits = "no_such_folder/digits.vmfb");

fn main() {}
