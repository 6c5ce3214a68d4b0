//! Parsers of single values, from a TOML file and from text alike.
//!
//! Messages never contain the value, because it may be a secret: the report of the problem adds it if it may be
//! displayed.

use std::fmt;
use std::marker::PhantomData;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use secrecy::SecretString;
use serde::de::{DeserializeOwned, Error, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use domain::proxies::Network;
use domain::tool::pattern::NamePattern;

/// The longest emoji in bytes: names of custom ones have at most 32 characters, ids 20 digits.
const EMOJI_BYTES: usize = 64;

/// An uninterpreted value from TOML or a variable.
#[derive(Debug, Clone, PartialEq)]
pub enum Plain {
    /// A boolean, unquoted in TOML.
    Flag(bool),
    /// An integer, unquoted in TOML.
    Whole(i64),
    /// A number with a fraction, unquoted in TOML.
    Fraction(f64),
    /// Text: every variable, and quoted values in TOML.
    Text(String),
    /// A TOML list.
    List(Vec<Plain>),
    /// Another type, such as a table.
    Other,
}

impl Plain {
    /// Returns the value as one line of text; lists become comma lists. `None` for a table.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Flag(flag) => Some(flag.to_string()),
            Self::Whole(number) => Some(number.to_string()),
            Self::Fraction(number) => Some(number.to_string()),
            Self::Text(text) => Some(text.trim().to_owned()),
            Self::List(items) => {
                let items: Option<Vec<String>> = items.iter().map(Self::text).collect();
                items.map(|items| items.join(","))
            }
            Self::Other => None,
        }
    }

    fn items(&self) -> Option<Vec<String>> {
        let items: Vec<String> = match self {
            Self::List(items) => items.iter().map(Self::text).collect::<Option<_>>()?,
            Self::Text(text) => text.split(',').map(|item| item.trim().to_owned()).collect(),
            Self::Whole(number) => vec![number.to_string()],
            Self::Flag(_) | Self::Fraction(_) | Self::Other => return None,
        };
        Some(items.into_iter().filter(|item| !item.is_empty()).collect())
    }
}

impl<'de> Deserialize<'de> for Plain {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Plain;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a setting")
            }
            fn visit_bool<E>(self, flag: bool) -> Result<Plain, E> {
                Ok(Plain::Flag(flag))
            }
            fn visit_i64<E>(self, number: i64) -> Result<Plain, E> {
                Ok(Plain::Whole(number))
            }
            fn visit_u64<E>(self, number: u64) -> Result<Plain, E> {
                Ok(i64::try_from(number).map_or_else(|_| Plain::Text(number.to_string()), Plain::Whole))
            }
            fn visit_f64<E>(self, number: f64) -> Result<Plain, E> {
                Ok(Plain::Fraction(number))
            }
            fn visit_str<E>(self, text: &str) -> Result<Plain, E> {
                Ok(Plain::Text(text.to_owned()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Plain, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(Plain::List(items))
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Plain, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Plain::Other)
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

fn read<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    wanted: &str,
    convert: impl FnOnce(&Plain) -> Option<T>,
) -> Result<T, D::Error> {
    let plain = Plain::deserialize(deserializer)?;
    convert(&plain).ok_or_else(|| D::Error::custom(format!("must be {wanted}")))
}

fn parsed<T: FromStr>(plain: &Plain) -> Option<T> {
    match plain {
        Plain::Whole(_) | Plain::Text(_) => plain.text()?.parse().ok(),
        Plain::Flag(_) | Plain::Fraction(_) | Plain::List(_) | Plain::Other => None,
    }
}

fn listed<T: FromStr>(plain: &Plain) -> Option<Vec<T>> {
    plain.items()?.iter().map(|item| item.parse().ok()).collect()
}

/// Reads an integer of 0 or more, as large as its type allows.
pub fn number<'de, D: Deserializer<'de>, T: FromStr>(deserializer: D) -> Result<T, D::Error> {
    read(deserializer, &whole_from::<T>(0), parsed)
}

/// Describes the integers of an unsigned type from this one. Types of 8 bytes need no upper bound in words.
fn whole_from<T>(least: u8) -> String {
    match size_of::<T>() {
        bytes @ 1..8 => format!("a whole number from {least} to {}", u64::MAX >> (64 - 8 * bytes)),
        _ => format!("a whole number, {least} or more"),
    }
}

/// Reads an integer from 0 to `MOST`.
pub fn up_to<'de, D: Deserializer<'de>, const MOST: usize>(deserializer: D) -> Result<usize, D::Error> {
    read(deserializer, &format!("a whole number from 0 to {MOST}"), |plain| {
        parsed(plain).filter(|number| *number <= MOST)
    })
}

/// Reads an integer of 1 up to `MOST`.
pub fn one_up_to<'de, D: Deserializer<'de>, const MOST: u32>(deserializer: D) -> Result<u32, D::Error> {
    read(deserializer, &format!("a whole number from 1 to {MOST}"), |plain| {
        parsed(plain).filter(|number| (1..=MOST).contains(number))
    })
}

/// Reads an integer of 1 or more.
pub fn at_least_one<'de, D: Deserializer<'de>, T: FromStr + Default + PartialEq>(d: D) -> Result<T, D::Error> {
    read(d, &whole_from::<T>(1), |plain| parsed(plain).filter(|number| *number != T::default()))
}

/// Reads a boolean: the words that the Python bot accepted as true, and their opposites.
pub fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    read(deserializer, "true or false", |plain| match plain {
        Plain::Flag(flag) => Some(*flag),
        other => switch(&other.text()?),
    })
}

/// Parses a word that means true or false; nothing means false.
pub fn switch(word: &str) -> Option<bool> {
    match word.trim().to_lowercase().as_str() {
        "true" | "t" | "1" | "yes" | "y" | "on" => Some(true),
        "false" | "f" | "0" | "no" | "n" | "off" | "" => Some(false),
        _ => None,
    }
}

/// Reads a probability from 0 (never) to 1 (always).
pub fn chance<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    read(deserializer, "a probability from 0 to 1, such as 0.05", |plain| {
        let chance: f64 = plain.text()?.parse().ok()?;
        (0.0..=1.0).contains(&chance).then_some(chance)
    })
}

/// Reads a price in dollars, 0 or more.
pub fn price<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    read(deserializer, "dollars, 0 or more, such as 15 or 0.006", |plain| {
        let dollars: f64 = plain.text()?.parse().ok()?;
        (dollars >= 0.0 && dollars.is_finite()).then_some(Some(dollars))
    })
}

/// Reads an hour of the day, 0 to 24.
pub fn hour<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u8, D::Error> {
    read(deserializer, "an hour from 0 to 24", |plain| parsed(plain).filter(|hour| *hour <= 24))
}

/// Reads days of the week, 0 is Monday. Other numbers are skipped; an empty list means every day.
pub fn days<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    read(deserializer, "a list of days from 0 (Monday) to 6 (Sunday)", |plain| {
        let named: Vec<i64> = listed(plain)?;
        let mut days: Vec<u8> = named.into_iter().filter_map(|day| u8::try_from(day).ok()).collect();
        days.retain(|day| *day <= 6);
        days.sort_unstable();
        days.dedup();
        Some(if days.is_empty() { (0..=6).collect() } else { days })
    })
}

/// Reads a duration of 0 or more.
pub fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    read(deserializer, "a duration such as 30s, 5m, 1h30m, or plain seconds", spoken_duration)
}

/// Reads a duration above 0.
pub fn some_duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    read(deserializer, "a duration above 0, such as 30s, 5m, 1h30m, or plain seconds", |plain| {
        spoken_duration(plain).filter(|duration| !duration.is_zero())
    })
}

/// Reads a duration; a negative one reads as 0, which means off.
pub fn duration_or_off<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    read(deserializer, "a duration such as 30s, 5m, 1h30m, plain seconds, or 0 for off", |plain| {
        match parsed::<i64>(plain) {
            Some(seconds) if seconds < 0 => Some(Duration::ZERO),
            _ => spoken_duration(plain),
        }
    })
}

/// The longest duration; longer ones would overflow timers.
const LONGEST: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

fn spoken_duration(plain: &Plain) -> Option<Duration> {
    match (parsed::<u64>(plain), plain) {
        (Some(seconds), _) => Some(Duration::from_secs(seconds)).filter(|duration| *duration <= LONGEST),
        (None, Plain::Text(text)) => written_duration(text),
        (None, _) => None,
    }
}

/// Reads a positive duration such as `30s`, `1h30m` or `30`.
pub fn written_duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let seconds = text.parse().ok().map(Duration::from_secs);
    seconds.or_else(|| humantime::parse_duration(text).ok()).filter(|duration| *duration <= LONGEST)
}

/// Reads trimmed text; empty means not set.
pub fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = some_text(deserializer)?;
    Ok(Some(text).filter(|text| !text.is_empty()))
}

/// Reads trimmed text.
pub fn some_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    read(deserializer, "text", |plain| match plain {
        Plain::List(_) | Plain::Other => None,
        other => other.text(),
    })
}

/// Reads one emoji, or `name:id` of a custom one; empty means none.
pub fn emoji<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let fits = |emoji: &String| {
        emoji.len() <= EMOJI_BYTES && !emoji.contains(|c: char| c.is_whitespace() || matches!(c, '/' | '.'))
    };
    let emoji = read(deserializer, "one emoji, or name:id of a server's own", |plain| plain.text().filter(fits))?;
    Ok(Some(emoji).filter(|emoji| !emoji.is_empty()))
}

/// Reads a path; empty means not set.
pub fn optional_path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
    Ok(text(deserializer)?.map(PathBuf::from))
}

/// Reads a path.
pub fn path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    optional_path(deserializer)?.ok_or_else(|| D::Error::custom("must be a path"))
}

/// Reads a secret; empty means not set.
pub fn secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SecretString>, D::Error> {
    Ok(text(deserializer)?.map(SecretString::from))
}

/// Reads a comma-separated list or TOML list of secrets.
pub fn secrets<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<SecretString>, D::Error> {
    Ok(texts(deserializer)?.into_iter().map(SecretString::from).collect())
}

/// Reads a comma-separated list or TOML list; blank items are skipped.
pub fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    read(deserializer, "a comma-separated list", Plain::items)
}

/// Reads an id in the format of any door, as number or text; 0 and empty mean not set.
pub fn id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(text(deserializer)?.filter(|id| id != "0"))
}

/// Reads a comma-separated list or TOML list of ports.
pub fn ports<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u16>, D::Error> {
    read(deserializer, "a comma-separated list of ports, each from 1 to 65535", |plain| {
        listed(plain).filter(|ports: &Vec<u16>| !ports.contains(&0))
    })
}

/// The expected form of a web address.
const WEB_ADDRESS: &str = "an address such as https://host or http://host:port/path";

/// Reads an `http` or `https` address with a host; trailing slashes are removed.
pub fn web_address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    read(deserializer, WEB_ADDRESS, |plain| web(&plain.text()?))
}

/// The same; empty means not set.
pub fn optional_web_address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    read(deserializer, WEB_ADDRESS, |plain| {
        let text = plain.text()?;
        if text.is_empty() { Some(None) } else { web(&text).map(Some) }
    })
}

fn web(text: &str) -> Option<String> {
    let address = text.parse::<http::Uri>().ok()?;
    let web = matches!(address.scheme_str(), Some("http" | "https"));
    (web && address.query().is_none()).then(|| text.trim_end_matches('/').to_owned())
}

/// Reads a pattern of tool names.
pub fn pattern<'de, D: Deserializer<'de>>(deserializer: D) -> Result<NamePattern, D::Error> {
    let text = some_text(deserializer)?;
    text.parse().map_err(|wanted| D::Error::custom(format!("must be {wanted}")))
}

/// Reads a comma-separated list or TOML list of items for a type's `FromStr`, with their capitals: names of tools may have
/// them.
pub fn items<'de, D: Deserializer<'de>, T: FromStr<Err = &'static str>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let wrong = |wanted| D::Error::custom(format!("must be a comma-separated list, each item {wanted}"));
    texts(deserializer)?.iter().map(|item| item.parse().map_err(wrong)).collect()
}

/// The same in lower case.
pub fn words<'de, D: Deserializer<'de>, T: FromStr<Err = &'static str>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let wrong = |wanted| D::Error::custom(format!("must be a comma-separated list, each item {wanted}"));
    texts(deserializer)?.iter().map(|item| item.to_lowercase().parse().map_err(wrong)).collect()
}

/// Reads one of the words accepted by a type's `FromStr`.
pub fn word<'de, D: Deserializer<'de>, T: FromStr<Err = &'static str>>(deserializer: D) -> Result<T, D::Error> {
    let word = some_text(deserializer)?;
    word.to_lowercase().parse().map_err(|wanted| D::Error::custom(format!("must be {wanted}")))
}

/// The same; absent or empty means not set.
pub fn optional_word<'de, D: Deserializer<'de>, T: FromStr<Err = &'static str>>(d: D) -> Result<Option<T>, D::Error> {
    let word = some_text(d)?.to_lowercase();
    let read = || word.parse().map_err(|wanted| D::Error::custom(format!("must be {wanted}")));
    if word.is_empty() { Ok(None) } else { read().map(Some) }
}

/// The expected form of a listen address.
const LISTEN_ADDRESS: &str = "an address and port such as 127.0.0.1:8420 or 0.0.0.0:8420";

/// Reads a listen address with port; `localhost` means the loopback address.
pub fn listen_address<'de, D: Deserializer<'de>>(d: D) -> Result<SocketAddr, D::Error> {
    read(d, LISTEN_ADDRESS, |plain| listen(&plain.text()?))
}

/// The same; empty means not set.
pub fn optional_listen_address<'de, D: Deserializer<'de>>(d: D) -> Result<Option<SocketAddr>, D::Error> {
    read(d, LISTEN_ADDRESS, |plain| {
        let text = plain.text()?;
        if text.is_empty() { Some(None) } else { listen(&text).map(Some) }
    })
}

/// Reads a host and a port, which other machines can resolve; empty means not set.
pub fn host_and_port<'de, D: Deserializer<'de>>(d: D) -> Result<Option<String>, D::Error> {
    read(d, "a host and a port such as 10.0.0.5:8420 or bot-1.internal:8420, not 0.0.0.0", |plain| {
        let text = plain.text()?;
        if text.is_empty() {
            return Some(None);
        }
        let place = text.parse::<http::uri::Authority>().ok()?;
        let is_place = place.port_u16().is_some_and(|port| port > 0) && !place.host().is_empty();
        let is_any = domain::host::bare(place.host()).parse::<IpAddr>().is_ok_and(|address| address.is_unspecified());
        (is_place && !is_any && !text.contains('@')).then_some(Some(text))
    })
}

/// Reads a comma-separated list or TOML list of such addresses.
pub fn listen_addresses<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<SocketAddr>, D::Error> {
    read(d, "a comma-separated list of addresses and ports such as 127.0.0.1:11434", |plain| {
        plain.items()?.iter().map(|item| listen(item)).collect()
    })
}

/// Reads a comma-separated list or TOML list of sites without a path; `*` means all.
pub fn origins<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<String>, D::Error> {
    read(d, "a comma-separated list of sites such as https://chat.example, or * for all", |plain| {
        let is_site = |site: &str| {
            site.split_once("://")
                .is_some_and(|(scheme, host)| !scheme.is_empty() && !host.is_empty() && !host.contains('/'))
        };
        let sites = plain.items()?;
        sites.iter().all(|site| site == "*" || is_site(site)).then_some(sites)
    })
}

/// Reads a comma-separated list or TOML list of addresses and networks.
pub fn networks<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<Network>, D::Error> {
    read(d, "a comma-separated list of addresses or networks such as 10.0.0.0/8", |plain| {
        plain.items()?.iter().map(|text| text.parse().ok()).collect()
    })
}

fn listen(text: &str) -> Option<SocketAddr> {
    text.replace("localhost:", "127.0.0.1:").parse().ok()
}

/// Reads rows from their tables, or returns all of their mistakes with row numbers.
fn all_rows<T: DeserializeOwned, E: Error>(values: impl IntoIterator<Item = toml::Value>) -> Result<Vec<T>, E> {
    let (mut rows, mut mistakes) = (Vec::new(), Vec::new());
    for (number, value) in (1..).zip(values) {
        match super::row::read(value) {
            Ok(row) => rows.push(row),
            Err(more) if mistakes.len() < super::row::MISTAKES_MAX => {
                mistakes.extend(more.into_iter().map(|mistake| format!("row {number}: {mistake}")));
            }
            Err(_) => {}
        }
    }
    if mistakes.is_empty() { Ok(rows) } else { Err(E::custom(mistakes.join("; "))) }
}

/// Parses the tables of a list given as text, as in a variable: `[{tools = "x", verdict = "ask"}]`.
///
/// # Errors
/// The mistake, and the expected form.
pub fn tables(text: &str) -> Result<Vec<toml::Value>, String> {
    #[derive(Deserialize)]
    struct Wrapper {
        rows: Vec<toml::Value>,
    }
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let read = toml::from_str(&format!("rows = {text}"));
    read.map(|Wrapper { rows }| rows).map_err(|error| {
        format!("is not a list of tables ({}); write a list of tables, such as [{{key = \"value\"}}]", error.message())
    })
}

/// Reads TOML tables as rows; in a variable, the same as inline TOML: `[{tools = "x", verdict = "ask"}]`.
pub fn rows<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<Vec<T>, D::Error> {
    struct Rows<T>(PhantomData<T>);
    impl<'de, T: DeserializeOwned> Visitor<'de> for Rows<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
            f.write_str("a list of tables")
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
            let mut values = Vec::new();
            while let Some(value) = seq.next_element::<toml::Value>()? {
                values.push(value);
            }
            all_rows(values)
        }
        fn visit_str<E: Error>(self, text: &str) -> Result<Vec<T>, E> {
            all_rows(tables(text).map_err(E::custom)?)
        }
    }
    deserializer.deserialize_any(Rows(PhantomData))
}
