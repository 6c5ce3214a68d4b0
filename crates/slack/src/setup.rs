//! The app that an operator creates at Slack, and checks of its tokens.

use serde_json::{Value, json};

use super::{Account, Slack, agent_view, commands, interactions, shortcuts};
use domain::preferences::dialogue::page_name;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

/// The page of an operator's apps, which has the tokens of each.
pub const APPS: &str = "https://api.slack.com/apps";

/// The scopes of the bot's token.
pub const SCOPES: [&str; 19] = [
    "app_mentions:read",
    "assistant:write",
    "channels:history",
    "channels:read",
    "chat:write",
    "commands",
    "files:read",
    "files:write",
    "groups:history",
    "groups:read",
    "im:history",
    "im:read",
    "im:write",
    "mpim:history",
    "mpim:read",
    "reactions:read",
    "reactions:write",
    "usergroups:read",
    "users:read",
];

/// The events that Slack delivers.
const EVENTS: [&str; 7] = [
    "app_home_opened",
    "app_mention",
    "message.channels",
    "message.groups",
    "message.im",
    "message.mpim",
    "reaction_added",
];

/// Returns the manifest of the app. Source: `docs.slack.dev/reference/app-manifest`.
#[must_use]
pub fn manifest() -> Value {
    json!({
        "display_information": {"name": "staffai"},
        "features": {
            "agent_view": {
                "agent_description": "Answers questions, with the tools of your team",
                "suggested_prompts": agent_view::prompts()
            },
            "app_home": {
                "home_tab_enabled": true,
                "messages_tab_enabled": true,
                "messages_tab_read_only_enabled": false
            },
            "bot_user": {"display_name": "staffai", "always_online": true},
            "shortcuts": [{
                "name": "Settings",
                "type": "global",
                "callback_id": page_name(0),
                "description": "Changes your settings"
            }, {
                "name": "Ask about this message",
                "type": "message",
                "callback_id": shortcuts::ASK,
                "description": "Asks the bot a question about a message, in its thread"
            }, {
                "name": "Settings",
                "type": "message",
                "callback_id": interactions::SETTINGS_AT_MESSAGE,
                "description": "Changes your settings"
            }],
            "slash_commands": [{
                "command": commands::COMMAND,
                "description": "Commands of the bot; only you see the answer",
                "usage_hint": "help",
                "should_escape": true
            }]
        },
        "oauth_config": {"scopes": {"bot": SCOPES}},
        "settings": {
            "event_subscriptions": {"bot_events": EVENTS},
            "interactivity": {"is_enabled": true},
            "org_deploy_enabled": false,
            "socket_mode_enabled": true,
            "token_rotation_enabled": false
        }
    })
}

/// Returns the address at which Slack creates the app of the manifest.
#[must_use]
pub fn create_address() -> String {
    format!("{APPS}?new_app=1&manifest_json={}", utf8_percent_encode(&manifest().to_string(), NON_ALPHANUMERIC))
}

/// The findings about both tokens.
#[derive(Debug)]
pub struct Inspection {
    /// The account of the bot's token, and the scopes that the token lacks; else the reason why it is refused.
    pub bot: Result<(Account, Vec<&'static str>), String>,
    /// Success if the app's token opens connections; else the reason.
    pub app: Result<(), String>,
}

impl Slack {
    /// Tries both tokens. Opens no connection.
    pub async fn inspect(&self) -> Inspection {
        let bot = async {
            let account = self.api.account().await.map_err(|error| error.to_string())?;
            let granted = self.api.scopes().await.map_err(|error| error.to_string())?;
            // A service that names no scopes cannot be judged.
            let lacking = |scope: &&'static str| !granted.is_empty() && !granted.iter().any(|known| known == scope);
            Ok((account, SCOPES.iter().copied().filter(lacking).collect()))
        };
        let app = async { self.api.open_socket().await.map(drop).map_err(|error| error.to_string()) };
        let (bot, app) = tokio::join!(bot, app);
        Inspection { bot, app }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_enables_socket_mode_and_asks_for_each_scope() {
        let manifest = manifest();
        assert_eq!(manifest["settings"]["socket_mode_enabled"], true);
        assert_eq!(manifest["oauth_config"]["scopes"]["bot"].as_array().map(Vec::len), Some(SCOPES.len()));
    }

    #[test]
    fn the_address_carries_the_manifest() {
        let address = create_address();
        assert!(address.starts_with("https://api.slack.com/apps?new_app=1&manifest_json=%7B"), "{address}");
        assert!(!address.contains(['"', ' ', '{']), "{address}");
    }
}
