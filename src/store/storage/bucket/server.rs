//! What differs among the servers of the three schemes: settings in the environment, words of errors, and what the library
//! behind [`client`](super::client) does not do, or not for all of them.

use std::sync::Arc;

use futures_util::stream::BoxStream;
#[cfg(any(feature = "s3", feature = "gs"))]
use object_store::ObjectStoreExt as _;
#[cfg(feature = "s3")]
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
#[cfg(feature = "az")]
use object_store::azure::{AzureAuthorizer, AzureConfigKey, MicrosoftAzure, MicrosoftAzureBuilder};
#[cfg(any(feature = "s3", feature = "az"))]
use object_store::client::HttpClient;
#[cfg(feature = "az")]
use object_store::client::{HttpRequest, HttpRequestBody};
#[cfg(feature = "gs")]
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
#[cfg(feature = "s3")]
use object_store::multipart::MultipartStore as _;
use object_store::path::Path as Key;
use object_store::{ObjectMeta, ObjectStore};
use url::Url;

use super::super::Scheme;
use super::Upload;
use super::client::{Connection, Connector, RequestError, TRIES, retry};

/// What errors say of a server.
pub(super) struct Words {
    /// How the names of its variables begin.
    pub(super) variables: &'static str,
    /// Whose server is asked if no other is named.
    owner: &'static str,
    /// The variable that names another one.
    endpoint: &'static str,
    /// What decides which server has a bucket.
    pub(super) whereabouts: &'static str,
    /// What else decides whether a bucket is found: after "its name".
    pub(super) found_by: &'static str,
    pub(super) credentials: &'static str,
}

impl Scheme {
    pub(super) const fn words(self) -> Words {
        match self {
            Self::S3 => Words {
                variables: "AWS_",
                owner: "Amazon",
                endpoint: "AWS_ENDPOINT_URL",
                whereabouts: "AWS_REGION",
                found_by: ", AWS_ENDPOINT_URL and AWS_REGION",
                credentials: "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            },
            Self::Gs => Words {
                variables: "GOOGLE_",
                owner: "Google",
                endpoint: "GOOGLE_BASE_URL",
                whereabouts: "GOOGLE_BASE_URL",
                found_by: " and GOOGLE_BASE_URL",
                credentials: "GOOGLE_APPLICATION_CREDENTIALS or GOOGLE_SERVICE_ACCOUNT",
            },
            Self::Az => Words {
                variables: "AZURE_",
                owner: "Azure",
                endpoint: "AZURE_STORAGE_ACCOUNT_NAME or AZURE_STORAGE_ENDPOINT",
                whereabouts: "AZURE_STORAGE_ENDPOINT",
                found_by: ", AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ENDPOINT",
                credentials: "AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN",
            },
        }
    }
}

/// Settings of a server. They hold credentials.
#[derive(Clone)]
pub(in super::super) enum Settings {
    #[cfg(feature = "s3")]
    S3(Box<AmazonS3Builder>),
    #[cfg(feature = "gs")]
    Gs(Box<GoogleCloudStorageBuilder>),
    #[cfg(feature = "az")]
    Az(Box<MicrosoftAzureBuilder>),
}

/// The library's stores of one bucket.
pub(super) struct Stores {
    /// Tries again.
    pub(super) patient: Arc<dyn ObjectStore>,
    /// Does not.
    pub(super) once: Arc<dyn ObjectStore>,
    pub(super) own: Own,
}

/// What a server needs besides.
pub(super) enum Own {
    /// Signs requests about uploads.
    #[cfg(feature = "s3")]
    S3(AmazonS3, HttpClient),
    #[cfg(feature = "gs")]
    Gs,
    #[cfg(feature = "az")]
    Az(Azure),
}

impl Own {
    const fn is_azure(&self) -> bool {
        match self {
            #[cfg(feature = "az")]
            Self::Az(_) => true,
            #[cfg(any(feature = "s3", feature = "gs"))]
            _ => false,
        }
    }
}

/// What deletes blobs: the library would send a batch, whose answer hides what became of each.
#[cfg(feature = "az")]
pub(super) struct Azure {
    store: MicrosoftAzure,
    account: String,
    container: Url,
    http: HttpClient,
}

/// Whether this is the address of a server. The library panics with some others.
fn is_url(endpoint: &str) -> bool {
    let host = endpoint.strip_prefix("https://").or_else(|| endpoint.strip_prefix("http://"));
    let is_meant = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/[]%@".contains(&byte);
    let begins = host.is_some_and(|host| {
        host.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '[') && host.bytes().all(is_meant)
    });
    begins && Url::parse(endpoint).is_ok()
}

/// Whether a header can hold it.
fn is_word(value: &str) -> bool {
    value.bytes().all(|byte| byte.is_ascii_graphic())
}

impl Settings {
    /// Those of the environment; `None` if this build has no such servers.
    pub(in super::super) fn of_environment(scheme: Scheme) -> Option<Self> {
        match scheme {
            #[cfg(feature = "s3")]
            Scheme::S3 => Some(Self::S3(Box::new(AmazonS3Builder::from_env()))),
            #[cfg(feature = "gs")]
            Scheme::Gs => Some(Self::Gs(Box::new(GoogleCloudStorageBuilder::from_env()))),
            #[cfg(feature = "az")]
            Scheme::Az => Some(Self::Az(Box::new(MicrosoftAzureBuilder::from_env()))),
            #[cfg(not(all(feature = "s3", feature = "gs", feature = "az")))]
            _ => None,
        }
    }

    pub(super) const fn scheme(&self) -> Scheme {
        match self {
            #[cfg(feature = "s3")]
            Self::S3(_) => Scheme::S3,
            #[cfg(feature = "gs")]
            Self::Gs(_) => Scheme::Gs,
            #[cfg(feature = "az")]
            Self::Az(_) => Scheme::Az,
        }
    }

    /// The address of a server that is not the scheme's usual one. It may hold a name and a password.
    fn endpoint(&self) -> Option<String> {
        match self {
            #[cfg(feature = "s3")]
            Self::S3(settings) => settings.get_config_value(&AmazonS3ConfigKey::Endpoint),
            #[cfg(feature = "gs")]
            Self::Gs(settings) => settings.get_config_value(&GoogleConfigKey::BaseUrl),
            #[cfg(feature = "az")]
            Self::Az(settings) => Some(azure_server(settings)?.0),
        }
    }

    /// What tells servers apart whose buckets may have the same names.
    pub(super) fn place(&self) -> String {
        let endpoint = self.endpoint().unwrap_or_default();
        match self {
            #[cfg(feature = "az")]
            Self::Az(settings) => {
                let account = settings.get_config_value(&AzureConfigKey::AccountName);
                format!("{endpoint} {}", account.unwrap_or_default())
            }
            #[cfg(any(feature = "s3", feature = "gs"))]
            _ => endpoint,
        }
    }

    /// What an error says of a server that is not reached.
    pub(super) fn unreached(&self) -> String {
        let Words { owner, endpoint, .. } = self.scheme().words();
        let server = self.endpoint().and_then(|server| {
            let (scheme, host) = server.split_once("://")?;
            Some(format!("{scheme}://{}", host.rsplit('@').next().unwrap_or_default()))
        });
        match server {
            Some(server) => format!("the server {server} of {endpoint} cannot be reached"),
            None => {
                format!("the server of {owner} cannot be reached; for another one set {endpoint}")
            }
        }
    }

    /// Finds settings with which the library would panic.
    fn check(&self) -> Result<(), String> {
        let (urls, words): (Vec<Option<String>>, Vec<Option<String>>) = match self {
            #[cfg(feature = "s3")]
            Self::S3(settings) => {
                use AmazonS3ConfigKey as K;
                let of = |key: &K| settings.get_config_value(key);
                (
                    [K::Endpoint, K::S3Endpoint].iter().map(of).collect(),
                    [K::AccessKeyId, K::Token, K::Region].iter().map(of).collect(),
                )
            }
            #[cfg(feature = "gs")]
            Self::Gs(settings) => {
                let hosts = ["GCE_METADATA_HOST", "GCE_METADATA_ROOT", "GCE_METADATA_IP"];
                let hosts = hosts.iter().filter_map(|name| std::env::var(name).ok());
                let mut urls: Vec<_> = hosts.map(|host| Some(format!("http://{host}"))).collect();
                let of = |key| settings.get_config_value(&key);
                let endpoint = of(GoogleConfigKey::BaseUrl);
                let file = || std::fs::read_to_string(of(GoogleConfigKey::ServiceAccount)?).ok();
                let account = of(GoogleConfigKey::ServiceAccountKey).or_else(file);
                if endpoint.is_none() && account.is_some_and(|account| account.contains("\"gcs_base_url\"")) {
                    return Err(
                        "the service account names an endpoint; set GOOGLE_BASE_URL instead".to_owned()
                    );
                }
                urls.push(endpoint);
                (urls, vec![settings.get_config_value(&GoogleConfigKey::BearerToken)])
            }
            #[cfg(feature = "az")]
            Self::Az(settings) => {
                use AzureConfigKey as K;
                let of = |key: &K| settings.get_config_value(key);
                let urls = [K::Endpoint, K::AuthorityHost, K::MsiEndpoint, K::FabricTokenServiceUrl];
                let words = [K::AccountName, K::Token, K::ClientId, K::AuthorityId, K::FabricSessionToken];
                let others = [K::FabricWorkloadHost, K::FabricClusterIdentifier];
                let mut urls: Vec<_> = urls.iter().map(of).collect();
                urls.push(azure_server(settings).map(|(server, _)| server));
                let words = words.iter().chain(&others).map(of);
                (urls, words.chain([std::env::var("IDENTITY_HEADER").ok()]).collect())
            }
        };
        let variables = self.scheme().words().variables;
        if !urls.iter().flatten().all(|url| is_url(url)) {
            return Err(
                "the endpoint in the environment is no URL; it begins with https:// or http://".to_owned()
            );
        }
        if !words.iter().flatten().all(|word| is_word(word)) {
            return Err(format!(
                "a value in the environment has a space or another character that cannot be sent; check the variables that \
                 begin with {variables}"
            ));
        }
        Ok(())
    }

    /// Connects to a bucket. The error quotes no value of the environment.
    pub(super) fn connect(&self, bucket: &str, connector: &Connector) -> Result<Stores, String> {
        self.check()?;
        let variables = self.scheme().words().variables;
        let wrong = |_| {
            format!("the environment has no valid settings; check the variables that begin with {variables}")
        };
        #[cfg(any(feature = "s3", feature = "az"))]
        let http = || connector.last().ok_or_else(|| "the library has made no client".to_owned());
        Ok(match self {
            #[cfg(feature = "s3")]
            Self::S3(settings) => {
                let build = |tries: u32| {
                    let settings = settings.clone().with_bucket_name(bucket).with_retry(retry(tries));
                    settings.with_disable_bulk_delete(true).with_http_connector(connector.clone()).build()
                };
                let (patient, once) = (build(TRIES).map_err(wrong)?, build(1).map_err(wrong)?);
                let own = Own::S3(patient.clone(), http()?);
                Stores { patient: Arc::new(patient), once: Arc::new(once), own }
            }
            #[cfg(feature = "gs")]
            Self::Gs(settings) => {
                let build = |tries: u32| {
                    let settings = settings.clone().with_bucket_name(bucket).with_retry(retry(tries));
                    settings.with_http_connector(connector.clone()).build()
                };
                let (patient, once) = (build(TRIES).map_err(wrong)?, build(1).map_err(wrong)?);
                Stores { patient: Arc::new(patient), once: Arc::new(once), own: Own::Gs }
            }
            #[cfg(feature = "az")]
            Self::Az(settings) => {
                let unknown =
                    || "the environment names no account; set AZURE_STORAGE_ACCOUNT_NAME".to_owned();
                let (server, account) = azure_server(settings).ok_or_else(unknown)?;
                let mut container = Url::parse(&server).map_err(|_| unknown())?;
                container.path_segments_mut().map_err(|()| unknown())?.push(bucket);
                let build = |tries: u32| {
                    let settings = settings.clone().with_container_name(bucket).with_retry(retry(tries));
                    settings.with_http_connector(connector.clone()).build()
                };
                let (patient, once) = (build(TRIES).map_err(wrong)?, build(1).map_err(wrong)?);
                let own = Own::Az(Azure { store: patient.clone(), account, container, http: http()? });
                Stores { patient: Arc::new(patient), once: Arc::new(once), own }
            }
        })
    }
}

/// The address of the server with the containers of an account, and the account. As the library finds them.
#[cfg(feature = "az")]
fn azure_server(settings: &MicrosoftAzureBuilder) -> Option<(String, String)> {
    let of = |key| settings.get_config_value(&key);
    let is = |key| {
        of(key).is_some_and(|value| ["1", "true", "on", "yes", "y"].contains(&&*value.to_ascii_lowercase()))
    };
    let account = of(AzureConfigKey::AccountName);
    if is(AzureConfigKey::UseEmulator) {
        let account = account.unwrap_or_else(|| "devstoreaccount1".to_owned());
        let server = std::env::var("AZURITE_BLOB_STORAGE_URL");
        let server = server.unwrap_or_else(|_| "http://127.0.0.1:10000".to_owned());
        return Some((format!("{}/{account}", server.trim_end_matches('/')), account));
    }
    let account = account?;
    let server = of(AzureConfigKey::Endpoint).unwrap_or_else(|| {
        let cloud =
            if is(AzureConfigKey::UseFabricEndpoint) { "fabric.microsoft.com" } else { "core.windows.net" };
        format!("https://{account}.blob.{cloud}")
    });
    Some((server, account))
}

impl Connection {
    /// The objects below a prefix, `None` for all; those up to the offset may be among them.
    pub(super) fn list(
        &self,
        below: Option<&Key>,
        offset: Option<&Key>,
    ) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        // Azure's parameter for it does not count in all accounts.
        match offset.filter(|_| !self.stores.own.is_azure()) {
            None => self.stores.patient.list(below),
            Some(offset) => self.stores.patient.list_with_offset(below, offset),
        }
    }

    pub(super) async fn delete(&self, key: &Key) -> Result<(), RequestError> {
        match &self.stores.own {
            #[cfg(feature = "az")]
            Own::Az(azure) => azure.delete(key).await,
            #[cfg(any(feature = "s3", feature = "gs"))]
            _ => self.stores.patient.delete(key).await.map_err(RequestError::of),
        }
    }

    /// The uploads in parts below a prefix that are neither finished nor given up; `None` if they cannot be listed.
    #[cfg_attr(not(feature = "s3"), allow(unused_variables, clippy::unused_async, reason = "none is listed"))]
    pub(super) async fn uploads(&self, start: &str) -> Result<Option<Vec<Upload>>, RequestError> {
        match &self.stores.own {
            #[cfg(feature = "s3")]
            Own::S3(store, http) => match super::uploads::list(store, http, start).await {
                Err(RequestError::Refused(..)) => Ok(None),
                outcome => outcome.map(Some),
            },
            // The library cannot list them. A rule of the bucket can remove them.
            #[cfg(feature = "gs")]
            Own::Gs => Ok(None),
            // The server removes them after a week, and nobody can before.
            #[cfg(feature = "az")]
            Own::Az(_) => Ok(Some(Vec::new())),
        }
    }

    #[cfg_attr(not(feature = "s3"), allow(unused_variables, clippy::unused_async, reason = "none is listed"))]
    pub(super) async fn give_up(&self, key: &Key, id: &str) -> Result<(), RequestError> {
        match &self.stores.own {
            #[cfg(feature = "s3")]
            Own::S3(store, _) => store.abort_multipart(key, &id.to_owned()).await.map_err(RequestError::of),
            #[cfg(any(feature = "gs", feature = "az"))]
            _ => Ok(()),
        }
    }
}

#[cfg(feature = "az")]
impl Azure {
    async fn delete(&self, key: &Key) -> Result<(), RequestError> {
        let invalid = || RequestError::unclear("the request has no valid address");
        let mut address = self.container.clone();
        address.path_segments_mut().map_err(|()| invalid())?.extend(key.parts());
        let mut request = HttpRequest::new(HttpRequestBody::empty());
        *request.uri_mut() = address.as_str().parse().map_err(|_| invalid())?;
        *request.method_mut() = "DELETE".parse().map_err(|_| invalid())?;
        let credential = self.store.credentials().get_credential().await.map_err(RequestError::of)?;
        let signer = AzureAuthorizer::new(&credential, &self.account);
        signer.try_authorize(&mut request).map_err(RequestError::of)?;
        super::client::ask(&self.http, request).await.map(drop)
    }
}
