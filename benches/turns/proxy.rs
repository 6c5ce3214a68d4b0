//! A bare streaming proxy in front of the model.

use std::net::SocketAddr;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use tokio::net::TcpListener;

/// The argument that makes this program the proxy; the address of the model follows.
pub const WORD: &str = "--proxy";

/// Serves until it is killed.
pub async fn run(model: SocketAddr) -> std::io::Result<()> {
    // Another part may have installed it already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build().map_err(std::io::Error::other)?;
    let pass = move |method: Method, uri: Uri, body: Bytes| async move {
        match client.request(method, format!("http://{model}{uri}")).body(body).send().await {
            Ok(answer) => Response::new(Body::from_stream(answer.bytes_stream())),
            Err(_) => StatusCode::BAD_GATEWAY.into_response(),
        }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    axum::serve(listener, Router::new().fallback(any(pass))).await
}
