incarnate::include_module!(digits);

fn main() {}
