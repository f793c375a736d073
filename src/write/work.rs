//! The files that a transaction works on, and its changes to them.

use super::pending::{BatchTarget, Pending};
use super::target::Target;
use crate::cuckoo::{KeyHasher, Kind, Span};
use crate::file::{Overlay, PublishedFile, UnpublishedFile};
use crate::format::Identity;

/// The files that a transaction works on, and its changes to them.
#[derive(Debug)]
pub(super) enum Work {
    /// Changes to a published file, which does not change until the commit.
    Published(Box<PublishedFile>, Pending),
    /// Changes made directly in a file that the commit publishes; it replaces the published file, if any.
    Unpublished(Box<UnpublishedFile>, Option<Box<PublishedFile>>),
}

impl Work {
    #[inline]
    pub(super) fn target(&self) -> Target<'_, &Pending> {
        match self {
            Self::Published(published, pending) => Target::Published(published, pending),
            Self::Unpublished(file, _) => Target::Unpublished(file),
        }
    }

    #[inline]
    pub(super) fn target_mut(&mut self) -> Target<'_, &mut Pending> {
        match self {
            Self::Published(published, pending) => Target::Published(published, pending),
            Self::Unpublished(file, _) => Target::Unpublished(file),
        }
    }

    /// All contents, to be read region by region.
    pub(super) fn source(&self) -> Target<'_, &Overlay> {
        match self {
            Self::Published(published, pending) => match pending.copy() {
                Some(shadow) => Target::Copied(published, shadow),
                None => Target::Published(published, pending.overlay()),
            },
            Self::Unpublished(file, _) => Target::Unpublished(file),
        }
    }

    /// The target for many changes.
    pub(super) fn target_for_batch(&mut self) -> Target<'_, &mut Overlay> {
        match self {
            Self::Published(published, pending) => match pending.for_batch(published) {
                BatchTarget::Overlay(overlay) => Target::Published(published, overlay),
                BatchTarget::Shadow(shadow) => Target::Copied(published, shadow),
            },
            Self::Unpublished(file, _) => Target::Unpublished(file),
        }
    }

    /// The identity of the file that is being changed.
    #[inline]
    pub(super) fn identity(&self) -> &Identity {
        self.target().identity()
    }

    /// Like [`Pending::exceeds_memory`]. False for an unpublished file: it lies in its map, is short, or was allowed.
    pub(super) fn exceeds_memory(&self) -> bool {
        match self {
            Self::Published(published, pending) => pending.exceeds_memory(published),
            Self::Unpublished(..) => false,
        }
    }

    /// The published file; `None` before the first commit.
    pub(super) fn published(&self) -> Option<&PublishedFile> {
        match self {
            Self::Published(published, _) => Some(published),
            Self::Unpublished(_, old) => old.as_deref(),
        }
    }
}

/// The facts about the changed file that single inserts and removals need, in one place. Collecting them from the file
/// took thirty instructions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traits {
    pub(super) hasher: KeyHasher,
    pub(super) span: Span,
    pub(super) kind: Kind,
}

impl Traits {
    pub(super) const fn of(identity: &Identity) -> Self {
        let Identity { hasher, geometry, kind, .. } = *identity;
        Self { hasher, span: geometry.span(), kind }
    }
}
