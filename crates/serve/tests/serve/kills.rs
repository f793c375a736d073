//! Invariant checked: whenever the server is killed under load from several clients, every answered key is present
//! afterwards, and no change is half made. A counting filter has as many copies as were answered, plus at most one for
//! the unanswered request of each client.
//!
//! `GOWK_SERVE_KILLS` sets how often; 20 times by default.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gowk::{Lookup, Reader};

use crate::client::{Client, Reply, Server, folder, request};

const CLIENTS: u64 = 4;

/// One client's results: the answered keys, and how often it has added the shared key.
#[derive(Default)]
struct Done {
    keys: Vec<String>,
    copies: u64,
    /// Copies that were requested but not answered.
    uncertain: u64,
}

/// Adds keys one by one, in batches and in pipelines, until the server dies.
fn load(mut client: Client, name: &str, answered: &AtomicU64) -> Done {
    let mut done = Done::default();
    for round in 0.. {
        let key = |number: u32| format!("{name} {round} {number}");
        let many: Vec<String> = (0..10).map(key).collect();
        let mut batch = vec!["BF.MADD".to_owned(), "s".to_owned()];
        batch.extend_from_slice(&many);
        let mut bytes = request(&batch);
        bytes.extend(request(&["CF.ADD", "c", "shared"]));
        bytes.extend(request(&["BF.ADD", "s", &key(10)]));
        done.uncertain = 1;
        if std::io::Write::write_all(&mut client.stream, &bytes).is_err() {
            break;
        }
        let Some(answer) = client.next() else { break };
        assert!(matches!(&answer, Reply::Array(answers) if answers.len() == 10), "{answer:?}");
        done.keys.extend(many);
        let Some(answer) = client.next() else { break };
        assert_eq!(answer, Reply::Int(1));
        (done.copies, done.uncertain) = (done.copies + 1, 0);
        let Some(answer) = client.next() else { break };
        assert!(!answer.is_error(), "{answer:?}");
        done.keys.push(key(10));
        answered.fetch_add(1, Ordering::Relaxed);
    }
    done
}

#[test]
fn every_answered_key_is_there_after_a_kill() {
    let kills: u64 = std::env::var("GOWK_SERVE_KILLS").map_or(20, |kills| kills.parse().unwrap());
    println!("{kills} kills");
    let (_dir, folder) = folder();
    let (mut least, mut most, mut keys) = (0, 0, 0);
    for kill in 0..kills {
        let mut server = Server::start(&folder, &[]);
        let answered = AtomicU64::new(0);
        let done: Vec<Done> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|number| {
                    let (client, answered) = (server.client(), &answered);
                    scope.spawn(move || load(client, &format!("{kill} {number}"), answered))
                })
                .collect();
            // At a different moment each time: after some answers, and a short time that no answer ends.
            while answered.load(Ordering::Relaxed) < kill % 7 {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_micros(kill * 7919 % 5000));
            server.kill();
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        least += done.iter().map(|done| done.copies).sum::<u64>();
        most += done.iter().map(|done| done.copies + done.uncertain).sum::<u64>();
        if let Ok(reader) = Reader::open(folder.join("s.gowk")) {
            for key in done.iter().flat_map(|done| &done.keys) {
                assert!(reader.contains(key).unwrap(), "kill {kill}: {key}");
                keys += 1;
            }
        } else {
            assert!(done.iter().all(|done| done.keys.is_empty()), "kill {kill}");
        }
        let copies = Reader::open(folder.join("c.gowk")).map_or(0, |reader| reader.count("shared").unwrap());
        assert!(
            (least..=most).contains(&copies.into()) || least > 30_000,
            "kill {kill}: {least} {copies} {most}"
        );
        (least, most) = (copies.into(), copies.into());
    }
    println!("{keys} answered keys were there");
}
