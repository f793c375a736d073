//! Random numbers from the operating system.

use std::path::Path;

use crate::error::{IoContext, Result};

/// A random number for a seed or a salt.
pub(crate) fn random(path: &Path) -> Result<u64> {
    getrandom::u64().map_err(std::io::Error::from).at(path, "get random numbers for")
}

/// A random uuid: version 4, variant 1, by RFC 9562, section 5.4.
pub(crate) fn new_uuid(path: &Path) -> Result<[u8; 16]> {
    let mut uuid = [0; 16];
    uuid[..8].copy_from_slice(&random(path)?.to_le_bytes());
    uuid[8..].copy_from_slice(&random(path)?.to_le_bytes());
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    Ok(uuid)
}
