use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::super::testing::{TOKEN, access, answer, serve};
use super::*;

const FILE: &str = "/attachments/5/6/cat.png";

fn servers(api_url: &str) -> ContentServers {
    let access = access(api_url);
    ContentServers::new(&access, &Rest::new(&access).unwrap()).unwrap()
}

#[tokio::test]
async fn a_file_is_read_without_the_token() {
    let (base, mut requests) = serve(vec![answer(200, "", "some bytes")]).await;
    let bytes = servers(&base).fetch(&format!("{base}{FILE}?ex=1&is=2"), 10).await.unwrap();
    assert_eq!(bytes, b"some bytes");
    let request = requests.recv().await.unwrap();
    assert_eq!(request.line, format!("GET {FILE}?ex=1&is=2"));
    assert!(!request.headers.contains("authorization") && !request.headers.contains(&TOKEN.to_lowercase()));
}

#[test]
fn only_the_content_servers_are_dialled() {
    let real = servers("https://discord.com");
    for good in [
        "https://cdn.discordapp.com/attachments/1/2/a.png?ex=1",
        "https://media.discordapp.net/ephemeral-attachments/1/2/a",
    ] {
        assert!(real.allowed(good).is_some(), "{good}");
    }
    for bad in [
        "http://cdn.discordapp.com/attachments/1/2/a.png",
        "https://cdn.discordapp.com:8443/attachments/1/2/a.png",
        "https://cdn.discordapp.com.evil.example/attachments/1/2/a.png",
        "https://evil.example/https://cdn.discordapp.com/attachments/1/2/a.png",
        "https://cdn.discordapp.com@evil.example/attachments/1/2/a.png",
        "https://user:pass@cdn.discordapp.com/attachments/1/2/a.png",
        "https://cdn.discordapp.com/attachments/../api/x",
        "https://cdn.discordapp.com/api/v10/users/@me",
        "https://127.0.0.1/attachments/1/2/a.png",
        "http://169.254.169.254/attachments/1/2/a.png",
        "http://[::ffff:169.254.169.254]/attachments/1/2/a.png",
        "http://0x7f000001/attachments/1/2/a.png",
        "http://2130706433/attachments/1/2/a.png",
        "http://localhost/attachments/1/2/a.png",
        "file:///attachments/etc/passwd",
        "data:text/plain,/attachments/",
        "gopher://cdn.discordapp.com/attachments/1",
        "//cdn.discordapp.com/attachments/1",
        "",
        "\u{0}",
    ] {
        assert!(real.allowed(bad).is_none(), "{bad}");
    }
    let local = servers("http://127.0.0.1:8421");
    assert!(local.allowed("http://127.0.0.1:8421/attachments/1/2/a.png").is_some());
    for far in ["https://cdn.discordapp.com/attachments/1/2/a.png", "http://127.0.0.1:8422/attachments/1/2/a.png"] {
        assert!(local.allowed(far).is_none(), "{far}: a local service stores its own files");
    }
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let target = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let inside = format!("location: http://{}/latest/meta-data/\n", target.local_addr().unwrap());
    let metadata = "location: http://169.254.169.254/latest/meta-data/\n";
    let (base, _requests) = serve(vec![answer(302, &inside, ""), answer(307, metadata, "")]).await;
    let servers = servers(&base);
    assert_eq!(servers.fetch(&format!("{base}{FILE}"), 10).await, Err(FetchError::Gone(302)));
    assert_eq!(servers.fetch(&format!("{base}{FILE}"), 10).await, Err(FetchError::Gone(307)));
    let knocked = tokio::time::timeout(Duration::from_millis(200), target.accept()).await;
    assert!(knocked.is_err(), "the redirect was followed");
}

#[tokio::test]
async fn what_is_longer_than_asked_for_is_not_read_to_its_end() {
    let long = answer(200, "", &"x".repeat(11));
    let (base, _requests) = serve(vec![long, answer(404, "", "")]).await;
    let servers = servers(&base);
    assert_eq!(servers.fetch(&format!("{base}{FILE}"), 10).await, Err(FetchError::TooLong));
    assert_eq!(servers.fetch(&format!("{base}{FILE}"), 10).await, Err(FetchError::Gone(404)));
}

/// Starts a server that sends this head and then an endless body.
async fn endless(head: &'static str, piece: &'static [u8], pause: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let _ = socket.read(&mut [0; 4096]).await;
        let _ = socket.write_all(head.as_bytes()).await;
        while socket.write_all(piece).await.is_ok() {
            tokio::time::sleep(pause).await;
        }
    });
    base
}

#[tokio::test]
async fn a_body_without_a_length_and_without_an_end_is_left() {
    let head = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n";
    let base = endless(head, &[b'x'; 4096], Duration::ZERO).await;
    assert_eq!(servers(&base).fetch(&format!("{base}{FILE}"), 100_000).await, Err(FetchError::TooLong));
}

#[tokio::test]
async fn a_server_that_lies_about_its_length_is_cut_off() {
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let base = endless(head, b"5\r\nxxxxx\r\n", Duration::ZERO).await;
    assert_eq!(servers(&base).fetch(&format!("{base}{FILE}"), 1_000).await, Err(FetchError::TooLong));
}

#[tokio::test]
async fn a_server_that_drips_is_left_in_time() {
    let base = endless("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n", b"x", Duration::from_millis(100)).await;
    let begun = Instant::now();
    let failed = servers(&base).fetch(&format!("{base}{FILE}"), 1_000).await;
    assert!(matches!(failed, Err(FetchError::Lost(_))), "{failed:?}");
    assert!(begun.elapsed() < TIMEOUT * 3, "the timeout did not apply");
}
