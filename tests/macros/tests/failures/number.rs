incarnate::include_module!(digits = 5);

fn main() {}
