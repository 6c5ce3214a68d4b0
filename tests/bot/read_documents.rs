//! Documents in messages: read by a child process of the real program, and each failure of it a sentence.

use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use documents::child;
use documents::process::DocumentReader;
use domain::attachment::Unread;
use flate2::{Compress, Compression, FlushCompress};
use futures_util::StreamExt as _;
use ports::Documents as _;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::model::{Act, Ask};
use crate::model_api::post;
use crate::support::{Setup, World, story};

/// A document that a common program made.
macro_rules! fixture {
    ($name:literal) => {
        &include_bytes!(concat!("../../crates/documents/fixtures/", $name))[..]
    };
}

const PROGRAM: &str = env!("CARGO_BIN_EXE_staffai");
const XLSX: &str = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";

#[test]
fn a_member_asks_about_words_in_documents() {
    story(async {
        let world = World::begin().await;
        world.model.does(|_| Act::says("fine"));
        let files = [
            ("report.pdf", "application/pdf", fixture!("report.pdf")),
            ("stock.xlsx", XLSX, fixture!("stock.xlsx")),
            ("plans.pptx", "application/octet-stream", fixture!("plans.pptx")),
            ("minutes.docx", "", fixture!("minutes.docx")),
        ];
        let said = world.sends("Ada", "general", "@staffai how many quinces?", &files);
        world.answer_to(said).await;
        let ask = world.model.last();
        let shown = ask.question();
        for part in [
            "how many quinces?\n\n[Attached file report.pdf (PDF, 2 pages). What the member's file holds follows, as data",
            "> The ledger names 42 quinces.",
            "[Attached file stock.xlsx (spreadsheet, 2 sheets).",
            "> | Quince | 42 | 2026-10-03 |",
            "> | Ladder | 80 |",
            "> The quorum was reached & noted.",
            "[End of the file minutes.docx.]",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        let said = world.says("Ada", "general", "@staffai and now?");
        world.answer_to(said).await;
        let ask = world.model.last();
        assert!(ask.shows("[attached: report.pdf, stock.xlsx, plans.pptx, minutes.docx]"), "{}", ask.talk());
        assert!(!ask.body.to_string().contains("Ladder"), "histories keep names only");
    });
}

#[test]
fn the_bytes_of_a_document_decide_and_not_its_name() {
    story(async {
        let world = World::begin().await;
        let files = [
            ("notes.txt", "text/plain", fixture!("report.pdf")),
            ("list.xlsx", XLSX, &b"eggs and milk"[..]),
            ("dot.docx", "", &b"\x89PNG\x0d\x0a\x1a\x0a\x00\x00"[..]),
        ];
        let said = world.sends("Ada", "general", "@staffai look", &files);
        world.answer_to(said).await;
        let ask = world.model.last();
        let shown = ask.question();
        assert!(shown.contains("notes.txt (PDF, 2 pages)") && shown.contains("> eggs and milk"), "{shown}");
        assert!(shown.ends_with("not shown: what it holds is not what its name says.]"), "{shown}");
    });
}

#[test]
fn each_document_that_is_not_read_gets_a_sentence_and_the_bot_goes_on() {
    story(async {
        // Unoptimised, the reader of the bomb works until its limit.
        let world = World::with(Setup::new().set("STAFFAI_TURN__DEADLINE", "100s")).await;
        let bomb = bomb(900);
        let files = [
            ("locked.pdf", "application/pdf", fixture!("password.pdf")),
            ("scan.pdf", "application/pdf", fixture!("scan.pdf")),
            ("half.docx", "", &fixture!("minutes.docx")[..20_000]),
            ("bomb.pdf", "application/pdf", bomb.as_slice()),
        ];
        let said = world.sends("Ada", "general", "@staffai look", &files);
        world.answer_to(said).await;
        let shown = world.model.last().question().to_owned();
        for part in [
            "not shown: it is protected by a password.]",
            "not shown: it contains no text, only pictures or nothing at all.]",
            "not shown: it is damaged or incomplete.]",
            "not shown: reading it takes too much time or memory.]",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        let said = world.sends(
            "Ada",
            "general",
            "@staffai and this?",
            &[("a.pdf", "application/pdf", fixture!("report.pdf"))],
        );
        world.answer_to(said).await;
        assert!(world.model.last().shows("42 quinces"), "the reader of the bomb is given back");
    });
}

#[test]
fn a_long_document_is_cut_to_the_characters_of_the_settings() {
    story(async {
        let setup = Setup::new().set("STAFFAI_ATTACHMENTS__CHARACTERS", 40);
        let world = World::with(setup).await;
        let said =
            world.sends("Ada", "general", "@staffai look", &[("a.pdf", "application/pdf", fixture!("report.pdf"))]);
        world.answer_to(said).await;
        let shown = world.model.last().question().to_owned();
        let end = "> Harvest report of the orchard\n[End of the file a.pdf. It goes on; only its first 39 characters are shown.]";
        assert!(shown.ends_with(end), "{shown}");
        assert!(!shown.contains("pears"), "{shown}");
    });
}

fn data_url(bytes: &[u8], mime: &str) -> String {
    format!("data:{mime};base64,{}", STANDARD.encode(bytes))
}

/// A part of a chat completion with this file.
fn part(name: &str, bytes: &[u8]) -> Value {
    json!({"type": "file", "file": {"filename": name, "file_data": data_url(bytes, "")}})
}

fn chat(parts: &[Value]) -> Value {
    let parts: Vec<Value> = [json!({"type": "text", "text": "how many?"})].into_iter().chain(parts.to_vec()).collect();
    json!({"model": "staffai", "messages": [{"role": "user", "content": parts}]})
}

#[test]
fn files_of_programs_are_read_like_those_of_members() {
    story(async {
        let world = World::begin().await;
        world.model.always(Act::says("Aye."));
        let files = [part("report.pdf", fixture!("report.pdf")), part("notes.csv", b"fruit,count\nquince,7\n")];
        assert_eq!(post(&world, "/v1/chat/completions", &chat(&files)).await.status(), 200);
        let ask = world.model.last();
        for words in
            ["how many?\n\n[Attached file report.pdf (PDF, 2 pages).", "> The ledger names 42 quinces.", "> quince,7"]
        {
            assert!(ask.question().contains(words), "{words}: {}", ask.question());
        }
        let file = json!({"type": "input_file", "filename": "stock.xlsx", "file_data": data_url(fixture!("stock.xlsx"), XLSX)});
        let asked = json!({"model": "staffai", "input": [{"role": "user", "content": [file]}]});
        let response: Value = post(&world, "/v1/responses", &asked).await.json().await.unwrap();
        assert!(world.model.last().question().contains("> | Quince | 42 | 2026-10-03 |"), "{response}");
        let further = json!({"model": "staffai", "input": "and now?", "previous_response_id": response["id"]});
        assert_eq!(post(&world, "/v1/responses", &further).await.status(), 200);
        assert!(world.model.last().talk().contains("> | Quince | 42 |"), "a stored response has the text of its files");
    });
}

#[test]
fn a_program_is_told_which_file_is_not_read_and_why() {
    story(async {
        let world = World::with(Setup::new().set("STAFFAI_ATTACHMENTS__CHARACTERS", 1_000)).await;
        world.model.always(Act::says("Aye."));
        let gif = STANDARD.decode("R0lGODlhAQABAAAAACw=").unwrap();
        let text = part("a.txt", b"text");
        for (files, why) in [
            (
                vec![part("locked.pdf", fixture!("password.pdf"))],
                "the file \"locked.pdf\" is not read: it is protected by a password",
            ),
            (
                vec![text.clone(), part("scan.pdf", fixture!("scan.pdf"))],
                "\"scan.pdf\" is not read: it contains no text",
            ),
            (vec![part("cat.gif", &gif)], "send pictures as parts of type image_url"),
            (vec![part("a.bin", b"\0\x01\x02")], "\"a.bin\" is not read: what it holds is not what its name says"),
            (vec![text.clone(); 5], "at most 4 files"),
            (vec![json!({"type": "file", "file": {"file_id": "file-7"}})], "not fetched"),
        ] {
            let answer = post(&world, "/v1/chat/completions", &chat(&files)).await;
            assert_eq!(answer.status(), 400);
            let error = answer.json::<Value>().await.unwrap()["error"].clone();
            assert_eq!(error["param"], "messages[0].content");
            assert!(error["message"].as_str().is_some_and(|told| told.contains(why)), "{why}: {error}");
        }
        assert_eq!(world.model.calls(), 0);
        let long = part("long.txt", "fig ".repeat(5_000).as_bytes());
        assert_eq!(post(&world, "/v1/chat/completions", &chat(&[long, text])).await.status(), 200);
        let shown = world.model.last().question().to_owned();
        assert!(shown.contains("only its first") && shown.contains("> text") && shown.len() < 1_500, "{shown}");
    });
}

#[test]
fn a_message_of_a_session_has_files_like_one_of_a_platform() {
    story(async {
        // Four readers take their time on a machine with other load.
        let setup = Setup::new().set("STAFFAI_TURN__DEADLINE", "100s");
        let world = World::of_row(setup, r#""vision": true"#).await;
        world.model.always(Act::says("Aye."));
        let file = |name: &str, bytes: &[u8]| json!({"name": name, "data": STANDARD.encode(bytes)});
        let submit = async |files: Value| {
            let body = json!({"session": "main", "text": "look", "wait": true, "attachments": files});
            let answer = post(&world, "/api/v1/submit", &body).await;
            (answer.status().as_u16(), answer.text().await.unwrap())
        };
        let gif = STANDARD.decode("R0lGODlhAQABAAAAACw=").unwrap();
        // Together, they are longer than the body of a request without files.
        let files = [
            file("report.pdf", fixture!("report.pdf")),
            file("minutes.docx", fixture!("minutes.docx")),
            file("plans.pptx", fixture!("plans.pptx")),
            file("locked.pdf", fixture!("password.pdf")),
            file("cat.gif", &gif),
        ];
        assert_eq!(submit(json!(files)).await.0, 200);
        let ask = world.model.last();
        let shown = ask.body["messages"].to_string();
        for words in [
            "The ledger names 42 quinces.",
            "The quorum was reached",
            "Ladder",
            "protected by a password",
            "data:image/gif",
        ] {
            assert!(shown.contains(words), "{words}: {shown}");
        }
        assert_eq!(submit(json!([])).await.0, 200);
        let ask = world.model.last();
        let names = "[attached: report.pdf, minutes.docx, plans.pptx, locked.pdf, cat.gif]";
        assert!(ask.shows(names) && !ask.shows("quinces"), "the history has names only: {}", ask.talk());
        for (files, status, why) in [
            (json!([{"name": "a.pdf", "data": "***"}]), 422, "base64"),
            (json!(vec![file("a.txt", b"a"); 11]), 400, "at most 10 attachments"),
            (json!([file(&"x".repeat(300), b"a")]), 400, "256 bytes"),
            (json!([file("a.txt", &vec![b'a'; 7 << 20])]), 413, "too long"),
        ] {
            let (refused, told) = submit(files).await;
            assert!(refused == status && told.contains(why), "{why}: {refused} {told}");
        }
        assert_eq!(world.model.calls(), 2);
    });
}

/// Returns a PDF whose only page unpacks to this many MiB.
fn bomb(mebibytes: usize) -> Vec<u8> {
    // A block that ends at a byte needs nothing from the blocks before it, so that it can be repeated.
    let mut compress = Compress::new(Compression::best(), false);
    let mut block = Vec::with_capacity(1 << 16);
    compress.compress_vec(&vec![b' '; 1 << 20], &mut block, FlushCompress::Sync).unwrap();
    let stream = [b"\x78\xda".to_vec(), block.repeat(mebibytes)].concat();
    let head =
        b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n\
                 3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Resources<<>>/Contents 4 0 R>>endobj\n";
    let mut file = head.to_vec();
    let at =
        |file: &[u8], object: &str| memchr::memmem::find(file, format!("\n{object} 0 obj").as_bytes()).unwrap() + 1;
    file.extend(format!("4 0 obj<</Filter/FlateDecode/Length {}>>stream\n", stream.len()).into_bytes());
    let offsets: Vec<usize> = ["1", "2", "3", "4"].iter().map(|object| at(&file, object)).collect();
    file.extend(stream);
    file.extend(b"\nendstream endobj\n");
    let table = file.len();
    file.extend(b"xref\n0 5\n0000000000 65535 f \n");
    for offset in offsets {
        file.extend(format!("{offset:010} 00000 n \n").into_bytes());
    }
    file.extend(format!("trailer<</Size 5/Root 1 0 R>>\nstartxref\n{table}\n%%EOF\n").into_bytes());
    file
}

#[tokio::test]
async fn a_document_that_unpacks_beyond_the_memory_of_its_reader_ends_the_reader_alone() {
    let refused = DocumentReader::at(PROGRAM).read(bomb(900), 1_000).await.unwrap_err();
    assert_eq!(refused.why, Unread::Complex, "{refused:?}");
    // A short page of the same form is read, so that the size alone was the reason.
    let empty = DocumentReader::at(PROGRAM).read(bomb(1), 1_000).await.unwrap_err();
    assert_eq!(empty.why, Unread::NoText, "{empty:?}");
}

#[tokio::test]
async fn a_thousand_damaged_documents_are_read_or_refused_in_time() {
    let documents = [
        fixture!("report.pdf"),
        fixture!("stock.xlsx"),
        fixture!("plans.pptx"),
        fixture!("minutes.docx"),
        fixture!("herbs.ods"),
    ];
    let (reader, mut seed) = (DocumentReader::at(PROGRAM), 0x9e37_79b9_7f4a_7c15_u64);
    let mut next = move |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % u64::try_from(below).unwrap()).unwrap()
    };
    let damaged: Vec<Vec<u8>> = (0..1_000)
        .map(|number| {
            let mut bytes = documents[number % documents.len()].to_vec();
            for _ in 0..=next(8) {
                let at = next(bytes.len());
                match next(3) {
                    0 => bytes[at] ^= 1 << next(8),
                    1 => bytes.truncate(at.max(8)),
                    _ => bytes[at..].iter_mut().take(4).for_each(|byte| *byte = 0xff),
                }
            }
            bytes
        })
        .collect();
    let each = damaged.into_iter().map(|bytes| {
        let reader = reader.clone();
        async move { timeout(Duration::from_secs(60), reader.read(bytes, 10_000)).await.expect("each has a deadline") }
    });
    let read: Vec<_> = futures_util::stream::iter(each).buffer_unordered(4).collect().await;
    let (whole, refused): (Vec<_>, Vec<_>) = read.into_iter().partition(Result::is_ok);
    assert!(whole.len() > 10 && refused.len() > 100, "{} read, {} refused", whole.len(), refused.len());
    let busy = refused.iter().filter(|refused| matches!(refused, Err(refused) if refused.why == Unread::Busy)).count();
    assert_eq!(busy, 0, "each reader started");
}

#[test]
fn a_reader_ends_when_its_output_has_no_reader() {
    let start = || {
        let mut command = Command::new(PROGRAM);
        command.args([child::COMMAND, "100"]).env_clear().env("MIMALLOC_ARENA_EAGER_COMMIT", "0");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
    };
    let mut child = start();
    child.stdin.take().unwrap().write_all(fixture!("report.pdf")).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stdout.starts_with(b"{\"Ok\":"), "{output:?}");
    let mut child = start();
    // Its input stays open, so that it waits for the file.
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    drop(stdout);
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(6), "{status:?}");
    drop(stdin);
}

/// Rows at the scripted model's address: one that reads PDF files itself, and its fallback.
const ROWS: &str = r#"{"models": {
    "reader": {"model_id": "reader", "pdf": true, "fallback": ["plain"]},
    "plain": {"model_id": "plain"}}}"#;

async fn reading() -> (World, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let rows = folder.path().join("models.json");
    std::fs::write(&rows, ROWS).unwrap();
    let setup = Setup::new().set("STAFFAI_MODELS", rows.display()).set("LITELLM_MODEL", "reader");
    // Unoptimised, a reader takes its time.
    (World::with(setup.set("STAFFAI_TURN__DEADLINE", "100s")).await, folder)
}

const PDF: &str = "application/pdf";

/// Returns the names and the bytes of the files in the last message of a request.
fn files_of(message: &Value) -> Vec<(String, Vec<u8>)> {
    let parts = message["content"].as_array().cloned().unwrap_or_default();
    let file = |part: &Value| {
        let file = if part["type"] == "file" { &part["file"] } else { part };
        let data = file["file_data"].as_str()?.strip_prefix("data:application/pdf;base64,")?;
        Some((file["filename"].as_str()?.to_owned(), STANDARD.decode(data).unwrap()))
    };
    parts.iter().filter_map(file).collect()
}

fn last_message(ask: &Ask) -> Value {
    ask.body["messages"].as_array().unwrap().last().unwrap().clone()
}

#[test]
fn a_row_that_reads_pdf_files_gets_the_file_and_its_fallback_the_text() {
    story(async {
        let (world, _folder) = reading().await;
        let files = [("report.pdf", PDF, fixture!("report.pdf")), ("scan.pdf", PDF, fixture!("scan.pdf"))];
        let said = world.sends("Ada", "general", "@staffai how many quinces?", &files);
        world.answer_to(said).await;
        let ask = world.model.last();
        let sent = [("report.pdf", fixture!("report.pdf")), ("scan.pdf", fixture!("scan.pdf"))];
        assert_eq!(files_of(&last_message(&ask)), sent.map(|(name, bytes)| (name.to_owned(), bytes.to_vec())));
        let text = "how many quinces?\n[Attached file report.pdf (PDF, 2 pages).]\n[Attached file scan.pdf (PDF).]";
        assert_eq!(last_message(&ask)["content"][0]["text"], text);
        // The next question has their names.
        let said = world.says("Ada", "general", "@staffai and now?");
        world.answer_to(said).await;
        assert!(!world.model.last().body.to_string().contains("base64"));
        assert!(world.model.last().shows("[attached: report.pdf, scan.pdf]"));
        // The fallback cannot read them.
        world.model.does(|ask| if ask.model() == "reader" { Act::Status(503) } else { Act::says("fine") });
        let said = world.sends("Ada", "general", "@staffai once more?", &files);
        assert_eq!(world.words_to(said).await, "fine");
        let ask = world.model.last();
        let shown = ask.question();
        assert_eq!(ask.model(), "plain");
        assert!(shown.contains("> The ledger names 42 quinces."), "{shown}");
        assert!(shown.ends_with("not shown: it contains no text, only pictures or nothing at all.]"), "{shown}");
    });
}

#[test]
fn files_that_a_row_does_not_read_are_text_and_what_cannot_be_read_at_all_is_named() {
    story(async {
        let (world, _folder) = reading().await;
        let files = [
            ("stock.xlsx", XLSX, fixture!("stock.xlsx")),
            ("locked.pdf", PDF, fixture!("password.pdf")),
            ("notes.pdf", PDF, &b"eggs and milk"[..]),
            ("plans.pdf", PDF, fixture!("plans.pptx")),
        ];
        let said = world.sends("Ada", "general", "@staffai look", &files);
        world.answer_to(said).await;
        let ask = world.model.last();
        let shown = ask.question();
        for part in [
            "[Attached file stock.xlsx (spreadsheet, 2 sheets).",
            "locked.pdf (application/pdf, ",
            "not shown: it is protected by a password.]",
            "> eggs and milk",
            "[Attached file plans.pdf (presentation, ",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(last_message(&ask)["content"].is_string(), "no file is sent");
    });
}

#[test]
fn a_provider_that_refuses_files_gets_their_text_in_the_same_turn_and_no_file_for_a_while() {
    story(async {
        let (world, _folder) = reading().await;
        world.model.does(|ask| {
            let refusal = r#"{"error": {"message": "Invalid content type: 'file' is not supported by this model."}}"#;
            if files_of(&last_message(ask)).is_empty() {
                Act::says("fine")
            } else {
                Act::Error(400, refusal.to_owned())
            }
        });
        let files = [("report.pdf", PDF, fixture!("report.pdf"))];
        for calls in [2, 3] {
            let said = world.sends("Ada", "general", "@staffai how many quinces?", &files);
            assert_eq!(world.words_to(said).await, "fine");
            let ask = world.model.last();
            assert_eq!((ask.model(), world.model.calls()), ("reader", calls), "the same row");
            assert!(ask.shows("> The ledger names 42 quinces."), "{}", ask.talk());
        }
    });
}

#[test]
fn the_responses_wire_takes_pdf_files_as_well() {
    story(async {
        let world = World::of_row(Setup::new(), r#""wire": "responses", "pdf": true, "vision": true"#).await;
        let said =
            world.sends("Ada", "general", "@staffai how many quinces?", &[("report", PDF, fixture!("report.pdf"))]);
        world.answer_to(said).await;
        let input = world.model.last().body["responses"]["input"].clone();
        let last = input.as_array().unwrap().last().unwrap().clone();
        assert_eq!(files_of(&last), [("report.pdf".to_owned(), fixture!("report.pdf").to_vec())]);
        assert_eq!(last["content"][1]["type"], "input_file");
    });
}
