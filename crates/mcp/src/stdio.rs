//! A server as a child process, with one message per line on its standard input and output. Reading and writing are
//! separate tasks, so that a server that stops reading or floods the client cannot block the other direction.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::exchange::{Exchanges, id_of, is_discovery, not_discoverable};
use super::failure::Failure;
use super::frame::{Frame, Lines};
use super::inquiry::{self, ReplyPath};
use super::process::{Group, Life, Process};

/// The timeout of writing one message, after which the server counts as stalled.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// The timeout of the request for protocol revisions, start included; afterwards the server counts as one of the older
/// generation. A newer server refuses the older handshake, so this mistake only costs a slow start time.
pub(super) const DISCOVER_TIMEOUT: Duration = Duration::from_secs(8);
/// The timeout of reading the last messages of a child that has exited.
const LAST_TIMEOUT: Duration = Duration::from_millis(200);
/// The capacity of the queues of outgoing and of incoming messages.
const WAITING: usize = 256;
const READ_BYTES: usize = 64 * 1024;
/// The size in bytes above which a message is parsed on a blocking thread.
const LARGE_BYTES: usize = 128 * 1024;

struct Outgoing {
    id: Option<RequestId>,
    line: Vec<u8>,
    /// Dropped when the line is written or abandoned.
    _written: Option<oneshot::Sender<()>>,
}

/// The path of replies to the child.
#[derive(Clone)]
struct Replies(mpsc::WeakSender<Outgoing>);

impl ReplyPath for Replies {
    async fn reply(&self, mut line: Vec<u8>) {
        let Some(outgoing) = self.0.upgrade() else { return };
        line.push(b'\n');
        let (written, done) = oneshot::channel();
        if outgoing.send(Outgoing { id: None, line, _written: Some(written) }).await.is_ok() {
            drop(outgoing);
            // Only its end matters.
            let _ = done.await;
        }
    }
}

/// The connection to one child.
pub(super) struct Stdio {
    outgoing: Option<mpsc::Sender<Outgoing>>,
    incoming: mpsc::Receiver<ServerJsonRpcMessage>,
    early: mpsc::WeakSender<ServerJsonRpcMessage>,
    exchanges: Arc<Exchanges>,
    life: Life,
    group: Group,
}

impl Stdio {
    /// Starts the tasks that read and write.
    pub(super) fn new((process, group): (Process, Group), exchanges: Arc<Exchanges>) -> Self {
        let Process { stdin, stdout, life } = process;
        let (outgoing, lines) = mpsc::channel(WAITING);
        let (messages, incoming) = mpsc::channel(WAITING);
        tokio::spawn(write(stdin, lines, Arc::clone(&exchanges), life.clone()));
        let early = messages.downgrade();
        tokio::spawn(read(stdout, messages, Arc::clone(&exchanges), Replies(outgoing.downgrade())));
        Self { outgoing: Some(outgoing), incoming, early, exchanges, life, group }
    }
}

impl Transport<RoleClient> for Stdio {
    type Error = io::Error;

    fn send(&mut self, message: ClientJsonRpcMessage) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.exchanges.outgoing(&message);
        let id = id_of(&message).cloned();
        if let Some(id) = id.clone().filter(|_| is_discovery(&message)) {
            let (exchanges, early) = (Arc::clone(&self.exchanges), self.early.clone());
            tokio::spawn(async move {
                tokio::time::sleep(DISCOVER_TIMEOUT).await;
                if exchanges.waits(&id) {
                    exchanges.forget(&id);
                    if let Some(early) = early.upgrade() {
                        // A lost connection needs no answer.
                        let _ = early.send(not_discoverable(id)).await;
                    }
                }
            });
        }
        let outgoing = self.outgoing.clone();
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
            outgoing.ok_or_else(gone)?.send(Outgoing { id, line, _written: None }).await.map_err(|_| gone())
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        tokio::select! {
            biased;
            message = self.incoming.recv() => return message,
            _ = self.life.ended() => {}
        }
        // Its last messages may still be in the pipe, which a process outside of its group may hold open.
        timeout(LAST_TIMEOUT, self.incoming.recv()).await.ok().flatten()
    }

    async fn close(&mut self) -> io::Result<()> {
        self.outgoing = None;
        self.life.close(self.group).await;
        Ok(())
    }
}

async fn write(mut stdin: ChildStdin, mut lines: mpsc::Receiver<Outgoing>, exchanges: Arc<Exchanges>, life: Life) {
    while let Some(Outgoing { id, line, _written }) = lines.recv().await {
        if id.as_ref().is_some_and(|id| !exchanges.waits(id)) {
            continue;
        }
        let written = timeout(WRITE_TIMEOUT, async {
            stdin.write_all(&line).await?;
            stdin.flush().await
        });
        let why = match written.await {
            Ok(Ok(())) => continue,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the server stopped reading".to_owned(),
        };
        exchanges.fail(id.as_ref(), &Failure::Lost(why));
        life.kill();
        return;
    }
}

async fn read(
    mut stdout: ChildStdout,
    messages: mpsc::Sender<ServerJsonRpcMessage>,
    exchanges: Arc<Exchanges>,
    replies: Replies,
) {
    let (mut lines, mut piece) = (Lines::default(), vec![0; READ_BYTES]);
    loop {
        let Ok(read @ 1..) = next(&mut lines, &mut stdout, &mut piece).await else { return };
        lines.framer.prepare(read, &exchanges.room).await;
        let (mut frames, mut blank) = (Vec::new(), 0);
        lines.push_all(&piece[..read], |line| match line {
            Frame::Whole(line) if line.is_empty() => blank += 1,
            line => frames.push(line),
        });
        exchanges.received(read, blank);
        if exchanges.inquiries.is_shut() {
            return;
        }
        for frame in frames {
            for message in decoded(&exchanges, frame, None, &replies).await {
                if messages.send(message).await.is_err() {
                    return;
                }
            }
            if exchanges.inquiries.is_shut() {
                return;
            }
        }
    }
}

/// Reads the next bytes. An incomplete message releases its memory after its time.
async fn next(lines: &mut Lines, stdout: &mut ChildStdout, piece: &mut [u8]) -> io::Result<usize> {
    let read = std::future::poll_fn(|context| {
        let mut buffer = ReadBuf::new(piece);
        Pin::new(&mut *stdout).poll_read(context, &mut buffer).map_ok(|()| buffer.filled().len())
    });
    lines.framer.next(read).await
}

/// Parses one message, a large one on a blocking thread. Replies to its requests are sent over `path`.
pub(super) async fn decoded(
    exchanges: &Arc<Exchanges>,
    frame: Frame,
    hint: Option<RequestId>,
    path: &impl ReplyPath,
) -> Vec<ServerJsonRpcMessage> {
    let messages = match &frame {
        Frame::Whole(bytes) if bytes.len() > LARGE_BYTES => {
            let place = exchanges.room.reading().await;
            let exchanges = Arc::clone(exchanges);
            let reading = tokio::task::spawn_blocking(move || {
                let _place = place;
                exchanges.incoming(frame, hint.as_ref())
            });
            reading.await.unwrap_or_default()
        }
        _ => exchanges.incoming(frame, hint.as_ref()),
    };
    inquiry::answer(exchanges, path);
    messages
}
