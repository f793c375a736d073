//! The rights of a file: its mode, owner, group and access control list. New files beside a filter, or in its place,
//! get the filter's rights.
//!
//! Only a file that this process has just created gets them: another file may have been put under a name that gowk uses,
//! and would be given away.
//!
//! The rule: set as much as the system allows, and never give anybody a new right. A process that is not root cannot give
//! a file to another owner. If the group cannot be preserved, the new group gets no more rights than all others have:
//! mode 664 becomes 644. If the access control list cannot be preserved, the group gets the rights that the list gave to
//! the group itself. (The group's bits of the old mode would be too much: with a list, they show its mask.)

use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;

use super::disk::Disk;

/// The rights of one file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Rights {
    mode: u32,
    uid: u32,
    gid: u32,
    /// The access control list, as the system encodes it; `None` if the file has only a mode.
    acl: Option<Acl>,
}

impl Rights {
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        Ok(Self::new(&file.metadata()?, acl::get(file)))
    }

    fn new(metadata: &Metadata, acl: Option<Acl>) -> Self {
        let mode = metadata.permissions().mode() & 0o777;
        Self { mode, uid: metadata.uid(), gid: metadata.gid(), acl }
    }

    /// Applies the rights to a new file, which only its creator can use until then.
    fn give(&self, file: &File) -> io::Result<()> {
        let own = file.metadata()?;
        if (own.uid(), own.gid()) != (self.uid, self.gid)
            && fchown(file, Some(self.uid), Some(self.gid)).is_err()
        {
            // A process that belongs to the group can set the group, even if it cannot set the owner. `for_group` handles
            // other processes.
            let _ = fchown(file, None, Some(self.gid));
        }
        let (mode, acl) = self.for_group(file.metadata()?.gid());
        let mode = match acl {
            Some(acl) if acl::set(file, &acl).is_ok() => return Ok(()),
            Some(acl) => mode & !0o070 | acl.group() << 3,
            None => {
                // The folder's default may have given the file a list.
                acl::remove(file);
                mode
            }
        };
        // The mode is set last, as a change of owner clears some of its bits.
        file.set_permissions(Permissions::from_mode(mode))
    }

    /// Mode and list for a file with this group.
    fn for_group(&self, gid: u32) -> (u32, Option<Acl>) {
        if gid == self.gid {
            return (self.mode, self.acl.clone());
        }
        let others = self.mode & 0o007;
        (self.mode & !0o070 | self.mode & others << 3, self.acl.clone().map(|acl| acl.with_group(others)))
    }
}

/// Creates a file with the rights of `model`; without a model, the process's umask decides.
pub(crate) fn create(disk: &dyn Disk, path: &Path, model: Option<&Rights>) -> io::Result<File> {
    let Some(model) = model else { return disk.create(path, 0o666) };
    let file = disk.create(path, 0o600)?;
    model.give(&file)?;
    Ok(file)
}

/// A POSIX access control list as Linux stores it in `system.posix_acl_access`: a version of 4 bytes, then 8 bytes for
/// each entry: its kind, its rights, and whom it is for.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Acl(Vec<u8>);

const ACL_HEADER: usize = 4;
const ACL_ENTRY: usize = 8;
const ACL_GROUP_OBJ: u8 = 0x04;
const ACL_MASK: u8 = 0x10;

impl Acl {
    fn rights_of(&self, kind: u8) -> Option<u32> {
        let entries = self.0.get(ACL_HEADER..)?.chunks_exact(ACL_ENTRY);
        let mut rights = entries.filter_map(|entry| match *entry {
            [found, 0, rights, ..] if found == kind => Some(u32::from(rights) & 7),
            _ => None,
        });
        rights.next()
    }

    /// The rights of the file's group itself, limited by the mask.
    fn group(&self) -> u32 {
        self.rights_of(ACL_GROUP_OBJ).unwrap_or(0) & self.rights_of(ACL_MASK).unwrap_or(7)
    }

    /// The same list, with the rights of the group itself limited to `most`.
    fn with_group(mut self, most: u32) -> Self {
        let entries = self.0.get_mut(ACL_HEADER..).unwrap_or_default();
        for entry in entries.chunks_exact_mut(ACL_ENTRY) {
            if let [ACL_GROUP_OBJ, _, rights, ..] = entry {
                *rights &= most as u8;
            }
        }
        self
    }
}

#[cfg(target_os = "linux")]
mod acl {
    use std::fs::File;
    use std::io;

    use rustix::fs::{XattrFlags, fgetxattr, fgetxattr_query, fremovexattr, fsetxattr};

    use super::Acl;

    const NAME: &str = "system.posix_acl_access";

    pub(super) fn get(file: &File) -> Option<Acl> {
        let mut bytes = vec![0; fgetxattr_query(file, NAME).ok().filter(|length| *length > 0)?];
        let length = fgetxattr(file, NAME, &mut bytes[..]).ok()?;
        bytes.truncate(length);
        Some(Acl(bytes))
    }

    pub(super) fn set(file: &File, acl: &Acl) -> io::Result<()> {
        Ok(fsetxattr(file, NAME, &acl.0, XattrFlags::empty())?)
    }

    pub(super) fn remove(file: &File) {
        // This fails if the file has no list.
        let _ = fremovexattr(file, NAME);
    }
}

#[cfg(not(target_os = "linux"))]
mod acl {
    use std::fs::File;
    use std::io;

    use super::Acl;

    pub(super) fn get(_: &File) -> Option<Acl> {
        None
    }

    pub(super) fn set(_: &File, _: &Acl) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn remove(_: &File) {}
}

#[cfg(test)]
mod tests;
