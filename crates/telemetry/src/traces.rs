//! Traces for an OpenTelemetry collector, in builds with the feature `otlp`.
//!
//! A turn passes through several actors and may outlive the process, so no task can hold its span open. Spans are
//! therefore created from happenings, which contain durations. The turn's id links them: the ids of the trace and its
//! first span are derived from it, also after a restart. What members and models say becomes an attribute only if the
//! operator enabled it.
//!
//! The protocol is OTLP over HTTP with protobuf: the messages of `opentelemetry-proto`, sent by the caller of
//! [`start`]. That takes seven small crates; the exporters of the SDK would add an HTTP client or tonic, and threads.

pub mod spans;

mod export;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use self::export::{Exporter, Queued};
use super::redact::Redaction;
use super::tally::Tally;
use domain::happening::Happening;
use domain::shed::Shed;
use ports::{Clock, Observer};

/// The most queued spans; further ones are dropped and counted.
const QUEUE: usize = 2048;

/// The timeout of sending the last spans when the process ends.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// The source of spans.
#[derive(Debug, Clone)]
pub struct Source {
    /// The name of the service in the collector.
    pub service: String,
    /// Its version.
    pub version: &'static str,
}

/// The reason why a collector accepted nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExportError {
    /// A retry may succeed.
    Later(String),
    /// A retry of this message is useless.
    Never(String),
}

/// Sends one OTLP message, an `ExportTraceServiceRequest`, to the collector.
pub type Post = Arc<dyn Fn(Bytes) -> BoxFuture<'static, Result<(), ExportError>> + Send + Sync>;

/// The running export.
pub struct Traces {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Traces {
    /// Sends queued spans, for at most three seconds.
    pub async fn close(mut self) {
        self.stop.cancel();
        if timeout(CLOSE_TIMEOUT, &mut self.task).await.is_err() {
            self.task.abort();
        }
    }
}

/// Starts the export of what the returned observer receives. With `content`, questions and answers are included,
/// redacted by it.
#[must_use]
pub fn start(
    source: &Source,
    content: Option<Redaction>,
    clock: Arc<dyn Clock>,
    post: Post,
    tally: Arc<Tally>,
) -> (Arc<dyn Observer>, Traces) {
    let (queue, waiting) = mpsc::channel(QUEUE);
    let stop = CancellationToken::new();
    let exporter = Exporter::new(waiting, source, post, stop.clone(), Arc::clone(&tally));
    let task = tokio::spawn(exporter.run());
    (Arc::new(Spans { queue, clock, content, tally }), Traces { stop, task })
}

/// Converts happenings to spans and queues them. Never waits.
struct Spans {
    queue: mpsc::Sender<Queued>,
    clock: Arc<dyn Clock>,
    content: Option<Redaction>,
    tally: Arc<Tally>,
}

impl Observer for Spans {
    fn observe(&self, happening: &Happening<'_>) {
        for span in spans::of(happening, self.clock.now(), self.content.as_ref()) {
            if self.queue.try_send(span).is_err() {
                self.tally.shed_here(Shed::Traces, 1);
            }
        }
    }
}
