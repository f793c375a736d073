//! Requests to a server, from any thread: on a runtime of this process that no caller sees.

use std::fmt;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
    ReqwestConnector,
};
use object_store::path::Path as Key;
use object_store::{
    BackoffConfig, ClientOptions, Error as S3Error, ObjectStore as _, PutMode, PutOptions, PutPayload,
    RetryConfig,
};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;

use super::{Requests, Result};
use crate::error::Error as FilterError;

/// Threads that move bytes.
const THREADS: usize = 2;
/// Parts of files that are fetched at the same time, each held in memory.
const PARTS: usize = 16;
/// The most tries of a request.
const TRIES: u32 = 9;
/// The time after which no further try of a request begins.
const PATIENCE: Duration = Duration::from_secs(60);
/// The wait after the first try. It doubles with each try, up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// The code of an answer 404 that is about the bucket, and not about an object.
const NO_BUCKET: &str = "NoSuchBucket";
/// The machine that hands out credentials in Amazon's cloud.
const METADATA: &str = "169.254.169.254";

/// How long to wait after this number of failed tries; `None` after the last. The library waits alike.
pub(super) fn wait_after(tries: u32) -> Option<Duration> {
    let wait = FIRST_WAIT * 2_u32.saturating_pow(tries.saturating_sub(1)).min(1 << 10);
    (tries < TRIES).then_some(wait.min(LONGEST_WAIT))
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
    /// The server answered with this status, which the library has no variant for, and this code in the body.
    #[error("the server answered {status}")]
    Answered { status: u16, code: Option<String> },
    #[error("no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")]
    NoCredentials,
}

/// The code in the body of an error, such as `SlowDown`. All else in it could be about credentials.
fn code(body: &str) -> Option<&str> {
    let (_, from) = body.split_once("<Code>")?;
    let (code, _) = from.split_once("</Code>")?;
    (code.len() < 64 && code.chars().all(|c| c.is_ascii_alphanumeric())).then_some(code)
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

/// The endpoint in the environment, without a name and password.
fn endpoint() -> Option<String> {
    let endpoint = AmazonS3Builder::from_env().get_config_value(&AmazonS3ConfigKey::Endpoint)?;
    let (scheme, host) = endpoint.split_once("://")?;
    Some(format!("{scheme}://{}", host.rsplit('@').next().unwrap_or_default()))
}

impl RequestError {
    pub(super) fn unclear(what: &str) -> Self {
        Self::Unclear(what.to_owned())
    }

    /// An answer with this status and code, which is no success.
    pub(super) fn answered(status: u16, code: Option<&str>) -> Self {
        let what = match code {
            Some(code) => format!("the server answered {status} ({code})"),
            None => format!("the server answered {status}"),
        };
        let refused = |kind, remedy: &str| Self::Refused(kind, format!("{what}; {remedy}"));
        match status {
            300..=399 => {
                let what = "the server redirects to another one; check AWS_REGION".to_owned();
                Self::Refused(io::ErrorKind::InvalidInput, what)
            }
            401 => refused(io::ErrorKind::PermissionDenied, "check the credentials in the environment"),
            403 => {
                let remedy = "check what the credentials in the environment may do in this bucket";
                refused(io::ErrorKind::PermissionDenied, remedy)
            }
            404 if code == Some(NO_BUCKET) => {
                let what = "the server has no such bucket; check its name, AWS_ENDPOINT_URL and AWS_REGION";
                Self::Refused(io::ErrorKind::Other, what.to_owned())
            }
            408 | 429 => Self::Unclear(what),
            501 | 400..=499 => Self::Refused(io::ErrorKind::InvalidInput, what),
            _ => Self::Unclear(what),
        }
    }

    pub(super) fn of(error: S3Error) -> Self {
        match &error {
            S3Error::NotFound { .. } => return Self::Absent,
            S3Error::Precondition { .. } | S3Error::NotModified { .. } => return Self::Taken,
            S3Error::AlreadyExists { source, .. } => {
                let is_there = source.downcast_ref::<S3Error>().is_some_and(|error| {
                    matches!(error, S3Error::Precondition { .. } | S3Error::NotModified { .. })
                });
                return if is_there { Self::Taken } else { Self::Conflict };
            }
            _ => {}
        }
        match (cause::<HttpFailure>(&error), cause::<HttpError>(&error).map(HttpError::kind)) {
            (Some(HttpFailure::Answered { status, code }), _) => Self::answered(*status, code.as_deref()),
            (Some(failure @ HttpFailure::NoCredentials), _) => {
                Self::Refused(io::ErrorKind::PermissionDenied, failure.to_string())
            }
            (None, Some(HttpErrorKind::Connect)) => Self::Unreached(match endpoint() {
                Some(endpoint) => format!("the server {endpoint} of AWS_ENDPOINT_URL cannot be reached"),
                None => {
                    "the server of Amazon cannot be reached; for another one set AWS_ENDPOINT_URL".to_owned()
                }
            }),
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
#[derive(Debug, Clone)]
struct CountingConnector {
    counters: Arc<Counters>,
    last: Arc<Mutex<Option<HttpClient>>>,
}

#[derive(Debug)]
struct CountingService {
    counters: Arc<Counters>,
    client: HttpClient,
}

impl HttpConnector for CountingConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = ReqwestConnector::default().connect(options)?;
        let client = HttpClient::new(CountingService { counters: self.counters.clone(), client });
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
        let query = request.uri().query().unwrap_or_default();
        let lists = request.method().as_str() == "GET"
            && (query.contains("list-type") || query.starts_with("uploads"));
        let counter = match request.method().as_str() {
            "PUT" => &self.counters.put,
            "HEAD" => &self.counters.head,
            "DELETE" => &self.counters.delete,
            "POST" => &self.counters.post,
            _ if lists => &self.counters.list,
            _ => &self.counters.get,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            let is_of_metadata = request.uri().host() == Some(METADATA);
            let answer = self.client.execute(request).await;
            let is_final = answer.as_ref().is_ok_and(|answer| {
                let status = answer.status();
                !status.is_server_error() && status.as_u16() != 429
            });
            if !is_final {
                self.counters.failed.fetch_add(1, Ordering::Relaxed);
            }
            if is_of_metadata {
                return answer.map_err(|error| HttpError::new(error.kind(), HttpFailure::NoCredentials));
            }
            typed(answer?, lists).await
        })
    }
}

/// An answer, or a [`HttpFailure`] if the library has no variant for it. It has none for listings.
async fn typed(answer: HttpResponse, lists: bool) -> Result<HttpResponse, HttpError> {
    if answer.status().is_success() {
        return Ok(answer);
    }
    let (head, body) = answer.into_parts();
    let body = body.bytes().await.unwrap_or_default();
    let (status, text) = (head.status.as_u16(), String::from_utf8_lossy(&body));
    let code = code(&text).map(str::to_owned);
    if !lists && [304, 404, 409, 412].contains(&status) && code.as_deref() != Some(NO_BUCKET) {
        return Ok(HttpResponse::from_parts(head, body.clone().into()));
    }
    // The library tries again after a request that was not sent, and not after an answer that it cannot decode.
    let is_passing = [408, 429].contains(&status) || status >= 500 && status != 501;
    let kind = if is_passing { HttpErrorKind::Request } else { HttpErrorKind::Decode };
    Err(HttpError::new(kind, HttpFailure::Answered { status, code }))
}

/// The connections of one process.
pub(super) struct Connection {
    runtime: &'static Runtime,
    /// Tries again.
    pub(super) patient: AmazonS3,
    /// Does not: a put-if-absent must know of each try.
    once: AmazonS3,
    /// For requests that the library does not have.
    pub(super) http: HttpClient,
    /// One permit for each part of a file that is fetched.
    pub(super) parts: Semaphore,
}

impl Connection {
    /// Puts an object unless the name is taken.
    pub(super) async fn create(&self, key: &Key, payload: PutPayload) -> Result<(), RequestError> {
        let options = PutOptions::from(PutMode::Create);
        self.once.put_opts(key, payload, options).await.map(drop).map_err(RequestError::of)
    }
}

/// Whether this is the address of a server.
fn is_url(endpoint: &str) -> bool {
    let host = endpoint.strip_prefix("https://").or_else(|| endpoint.strip_prefix("http://"));
    let is_meant = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/[]%@".contains(&byte);
    host.is_some_and(|host| {
        host.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '[') && host.bytes().all(is_meant)
    })
}

pub(super) struct Client {
    root: PathBuf,
    bucket: String,
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
    let runtime =
        Builder::new_multi_thread().worker_threads(THREADS).thread_name("gowk-s3").enable_all().build()?;
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
    pub(super) fn new(root: PathBuf, bucket: &str) -> Result<Self> {
        let counters = Arc::default();
        let connection = Self::connect(&root, bucket, &counters)?;
        let connection = Mutex::new((std::process::id(), connection));
        Ok(Self { root, bucket: bucket.to_owned(), counters, connection })
    }

    fn connect(root: &Path, bucket: &str, counters: &Arc<Counters>) -> Result<Arc<Connection>> {
        let failed = |source: io::Error| FilterError::io(root, "connect to", source);
        let runtime = runtime().map_err(failed)?;
        // Clients of HTTP look for the runtime.
        let _within = runtime.enter();
        // With any other endpoint, the client panics.
        let settings = AmazonS3Builder::from_env();
        for setting in [AmazonS3ConfigKey::Endpoint, AmazonS3ConfigKey::S3Endpoint] {
            let endpoint = settings.get_config_value(&setting);
            if endpoint.is_some_and(|endpoint| !is_url(&endpoint)) {
                let what = "the endpoint in the environment is no URL; it begins with https:// or http://";
                return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, what)).into());
            }
        }
        let counted = CountingConnector { counters: counters.clone(), last: Arc::default() };
        let client = |tries: u32| {
            let backoff = BackoffConfig { init_backoff: FIRST_WAIT, max_backoff: LONGEST_WAIT, base: 2.0 };
            let retry = RetryConfig { backoff, max_retries: tries as usize - 1, retry_timeout: PATIENCE };
            AmazonS3Builder::from_env()
                .with_bucket_name(bucket)
                .with_retry(retry)
                .with_disable_bulk_delete(true)
                .with_http_connector(counted.clone())
                .build()
        };
        // The error may quote a value of the environment.
        let wrong = |_| {
            let what = "the environment has no valid settings; check the variables that begin with AWS_";
            failed(io::Error::new(io::ErrorKind::InvalidInput, what))
        };
        let (patient, once) = (client(TRIES).map_err(wrong)?, client(1).map_err(wrong)?);
        let http = counted.last.lock().unwrap_or_else(PoisonError::into_inner).take();
        let missing = "the library for S3 has made no client";
        let http = http.ok_or_else(|| failed(io::Error::other(missing)))?;
        Ok(Arc::new(Connection { runtime, patient, once, http, parts: Semaphore::new(PARTS) }))
    }

    /// The connection of this process.
    fn connection(&self) -> Result<Arc<Connection>> {
        let mut known = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0 != std::process::id() {
            let connection = Self::connect(&self.root, &self.bucket, &self.counters)?;
            // The parent's connection belongs to threads that are not here.
            let old = std::mem::replace(&mut *known, (std::process::id(), connection));
            std::mem::forget(old);
        }
        Ok(known.1.clone())
    }

    /// The address of the server, so that each server has its own cache.
    pub(super) fn place(&self) -> String {
        let settings = AmazonS3Builder::from_env();
        settings.get_config_value(&AmazonS3ConfigKey::Endpoint).unwrap_or_default()
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
