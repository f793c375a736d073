//! Invariants checked, of each kind of server, by a listener that gives prepared answers:
//!
//! 1. A put-if-absent has the condition that the server knows, and each way to refuse it is understood.
//! 2. Settings that cannot work are errors, which quote no value, and no panics.
//! 3. No error and no `Debug` shows a key, a token or a signature.
//! 4. A name is deleted and listed under the address that puts gave it.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread::JoinHandle;

#[cfg(feature = "s3")]
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
#[cfg(feature = "az")]
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
#[cfg(feature = "gs")]
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};

use super::super::Scheme;
use super::client::RequestError;
use super::*;

/// A part of all credentials here.
const SECRET: &str = "hush";

/// Answers one request after the other, and returns the requests.
fn server(answers: Vec<String>) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = std::thread::spawn(move || {
        let answer = |answer: String| {
            let (mut client, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            loop {
                let text = String::from_utf8_lossy(&request).into_owned();
                if let Some((head, body)) = text.split_once("\r\n\r\n") {
                    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                    if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                        client.write_all(answer.as_bytes()).unwrap();
                        return text;
                    }
                }
                let mut piece = [0; 1 << 12];
                let read = client.read(&mut piece).unwrap();
                assert!(read > 0, "{text}");
                request.extend_from_slice(&piece[..read]);
            }
        };
        answers.into_iter().map(answer).collect()
    });
    (url, serving)
}

fn answer(status: u16, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status} x\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}")
}

fn answer_with_code(status: u16, code: &str) -> String {
    answer(status, "", &format!("<Error><Code>{code}</Code><Key>{SECRET}</Key></Error>"))
}

/// Settings of each kind of server, with credentials, for a server at this address.
fn each(url: &str) -> Vec<Settings> {
    let _ = url;
    vec![
        #[cfg(feature = "s3")]
        Settings::S3(Box::new(
            AmazonS3Builder::new()
                .with_endpoint(url)
                .with_allow_http(true)
                .with_access_key_id("hush-key")
                .with_secret_access_key("hush-secret"),
        )),
        #[cfg(feature = "gs")]
        Settings::Gs(Box::new(
            GoogleCloudStorageBuilder::new().with_base_url(url).with_bearer_token("hush-token"),
        )),
        #[cfg(feature = "az")]
        Settings::Az(Box::new(azure(url).with_config(AzureConfigKey::SasKey, "sv=1&sig=hush%2Bsignature"))),
        #[cfg(feature = "az")]
        Settings::Az(Box::new(azure(url).with_config(AzureConfigKey::Token, "hush-token"))),
        #[cfg(feature = "az")]
        Settings::Az(Box::new(azure(url).with_access_key("aHVzaA=="))),
    ]
}

#[cfg(feature = "az")]
fn azure(url: &str) -> MicrosoftAzureBuilder {
    MicrosoftAzureBuilder::new().with_account("account").with_endpoint(url.to_owned()).with_allow_http(true)
}

fn bucket(settings: Settings) -> Result<Bucket> {
    let address = Address { scheme: settings.scheme(), bucket: "b", prefix: "p" };
    Bucket::open(address, settings, &Options::new())
}

/// Calls of the bucket at a server that gives these answers, and the requests.
fn asked<T>(
    settings: &dyn Fn(&str) -> Settings,
    answers: &[String],
    call: impl Fn(&Bucket) -> T,
) -> (T, Vec<String>) {
    let (url, serving) = server(answers.to_vec());
    let bucket = bucket(settings(&url)).unwrap();
    let told = call(&bucket);
    (told, serving.join().unwrap())
}

fn put(bucket: &Bucket) -> Result<Put> {
    bucket.put_if_absent("versions/1.toml", "", b"text", &mut || Ok(true))
}

#[test]
fn a_put_has_the_condition_of_its_server_and_each_refusal_is_understood() {
    for (number, settings) in each("http://x").into_iter().enumerate() {
        let scheme = settings.scheme();
        let (condition, path) = match scheme {
            Scheme::S3 => ("if-none-match: *", "/b/p/versions/1.toml"),
            Scheme::Gs => ("x-goog-if-generation-match: 0", "/b/p%2Fversions%2F1%2Etoml"),
            Scheme::Az => ("if-none-match: *", "/b/p/versions/1.toml"),
        };
        let of = |url: &str| each(url).remove(number);
        let done = answer(200, "ETag: \"1\"\r\n", "");
        let taken = [answer_with_code(412, "PreconditionFailed"), answer_with_code(409, "BlobAlreadyExists")];
        let mut answers = vec![done];
        // Only Azure gives the second.
        answers.extend(taken.into_iter().take(if scheme == Scheme::Az { 2 } else { 1 }));
        for (place, answer) in answers.into_iter().enumerate() {
            let (told, requests) = asked(&of, &[answer], put);
            let is_right =
                matches!(told, Ok(Put::Done)) && place == 0 || matches!(told, Ok(Put::Taken)) && place > 0;
            assert!(is_right, "{scheme:?} {place}: {told:?}");
            let [request] = &requests[..] else { panic!("{requests:?}") };
            assert!(request.starts_with(&format!("PUT {path}")), "{request}");
            assert!(
                request.lines().any(|line| line == condition) && request.ends_with("\r\n\r\ntext"),
                "{request}"
            );
        }
        // A try that is in doubt is made again, and a put that finds the name taken then is told so.
        let answers = [answer_with_code(503, "SlowDown"), answer_with_code(412, "ConditionNotMet")];
        let (told, requests) = asked(&of, &answers, put);
        assert!(matches!(told, Ok(Put::Taken)) && requests.len() == 2, "{scheme:?}: {told:?}");
    }
}

#[test]
fn an_object_is_deleted_under_its_own_address_and_what_is_absent_is_told() {
    let head = answer(200, "ETag: \"1\"\r\nLast-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\n", "");
    for (number, settings) in each("http://x").into_iter().enumerate() {
        let of = |url: &str| each(url).remove(number);
        let delete = |bucket: &Bucket| bucket.delete("runs/a b%41");
        let path = match settings.scheme() {
            Scheme::S3 => "/b/p/runs/a%20b%2541",
            Scheme::Gs => "/b/p%2Fruns%2Fa%20b%2541",
            Scheme::Az => "/b/p/runs/a%20b%2541",
        };
        for (status, length) in [(204, Some(0)), (404, None)] {
            let gone = answer_with_code(status, "NoSuchKey");
            let (told, requests) = asked(&of, &[head.clone(), gone], delete);
            assert_eq!(told.unwrap(), length);
            assert!(requests[0].starts_with(&format!("HEAD {path}")), "{requests:?}");
            assert!(requests[1].starts_with(&format!("DELETE {path}")), "{requests:?}");
        }
        for (status, code) in [(404, "ContainerNotFound"), (404, "NoSuchBucket")] {
            let missing = answer(status, &format!("x-ms-error-code: {code}\r\n"), "");
            let (told, _) = asked(&of, &[missing], delete);
            let told = told.unwrap_err().to_string();
            assert!(told.contains("the server has no such bucket; check its name"), "{told}");
        }
    }
}

#[test]
fn no_error_and_no_debug_shows_a_credential() {
    for (number, settings) in each("http://x").into_iter().enumerate() {
        let of = |url: &str| each(url).remove(number);
        for (status, code) in [(403, SECRET), (400, "AuthenticationFailed"), (302, SECRET)] {
            let body = format!("<Error><Code>{code}-</Code><Message>{SECRET}</Message></Error>");
            let answers = [answer(status, &format!("x-ms-error-code: ?sig={SECRET}\r\n"), &body)];
            let told = [
                asked(&of, &answers, |bucket| format!("{:?}", bucket.names("", "").unwrap_err())).0,
                asked(&of, &answers, |bucket| format!("{} {bucket:?}", bucket.names("", "").unwrap_err())).0,
                asked(&of, &answers, |bucket| format!("{:?}", put(bucket))).0,
                asked(&of, &answers, |bucket| format!("{:?}", bucket.delete("x"))).0,
            ];
            assert!(told.iter().all(|told| !told.contains(SECRET)), "{told:#?}");
        }
        let named = each(&format!("https://name:{SECRET}@server:1/account")).remove(number);
        let told = named.unreached();
        assert!(!told.contains(SECRET) && told.contains("https://server:1/account"), "{told}");
        assert_ne!(named.place(), settings.place(), "servers have caches of their own");
    }
}

#[test]
fn settings_that_cannot_work_are_errors_that_quote_nothing() {
    for url in [
        "",
        "server",
        "ftp://hush",
        "http://",
        "http:// hush",
        "http://[hush",
        "http://s:99999",
        "data:hush,x",
    ] {
        for settings in each(url) {
            let told = bucket(settings).unwrap_err().to_string();
            assert!(
                told.contains("the endpoint in the environment is no URL") && !told.contains(SECRET),
                "{told}"
            );
        }
    }
    let wrong: Vec<(Settings, &str)> = vec![
        #[cfg(feature = "s3")]
        (
            Settings::S3(Box::new(
                AmazonS3Builder::new().with_config(AmazonS3ConfigKey::Token, "hush\nhush"),
            )),
            "begin with AWS_",
        ),
        #[cfg(feature = "gs")]
        (
            Settings::Gs(Box::new(GoogleCloudStorageBuilder::new().with_bearer_token("hush\nhush"))),
            "begin with GOOGLE_",
        ),
        #[cfg(feature = "gs")]
        (
            Settings::Gs(Box::new(GoogleCloudStorageBuilder::new().with_service_account_path("/hush/none"))),
            "begin with GOOGLE_",
        ),
        #[cfg(feature = "gs")]
        (
            Settings::Gs(Box::new(
                GoogleCloudStorageBuilder::new()
                    .with_config(GoogleConfigKey::ServiceAccountKey, r#"{"gcs_base_url": "hush"}"#),
            )),
            "set GOOGLE_BASE_URL instead",
        ),
        #[cfg(feature = "az")]
        (Settings::Az(Box::default()), "set AZURE_STORAGE_ACCOUNT_NAME"),
        #[cfg(feature = "az")]
        (Settings::Az(Box::new(azure("http://x").with_access_key("hush?"))), "begin with AZURE_"),
        #[cfg(feature = "az")]
        (
            Settings::Az(Box::new(azure("http://x").with_bearer_token_authorization("hush\nhush"))),
            "begin with AZURE_",
        ),
        #[cfg(feature = "az")]
        (Settings::Az(Box::new(azure("http://x").with_msi_endpoint("hush"))), "is no URL"),
        #[cfg(feature = "az")]
        (Settings::Az(Box::new(MicrosoftAzureBuilder::new().with_account("hush hush"))), "is no URL"),
        #[cfg(feature = "az")]
        (
            Settings::Az(Box::new(azure("http://x").with_config(AzureConfigKey::SasKey, "hush"))),
            "begin with AZURE_",
        ),
    ];
    for (settings, says) in wrong {
        let told = bucket(settings).unwrap_err().to_string();
        assert!(told.contains(says) && !told.contains(SECRET), "{told}");
    }
}

#[cfg(feature = "az")]
#[test]
fn the_server_of_an_account_is_found_as_the_library_finds_it() {
    let account = MicrosoftAzureBuilder::new().with_account("account");
    for (settings, server) in [
        (account.clone(), "https://account.blob.core.windows.net"),
        (account.clone().with_use_fabric_endpoint(true), "https://account.blob.fabric.microsoft.com"),
        (account.clone().with_endpoint("https://other".to_owned()), "https://other"),
        (account.with_use_emulator(true), "http://127.0.0.1:10000/account"),
        (MicrosoftAzureBuilder::new().with_use_emulator(true), "http://127.0.0.1:10000/devstoreaccount1"),
    ] {
        let told = Settings::Az(Box::new(settings)).unreached();
        assert!(told.starts_with(&format!("the server {server} of ")), "{told}");
    }
}

/// What an error says of an object.
fn said(refusal: RequestError) -> String {
    refusal.at(Path::new("x"), "read").to_string()
}

#[test]
fn an_answer_means_what_its_server_means() {
    for scheme in Scheme::ALL {
        let of = |status, code| RequestError::answered(scheme, false, status, code);
        assert!(matches!(of(404, None), RequestError::Absent));
        assert!(matches!(of(404, Some("BlobNotFound")), RequestError::Absent));
        assert!(matches!(of(412, None), RequestError::Taken));
        assert!(matches!(of(409, Some("BlobAlreadyExists")), RequestError::Taken));
        assert!(matches!(of(409, Some("ConditionalRequestConflict")), RequestError::Conflict));
        for status in [408, 429, 500, 503] {
            assert!(matches!(of(status, None), RequestError::Unclear(_)), "{status}");
        }
        for status in [301, 400, 401, 403, 501] {
            assert!(matches!(of(status, None), RequestError::Refused(..)), "{status}");
        }
        let variables = scheme.words().variables;
        assert!(said(of(301, None)).contains(variables), "{}", said(of(301, None)));
        let missing = [of(404, Some("NoSuchBucket")), of(404, Some("ContainerNotFound"))].map(said);
        assert!(missing.iter().all(|told| told.contains(variables)), "{missing:?}");
        // A listing is never absent, and takes no name.
        for status in [404, 409, 412] {
            let told = said(RequestError::answered(scheme, true, status, None));
            assert!(told.contains(&format!("the server answered {status}")), "{told}");
        }
    }
}
