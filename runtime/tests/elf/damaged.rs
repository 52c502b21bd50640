//! Damaged files cause errors, never panics, and never a write outside of the image (which safe code cannot do).

use super::*;

fn relocate(file: &[u8], machine: &Machine) -> Result<RelocatedImage> {
    RelocatedImage::new(file, machine, 0x5555_0000_0000, EXPORT_NAME)
}

#[test]
fn truncations() {
    for (name, file) in ARCHITECTURES {
        let machine = machine(name);
        // After the loaded bytes come only sections, which loading does not read.
        let class_64 = machine.class == Class::Elf64;
        let (table, size, offset, file_size, word) = if class_64 { (64, 56, 8, 32, 8) } else { (52, 32, 4, 16, 4) };
        let needed = (0..7)
            .map(|index| table + index * size)
            .filter(|&header| number(file, header, 4) == 1)
            .map(|header| (number(file, header + offset, word) + number(file, header + file_size, word)) as usize)
            .max()
            .unwrap();
        for length in (0..needed).step_by(7) {
            let error = relocate(&file[..length], machine).unwrap_err();
            let expected = [StatusCode::InvalidArgument, StatusCode::Incompatible];
            assert!(expected.contains(&error.code()), "{name} cut to {length}: {error}");
        }
        for length in (needed..file.len()).step_by(7) {
            let _ = relocate(&file[..length], machine);
        }
    }
}

#[test]
fn header_fields() {
    for (name, file) in ARCHITECTURES {
        let machine = machine(name);
        let class_64 = machine.class == Class::Elf64;
        // Magic, class, byte order, identification version, type, machine, version.
        for offset in [0, 1, 2, 3, 4, 5, 6, 16, 18, 20] {
            let mut changed = file.to_vec();
            changed[offset] ^= 0xFF;
            let error = relocate(&changed, machine).unwrap_err();
            let expected = [StatusCode::InvalidArgument, StatusCode::Incompatible];
            assert!(expected.contains(&error.code()), "{name} byte {offset}: {error}");
        }
        // Offset, entry size and number of the program headers.
        for offset in if class_64 { [0x20, 0x36, 0x38] } else { [0x1C, 0x2A, 0x2C] } {
            for value in [0, 1, 0xFE] {
                let mut changed = file.to_vec();
                changed[offset] = value;
                changed[offset + 1] = value;
                relocate(&changed, machine).unwrap_err();
            }
        }
    }
}

#[test]
fn writable_code_is_refused() {
    for (name, file) in ARCHITECTURES {
        let (table, size, flags) = if machine(name).class == Class::Elf64 { (64, 56, 4) } else { (52, 32, 24) };
        let mut changed = file.to_vec();
        let header = (0..7)
            .map(|index| table + index * size)
            .find(|&header| changed[header] == 1 && changed[header + flags] & 1 == 1)
            .unwrap();
        changed[header + flags] |= 2;
        assert_eq!(relocate(&changed, machine(name)).unwrap_err().code(), StatusCode::PermissionDenied, "{name}");
    }
}

/// A generator with the same sequence on every host.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// The number of mutations of each file, which the environment variable `MUTATIONS` overrides: `.ci/full fuzzing` makes more.
const MUTATIONS: usize = 1000;

#[test]
fn mutations() {
    let count = std::env::var("MUTATIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(MUTATIONS);
    let mut random = Random(0x1234_5678_9ABC_DEF1);
    let (mut accepted, mut refused) = (0, 0);
    for round in 0..count * ARCHITECTURES.len() {
        let (name, file) = ARCHITECTURES[round % ARCHITECTURES.len()];
        let mut changed = file.to_vec();
        for _ in 0..=random.next() % 3 {
            let offset = (random.next() % changed.len() as u64) as usize;
            // Extreme values find overflows that random ones miss.
            let value = match random.next() % 4 {
                0 => u64::MAX,
                1 => 1 << (random.next() % 64),
                2 => 0,
                _ => random.next(),
            };
            let width = 1 << (random.next() % 4);
            for (byte, value) in changed[offset..].iter_mut().zip(value.to_le_bytes()).take(width) {
                *byte = value;
            }
        }
        match relocate(&changed, machine(name)) {
            Ok(_) => accepted += 1,
            Err(_) => refused += 1,
        }
    }
    // Both outcomes occurred.
    assert!(accepted > count / 2 && refused > count / 2, "{accepted} accepted, {refused} refused");
}
