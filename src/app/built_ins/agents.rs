//! The peers of `[[agents.peers]]`, and this server's identity among them.

use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};

use crate::app::configured::Lookup;
use crate::app::row_secret;
use domain::api_key::is_name;
use domain::host::is_loopback;
use domain::lineage::{ChainBudget, Identity};
use ports::{Clock, Dice};
use settings::Settings;
use settings::agents::Peer;
use tools::BuiltInTool;
use tools::agent_call::{AgentCall, Row};

/// The maximum number of peers.
const ROWS_MAX: usize = 32;

/// Returns this server's identity: its configured name, or a random one for the lifetime of this process.
pub(crate) fn identity(settings: &Settings, dice: &dyn Dice) -> Identity {
    let drawn = || format!("staffai-{:016x}", dice.roll().to_bits());
    Identity { name: settings.agents.name.clone().unwrap_or_else(drawn), depth: settings.agents.depth }
}

/// Returns `agent_call`, if there are peers to ask.
///
/// # Errors
/// Each mistake as a sentence with its place and fix.
pub(crate) fn tools(
    settings: &Settings,
    lookup: &Lookup,
    us: &Identity,
    clock: &Arc<dyn Clock>,
) -> Result<Vec<Box<dyn BuiltInTool>>, Vec<String>> {
    let rows = rows(settings, lookup)?;
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let agents = &settings.agents;
    let hops = u32::try_from(agents.depth).unwrap_or(u32::MAX);
    // Each call supplies its own time.
    let budget = ChainBudget { hops, calls: agents.calls, tokens: agents.tokens, ms: u64::MAX };
    Ok(vec![Box::new(AgentCall::new(us.name.clone(), budget, rows, Arc::clone(clock)))])
}

/// Returns the secrets of these settings and of the variables that they name.
pub(crate) fn secrets(settings: &Settings, lookup: &Lookup) -> Vec<SecretString> {
    settings.agents.peers.iter().filter_map(|peer| key(peer, lookup)).collect()
}

/// Returns the peers.
///
/// # Errors
/// Each mistake as a sentence with its place and fix.
pub(crate) fn rows(settings: &Settings, lookup: &Lookup) -> Result<Vec<Row>, Vec<String>> {
    let agents = &settings.agents;
    let (mut rows, mut mistakes) = (Vec::<Row>::new(), Vec::new());
    if let Some(name) = agents.name.as_ref().filter(|name| !is_name(name)) {
        mistakes.push(format!("agents.name: {name:?} is no name; use 1 to 64 letters, digits, - _ . or @"));
    }
    if agents.peers.len() > ROWS_MAX {
        mistakes.push(format!("agents.peers: at most {ROWS_MAX} servers may be asked; leave some out"));
    }
    for (number, peer) in settings.numbered("agents.peers", &agents.peers) {
        match row(peer, lookup) {
            Ok(row) if rows.iter().any(|known| known.name == row.name) => {
                mistakes
                    .push(format!("agents.peers, row {number}: there is a {} already; rename one of them", row.name));
            }
            Ok(row) => rows.push(row),
            Err(mistake) => mistakes.push(format!("agents.peers, row {number}: {mistake}")),
        }
    }
    if mistakes.is_empty() { Ok(rows) } else { Err(mistakes) }
}

fn row(peer: &Peer, lookup: &Lookup) -> Result<Row, String> {
    let name = &peer.name;
    if !is_name(name) {
        return Err(format!("{name:?} is no name; use 1 to 64 letters, digits, - _ . or @"));
    }
    let url: reqwest::Url = peer.url.parse().map_err(|_| format!("{name}: its url is no address"))?;
    let host = url.host_str().unwrap_or_default().to_owned();
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
        return Err(format!(
            "{name}: its url holds a login or a query; give the address alone, and the key in env_key"
        ));
    }
    let key = match (key(peer, lookup), &peer.env_key) {
        (Some(key), _) => key,
        (None, Some(variable)) => return Err(format!("{name}: {}", row_secret::unset(variable))),
        (None, None) => {
            return Err(format!("{name}: set env_key to the name of the variable that holds our key there"));
        }
    };
    let visible = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    if !visible(key.expose_secret()) {
        return Err(format!("{name}: its key has signs that no key has; set it to what staffai key add printed there"));
    }
    row_secret::check_transport(url.scheme(), &host).map_err(|mistake| format!("{name}: {mistake}"))?;
    let here = is_loopback(&host);
    let (name, description, timeout) = (name.clone(), peer.description.clone(), peer.timeout);
    Ok(Row { name, url, here, key, description, timeout })
}

fn key(peer: &Peer, lookup: &Lookup) -> Option<SecretString> {
    row_secret::find(peer.env_key.as_deref(), peer.key.as_ref(), lookup)
}

#[cfg(test)]
mod tests {
    use super::*;
    use settings::sources::Sources;

    fn read(row: &str) -> Result<Vec<Row>, Vec<String>> {
        let files = [("staffai.toml".into(), format!("[agents]\n{row}"))].into();
        let settings = settings::load(&Sources::from_maps([].into(), files)).unwrap().settings;
        assert!(!format!("{settings:?}").contains("very-secret"));
        let lookup: Lookup = Arc::new(|name| (name == "A_KEY").then(|| "very-secret".into()));
        rows(&settings, &lookup)
    }

    #[test]
    fn a_row_is_read_and_each_mistake_names_its_place_and_fix() {
        let good = r#"name = "archive", url = "https://archive.example/below", env_key = "A_KEY""#;
        let rows = read(&format!("peers = [{{{good}}}]")).unwrap();
        assert_eq!((rows[0].name.as_str(), rows[0].timeout.as_secs(), rows[0].here), ("archive", 120, false));
        assert!(read("").unwrap().is_empty());
        for (rows, place, fix) in [
            ("name = \"a b\"".to_owned(), "agents.name: ", "is no name"),
            (format!("peers = [{{{good}}}, {{{good}}}]"), "agents.peers, row 2: ", "rename one"),
            (
                format!("peers = [{{{}}}]", good.replace("\"archive\"", "\"a b\"")),
                "agents.peers, row 1: ",
                "is no name",
            ),
            (format!("peers = [{{{}}}]", good.replace("https", "http")), "agents.peers, row 1: ", "use https"),
            (format!("peers = [{{{}}}]", good.replace("A_KEY", "NONE")), "agents.peers, row 1: ", "the variable NONE"),
            (
                r#"peers = [{name = "a", url = "http://127.0.0.1:1"}]"#.to_owned(),
                "agents.peers, row 1: ",
                "set env_key",
            ),
            (
                format!("peers = [{{{}}}]", good.replace("archive.example", "a:b@archive.example")),
                "agents.peers, row 1: ",
                "the address alone",
            ),
        ] {
            let mistakes = read(&rows).unwrap_err();
            assert!(mistakes.len() == 1 && mistakes[0].starts_with(place) && mistakes[0].contains(fix), "{mistakes:?}");
        }
    }
}
