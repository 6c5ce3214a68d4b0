//! The configured tool servers whose tools are not known yet.

use domain::tool::server::ServerStatus;
use domain::tool::server::Tooling;

/// The configured tool servers whose tools are not known yet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unlisted {
    /// The servers whose first connection is in progress, each with the elapsed time.
    pub starting: Vec<String>,
    /// True if a server is connected and its tools, if any, are about to be offered.
    pub arriving: bool,
}

impl Unlisted {
    /// Finds these servers in `tooling`. A missing server is about to start.
    pub(crate) fn of(servers: &[String], tooling: &Tooling) -> Self {
        let mut unlisted = Self::default();
        for name in servers {
            let known = tooling.servers.iter().find(|known| known.name == *name);
            match known.map(|known| (known.tools.is_empty(), &known.state, &known.progress)) {
                Some((true, ServerStatus::Ready, _)) => unlisted.arriving = true,
                Some((true, ServerStatus::Starting, Some(progress))) => {
                    unlisted.starting.push(format!("{name} ({progress})"));
                }
                None | Some((true, ServerStatus::Starting, None)) => unlisted.starting.push(name.clone()),
                Some(_) => {}
            }
        }
        unlisted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_waited_for_until_their_tools_are_known_or_they_failed() {
        let names: Vec<String> = ["a", "b", "c", "d", "e"].map(str::to_owned).to_vec();
        let mut tooling = Tooling::default();
        tooling.server("b").progress = Some("3 s".to_owned());
        tooling.server("c").tools = vec!["c__one".to_owned()];
        tooling.server("d").state = ServerStatus::Degraded("down".to_owned());
        tooling.server("e").state = ServerStatus::Ready;
        let starting = vec!["a".to_owned(), "b (3 s)".to_owned()];
        assert_eq!(Unlisted::of(&names, &tooling), Unlisted { starting, arriving: true });
    }
}
