//! Checked little-endian reads from bytes of any alignment.

/// The `N` bytes at a position, if they are all there.
#[inline]
pub(crate) fn array_at<const N: usize>(bytes: &[u8], position: usize) -> Option<[u8; N]> {
    bytes.get(position..)?.first_chunk::<N>().copied()
}

/// The 16-bit number at a position.
#[inline]
pub(crate) fn u16_at(bytes: &[u8], position: usize) -> Option<u16> {
    array_at(bytes, position).map(u16::from_le_bytes)
}

/// The 32-bit number at a position.
#[inline]
pub(crate) fn u32_at(bytes: &[u8], position: usize) -> Option<u32> {
    array_at(bytes, position).map(u32::from_le_bytes)
}
