use super::*;
use crate::ids::{MessageId, Place, TurnId};
use crate::people::Linked;
use crate::turn::Policy;

const DISCORD: Door = Door::new("discord");

/// 2026-11-20, 23:30.
const NOW: Timestamp = Timestamp(1_795_217_400_000);

const HOUR: u64 = 3_600_000;

fn turn(guild: Option<&str>) -> Turn {
    Turn {
        id: TurnId::of(&MessageId::new(DISCORD, "1")),
        place: Place::new(DISCORD, "42"),
        parent: None,
        guild: guild.map(str::to_owned),
        person: ada(),
        linked: Linked::default(),
        name: "Ada".to_owned(),
        roles: Vec::new(),
        trigger: Trigger::Mention,
        text: "hi".to_owned(),
        quoted: None,
        attachments: Vec::new(),
        locale: None,
        at: NOW,
        policy: Policy::default(),
        given: None,
    }
}

fn ada() -> Person {
    Person::new(DISCORD, "7")
}

fn usage(prompt: u64, completion: u64, cached: u64) -> Usage {
    Usage { prompt, completion, cached, estimated: false }
}

const PRICE: Price = Price { input: 0.15, output: 0.6, cached: 0.08 };

fn effort(usage: Usage, price: Option<Price>) -> Effort {
    let mut effort = Effort { model: Some("fast".to_owned()), usage, ..Effort::default() };
    charge(&mut effort, price, usage);
    effort
}

/// Returns the counters after these increments, as a store holds them.
fn kept(all: impl IntoIterator<Item = Increment>) -> BTreeMap<String, String> {
    let mut sums: BTreeMap<String, Counter> = BTreeMap::new();
    for Increment { key, by, .. } in all {
        let sum = sums.entry(key).or_default();
        *sum = sum.plus(by);
    }
    sums.into_iter().map(|(key, sum)| (key, sum.to_string())).collect()
}

fn rows(kept: BTreeMap<String, String>) -> Vec<(String, String)> {
    kept.into_iter().collect()
}

#[test]
fn a_finished_turn_counts_for_its_member_its_day_and_the_python_bot() {
    let writes = writes(&turn(Some("5")), &effort(usage(1_000, 200, 400), Some(PRICE)), NOW);
    // 600 * 0.15 + 400 * 0.08 + 200 * 0.6
    let counted: Vec<String> = rows(kept(writes.clone())).into_iter().map(|(key, by)| format!("{key} {by}")).collect();
    assert_eq!(
        counted,
        [
            "staffai:counted:discord:7:5 1",
            "staffai:ledger:2026-11-20:discord:5:7 1000 200 400 1 242",
            "staffai:ledger:all:discord:5:7 1000 200 400 1 242",
            "token_stats:daily:5:2026-11-20:7 1200",
            "token_stats:total:5:7 1200",
        ]
    );
    let endless: Vec<_> = writes.iter().filter(|write| write.ttl.is_none()).map(|write| &write.key).collect();
    assert_eq!(endless, ["token_stats:total:5:7"]);
    let daily = writes.iter().find(|write| write.key.starts_with("token_stats:daily")).unwrap();
    assert_eq!(daily.ttl, Some(Duration::from_secs(604_800)));
}

#[test]
fn tokens_without_a_price_have_no_cost_and_are_told_apart() {
    let mut effort = effort(usage(100, 10, 0), None);
    charge(&mut effort, Some(PRICE), usage(1_000_000, 0, 0));
    effort.usage += usage(1_000_000, 0, 0);
    let tally = Tally::of(&effort);
    assert_eq!((tally.micros, tally.unpriced, tally.tokens), (150_000, 110, 1_000_110));
    let free = Price { input: 0.0, output: 0.0, cached: 0.0 };
    let mut effort = Effort { usage: usage(10, 10, 0), ..Effort::default() };
    charge(&mut effort, Some(free), usage(10, 10, 0));
    assert_eq!((Tally::of(&effort).micros, Tally::of(&effort).unpriced), (0, 0));
    let odd = Price { input: -1.0, output: f64::INFINITY, cached: f64::NAN };
    assert_eq!(odd.micros(usage(5, 0, 0)), 0);
}

#[test]
fn a_turn_without_a_model_counts_nothing_and_one_outside_of_communities_only_for_us() {
    assert_eq!(writes(&turn(Some("5")), &Effort::default(), NOW), []);
    let writes = writes(&turn(None), &effort(usage(10, 1, 0), None), NOW);
    assert!(writes.iter().all(|write| write.key.starts_with("staffai:ledger:")), "{writes:?}");
    assert!(writes.iter().any(|write| write.key == "staffai:ledger:2026-11-20:discord:%none:7"));
}

#[test]
fn sums_are_of_today_of_a_week_and_of_all_time() {
    let day = 24 * HOUR;
    let moments = [0, 1, 6, 7, 30].map(|days| Timestamp(NOW.0 - days * day));
    let writes = moments.iter().flat_map(|at| writes(&turn(Some("5")), &effort(usage(100, 10, 0), Some(PRICE)), *at));
    let mut kept = kept(writes);
    let sums = sums(&ada(), Some("5"), NOW, |key| kept.get(key).cloned());
    assert_eq!([sums.today.messages, sums.week.messages, sums.total.messages], [1, 3, 5]);
    assert_eq!([sums.today.tokens, sums.week.tokens, sums.total.tokens], [110, 330, 550]);
    assert_eq!((sums.week.tokens_in, sums.week.tokens_out, sums.week.micros), (300, 30, 63));
    let asked = keys_of_sums(&ada(), Some("5"), NOW);
    assert!(asked.iter().any(|key| key.ends_with("2026-11-14:7")) && asked.len() < 72, "{asked:?}");
    for key in every_key(&ada(), Some("5"), NOW) {
        kept.remove(&key);
    }
    assert_eq!(kept, BTreeMap::new(), "all of it is found by its keys");
}

#[test]
fn what_earlier_versions_counted_in_keys_of_their_own_stays_in_the_sums() {
    let turn = turn(Some("5"));
    let mut kept = kept(writes(&turn, &effort(usage(100, 10, 0), Some(PRICE)), NOW));
    for kind in ["in 7", "out 5", "messages 2", "micros 9"] {
        let (kind, number) = kind.split_once(' ').unwrap();
        for period in ["2026-11-20", "all"] {
            kept.insert(format!("staffai:ledger:{period}:discord:5:7:{kind}"), number.to_owned());
        }
    }
    let sums = sums(&ada(), Some("5"), NOW, |key| kept.get(key).cloned());
    assert_eq!((sums.today, sums.week), (sums.total, sums.total));
    let Tally { tokens, tokens_in, tokens_out, messages, micros, .. } = sums.total;
    assert_eq!([tokens, tokens_in, tokens_out, messages, micros], [122, 107, 15, 3, 30]);
    let seen = overview(&days(NOW, NOW), &rows(kept.clone()), &DISCORD);
    assert_eq!((seen.total.tokens, seen.total.micros, seen.total.messages), (122, 30, 3));
    for key in every_key(&ada(), Some("5"), NOW) {
        kept.remove(&key);
    }
    assert_eq!(kept, BTreeMap::new(), "all of it is found by its keys");
}

#[test]
fn what_the_python_bot_counted_stays_in_the_sums() {
    let mut kept: BTreeMap<String, String> = [
        ("token_stats:total:5:7", "50000"),
        ("token_stats:daily:5:2026-11-20:7", "900"),
        ("token_stats:daily:5:2026-11-18:7", "100"),
        ("staffai:ledger:2026-11-20:discord:5:7:in", "not a number"),
    ]
    .map(|(key, text)| (key.to_owned(), text.to_owned()))
    .into();
    let before = sums(&ada(), Some("5"), NOW, |key| kept.get(key).cloned());
    assert_eq!([before.today.tokens, before.week.tokens, before.total.tokens], [900, 1_000, 50_000]);
    for Increment { key, by, .. } in writes(&turn(Some("5")), &effort(usage(40, 2, 0), None), NOW) {
        let sum = kept.get(&key).and_then(|text| Counter::read(text)).unwrap_or_default().plus(by);
        kept.insert(key, sum.to_string());
    }
    let after = sums(&ada(), Some("5"), NOW, |key| kept.get(key).cloned());
    assert_eq!([after.today.tokens, after.week.tokens, after.total.tokens], [942, 1_042, 50_042]);
    assert_eq!((after.today.tokens_in, after.today.messages), (40, 1));
}

#[test]
fn an_overview_names_members_by_tokens_and_the_bot_apart() {
    let mut all = writes(&turn(Some("5")), &effort(usage(100, 10, 0), Some(PRICE)), NOW);
    all.extend(writes(&turn(Some("6")), &effort(usage(100, 10, 0), Some(PRICE)), NOW));
    let tally = Tally { tokens: 55, tokens_in: 50, tokens_out: 5, messages: 1, ..Tally::default() };
    all.extend(own(&DISCORD, None, PRESENCE, tally, NOW));
    all.extend(writes(&turn(Some("5")), &effort(usage(7, 7, 0), None), Timestamp(NOW.0 + HOUR)));
    let mut rows = rows(kept(all));
    rows.push(("token_stats:daily:5:2026-11-20:8".to_owned(), "500".to_owned()));
    rows.push(("token_stats:daily:5:2026-11-20:9".to_owned(), "junk".to_owned()));
    let overview = |days: &[Date]| overview(days, &rows, &DISCORD);
    let today = overview(&days(NOW, NOW));
    let members: Vec<_> = today.members.iter().map(|(person, tally)| (person.id.as_str(), tally.tokens)).collect();
    assert_eq!(members, [("8", 500), ("7", 220)]);
    assert_eq!(today.own, [(PRESENCE.to_owned(), tally)]);
    assert_eq!((today.total.tokens, today.total.messages), (775, 2), "a status line counts no message");
    let both = overview(&days(NOW, Timestamp(NOW.0 + HOUR)));
    assert_eq!((both.total.tokens, both.members[1].1.tokens), (789, 234));
}

#[test]
fn days_are_counted_in_utc_and_bounded() {
    assert_eq!(date(NOW).to_string(), "2026-11-20");
    assert_eq!(date(Timestamp(NOW.0 + HOUR)).to_string(), "2026-11-21");
    assert_eq!(date(Timestamp(u64::MAX)).to_string(), "1970-01-01");
    assert_eq!(days(NOW, Timestamp(NOW.0 + HOUR)).len(), 2);
    assert_eq!(days(Timestamp(0), NOW).len(), DAYS_MOST);
    assert_eq!(days(Timestamp(NOW.0 + HOUR), NOW), []);
}
