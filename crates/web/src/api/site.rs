//! The page that a browser asks for, as the browser describes it. Programs that are no browsers send none of these headers.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};

/// The header in which a browser says how the page that asks stands to what it asks.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// The header in which a browser says whether its user goes to a page, or a page asks for something.
pub const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
/// The header in which a browser says what it does with the answer.
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
/// The pages of this program, which a link on another site may open.
const PAGES: [&str; 2] = ["/", "/dashboard"];

/// True if a page of another origin makes this request: an image, a frame, a script, a form, or a call of its own. Another port
/// of this machine is another origin.
pub fn is_foreign(headers: &HeaderMap) -> bool {
    let own = |site: &HeaderValue| matches!(site.as_bytes(), b"same-origin" | b"none");
    let foreign_site = !headers.get_all(FETCH_SITE).iter().all(own);
    foreign_site || (headers.contains_key(header::ORIGIN) && !same_origin(headers))
}

/// True if the user of the browser goes to a place that a link on another site may open: one of our pages, or `is_open`, what
/// is shown to everybody. A frame is no such place, and neither is anything that a form sends.
pub fn follows_a_link(method: &Method, path: &str, headers: &HeaderMap, is_open: bool) -> bool {
    let reads = matches!(*method, Method::GET | Method::HEAD) && !headers.contains_key(header::ORIGIN);
    let says = |name: &HeaderName, wanted: &str| only(headers, name) == Some(wanted);
    reads && says(&FETCH_MODE, "navigate") && says(&FETCH_DEST, "document") && (is_open || PAGES.contains(&path))
}

/// The only value of a header; a request with two values is treated as one without the header.
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
