use super::*;

#[test]
fn a_private_map_of_a_file_larger_than_memory_reserves_nothing() {
    let memory: u64 = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| text.lines().next()?.split_whitespace().nth(1)?.parse().ok())
        .unwrap_or(1 << 24);
    let length = (4 * memory * 1024).next_multiple_of(PAGE);
    let file = tempfile::tempfile().unwrap();
    // Without a block of it on the disk.
    file.set_len(length).unwrap();
    let map = MapMut::private(&file, length).unwrap();
    let last = (length / 8 - 1) as usize;
    map.set_word(last, 7);
    assert_eq!((map.word(last), map.word(0)), (7, 0));
    let mut bytes = [1; 8];
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, length - 8).unwrap();
    assert_eq!(bytes, [0; 8], "the file was changed");
}

#[cfg(target_os = "linux")]
#[test]
fn what_a_store_would_be_killed_for_a_reservation_refuses() {
    let file = tempfile::tempfile().unwrap();
    file.set_len(2 * PAGE).unwrap();
    let map = MapMut::shared(&file, 0, 2 * PAGE).unwrap();
    map.reserve(8..PAGE_BYTES + 8).unwrap();
    // A page without a place in the file stands for one without room on the disk: a store raises SIGBUS in both.
    file.set_len(PAGE).unwrap();
    map.reserve(0..8).unwrap();
    let refused = map.reserve(PAGE_BYTES..PAGE_BYTES + 8).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
}

#[test]
fn regions_lie_within_their_map() {
    let map = || MapMut::anonymous(4 * REGION).unwrap();
    let two = RegionsMut::new(map(), 2 * REGION, 2).unwrap();
    two.region(RegionId(1)).unwrap().set_word(REGION_WORDS - 1, 7);
    assert_eq!(two.map().word(4 * REGION_WORDS - 1), 7);
    assert!(two.region(RegionId(2)).is_none());
    let outside =
        [(2 * REGION, 3), (2 * REGION + PAGE, 2), (5 * REGION, 0), (0, 1 << 48), (u64::MAX - PAGE + 1, 1)];
    for (data, count) in outside.into_iter().chain([(PAGE / 2, 1)]) {
        let refused = RegionsMut::new(map(), data, count).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput, "{count} from {data} on");
    }
}

/// A file of so many words, each of them 2, as memory that can be written to and as the map of a filter.
#[cfg(target_os = "linux")]
fn full_of_twos() -> (MapMut, Map, usize) {
    use crate::cuckoo::{Shard, SlotsPerBucket};
    let geometry = Geometry::new(SlotsPerBucket::Four, 3, 0, Shard::WHOLE).unwrap();
    let file = tempfile::tempfile().unwrap();
    file.set_len(geometry.file_length()).unwrap();
    let memory = MapMut::shared(&file, 0, geometry.file_length()).unwrap();
    let words = (geometry.file_length() / 8) as usize;
    (0..words).for_each(|index| memory.set_word(index, 2));
    (memory, Map::shared(&file, geometry).unwrap(), words)
}

#[cfg(target_os = "linux")]
#[test]
fn a_released_map_reads_as_zeros_under_an_odd_epoch() {
    let (memory, map, words) = full_of_twos();
    assert!((0..words).all(|index| map.word(index) == 2));
    let buckets = map.region(RegionId(2)).unwrap();
    map.release();
    let epoch = ((LIVE + LIVE_EPOCH) / 8) as usize;
    assert_eq!(map.live_head().word((LIVE_EPOCH / 8) as usize), u64::MAX);
    assert!((0..words).filter(|index| *index != epoch).all(|index| map.word(index) == 0));
    assert_eq!(buckets.word(7), 0);
    assert!((0..words).all(|index| memory.word(index) == 2), "the file is as it was");
    map.release();
    assert_eq!(map.word(epoch), u64::MAX);
}

/// A lookup reads buckets and then the epoch, so the epoch must be odd before the first word of a bucket is 0.
#[cfg(target_os = "linux")]
#[test]
fn no_word_is_given_up_before_the_epoch_is_odd() {
    let (_, map, words) = full_of_twos();
    let epoch = ((LIVE + LIVE_EPOCH) / 8) as usize;
    let given_up = std::cell::RefCell::new(Vec::new());
    map.try_release(|| {
        let zeros = (0..words).filter(|index| map.word(*index) == 0).count();
        assert!(
            zeros == 0 || map.word(epoch) % 2 == 1,
            "{zeros} words are 0, and the epoch is {}",
            map.word(epoch)
        );
        given_up.borrow_mut().push(zeros);
    })
    .unwrap();
    // The head, what is before it, and what is behind it.
    assert_eq!(given_up.borrow().len(), 3);
    assert!(given_up.borrow().is_sorted_by(|before, after| before < after), "{given_up:?}");
}
