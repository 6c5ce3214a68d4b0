use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::*;
use crate::{Endpoint, Source};
use domain::ids::{Door, Person, TurnId};
use ports::{WorkRefused, WorkReservation};

/// The beginning of audio, of which the lengths lie.
const WAV: &[u8] = b"RIFF\xff\xff\xff\xffWAVEfmt and so on";

fn person(id: &str) -> Person {
    Person::new(Door::new("terminal"), id)
}

fn command(words: &[&str]) -> Voice {
    let source = Source::Command(words.iter().map(|word| (*word).to_owned()).collect());
    Voice { source, voice: String::new(), format: Format::Wav, timeout: Duration::from_secs(20), price: None }
}

fn synthesis(voices: Vec<Voice>) -> Arc<Synthesis> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Arc::new(Synthesis::new(voices).unwrap())
}

/// Reads a clip to its end.
async fn heard(mut clip: Clip) -> (Vec<u8>, Option<Failure>) {
    let mut bytes = Vec::new();
    loop {
        match clip.next().await {
            Sound::Piece(_, piece) => bytes.extend_from_slice(&piece),
            Sound::End => return (bytes, None),
            Sound::Failed(failure) => return (bytes, Some(failure)),
        }
    }
}

/// A speech service over a real socket. Each request is answered as its text says; `requests` has the texts.
async fn service(requests: mpsc::UnboundedSender<String>) -> Voice {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let requests = requests.clone();
            tokio::spawn(async move {
                let mut asked = Vec::new();
                while !asked.ends_with(b"}") {
                    asked.push(socket.read_u8().await.unwrap());
                }
                let asked = String::from_utf8(asked).unwrap();
                assert!(asked.contains("Bearer k-1") && asked.contains("\"response_format\":\"wav\""), "{asked}");
                let (_, text) = asked.split_once("\"input\":\"").unwrap();
                let text = text.split('"').next().unwrap().to_owned();
                requests.send(text.clone()).unwrap();
                let wav = |length: usize| {
                    let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
                    [head.as_bytes(), WAV].concat()
                };
                let answer = match text.as_str() {
                    "refused" => b"HTTP/1.1 500 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_vec(),
                    "json" => b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"error\": \"out of voices\"}".to_vec(),
                    "short" => wav(WAV.len() * 2),
                    "silent" | "silent too" => std::future::pending().await,
                    "endless" => {
                        socket.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").await.unwrap();
                        while socket.write_all(&[WAV, &[7; 8_192]].concat()).await.is_ok() {}
                        return;
                    }
                    _ => wav(WAV.len()),
                };
                socket.write_all(&answer).await.unwrap();
            });
        }
    });
    Voice {
        source: Source::OpenAi(Endpoint {
            url: format!("http://{address}/v1/audio/speech").parse().unwrap(),
            here: true,
            key: Some("k-1".into()),
            model: "tts-1".to_owned(),
        }),
        voice: "alloy".to_owned(),
        format: Format::Wav,
        timeout: Duration::from_secs(5),
        price: None,
    }
}

#[tokio::test]
async fn a_service_that_fails_lies_or_never_ends_leaves_a_sentence_as_text() {
    let (tell, mut requests) = mpsc::unbounded_channel();
    let voice = Voice { timeout: Duration::from_millis(700), ..service(tell).await };
    let synthesis = synthesis(vec![voice]);
    for (text, expected) in [
        ("refused", Failure::Refused("status 500".to_owned())),
        ("json", Failure::NotAudio),
        ("silent", Failure::Late),
        ("endless", Failure::TooLong),
    ] {
        assert_eq!(heard(synthesis.start(text, &person("1"))).await.1, Some(expected), "{text}");
        assert_eq!(requests.recv().await.as_deref(), Some(text));
    }
    let (bytes, failure) = heard(synthesis.start("short", &person("1"))).await;
    assert!(bytes == WAV && matches!(failure, Some(Failure::Refused(_))), "{failure:?}");
    assert_eq!(heard(synthesis.start("good", &person("1"))).await, (WAV.to_vec(), None));
}

#[tokio::test]
async fn audio_is_cached_and_a_dropped_clip_frees_its_permit() {
    let (tell, mut requests) = mpsc::unbounded_channel();
    let synthesis = synthesis(vec![service(tell).await]);
    for _ in 0..2 {
        assert_eq!(heard(synthesis.start("good", &person("1"))).await, (WAV.to_vec(), None));
    }
    assert_eq!(requests.recv().await.as_deref(), Some("good"));
    let waiting: Vec<Clip> = (0..PERMITS).map(|_| synthesis.start("silent", &person("1"))).collect();
    for _ in 0..PERMITS / 2 {
        assert_eq!(requests.recv().await.as_deref(), Some("silent"), "the second \"good\" was not requested");
    }
    assert_eq!(synthesis.permits.free(), PERMITS / 2, "one person has half of the permits");
    assert_eq!(heard(synthesis.start("other", &person("2"))).await.1, None);
    drop(waiting);
    while synthesis.permits.free() < PERMITS {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn cached_audio_takes_a_permit_until_it_is_read() {
    let (tell, mut requests) = mpsc::unbounded_channel();
    let synthesis = synthesis(vec![service(tell).await]);
    assert_eq!(heard(synthesis.start("good", &person("1"))).await, (WAV.to_vec(), None));
    let unread: Vec<Clip> = (0..4 * PERMITS).map(|at| synthesis.start("good", &person(&at.to_string()))).collect();
    assert_eq!((synthesis.permits.free(), unread.iter().filter(|clip| clip.has_begun()).count()), (0, PERMITS));
    let mut unread = unread.into_iter();
    drop(unread.by_ref().take(PERMITS).collect::<Vec<_>>());
    let last = unread.next().unwrap();
    assert_eq!(heard(last).await, (WAV.to_vec(), None), "it comes from the cache once it has a permit");
    assert_eq!((requests.recv().await.as_deref(), requests.try_recv().ok()), (Some("good"), None));
}

#[tokio::test]
async fn a_command_reads_the_text_and_writes_audio_without_a_shell() {
    let synthesis = synthesis(vec![
        command(&["no-such-program"]),
        command(&["false"]),
        command(&["sh", "-c", "printf 'RIFF....WAVE'; cat", "$HOME; echo"]),
    ]);
    let (bytes, failure) = heard(synthesis.start("it's $HOME", &person("1"))).await;
    assert_eq!((bytes.as_slice(), failure), (b"RIFF....WAVEit's $HOME".as_slice(), None), "earlier voices failed");
}

#[tokio::test]
async fn an_endless_command_is_killed() {
    let endless = command(&["sh", "-c", "printf 'RIFF....WAVE'; exec cat /dev/zero"]);
    assert_eq!(heard(synthesis(vec![endless]).start("x", &person("1"))).await.1, Some(Failure::TooLong));
    let stuck = Voice { timeout: Duration::from_millis(200), ..command(&["sleep", "1000"]) };
    assert_eq!(heard(synthesis(vec![stuck]).start("x", &person("1"))).await.1, Some(Failure::Late));
}

/// Returns the seconds of a WAV file with one channel, in which something is loud.
async fn loud_seconds(synthesis: &Arc<Synthesis>, text: &str) -> f64 {
    let (bytes, failure) = heard(synthesis.start(text, &person("1"))).await;
    assert_eq!(failure, None, "./test installs the programs");
    assert_eq!(bytes[22..24], [1, 0], "channels");
    let mut samples = bytes[44..].chunks_exact(2).map(|sample| i16::from_le_bytes([sample[0], sample[1]]));
    assert!(samples.any(|sample| sample.unsigned_abs() > 1_000), "the audio is not silent");
    let bytes_per_second = u32::from_le_bytes(bytes[28..32].try_into().unwrap());
    f64::from(u32::try_from(bytes.len() - 44).unwrap()) / f64::from(bytes_per_second)
}

#[tokio::test]
async fn espeak_speaks_without_an_account() {
    let synthesis = synthesis(vec![command(&["espeak-ng", "--stdin", "--stdout"])]);
    let seconds = loud_seconds(&synthesis, "Hello there.").await;
    assert!((0.5..3.0).contains(&seconds), "{seconds} seconds");
}

#[tokio::test]
async fn flite_speaks_without_an_account_and_no_shell_reads_the_text() {
    let script = r#"exec flite -voice slt -t "$(cat)" -o /dev/stdout"#;
    let synthesis = synthesis(vec![command(&["sh", "-c", script])]);
    let seconds = loud_seconds(&synthesis, "Hello there.").await;
    assert!((0.5..3.0).contains(&seconds), "{seconds} seconds");
    // Each sign and word of it is spoken; a shell would print nothing, or one word.
    let hostile = r#"-t "; exit 1; echo $(true a long comment of many words); `exit 1` && $NOTHING"#;
    let seconds = loud_seconds(&synthesis, hostile).await;
    assert!(seconds > 3.0, "{seconds} seconds");
}

/// Records what is settled, in millionths of a dollar; refuses all reservations above a limit.
struct Account {
    settled: mpsc::UnboundedSender<u64>,
    limit: u64,
}

#[async_trait::async_trait]
impl WorkMetering for Account {
    async fn reserve(&self, payer: &WorkPayer, work: PaidWork, micros: u64) -> Result<WorkReservation, WorkRefused> {
        if micros > self.limit {
            return Err(WorkRefused(None));
        }
        Ok(WorkReservation { id: TurnId::new(Door::new("terminal"), "1"), payer: payer.clone(), work, priced: true })
    }

    fn settle(&self, _reservation: WorkReservation, micros: u64) {
        self.settled.send(micros).unwrap();
    }
}

#[tokio::test]
async fn what_a_source_may_demand_is_settled_and_a_failure_is_free() {
    let ((tell, mut asked), (settled, mut told)) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
    let _ = rustls::crypto::ring::default_provider().install_default();
    // A dollar per character at the first voice, two at the second.
    let voices = vec![
        Voice { timeout: Duration::from_millis(500), price: Some(1e6), ..service(tell).await },
        Voice {
            price: Some(2e6),
            ..command(&["sh", "-c", "read text; [ \"$text\" = refused ] || printf 'RIFF....WAVE'"])
        },
    ];
    let account = Arc::new(Account { settled, limit: 40_000_000 });
    let synthesis = Arc::new(Synthesis::new(voices).unwrap().counted_by(account));
    // The first voice answers; then it refuses, as does the second; then it sends no audio, and the second answers; then
    // it is late, which it may demand, and the second answers.
    for (text, dollars) in [("fine", 4), ("refused", 0), ("json", 8), ("silent", 18)] {
        heard(synthesis.start(text, &person("1"))).await;
        assert_eq!(told.recv().await, Some(dollars * 1_000_000), "{text}");
        asked.recv().await;
    }
    // A cached text is free.
    assert_eq!(heard(synthesis.start("fine", &person("1"))).await.1, None);
    // A request that is cancelled may be demanded.
    let clip = synthesis.start("silent too", &person("1"));
    assert_eq!(asked.recv().await.as_deref(), Some("silent too"));
    drop(clip);
    assert_eq!(told.recv().await, Some(10_000_000));
    // Over a limit, no source is called.
    let (bytes, failure) = heard(synthesis.start("more than the payer may have", &person("1"))).await;
    assert_eq!((bytes, failure), (Vec::new(), Some(Failure::OverLimit(None))));
    assert!(asked.try_recv().is_err() && told.try_recv().is_err());
}
