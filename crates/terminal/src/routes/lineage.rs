//! Messages from another server on behalf of its member: they carry the signed lineage of servers.

use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;

use super::problem::refused;
use super::submit::Submit;
use domain::api_key::Caller;
use domain::ids::Timestamp;
use domain::lineage::{Identity, Lineage, LineageRefusal, Message};
use telemetry::events::AGENT_REFUSED;

/// The header with the lineage.
const LINEAGE: &str = "x-staffai-lineage";
/// The header with its signature.
const SIGNATURE: &str = "x-staffai-signature";

/// Returns the verified lineage of a message; `None` if no other server sent it.
pub(super) fn of(
    us: &Identity,
    caller: &Caller,
    headers: &HeaderMap,
    body: &Submit,
    now: Timestamp,
) -> Result<Option<Box<Lineage>>, Box<Response>> {
    let Some(text) = headers.get(LINEAGE) else { return Ok(None) };
    if !body.attachments.is_empty() {
        // The signature covers the text alone.
        return Err(Box::new(refused(StatusCode::BAD_REQUEST, "messages of other servers have no attachments")));
    }
    let text = text.to_str().unwrap_or_default();
    let signature = headers.get(SIGNATURE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let checked = match caller {
        Caller::Local => Err(LineageRefusal::NoKey),
        Caller::Key(key) => {
            let message = Message { session: &body.session, text: &body.text };
            Lineage::check(text, signature, &key.sha256, message, us, now)
        }
    };
    checked.map(|lineage| Some(Box::new(lineage))).map_err(|why| {
        // The reason contains no key and no signature; a name in it is that of this server.
        tracing::warn!(event = AGENT_REFUSED, key = caller.name(), reason = %why, "a message of another server was refused");
        Box::new(refused(status(&why), &why.to_string()))
    })
}

fn status(why: &LineageRefusal) -> StatusCode {
    match why {
        LineageRefusal::Form => StatusCode::BAD_REQUEST,
        LineageRefusal::NoKey
        | LineageRefusal::Signature
        | LineageRefusal::Stale
        | LineageRefusal::Deep(_)
        | LineageRefusal::Spent => StatusCode::FORBIDDEN,
        LineageRefusal::Loop(_) => StatusCode::LOOP_DETECTED,
    }
}
