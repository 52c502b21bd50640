fn main() {
    incarnate_differential::batch::compare(&[], || unreachable!("no program calls the library"));
}
