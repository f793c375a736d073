//! Requests to a server, from any thread: on a runtime of this process that no caller sees.

use std::fmt;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
    ReqwestConnector,
};
use object_store::path::Path as Key;
use object_store::{
    BackoffConfig, ClientOptions, Error as StoreError, ObjectStore as _, PutMode, PutOptions, PutPayload,
    RetryConfig,
};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;

use super::super::Scheme;
use super::server::{Settings, Stores};
use super::{Requests, Result};
use crate::error::Error as FilterError;

/// Threads that move bytes.
const THREADS: usize = 2;
/// Parts of files that are fetched at the same time, each held in memory.
const PARTS: usize = 16;
/// The most tries of a request.
pub(super) const TRIES: u32 = 9;
/// The time after which no further try of a request begins.
const PATIENCE: Duration = Duration::from_secs(60);
/// The wait after the first try. It doubles with each try, up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// The codes of an answer 404 that is about the bucket, and not about an object.
const NO_BUCKET: [&str; 2] = ["NoSuchBucket", "ContainerNotFound"];
/// The code of an answer 409 of Azure, where other servers answer 412.
const EXISTS: &str = "BlobAlreadyExists";
/// The header with the code of an answer of Azure.
const CODE: &str = "x-ms-error-code";
/// The machines that hand out credentials in a cloud.
const METADATA: [&str; 2] = ["169.254.169.254", "metadata.google.internal"];

/// How long to wait after this number of failed tries; `None` after the last. The library waits alike.
pub(super) fn wait_after(tries: u32) -> Option<Duration> {
    let wait = FIRST_WAIT * 2_u32.saturating_pow(tries.saturating_sub(1)).min(1 << 10);
    (tries < TRIES).then_some(wait.min(LONGEST_WAIT))
}

/// How the library tries again.
pub(super) fn retry(tries: u32) -> RetryConfig {
    let backoff = BackoffConfig { init_backoff: FIRST_WAIT, max_backoff: LONGEST_WAIT, base: 2.0 };
    RetryConfig { backoff, max_retries: tries.saturating_sub(1) as usize, retry_timeout: PATIENCE }
}

/// Why a request did not do what it should.
#[derive(Debug)]
pub(super) enum RequestError {
    /// There is no such object.
    Absent,
    /// The name is taken.
    Taken,
    /// Another put of the name is under way.
    Conflict,
    /// The server was not reached, so that nothing was done.
    Unreached(String),
    /// The server has refused, and will again.
    Refused(io::ErrorKind, String),
    /// The request may have been carried out, or may still be.
    Unclear(String),
    /// A local file cannot be read or written.
    Local(io::Error),
}

/// Why a request failed, where the library would say so only in the text of its error. It is the source of an
/// [`HttpError`].
#[derive(Clone, Debug, thiserror::Error)]
enum HttpFailure {
    /// The server answered with this status, which is no success, and this code in the body or a header.
    #[error("the server answered {status}")]
    Answered { scheme: Scheme, lists: bool, status: u16, code: Option<String> },
    /// The server was not reached.
    #[error("{0}")]
    Unreached(String),
    #[error("no credentials; set {}", .0.words().credentials)]
    NoCredentials(Scheme),
}

/// The code in the body of an error, such as `SlowDown`. All else in it could be about credentials.
fn code(body: &str) -> Option<&str> {
    let (_, from) = body.split_once("<Code>")?;
    Some(from.split_once("</Code>")?.0)
}

/// The first of an error and its sources that has this type.
fn cause<'a, T: std::error::Error + 'static>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

impl RequestError {
    pub(super) fn unclear(what: &str) -> Self {
        Self::Unclear(what.to_owned())
    }

    /// An answer with this status and code, which is no success. A listing of what is absent is empty.
    pub(super) fn answered(scheme: Scheme, lists: bool, status: u16, code: Option<&str>) -> Self {
        let what = match code {
            Some(code) => format!("the server answered {status} ({code})"),
            None => format!("the server answered {status}"),
        };
        let words = scheme.words();
        let refused = |kind, remedy: &str| Self::Refused(kind, format!("{what}; {remedy}"));
        match status {
            304 | 412 if !lists => Self::Taken,
            300..=399 => {
                let what = format!("the server redirects to another one; check {}", words.whereabouts);
                Self::Refused(io::ErrorKind::InvalidInput, what)
            }
            401 => refused(io::ErrorKind::PermissionDenied, "check the credentials in the environment"),
            403 => {
                let remedy = "check what the credentials in the environment may do in this bucket";
                refused(io::ErrorKind::PermissionDenied, remedy)
            }
            404 if code.is_some_and(|code| NO_BUCKET.contains(&code)) => {
                let what = format!("the server has no such bucket; check its name{}", words.found_by);
                Self::Refused(io::ErrorKind::Other, what)
            }
            404 if !lists => Self::Absent,
            409 if code == Some(EXISTS) => Self::Taken,
            409 if !lists => Self::Conflict,
            408 | 429 => Self::Unclear(what),
            501 | 400..=499 => Self::Refused(io::ErrorKind::InvalidInput, what),
            _ => Self::Unclear(what),
        }
    }

    pub(super) fn of(error: StoreError) -> Self {
        Self::because(&error)
    }

    /// The reason that an error and its sources tell.
    fn because(error: &(dyn std::error::Error + 'static)) -> Self {
        match (cause::<HttpFailure>(error), cause::<HttpError>(error).map(HttpError::kind)) {
            (Some(HttpFailure::Answered { scheme, lists, status, code }), _) => {
                Self::answered(*scheme, *lists, *status, code.as_deref())
            }
            (Some(failure @ HttpFailure::NoCredentials(_)), _) => {
                Self::Refused(io::ErrorKind::PermissionDenied, failure.to_string())
            }
            (Some(HttpFailure::Unreached(what)), _) => Self::Unreached(what.clone()),
            (None, Some(HttpErrorKind::Timeout)) => Self::unclear("the server did not answer in time"),
            (None, Some(_)) => Self::unclear("the connection broke"),
            (None, None) => Self::unclear("the server's answer cannot be read"),
        }
    }

    /// As an error about an object.
    pub(super) fn at(self, path: &Path, op: &'static str) -> FilterError {
        let path = path.to_owned();
        let (kind, what) = match self {
            Self::Absent => (io::ErrorKind::NotFound, "there is no such object or bucket".to_owned()),
            // Also the answer to a request without a condition.
            Self::Taken => (io::ErrorKind::Other, "the server answered 412".to_owned()),
            Self::Conflict => (io::ErrorKind::Other, "the server answered 409".to_owned()),
            Self::Unreached(what) => (io::ErrorKind::NotConnected, what),
            Self::Refused(kind, what) => (kind, what),
            Self::Unclear(what) => (io::ErrorKind::Other, what),
            Self::Local(source) => return FilterError::io(&path, op, source),
        };
        FilterError::io(&path, op, io::Error::new(kind, what))
    }
}

/// Counters of requests, which each try of a request adds to.
#[derive(Debug, Default)]
struct Counters {
    put: AtomicU64,
    get: AtomicU64,
    head: AtomicU64,
    list: AtomicU64,
    delete: AtomicU64,
    post: AtomicU64,
    failed: AtomicU64,
}

/// Makes clients that count, and keeps the last one.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    scheme: Scheme,
    /// What an error says if the server is not reached.
    unreached: Arc<str>,
    counters: Arc<Counters>,
    last: Arc<Mutex<Option<HttpClient>>>,
}

#[derive(Debug)]
struct CountingService {
    connector: Connector,
    client: HttpClient,
}

impl Connector {
    /// The last client: that of the bucket, and not of credentials.
    #[cfg(any(feature = "s3", feature = "az"))]
    pub(super) fn last(&self) -> Option<HttpClient> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = ReqwestConnector::default().connect(options)?;
        // It must not keep itself.
        let connector = Self { last: Arc::default(), ..self.clone() };
        let client = HttpClient::new(CountingService { connector, client });
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(client.clone());
        Ok(client)
    }
}

impl HttpService for CountingService {
    fn call<'a, 'b>(
        &'a self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        let Connector { scheme, unreached, counters, .. } = &self.connector;
        let query = request.uri().query().unwrap_or_default();
        let lists = request.method().as_str() == "GET"
            && (query.contains("list-type") || query.contains("comp=list") || query.starts_with("uploads"));
        let counter = match request.method().as_str() {
            "PUT" => &counters.put,
            "HEAD" => &counters.head,
            "DELETE" => &counters.delete,
            "POST" => &counters.post,
            _ if lists => &counters.list,
            _ => &counters.get,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            let is_of_metadata = request.uri().host().is_some_and(|host| METADATA.contains(&host));
            let answer = self.client.execute(request).await;
            let is_final = answer.as_ref().is_ok_and(|answer| {
                let status = answer.status();
                !status.is_server_error() && status.as_u16() != 429
            });
            if !is_final {
                counters.failed.fetch_add(1, Ordering::Relaxed);
            }
            let (kind, failure) = match answer {
                Ok(answer) if answer.status().is_success() => return Ok(answer),
                Ok(answer) => {
                    let (status, code) = told(answer).await;
                    // The library tries again after a request that was not sent, and not after an answer that it cannot
                    // decode.
                    let is_passing = [408, 429].contains(&status) || status >= 500 && status != 501;
                    let kind = if is_passing { HttpErrorKind::Request } else { HttpErrorKind::Decode };
                    (kind, HttpFailure::Answered { scheme: *scheme, lists, status, code })
                }
                Err(error) if error.kind() == HttpErrorKind::Connect => {
                    (HttpErrorKind::Connect, HttpFailure::Unreached(unreached.to_string()))
                }
                Err(error) if !is_of_metadata => return Err(error),
                Err(error) => (error.kind(), HttpFailure::NoCredentials(*scheme)),
            };
            let failure = if is_of_metadata { HttpFailure::NoCredentials(*scheme) } else { failure };
            Err(HttpError::new(kind, failure))
        })
    }
}

/// The status and the code of an answer that is no success.
async fn told(answer: HttpResponse) -> (u16, Option<String>) {
    let (head, body) = answer.into_parts();
    let body = body.bytes().await.unwrap_or_default();
    let text = String::from_utf8_lossy(&body);
    // An answer to HEAD has no body.
    let code = head.headers.get(CODE).and_then(|code| code.to_str().ok()).or_else(|| code(&text));
    let is_code = |code: &&str| code.len() < 64 && code.chars().all(|c| c.is_ascii_alphanumeric());
    (head.status.as_u16(), code.filter(is_code).map(str::to_owned))
}

/// Makes a request that the library does not have, again if that fails.
#[cfg(any(feature = "s3", feature = "az"))]
pub(super) async fn ask(http: &HttpClient, request: HttpRequest) -> Result<Vec<u8>, RequestError> {
    let mut tries = 0;
    loop {
        tries += 1;
        let answered = match http.execute(request.clone()).await {
            Ok(answer) => answer.into_body().bytes().await,
            Err(error) => Err(error),
        };
        let refusal = match answered {
            Ok(bytes) => return Ok(bytes.to_vec()),
            Err(error) => RequestError::because(&error),
        };
        match wait_after(tries) {
            Some(wait) if matches!(refusal, RequestError::Unclear(_) | RequestError::Unreached(_)) => {
                tokio::time::sleep(wait).await;
            }
            _ => return Err(refusal),
        }
    }
}

/// The connections of one process.
pub(super) struct Connection {
    runtime: &'static Runtime,
    pub(super) stores: Stores,
    /// One permit for each part of a file that is fetched.
    pub(super) parts: Semaphore,
}

impl Connection {
    /// Puts an object unless the name is taken. Makes one try: who calls must know of each.
    pub(super) async fn create(&self, key: &Key, payload: PutPayload) -> Result<(), RequestError> {
        let options = PutOptions::from(PutMode::Create);
        self.stores.once.put_opts(key, payload, options).await.map(drop).map_err(RequestError::of)
    }
}

pub(super) struct Client {
    root: PathBuf,
    bucket: String,
    settings: Settings,
    counters: Arc<Counters>,
    /// Belongs to the process with this number: a forked child has none of the threads.
    connection: Mutex<(u32, Arc<Connection>)>,
}

/// The runtime of the process with this number. It runs until the process ends.
static RUNTIME: Mutex<Option<(u32, &'static Runtime)>> = Mutex::new(None);

fn runtime() -> io::Result<&'static Runtime> {
    let mut known = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    let own = std::process::id();
    if let Some((process, runtime)) = *known
        && process == own
    {
        return Ok(runtime);
    }
    let runtime = Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("gowk-bucket")
        .enable_all()
        .build()?;
    let runtime = Box::leak(Box::new(runtime));
    *known = Some((own, runtime));
    Ok(runtime)
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("root", &self.root).finish_non_exhaustive()
    }
}

impl Client {
    pub(super) fn new(root: PathBuf, bucket: &str, settings: Settings) -> Result<Self> {
        let counters = Arc::default();
        let connection = Self::connect(&root, bucket, &settings, &counters)?;
        let connection = Mutex::new((std::process::id(), connection));
        Ok(Self { root, bucket: bucket.to_owned(), settings, counters, connection })
    }

    fn connect(
        root: &Path,
        bucket: &str,
        settings: &Settings,
        counters: &Arc<Counters>,
    ) -> Result<Arc<Connection>> {
        let failed = |source: io::Error| FilterError::io(root, "connect to", source);
        let runtime = runtime().map_err(failed)?;
        // Clients of HTTP look for the runtime.
        let _within = runtime.enter();
        let connector = Connector {
            scheme: settings.scheme(),
            unreached: settings.unreached().into(),
            counters: counters.clone(),
            last: Arc::default(),
        };
        let stores = settings.connect(bucket, &connector);
        let stores = stores.map_err(|what| failed(io::Error::new(io::ErrorKind::InvalidInput, what)))?;
        Ok(Arc::new(Connection { runtime, stores, parts: Semaphore::new(PARTS) }))
    }

    /// The connection of this process.
    fn connection(&self) -> Result<Arc<Connection>> {
        let mut known = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0 != std::process::id() {
            let connection = Self::connect(&self.root, &self.bucket, &self.settings, &self.counters)?;
            // The parent's connection belongs to threads that are not here.
            let old = std::mem::replace(&mut *known, (std::process::id(), connection));
            std::mem::forget(old);
        }
        Ok(known.1.clone())
    }

    /// What tells its server from others, so that each has a cache of its own.
    pub(super) fn place(&self) -> String {
        self.settings.place()
    }

    /// Waits for what a task does with the connection. The task runs elsewhere, so that a caller may have a runtime too.
    pub(super) fn run<T, F>(&self, task: impl FnOnce(Arc<Connection>) -> F) -> Result<T, RequestError>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let connection = self.connection().map_err(|error| RequestError::Unreached(error.to_string()))?;
        let (sender, done) = mpsc::sync_channel(1);
        let runtime = connection.runtime;
        let task = task(connection);
        runtime.spawn(async move {
            let _ = sender.send(task.await);
        });
        done.recv().map_err(|_| RequestError::unclear("a request was given up"))
    }

    pub(super) fn requests(&self) -> Requests {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counters { put, get, head, list, delete, post, failed } = &*self.counters;
        Requests {
            put: of(put),
            get: of(get),
            head: of(head),
            list: of(list),
            delete: of(delete),
            post: of(post),
            failed: of(failed),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let known = self.connection.get_mut().unwrap_or_else(PoisonError::into_inner);
        if known.0 != std::process::id() {
            // The parent's connection belongs to threads that are not here: it stays.
            std::mem::forget(known.1.clone());
        }
    }
}
