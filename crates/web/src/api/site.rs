//! The origin of a request as a browser describes it (fetch metadata). Other programs send none of these headers.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};

/// The relation of the requesting page's origin to the target.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// The mode of the request: navigation by the user, or a request by a page.
pub const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
/// The use of the response.
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
/// The pages of this program that a link on another site may open.
const PAGES: [&str; 2] = ["/", "/dashboard"];

/// True if a page of another origin sends this request: an image, a frame, a script, a form or a fetch. Another port of
/// this machine is another origin.
pub fn is_foreign(headers: &HeaderMap) -> bool {
    let own = |site: &HeaderValue| matches!(site.as_bytes(), b"same-origin" | b"none");
    let foreign_site = !headers.get_all(FETCH_SITE).iter().all(own);
    foreign_site || (headers.contains_key(header::ORIGIN) && !same_origin(headers))
}

/// True if the user navigates to a resource that links on other sites may open: one of [`PAGES`], or `is_open`, a
/// public one. Frames and form submissions are excluded.
pub fn follows_a_link(method: &Method, path: &str, headers: &HeaderMap, is_open: bool) -> bool {
    let reads = matches!(*method, Method::GET | Method::HEAD) && !headers.contains_key(header::ORIGIN);
    let says = |name: &HeaderName, wanted: &str| only(headers, name) == Some(wanted);
    reads && says(&FETCH_MODE, "navigate") && says(&FETCH_DEST, "document") && (is_open || PAGES.contains(&path))
}

/// Returns the only value of a header; a request with two values is treated as one without the header.
pub fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    if values.next().is_some() {
        return None;
    }
    first.to_str().ok()
}

fn same_origin(headers: &HeaderMap) -> bool {
    let (Some(origin), Some(host)) = (only(headers, &header::ORIGIN), only(headers, &header::HOST)) else {
        return false;
    };
    let site = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    site.is_some_and(|site| site.eq_ignore_ascii_case(host))
}
