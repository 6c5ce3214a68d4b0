//! Tests over real sockets.

use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::*;

const SETTINGS: Settings = Settings {
    user_agent: "test/1",
    connect_timeout: Duration::from_secs(5),
    idle_timeout: Duration::from_secs(5),
    proxied: false,
    encrypted: false,
};

fn client(proxies: Option<Matcher>) -> HttpClient {
    let _ = rustls::crypto::ring::default_provider().install_default();
    HttpClient::with(SETTINGS, connect::tls(false).unwrap(), proxies)
}

fn post(url: &str) -> Request<Outgoing> {
    Request::post(url).body(Outgoing::Whole("once".into())).unwrap()
}

fn get(url: String) -> Request<Outgoing> {
    Request::get(url).body(Outgoing::EMPTY).unwrap()
}

/// A server that answers each request like this and reports its head, with the number of its connection.
async fn server(answer: &'static str) -> (String, mpsc::UnboundedReceiver<(usize, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (tell, told) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        for number in 0.. {
            let (mut socket, _) = listener.accept().await.unwrap();
            let tell = tell.clone();
            tokio::spawn(async move {
                while let Some(head) = head(&mut socket).await {
                    let tunnel = head.starts_with("CONNECT");
                    tell.send((number, head)).unwrap();
                    if tunnel {
                        socket.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                        return;
                    }
                    socket.write_all(answer.as_bytes()).await.unwrap();
                }
            });
        }
    });
    (address, told)
}

async fn head(socket: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(socket.read_u8().await.ok()?);
    }
    Some(String::from_utf8(head).unwrap())
}

async fn text(mut response: Response) -> String {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.unwrap() {
        body.extend_from_slice(&chunk);
    }
    String::from_utf8(body).unwrap()
}

#[tokio::test]
async fn connections_are_kept_and_requests_say_who_asks() {
    let (address, mut told) = server("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi").await;
    let client = client(None);
    for _ in 0..3 {
        let response = client.send(get(format!("http://{address}/a?b"))).await.unwrap();
        assert_eq!((response.status, response.length()), (StatusCode::OK, Some(2)));
        assert_eq!(text(response).await, "hi");
        let (connection, head) = told.recv().await.unwrap();
        assert_eq!(connection, 0);
        let expected = format!("GET /a?b HTTP/1.1\r\nuser-agent: test/1\r\naccept: */*\r\nhost: {address}\r\n\r\n");
        assert_eq!(head, expected);
    }
}

#[tokio::test]
async fn redirects_are_answers() {
    let (address, mut told) = server("HTTP/1.1 302 Found\r\nlocation: /b\r\ncontent-length: 0\r\n\r\n").await;
    let response = client(None).send(get(format!("http://{address}/a"))).await.unwrap();
    assert_eq!(response.status, StatusCode::FOUND);
    assert!(told.recv().await.is_some() && told.try_recv().is_err());
}

#[tokio::test]
async fn failures_have_their_kind() {
    let unused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let failure = client(None).send(get(format!("http://{unused}/"))).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Connect);
    assert!(!failure.cause.contains(&unused.to_string()), "{}", failure.cause);

    let (address, _told) = server("SSH-2.0\r\n\r\n").await;
    let failure = client(None).send(get(format!("http://{address}/"))).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Broken);

    // A server that answers a TLS handshake in plain text counts as not reached.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        socket.write_all(b"SSH-2.0\r\n\r\n").await.unwrap();
        // Reads until the client closes the connection.
        while socket.read_u8().await.is_ok() {}
    });
    let failure = client(None).send(get(format!("https://{address}/"))).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Connect);
}

#[tokio::test]
async fn a_connection_that_does_not_stand_in_time_is_given_up() {
    // Accepts connections and never answers the handshake.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let _ = rustls::crypto::ring::default_provider().install_default();
    let settings = Settings { connect_timeout: Duration::from_millis(50), ..SETTINGS };
    let client = HttpClient::new(settings).unwrap();
    let failure = client.send(get(format!("https://{address}/"))).await.unwrap_err();
    assert_eq!((failure.kind, failure.cause.as_str()), (FailureKind::Connect, "operation timed out"));
}

#[tokio::test]
async fn proxies_are_used_and_passed_by_as_they_are_told() {
    let (address, mut told) = server("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi").await;
    let proxies = Matcher::builder().all(format!("http://me:pw@{address}")).no("127.0.0.0/8").build();
    let client = client(Some(proxies));

    // Without encryption the proxy reads the request.
    assert_eq!(text(client.send(get("http://service.test/a".to_owned())).await.unwrap()).await, "hi");
    let head = told.recv().await.unwrap().1;
    assert!(head.starts_with("GET http://service.test/a HTTP/1.1\r\n"), "{head}");
    assert!(
        head.contains("host: service.test\r\n") && head.contains("proxy-authorization: Basic bWU6cHc=\r\n"),
        "{head}"
    );

    // Encrypted requests use a tunnel; this one ends before a handshake.
    let failure = client.send(get("https://service.test/a".to_owned())).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Connect);
    let head = told.recv().await.unwrap().1;
    assert!(head.starts_with("CONNECT service.test:443 HTTP/1.1\r\n"), "{head}");
    assert!(head.to_lowercase().contains("proxy-authorization: basic bwu6chc=\r\n"), "{head}");

    let failure = client.send(get("http://127.0.0.1:1/a".to_owned())).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Connect);
    assert!(told.try_recv().is_err());
}

#[tokio::test]
async fn a_body_that_is_cut_is_no_whole_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        head(&mut socket).await.unwrap();
        socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf").await.unwrap();
    });
    let mut response = client(None).send(get(format!("http://{address}/"))).await.unwrap();
    assert_eq!(response.chunk().await, Ok(Some("half".into())));
    assert_eq!(response.chunk().await.unwrap_err().kind, FailureKind::Broken);
}

#[tokio::test]
async fn a_refusal_that_is_read_keeps_its_connection() {
    let (address, mut told) = server("HTTP/1.1 429 Too Many Requests\r\ncontent-length: 4\r\n\r\nwait").await;
    let client = client(None);
    for _ in 0..3 {
        let response = client.send(get(format!("http://{address}/"))).await.unwrap();
        assert_eq!(response.status, StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(text(response).await, "wait");
        assert_eq!(told.recv().await.unwrap().0, 0);
    }
}

#[tokio::test]
async fn an_answer_that_is_not_read_to_its_end_takes_its_connection_along() {
    let (address, mut told) = server("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf").await;
    let client = client(None);
    for expected in 0..3 {
        let mut response = client.send(get(format!("http://{address}/"))).await.unwrap();
        assert_eq!(response.chunk().await, Ok(Some("half".into())));
        assert_eq!(told.recv().await.unwrap().0, expected);
    }
}

#[tokio::test]
async fn a_post_that_meets_a_closed_connection_arrives_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let client = client(None);
    for _ in 0..20 {
        let serving = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            let head = head(&mut socket).await.unwrap();
            let mut body = [0; 4];
            socket.read_exact(&mut body).await.unwrap();
            socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi").await.unwrap();
            // Closes the connection without announcing it.
            (head, body)
        };
        let asking = async { text(client.send(post(&url)).await.unwrap()).await };
        let ((head, body), answer) = tokio::join!(serving, asking);
        assert!(head.starts_with("POST / HTTP/1.1\r\n") && head.contains("content-length: 4\r\n"), "{head}");
        assert_eq!((&body, answer.as_str()), (b"once", "hi"));
    }
}

#[tokio::test]
async fn a_post_without_a_body_says_so() {
    let (address, mut told) = server("HTTP/1.1 204 No Content\r\n\r\n").await;
    let request = Request::post(format!("http://{address}/")).body(Outgoing::EMPTY).unwrap();
    client(None).send(request).await.unwrap();
    let head = told.recv().await.unwrap().1;
    assert!(head.contains("content-length: 0\r\n"), "{head}");
}

/// A self-signed certificate of `localhost`, valid for a hundred years, and its key.
const CERTIFICATE: &[u8] = include_bytes!("tests/certificate.der");
const KEY: &[u8] = include_bytes!("tests/key.der");

/// A server with an untrusted certificate; it returns the bytes that it could read of one connection.
fn encrypted_server() -> (u16, std::thread::JoinHandle<Option<String>>) {
    let certificate = CertificateDer::from(CERTIFICATE);
    let config = rustls::ServerConfig::builder().with_no_client_auth();
    let config = config.with_single_cert(vec![certificate], PrivatePkcs8KeyDer::from(KEY).into()).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let served = std::thread::spawn(move || {
        let (socket, _) = listener.accept().unwrap();
        let connection = rustls::ServerConnection::new(Arc::new(config)).unwrap();
        let mut stream = rustls::StreamOwned::new(connection, socket);
        let mut read = Vec::new();
        while !read.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            std::io::Read::read_exact(&mut stream, &mut byte).ok()?;
            read.extend_from_slice(&byte);
        }
        std::io::Write::write_all(&mut stream, b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi").ok()?;
        String::from_utf8(read).ok()
    });
    (port, served)
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_told_nothing() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    for encrypted in [true, false] {
        let (port, served) = encrypted_server();
        let client = HttpClient::new(Settings { encrypted, ..SETTINGS }).unwrap();
        let failure = client.send(post(&format!("https://localhost:{port}/secret"))).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Connect, "{failure:?}");
        assert_eq!(served.join().unwrap(), None, "encrypted: {encrypted}");
    }
}

#[tokio::test]
async fn a_certificate_counts_for_its_own_host_alone() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    for (host, vouched_for) in [("localhost", true), ("127.0.0.1", false)] {
        let (port, served) = encrypted_server();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from(CERTIFICATE)).unwrap();
        let tls = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let answer = HttpClient::with(SETTINGS, tls, None).send(get(format!("https://{host}:{port}/a"))).await;
        match answer {
            Ok(response) => assert_eq!(text(response).await, "hi"),
            Err(failure) => assert_eq!((failure.kind, vouched_for), (FailureKind::Connect, false), "{failure:?}"),
        }
        assert_eq!(served.join().unwrap().is_some(), vouched_for, "{host}");
    }
}
