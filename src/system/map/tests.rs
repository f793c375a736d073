use super::*;

#[test]
fn a_private_map_of_a_file_larger_than_memory_reserves_nothing() {
    let memory: u64 = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| text.lines().next()?.split_whitespace().nth(1)?.parse().ok())
        .unwrap_or(1 << 24);
    let length = (4 * memory * 1024).next_multiple_of(PAGE);
    let file = tempfile::tempfile().unwrap();
    // No block of the file is on the disk.
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
    // A page past the end of the file stands for a page without room on the disk: a store to either raises SIGBUS.
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

#[test]
fn regions_that_are_given_back_are_empty_and_others_stay() {
    let mut regions = RegionsMut::new(MapMut::anonymous(5 * REGION).unwrap(), REGION, 4).unwrap();
    let last = REGION_WORDS - 1;
    regions.map().set_words(0, &[7; 5 * REGION_WORDS]);
    regions.release(1..3);
    let found: Vec<_> = (0..4).map(|id| regions.region(RegionId(id)).unwrap().word(last)).collect();
    assert_eq!(found, [7, 0, 0, 7]);
    assert_eq!((regions.map().word(last), regions.map().word(5 * REGION_WORDS - 1)), (7, 7));
    // The range ends beyond the last region.
    regions.release(3..5);
    assert_eq!(regions.map().word(5 * REGION_WORDS - 1), 7);
}
