incarnate::include_module!(manifest = "Cargo.toml");

fn main() {}
