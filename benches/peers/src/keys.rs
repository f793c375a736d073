//! The keys of all measurements: the numbers from 0 on, mixed, as 8 bytes each.

pub type Key = [u8; 8];

/// Key number `number`: SplitMix64's output function, a bijection, so that no two are equal.
pub fn key(number: u64) -> Key {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ z >> 31).to_le_bytes()
}

pub fn keys(numbers: impl IntoIterator<Item = u64>) -> Vec<Key> {
    numbers.into_iter().map(key).collect()
}

/// `count` keys drawn from those below `below`, in no order.
pub fn sample(below: u64, count: usize) -> Vec<Key> {
    let draw = |number| u64::from_le_bytes(key(u64::MAX - number)) % below;
    keys((0..count as u64).map(draw))
}

/// `count` keys that no filter of this benchmark has.
pub fn absent(count: usize) -> Vec<Key> {
    keys((1 << 60)..(1 << 60) + count as u64)
}
