//! `staffai init`, as an operator runs it before there is any configuration.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use super::{Bench, NOWHERE, Outcome, program, text};

impl Bench {
    /// Runs `init` with these arguments and lines of input.
    async fn init(&self, arguments: &[&str], input: &str) -> Outcome {
        let mut command = program(self.folder.path());
        command.arg("init").args(arguments).env("DISCORD_API_URL", self.service.api_url());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = tokio::task::spawn_blocking(move || child.wait_with_output()).await.unwrap().unwrap();
        Outcome { code: output.status.code().unwrap(), table: text(&output) }
    }

    fn written(&self) -> Option<String> {
        std::fs::read_to_string(self.folder.path().join(".env")).ok()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_answer_every_question_and_the_written_file_is_enough_for_a_run() {
    let bench = Bench::start(|_| {}).await;
    let url = bench.model.base_url();
    let arguments =
        ["--discord-token", bench.service.token(), "--model-url", &url, "--model-key", "", "--model", "demo"];
    let done = bench.init(&arguments, "").await;
    assert_eq!(done.code, 0, "{}", done.table);
    done.has("ok", "discord token", "accepted").has("ok", "discord invite", "&scope=bot%20applications.commands&");
    assert!(!done.table.contains(bench.service.token()), "{}", done.table);
    let file = bench.folder.path().join(".env");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    let mut check = program(bench.folder.path());
    check.arg("check").env("DISCORD_API_URL", bench.service.api_url()).env("STAFFAI_HTTP_ADDR", "127.0.0.1:0");
    let output = tokio::task::spawn_blocking(move || check.output()).await.unwrap().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
}

#[tokio::test(flavor = "multi_thread")]
async fn typed_answers_change_their_lines_alone_and_an_empty_one_keeps_what_the_file_has() {
    let bench = Bench::start(|_| {}).await;
    let before = format!("# mine\nDISCORD_BOT_TOKEN={}\nRESPONSE_CHANCE=0\nLITELLM_MODEL=old\n", bench.service.token());
    let file = bench.folder.path().join(".env");
    std::fs::write(&file, &before).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let done = bench.init(&[], &format!("\n{}\n\ndemo\n", bench.model.base_url())).await;
    assert_eq!(done.code, 0, "{}", done.table);
    let expected =
        before.replace("=old", "=demo") + &format!("LITELLM_API_URL={}\nLITELLM_API_KEY=\n", bench.model.base_url());
    assert_eq!(bench.written().as_deref(), Some(expected.as_str()));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600, "it holds secrets now");

    let spans = format!("{before}NOTICE=\"a\nLITELLM_API_KEY=b\n\"\n");
    std::fs::write(&file, &spans).unwrap();
    let refused = bench.init(&[], &format!("\n{}\nkey\ndemo\n", bench.model.base_url())).await;
    assert!(refused.code == 64 && refused.table.contains("values over several lines"), "{}", refused.table);
    assert_eq!(bench.written().as_deref(), Some(spans.as_str()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_key_is_tested_as_it_will_be_written_although_the_file_has_one() {
    let bench = Bench::start(|_| {}).await;
    std::fs::write(bench.folder.path().join(".env"), "LITELLM_API_KEY=a-key-of-before\n").unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = std::thread::spawn(move || {
        let mut head = [0; 2048];
        let (mut stream, _) = listener.accept().unwrap();
        let read = stream.read(&mut head).unwrap();
        let _ = stream.write_all(b"HTTP/1.1 500 Oops\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        String::from_utf8_lossy(&head[..read]).into_owned()
    });
    let arguments =
        ["--discord-token", bench.service.token(), "--model-url", &url, "--model-key", "", "--model", "demo"];
    assert_eq!(bench.init(&arguments, "").await.code, 1);
    let head = asked.join().unwrap();
    assert!(head.starts_with("POST") && !head.contains("a-key-of-before"), "{head}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_unless_discord_and_the_model_accept_the_answers() {
    let bench = Bench::start(|_| {}).await;
    let (url, token) = (bench.model.base_url(), bench.service.token().to_owned());
    for (token, url, part) in [("someone-elses-token", url.as_str(), "discord token"), (&token, NOWHERE, "model")] {
        let arguments = ["--discord-token", token, "--model-url", url, "--model-key", "", "--model", "demo"];
        let done = bench.init(&arguments, "").await;
        assert_eq!(done.code, 1, "{}", done.table);
        done.has("wrong", part, "");
        assert_eq!(bench.written(), None);
    }
    let prefixed = ["--discord-token", "Bot a.b.c", "--model-url", &url, "--model-key", "", "--model", "demo"];
    let done = bench.init(&prefixed, "").await;
    assert_eq!(done.code, 1, "{}", done.table);
    done.has("wrong", "discord token", "begins with \"Bot\"");
    let missing = bench.init(&["--discord-token", &token], "").await;
    assert!(missing.code == 64 && missing.table.contains("add --model-url"), "{}", missing.table);
    for odd in ["${HOME}", "a\rSTAFFAI_API_KEYS=b"] {
        let odd = bench.init(&["--discord-token", odd], "").await;
        assert!(odd.code == 64 && odd.table.contains("cannot be kept in .env"), "{}", odd.table);
    }
}
