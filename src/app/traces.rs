//! Exports traces to the configured collector, in builds with that feature.

use ports::Observer;
use settings::edges::Telemetry;
use std::sync::Arc;
use telemetry::Redaction;
use telemetry::tally::Tally;

/// The exporter of traces, if enabled.
pub struct Traces {
    #[cfg(feature = "otlp")]
    sending: Option<telemetry::traces::Traces>,
}

/// The result of starting the exporter.
pub struct Started {
    /// The reader of events that creates spans.
    pub reader: Option<Arc<dyn Observer>>,
    /// The exporter, which the process closes at its end.
    pub traces: Traces,
    /// The reason why configured traces are not exported.
    pub warning: Option<String>,
}

/// Starts the exporter if an endpoint is configured. `redaction` removes secrets from exported content.
#[cfg(feature = "otlp")]
pub fn start(settings: &Telemetry, redaction: &Redaction, tally: &Arc<Tally>) -> Started {
    let nothing = |warning| Started { reader: None, traces: Traces { sending: None }, warning };
    let Some(endpoint) = &settings.endpoint else { return nothing(None) };
    match otlp::post(endpoint, settings.headers.as_ref()) {
        Ok(post) => {
            let source = telemetry::traces::Source {
                service: settings.service_name.clone(),
                version: env!("CARGO_PKG_VERSION"),
            };
            let content = settings.content.then(|| redaction.clone());
            let clock = std::sync::Arc::new(crate::app::system::SystemClock);
            let (reader, sending) = telemetry::traces::start(&source, content, clock, post, Arc::clone(tally));
            Started { reader: Some(reader), traces: Traces { sending: Some(sending) }, warning: None }
        }
        Err(reason) => nothing(Some(format!("no traces are sent: {reason}"))),
    }
}

/// Returns a warning if an endpoint is configured, as this build has no exporter.
#[cfg(not(feature = "otlp"))]
pub fn start(settings: &Telemetry, _redaction: &Redaction, _tally: &Arc<Tally>) -> Started {
    let warning = settings.endpoint.as_ref().map(|_| {
        "telemetry.endpoint (OTEL_EXPORTER_OTLP_ENDPOINT) is set, but this build cannot send traces; \
         build it with `--features otlp`"
            .to_owned()
    });
    Started { reader: None, traces: Traces {}, warning }
}

impl Traces {
    /// Exports the pending spans, with a timeout.
    #[cfg(feature = "otlp")]
    pub async fn close(self) {
        if let Some(sending) = self.sending {
            sending.close().await;
        }
    }

    /// Does nothing.
    #[cfg(not(feature = "otlp"))]
    #[expect(clippy::unused_async, reason = "other builds have something to wait for")]
    pub async fn close(self) {}
}

#[cfg(feature = "otlp")]
mod otlp {
    use std::sync::Arc;
    use std::time::Duration;

    use bytes::Bytes;
    use futures_util::FutureExt;
    use http::header::CONTENT_TYPE;
    use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
    use reqwest::redirect::Policy;
    use secrecy::{ExposeSecret, SecretString};

    use telemetry::traces::{ExportError, Post};

    /// The timeout of connecting, TLS included.
    const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

    /// The timeout of one export request.
    const TIMEOUT: Duration = Duration::from_secs(10);

    pub fn post(endpoint: &str, headers: Option<&SecretString>) -> Result<Post, String> {
        let mut headers = headers.map_or(Ok(HeaderMap::new()), parse)?;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        let client = reqwest::Client::builder()
            .default_headers(headers)
            .timeout(TIMEOUT)
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(Policy::none())
            .no_proxy()
            .build()
            .map_err(|error| error.to_string())?;
        let url = format!("{endpoint}/v1/traces");
        Ok(Arc::new(move |message| send(client.clone(), url.clone(), message).boxed()))
    }

    async fn send(client: reqwest::Client, url: String, message: Bytes) -> Result<(), ExportError> {
        let answer = client.post(url).body(message).send().await;
        let status = answer.map_err(|error| ExportError::Later(told(error)))?.status();
        match status {
            _ if status.is_success() => Ok(()),
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => Err(ExportError::Later(format!("status {status}"))),
            _ => Err(ExportError::Never(format!("status {status}"))),
        }
    }

    /// Returns the whole chain of causes: the outermost alone is not specific.
    fn told(error: reqwest::Error) -> String {
        format!("{:#}", anyhow::Error::new(error.without_url()))
    }

    /// Parses `name=value,name=value`, values with `%` escapes, in OpenTelemetry's format.
    fn parse(text: &SecretString) -> Result<HeaderMap, String> {
        let wrong = || "telemetry.headers (OTEL_EXPORTER_OTLP_HEADERS) is not a list of name=value".to_owned();
        let mut headers = HeaderMap::new();
        for pair in text.expose_secret().split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or_else(wrong)?;
            let name = HeaderName::from_bytes(name.trim().as_bytes()).map_err(|_| wrong())?;
            let mut value = HeaderValue::from_bytes(&unescape(value.trim())).map_err(|_| wrong())?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(headers)
    }

    /// Decodes `%20` and the like; other text is unchanged.
    fn unescape(text: &str) -> Vec<u8> {
        let bytes = text.as_bytes();
        let (mut plain, mut at) = (Vec::with_capacity(bytes.len()), 0);
        while let Some(byte) = bytes.get(at) {
            let escaped = bytes.get(at + 1..at + 3).filter(|_| *byte == b'%');
            let escaped = escaped.and_then(|two| std::str::from_utf8(two).ok());
            match escaped.and_then(|two| u8::from_str_radix(two, 16).ok()) {
                Some(escaped) => {
                    plain.push(escaped);
                    at += 3;
                }
                None => {
                    plain.push(*byte);
                    at += 1;
                }
            }
        }
        plain
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn headers_are_read_as_opentelemetry_writes_them() {
            let text = "authorization=Basic%20dTpw, x-team = a=b%2,".to_owned().into();
            let headers = parse(&text).unwrap();
            assert_eq!(headers["authorization"], "Basic dTpw");
            assert_eq!(headers["x-team"], "a=b%2");
            assert_eq!(headers.len(), 2);
            for wrong in ["token", "a b=c", "a=%0A"] {
                assert!(parse(&wrong.to_owned().into()).is_err(), "{wrong}");
            }
        }
    }
}
