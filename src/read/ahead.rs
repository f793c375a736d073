//! Verification ahead of many lookups, in the order of the pages.
//!
//! Where a batch will touch nearly every page, reading them in order is cheaper than verifying each where the first key
//! meets it: the processor, and the disk below it, read ahead.

use super::view::View;
use crate::format::PageId;
use crate::system::on_threads;

impl View {
    /// Verifies the pages if lookups of so many keys would do so one by one anyway. A page that does not match its checksum
    /// is left to them: it may be damaged, or written to just now.
    ///
    /// This is done once after a file was opened, on two threads at least: one alone does not read as fast as memory gives.
    pub(super) fn verify_ahead(&self, keys: usize, threads: usize) {
        let pages = self.superblock.identity.geometry.pages();
        let contents = self.contents();
        // Once most pages were verified, those that are left may be damaged. It is not tried again for them.
        let left = contents.unverified();
        if left <= pages / 2 || (keys as u64) < left || contents.paging.larger_than_memory {
            return;
        }
        let part = pages.div_ceil(threads.max(2) as u64).max(1);
        let parts = (0..pages).step_by(part as usize).map(|from| from..pages.min(from + part)).collect();
        on_threads(parts, |part: std::ops::Range<u64>| {
            for id in part.map(PageId) {
                contents.prefetch_page(PageId(id.0 + 1));
                let _ = contents.verify(id);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::PAGE;
    use crate::options::Options;
    use crate::system::Files;
    use std::os::unix::fs::FileExt;

    #[test]
    fn all_pages_are_verified_for_many_keys_and_none_for_few_and_damage_is_left_to_lookups() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let mut writer = Options::new().capacity(500_000).open(&path).unwrap();
        writer.commit().unwrap();
        writer.close().unwrap();
        let view = || View::open(&Files::new(&path).unwrap(), &Options::new()).unwrap();
        let geometry = view().superblock.identity.geometry;
        let pages = geometry.pages();
        for threads in 1..=5 {
            let view = view();
            view.verify_ahead(pages as usize - 1, threads);
            assert_eq!(view.contents().unverified(), pages);
            view.verify_ahead(pages as usize, threads);
            assert_eq!(view.contents().unverified(), 0);
        }
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.write_all_at(b"damage", geometry.data() + 7 * PAGE).unwrap();
        let view = view();
        view.verify_ahead(pages as usize, 2);
        assert_eq!(view.contents().unverified(), 1);
        assert!(!view.contents().is_intact(PageId(7)));
    }
}
