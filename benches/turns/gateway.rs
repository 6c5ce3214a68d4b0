//! The rig's gateway: hello, identify or resume, then events; plain, or as one zlib stream if the client asks for it.

use std::sync::Arc;

use flate2::{Compress, Compression, FlushCompress};
use futures_util::{SinkExt, StreamExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::rig::{Out, Rig};
use crate::wire;

const HELLO: &str = r#"{"t":null,"s":null,"op":10,"d":{"heartbeat_interval":41250,"_trace":[]}}"#;
const ACK: &str = r#"{"t":null,"s":null,"op":11,"d":null}"#;

/// Accepts connections forever.
pub async fn accept(listener: TcpListener, rig: Arc<Rig>) {
    while let Ok((stream, _)) = listener.accept().await {
        let rig = Arc::clone(&rig);
        tokio::spawn(async move {
            // The scene that caused a disconnect handles it.
            let _ = serve(stream, &rig).await;
        });
    }
}

async fn serve(stream: TcpStream, rig: &Rig) -> Result<(), Error> {
    stream.set_nodelay(true)?;
    let mut zlib = false;
    #[expect(clippy::result_large_err, reason = "the library's own type")]
    let look = |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
        zlib = request.uri().query().is_some_and(|query| query.contains("compress=zlib-stream"));
        Ok(response)
    };
    let socket = tokio_tungstenite::accept_hdr_async(stream, look).await?;
    let stream = zlib.then(|| Compress::new(Compression::fast(), true));
    let mut connection = Connection { socket, zlib: stream, queue: None };
    connection.send(HELLO).await?;
    loop {
        tokio::select! {
            biased;
            heard = connection.socket.next() => match heard {
                Some(Ok(Message::Text(text))) => connection.hear(text.as_str(), rig).await?,
                Some(Ok(Message::Close(_)) | Err(_)) | None => return Ok(()),
                Some(Ok(_)) => {}
            },
            out = next(&mut connection.queue) => match out {
                Some(Out::Text(text)) => connection.feed_all(text).await?,
                Some(Out::Cut) | None => return Ok(()),
            },
        }
    }
}

async fn next(queue: &mut Option<mpsc::Receiver<Out>>) -> Option<Out> {
    match queue {
        Some(queue) => queue.recv().await,
        None => std::future::pending().await,
    }
}

struct Connection {
    socket: WebSocketStream<TcpStream>,
    zlib: Option<Compress>,
    queue: Option<mpsc::Receiver<Out>>,
}

impl Connection {
    async fn hear(&mut self, text: &str, rig: &Rig) -> Result<(), Error> {
        match wire::number_behind(text.as_bytes(), "\"op\":") {
            Some(1) => self.send(ACK).await,
            Some(2) => {
                let ready = rig.identify();
                self.send(&ready).await?;
                self.queue = Some(rig.connected());
                Ok(())
            }
            Some(6) => {
                let seen = wire::number_behind(text.as_bytes(), "\"seq\":").unwrap_or(0);
                self.queue = Some(rig.connected());
                for missed in rig.resume(seen) {
                    self.send(&missed).await?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Sends one event and all queued ones, then flushes.
    async fn feed_all(&mut self, first: String) -> Result<(), Error> {
        let frame = self.frame(&first);
        self.socket.feed(frame).await?;
        while let Some(Ok(out)) = self.queue.as_mut().map(mpsc::Receiver::try_recv) {
            let Out::Text(text) = out else { return Err(Error::ConnectionClosed) };
            let frame = self.frame(&text);
            self.socket.feed(frame).await?;
        }
        self.socket.flush().await
    }

    async fn send(&mut self, text: &str) -> Result<(), Error> {
        let frame = self.frame(text);
        self.socket.send(frame).await
    }

    fn frame(&mut self, text: &str) -> Message {
        let Some(stream) = &mut self.zlib else { return Message::text(text) };
        let mut out = Vec::with_capacity(text.len() + 256);
        let before = stream.total_in();
        loop {
            let eaten = usize::try_from(stream.total_in() - before).unwrap_or(0);
            let input = &text.as_bytes()[eaten..];
            stream.compress_vec(input, &mut out, FlushCompress::Sync).expect("memory can be compressed");
            if out.len() < out.capacity() {
                return Message::binary(out);
            }
            out.reserve(4096);
        }
    }
}
