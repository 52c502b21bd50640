//! The hash of `vm.buffer.hash`.

/// The state of SipHash-2-4 (Aumasson, Bernstein 2012).
pub(super) struct SipState([u64; 4]);

impl SipState {
    pub(super) fn new() -> SipState {
        const KEY: [u64; 2] = [0x0706_0504_0302_0100, 0x0F0E_0D0C_0B0A_0908];
        SipState([
            KEY[0] ^ 0x736F_6D65_7073_6575,
            KEY[1] ^ 0x646F_7261_6E64_6F6D,
            KEY[0] ^ 0x6C79_6765_6E65_7261,
            KEY[1] ^ 0x7465_6462_7974_6573,
        ])
    }

    fn round(&mut self) {
        let [a, b, c, d] = &mut self.0;
        *a = a.wrapping_add(*b);
        *b = b.rotate_left(13) ^ *a;
        *a = a.rotate_left(32);
        *c = c.wrapping_add(*d);
        *d = d.rotate_left(16) ^ *c;
        *a = a.wrapping_add(*d);
        *d = d.rotate_left(21) ^ *a;
        *c = c.wrapping_add(*b);
        *b = b.rotate_left(17) ^ *c;
        *c = c.rotate_left(32);
    }

    pub(super) fn absorb(&mut self, word: u64) {
        self.0[3] ^= word;
        self.round();
        self.round();
        self.0[0] ^= word;
    }

    pub(super) fn finish(mut self) -> u64 {
        self.0[2] ^= 0xFF;
        for _ in 0..4 {
            self.round();
        }
        self.0.iter().fold(0, |hash, word| hash ^ word)
    }
}
