//! Traces for an OpenTelemetry collector, in builds with the feature `otlp`.
//!
//! A turn passes through several actors and may outlive the process, so no task can hold its span open. Spans are
//! therefore created from the events that actors log, which contain durations. The turn's id links them: the ids of the
//! trace and its first span are derived from it, also after a restart. The text of an event never becomes an attribute;
//! [`spans::KEPT`] lists the fields that do, and [`spans::CONTENT`] those that the operator may add.
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
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer};

use self::export::{Exporter, Queued};
use super::ExtraLayer;
use super::redact::Redaction;
use ports::Clock;

/// The most queued spans; further ones are dropped and counted.
const QUEUE: usize = 2048;

/// The timeout of sending the last spans when the process ends.
const CLOSE_WITHIN: Duration = Duration::from_secs(3);

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
        if timeout(CLOSE_WITHIN, &mut self.task).await.is_err() {
            self.task.abort();
        }
    }
}

/// Starts the export. The layer is for the log's subscriber. With `content`, questions and answers are included,
/// redacted by it.
#[must_use]
pub fn start(source: &Source, content: Option<Redaction>, clock: Arc<dyn Clock>, post: Post) -> (ExtraLayer, Traces) {
    let (queue, waiting) = mpsc::channel(QUEUE);
    let stop = CancellationToken::new();
    let exporter = Exporter::new(waiting, source, post, stop.clone());
    let task = tokio::spawn(exporter.run());
    let layer = SpanLayer { queue, clock, content }.with_filter(Targets::new().with_target("staffai", Level::INFO));
    (Box::new(layer), Traces { stop, task })
}

/// Converts events to spans and queues them. Never waits.
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
