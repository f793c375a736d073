use super::*;
use crate::system::disk::SystemDisk;

fn entry(kind: u8, rights: u8, id: u32) -> [u8; ACL_ENTRY] {
    let mut entry = [kind, 0, rights, 0, 0, 0, 0, 0];
    entry[4..].copy_from_slice(&id.to_le_bytes());
    entry
}

/// Rights: owner read and write, one user read and write, the group nothing, the mask read and write, others nothing.
fn list() -> Acl {
    const NOBODY: u32 = u32::MAX;
    let entries = [
        entry(0x01, 6, NOBODY),
        entry(0x02, 6, 12_345),
        entry(ACL_GROUP_OBJ, 0, NOBODY),
        entry(ACL_MASK, 6, NOBODY),
        entry(0x20, 0, NOBODY),
    ];
    Acl([2_u32.to_le_bytes().to_vec(), entries.concat()].concat())
}

fn mode(file: &File) -> u32 {
    file.metadata().unwrap().permissions().mode() & 0o777
}

#[test]
fn a_file_has_the_mode_of_its_model_whatever_the_umask() {
    let dir = tempfile::tempdir().unwrap();
    for wanted in [0o600, 0o640, 0o664, 0o666, 0o444] {
        let model = File::create(dir.path().join("model")).unwrap();
        model.set_permissions(Permissions::from_mode(wanted)).unwrap();
        let path = dir.path().join(format!("{wanted:o}"));
        let file = create(&SystemDisk, &path, Some(&Rights::of(&model).unwrap())).unwrap();
        assert_eq!(mode(&file), wanted);
        std::fs::remove_file(dir.path().join("model")).unwrap();
    }
}

#[test]
fn another_group_gets_no_more_than_all_others_have() {
    let rights = |mode, acl| Rights { mode, uid: 1, gid: 2, acl };
    assert_eq!(rights(0o664, None).for_group(2), (0o664, None));
    assert_eq!(rights(0o664, None).for_group(3), (0o644, None));
    assert_eq!(rights(0o660, None).for_group(3), (0o600, None));
    let (_, acl) = rights(0o660, Some(list().with_group(7))).for_group(3);
    assert_eq!(acl.unwrap().group(), 0);
}

#[test]
fn a_mask_is_not_taken_for_the_rights_of_the_group() {
    assert_eq!((list().group(), list().rights_of(ACL_MASK)), (0, Some(6)));
    let group_may_read =
        Acl(list().0.iter().enumerate().map(|(at, byte)| if at == 22 { 4 } else { *byte }).collect());
    assert_eq!(group_may_read.group(), 4);
    assert_eq!(group_may_read.with_group(0).group(), 0);
    for cut in 0..list().0.len() {
        // A file system may return any bytes.
        let _ = Acl(list().0[..cut].to_vec()).with_group(0).group();
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_list_is_kept_and_one_that_the_folder_would_give_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let model = File::create(dir.path().join("model")).unwrap();
    if acl::set(&model, &list()).is_err() {
        eprintln!("NOT SHOWN: this file system keeps no access control lists");
        return;
    }
    assert_eq!(mode(&model), 0o660, "the mask stands for the group");
    let copy = create(&SystemDisk, &dir.path().join("copy"), Some(&Rights::of(&model).unwrap())).unwrap();
    assert_eq!((acl::get(&copy), mode(&copy)), (Some(list()), 0o660));

    let folder = File::open(dir.path()).unwrap();
    let default = "system.posix_acl_default";
    rustix::fs::fsetxattr(&folder, default, &list().0, rustix::fs::XattrFlags::empty()).unwrap();
    let plain = File::create(dir.path().join("plain")).unwrap();
    acl::remove(&plain);
    plain.set_permissions(Permissions::from_mode(0o640)).unwrap();
    let copy = create(&SystemDisk, &dir.path().join("other"), Some(&Rights::of(&plain).unwrap())).unwrap();
    assert_eq!((acl::get(&copy), mode(&copy)), (None, 0o640));
}
