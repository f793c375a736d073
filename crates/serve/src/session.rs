//! One client: its settings, and the commands of its round.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::BytesMut;
use gowk::{KeyHash, Lookup, SharedWriter};

use crate::command::{self, Command};
use crate::failure;
use crate::filter::Filter;
use crate::reply::{Protocol, Reply};
use crate::request::Bounds;
use crate::server::Server;
use crate::steps::{Outcome, Step, Verb};

/// The arguments of a request, beginning with the command's name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arguments<'a> {
    bytes: &'a [u8],
    places: &'a [Range<usize>],
}

impl<'a> Arguments<'a> {
    pub(crate) fn new(bytes: &'a [u8], places: &'a [Range<usize>]) -> Self {
        Self { bytes, places }
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// The argument with this index; empty beyond the last one, which the check of their number excludes.
    pub(crate) fn at(&self, index: usize) -> &'a [u8] {
        self.places.get(index).and_then(|place| self.bytes.get(place.clone())).unwrap_or_default()
    }

    /// All arguments from this index on.
    pub(crate) fn from(self, index: usize) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone {
        (index.min(self.len())..self.len()).map(move |index| self.at(index))
    }
}

/// The form of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// The answer of `BF.ADD` and, for many keys, `BF.MADD`.
    Bloom { many: bool },
    /// The answer of `CF.ADD` and, for many keys, `CF.INSERT`; with `new`, of `CF.ADDNX` and `CF.INSERTNX`.
    Cuckoo { many: bool, new: bool },
    /// Whether a key is present, or was removed.
    Plain { many: bool },
}

/// Changes to one filter, which one commit makes durable.
struct Batch {
    filter: Arc<Filter>,
    writer: SharedWriter,
    steps: Vec<Step>,
    outcomes: Option<Result<Vec<Outcome>, Reply>>,
}

/// A reply of the round, or where to find it later.
enum Slot {
    Reply(Reply),
    Steps {
        batch: usize,
        steps: Range<usize>,
        form: Form,
    },
    /// This many of the following slots form one array.
    Array(usize),
    /// The following replies are in this protocol.
    Protocol(Protocol),
}

/// A request that waits for `EXEC`.
struct Queued {
    command: &'static Command,
    bytes: Vec<u8>,
    places: Vec<Range<usize>>,
}

/// The commands between `MULTI` and `EXEC`.
#[derive(Default)]
struct Transaction {
    queued: Vec<Queued>,
    bytes: usize,
    /// Whether a command was refused, so that `EXEC` must be refused.
    is_bad: bool,
}

/// The state of one client.
pub(crate) struct Session {
    pub server: Arc<Server>,
    pub id: u64,
    pub name: Vec<u8>,
    protocol: Protocol,
    /// The protocol of the first reply of the round.
    first_protocol: Protocol,
    pub authenticated: bool,
    over: bool,
    /// The filter of the last request.
    recent: Option<Arc<Filter>>,
    transaction: Option<Transaction>,
    slots: Vec<Slot>,
    batches: Vec<Batch>,
}

impl Session {
    pub(crate) fn new(server: Arc<Server>, id: u64) -> Self {
        let authenticated = server.settings.password.is_none();
        Self {
            server,
            id,
            name: Vec::new(),
            protocol: Protocol::default(),
            first_protocol: Protocol::default(),
            authenticated,
            over: false,
            recent: None,
            transaction: None,
            slots: Vec::new(),
            batches: Vec::new(),
        }
    }

    pub(crate) fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Sets the protocol of all replies from now on. The round's earlier replies keep theirs.
    pub(crate) fn set_protocol(&mut self, protocol: Protocol) {
        if protocol != self.protocol {
            self.slots.push(Slot::Protocol(protocol));
        }
        self.protocol = protocol;
    }

    /// The limits for requests. They are lower for a client that has not sent the password.
    pub(crate) fn bounds(&self) -> Bounds {
        if self.authenticated { self.server.settings.bounds } else { Bounds { bytes: 4096, arguments: 10 } }
    }

    /// Whether to close the connection.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    pub(crate) fn end(&mut self) {
        self.over = true;
    }

    /// Answers a request that cannot be read, and closes the connection.
    pub(crate) fn refuse(&mut self, reply: Reply) {
        self.slots.push(Slot::Reply(reply));
        self.end();
    }

    /// Executes one request. Its reply comes with the round's others.
    pub(crate) async fn execute(&mut self, arguments: Arguments<'_>) {
        self.server.counters.commands.fetch_add(1, Ordering::Relaxed);
        let first = self.slots.len();
        if let Err(refusal) = self.try_execute(arguments).await {
            self.slots.truncate(first);
            self.slots.push(Slot::Reply(refusal));
        }
    }

    async fn try_execute(&mut self, arguments: Arguments<'_>) -> Result<(), Reply> {
        let found = command::find(arguments);
        if let (Err(_), Some(transaction)) = (&found, &mut self.transaction) {
            transaction.is_bad = true;
        }
        let command = found?;
        if !self.authenticated && !command.needs_no_password() {
            return Err(Reply::Error("NOAUTH Authentication required.".to_owned()));
        }
        match command.name {
            "multi" if self.transaction.is_none() => {
                self.transaction = Some(Transaction::default());
                self.reply(Reply::OK);
            }
            "multi" => return Err(Reply::error("MULTI calls can not be nested")),
            "discard" => {
                self.transaction.take().ok_or_else(|| Reply::error("DISCARD without MULTI"))?;
                self.reply(Reply::OK);
            }
            "exec" => self.execute_all().await?,
            name => match &mut self.transaction {
                Some(transaction) if !matches!(name, "quit" | "reset") => {
                    transaction.add(command, arguments, self.server.settings.bounds)?;
                    self.reply(Reply::Status("QUEUED"));
                }
                _ => command::run(self, command, arguments).await?,
            },
        }
        Ok(())
    }

    /// All commands of the transaction, whose replies are one array.
    async fn execute_all(&mut self) -> Result<(), Reply> {
        let transaction = self.transaction.take().ok_or_else(|| Reply::error("EXEC without MULTI"))?;
        if transaction.is_bad {
            let text = "EXECABORT Transaction discarded because of previous errors.";
            return Err(Reply::Error(text.to_owned()));
        }
        self.slots.push(Slot::Array(transaction.queued.len()));
        for Queued { command, bytes, places } in &transaction.queued {
            let first = self.slots.len();
            if let Err(refusal) = command::run(self, command, Arguments::new(bytes, places)).await {
                self.slots.truncate(first);
                self.slots.push(Slot::Reply(refusal));
            }
        }
        Ok(())
    }

    pub(crate) fn reply(&mut self, reply: Reply) {
        self.slots.push(Slot::Reply(reply));
    }

    /// Forgets the client's settings, as for a new connection.
    pub(crate) fn reset(&mut self) {
        self.authenticated = self.server.settings.password.is_none();
        self.set_protocol(Protocol::Resp2);
        self.transaction = None;
        self.name.clear();
    }

    /// The filter of a key, if it exists.
    pub(crate) async fn filter(&mut self, key: &[u8]) -> Result<Option<Arc<Filter>>, Reply> {
        if let Some(filter) = &self.recent
            && filter.key == key
            && !filter.is_gone()
        {
            filter.note_use(self.server.folder.seconds());
            return Ok(Some(filter.clone()));
        }
        let found = self.server.folder.get(key).await?;
        self.recent.clone_from(&found);
        Ok(found)
    }

    /// Changes the keys of a filter.
    pub(crate) async fn change<'a>(
        &mut self,
        filter: Arc<Filter>,
        verb: Verb,
        keys: impl Iterator<Item = &'a [u8]>,
        form: Form,
    ) -> Result<(), Reply> {
        let batch = match self.batch_of(&filter) {
            Some(batch) => batch,
            None => {
                let (filter, writer) = self.writer_of(filter).await?;
                self.batches.push(Batch { filter, writer, steps: Vec::new(), outcomes: None });
                self.batches.len() - 1
            }
        };
        self.add(batch, verb, keys, form)
    }

    /// The filter's writer. Opens the filter again if it was just closed.
    async fn writer_of(&mut self, mut filter: Arc<Filter>) -> Result<(Arc<Filter>, SharedWriter), Reply> {
        loop {
            if let Some(writer) = filter.writer().await? {
                return Ok((filter, writer));
            }
            let key = filter.key.clone();
            filter = self.filter(&key).await?.ok_or_else(|| Reply::Error(failure::NOT_FOUND.to_owned()))?;
        }
    }

    fn batch_of(&self, filter: &Arc<Filter>) -> Option<usize> {
        let is_open = |batch: &Batch| batch.outcomes.is_none() && Arc::ptr_eq(&batch.filter, filter);
        self.batches.iter().position(is_open)
    }

    fn add<'a>(
        &mut self,
        index: usize,
        verb: Verb,
        keys: impl Iterator<Item = &'a [u8]>,
        form: Form,
    ) -> Result<(), Reply> {
        let Some(batch) = self.batches.get_mut(index) else { return Ok(()) };
        let first = batch.steps.len();
        for key in keys {
            match batch.writer.hash(key) {
                Ok(hash) => batch.steps.push(Step { verb, hash }),
                Err(error) => {
                    batch.steps.truncate(first);
                    return Err(failure::reply(&error));
                }
            }
        }
        self.slots.push(Slot::Steps { batch: index, steps: first..batch.steps.len(), form });
        Ok(())
    }

    /// Looks keys up: in the map, unless an earlier change of this round is not visible there yet.
    pub(crate) fn look_up<'a>(
        &mut self,
        filter: &Arc<Filter>,
        verb: Verb,
        keys: impl ExactSizeIterator<Item = &'a [u8]>,
        many: bool,
    ) -> Result<(), Reply> {
        let form = Form::Plain { many };
        if let Some(batch) = self.batch_of(filter) {
            return self.add(batch, verb, keys, form);
        }
        if filter.asks_writer()
            && let Some(writer) = filter.open_writer()
        {
            self.batches.push(Batch { filter: filter.clone(), writer, steps: Vec::new(), outcomes: None });
            return self.add(self.batches.len() - 1, verb, keys, form);
        }
        let reader = &filter.reader;
        let failed = |error| failure::reply(&error);
        if !many {
            let key = keys.into_iter().next().unwrap_or_default();
            let reply = match verb {
                Verb::Count => Reply::Integer(reader.count(key).map_err(failed)?.into()),
                _ => Reply::Bool(reader.contains(key).map_err(failed)?),
            };
            self.reply(reply);
            return Ok(());
        }
        let hashes: Result<Vec<KeyHash>, _> = keys.map(|key| reader.hash(key)).collect();
        let found = hashes.and_then(|hashes| reader.contains_batch(&hashes)).map_err(failed)?;
        self.reply(Reply::Array(found.into_iter().map(Reply::Bool).collect()));
        Ok(())
    }

    /// Waits for all changes that the round has made.
    pub(crate) async fn flush(&mut self) {
        let mut pending = Vec::new();
        for batch in self.batches.iter_mut().filter(|batch| batch.outcomes.is_none()) {
            let steps = std::mem::take(&mut batch.steps);
            let answer = batch.filter.submit(&batch.writer, steps);
            pending.push((batch, answer));
        }
        for (batch, answer) in pending {
            batch.outcomes = Some(answer.await.map_err(|error| batch.filter.failed(&error)));
        }
    }

    /// Ends the round: waits for its changes, and writes its replies.
    pub(crate) async fn finish(&mut self, output: &mut BytesMut) {
        if self.slots.is_empty() {
            return;
        }
        self.flush().await;
        let (mut errors, mut protocol) = (0, self.first_protocol);
        for slot in self.slots.drain(..) {
            let reply = match slot {
                Slot::Reply(reply) => reply,
                Slot::Steps { batch, steps, form } => shaped(self.batches.get(batch), steps, form, protocol),
                Slot::Array(length) => {
                    output.extend_from_slice(format!("*{length}\r\n").as_bytes());
                    continue;
                }
                Slot::Protocol(next) => {
                    protocol = next;
                    continue;
                }
            };
            errors += u64::from(matches!(reply, Reply::Error(_)));
            reply.encode(protocol, output);
        }
        self.batches.clear();
        self.server.counters.errors.fetch_add(errors, Ordering::Relaxed);
        self.first_protocol = self.protocol;
    }
}

impl Transaction {
    fn add(
        &mut self,
        command: &'static Command,
        arguments: Arguments<'_>,
        bounds: Bounds,
    ) -> Result<(), Reply> {
        let Some(last) = arguments.places.last() else { return Ok(()) };
        self.bytes += last.end;
        if self.bytes > bounds.bytes {
            self.is_bad = true;
            return Err(Reply::error(
                "the transaction has more bytes than this server takes; send it in parts",
            ));
        }
        let bytes = arguments.bytes.get(..last.end).unwrap_or_default().to_vec();
        self.queued.push(Queued { command, bytes, places: arguments.places.to_vec() });
        Ok(())
    }
}

/// The reply for the steps of a batch.
fn shaped(batch: Option<&Batch>, steps: Range<usize>, form: Form, protocol: Protocol) -> Reply {
    let outcomes = match batch.and_then(|batch| batch.outcomes.as_ref()) {
        Some(Ok(outcomes)) => outcomes.get(steps).unwrap_or_default(),
        Some(Err(reply)) => return reply.clone(),
        None => &[],
    };
    let (Form::Bloom { many } | Form::Cuckoo { many, .. } | Form::Plain { many }) = form;
    if !many {
        let missing = || Reply::error("the change has no outcome");
        return outcomes.first().map_or_else(missing, |outcome| shaped_one(outcome, form, protocol));
    }
    let is_full = |outcome: &Outcome| matches!((form, outcome), (Form::Bloom { .. }, Outcome::Full(_)));
    // `BF.MADD` ends at the first key without room.
    let end = outcomes.iter().position(is_full).map_or(outcomes.len(), |at| at + 1);
    let outcomes = outcomes.iter().take(end);
    Reply::Array(outcomes.map(|outcome| shaped_one(outcome, form, protocol)).collect())
}

fn shaped_one(outcome: &Outcome, form: Form, protocol: Protocol) -> Reply {
    match (outcome, form) {
        (Outcome::Bool(yes), Form::Cuckoo { many: true, new: true }) => Reply::Integer((*yes).into()),
        (Outcome::Bool(yes), _) => Reply::Bool(*yes),
        (Outcome::Count(count), _) => Reply::Integer((*count).into()),
        (Outcome::Full(_), Form::Cuckoo { many: true, new }) => match protocol {
            Protocol::Resp3 if !new => Reply::Bool(false),
            _ => Reply::Integer(-1),
        },
        (Outcome::Full(None), Form::Bloom { .. }) => Reply::error("non scaling filter is full"),
        (Outcome::Full(None), _) => Reply::error("Filter is full"),
        (Outcome::Full(Some(error)) | Outcome::Failed(error), _) => failure::reply(error),
    }
}
