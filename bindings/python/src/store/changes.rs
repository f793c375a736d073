//! Begins updates, and commits what they have made.

use std::path::PathBuf;

use gowk::store::{Change, Token};
use pyo3::prelude::*;

use super::opened::Base;
use super::{Store, Update, described, sealed};
use crate::failure;

/// An application, a number, and perhaps a state.
#[derive(Clone, FromPyObject)]
pub(super) enum Marked {
    Number(String, u64),
    State(String, u64, String),
}

impl Marked {
    fn token(self) -> Token {
        match self {
            Self::Number(application, number) => Token::new(application, number),
            Self::State(application, number, state) => Token { application, number, state },
        }
    }
}

impl Store {
    /// Begins an update. `afterwards` says what a caller can do with the keys taken before an exception.
    pub(super) fn begun(
        slf: Bound<'_, Self>,
        base: Option<Base<'_>>,
        token: Option<Marked>,
        operation: &str,
        scratch: Option<PathBuf>,
        rewriting: bool,
        afterwards: &'static str,
    ) -> PyResult<Update> {
        let py = slf.py();
        let own = slf.get();
        let token = token.map(Marked::token);
        let opened = own.opened(py)?;
        let store = opened.reader.store();
        let base = match (own.base(py, base)?, &token) {
            (Some(base), _) => base,
            (None, Some(Token { application, number, .. })) => {
                failure::done(py, py.detach(|| store.before(application, *number)))?
            }
            (None, None) => failure::done(py, py.detach(|| store.newest()))?,
        };
        let update = store.update_of(base);
        let update = if rewriting { update.rewriting() } else { update };
        let update = match scratch {
            Some(folder) => update.scratch(std::path::absolute(folder)?),
            None => update,
        };
        Ok(Update::new(slf, update, operation.to_owned(), token, afterwards))
    }

    /// Commits sealed files.
    pub(super) fn committed<'py>(
        &self,
        sealed: &Bound<'py, PyAny>,
        base: Option<Base<'_>>,
        token: Option<Marked>,
        operation: &str,
        folds: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = sealed.py();
        let sealed = sealed::all(sealed)?;
        let token = token.map(Marked::token);
        let application = token.as_ref().map(|token| token.application.clone());
        let opened = self.opened(py)?;
        let store = opened.reader.store().clone().folding(folds);
        let base = match (base, sealed.first(), &token) {
            (Some(Base::Number(number)), _, _) => number,
            (Some(base), _, _) => self.base(py, Some(base))?.map_or(0, |version| version.number),
            (None, Some(first), _) => first.base(),
            (None, None, Some(Token { application, number, .. })) => {
                failure::done(py, py.detach(|| store.before(application, *number)))?.number
            }
            (None, None, None) => return described::commit(py, &gowk::store::Committed::Unchanged, None, 0),
        };
        let change = Change { base, operation: operation.to_owned(), token, sealed };
        let outcome = failure::done(py, py.detach(|| store.commit(&change)))?;
        // The commit is done. If moving to its version fails, the next reload raises the error.
        let _ = self.moved(py);
        described::commit(py, &outcome, application.as_deref(), 0)
    }
}
