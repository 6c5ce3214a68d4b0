//! Traces for an OpenTelemetry collector. Only in builds with the feature `otlp`.
//!
//! A turn passes through several actors and may outlive the process, so no task could hold a span of it open. Spans are made
//! from the events that the actors log anyway, each of which tells how long something took. What belongs together is known
//! by the turn's id: the trace and its first span are numbered after it, also in the next life of the process. An event's
//! text never becomes an attribute; see [`spans::KEPT`] for what does, and [`spans::CONTENT`] for what the operator may add.
//!
//! The wire is OTLP over HTTP, as protobuf: the messages of `opentelemetry-proto`, carried by the caller of [`start`]. That is
//! seven small crates; the exporters of the SDK would bring an HTTP client or tonic, and threads of their own, besides.

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
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer};

use self::export::{Exporter, Queued};
use super::ExtraLayer;
use super::redact::Redaction;
use ports::Clock;

/// The most spans that wait to be sent; further ones are dropped and counted.
const QUEUE: usize = 2048;

/// How long the last spans may take to be sent when the process ends.
const CLOSE_WITHIN: Duration = Duration::from_secs(3);

/// Whom the spans are from.
#[derive(Debug, Clone)]
pub struct Source {
    /// The name of the service in the collector.
    pub service: String,
    /// Its version.
    pub version: &'static str,
}

/// Why a collector took nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExportError {
    /// It may do so later.
    Later(String),
    /// It never will take this.
    Never(String),
}

/// Sends one OTLP message, an `ExportTraceServiceRequest`, to the collector.
pub type Post = Arc<dyn Fn(Bytes) -> BoxFuture<'static, Result<(), ExportError>> + Send + Sync>;

/// The sending in progress.
pub struct Traces {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Traces {
    /// Sends what still waits, for three seconds at most.
    pub async fn close(mut self) {
        self.stop.cancel();
        if timeout(CLOSE_WITHIN, &mut self.task).await.is_err() {
            self.task.abort();
        }
    }
}

/// Starts sending. The layer is for the log's subscriber. `content`: questions and answers go along, without the secrets that it knows.
#[must_use]
pub fn start(source: &Source, content: Option<Redaction>, clock: Arc<dyn Clock>, post: Post) -> (ExtraLayer, Traces) {
    let (queue, waiting) = mpsc::channel(QUEUE);
    let stop = CancellationToken::new();
    let exporter = Exporter::new(waiting, source, post, stop.clone());
    let task = tokio::spawn(exporter.run());
    let layer = SpanLayer { queue, clock, content }.with_filter(Targets::new().with_target("staffai", Level::INFO));
    (Box::new(layer), Traces { stop, task })
}

/// Makes spans of events and puts them into the queue. Never waits.
struct SpanLayer {
    queue: mpsc::Sender<Queued>,
    clock: Arc<dyn Clock>,
    content: Option<Redaction>,
}

impl<S: Subscriber> Layer<S> for SpanLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = spans::Fields::new(self.content.as_ref());
        event.record(&mut fields);
        for span in spans::of(&fields, self.clock.now()) {
            if self.queue.try_send(span).is_err() {
                export::lost(1);
            }
        }
    }
}
