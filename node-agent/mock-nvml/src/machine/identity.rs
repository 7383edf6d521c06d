//! UUIDs and serial numbers: made from a seed, so that the same machine has the same ones every time.

/// FNV-1a over all parts, mixed so that near inputs give far outputs.
pub(super) fn hash(parts: &[&[u8]]) -> u64 {
    let fnv = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let mut hash = parts.iter().copied().flatten().fold(0xcbf2_9ce4_8422_2325, fnv);
    // The finaliser of SplitMix64.
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// A UUID as NVML writes them: `GPU-` or `MIG-`, then five groups.
pub(super) fn uuid(kind: &str, seed: u64, what: &[u64]) -> String {
    let [high, low] = [1_u64, 2].map(|half| part(kind, seed, half, what));
    // The version and the variant of a random UUID.
    let high = (high & !0xf000) | 0x4000;
    let low = (low & !(0b11 << 62)) | (0b10 << 62);
    format!(
        "{kind}-{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}

/// A serial number of thirteen digits.
pub(super) fn serial(seed: u64, index: u64) -> String {
    format!("{:013}", part("serial", seed, 0, &[index]) % 10_000_000_000_000)
}

fn part(kind: &str, seed: u64, half: u64, what: &[u64]) -> u64 {
    let numbers: Vec<u8> = [seed, half].iter().chain(what).flat_map(|number| number.to_le_bytes()).collect();
    hash(&[kind.as_bytes(), &numbers])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_the_same_for_the_same_and_another_for_anything_else() {
        let first = uuid("GPU", 1, &[0, 0]);
        assert_eq!(first, uuid("GPU", 1, &[0, 0]));
        assert_eq!(first.len(), "GPU-".len() + 36);
        for other in [uuid("GPU", 2, &[0, 0]), uuid("GPU", 1, &[0, 1]), uuid("MIG", 1, &[0, 0])] {
            assert_ne!(first[4..], other[4..]);
        }
    }
}
