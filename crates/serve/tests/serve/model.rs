//! Invariants checked for connections, without a process:
//!
//! 1. Any bytes end in replies or a closed connection: no panic, no endless wait.
//! 2. Any sequence of commands, in pieces of any size, is answered like a model of sets and counted keys.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use clap::Parser;
use gowk_serve::options::Arguments;
use gowk_serve::server::Server;
use proptest::prelude::*;
use redis_protocol::resp2::decode::decode;
use redis_protocol::resp2::types::OwnedFrame;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::client::{folder, request};

/// All replies to these pieces. After the pieces the client closes its side.
fn answers(folder: &Path, pieces: &[&[u8]], arguments: &[&str]) -> Vec<u8> {
    let arguments = Arguments::parse_from(["gowk-serve", folder.to_str().unwrap()].iter().chain(arguments));
    let server = Arc::new(Server::new(folder, arguments.settings().unwrap()).unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, stream) = tokio::io::duplex(64);
        let (mut reading, mut writing) = tokio::io::split(client);
        let serving = tokio::spawn(server.serve(stream));
        let mut replies = Vec::new();
        let send = async {
            for piece in pieces {
                if writing.write_all(piece).await.is_err() {
                    break;
                }
            }
            let _ = writing.shutdown().await;
        };
        let (_, read) = tokio::join!(send, reading.read_to_end(&mut replies));
        read.unwrap();
        serving.await.unwrap();
        replies
    })
}

fn decoded(mut bytes: &[u8]) -> Vec<OwnedFrame> {
    let mut frames = Vec::new();
    while let Some((frame, length)) = decode(bytes).unwrap() {
        frames.push(frame);
        bytes = &bytes[length..];
    }
    assert!(bytes.is_empty(), "{bytes:?}");
    frames
}

/// Sets and counted keys, from the commands' point of view.
#[derive(Default)]
struct Model {
    sets: HashMap<u8, HashMap<u8, u32>>,
    counts: HashMap<u8, HashMap<u8, u32>>,
}

#[derive(Clone, Copy, Debug)]
enum Op {
    BloomAdd,
    BloomExists,
    BloomCard,
    CuckooAdd,
    CuckooAddNew,
    CuckooCount,
    CuckooDel,
    CuckooExists,
}

impl Op {
    const ALL: [Self; 8] = [
        Self::BloomAdd,
        Self::BloomExists,
        Self::BloomCard,
        Self::CuckooAdd,
        Self::CuckooAddNew,
        Self::CuckooCount,
        Self::CuckooDel,
        Self::CuckooExists,
    ];

    fn request(self, filter: u8, key: u8) -> Vec<u8> {
        let (name, letter) = match self {
            Self::BloomAdd => ("BF.ADD", 's'),
            Self::BloomExists => ("BF.EXISTS", 's'),
            Self::BloomCard => return request(&["BF.CARD", &format!("s{filter}")]),
            Self::CuckooAdd => ("CF.ADD", 'c'),
            Self::CuckooAddNew => ("CF.ADDNX", 'c'),
            Self::CuckooCount => ("CF.COUNT", 'c'),
            Self::CuckooDel => ("CF.DEL", 'c'),
            Self::CuckooExists => ("CF.EXISTS", 'c'),
        };
        request(&[name, &format!("{letter}{filter}"), &format!("key {key}")])
    }

    /// `None` for an error.
    fn expected(self, model: &mut Model, filter: u8, key: u8) -> Option<i64> {
        let set = model.sets.get(&filter).map_or(0, HashMap::len);
        let counted =
            |model: &Model| model.counts.get(&filter).and_then(|keys| keys.get(&key)).copied().unwrap_or(0);
        let add = |model: &mut Model| {
            *model.counts.entry(filter).or_default().entry(key).or_default() += 1;
            1
        };
        Some(match self {
            Self::BloomAdd => i64::from(model.sets.entry(filter).or_default().insert(key, 1).is_none()),
            Self::BloomExists => {
                i64::from(model.sets.get(&filter).is_some_and(|keys| keys.contains_key(&key)))
            }
            Self::BloomCard => set as i64,
            Self::CuckooAdd => add(model),
            Self::CuckooAddNew if counted(model) > 0 => 0,
            Self::CuckooAddNew => add(model),
            Self::CuckooCount => counted(model).into(),
            Self::CuckooExists => i64::from(counted(model) > 0),
            Self::CuckooDel => {
                let keys = model.counts.get_mut(&filter)?;
                match keys.get_mut(&key).filter(|count| **count > 0) {
                    Some(count) => {
                        *count -= 1;
                        1
                    }
                    None => 0,
                }
            }
        })
    }
}

fn pieces<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let (mut pieces, mut rest) = (Vec::new(), bytes);
    for cut in cuts {
        let (piece, after) = rest.split_at((*cut).min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    pieces
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        std::env::var("GOWK_SERVE_CASES").map_or(24, |cases| cases.parse().unwrap())
    ))]

    #[test]
    fn any_sequence_of_commands_is_answered_as_the_model_answers(
        ops in prop::collection::vec((prop::sample::select(&Op::ALL[..]), 0_u8..3, 0_u8..6), 1..60),
        cuts in prop::collection::vec(1_usize..200, 0..10),
        early in any::<bool>(),
    ) {
        let (_dir, folder) = folder();
        let bytes: Vec<u8> = ops.iter().flat_map(|(op, filter, key)| op.request(*filter, *key)).collect();
        let arguments: &[&str] = if early { &["--ack", "early"] } else { &[] };
        let replies = decoded(&answers(&folder, &pieces(&bytes, &cuts), arguments));
        prop_assert_eq!(replies.len(), ops.len());
        let mut model = Model::default();
        for ((op, filter, key), reply) in ops.into_iter().zip(replies) {
            match op.expected(&mut model, filter, key) {
                Some(expected) => prop_assert_eq!(reply, OwnedFrame::Integer(expected), "{:?}", op),
                None => prop_assert!(matches!(reply, OwnedFrame::Error(_)), "{:?}", reply),
            }
        }
    }

    #[test]
    fn any_bytes_end_in_replies_or_a_closed_connection(
        parts in prop::collection::vec(prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40),
            prop::sample::select(vec![
                "*3\r\n", "$6\r\nBF.ADD\r\n", "$1\r\na\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n", "PING\r\n", "$3\r\nab",
                "*1\r\n$5\r\nMULTI\r\n", "*1\r\n$4\r\nEXEC\r\n", "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n", "*1\r\n$4\r\nINFO\r\n",
                "*2\r\n$4\r\nSCAN\r\n$1\r\n0\r\n", "\r\n", "*1\r\n$7\r\nCOMMAND\r\n", "*99999999\r\n", "$99999999\r\n",
            ]).prop_map(|text| text.as_bytes().to_vec()),
        ], 0..30),
        cuts in prop::collection::vec(1_usize..50, 0..10),
    ) {
        let (_dir, folder) = folder();
        let bytes = parts.concat();
        answers(&folder, &pieces(&bytes, &cuts), &[]);
    }
}
