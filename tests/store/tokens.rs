//! Invariants checked, for commits with tokens:
//!
//! 1. A token below the last one of its application is an error with the remedy, in every way to commit; it changes
//!    nothing and leaves no file.
//! 2. The same token again is `Already`, and changes nothing.

use gowk::ErrorKind;
use gowk::store::{Change, Committed, Error, Token};
use gowk::{Batches, Lookup};

use crate::{files_of, keys, options, quiet, store, update};

#[test]
fn a_token_below_the_last_one_is_refused_and_the_last_one_is_already_done() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir, 4, &options());
    let token = |number| Some(Token::new("crawl", number));
    update(&store, &keys(0..10)).commit("insert", token(118)).unwrap();
    let files = files_of(&store);
    let outcomes = [
        update(&store, &keys(10..20)).commit("insert", token(117)).map(drop),
        update(&store, &keys(10..20)).commit_rebased("insert", token(117), &quiet).map(drop),
        update(&store, &[]).commit("insert", token(117)).map(drop),
        store
            .commit(&Change {
                base: 2,
                operation: "insert".to_owned(),
                token: token(117),
                sealed: Vec::new(),
            })
            .map(drop),
    ];
    for outcome in outcomes {
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let text = error.to_string();
        assert!(
            text.contains("`crawl` is 118, above 117") && text.contains("take a number above 118"),
            "{text}"
        );
        assert!(matches!(error, Error::TokenBelow { number: 117, last: 118, .. }));
    }
    let mut again = store.update_of(store.before("crawl", 118).unwrap());
    assert_eq!(again.insert_batch(&keys(0..10)).unwrap().complete().unwrap(), 10);
    assert!(matches!(again.commit("insert", token(118)), Ok(Committed::Already(done)) if done.version == 2));
    // Another application has its own numbers.
    let other = update(&store, &keys(10..20)).commit("insert", Some(Token::new("other", 1))).unwrap();
    assert!(matches!(other, Committed::New(_)));
    assert!(store.read().unwrap().contains_batch(&keys(0..20)).unwrap().iter().all(|found| *found));
    assert_eq!(files_of(&store).len(), files.len() + 2, "a version and a run");
}
