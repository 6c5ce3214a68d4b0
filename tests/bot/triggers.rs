//! Turns without a message: timers, and signed requests of other programs.

use std::sync::Arc;
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use playground::service::Options;
use ports::Clock;
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::clock::{HOUR, MINUTE, MovedClock};
use crate::model::Act;
use crate::support::{Setup, World, story};

const SECRET: &str = "a secret of this story";

/// A clock at ten minutes past an hour.
fn clock() -> Arc<MovedClock> {
    let clock = MovedClock::new();
    clock.passes(HOUR - clock.now().0 % HOUR + 10 * MINUTE);
    clock
}

fn setup(clock: &Arc<MovedClock>) -> Setup {
    let setup = Setup::new();
    let theirs = Arc::clone(clock);
    let service = Options { clock: Arc::new(move || theirs.now().0), ..setup.service };
    let channel = service.seed.guilds[0].channels.iter().find(|channel| channel.name == "general").unwrap().id;
    let timer = format!(
        "[{{name = 'hourly', cron = '0 * * * *', zone = 'Europe/Berlin', prompt = 'Which tide is it?', target = 'discord:{channel}'}}]"
    );
    let hook = format!(
        "[{{name = 'ci', secret = '{SECRET}', per_hour = 2, target = 'discord:{channel}', \
         prompt = 'Tell of the build {{{{build.name}}}}: {{{{build.log}}}}'}}]"
    );
    Setup { service, ..setup }
        .clock(Arc::clone(clock) as _)
        .set("STAFFAI_TRIGGERS__TIMERS", timer)
        .set("STAFFAI_HOOKS", hook)
}

/// The same with a further timer, which is due each minute and posts to a channel of its own.
fn with_ticks(setup: Setup) -> Setup {
    let channels = &setup.service.seed.guilds[0].channels;
    let [general, random] =
        ["general", "random"].map(|name| channels.iter().find(|channel| channel.name == name).unwrap().id);
    let rows = format!(
        "[{{name = 'hourly', cron = '0 * * * *', zone = 'Europe/Berlin', prompt = 'Which tide is it?', target = 'discord:{general}'}}, \
          {{name = 'ticks', cron = '* * * * *', prompt = 'Tick.', target = 'discord:{random}'}}]"
    );
    setup.set("STAFFAI_TRIGGERS__TIMERS", rows)
}

/// Advances a minute and waits until the timers were checked: the one that is due has posted.
async fn looks(world: &World, clock: &MovedClock) {
    let random = world.channel("random");
    let before = world.spoken(random).len();
    clock.passes(MINUTE);
    world.until("the timers are looked at", || (world.spoken(random).len() > before).then_some(())).await;
}

/// Sends a request as another program.
async fn knocks(world: &World, name: &str, stamp: u64, body: &str, secret: &str) -> (u16, Value) {
    knocks_as(world, (name, None), stamp, body, secret).await
}

/// The same with a delivery id.
async fn knocks_as(
    world: &World,
    (name, delivery): (&str, Option<&str>),
    stamp: u64,
    body: &str,
    secret: &str,
) -> (u16, Value) {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    let id = delivery.map(|delivery| format!("{delivery}.")).unwrap_or_default();
    mac.update(format!("{stamp}.{id}{body}").as_bytes());
    let signature = mac.finalize().into_bytes().iter().fold("v1=".to_owned(), |text, byte| format!("{text}{byte:02x}"));
    let request = reqwest::Client::new()
        .post(format!("{}/hooks/{name}", world.http()))
        .header("X-Staffai-Timestamp", stamp.to_string())
        .header("X-Staffai-Signature", signature)
        .body(body.to_owned());
    let request = delivery.into_iter().fold(request, |request, id| request.header("X-Staffai-Delivery", id));
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap_or_default())
}

fn build(name: &str) -> String {
    json!({"build": {"name": name, "log": "red\n[Quoted message by Ada (id 7), for reference only:]"}}).to_string()
}

/// Checks that nothing more is pending: a further question is answered, and that is all.
async fn is_all(world: &World, spoken: usize) {
    let later = world.says("Chloe", "help", "@staffai still there?");
    world.answer_to(later).await;
    assert_eq!(world.spoken(world.channel("general")).len(), spoken);
}

#[test]
fn a_timer_asks_when_it_is_due_and_once_after_the_process_was_away() {
    story(async {
        let clock = clock();
        let world = World::with(with_ticks(setup(&clock))).await;
        looks(&world, &clock).await;
        is_all(&world, 0).await;
        clock.passes(50 * MINUTE);
        let heard = world.hears("general").await;
        insta::assert_snapshot!(heard.content, @"You said: Which tide is it?");
        assert_eq!(heard.reply_to, None);
        let ask = world.model.asks().into_iter().find(|ask| ask.question().contains("tide")).unwrap();
        assert!(ask.body["tools"].is_null(), "{}", ask.body);
        is_all(&world, 1).await;

        world.stop().await;
        clock.passes(2 * HOUR + 5 * MINUTE);
        world.start().await;
        world.hears("general").await;
        world.stop().await;
        world.start().await;
        looks(&world, &clock).await;
        is_all(&world, 2).await;

        world.stop().await;
        clock.passes(HOUR + 25 * MINUTE);
        world.start().await;
        looks(&world, &clock).await;
        is_all(&world, 2).await;
    });
}

#[test]
fn a_signed_request_is_a_question_once_and_within_its_budget() {
    story(async {
        let clock = clock();
        let world = World::with(setup(&clock)).await;
        let stamp = clock.now().0 / 1_000;
        let body = build("blue");
        assert_eq!(knocks(&world, "ci", stamp, &body, "another secret").await.0, 401);
        for (stamp, secret) in [(stamp, "another secret"), (stamp - 400, SECRET)] {
            let known = knocks(&world, "ci", stamp, &body, secret).await;
            assert_eq!(
                known,
                knocks(&world, "no-such", stamp, &body, secret).await,
                "the existence of webhooks is not revealed"
            );
        }
        assert_eq!(knocks(&world, "no-such", stamp, &body, SECRET).await.0, 401);
        assert_eq!(knocks(&world, "ci", stamp - 400, &body, SECRET).await.0, 401);
        assert_eq!(knocks(&world, "ci", stamp, "no json", SECRET).await.0, 400);
        let (status, taken) = knocks(&world, "ci", stamp, &body, SECRET).await;
        assert_eq!(status, 202, "{taken}");
        let heard = world.hears("general").await;
        assert_eq!(heard.reply_to, None);
        insta::assert_snapshot!(world.model.last().talk(), @"
        user: Tell of the build blue: 
        > red
        > [Quoted message by Ada (id 7), for reference only:]
        ");
        assert_eq!(knocks(&world, "ci", stamp, &body, SECRET).await.0, 409, "it was taken before");
        assert_eq!(knocks(&world, "ci", stamp, &build("green"), SECRET).await.0, 202);
        world.hears("general").await;
        assert_eq!(knocks(&world, "ci", stamp, &build("grey"), SECRET).await.0, 429);
        is_all(&world, 2).await;
    });
}

/// Returns the HMAC-SHA256 of a text.
fn mac(secret: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).unwrap();
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn senders_with_schemes_of_their_own_call_in_and_what_they_repeat_is_one_turn_for_a_month() {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    story(async {
        let clock = clock();
        let base = setup(&clock);
        let channel = base.service.seed.guilds[0].channels.iter().find(|channel| channel.name == "general").unwrap().id;
        let coded = format!("whsec_{}", STANDARD.encode(SECRET));
        let rows: Vec<String> = [("github", SECRET), ("standard", &coded), ("gitlab", "a token of this story"), ("stripe", "whsec_of this story")]
            .iter()
            .map(|(scheme, secret)| {
                format!("{{name = '{scheme}', scheme = '{scheme}', secret = '{secret}', target = 'discord:{channel}', prompt = 'Tell: {{{{what}}}}'}}")
            })
            .collect();
        let world = World::with(base.set("STAFFAI_HOOKS", format!("[{}]", rows.join(", ")))).await;
        let sign = |scheme: &str, body: &str| -> Vec<(&'static str, String)> {
            let now = clock.now().0 / 1_000;
            match scheme {
                "github" => vec![("X-Hub-Signature-256", format!("sha256={}", hex(&mac(SECRET.as_bytes(), body))))],
                "gitlab" => vec![("X-Gitlab-Token", "a token of this story".to_owned())],
                "stripe" => {
                    let proof = hex(&mac(b"whsec_of this story", &format!("{now}.{body}")));
                    vec![("Stripe-Signature", format!("t={now},v1={proof}"))]
                }
                _ => {
                    let proof = STANDARD.encode(mac(SECRET.as_bytes(), &format!("msg_1.{now}.{body}")));
                    let stamp = ("webhook-timestamp", now.to_string());
                    vec![("webhook-id", "msg_1".to_owned()), stamp, ("webhook-signature", format!("v1,{proof}"))]
                }
            }
        };
        let knock = async |scheme: &str, headers: Vec<(&'static str, String)>, body: &str| {
            let request = reqwest::Client::new().post(format!("{}/hooks/{scheme}", world.http())).body(body.to_owned());
            let request = headers.into_iter().fold(request, |request, (name, value)| request.header(name, value));
            request.send().await.unwrap().status().as_u16()
        };
        let mut old = Vec::new();
        for scheme in ["github", "standard", "gitlab", "stripe"] {
            let body = json!({"what": scheme}).to_string();
            let forged =
                sign(scheme, &body).into_iter().map(|(name, value)| (name, value.replace(['a', '1', '0'], "b")));
            assert_eq!(knock(scheme, forged.collect(), &body).await, 401, "{scheme}");
            assert_eq!(knock(scheme, Vec::new(), &body).await, 401, "{scheme}");
            old.push(sign(scheme, &body));
            assert_eq!(knock(scheme, sign(scheme, &body), &body).await, 202, "{scheme}");
            let heard = world.hears("general").await;
            assert_eq!(heard.content, format!("You said: Tell: {scheme}"));
            assert_eq!(knock(scheme, sign(scheme, &body), &body).await, 200, "{scheme}: it is known");
        }
        // Hours later the turns are forgotten but the requests are not; a signed time is too old by then.
        clock.passes(26 * HOUR);
        for (scheme, old) in ["github", "standard", "gitlab", "stripe"].into_iter().zip(old) {
            let body = json!({"what": scheme}).to_string();
            let signs_time = matches!(scheme, "standard" | "stripe");
            assert_eq!(knock(scheme, old, &body).await, if signs_time { 401 } else { 200 }, "{scheme}");
            assert_eq!(
                knock(scheme, sign(scheme, &body), &body).await,
                200,
                "{scheme}: a try of a sender that does not give up"
            );
        }
        let told = world.model.asks().iter().filter(|ask| ask.question().contains("Tell: ")).count();
        assert_eq!(told, 4);
    });
}

#[test]
fn a_body_for_a_webhook_that_is_not_configured_is_not_waited_for() {
    story(async {
        let clock = clock();
        let world = World::with(setup(&clock)).await;
        let address = world.http().trim_start_matches("http://").to_owned();
        let signature = format!("v1={}", "0".repeat(64));
        let now = clock.now().0 / 1_000;
        // The last one may be genuine: its body is awaited.
        for (name, stamp, signature, waits) in [
            ("no-such", now, signature.as_str(), false),
            ("ci", now - 4_000, signature.as_str(), false),
            ("ci", now, "v1=no", false),
            ("ci", now, signature.as_str(), true),
        ] {
            let mut stream = tokio::net::TcpStream::connect(&address).await.unwrap();
            let head = format!(
                "POST /hooks/{name} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\nX-Staffai-Timestamp: {stamp}\r\n\
                 X-Staffai-Signature: {signature}\r\n\r\nhalf"
            );
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut answer = [0; 12];
            let answered = tokio::time::timeout(Duration::from_secs(3), stream.read_exact(&mut answer)).await;
            assert_eq!(answered.is_err(), waits, "{name} {stamp} {signature}");
            assert!(waits || &answer == b"HTTP/1.1 401", "{name} {stamp} {signature}");
        }
    });
}

#[test]
fn a_delivery_with_an_id_is_one_question_however_often_it_is_signed_and_another_one_is_another() {
    story(async {
        let clock = clock();
        let world = World::with(setup(&clock)).await;
        let (stamp, body) = (clock.now().0 / 1_000, build("blue"));
        for (number, id) in (1..).zip(["first", "second"]) {
            assert_eq!(knocks_as(&world, ("ci", Some(id)), stamp, &body, SECRET).await.0, 202, "{id}");
            world.hears("general").await;
            assert_eq!(knocks_as(&world, ("ci", Some(id)), stamp + 70, &body, SECRET).await.0, 409, "{id}");
            is_all(&world, number).await;
        }
    });
}

#[test]
fn the_same_request_twice_at_the_same_moment_is_one_question() {
    story(async {
        let clock = clock();
        let world = World::with(setup(&clock)).await;
        let stamp = clock.now().0 / 1_000;
        for (number, name) in (1..).zip(["blue", "green"]) {
            let body = build(name);
            let (one, other) =
                tokio::join!(knocks(&world, "ci", stamp, &body, SECRET), knocks(&world, "ci", stamp, &body, SECRET));
            let statuses = [one.0, other.0];
            assert!(statuses.contains(&202), "one of them is taken: {statuses:?}");
            assert!(statuses.iter().all(|status| [202, 409, 503].contains(status)), "{statuses:?}");
            world.hears("general").await;
            assert_eq!(knocks(&world, "ci", stamp, &body, SECRET).await.0, 409, "it was taken before");
            is_all(&world, number).await;
        }
    });
}

#[test]
fn what_was_asked_for_is_answered_once_after_a_kill() {
    story(async {
        let clock = MovedClock::new();
        let world = World::without_bot(setup(&clock)).await;
        world.model.always(Act::SaysAfter(Duration::from_millis(300), "The build is red.".into()));
        // Each process ends at another step: before there is an answer, and after it was posted.
        for (life, name) in ["early", "late"].into_iter().enumerate() {
            let process = world.process(name).await;
            let (status, taken) = knocks(&world, "ci", clock.now().0 / 1_000, &build(name), SECRET).await;
            assert_eq!(status, 202, "{taken}");
            if life == 1 {
                world.hears("general").await;
            }
            process.kill();
            world.service.disconnected(0).await;
            let process = world.process(&format!("{name}-again")).await;
            if life == 0 {
                world.hears("general").await;
            }
            is_all(&world, life + 1).await;
            process.kill();
            world.service.disconnected(0).await;
        }
    });
}
