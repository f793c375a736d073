//! `INFO`: the figures for monitors.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use super::general::REDIS_VERSION;
use super::{is, shown};
use crate::server::{Counters, Server};
use crate::session::Arguments;

/// The requested sections; all without arguments.
pub(super) fn text(server: &Server, arguments: Arguments<'_>) -> String {
    let mut text = String::new();
    let wanted = |name: &str| {
        let all = ["all", "default", "everything"];
        let mut wanted = arguments.from(1);
        arguments.len() == 1 || wanted.any(|given| is(given, name) || all.iter().any(|all| is(given, all)))
    };
    for (name, section) in [
        ("Server", of_server(server)),
        ("Clients", of_clients(server)),
        ("Persistence", of_persistence(server)),
        ("Stats", of_stats(server)),
    ] {
        if wanted(name) {
            let _ = write!(text, "# {name}\r\n{section}\r\n");
        }
    }
    // Reads each open filter's description, so only on request.
    if wanted("Filters") {
        let _ = write!(text, "# Filters\r\n{}", of_filters(server));
    }
    text
}

fn of_server(server: &Server) -> String {
    format!(
        "redis_version:{REDIS_VERSION}\r\nredis_mode:standalone\r\ngowk_serve_version:{}\r\nprocess_id:{}\r\n\
         uptime_in_seconds:{}\r\nfolder:{}\r\n",
        env!("CARGO_PKG_VERSION"),
        std::process::id(),
        server.started.elapsed().as_secs(),
        server.folder.path().display(),
    )
}

fn of_clients(server: &Server) -> String {
    let Counters { clients, buffered, .. } = &server.counters;
    format!(
        "connected_clients:{}\r\nmaxclients:{}\r\nrequest_bytes_waiting:{}\r\n",
        clients.load(Ordering::Relaxed),
        server.settings.most_clients,
        buffered.load(Ordering::Relaxed),
    )
}

fn of_persistence(server: &Server) -> String {
    let ack = if server.folder.is_early() { "early" } else { "durable" };
    // Clients wait until a server has loaded its data.
    format!("loading:0\r\nack:{ack}\r\n")
}

fn of_stats(server: &Server) -> String {
    let Counters { connections, refused_connections, commands, errors, .. } = &server.counters;
    let number = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    format!(
        "total_connections_received:{}\r\nrejected_connections:{}\r\ntotal_commands_processed:{}\r\n\
         total_error_replies:{}\r\nfilters_open:{}\r\n",
        number(connections),
        number(refused_connections),
        number(commands),
        number(errors),
        server.folder.all_open().len(),
    )
}

/// One line for each open filter, as of its last commit.
fn of_filters(server: &Server) -> String {
    let mut text = String::new();
    for filter in server.folder.all_open() {
        // A colon would end the name.
        let name = shown(&filter.key).replace(':', "%3A");
        let _ = match filter.reader.info() {
            Ok(info) => write!(
                text,
                "filter_{name}:kind={},keys={},load={:.3},false_positive_rate={:.2e},bytes={},journal={},commit={},\
                 quarantined_buckets={},writing={}\r\n",
                info.kind,
                info.copies,
                info.load,
                info.expected_false_positive_rate,
                info.file_length,
                info.journal_length,
                info.commit,
                info.quarantined_buckets,
                u8::from(filter.open_writer().is_some()),
            ),
            Err(error) => {
                write!(text, "filter_{name}:error={}\r\n", error.to_string().replace(['\r', '\n'], " "))
            }
        };
    }
    text
}
