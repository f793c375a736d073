//! Uploads in parts to a server of S3 that are neither finished nor given up: their processes died, or are still at it.
//!
//! The library behind `client` cannot list them. So it signs the request, `GET /?uploads`, and this reads the answer.

use std::time::Duration;

use object_store::aws::AmazonS3;
use object_store::client::{HttpClient, HttpRequest, HttpRequestBody};
use object_store::path::Path as Key;
use object_store::signer::{SignedUrlOptions, Signer as _};

use super::super::Upload;
use super::client::{self, RequestError};

/// How long a signature counts.
const SIGNED: Duration = Duration::from_secs(600);
/// Pages of the listing that are asked for at most; each has up to 1,000 uploads.
const PAGES: u32 = 1000;

/// Where a page of the listing begins: after an upload of this name and id.
type Marker = (String, String);

/// The text between two tags, the first time.
fn within<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    let (_, from) = text.split_once(&format!("<{tag}>"))?;
    Some(from.split_once(&format!("</{tag}>"))?.0)
}

/// A value without the escapes of XML. Names that gowk gives need none, and prefixes with others are not recognized: their
/// uploads stay.
fn plain(text: &str) -> String {
    let escapes =
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&apos;", "'"), ("&amp;", "&")];
    escapes.into_iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// A page of the listing: the uploads of names below `start`, and where the next page begins.
fn page(text: &str, start: &str) -> Option<(Vec<Upload>, Option<Marker>)> {
    let listing = text.split_once("<ListMultipartUploadsResult")?.1;
    let head = listing.split("<Upload>").next().unwrap_or_default();
    let tail = listing.rsplit("</Upload>").next().unwrap_or_default();
    let value = |tag: &str| within(head, tag).or_else(|| within(tail, tag));
    let uploads = listing.split("<Upload>").skip(1).filter_map(|upload| {
        let (name, id) = (plain(within(upload, "Key")?), plain(within(upload, "UploadId")?));
        Some(Upload { name: name.strip_prefix(start)?.to_owned(), id })
    });
    let next = value("IsTruncated")
        .filter(|more| *more == "true")
        .and_then(|_| Some((plain(value("NextKeyMarker")?), plain(value("NextUploadIdMarker")?))));
    Some((uploads.collect(), next))
}

/// The uploads below a prefix, which ends with a slash or is empty.
pub(super) async fn list(
    store: &AmazonS3,
    http: &HttpClient,
    start: &str,
) -> Result<Vec<Upload>, RequestError> {
    let (mut found, mut from) = (Vec::new(), None);
    for _ in 0..PAGES {
        let text = ask(store, http, start, from.take()).await?;
        let (uploads, next) =
            page(&text, start).ok_or_else(|| RequestError::unclear("the server's answer cannot be read"))?;
        found.extend(uploads);
        from = next;
        if from.is_none() {
            break;
        }
    }
    Ok(found)
}

/// Asks for one page.
async fn ask(
    store: &AmazonS3,
    http: &HttpClient,
    start: &str,
    from: Option<Marker>,
) -> Result<String, RequestError> {
    let mut query = vec![("uploads", String::new()), ("prefix", start.to_owned())];
    if let Some((name, id)) = from {
        query.extend([("key-marker", name), ("upload-id-marker", id)]);
    }
    let options = SignedUrlOptions::new().with_query(query);
    let mut request = HttpRequest::new(HttpRequestBody::empty());
    let method = request.method().clone();
    let signed = store.signed_url_opts(method, &Key::default(), SIGNED, &options).await;
    *request.uri_mut() = signed
        .map_err(RequestError::of)?
        .as_str()
        .parse()
        .map_err(|_| RequestError::unclear("the request has no valid address"))?;
    Ok(String::from_utf8_lossy(&client::ask(http, request).await?).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_read_as_servers_write_them() {
        let one = |name: &str, id: &str| Upload { name: name.to_owned(), id: id.to_owned() };
        let upload = |key: &str, id: &str| {
            format!("<Upload>\n<Key>{key}</Key><UploadId>{id}</UploadId><Owner><ID>x</ID></Owner></Upload>")
        };
        let uploads =
            upload("a&amp;b/runs/1", "i&#39;d") + &upload("other/runs/2", "x") + "<Upload><Key>a</Key>";
        let text = format!(
            "<?xml?><ListMultipartUploadsResult xmlns=\"x\"><IsTruncated>false</IsTruncated>{uploads}\
             </ListMultipartUploadsResult>"
        );
        assert_eq!(page(&text, "a&b/"), Some((vec![one("runs/1", "i'd")], None)));
        let more = "<IsTruncated>true</IsTruncated><NextKeyMarker>k</NextKeyMarker>\
                    <NextUploadIdMarker>u</NextUploadIdMarker>";
        let next = Some(("k".to_owned(), "u".to_owned()));
        let [before, after] = [
            format!("<ListMultipartUploadsResult>{more}{}", upload("k", "u")),
            format!("<ListMultipartUploadsResult>{}{more}", upload("k", "u")),
        ];
        for text in [before, after] {
            assert_eq!(page(&text, ""), Some((vec![one("k", "u")], next.clone())));
        }
        assert_eq!(page("<ListBucketResult></ListBucketResult>", ""), None);
        assert_eq!(page("", ""), None);
    }
}
