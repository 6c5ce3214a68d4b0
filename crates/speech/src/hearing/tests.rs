use std::process::{Command, Stdio};
use std::time::Duration;

use domain::ids::{Door, Person};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::{Endpoint, Source};

fn person() -> Person {
    Person::new(Door::new("terminal"), "1")
}

fn row(words: &[&str], timeout: Duration) -> Ear {
    let source = Source::Command(words.iter().map(|word| (*word).to_owned()).collect());
    Ear { source, language: None, streams: false, timeout, price: None }
}

fn command(script: &str, timeout: Duration) -> Ear {
    row(&["sh", "-c", script], timeout)
}

async fn all(hearing: &Arc<Hearing>, samples: &[u8]) -> Vec<Words> {
    let mut transcription = hearing.start(samples, &person()).unwrap();
    let mut all = Vec::new();
    loop {
        all.push(transcription.next().await);
        if !matches!(all.last(), Some(Words::Partial(_))) {
            return all;
        }
    }
}

/// Returns words as espeak-ng speaks them, at the rate of this module, with silence around them.
fn spoken(words: &str) -> Vec<u8> {
    let output = Command::new("espeak-ng").args(["--stdout", words]).stderr(Stdio::null()).output().unwrap();
    let samples: Vec<i16> =
        output.stdout[44..].chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect();
    // espeak-ng has 22,050 samples per second.
    let count = samples.len() * 16_000 / 22_050;
    let mut bytes = vec![0; 16_000];
    bytes.extend((0..count).flat_map(|n| samples[n * 22_050 / 16_000].to_le_bytes()));
    bytes.extend(vec![0; 48_000]);
    bytes
}

/// Returns words as flite speaks them, at the rate of this module, with silence around them.
fn spoken_by_flite(words: &str) -> Vec<u8> {
    let arguments = ["-voice", "slt", "-t", words, "-o", "/dev/stdout"];
    let output = Command::new("flite").args(arguments).output().expect("flite; ./test installs it");
    assert_eq!(output.stdout[24..28], RATE.to_le_bytes(), "samples per second");
    [&vec![0; 16_000], &output.stdout[44..], &vec![0; 48_000]].concat()
}

fn kinds(found: &[Found]) -> Vec<bool> {
    found.iter().map(|one| matches!(one, Found::Begins)).collect()
}

#[tokio::test]
async fn an_utterance_ends_with_silence_or_with_its_stream() {
    let speech = spoken("what is two plus two");
    let mut hands_free = Listener::new(true);
    let mut found = Vec::new();
    for piece in speech.chunks(640) {
        found.extend(hands_free.push(piece).unwrap());
    }
    assert_eq!(kinds(&found), [true, false]);
    let Some(Found::Ends(utterance)) = found.last() else { panic!("{found:?}") };
    assert!(utterance.len() > 16_000 && utterance.len() < speech.len(), "{}", utterance.len());
    assert_eq!(hands_free.end(), None);

    let mut pushed = Listener::new(false);
    assert_eq!(kinds(&pushed.push(&speech).unwrap()), [true]);
    assert!(pushed.end().is_some());
    let mut silent = Listener::new(false);
    assert_eq!(silent.push(&vec![0; 64_000]).unwrap(), []);
    assert_eq!(silent.end(), None);
}

#[tokio::test(start_paused = true)]
async fn files_half_samples_and_endless_streams_are_refused() {
    for head in [&b"RIFF\x24\xff\xff\x7fWAVE"[..], b"OggS\0\0", b"fLaC", b"ID3\x04", b"\x1a\x45\xdf\xa3"] {
        assert_eq!(Listener::new(true).push(head), Err(Misfit::File));
    }
    let mut listener = Listener::new(false);
    assert_eq!(listener.push(&[0; 3]), Err(Misfit::HalfSample));
    let second = vec![0; 32_000];
    for _ in 0..10 {
        listener.push(&second).unwrap();
    }
    assert_eq!(listener.push(&second), Err(Misfit::TooFast));
    tokio::time::advance(Duration::from_millis(500)).await;
    assert_eq!(listener.push(&second), Ok(Vec::new()));
    assert_eq!(listener.push(&second), Err(Misfit::TooFast));
    listener.restart(true);
    assert_eq!(listener.push(&second), Err(Misfit::TooFast), "a new stream of the same source");
}

#[tokio::test(start_paused = true)]
async fn endless_speech_is_cut_into_bounded_utterances() {
    let speech = spoken("one two three four five six seven eight nine ten");
    let speech = &speech[16_000..speech.len() - 48_000];
    let mut listener = Listener::new(true);
    let mut longest = 0;
    for _ in 0..12 {
        tokio::time::advance(Duration::from_secs(10)).await;
        for found in listener.push(speech).unwrap() {
            if let Found::Ends(utterance) = found {
                longest = longest.max(utterance.len());
            }
        }
    }
    assert!((UTTERANCE_MAX..UTTERANCE_MAX + 512).contains(&longest), "{longest}");
}

#[tokio::test]
async fn a_command_reads_a_wave_file_and_prints_words() {
    // The hexadecimal digits of a header of 44 bytes and of the samples.
    let script = "d=$(od -An -v -tx1 | tr -d ' \\n'); test ${#d} = 2088 || exit 1; \
        case $d in 52494646*) echo one; echo ' two'; printf three;; *) exit 1;; esac";
    let hearing = Arc::new(Hearing::new(vec![command(script, Duration::from_secs(20))]).unwrap());
    let heard = all(&hearing, &[0; 1000]).await;
    assert_eq!(heard.last(), Some(&Words::Final("one two three".to_owned())), "{heard:?}");
}

#[tokio::test]
async fn pocketsphinx_hears_without_an_account() {
    let pocketsphinx = row(&["pocketsphinx_continuous", "-infile", "/dev/stdin"], Duration::from_secs(60));
    let hearing = Arc::new(Hearing::new(vec![pocketsphinx]).unwrap());
    for words in ["good morning", "tell me a long story"] {
        let found = Listener::new(true).push(&spoken_by_flite(words)).unwrap();
        let [Found::Begins, Found::Ends(utterance)] = &found[..] else { panic!("{found:?}") };
        let heard = all(&hearing, utterance).await;
        assert_eq!(heard.last(), Some(&Words::Final(words.to_owned())), "{heard:?}; ./test installs pocketsphinx");
    }
    assert_eq!(all(&hearing, &vec![0; 32_000]).await, [Words::Final(String::new())], "silence has no words");
}

#[tokio::test]
async fn rows_that_fail_are_late_or_never_end_give_way_to_the_next_one() {
    let soon = Duration::from_millis(300);
    let bad = [command("exit 1", soon), command("sleep 60", soon), command("yes", Duration::from_secs(20))];
    let good = command("cat > /dev/null; echo yes", Duration::from_secs(20));
    let hearing = Arc::new(Hearing::new(bad.iter().cloned().chain([good]).collect()).unwrap());
    assert_eq!(all(&hearing, &[0; 10]).await.last(), Some(&Words::Final("yes".to_owned())));
    let hearing = Arc::new(Hearing::new(bad.into()).unwrap());
    assert!(matches!(all(&hearing, &[0; 10]).await.last(), Some(Words::Failed(_))));
}

/// Starts a service with one response, which returns what it was asked.
async fn service(response: impl Into<String>) -> (Ear, tokio::task::JoinHandle<String>) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (listener, response) = (TcpListener::bind("127.0.0.1:0").await.unwrap(), response.into());
    let address = listener.local_addr().unwrap();
    let asked = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let (mut asked, mut buffer) = (Vec::new(), [0; 4096]);
        // The end of the form.
        while !asked.ends_with(b"--\r\n") {
            let many = stream.read(&mut buffer).await.unwrap();
            asked.extend_from_slice(&buffer[..many]);
        }
        stream.write_all(response.as_bytes()).await.unwrap();
        String::from_utf8_lossy(&asked).into_owned()
    });
    let endpoint = Endpoint {
        url: format!("http://{address}/v1/audio/transcriptions").parse().unwrap(),
        here: true,
        key: Some("k-1".into()),
        model: "whisper-1".to_owned(),
    };
    let (source, language) = (Source::OpenAi(endpoint), Some("en".to_owned()));
    (Ear { source, language, streams: true, timeout: Duration::from_secs(20), price: None }, asked)
}

#[tokio::test]
async fn an_endpoint_gets_a_form_and_returns_one_transcript_or_a_stream() {
    let plain =
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n{\"text\":\" two plus  two\"}";
    let (ear, asked) = service(plain).await;
    let hearing = Arc::new(Hearing::new(vec![ear]).unwrap());
    assert_eq!(all(&hearing, &[0; 10]).await, [Words::Final("two plus two".to_owned())]);
    let asked = asked.await.unwrap();
    for part in [
        "POST /v1/audio/transcriptions",
        "Bearer k-1",
        "filename=\"speech.wav\"",
        "whisper-1",
        "\r\n\r\nen\r\n",
        "RIFF",
    ] {
        assert!(asked.contains(part), "{part} is not in {asked}");
    }
    let stream = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n\
        data: {\"type\":\"transcript.text.delta\",\"delta\":\"two\"}\n\ndata: {\"type\":\"transcript.text.delta\",\"delta\":\" plus\"}\n\n\
        data: {\"type\":\"transcript.text.done\",\"text\":\"two plus two\"}\n\n";
    let (ear, _) = service(stream).await;
    let hearing = Arc::new(Hearing::new(vec![ear]).unwrap());
    let expected = [
        Words::Partial("two".to_owned()),
        Words::Partial("two plus".to_owned()),
        Words::Final("two plus two".to_owned()),
    ];
    assert_eq!(all(&hearing, &[0; 10]).await, expected);
    for wrong in ["HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhello", "HTTP/1.1 500 No\r\nconnection: close\r\n\r\n"] {
        let (ear, _) = service(wrong).await;
        let hearing = Arc::new(Hearing::new(vec![ear]).unwrap());
        assert!(matches!(all(&hearing, &[0; 10]).await.last(), Some(Words::Failed(_))), "{wrong}");
    }
}

#[tokio::test]
async fn a_response_or_event_with_too_many_values_is_not_parsed() {
    for (values, heard) in [(1_000, true), (20_000, false)] {
        let words = format!("\"words\":[{}0]", "0,".repeat(values));
        let done = "\"type\":\"transcript.text.done\",\"text\":\"two plus two\"";
        for (kind, body) in [
            ("application/json", format!("{{\"text\":\"two plus two\",{words}}}")),
            ("text/event-stream", format!("data: {{{done},{words}}}\n\n")),
        ] {
            let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n");
            let (ear, _) = service(head + &body).await;
            let hearing = Arc::new(Hearing::new(vec![ear]).unwrap());
            let last = all(&hearing, &[0; 10]).await.pop();
            assert_eq!(last == Some(Words::Final("two plus two".to_owned())), heard, "{kind}: {last:?}");
        }
    }
}
