incarnate::include_module!(digits = "/dev/null");

fn main() {}
