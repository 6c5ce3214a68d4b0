//! Sends spans in batches. An unreachable collector causes one warning; meanwhile the queue fills, and excess spans are
//! dropped and counted.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::spans::{SCHEMA_URL, attribute};
use super::{ExportError, Post, Source};
use crate::events::{TRACES_RECOVERED, TRACES_UNREACHABLE};
use crate::tally::Tally;
use domain::shed::Shed;

pub(super) type Queued = Span;

/// The most spans of one message.
const BATCH: usize = 512;

/// The interval of sending a batch that is not full.
const EVERY: Duration = Duration::from_secs(5);

/// The timeout of one message.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// The first backoff of a failing collector; doubled each time.
const AGAIN: Duration = Duration::from_secs(1);

/// The longest backoff.
const AGAIN_MAX: Duration = Duration::from_secs(60);

pub(super) struct Exporter {
    waiting: mpsc::Receiver<Queued>,
    resource: Resource,
    scope: InstrumentationScope,
    post: Post,
    stop: CancellationToken,
    tally: Arc<Tally>,
    failing: bool,
}

impl Exporter {
    pub fn new(
        waiting: mpsc::Receiver<Queued>,
        source: &Source,
        post: Post,
        stop: CancellationToken,
        tally: Arc<Tally>,
    ) -> Self {
        let resource = Resource {
            attributes: vec![
                attribute("service.name", Value::StringValue(source.service.clone())),
                attribute("service.version", Value::StringValue(source.version.to_owned())),
            ],
            ..Resource::default()
        };
        let scope = InstrumentationScope {
            name: "staffai".to_owned(),
            version: source.version.to_owned(),
            ..InstrumentationScope::default()
        };
        Self { waiting, resource, scope, post, stop, tally, failing: false }
    }

    /// Sends batches until it is stopped and the queue is empty.
    pub async fn run(mut self) {
        loop {
            let batch = self.batch().await;
            if batch.is_empty() && self.stop.is_cancelled() {
                return;
            }
            if !batch.is_empty() {
                let spans = batch.len();
                let message = self.message(batch);
                self.deliver(message, spans).await;
            }
        }
    }

    /// Returns the queued spans, at most one batch.
    async fn batch(&mut self) -> Vec<Span> {
        let mut batch = Vec::new();
        let fill = async {
            loop {
                let room = BATCH - batch.len();
                if room == 0 || self.waiting.recv_many(&mut batch, room).await == 0 {
                    return;
                }
            }
        };
        tokio::select! {
            biased;
            () = self.stop.cancelled() => {}
            _ = timeout(EVERY, fill) => {}
        }
        while self.stop.is_cancelled() && batch.len() < BATCH {
            let Ok(span) = self.waiting.try_recv() else { break };
            batch.push(span);
        }
        batch
    }

    fn message(&self, spans: Vec<Span>) -> Bytes {
        let scope = ScopeSpans { scope: Some(self.scope.clone()), spans, schema_url: SCHEMA_URL.to_owned() };
        let resource = ResourceSpans {
            resource: Some(self.resource.clone()),
            scope_spans: vec![scope],
            ..ResourceSpans::default()
        };
        ExportTraceServiceRequest { resource_spans: vec![resource] }.encode_to_vec().into()
    }

    /// Retries until the collector accepts the message, rejects it permanently, or the process ends.
    async fn deliver(&mut self, message: Bytes, spans: usize) {
        let mut pause = AGAIN;
        loop {
            let last = self.stop.is_cancelled();
            let answer = timeout(EXPORT_TIMEOUT, (self.post)(message.clone())).await;
            let refusal = match answer {
                Ok(Ok(())) => return self.took(),
                Ok(Err(refusal)) => refusal,
                Err(_) => ExportError::Later(format!("no answer within {EXPORT_TIMEOUT:?}")),
            };
            let (ExportError::Later(reason) | ExportError::Never(reason)) = &refusal;
            self.failed(reason);
            if last || matches!(refusal, ExportError::Never(_)) {
                return self.tally.shed_here(Shed::Traces, spans as u64);
            }
            tokio::select! {
                () = self.stop.cancelled() => {}
                () = sleep(pause) => {}
            }
            pause = AGAIN_MAX.min(pause * 2);
        }
    }

    fn took(&mut self) {
        if std::mem::take(&mut self.failing) {
            tracing::info!(event = TRACES_RECOVERED, "the collector accepts traces again");
        }
    }

    fn failed(&mut self, reason: &str) {
        if !std::mem::replace(&mut self.failing, true) {
            tracing::warn!(event = TRACES_UNREACHABLE, reason, "the collector accepts no traces; the bot retries");
        }
    }
}
