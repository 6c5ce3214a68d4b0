//! The proof that another process of the cluster passed a request on, and the client for which it did.
//!
//! The processes on one store share a secret. The process that passes a request on signs the client's address, the
//! address that the client connected to, the method and the target. The receiver then treats the request as one of that
//! client. A mark without a valid signature has no effect, and no mark reaches a handler.

use std::net::IpAddr;

use axum::http::{HeaderName, HeaderValue, Method, Request, Uri};
use parking_lot::RwLock;

use domain::signature::{Signature, SigningKey};

/// The header of the mark: both addresses and the signature, separated by spaces.
pub const PASSED_ON: HeaderName = HeaderName::from_static("x-staffai-passed-on");

/// The secret of the cluster; unknown until the store has answered.
#[derive(Debug, Default)]
pub struct Membership(RwLock<Option<SigningKey>>);

/// The client of a request, as the process in front of it saw its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// The client's address.
    pub client: IpAddr,
    /// The address that the client connected to.
    pub own: IpAddr,
}

/// The extension of a request that had a mark, valid or not.
#[derive(Debug, Clone, Copy)]
pub struct Marked;

impl Membership {
    /// Replaces the secret.
    pub fn learn(&self, secret: &str) {
        *self.0.write() = Some(SigningKey::new(secret));
    }

    /// Returns the mark of a request; `None` while the secret is unknown.
    pub fn mark(&self, origin: Origin, method: &Method, target: &Uri) -> Option<HeaderValue> {
        let Origin { client, own } = origin;
        let signature = self.0.read().as_ref()?.sign(&signed(origin, method, target).each_ref().map(String::as_bytes));
        HeaderValue::from_str(&format!("{client} {own} {signature}")).ok()
    }

    fn origin(&self, mark: &HeaderValue, method: &Method, target: &Uri) -> Option<Origin> {
        let mut words = mark.to_str().ok()?.split(' ');
        let (client, own) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let (origin, signature) = (Origin { client, own }, Signature::read(words.next()?)?);
        let pieces = signed(origin, method, target);
        let is_signed = self.0.read().as_ref()?.signed(&pieces.each_ref().map(String::as_bytes), &signature);
        (is_signed && words.next().is_none()).then_some(origin)
    }
}

/// Returns the signed text. No piece contains the separator.
fn signed(Origin { client, own }: Origin, method: &Method, target: &Uri) -> [String; 4] {
    let target = target.path_and_query().map_or("/", |target| target.as_str());
    [format!("{client}\n"), format!("{own}\n"), format!("{method}\n"), target.to_owned()]
}

/// Removes the mark of a request. Returns the client that it names if a process of the cluster signed it.
pub fn take<Body>(membership: Option<&Membership>, request: &mut Request<Body>) -> Option<Origin> {
    let mark = request.headers_mut().remove(PASSED_ON)?;
    request.extensions_mut().insert(Marked);
    membership?.origin(&mark, request.method(), request.uri())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(secret: &str) -> Membership {
        let membership = Membership::default();
        membership.learn(secret);
        membership
    }

    fn request(method: &Method, target: &str, marks: &[&HeaderValue]) -> Request<()> {
        let mut request = Request::builder().method(method).uri(target).body(()).unwrap();
        for mark in marks {
            request.headers_mut().append(PASSED_ON, (*mark).clone());
        }
        request
    }

    #[test]
    fn a_mark_counts_for_the_request_that_a_member_signed() {
        let (ours, origin) = (known("a"), Origin { client: [203, 0, 113, 7].into(), own: [10, 0, 0, 2].into() });
        let target = || "/v1/models?a=b";
        let mark = ours.mark(origin, &Method::GET, &target().parse().unwrap()).unwrap();
        let taken = |membership: Option<&Membership>, method: &Method, target: &str, mark: &HeaderValue| {
            let mut request = request(method, target, &[mark]);
            let taken = take(membership, &mut request);
            assert!(request.headers().get(PASSED_ON).is_none(), "no handler sees it");
            assert!(request.extensions().get::<Marked>().is_some());
            taken
        };
        assert_eq!(taken(Some(&ours), &Method::GET, target(), &mark), Some(origin));
        assert_eq!(taken(Some(&known("a")), &Method::GET, target(), &mark), Some(origin), "any process of the cluster");
        assert_eq!(taken(Some(&known("b")), &Method::GET, target(), &mark), None, "another cluster");
        assert_eq!(taken(Some(&Membership::default()), &Method::GET, target(), &mark), None, "an unknown secret");
        assert_eq!(taken(None, &Method::GET, target(), &mark), None, "no cluster");
        assert_eq!(taken(Some(&ours), &Method::POST, target(), &mark), None);
        assert_eq!(taken(Some(&ours), &Method::GET, "/v1/models?a=c", &mark), None);
        let text = mark.to_str().unwrap();
        for forged in [
            text.replace("203.0.113.7", "203.0.113.8"),
            text.replace("10.0.0.2", "127.0.0.1"),
            format!("{text} "),
            format!("203.0.113.8 {text}"),
            text.rsplit_once(' ').unwrap().0.to_owned(),
            "127.0.0.1 127.0.0.1 v1=".to_owned() + &"0".repeat(64),
            String::new(),
        ] {
            let forged = HeaderValue::from_str(&forged).unwrap();
            assert_eq!(taken(Some(&ours), &Method::GET, target(), &forged), None, "{forged:?}");
        }
    }

    #[test]
    fn a_request_without_a_mark_is_left_alone() {
        let mut request = request(&Method::GET, "/", &[]);
        assert_eq!(take(Some(&known("a")), &mut request), None);
        assert!(request.extensions().get::<Marked>().is_none());
        assert!(
            Membership::default()
                .mark(Origin { client: [1; 4].into(), own: [1; 4].into() }, &Method::GET, &"/".parse().unwrap())
                .is_none()
        );
        assert_eq!(format!("{:?}", known("a secret")), "Membership(RwLock { data: Some(SigningKey(..)) })");
    }
}
